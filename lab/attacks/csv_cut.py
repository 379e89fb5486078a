"""The CSV cut: a longer label moves a block of bytes, and with it the last bits of public means.

The attacker knows all rows, and all labels but one, which is short or long. The old code added
floats block by block, as the reader had cut the file; the current code adds exactly. Success: the
pipelines of the two possible files differ, so that the release shows which file it was.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from run import Rate

from suffice.owner.mean_operator import MeanOperator
from suffice.tables import files

_CLASSES = ("benign", "malignant, of a stage that nobody has written down")
_NAMES = [f"x{j}" for j in range(12)]
_ROWS, _BLOCK = 2_000, 1 << 15


def _file(path: Path, columns: np.ndarray, labels: np.ndarray) -> Path:
    numbers = dict(zip(_NAMES, columns, strict=True))
    pa.csv.write_csv(pa.table(numbers | {"label": np.array(_CLASSES)[labels]}), path)
    return path


def _old_means(path: Path) -> bytes:
    """Return means as they were: sums of floats, one block of bytes after the other."""
    total, rows = np.zeros(len(_NAMES)), 0
    options = pa.csv.ReadOptions(block_size=_BLOCK)
    for batch in pa.csv.open_csv(path, read_options=options):
        total += [batch.column(name).to_numpy().sum() for name in _NAMES]
        rows += batch.num_rows
    return (total / rows).tobytes()


def _our_means(path: Path) -> bytes:
    operator = MeanOperator(0.5, mechanism="laplace", classes=_CLASSES, map=None)
    return operator.release(path, label="label", ledger=None).pipeline.mean.tobytes()


def rates(trials: int) -> Iterator[Rate]:
    """Yield how often the public part alone reveals one label."""
    rng = np.random.default_rng(0)
    differences = {"old": 0, "now": 0}
    usual, files.BLOCKS = files.BLOCKS, (_BLOCK, *files.BLOCKS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(trials):
                columns, labels = rng.normal(size=(12, _ROWS)), rng.integers(0, 2, _ROWS)
                file = _file(Path(folder) / "one.csv", columns, labels)
                labels[rng.integers(_ROWS // 2)] ^= 1
                other_file = _file(Path(folder) / "two.csv", columns, labels)
                differences["old"] += _old_means(file) != _old_means(other_file)
                differences["now"] += _our_means(file) != _our_means(other_file)
    finally:
        files.BLOCKS = usual
    yield Rate(
        "sums of floats, block by block (old)", differences["old"], trials, "many: a closed hole"
    )
    yield Rate("exact sums (now)", differences["now"], trials, "0")
