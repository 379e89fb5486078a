"""CSV files: reading one against pyarrow's own reader, and other dialects against the plain one.

    python lab/bench/csv_reading.py

Each measurement is a process of its own that reads a small file to warm up, then the table, all
columns with the label as text. It counts CPU time, and readers and dialects take turns.
"""

import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from harness import claim

ROWS, COLUMNS, TURNS = 500_000, 20, 5
LIMITS = {"german": 1.7, "utf16": 1.4, "packed": 1.9}

WORK = """
import json, sys, time
import pyarrow as pa
import pyarrow.csv
from suffice.tables.sources import open_table

def read(path):
    table = open_table(path, text=["y"])
    return sum(batch.num_rows for batch in table.batches(table.schema.names))

def read_bare(path):
    convert = pyarrow.csv.ConvertOptions(column_types={"y": pa.string()})
    return sum(batch.num_rows for batch in pyarrow.csv.open_csv(path, convert_options=convert))

work = {"suffice": read, "pyarrow": read_bare}[sys.argv[1]]
work(sys.argv[2])
start = time.process_time()
rows = work(sys.argv[3])
print(json.dumps([time.process_time() - start, rows]))
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


def used(reader: str, warm: Path, path: Path) -> float:
    """Return the CPU time of one process that reads a table."""
    words = [sys.executable, "-c", WORK, reader, str(warm), str(path)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    duration, rows = json.loads(done.stdout)
    assert rows == ROWS
    return duration


def main() -> list[dict]:
    """Measure and return the claims."""
    ratios: dict[str, list[float]] = {name: [] for name in ("pyarrow", *LIMITS)}
    with tempfile.TemporaryDirectory() as folder:
        paths = tables(Path(folder))
        warm = paths["warm"]
        for _ in range(TURNS):
            plain = used("suffice", warm, paths["plain"])
            ratios["pyarrow"].append(plain / used("pyarrow", warm, paths["plain"]))
            for name in LIMITS:
                ratios[name].append(used("suffice", warm, paths[name]) / plain)
    return [
        claim("CPU time to read a CSV file, to pyarrow", median(ratios["pyarrow"]), 2.2),
        *(
            claim(f"CPU time to read {name}, to that of the plain file", median(ratios[name]), most)
            for name, most in LIMITS.items()
        ),
    ]


if __name__ == "__main__":
    sys.exit(not all(claim["met"] for claim in main()))
