"""1,024 rados of 11M x 28 float32 rows: files against the mean operator, memory against BLAS.

Claims: structured signs <= 3 times the mean operator's bare pass over the same files; at least 50
times faster than a matrix of signs times BLAS in memory, 20 times end to end; below 1 GB resident.
The matrix of signs is measured on 1M rows of the same files and extrapolated in proportion.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import claim, ratio_of

ROWS, WIDTH, FILES, COUNT = 11_000_000, 28, 22, 1024
PART = ROWS // FILES
FOLDER = Path(__file__).parent / "data" / f"rados-{ROWS}x{WIDTH}"
NAMES = [f"f{j}" for j in range(WIDTH)]
BLAS_FILES = 2  # 1M rows
BLOCK = 12_500  # rows whose signs are in memory at once: a matrix of 100 MB


def write_rows() -> None:
    if FOLDER.exists():
        return
    FOLDER.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part in range(FILES):
        rows = rng.standard_normal((PART, WIDTH), dtype=np.float32)
        columns = {name: rows[:, j] for j, name in enumerate(NAMES)}
        columns["label"] = (rows[:, 0] + rng.standard_normal(len(rows)) > 0).astype(np.int8)
        pq.write_table(pa.table(columns), FOLDER / f"part-{part:02}.parquet")


def pipeline():
    """Return a declared pipeline, so that one pass is all there is to compare."""
    from suffice.tables.pipeline import Column, Pipeline

    columns = tuple(Column(name) for name in NAMES)
    return Pipeline(columns, "error", np.zeros(WIDTH), np.ones(WIDTH), 8.0, 0.0)


def mean_operator_pass() -> np.ndarray:
    """Sum the rows under their labels: the bare pass, without hashing rows or adding noise."""
    from suffice.engines.sums import MappedSums, label_weights
    from suffice.tables.columns import label_codes
    from suffice.tables.sources import open_table

    made, sums = pipeline(), MappedSums(pipeline(), 1)
    for batch in open_table(FOLDER).batches([*NAMES, "label"]):
        codes = label_codes(batch.column("label"), (0, 1))
        sums.update((made.encoded(batch), label_weights(codes, 2)))
    return sums.result()


def release(folder: Path = FOLDER, **options):
    from suffice.owner.rados import Rados

    options = {"count": COUNT, "pipeline": pipeline(), **options}
    return Rados(**options).release(folder, label="label", ledger=None, unprotected=True)


def structured_in_memory(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Craft rados of rows in memory, secret signs and orders included."""
    from suffice.owner.rados import HadamardSubsets

    subsets = HadamardSubsets(WIDTH, COUNT, 0.0)
    subsets.update(rows, labels)
    return subsets.result()


def signs_times_blas(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Do the same by a matrix of signs, in float64 as ours, made from random bytes of numpy's."""
    rng, total = np.random.default_rng(0), np.zeros((COUNT, rows.shape[1]))
    for start in range(0, len(rows), BLOCK):
        part = rows[start : start + BLOCK]
        words = rng.integers(0, 256, (COUNT, -(-len(part) // 8)), dtype=np.uint8)
        bits = np.unpackbits(words, axis=1)
        signs = bits[:, : len(part)].astype(np.float64)
        signs *= 2.0
        signs -= 1.0
        signs += labels[start : start + BLOCK]
        total += signs @ part.astype(np.float64)
    return total / 2


def blas_of_files() -> np.ndarray:
    """Read 1M rows and make their rados by BLAS."""
    total = np.zeros((COUNT, WIDTH))
    for path in sorted(FOLDER.glob("*.parquet"))[:BLAS_FILES]:
        table = pq.read_table(path)
        rows = np.column_stack([table.column(name).to_numpy() for name in NAMES])
        labels = 2 * table.column("label").to_numpy().astype(np.float32) - 1
        total += signs_times_blas(rows, labels)
    return total


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def resident_megabytes() -> float:
    """Run one release in a process of its own and return its largest resident size."""
    code = "import rados, mean_operator; rados.release(); print(mean_operator.own_peak())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, check=True
    )
    return float(done.stdout)


def main() -> list[dict]:
    write_rows()
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((1_000_000, WIDTH), dtype=np.float32)
    labels = np.where(rows[:, 0] > 0, 1.0, -1.0).astype(np.float32)
    columns = np.ascontiguousarray(rows.T, dtype=np.float64)[:, : 1 << 20]
    exact = labels.astype(np.float64)
    for warm in (mean_operator_pass, release, lambda: structured_in_memory(columns, exact)):
        warm()
    in_memory = ratio_of(
        lambda: structured_in_memory(columns, exact), lambda: signs_times_blas(rows, labels), 3
    )
    share = ROWS / (BLAS_FILES * PART)
    end_to_end = seconds(release) / (seconds(blas_of_files) * share)
    beside = ratio_of(release, mean_operator_pass, 5)
    return [
        claim("rados, whole release / the mean operator's bare pass", beside, 3.0),
        claim("structured signs, % of a sign matrix and BLAS, in memory", 100 * in_memory, 2.0),
        claim("the same from files, % of BLAS (extrapolated)", 100 * end_to_end, 5.0),
        claim("resident memory of a release, MB", resident_megabytes(), 1000),
    ]


if __name__ == "__main__":
    main()
