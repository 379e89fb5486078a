"""The pool of threads: the same bits as one thread, errors in the order of rows, no more passes."""

import itertools
import threading
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import clinic_table
from engine_cases import folded, splits
from suffice.engines import engine as engines
from suffice.engines.engine import Computing, Threads, in_one_stream, open_engine, runs_of
from suffice.engines.summary import PublicSummary, SampleLimit
from suffice.errors import ParameterError, StorageError, TableError
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.rados import Rados
from suffice.privacy.guarantee import Budget, Unit
from suffice.tables import files


class Rows:
    """An accumulator that lists what it has taken in."""

    def __init__(self):
        self.values = []

    def update(self, batch):
        if batch[0] < 0:
            raise TableError(f"part {batch[0]} is bad.")
        self.values += batch

    def merge(self, other):
        self.values += other.values


@dataclass(frozen=True)
class Piece:
    values: list
    rows: int | None = None
    stays: str = ""

    def batches(self):
        return ([value] for value in self.values)


def pieces(sizes) -> list[Piece]:
    ends = np.cumsum([0, *sizes])
    return [Piece(list(range(a, b)), int(b - a)) for a, b in itertools.pairwise(ends)]


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 8))
def test_runs_hold_every_part_once_and_in_order(sizes, workers):
    parts = pieces(sizes)
    runs = list(runs_of(parts, workers))
    assert [part for run in runs for part in run] == parts
    assert all(runs)
    assert len(runs) <= 8 * workers + 1 + sum(size > sum(sizes) // (4 * workers) for size in sizes)


def test_a_run_of_several_parts_has_no_more_rows_than_a_task_may_hold(monkeypatch):
    monkeypatch.setattr(engines, "_MOST_RUN_ROWS", 10)
    runs = list(runs_of(pieces([4] * 100), 1))
    assert {len(run) for run in runs} == {2}
    assert [len(run) for run in runs_of(pieces([50, 50]), 1)] == [1, 1]  # a part is never cut


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_parts_are_merged_in_their_order_and_progress_counts_every_row(workers):
    parts, row_counts = pieces([3, 0, 7, 1, 20, 5, 5, 5, 9, 2, 2, 30]), []
    total = Threads(workers).fold(parts, Rows, row_counts.append)
    assert total.values == list(range(sum(part.rows for part in parts)))
    assert sum(row_counts) == len(total.values)


def test_the_first_error_in_the_order_of_rows_is_raised_whichever_came_first_in_time():
    slow = threading.Event()

    class Waiting(Piece):
        def batches(self):
            slow.wait(5)  # until the later part has failed
            yield [-1]

    class Hasty(Piece):
        def batches(self):
            slow.set()
            yield [-2]

    with pytest.raises(TableError, match="part -1 is bad"):
        Threads(2).fold([Waiting([], 1), Hasty([], 1)], Rows)


def test_others_stop_when_a_part_has_failed():
    started, read_parts = threading.Event(), []

    class Long(Piece):
        def batches(self):
            started.set()
            for _ in range(1000):  # of which a few are read, unless nobody stops the thread
                read_parts.append(1)
                yield [0]
                time.sleep(0.01)

    class Bad(Piece):
        def batches(self):
            started.wait(5)
            yield [-1]

    with pytest.raises(TableError):
        Threads(2).fold([Bad([], 1), Long([], 1)], Rows)
    assert 1 <= len(read_parts) < 1000


def test_no_more_runs_wait_to_be_merged_than_twice_the_threads():
    read, many, waited = [], threading.Event(), []

    class Slow(Piece):  # nothing can be merged before it
        def batches(self):
            many.wait(1)
            waited.append(len(read))
            return super().batches()

    class Quick(Piece):
        def batches(self):
            read.append(1)
            if len(read) > 3:
                many.set()
            return super().batches()

    total = Threads(2).fold([Slow([0]), *(Quick([i]) for i in range(1, 40))], Rows)
    assert total.values == list(range(40))
    assert waited[0] <= 3


def test_one_stream_is_read_by_one_thread():
    names = set()

    class Named(Piece):
        def batches(self):
            names.add(threading.current_thread().name)
            return super().batches()

    parts = [Named(piece.values, piece.rows) for piece in pieces([5] * 20)]
    total = Threads(4).fold(in_one_stream(parts, "it has secrets."), Rows)
    assert total.values == list(range(100))
    assert len(names) == 1


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_a_summary_of_parts_has_the_bits_of_one_pass(workers, monkeypatch):
    """Also with a sample that is full, and a limit that all parts share."""
    monkeypatch.setattr("suffice.engines.summary._MOST_SAMPLE_ROWS", 100)
    monkeypatch.setattr("suffice.engines.summary._LEAST_SAMPLE_ROWS", 10)
    table = clinic_table(4000).drop(["sick"])
    parts = [table.slice(a, 300) for a in range(0, 4000, 300)]

    @dataclass(frozen=True)
    class Slice:
        rows_of: pa.Table
        stays = ""

        @property
        def rows(self):
            return self.rows_of.num_rows

        def batches(self):
            return self.rows_of.to_batches(max_chunksize=70)

    def described(summary):
        sample = summary.sample
        fixed = (summary.rows, summary.rows_hash, summary.mean, summary.deviation, summary.counts)
        return fixed, sample.rows.to_pydict(), sample.weights.tolist()

    limit = SampleLimit()
    one_pass = Threads(1).fold([Slice(table)], lambda: PublicSummary(table.schema))
    shared = Threads(workers).fold(
        [Slice(part) for part in parts], lambda: PublicSummary(table.schema, limit=limit)
    )
    assert described(shared.result()) == described(one_pass.result())
    assert limit.key < np.iinfo(np.uint64).max  # it was used


def test_engines_are_opened_by_name_and_refuse_what_they_have_no_use_for():
    assert open_engine("threads", 3).workers == 3
    opened = Threads(2)
    assert open_engine(opened) is opened
    with pytest.raises(ParameterError, match="workers must be at least 1"):
        open_engine("threads", 0)
    with pytest.raises(ParameterError, match="scheduler= can be used only with"):
        open_engine("threads", scheduler="tcp://127.0.0.1:1")
    with pytest.raises(ParameterError, match="There is no engine 'ray'"):
        Computing(engine="ray").fold([], Rows)


# --- every statistic, and whole releases, from files


@pytest.mark.engines
def test_twenty_splits_on_threads_have_one_result(tmp_path, monkeypatch):
    """Every accumulator that can travel, on 2 to 6 threads, over files cut at random."""
    monkeypatch.setattr(files, "_PART_ROWS", 1)
    expected = None
    for folder, rng in splits(tmp_path):
        if expected is None:
            expected = folded(folder, Threads(1))
        assert folded(folder, Threads(int(rng.integers(2, 7)))) == expected


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder of Parquet files of several row groups, each of which is a part."""
    monkeypatch.setattr(files, "_PART_ROWS", 1)
    table, path = clinic_table(900), tmp_path / "rows"
    path.mkdir()
    for k in range(3):
        part = table.slice(300 * k, 300)
        pq.write_table(part, path / f"{k}.parquet", row_group_size=70)
    return path


def test_parts_of_a_folder_are_its_row_groups_in_order(folder):
    table = files.ArrowFiles(files.TableFile(folder), {})
    assert [part.rows for part in table.parts()] == [70, 70, 70, 70, 20] * 3
    part_batches = [batch for part in table.parts() for batch in part.batches(["age"])]
    assert (
        pa.Table.from_batches(part_batches)["age"].to_pylist()
        == clinic_table(900)["age"].to_pylist()
    )


@pytest.mark.parametrize("mechanism", ["laplace", "response"])
def test_a_release_has_one_public_part_whatever_the_workers(folder, mechanism):
    public_parts = set()
    for workers in (1, 2, 4):
        operator = MeanOperator(1.0, mechanism=mechanism, map=None)
        release = operator.release(folder, label="sick", ledger=None, workers=workers)
        public_parts.add((release.pipeline.digest(), repr(release.parts), repr(release.details)))
    assert len(public_parts) == 1


class _Changing(MeanOperator):
    """Changes a file after the public pass, as somebody else might."""

    def choose(self, public):
        change(public.rows.table.stored.place)
        return super().choose(public)


def change(path) -> None:
    raise NotImplementedError


def replaced(path):
    table = pq.read_table(path / "1.parquet")
    other = pa.array(np.roll(table["age"].to_numpy(), 1))
    pq.write_table(table.set_column(0, "age", other), path / "1.parquet", row_group_size=70)


def longer(path):
    table = pq.read_table(path / "1.parquet")
    pq.write_table(pa.concat_tables([table, table]), path / "1.parquet", row_group_size=70)


def shorter(path):
    pq.write_table(pq.read_table(path / "1.parquet").slice(0, 70), path / "1.parquet")


def gone(path):
    (path / "1.parquet").unlink()


def cut_off(path):
    content = (path / "1.parquet").read_bytes()
    (path / "1.parquet").write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    "happening",
    [
        (replaced, TableError, r"changed while it was read\. Nothing was charged"),
        (longer, TableError, r"changed while it was read\. Nothing was charged"),
        (shorter, (TableError, StorageError), "1.parquet"),
        (gone, StorageError, "1.parquet cannot be read"),
        (cut_off, TableError, "1.parquet is not a readable table"),
    ],
    ids=lambda happening: happening[0].__name__,
)
@pytest.mark.parametrize("workers", [1, 3])
def test_a_part_that_changes_between_the_passes_is_noticed_before_it_is_paid(
    folder, tmp_path, monkeypatch, happening, workers
):
    event, error, words = happening
    monkeypatch.setitem(globals(), "change", event)
    ledger = Ledger(tmp_path / "ledger", {"people": {Unit.LABEL: Budget(5.0)}})
    options = {"label": "sick", "ledger": ledger, "dataset": "people", "workers": workers}
    with pytest.raises(error, match=words):
        _Changing(1.0).release(folder, **options)
    assert list(ledger.history()) == []


def test_records_that_change_after_they_were_paid_for_are_not_drawn_from(folder, tmp_path):
    """Noise on every record is drawn in a second pass, which must be over the same records."""
    ledger = Ledger(tmp_path / "ledger", {"people": {Unit.RECORD: Budget(5.0, 1e-5)}})
    mechanism = Rados(
        unit="record", epsilon=1.0, delta=1e-6, noise_on="records", count=8,
        ranges={"age": (0, 100), "dose": (0, 6)}, categories={"ward": ["north", "south", "west"]},
    )  # fmt: skip
    passes = []

    def tell(rows):
        passes.append(rows)
        if sum(passes) == 900:  # the first pass has ended
            replaced(folder)

    options = {"label": "sick", "ledger": ledger, "dataset": "people"}
    with pytest.raises(TableError, match="changed while it was read, after it was charged"):
        mechanism.release(folder, **options, progress=tell)
    (charge,) = ledger.history()
    assert charge.state == "burnt"
