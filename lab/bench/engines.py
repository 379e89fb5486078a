"""Whole releases of 11M x 28 float32 rows on every engine, against a bare scan of the same columns.

    python lab/bench/engines.py [--rows N] [--engines threads,dask,spark]

Claims: two threads <= 2.2 scans, resident memory < 800 MB, two threads at least 1.6 times as fast
as one; dask with two warm workers <= 1.3 times threads. Spark is reported. Engines that are not
installed are left out, which is said. At the end: what a release of 10^9 rows would take, from the
seconds measured here (docs/scale.md explains each term).
"""

import argparse
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from harness import claim, ratio_of
from mean_operator import MOST_SCANS, NAMES, WIDTH

FILE_ROWS = 1_000_000


def folder_of(rows: int) -> Path:
    """Return a folder of Parquet files of a million rows each, written once."""
    folder = Path(__file__).parent / "data" / f"rows-{rows}x{WIDTH}-by-file"
    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part, first in enumerate(range(0, rows, FILE_ROWS)):
        values = rng.standard_normal((min(FILE_ROWS, rows - first), WIDTH), dtype=np.float32)
        columns = {name: values[:, j] for j, name in enumerate(NAMES)}
        columns["label"] = (values[:, 0] + rng.standard_normal(len(values)) > 0).astype(np.int8)
        pq.write_table(pa.table(columns), folder / f"part-{part:03}.parquet")
    return folder


def scan(folder: Path) -> int:
    return sum(batch.num_rows for batch in ds.dataset(folder).to_batches())


def release(folder: Path, **computing: object) -> None:
    import suffice as sf

    sf.MeanOperator(epsilon=1.0, map=None).release(folder, label="label", ledger=None, **computing)


def resident_megabytes(folder: Path, workers: int) -> float:
    """Run one release in a process of its own and return its largest resident size."""
    code = (
        "import sys; from engines import release; from mean_operator import own_peak;"
        " release(sys.argv[1], workers=int(sys.argv[2])); print(own_peak())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(workers)],
        cwd=Path(__file__).parent, capture_output=True, check=True,
    )  # fmt: skip
    return float(done.stdout)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def on_threads(folder: Path) -> list[dict]:
    for warm in (lambda: scan(folder), lambda: release(folder)):
        warm()
    release_ratio = ratio_of(lambda: release(folder, workers=2), lambda: scan(folder), 7)
    halved = ratio_of(lambda: release(folder, workers=2), lambda: release(folder, workers=1), 7)
    return [
        claim("threads: whole release / bare scan", release_ratio, MOST_SCANS),
        claim("threads: resident memory of a release, MB", resident_megabytes(folder, 2), 800),
        claim("threads: two workers / one", halved, 1 / 1.6),
    ]


def on_cluster(name: str, folder: Path) -> float:
    """Return the seconds of a release on two warm workers, by those on two threads."""
    from suffice.engines.engine import open_engine

    engine = open_engine(name, workers=2)
    try:
        release(folder, engine=engine)  # starts workers, loads kernels
        on_engine, on_threads = (
            (lambda: release(folder, engine=engine)),
            (lambda: release(folder, workers=2)),
        )
        return ratio_of(on_engine, on_threads, 5)
    finally:
        engine.close()


def forecast(folder: Path, rows: int) -> None:
    """Print the terms of the cost model, measured here, and the seconds of 10^9 rows."""
    from suffice.owner.labelled import LabelFingerprint
    from suffice.owner.mean_operator import MeanOperator

    release(folder)  # loads kernels and files
    single = seconds(lambda: release(folder, workers=1))
    public = seconds(lambda: MeanOperator(epsilon=1.0, map=None).public_rows(folder, "label"))
    labels = LabelFingerprint((0, 1))
    labels.lead()
    codes = np.random.default_rng(0).integers(0, 2, 1 << 20)
    hashed = seconds(lambda: [labels.update(codes) for _ in range(8)]) / (8 << 20)
    cell = single / rows / WIDTH  # without a ledger no label is hashed
    print(f"       both passes, per cell and worker: {cell * 1e9:.2f} ns")
    print(f"       public pass on all cores, per cell: {public / rows / WIDTH * 1e9:.2f} ns")
    print(f"       labels in order, per row, on the driver alone: {hashed * 1e9:.1f} ns")
    for workers in (2, 16, 64, 256):
        reading, hashing = 1e9 * WIDTH * cell / workers, 1e9 * hashed
        print(
            f"       10^9 rows, {workers:3} workers: reading {reading:6.0f} s,"
            f" labels {hashing:.0f} s"
        )


def main(words: tuple[str, ...] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=11_000_000)
    parser.add_argument("--engines", default="threads,dask,spark")
    options = parser.parse_args(words)
    folder, claims = folder_of(options.rows), []
    for name in options.engines.split(","):
        package = {"dask": "distributed", "spark": "pyspark"}.get(name)
        if package is not None and importlib.util.find_spec(package) is None:
            print(f"       {name} was left out: {package} is not installed")
        elif name == "threads":
            claims += on_threads(folder)
        elif name == "dask":
            claims.append(claim("dask, two warm workers / threads", on_cluster(name, folder), 1.3))
        else:
            print(f"       spark, two warm workers / threads: {on_cluster(name, folder):.2f}")
    forecast(folder, options.rows)
    return claims


if __name__ == "__main__":
    main()
