"""The audit log: what it records, what an altered or restored ledger looks like, and recovery."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from suffice.errors import BudgetError, CorruptFileError, LedgerError, SignatureError
from suffice.owner.ledger import Ledger, Request
from suffice.owner.ledger.ledger import LostEntriesError
from suffice.owner.ledger.log import FIRST, Checkpoint, Kind, LogEntry, checked_chain, next_entry
from suffice.owner.mean_operator import MeanOperator
from suffice.privacy.events import Laplace
from suffice.privacy.guarantee import Budget, Guarantee, Unit
from suffice.releases.signing import generate_keys, sign

X = np.array([[0.0, 1.0], [1.0, 0.5], [0.5, 0.25], [2.0, 1.0]])
Y = np.array([0, 1, 0, 1])


def promise(epsilon: float = 0.1) -> list[Guarantee]:
    return [Guarantee(unit=Unit.LABEL, event=Laplace(epsilon))]


def ask(name: str) -> Request:
    return Request(name, {"kind": "test"}, "secret fingerprint")


@pytest.fixture
def address(place) -> str:
    """Return a ledger with a release, a lost output, an open request and a refusal."""
    ledger = Ledger(place("l"), {"d": Budget(1.0)}, {"d": {"sick": ("no", "yes")}})
    ledger.debit("d", promise(), ask("stored"))
    ledger.finish("d", "stored", b"bytes")
    ledger.debit("d", promise(), ask("lost"))
    ledger.abandon("d", "lost")
    with pytest.raises(BudgetError):
        ledger.debit("d", promise(2.0), ask("too much"))
    return place("l")


def kinds(ledger: Ledger) -> list[str]:
    return [entry.kind for entry in ledger.log()]


def test_every_event_has_an_entry_and_each_continues_the_one_before(address):
    entries = Ledger(address).log()
    events = ["opened", "budget", "classes", "debit", "finish", "debit", "burnt", "refusal"]
    assert [entry.kind for entry in entries] == events
    assert [entry.number for entry in entries] == [*range(1, 9)]
    previous = FIRST
    for entry in entries:
        assert entry.digest == entry.digest_after(previous)
        previous = entry.digest
    assert len({entry.digest for entry in entries}) == 8


def test_a_refusal_is_written_once_and_a_repetition_is_not(address):
    ledger = Ledger(address)
    before = kinds(ledger)
    for _ in range(3):
        with pytest.raises(BudgetError):
            ledger.debit("d", promise(2.0), ask("too much"))
    with pytest.raises(LedgerError):
        ledger.debit("d", promise(), Request("stored", {}, "secret fingerprint"))
    other = Request("stored", {"kind": "test"}, "other fingerprint")
    assert ledger.debit("d", promise(), other) == b"bytes"
    assert kinds(ledger) == before


def test_the_log_holds_no_fingerprint_no_hash_of_the_data_and_no_key(address):
    ledger = Ledger(address)
    text = "".join(entry.text for entry in ledger.log())
    assert "secret" not in text
    with ledger.store.reading() as records:
        assert records.about().key.hex() not in text
    assert "version" not in text


def test_neighbouring_labels_leave_the_same_log_but_for_the_noise(place):
    """Nothing but digests of what is random (release, ledger, claim) and the time differs."""
    logs = []
    for number, labels in enumerate((Y, 1 - Y)):
        ledger = Ledger(place(f"n{number}"), {"d": Budget(2.0)})
        operator = MeanOperator(0.5, mechanism="laplace", map=None)
        operator.release(X, labels, ledger=ledger, dataset="d", request="r")
        logs.append(
            [
                (e.number, e.kind, {**e.facts, "release": 0, "ledger": 0, "claim": 0})
                for e in ledger.log()
            ]
        )
    assert logs[0] == logs[1]


# ------------------------------------------------------------------ altered ledgers


def altered(address: str, *statements: str) -> None:
    """Change a ledger behind its back."""
    with Ledger(address)._store.writing() as records:
        for statement in statements:
            records.db.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET body = '{}' WHERE number = 4",
        "UPDATE log SET time = '2020-01-01T00:00:00Z' WHERE number = 4",
        "UPDATE log SET kind = 'burnt' WHERE number = 5",
        "UPDATE log SET digest = (SELECT digest FROM log WHERE number = 3) WHERE number = 8",
        "DELETE FROM log WHERE number = 8 OR number = 1",
        "UPDATE budgets SET epsilon = '9.0'",
        'UPDATE classes SET declared = \'["yes", "no"]\'',
        "UPDATE debits SET spent = '[]' WHERE request = 'stored'",
        "UPDATE debits SET request = 'another' WHERE request = 'lost'",
        "UPDATE debits SET parameters = '{}' WHERE request = 'lost'",
        "DELETE FROM debits WHERE request = 'lost'",
        "UPDATE ledger SET name = 'another'",
    ],
)
def test_an_altered_ledger_is_noticed(address, statement):
    Ledger(address).verify()
    altered(address, statement)
    with pytest.raises(LedgerError, match="was altered"):
        Ledger(address).verify()


def test_a_changed_entry_changes_every_digest_after_it():
    """Whoever changes an entry, and its digest with it, has to change the head as well."""
    entries: list[LogEntry] = []
    for kind in (Kind.OPENED, Kind.BUDGET, Kind.DEBIT, Kind.FINISH):
        previous = entries[-1].digest if entries else FIRST
        entries.append(next_entry(len(entries), previous, kind, "{}"))
    assert list(checked_chain(entries)) == entries
    forged = next_entry(2, entries[1].digest, Kind.BURNT, "{}")
    with pytest.raises(LedgerError, match="Entry 4"):
        list(checked_chain([*entries[:2], forged, entries[3]]))
    with pytest.raises(LedgerError, match="Entry 1"):
        list(checked_chain(entries[1:]))


def test_altered_bytes_of_a_release_are_noticed(address):
    with Ledger(address)._store.writing() as records:
        records.db.execute("UPDATE outputs SET bytes = ?", (b"other",))
    with pytest.raises(LedgerError, match="request 'stored'"):
        Ledger(address).verify()


def test_a_log_that_was_cut_together_with_its_charges_needs_a_checkpoint(address, keys):
    """The log looks like a shorter history. The anchor freezes it; a checkpoint proves it."""
    checkpoint = Ledger(address).checkpoint(keys[0])
    altered(
        address, "DELETE FROM debits WHERE request = 'lost'", "DELETE FROM log WHERE number > 5"
    )
    assert [entry.kind for entry in Ledger(address).verify()][5:] == ["frozen"]
    with pytest.raises(LostEntriesError, match=r"6 entries, and the checkpoint .* counts 8"):
        Ledger(address).verify(checkpoint)


def test_entries_with_line_breaks_cannot_pass_for_others():
    first = next_entry(0, FIRST, Kind.OPENED, "1\n2")
    other = LogEntry(1, first.time, f"{first.kind}\n1", "2", first.digest)
    assert other.digest == other.digest_after(FIRST)  # two readings of one text
    for entry in (first, other):
        with pytest.raises(LedgerError, match="was altered"):
            list(checked_chain([entry]))
    plain = next_entry(0, FIRST, Kind.OPENED, "{}")
    assert list(checked_chain([plain])) == [plain]


# ------------------------------------------------------------------ checkpoints


def test_a_checkpoint_says_where_the_log_ended_and_later_entries_continue_it(
    address, keys, tmp_path
):
    ledger = Ledger(address)
    checkpoint = ledger.checkpoint(keys[0])
    checkpoint.save(tmp_path / "c")
    assert Checkpoint.load(tmp_path / "c", keys[1]) == checkpoint
    assert (checkpoint.entries, checkpoint.head) == (8, ledger.log()[-1].digest)
    ledger.debit("d", promise(), ask("later"))
    assert len(ledger.verify(checkpoint)) == 9
    lines = (tmp_path / "c").read_text().splitlines()
    assert [line.split()[0] for line in lines[1:]] == [
        "ledger", "entries", "head", "time", "key", "signature",
    ]  # fmt: skip
    (tmp_path / "c").write_bytes((tmp_path / "c").read_bytes().replace(b"\n", b"\r\n"))  # by mail
    assert Checkpoint.load(tmp_path / "c") == checkpoint


def test_an_altered_checkpoint_is_refused(address, keys, tmp_path):
    text = Ledger(address).checkpoint(keys[0]).to_text()
    lines = text.splitlines(keepends=True)
    for number in range(1, 7):
        stem, zone = lines[number].rstrip(), ""
        if stem.endswith("Z"):  # a time: change its seconds, not its zone
            stem, zone = stem[:-1], "Z"
        words = stem[:-1] + ("1" if stem[-1] == "2" else "2") + zone
        changed = "".join([*lines[:number], words + "\n", *lines[number + 1 :]])
        with pytest.raises(SignatureError):
            Checkpoint.from_text(changed)
    for wrong in ("", text[:-9], text.replace("entries 8", "entries 08"), text + "\n", text * 2):
        with pytest.raises(CorruptFileError):
            Checkpoint.from_text(wrong)
    (tmp_path / "c").write_text(text)
    other = generate_keys(tmp_path / "other")
    with pytest.raises(SignatureError, match="another key"):
        Checkpoint.load(tmp_path / "c", other[1])


def test_a_checkpoint_of_another_ledger_is_named(address, place, keys):
    other = Ledger(place("other"), {"d": Budget(1.0)})
    with pytest.raises(LedgerError, match="belongs to another ledger"):
        other.verify(Ledger(address).checkpoint(keys[0]))


# ------------------------------------------------------------------ put back from a copy


def release(path: Path, request: str):
    operator = MeanOperator(0.5, mechanism="laplace", map=None)
    return operator.release(X, Y, ledger=Ledger(path), dataset="d", request=request)


@pytest.fixture
def restored(tmp_path, keys):
    """Return a ledger put back from a copy, the checkpoint since, and what was released since."""
    path = tmp_path / "l"
    Ledger(path, {"d": Budget(1.2)}, anchor="none")
    release(path, "before")
    shutil.copy(path, tmp_path / "copy")
    since = release(path, "since")
    checkpoint = Ledger(path).checkpoint(keys[0])
    shutil.copy(tmp_path / "copy", path)
    return path, checkpoint, since


def test_a_ledger_put_back_from_a_copy_is_noticed_with_the_checkpoint(restored):
    path, checkpoint, _ = restored
    Ledger(path).verify()  # by itself it looks well
    with pytest.raises(LostEntriesError, match="put back from a copy"):
        Ledger(path).verify(checkpoint)
    release(path, "again")  # the budget is spent twice, which is why
    with pytest.raises(LostEntriesError, match="entry 6 is another"):
        Ledger(path).verify(checkpoint)


def test_recovery_charges_what_was_forgotten_and_the_log_says_so(restored, keys):
    path, checkpoint, since = restored
    ledger = Ledger(path)
    signed = sign(since, keys[0])  # as a learner has it
    assert ledger.recover(checkpoint, {"d": [signed, since]}) == 1
    assert ledger.balances()[0].spent == pytest.approx(1.0)
    assert ledger.released("d", b"") is False
    with pytest.raises(BudgetError):
        release(path, "again")
    entry = ledger.log()[-2]
    assert (entry.kind, entry.facts["releases_charged"]) == ("recovered", 1)
    with pytest.raises(LostEntriesError, match="It was recovered at"):
        ledger.verify(checkpoint)
    ledger.verify(ledger.checkpoint(keys[0]))
    with pytest.raises(LedgerError, match="no data set 'e'"):
        ledger.recover(checkpoint, {"e": [since]})


def test_recovery_may_exceed_the_budget_and_nothing_fits_afterwards(tmp_path, keys):
    path = tmp_path / "l"
    ledger = Ledger(path, {"d": Budget(0.5)}, anchor="none")
    empty = Path(shutil.copy(path, tmp_path / "copy"))
    first = release(path, "first")
    checkpoint = ledger.checkpoint(keys[0])
    shutil.copy(empty, path)
    second = release(path, "second")
    Ledger(path).recover(checkpoint, {"d": [first, second]})
    assert Ledger(path).balances()[0].spent == pytest.approx(1.0)
    assert Ledger(path).largest_epsilon("d") == 0.0


def test_a_frozen_ledger_charges_nothing_and_says_why(address, keys):
    ledger = Ledger(address)
    with ledger._store.writing() as records:
        records.freeze("it was restored")
    with pytest.raises(LedgerError, match="is frozen: it was restored"):
        ledger.debit("d", promise(), ask("more"))
    assert ledger.debit("d", promise(), ask("stored")) == b"bytes"
    assert kinds(ledger)[-1] == "frozen"
    ledger.recover(ledger.checkpoint(keys[0]))
    assert ledger.debit("d", promise(), ask("more")) is None


def test_an_entry_is_written_in_the_transaction_of_what_it_records(tmp_path, monkeypatch):
    """A charge that is undone leaves no entry, and an entry that fails undoes the charge."""
    ledger = Ledger(tmp_path / "l", {"d": Budget(1.0)})
    before = ledger.log()
    monkeypatch.setattr("suffice.owner.ledger.store.next_entry", _fail)
    with pytest.raises(RuntimeError):
        ledger.debit("d", promise(), ask("a"))
    monkeypatch.undo()
    assert ledger.log() == before
    with closing(sqlite3.connect(tmp_path / "l")) as db:
        assert db.execute("SELECT count(*) FROM debits").fetchone() == (0,)
        rows = db.execute("SELECT body FROM log").fetchall()
    assert all(json.loads(body) for (body,) in rows)


def _fail(*_):
    raise RuntimeError


@pytest.mark.parametrize("numbers", [(2,), (1, 3), (1, 1), (0, 1)])
def test_entries_are_counted_without_a_gap(numbers):
    """Digests alone do not show it: whoever wrote the log anew wrote these too."""
    entries, previous = [], FIRST
    for number in numbers:
        entries.append(next_entry(number - 1, previous, Kind.OPENED, "{}"))
        previous = entries[-1].digest
    with pytest.raises(LedgerError, match="does not continue"):
        list(checked_chain(entries))
