"""CSV files: reading one against another version of the package, and other dialects against it.

    python bench/csv_reading.py [--against DIR]

DIR is the ``src`` folder of the other version (``git worktree add``). Each measurement is a process
of its own that reads a small file to warm up, then the table, all columns with the label as text;
versions and dialects take turns.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from harness import claim

HERE = Path(__file__).resolve().parents[1] / "src"
ROWS, COLUMNS, TURNS = 500_000, 20, 5

WORK = """
import json, sys, time
from suffice.tables.sources import open_table

def read(path):
    table = open_table(path, text=["y"])
    return sum(batch.num_rows for batch in table.batches(table.schema.names))

read(sys.argv[1])
start = time.perf_counter()
rows = read(sys.argv[2])
print(json.dumps([time.perf_counter() - start, rows]))
"""


def tables(folder: Path) -> dict[str, Path]:
    """Write the same rows in several dialects."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(ROWS, COLUMNS)).astype(np.float32))
    rows.columns = [f"x{j}" for j in range(COLUMNS)]
    rows["ward"] = rng.choice(["Nord", "Süd", "West"], ROWS)
    rows["y"] = rng.choice(["krank", "gesünder"], ROWS)
    paths = {name: folder / f"{name}.csv" for name in ("warm", "plain", "german", "utf16")}
    rows[:1000].to_csv(paths["warm"], index=False)
    rows.to_csv(paths["plain"], index=False)
    rows.to_csv(paths["german"], index=False, sep=";", decimal=",", encoding="latin-1")
    rows.to_csv(paths["utf16"], index=False, encoding="utf-16")
    paths["packed"] = folder / "packed.csv.gz"
    paths["packed"].write_bytes(gzip.compress(paths["plain"].read_bytes(), 1))
    return paths


def seconds(source: Path, warm: Path, path: Path) -> float:
    """Return how long one process takes to read a table."""
    words = [sys.executable, "-c", WORK, str(warm), str(path)]
    env = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(words, env=env, check=True, capture_output=True, text=True)
    duration, rows = json.loads(done.stdout)
    assert rows == ROWS
    return duration


def main(words: tuple[str, ...] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args(words)
    claims = []
    with tempfile.TemporaryDirectory() as folder:
        paths = tables(Path(folder))
        warm = paths.pop("warm")
        forms = list(paths)
        plain: list[float] = []
        ratios: dict[str, list[float]] = {name: [] for name in [*forms[1:], "the other version"]}
        for _ in range(TURNS):
            plain.append(seconds(HERE, warm, paths["plain"]))
            for name in forms[1:]:
                ratios[name].append(seconds(HERE, warm, paths[name]) / plain[-1])
            if options.against is not None:
                other = seconds(options.against.resolve(), warm, paths["plain"])
                ratios["the other version"].append(plain[-1] / other)
    for name in forms[1:]:
        print(f"     {median(ratios[name]):10.2f}  time to read {name}, to that of the plain file")
    if options.against is not None:
        against = median(ratios["the other version"])
        claims.append(claim(f"time to read a CSV file, to {options.against}", against, 1.15))
    return claims


if __name__ == "__main__":
    sys.exit(not all(claim["met"] for claim in main()))
