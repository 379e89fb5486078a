"""Fits on rows that stay in their table: models as of rows in memory to 1e-8, and errors."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from suffice.engines.engine import Computing
from suffice.engines.streamed import StreamedRows
from suffice.errors import ForeignRowsError, ParameterError, TableError
from suffice.learner import problem as learner_rows
from suffice.learner.fit import fit
from suffice.learner.operator import FactoredClassifier
from suffice.models import problem as rows_module
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.parties.contribution import AuxiliaryRows
from suffice.owner.parties.ensemble import PrivateEnsemble
from suffice.owner.parties.gathering import Enrolled, VoteTally
from suffice.releases.merge import merge
from suffice.releases.release import Release
from suffice.tables import files
from suffice.tables import table as tables_table
from suffice.tables.sources import Concatenated, open_table

ROWS = 900
CUTS = (0, 300, 500, 900)
NAMES = ("lie", "sit", "walk")


def table_of(classes: int) -> pa.Table:
    generator = np.random.default_rng(classes)
    rows = generator.normal(size=(ROWS, 4))
    codes = np.digitize(rows[:, 0] + generator.logistic(size=ROWS) / 3, [-0.5, 0.5])
    labels = np.array(NAMES)[np.minimum(codes, classes - 1)]
    return pa.table({**{f"x{j}": rows[:, j] for j in range(4)}, "label": labels})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("streaming")
    for classes in (2, 3):
        table = table_of(classes)
        pq.write_table(table, path / f"{classes}.parquet", row_group_size=70)
        pa.csv.write_csv(table, path / f"{classes}.csv")
    return path


@pytest.fixture
def streams(monkeypatch):
    """Return a switch: rows stay in files from now on, in small parts; samples are small too."""
    monkeypatch.setattr(rows_module, "_SAMPLE_CELLS", 1500)
    monkeypatch.setattr(files, "_PART_ROWS", 130)
    monkeypatch.setattr(tables_table, "BATCH_ROWS", 64)
    return lambda: monkeypatch.setattr(learner_rows, "_HELD_BYTES", 0)


def releases_of(classes: int, kind: str, epsilon: float) -> list[Release]:
    """Return one release, that of three owners, or theirs apart; ``kind`` also says of what."""
    words = kind.split()
    mechanism = {"answers": "response"}.get(words[-1], "laplace")
    options = {"epsilon": epsilon, "classes": NAMES[:classes], "mechanism": mechanism}
    table = table_of(classes)
    cuts = CUTS if words[0] in ("merged", "several") else (0, ROWS)
    releases: list[Release] = []
    for start, end in pairwise(cuts):
        agreed = {"pipeline": releases[0].pipeline} if releases else {}
        rows = table.slice(start, end - start)
        releases.append(
            MeanOperator(**options, map=None, **agreed).release(rows, label="label", ledger=None)
        )
    return [merge(releases)] if words[0] == "merged" else releases


def assert_same(in_memory: FactoredClassifier, streamed: FactoredClassifier) -> None:
    assert isinstance(streamed._evidence.problems[0].rows, StreamedRows)
    assert not isinstance(in_memory._evidence.problems[0].rows, StreamedRows)
    assert streamed.theta_ == pytest.approx(in_memory.theta_, rel=0, abs=1e-8)
    assert streamed.lam_ == pytest.approx(in_memory.lam_, rel=1e-12)
    assert streamed.intercept_only_ == in_memory.intercept_only_
    # Without a penalty noise can make a risk of 1e4 and more: there floats have fewer digits left.
    assert streamed.risk_ == pytest.approx(in_memory.risk_, rel=1e-8, abs=1e-8)
    assert streamed.risk_interval_ == pytest.approx(in_memory.risk_interval_, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("kind", ["one", "merged", "several", "one of answers", "several answers"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_models_are_those_of_rows_in_memory(folder, streams, classes, kind, suffix):
    releases = releases_of(classes, kind, 3.0)
    rows = folder / f"{classes}.{suffix}"
    in_memory = FactoredClassifier().fit_release(releases, rows)
    streams()
    streamed = FactoredClassifier().fit_release(releases, rows, workers=3)
    assert_same(in_memory, streamed)
    assert streamed.coef_interval_ == pytest.approx(in_memory.coef_interval_, abs=1e-7)


@pytest.mark.parametrize("epsilon", [3.0, 0.01], ids=["signal", "noise"])
@pytest.mark.parametrize("penalty", ["l2", "l1", "none"])
@pytest.mark.parametrize("loss", ["square", "matsushita", "logistic"])
def test_any_loss_and_penalty_and_a_projected_operator(folder, streams, loss, penalty, epsilon):
    releases = releases_of(2, "several", epsilon)
    in_memory = FactoredClassifier(loss, penalty).fit_release(releases, folder / "2.parquet")
    streams()
    streamed = FactoredClassifier(loss, penalty).fit_release(releases, folder / "2.parquet")
    assert_same(in_memory, streamed)


@pytest.mark.parametrize("loss", ["logistic", "square"])
def test_votes_of_parties_are_shrunk_in_white_coordinates(folder, streams, loss, rng):
    rows = open_table(table_of(3).select([f"x{j}" for j in range(4)]))
    auxiliary = AuxiliaryRows.read(rows)
    tally = VoteTally(auxiliary, NAMES, Enrolled(60))
    truth = np.digitize(table_of(3)["x0"].to_numpy(), [-0.5, 0.5])
    guesses = rng.integers(0, 3, size=(60, ROWS))
    tally.add([f"p{i}" for i in range(60)], np.where(rng.random((60, 1)) < 0.8, truth, guesses))
    ensemble = PrivateEnsemble(3.0, 1e-5, "vote-table", classes=NAMES)
    release = ensemble.aggregate(tally, auxiliary, enrolled=60, ledger=None).release
    in_memory = fit(release, folder / "3.parquet", loss=loss)
    streams()
    streamed = fit(release, folder / "3.parquet", loss=loss)
    assert_same(in_memory, streamed)


# --- which rows stay where they are


@pytest.mark.parametrize("size", [0, 1])
def test_rows_stay_in_files_beyond_the_limit_and_tables_in_memory_are_held(
    folder, monkeypatch, size
):
    (release,) = releases_of(2, "one", 1.0)
    exactly = ROWS * len(release.pipeline.outputs) * 8
    monkeypatch.setattr(learner_rows, "_HELD_BYTES", exactly - size)
    files_, frame = folder / "2.parquet", table_of(2)
    for data, stays in ((files_, size == 1), (frame, False), (frame.to_pandas(), False)):
        (rows,) = learner_rows.public_rows(data, [release], Computing())
        assert isinstance(rows, StreamedRows) == stays
        assert rows.shape == (ROWS, 5)
    both = Concatenated([open_table(files_), open_table(frame)])
    with pytest.raises(ForeignRowsError, match="there are 1800"):
        learner_rows.public_rows(both, [release], Computing())


def test_an_engine_that_is_elsewhere_gets_every_table(folder):
    (release,) = releases_of(2, "one", 1.0)
    with pytest.raises(ParameterError, match="no engine 'abacus'"):
        fit(release, folder / "2.parquet", engine="abacus")
    with pytest.raises(ParameterError, match="scheduler"):
        fit(release, folder / "2.parquet", scheduler="tcp://127.0.0.1:1")


def test_the_number_of_passes_stays_small(folder, streams):
    """One for each step of the solver, two to polish, and few others.

    These check the rows, and compute second moments, the risk and its least value. The sample is
    of 300 rows here; where it has more, the solver needs fewer steps. How many it needs depends on
    the noise: 40 fits had 14 to 16 passes.
    """
    rows_read: list[int] = []
    (release,) = releases_of(2, "one", 3.0)
    streams()
    model = fit(release, folder / "2.parquet", progress=rows_read.append)
    model.to_release()
    assert sum(rows_read) % ROWS == 0
    assert sum(rows_read) // ROWS <= 18
    before = sum(rows_read)
    assert model.risk_interval_[0] < model.risk_ < model.risk_interval_[1]
    assert sum(rows_read) == before


# --- rows that are not those of the release


@pytest.mark.parametrize("kind", ["one", "several", "one of answers"])
def test_other_rows_are_refused_before_anything_is_learnt(streams, tmp_path, kind):
    releases = releases_of(2, kind, 1.0)
    streams()
    table = table_of(2)
    cell = table["x1"].to_numpy().copy()
    cell[444] += 1e-12
    lacking = pa.array(cell, mask=np.arange(ROWS) == 444)
    order = np.arange(ROWS)
    order[[299, 300]] = [300, 299]
    others = {
        "do not match the release": table.set_column(1, "x1", pa.array(cell)),
        "missing": table.set_column(1, "x1", lacking),
        r"belongs to \d+ rows, but there are \d+": table.slice(0, ROWS - 1),
        "there are 901": pa.concat_tables([table, table.slice(0, 1)]),
    }
    if kind != "one":  # across two owners, or of answers row by row
        others["order of rows, differs"] = table.take(pa.array(order))
    for message, other in others.items():
        pq.write_table(other, tmp_path / "other.parquet", row_group_size=70)
        with pytest.raises(ForeignRowsError, match=message):
            fit(releases, tmp_path / "other.parquet")


def test_the_same_rows_twice_are_refused(streams, tmp_path):
    table = table_of(2)
    classes = NAMES[:2]
    operator = MeanOperator(1.0, mechanism="laplace", classes=classes, map=None)
    first = operator.release(table, label="label", ledger=None)
    reversed_rows = table.take(pa.array(np.arange(ROWS)[::-1]))
    options = {"mechanism": "response", "pipeline": first.pipeline, "classes": classes}
    second = MeanOperator(1.0, **options).release(reversed_rows, label="label", ledger=None)
    pq.write_table(pa.concat_tables([table, reversed_rows]), tmp_path / "rows.parquet")
    streams()
    with pytest.raises(ParameterError, match="same rows"):
        fit([first, second], tmp_path / "rows.parquet")


def test_rows_that_change_after_the_fit_are_noticed_by_the_next_interval(streams, tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(table_of(2), path, row_group_size=70)
    (release,) = releases_of(2, "one", 1.0)
    streams()
    model = fit(release, path)
    pq.write_table(table_of(3).drop_columns("label"), path, row_group_size=70)
    with pytest.raises(TableError, match="changed while it was read"):
        model.coef_interval()


def test_scores_of_many_rows_are_computed_batch_by_batch(folder, streams):
    (release,) = releases_of(3, "one", 3.0)
    model = fit(release, table_of(3))
    scores = model.decision_function(folder / "3.parquet")
    streams()
    assert np.array_equal(model.decision_function(folder / "3.parquet"), scores)
    empty = table_of(3).slice(0, 0)
    with pytest.raises(TableError, match="no rows"):
        model.predict(empty)
