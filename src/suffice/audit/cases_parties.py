"""Many parties, one release: the operator of their votes, the votes, and three kinds of model.

Parties also start from their records: local training, contributions and the sum, and then the
noise. A neighbour then has other records of one party: one of them changed, all, or none left.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from suffice.audit.case import (
    FEW,
    HALF_SCALE,
    SOME,
    Case,
    Flaw,
    NoisyStatistic,
    claim,
    half,
    part,
)
from suffice.audit.public_part import outputs_of
from suffice.audit.search import DataSet, Space
from suffice.engines.sums import lattice_step
from suffice.owner.parties.contribution import (
    AuxiliaryRows,
    ClassSums,
    PartyContribution,
    parameter_radius,
)
from suffice.owner.parties.ensemble import PartyProcedure, PrivateEnsemble
from suffice.owner.parties.gathering import Enrolled, PartySource, PartyTable, VoteTally
from suffice.privacy.noise import Noise
from suffice.protocol.flower import answer
from suffice.releases.release import Release

_PARTIES = 2
_LAM = 20.0  # far above the curvature of the loss: then a bound by strong convexity is nearly met
# The corners of a square: votes along an axis move the operator as far as votes can.
_SQUARE = ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))


# Of release; others are of models.
_KINDS = {"operator": "mean-operator", "class-sums": "mean-operator", "vote-table": "votes"}


@cache
def _square() -> AuxiliaryRows:
    return AuxiliaryRows.read(np.array(_SQUARE), intercept=0.0, clip=1.0)


@cache
def _auxiliary(rows: tuple[tuple[float, float], ...]) -> AuxiliaryRows:
    """Return auxiliary rows of norm one under a pipeline that does not depend on them."""
    return AuxiliaryRows.read(np.array(rows), pipeline=_square().pipeline)


@dataclass(frozen=True)
class _Ensemble(NoisyStatistic):
    """An aggregation of few parties: the sum of a release, the noise of a release.

    A data set is how every party votes, or, for ``average``, which parameters it sends.
    """

    farthest = 1
    ensemble: PrivateEnsemble

    @property
    def kind(self) -> str:
        return _KINDS.get(self.ensemble.method, "model")

    @property
    def rows(self) -> tuple[tuple[float, float], ...]:
        """The rows that are voted on: two for a table of votes, a number per row and class."""
        return _SQUARE[1:3] if self.ensemble.method == "vote-table" else _SQUARE

    def auxiliary(self, data: DataSet) -> AuxiliaryRows:
        """Return the auxiliary rows, which are public: the same whatever the data."""
        del data
        return _auxiliary(self.rows)

    def votes(self, data: DataSet) -> tuple[Any, ...]:
        """Return how every party votes."""
        return data

    @cache  # noqa: B019  # frozen, few, and as long-lived as the process
    def procedure(self) -> PartyProcedure:
        """Return the procedure of a release, calibrated before anything is seen."""
        return self.ensemble.procedure(_auxiliary(self.rows), Enrolled.of(_PARTIES))

    def noise(self, data: DataSet) -> Noise:
        del data
        return self.procedure().noise

    def stated(self) -> dict[str, Any]:
        return claim(self.procedure().noise.event, self.ensemble.delta)

    @cache  # noqa: B019
    def exact(self, data: DataSet) -> np.ndarray:
        auxiliary, enrolled = self.auxiliary(data), Enrolled.of(_PARTIES)
        procedure = self.ensemble.procedure(auxiliary, enrolled)
        return procedure.integers(
            self.ensemble.gathered(self.sent(data), auxiliary, enrolled).total
        )

    def sent(self, data: DataSet) -> VoteTally | list[PartyContribution]:
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


class _PrivateRows(_Ensemble):
    """Auxiliary rows that are private as well: a neighbour differs in one party and in one row.

    A data set is ((how the first party votes, the first row), how the second votes, second row).
    """

    @property
    def rows(self) -> tuple[tuple[float, float], ...]:
        """Two rows; which ones does not matter to the noise."""
        return _SQUARE[:2]

    def auxiliary(self, data: DataSet) -> AuxiliaryRows:
        return _auxiliary((data[0][1], data[2]))

    def votes(self, data: DataSet) -> tuple[Any, ...]:
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
    def exact(self, data: DataSet) -> np.ndarray:
        """Return what noise is added to: sums of parties, or of parties that clip nothing."""
        sums = self._sums(1 if self.clipped else _COPIES**2)
        return np.asarray(sum(sums.of(*self._records(own)) for own in data))

    def sent(self, data: DataSet) -> list[PartyContribution]:
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


_COPIES = 3  # records of a party that declares one
_UNCLIPPED = Flaw(
    "clip forgotten", "a party's sum is as long as its records make it", clipped=False
)
_HALF = Flaw(*HALF_SCALE, spoil=half)
_THIRD = Flaw("a third of the noise", "the scale is a third of what it must be", spoil=part(1 / 3))
_GAUSSIAN = {"epsilon": 4.0, "delta": 0.01, "lam": _LAM}
_PURE = {"epsilon": 1.0, "lam": _LAM}
_THREE = {"classes": (0, 1, 2)}
_ROWS = {"private_auxiliary": True}
# A name, which begins with the method; how it is set up; outputs; the flaw of its broken copy.
_CASES: tuple[tuple[str, dict[str, Any], int, Flaw], ...] = (
    ("operator, gaussian", _GAUSSIAN, SOME,
     Flaw("norm for diameter", "two votes are said to be one vote apart, not two", spoil=half)),
    ("operator, gaussian, 3 classes", {**_GAUSSIAN, **_THREE, "noise_shape": "even"}, SOME // 2,
     Flaw("factor 1 for sqrt 2", "two votes are said to be one apart, not sqrt 2",
          spoil=part(0.5**0.5))),
    ("operator, knorm", _PURE, 5 * FEW // 4, _HALF),
    ("class-sums, gaussian", {**_GAUSSIAN, "samples": 1}, SOME, _UNCLIPPED),
    ("class-sums, gaussian, 3 classes", {**_GAUSSIAN, **_THREE, "samples": 1}, SOME // 2,
     _UNCLIPPED),
    ("class-sums, knorm", {**_PURE, "samples": 1}, 5 * FEW // 4, _UNCLIPPED),
    ("vote-table, gaussian", _GAUSSIAN, SOME // 2,
     Flaw("sqrt(N) for sqrt(2 N)", "a changed vote is said to move one count",
          spoil=part(0.5**0.5))),
    ("vote-table, knorm", {**_PURE, "epsilon": 2.0}, FEW // 2, _THIRD),
    ("soft, gaussian", _GAUSSIAN, SOME, _HALF),
    ("soft, knorm", _PURE, 5 * FEW // 4, _HALF),
    ("soft, gaussian, 3 classes", {**_GAUSSIAN, **_THREE}, SOME // 2, _HALF),
    ("soft, private rows", {**_GAUSSIAN, **_ROWS}, SOME,
     Flaw("rows held public", "only a party is said to change, and no row", spoil=part(2 / 5))),
    ("majority-model, gaussian", _GAUSSIAN, SOME,
     Flaw("averaged over parties", "a majority is said to move by 1/M of what it does",
          spoil=half)),
    ("majority-model, knorm", _PURE, 3 * FEW // 4, _THIRD),
    ("majority-model, private rows", {**_GAUSSIAN, **_ROWS}, SOME, _HALF),
    ("average, gaussian", _GAUSSIAN, SOME,
     Flaw("radius for diameter", "parameters are said to be one radius apart, not two",
          spoil=half)),
    ("average, knorm", _PURE, 3 * FEW // 4, _HALF),
)  # fmt: skip


def _ensemble(name: str, options: dict[str, Any]) -> _Ensemble:
    ensemble = PrivateEnsemble(method=name.partition(",")[0], **options)
    if ensemble.method == "class-sums":
        return _Summed(ensemble)
    return (_PrivateRows if ensemble.private_auxiliary else _Ensemble)(ensemble)


def at(epsilon: float) -> Iterator[Case]:
    """Yield the mechanisms of this family at another epsilon; Gaussian noise at delta = .01."""
    for name, options, samples, _ in _CASES:
        if name in ("operator, gaussian", "operator, knorm", "vote-table, gaussian"):
            ensemble = _ensemble(name, {**options, "epsilon": epsilon})
            yield ensemble.case(f"parties, {name}", samples)


def cases() -> Iterator[Case]:
    """Yield what the sum of contributions shows, and then what parties' own records show."""
    for name, options, samples, flaw in _CASES:
        yield from _ensemble(name, options).cases(f"parties, {name}", samples, flaw)
    for method in ("operator", "class-sums", "vote-table", "soft", "majority-model", "average"):
        declared = {"samples": 1} if method == "class-sums" else {}
        stated = _ensemble(method, {**_GAUSSIAN, "epsilon": 8.0, **declared})
        case = replace(
            stated.case(f"parties, {method}, whole releases", FEW // 4),
            sample=_through(stated, stated.ensemble),
            score=None,
        )
        yield case
        yield case.broken_copy(
            "epsilon tripled",
            "the noise of three times the epsilon that is stated",
            sample=_through(stated, replace(stated.ensemble, epsilon=24.0)),
        )
    yield from _record_cases()


def _through(stated: _Ensemble, ensemble: PrivateEnsemble) -> Callable[[Any, int], np.ndarray]:
    """Return how whole releases come about, all that they show and all of their code included."""

    def sample(data: DataSet, times: int) -> np.ndarray:
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


@dataclass(frozen=True)
class _Trained(NoisyStatistic):
    """An aggregation of few parties from one table of their records.

    A data set names the records of every party. ``training_records`` maps a data set to the
    records that each party trains on.
    """

    ensemble: PrivateEnsemble
    training_records: Callable[[DataSet], dict[str, Records]] = _own
    clipped: bool = True  # else parameters at a smaller penalty than stated, however long they are
    seeded: bool = False  # whether the noise has a seed that follows from the records

    @property
    def kind(self) -> str:
        return _KINDS.get(self.ensemble.method, "model")

    def source(self, data: DataSet) -> PartySource:
        """Return the table of all records."""
        by_party = self.training_records(data)
        parts = [_columns(records) for records in by_party.values()]
        table = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        owners = np.repeat(list(by_party), [len(records) for records in by_party.values()])
        return PartySource(
            pa.table({**table, "party": pa.array(owners.tolist(), pa.string())}),
            label="label", party="party", auxiliary=_square(), enrolled=_NAMES,
        )  # fmt: skip

    @cache  # noqa: B019  # frozen, few, and as long-lived as the process
    def procedure(self, data: DataSet) -> PartyProcedure:
        """Return the procedure of a release, calibrated before anything private is seen."""
        return self.ensemble.choose(self.ensemble.public(self.source(data)))

    def noise(self, data: DataSet) -> Noise:
        return self.procedure(data).noise

    def stated(self) -> dict[str, Any]:
        return claim(self.noise(tuple(list(_RECORDS)[:2])).event, self.ensemble.delta)

    @cache  # noqa: B019
    def exact(self, data: DataSet) -> np.ndarray:
        """Return what noise is added to, after training and summing."""
        if self.clipped:
            procedure = self.procedure(data)
            make = partial(procedure.accumulator, identified=False)
            exact = self.source(data).fold(procedure.public.parts(), make)
            return procedure.integers(exact.result().total)
        source, auxiliary, classes = self.source(data), _square(), (0, 1)
        table = PartyTable.read(
            source.data, auxiliary, label="label", classes=classes, party="party",
            enrolled=source.parties,
        )  # fmt: skip
        step = lattice_step(parameter_radius(auxiliary, len(classes), self.ensemble.lam))
        total = table.parameters(self.ensemble.lam / 10).sum(axis=0, keepdims=True)
        return np.asarray(np.rint(total / step), dtype=np.int64)

    def space(self) -> Space:
        return Space((tuple(_RECORDS),) * len(_NAMES), unit="kind of party")

    @cache  # noqa: B019
    def _noisy_sum(self, data: DataSet) -> np.ndarray:
        return super().sample(data, 1)

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        if self.seeded:
            return np.tile(self._noisy_sum(data), (times, 1))
        return super().sample(data, times)


@dataclass(frozen=True)
class _Sent(_Trained):
    """An aggregation of contributions that parties compute at home and send as bytes."""

    logs = None  # type: ignore[assignment]  # unknown
    shown: Callable[[Release, DataSet], Release] = lambda release, _: release

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

    def stated(self) -> dict[str, Any]:
        auxiliary = self.contributions(("mixed records", "one class"))[1]
        (guarantee,) = self.ensemble.guarantees(auxiliary, enrolled=_NAMES)
        return claim(guarantee.event, self.ensemble.delta)

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        """Return all that releases of these contributions show."""
        sent, auxiliary = self.contributions(data)
        releases = (
            self.ensemble.aggregate(sent, auxiliary, enrolled=_NAMES, ledger=None).release
            for _ in range(times)
        )
        return outputs_of([self.shown(release, data) for release in releases])

    def space(self) -> Space:
        """Return all but parties without records, which send nothing: others may see that."""
        filled = tuple(name for name in _RECORDS if name != "no records")
        return Space((filled,) * len(_NAMES), unit="kind of party")


def _records_counted(release: Release, data: DataSet) -> Release:
    count = sum(len(records) for records in _own(data).values())
    variance = release.noise.variance * (1 + 1e-9 * count)
    return replace(release, noise=replace(release.noise, variance=variance))


def _record_cases() -> Iterator[Case]:
    coupled = Flaw(
        "training coupled", "every party trains on the records of all", training_records=_coupled
    )
    seeded = Flaw(
        "seed from the records", "equal records get equal noise, again and again", seeded=True
    )
    unclipped = Flaw(
        "not held to the ball", "parameters are summed as long as they are", clipped=False
    )
    # A majority moves as far by one party as by all: training that is coupled is no flaw there.
    flaws = {
        "operator": (coupled,),
        "vote-table": (coupled, seeded),
        "soft": (coupled,),
        "majority-model": (seeded,),
        "average": (unclipped,),
    }
    for method, of_method in flaws.items():
        ensemble = PrivateEnsemble(4.0, delta=0.01, method=method, lam=_LAM)
        yield from _Trained(ensemble).cases(f"parties' records, {method}", SOME // 2, *of_method)
    counted = Flaw(
        "records counted",
        "a public number shows how many records there are",
        shown=_records_counted,
    )
    sent = _Sent(PrivateEnsemble(4.0, delta=0.01, method="operator", lam=_LAM))
    yield from sent.cases("parties' records, contributions sent", FEW // 8, coupled, counted)
