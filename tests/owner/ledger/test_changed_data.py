"""Data that change under one name: what a release of them returns, costs and says."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from suffice.errors import BudgetError, LedgerError, RequestConflictError
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import MeanOperator
from suffice.plain_text import collected_notes
from suffice.privacy.guarantee import Budget

RNG = np.random.default_rng(15)
X = RNG.normal(size=(120, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=120) > 0).astype(int)
GROWN = (np.vstack([X, X[:1] + 1]), np.append(Y, 1))
FLIPPED = (X, np.where(np.arange(120) == 17, 1 - Y, Y))


def release(ledger: Ledger, data=(X, Y), *, epsilon=0.5, dataset="d", classes=(0, 1), **options):
    operator = MeanOperator(epsilon, mechanism="laplace", classes=classes, map=None)
    return operator.release(*data, ledger=ledger, dataset=dataset, **options)


def test_a_flipped_label_gets_the_stored_bytes_and_costs_nothing(place):
    """Whether bytes repeat must not tell whether a label changed."""
    ledger = Ledger(place("l"), {"d": Budget(1.2)})
    first = release(ledger)
    for data in ((X, Y), FLIPPED):
        with collected_notes() as notes:
            assert release(ledger, data) == first
        assert ["have changed since" in line for line in notes] == [data is FLIPPED]
    assert len(ledger.history()) == 1
    assert release(ledger, FLIPPED, request="today") != first
    with pytest.raises(BudgetError):
        release(ledger, FLIPPED, request="more")


def test_a_table_that_grew_is_another_request_on_the_same_budget(place):
    ledger = Ledger(place("l"), {"d": Budget(1.2)})
    first = release(ledger, request="first")
    grown = release(ledger, GROWN)
    assert grown.rows == 121
    assert ledger.balances()[0].spent == 1.0
    assert release(ledger, GROWN, request="first") == first  # a name that is known
    with pytest.raises(RequestConflictError):  # parameters that the owner chose
        release(ledger, GROWN, request="first", epsilon=0.4)
    with pytest.raises(BudgetError):
        release(ledger, GROWN, request="more")
    names = [entry.request for entry in ledger.history()]
    assert names[0] == "first"
    assert len(names) == 2


def test_a_request_without_a_name_is_named_by_public_parameters_alone(place):
    names = []
    for number, data in enumerate([(X, Y), FLIPPED, (X[::-1], Y[::-1]), GROWN]):
        ledger = Ledger(place(f"l{number}"), {"d": Budget(1.2)})
        release(ledger, data)
        names.append(ledger.history()[0].request)
    assert names[0] == names[1] == names[2] != names[3]


@pytest.mark.parametrize("classes", [(False, True), ("0", "1"), ("false", "TRUE"), (1, 0)])
def test_the_spelling_of_classes_is_no_other_data(place, classes):
    ledger = Ledger(place("l"), {"d": Budget(2.0), "e": Budget(1.0)})
    release(ledger)
    labels = np.array(classes)[Y if classes != (1, 0) else 1 - Y]
    with collected_notes() as notes:
        release(ledger, (X, labels), classes=classes, dataset="e")
    assert "under the name 'd'" in str(notes)


def test_a_process_that_opened_the_ledger_before_a_newer_schema_is_stopped(tmp_path):
    ledger = Ledger(tmp_path / "l", {"d": Budget(2.0)})
    with closing(sqlite3.connect(tmp_path / "l")) as db:
        db.execute("PRAGMA user_version = 99")
    for opened in (lambda: ledger, lambda: Ledger(tmp_path / "l")):
        with pytest.raises(LedgerError, match="version 99"):
            release(opened())


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
