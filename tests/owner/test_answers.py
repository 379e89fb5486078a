"""Answers of people in a store of their own: what it takes, keeps, and does not let anybody join.

The linkage tests are attacks. They get a copy of the store, the whole list of invitations, and all
answers; they guess which invitation belongs to which answer. Each attack succeeds on a copy that is
broken in its way, and on the store after closing it guesses no better than by chance.
"""

import hashlib
import hmac
import random
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from suffice import participant
from suffice.errors import ParameterError, ReleaseError, StorageError
from suffice.owner.answers import AnswerStore, Outcome, Sent, hashed, new_invitations
from suffice.owner.ledger import Ledger
from suffice.owner.survey import (
    AnswerForm,
    collect,
    delete_expired,
    name_in_ledger,
    new_survey,
    open_survey,
    release_survey,
)
from suffice.participant import ABOUT
from suffice.privacy.guarantee import Budget
from suffice.releases.release import encode

SURVEY = new_survey(
    "After the clinic",
    states={"relapse": ["no", "yes"], "grade": [1, 2, 3]},
    ranges={"age": (0, 120)},
    flip=0.25,
    noise=14400.0,
    about=dict.fromkeys(ABOUT, "Clinic") | {"deleted": "2999-12-31"},
)
PEOPLE = 60
MOST_BY_CHANCE = 6  # right guesses: of random ones, more have a probability of 1e-4
R = "5f" * 16


@pytest.fixture(params=["file", "postgresql"])
def place(request, tmp_path):
    if request.param == "file":
        return str(tmp_path / "answers")
    url = request.getfixturevalue("postgres_url")
    return f"{url}#answers_{random.getrandbits(60):x}"


def sheets(count: int) -> list[bytes]:
    """Return answer files of people, each with another number in it."""
    truths = {"relapse": "no", "grade": 2, "age": 40}
    return [participant.respond(SURVEY, truths, None)[0] for _ in range(count)]


def sent_by(invitations, files, r: str = R) -> list[Sent]:
    form = AnswerForm(SURVEY)
    pairs = zip(invitations, files, strict=True)
    return [Sent.of(SURVEY.id, one, r, data, form.read(data)[1]) for one, data in pairs]


# --- what the store takes


def test_one_invitation_is_one_answer(place):
    store, invitations = AnswerStore(place), new_invitations(3)
    store.open(SURVEY, invitations[:2])
    first, second, stranger = sent_by(invitations, sheets(3))
    assert store.take([first]) == [Outcome.TAKEN]
    assert store.take([first, first]) == [Outcome.AGAIN, Outcome.AGAIN]
    assert store.take([first._replace(proof=second.proof)]) == [Outcome.OTHER]
    assert store.take([stranger]) == [Outcome.UNKNOWN]
    again = second._replace(answer=first.answer)  # in one group, as from two tabs
    assert store.take([second, again]) == [Outcome.TAKEN, Outcome.AGAIN]
    other = AnswerStore(place)  # another process
    assert other.unused(SURVEY.id, invitations) == invitations[2:]
    assert b"".join(other.blocks(SURVEY.id)) in (
        first.answer + second.answer,
        second.answer + first.answer,
    )
    assert other.close(SURVEY.id) == 2
    assert store.take([first, stranger]) == [Outcome.CLOSED, Outcome.UNKNOWN]


def test_everybody_may_answer_an_open_survey(place):
    store = AnswerStore(place)
    store.open(SURVEY, None)
    assert set(store.take(sent_by(new_invitations(25), sheets(25)))) == {Outcome.TAKEN}
    assert store.answered(SURVEY.id) == 20  # in steps of ten
    store.close(SURVEY.id)
    assert store.answered(SURVEY.id) == 25


def test_surveys_are_listed_some_at_a_time_and_open_ones_first(place):
    store, about = AnswerStore(place), SURVEY.content["about"]
    made = [new_survey(f"{k}", states={"q": "ab"}, flip=0.25, about=about) for k in range(5)]
    for survey in made:
        store.open(survey, None)
    store.close(made[0].id)
    first, count = store.listed(0, 3)
    second, _ = store.listed(3, 3)
    found = [identity for identity, _ in (*first, *second)]
    assert count == 5
    assert [len(first), len(second)] == [3, 2]
    assert found == [*sorted(survey.id for survey in made[1:]), made[0].id]
    assert first[0][1] == store.survey(found[0])


def test_what_was_decided_about_a_survey_stays(place):
    store = AnswerStore(place)
    store.open(SURVEY, new_invitations(1))
    store.open(SURVEY, new_invitations(2))  # further invitations
    with pytest.raises(ParameterError, match="whoever may answer"):
        store.open(SURVEY, None)
    store.close(SURVEY.id)
    with pytest.raises(ParameterError, match="closed"):
        store.open(SURVEY, new_invitations(1))
    with pytest.raises(ParameterError, match="never opened"):
        store.close("sha256:" + "0" * 64)


def test_a_store_of_answers_is_no_ledger(tmp_path, postgres_url):
    place = f"{postgres_url}#both_{random.getrandbits(60):x}"
    Ledger(place, {}, anchor=tmp_path / "anchor")
    with pytest.raises(ParameterError, match="another schema"):
        AnswerStore(place)
    with pytest.raises(StorageError, match="cannot be used"):
        AnswerStore(str(tmp_path))


# --- the release


def test_answers_become_a_release_through_the_ledger(place, tmp_path):
    ledger = Ledger(tmp_path / "ledger", {}, anchor=tmp_path / "anchor")
    store, invitations, files = AnswerStore(place), new_invitations(30), sheets(30)
    open_survey(SURVEY, tmp_path / "ledger", store, invitations)
    store.most_at_once = 7  # several blocks
    store.take(sent_by(invitations, files))
    release = release_survey(SURVEY, ledger, store)
    kinds = [entry.kind for entry in ledger.log()]
    assert kinds == ["opened", "budget", "closed", "debit", "finish"]  # none for an answer
    assert encode(release_survey(SURVEY, ledger, store)) == encode(release)
    assert [entry.kind for entry in ledger.log()] == kinds
    assert all(balance.left == 0 for balance in ledger.balances(name_in_ledger(SURVEY)))
    store.forget(SURVEY.id)
    for work in (
        lambda: list(store.blocks(SURVEY.id)),
        lambda: release_survey(SURVEY, ledger, store),
    ):
        with pytest.raises(ParameterError, match="deleted"):
            work()
    paths = []
    for k, data in enumerate(files):
        paths.append(tmp_path / f"{k}.json")
        paths[-1].write_bytes(data)
    by_files = collect(SURVEY, paths)
    for name in ("answers", "codes", "values"):
        one, other = (np.sort(r.arrays[name], axis=0) for r in (release, by_files))
        assert np.array_equal(one, other)
    assert release.guarantees == by_files.guarantees


def test_a_survey_without_answers_is_closed_and_not_released(place, tmp_path):
    ledger = Ledger(tmp_path / "ledger", {}, anchor=tmp_path / "anchor")
    store = AnswerStore(place)
    open_survey(SURVEY, tmp_path / "ledger", store, None)
    with pytest.raises(ParameterError, match="Nobody answered"):
        release_survey(SURVEY, ledger, store)
    assert store.survey(SURVEY.id).state == "closed"


# --- linkage: attacks on a copy of the store, with all invitations


def right_guesses(guessed, truth) -> int:
    return sum(guessed.get(one) == answer for one, answer in truth.items())


def by_rank(invitations, answers) -> dict:
    """Guess that the k-th invitation gave the k-th answer."""
    return dict(zip(invitations, answers, strict=False))


def by_offset(raw: bytes, truth, proofs, find) -> dict:
    """Guess by where the rows stand in the bytes of a file: first or last place of each."""
    places = {one: find(raw, hashed(one) + proofs[hashed(one)]) for one in truth}
    rows = {answer: find(raw, answer) for answer in truth.values()}
    return by_rank(
        sorted((p for p in places if places[p] >= 0), key=places.get),
        sorted((r for r in rows if rows[r] >= 0), key=rows.get),
    )


def nearest(raw: bytes, truth, proofs) -> dict:
    """Guess the answer that stands closest to an invitation."""
    rows = {answer: raw.find(answer) for answer in truth.values()}
    known = {answer: place for answer, place in rows.items() if place >= 0}
    guessed = {}
    for one in truth:
        place = raw.find(hashed(one) + proofs[hashed(one)])
        if place >= 0 and known:
            guessed[one] = min(known, key=lambda row, at=place: abs(known[row] - at))
    return guessed


def by_trying(proofs, truth) -> dict:
    """Guess by trying every invitation as the key of every answer."""
    guessed = {}
    for one in truth:
        for answer in truth.values():
            for key in (one.encode(), bytes.fromhex(one), hashed(one)):
                if hmac.digest(key, answer, "sha256") == proofs.get(hashed(one)):
                    guessed[one] = answer
    return guessed


def attacks_on_file(copy: Path, truth) -> dict[str, int]:
    """Return how many guesses of each attack on an SQLite file, its journal and free pages hit."""
    found = {}
    names = {hashed(one): one for one in truth}
    files = [Path(f"{copy}{suffix}") for suffix in ("", "-wal", "-shm")]
    contents = [path.read_bytes() if path.exists() else b"" for path in files]
    db = sqlite3.connect(copy)
    spent = db.execute("SELECT hash, proof FROM spent").fetchall()
    answers = [row[0] for row in db.execute("SELECT answer FROM answers")]
    for suffix, raw in zip(("", "-wal", "-shm"), contents, strict=True):
        for name, find in (("first", bytes.find), ("last", bytes.rfind)):
            guessed = by_offset(raw, truth, dict(spent), find)
            found[f"{name} place in file{suffix}"] = right_guesses(guessed, truth)
        found[f"nearest in file{suffix}"] = right_guesses(nearest(raw, truth, dict(spent)), truth)
    found["order"] = right_guesses(by_rank([names[h] for h, _ in spent], answers), truth)
    found["trying"] = right_guesses(by_trying(dict(spent), truth), truth)
    try:
        listed = db.execute("SELECT hash FROM spent ORDER BY rowid").fetchall()
        rows = db.execute("SELECT answer FROM answers ORDER BY rowid").fetchall()
        guessed = by_rank([names[h] for (h,) in listed], [a for (a,) in rows])
        found["row ids"] = right_guesses(guessed, truth)
    except sqlite3.OperationalError:
        found["row ids"] = 0  # there are none
    db.close()
    return found


def attacks_on_database(url: str, truth) -> dict[str, int]:
    """Return how many guesses of each attack by PostgreSQL's own columns hit."""
    import psycopg

    address, _, schema = url.rpartition("#")
    names = {hashed(one): one for one in truth}
    with psycopg.connect(address) as db:
        query = f"SELECT xmin::text, ctid::text, {{}} FROM {schema}.{{}}"
        spent = [(x, c, names[bytes(h)]) for x, c, h in db.execute(query.format("hash", "spent"))]
        rows = [(x, c, bytes(a)) for x, c, a in db.execute(query.format("answer", "answers"))]
        query = f"SELECT hash, proof FROM {schema}.spent"
        proofs = {bytes(h): bytes(p) for h, p in db.execute(query)}

    def place(row) -> tuple[int, ...]:
        return tuple(map(int, row[1].strip("()").split(",")))

    guessed = {}
    for xmin in {x for x, _, _ in spent}:
        group = [sorted((r for r in t if r[0] == xmin), key=place) for t in (spent, rows)]
        guessed |= by_rank([r[2] for r in group[0]], [r[2] for r in group[1]])
    by_ctid = by_rank(
        [r[2] for r in sorted(spent, key=place)], [r[2] for r in sorted(rows, key=place)]
    )
    return {
        "xmin": right_guesses(guessed, truth),
        "ctid": right_guesses(by_ctid, truth),
        "order": right_guesses(by_rank([r[2] for r in spent], [r[2] for r in rows]), truth),
        "trying": right_guesses(by_trying(proofs, truth), truth),
    }


def filled(place: str) -> tuple[AnswerStore, dict[str, bytes]]:
    """Return a store in which people answered one by one, and who gave which answer."""
    store, invitations = AnswerStore(place), new_invitations(PEOPLE)
    store.open(SURVEY, invitations)
    sent = sent_by(invitations, sheets(PEOPLE))
    for one in sent:
        assert store.take([one]) == [Outcome.TAKEN]
    return store, dict(zip(invitations, (one.answer for one in sent), strict=True))


def test_nothing_in_a_closed_file_joins_invitations_and_answers(tmp_path):
    place = tmp_path / "answers"
    store, truth = filled(str(place))
    for suffix in ("", "-wal"):  # an open survey can be linked by whoever reads the disk
        shutil.copy(f"{place}{suffix}", tmp_path / f"open{suffix}")
    assert attacks_on_file(tmp_path / "open", truth)["first place in file-wal"] == PEOPLE
    store.close(SURVEY.id)
    for path in tmp_path.glob("answers*"):
        shutil.copy(path, tmp_path / path.name.replace("answers", "copy"))
    found = attacks_on_file(tmp_path / "copy", truth)
    assert {name: n for name, n in found.items() if n > MOST_BY_CHANCE} == {}
    assert (tmp_path / "answers-wal").stat().st_size == 0
    raw = place.read_bytes()
    assert all(answer in raw for answer in truth.values())  # the attacks saw them
    db = sqlite3.connect(place)
    assert db.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert {row[0] for row in db.execute("SELECT proof FROM spent")} == {b""}
    db.close()


def test_nothing_in_a_closed_database_joins_invitations_and_answers(postgres_url):
    place = f"{postgres_url}#linked_{random.getrandbits(60):x}"
    store, truth = filled(place)
    before = attacks_on_database(place, truth)
    assert before["xmin"] == before["ctid"] == PEOPLE
    store.close(SURVEY.id)
    found = attacks_on_database(place, truth)
    assert {name: n for name, n in found.items() if n > MOST_BY_CHANCE} == {}


def test_a_group_hides_who_is_who_in_it_until_closing(postgres_url):
    place = f"{postgres_url}#grouped_{random.getrandbits(60):x}"
    store, invitations = AnswerStore(place), new_invitations(PEOPLE)
    store.open(SURVEY, invitations)
    sent = sent_by(invitations, sheets(PEOPLE))
    store.take(sent)
    truth = dict(zip(invitations, (one.answer for one in sent), strict=True))
    found = attacks_on_database(place, truth)
    assert max(found.values()) <= MOST_BY_CHANCE


def test_an_open_store_cannot_be_tried(tmp_path):
    _, truth = filled(str(tmp_path / "answers"))
    assert attacks_on_file(tmp_path / "answers", truth)["trying"] == 0


def test_broken_copies_are_linked(tmp_path):
    invitations = new_invitations(PEOPLE)
    truth = {
        one: s.answer
        for one, s in zip(invitations, sent_by(invitations, sheets(PEOPLE)), strict=True)
    }
    db = sqlite3.connect(tmp_path / "broken")
    db.execute("CREATE TABLE spent (hash BLOB, proof BLOB)")  # with row ids
    db.execute("CREATE TABLE answers (answer BLOB)")
    for one, answer in truth.items():
        proof = hmac.digest(one.encode(), answer, "sha256")  # by the invitation
        db.execute("INSERT INTO spent VALUES (?, ?)", (hashed(one), proof))
        db.execute("INSERT INTO answers VALUES (?)", (answer,))
    db.commit()
    db.execute("VACUUM")
    db.close()
    found = attacks_on_file(tmp_path / "broken", truth)
    assert found["row ids"] == found["order"] == found["trying"] == PEOPLE


def test_answers_are_deleted_on_the_day_that_the_survey_states(place, tmp_path):
    ledger, store = tmp_path / "ledger", AnswerStore(place)
    over = dict.fromkeys(ABOUT, "Clinic") | {"deleted": "2020-02-29"}
    late = new_survey("Late", states={"relapse": ["no", "yes"]}, flip=0.25, about=over)
    nameless = new_survey("Nobody", states={"relapse": ["no", "yes"]}, flip=0.25)
    Ledger(ledger, {}, anchor=tmp_path / "anchor")
    with pytest.raises(ParameterError, match="is over"):
        open_survey(late, ledger, store, None)
    with pytest.raises(ParameterError, match="who asks"):
        open_survey(nameless, ledger, store, None)
    store.open(late, None)  # as if it had been opened in time
    open_survey(SURVEY, ledger, store, None)
    Ledger(ledger, {name_in_ledger(late): {"label": Budget(2.0)}})
    row = AnswerForm(late).read(participant.respond(late, {"relapse": "no"}, None)[0])[1]
    assert store.take([Sent.of(late.id, "0" * 32, R, b"", row)]) == [Outcome.TAKEN]
    delete_expired(ledger, store)
    assert (store.survey(late.id).state, store.survey(SURVEY.id).state) == ("deleted", "open")
    assert store.take([Sent.of(late.id, "1" * 32, R, b"", row)]) == [Outcome.CLOSED]
    with pytest.raises(ParameterError, match="deleted"):
        release_survey(late, Ledger(ledger), store)


def test_one_survey_that_is_damaged_keeps_no_other_from_being_deleted(tmp_path):
    ledger, store = tmp_path / "ledger", AnswerStore(str(tmp_path / "answers"))
    over = dict.fromkeys(ABOUT, "Clinic") | {"deleted": "2020-02-29"}
    titles = ("One", "Two", "Three")
    made = [new_survey(t, states={"a": ["no", "yes"]}, flip=0.25, about=over) for t in titles]
    Ledger(ledger, {}, anchor=tmp_path / "anchor")
    for survey in made:
        store.open(survey, None)
        Ledger(ledger, {name_in_ledger(survey): {"label": Budget(2.0)}})
    first, *others = sorted(survey.id for survey in made)
    with store._writing() as db:
        db.execute("UPDATE surveys SET body = ? WHERE id = ?", (b"{}", first))
    with pytest.raises(ReleaseError):
        delete_expired(ledger, store)
    assert [store.survey(one).state for one in (first, *others)] == ["open", "deleted", "deleted"]


def test_no_release_is_of_the_answers_that_a_deletion_left(place):
    """The day of deletion comes while another process reads: a part of a survey is none."""
    store = AnswerStore(place)
    store.most_at_once = 7
    store.open(SURVEY, None)
    store.take(sent_by(new_invitations(20), sheets(20)))
    store.close(SURVEY.id)
    blocks = store.blocks(SURVEY.id)
    next(blocks)
    AnswerStore(place).forget(SURVEY.id)
    with pytest.raises(ParameterError, match="deleted"):
        list(blocks)


def test_a_deletion_that_was_cut_off_is_done_again(place, tmp_path, monkeypatch):
    ledger, store = tmp_path / "ledger", AnswerStore(place)
    Ledger(ledger, {}, anchor=tmp_path / "anchor")
    open_survey(SURVEY, ledger, store, None)
    store.take(sent_by(new_invitations(20), sheets(20)))
    store.close(SURVEY.id)
    written_anew = []

    def killed(_) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(AnswerStore, "_rewrite", killed)
        with pytest.raises(KeyboardInterrupt):
            store.forget(SURVEY.id)
    with pytest.raises(ParameterError, match="deleted"):
        release_survey(SURVEY, Ledger(ledger), store)
    rewrite = AnswerStore._rewrite
    monkeypatch.setattr(
        AnswerStore, "_rewrite", lambda self: (written_anew.append(self), rewrite(self))
    )
    delete_expired(ledger, store)  # the survey's day has not come, and it was begun
    assert (store.survey(SURVEY.id).state, written_anew) == ("deleted", [store])
    delete_expired(ledger, store)
    assert written_anew == [store]


def test_what_was_deleted_leaves_the_journal_when_the_file_is_opened_again(tmp_path):
    """As a process leaves it that is killed after it deleted, and before all is written anew."""
    store = AnswerStore(str(tmp_path / "answers"))
    store.open(SURVEY, None)
    (sent,) = sent_by(new_invitations(1), sheets(1))
    store.take([sent._replace(answer=b"an answer that goes")])
    with store._writing() as db:
        db.execute("DELETE FROM answers")
    image = tmp_path / "image"
    image.mkdir()
    for path in tmp_path.glob("answers*"):
        shutil.copy(path, image)

    def held() -> bool:
        return any(b"an answer that goes" in path.read_bytes() for path in image.iterdir())

    assert held()
    opened = AnswerStore(str(image / "answers"))
    assert not held()
    assert opened.answered(SURVEY.id) == 0  # in steps of ten


def test_nothing_about_a_person_is_stored(tmp_path):
    """No answer file, no participant's token, no invitation, no r: neither before nor after."""
    place = str(tmp_path / "answers")
    store, invitations, files = AnswerStore(place), new_invitations(5), sheets(5)
    store.open(SURVEY, invitations)
    r = hashlib.sha256(b"r").hexdigest()[:32]
    store.take(sent_by(invitations, files, r))
    tokens = [AnswerForm(SURVEY).read(data)[0] for data in files]
    secrets = [*invitations, *tokens, r]

    def held() -> bytes:
        return b"".join(path.read_bytes() for path in tmp_path.glob("answers*"))

    for _ in range(2):
        assert not [s for s in secrets if s.encode() in held() or bytes.fromhex(s) in held()]
        store.close(SURVEY.id)
