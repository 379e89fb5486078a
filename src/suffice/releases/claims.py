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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suffice.errors import CorruptFileError
from suffice.privacy import events as privacy_events
from suffice.privacy.events import Approximate, Event, Gaussian, Laplace, Pure
from suffice.privacy.guarantee import Guarantee, Protection, Scope, Unit
from suffice.privacy.moments import BlockWeights
from suffice.releases.columns import Flips, ReportNoise, SpreadColumn

_LOST = 1e-6  # of a scale: more than lattices and floats move it, in the claim's favour
_LOST_DELTA = 1e-12
_LOST_IN_SHAPE = 1e-3  # of a deviation, where integer matrices shaped the noise
_LEAST_MULTIPLIER, _MOST_MULTIPLIER = 1e-6, 1e12  # of a Gaussian; beyond: nothing hidden, or all
_LARGEST_EXPONENT = 700.0  # e^700 is still a float
_MOST_PARTIES = 2**32  # more are nowhere
_TAIL = 100.0  # deviations: beyond with probability e^-100, of any noise that is drawn here
_MOST_NOISE = 2.0**61  # in units of what is summed: integers are finer, and end there
_IMPOSSIBLE = "The file holds numbers that its declared bound and noise cannot give."


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
    loss = min(width * math.sqrt(2) / deviation * (1 - _LOST), _LARGEST_EXPONENT)
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
        # A record, all of whose cells change.
        precision, log_p, log_q = self._joined
        if precision > 0 and not _one_allows(_Cell(multiplier=precision**-0.5), claimed):
            return False
        epsilon = claimed.epsilon or 0.0
        if claimed.delta == 0:
            return bool(log_p[-1] - log_q[-1] <= epsilon * (1 + _LOST))
        # All of the first n cells answer so: one event of the two products.
        excess = np.exp(log_p) - np.exp(
            np.minimum(epsilon * (1 + _LOST) + log_q, _LARGEST_EXPONENT)
        )
        return bool(excess.max() <= claimed.delta * (1 + _LOST) + _LOST_DELTA)

    @cached_property
    def _worst_of_all(self) -> list[_Cell]:
        return _worst([self._label, *self._cells.values()])

    @cached_property
    def _joined(self) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """The precision of all Gaussian noise; ln P and ln Q of the first n cells' likely answers.

        It is computed once for all the guarantees that a file may state.
        """
        cells = [self._label, *self._cells.values()]
        precision = math.fsum(cell.multiplier**-2 for cell in cells)
        likely = sorted(cells, key=lambda cell: -cell.p)
        log_p = np.cumsum([math.log(cell.p) for cell in likely])
        log_q = np.cumsum([math.log(cell.q) for cell in likely])
        return precision, log_p, log_q


def _worst(cells: Sequence[_Cell]) -> list[_Cell]:
    """Return the cells that give away most, of either sort of noise."""
    return [max(cells, key=lambda c: c.loss), min(cells, key=lambda c: c.multiplier)]


def _one_allows(cell: _Cell, claimed: Guarantee) -> bool:
    """Say whether one cell keeps the claim: its delta at the claimed epsilon is no larger."""
    epsilon, delta = claimed.epsilon or 0.0, claimed.delta
    if math.isfinite(cell.multiplier):
        if delta == 0 or cell.multiplier < _LEAST_MULTIPLIER:
            return False
        return epsilon >= privacy_events.gaussian_epsilon(delta, cell.multiplier) * (1 - _LOST)
    if delta == 0:
        return cell.loss <= epsilon * (1 + _LOST)
    excess = cell.p - math.exp(min(epsilon * (1 + _LOST) + math.log(cell.q), _LARGEST_EXPONENT))
    return excess <= delta * (1 + _LOST) + _LOST_DELTA


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


def _with_event(check_of: Callable[[Any], Check]) -> Callable[[Any], Check]:
    """Make a check also ask whether the mechanism that a file names costs such an event."""

    def with_event(release: Any) -> Check:
        events = _EVENTS.get(release.details["mechanism"], ())
        check = check_of(release)
        return lambda claimed: type(claimed.event) in events and check(claimed)

    return with_event


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
    if multiplier > _MOST_MULTIPLIER:
        return True
    if claimed.delta == 0 or multiplier < _LEAST_MULTIPLIER:
        return False
    least = privacy_events.gaussian_epsilon(claimed.delta, multiplier)
    return (claimed.epsilon or 0.0) >= least * (1 - _LOST)


def claims_of_labels(release: Any) -> Check:
    """Return the check of a channel, which has a least epsilon per label."""
    return Cells(release.arrays["channel"], ()).allow


def claims_of_records(release: Any) -> Check:
    """Return the check of all columns: per label, per attribute and per record."""
    return Cells(release.arrays["channel"], release.details["columns"]).allow


def claims_of_reports(release: Any) -> Check:
    """Check the size of all reports; each costs the same per label, attribute and record."""
    details = release.details
    combinations = math.prod(len(states) for _, states in details["questions"])
    total = int(release.arrays["counts"].sum())
    if combinations != details["count"] or total != details["size"] * release.rows:
        return _never
    if not 0 < details["size"] < combinations or not 0 < details["keep"] < 1:
        return _never
    loss = ReportNoise(combinations, details["size"], details["keep"]).loss
    units = (Unit.LABEL, Unit.ATTRIBUTE, Unit.RECORD)
    return lambda claimed: (
        claimed.unit in units
        and type(claimed.event) is Pure
        and claimed.event.bound >= loss * (1 - _LOST)
    )


@_with_event
def claims_of_operator(release: Any) -> Check:
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
            # A step of the lattice in the mean of one owner; of several, nothing is known.
            one_owner = len(release.parts) == 1 and release.guarantees[0].unit is not Unit.PARTY
            l1 = l2 = float(release.details["step"]) / release.rows if one_owner else 0.0
        if noise.form == "identity":
            return _Noise(noise.variance, l1, l2, size).allows(claimed)
        deviation = math.sqrt(variance) * (1 + _LOST_IN_SHAPE)
        if isinstance(claimed.event, Gaussian):
            return _gaussian_allows(deviation, l2, claimed)
        # Pure noise of any shape: (reach / deviation)^2 <= chi^2 <= (e^epsilon - 1)(1 - e^-epsilon)
        # = 4 sinh^2(epsilon / 2), by Hammersley, Chapman and Robbins, for likelihood ratios within
        # e^epsilon.
        exponent = min(claimed.event.epsilon(0.0) / 2, _LARGEST_EXPONENT)
        return bool(2 * math.sinh(exponent) * deviation >= l2 * (1 - _LOST))

    return check


@_with_event
def claims_of_votes(release: Any) -> Check:
    """One party moves N rows of votes by sqrt(2 N) and 2 N, over the number of parties."""
    if not _has_noise(release):
        return _never
    rows, parties = release.rows, release.details["enrolled"]
    size = rows * len(release.classes)
    noise = _Noise(release.noise.variance, 2 * rows / parties, math.sqrt(2 * rows) / parties, size)
    return noise.allows


@_with_event
def claims_of_proportions(release: Any) -> Check:
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


@_with_event
def claims_of_rados(release: Any) -> Check:
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


def _independent_allows(release: Any, claimed: Guarantee) -> bool:
    """Say whether Gaussian noise on each rado, or on each edge, keeps the claim."""
    if not isinstance(claimed.event, Gaussian):
        return False
    if claimed.unit is Unit.ATTRIBUTE:
        return _moved_alone(release, claimed.columns)
    variance, reach = float(release.noise.diagonal(1).max()), 2 * release.pipeline.norm_bound
    if release.details["mechanism"] == "matrix":
        # One record is in at least so many rados: half of a power of two if structured.
        count = int(release.details["count"])
        memberships = count if release.details["signs"] == "iid" else max(1, count // 2)
        return _gaussian_allows(math.sqrt(variance), math.sqrt(memberships) * reach, claimed)
    # Of edges a rado sums half of all rows; the mean over several owners is nobody's own.
    support = release.details["support"] or release.rows / 2
    one_owner = len(release.parts) == 1
    return not one_owner or _gaussian_allows(math.sqrt(variance / support), reach, claimed)


def _moved_alone(release: Any, names: Sequence[str]) -> bool:
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


def _has_noise(release: Any) -> bool:
    """Say whether the release states noise at all."""
    noise = release.noise
    some = noise.array is None or bool(np.any(noise.array))
    return noise.form != "none" and noise.variance > 0 and some


def _never(_: Guarantee) -> bool:
    return False


def _by_multiplier(units: tuple[Unit, ...], multiplier: float, *, alone: bool) -> Check:
    """Return the check of Gaussian noise of ``multiplier`` sensitivities, about these units.

    Of several owners a file does not say whose noise is whose; then the event alone is checked.
    """

    def check(claimed: Guarantee) -> bool:
        if claimed.unit not in units or not isinstance(claimed.event, Gaussian):
            return False
        if not alone or multiplier > _MOST_MULTIPLIER:
            return True
        if claimed.delta == 0:
            return False
        least = privacy_events.gaussian_epsilon(claimed.delta, multiplier)
        return (claimed.epsilon or 0.0) >= least * (1 - _LOST)

    return check


def claims_of_moments(release: Any) -> Check:
    """Return the check of moments: what one record moves, over the noise that is stated.

    The deviations imply the weights of the blocks, and these how far one record moves them. Of
    several owners a file does not say whose noise is whose; then the event alone is checked.
    """
    details = release.details
    rows, bound, classes = release.rows, release.pipeline.bound, len(release.classes)
    square = details["second_noise"] / bound**2
    alone = len(release.parts) == 1
    of_labels = details.get("proportions_noise", details.get("target_noise"))
    try:
        weights = BlockWeights(
            classes,
            square / (details["mean_noise"] / bound),
            square / (details["operator_noise"] / bound),
            square / (of_labels * (2 if classes == 2 else 1)),
        )
        multiplier = square * rows / weights.sensitivity * (1 + _LOST)
        if not classes and details["target_square_noise"] * weights.square < square * (1 - _LOST):
            return _never  # the square of a target is free at this weight, and no larger one
    except (ArithmeticError, ValueError):
        return lambda _: False
    if not multiplier >= _LEAST_MULTIPLIER:
        return lambda _: False

    # A person's rows weigh as much as one record.
    return _by_multiplier((Unit.RECORD, Unit.PERSON), multiplier, alone=alone)


def claims_of_targets(release: Any) -> Check:
    """Return the check of a target beside public rows: what another one moves, over the noise.

    Of several owners a file does not say whose noise is whose; then the event alone is checked.
    """
    details, rows = release.details, release.rows
    operator = details["operator_noise"] / release.pipeline.bound * rows
    mean, square = (details[f"target_{name}"] * rows for name in ("noise", "square_noise"))
    try:
        weights = BlockWeights(0, 1.0, 1 / operator, 1 / mean, public_rows=True)
        multiplier = 1 / weights.sensitivity * (1 + _LOST)
    except (ArithmeticError, ValueError):
        return _never
    if square * weights.square < 1 - _LOST or not multiplier >= _LEAST_MULTIPLIER:
        return _never  # the square of a target is free at this weight, and no larger one

    return _by_multiplier((Unit.LABEL,), multiplier, alone=len(release.parts) == 1)


def check_numbers(release: Any) -> None:
    """Raise if the release holds numbers that its declared bound and noise cannot give.

    A mean of rows is no longer than the longest row, a sum of m rows no longer than m of them, a
    share of votes no more than one, a count no larger than its set. On top of that comes the noise
    that the file states: no further than a sampler reaches, and no more of it than 64-bit integers
    hold.
    """
    bound, details, arrays = release.pipeline.norm_bound, release.details, release.arrays
    # By kind: the array with noise, how large its exact numbers are, and the size of one term.
    exact: Any
    match release.kind:
        case "moments" | "target-moments" | "target-operator":
            bound = release.pipeline.bound
            sizes = {"second_moments": bound**2, "mean": bound, "operator": bound}
            sizes |= {name: 1.0 for name in arrays if name not in sizes}
            noises = [details.get(f"{name.removesuffix('_moments')}_noise", 0.0) for name in sizes]
            far = any(
                noise > _MOST_NOISE * unit
                or np.abs(arrays[name]).max() > (unit + _TAIL * noise) * (1 + _LOST)
                for (name, unit), noise in zip(sizes.items(), noises, strict=True)
            )
            if far or not np.array_equal(arrays["second_moments"], arrays["second_moments"].T):
                raise CorruptFileError(_IMPOSSIBLE)
            return
        case "mean-operator":
            numbers, exact, unit = arrays["mean_operator"], bound, bound
        case "rados":
            numbers, exact, unit = arrays["rados"], release.rows * bound, bound
        case "votes":
            numbers, exact, unit = arrays["votes"], 1.0, 1.0
        case "proportions":
            numbers, exact, unit = arrays["counts"], float(arrays["sizes"].max()), 1.0
        case _:
            return
    deviation = math.sqrt(float(release.noise.diagonal(1).max()))
    # K-norm noise of d coordinates reaches d times as far as its deviation says, at most.
    noise = deviation * (_TAIL + numbers.size) * len(release.parts)
    if release.noise.form == "none":  # unknown
        noise = math.inf
    limit = exact + min(noise, _MOST_NOISE * unit)
    if deviation > _MOST_NOISE * unit or np.abs(numbers).max() > limit * (1 + _LOST):
        raise CorruptFileError(_IMPOSSIBLE)
