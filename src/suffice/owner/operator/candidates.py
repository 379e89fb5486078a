"""The mechanisms of a mean operator, compared by what they would do to a classifier.

Everything here is computed from public rows: choosing costs no privacy.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from suffice.engines.sums import lattice_step
from suffice.errors import ParameterError
from suffice.owner.operator.forecast import EQUAL, SIGNALS, PublicMoments, Utility
from suffice.owner.operator.form import label_change, operator_columns
from suffice.owner.operator.pairing import ShrunkSignal, paired_transform
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
_UNSURE = 0.1  # deviation of the difference of two class proportions: beyond, a majority is hidden
_MOST_UNSURE = 0.2  # the same, where features are released with the count of labels
_COUNTED = 28.0  # m times the intercept's own epsilon: the deviation is then sqrt(8) / 28 = 0.1
_MOST_COUNTED = 0.95  # of epsilon, for the intercept
_LEAST_COUNTED = 0.2  # of epsilon: where less would do, rows are many and features worth more


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
        The shape of noise that is not even.
    counted : float
        The part of epsilon that the intercept has for itself; 0 for noise like every coordinate's.
    intercept_variance : float
        Variance of the noise on the last coordinate, the intercept's where there is one.
    paired : bool
        Whether the count of labels shares its epsilon with a direction of the features.
    """

    mechanism: str
    epsilon: float
    whitened: float | None
    deviation: float
    utility: Utility
    shape: Shape | None = None
    counted: float = 0.0
    intercept_variance: float = 0.0
    paired: bool = False


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


class Candidates:
    """What could be released about these public rows and labels of this many classes.

    ``balance`` is the proportion of the positive class for which accuracy is predicted. A release
    chooses its mechanism for equal classes.

    With a given pipeline the noise is even. Such releases are merged: noise that is shaped for one
    owner's few rows gives up most directions, and those of other owners with them.
    """

    def __init__(self, public: PublicRows, classes: int, balance: float = EQUAL) -> None:
        rows, count = public.sample()
        step = lattice_step(public.pipeline.norm_bound)
        moments = replace(PublicMoments.of(rows, count, classes), balance=balance)
        self._moments, self._unit = moments, step / moments.count
        self._weight = public.pipeline.intercept
        self._is_given = public.summary is None  # nothing was fitted on these rows
        self._codes = codes = rows / step
        # By penalty: the largest norms of a row, the variance along each eigenvector, the shape.
        self._shapes: dict[float | None, tuple[float, float, np.ndarray, Shape | None]] = {}
        self._shapes[None] = (*_norms(codes), np.ones(rows.shape[1]), None)
        shaped = rows.shape[1] <= MOST_SHAPED and not self._is_given
        for penalty in _PENALTIES if shaped else ():
            spread = penalty + moments.curvature * moments.values
            if spread.max() > _MOST_UNEVEN * spread.min():
                continue
            transform = whitening(moments.values, moments.vectors, penalty, moments.curvature)
            self._shapes[penalty] = (*_norms(codes @ transform), spread, Shape.of(transform))

    @property
    def without_noise(self) -> Utility:
        """What exact labels would give."""
        return self._moments.utility(np.zeros_like(self._moments.values))

    def every(self, mechanism: str, epsilon: float, delta: float) -> list[Candidate]:
        """Return every candidate of ``mechanism``: of "auto" and "sums" those of many."""
        names = mechanisms_at(mechanism, delta)
        if self._is_given and mechanism in GROUPS:
            names = [name for name in names if name in NOISES]
        return [candidate for name in names for candidate in self.of(name, epsilon, delta)]

    def best(self, mechanism: str, epsilon: float, delta: float) -> Candidate:
        """Return what a release uses: the best predicted, or one that knows the larger class.

        On few rows the noise of the intercept hides which class is the larger. Where the mechanism
        is left to public rows, the intercept is then released together with a direction of the
        features (`pairing`). On fewer still it has a part of epsilon for itself.
        """
        chosen = choose(self.every(mechanism, epsilon, delta))
        if mechanism not in GROUPS or not self._weight or not self._is_unsure(chosen):
            return chosen
        if self._codes.shape[1] > MOST_SHAPED or self._is_given:
            return chosen
        share = min(_COUNTED / (self._moments.count * epsilon), _MOST_COUNTED)
        small = share >= _LEAST_COUNTED
        pair = self._pairing(epsilon)
        if pair is not None and (small or self._captured(pair) > self._captured(chosen)):
            return pair
        return self._counting(epsilon, share) if small else chosen

    @cached_property
    def _signal(self) -> ShrunkSignal:
        return ShrunkSignal(self._codes, self._moments)

    def _captured(self, candidate: Candidate) -> float:
        """Return what a learner that shrinks gets of a usual signal."""
        return self._signal.captured(self._white_noise(candidate), SIGNALS["usual"])

    def _white_noise(self, candidate: Candidate) -> np.ndarray:
        """Return the variances of a candidate's noise along the white coordinates of the rows."""
        if candidate.mechanism == "response":
            constant = _response_variance(self._moments, candidate.epsilon)
            return np.full(self._signal.rank, constant)
        basis, shape = self._signal.white_basis, candidate.shape
        back = np.eye(len(basis)) if shape is None else shape.back()
        power = len(back) * (candidate.deviation / (self._unit * self._moments.count)) ** 2
        return np.asarray(power * ((back.T @ basis) ** 2).sum(axis=0) / np.sum(back**2))

    def _pairing(self, epsilon: float) -> Candidate | None:
        """Return Laplace noise in which the count shares its epsilon with features, if it can."""
        transform = paired_transform(self._signal, epsilon, _UNSURE, _MOST_UNSURE)
        return None if transform is None else self._shaped_laplace(epsilon, Shape.of(transform))

    def _shaped_laplace(self, epsilon: float, shape: Shape) -> Candidate:
        """Return Laplace noise of one size in the coordinates of a shape."""
        moments = self._moments
        columns, factor = operator_columns(moments.classes), label_change(moments.classes)
        l1, l2 = _norms(self._codes @ (shape.matrix.T / 2.0**shape.bits))
        reach = Sensitivity(math.ceil(2 * l1), factor * l2, len(shape.matrix) * columns)
        noise = calibrated_noise("laplace", reach, epsilon)
        own = noise.variance * self._unit**2 * (shape.back() ** 2).sum(axis=1)
        deviation = math.sqrt(float(own.mean()))
        blank = Utility(0.0, (), 0.0, 0.0)
        pair = Candidate(
            "laplace", epsilon, None, deviation, blank, shape, 0.0, float(own[-1]), paired=True
        )
        return replace(pair, utility=self._signal.utility(self._white_noise(pair)))

    def _is_unsure(self, candidate: Candidate) -> bool:
        """Return whether its noise can hide which class is the larger."""
        return candidate.intercept_variance > (_UNSURE * self._weight) ** 2

    def _counting(self, epsilon: float, share: float) -> Candidate:
        """Return Laplace noise in which the intercept has ``share`` of epsilon for itself.

        With weight t on the intercept's coordinate c a row has the 1-norm ||x||_1 + t c, of which
        t c is the share. (Laplace noise on a count of its own, composed, is the same.)
        """
        moments = self._moments
        features = float(np.abs(self._codes[:, :-1]).sum(axis=1).max())
        constant = float(np.abs(self._codes[0, -1]))
        weight = share / (1 - share) * max(features, constant) / constant
        weights = np.ones(self._codes.shape[1])
        weights[-1] = weight
        columns, factor = operator_columns(moments.classes), label_change(moments.classes)
        l1, l2 = _norms(self._codes * weights)
        reach = Sensitivity(math.ceil(2 * l1), factor * l2, len(weights) * columns)
        noise = calibrated_noise("laplace", reach, epsilon)
        own = noise.variance * self._unit**2 / weights**2
        deviation = math.sqrt(float(own.mean()))
        utility = moments.utility((moments.vectors**2).T @ own)
        shape = Shape.of(np.diag(weights))
        return Candidate("laplace", epsilon, None, deviation, utility, shape, share, float(own[-1]))

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
        if other.counted:
            return self._counting(other.epsilon, other.counted)
        if other.paired and other.shape is not None:
            return self._shaped_laplace(other.epsilon, other.shape)
        offered = self.of(other.mechanism, other.epsilon, delta)
        return next(candidate for candidate in offered if candidate.whitened == other.whitened)

    def _candidate(
        self, name: str, epsilon: float, penalty: float | None, variances: np.ndarray
    ) -> Candidate:
        deviation = math.sqrt(float(variances.mean()))
        utility, shape = self._moments.utility(variances), self._shapes[penalty][-1]
        intercept = float(self._moments.vectors[-1] ** 2 @ variances)
        return Candidate(
            name, epsilon, penalty, deviation, utility, shape, intercept_variance=intercept
        )


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
