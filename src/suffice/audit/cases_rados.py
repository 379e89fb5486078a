"""Rados with a guarantee: noise per label, record, attribute or edge, and DP-Feat.

For noise, one example and two rados with structured signs are the worst case: the example is in
exactly one of the two, which is what the noise is scaled to.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import binom

from suffice.audit.case import CHEAP, FEW, SOME, Case, Flaw, Subject, claim, repeated
from suffice.audit.search import DataSet, Pair, Space
from suffice.owner.rados import ChosenSubsets, RadoProcedure, Rados, label_noise, label_sensitivity
from suffice.owner.source import Source
from suffice.privacy.binomial import truncation
from suffice.releases.release import Covariance

Example = tuple[float, float, int]  # two coordinates and a label of 0 or 1
# On the unit circle, where rows are clipped at, along an axis and between; and one inside.
_POINTS = ((1.0, 0.0), (-1.0, 0.0), (0.6, 0.8), (-0.6, -0.8), (0.3, -0.2))
_RECORDS = tuple((a, b, y) for a, b in _POINTS for y in (0, 1))
_LABELS = tuple((0.6, 0.8, y) for y in (0, 1))
_CELLS = tuple((a, 1.0, 1) for a in (-1.0, 1.0, 0.25))


def _edge(example: Example) -> np.ndarray:
    return np.array(example[:2]) * (1 if example[2] else -1)


def _released(procedure: RadoProcedure, data: DataSet) -> tuple[np.ndarray, Covariance]:
    """Return rados of these examples as released, and the covariance of their noise."""
    rows = np.array([example[:2] for example in data]).T
    state = procedure.begin()
    signs = np.array([1.0 if example[2] else -1.0 for example in data])
    procedure.add_rows(state, np.ascontiguousarray(rows), signs)
    return procedure.noisy(state)


def _stated(procedure: RadoProcedure) -> dict[str, Any]:
    (guarantee,) = procedure.guarantees(procedure.identifier())
    return claim(guarantee.event, guarantee.delta)


@dataclass(frozen=True)
class _Noisy(Subject):
    """Two rados of few examples, by the procedure of a release; every output has sums of its own.

    ``scored`` gets outputs, data, the standard deviation of the noise on a number and its exponent:
    2 for Gaussian noise, 1 for K-norm noise. A ``stretch`` makes rows longer than the bound.
    """

    kind = "rados"
    farthest = 1
    mechanism: Rados
    choices: tuple[Example, ...]
    scored: Callable[[np.ndarray, DataSet, float, int], np.ndarray]
    examples: int = 1
    stretch: float = 1.0

    def procedure(self) -> RadoProcedure:
        rows = self.mechanism.private_rows(Source(np.zeros((self.examples, 2))))
        return self.mechanism.procedure(rows, self.examples)

    def stated(self) -> dict[str, Any]:
        return _stated(self.procedure())

    def stretched(self, data: DataSet) -> DataSet:
        return tuple((x * self.stretch, z * self.stretch, label) for x, z, label in data)

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        """Return rados as released, all of one release in a row."""
        procedure, examples = self.procedure(), self.stretched(data)
        return np.array([_released(procedure, examples)[0].ravel() for _ in range(times)])

    def space(self) -> Space:
        return Space((self.choices,) * self.examples, unit="record")

    def distance(self, first: DataSet, second: DataSet) -> float:
        """Return how far apart the edges are."""
        pairs = zip(first, second, strict=True)
        return sum(float(np.linalg.norm(_edge(a) - _edge(b))) for a, b in pairs)

    @cached_property
    def _spread(self) -> tuple[float, int]:
        procedure = self.procedure()
        variance = _released(procedure, self.choices[:1] * self.examples)[1].variance
        pure = procedure.guarantees(procedure.identifier())[0].delta == 0
        return math.sqrt(variance / (3 if pure else 1)), 1 if pure else 2

    def logs(self, outputs: np.ndarray, data: DataSet) -> np.ndarray:
        """Return ln p of rados, for rows as long as they are."""
        return np.asarray(self.scored(outputs, self.stretched(data), *self._spread))


def _log(distance: np.ndarray, deviation: float, power: int) -> np.ndarray:
    """Return ln p of Gaussian noise (power 2) or K-norm noise (power 1), up to a constant."""
    return np.asarray(-((np.linalg.norm(distance, axis=1) / deviation) ** power) / power)


def _shared(outputs: np.ndarray, data: DataSet, deviation: float, power: int) -> np.ndarray:
    """Return ln p of two rados that share their noise: their difference shows who is in."""
    row = np.array(data[0][:2])
    first, second = outputs[:, :2], outputs[:, 2:]
    without = np.where(((first - second) @ row > 0)[:, None], second, first)
    return _log(without - (np.zeros(2) if data[0][2] else -row), deviation, power)


def _matrix(outputs: np.ndarray, data: DataSet, deviation: float, power: int) -> np.ndarray:
    """Return ln p of two rados with noise of their own, either of which holds the example."""
    edge, none = _edge(data[0]), np.zeros(2)
    ways = (np.concatenate([edge, none]), np.concatenate([none, edge]))
    return np.asarray(logsumexp([_log(outputs - w, deviation, power) for w in ways], axis=0))


def _free(outputs: np.ndarray, data: DataSet, deviation: float, power: int) -> np.ndarray:
    """Return ln p where every example is in either rado or not, whatever the others are."""
    subsets = np.array(list(product((0.0, 1.0), repeat=len(data))))
    sums = subsets @ np.array([_edge(example) for example in data])
    rados = outputs[:, :2], outputs[:, 2:]
    logs = [logsumexp([_log(r - s, deviation, power) for s in sums], axis=0) for r in rados]
    return np.asarray(np.sum(logs, axis=0))


def _edges(outputs: np.ndarray, data: DataSet, *_: float) -> np.ndarray:
    """Return ln p of a noisy edge, which is the sum of the two rados, in a scale of its own."""
    return np.asarray((outputs[:, :2] + outputs[:, 2:]) @ _edge(data[0]))


def _attribute(outputs: np.ndarray, data: DataSet, *_: float) -> np.ndarray:
    """Return ln p of one coordinate, in a scale of its own; the other shows who is in."""
    first = np.abs(outputs[:, 1]) > np.abs(outputs[:, 3])
    return np.asarray(np.where(first, outputs[:, 0], outputs[:, 2]) * data[0][0])


def cases() -> Iterator[Case]:
    """Yield the cases of this family."""
    declared: dict[str, Any] = {"count": 2, "ranges": (-1.0, 1.0), "intercept": 0.0}
    bounded = {**declared, "bound": 1.0}
    label = Rados(unit="label", epsilon=1.0, delta=0.0, **bounded)
    # Where delta is large enough for Gaussian noise to have the least variance.
    normal = Rados(unit="label", epsilon=2.0, delta=0.09, **bounded)
    record = Rados(unit="record", epsilon=4.0, delta=0.01, **bounded)
    edges = replace(record, noise_on="records")
    cell = Rados(unit="attribute", attributes=("x0",), epsilon=4.0, delta=0.01, **declared)
    free = replace(record, signs="iid", epsilon=2.0)
    unclipped = ("rows not clipped", "rows are longer than the bound that noise is scaled to")
    doubled = Flaw(*unclipped, stretch=2.0)
    # A variant, how it is set up, outputs, and what its broken copy is.
    table = (
        ("a label, knorm", _Noisy(label, _LABELS, _shared), FEW // 2, doubled),
        ("a label, gaussian", _Noisy(normal, _LABELS, _shared), FEW // 2, doubled),
        ("a record", _Noisy(record, _RECORDS, _matrix), FEW,
         Flaw("norm for diameter", "noise is scaled to sqrt(k) max ||x||, not to twice that",
              stretch=2.0)),
        ("a record, noise on records", _Noisy(edges, _RECORDS, _edges), FEW // 2,
         Flaw("norm for diameter", "noise is scaled to max ||x||, not to twice that (Nock et al.,"
              " Section 5.2)", stretch=2.0)),
        ("an attribute", _Noisy(cell, _CELLS, _attribute), FEW // 2,
         Flaw("not held to the range", "values lie outside the declared range", stretch=2.0)),
        ("a record, free signs", _Noisy(free, _RECORDS, _free, examples=2), FEW,
         Flaw(*unclipped, stretch=6.0)),
    )  # fmt: skip
    for name, noisy, samples, flaw in table:
        yield from noisy.cases(f"rados, {name}", samples, flaw)
    yield _fixed_support(label)
    alone = _Feature(60, 4).case("rados, a column alone", CHEAP)
    yield alone
    yield alone.broken_copy(
        "one rado's worth", "four rados are said to cost what one costs",
        claimed=_Feature(60, 1).stated()["claimed"],
    )  # fmt: skip
    truncated = _Feature(300, 2, truncate=1.0).case("rados, a column alone, truncated", SOME)
    yield truncated
    yield truncated.broken_copy(
        "Theorem 6", "the most extreme sum comes from one data set only",
        claimed=0.1,
        delta=1000.0**-2,  # o(1/m), as printed
        samples=FEW,
        **_Feature(1000, 1, truncate=0.1).attack(),
    )  # fmt: skip


def _fixed_support(mechanism: Rados) -> Case:
    """Return the broken copy that `Rados` refuses: a fixed support, and noise that rados share."""
    count, (x, z, _) = 4, _LABELS[0]
    noisy = _Noisy(mechanism, _LABELS, _shared, examples=2)
    procedure = noisy.procedure()
    reach = label_sensitivity(procedure.rows.pipeline, procedure.step)
    noise = label_noise(reach, mechanism.epsilon or 0.0, mechanism.delta)

    def sample(data: DataSet, times: int) -> np.ndarray:
        rows = np.tile(np.array([[x], [z]]), (1, 2))
        signs = np.array([1.0 if example[2] else -1.0 for example in data])
        outputs = []
        for vector in repeated(noise, np.zeros(2, dtype=np.int64), times):
            subsets = ChosenSubsets(2, np.ones(count, dtype=np.int64), procedure.step, 2)
            subsets.update(rows, signs)
            outputs.append((subsets.result() - vector).ravel())
        return np.array(outputs) * procedure.step

    return noisy.case("rados, a label, knorm", FEW // 2).broken_copy(
        "fixed support",
        "rados sum one example each: their differences carry no noise",
        sample=sample,
        score=lambda _: lambda outputs: np.ptp(outputs[:, ::2], axis=1),  # how unequal they are
    )


@dataclass(frozen=True)
class _Feature(Subject):
    """What ``count`` DP-Feat rados of ``rows`` rows show about one protected column, read alone.

    Rados are drawn independently of each other, so that one draw of n times as many is n outputs.
    """

    kind = "rados"
    rows: int
    count: int
    truncate: float | None = None

    def procedure(self, times: int) -> RadoProcedure:
        """Return the procedure of the release, for as many outputs."""
        mechanism = Rados(
            count=self.count * times, protect=("x0",), delta=0.01, truncate=self.truncate,
            standardize="none", intercept=0.0,
        )  # fmt: skip
        return mechanism.procedure(
            mechanism.private_rows(Source(np.zeros((self.rows, 1)))), self.rows
        )

    def stated(self) -> dict[str, Any]:
        return _stated(self.procedure(1))

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        """Return the column's coordinates, all of one release in a row."""
        procedure = self.procedure(times)
        state = procedure.begin()
        rows = 2.0 * np.array([data], dtype=np.float64) - 1
        procedure.add_rows(state, rows, np.ones(self.rows))
        sums = np.rint(procedure.noisy(state)[0]).astype(np.int64)
        return np.asarray(sums.reshape(times, self.count))

    def logs(self, outputs: np.ndarray, data: DataSet) -> np.ndarray:
        """Return ln p: a coordinate is K - q, K binomial and q the number of zeros."""
        low = 0 if self.truncate is None else truncation(self.rows, self.truncate)
        logs = binom.logpmf(np.arange(self.rows + 1), self.rows, 0.5)
        logs[:low], logs[self.rows - low + 1 :] = -math.inf, -math.inf
        padded = np.concatenate([logs, [-math.inf, -math.inf]])  # and K one off at either end
        return np.asarray(padded[outputs + data.count(0)].sum(axis=1))

    def pairs(self, rng: np.random.Generator) -> list[Pair]:
        """Return columns that differ in one cell; all such pairs are equally far apart."""
        some = [int(c) for c in rng.integers(0, 2, self.rows - 1)]
        rest = {"some cells": some, "one value only": [0] * len(some)}
        return [Pair((0, *cells), (1, *cells), what) for what, cells in rest.items()]
