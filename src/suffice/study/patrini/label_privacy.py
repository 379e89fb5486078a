"""What label privacy costs in accuracy, on public data sets (Patrini et al. 2016, Section 4)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from suffice.learner.operator.factored import FactoredClassifier
from suffice.learner.rows import design_matrix
from suffice.models.losses import LOSSES
from suffice.models.problem import FactoredProblem
from suffice.owner.operator.candidates import MECHANISMS
from suffice.owner.operator.mechanism import MeanOperator
from suffice.pages.plots import draw_panels, draw_utility
from suffice.pages.report import PageTable, describe_repeats, mean_and_range, paragraphs
from suffice.study.data_sets import Split, split
from suffice.study.reproduction import Figure, Result, Setting, Steps

__all__ = ["DELTA", "measure_accuracies", "private_accuracy", "without_noise"]

DELTA = 1e-6
_LAMS = 10.0 ** np.arange(1.0, -5.01, -0.5)
_FOLDS = 5
_EPSILONS = (0.03, 0.1, 0.5, 2.0)
_MECHANISMS = ("auto", *MECHANISMS)

_NOTES = f"""
The paper has no experiments. It proposes Laplace noise on the mean operator (Section 4) and bounds
its error; data sets, epsilons and everything measured here are ours.

Of the mechanisms only laplace is the paper's, and it is calibrated to the 1-norm, which the proof
of Theorem 9 needs (docs/errata.md). gaussian, knorm, response, auto, whitened noise, the projection
and a penalty chosen from the release alone are ours.

gaussian guarantees epsilon at delta = {DELTA:g}, and auto may pick it; the others have delta = 0.

Without privacy: the same learner on exact labels, with a penalty chosen by five-fold
cross-validation.

Each seed is another split, or order, of the rows. The noise comes from the operating system, so
numbers change a little from run to run.
"""


def measure_accuracies(setting: Setting) -> Result:
    """Return test accuracy against epsilon, for every mechanism, on every data set."""
    releases = len(_MECHANISMS) * len(_EPSILONS)
    steps = Steps(setting.progress, len(setting.sets) * setting.seeds * (1 + releases))
    measured = {name: _measure_set(name, setting, steps) for name in setting.sets}
    repeats = describe_repeats(setting.seeds, "split")
    figure = draw_panels(*(partial(_draw_set, name, runs) for name, runs in measured.items()))
    caption = (
        "Test accuracy against epsilon per label. auto picks the mechanism with the best predicted"
        f" accuracy. Values are the {repeats}."
    )
    values = {"epsilons": list(_EPSILONS), "delta": DELTA, "seeds": setting.seeds}
    return Result(
        tuple(_utility_table(name, runs, repeats) for name, runs in measured.items()),
        (Figure(caption, figure),),
        paragraphs(_NOTES) + setting.warnings,
        {**values, "sets": measured},
    )


def _measure_set(name: str, setting: Setting, steps: Steps) -> dict[str, Any]:
    """Return every run on one data set: lists over epsilon of lists over seeds."""
    rows, exact, majority = [], [], []
    curves: dict[str, list[list[float]]] = {name: [[] for _ in _EPSILONS] for name in _MECHANISMS}
    chosen: list[list[str]] = [[] for _ in _EPSILONS]
    for seed in range(setting.seeds):
        data = split(name, seed, setting.folder)
        steps.begin(f"{name}, without privacy")
        exact.append(without_noise(data))
        majority.append(data.majority)
        rows.append(len(data.labels))
        for i, epsilon in enumerate(_EPSILONS):
            for mechanism in _MECHANISMS:
                steps.begin(f"{name}, {mechanism}, epsilon {epsilon:g}")
                accuracy, used = private_accuracy(data, epsilon, mechanism)
                curves[mechanism][i].append(accuracy)
                if mechanism == "auto":
                    chosen[i].append(used)
    return {
        "rows": rows,
        "without_privacy": exact,
        "larger_class": majority,
        "accuracies": curves,
        "auto_took": chosen,
    }


def _draw_set(name: str, runs: Mapping[str, Any], axes: Any) -> None:
    draw_utility(
        axes,
        _EPSILONS,
        runs["accuracies"],
        without_privacy=float(np.mean(runs["without_privacy"])),
        larger_class=float(np.mean(runs["larger_class"])),
    )
    axes.set(title=f"{name} ({np.mean(runs['rows']):,.0f} rows)")


def _utility_table(name: str, runs: Mapping[str, Any], repeats: str) -> PageTable:
    exact, majority = (mean_and_range(runs[key]) for key in ("without_privacy", "larger_class"))
    title = (
        f"{name}: test accuracy, {repeats}. It is {exact} without privacy and {majority} for the"
        " larger class."
    )
    rows = [
        (mechanism, *map(mean_and_range, curve)) for mechanism, curve in runs["accuracies"].items()
    ]
    took = ("auto chose", *(", ".join(sorted(set(names))) for names in runs["auto_took"]))
    columns = ("mechanism", *(f"epsilon {epsilon:g}" for epsilon in _EPSILONS))
    return PageTable(title, columns, (*rows, took))


def private_accuracy(
    data: Split,
    epsilon: float,
    mechanism: str = "auto",
    delta: float = DELTA,
    clip: float | None = None,
) -> tuple[float, str]:
    """Return the test accuracy of a model learnt from one release, and the mechanism it used."""
    operator = MeanOperator(epsilon, delta, mechanism, clip=clip)
    release = operator.release(data.rows, data.labels, ledger=None)
    model = FactoredClassifier().fit_release(release, data.rows)
    return float(model.score(data.test_rows, data.test_labels)), release.details["mechanism"]


def without_noise(
    data: Split,
    folds: int = _FOLDS,
    lams: Sequence[float] = tuple(_LAMS.tolist()),
    clip: float | None = None,
) -> float:
    """Return the test accuracy of the same learner on exact labels, lam by cross-validation.

    ``lams`` go from large to small: each solution is where the next search starts.
    """
    pipeline = MeanOperator(1.0, clip=clip).public_rows(data.rows).pipeline
    rows, test = design_matrix(data.rows, pipeline), design_matrix(data.test_rows, pipeline)
    signs = 2.0 * data.labels - 1
    fold = np.arange(len(rows)) % folds

    def accuracies(fit: np.ndarray, test_rows: np.ndarray, truth: np.ndarray) -> np.ndarray:
        operator = rows[fit].T @ signs[fit] / fit.sum()
        problem = FactoredProblem(rows[fit], operator, LOSSES["logistic"], intercept=True)
        shares, start = [], None
        for lam in lams:
            start = problem.solve(lam, tol=1e-5, max_iter=1000, start=start).parameters
            shares.append(np.mean(np.sign(test_rows @ start) == truth))
        return np.array(shares)

    scores = sum(accuracies(fold != k, rows[fold == k], signs[fold == k]) for k in range(folds))
    tested = accuracies(fold >= 0, test, 2.0 * data.test_labels - 1)
    return float(tested[int(np.argmax(scores))])
