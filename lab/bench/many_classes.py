"""Many classes, few records per party: class sums against votes, in one run.

    OMP_NUM_THREADS=1 python lab/bench/many_classes.py --data DIR [--trials 2]
        [--sets mnist-8,har-5]

Parties are random parts of a public table; auxiliary, private and test rows are disjoint, and noise
is that of real releases at delta = 1e-5. UCI letters are no file of our data folder: they are run
where DIR holds letters.csv (the label in a first column `letter`, then 16 numbers). Claim: class
sums are right at least as often as the operator of votes wherever `auto` chooses them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from harness import claim
from sklearn.decomposition import PCA

from suffice.owner.parties.contribution import choose_method
from suffice.papers.hamm import simulate_table

EPSILONS = (3.0, 1.0)
METHODS = ("operator", "class-sums", "votes", "pate")


class Table(NamedTuple):
    """A file, its classes, the number of parties and of their records, and of auxiliary rows."""

    file: str
    classes: tuple[object, ...]
    parties: int
    samples: int
    auxiliary: int


LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
TABLES = {
    "letters-8": Table("letters.csv", LETTERS, 400, 8, 2000),
    "letters-26": Table("letters.csv", LETTERS, 400, 26, 2000),
    "mnist-8": Table("mnist.parquet", tuple(range(10)), 400, 8, 2000),
    "mnist-20": Table("mnist.parquet", tuple(range(10)), 400, 20, 2000),
    "har-5": Table("uci_har_train.parquet", tuple(range(6)), 1000, 5, 600),
    "har-12": Table("uci_har_train.parquet", tuple(range(6)), 400, 12, 600),
}


def read(path: Path) -> tuple[pa.Table, str]:
    """Return the table with at most 50 principal components as features, and its label."""
    if path.suffix == ".csv":
        return pyarrow.csv.read_csv(path), "letter"
    table = pq.read_table(path).slice(0, 20_000)
    names = [name for name in table.column_names if name[0] == "f" and name[1:].isdecimal()]
    rows = np.column_stack([table[name].to_numpy() for name in names]).astype(float)
    components = PCA(50, random_state=0).fit_transform(rows)
    columns = {f"p{j}": components[:, j] for j in range(50)}
    return pa.table({**columns, "label": table["label"].to_numpy()}), "label"


def run(name: str, setting: Table, folder: Path, trials: int) -> list[dict]:
    """Print mean accuracies of all methods, and return the claims."""
    table, label = read(folder / setting.file)
    rows, private = len(table), setting.parties * setting.samples
    shares = (setting.auxiliary / rows, 1 - (setting.auxiliary + private) / rows)
    outcome = simulate_table(
        table, EPSILONS, delta=1e-5, label=label, trials=trials, methods=METHODS,
        classes=setting.classes, parties=setting.parties, shares=shares,
    )  # fmt: skip
    means = {m: np.mean(outcome["accuracies"][m], axis=1) for m in METHODS}
    print(f"{name}: {len(setting.classes)} classes, {setting.parties} parties of {setting.samples}")
    for method, values in means.items():
        figures = "  ".join(
            f"epsilon {e:g}: {v:.3f}" for e, v in zip(EPSILONS, values, strict=True)
        )
        print(f"  {method:12} {figures}")
    assert choose_method(len(setting.classes), setting.samples) == "class-sums"
    gaps = 100 * (means["operator"] - means["class-sums"])
    return [
        claim(f"{name}, epsilon {e:g}: operator less class sums, points", float(gap), 0)
        for e, gap in zip(EPSILONS, gaps, strict=True)
    ]


def main(arguments: Sequence[str] = ()) -> list[dict]:
    """Run every table that the folder has, and return all claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--sets", default=",".join(TABLES))
    options = parser.parse_args(arguments)
    claims = []
    for name in options.sets.split(","):
        if (options.data / TABLES[name].file).exists():
            claims += run(name, TABLES[name], options.data, options.trials)
        else:
            print(f"left out: {name} (there is no {TABLES[name].file})")
    return claims


if __name__ == "__main__":
    main(sys.argv[1:])
