"""How rados are released: without noise, DP-Feat, noise on records, on one vector, on all sums.

Each procedure knows its guarantees before it sees a row. Its secret subsets are drawn while rows
are added, on the owner's machine; what comes out of them is released after the charge only.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from suffice.engines.rados import default_count
from suffice.engines.sums import WeightedSums, lattice_step
from suffice.errors import ParameterError
from suffice.owner.mechanism import Procedure
from suffice.owner.overlap import warn_of_same_rows
from suffice.owner.publish import PrivateIdentity
from suffice.owner.rados.exact import RadoPass
from suffice.owner.rados.guarantees import (
    attribute_sensitivity,
    feature_guarantees,
    label_sensitivity,
    most_memberships,
    no_guarantee,
    noise_guarantee,
    record_sensitivity,
)
from suffice.owner.rados.request import RadoRequest, check_request
from suffice.owner.rados.signs import ChosenSubsets, FreeSubsets, binomials
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
from suffice.release.artifact import Part, Release, RowSet
from suffice.release.covariance import Covariance
from suffice.strict_json import canonical

__all__ = ["RadoProcedure", "label_noise", "procedure_for"]

_EDGES_AT_ONCE = 4096  # records that get their noise in one call
State = tuple[Any, ...]  # the sums that rows are added to


class RadoProcedure(Procedure[RadoPass]):
    """One mechanism that sums and protects the rados of a request.

    ``step`` is the rounding step that rows are put on, zero for none.
    """

    kind = "rados"
    stays = "Rados are summed on the owner's machine: their secret signs are drawn there."
    mechanism: str
    step = 0.0

    def __init__(self, request: RadoRequest) -> None:
        self.request = request

    @cached_property
    @abstractmethod
    def promises(self) -> tuple[Guarantee, ...]:
        """What is promised."""

    def begin(self) -> State:
        """Return empty sums over fresh subsets."""
        return (self.request.subsets(self.step),)

    def add_rows(self, state: State, rows: np.ndarray, labels: np.ndarray) -> None:
        """Add rows (coordinates, rows) with their labels, -1 or +1."""
        state[0].update(rows, labels)

    @abstractmethod
    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        """Return the rados (count, coordinates) as they leave, and what noise is in them."""

    def accumulator(self, *, identified: bool) -> RadoPass:
        """Return empty rados over fresh subsets."""
        state = self.begin()

        def add(rows: np.ndarray, labels: np.ndarray) -> None:
            self.add_rows(state, rows, labels)

        return RadoPass(self.request, add, state, identified=identified or self._reused)

    def identifier(self) -> RadoPass:
        """Return a pass that identifies the rows, and adds nothing up."""
        return RadoPass(self.request, None, (), identified=True)

    @property
    def _reused(self) -> bool:
        """Whether the pipeline was given and names the rows that it was fitted on."""
        return bool(self.request.rows.named_rows)

    def report(self, exact: RadoPass) -> None:
        """Warn the owner if the given pipeline was fitted on the very rows that are now private."""
        if self._reused:
            warn_of_same_rows(exact.content.decode(), self.request.rows.named_rows)

    def guarantees(self, exact: RadoPass) -> tuple[Guarantee, ...]:
        """Return what is promised: it was known before a row was read."""
        del exact
        return self.promises

    def parameters(self, exact: RadoPass) -> Mapping[str, Any]:
        """Return the public description of the request."""
        del exact
        request = self.request
        usual_count = default_count(request.size)
        return {
            "kind": self.kind,
            "mechanism": self.mechanism,
            "unit": None if request.unit is None else str(request.unit),
            "epsilon": request.epsilon,
            "delta": request.delta,
            "records": request.size,
            "count": None if request.count == usual_count else request.count,
            "signs": request.signs,
            "support": request.support,
            "protect": list(request.protect),
            "truncate": request.truncate,
            "attributes": list(request.attributes),
            "classes": list(request.classes),
            "ranges": {name: list(limits) for name, limits in request.rows.ranges.items()},
            "pipeline": request.rows.pipeline.digest(),
        }

    def identity(self, exact: RadoPass, guarantees: tuple[Guarantee, ...]) -> PrivateIdentity:
        """Return the fingerprint of labels and cells."""
        del guarantees
        return PrivateIdentity(exact.fingerprint)

    def draw(self, exact: RadoPass, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release; rows are named by what leaves, not by what stays."""
        request = self.request
        rados, noise = self.noisy(exact.state)
        details = {
            "classes": list(request.classes),
            "mechanism": self.mechanism,
            "count": request.count,
            "signs": request.signs,
            "support": request.support,
            "protect": list(request.protect),
            "step": self.step,
        }
        content = hashlib.sha256(b"rados\0" + canonical(details) + rados.tobytes())
        rows = RowSet(exact.count, "sha256:" + content.hexdigest())
        return Release(
            kind=self.kind,
            arrays={"rados": np.ascontiguousarray(rados)},
            details=details,
            parts=(Part(rows, guarantees),),
            pipeline=request.rows.pipeline,
            noise=noise,
        )


class _Plain(RadoProcedure):
    """Rados as they are: they protect nothing."""

    mechanism = "plain"

    @cached_property
    def promises(self) -> tuple[Guarantee, ...]:
        return (no_guarantee(),)

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        return state[0].result(), Covariance("none")


class _Feature(RadoProcedure):
    """DP-Feat (Algorithm 2): what the protected columns alone reveal is protected, no more.

    Untruncated, the signs are uniform. Truncated, a column's sum is held to eq. (16): its K is
    drawn first and then a subset of that K, instead of rejecting whole signatures.
    """

    def __init__(self, request: RadoRequest) -> None:
        super().__init__(request)
        self.mechanism = "dp-feat" if request.truncate is None else "dp-feat-truncated"

    def begin(self) -> State:
        request = self.request
        if request.truncate is None:
            return (FreeSubsets(request.coordinates, request.count, 0.0),)
        low = truncation(request.size, request.truncate)
        sizes = binomials(request.size, request.count, low)
        return (ChosenSubsets(request.coordinates, sizes, 0.0, request.size),)

    @cached_property
    def promises(self) -> tuple[Guarantee, ...]:
        request = self.request
        return feature_guarantees(
            request.protect,
            request.size,
            request.count,
            epsilon=request.epsilon,
            delta=request.delta,
            truncate=request.truncate,
            origin=request.rows.origin,
        )

    def add_rows(self, state: State, rows: np.ndarray, labels: np.ndarray) -> None:
        flipped = None
        if self.request.truncate is not None:
            # K counts edges of +1 that are in and edges of -1 that are out.
            (position,) = self.request.rows.positions(self.request.protect[0])
            flipped = rows[position] * labels < 0
        state[0].update(rows, labels, flipped)

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        return state[0].result(), Covariance("none")


class _OnLattice(RadoProcedure):
    """Adds noise to integers; rows are put on a lattice that their bound decides."""

    def __init__(self, request: RadoRequest) -> None:
        super().__init__(request)
        bound = request.rows.pipeline.norm_bound
        self.step = lattice_step(bound)
        if request.size * bound / self.step >= LARGEST_SUM / 4:
            raise ParameterError("There are too many rows for exact sums. Release them in parts.")

    def _promise(self, noise: Noise, unit: Unit, of: tuple[str, ...] = ()) -> Guarantee:
        return noise_guarantee(
            unit, noise.event, self.request.delta, origin=self.request.rows.origin, of=of
        )


class _Shared(_OnLattice):
    """One noise vector, shared by all rados: protects each label.

    With u_si = [sigma_si = +1], a rado is sum_i u_si x_i - sum_(y_i = -1) x_i. Labels are in the
    second sum only, the same for all rados, and one label moves it by its row.
    """

    mechanism = "shared"

    def __init__(self, request: RadoRequest) -> None:
        super().__init__(request)
        self._noise = label_noise(
            label_sensitivity(request.rows.pipeline, self.step), *request.epsilon_delta
        )

    @cached_property
    def promises(self) -> tuple[Guarantee, ...]:
        return (self._promise(self._noise, Unit.LABEL),)

    def begin(self) -> State:
        return (*super().begin(), WeightedSums(self.request.coordinates, 1, self.step))

    def add_rows(self, state: State, rows: np.ndarray, labels: np.ndarray) -> None:
        subsets, negative = state
        subsets.update(rows, np.ones_like(labels))
        negative.update((list(rows), (labels < 0).astype(np.float64)[None, :]))

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        subsets, negative = state
        noisy = self._noise.add(negative.result())
        rados = (subsets.result() - noisy) * self.step
        return rados, Covariance("identity", self._noise.variance * self.step**2)


class _Matrix(_OnLattice):
    """Independent Gaussian noise on the whole matrix of rados: protects each record."""

    mechanism = "matrix"

    def __init__(self, request: RadoRequest) -> None:
        super().__init__(request)
        most = most_memberships(request.count, request.signs)
        reach = record_sensitivity(request.rows.pipeline, self.step, most, request.count)
        self._noise = GaussianNoise.calibrated(reach, *request.epsilon_delta)

    @cached_property
    def promises(self) -> tuple[Guarantee, ...]:
        return (self._promise(self._noise, Unit.RECORD),)

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        noisy = self._noise.add(state[0].result())
        return noisy * self.step, Covariance("identity", self._noise.variance * self.step**2)


class _Attributes(_OnLattice):
    """Independent Gaussian noise on the coordinates of the named columns: protects their values."""

    mechanism = "matrix"

    def __init__(self, request: RadoRequest) -> None:
        super().__init__(request)
        self._noises = {name: self._noise_of(name) for name in request.attributes}

    def _noise_of(self, name: str) -> GaussianNoise:
        request, coordinates = self.request, len(self.request.rows.positions(name))
        most = most_memberships(request.count, request.signs)
        reach = attribute_sensitivity(
            request.rows.reach(name), self.step, most, request.count, coordinates
        )
        return GaussianNoise.calibrated(reach, *request.epsilon_delta)

    @cached_property
    def promises(self) -> tuple[Guarantee, ...]:
        return tuple(
            self._promise(noise, Unit.ATTRIBUTE, (name,)) for name, noise in self._noises.items()
        )

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        rados, variances = state[0].result(), np.zeros(self.request.coordinates)
        for name, noise in self._noises.items():
            where = list(self.request.rows.positions(name))
            rados[:, where] = noise.add(np.ascontiguousarray(rados[:, where]))
            variances[where] = noise.variance
        return rados * self.step, Covariance("diagonal", self.step**2, variances)


class _Edges(_OnLattice):
    """Gaussian noise on every edge vector before anything is summed (Section 5.2).

    Protects each record with local noise: sensitivity 2 max ||x||, whatever the number of rados and
    their supports. What is summed afterwards is as good as public.
    """

    mechanism = "edges"
    draws_while_reading = True

    def __init__(self, request: RadoRequest) -> None:
        super().__init__(request)
        reach = record_sensitivity(request.rows.pipeline, self.step, 1, 1)
        self._noise = GaussianNoise.calibrated(reach, *request.epsilon_delta)

    @cached_property
    def promises(self) -> tuple[Guarantee, ...]:
        return (self._promise(self._noise, Unit.RECORD),)

    def begin(self) -> State:
        return (self.request.subsets(0.0),)  # sums of noisy numbers, which are as good as public

    def add_rows(self, state: State, rows: np.ndarray, labels: np.ndarray) -> None:
        for start in range(0, rows.shape[1], _EDGES_AT_ONCE):
            part = slice(start, start + _EDGES_AT_ONCE)
            edges = np.rint(rows[:, part] * labels[part] / self.step).astype(np.int64)
            # Every edge is a unit of its own, so the cost stays that of one (proofs/rados.md).
            alike = replace(self._noise.sensitivity, dimension=edges.size)
            noisy = replace(self._noise, sensitivity=alike).add(edges).astype(np.float64)
            state[0].update(noisy * self.step, np.ones(edges.shape[1]))

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        support = self.request.size / 2 if self.request.support is None else self.request.support
        variance = support * self._noise.variance * self.step**2  # expected, of uniform signs
        return state[0].result(), Covariance("identity", variance)


def label_noise(reach: Sensitivity, epsilon: float, delta: float) -> Noise:
    """Return the noise of least variance for one vector; Gaussian only where delta is positive."""
    noises: list[Noise] = [
        LaplaceNoise.calibrated(reach, epsilon),
        KNormNoise.calibrated(reach, epsilon),
    ]
    if delta > 0:
        noises.append(GaussianNoise.calibrated(reach, epsilon, delta))
    return min(noises, key=lambda noise: noise.variance)


def procedure_for(request: RadoRequest) -> RadoProcedure:
    """Return the procedure of a request; raise where its parts cannot be combined."""
    check_request(request)
    if request.protect:
        return _Feature(request)
    if request.epsilon is None:
        return _Plain(request)
    if request.noise_on == "records":
        return _Edges(request)
    procedures: dict[Unit, Callable[[RadoRequest], RadoProcedure]] = {
        Unit.LABEL: _Shared,
        Unit.RECORD: _Matrix,
        Unit.ATTRIBUTE: _Attributes,
    }
    assert request.unit is not None  # noqa: S101  # for the type checker: checked above
    return procedures[request.unit](request)
