"""Patrini, Nielsen & Nock 2016: the mean operator, and what label privacy costs with it.

Section 2 and Table 1: symmetric proper losses from their generator. Figure 1: losses as an even
part, which needs no label, and an odd part. Section 4: accuracy on public data sets against
epsilon.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.learner.operator import FactoredClassifier
from suffice.learner.problem import design_matrix
from suffice.models.problem import (
    LOSSES,
    NOTHING_TO_LEARN,
    FactoredProblem,
    Function,
    LinearOddLoss,
    odd_line,
)
from suffice.owner.mean_operator import MECHANISMS, MeanOperator
from suffice.pages.plots import draw_utility
from suffice.pages.report import PageTable, describe_repeats, mean_and_range, paragraphs
from suffice.papers.reproduction import (
    Comparison,
    Figure,
    Reproduction,
    Result,
    Setting,
    Split,
    Steps,
    files_of,
    split,
)

_GRID = np.linspace(0, 1, 1001)
_ROUNDING = 1e-9  # of phi's range: how far from symmetric and convex a generator may be
_HALVINGS = 64  # of the interval in which log p is sought
_LEAST = np.log(np.finfo(float).tiny)


def from_generator(
    phi: Function, *, slope: Function | None = None, b: float | None = None, name: str = "custom"
) -> LinearOddLoss:
    """Return f(z) = a_phi + phi*(-z) / b, with phi* the convex conjugate of ``phi`` on [0, 1].

    phi must be permissible: finite, strictly convex and symmetric about 1/2 on [0, 1]. Then
    phi*(-z) = phi*(z) - z, so that f is linear-odd with a = 1/b, and f' links a score to the
    probability p at which phi'(p) is the score. a_phi = phi(0)/b makes f fall to zero. ``b`` is
    phi(0) - phi(1/2) unless given, so that f(0) = 1 (Nock & Nielsen 2009); the logistic loss is
    b = 1 with phi(p) = p log p + (1 - p) log(1 - p), Matsushita's phi(p) = -sqrt(p (1 - p)).
    ``slope`` is phi'; without it derivatives are numerical, and good to about 1e-9.
    """
    values = np.asarray(phi(_GRID), dtype=np.float64)
    if values.shape != _GRID.shape or not np.isfinite(values).all():
        raise ParameterError("phi must be finite on [0, 1], its ends included.")
    limit = _ROUNDING * (1 + float(np.ptp(values)))
    uneven = float(np.abs(values - values[::-1]).max())
    if uneven > limit:
        raise ParameterError(
            f"phi must be symmetric about 1/2: phi(p) - phi(1 - p) reaches {uneven:.3g}."
        )
    above = float((values[1:-1] - (values[2:] + values[:-2]) / 2).max())
    if above > limit or not values[500] < values[0] - limit:
        raise ParameterError(
            f"phi must be strictly convex on [0, 1]: it rises {max(above, 0):.3g} above a chord,"
            f" and phi(0) - phi(1/2) is {values[0] - values[500]:.3g}."
        )
    scale = float(values[0] - values[500]) if b is None else float(b)
    if not (np.isfinite(scale) and scale > 0):
        raise ParameterError("b must be a positive number.")

    def numerical_slope(p: np.ndarray, step: float = 1e-5) -> np.ndarray:
        return (phi(p * np.exp(step)) - phi(p * np.exp(-step))) / (2 * p * np.sinh(step))

    derivative = numerical_slope if slope is None else slope

    def even(z: np.ndarray) -> np.ndarray:
        size = np.abs(z)
        p = _lesser_share(derivative, size)
        return (values[0] - phi(p) + size * (0.5 - p)) / scale  # Table 1: phi*(-z) = -p z - phi(p)

    def link(z: np.ndarray) -> np.ndarray:
        p = _lesser_share(derivative, np.abs(z))
        return np.where(z > 0, 1 - p, p)

    def even_slope(z: np.ndarray) -> np.ndarray:
        return np.sign(z) * (0.5 - _lesser_share(derivative, np.abs(z))) / scale

    def second(z: np.ndarray, step: float = 1e-4) -> np.ndarray:
        return (even_slope(z + step) - even_slope(z - step)) / (2 * step)

    return LinearOddLoss(
        name, 1 / scale, even=even, slope=even_slope, second=second, link=link, steepest=1.0
    )


def _lesser_share(derivative: Function, size: np.ndarray) -> np.ndarray:
    """Return p in (0, 1/2] with phi'(p) = -size, or about zero if phi is less steep than that.

    The logarithm of p is halved into: small probabilities keep their relative accuracy.
    """
    low, high = np.full(np.shape(size), _LEAST), np.full(np.shape(size), np.log(0.5))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = derivative(np.exp(middle)) > -size
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return np.exp((low + high) / 2)


def rho_loss(rho: float) -> LinearOddLoss:
    """Return f(z) = rho |z| - rho z + 1, which factorises but cannot be trained with.

    Its even part is rho |z| + 1 and a = 2 rho (Table 1 of the paper, second line); f(z) >= f(0)
    everywhere, so theta = 0 is best whatever the labels are.
    """
    if not (np.isfinite(rho) and rho > 0):
        raise ParameterError(f"rho must be a positive number. It is {rho!r}.")
    return LinearOddLoss(
        "rho",
        2.0 * rho,
        even=lambda z: rho * np.abs(z) + 1,
        slope=lambda z: rho * np.sign(z),
        second=np.zeros_like,
        steepest=1.0,
        untrainable=NOTHING_TO_LEARN,
    )


# Table 1 of the paper as printed, and the hinge loss, which its text holds against them. Written
# out anew: our own losses are an even part plus a line by construction and would prove nothing.
_RHO = 0.5
_PRINTED: Mapping[str, Function] = {
    "logistic": lambda z: np.log(1 + np.exp(-z)),
    "square": lambda z: (1 - z) ** 2,
    "matsushita": lambda z: np.sqrt(1 + z**2) - z,
    "linear": lambda z: -z,
    "rho": lambda z: _RHO * np.abs(z) - _RHO * z + 1,
    "hinge": lambda z: np.maximum(0, 1 - z),
}
_OURS = {**LOSSES, "rho": rho_loss(_RHO)}
_MARGINS = np.linspace(-3, 3, 601)
_LINE = 1e-9  # what rounding leaves of a line
_FACTORISATION_NOTES = f"""
These are all losses in Table 1 of the paper, the rho-loss at rho = {_RHO:g}, and the hinge loss,
which the text names as one that does not factor. Our copy of the paper is text only, so we do not
know which of them Figure 1 shows.

We evaluate the losses as printed and measure their odd parts. The last column compares the even
part with the one that our learner minimises.

The rho-loss factors, but theta = 0 minimises it for any labels: our learner refuses it.
"""


def measure_odd_parts(setting: Setting) -> Result:
    """Return each printed loss as even part plus odd part, and how straight the odd part is."""
    losses: dict[str, dict[str, float | None]] = {}
    steps = Steps(setting.progress, len(_PRINTED))
    rows, compared = [], []
    for name, loss in _PRINTED.items():
        steps.begin(name)
        a, gap = odd_line(loss)
        away, known = gap / 2, _OURS.get(name)
        # Table 1 lists the losses whose odd part is a line, and the hinge is not one of them.
        verdict = "as printed" if (away < _LINE) == (known is not None) else "against the paper"
        differs, cells = None, (f"none (nearest line: {a:.3g})", f"{away:.1g}", "refused")
        if known is not None:
            even = (loss(_MARGINS) + loss(-_MARGINS)) / 2
            differs = float(np.abs(even - known.even(_MARGINS)).max())
            cells = (f"{a:g}", f"{away:.1g}", f"{differs:.1g}")
        losses[name] = {"a": a, "odd_deviation": away, "even_difference": differs}
        rows.append((name, *cells))
        compared.append(Comparison(name, None if known is None else 0.0, away, verdict))
    columns = ("loss", "a", "distance of the odd part from a line", "difference of our even part")
    title = "How well f(z) - f(-z) = -a z holds, for margins z up to 40."
    caption = (
        "Each loss (solid line) is the sum of its even part, which needs no label, and its odd"
        " part. Only the odd part of the hinge loss is not a line."
    )
    return Result(
        (PageTable(title, columns, tuple(rows)),),
        (Figure.of_panels(caption, _draw_parts, _PRINTED),),
        paragraphs(_FACTORISATION_NOTES),
        {"losses": losses},
        compared=tuple(compared),
        compared_as="How far the odd part is from a line, at most.",
    )


def _draw_parts(name: str, loss: Function, axes: Any) -> None:
    values, mirrored = loss(_MARGINS), loss(-_MARGINS)
    axes.plot(_MARGINS, values, color="black", linewidth=2, label="loss f(z)")
    axes.plot(_MARGINS, (values + mirrored) / 2, color="C0", linestyle="--", label="even part")
    axes.plot(_MARGINS, (values - mirrored) / 2, color="C3", linestyle="-.", label="odd part")
    axes.axvline(0, color="grey", linewidth=0.6)
    fails = name not in _OURS
    title = f"{name}: the odd part is not a line" if fails else name
    axes.set(title=title, xlabel="margin z", ylabel="value", ylim=(-3.2, 4.6))


DELTA = 1e-6
_LAMS = 10.0 ** np.arange(1.0, -5.01, -0.5)
_FOLDS = 5
_EPSILONS = (0.03, 0.1, 0.5, 2.0)
_MECHANISMS = ("auto", *MECHANISMS)

_NOTES = f"""
The paper has no experiments. It proposes Laplace noise on the mean operator (Section 4) and bounds
its error; data sets, epsilons and everything measured here are ours.

Of the mechanisms only laplace is the paper's, and it is calibrated to the 1-norm, which the proof
of Theorem 9 needs (docs/errata.md). gaussian, knorm, response, auto, shrinking the operator
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
    tables = []
    for name, runs in measured.items():
        exact, majority = (mean_and_range(runs[key]) for key in ("without_privacy", "larger_class"))
        title = (
            f"{name}: test accuracy, {repeats}. It is {exact} without privacy and {majority} for"
            " the larger class."
        )
        rows = [(curve, *map(mean_and_range, of)) for curve, of in runs["accuracies"].items()]
        took = ("auto chose", *(", ".join(sorted(set(names))) for names in runs["auto_took"]))
        columns = ("mechanism", *(f"epsilon {epsilon:g}" for epsilon in _EPSILONS))
        tables.append(PageTable(title, columns, (*rows, took)))
    caption = (
        "Test accuracy against epsilon per label. auto picks the mechanism with the best predicted"
        f" accuracy. Values are the {repeats}."
    )
    values = {"epsilons": list(_EPSILONS), "delta": DELTA, "seeds": setting.seeds}
    return Result(
        tuple(tables),
        (Figure.of_panels(caption, _draw_set, measured),),
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


def private_accuracy(
    data: Split,
    epsilon: float,
    mechanism: str = "auto",
    delta: float = DELTA,
    clip: float | None = None,
) -> tuple[float, str]:
    """Return the test accuracy of a model learnt from one release, and the mechanism it used."""
    operator = MeanOperator(epsilon, delta, mechanism, clip=clip, map=None)
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
    pipeline = MeanOperator(1.0, clip=clip, map=None).public_rows(data.rows).pipeline
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


PAPER = "Patrini, Nielsen & Nock 2016"

ENTRIES = (
    Reproduction(
        "factorisation",
        "Losses as an even and an odd part",
        f"{PAPER}, Figure 1 and Table 1",
        measure_odd_parts,
        repeats=False,
    ),
    Reproduction(
        "label-privacy",
        "What label privacy costs in accuracy",
        f"{PAPER}, Section 4 (no figure of the paper: it has no experiments)",
        measure_accuracies,
        files=files_of("spambase", "magic", "adult", "mnist-7v9", "uci-har"),
        uncompared="the paper has no experiments",
    ),
)

LEFT_OUT = {
    "Section 1: multiple-instance learning as weak supervision": (
        "out of scope; the paper names it and has no experiment"
    ),
}
