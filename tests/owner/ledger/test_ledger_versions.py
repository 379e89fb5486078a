"""Ledgers of version 1, changed data under one name, and classes that are spelt otherwise."""

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow.csv
import pytest

from spenders import PRELOADED
from suffice.errors import (
    BudgetError,
    BurntRequestError,
    DataChangedError,
    LedgerError,
    RequestConflictError,
)
from suffice.owner.fingerprint import LabelFingerprint
from suffice.owner.ledger import Ledger, Request, rules
from suffice.owner.operator.mechanism import MeanOperator
from suffice.owner.publish import Payment, PrivateIdentity, publish
from suffice.privacy.events import Laplace
from suffice.privacy.guarantee import Budget, Guarantee, Unit
from suffice.release.codec import decode
from suffice.tables.labels import label_codes

OLD = Path(__file__).parents[2] / "fixtures" / "version1"
HELD = json.loads((OLD / "ledger.json").read_text())
for _line in HELD["balances"]:  # composition is a matter of floats, to a dozen digits
    _line[4] = round(_line[4], 9)
PROMISE = Guarantee(unit=Unit.LABEL, event=Laplace(0.1))


@pytest.fixture
def old(tmp_path) -> Path:
    return Path(shutil.copy(OLD / "clinic.ledger", tmp_path / "l"))


def contents(path: Path) -> tuple[list, list]:
    ledger = Ledger(path)
    balances = [
        [b.dataset, str(b.unit), b.budget.epsilon, b.budget.delta, round(b.spent, 9), b.debits]
        for b in ledger.balances()
    ]
    return balances, [[e.number, e.dataset, e.request, e.state] for e in ledger.history()]


def stored(path: Path, query: str) -> list[tuple]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


# ------------------------------------------------------------------ version 1


def test_a_ledger_of_version_1_is_migrated_in_place_and_says_what_it_said(old):
    assert stored(old, "PRAGMA journal_mode") == [("wal",)]
    before = stored(old, "SELECT number, request_hash, spent, parameters, time, bytes FROM debits")
    assert contents(old) == (HELD["balances"], HELD["history"])
    after = stored(old, "SELECT number, request_hash, spent, parameters, time, bytes FROM debits")
    assert after == before
    assert stored(old, "PRAGMA user_version") == [(3,)]
    assert stored(old, "PRAGMA journal_mode") == [("delete",)]
    assert {state for (state,) in stored(old, "SELECT state FROM debits")} == {"finished", "burnt"}
    assert sorted(stored(old, "SELECT dataset, version, algorithm FROM fingerprints")) == [
        ("crowd", 1, "contents-1"),
        ("d", 1, "labels-1"),
        ("records", 1, "labels-1"),
    ]
    assert contents(old) == (HELD["balances"], HELD["history"])


def first_request(path: Path, classes=(0, 1), dataset="d", parameters=None):
    """Ask for the request "first" of the fixture again, with the labels that it was made from."""
    ((stored_parameters, data),) = stored(
        path, "SELECT parameters, bytes FROM debits WHERE request = 'first'"
    )
    labels = pyarrow.csv.read_csv(OLD / "clinic.csv").column("sick").combine_chunks()
    fingerprint = LabelFingerprint(classes)
    fingerprint.update(label_codes(labels, (0, 1)))
    again = publish(
        lambda: pytest.fail("it was drawn again"),
        [PROMISE],
        Payment(Ledger(path), dataset, "first"),
        parameters=parameters or json.loads(stored_parameters),
        identity=PrivateIdentity(fingerprint.result()),
    )
    return again, decode(data)


def test_a_finished_request_of_version_1_returns_its_bytes_and_the_new_name_is_kept_beside(old):
    again, before = first_request(old)
    assert again == before
    stored_algorithms = stored(
        old, "SELECT version, algorithm FROM fingerprints WHERE dataset = 'd'"
    )
    assert sorted(stored_algorithms) == [(1, "labels-1"), (1, "labels-2")]
    with pytest.raises(RequestConflictError):  # and not DataChangedError: known by what they mean
        first_request(old, classes=("false", "TRUE"))
    with pytest.raises(RequestConflictError):
        first_request(old, parameters={"kind": "mean-operator", "epsilon": 0.25})
    with pytest.raises(DataChangedError, match="under the name 'd'"):
        first_request(old, dataset="unused")
    assert contents(old) == (HELD["balances"], HELD["history"])


@pytest.mark.parametrize(
    "classes",
    [(0, 1), ("0", "1"), ("1", "0"), ("0.0", "1.0"), ("false", "true"), ("FALSE", "True")],
    ids=str,
)
def test_labels_of_version_1_have_one_budget_however_their_classes_are_spelt(old, classes):
    """Version 1 hashed the classes as they were spelt, and migrated ledgers know nothing else."""
    ledger = Ledger(old, {"again": Budget(5.0)})
    operator = MeanOperator(0.1, mechanism="laplace", classes=classes)
    with pytest.raises(DataChangedError, match="under the name 'd'"):
        operator.release(OLD / "clinic.csv", label="sick", ledger=ledger, dataset="again")


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (("0", "1"), (0, 1)),
        ((0, 1), ("0.0", "1")),
        (("0.0", "1.0"), (0, 1)),
        (("False", "True"), ("0", "1")),
        (("no", "1"), ("no", "1.0")),
        ((-3, 12), ("-3", "12")),
    ],
)
def test_what_version_1_stored_is_among_what_is_computed(then, now):
    codes = np.array([0, 1, 1, -1, 0])
    stored, presented = LabelFingerprint(then), LabelFingerprint(now)
    stored.update(codes)
    for part in (codes[:2], codes[2:]):
        more = LabelFingerprint(now)
        more.update(part)
        presented.merge(more)
    fingerprints = {name: str(value) for name, value in presented.result().items()}
    old = {"labels-1": str(stored.result()["labels-1"])}
    assert rules.known_version({1: old}, fingerprints) == 1
    assert rules.recorded(fingerprints).keys() == {"labels-1", "labels-2"}


class Doomed(sqlite3.Connection):
    """A connection that kills its process after some statements that write."""

    most: ClassVar[int] = 10**6
    statements: ClassVar[int] = 0

    def execute(self, sql, *parameters):
        Doomed.statements += not sql.startswith("SELECT")
        if Doomed.statements > Doomed.most:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(sql, *parameters)


def die_in_migration(path: str, after: int) -> None:
    """Open a ledger of version 1, and be shot before statement number ``after``."""
    sqlite3.connect = partial(sqlite3.connect, factory=Doomed)
    Doomed.most = after
    Ledger(path)


def test_a_kill_in_the_middle_of_a_migration_leaves_version_1_or_3_and_nothing_between(
    tmp_path, monkeypatch
):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Doomed))
        patched.setattr(Doomed, "statements", 0)
        Ledger(shutil.copy(OLD / "clinic.ledger", tmp_path / "whole"))
        statements = Doomed.statements
    ends, charged = [], stored(OLD / "clinic.ledger", "SELECT number, spent, bytes FROM debits")
    for after in [*range(3, statements - 3, 5), *range(statements - 3, statements + 1)]:
        path = Path(shutil.copy(OLD / "clinic.ledger", tmp_path / f"l{after}"))
        process = context.Process(target=die_in_migration, args=(str(path), after))
        process.start()
        process.join()
        ((version,),) = stored(path, "PRAGMA user_version")
        ends.append(version)
        history = [[e.number, e.dataset, e.request, e.state] for e in Ledger(path).history()]
        assert history == HELD["history"]
        assert stored(path, "SELECT number, spent, bytes FROM debits") == charged
        assert (process.exitcode == 0) == (after == statements)
    assert ends == sorted(ends)
    assert len(ends) > 12
    assert {*ends} == {1, 3}


def test_old_code_cannot_go_on_with_a_migrated_ledger(old):
    """A process of version 1 that was drawing when the file was migrated cannot finish there."""
    Ledger(old)
    with closing(sqlite3.connect(old, isolation_level=None)) as db:
        with pytest.raises(sqlite3.IntegrityError):
            db.execute("UPDATE debits SET bytes = x'00' WHERE request = 'burnt' AND bytes IS NULL")
        with pytest.raises(sqlite3.OperationalError):
            db.execute("SELECT name, fingerprint FROM datasets")


# ------------------------------------------------------------------ version 2


SECOND = Path(__file__).parents[2] / "fixtures" / "ledger2"


@pytest.fixture
def second(tmp_path) -> Path:
    return Path(shutil.copy(SECOND / "clinic.ledger", tmp_path / "l"))


def test_a_ledger_of_version_2_is_migrated_in_place_and_says_what_it_said(second):
    columns = "number, dataset, request, request_hash, version, spent, parameters, time, token"
    query = f"SELECT {columns}, state, bytes FROM debits"
    others = [f"SELECT * FROM {name}" for name in ("secret", "budgets", "classes", "fingerprints")]
    before = [stored(second, text) for text in (query, *others)]
    held = json.loads((SECOND / "ledger.json").read_text())
    for line in held["balances"]:
        line[4] = round(line[4], 9)
    assert contents(second) == (held["balances"], held["history"])
    assert [stored(second, text) for text in (query, *others)] == before
    assert stored(second, "PRAGMA user_version") == [(3,)]
    Ledger(second).verify()
    kinds = [entry.kind for entry in Ledger(second).log()]
    assert kinds[0] == "migrated"
    assert [kinds.count(kind) for kind in ("budget", "classes", "debit", "finish", "burnt")] == [
        4, 1, 5, 3, 1,
    ]  # fmt: skip
    with pytest.raises(BurntRequestError):  # the process that made it has ended
        Ledger(second).debit("d", [PROMISE], Request("open", "hash open", "other data", {}))
    assert [entry.kind for entry in Ledger(second).log()][-1] == "burnt"
    Ledger(second).verify()


def test_a_finished_request_of_version_2_returns_its_bytes(second):
    ((data,),) = stored(second, "SELECT bytes FROM debits WHERE request = 'first'")
    again = MeanOperator(0.25, mechanism="laplace").release(
        SECOND / "clinic.csv", label="sick", ledger=Ledger(second), dataset="d", request="first"
    )
    assert again == decode(data)


def test_code_of_version_2_cannot_write_a_charge_without_an_entry_in_the_log(second):
    """What a process of version 2 would still execute if the file was migrated under its feet."""
    Ledger(second)
    insert = "INSERT INTO debits (dataset, request, request_hash, version, spent, parameters, time, token, state) VALUES ('d', 'n', 'h', 1, '[]', '{}', 0.0, 't', 'debited')"  # noqa: E501
    finish = "UPDATE debits SET state = 'finished', bytes = x'00' WHERE request = 'open'"
    burn = "UPDATE debits SET state = 'burnt' WHERE request = 'open'"
    with closing(sqlite3.connect(second, isolation_level=None)) as db:
        for statement in (insert, finish, burn):
            with pytest.raises(sqlite3.IntegrityError):
                db.execute(statement)


def test_a_process_that_opened_the_ledger_before_a_newer_schema_is_stopped(second):
    ledger = Ledger(second)
    with closing(sqlite3.connect(second)) as db:
        db.execute("PRAGMA user_version = 4")
    with pytest.raises(LedgerError, match="version 4"):
        ledger.debit("d", [PROMISE], Request("more", "hash", "other data", {}))


# ------------------------------------------------------------------ changed data


RNG = np.random.default_rng(15)
X = RNG.normal(size=(120, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=120) > 0).astype(int)
GROWN = (np.vstack([X, X[:1] + 1]), np.append(Y, 1))


def release(ledger: Ledger, data=(X, Y), *, epsilon=0.5, dataset="d", classes=(0, 1), **options):
    operator = MeanOperator(epsilon, mechanism="laplace", classes=classes)
    return operator.release(*data, ledger=ledger, dataset=dataset, **options)


def test_an_appended_row_needs_a_word_and_uses_the_same_budget(place):
    ledger = Ledger(place("l"), {"d": Budget(1.2), "e": Budget(1.0)})
    first = release(ledger, request="first")
    with pytest.raises(DataChangedError, match="--data-changed"):
        release(ledger, GROWN)
    grown = release(ledger, GROWN, data_changed=True)
    assert grown.rows == 121
    assert ledger.balances()[0].spent == 1.0
    assert [entry.version for entry in ledger.history()] == [1, 2]
    assert release(ledger, GROWN, request="first", data_changed=True) == first
    assert release(ledger, request="first") == first  # the old data are still known
    with pytest.raises(RequestConflictError):
        release(ledger, GROWN, request="first", epsilon=0.4, data_changed=True)
    with pytest.raises(BudgetError):
        release(ledger, GROWN, request="more", data_changed=True)
    for version in ((X, Y), GROWN):
        with pytest.raises(DataChangedError, match="under the name 'd'"):
            release(ledger, version, dataset="e", data_changed=True)


def test_the_guarantee_of_changed_data_says_what_a_person_with_several_rows_has(place):
    ledger = Ledger(place("l"), {"d": Budget(2.0)})
    first = release(ledger)
    assert "k rows" not in str([a.statement for a in first.guarantee.assumptions])
    changed = release(ledger, GROWN, data_changed=True)
    assert "k times the epsilon" in str([a.statement for a in changed.guarantee.assumptions])


def test_reordered_labels_under_one_name_are_a_version_too(place):
    ledger = Ledger(place("l"), {"d": Budget(2.0)})
    release(ledger)
    back = (X[::-1], Y[::-1])
    with pytest.raises(DataChangedError):
        release(ledger, back)
    release(ledger, back, data_changed=True)
    assert [entry.version for entry in ledger.history()] == [1, 2]


# ------------------------------------------------------------------ classes and their spelling


@pytest.mark.parametrize("classes", [(False, True), ("0", "1"), ("false", "TRUE"), (1, 0)])
def test_the_spelling_of_classes_is_no_other_data_and_no_second_budget(place, classes):
    ledger = Ledger(place("l"), {"d": Budget(2.0), "e": Budget(1.0)})
    release(ledger)
    labels = np.array(classes)[Y if classes != (1, 0) else 1 - Y]
    release(ledger, (X, labels), classes=classes, epsilon=0.4)
    assert [entry.version for entry in ledger.history()] == [1, 1]
    with pytest.raises(DataChangedError, match="under the name 'd'"):
        release(ledger, (X, labels), classes=classes, dataset="e")


def test_declared_classes_are_final_and_other_ones_are_refused_before_rows_are_read(place):
    path = place("l")
    ledger = Ledger(path, {"d": Budget(2.0)}, {"d": {"sick": ("no", "yes")}})
    assert ledger.classes("d", "sick") == ("no", "yes")
    assert ledger.classes("d", "other") is None
    Ledger(path, classes={"d": {"sick": ("no", "yes")}})  # the same again is no change
    for other in (("yes", "no"), ("no", "yes", "maybe")):
        with pytest.raises(LedgerError, match="Classes are final"):
            Ledger(path, classes={"d": {"sick": other}})
    with pytest.raises(LedgerError, match="no data set 'e'"):
        Ledger(path, classes={"e": (0, 1)})
    with pytest.raises(ValueError, match="the same"):
        Ledger(path, classes={"d": {"x": ("1", "true")}})
    Ledger(path, classes={"d": (0, 1)})
    assert ledger.classes("d") == ledger.classes("d", "other") == (0, 1)
    with pytest.raises(ValueError, match="ledger lists the classes 0, 1"):
        release(ledger, (object(), Y), classes=("no", "yes"))  # no table at all: it was not read
    release(ledger, classes=(1, 0))  # the order is the release's own
