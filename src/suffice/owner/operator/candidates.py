"""The mechanisms of a mean operator, compared by what they would do to a classifier.

Everything here is computed from public rows: choosing costs no privacy.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from suffice.engines.sums import lattice_step
from suffice.errors import ParameterError
from suffice.owner.operator.forecast import EQUAL, PublicMoments, Utility
from suffice.owner.operator.form import label_change, operator_columns
from suffice.owner.operator.shaping import MOST_SHAPED, Shape, whitening
from suffice.owner.public_rows import PublicRows
from suffice.privacy.noise import NOISES, Sensitivity, calibrated_noise, needs_delta
from suffice.privacy.response import Response

__all__ = [
    "GROUPS",
    "MECHANISMS",
    "MOST_STATES",
    "Candidate",
    "Candidates",
    "OperatorMechanism",
    "candidates",
    "choose",
    "mechanisms_at",
]

MECHANISMS = (*NOISES, "response")


class OperatorMechanism(StrEnum):
    """The mechanisms of a mean operator; the first two let public rows choose."""

    AUTO = "auto"
    SUMS = "sums"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    KNORM = "knorm"
    RESPONSE = "response"


# Names for a choice that public rows make: any mechanism, or any that adds noise to sums.
GROUPS: Mapping[str, tuple[str, ...]] = {"auto": MECHANISMS, "sums": tuple(NOISES)}
MOST_STATES = 256  # classes of randomised labels: an answer is one byte
_PENALTIES = (1.0, 0.1)  # at which whitened noise is tried
_MOST_UNEVEN = 2.0**20  # largest over least variance: beyond, an integer matrix is too coarse
_CLEARLY = 1.01  # a shape or randomised labels must be that much better than even noise


@dataclass(frozen=True, eq=False)
class Candidate:
    """One mechanism at one epsilon, and what public rows predict of it.

    Parameters
    ----------
    mechanism : str
        laplace, gaussian, knorm or response.
    epsilon : float
        The epsilon that it is calibrated for.
    whitened : float or None
        The penalty at which the noise is whitened; None for even noise.
    deviation : float
        Root mean square of the noise per coordinate of the mean operator.
    utility : Utility
        Predicted accuracy and score noise.
    shape : Shape, optional
        The shape of whitened noise.
    """

    mechanism: str
    epsilon: float
    whitened: float | None
    deviation: float
    utility: Utility
    shape: Shape | None = None


def choose(offered: Sequence[Candidate]) -> Candidate:
    """Return the candidate of the largest predicted correlation of scores with labels.

    Even noise is preferred to randomised labels and to whitened noise unless they are clearly
    better: its release is small, and says nothing about single rows.
    """
    if not offered:
        raise ParameterError(
            f"Mechanism response takes at most {MOST_STATES} classes. Use another mechanism."
        )
    even = [c for c in offered if c.whitened is None and c.mechanism in NOISES] or offered
    best_even = max(even, key=lambda c: c.utility.correlation)
    best = max(offered, key=lambda c: c.utility.correlation)
    clearly_better = best.utility.correlation > _CLEARLY * best_even.utility.correlation
    return best if clearly_better else best_even


def candidates(
    public: PublicRows,
    classes: int,
    mechanism: str,
    epsilons_deltas: Sequence[tuple[float, float]],
) -> list[Candidate]:
    """Return every candidate of ``mechanism`` ("auto": of any) at each (epsilon, delta)."""
    every = Candidates(public, classes)
    return [
        candidate
        for epsilon, delta in epsilons_deltas
        for name in mechanisms_at(mechanism, delta)
        for candidate in every.of(name, epsilon, delta)
    ]


class Candidates:
    """What could be released about these public rows and labels of this many classes.

    ``balance`` is the proportion of the positive class for which accuracy is predicted. A release
    chooses its mechanism for equal classes.
    """

    def __init__(self, public: PublicRows, classes: int, balance: float = EQUAL) -> None:
        rows, count = public.sample()
        step = lattice_step(public.pipeline.norm_bound)
        moments = replace(PublicMoments.of(rows, count, classes), balance=balance)
        self._moments, self._unit = moments, step / moments.count
        codes = rows / step
        # By penalty: the largest norms of a row, the variance along each eigenvector, the shape.
        self._shapes: dict[float | None, tuple[float, float, np.ndarray, Shape | None]] = {}
        self._shapes[None] = (*_norms(codes), np.ones(rows.shape[1]), None)
        for penalty in _PENALTIES if rows.shape[1] <= MOST_SHAPED else ():
            spread = penalty + moments.curvature * moments.values
            if spread.max() > _MOST_UNEVEN * spread.min():
                continue
            transform = whitening(moments.values, moments.vectors, penalty, moments.curvature)
            self._shapes[penalty] = (*_norms(codes @ transform), spread, Shape.of(transform))

    @property
    def without_noise(self) -> Utility:
        """What exact labels would give."""
        return self._moments.utility(np.zeros_like(self._moments.values))

    def of(self, name: str, epsilon: float, delta: float) -> Iterator[Candidate]:
        """Yield the candidates of one mechanism: even noise, and noise whitened at some penalty."""
        moments = self._moments
        if name == "response":
            if moments.classes <= MOST_STATES:
                variances = _response_variance(moments, epsilon) * moments.values
                yield self._candidate(name, epsilon, None, variances)
            return
        columns, factor = operator_columns(moments.classes), label_change(moments.classes)
        for penalty, (l1, l2, spread, _) in self._shapes.items():
            reach = Sensitivity(math.ceil(2 * l1), factor * l2, len(spread) * columns)
            noise = calibrated_noise(name, reach, epsilon, delta)
            variances = noise.variance * self._unit**2 * spread
            yield self._candidate(name, epsilon, penalty, variances)

    def like(self, other: Candidate, delta: float) -> Candidate:
        """Return the candidate of the same mechanism and shape, as these labels have it."""
        offered = self.of(other.mechanism, other.epsilon, delta)
        return next(candidate for candidate in offered if candidate.whitened == other.whitened)

    def _candidate(
        self, name: str, epsilon: float, penalty: float | None, variances: np.ndarray
    ) -> Candidate:
        deviation = math.sqrt(float(variances.mean()))
        utility, shape = self._moments.utility(variances), self._shapes[penalty][-1]
        return Candidate(name, epsilon, penalty, deviation, utility, shape)


def _norms(rows: np.ndarray) -> tuple[float, float]:
    """Return the largest 1-norm and 2-norm of a row."""
    return float(np.abs(rows).sum(axis=1).max()), float(np.linalg.norm(rows, axis=1).max())


def mechanisms_at(mechanism: str, delta: float) -> list[str]:
    """Return the mechanisms that ``mechanism`` stands for at this delta."""
    if mechanism not in {*GROUPS, *MECHANISMS}:
        names = ", ".join((*GROUPS, *MECHANISMS))
        raise ParameterError(f"The mechanism must be one of {names}; got {mechanism!r}.")
    if mechanism not in GROUPS:
        return [mechanism]
    return [name for name in GROUPS[mechanism] if delta > 0 or not needs_delta(name)]


def _response_variance(moments: PublicMoments, epsilon: float) -> float:
    """Return c with C = c S: 4q(1-q)/(1-2q)^2 / m for two classes, q the chance of a flip.

    For more classes C depends on the labels; c is the mean over the columns of M for labels that
    are evenly spread, as its trace does not depend on them.
    """
    inverse = np.linalg.inv(Response.from_epsilon(moments.classes, epsilon).matrix)
    spread = float((inverse**2).sum(axis=0).mean()) - 1  # sum_k q(q - 1), q = P^-1 e_answer
    spread *= 2.0 if moments.classes == 2 else 1 / moments.classes
    return spread / moments.count
