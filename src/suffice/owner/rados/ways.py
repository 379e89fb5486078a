"""The ways to let rados leave: plain, DP-Feat, noise on edges, a shared vector, or on the matrix.

Each way knows its guarantees before it sees a row, takes rows batch by batch, and draws last.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from suffice.engines.sums import WeightedSums, lattice_step
from suffice.errors import ParameterError
from suffice.owner.rados.guarantees import (
    attribute_sensitivity,
    feature_guarantees,
    label_sensitivity,
    most_memberships,
    no_guarantee,
    noise_guarantee,
    record_sensitivity,
)
from suffice.owner.rados.signs import ChosenSubsets, FreeSubsets, binomials
from suffice.owner.rados.task import Task, check_task
from suffice.privacy.binomial import truncation
from suffice.privacy.guarantee import Guarantee, Unit
from suffice.privacy.noise import (
    LARGEST_SUM,
    GaussianNoise,
    KNormNoise,
    LaplaceNoise,
    Noise,
    Sensitivity,
)
from suffice.release.covariance import Covariance

__all__ = ["Way", "label_noise", "way_of"]

_EDGES_AT_ONCE = 4096  # rows whose edges get their noise in one call


class Way(ABC):
    """One way to craft and protect rados.

    ``late``: noise is drawn row by row, so that rows may be taken only after they were paid for.
    ``step`` is the lattice that rows are put on, zero for none.
    """

    mechanism: str
    late = False
    step = 0.0

    def __init__(self, task: Task) -> None:
        self.task = task

    @cached_property
    @abstractmethod
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What is promised."""

    @abstractmethod
    def take(self, rows: np.ndarray, labels: np.ndarray) -> None:
        """Take in rows (coordinates, rows) with their labels, -1 or +1."""

    @abstractmethod
    def draw(self) -> tuple[np.ndarray, Covariance]:
        """Return the rados (count, coordinates) as they leave, and what noise is in them."""


class _Plain(Way):
    """Rados as they are: they protect nothing."""

    mechanism = "plain"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._subsets = task.subsets(0.0)

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        return (no_guarantee(),)

    def take(self, rows: np.ndarray, labels: np.ndarray) -> None:
        self._subsets.update(rows, labels)

    def draw(self) -> tuple[np.ndarray, Covariance]:
        return self._subsets.result(), Covariance("none")


class _Feature(Way):
    """DP-Feat (Algorithm 2): what the protected columns alone reveal is protected, no more.

    Untruncated, the signs are uniform. Truncated, a column's sum is held to eq. (16): its K is
    drawn first and then a subset of that K, instead of rejecting whole signatures.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.mechanism = "dp-feat" if task.truncate is None else "dp-feat-truncated"
        if task.truncate is None:
            self._free = FreeSubsets(task.coordinates, task.count, 0.0)
        else:
            sizes = binomials(task.size, task.count, truncation(task.size, task.truncate))
            self._free = ChosenSubsets(task.coordinates, sizes, 0.0, task.size)

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        task = self.task
        return feature_guarantees(
            task.protect,
            task.size,
            task.count,
            epsilon=task.epsilon,
            delta=task.delta,
            truncate=task.truncate,
            origin=task.rows.origin,
        )

    def take(self, rows: np.ndarray, labels: np.ndarray) -> None:
        flipped = None
        if self.task.truncate is not None:
            # K counts edges of +1 that are in and edges of -1 that are out.
            (position,) = self.task.rows.positions(self.task.protect[0])
            flipped = rows[position] * labels < 0
        self._free.update(rows, labels, flipped)

    def draw(self) -> tuple[np.ndarray, Covariance]:
        return self._free.result(), Covariance("none")


class _OnLattice(Way):
    """A way that adds noise to integers; rows are put on a lattice that their bound decides."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        bound = task.rows.pipeline.norm_bound
        self.step = lattice_step(bound)
        if task.size * bound / self.step >= LARGEST_SUM / 4:
            raise ParameterError("there are too many rows for one lattice; release in parts.")

    def _promise(self, noise: Noise, unit: Unit, of: tuple[str, ...] = ()) -> Guarantee:
        return noise_guarantee(
            unit, noise.event, self.task.delta, origin=self.task.rows.origin, of=of
        )


class _Shared(_OnLattice):
    """One noise vector, shared by all rados: protects each label.

    With u_si = [sigma_si = +1], a rado is sum_i u_si x_i - sum_(y_i = -1) x_i. Labels are in the
    second sum only, the same for all rados, and one label moves it by its row.
    """

    mechanism = "shared"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._subsets = task.subsets(self.step)
        self._negative = WeightedSums(task.coordinates, 1, self.step)
        self._noise = label_noise(label_sensitivity(task.rows.pipeline, self.step), *task.asked)

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        return (self._promise(self._noise, Unit.LABEL),)

    def take(self, rows: np.ndarray, labels: np.ndarray) -> None:
        self._subsets.update(rows, np.ones_like(labels))
        self._negative.update((list(rows), (labels < 0).astype(np.float64)[None, :]))

    def draw(self) -> tuple[np.ndarray, Covariance]:
        noisy = self._noise.add(self._negative.result())
        rados = (self._subsets.result() - noisy) * self.step
        return rados, Covariance("identity", self._noise.variance * self.step**2)


class _Matrix(_OnLattice):
    """Independent Gaussian noise on the whole matrix of rados: protects each record."""

    mechanism = "matrix"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._subsets = task.subsets(self.step)
        most = most_memberships(task.count, task.signs)
        reach = record_sensitivity(task.rows.pipeline, self.step, most, task.count)
        self._noise = GaussianNoise.calibrated(reach, *task.asked)

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        return (self._promise(self._noise, Unit.RECORD),)

    def take(self, rows: np.ndarray, labels: np.ndarray) -> None:
        self._subsets.update(rows, labels)

    def draw(self) -> tuple[np.ndarray, Covariance]:
        noisy = self._noise.add(self._subsets.result())
        return noisy * self.step, Covariance("identity", self._noise.variance * self.step**2)


class _Attributes(_OnLattice):
    """Independent Gaussian noise on the coordinates of the named columns: protects their values."""

    mechanism = "matrix"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._subsets = task.subsets(self.step)
        self._noises = {name: self._noise_of(name) for name in task.attributes}

    def _noise_of(self, name: str) -> GaussianNoise:
        task, coordinates = self.task, len(self.task.rows.positions(name))
        most = most_memberships(task.count, task.signs)
        reach = attribute_sensitivity(
            task.rows.reach(name), self.step, most, task.count, coordinates
        )
        return GaussianNoise.calibrated(reach, *task.asked)

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        return tuple(
            self._promise(noise, Unit.ATTRIBUTE, (name,)) for name, noise in self._noises.items()
        )

    def take(self, rows: np.ndarray, labels: np.ndarray) -> None:
        self._subsets.update(rows, labels)

    def draw(self) -> tuple[np.ndarray, Covariance]:
        rados, variances = self._subsets.result(), np.zeros(self.task.coordinates)
        for name, noise in self._noises.items():
            where = list(self.task.rows.positions(name))
            rados[:, where] = noise.add(np.ascontiguousarray(rados[:, where]))
            variances[where] = noise.variance
        return rados * self.step, Covariance("diagonal", self.step**2, variances)


class _Edges(_OnLattice):
    """Gaussian noise on every edge vector before anything is summed (Section 5.2).

    Protects each record with local noise: sensitivity 2 max ||x||, whatever the number of rados and
    their supports. What is summed afterwards is as good as public.
    """

    mechanism = "edges"
    late = True

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._subsets = task.subsets(0.0)
        reach = record_sensitivity(task.rows.pipeline, self.step, 1, 1)
        self._noise = GaussianNoise.calibrated(reach, *task.asked)

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        return (self._promise(self._noise, Unit.RECORD),)

    def take(self, rows: np.ndarray, labels: np.ndarray) -> None:
        for start in range(0, rows.shape[1], _EDGES_AT_ONCE):
            part = slice(start, start + _EDGES_AT_ONCE)
            edges = np.rint(rows[:, part] * labels[part] / self.step).astype(np.int64)
            # Every edge is a unit of its own, so the cost stays that of one (proofs/rados.md).
            alike = replace(self._noise.sensitivity, dimension=edges.size)
            noisy = replace(self._noise, sensitivity=alike).add(edges).astype(np.float64)
            self._subsets.update(noisy * self.step, np.ones(edges.shape[1]))

    def draw(self) -> tuple[np.ndarray, Covariance]:
        support = self.task.size / 2 if self.task.support is None else self.task.support
        variance = support * self._noise.variance * self.step**2  # expected, of uniform signs
        return self._subsets.result(), Covariance("identity", variance)


def label_noise(reach: Sensitivity, epsilon: float, delta: float) -> Noise:
    """Return the noise of least variance for one vector; Gaussian only where delta is positive."""
    noises: list[Noise] = [
        LaplaceNoise.calibrated(reach, epsilon),
        KNormNoise.calibrated(reach, epsilon),
    ]
    if delta > 0:
        noises.append(GaussianNoise.calibrated(reach, epsilon, delta))
    return min(noises, key=lambda noise: noise.variance)


def way_of(task: Task) -> Way:
    """Return the way that a task asks for; raise where its parts do not go together."""
    check_task(task)
    if task.protect:
        return _Feature(task)
    if task.epsilon is None:
        return _Plain(task)
    if task.noise == "edges":
        return _Edges(task)
    ways: dict[Unit, Callable[[Task], Way]] = {
        Unit.LABEL: _Shared,
        Unit.RECORD: _Matrix,
        Unit.ATTRIBUTE: _Attributes,
    }
    assert task.unit is not None  # noqa: S101  # for the type checker: checked above
    return ways[task.unit](task)
