"""What many parties could learn together at party-level privacy: from public numbers alone.

Two forecasts stand side by side. Hamm et al. 2016, Theorem 4, bounds how much more risk a perturbed
classifier has than any other one, w_0; corrected and tightened, with ||x|| <= 1 and without its
term (lam/2) ||w_0||^2 it is

    (c + lam) q^2 + 16 (32 + ln(1/delta_s)) / (lam N),

q the exact quantile of the noise on the parameters (the paper has a looser one, and twice the
logistic sensitivity), c = 1/4 for the logistic loss and 1/2 for softmax. With M = 1 it is the bound
(11) for majority votes. Ours (owner/operator/forecast.py) predicts accuracy, for the operator.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from suffice.errors import ParameterError
from suffice.options import REQUIRED, data_option, numbers, privacy_option
from suffice.owner.operator.forecast import SIGNALS, PublicMoments, Utility
from suffice.owner.operator.form import gradient_change, label_change, operator_columns
from suffice.owner.parties.auxiliary import AuxiliaryRows
from suffice.owner.parties.class_sums import choose_method
from suffice.owner.plans import Plan, planned_epsilons
from suffice.privacy.calibrate import check_delta, gaussian_multiplier

__all__ = ["PartyForecast", "PartyPlan", "PartyPlanner", "plan_parties", "theorem_4"]

_FAILURE_PROBABILITY = 0.05  # of each part of a bound
_ENOUGH = 0.75  # of what could be gained over guessing: less is called out of reach
_BETTER = 0.01  # in accuracy: by which an alternative must be better to be named
_USUAL = list(SIGNALS).index("usual")
_MOST_PARTIES = 10**9


@dataclass(frozen=True)
class PartyForecast:
    """One method at one epsilon: predicted accuracy where there is a forecast, else a bound.

    Parameters
    ----------
    epsilon : float
        Epsilon of each unit.
    method : str
        What is released.
    protects : str
        The unit that the guarantee protects: party or label.
    noise : float
        Score noise: the standard deviation that the mechanism adds to a score.
    accuracy : tuple of float, optional
        Predicted accuracy of the hard, the usual and the easy problem.
    risk_bound : float, optional
        The bound on the excess risk of Theorem 4, corrected.
    """

    epsilon: float
    method: str
    protects: str
    noise: float
    accuracy: tuple[float, ...] | None = None
    risk_bound: float | None = None


@dataclass(frozen=True, repr=False)
class PartyPlan(Plan):
    """A table of what each method would give, and in words whether it is worth it.

    Parameters
    ----------
    parties : int
        The number of enrolled parties.
    rows : tuple of PartyForecast
        One forecast for each method and epsilon.
    without_noise : Utility
        The forecast without noise.
    needed : tuple of int
        For each epsilon, the number of parties at which three quarters of the gain over guessing
        remain for the usual problem.
    verdicts : tuple of str
        For each epsilon, the same in words; before them, what few records per class mean.
    in_reach : tuple of bool
        For each epsilon, whether there are enough parties.
    """

    parties: int
    rows: tuple[PartyForecast, ...]
    without_noise: Utility
    needed: tuple[int, ...]
    verdicts: tuple[str, ...]
    in_reach: tuple[bool, ...]

    title = (
        "Predicted score noise and accuracy for two classes of equal size. Votes explain 5 %"
        " (hard), 20 % (usual) or 70 % (easy) of the variance of the labels. The risk bound is"
        " Theorem 4 of Hamm et al. (2016), corrected"
    )
    columns = ("epsilon", "method", "protects", "score noise", *SIGNALS, "risk bound")

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as text; a dash where there is no forecast or no bound."""
        lines = [
            (
                f"{row.epsilon:g}",
                row.method,
                row.protects,
                f"{row.noise:.2g}",
                *(f"{a:.3f}" for a in row.accuracy or ()),
                *(["-"] * (len(SIGNALS) if row.accuracy is None else 0)),
                "-" if row.risk_bound is None else f"{row.risk_bound:.2g}",
            )
            for row in self.rows
        ]
        exact = [f"{value:.3f}" for value in self.without_noise.accuracy]
        return [*lines, ("", "without noise", "nothing", "0", *exact, "-")]

    @property
    def advice(self) -> tuple[str, ...]:
        """Whether it is worth it, in sentences."""
        return self.verdicts

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
        signals = list(SIGNALS)
        return {
            "parties": self.parties,
            "rows": [
                {
                    "epsilon": row.epsilon,
                    "method": row.method,
                    "protects": row.protects,
                    "noise": row.noise,
                    "accuracy": None
                    if row.accuracy is None
                    else dict(zip(signals, row.accuracy, strict=True)),
                    "risk_bound": row.risk_bound,
                }
                for row in self.rows
            ],
            "without_noise": dict(zip(signals, self.without_noise.accuracy, strict=True)),
            "parties_needed": list(self.needed),
            "in_reach": list(self.in_reach),
            "verdicts": list(self.verdicts),
        }


@dataclass(frozen=True)
class PartyPlanner:
    """What a plan of many parties is made from: public numbers, and auxiliary rows if there are."""

    parties: int = data_option(REQUIRED, "Number of enrolled parties, for example 500.")
    epsilon: Sequence[float] = privacy_option(
        REQUIRED,
        "Epsilon of each party, for example 1; repeat it for several.",
        parse=numbers,
        many=True,
    )
    delta: float = privacy_option(
        0.0,
        (
            "Delta, for example 1e-6. Gaussian noise needs a value above 0; with 0 the noise is"
            " K-norm noise."
        ),
    )
    auxiliary: Any = data_option(
        None,
        "Public rows on which every party votes, as a table; or use --rows and --features.",
        name="--aux",
        path=Path,
    )
    rows: int | None = data_option(None, "Number of auxiliary rows, for example 2000.")
    features: int | None = data_option(None, "Number of features, for example 30.")
    classes: int = data_option(2, "Number of classes, for example 2.")
    samples: int = data_option(100, "Number of records of each party, for example 100.")
    lam: float = privacy_option(
        1e-4,
        "Weight of the penalty in the parties' own classifiers, for example 1e-4.",
        name="--penalty-weight",
    )

    def plan(self) -> PartyPlan:
        """Return the plan."""
        for name, value in (("--rows", self.rows), ("--features", self.features)):
            if self.auxiliary is not None and value is not None:
                raise ParameterError(f"{name} cannot be used with --aux. Remove {name}.")
        auxiliary = None if self.auxiliary is None else AuxiliaryRows.read(self.auxiliary)
        return plan_parties(
            self.parties,
            self.epsilon,
            self.delta,
            auxiliary=auxiliary,
            rows=self.rows,
            features=self.features,
            classes=self.classes,
            samples=self.samples,
            lam=self.lam,
        )


def plan_parties(
    parties: int,
    epsilon: float | Sequence[float],
    delta: float = 1e-5,
    *,
    auxiliary: AuxiliaryRows | None = None,
    rows: int | None = None,
    features: int | None = None,
    classes: int = 2,
    samples: int = 100,
    lam: float = 1e-4,
) -> PartyPlan:
    """Return what M parties would give at each epsilon. Nothing private is read.

    Parameters
    ----------
    parties : int
        The number of enrolled parties.
    epsilon : float or sequence of float
        Epsilon of each party, or several to compare.
    delta : float
        Delta of each party. 0 for K-norm noise.
    auxiliary : AuxiliaryRows, optional
        The rows that parties vote on. Without them the plan needs ``rows`` and ``features``, and
        assumes rows that are evenly spread over all directions.
    rows : int, optional
        Number of auxiliary rows.
    features : int, optional
        Number of features.
    classes : int
        Number of classes.
    samples : int
        Number of records of each party. Only the alternative uses it, in which every party releases
        the labels of its own public rows with privacy per label, and a learner merges them.
    lam : float
        Weight of the penalty in the parties' own classifiers.

    Returns
    -------
    PartyPlan
        One line for each method and epsilon, and a verdict for each epsilon.

    Raises
    ------
    ParameterError
        If a number is missing or not positive.

    Examples
    --------
    >>> from suffice import plan_parties
    >>> plan_parties(20, 1.0, 1e-6, rows=500, features=10).in_reach
    (False,)
    >>> plan_parties(5000, 1.0, 1e-6, rows=500, features=10).in_reach
    (True,)
    """
    epsilons = planned_epsilons(epsilon, around=False)
    counts = (parties, classes - 1, samples, *(() if auxiliary else (rows or 0, features or 0)))
    if not all(isinstance(n, int) and n > 0 for n in counts):
        raise ParameterError(
            "A plan needs at least one party, one record per party and two classes. Without --aux"
            " it also needs --rows and --features."
        )
    delta = check_delta(delta)
    if not lam > 0:
        raise ParameterError(
            "The penalty weight must be above 0: set --penalty-weight (Python: lam=...)."
        )
    situation = _Situation(_moments(auxiliary, rows, features, classes), parties, samples, lam)
    table: list[PartyForecast] = []
    verdicts, needed, in_reach = [], [], []
    for e in epsilons:
        lines = situation.lines(e, delta)
        table += lines
        enough = situation.needed(e, delta)
        needed.append(enough)
        in_reach.append(situation.in_reach(lines[0]))
        verdicts.append(_verdict(situation, e, lines, enough))
    without = situation.without_noise
    if situation.few_records:
        verdicts.insert(
            0,
            f"Each party has at most two records per class ({samples:,} records, {classes:,}"
            " classes), so most votes would be for a wrong class. Use --method class-sums"
            f" --samples {samples}. What follows is about class sums.",
        )
    return PartyPlan(
        parties, tuple(table), without, tuple(needed), tuple(verdicts), tuple(in_reach)
    )


def _moments(
    auxiliary: AuxiliaryRows | None, rows: int | None, features: int | None, classes: int
) -> PublicMoments:
    if auxiliary is not None:
        return PublicMoments.of(auxiliary.rows, auxiliary.count, classes)
    width = int(features or 1)
    return PublicMoments(np.ones(width), np.eye(width), int(rows or 1), classes)


@dataclass(frozen=True, eq=False)
class _Situation:
    moments: PublicMoments
    parties: int
    samples: int
    lam: float

    @property
    def without_noise(self) -> Utility:
        """What exact votes would give."""
        return self.moments.utility(np.zeros_like(self.moments.values))

    def lines(self, epsilon: float, delta: float) -> list[PartyForecast]:
        """Return the method that is chosen first, then the paper's, then labels merged.

        Where parties have few records per class most votes are for a wrong class. No forecast of
        the operator knows that, so that it has none there.
        """
        operator = self._operator(epsilon, delta)
        if self.few_records:
            first = [self._class_sums(epsilon, delta), replace(operator, accuracy=None)]
        else:
            first = [operator]
        return [
            *first,
            *(self._perturbed(method, epsilon, delta) for method in ("soft", "majority-model")),
            self._labels(epsilon, delta),
        ]

    def utility(self, parties: float, epsilon: float, delta: float) -> Utility:
        """Return the forecast of the operator with whitened noise, of variance s_j (r z/M)^2."""
        factor = label_change(self.moments.classes)
        deviation = factor * _multiplier(epsilon, delta, self._dimension) / parties
        return self.moments.utility(self.moments.values * deviation**2)

    @property
    def _dimension(self) -> int:
        return len(self.moments.values) * operator_columns(self.moments.classes)

    def chosen(self, parties: float, epsilon: float, delta: float) -> Utility:
        """Return the forecast of the method that is chosen."""
        forecast = self.utility_of_sums if self.few_records else self.utility
        return forecast(parties, epsilon, delta)

    def _operator(self, epsilon: float, delta: float) -> PartyForecast:
        forecast = self.utility(self.parties, epsilon, delta)
        noise = math.sqrt(forecast.margin_noise)
        return PartyForecast(epsilon, "operator", "party", noise, forecast.accuracy)

    @property
    def few_records(self) -> bool:
        """Whether parties have so few records per class that class sums are chosen."""
        return choose_method(self.moments.classes, self.samples) == "class-sums"

    def utility_of_sums(self, parties: float, epsilon: float, delta: float) -> Utility:
        """Return the forecast of class sums of n records of each party.

        In white coordinates rows have length sqrt(d) about, and one party moves the sum of M n rows
        of length one by 2 sqrt(n) (`ClassSums`).
        """
        moments, records = self.moments, self.samples * parties
        length = math.sqrt(len(moments.values))
        z = _multiplier(epsilon, delta, self._dimension)
        deviation = 2 * math.sqrt(self.samples) * length * z / records
        pooled = PublicMoments(
            moments.values, moments.vectors, max(1, round(records)), moments.classes
        )
        return pooled.utility(moments.values * deviation**2)

    def _class_sums(self, epsilon: float, delta: float) -> PartyForecast:
        forecast = self.utility_of_sums(self.parties, epsilon, delta)
        noise = math.sqrt(forecast.margin_noise)
        return PartyForecast(epsilon, "class-sums", "party", noise, forecast.accuracy)

    def _perturbed(self, method: str, epsilon: float, delta: float) -> PartyForecast:
        """Return noise and bound of the paper's methods, rows scaled to norm one."""
        parties = 1 if method == "majority-model" else self.parties
        bound = theorem_4(
            parties,
            self.moments.count,
            len(self.moments.values),
            classes=self.moments.classes,
            epsilon=epsilon,
            delta=delta,
            lam=self.lam,
        )
        factor = 1.0 if self.moments.classes == 2 else 2.0  # two columns are compared
        noise = factor * _multiplier(epsilon, delta, self._dimension) / (self.lam * parties)
        return PartyForecast(epsilon, method, "party", noise, risk_bound=bound)

    def _labels(self, epsilon: float, delta: float) -> PartyForecast:
        """Return what M label-private mean operators of n rows each give, merged."""
        moments = self.moments
        factor = label_change(moments.classes)
        z = _multiplier(epsilon, delta, self._dimension)
        longest = math.sqrt(float(moments.values.sum()))
        deviation = z * factor * longest / (self.samples * math.sqrt(self.parties))
        pooled = PublicMoments(
            moments.values, moments.vectors, self.samples * self.parties, moments.classes
        )
        forecast = pooled.utility(np.full_like(moments.values, deviation**2))
        noise = math.sqrt(forecast.margin_noise)
        return PartyForecast(epsilon, "labels, merged", "label", noise, forecast.accuracy)

    def remaining_gain(self, accuracy: Sequence[float]) -> float:
        """Return the share that noise leaves of what the usual problem gains over guessing."""
        exact = self.without_noise.accuracy[_USUAL] - 0.5
        return (accuracy[_USUAL] - 0.5) / max(exact, 1e-12)

    def in_reach(self, line: PartyForecast) -> bool:
        """Say whether enough is kept."""
        return line.accuracy is not None and self.remaining_gain(line.accuracy) >= _ENOUGH

    def needed(self, epsilon: float, delta: float) -> int:
        """Return the least number of parties with which enough is kept, to two digits."""
        low, high = 1.0, float(_MOST_PARTIES)
        while high / low > 1.01:
            middle = math.sqrt(low * high)
            enough = self.remaining_gain(self.chosen(middle, epsilon, delta).accuracy) >= _ENOUGH
            low, high = (low, middle) if enough else (middle, high)
        digits: int = 10 ** max(0, math.floor(math.log10(high)) - 1)
        return math.ceil(high / digits) * digits


def _multiplier(epsilon: float, delta: float, dimension: int) -> float:
    """Return the noise per coordinate and unit of sensitivity: Gaussian, or K-norm for delta 0."""
    if delta > 0:
        return gaussian_multiplier(epsilon, delta)
    return math.sqrt(dimension + 1) / epsilon


def theorem_4(
    parties: int,
    rows: int,
    features: int,
    *,
    classes: int,
    epsilon: float,
    delta: float = 0.0,
    lam: float = 1e-4,
) -> float:
    """Return the bound on the excess risk of the soft classifier, each part failing with 5 %.

    With delta > 0 for Gaussian noise, else for noise of density exp(-||eta|| / scale).
    """
    dimension = features * operator_columns(classes)
    sensitivity = gradient_change(classes) / (lam * parties)
    if delta > 0:
        radius = math.sqrt(stats.chi2.isf(_FAILURE_PROBABILITY, dimension)) * gaussian_multiplier(
            epsilon, delta
        )
    else:
        radius = float(stats.gamma.isf(_FAILURE_PROBABILITY, dimension)) / epsilon
    curvature = 0.25 if classes == 2 else 0.5
    noise = (curvature + lam) * (radius * sensitivity) ** 2
    return noise + 16 * (32 + math.log(1 / _FAILURE_PROBABILITY)) / (lam * rows)


def _verdict(
    situation: _Situation, epsilon: float, lines: Sequence[PartyForecast], enough: int
) -> str:
    chosen, labels = lines[0], lines[-1]
    assert chosen.accuracy is not None  # noqa: S101  # for the type checker: both have one
    assert labels.accuracy is not None  # noqa: S101
    usual, remaining = (
        chosen.accuracy[_USUAL],
        max(0.0, situation.remaining_gain(chosen.accuracy)),
    )
    share = f"{100 * remaining:.0f} %"
    result = f"{share} of the gain over guessing remains after noise (accuracy {usual:.2f})."
    text = f"{situation.parties:,} parties at epsilon = {epsilon:g}: privacy of whole parties is"
    if situation.in_reach(chosen):
        return f"{text} within reach. In the usual case {result}"
    text += f" out of reach. In the usual case only {result}"
    none = "No number of parties would be enough."
    needed = none if enough >= _MOST_PARTIES else f"About {enough:,} parties would be needed."
    if labels.accuracy[_USUAL] < usual + _BETTER:
        return f"{text} {needed}"
    return (
        f"{text} {needed} If each party's rows may be public and only labels are private, merge"
        f" label-private releases instead: predicted accuracy {labels.accuracy[_USUAL]:.2f} with"
        f" {situation.samples:,} records each. Each party runs suffice release mean-operator"
        " --pipeline-from FILE, and the learner runs suffice fit on all releases."
    )
