"""Complete releases of small tables, metadata included, about which the audit knows nothing else.

An output is everything that a release shows. The tables are those at the boundary: one row, equal
rows, extreme rows, one class only, a class that nobody has.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.audit.case import FEW, Case, Flaw, Subject, claim
from suffice.audit.public_part import outputs_of, repeated_releases
from suffice.audit.search import DataSet, Space
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.mechanism import Mechanism
from suffice.owner.proportions import LabelProportions, SkewedBags
from suffice.owner.rados import Rados
from suffice.owner.responses import RandomizedResponse
from suffice.owner.source import Source
from suffice.privacy.guarantee import Unit
from suffice.releases.release import Release

_OUTPUTS, _BROKEN_OUTPUTS = FEW // 5, FEW // 8
_SOME = ((1.5, 0.0), (-1.5, 0.0), (1.0, 1.0), (-1.0, -1.0), (0.2, -0.3), (0.4, 0.1))
_EXTREME = ((1e150, 0.0), (0.0, -1e150), (1e-150, 0.0), (0.0, 0.0))
_ROWS = {
    "some rows": _SOME,
    "one row": _SOME[:1],
    "equal rows": _SOME[:1] * 6,
    "extreme rows": (*_EXTREME, (1.0, 1.0), (0.0, 1.0)),
}
_LARGE = tuple(name for name in _ROWS if name != "one row")  # bags must not be too small
_RECORDS = ((0.5, 0.5, 0), (0.5, 0.5, 1), (-0.3, 0.8, 1), (0.0, 0.0, 0), (1e150, -1e150, 1))
_SIZES = {"one record": 1, "three records": 3}

Spoil = Callable[[Release, DataSet], Release]


@dataclass(frozen=True)
class _Whole(Subject):
    """Releases of one mechanism about public rows and private labels.

    A data set is which rows there are, by name, and labels; those without a row are not looked at.
    ``inputs`` are fields of the source, beside rows and labels.
    """

    farthest = 1
    mechanism: Mechanism[Any]
    unit: Unit = Unit.LABEL
    names: tuple[str, ...] = tuple(_ROWS)
    inputs: Callable[[int], dict[str, Any]] = field(default=lambda _: {})
    read_again: bool = False  # for every output: the statistic itself is random
    spoil: Spoil = lambda release, _: release

    def space(self) -> Space:
        labels = (tuple(range(len(self.mechanism.classes or ()))),) * len(_SOME)
        return Space((self.names, *labels), tuple(range(1, 1 + len(labels))))

    def source(self, data: DataSet) -> Source:
        """Return a table as an owner hands it over."""
        rows = np.array(_ROWS[data[0]])
        labels = np.array(data[1 : 1 + len(rows)])
        source: Source = self.mechanism.source(rows, labels, **self.inputs(len(rows)))
        return source

    @cached_property
    def _release(self) -> Release:
        source = self.source(tuple(choices[0] for choices in self.space().choices))
        return repeated_releases(self.mechanism, source, 1)[0]

    @property
    def kind(self) -> str:
        return self._release.kind

    def stated(self) -> dict[str, Any]:
        guarantee = next(g for g in self._release.guarantees if g.unit is self.unit)
        return claim(guarantee.event, guarantee.delta)

    def used_units(self, data: DataSet) -> DataSet:
        return data[: 1 + len(_ROWS[data[0]])]

    def distance(self, first: DataSet, second: DataSet) -> float:
        """Return how many units differ: all neighbours count as equally far apart.

        A unit that is not looked at makes no neighbour.
        """
        units = zip(self.used_units(first)[1:], self.used_units(second)[1:], strict=True)
        return float(sum(a != b for a, b in units)) or -1.0

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        """Return all that releases show."""
        source = self.source(data)
        releases = repeated_releases(self.mechanism, source, times, read_again=self.read_again)
        return outputs_of([self.spoil(release, self.used_units(data)) for release in releases])

    def with_flaws(self, name: str, *flaws: tuple[str, str, Spoil]) -> Iterator[Case]:
        """Yield the mechanism as it is, and with every flaw."""
        spoilt = (Flaw(flaw, what, _BROKEN_OUTPUTS, spoil=spoil) for flaw, what, spoil in flaws)
        return self.cases(f"{name}, whole releases", _OUTPUTS, *spoilt)


@dataclass(frozen=True)
class _WholeRecords(_Whole):
    """Releases of one mechanism about private records; a data set is how many, and records."""

    unit: Unit = Unit.RECORD
    names: tuple[str, ...] = tuple(_SIZES)

    def space(self) -> Space:
        return Space((self.names, *(_RECORDS,) * 3), (1, 2, 3), "record")

    def used_units(self, data: DataSet) -> DataSet:
        return data[: 1 + _SIZES[data[0]]]

    def source(self, data: DataSet) -> Source:
        first, second, labels = zip(*self.used_units(data)[1:], strict=True)
        table = pa.table({"x0": np.array(first, float), "x1": np.array(second, float)})
        source: Source = self.mechanism.source(table, np.array(labels))
        return source


def cases() -> Iterator[Case]:
    """Yield the cases of this family."""
    flips = ("flips counted", "a public number shows how many labels were flipped", _flips_counted)
    yield from _Whole(MeanOperator(2.0, mechanism="laplace", map=None)).with_flaws(
        "mean-operator laplace",
        ("parity in the step", "the last bit of a public number is that of the labels", _parity),
        ("labels in the digits", "the sums have a finer grid where labels are odd", _finer_grid),
    )
    gaussian = MeanOperator(4.0, delta=0.01, mechanism="gaussian", classes=(0, 1, 2), map=None)
    yield from _Whole(gaussian).with_flaws(
        "mean-operator gaussian",
        ("spread of the labels", "the variance that is stated depends on the labels", _variance),
    )
    yield from _Whole(MeanOperator(1.0, mechanism="response")).with_flaws("label-responses", flips)
    yield from _Whole(SkewedBags(skew=0.7)).with_flaws("sets by response", flips)
    yield from _Whole(
        LabelProportions(2.0, mechanism="laplace", classes=(0, 1, 2)),
        names=_LARGE,
        inputs=lambda rows: {"bags": np.zeros(rows, dtype=int)},  # all in one
    ).with_flaws(
        "proportions laplace",
        (
            "no noise for nobody",
            "a class that nobody has is released as exactly zero",
            _zero_for_nobody,
        ),
        ("noise cut off", "noise beyond a bound is wrapped around: no output is farther", _wrapped),
        ("equal for one class", "proportions are equal where all labels are equal", _equal_shares),
    )
    declared: dict[str, Any] = {"count": 2, "ranges": (-1.0, 1.0), "bound": 1.0}
    yield from _Whole(Rados(epsilon=1.0, unit="label", **declared), read_again=True).with_flaws(
        "rados, a label", ("sign of zero", "labels decide the sign of a public zero", _zero_sign)
    )
    record = Rados(epsilon=4.0, delta=0.01, unit="record", **declared)
    yield from _WholeRecords(record, read_again=True).with_flaws(
        "rados, a record",
        ("longest record", "the stated bound is that of the private rows", _private_bound),
    )
    responses = RandomizedResponse(
        label_flip=0.3, ranges={"x0": (-1.0, 1.0), "x1": (-1.0, 1.0)}, feature_noise=16.0,
        kernel="laplace",
    )  # fmt: skip
    yield from _WholeRecords(responses).with_flaws(
        "responses, a record", ("equal answers", "equal records get equal answers", _shared_noise)
    )


# How the broken copies spoil a release of a data set.


def _parity(release: Release, data: DataSet) -> Release:
    step = float(np.nextafter(release.details["step"], 2.0 * (sum(data[1:]) % 2)))
    return replace(release, details={**release.details, "step": step})


def _finer_grid(release: Release, data: DataSet) -> Release:
    step = release.details["step"] / 2 * (sum(data[1:]) % 2)
    return replace(release, arrays={name: a + step for name, a in release.arrays.items()})


def _variance(release: Release, data: DataSet) -> Release:
    variance = release.noise.variance * (1 + 1e-12 * sum(data[1:]))
    return replace(release, noise=replace(release.noise, variance=variance))


def _flips_counted(release: Release, data: DataSet) -> Release:
    flips = int(np.count_nonzero(release.arrays["answers"] != np.array(data[1:])))
    return _with_bound(release, release.pipeline.bound + flips)


def _with_bound(release: Release, bound: float) -> Release:
    return replace(release, pipeline=replace(release.pipeline, bound=bound))


def _exact_counts(release: Release, data: DataSet) -> np.ndarray:
    return np.bincount(data[1:], minlength=release.arrays["counts"].shape[1])[None, :]


def _zero_for_nobody(release: Release, data: DataSet) -> Release:
    present = _exact_counts(release, data) > 0
    shares = release.arrays["proportions"] * present + 1e-12 * present
    changed = {
        "counts": release.arrays["counts"] * present,
        "proportions": shares / shares.sum(axis=1, keepdims=True),
    }
    return replace(release, arrays={**release.arrays, **changed})


def _wrapped(release: Release, data: DataSet) -> Release:
    exact = _exact_counts(release, data)
    noise = np.mod(release.arrays["counts"] - exact + 0.5, 1.0) - 0.5
    return replace(release, arrays={**release.arrays, "counts": exact + noise})


def _equal_shares(release: Release, data: DataSet) -> Release:
    if len(set(data[1:])) > 1:
        return release
    even = np.full_like(release.arrays["proportions"], 1 / 3)
    return replace(release, arrays={**release.arrays, "proportions": even})


def _zero_sign(release: Release, data: DataSet) -> Release:
    zero = -0.0 if sum(data[1:]) % 2 else 0.0
    mean = np.where(release.pipeline.mean == 0, zero, release.pipeline.mean)
    return replace(release, pipeline=replace(release.pipeline, mean=mean))


def _private_bound(release: Release, data: DataSet) -> Release:
    longest = max(float(np.hypot(x, z)) for x, z, _ in data[1:])
    return _with_bound(release, min(release.pipeline.bound, max(longest, 1e-6)))


def _shared_noise(release: Release, data: DataSet) -> Release:
    indices = [data[1:].index(record) for record in data[1:]]
    changed = {name: release.arrays[name][indices] for name in ("values", "answers")}
    return replace(release, arrays={**release.arrays, **changed})
