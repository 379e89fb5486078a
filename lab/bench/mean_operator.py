"""Mean operator over 3M x 28 float32 rows: files against a bare scan, memory against y @ X.

Claims: bare accumulator <= 1.5 scans; whole default release <= 2.2 scans, as in
lab/bench/engines.py, resident memory below 600 MB; in memory <= 1.5 times y @ X.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from harness import claim, ratio_of

ROWS, WIDTH, FILES = 3_000_000, 28, 6
MOST_SCANS = 2.2  # of a whole release, here and in lab/bench/engines.py
FOLDER = Path(__file__).parent / "data" / f"rows-{ROWS}x{WIDTH}"
NAMES = [f"f{j}" for j in range(WIDTH)]


def write_rows() -> None:
    if FOLDER.exists():
        return
    FOLDER.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part in range(FILES):
        rows = rng.standard_normal((ROWS // FILES, WIDTH), dtype=np.float32)
        columns = {name: rows[:, j] for j, name in enumerate(NAMES)}
        columns["label"] = (rows[:, 0] + rng.standard_normal(len(rows)) > 0).astype(np.int8)
        pq.write_table(pa.table(columns), FOLDER / f"part-{part}.parquet")


def scan() -> int:
    return sum(batch.num_rows for batch in ds.dataset(FOLDER).to_batches())


def bare_accumulator() -> np.ndarray:
    from suffice.engines.engine import fold
    from suffice.engines.sums import WeightedSums, label_weights
    from suffice.tables.columns import label_codes, numeric_column
    from suffice.tables.sources import open_table

    def batches():
        for batch in open_table(FOLDER).batches([*NAMES, "label"]):
            codes = label_codes(batch.column("label"), (0, 1))
            columns = [numeric_column(batch.column(name)) for name in NAMES]
            yield columns, label_weights(codes, 2)

    return fold(batches(), WeightedSums(WIDTH, 1, 2.0**-20)).result()


def whole_release() -> None:
    import suffice as sf

    sf.MeanOperator(epsilon=1.0, map=None).release(FOLDER, label="label", ledger=None)


def in_memory() -> float:
    from suffice.engines.sums import WeightedSums

    rows = np.random.default_rng(1).standard_normal((ROWS, WIDTH), dtype=np.float32)
    signs = np.where(rows[:, 0] > 0, 1.0, -1.0).astype(np.float32)
    sums = WeightedSums(WIDTH, 1, 2.0**-20)
    return ratio_of(lambda: sums.update((rows, signs[None, :])), lambda: signs @ rows)


def resident_megabytes() -> float:
    """Run one release in a process of its own and return its largest resident size."""
    code = "import mean_operator as m; m.whole_release(); print(m.own_peak())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, check=True
    )
    return float(done.stdout)


def own_peak() -> float:
    """Return this process's largest resident size; getrusage would include the parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> list[dict]:
    write_rows()
    for warm in (scan, bare_accumulator, whole_release):
        warm()
    return [
        claim("bare accumulator / bare scan", ratio_of(bare_accumulator, scan), 1.5),
        claim("whole release / bare scan", ratio_of(whole_release, scan), MOST_SCANS),
        claim("resident memory of a release, MB", resident_megabytes(), 600),
        claim("sums in memory / y @ X", in_memory(), 1.5),
    ]


if __name__ == "__main__":
    main()
