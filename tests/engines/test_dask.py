"""A dask cluster finds the bits of threads, whatever happens to its workers, and pays once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine_cases import (
    cases,
    debits,
    digests,
    every_type,
    folded,
    merged_at_random,
    new_ledger,
    patients,
    released_on,
    splits,
    write_pieces,
)
from suffice.engines.engine import Dask, Threads
from suffice.errors import EngineError, StorageError, TableError
from suffice.owner.mean_operator import MeanOperator
from suffice.releases.release import encode

ROWS = 60_000
MARK = "quoted-cell-4711"


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dask") / "table"
    return write_pieces(patients(ROWS), folder, list(range(5000, ROWS, 5000)))


@pytest.fixture(scope="module")
def engine():
    engine = Dask(workers=2)
    yield engine
    engine.close()


def pids(engine: Dask) -> list[int]:
    return list(engine._client.run(os.getpid).values())


def release(path: Path, ledger: Path, engine, progress=None) -> bytes:
    """Release under one name from a ledger, which answers the same request with the same bytes."""
    paid = {"ledger": new_ledger(ledger), "dataset": "patients", "request": "one"}
    operator = MeanOperator(1.0, mechanism="laplace", map=None)
    return encode(operator.release(path, label="sick", engine=engine, progress=progress, **paid))


def test_columns_of_every_type_are_those_of_threads(tmp_path, engine):
    place = write_pieces(every_type(), tmp_path / "table", [150, 300, 450], 70)
    first = released_on(place, tmp_path / "ledger", engine)
    assert released_on(place, tmp_path / "ledger", Threads(1)) == first
    assert debits(tmp_path / "ledger") == 1


def test_a_release_on_two_workers_is_that_of_threads(table, tmp_path, engine):
    """The ledger knows a request by its rows, its pipeline and its labels: all are the same."""
    row_counts = []
    first = release(table, tmp_path / "ledger", engine, row_counts.append)
    assert sum(row_counts) == 2 * ROWS
    assert release(table, tmp_path / "ledger", Threads(1)) == first
    assert debits(tmp_path / "ledger") == 1
    with pytest.raises(StorageError, match="cannot be read"):
        engine.fold(*gone(table, tmp_path))


def gone(table: Path, tmp_path: Path) -> tuple:
    """Return the parts of a table that is no longer there, and how its sums start."""
    copy = tmp_path / "gone.parquet"
    pq.write_table(pq.read_table(table), copy)
    case = cases(copy)["sums"]
    copy.unlink()
    return case.parts, case.make


def test_workers_of_ours_write_nothing_and_let_nobody_else_in(engine):
    engine.connect()
    config = engine._client.run(_memory)
    assert set(config.values()) == {(False, False)}
    address = engine._client.scheduler.address
    assert address.startswith("tls://127.0.0.1:")
    port = engine._client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.http_server.port)
    for page in ("info/main/workers.html", "metrics", "health", "json/counts.json", "status"):
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5)
    stranger = Dask(scheduler=address.replace("tls", "tcp"))
    with pytest.raises(EngineError):
        stranger.connect()
    stranger.close()


def _memory() -> tuple:
    import dask

    return tuple(dask.config.get(f"distributed.worker.memory.{k}") for k in ("target", "spill"))


def test_nothing_of_a_pass_stays_with_the_cluster(table, engine):
    case = cases(table)["labels"]
    engine.fold(case.parts, case.make)
    deadline = time.monotonic() + 10
    while any(engine._client.has_what().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(engine._client.has_what().values())


# --- at full length


@pytest.mark.engines
def test_twenty_splits_orders_and_trees_have_one_result(tmp_path, engine):
    engine.connect()
    expected = folded(write_pieces(patients(), tmp_path / "whole", []), Threads(1))
    for folder, rng in splits(tmp_path):
        engine.workers = int(rng.integers(1, 6))  # how parts are joined to runs
        assert folded(folder, engine) == expected
        for name, case in cases(folder).items():
            with engine.tasks(case.make()) as start:
                result_digests = digests({name: merged_at_random(case, start, rng)})
            assert result_digests[name] == expected[name], name
    engine.workers = 2


@pytest.mark.engines
@pytest.mark.parametrize("after", [0, 1], ids=["public pass", "private pass"])
def test_a_worker_killed_in_mid_pass_changes_no_bit_and_no_debit(table, tmp_path, engine, after):
    engine.connect()
    done, killed = [], []

    def kill(rows: int) -> None:
        done.append(rows)
        if not killed and sum(done) > after * ROWS:
            killed.append(pids(engine)[0])
            os.kill(killed[0], signal.SIGKILL)

    first = release(table, tmp_path / "ledger", engine, kill)
    assert killed
    assert sum(done) == 2 * ROWS
    assert killed[0] not in pids(engine)
    assert release(table, tmp_path / "ledger", Threads(1)) == first
    assert debits(tmp_path / "ledger") == 1


@pytest.mark.engines
@pytest.mark.parametrize("change", ["replaced", "vanished", "cut off", "a text"])
def test_a_part_that_changes_between_the_passes_is_noticed_and_costs_nothing(
    tmp_path, engine, change
):
    folder = write_pieces(patients(ROWS), tmp_path / "table", [20_000, 40_000])
    victim, done = folder / "002.parquet", []

    def meddle(rows: int) -> None:
        done.append(rows)
        if sum(done) != ROWS:
            return
        if change == "replaced":
            pq.write_table(patients(20_000, seed=9), victim)
        elif change == "vanished":
            victim.unlink()
        elif change == "cut off":
            victim.write_bytes(victim.read_bytes()[:-2000])
        else:
            other = pq.read_table(victim)
            texts = pa.array([MARK] * len(other))
            pq.write_table(other.set_column(0, "age", texts), victim)

    with pytest.raises((TableError, StorageError, EngineError)) as raised:
        release(folder, tmp_path / "ledger", engine, meddle)
    assert MARK not in str(raised.value)
    assert debits(tmp_path / "ledger") == 0


@pytest.mark.engines
def test_a_part_that_was_cut_off_before_is_a_clear_error(tmp_path, engine):
    folder = write_pieces(patients(3000), tmp_path / "table", [1000])
    path = folder / "001.parquet"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(TableError, match="not a readable table"):
        release(folder, tmp_path / "ledger", engine)
    assert debits(tmp_path / "ledger") == 0


@pytest.mark.engines
def test_workers_without_enough_memory_are_a_clear_error(tmp_path):
    from distributed import Client, LocalCluster

    rows = 1_500_000
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"x": np.zeros(rows), "sick": np.zeros(rows, int)}), path)
    small = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": "90MiB"}
    with (
        LocalCluster(**small, dashboard_address="127.0.0.1:0", silence_logs="CRITICAL") as cluster,
        Client(cluster) as client,
        pytest.raises(EngineError, match=r"memory|no workers"),
    ):
        release(path, tmp_path / "ledger", client)
    assert debits(tmp_path / "ledger") == 0


@pytest.mark.engines
def test_a_cluster_that_others_run_is_reached_by_its_address(table, tmp_path):
    from distributed import LocalCluster

    local = {"n_workers": 2, "threads_per_worker": 2, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**local, silence_logs="CRITICAL") as cluster:
        words = [
            "release",
            "mean-operator",
            "--map",
            "none",
            str(table),
            "--label",
            "sick",
            "--epsilon",
            "1",
        ]
        words += ["--noise", "laplace", "--ledger", str(tmp_path / "ledger")]
        words += [
            "--dataset",
            "patients",
            "--request",
            "one",
            "-o",
            str(tmp_path / "out"),
            "--force",
        ]
        new_ledger(tmp_path / "ledger")
        for more in (
            ["--computing", "engine=dask", "--computing", f"scheduler={cluster.scheduler_address}"],
            [],
        ):
            done = subprocess.run(
                [sys.executable, "-m", "suffice", *words, *more], check=True, capture_output=True
            )
            assert b"Traceback" not in done.stderr
    assert debits(tmp_path / "ledger") == 1


@pytest.mark.engines
@pytest.mark.parametrize("lost", ["worker", "scheduler"])
def test_the_last_worker_and_the_scheduler_may_go(table, tmp_path, monkeypatch, lost):
    from distributed import Client, LocalCluster

    monkeypatch.setattr("suffice.engines.engine._SILENCE_SECONDS", 2)
    local = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}

    def go(rows: int) -> None:
        assert rows
        cluster.scale(0) if lost == "worker" else cluster.close()

    with (
        LocalCluster(**local, silence_logs="CRITICAL") as cluster,
        Client(cluster) as client,
        pytest.raises(EngineError, match=r"no workers|cannot be reached|dask cluster failed"),
    ):
        release(table, tmp_path / "ledger", client, go)
    assert debits(tmp_path / "ledger") == 0


@pytest.mark.engines
def test_nothing_private_is_in_what_workers_say(tmp_path, capfd):
    """A wrong label fails on a worker: neither it nor its row is in any log."""
    table = patients(3000)
    labels = pa.array([MARK if k == 1500 else "1" for k in range(3000)])
    position = table.column_names.index("sick")
    path = tmp_path / "table.parquet"
    pq.write_table(table.set_column(position, "sick", labels), path)
    with pytest.raises(TableError) as raised:
        release(path, tmp_path / "ledger", "dask")
    output = capfd.readouterr()
    assert MARK not in str(raised.value) + output.out + output.err
    assert debits(tmp_path / "ledger") == 0


@pytest.mark.engines
def test_a_worker_without_fused_multiplication_finds_the_same_bits(tmp_path):
    """11 % of mapped cells would differ if the kernels allowed fused steps."""
    folder = write_pieces(patients(), tmp_path / "table", [1000, 4000])
    script = Path(__file__).parents[1] / "engine_cases.py"
    result_digests = [
        subprocess.run(
            [sys.executable, str(script), str(folder)],
            env={**os.environ, **cpu},
            check=True,
            capture_output=True,
        ).stdout
        for cpu in ({}, {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "-fma"})
    ]
    assert result_digests[0] == result_digests[1]
