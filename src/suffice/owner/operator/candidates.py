"""The ways to release a mean operator, compared by what they would do to a classifier.

Everything here is computed from public rows: choosing costs no privacy.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from suffice.engines.sums import lattice_step
from suffice.errors import ParameterError
from suffice.owner.operator.forecast import PublicMoments, Utility
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
_CLEARLY = 1.01  # a shape or randomised labels must be that much better than plain noise


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to release at one epsilon, and what public rows predict of it.

    ``whitened`` is the penalty at which the noise is whitened, None for even noise; ``deviation``
    the root mean square of the noise per coordinate of the mean operator.
    """

    mechanism: str
    epsilon: float
    whitened: float | None
    deviation: float
    utility: Utility
    shape: Shape | None = None


def choose(found: Sequence[Candidate]) -> Candidate:
    """Return the candidate of the largest predicted correlation of scores with labels.

    Even noise is preferred to randomised labels and to whitened noise unless they are clearly
    better: its release is small, and says nothing about single rows.
    """
    if not found:
        raise ParameterError(
            f"response takes at most {MOST_STATES} classes; use another mechanism."
        )
    plain = [c for c in found if c.whitened is None and c.mechanism in NOISES] or found
    best = max(plain, key=lambda c: c.utility.correlation)
    other = max(found, key=lambda c: c.utility.correlation)
    return other if other.utility.correlation > _CLEARLY * best.utility.correlation else best


def candidates(
    public: PublicRows,
    classes: int,
    mechanism: str,
    asked: Sequence[tuple[float, float]],
) -> list[Candidate]:
    """Return every way to release by ``mechanism`` ("auto": any) at each (epsilon, delta)."""
    every = Candidates(public, classes)
    return [
        candidate
        for epsilon, delta in asked
        for name in mechanisms_at(mechanism, delta)
        for candidate in every.of(name, epsilon, delta)
    ]


class Candidates:
    """The ways to release something about these public rows and labels of this many classes."""

    def __init__(self, public: PublicRows, classes: int) -> None:
        rows, count = public.sample()
        step = lattice_step(public.pipeline.norm_bound)
        moments = PublicMoments.of(rows, count, classes)
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
        for penalty, (one, two, spread, _) in self._shapes.items():
            reach = Sensitivity(math.ceil(2 * one), factor * two, len(spread) * columns)
            noise = calibrated_noise(name, reach, epsilon, delta)
            variances = noise.variance * self._unit**2 * spread
            yield self._candidate(name, epsilon, penalty, variances)

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
        raise ParameterError(f"mechanism must be one of {', '.join((*GROUPS, *MECHANISMS))}.")
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
