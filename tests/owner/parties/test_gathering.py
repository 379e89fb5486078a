"""Contributions that count, and those that do not: rejected by name, never silently."""

import math
from dataclasses import replace

import numpy as np
import pytest

from builders import auxiliary_rows, contributions, random_shares
from suffice.engines.engine import fold
from suffice.errors import ParameterError
from suffice.owner.ledger import Ledger
from suffice.owner.mechanism import Payment, make_release
from suffice.owner.parties.contribution import VOTE, AuxiliaryRows, PartyContribution, reach
from suffice.owner.parties.ensemble import PrivateEnsemble
from suffice.owner.parties.gathering import Enrolled, Gathering, RoundSource, VoteTally
from suffice.privacy.guarantee import Budget, Unit

AUX = auxiliary_rows()
ROWS = AUX.given
THREE = (0, 1, 2)


def part(party: str, voter, classes: int = 3, auxiliary=AUX, **options) -> PartyContribution:
    return PartyContribution.of(party, voter, auxiliary, classes=tuple(range(classes)), **options)


def gather(sent, enrolled, statistic: str = "operator", classes: int = 3):
    gathering = Gathering(statistic, AUX, tuple(range(classes)), Enrolled.of(enrolled), 1e-4)
    return fold([sent], gathering).result()


def test_the_sum_is_that_of_the_contributions_whatever_they_hold():
    operators = contributions(6, AUX)
    votes = contributions(6, AUX, statistic="votes")
    expected = sum(p.array for p in operators)
    for sent in (operators, votes, operators[:3] + votes[3:], operators[::-1]):
        gathered = gather(sent, 9)
        assert np.array_equal(gathered.total, expected)
        assert (gathered.accepted, gathered.absent) == (6, 3)
    tally = VoteTally(AUX, THREE, Enrolled(9))
    codes = np.random.default_rng(6).integers(0, 3, (6, 30))
    tally.add([f"p{i}" for i in range(4)], codes[:4])
    tally.add(["p4", "p5"], codes[4:])
    assert np.array_equal(tally.gathered("operator").total, expected)
    table = tally.gathered("votes").total
    assert np.array_equal(table, sum(p.array for p in votes))


def least_direction() -> np.ndarray:
    """Return the furthest that votes can go along the direction in which rows vary least."""
    values, vectors = np.linalg.eigh(AUX.codes.T @ AUX.codes / 30)
    return VOTE * 30 * math.sqrt(values[0]) * vectors[:, 0]


MALICE = {
    "huge": lambda p: replace(p, array=p.array * 1000),
    "huge along a direction that votes hardly move": lambda p: replace(
        p, array=p.array + np.rint(np.outer([1, -1, 0], 3 * least_direction())).astype(int)
    ),
    "beyond 64 bits": lambda p: replace(p, array=np.full(p.array.shape, 2**63 - 1)),
    "the least integer": lambda p: replace(p, array=np.full(p.array.shape, -(2**63))),
    "NaN": lambda p: replace(p, array=np.full(p.array.shape, np.nan)),
    "infinite": lambda p: replace(p, array=np.full(p.array.shape, np.inf)),
    "no array": lambda p: replace(p, array=[[1, 2]]),
    "wrong shape": lambda p: replace(p, array=p.array[:, :-1]),
    "one class more": lambda p: replace(p, array=np.vstack([p.array, p.array[:1]])),
    "two votes per row": lambda p: replace(p, array=p.array * [[2], [1], [1]]),
    "wrong auxiliary rows": lambda _: part(
        "bad", np.zeros(30, int), 3, AuxiliaryRows.read(ROWS + 1)
    ),
    "wrong pipeline": lambda _: part(
        "bad", np.zeros(30, int), 3, AuxiliaryRows.read(ROWS, clip=0.5)
    ),
    "wrong grid": lambda p: replace(p, grid="sha256:" + "0" * 64),
    "wrong classes": lambda p: replace(p, classes=(2, 1, 0)),
    "other statistic": lambda p: replace(p, statistic="parameters"),
}


@pytest.mark.parametrize("how", MALICE)
def test_a_malicious_contribution_is_rejected_by_name_and_counts_as_zero(how, tmp_path):
    good = contributions(3, AUX)
    bad = MALICE[how](part("bad", np.arange(30) % 3))
    gathered = gather([*good[:2], bad, good[2]], 4)
    assert np.array_equal(gathered.total, sum(p.array for p in good))
    assert [r.party for r in gathered.rejected] == ["bad"]
    assert gathered.accepted == 3
    assert gathered.rejected[0].reason
    if how.startswith("huge along"):  # no larger than others in the coordinates of the rows
        assert np.linalg.norm(bad.array.astype(float)) < VOTE * 30 * reach(AUX.codes, None)
    if isinstance(bad.array, np.ndarray) and bad.array.dtype.kind == "i":  # files hold no others
        path = tmp_path / "bad.part"
        bad.save(path)
        (rejected,) = gather([*good, path], 4).rejected
        assert str(rejected).startswith(f'"bad" ({path}): ')


@pytest.mark.parametrize("trouble", ["negative", "more than a vote", "another order"])
def test_votes_that_are_none_are_rejected(trouble):
    votes = part("bad", np.arange(30) % 3, statistic="votes")
    array = votes.array.copy()
    if trouble == "negative":
        array[0] = [-VOTE, VOTE, VOTE]
    if trouble == "more than a vote":
        array[0] = VOTE
    reordered = AuxiliaryRows.read(ROWS[::-1].copy(), pipeline=AUX.pipeline)
    bad = replace(votes, array=array)
    if trouble == "another order":
        bad = part("bad", np.arange(30) % 3, 3, reordered, statistic="votes")
    for statistic in ("votes", "operator"):
        (rejected,) = gather([bad], 4, statistic).rejected
        assert rejected.party == "bad"


def test_operators_do_not_depend_on_the_order_of_rows():
    votes = np.arange(30) % 3
    reordered = AuxiliaryRows.read(ROWS[::-1].copy(), pipeline=AUX.pipeline)
    first, second = part("a", votes), part("b", votes[::-1], 3, reordered)
    assert np.array_equal(first.array, second.array)
    assert first.rows == second.rows


def test_unreadable_files_are_reported_by_their_name(tmp_path):
    (tmp_path / "junk.part").write_bytes(b"junk")
    missing = tmp_path / "never came.part"
    gathered = gather([*contributions(2, AUX), tmp_path / "junk.part", str(missing)], 4)
    assert gathered.accepted == 2
    assert [r.source for r in gathered.rejected] == [str(tmp_path / "junk.part"), str(missing)]
    assert {r.party for r in gathered.rejected} == {"unknown party"}


def test_one_party_contributes_once():
    parts = contributions(3, AUX)
    with pytest.raises(ParameterError, match=r"'p1' contributed twice"):
        gather([*parts, parts[1]], 9)
    with pytest.raises(ParameterError, match="More than the 2 enrolled"):
        gather(parts, 2)
    tally = VoteTally(AUX, THREE, Enrolled(5))
    tally.add(["a", "a"], np.zeros((2, 30), int))
    with pytest.raises(ParameterError, match="twice"):
        tally.gathered("votes")
    tally = VoteTally(AUX, THREE, Enrolled(1))
    tally.add(["a", "b"], np.zeros((2, 30), int))
    with pytest.raises(ParameterError, match="more parties than the 1 enrolled ones"):
        tally.gathered("votes")


def test_enrolled_names_say_who_is_missing_and_who_is_a_stranger():
    gathered = gather(contributions(4, AUX), ["p0", "p1", "p2", "late", "later"])
    assert gathered.missing == ("late", "later")
    assert (gathered.accepted, gathered.absent) == (3, 2)
    (stranger,) = gathered.rejected
    assert stranger.party == "p3"
    assert "not enrolled" in stranger.reason
    for wrong in (0, -1, True, "p0", [], ["a", "a"], [1], None, ["a\x1b[2J"], [""]):
        with pytest.raises(ParameterError):
            Enrolled.of(wrong)


def test_a_missing_party_counts_as_zero():
    parts = contributions(3, AUX)
    ensemble = PrivateEnsemble(1e6, 1e-5, classes=THREE)
    releases = [ensemble.aggregate(parts, AUX, enrolled=m, ledger=None).release for m in (3, 300)]
    few, many = (release.arrays["mean_operator"] for release in releases)
    spread = np.sqrt(releases[0].noise.dense(4).diagonal())[:, None] * math.sqrt(2)
    assert (np.abs(few - 100 * many) < 7 * spread).all()  # twelve of them: once in 3e10 runs
    assert (np.abs(few - many) > 7 * spread).any()


def test_honest_contributions_are_never_rejected():
    """Votes of any kind, also the extreme ones, keep every limit."""
    generator = np.random.default_rng(8)
    for classes in (2, 4):
        sent = [
            part(f"{kind} {i}", random_shares(generator, classes, kind), classes, votes="simplex")
            for i in range(50)
            for kind in ("hard", "soft")
        ]
        towards = AUX.rows @ generator.normal(size=(4, 40))
        sent += [part(f"e{i}", (t > 0).astype(int), classes) for i, t in enumerate(towards.T)]
        sent += [part(f"c{k}", np.full(30, k), classes) for k in range(classes)]
        assert gather(sent, len(sent), classes=classes).rejected == ()


def test_a_tally_counts_enrolled_parties_only():
    """A stranger counts as zero and is named; nothing is refused because of it."""
    enrolled = Enrolled.of(["ann", "bob"])
    tally, enrolled_tally = VoteTally(AUX, THREE, enrolled), VoteTally(AUX, THREE, enrolled)
    votes = np.random.default_rng(0).integers(0, 3, (2, AUX.count))
    tally.add(["mallory", "ann"], votes)
    tally.add(["eve"], votes[:1])
    enrolled_tally.add(["ann"], votes[1:])
    gathered, expected = tally.gathered("votes"), enrolled_tally.gathered("votes")
    assert np.array_equal(gathered.total, expected.total)
    assert gathered.content == expected.content
    assert (gathered.accepted, gathered.absent, gathered.missing) == (1, 1, ("bob",))
    assert [r.party for r in gathered.rejected] == ["mallory", "eve"]
    ensemble = PrivateEnsemble(1.0, 1e-5, "vote-table", classes=THREE)
    with pytest.raises(ParameterError, match="other enrolled parties"):
        ensemble.aggregate(tally, AUX, enrolled=2, ledger=None)


def test_a_tally_counts_a_party_once():
    tally = VoteTally(AUX, THREE, Enrolled(3))
    votes = np.zeros((2, AUX.count), dtype=int)
    tally.add(["ann", "bob"], votes)
    assert tally.gathered("votes").accepted == 2
    tally.add(["ann"], votes[:1])
    with pytest.raises(ParameterError, match="counted twice"):
        tally.gathered("votes")


# --- a round that no header fits

FOREIGN = {
    "other auxiliary rows": lambda p: replace(p, rows="sha256:" + "0" * 64),
    "another pipeline": lambda p: replace(p, pipeline="sha256:" + "0" * 64),
    "another grid": lambda p: replace(p, grid="sha256:" + "0" * 64),
    "other classes": lambda p: replace(p, classes=(2, 1, 0)),
    "it holds parameters": lambda p: replace(p, statistic="parameters"),
    "not enrolled": lambda p: replace(p, party=f"stranger {p.party}"),
}


@pytest.mark.parametrize("reason", FOREIGN)
def test_a_round_that_no_header_fits_is_refused_before_it_costs_anything(reason, tmp_path):
    ledger = Ledger(tmp_path / "l", {"crowd": {Unit.PARTY: Budget(1.0, 1e-5)}})
    names = ["p0", "p1", "p2", "p3"]
    paid = {"enrolled": names, "ledger": ledger, "dataset": "crowd"}
    ensemble = PrivateEnsemble(1.0, 1e-5, classes=THREE)
    sent = [FOREIGN[reason](p) for p in contributions(3, AUX)]
    with pytest.raises(ParameterError, match=rf"None of the 3 .* charged .*{reason}.* \(3\)"):
        ensemble.aggregate(sent, AUX, **paid)
    assert ledger.history() == []
    out = ensemble.aggregate([*sent[:2], contributions(3, AUX)[2]], AUX, **paid)
    assert (out.accepted, len(out.rejected)) == (1, 2)


def test_a_round_without_contributions_is_refused_before_it_costs_anything(tmp_path):
    ensemble = PrivateEnsemble(1.0, 1e-5, classes=THREE)
    with pytest.raises(ParameterError, match="There is no contribution"):
        ensemble.aggregate([], AUX, enrolled=3, ledger=None)
    (tmp_path / "junk.part").write_bytes(b"junk")
    with pytest.raises(
        ParameterError, match=r"None of the 2 .* not a party's contribution\. .* \(2\)"
    ):
        ensemble.aggregate([tmp_path / "junk.part", b"junk"], AUX, enrolled=3, ledger=None)


@pytest.mark.parametrize("how", list(MALICE)[:10])  # of which only the array is at fault
def test_an_array_never_decides_whether_there_is_a_release(how, tmp_path):
    """The only contribution is worthless, but its header fits: noise is released, and paid for."""
    ledger = Ledger(tmp_path / "l", {"crowd": {Unit.PARTY: Budget(1.0, 1e-5)}})
    bad = MALICE[how](part("bad", np.arange(30) % 3))
    out = PrivateEnsemble(1.0, 1e-5, classes=THREE).aggregate(
        [bad], AUX, enrolled=3, ledger=ledger, dataset="crowd"
    )
    assert (out.accepted, len(out.rejected)) == (0, 1)
    assert ledger.balances()[0].debits == 1


def test_a_tally_without_votes_is_released_all_the_same():
    """That no enrolled party has records is private: there is noise, as there always is."""
    enrolled = Enrolled.of(["ann", "bob"])
    ensemble = PrivateEnsemble(1.0, 1e-5, classes=THREE)
    out = ensemble.aggregate(VoteTally(AUX, THREE, enrolled), AUX, enrolled=enrolled, ledger=None)
    assert (out.accepted, out.missing) == (0, ("ann", "bob"))


def test_progress_counts_contributions_whatever_they_come_as(tmp_path):
    """A terminal shows how many were read; a path has no length that could be counted."""
    sent = [part(f"p{i}", np.arange(30) % 3) for i in range(3)]
    for item in sent:
        item.save(tmp_path / f"{item.party}.part")
    files = sorted(tmp_path.glob("*.part"))
    for given in (sent, files, [path.read_bytes() for path in files]):
        counted = []
        source = RoundSource(given, auxiliary=AUX, enrolled=9, progress=counted.append)
        make_release(PrivateEnsemble(1.0, 1e-5, classes=THREE), source, Payment(None))
        assert counted == [1, 1, 1]
