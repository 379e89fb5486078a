"""Parties from their records on: local training, contributions and the sum, and then the noise.

A neighbour has other records of one party: one of them changed, all, or none left.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from suffice.audit.case import FEW, SOME, Case, claim, repeated
from suffice.audit.scores import Score, shift_score
from suffice.audit.search import DataSet, Pair, Space, neighbouring_pairs
from suffice.audit.shown import outputs_of
from suffice.owner.parties.contribution import AuxiliaryRows, parameter_radius, parameter_step
from suffice.owner.parties.ensemble import PrivateEnsemble
from suffice.owner.parties.gathering import PartySource, PartyTable
from suffice.owner.parties.procedures import PartyProcedure
from suffice.protocol.flower import answer
from suffice.release.release import Release

__all__ = ["cases"]

Record = tuple[float, float, int]  # two numbers and a label
Records = tuple[Record, ...]

_NAMES = ("a", "b")
_CLASSES = (0, 1)
_LAM = 20.0  # far above the curvature of the loss: then a bound by strong convexity is nearly met
_SQUARE = ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))
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
def _auxiliary() -> AuxiliaryRows:
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
            label="label", party="party", auxiliary=_auxiliary(), enrolled=_NAMES,
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
        source, auxiliary = self.source(data), _auxiliary()
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
_UNCLIPPED: _Flaws = {
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
    "average": _UNCLIPPED,
}


def cases() -> Iterator[Case]:
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
