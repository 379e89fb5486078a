"""Several owners of one table, each with noise of its own: what a learner makes of all releases.

    python lab/bench/merged_owners.py --data ../shared/data --splits 5

The training rows of a split are dealt out to M owners. They release with one pipeline, that of the
first owner's rows. Columns: `auto` with that pipeline; even Gaussian noise; even noise but for one
owner, whose noise is shaped for its own rows; one curator who holds all rows; the larger class.

Columns of a cell differ by the shape of their noise and not by luck: all owners' noise is drawn
from one stream of normal numbers, with the covariances that real releases state. Where noise hides
almost everything a small change still moves a model at random, so that each loss stands beside its
standard error over the splits. Claims: neither `auto` nor one shaped release is below even noise by
more than one percent beyond two standard errors, in the worst cell.
"""

import argparse
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from harness import claim

from suffice.learner.operator import FactoredClassifier
from suffice.learner.problem import NoiseWarning, design_matrix
from suffice.owner.labelled import PublicTable, public_summary
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.source import PublicSource
from suffice.papers.reproduction import Split, split
from suffice.releases.release import Release
from suffice.tables.pipeline import Pipeline

_SETS = ("spambase", "magic")
_OWNERS = (2, 5, 10, 20, 40)
_EPSILONS = (0.1, 1.0)
_DELTA = 1e-6
_MOST_LOST = 1.0  # percent right, against even noise
_COLUMNS = ("auto", "even", "one shaped", "curator", "larger class")

Owner = tuple[pa.Table, np.ndarray]
Owners = Sequence[Owner]


class Shaped(MeanOperator):
    """Noise that is shaped for the owner's own rows, though the pipeline was given."""

    def public(self, source: PublicSource) -> PublicTable:
        table = super().public(source)
        rows = table.rows
        summary = public_summary(rows.table, rows.roles.features, frozenset(), source)
        return replace(table, rows=replace(rows, summary=summary))


def accuracies(data: Split, owners: Owners, epsilon: float, seed: int) -> dict[str, float]:
    """Return the test accuracy of the columns that depend on the number of owners."""
    pipeline = MeanOperator(epsilon, map=None).public_rows(owners[0][0]).pipeline
    rows = pa.concat_tables([table for table, _ in owners])

    def released(kind: type[MeanOperator], owner: Owner, **options: object) -> Release:
        mechanism = kind(epsilon, _DELTA, pipeline=pipeline, **options)
        return mechanism.release(*owner, ledger=None)

    auto = [released(MeanOperator, owner) for owner in owners]
    even = [released(MeanOperator, owner, mechanism="gaussian") for owner in owners]
    if any(release.noise.form != "identity" for release in even):
        raise AssertionError("Gaussian noise with a given pipeline is not even.")
    columns = {
        "auto": auto,
        "even": even,
        "one shaped": [released(Shaped, owners[0], mechanism="sums"), *even[1:]],
    }
    exact = [_exact_operator(owner, pipeline) for owner in owners]
    return {
        name: right(data, [_drawn(*pair, seed) for pair in zip(releases, exact, strict=True)], rows)
        for name, releases in columns.items()
    }


def right(data: Split, releases: Sequence[Release], rows: pa.Table) -> float:
    """Return the test accuracy of a model."""
    model = FactoredClassifier().fit_release(releases, rows)
    return float(np.mean(model.predict(data.test_rows) == data.test_labels))


def _exact_operator(owner: Owner, pipeline: Pipeline) -> np.ndarray:
    table, labels = owner
    vectors = design_matrix(table, pipeline)
    return vectors.T @ (2.0 * labels - 1) / len(labels)


def _drawn(release: Release, exact: np.ndarray, seed: int) -> Release:
    """Return a release with noise of its covariance, from a stream that its rows name."""
    covariance = release.noise.dense(len(exact))
    values, vectors = np.linalg.eigh(covariance)
    named = int(release.parts[0].rows.hash[-8:], 16)
    normal = np.random.default_rng([seed, named]).normal(size=len(exact))
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    return replace(release, arrays={**release.arrays, "mean_operator": exact + root @ normal})


def dealt(data: Split, count: int) -> Owners:
    """Return the rows of each owner; the rows of a split are in a random order."""
    return [
        (data.rows.take(pa.array(picked)), data.labels[picked])
        for picked in np.array_split(np.arange(len(data.labels)), count)
    ]


def curator(data: Split, epsilon: float) -> dict[str, float]:
    """Return the test accuracies of one owner of all rows, and of the larger class."""
    release = MeanOperator(epsilon, _DELTA, map=None).release(data.rows, data.labels, ledger=None)
    return {"curator": right(data, [release], data.rows), "larger class": data.majority}


def _sure_loss(losses: Sequence[float]) -> float:
    """Return the mean loss in percent, less two standard errors."""
    error = np.std(losses, ddof=1) / np.sqrt(len(losses))
    return 100 * float(np.mean(losses) - 2 * error)


def main(arguments: Sequence[str] | None = None) -> list[dict]:
    """Print the table, and return the claims."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", NoiseWarning)
    lost = {"auto": -100.0, "one shaped": -100.0}
    print(f"{'':32}" + "".join(f"{name:>13}" for name in _COLUMNS))
    for name in _SETS:
        splits = [split(name, seed, options.data) for seed in range(options.splits)]
        for epsilon in _EPSILONS:
            whole = [curator(data, epsilon) for data in splits]
            for count in _OWNERS:
                found = [
                    accuracies(data, dealt(data, count), epsilon, seed) | whole[seed]
                    for seed, data in enumerate(splits)
                ]
                means = {column: np.mean([f[column] for f in found]) for column in _COLUMNS}
                cell = f"{name}, epsilon {epsilon:g}, {count} owners"
                print(f"{cell:32}" + "".join(f"{means[c]:13.3f}" for c in _COLUMNS), flush=True)
                lost = {
                    c: max(lost[c], _sure_loss([f["even"] - f[c] for f in found])) for c in lost
                }
    return [
        claim(
            f"percent right that {column} surely loses against even noise, worst cell",
            most,
            _MOST_LOST,
        )
        for column, most in lost.items()
    ]


if __name__ == "__main__":
    sys.exit(not all(found["met"] for found in main()))
