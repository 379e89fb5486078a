"""Many parties, one release: the operator of their votes, the votes, and three kinds of model."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from suffice.audit.case import FEW, SOME, Case, claim, repeated
from suffice.audit.scores import Score, shift_score
from suffice.audit.search import Pair, Space, neighbouring_pairs
from suffice.audit.shown import outputs_of
from suffice.owner.parties.contribution import AuxiliaryRows, ClassSums, PartyContribution
from suffice.owner.parties.ensemble import PrivateEnsemble
from suffice.owner.parties.gathering import Enrolled, VoteTally
from suffice.owner.parties.procedures import PartyProcedure
from suffice.privacy.noise import Noise

__all__ = ["at", "cases"]

_PARTIES = 2
_LAM = 20.0  # far above the curvature of the loss: then a bound by strong convexity is nearly met
# The corners of a square: votes along an axis move the operator as far as votes can.
_SQUARE = ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))


@lru_cache
def _auxiliary(rows: tuple[tuple[float, float], ...]) -> AuxiliaryRows:
    """Return auxiliary rows of norm one under a pipeline that does not depend on them."""
    square = AuxiliaryRows.read(np.array(_SQUARE), intercept=0.0, clip=1.0)
    return AuxiliaryRows.read(np.array(rows), pipeline=square.pipeline)


class _Flaw(NamedTuple):
    """The name of a broken copy, what is wrong with it, and which part of the noise it draws."""

    name: str
    what: str
    factor: float


@dataclass(frozen=True)
class _Ensemble:
    """An aggregation of few parties: the sum of a release, the noise of a release.

    A data set is how every party votes, or, for ``average``, which parameters it sends. ``factor``
    is the part of the noise that is drawn.
    """

    ensemble: PrivateEnsemble
    factor: float = 1.0

    @property
    def rows(self) -> tuple[tuple[float, float], ...]:
        """The rows that are voted on: two for a table of votes, a number per row and class."""
        return _SQUARE[1:3] if self.ensemble.method == "vote-table" else _SQUARE

    def auxiliary(self, data: tuple[Any, ...]) -> AuxiliaryRows:
        """Return the auxiliary rows, which are public: the same whatever the data."""
        del data
        return _auxiliary(self.rows)

    def votes(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return how every party votes."""
        return data

    @cache  # noqa: B019  # frozen, few, and as long-lived as the process
    def procedure(self) -> PartyProcedure:
        """Return the procedure of a release, calibrated before anything is seen."""
        return self.ensemble.procedure(_auxiliary(self.rows), Enrolled.of(_PARTIES))

    @cache  # noqa: B019
    def integers(self, data: tuple[Any, ...]) -> np.ndarray:
        """Return what noise is added to."""
        auxiliary, enrolled = self.auxiliary(data), Enrolled.of(_PARTIES)
        procedure = self.ensemble.procedure(auxiliary, enrolled)
        return procedure.integers(
            self.ensemble.gathered(self.sent(data), auxiliary, enrolled).total
        )

    def sent(self, data: tuple[Any, ...]) -> VoteTally | list[PartyContribution]:
        """Return what the parties send."""
        auxiliary, classes = self.auxiliary(data), tuple(self.ensemble.classes)
        names = [f"party {i}" for i in range(_PARTIES)]
        if self.ensemble.method == "average":
            lam = self.ensemble.lam
            return [
                PartyContribution.of_parameters(name, theta, auxiliary, classes=classes, lam=lam)
                for name, theta in zip(names, data, strict=True)
            ]
        tally = VoteTally(auxiliary, classes, Enrolled.of(_PARTIES))
        tally.add(names, np.array(self.votes(data)))
        return tally

    def space(self) -> Space:
        """Return all ways to vote, or parameters on a circle that is too wide."""
        if self.ensemble.method == "average":
            bound = self.auxiliary(()).pipeline.norm_bound
            far = 2 * bound / self.ensemble.lam  # held to half of that
            angles = np.linspace(0, 2 * math.pi, 8, endpoint=False)
            choices: list[Any] = [(far * math.cos(t), far * math.sin(t)) for t in angles]
        else:
            choices = list(product(range(len(self.ensemble.classes)), repeat=len(self.rows)))
        return Space((choices,) * _PARTIES, unit="vote")

    def pairs(self, rng: np.random.Generator) -> list[Pair]:
        """Return the neighbours whose statistics are farthest apart."""

        def distance(first: tuple[Any, ...], second: tuple[Any, ...]) -> float:
            return float(np.linalg.norm(self.integers(first) - self.integers(second)))

        return neighbouring_pairs(self.space(), distance, rng, 1)

    @property
    def noise(self) -> Noise:
        """The noise of a release, or less of it."""
        noise = self.procedure().noise
        return replace(noise, scale=noise.scale * self.factor)

    def sample(self, data: tuple[Any, ...], times: int) -> np.ndarray:
        """Return noisy statistics."""
        return repeated(self.noise, self.integers(data), times)

    def score(self, pair: Pair) -> Score:
        """Return the exact loss."""
        return shift_score(self.noise, self.integers(pair.first), self.integers(pair.second))

    def case(self, name: str, samples: int) -> Case:
        """Return the case of the mechanism as it is."""
        kind = _KINDS.get(self.ensemble.method, "model")
        return Case(
            f"parties, {name}", kind, pairs=self.pairs, sample=self.sample, score=self.score,
            samples=samples,
            **claim(self.procedure().noise.event, self.ensemble.delta),
        )  # fmt: skip

    def broken_copy(self, case: Case, flaw: _Flaw) -> Case:
        """Return the case with less noise than its stated guarantee needs."""
        broken = replace(self, factor=flaw.factor)
        return case.broken_copy(flaw.name, flaw.what, sample=broken.sample, score=broken.score)


@dataclass(frozen=True)
class _PrivateRows(_Ensemble):
    """Auxiliary rows that are private as well: a neighbour differs in one party and in one row.

    A data set is ((how the first party votes, the first row), how the second votes, second row).
    """

    @property
    def rows(self) -> tuple[tuple[float, float], ...]:
        """Two rows; which ones does not matter to the noise."""
        return _SQUARE[:2]

    def auxiliary(self, data: tuple[Any, ...]) -> AuxiliaryRows:
        """Return the auxiliary rows of this data set."""
        return _auxiliary((data[0][1], data[2]))

    def votes(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return how either party votes."""
        return (data[0][0], data[1])

    def space(self) -> Space:
        """Return all votes on two corners of the square, any of which may be the rows."""
        votes = list(product((0, 1), repeat=2))
        return Space((list(product(votes, _SQUARE)), votes, _SQUARE), changing=(0,), unit="vote")


@dataclass(frozen=True)
class _Summed(_Ensemble):
    """Parties that send class sums. A data set is the records of every party.

    A party's records are copies of one row, more than it declares, all of one class. ``clipped``:
    whether its sum is held to the norm that the noise is for.
    """

    clipped: bool = True

    @cache  # noqa: B019
    def integers(self, data: tuple[Any, ...]) -> np.ndarray:
        """Return what noise is added to: sums of parties, or of parties that clip nothing."""
        sums = self._sums(1 if self.clipped else _COPIES**2)
        return np.asarray(sum(sums.of(*self._records(own)) for own in data))

    def sent(self, data: tuple[Any, ...]) -> list[PartyContribution]:
        """Return what the parties send."""
        sums, classes = self._sums(1), tuple(self.ensemble.classes)
        return [
            PartyContribution.of_mapped(f"party {i}", *self._records(own), sums, classes)
            for i, own in enumerate(data)
        ]

    def _sums(self, samples: int) -> ClassSums:
        return ClassSums(_auxiliary(self.rows), len(self.ensemble.classes), samples)

    def _records(self, own: tuple[tuple[float, float], int]) -> tuple[np.ndarray, np.ndarray]:
        row, code = own
        return np.array([row] * _COPIES), np.full(_COPIES, code)

    def space(self) -> Space:
        """Return every corner of the square with every class."""
        choices = list(product(_SQUARE, range(len(self.ensemble.classes))))
        return Space((choices,) * _PARTIES, unit="party")

    def broken_copy(self, case: Case, flaw: _Flaw) -> Case:
        """Return the case with parties that are not held to their norm."""
        broken = replace(self, clipped=False)
        return case.broken_copy(flaw.name, flaw.what, sample=broken.sample, score=broken.score)


_COPIES = 3  # records of a party that declares one
_UNCLIPPED = _Flaw("clip forgotten", "a party's sum is as long as its records make it", 1.0)
_HALF = _Flaw("half the noise", "the scale is half of what it must be", 1 / 2)
_THIRD = _Flaw("a third of the noise", "the scale is a third of what it must be", 1 / 3)
_GAUSSIAN = {"epsilon": 4.0, "delta": 0.01, "lam": _LAM}
_PURE = {"epsilon": 1.0, "lam": _LAM}
_THREE = {"classes": (0, 1, 2)}
_ROWS = {"private_auxiliary": True}
# Of release; others are of models.
_KINDS = {"operator": "mean-operator", "class-sums": "mean-operator", "vote-table": "votes"}
# A name, which begins with the method; how it is set up; outputs; the flaw of its broken copy.
_CASES: tuple[tuple[str, dict[str, Any], int, _Flaw], ...] = (
    ("operator, gaussian", _GAUSSIAN, SOME,
     _Flaw("norm for diameter", "two votes are said to be one vote apart, not two", 1 / 2)),
    ("operator, gaussian, 3 classes", {**_GAUSSIAN, **_THREE, "noise_shape": "even"}, SOME // 2,
     _Flaw("factor 1 for sqrt 2", "two votes are said to be one apart, not sqrt 2", 0.5**0.5)),
    ("operator, knorm", _PURE, 5 * FEW // 4, _HALF),
    ("class-sums, gaussian", {**_GAUSSIAN, "samples": 1}, SOME, _UNCLIPPED),
    ("class-sums, gaussian, 3 classes", {**_GAUSSIAN, **_THREE, "samples": 1}, SOME // 2,
     _UNCLIPPED),
    ("class-sums, knorm", {**_PURE, "samples": 1}, 5 * FEW // 4, _UNCLIPPED),
    ("vote-table, gaussian", _GAUSSIAN, SOME // 2,
     _Flaw("sqrt(N) for sqrt(2 N)", "a changed vote is said to move one count", 0.5**0.5)),
    ("vote-table, knorm", {**_PURE, "epsilon": 2.0}, FEW // 2, _THIRD),
    ("soft, gaussian", _GAUSSIAN, SOME, _HALF),
    ("soft, knorm", _PURE, 5 * FEW // 4, _HALF),
    ("soft, gaussian, 3 classes", {**_GAUSSIAN, **_THREE}, SOME // 2, _HALF),
    ("soft, private rows", {**_GAUSSIAN, **_ROWS}, SOME,
     _Flaw("rows held public", "only a party is said to change, and no row", 2 / 5)),
    ("majority-model, gaussian", _GAUSSIAN, SOME,
     _Flaw("averaged over parties", "a majority is said to move by 1/M of what it does", 1 / 2)),
    ("majority-model, knorm", _PURE, 3 * FEW // 4, _THIRD),
    ("majority-model, private rows", {**_GAUSSIAN, **_ROWS}, SOME, _HALF),
    ("average, gaussian", _GAUSSIAN, SOME,
     _Flaw("radius for diameter", "parameters are said to be one radius apart, not two", 1 / 2)),
    ("average, knorm", _PURE, 3 * FEW // 4, _HALF),
)  # fmt: skip


def cases() -> Iterator[Case]:
    """Yield the cases of this family."""
    for name, options, samples, flaw in _CASES:
        ensemble = _ensemble(name, options)
        case = ensemble.case(name, samples)
        yield case
        yield ensemble.broken_copy(case, flaw)
    yield from _whole()


def at(epsilon: float) -> Iterator[Case]:
    """Yield the mechanisms of this family at another epsilon; Gaussian noise at delta = .01."""
    for name, options, samples, _ in _CASES:
        if name in ("operator, gaussian", "operator, knorm", "vote-table, gaussian"):
            yield _ensemble(name, {**options, "epsilon": epsilon}).case(name, samples)


def _ensemble(name: str, options: dict[str, Any]) -> _Ensemble:
    ensemble = PrivateEnsemble(method=name.partition(",")[0], **options)
    if ensemble.method == "class-sums":
        return _Summed(ensemble)
    return (_PrivateRows if ensemble.private_auxiliary else _Ensemble)(ensemble)


def _whole() -> Iterator[Case]:
    """Yield aggregations from end to end, about which the audit knows nothing else."""
    for method in ("operator", "class-sums", "vote-table", "soft", "majority-model", "average"):
        samples = {"samples": 1} if method == "class-sums" else {}
        stated = _ensemble(method, {**_GAUSSIAN, "epsilon": 8.0, **samples})
        case = stated.case(f"{method}, whole releases", FEW // 4)
        case = replace(case, sample=_through(stated, stated.ensemble), score=None)
        yield case
        yield case.broken_copy(
            "epsilon tripled",
            "the noise of three times the epsilon that is stated",
            sample=_through(stated, replace(stated.ensemble, epsilon=24.0)),
        )


def _through(stated: _Ensemble, ensemble: PrivateEnsemble) -> Callable[[Any, int], np.ndarray]:
    """Return how whole releases come about, all that they show and all of their code included."""

    def sample(data: tuple[Any, ...], times: int) -> np.ndarray:
        sent, auxiliary = stated.sent(data), stated.auxiliary(data)
        return outputs_of(
            [
                ensemble.aggregate(sent, auxiliary, enrolled=_PARTIES, ledger=None).release
                for _ in range(times)
            ]
        )

    return sample
