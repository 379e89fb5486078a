"""Many parties as people meet them: one call per party, one for the aggregator, a plan in words."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.owner.parties.contribution import PartyContribution
from suffice.releases.codec import load

CLASSES = ("--classes", "sit,walk,lie")
AUX = ("--aux", "aux.parquet")
PAID = ("--epsilon", "5", "--delta", "1e-5")


def people(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    pulse, noise = rng.normal(size=rows), rng.normal(size=rows)
    what = np.digitize(pulse + 0.3 * rng.normal(size=rows), [-0.5, 0.5])
    words = np.array(["sit", "walk", "lie"])[what]
    return pa.table(
        {"pulse": pulse, "noise": noise, "what": words, "who": rng.integers(0, 40, rows)}
    )


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Path:
    everybody = people(800, 0)
    pq.write_table(everybody, tmp_path / "all.parquet")
    pq.write_table(people(200, 1).select(["pulse", "noise"]), tmp_path / "aux.parquet")
    pq.write_table(people(300, 2), tmp_path / "test.parquet")
    who = everybody.column("who").to_numpy()
    for party in range(4):
        own = everybody.filter(pa.array(who % 4 == party)).drop_columns(["who"])
        pq.write_table(own, tmp_path / f"own{party}.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contribute(suffice, party: int, *more: str) -> str:
    words = ("contribute", f"own{party}.parquet", "--label", "what", *AUX, *CLASSES)
    return suffice(*words, "-o", f"p{party}.part", *more)


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    "method", ["operator", "class-sums", "vote-table", "soft", "majority-model", "average"]
)
def test_parties_contribute_and_the_aggregator_releases(suffice, streams, method):
    more = ("--method", method, "--penalty-weight", "0.1")
    more += ("--samples", "200") if method == "class-sums" else ()
    for party in range(3):
        printed = contribute(suffice, party, *more)
        assert "not private. Send it to the aggregator only" in printed
    words = ("aggregate", "p0.part", "p1.part", "p2.part", *AUX, *CLASSES, *PAID, *more)
    printed, err = streams(*words, "--enrolled", "4", "--no-ledger", "-o", "r.suffice")
    assert "Weakly protects each party's data as a whole" in printed
    assert "3 counted" not in printed
    assert "3 parties counted" in err
    assert "no contribution from 1 parties" in err
    kinds = {"operator": "mean-operator", "class-sums": "mean-operator", "vote-table": "votes"}
    assert load("r.suffice").kind == kinds.get(method, "model")
    if method in kinds:
        fitted = ("fit", "r.suffice", "--rows", "aux.parquet", "-o", "m.suffice")
        assert "of the parties' votes" in suffice(*fitted)
        assert load("m.suffice").kind == "model"


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize("method", ["operator", "average"])
def test_one_table_of_all_parties(suffice, method):
    words = ("release", "parties", "all.parquet", "--label", "what", "--party", "who", *AUX)
    words = (*words, "--enrolled", "40", "--penalty-weight", "0.1")
    more = (*CLASSES, "--epsilon", "50", "--delta", "1e-5", "--method", method)
    out = suffice(*words, *more, "--no-ledger", "-o", "r.suffice", "--json")
    content = json.loads(out)
    assert content["guarantees"][0]["unit"] == "party"
    model = "r.suffice"
    if method == "operator":
        model = "m.suffice"
        suffice("fit", "r.suffice", "--rows", "aux.parquet", "-o", model)
        scored = ("score", model, "test.parquet", "--label", "what", "--json")
        assert json.loads(suffice(*scored))["accuracy"] > 0.6
    assert load(model).kind == "model"


def test_enrolled_parties_are_named_or_counted_never_read_off_the_table(desk, suffice, streams):
    table = ("release", "parties", "all.parquet", "--label", "what", "--party", "who")
    words = (*table, *AUX, *CLASSES, *PAID, "--no-ledger")
    with_names = (*words, "--enrolled", "0,1,2,nobody", "-o", "r.suffice")
    assert "--enrolled" in suffice(*words, "-o", "r.suffice", code=2)
    assert not (desk / "r.suffice").exists()
    printed, err = streams(*with_names)
    assert "3 counted" not in printed
    assert "3 parties counted" in err
    assert 'counted as zero: "10": this party is not enrolled' in err
    assert err.count("this party is not enrolled") == 8
    assert "counted as zero: 29 more parties that are not enrolled" in err
    assert "no contribution from 1 parties: nobody" in err
    printed, again = streams(*with_names, "--force", "--json")
    assert again == err
    assert json.loads(printed).keys() == {"written", "rows", "guarantees"}
    (desk / "names.txt").write_text("0\n1\n2\nnobody\n")
    _, err = streams(*words, "--enrolled", "names.txt", "-o", "n.suffice", "--json")
    assert "3 parties counted" in err
    assert "no contribution from 1 parties: nobody" in err
    assert "more parties than the 39" in suffice(
        *words, "--enrolled", "39", "-o", "few.suffice", code=2
    )
    assert "would be overwritten" in suffice(
        *words, "--enrolled", "names.txt", "-o", "names.txt", code=2
    )
    suffice(*words, "--enrolled", "nowhere.txt", "-o", "few.suffice", code=6)
    assert not (desk / "few.suffice").exists()


@pytest.mark.usefixtures("desk")
def test_wrong_auxiliary_rows_cost_nothing(suffice):
    init = ("ledger", "init", "l", "--dataset", "crowd", "--epsilon", "6", "--delta", "1e-5")
    suffice(*init, "--unit", "party")
    for party in range(2):
        contribute(suffice, party)
    pq.write_table(people(200, 9).select(["pulse", "noise"]), "wrong.parquet")
    words = ("p0.part", "p1.part", *CLASSES, *PAID, "--enrolled", "2", "-o", "r.suffice")
    paid = ("--ledger", "l", "--dataset", "crowd")
    err = suffice("aggregate", *words, *paid, "--aux", "wrong.parquet", code=2)
    assert "None of the 2 contributions belongs to this round. Nothing was charged" in err
    assert "it was computed on other auxiliary rows (2)" in err
    assert json.loads(suffice("ledger", "show", "l", "--json"))[0]["debits"] == 0
    assert not Path("r.suffice").exists()
    suffice("aggregate", *words, *paid, *AUX)


@pytest.mark.usefixtures("desk")
def test_protected_auxiliary_rows_pay_for_themselves(suffice):
    release = (
        "release",
        "mean-operator",
        "--map",
        "none",
        "own3.parquet",
        "--label",
        "what",
        *CLASSES,
    )
    suffice(*release, "--epsilon", "1", "--no-ledger", "-o", "like.suffice")
    like = ("--pipeline-from", "like.suffice", "--method", "soft")
    contribute(suffice, 0, *like)
    for name, unit in (("rows", "record"), ("a", "party"), ("b", "party")):
        init = ("ledger", "init", "l", "--dataset", name, "--epsilon", "5", "--delta", "1e-5")
        suffice(*init, "--unit", unit)
    words = ("aggregate", "p0.part", *AUX, *CLASSES, *PAID, *like, "--private-aux")
    first = (*words, "--enrolled", "4", "--ledger", "l", "--dataset", "a", "-o", "a.suffice")
    assert "--aux-dataset NAME" in suffice(*first, code=2)
    printed = suffice(*first, "--aux-dataset", "rows")
    assert "Weakly protects each party's data as a whole" in printed
    assert "Weakly protects each record of the auxiliary rows" in printed
    printed = suffice("inspect", "a.suffice")
    assert "per party" in printed
    assert 'Weakly protects each record of "the auxiliary rows"' in printed
    second = (*words, "--enrolled", "5", "--ledger", "l", "--dataset", "b", "-o", "b.suffice")
    err = suffice(*second, "--aux-dataset", "rows", code=4)
    assert "exceed the budget of 'rows': epsilon 5 per record" in err
    balances = json.loads(suffice("ledger", "show", "l", "--json"))
    assert {b["dataset"]: b["debits"] for b in balances} == {"a": 1, "b": 0, "rows": 1}
    assert "5 per party, 5 per record of rows" in suffice("ledger", "history", "l")
    (entry,) = json.loads(suffice("ledger", "history", "l", "--json"))
    assert [line["unit"] for line in entry["also"]["rows"]] == ["record"]
    free = (*words, "--enrolled", "4", "--no-ledger", "-o", "c.suffice")
    suffice(*free, "--aux-dataset", "rows", code=2)
    suffice(*free)


@pytest.mark.usefixtures("desk")
def test_the_same_parties_in_a_table_and_in_files_give_the_same_sum(suffice):
    """One party of the table contributes by itself what it contributes there."""
    from suffice.owner.parties.contribution import AuxiliaryRows
    from suffice.owner.parties.gathering import Enrolled, PartyTable

    contribute(suffice, 1)
    aux = AuxiliaryRows.read("aux.parquet")
    table = pq.read_table("own1.parquet").append_column(
        "who", pa.array(["x"] * len(pq.read_table("own1.parquet")))
    )
    own = PartyTable.read(table, aux, label="what", classes=("sit", "walk", "lie"), party="who")
    total = own.tally(aux, 1e-4, Enrolled(1)).gathered("operator").total
    assert np.array_equal(PartyContribution.load("p1.part").array, total)


def test_a_bad_file_is_named_and_the_rest_is_released(desk, suffice, streams):
    for party in range(2):
        contribute(suffice, party)
    contribute(suffice, 2, "--clip", "0.5")  # another pipeline than agreed
    (desk / "junk.part").write_bytes(b"junk")
    (desk / "names.txt").write_text("p0\np1\np2\np3\n")
    words = ("aggregate", ".", *AUX, *CLASSES, *PAID, "--enrolled", "names.txt", "--no-ledger")
    _, err = streams(*words, "-o", "r.suffice")
    assert "2 parties counted" in err
    assert 'counted as zero: "p2" (p2.part): it was computed with another pipeline' in err
    assert "counted as zero: unknown party (junk.part)" in err
    assert "no contribution from 1 parties: p3" in err
    printed, again = streams(*words, "-o", "again.suffice", "--json")
    assert again == err
    assert "p3" not in printed
    err = suffice("aggregate", "junk.part", *words[2:], "-o", "junk.suffice", code=2)
    assert "None of the 1 contributions belongs to this round" in err
    assert not (desk / "junk.suffice").exists()


@pytest.mark.usefixtures("desk")
def test_a_column_of_votes_contributes(suffice):
    votes = pa.table({"vote": ["sit", "walk"] * 100})
    pq.write_table(votes, "votes.parquet")
    words = ("contribute", "votes.parquet", "--votes-column", "vote", *AUX, *CLASSES)
    suffice(*words, "--party", "clinic 9", "-o", "v.part")
    part = PartyContribution.load("v.part")
    assert part.party == "clinic 9"
    assert (part.array[2] == 0).all()
    suffice(*words, "-o", "w.part", "--method", "average", code=2)
    suffice(*words, "-o", "w.part", "--label", "what", code=2)
    suffice(*words, "-o", "w.part", "--method", "magic", code=2)


@pytest.mark.usefixtures("desk")
def test_the_ledger_pays_per_party(suffice):
    init = ("ledger", "init", "l", "--dataset", "crowd", "--epsilon", "6", "--delta", "1e-5")
    suffice(*init, "--unit", "party")
    contribute(suffice, 0)
    words = ("aggregate", "p0.part", *AUX, *CLASSES, *PAID, "--enrolled", "4")
    paid = (*words, "--ledger", "l", "--dataset", "crowd")
    suffice(*paid, "-o", "a.suffice")
    suffice(*paid, "-o", "b.suffice")
    assert Path("a.suffice").read_bytes() == Path("b.suffice").read_bytes()
    balances = json.loads(suffice("ledger", "show", "l", "--json"))
    assert [(b["unit"], b["debits"]) for b in balances] == [("party", 1)]
    contribute(suffice, 1)
    more = ("aggregate", "p0.part", "p1.part", *paid[2:])
    suffice(*more, "-o", "c.suffice")  # the same request, whatever arrived
    assert Path("c.suffice").read_bytes() == Path("a.suffice").read_bytes()
    err = suffice(*more, "--request", "second", "-o", "d.suffice", code=4)
    assert "would exceed the budget" in err
    assert suffice(*words, "-o", "d.suffice", code=2).startswith("suffice: Choose a ledger")


@pytest.mark.usefixtures("desk")
def test_a_contribution_is_no_release(suffice):
    contribute(suffice, 0)
    err = suffice("fit", "p0.part", "--rows", "aux.parquet", "-o", "m", code=3)
    assert "not private, for the aggregator only" in err
    assert "a party's contribution, for the aggregator" in suffice("inspect", "p0.part")


# --- the plan


def planned(suffice, *words: str) -> dict:
    out = suffice("plan", "parties", *words, "--delta", "1e-5", "--json")
    return json.loads(out)


def test_twenty_clinics_are_told_plainly(suffice):
    words = ("--parties", "20", "--rows", "500", "--features", "10", "--epsilon", "1")
    printed = suffice("plan", "parties", *words, "--delta", "1e-5")
    assert "20 parties at epsilon = 1: privacy of whole parties is out of reach" in printed
    assert "merge label-private releases instead" in printed
    content = planned(suffice, *words)
    assert content["in_reach"] == [False]
    assert 20 < content["parties_needed"][0] < 200


def test_many_parties_are_within_reach_and_bounds_are_void(suffice):
    words = ("--parties", "20000", "--rows", "43000", "--features", "119", "--epsilon", "0.1")
    content = planned(suffice, *words)
    assert content["in_reach"] == [True]
    rows = {row["method"]: row for row in content["rows"]}
    assert rows["operator"]["accuracy"]["usual"] > content["without_noise"]["usual"] - 0.01
    assert rows["majority-model"]["risk_bound"] > 1e6 * rows["soft"]["risk_bound"] > 1


def test_the_parties_that_are_needed_are_enough(suffice):
    words = ("--rows", "500", "--features", "10", "--epsilon", "1")
    needed = planned(suffice, "--parties", "20", *words)["parties_needed"][0]
    assert planned(suffice, "--parties", str(needed), *words)["in_reach"] == [True]
    fewer = str(int(0.9 * needed))
    assert planned(suffice, "--parties", fewer, *words)["in_reach"] == [False]


@pytest.mark.usefixtures("desk")
def test_a_plan_reads_auxiliary_rows_or_numbers(suffice):
    content = planned(suffice, "--parties", "100", "--epsilon", "1", *AUX)
    assert len(content["rows"]) == 4
    words = ("plan", "parties", "--parties", "100", "--epsilon", "1")
    suffice(*words, code=2)
