"""The demo: a clinic's private diagnoses, public measurements, one release, one classifier."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from suffice.learner.factored import FactoredClassifier
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import MECHANISMS, MeanOperator
from suffice.privacy.guarantee import Budget
from suffice.release.artifact import Release
from suffice.release.codec import load
from suffice.release.files import write_whole
from suffice.study.curves import draw_utility
from suffice.study.report import Table, figure_svg, page, paragraphs, prose, spread, table_html

__all__ = ["Story", "run_demo"]

_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
_REPEATS = 10
_DELTA = 1e-6


@dataclass(frozen=True)
class Story:
    """What the demo has to tell: paragraphs, then a table."""

    paragraphs: tuple[str, ...]
    table: Table


@dataclass(frozen=True)
class _Data:
    train: np.ndarray
    labels: np.ndarray
    test: np.ndarray
    truth: np.ndarray

    def accuracy(self, release: Release) -> float:
        """Return the test accuracy of what a learner makes of a release and the public rows."""
        model = FactoredClassifier().fit_release(release, self.train)
        return float(model.score(self.test, self.truth))


def run_demo(output: Path) -> Story:
    """Release, load and learn once; then again at many epsilons; write the report to ``output``."""
    X, y = load_breast_cancer(return_X_y=True)
    train, test, labels, truth = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    data = _Data(train, labels, test, truth)
    told, release = _one_release(data)
    plain = float(FactoredClassifier().fit(train, labels).score(test, truth))
    majority = float(max(np.mean(truth), 1 - np.mean(truth)))
    accuracies = {name: _curve(data, name) for name in MECHANISMS}
    rows = tuple(
        (f"{epsilon:g}", *(spread(accuracies[name][i]) for name in accuracies))
        for i, epsilon in enumerate(_EPSILONS)
    )
    title = (
        f"Test accuracy, mean and range of {_REPEATS} releases"
        f" (without privacy {plain:.3f}, always the larger class {majority:.3f})"
    )
    story = Story(told, Table(title, ("epsilon", *accuracies), rows))
    write_whole(output, _report(story, release, accuracies, plain, majority).encode())
    return story


def _one_release(data: _Data) -> tuple[tuple[str, ...], Release]:
    """Play owner and learner once, with a ledger and a file between them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "diagnosis.suffice"
        ledger = Ledger(Path(folder) / "clinic.ledger", {"diagnosis": Budget(2.0, 1e-5)})
        mechanism = MeanOperator(epsilon=1.0, delta=_DELTA, mechanism="gaussian")
        mechanism.release(data.train, data.labels, ledger=ledger, dataset="diagnosis").save(path)
        balance = ledger.balances()[0]
        release = load(path)
        size = path.stat().st_size
    numbers = release.arrays["mean_operator"].size
    story = f"""
A clinic holds {len(data.labels)} diagnoses that must not leave; the {data.train.shape[1]}
measurements of each sample are public.

It released one vector of {numbers} numbers, a file of {size:,} bytes. {release.guarantee}

Its ledger allows {balance.budget} per {balance.unit}; {balance.spent:.3f} is spent.

A learner with the file and the public rows, and no diagnosis, reached a test accuracy of
{data.accuracy(release):.3f}."""
    return paragraphs(story), release


def _curve(data: _Data, mechanism: str) -> list[list[float]]:
    """Return the accuracies of several releases at every epsilon."""
    return [
        [
            data.accuracy(
                MeanOperator(epsilon=epsilon, delta=_DELTA, mechanism=mechanism).release(
                    data.train, data.labels, ledger=None
                )
            )
            for _ in range(_REPEATS)
        ]
        for epsilon in _EPSILONS
    ]


def _report(
    story: Story,
    release: Release,
    accuracies: dict[str, list[list[float]]],
    plain: float,
    majority: float,
) -> str:
    def draw(axes: Any) -> None:
        draw_utility(axes, _EPSILONS, accuracies, plain=plain, majority=majority)

    noise = (
        f"Noise at epsilon 1: standard deviation {release.noise.variance**0.5:.3f} on each"
        " coordinate. The intervals show the mechanism's randomness on one split of the data."
    )
    return page(
        "suffice: one release, end to end",
        f"{prose(story.paragraphs)}<h2>Utility against epsilon</h2>{figure_svg(draw)}"
        f"{table_html(story.table)}{prose([noise])}",
    )
