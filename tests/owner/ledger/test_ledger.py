"""The ledger: what it allows, what it refuses, what it remembers."""

import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

from suffice.errors import (
    BudgetError,
    BurntRequestError,
    LedgerError,
    ParameterError,
    PrivacyError,
    RequestConflictError,
    StorageError,
    UnitError,
)
from suffice.owner.ledger import Ledger, Request
from suffice.plain_text import collected_notes
from suffice.privacy.accounting import Composed
from suffice.privacy.events import Gaussian, Laplace, Pure, Unbounded
from suffice.privacy.guarantee import Budget, Guarantee, Protection, Scope, Unit


def promise(epsilon: float = 0.5, unit: Unit = Unit.LABEL) -> Guarantee:
    return Guarantee(unit=unit, event=Laplace(epsilon))


def ask(name: str, kind: str = "test", data: str = "data") -> Request:
    return Request(name, {"kind": kind}, data)


def key_of(ledger: Ledger) -> bytes:
    with ledger.store.reading() as records:
        return records.about().key


@pytest.fixture
def ledger(place) -> Ledger:
    return Ledger(place("l"), {"d": Budget(1.0)})


@pytest.fixture
def file_ledger(tmp_path) -> Ledger:
    return Ledger(tmp_path / "l", {"d": Budget(1.0)})


def pay(ledger: Ledger, name: str, *guarantees: Guarantee, dataset: str = "d") -> bytes | None:
    return ledger.debit(dataset, guarantees or [promise()], ask(name))


def test_a_budget_can_be_spent_to_the_last_bit_and_not_beyond(ledger):
    assert pay(ledger, "a") is None
    assert pay(ledger, "b") is None
    with pytest.raises(
        BudgetError, match=r"epsilon 1 per label .* of which 1 is spent. No further"
    ):
        pay(ledger, "c", promise(1e-6))
    assert ledger.balances()[0].spent == 1.0
    assert ledger.balances()[0].left == 0.0


def test_ten_tenths_fit_into_one(place):
    ledger = Ledger(place("l"), {"d": Budget(1.0)})
    for i in range(10):
        pay(ledger, f"r{i}", promise(0.1))
    with pytest.raises(BudgetError):
        pay(ledger, "more", promise(1e-9))


def test_the_same_request_gets_the_same_bytes_and_pays_once(ledger):
    assert pay(ledger, "a") is None
    ledger.finish("d", "a", b"first")
    assert pay(ledger, "a") == b"first"
    assert ledger.balances()[0].debits == 1
    with pytest.raises(LedgerError, match="not open"):
        ledger.finish("d", "a", b"second")
    assert pay(ledger, "a") == b"first"


def test_one_name_for_two_requests_is_a_conflict(ledger):
    pay(ledger, "a")
    ledger.finish("d", "a", b"x")
    with pytest.raises(RequestConflictError):
        ledger.debit("d", [promise()], ask("a", "other"))


def test_a_debit_without_output_is_burnt_and_stays_spent(ledger):
    pay(ledger, "a")
    ledger.abandon("d", "a")
    with pytest.raises(BurntRequestError, match="The charge stays"):
        pay(ledger, "a")
    assert [entry.state for entry in ledger.history()] == ["burnt"]
    assert ledger.balances()[0].spent == 0.5
    with pytest.raises(LedgerError, match="not open"):
        ledger.finish("d", "b", b"x")


def test_a_request_in_progress_is_shown_as_pending(ledger):
    pay(ledger, "a")
    assert ledger.history()[0].state == "pending"
    ledger.finish("d", "a", b"x")
    entry = ledger.history()[0]
    assert (entry.state, entry.request) == ("released", "a")
    assert entry.charges == ((Unit.LABEL, Laplace(0.5)),)


def test_changed_data_are_charged_to_the_same_budget_without_a_question(ledger):
    pay(ledger, "a")
    assert ledger.debit("d", [promise()], ask("b", data="other data")) is None
    assert ledger.balances()[0].debits == 2


def test_a_known_name_returns_its_bytes_whatever_the_data_are_now(ledger):
    pay(ledger, "a")
    ledger.finish("d", "a", b"x")
    day = f"{datetime.fromtimestamp(ledger.history()[0].time, UTC):%Y-%m-%d}"
    for data, told in (("data", "The file is the same"), ("other data", "have changed since")):
        with collected_notes() as notes:
            assert ledger.debit("d", [promise()], ask("a", data=data)) == b"x"
        (line,) = notes
        assert day in line
        assert told in line
    assert "--request NAME" in line
    assert ledger.balances()[0].debits == 1


def test_the_same_data_under_a_second_name_are_charged_and_their_owner_is_told(place):
    ledger = Ledger(place("l"), {"d": Budget(1.0), "e": Budget(1.0)})
    pay(ledger, "a")
    with collected_notes() as notes:
        assert pay(ledger, "a", dataset="e") is None
        assert ledger.debit("e", [promise()], ask("b", data="other data")) is None
    (line,) = notes
    assert "also have a budget under the name 'd'" in line


def test_several_statements_about_one_unit_are_all_charged(place):
    ledger = Ledger(place("l"), {"d": {Unit.ATTRIBUTE: Budget(1.0)}})
    first, other = (Guarantee(unit=Unit.ATTRIBUTE, event=Pure(e)) for e in (0.25, 0.5))
    pay(ledger, "a", first, other)
    assert ledger.balances()[0].spent == 0.75
    with pytest.raises(BudgetError):
        pay(ledger, "b", first, other)
    with pytest.raises(BudgetError):  # either of them alone would still fit
        pay(ledger, "c", first, first)
    pay(ledger, "d", first)


def test_a_release_that_protects_one_column_is_not_paid_from_a_budget_of_all(place):
    ledger = Ledger(place("l"), {"d": {Unit.ATTRIBUTE: Budget(1.0)}})
    age = Guarantee(unit=Unit.ATTRIBUTE, event=Pure(0.25), columns=("age",))
    with pytest.raises(PrivacyError, match="protects only age"):
        pay(ledger, "a", age)
    assert ledger.balances()[0].spent == 0


def test_a_budget_is_written_as_plain_numbers(place):
    Ledger(place("l"), {"d": Budget(np.float64(2.0), np.float64(0.0))})
    again = Ledger(place("l"), {"d": Budget(2)})
    assert again.balances()[0].budget == Budget(2.0)


def test_a_composed_event_is_charged_like_its_parts(place):
    ledger = Ledger(place("l"), {"d": Budget(1.0, 1e-5)})
    both = Guarantee(unit=Unit.LABEL, event=Composed((Pure(0.2), Pure(0.2))))
    pay(ledger, "a", both)
    pay(ledger, "b", both)
    assert 0.7 < ledger.balances()[0].spent <= 0.8


def test_a_refused_request_leaves_no_trace(place):
    ledger = Ledger(place("l"), {"d": Budget(0.1)})
    with pytest.raises(BudgetError):
        pay(ledger, "a")
    assert ledger.history() == []
    with collected_notes() as notes:
        ledger.debit("d", [promise(0.1)], ask("a", data="other data"))
    assert notes == []


def test_a_record_debit_charges_labels_and_attributes_too(place):
    budgets = {unit: Budget(1.0) for unit in (Unit.LABEL, Unit.ATTRIBUTE, Unit.RECORD)}
    ledger = Ledger(place("l"), {"d": budgets})
    pay(ledger, "a", promise(0.75, Unit.RECORD))
    assert {b.unit: b.spent for b in ledger.balances()} == dict.fromkeys(budgets, 0.75)


def test_a_party_debit_charges_everything(place):
    budgets = {unit: Budget(1.0) for unit in Unit}
    ledger = Ledger(place("l"), {"d": budgets})
    pay(ledger, "a", promise(0.5, Unit.PARTY))
    assert {b.spent for b in ledger.balances()} == {0.5}


def test_several_statements_charge_each_budget_with_the_closest_one(place):
    ledger = Ledger(place("l"), {"d": {Unit.LABEL: Budget(2.0), Unit.RECORD: Budget(20.0)}})
    pay(ledger, "a", promise(1.0), promise(10.0, Unit.RECORD))
    assert {b.unit: b.spent for b in ledger.balances()} == {Unit.LABEL: 1.0, Unit.RECORD: 10.0}


def test_a_release_that_says_nothing_about_a_budgeted_unit_is_refused(place):
    ledger = Ledger(place("l"), {"d": {Unit.RECORD: Budget(5.0)}})
    with pytest.raises(UnitError):
        pay(ledger, "a", promise(0.5, Unit.LABEL))
    both = Ledger(place("m"), {"d": {Unit.RECORD: Budget(5.0), Unit.LABEL: Budget(1.0)}})
    with pytest.raises(UnitError, match="states no guarantee per record"):
        pay(both, "a", promise(0.5, Unit.LABEL))


def test_what_has_no_global_guarantee_cannot_be_charged(ledger):
    for guarantee in (
        Guarantee(unit=Unit.LABEL, event=Unbounded(), kind=Protection.NONE),
        Guarantee(unit=Unit.LABEL, event=Pure(0.1), kind=Protection.DATA_DEPENDENT),
        Guarantee(unit=Unit.LABEL, event=Pure(0.1), scope=Scope.MARGINAL, columns=("x",)),
        Guarantee(unit=Unit.LABEL, event=Pure(0.1), neighbours="add-or-remove-one"),
    ):
        with pytest.raises(PrivacyError):
            pay(ledger, "a", guarantee)
    assert ledger.history() == []


def test_composition_buys_more_than_the_sum_where_delta_allows(place):
    ledger = Ledger(place("l"), {"d": Budget(1.0, 1e-5)})
    gaussian = Guarantee(unit=Unit.LABEL, event=Gaussian(40.0), delta=1e-6)
    for i in range(20):
        pay(ledger, f"r{i}", gaussian)
    single_epsilon = gaussian.epsilon
    assert 20 * single_epsilon > 1.0
    assert ledger.balances()[0].spent < 1.0


def test_budgets_are_final(place):
    path = place("l")
    Ledger(path, {"d": Budget(1.0)})
    Ledger(path, {"d": Budget(1.0)})  # the same again is no change
    with pytest.raises(LedgerError, match="stay as they are"):
        Ledger(path, {"d": Budget(2.0)})
    with pytest.raises(LedgerError, match="stay as they are"):
        Ledger(path, {"d": {Unit.RECORD: Budget(1.0)}})
    assert [b.budget for b in Ledger(path, {"e": Budget(3.0)}).balances()] == [
        Budget(1.0),
        Budget(3.0),
    ]


def test_an_unknown_data_set_and_a_nameless_one_are_refused(ledger, place):
    with pytest.raises(LedgerError, match="no data set 'e'"):
        pay(ledger, "a", dataset="e")
    with pytest.raises(ParameterError):
        Ledger(place("m"), {"": Budget(1.0)})


def test_a_ledger_that_is_not_there_is_not_made_by_accident(place, tmp_path):
    for _ in range(2):
        with pytest.raises(LedgerError, match="does not exist"):
            Ledger(place("nothing"))
    assert not (tmp_path / "nothing").exists()


def test_a_ledger_of_another_version_or_no_ledger_at_all_is_named(tmp_path):
    path = tmp_path / "l"
    Ledger(path, {"d": Budget(1.0)})
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(LedgerError, match="version 99"):
        Ledger(path)
    text = tmp_path / "text"
    text.write_text("not a database, but long enough to be looked at as if it were one" * 20)
    with pytest.raises(LedgerError, match="not a suffice ledger"):
        Ledger(text)
    foreign = tmp_path / "foreign"
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE x (y)")
    db.close()
    with pytest.raises(LedgerError, match="version 0"):
        Ledger(foreign)


def test_the_file_is_for_its_owner_alone(file_ledger):
    pay(file_ledger, "a")
    for file in file_ledger.path.parent.glob("l*"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name


def test_a_folder_that_cannot_be_written_is_a_storage_error(tmp_path):
    with pytest.raises(StorageError):
        Ledger(tmp_path / "missing" / "l", {"d": Budget(1.0)})


def test_a_full_disk_refuses_the_debit_and_nothing_is_drawn(file_ledger):
    """A page limit makes SQLite say what it says on a full disk."""

    class Full(sqlite3.Connection):
        def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:
            if sql == "BEGIN IMMEDIATE":
                pages = super().execute("PRAGMA page_count").fetchone()[0]
                super().execute(f"PRAGMA max_page_count = {pages}")
            return super().execute(sql, *parameters)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Full))
        with pytest.raises(StorageError, match="full"):
            file_ledger.debit("d", [promise()], Request("a", {"h": "h" * 10_000}, "data"))
    assert file_ledger.history() == []
    assert pay(file_ledger, "a") is None


def test_amounts_are_stored_as_text_that_reads_back_exactly(place):
    epsilon = 0.1 + 0.2
    ledger = Ledger(place("l"), {"d": Budget(epsilon, 1e-300)})
    assert ledger.balances()[0].budget == Budget(epsilon, 1e-300)
    pay(ledger, "a", promise(epsilon))
    assert ledger.balances()[0].spent == epsilon


class Watched(sqlite3.Connection):
    """A connection that is looked at when it begins a transaction, writes, and commits."""

    pragmas: ClassVar[list[tuple[int, str]]] = []  # per commit: synchronous, and the journal

    def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:
        if sql == "COMMIT":
            (synchronous,) = super().execute("PRAGMA synchronous").fetchone()
            (journal,) = super().execute("PRAGMA journal_mode").fetchone()
            self.pragmas.append((synchronous, journal))
        if sql.split(maxsplit=1)[0] in {"CREATE", "INSERT", "UPDATE", "DELETE"}:
            assert self.in_transaction, sql
            assert self.begun == "BEGIN IMMEDIATE", sql
        result = super().execute(sql, *parameters)
        if sql.startswith("BEGIN"):
            self.begun = sql
        if sql == "BEGIN IMMEDIATE":
            (_, _, path) = super().execute("PRAGMA database_list").fetchone()
            with (
                closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other,
                pytest.raises(sqlite3.OperationalError, match="locked"),
            ):
                other.execute("BEGIN IMMEDIATE")
        return result


def test_every_transaction_locks_at_once_and_survives_a_power_cut(tmp_path, monkeypatch):
    """What docs/promise.md says of the ledger: BEGIN IMMEDIATE, DELETE, synchronous = EXTRA.

    Two that read before either has the lock could both spend the last of a budget.
    """
    monkeypatch.setattr(Watched, "pragmas", [])
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Watched))
    ledger = Ledger(tmp_path / "l", {"d": Budget(1.0)})
    steps = {
        "a ledger is made": lambda: None,
        "one pays": lambda: pay(ledger, "a"),
        "its bytes are stored": lambda: ledger.finish("d", "a", b"x"),
        "another pays": lambda: pay(ledger, "b"),
        "it is given up": lambda: ledger.abandon("d", "b"),
        "a data set is added": lambda: Ledger(tmp_path / "l", {"e": Budget(1.0)}),
    }
    for step, take in steps.items():
        take()
        assert Watched.pragmas, step
        assert set(Watched.pragmas) == {(3, "delete")}, step  # 3 is EXTRA
        Watched.pragmas.clear()
    with pytest.raises(BudgetError):
        pay(ledger, "c", promise(2.0))
    assert Watched.pragmas == [(3, "delete")]  # the entry of the refusal in the audit log


def test_every_ledger_has_a_key_of_its_own(place):
    """256 bits of private words: two ledgers never share it, and it stays what it is."""
    keys = [key_of(Ledger(place(f"l{k}"), {"d": Budget(1.0)})) for k in range(3)]
    assert len(set(keys)) == 3
    assert all(len(key) == 32 and len(set(key)) > 8 for key in keys)
    assert key_of(Ledger(place("l0"))) == keys[0]
