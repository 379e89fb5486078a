"""Refuse guarantees that a file's own numbers contradict: what it implies is computed anew.

A channel implies an epsilon; noise of a stated variance, on a statistic that one unit can move by a
known amount, implies a privacy loss. Where both are in the file, the loss that is claimed must be
no smaller than the one that is implied. The event that a guarantee names must be one that the
file's mechanism has: no other could be checked. Each check is a necessary condition, and loses
nothing to rounding: a release that an owner made passes. What a file does not say (the rows, and so
how far one of them moves a sum; how many parties there are) cannot be checked; that an owner
computed honestly is theirs to sign.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from suffice.privacy import calibrate
from suffice.privacy.events import Approximate, Event, Gaussian, Laplace, Pure
from suffice.privacy.guarantee import Guarantee, Protection, Scope, Unit
from suffice.release.columns import Flips, SpreadColumn

__all__ = [
    "Cells",
    "Check",
    "Stated",
    "claims_of_labels",
    "claims_of_operator",
    "claims_of_proportions",
    "claims_of_rados",
    "claims_of_records",
    "claims_of_votes",
]


_LOST = 1e-6  # of a scale: more than lattices and floats move it, in the claim's favour
_LOST_DELTA = 1e-12
_LEAST_MULTIPLIER, _MOST_MULTIPLIER = 1e-6, 1e12  # beyond: nothing hidden, or everything


@dataclass(frozen=True)
class _Cell:
    """One randomised cell: an answer of probability ``p`` from one state, ``q`` from another.

    ``multiplier`` is that of Gaussian noise, of which no single answer says much.
    """

    p: float = 1.0
    q: float = 1.0
    multiplier: float = math.inf

    @property
    def loss(self) -> float:
        """ln(p / q)."""
        return math.log(self.p) - math.log(self.q)


def _discrete(channel: NDArray[np.float64]) -> _Cell:
    """Return the answer by which two states are told apart best."""
    highest, lowest = channel.max(axis=1), channel.min(axis=1)
    best = int(np.argmax(np.log(highest) - np.log(lowest)))
    return _Cell(float(highest[best]), float(lowest[best]))


def _cell(column: SpreadColumn) -> _Cell:
    """Return what one cell of a randomised column gives away at most by one answer."""
    noise = column.noise
    if isinstance(noise, Flips):
        if noise.keep is None:
            return _discrete(noise.matrix)
        other = (1 - noise.keep) / (noise.states - 1)
        return _Cell(max(noise.keep, other), min(noise.keep, other))
    width, deviation = noise.high - noise.low, math.sqrt(noise.variance)
    if noise.kernel == "gaussian":
        multiplier = deviation / width * (1 + _LOST)
        return _Cell(multiplier=min(max(multiplier, _LEAST_MULTIPLIER / 2), _MOST_MULTIPLIER))
    loss = min(width * math.sqrt(2) / deviation * (1 - _LOST), 700.0)  # e^700 is still a float
    return _Cell(0.5 * (1 - _LOST), 0.5 * (1 - _LOST) * math.exp(-loss))


class Cells:
    """All cells of a record: a label's channel (K, K), and columns as a file declares them."""

    def __init__(self, channel: NDArray[np.float64], columns: Sequence[Mapping[str, Any]]) -> None:
        self._label = _discrete(channel)
        self._columns = columns

    @cached_property
    def _cells(self) -> dict[str, _Cell]:
        columns = (SpreadColumn.from_json(item) for item in self._columns)
        return {column.name: _cell(column) for column in columns}

    def allow(self, claimed: Guarantee) -> bool:
        """Say whether these cells can keep what is claimed about their unit."""
        if claimed.unit is Unit.LABEL or not self._columns:
            return _one_allows(self._label, claimed)
        if claimed.unit is Unit.ATTRIBUTE:
            cells_named = [self._cells[name] for name in claimed.columns if name in self._cells]
            single_cells = cells_named or [self._label]
            cells = _worst(single_cells) if claimed.columns else self._worst_of_all
            return all(_one_allows(cell, claimed) for cell in cells)
        return self._together_allow(claimed)

    @cached_property
    def _all(self) -> list[_Cell]:
        return [self._label, *self._cells.values()]

    @cached_property
    def _worst_of_all(self) -> list[_Cell]:
        return _worst(self._all)

    @cached_property
    def _joined(self) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """The precision of all Gaussian noise; ln P and ln Q of the first n cells' likely answers.

        It is computed once for all the guarantees that a file may state.
        """
        precision = math.fsum(cell.multiplier**-2 for cell in self._all)
        likely = sorted(self._all, key=lambda cell: -cell.p)
        log_p = np.cumsum([math.log(cell.p) for cell in likely])
        log_q = np.cumsum([math.log(cell.q) for cell in likely])
        return precision, log_p, log_q

    def _together_allow(self, claimed: Guarantee) -> bool:
        """Say whether a record, all of whose cells change, is protected as claimed."""
        precision, log_p, log_q = self._joined
        if precision > 0 and not _one_allows(_Cell(multiplier=precision**-0.5), claimed):
            return False
        epsilon = claimed.epsilon or 0.0
        if claimed.delta == 0:
            return bool(log_p[-1] - log_q[-1] <= epsilon * (1 + _LOST))
        # All of the first n cells answer so: one event of the two products.
        excess = np.exp(log_p) - np.exp(np.minimum(epsilon * (1 + _LOST) + log_q, 700.0))
        return bool(excess.max() <= claimed.delta * (1 + _LOST) + _LOST_DELTA)


def _worst(cells: Sequence[_Cell]) -> list[_Cell]:
    """Return the cells that give away most, of either sort of noise."""
    return [max(cells, key=lambda c: c.loss), min(cells, key=lambda c: c.multiplier)]


def _one_allows(cell: _Cell, claimed: Guarantee) -> bool:
    """Say whether one cell keeps the claim: its delta at the claimed epsilon is no larger."""
    epsilon, delta = claimed.epsilon or 0.0, claimed.delta
    if math.isfinite(cell.multiplier):
        if delta == 0 or cell.multiplier < _LEAST_MULTIPLIER:
            return False
        return epsilon >= calibrate.gaussian_epsilon(delta, cell.multiplier) * (1 - _LOST)
    if delta == 0:
        return cell.loss <= epsilon * (1 + _LOST)
    excess = cell.p - math.exp(min(epsilon * (1 + _LOST) + math.log(cell.q), 700.0))
    return excess <= delta * (1 + _LOST) + _LOST_DELTA


_LOST_IN_SHAPE = 1e-3  # where integer matrices shaped the noise
_LEAST_NOISE_MULTIPLIER = 1e-6  # below this a Gaussian hides nothing
_MOST_PARTIES = 2**32  # more are nowhere
_LARGEST_EXPONENT = 700.0  # e^700 is still a float
# What one unit costs, by the mechanism that a file names; a file of several owners names "mixed".
_EVENTS: Mapping[str, tuple[type[Event], ...]] = {
    "laplace": (Laplace,),
    "gaussian": (Gaussian,),
    "knorm": (Pure,),
    "laplace-prior": (Laplace,),
    "scaled-dirichlet": (Approximate,),
    "scaled-dirichlet-bounded": (Approximate,),
    "dp-feat": (Approximate,),
    "dp-feat-truncated": (Approximate,),
    "shared": (Laplace, Gaussian, Pure),
    "matrix": (Gaussian,),
    "edges": (Gaussian,),
    "mixed": (Laplace, Gaussian, Pure, Approximate),
}


Check = Callable[[Guarantee], bool]


class Stated(Protocol):
    """What a release states: as much of it as a claim can be checked by, or a notebook shows.

    A protocol, because releases check their claims when they are made, and import this module.
    """

    @property
    def kind(self) -> str:
        """The name of its kind."""

    @property
    def arrays(self) -> Mapping[str, Any]:
        """The arrays of its kind."""

    @property
    def details(self) -> Mapping[str, Any]:
        """The public parameters of its kind."""

    @property
    def pipeline(self) -> Any:
        """How its rows are mapped."""

    @property
    def noise(self) -> Any:
        """The covariance of its noise."""

    @property
    def parts(self) -> Sequence[Any]:
        """Its owners."""

    @property
    def rows(self) -> int:
        """The number of rows of all owners together."""

    @property
    def classes(self) -> tuple[Any, ...]:
        """The declared classes."""

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Every guarantee, owner by owner."""


def _of_mechanism(release: Stated, check: Check) -> Check:
    """Return a check that also asks whether the mechanism that a file names costs such an event."""
    events = _EVENTS.get(release.details["mechanism"], ())
    return lambda claimed: type(claimed.event) in events and check(claimed)


@dataclass(frozen=True)
class _Noise:
    """Additive noise of a known deviation on a sum that one unit moves by ``l1`` and ``l2``."""

    variance: float
    l1: float
    l2: float
    dimension: int

    def allows(self, claimed: Guarantee) -> bool:
        """Say whether this noise can keep what is claimed, by the law that the event names."""
        event = claimed.event
        if not (self.variance > 0 and math.isfinite(self.variance)):
            return False
        if isinstance(event, Gaussian):
            return _gaussian_allows(math.sqrt(self.variance), self.l2, claimed)
        if isinstance(event, Laplace):
            scale = math.sqrt(self.variance / 2)
            return event.bound >= self.l1 / scale * (1 - _LOST)
        if isinstance(event, Pure):  # K-norm noise: variance (dimension + 1) scale^2
            scale = math.sqrt(self.variance / (self.dimension + 1))
            return event.bound >= self.l2 / scale * (1 - _LOST)
        return False  # nothing else is additive noise


def _gaussian_allows(deviation: float, reach: float, claimed: Guarantee) -> bool:
    """Say whether Gaussian noise keeps the claim where one unit moves a number by ``reach``."""
    multiplier = deviation / reach * (1 + _LOST) if reach > 0 else math.inf
    if multiplier > _MOST_USEFUL:
        return True
    if claimed.delta == 0 or multiplier < _LEAST_NOISE_MULTIPLIER:
        return False
    least = calibrate.gaussian_epsilon(claimed.delta, multiplier)
    return (claimed.epsilon or 0.0) >= least * (1 - _LOST)


_MOST_USEFUL = 1e12  # multipliers beyond this cost nothing


def claims_of_labels(release: Stated) -> Check:
    """Return the check of a channel, which has a least epsilon per label."""
    return Cells(release.arrays["channel"], ()).allow


def claims_of_records(release: Stated) -> Check:
    """Return the check of all columns: per label, per attribute and per record."""
    return Cells(release.arrays["channel"], release.details["columns"]).allow


def _of_operator(release: Stated) -> Check:
    """One label moves the intercept's coordinate, if no other, by twice its weight over m rows.

    One party moves it as far over the number of parties, which the file does not say. Without an
    intercept a label moves the sum by a step of its lattice, if by no more.
    """
    if not _has_noise(release):
        return _never
    classes, noise = len(release.classes), release.noise
    size = len(release.pipeline.outputs) * (1 if classes == 2 else classes)
    weight = release.pipeline.intercept
    # Along any direction there is less noise than in all coordinates together.
    variance = noise.last().variance if weight else float(noise.diagonal(1).sum())

    def check(claimed: Guarantee) -> bool:
        l1 = 2 * weight / (_MOST_PARTIES if claimed.unit is Unit.PARTY else release.rows)
        l2 = l1 if classes == 2 else l1 / math.sqrt(2)
        if weight == 0:
            l1 = l2 = _one_step(release)
        if noise.form == "identity":
            return _Noise(noise.variance, l1, l2, size).allows(claimed)
        deviation = math.sqrt(variance) * (1 + _LOST_IN_SHAPE)
        if isinstance(claimed.event, Gaussian):
            return _gaussian_allows(deviation, l2, claimed)
        return _pure_allows(deviation, l2, claimed)

    return check


def _one_step(release: Stated) -> float:
    """Return what a step of the lattice is worth in the mean of one owner; of several, nothing."""
    one_owner = len(release.parts) == 1 and release.guarantees[0].unit is not Unit.PARTY
    return float(release.details["step"]) / release.rows if one_owner else 0.0


def _pure_allows(deviation: float, reach: float, claimed: Guarantee) -> bool:
    """Say whether any noise of this deviation keeps a pure claim where one unit moves by ``reach``.

    (reach / deviation)^2 <= chi^2 <= (e^epsilon - 1)(1 - e^-epsilon) = 4 sinh^2(epsilon / 2), by
    Hammersley, Chapman and Robbins, for likelihood ratios within e^epsilon.
    """
    exponent = min((claimed.event.epsilon(0.0)) / 2, _LARGEST_EXPONENT)
    return 2 * math.sinh(exponent) * deviation >= reach * (1 - _LOST)


def _of_votes(release: Stated) -> Check:
    """One party moves N rows of votes by sqrt(2 N) and 2 N, over the number of parties."""
    if not _has_noise(release):
        return _never
    rows, parties = release.rows, release.details["enrolled"]
    size = rows * len(release.classes)
    noise = _Noise(release.noise.variance, 2 * rows / parties, math.sqrt(2 * rows) / parties, size)
    return noise.allows


def _of_proportions(release: Stated) -> Check:
    """One label moves a unit from one count to another, in one set or in more."""
    mechanism = release.details["mechanism"]
    if mechanism in _WITHOUT_VARIANCE or (mechanism == "mixed" and not _has_noise(release)):
        return lambda claimed: (
            mechanism != "scaled-dirichlet" or claimed.kind is not Protection.GLOBAL
        )
    if not _has_noise(release):
        return _never
    bags, classes = len(release.details["bags"]), len(release.classes)
    largest = float(release.noise.diagonal(bags).max())

    def check(claimed: Guarantee) -> bool:
        # Of two counts with Laplace noise only one has noise of its own.
        one_noisy_count = isinstance(claimed.event, Laplace) and classes == 2
        noise = _Noise(
            largest / 2 if one_noisy_count else largest,
            1.0 if one_noisy_count else 2.0,
            math.sqrt(2),
            bags,
        )
        return noise.allows(claimed)

    return check


_WITHOUT_VARIANCE = ("laplace-prior", "scaled-dirichlet", "scaled-dirichlet-bounded")


_RADO_UNITS: Mapping[str, tuple[Unit, ...]] = {
    "plain": (),
    "dp-feat": (Unit.ATTRIBUTE,),
    "dp-feat-truncated": (Unit.ATTRIBUTE,),
    "shared": (Unit.LABEL,),
    "matrix": (Unit.RECORD, Unit.ATTRIBUTE),
    "edges": (Unit.RECORD,),
}


def _of_rados(release: Stated) -> Check:
    """One label moves a shared vector by its row; one record moves rados by two rows each."""
    mechanism = release.details["mechanism"]
    units = _RADO_UNITS[mechanism]
    if mechanism.startswith("dp-feat"):
        return lambda claimed: claimed.unit in units and claimed.scope is Scope.MARGINAL
    if not _has_noise(release):
        return _never
    if mechanism == "shared":
        bound, width = release.pipeline.norm_bound, len(release.pipeline.outputs)
        shared = _Noise(release.noise.variance, bound, bound, width)
        return lambda claimed: claimed.unit in units and shared.allows(claimed)
    return lambda claimed: claimed.unit in units and _independent_allows(release, claimed)


def _independent_allows(release: Stated, claimed: Guarantee) -> bool:
    """Say whether Gaussian noise on each rado, or on each edge, keeps the claim."""
    if not isinstance(claimed.event, Gaussian):
        return False
    if claimed.unit is Unit.ATTRIBUTE:
        return _moved_alone(release, claimed.columns)
    variance, reach = float(release.noise.diagonal(1).max()), 2 * release.pipeline.norm_bound
    if release.details["mechanism"] == "matrix":
        return _gaussian_allows(
            math.sqrt(variance), math.sqrt(_memberships(release)) * reach, claimed
        )
    # Of edges a rado sums half of all rows; the mean over several owners is nobody's own.
    support = release.details["support"] or release.rows / 2
    one_owner = len(release.parts) == 1
    return not one_owner or _gaussian_allows(math.sqrt(variance / support), reach, claimed)


def _memberships(release: Stated) -> int:
    """Return in how many rados one record is, at least: half of a power of two if structured."""
    count = int(release.details["count"])
    return count if release.details["signs"] == "iid" else max(1, count // 2)


def _moved_alone(release: Stated, names: Sequence[str]) -> bool:
    """Say whether every coordinate of the named columns has noise."""
    pipeline = release.pipeline
    if pipeline.map is not None or not names:
        return False
    variances = release.noise.diagonal(len(pipeline.outputs))
    start, noisy_columns = 0, set()
    for column in pipeline.columns:
        width = len(column.outputs)
        if column.name in names:
            noisy_columns.add(column.name)
            if not (variances[start : start + width] > 0).all():
                return False
        start += width
    return noisy_columns == set(names)


def _has_noise(release: Stated) -> bool:
    """Say whether the release states noise at all."""
    noise = release.noise
    some = noise.array is None or bool(np.any(noise.array))
    return noise.form != "none" and noise.variance > 0 and some


def _never(_: Guarantee) -> bool:
    return False


def claims_of_operator(release: Stated) -> Check:
    """Return the check of a mean operator: what its mechanism and its noise can keep."""
    return _of_mechanism(release, _of_operator(release))


def claims_of_votes(release: Stated) -> Check:
    """Return the check of a table of votes: what its mechanism and its noise can keep."""
    return _of_mechanism(release, _of_votes(release))


def claims_of_proportions(release: Stated) -> Check:
    """Return the check of label proportions: what its mechanism and its noise can keep."""
    return _of_mechanism(release, _of_proportions(release))


def claims_of_rados(release: Stated) -> Check:
    """Return the check of rados: what its mechanism and its noise can keep."""
    return _of_mechanism(release, _of_rados(release))
