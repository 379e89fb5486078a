"""Splits of tables with many classes, beside those of two classes that papers use.

A file keeps all of its classes here. ``mixtures-K`` is generated: K classes of two normal clouds
each, in 16 columns, always the same table; a split shuffles it.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from suffice.papers.reproduction import SETS, Split, real_numbers, require_files, split

__all__ = ["any_split", "has_many_classes"]

_FILES = {"mnist": "mnist.parquet", "covertype-7": "covertype.parquet"}
_MIXTURES = "mixtures-"
_CLOUDS, _COLUMNS, _ROWS = 2, 16, 16_000
_DISTANCE = 0.9  # deviation of a cloud's centre in each column; clouds have the deviation 1


def has_many_classes(name: str) -> bool:
    """Return whether a data set, perhaps with a note on its rows behind it, has many classes."""
    return name.partition(" ")[0] in _FILES or name.startswith(_MIXTURES)


def any_split(name: str, seed: int, folder: Path) -> Split:
    """Return the origin's split where there is one, else a random quarter to test on."""
    if name in SETS:
        return split(name, seed, folder)
    if name.startswith(_MIXTURES):
        table = _mixtures(int(name.removeprefix(_MIXTURES)))
    else:
        require_files(folder, [_FILES[name]])
        table = pq.read_table(folder / _FILES[name])
    order = np.random.default_rng(seed).permutation(len(table))
    is_test = np.arange(len(table)) < len(table) // 4
    if "split" in table.column_names:
        is_test = pc.equal(table["split"], "test").to_numpy()[order]
        table = table.drop_columns(["split"])
    labels = table["label"].to_numpy().astype(int)
    features = real_numbers(table.drop_columns(["label"]))
    train, test = order[~is_test], order[is_test]
    return Split(features.take(train), labels[train], features.take(test), labels[test])


def _mixtures(classes: int) -> pa.Table:
    """Return the generated table: its classes are equally likely."""
    rng = np.random.default_rng(classes)
    centres = rng.normal(0, _DISTANCE, (classes, _CLOUDS, _COLUMNS))
    labels = rng.integers(classes, size=_ROWS)
    rows = centres[labels, rng.integers(_CLOUDS, size=_ROWS)] + rng.normal(size=(_ROWS, _COLUMNS))
    return pa.table({f"c{j}": rows[:, j] for j in range(_COLUMNS)} | {"label": labels})
