"""Many parties, one release: the operator of their votes, the votes, and three kinds of model.

Parties also start from their records: local training, contributions and the sum, and then the
noise. A neighbour then has other records of one party: one of them changed, all, or none left.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from suffice.audit.case import FEW, SOME, Case, claim, repeated
from suffice.audit.public_part import outputs_of
from suffice.audit.scores import Score, shift_score
from suffice.audit.search import DataSet, Pair, Space, neighbouring_pairs
from suffice.owner.parties.contribution import (
    AuxiliaryRows,
    ClassSums,
    PartyContribution,
    parameter_radius,
    parameter_step,
)
from suffice.owner.parties.ensemble import PrivateEnsemble
from suffice.owner.parties.gathering import Enrolled, PartySource, PartyTable, VoteTally
from suffice.owner.parties.procedures import PartyProcedure
from suffice.privacy.noise import Noise
from suffice.protocol.flower import answer
from suffice.release.release import Release

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


def _party_cases() -> Iterator[Case]:
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


Record = tuple[float, float, int]  # two numbers and a label
Records = tuple[Record, ...]

_NAMES = ("a", "b")
_CLASSES = (0, 1)
_MIXED = ((1.0, 0.1, 1), (-1.0, 0.1, 0), (0.9, 0.2, 1), (-0.8, -0.1, 0))
_RECORDS: dict[str, Records] = {
    "mixed records": _MIXED,
    "one record changed": ((1.0, 0.1, 0), *_MIXED[1:]),
    "labels swapped": tuple((x, z, 1 - y) for x, z, y in _MIXED),
    "one class": ((1.0, 1.0, 1), (-1.0, 1.0, 1)),
    "the other class": ((1.0, 1.0, 0), (-1.0, 1.0, 0)),
    "one record": ((1.0, -1.0, 1),),
    "equal records": ((1.0, 1.0, 0), (1.0, 1.0, 1)),
    "extreme records": ((1e150, 1e150, 1), (-1e150, -1e150, 0)),
    "no records": (),
}


def _own(data: DataSet) -> dict[str, Records]:
    """Return the records of every party."""
    return {name: _RECORDS[unit] for name, unit in zip(_NAMES, data, strict=True)}


def _coupled(data: DataSet) -> dict[str, Records]:
    """Return the records of all parties for every party."""
    pooled = tuple(record for unit in data for record in _RECORDS[unit])
    return dict.fromkeys(_NAMES, pooled)


def _columns(records: Records) -> dict[str, np.ndarray]:
    cells = np.array(records, dtype=np.float64).reshape(-1, 3)
    return {"x0": cells[:, 0], "x1": cells[:, 1], "label": cells[:, 2].astype(np.int64)}


@lru_cache(maxsize=1)
def _record_auxiliary() -> AuxiliaryRows:
    return AuxiliaryRows.read(np.array(_SQUARE), intercept=0.0, clip=1.0)


@dataclass(frozen=True)
class _Trained:
    """An aggregation of few parties from one table of their records.

    A data set names the records of every party. ``training_records`` maps a data set to the
    records that each party trains on.
    """

    ensemble: PrivateEnsemble
    training_records: Callable[[DataSet], dict[str, Records]] = _own

    def source(self, data: DataSet) -> PartySource:
        """Return the table of all records."""
        by_party = self.training_records(data)
        parts = [_columns(records) for records in by_party.values()]
        table = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        owners = np.repeat(list(by_party), [len(records) for records in by_party.values()])
        return PartySource(
            pa.table({**table, "party": pa.array(owners.tolist(), pa.string())}),
            label="label", party="party", auxiliary=_record_auxiliary(), enrolled=_NAMES,
        )  # fmt: skip

    @cache  # noqa: B019  # frozen, few, and as long-lived as the process
    def procedure(self, data: DataSet) -> PartyProcedure:
        """Return the procedure of a release, calibrated before anything private is seen."""
        return self.ensemble.choose(self.ensemble.public(self.source(data)))

    def integers(self, data: DataSet) -> np.ndarray:
        """Return what noise is added to, after training and summing."""
        return self._integers(data)

    @cache  # noqa: B019
    def _integers(self, data: DataSet) -> np.ndarray:
        procedure = self.procedure(data)
        make = partial(procedure.accumulator, identified=False)
        exact = self.source(data).fold(procedure.public.parts(), make)
        return procedure.integers(exact.result().total)

    def distance(self, first: DataSet, second: DataSet) -> float:
        """Return how far apart the two sums are."""
        return float(np.linalg.norm(self.integers(first) - self.integers(second)))

    def pairs(self, rng: np.random.Generator) -> list[Pair]:
        """Return the records of one party that move the sum most."""
        space = Space((tuple(_RECORDS),) * len(_NAMES), unit="kind of party")
        return neighbouring_pairs(space, self.distance, rng)

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        """Return noisy sums."""
        return repeated(self.procedure(data).noise, self.integers(data), times)

    def score(self, pair: Pair) -> Score:
        """Return the exact loss."""
        noise = self.procedure(pair.first).noise
        return shift_score(noise, self.integers(pair.first), self.integers(pair.second))

    def case(self) -> Case:
        """Return the case of the mechanism as it is."""
        method, delta = self.ensemble.method, self.ensemble.delta
        kind = {"operator": "mean-operator", "vote-table": "votes"}.get(method, "model")
        noise = self.procedure(tuple(list(_RECORDS)[:2])).noise
        return Case(
            f"parties' records, {method}", kind, pairs=self.pairs, sample=self.sample,
            score=self.score, samples=SOME // 2, **claim(noise.event, delta),
        )  # fmt: skip

    def broken_copy(self, case: Case, name: str, what: str) -> Case:
        """Return the case of this copy under the stated guarantee of ``case``."""
        spoilt = {"pairs": self.pairs, "sample": self.sample, "score": self.score}
        return case.broken_copy(name, what, **spoilt)


class _Unclipped(_Trained):
    """A broken copy: parameters at a smaller penalty than stated, summed as long as they are."""

    def integers(self, data: DataSet) -> np.ndarray:
        """Return the sum of parameters that are not scaled down or refused."""
        source, auxiliary = self.source(data), _record_auxiliary()
        table = PartyTable.read(
            source.data, auxiliary, label="label", classes=_CLASSES, party="party",
            enrolled=source.parties,
        )  # fmt: skip
        step = parameter_step(parameter_radius(auxiliary, len(_CLASSES), self.ensemble.lam))
        total = table.parameters(self.ensemble.lam / 10).sum(axis=0, keepdims=True)
        return np.asarray(np.rint(total / step), dtype=np.int64)


class _Seeded(_Trained):
    """A broken copy: the noise has a seed that follows from the records."""

    @cache  # noqa: B019
    def _noisy_sum(self, data: DataSet) -> np.ndarray:
        return super().sample(data, 1)

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        """Return the same noisy sum many times."""
        return np.tile(self._noisy_sum(data), (times, 1))


_Flaws = dict[str, tuple[str, Callable[[_Trained], _Trained]]]
_COUPLED: _Flaws = {
    "training coupled": (
        "every party trains on the records of all",
        lambda sound: replace(sound, training_records=_coupled),
    )
}
_SEEDED: _Flaws = {
    "seed from the records": (
        "equal records get equal noise, again and again",
        lambda sound: _Seeded(sound.ensemble),
    )
}
_UNCLIPPED_RECORDS: _Flaws = {
    "not held to the ball": (
        "parameters are summed as long as they are",
        lambda sound: _Unclipped(sound.ensemble),
    )
}
# A majority moves as far by one party as by all: training that is coupled is no flaw there.
_FLAWS: dict[str, _Flaws] = {
    "operator": _COUPLED,
    "vote-table": {**_COUPLED, **_SEEDED},
    "soft": _COUPLED,
    "majority-model": _SEEDED,
    "average": _UNCLIPPED_RECORDS,
}


def _record_cases() -> Iterator[Case]:
    """Yield the cases of this family."""
    for method, flaws in _FLAWS.items():
        sound = _Trained(PrivateEnsemble(4.0, delta=0.01, method=method, lam=_LAM))
        case = sound.case()
        yield case
        for name, (what, spoil) in flaws.items():
            yield spoil(sound).broken_copy(case, name, what)
    yield from _sent()


@dataclass(frozen=True)
class _Sent:
    """An aggregation of contributions that parties compute at home and send as bytes."""

    ensemble: PrivateEnsemble
    training_records: Callable[[DataSet], dict[str, Records]] = _own
    spoil: Callable[[Release, DataSet], Release] = lambda release, _: release

    @cache  # noqa: B019
    def contributions(self, data: DataSet) -> tuple[tuple[bytes, ...], AuxiliaryRows]:
        """Return the bytes that parties send, each computed from its own file, and the rows."""
        run = {"classes": "0,1", "method": self.ensemble.method, "lam": self.ensemble.lam}
        with TemporaryDirectory() as name:
            folder, sent = Path(name), []
            public = dict(zip(("x0", "x1"), np.array(_SQUARE).T, strict=True))
            pq.write_table(pa.table(public), folder / "aux.parquet")
            for party, records in self.training_records(data).items():
                pq.write_table(pa.table(_columns(records)), folder / f"{party}.parquet")
                files = {"records": str(folder / f"{party}.parquet"), "label": "label"}
                sent.append(
                    answer({"party": party, "aux": str(folder / "aux.parquet"), **files}, run)
                )
            return tuple(sent), AuxiliaryRows.read(folder / "aux.parquet")

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        """Return all that releases of these contributions show."""
        sent, auxiliary = self.contributions(data)
        releases = (
            self.ensemble.aggregate(sent, auxiliary, enrolled=_NAMES, ledger=None).release
            for _ in range(times)
        )
        return outputs_of([self.spoil(release, data) for release in releases])

    def pairs(self, rng: np.random.Generator) -> list[Pair]:
        """Return neighbours; a party without records sends nothing, which others may see."""
        filled = tuple(name for name in _RECORDS if name != "no records")
        space = Space((filled,) * len(_NAMES), unit="kind of party")
        return neighbouring_pairs(
            space, _Trained(self.ensemble, self.training_records).distance, rng
        )

    def case(self) -> Case:
        """Return the case of the mechanism as it is."""
        auxiliary = self.contributions(("mixed records", "one class"))[1]
        (guarantee,) = self.ensemble.guarantees(auxiliary, enrolled=_NAMES)
        return Case(
            "parties' records, contributions sent", "mean-operator", pairs=self.pairs,
            sample=self.sample, score=None, samples=FEW // 8,
            **claim(guarantee.event, self.ensemble.delta),
        )  # fmt: skip


def _records_counted(release: Release, data: DataSet) -> Release:
    count = sum(len(records) for records in _own(data).values())
    variance = release.noise.variance * (1 + 1e-9 * count)
    return replace(release, noise=replace(release.noise, variance=variance))


def _sent() -> Iterator[Case]:
    sound = _Sent(PrivateEnsemble(4.0, delta=0.01, method="operator", lam=_LAM))
    case = sound.case()
    yield case
    coupled = replace(sound, training_records=_coupled)
    yield case.broken_copy(
        "training coupled", "every party trains on the records of all",
        pairs=coupled.pairs, sample=coupled.sample,
    )  # fmt: skip
    yield case.broken_copy(
        "records counted", "a public number shows how many records there are",
        sample=replace(sound, spoil=_records_counted).sample,
    )  # fmt: skip


def cases() -> Iterator[Case]:
    """Yield what the sum of contributions shows, and then what parties' own records show."""
    yield from _party_cases()
    yield from _record_cases()
