"""What crosses the network: the bytes of parts and accumulators, by pass.

    python lab/bench/wire.py

Prints, for one part of 262,144 rows with 28 columns, the size of its description, of the empty
accumulator that goes to a worker, and of the full one that comes back, as pickles.
"""

import pickle
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from suffice.engines.engine import read_run
from suffice.engines.summary import PublicSummary
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.proportions import BagSource, LabelProportions
from suffice.owner.source import PublicSource
from suffice.tables.sources import open_table
from suffice.tables.table import rows_parts

ROWS, WIDTH = 1 << 18, 28
NAMES = tuple(f"x{j}" for j in range(WIDTH))


def write_table(path: Path) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
    ward = np.array(["north", "south", "west"])[rng.integers(0, 3, ROWS)]
    named = dict(zip(NAMES, features.T, strict=True))
    pq.write_table(pa.table({**named, "ward": ward, "sick": rng.integers(0, 2, ROWS)}), path)


def passes(path: Path):
    """Yield the name of each pass, its parts, and an empty accumulator."""
    table = open_table(path, text=["sick"])
    schema = pa.schema([table.schema.field(name) for name in NAMES])
    yield "public rows", rows_parts(table, NAMES), PublicSummary(schema)
    inputs = {"label": "sick", "features": NAMES}
    asked = {
        "mean operator": MeanOperator(1.0, mechanism="laplace", map=None),
        "mean operator, rff:512": MeanOperator(1.0, mechanism="laplace", map="rff:512"),
        "randomised labels": MeanOperator(1.0, mechanism="response"),
        "label proportions": LabelProportions(1.0),
    }
    for name, mechanism in asked.items():
        bags = isinstance(mechanism, LabelProportions)
        source = partial(BagSource, bags="ward") if bags else PublicSource
        public = mechanism.public(source(path, **inputs))
        procedure = mechanism.choose(public)
        yield name, procedure.parts(public), procedure.accumulator(identified=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write_table(path)
        print(f"{'pass':24}{'a part':>12}{'empty':>12}{'back':>12}{'back a row':>12}  (bytes)")
        for name, parts, empty in passes(path):
            back = len(pickle.dumps(read_run(empty, tuple(parts))))
            sizes = (len(pickle.dumps(parts[0])), len(pickle.dumps(empty)), back)
            print(f"{name:24}" + "".join(f"{size:12,}" for size in sizes) + f"{back / ROWS:12.2f}")


if __name__ == "__main__":
    main()
