"""What travels to workers and back: accumulators that are small, whole in any tree, and silent."""

import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import engine_cases
from engine_cases import (
    Here,
    debits,
    every_type,
    folded,
    merged_at_random,
    patients,
    released_on,
    write_pieces,
)
from suffice import errors
from suffice.engines.engine import Cluster, Dask, Outcome, Threads, open_engine, read_run
from suffice.engines.summary import PublicSummary
from suffice.errors import EngineError, ParameterError, TableError
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.rados import Rados
from suffice.owner.responses import RandomizedResponse
from suffice.tables.sources import open_table
from suffice.tables.table import rows_parts

MARK = "quoted-cell-4711"


@pytest.fixture(scope="module")
def pieces(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pieces") / "table"
    return write_pieces(patients(), folder, [10, 2000, 2500, 5990])


class AtOnce(Cluster):
    """A cluster of this process, whose tasks come and go as pickles."""

    name = "at once"

    def connect(self) -> int:
        return 2

    def tasks(self, empty):
        sent = pickle.dumps(empty)
        from contextlib import nullcontext

        def start(run):
            done = read_run(pickle.loads(sent), pickle.loads(pickle.dumps(run)))
            return Sent(pickle.dumps(done))

        return nullcontext(start)


class Sent:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def result(self) -> Outcome:
        return pickle.loads(self.data)

    def cancel(self) -> None:
        del self.data


def test_a_cluster_finds_the_bits_of_one_thread(pieces):
    assert folded(pieces, AtOnce()) == folded(pieces, Threads(1))


def test_columns_of_every_type_travel(tmp_path):
    """Dictionaries, which differ from piece to piece, once ended in a traceback."""
    table = every_type()
    place = write_pieces(table, tmp_path / "table", [150, 300, 450], 70)
    summaries = []
    for engine in (Threads(1), AtOnce()):
        opened = open_table(place)
        names = opened.schema.names
        make = partial(PublicSummary, opened.schema)
        summaries.append(engine.fold(rows_parts(opened, names), make).result())
    first, second = summaries
    assert first.rows_hash == second.rows_hash
    assert (first.mean, first.counts, first.missing) == (second.mean, second.counts, second.missing)
    assert first.sample.rows.to_pylist() == second.sample.rows.to_pylist()
    assert min(first.missing[name] for name in names if name != "sick") > 0
    one = released_on(place, tmp_path / "ledger", AtOnce())
    assert released_on(place, tmp_path / "ledger", Threads(1)) == one
    assert debits(tmp_path / "ledger") == 1  # the same request: the same rows, pipeline and labels


def test_twenty_trees_of_neighbours_have_one_result(pieces):
    for name, case in engine_cases.cases(pieces).items():
        expected = case.facts(Threads(1).fold(case.parts, case.make))
        for seed in range(20):
            rng = np.random.default_rng(seed)
            start = partial(Here, case.make())
            assert merged_at_random(case, start, rng) == expected, (name, seed)


def test_a_tree_that_is_not_of_neighbours_is_noticed_where_rows_have_an_order(pieces):
    case = engine_cases.cases(pieces)["labels"]
    swapped = replace(case, parts=[*case.parts[1:], case.parts[0]])
    expected, other = (c.facts(Threads(1).fold(c.parts, c.make)) for c in (case, swapped))
    assert expected[0] == other[0]
    assert expected[1] != other[1]


def test_accumulators_travel_light(tmp_path):
    """An empty one knows the layout of a table and not the table, whatever its number of rows."""
    sizes = {}
    for rows in (3000, 60_000):
        table = write_pieces(patients(rows), tmp_path / str(rows), [1000])
        sizes[rows] = {
            name: (len(pickle.dumps(case.make())), len(pickle.dumps(case.parts[0])))
            for name, case in engine_cases.cases(table).items()
        }
    for name, (empty, part) in sizes[60_000].items():
        assert empty < sizes[3000][name][0] + 100, name
        assert empty < 8000, name
        assert part < sizes[3000][name][1] + 100, name  # 1,000 rows in both


def test_a_full_accumulator_holds_a_few_bytes_a_row_of_labels_and_no_row(tmp_path):
    table = write_pieces(patients(50_000), tmp_path / "table", [])
    for name, case in engine_cases.cases(table).items():
        outcome = read_run(case.make(), tuple(case.parts))
        added_bytes = len(pickle.dumps(outcome)) - len(pickle.dumps(case.make()))
        # Of a label: its code, whether it is of no class, its code to be hashed, its row's hash.
        most = {"summary": 20_000 * 60, "labels": 50_000 * 19}.get(name, 50_000)
        assert 0 < added_bytes < most + 2000, name


# --- errors


class Failing:
    """A part that fails as a library would: with a cell in its message."""

    rows, stays = 5, ""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def batches(self):
        raise self.error


@pytest.mark.parametrize(
    "error",
    [pa.ArrowInvalid(MARK), ValueError(MARK), MemoryError(MARK), KeyError(MARK), OSError(MARK)],
    ids=lambda error: type(error).__name__,
)
def test_what_a_library_says_of_a_cell_stays_where_it_was_said(error):
    outcome = read_run([], (Failing(error),))
    assert outcome.accumulator is None
    assert isinstance(outcome.error, EngineError)
    for text in (pickle.dumps(outcome).decode("latin-1"), repr(outcome), str(outcome.error)):
        assert MARK not in text


def test_our_own_errors_come_back_as_they_were():
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, errors.SufficeError):
            back = pickle.loads(pickle.dumps(read_run([], (Failing(error("say this")),)))).error
            assert type(back) is error
            assert str(back) == "say this"


def test_the_first_error_in_the_order_of_parts_is_raised(pieces):
    case = engine_cases.cases(pieces)["sums"]
    wrong = [Failing(TableError("first")), Failing(TableError("second"))]
    parts = [case.parts[0], wrong[0], case.parts[1], wrong[1]]
    with pytest.raises(TableError, match="first"):
        AtOnce().fold(parts, case.make)


def test_another_version_on_a_worker_is_an_error(pieces, monkeypatch):
    case = engine_cases.cases(pieces)["sums"]
    monkeypatch.setattr(Sent, "result", lambda sent: replace(pickle.loads(sent.data), version="0"))
    with pytest.raises(EngineError, match="Install one version"):
        AtOnce().fold(case.parts, case.make)


def test_progress_counts_every_row_once(pieces):
    case, row_counts = engine_cases.cases(pieces)["sums"], []
    AtOnce().fold(case.parts, case.make, row_counts.append)
    assert sum(row_counts) == engine_cases.ROWS


def test_an_error_of_the_caller_is_not_blamed_on_the_cluster(pieces):
    """A progress bar that breaks must not look like a cluster that did."""

    def broken(rows: int) -> None:
        raise RuntimeError(str(rows))

    case = engine_cases.cases(pieces)["sums"]
    for engine in (AtOnce(), Dask(client=Alone())):
        with pytest.raises(RuntimeError):
            engine.fold(case.parts, case.make, broken)


class Alone:
    """A client of dask whose only worker is this thread."""

    def nthreads(self) -> dict[str, int]:
        return {"here": 1}

    def submit(self, function, *arguments, pure: bool) -> "Known":
        assert not pure
        return Known(function(*(g.value if isinstance(g, Known) else g for g in arguments)))


class Known:
    def __init__(self, value) -> None:
        self.value = value

    def result(self, timeout: float):
        assert timeout
        return self.value

    def release(self) -> None:
        """Nothing is held."""


# --- what cannot be distributed, and how an engine is asked for


def test_what_stays_with_the_owner_says_why(tmp_path, pieces):
    table = patients(300)
    csv = tmp_path / "table.csv"
    pa.csv.write_csv(table, csv)
    operator = MeanOperator(1.0, mechanism="laplace", map=None)
    options = {"label": "sick", "ledger": None, "engine": AtOnce()}
    with pytest.raises(ParameterError, match=r"CSV file .* Parquet.*leave engine= out"):
        operator.release(csv, **options)
    with pytest.raises(ParameterError, match=r"memory of this process.*Parquet"):
        operator.release(table, **options)
    with pytest.raises(ParameterError, match=r"secret signs"):
        Rados().release(pieces, features=["age", "dose"], unprotected=True, **options)
    records = RandomizedResponse((0, 1), label_epsilon=1.0)
    with pytest.raises(ParameterError, match=r"holds every cell"):
        records.release(pieces, features=[], **options)


def test_engines_are_asked_for_by_name():
    assert isinstance(open_engine("threads", 3), Threads)
    assert open_engine(AtOnce()).name == "at once"
    with pytest.raises(ParameterError, match="threads, dask, spark"):
        open_engine("ray")
    with pytest.raises(ParameterError, match="There is no engine 'dict'"):
        open_engine({})
    with pytest.raises(ParameterError, match="scheduler="):
        open_engine("threads", scheduler="tcp://127.0.0.1:1")
    for name in ("threads", "dask"):
        with pytest.raises(ParameterError, match="at least 1"):
            open_engine(name, 0)


@pytest.mark.parametrize("name", ["dask", "spark"])
def test_an_engine_that_is_not_installed_says_how_to_install_it(name, monkeypatch):
    monkeypatch.setattr("suffice.engines.engine.find_spec", lambda _: None)
    with pytest.raises(ParameterError, match=rf"pip install 'suffice\[{name}\]'"):
        open_engine(name)


def test_parts_of_a_file_system_that_is_not_a_disk_travel(pieces):
    table = open_table(pieces)
    part = table.parts()[0]
    back = pickle.loads(pickle.dumps(part))
    assert [b.num_rows for b in back.batches(["age"])] == [10]
