"""Altered and damaged ledgers: noticed, or harmless. None is charged in silence."""

import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from suffice.errors import BudgetError, LedgerError, SufficeError
from suffice.owner.ledger import Ledger, Request
from suffice.owner.ledger.store import Tables
from suffice.owner.ledger.tokens import mint
from suffice.privacy.events import Laplace
from suffice.privacy.guarantee import Budget, Guarantee, Unit

PROMISE = [Guarantee(unit=Unit.LABEL, event=Laplace(0.1))]
PAGE = 4096


def ask(name: str) -> Request:
    return Request(name, {"kind": "test", "name": name}, f"fingerprint {name}")


# ------------------------------------------------------------------ altered tables


@pytest.fixture
def address(place) -> str:
    """Return a ledger with a stored release, a lost output and declared classes."""
    ledger = Ledger(place("l"), {"d": Budget(1.0), "e": Budget(1.0)}, {"d": {"sick": (0, 1)}})
    ledger.debit("d", PROMISE, ask("stored"))
    ledger.finish("d", "stored", b"bytes")
    ledger.debit("d", PROMISE, ask("lost"))
    ledger.abandon("d", "lost")
    return place("l")


def alter(address: str, statement: str) -> None:
    """Change a table behind the back of those who use the ledger."""
    with Ledger(address).store.writing() as records:
        records.db.execute(statement)


ALTERATIONS = [
    "UPDATE budgets SET epsilon = '5.0'",
    "UPDATE budgets SET delta = '0.01' WHERE dataset = 'd'",
    "UPDATE budgets SET epsilon = 'much' WHERE dataset = 'd'",
    "DELETE FROM budgets WHERE dataset = 'd'",
    "UPDATE debits SET spent = '[]' WHERE request = 'lost'",
    "UPDATE debits SET request = 'other' WHERE request = 'lost'",
    "DELETE FROM debits WHERE request = 'lost'",
    "UPDATE classes SET declared = '[1, 0]'",
    "UPDATE ledger SET anchor = 'none'",
]


@pytest.mark.parametrize("statement", ALTERATIONS)
def test_a_change_behind_a_running_process_stops_the_next_charge(address, statement):
    running = Ledger(address)
    alter(address, statement)
    for number in range(3):
        with pytest.raises(LedgerError, match=r"disagree|frozen"):
            running.debit("d", PROMISE, ask(f"r{number}"))
    assert running.frozen == Ledger(address).frozen != ""
    with pytest.raises(LedgerError, match=r"disagree|frozen"):  # nor after a restart
        Ledger(address).debit("d", PROMISE, ask("restarted"))
    with running.store.reading() as records:
        charged = records.db.execute("SELECT count(*) FROM log WHERE kind = 'debit'").fetchone()
    assert charged == (2,)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET body = '{}' WHERE number = 4",
        "DELETE FROM log WHERE number = 7",
        "UPDATE debits SET state = 'burnt', release = NULL WHERE request = 'stored'",
        "UPDATE outputs SET bytes = opened",
        "DELETE FROM outputs",
        "UPDATE debits SET fingerprints = '{}' WHERE request = 'lost'",
        "UPDATE secret SET key = seal FROM debits",
        *ALTERATIONS,
    ],
)
def test_a_change_is_noticed_when_the_ledger_is_opened(tmp_path, statement):
    ledger = Ledger(tmp_path / "l", {"d": Budget(1.0), "e": Budget(1.0)}, {"d": {"sick": (0, 1)}})
    ledger.debit("d", PROMISE, ask("stored"))
    ledger.finish("d", "stored", b"bytes")
    ledger.debit("d", PROMISE, ask("lost"))
    ledger.abandon("d", "lost")
    with closing(sqlite3.connect(tmp_path / "l", isolation_level=None)) as db:
        statement = statement.replace("= opened", "= x'00'")
        statement = statement.replace("= seal FROM debits", "= zeroblob(32)")
        db.execute("PRAGMA foreign_keys = OFF")
        assert db.execute(statement).rowcount
    with pytest.raises(LedgerError, match=r"disagree|frozen|does not continue|damaged"):
        Ledger(tmp_path / "l").debit("d", PROMISE, ask("more"))


def test_stored_bytes_are_returned_only_as_the_log_names_them(address):
    running = Ledger(address)
    assert running.debit("d", PROMISE, ask("stored")) == b"bytes"
    with running.store.writing() as records:
        records.db.execute("UPDATE outputs SET bytes = ?", (b"other",))
    for ledger in (running, Ledger(address)):
        with pytest.raises(LedgerError, match="'stored' of data set 'd'"):
            ledger.debit("d", PROMISE, ask("stored"))


def test_a_ledger_that_was_put_right_is_frozen_until_it_is_recovered(address):
    ledger = Ledger(address)
    alter(address, "UPDATE budgets SET epsilon = '5.0' WHERE dataset = 'd'")
    with pytest.raises(LedgerError, match="a budget"):
        ledger.debit("d", PROMISE, ask("a"))
    with pytest.raises(LedgerError, match="a budget"):
        ledger.recover()
    alter(address, "UPDATE budgets SET epsilon = '1.0' WHERE dataset = 'd'")
    with pytest.raises(LedgerError, match="frozen"):
        ledger.debit("d", PROMISE, ask("a"))
    ledger.recover()
    assert Ledger(address).debit("d", PROMISE, ask("a")) is None
    assert [e.kind for e in ledger.log()][-3:] == ["frozen", "recovered", "debit"]


def test_a_freeze_that_was_wiped_out_is_noticed(address):
    with Ledger(address).store.writing() as records:
        records.freeze("somebody says so")
    running = Ledger(address)
    alter(address, "UPDATE ledger SET frozen = ''")
    with pytest.raises(LedgerError, match="whether it is frozen"):
        running.debit("d", PROMISE, ask("a"))


def test_an_empty_file_is_no_ledger(tmp_path):
    (tmp_path / "l").touch()
    with pytest.raises(LedgerError, match="does not exist"):
        Ledger(tmp_path / "l")


def test_a_charge_reads_only_the_entries_that_are_new(address, monkeypatch):
    """The cost of the check does not grow with the log."""
    ledger, read, log = Ledger(address), [], Tables.log

    def counted(records, after=0):
        entries = list(log(records, after))
        read.extend(entry.number for entry in entries)
        return entries

    monkeypatch.setattr(Tables, "log", counted)
    for name in "ab":
        ledger.debit("d", PROMISE, ask(name))
        ledger.finish("d", name, b"x")
    assert len(read) == len(set(read)) <= 2


# ------------------------------------------------------------------ damaged files


@pytest.fixture(scope="module")
def history(tmp_path_factory) -> Path:
    """Return a folder with a ledger of many pages, and its anchor."""
    folder, rng = tmp_path_factory.mktemp("history"), random.Random(4)
    budgets = {"d": Budget(4.0, delta=1e-6), "e": Budget(2.0)}
    classes = {"d": {"sick": ("no", "yes")}}
    ledger = Ledger(folder / "l", budgets, classes, anchor=folder / "kept")
    for number in range(24):
        dataset = "de"[number % 2]
        ledger.debit(dataset, PROMISE, ask(f"r{number}"))
        if number % 6 == 5:
            ledger.abandon(dataset, f"r{number}")
        else:
            ledger.finish(dataset, f"r{number}", rng.randbytes(rng.randint(10, 5000)))
    with pytest.raises(BudgetError):
        ledger.debit("e", PROMISE * 20, ask("too much"))
    for role in ("owner", "officer", "learner"):
        with ledger.store.writing() as records:
            records.add_token(mint(role, holder=f"holder of {role}")[0])
    return folder


def reads(ledger: Ledger) -> list[object]:
    """Return everything that a ledger says."""
    with ledger.store.reading() as records:
        stored = [(charge, records.output(charge.number)) for charge in records.charges()]
        known = [records.about(), records.tokens()]
    classes = [ledger.classes(name, "sick") for name in "de"]
    return [ledger.balances(), ledger.history(), ledger.log(), stored, known, classes]


def charged(ledger: Ledger) -> list[object]:
    """Return what becomes of a further charge."""
    assert ledger.debit("d", PROMISE, ask("further")) is None
    ledger.finish("d", "further", b"more")
    balances = ledger.balances()
    return [balances, len(ledger.log()), ledger.debit("d", PROMISE, ask("further"))]


def overwritten(data: bytearray, rng: random.Random) -> None:
    size = rng.randint(1, 512)
    at = rng.randrange(len(data) - size)
    data[at : at + size] = rng.randbytes(size)


def truncated(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def zeroed(data: bytearray, rng: random.Random) -> None:
    page = rng.randrange(len(data) // PAGE)
    data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)


def swapped(data: bytearray, rng: random.Random) -> None:
    first, second = (PAGE * page for page in rng.sample(range(len(data) // PAGE), 2))
    kept = data[first : first + PAGE]
    data[first : first + PAGE] = data[second : second + PAGE]
    data[second : second + PAGE] = kept


DAMAGES: list[Callable[[bytearray, random.Random], None]] = [
    overwritten,
    truncated,
    zeroed,
    swapped,
]


def classified(path: Path, before: list[object], after: list[object]) -> str:
    """Return what became of a damage; every error must be one of ours."""
    try:
        ledger = Ledger(path)
    except SufficeError:
        return "noticed at opening"
    if ledger.frozen:
        return "frozen at opening"
    try:
        same = reads(ledger) == before and charged(ledger) == after
    except SufficeError:
        return "noticed when used"
    return "harmless" if same else "silent"


def classes_of(history: Path, folder: Path, number: int, seed: int) -> Counter[tuple[str, str]]:
    whole, kept = (history / "l").read_bytes(), (history / "kept").read_bytes()
    before = reads(Ledger(history / "l"))
    twin = folder / "twin"
    twin.write_bytes(whole)
    after = charged(Ledger(twin))
    rng, found = random.Random(seed), Counter()
    for trial in range(number):
        damage, data = DAMAGES[trial % len(DAMAGES)], bytearray(whole)
        damage(data, rng)
        (history / "kept").write_bytes(kept)
        path = folder / f"l{trial}"
        path.write_bytes(data)
        found[damage.__name__, classified(path, before, after)] += 1
        path.unlink()
    (history / "kept").write_bytes(kept)
    return found


def check_classes(found: Counter[tuple[str, str]], number: int) -> None:
    for (damage, outcome), count in sorted(found.items()):
        print(f"{damage:12} {outcome:20} {count}")  # noqa: T201  # pytest -s shows it
    assert sum(found.values()) == number
    assert {outcome for _, outcome in found} <= {
        "noticed at opening",
        "frozen at opening",
        "harmless",
    }


def test_damages_of_a_file_are_noticed_or_harmless(history, tmp_path):
    check_classes(classes_of(history, tmp_path, 24, seed=1), 24)


@pytest.mark.audit
def test_two_hundred_damages_of_a_file_are_noticed_or_harmless(history, tmp_path):
    check_classes(classes_of(history, tmp_path, 200, seed=2), 200)


def test_a_definition_that_is_no_text_is_noticed(history, tmp_path):
    data = (history / "l").read_bytes()
    (tmp_path / "l").write_bytes(data.replace(b"tablesessions", b"tablesess\xe9ons", 1))
    assert (tmp_path / "l").read_bytes() != data
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(tmp_path / "l")


def test_a_check_that_looks_at_no_page_misses_damages(history, tmp_path, monkeypatch):
    """What the checks at opening are for: without them a damage stays in silence."""
    monkeypatch.setattr("suffice.owner.ledger.store.SqliteStore._check_file", lambda *_: None)
    monkeypatch.setattr("suffice.owner.ledger.ledger.Replay.check", lambda *_: None)
    found = classes_of(history, tmp_path, 24, seed=1)
    assert {outcome for _, outcome in found} & {"silent", "noticed when used"}
