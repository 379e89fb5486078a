"""Forecasts of releases from public facts: the table of a plan, and accuracy from noise and rows.

What a mechanism alone knows of its noise is in the mechanism's own file.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.plain_text import escaped, html_table, text_table
from suffice.privacy.events import check_epsilon

Row = Mapping[str, Any]
Cell = Callable[[Row], str]

_AROUND = (0.25, 0.5, 1.0, 2.0, 4.0)  # times the one epsilon of a plan: two doublings either way


@dataclass(frozen=True)
class PlanCurves:
    """What a drawing of a plan shows: predicted accuracy against epsilon, curve by curve."""

    # Name of a mechanism to its points (epsilon, accuracy) for the usual problem.
    series: Mapping[str, Sequence[tuple[float, float]]]
    # Epsilon, and the accuracies of the hard and of the easy problem for what is chosen
    # there.
    band: Sequence[tuple[float, float, float]]
    without_noise: float  # the accuracy of the usual problem without noise


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Plan:
    """A forecast of releases, as a table; nothing private was read for it.

    A plan prints as a table, and is one in a notebook.
    """

    title: str  # what the table shows
    columns: Mapping[str, Cell]  # the head of each column, and how its cell shows a row
    rows: Sequence[Row]  # one forecast for each release that is compared, as plain JSON values
    facts: Mapping[str, Any]  # what programs get: the rows, and what is the same for all of them
    footer: Sequence[tuple[str, ...]] = ()  # cells of lines below the rows, to compare with
    advice: Sequence[str] = ()  # what to do, in sentences

    @property
    def chosen(self) -> list[Row]:
        """The rows that a release would take, where the plan marks them."""
        return [row for row in self.rows if row.get("chosen")]

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as text, row by row."""
        shown = [tuple(cell(row) for cell in self.columns.values()) for row in self.rows]
        return [*shown, *self.footer]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
        return dict(self.facts)

    def to_pandas(self) -> Any:
        """Return the rows as a data frame of pandas, which has to be installed.

        A member that holds several numbers becomes one column for each, ``accuracy.usual``.
        """
        import pandas as pd  # type: ignore[import-untyped]

        return pd.json_normalize([dict(row) for row in self.rows])

    def curves(self) -> PlanCurves:
        """Return what a drawing shows of a plan that predicts accuracy and marks what is chosen."""
        if not self.chosen or "accuracy" not in self.rows[0]:
            raise ParameterError("This plan is a table and cannot be drawn. Remove --plot.")
        series: dict[str, list[tuple[float, float]]] = {}
        for row in self.rows:
            point = (row["epsilon"], row["accuracy"]["usual"])
            series.setdefault(row["mechanism"], []).append(point)
        band = [
            (row["epsilon"], row["accuracy"]["hard"], row["accuracy"]["easy"])
            for row in self.chosen
        ]
        return PlanCurves(series, band, self.facts["without_noise"]["usual"])

    def __str__(self) -> str:
        lines = text_table(tuple(self.columns), self.cells())
        return "\n".join([lines, *map(escaped, self.advice)])

    def __repr__(self) -> str:
        return f"{escaped(self.title)}\n{self}"

    def _repr_html_(self) -> str:
        return html_table(self.title, tuple(self.columns), self.cells(), self.advice)


def starred(text: str) -> Cell:
    """Return how a cell shows its row by a format, with a star if the row was chosen.

    Examples
    --------
    >>> starred("{epsilon:g}")({"epsilon": 1.0, "chosen": True})
    '1 *'
    """
    return lambda row: text.format_map(row) + (" *" if row["chosen"] else "")


def planned_epsilons(epsilon: float | Iterable[float], *, around: bool = True) -> list[float]:
    """Return the epsilons of a plan; a single one is shown with smaller and larger ones around it.

    Examples
    --------
    >>> planned_epsilons(1.0), planned_epsilons([0.1, 1])
    ([0.25, 0.5, 1.0, 2.0, 4.0], [0.1, 1.0])
    """
    if isinstance(epsilon, Iterable):
        epsilons = [check_epsilon(e) for e in epsilon]
    else:
        single = check_epsilon(epsilon)
        epsilons = [single * factor for factor in _AROUND] if around else [single]
    if not epsilons:
        raise ParameterError("A plan needs at least one epsilon. Add --epsilon 1, for example.")
    return epsilons


EQUAL = 0.5  # the balance of two equally large classes
# The part of the labels' variance that a linear model explains: hard, usual and easy problems.
SIGNALS: Mapping[str, float] = {"hard": 0.05, "usual": 0.2, "easy": 0.7}
_NOTHING = 1e-150  # rows so small have no size, and their scores no correlation with anything
_LAMS = 10.0 ** np.arange(-4.0, 3.01, 0.25)  # penalties that are compared, on rows of length 1


@dataclass(frozen=True)
class Utility:
    """Predicted effect of noise on a classifier."""

    # The largest correlation of scores and labels for the usual signal: what mechanisms are
    # compared by.
    correlation: float
    # The same for each of `SIGNALS`: hard, usual and easy problems.
    correlations: Mapping[str, float]
    # Variance that the noise adds to scores, at the penalty that is best without any noise.
    # It is one penalty for all, so that more noise is more; a learner penalises more, and
    # has less.
    margin_noise: float
    lam: float  # the penalty at which ``correlation`` is reached
    balance: float = EQUAL  # the declared proportion of the positive class

    @property
    def accuracy(self) -> dict[str, float]:
        """The predicted accuracy for each of `SIGNALS`."""
        return {name: accuracy_at(rho, self.balance) for name, rho in self.correlations.items()}

    @property
    def score_noise(self) -> float:
        """Standard deviation that the noise adds to scores: the root of ``margin_noise``."""
        return math.sqrt(self.margin_noise)


def check_balance(balance: float | None, classes: int) -> float:
    """Return the expected proportion of the positive class; None stands for equal classes."""
    if balance is None:
        return EQUAL
    if classes != 2:
        raise ParameterError(
            f"A class balance can be declared for two classes only; there are {classes}. Remove"
            " --balance."
        )
    if not (isinstance(balance, int | float) and 0 < balance < 1):
        raise ParameterError(
            f"The class balance must lie strictly between 0 and 1, for example 0.12; got"
            f" {balance!r}."
        )
    return float(balance)


def accuracy_at(correlation: float, balance: float = EQUAL) -> float:
    """Return the accuracy of the best threshold on scores of this correlation with the labels.

    Scores are taken to be Gaussian in each class, with one variance. Where the proportion p is
    positive, their means are apart by

        d = rho / sqrt(p (1 - p) (1 - rho^2))

    standard deviations, and the best threshold has the accuracy

        p Phi(d/2 + L/d) + (1 - p) Phi(d/2 - L/d),    L = ln(p / (1 - p)),

    which is Phi(rho / sqrt(1 - rho^2)) for equal classes. p is declared by the owner, never
    computed from labels.

    Examples
    --------
    >>> round(accuracy_at(0.0, balance=0.12), 6)  # always the larger class
    0.88
    >>> round(accuracy_at(0.5), 3)
    0.718
    """
    ratio = correlation / math.sqrt(max(1 - correlation**2, 1e-12))
    if balance == EQUAL:
        return _normal(ratio)
    half = ratio / math.sqrt(balance * (1 - balance)) / 2  # d / 2
    shift = math.log(balance / (1 - balance)) / max(2 * half, _NOTHING)  # L / d
    return balance * _normal(half + shift) + (1 - balance) * _normal(half - shift)


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


@dataclass(frozen=True, eq=False)
class PublicMoments:
    """The second moments S of public rows, and what is declared about their labels.

    For noise of covariance C on the mean operator and H = lam I + f''(0) S,

        v(lam) = (a/2)^2 tr(H^-1 C H^-1 S)

    is the variance that the noise adds to the score theta^T x. What it costs depends on the signal,
    which only labels know. So a signal is assumed: mu = S beta with beta in no direction more
    likely than in another, of a size that a linear model explains the part r2 of the labels'
    variance. The correlation of score and label is then

        rho(lam) = k tr(S^2 H^-1) / sqrt(k tr(S^3 H^-2) + tr(H^-1 C H^-1 S)),    k = r2 / tr(S).

    C includes the sampling noise S/m of the labels, so that less noise than that gains nothing.
    Labels -1 and +1 have the variance c = 4 p (1 - p) where the proportion p is positive. Signal
    and sampling noise shrink with it and the noise of a mechanism does not: it counts as C / c.
    """

    values: np.ndarray  # eigenvalues and eigenvectors of S
    vectors: np.ndarray
    count: int  # number of rows
    classes: int  # number of classes
    # Expected proportion of the positive of two classes; declared, never read from labels.
    balance: float = EQUAL

    @classmethod
    def of(cls, rows: np.ndarray, count: int, classes: int) -> "PublicMoments":
        """Return the moments of a sample ``rows`` of ``count`` public rows."""
        values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
        return cls(np.maximum(values, 0.0), vectors, count, classes)

    @property
    def curvature(self) -> float:
        """f''(0): 1/4 for the logistic loss, 1/K for softmax."""
        return 1 / 4 if self.classes == 2 else 1 / self.classes

    @property
    def mean_variance(self) -> float:
        """The mean square of a coordinate: the mean variance of centred rows."""
        return max(float(self.values.mean()), _NOTHING)

    def utility(self, variances: np.ndarray) -> Utility:
        """Return the prediction for noise of these variances along the eigenvectors of S."""
        relative = variances / (4 * self.balance * (1 - self.balance))
        rho = {name: self._correlations(relative, r2, _LAMS) for name, r2 in SIGNALS.items()}
        largest = {name: float(values.max()) for name, values in rho.items()}
        exact = self._correlations(np.zeros_like(variances), SIGNALS["usual"], _LAMS)
        inverse = 1 / (_LAMS[np.argmax(exact)] + self.curvature * self.values)
        weight, columns = (0.5, 1.0) if self.classes == 2 else (1.0, 2.0)
        margin = weight**2 * columns * float((inverse**2 * variances * self.values).sum())
        lam = float(_LAMS[np.argmax(rho["usual"])])
        return Utility(largest["usual"], largest, margin, lam, self.balance)

    def kept(self, variance: float, floor: float = 0.0) -> float:
        """Return the part of the correlation of scores and labels that even noise leaves.

        It compares releases of the same rows, and is no accuracy.

        The signal is the usual one. Penalties are multiples of the mean variance of a coordinate,
        and ``floor`` at least: noise on second moments cannot be told from a penalty.
        """
        noisy, exact = (
            self._correlations(
                np.full_like(self.values, added),
                SIGNALS["usual"],
                self.curvature * np.maximum(_LAMS * self.mean_variance, least),
            ).max()
            for added, least in ((variance, floor), (0.0, 0.0))
        )
        return float(noisy / max(exact, _NOTHING))

    def _correlations(self, variances: np.ndarray, r2: float, penalties: np.ndarray) -> np.ndarray:
        """Return the correlation of scores and labels at each penalty.

        Scores are those of theta = H^-1 mu, H = penalty + curvature S, mu with noise of these
        variances along the eigenvectors of S and with that of sampled labels. A signal in no
        preferred direction explains ``r2`` of the labels' variance. Of K > 2 classes two columns
        are compared, whose rows are 2/K of all.
        """
        s, inverse = self.values, 1 / (penalties[:, None] + self.curvature * self.values)
        columns, pair = (1.0, 1.0) if self.classes == 2 else (2.0, 2 / self.classes)
        noise = columns * (inverse**2 * variances * s).sum(axis=1)
        sampling = pair * (inverse**2 * s * s).sum(axis=1) / self.count
        k = r2 / max(float(s.sum()), _NOTHING) * pair**2
        signal = k * (inverse**2 * s**3).sum(axis=1)
        spread = pair * np.sqrt(signal + noise + sampling)
        return np.asarray(k * (inverse * s**2).sum(axis=1) / np.maximum(spread, _NOTHING))


def effective_labels(rows: int, epsilon: float, classes: int, balance: float = EQUAL) -> float:
    """Return as how many exact labels so many randomised ones count.

    m ((e^eps - 1) / (e^eps + K - 1))^2 for K classes, that is m tanh^2(eps/2) for two. Labels of
    two unequal classes have the variance c = 4 p (1 - p) and count as

        m c / (1 / tanh^2(eps/2) - 1 + c),

    the variance of a label over that of its unbiased estimate. ``rows`` is m, ``balance`` is p.

    Examples
    --------
    >>> round(effective_labels(10_000, 1.0, 2)), round(effective_labels(10_000, 1.0, 10))
    (2136, 215)
    >>> round(effective_labels(10_000, 1.0, 2, balance=0.05))
    491
    """
    odds = math.exp(min(epsilon, 300.0))
    part = ((odds - 1) / (odds + classes - 1)) ** 2
    if classes == 2:
        variance = 4 * balance * (1 - balance)
        part = variance / (1 / part - 1 + variance)
    return rows * part
