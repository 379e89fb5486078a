"""Spark finds the bits of threads, also where a Python worker or an executor is killed."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine_cases import (
    cases,
    debits,
    digests,
    folded,
    merged_at_random,
    new_ledger,
    patients,
    splits,
    write_pieces,
)
from suffice.engines.engine import Spark, Threads, open_engine
from suffice.errors import ParameterError, StorageError, TableError
from suffice.owner.mean_operator import MeanOperator
from suffice.releases.release import encode

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(shutil.which("java") is None, reason="spark needs Java, which is not here"),
    pytest.mark.skipif(
        importlib.util.find_spec("pyspark") is None, reason="pyspark is not installed"
    ),
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets of py4j
]

ROWS = 60_000
MARK = "quoted-cell-4711"


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("spark") / "table"
    return write_pieces(patients(ROWS), folder, list(range(5000, ROWS, 5000)))


@pytest.fixture(scope="module")
def engine():
    engine = Spark(workers=2)
    yield engine
    engine.close()


def release(path: Path, ledger: Path, engine, progress=None) -> bytes:
    paid = {"ledger": new_ledger(ledger), "dataset": "patients", "request": "one"}
    operator = MeanOperator(1.0, mechanism="laplace", map=None)
    return encode(operator.release(path, label="sick", engine=engine, progress=progress, **paid))


def running(words: str) -> list[int]:
    """Return the processes whose command line holds these words."""
    processes = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, UnicodeDecodeError):
                continue
            if words in line:
                processes.append(int(folder.name))
    return processes


def below(parent: int) -> set[int]:
    """Return the processes that a process has started, by any of its threads, and theirs."""
    lists = Path(f"/proc/{parent}/task").glob("*/children")
    children = {
        int(child) for children_file in lists for child in children_file.read_text().split()
    }
    return children.union(*(below(child) for child in children))


def test_a_release_by_spark_is_that_of_threads(table, tmp_path, engine):
    row_counts = []
    first = release(table, tmp_path / "ledger", engine, row_counts.append)
    assert sum(row_counts) == 2 * ROWS
    assert release(table, tmp_path / "ledger", Threads(1)) == first
    assert debits(tmp_path / "ledger") == 1


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


@pytest.mark.parametrize("after", [0, 1], ids=["public pass", "private pass"])
def test_a_python_worker_killed_in_mid_pass_changes_no_bit(table, tmp_path, engine, after):
    engine.connect()
    done, killed = [], []

    def kill(rows: int) -> None:
        done.append(rows)
        if not killed and sum(done) > after * ROWS:
            workers = below(os.getpid()) & set(running("pyspark.daemon"))
            killed.append(max(workers))  # the youngest: a worker, not the daemon that forks them
            os.kill(killed[0], signal.SIGKILL)

    first = release(table, tmp_path / "ledger", engine, kill)
    assert killed
    assert sum(done) == 2 * ROWS
    assert release(table, tmp_path / "ledger", Threads(1)) == first
    assert debits(tmp_path / "ledger") == 1


@pytest.mark.parametrize("change", ["replaced", "vanished", "cut off"])
def test_a_part_that_changes_between_the_passes_costs_nothing(tmp_path, engine, change):
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
        else:
            victim.write_bytes(victim.read_bytes()[:-2000])

    with pytest.raises((TableError, StorageError)):
        release(folder, tmp_path / "ledger", engine, meddle)
    assert debits(tmp_path / "ledger") == 0


def test_nothing_private_is_in_what_spark_says(tmp_path, engine, capfd):
    table = patients(3000)
    labels = pa.array([MARK if k == 1500 else "1" for k in range(3000)])
    path = tmp_path / "table.parquet"
    position = table.column_names.index("sick")
    pq.write_table(table.set_column(position, "sick", labels), path)
    with pytest.raises(TableError) as raised:
        release(path, tmp_path / "ledger", engine)
    output = capfd.readouterr()
    assert MARK not in str(raised.value) + output.out + output.err
    assert debits(tmp_path / "ledger") == 0


def test_a_session_of_the_process_is_used_and_stays(engine):
    engine.connect()
    session = engine._session
    for choice in ("spark", session):
        other = open_engine(choice)
        other.connect()
        assert other._session is session
        other.close()
    assert session.range(3).count() == 3
    with pytest.raises(ParameterError, match="already has a Spark session"):
        open_engine("spark", scheduler="spark://127.0.0.1:1").connect()


# --- a cluster of its own: a master, a worker, and executors that can be killed


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    """Yield the address of a spark cluster on loopback with two executors."""
    import pyspark

    home = Path(pyspark.__file__).parent
    folder = tmp_path_factory.mktemp("master")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    env |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(folder)}
    address = f"spark://127.0.0.1:{port}"
    deploy, where = "org.apache.spark.deploy", ["--host", "127.0.0.1", "--webui-port", "0"]
    commands = [
        [f"{deploy}.master.Master", *where, "--port", str(port)],
        *[[f"{deploy}.worker.Worker", *where, "--cores", "1", "--memory", "1g", address]] * 2,
    ]
    started = []
    for words in commands:
        with (folder / f"log{len(started)}").open("wb") as log:
            run = [str(home / "bin" / "spark-class"), *words]
            started.append(subprocess.Popen(run, env=env, stdout=log, stderr=log))
        time.sleep(4)
    yield address
    for process in started:
        process.kill()
        process.wait()


SCRIPT = """
import os, signal, sys, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")
from pathlib import Path
from test_spark import ROWS, release, running
from suffice.engines.engine import Spark

engine = Spark(scheduler=sys.argv[2])
done, killed = [], []
def kill(rows):
    done.append(rows)
    if not killed and sum(done) > int(sys.argv[5]) * ROWS:
        killed.append(max(running("CoarseGrainedExecutorBackend --driver-url")))
        os.kill(killed[0], signal.SIGKILL)
release(Path(sys.argv[3]), Path(sys.argv[4]), engine, kill)
assert killed and sum(done) == 2 * ROWS, (killed, sum(done))
engine.close()
"""


@pytest.mark.parametrize("after", [0, 1], ids=["public pass", "private pass"])
def test_an_executor_killed_in_mid_pass_changes_no_bit_and_no_debit(table, tmp_path, master, after):
    words = [Path(__file__).parent, master, table, tmp_path / "ledger", after]
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    env["PYTHONPATH"] = os.pathsep.join(paths)
    subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, words)], env=env, check=True, timeout=240
    )
    assert debits(tmp_path / "ledger") == 1
    release(table, tmp_path / "ledger", Threads(1))
    assert debits(tmp_path / "ledger") == 1


def test_a_master_that_is_not_there_is_a_clear_error():
    script = (
        "import sys; from suffice.engines.engine import Spark\n"
        "from suffice.errors import EngineError\n"
        "try:\n    Spark(scheduler='spark://127.0.0.1:9').connect()\n"
        "except EngineError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True
    )
    assert "Spark failed" in done.stdout
