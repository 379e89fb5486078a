"""The public pass and feature maps against another version of the package, in turns.

    python bench/public_pass.py --against DIR

DIR is the ``src`` folder of the other version (``git worktree add``). Each measurement is a process
of its own that does the work once to warm up, then once more for the clock, and the two versions
take turns. Without --against only the memory is measured.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from harness import claim

HERE = Path(__file__).resolve().parents[1] / "src"
ROWS, COLUMNS, MAPPED = 3_000_000, 28, 100_000

WORK = """
import json, sys, time
from mean_operator import own_peak
from suffice import MeanOperator

what, big, small = sys.argv[1:]

def public_pass():
    MeanOperator(epsilon=1.0).public_rows(big, "y")

def release(path, **options):
    MeanOperator(epsilon=1.0, mechanism="laplace", **options).release(path, label="y", ledger=None)

work = {
    "public pass": public_pass,
    "release": lambda: release(big),
    "rff:512": lambda: release(small, map="rff:512"),
    "nystroem:200": lambda: release(small, map="nystroem:200"),
}[what]
release(small) if what == "release" else work()
wall, cpu = time.perf_counter(), time.process_time()
work()
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, own_peak()]))
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


def measured(source: Path, what: str, paths: tuple[Path, Path]) -> list[float]:
    """Return wall clock, CPU seconds and peak memory of one run in a process of its own."""
    env = {**os.environ, "PYTHONPATH": str(source)}
    words = [sys.executable, "-c", WORK, what, *map(str, paths)]
    done = subprocess.run(
        words, env=env, cwd=Path(__file__).parent, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def main(words: tuple[str, ...] | None = None) -> list[dict]:
    """Measure and return the claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", type=Path, help="the src folder of another version")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args(words)
    claims = []
    with tempfile.TemporaryDirectory() as folder:
        paths = tables(Path(folder))
        limits = {"public pass": 1.6, "rff:512": 1.3, "nystroem:200": 1.3}
        for what, limit in limits.items() if options.against else ():
            runs = [
                [measured(source, what, paths)[1] for source in (HERE, options.against)]
                for _ in range(options.times)
            ]
            ratio = median(new / old for new, old in runs)
            claims.append(claim(f"CPU time of {what}, to {options.against}", ratio, limit))
        peak = measured(HERE, "release", paths)[2]
        claims.append(claim("resident memory of a release of 3M x 28, MB", peak, 700))
    return claims


if __name__ == "__main__":
    sys.exit(not all(one["met"] for one in main()))
