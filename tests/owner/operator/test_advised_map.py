"""The default map of a mean operator: what public rows advise, whatever labels and files are."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import suffice as sf
from suffice.errors import ParameterError
from suffice.owner.mean_operator import MeanOperator, kernel_map
from suffice.plain_text import collected_notes

ROWS = np.random.default_rng(0).normal(size=(1200, 3))
LABELS = (ROWS[:, 0] * ROWS[:, 1] > 0).astype(int)


def test_the_default_is_the_map_of_the_advice_and_a_note_says_so():
    with collected_notes() as lines:
        made = MeanOperator(1.0, 1e-6).release(ROWS, LABELS, ledger=None)
    advised = sf.advise(ROWS, 1.0, 1e-6, private="labels").best.map
    assert f"{made.pipeline.map.kind}:{made.pipeline.map.size}" == advised == "ranks+kernel:50"
    assert any(advised in line and "--map none" in line for line in lines)
    plain = MeanOperator(1.0, 1e-6, map=None).release(ROWS, LABELS, ledger=None)
    assert plain.pipeline.map is None


def test_a_default_that_clips_more_than_one_row_in_twenty_says_what_the_forecast_says():
    with collected_notes() as lines:
        made = MeanOperator(0.3, 1e-6).release(ROWS, LABELS, ledger=None)
    share = 100 * made.pipeline.clipped
    assert share > 5
    (line,) = (line for line in lines if "are shortened" in line)
    left, fewer = (float(part.split(" %")[0]) for part in line.partition("leaves ")[2].split("and"))
    assert line.startswith(f"{share:.0f} % of the public rows are shortened.")
    assert left > fewer
    asked = MeanOperator(0.3, 1e-6, clip=0.5)
    with collected_notes() as lines:
        assert asked.release(ROWS, LABELS, ledger=None).pipeline.clipped == 0.5
    assert not any("are shortened" in line for line in lines)


def test_labels_and_files_do_not_change_the_map(tmp_path):
    table = pa.table({f"x{j}": ROWS[:, j] for j in range(3)})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=100)
    operator = MeanOperator(1.0, 1e-6)
    pipelines = [
        operator.release(table, LABELS, ledger=None).pipeline,
        operator.release(table, 1 - LABELS, ledger=None).pipeline,
        operator.release(tmp_path / "rows.parquet", LABELS, ledger=None).pipeline,
    ]
    assert len({pipeline.digest() for pipeline in pipelines}) == 1


def test_a_given_pipeline_keeps_its_map_and_other_pipelines_do_not_merge():
    operator = MeanOperator(1.0, 1e-6)
    first, second = slice(0, 600), slice(600, 1200)
    one, other = (operator.release(ROWS[p], LABELS[p], ledger=None) for p in (first, second))
    with pytest.raises(ParameterError, match="--pipeline-from"):
        sf.merge([one, other])
    agreed = MeanOperator(1.0, 1e-6, pipeline=one.pipeline)
    merged = sf.merge([one, agreed.release(ROWS[second], LABELS[second], ledger=None)])
    assert merged.pipeline == one.pipeline


def test_a_map_has_fewer_components_than_rows_differ_and_costs_seconds():
    assert kernel_map(100_000, 1.0) == "ranks+kernel:400"
    assert kernel_map(1_000_000, 1.0) == "ranks+kernel:100"
    assert kernel_map(100_000_000, 1.0) is None
    assert kernel_map(100_000, 1.0, different=50) is None
    few = np.repeat([[0.0, 1.0], [1.0, 0.0]], 200, axis=0)
    made = MeanOperator(1.0).release(few, np.repeat([0, 1], 200), ledger=None)
    assert made.pipeline.map is None or made.pipeline.map.kind == "ranks"
    answers = MeanOperator(1.0, mechanism="response").release(ROWS, LABELS, ledger=None)
    assert answers.pipeline.map is None
