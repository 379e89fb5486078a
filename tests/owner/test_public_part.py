"""What a release shows in public is a function of the set of public rows, through real files.

Neighbouring data are in tests/audit/test_neighbour_pairs.py.
"""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from suffice.engines.engine import fold
from suffice.errors import TableError
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.source import PublicSource, unlabelled_batches
from suffice.tables import sources
from suffice.tables import table as tables_table

MAPS = (None, "rff:24", "nystroem:20", "polynomial:2", "pca:3", "whiten:3")


# --- order, split, batch and format


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(5)
    rows = 2_000
    columns = {f"x{j}": rng.normal(size=rows) * 10.0**j for j in range(-2, 3)}
    few = rng.integers(0, 3, rows).astype(float)  # rows that occur more than once
    few[::50] = -0.0
    public_columns = {**columns, "few": few, "ward": rng.choice(["a", "b", "c"], rows)}
    rows_of_table = pa.table(public_columns)
    return pa.concat_tables([rows_of_table, rows_of_table.slice(0, 300)])


def fitted(path, map_spec):
    return MeanOperator(1.0, map=map_spec).public_rows(path, "label")


def public_numbers(path, pipeline=None, map_spec=None) -> tuple:
    """Return every public number of a release of this file: pipeline, reach, sensitivity, rows."""
    numbers = []
    for mechanism in ("laplace", "gaussian"):
        options = {"pipeline": pipeline} if pipeline else {"map": map_spec}
        operator = MeanOperator(1.0, 1e-6, mechanism, **options)
        public = operator.public(PublicSource(path, label="label"))
        exact = operator.choose(public).accumulator(identified=False)
        fold(unlabelled_batches(public.rows.table, public.shown), exact)
        numbers += [repr(exact.sensitivity), exact.rows.result()]
        numbers.append(public.rows.pipeline.digest())
    return tuple(numbers)


def write(table: pa.Table, path, kind: str, parts: int, rng) -> None:
    """Write a file, or a folder of files that hold different numbers of rows."""
    write_one = {
        "csv": pa.csv.write_csv, "parquet": pq.write_table, "feather": pa.feather.write_feather,
    }[kind]  # fmt: skip
    if parts == 1:
        write_one(table, path)
        return
    path.mkdir()
    cuts = np.sort(rng.integers(0, table.num_rows, parts - 1))
    for k, (start, end) in enumerate(itertools.pairwise([0, *cuts, table.num_rows])):
        write_one(table.slice(start, end - start), path / f"{k:02}.{kind}")


@pytest.mark.parametrize("map_spec", MAPS, ids=str)
def test_public_numbers_are_a_function_of_the_set_of_rows(table, map_spec, tmp_path, monkeypatch):
    """CSV, Parquet and Feather; batches of 1,000 to 10^6 rows; random orders; 1 to 50 parts."""
    rng = np.random.default_rng(0)
    labelled = table.append_column("label", pa.array(np.arange(table.num_rows) % 2))
    pq.write_table(labelled, tmp_path / "first.parquet")
    expected = public_numbers(tmp_path / "first.parquet", map_spec=map_spec)
    pipeline = fitted(tmp_path / "first.parquet", map_spec).pipeline
    cases = (("csv", 1_000, 1), ("parquet", 10**6, 50), ("feather", 1_999, 7), ("csv", 10**6, 2))
    for k, (kind, batch_rows, parts) in enumerate(cases):
        monkeypatch.setattr(tables_table, "BATCH_ROWS", batch_rows)
        path = tmp_path / (f"{k}.{kind}" if parts == 1 else f"folder{k}")
        write(labelled.take(rng.permutation(labelled.num_rows)), path, kind, parts, rng)
        assert public_numbers(path, map_spec=map_spec) == expected, (kind, batch_rows, parts)
        loaded = public_numbers(path, pipeline=pipeline)
        assert loaded == expected, (kind, batch_rows, parts, "loaded")


@pytest.mark.parametrize("map_spec", MAPS, ids=str)
def test_mapped_rows_do_not_depend_on_their_batch(table, map_spec, tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(table.append_column("label", pa.array(np.zeros(table.num_rows))), path)
    pipeline = fitted(path, map_spec).pipeline
    (batch,) = table.combine_chunks().to_batches()
    one_batch = pipeline.transform(batch)
    for start, size in ((0, 1), (3, 2), (100, 129), (500, 1_700)):
        part = pipeline.transform(batch.slice(start, size))
        np.testing.assert_array_equal(part, one_batch[start : start + size])


# --- types


def test_a_private_cell_moves_no_type(tmp_path):
    """The label's cells and length say nothing about the types of the other columns."""
    for name, label in (
        ("short", "a"),
        ("long", "b" * 60),
        ("number", "1"),
        ("date", "2020-01-01"),
    ):
        rows = "".join(f"{k},{label}\n" for k in range(70_000))
        (tmp_path / f"{name}.csv").write_text("x,label\n" + rows)
        opened = sources.open_table(tmp_path / f"{name}.csv", text=["label"])
        assert opened.schema == pa.schema([("x", pa.int64()), ("label", pa.string())])


def test_types_come_from_a_fixed_number_of_rows(tmp_path):
    """A point among the first 65,536 rows makes a column of decimals, a later one does not.

    Whatever the length of labels, which decides how many rows the first block of bytes has.
    """
    for label in ("a", "a" * 60):
        for after, kind in ((65_535, pa.float64()), (65_536, None)):
            path = tmp_path / f"{after}.csv"
            path.write_text("x,label\n" + f"1,{label}\n" * after + f"0.5,{label}\n")
            if kind is not None:
                assert sources.open_table(path, text=["label"]).schema.field("x").type == kind
                continue
            with pytest.raises(TableError, match="does not fit its type"):
                list(sources.open_table(path, text=["label"]).batches(["x"]))


# --- whether a file can be read at all


def released(path, mechanism, **options) -> str:
    return mechanism.release(path, label="label", ledger=None, **options).kind


def test_the_length_of_a_label_does_not_decide_whether_a_column_that_nobody_uses_can_be_read(
    tmp_path,
):
    """A text after 65,536 numbers, before or behind the end of the first block of bytes."""
    path = tmp_path / "t.csv"
    for label in ("no", "malignant stage unknown"):
        rows = [f"0.{k % 7},12,no\n" for k in range(110_000)]
        rows[3] = f"0.1,12,{label}\n"
        rows[(1 << 20) // len(rows[0]) - 3] = "0.1,A1,no\n"
        path.write_text("x,code,label\n" + "".join(rows))
        operator = MeanOperator(1.0, classes=("no", "malignant stage unknown"), map=None)
        assert released(path, operator, features=["x"]) == "mean-operator"


def test_a_line_end_in_quotes_is_no_end_of_a_row(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f'0.{k % 9},"a\nb",{"no" if k % 2 else "yes"}\n' for k in range(60_000)]
    path.write_text("x,note,label\n" + "".join(rows))
    operator = MeanOperator(1.0, classes=("no", "yes"), map=None)
    assert released(path, operator, features=["x"]) == "mean-operator"


def test_a_class_may_be_called_as_missing_values_often_are(tmp_path):
    path = tmp_path / "t.csv"
    for words in (("NA", "yes"), ("null", "nan")):
        path.write_text("x,label\n" + "".join(f"{k * k},{words[k % 2]}\n" for k in range(20)))
        assert released(path, MeanOperator(1.0, classes=words, map=None)) == "mean-operator"


@pytest.mark.parametrize("cell", ["1", "0.5", "1e0"])
@pytest.mark.parametrize("options", [{"ranges": (0, 1)}, {"standardize": "none", "bound": 1.0}])
def test_no_type_is_read_off_a_private_record(tmp_path, cell, options):
    from suffice.owner.rados import Rados
    from suffice.owner.responses import RandomizedResponse

    path = tmp_path / "t.csv"
    path.write_text("x,label\n" + "1,0\n0,1\n" * 32_800 + f"{cell},0\n")
    rados = Rados(count=4, epsilon=1.0, delta=1e-6, unit="record", **options)
    assert released(path, rados) == "rados"
    records = RandomizedResponse(label_flip=0.3, ranges=(0, 1), feature_noise=1.0)
    assert released(path, records) == "responses"


def test_labels_of_several_types_are_what_they_spell():
    X = np.arange(6.0)[:, None]
    for strange in (1, True, "1", 1.0):
        labels = np.array([0, 1, strange, 0, 1, 0], dtype=object)
        assert MeanOperator(1.0, map=None).release(X, labels, ledger=None).rows == 6
