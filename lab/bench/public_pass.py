"""The public pass and feature maps against the same work in bare numpy; memory of a release.

    python lab/bench/public_pass.py

The bare work reads the same columns from the same file. It takes their sums, squares and largest
values, or maps the rows and sums what comes out, and hashes, chooses and checks nothing. Each
measurement is a process of its own that does the work once to warm up, then once more for the
clock. It counts CPU time, and both take turns.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from harness import claim

ROWS, COLUMNS, MAPPED, TIMES = 3_000_000, 28, 100_000, 5
LIMITS = {"public pass": 3.5, "rff:512": 1.8, "nystroem:200": 3.0}

WORK = """
import json, sys, time
import numpy as np
import pyarrow.dataset as ds
from mean_operator import own_peak
from suffice import MeanOperator

what, big, small = sys.argv[1:]

def public_pass():
    MeanOperator(epsilon=1.0).public_rows(big, "y")

def release(path, **options):
    MeanOperator(epsilon=1.0, mechanism="laplace", **options).release(path, label="y", ledger=None)

def rows_of(path):
    names = [name for name in ds.dataset(path).schema.names if name != "y"]
    for batch in ds.dataset(path).to_batches(columns=names):
        yield np.column_stack([batch.column(name).to_numpy() for name in names])

def bare_pass():
    for rows in rows_of(big):
        rows.sum(axis=0), (rows**2).sum(axis=0), np.abs(rows).max(axis=0)

def bare_map(width, outputs):
    weights = np.random.default_rng(0).normal(size=(width, outputs))
    for rows in rows_of(small):
        np.cos(rows @ weights).sum(axis=0)

work = {
    "public pass": public_pass,
    "release": lambda: release(big),
    "rff:512": lambda: release(small, map="rff:512"),
    "nystroem:200": lambda: release(small, map="nystroem:200"),
    "bare public pass": bare_pass,
    "bare rff:512": lambda: bare_map(28, 512),
    "bare nystroem:200": lambda: bare_map(28, 200),
}[what]
release(small) if what == "release" else work()
used = time.process_time()
work()
print(json.dumps([time.process_time() - used, own_peak()]))
"""


def tables(folder: Path) -> tuple[Path, Path]:
    """Write a table of 3M rows in several row groups, and a small one for maps."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    paths = folder / "big.parquet", folder / "small.parquet"
    for path, parts, rows in ((paths[0], 12, ROWS // 12), (paths[1], 1, MAPPED)):
        writer = None
        for _ in range(parts):
            X = rng.normal(size=(rows, COLUMNS)) * np.logspace(-2, 2, COLUMNS)
            columns = {f"x{j}": X[:, j] for j in range(COLUMNS)}
            table = pa.table(columns | {"y": (X[:, 0] > 0).astype(np.int64)})
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
        writer.close()
    return paths


def measured(what: str, paths: tuple[Path, Path]) -> list[float]:
    """Return CPU time and peak memory of one run in a process of its own."""
    words = [sys.executable, "-c", WORK, what, *map(str, paths)]
    done = subprocess.run(
        words, cwd=Path(__file__).parent, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def main() -> list[dict]:
    """Measure and return the claims."""
    claims = []
    with tempfile.TemporaryDirectory() as folder:
        paths = tables(Path(folder))
        for what, limit in LIMITS.items():
            turns = [
                measured(what, paths)[0] / measured(f"bare {what}", paths)[0] for _ in range(TIMES)
            ]
            claims.append(claim(f"CPU time of {what}, to bare numpy", median(turns), limit))
        peak = measured("release", paths)[1]
        claims.append(claim("resident memory of a release of 3M x 28, MB", peak, 700))
    return claims


if __name__ == "__main__":
    sys.exit(not all(one["met"] for one in main()))
