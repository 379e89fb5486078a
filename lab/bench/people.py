"""Releases that protect each person, against dividing epsilon, and against one row a person.

    python lab/bench/people.py --data ../shared/data --splits 8

People have 1 to 20 rows, k with probability proportional to k^-1.5: most have one row, and some
have many. The rows of a person are any rows ("mixed"), or rows that are alike and have one label
("alike": neighbours along the first principal component). Everything has the same promise per
person: (epsilon, 1e-6) for all rows of one person. "group" is what group privacy gives for 20 rows:
Gaussian noise of 20 times the deviation, or pure noise at epsilon / 20, whichever is better on
average. "one row" keeps a row of each person, drawn at random.

Moments (all rows private) and mean operators (labels private, ids public): mean accuracy on other
rows over the splits, its standard error, and that of the paired difference to "person".
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from rival_record import DELTA, RecordSplit
from rivals import first_rows

from suffice.learner.moments import MomentClassifier
from suffice.learner.operator import FactoredClassifier
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.moments import Moments
from suffice.papers.reproduction import split
from suffice.privacy.events import gaussian_epsilon, gaussian_multiplier

MOST = 20  # rows of a person, which everybody knows


def people_of(rows: np.ndarray, labels: np.ndarray, rng: np.random.Generator, *, alike: bool):
    """Return an id for each row: of one to 20 rows each."""
    numbers = np.arange(1, MOST + 1)
    chances = numbers**-1.5
    sizes = rng.choice(numbers, len(rows), p=chances / chances.sum())
    order = rng.permutation(len(rows))
    if alike:
        centred = rows - rows.mean(axis=0)
        first = np.linalg.svd(centred[:2000], full_matrices=False)[2][0]
        order = np.lexsort([centred @ first, labels])
    ids = np.empty(len(rows), dtype=np.int64)
    ids[order] = rng.permutation(len(rows))[np.repeat(np.arange(len(rows)), sizes)[: len(rows)]]
    return ids


def accuracies(data: RecordSplit, epsilon: float, seed: int, *, alike: bool) -> dict[str, float]:
    """Return the accuracy of each way to protect people, by its name."""
    rng = np.random.default_rng(seed)
    columns = [c for c in data.private.columns if not pa.types.is_dictionary(c.type)]
    numbers = np.column_stack([column.to_numpy() for column in columns])
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    ids = people_of(numbers, data.labels, rng, alike=alike)
    every = pa.concat_tables([data.public, data.private, data.test_rows])
    categories = {
        name: sorted(every[name].unique().drop_null().to_pylist())
        for name in every.column_names
        if pa.types.is_dictionary(every[name].type)
    }
    table = data.private.append_column("id", pa.array(ids)).append_column(
        "label", pa.array(data.labels)
    )
    shuffled = rng.permutation(len(ids))
    kept = np.sort(shuffled[np.unique(ids[shuffled], return_index=True)[1]])
    one = table.take(pa.array(kept))
    k = int(np.bincount(ids).max())
    group = gaussian_epsilon(DELTA, k * gaussian_multiplier(epsilon, DELTA))
    features = data.private.column_names

    def moments(table: pa.Table, epsilon: float, person: str | None) -> float:
        mechanism = Moments(epsilon, DELTA, standardize=data.public, categories=categories)
        release = mechanism.release(
            table, label="label", features=features, person=person, ledger=None
        )
        model = MomentClassifier().fit_release(release)
        return float(np.mean(model.predict(data.test_rows) == data.test_labels))

    def operator(table: pa.Table, epsilon: float, person: str | None, delta: float) -> float:
        mechanism = MeanOperator(epsilon, delta, categories=categories, missing="mean")
        release = mechanism.release(
            table, label="label", features=features, person=person, ledger=None
        )
        model = FactoredClassifier().fit_release(release, table.select(features))
        return float(np.mean(model.predict(data.test_rows) == data.test_labels))

    return {
        "moments: person": moments(table, epsilon, "id"),
        "moments: group": moments(table, group, None),
        "moments: one row": moments(one, epsilon, None),
        "operator: person": operator(table, epsilon, "id", DELTA),
        "operator: group": operator(table, group, None, DELTA),
        "operator: group, pure": operator(table, epsilon / k, None, 0.0),
        "operator: one row": operator(one, epsilon, None, DELTA),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each data set, structure and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default="adult,magic")
    parser.add_argument("--epsilons", default="0.3,1,3")
    parser.add_argument("--splits", type=int, default=8)
    options = parser.parse_args(arguments)
    print(
        "| table | rows of a person | epsilon | release | accuracy | s.e. | behind person | s.e. |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name in options.sets.split(","):
        for alike in (False, True):
            for epsilon in map(float, options.epsilons.split(",")):
                runs = [
                    accuracies(
                        RecordSplit.of(first_rows(split(name, seed, options.data), 20_000)),
                        epsilon, seed, alike=alike,
                    )
                    for seed in range(options.splits)
                ]  # fmt: skip
                for release in runs[0]:
                    own = np.array([run[release] for run in runs])
                    best = np.array([run[f"{release.partition(':')[0]}: person"] for run in runs])
                    behind, root = best - own, np.sqrt(len(runs))
                    print(
                        f"| {name} | {'alike' if alike else 'mixed'} | {epsilon:g} | {release} |"
                        f" {own.mean():.4f} | {own.std(ddof=1) / root:.4f} | {behind.mean():+.4f} |"
                        f" {behind.std(ddof=1) / root:.4f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
