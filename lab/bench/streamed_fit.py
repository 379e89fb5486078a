"""A fit on 5M x 50 public rows that stay in their files, against one that holds them.

Claims: resident memory below 1 GB; coefficients as in memory to 1e-8; five passes over the rows, as
docs/learner.md says; the CPU time of no more than two fits in memory. Reported: the time, as a
ratio to one fit of scikit-learn's SGDClassifier on the same rows in memory, labels included.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import claim
from mean_operator import own_peak

ROWS, WIDTH, FILES = 5_000_000, 50, 10
FOLDER = Path(__file__).parent / "data" / f"rows-{ROWS}x{WIDTH}"
RELEASE = FOLDER.with_suffix(".suffice")
NAMES = [f"f{j}" for j in range(WIDTH)]


def write_rows() -> None:
    """Write the table once; labels follow a logistic model."""
    if FOLDER.exists():
        return
    FOLDER.mkdir(parents=True)
    rng = np.random.default_rng(0)
    slopes = rng.standard_normal(WIDTH) / np.sqrt(WIDTH)
    for part in range(FILES):
        rows = rng.standard_normal((ROWS // FILES, WIDTH), dtype=np.float32)
        columns = {name: rows[:, j] for j, name in enumerate(NAMES)}
        columns["label"] = (rows @ slopes + rng.logistic(size=len(rows)) > 0).astype(np.int8)
        pq.write_table(pa.table(columns), FOLDER / f"part-{part}.parquet")


def write_release() -> None:
    """Release the mean operator once, as an owner would."""
    import suffice as sf

    if not RELEASE.exists():
        sf.MeanOperator(epsilon=1.0, map=None).release(FOLDER, label="label", ledger=None).save(
            RELEASE
        )


def fit(most_held: int) -> dict:
    """Fit with rows that are held up to so many bytes; return what the claims are about."""
    import suffice as sf
    from suffice.learner import problem as learner_rows
    from suffice.learner.fit import fit as learn

    learner_rows._HELD_BYTES = most_held  # noqa: SLF001  # both ways are measured on the same rows
    passes = []
    start, used = time.perf_counter(), time.process_time()
    model = learn(sf.load(RELEASE), FOLDER, progress=passes.append)
    risk = model.risk_
    return {
        "seconds": time.perf_counter() - start,
        "used": time.process_time() - used,
        "peak": own_peak(),
        "passes": sum(passes) / ROWS,
        "coefficients": model.theta_.tolist(),
        "risk": risk,
    }


def sgd() -> dict:
    """Fit scikit-learn's SGD on the same rows and labels, in memory."""
    from sklearn.linear_model import SGDClassifier

    table = pq.read_table(FOLDER)
    labels = table["label"].to_numpy()
    rows = np.column_stack([table[name].to_numpy() for name in NAMES])
    del table
    start = time.perf_counter()
    SGDClassifier(loss="log_loss", random_state=0).fit(rows, labels)
    return {"seconds": time.perf_counter() - start}


def apart(call: str) -> dict:
    """Return what a function of this module returns in a process of its own."""
    code = f"import json, streamed_fit as s; print(json.dumps(s.{call}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def main() -> list[dict]:
    write_rows()
    write_release()
    streamed, held, peer = apart("fit(1 << 29)"), apart("fit(1 << 40)"), apart("sgd()")
    gap = float(np.abs(np.subtract(streamed["coefficients"], held["coefficients"])).max())
    print(f"{streamed['passes']:.1f} passes of {ROWS:,} rows in {streamed['seconds']:.0f} s")
    print(f"in memory {held['seconds']:.0f} s, {held['peak']:.0f} MB; SGD {peer['seconds']:.0f} s")
    print(f"streamed fit / SGD in memory: {streamed['seconds'] / peer['seconds']:.2f}")
    print(f"largest difference of a coefficient: {gap:.1e}")
    return [
        claim("resident memory of a streamed fit, MB", streamed["peak"], 1000),
        claim("coefficients, streamed against in memory, in 1e-8", gap / 1e-8, 1),
        claim("passes of a streamed fit", streamed["passes"], 5),
        claim("CPU time of a streamed fit / fit in memory", streamed["used"] / held["used"], 2.0),
    ]


if __name__ == "__main__":
    main()
