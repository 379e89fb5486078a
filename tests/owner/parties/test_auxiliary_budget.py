"""Protected auxiliary rows have a budget of their own: paid with the parties', or not at all."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from builders import auxiliary_rows, contributions
from suffice.errors import (
    BudgetError,
    LedgerError,
    ParameterError,
    RequestConflictError,
    UnitError,
)
from suffice.owner.ledger import Ledger
from suffice.owner.parties.contribution import AuxiliaryRows
from suffice.owner.parties.ensemble import PrivateEnsemble
from suffice.plain_text import collected_notes
from suffice.privacy.guarantee import Budget, Guarantee, Unit, compose
from suffice.releases.release import manifest_of

THREE = (0, 1, 2)
PIPELINE = AuxiliaryRows.read(np.random.default_rng(5).normal(size=(50, 3))).pipeline
SECRET = AuxiliaryRows.read(auxiliary_rows().given, pipeline=PIPELINE)
ENSEMBLE = PrivateEnsemble(1.0, 1e-5, "soft", classes=THREE, private_auxiliary=True)
SENT = contributions(3, SECRET)


def ledger_with(path, rows: Budget, crowds: int = 2) -> Ledger:
    budgets = {f"crowd {i}": {Unit.PARTY: Budget(9.0, 1e-5)} for i in range(crowds)}
    return Ledger(path / "l", {**budgets, "rows": {Unit.RECORD: rows}})


def released(ledger: Ledger, crowd: int = 0, **more):
    paid = {"ledger": ledger, "dataset": f"crowd {crowd}", "auxiliary_dataset": "rows", **more}
    auxiliary = paid.pop("auxiliary", SECRET)
    sent = paid.pop("sent", SENT)
    return ENSEMBLE.aggregate(sent, auxiliary, enrolled=10 + crowd, **paid).release


def debits(ledger: Ledger) -> dict[str, int]:
    return {balance.dataset: balance.debits for balance in ledger.balances()}


def test_every_crowd_pays_from_the_budget_of_the_rows(tmp_path):
    ledger = ledger_with(tmp_path, Budget(1.6, 1e-5), crowds=5)
    for crowd in range(2):
        released(ledger, crowd)
    for crowd in range(2, 5):
        with pytest.raises(BudgetError, match="the budget of 'rows': epsilon"):
            released(ledger, crowd)
    expected = {"crowd 0": 1, "crowd 1": 1, "crowd 2": 0, "crowd 3": 0, "crowd 4": 0, "rows": 2}
    assert debits(ledger) == expected
    balance = {b.dataset: b for b in ledger.balances()}
    assert 1.0 < balance["rows"].spent <= 1.6
    assert balance["crowd 0"].spent == pytest.approx(1.0, rel=1e-3)
    assert [set(entry.also) for entry in ledger.history()] == [{"rows"}, {"rows"}]


def test_a_crowd_that_cannot_pay_costs_the_rows_nothing(tmp_path):
    ledger = ledger_with(tmp_path, Budget(9.0, 1e-5))
    Ledger(ledger.path, {"poor": {Unit.PARTY: Budget(0.5, 1e-5)}})
    with pytest.raises(BudgetError, match="'poor'"):
        released(ledger, 5, dataset="poor")
    assert debits(ledger)["rows"] == 0


def test_the_release_states_what_both_were_charged(tmp_path):
    ledger = ledger_with(tmp_path, Budget(9.0, 1e-5))
    release = released(ledger)
    per_party, per_record = release.guarantees
    assert (per_party.unit, per_record.unit) == (Unit.PARTY, Unit.RECORD)
    (entry,) = ledger.history()
    assert entry.charges == ((Unit.PARTY, per_party.event),)
    assert entry.also == {"rows": ((Unit.RECORD, per_record.event),)}
    assert "Protects each record of the auxiliary rows" in str(per_record)
    charged = Guarantee(unit=Unit.RECORD, event=per_record.event, delta=1e-5)
    with pytest.raises(UnitError, match="tables"):
        compose([per_record, charged], delta=1e-5)


def test_no_name_of_protected_rows_is_written_down_or_released(tmp_path):
    """A hash of rows is a test for guesses: neither the history nor the release has one."""
    ledger = ledger_with(tmp_path, Budget(9.0, 1e-5))
    release = released(ledger)
    (entry,) = ledger.history()
    published = repr(entry.parameters) + repr(manifest_of(release))
    for name in (SECRET.grid, *SECRET.hashes, SECRET.fingerprint().split()[-1]):
        assert name.removeprefix("sha256:") not in published


def test_the_same_request_gets_the_same_bytes_and_costs_both_once(tmp_path):
    ledger = ledger_with(tmp_path, Budget(9.0, 1e-5))
    assert released(ledger) == released(ledger, sent=SENT[::-1])
    assert debits(ledger) == {"crowd 0": 1, "crowd 1": 0, "rows": 1}
    released(ledger, request="march")
    assert released(ledger, request="march", sent=SENT[:2]) == released(ledger, request="march")
    assert debits(ledger)["rows"] == 2


def test_a_name_is_bound_to_the_data_sets_that_paid_and_not_to_their_rows(tmp_path):
    ledger = ledger_with(tmp_path, Budget(9.0, 1e-5))
    Ledger(ledger.path, {"other rows": {Unit.RECORD: Budget(9.0, 1e-5)}})
    changed = AuxiliaryRows.read(SECRET.given + 1, pipeline=PIPELINE)
    voting = replace(ENSEMBLE, method="majority-model")

    def ask(rows: AuxiliaryRows, name: str):
        paid = {"ledger": ledger, "dataset": "crowd 0", "auxiliary_dataset": name}
        sent = contributions(3, rows, statistic="votes")
        return voting.aggregate(sent, rows, enrolled=10, request="march", **paid).release

    first = ask(SECRET, "rows")
    with pytest.raises(RequestConflictError):
        ask(changed, "other rows")
    for rows in (SECRET, changed):
        assert ask(rows, "rows") == first
    assert debits(ledger)["other rows"] == 0


def test_rows_have_one_name_whatever_their_order_or_columns(tmp_path):
    ledger = ledger_with(tmp_path, Budget(9.0, 1e-5))
    columns = {f"x{j}": SECRET.given[:, j] for j in range(3)}
    table = pa.table({**columns, "name": [f"n{i}" for i in range(30)]})
    names = [column.name for column in PIPELINE.columns]
    table = table.rename_columns([*names, "name"])
    rows = AuxiliaryRows.read(table, pipeline=PIPELINE)
    released(ledger, 0, auxiliary=rows, sent=contributions(3, rows))
    Ledger(ledger.path, {"rows again": {Unit.RECORD: Budget(9.0, 1e-5)}})
    fewer = AuxiliaryRows.read(table.select(names[:2]), features=names[:2]).pipeline
    for other in (
        AuxiliaryRows.read(table.take(np.arange(30)[::-1]), pipeline=PIPELINE),
        AuxiliaryRows.read(table, pipeline=fewer),
    ):
        assert other.fingerprint() == rows.fingerprint()
        sent = contributions(3, other)
        with collected_notes() as notes:
            released(ledger, 1, auxiliary=other, sent=sent, auxiliary_dataset="rows again")
        assert "under the name 'rows'" in str(notes)
        released(ledger, 1, auxiliary=other, sent=sent)
    with collected_notes() as notes:  # without the column of names they are not recognised
        released(ledger, 1, auxiliary_dataset="rows again", request="march")
    assert "'rows'" not in str(notes)
    assert debits(ledger) == {"crowd 0": 1, "crowd 1": 5, "rows": 3, "rows again": 3}


def test_what_to_do_is_said_where_nobody_pays_for_the_rows(tmp_path):
    ledger = ledger_with(tmp_path, Budget(9.0, 1e-5))
    for name in (None, ""):
        with pytest.raises(ParameterError, match=r"ledger init .* --unit record.*--aux-dataset"):
            released(ledger, auxiliary_dataset=name)
    with pytest.raises(LedgerError, match="no data set 'nowhere'"):
        released(ledger, auxiliary_dataset="nowhere")
    with pytest.raises(ParameterError, match="data set of its own"):
        released(ledger, auxiliary_dataset="crowd 0")
    with pytest.raises(ParameterError, match="only with --private-aux"):
        PrivateEnsemble(1.0, 1e-5, "soft", classes=THREE).aggregate(
            SENT, SECRET, enrolled=10, ledger=ledger, dataset="crowd 0", auxiliary_dataset="rows"
        )
    with pytest.raises(ParameterError, match="Without a ledger"):
        released(None, dataset=None)
    with pytest.raises(ParameterError, match="must not say where they are"):
        released(ledger, found_at="https://example.org/rows.csv")
    assert set(debits(ledger).values()) == {0}
    free = released(None, dataset=None, auxiliary_dataset=None)
    assert [str(g.unit) for g in free.guarantees] == ["party", "record"]


def test_the_rows_are_not_charged_as_a_party(tmp_path):
    """The rows are charged per record only: nothing is promised about a party of theirs."""
    ledger = ledger_with(tmp_path, Budget(9.0, 1e-5))
    Ledger(ledger.path, {"owned": {Unit.PARTY: Budget(9.0, 1e-5)}})
    with pytest.raises(UnitError, match="'owned'"):
        released(ledger, auxiliary_dataset="owned")
    assert set(debits(ledger).values()) == {0}


@pytest.mark.parametrize("cell", ["1", "0.5", "-3e9", ""])
@pytest.mark.parametrize("note", ["7", "seven", "0.5", "\xff"])
def test_no_type_is_read_off_a_protected_row(tmp_path, cell, note):
    """66,000 rows of integers came first, and a decimal could not be read any more."""
    pipeline = AuxiliaryRows.read(pa.table({"x": np.arange(50.0) ** 2}), missing="zero").pipeline
    path = tmp_path / "rows.csv"
    path.write_text("x,note\n" + "1,1\n0,1\n" * 33_000 + f"{cell},{note}\n", encoding="latin-1")
    rows = AuxiliaryRows.read(path, pipeline=pipeline)
    assert rows.count == 66_001
    assert rows.fingerprint().startswith("auxiliary rows sha256:")


def test_the_types_of_a_pipeline_leave_the_names_of_rows_as_they_are(tmp_path):
    """Numbers that are categories, by their looks or not: the same hash as without a pipeline."""
    table = pa.table({"x": [1.0, 2.5, 3.0] * 9, "code": [1, 2, 3] * 9, "ward": ["a", "b", "c"] * 9})
    csv.write_csv(table, tmp_path / "rows.csv")
    fitted = AuxiliaryRows.read(
        table, categories={"code": ["1", "2", "3"], "ward": ["a", "b", "c"]}
    )
    for data in (table, tmp_path / "rows.csv"):
        again = AuxiliaryRows.read(data, pipeline=fitted.pipeline)
        assert again.hashes == fitted.hashes
        np.testing.assert_array_equal(again.rows, fitted.rows)
