"""Randomised records: an owner's, cell by cell, and the answers of participants themselves."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.audit.case import CHEAP, SOME, Case, Flaw, Subject, claim
from suffice.audit.scores import log_density
from suffice.audit.search import DataSet, Space
from suffice.owner.responses import Lattice, RandomizedResponse, channel_of, response_of
from suffice.participant import Choice, Number, Randomizer, Report
from suffice.privacy.guarantee import Unit
from suffice.privacy.noise import Noise
from suffice.releases.columns import Added, Flips

_INSIDE = (0.37, 0.81)  # of a range of 0 to 1, besides its ends


@dataclass(frozen=True)
class _Records(Subject):
    """Records of a label, a state of three and a number, randomised by one whole release.

    A record's cells are randomised on their own, so that a table of n equal records is n outputs.
    """

    kind = "responses"
    mechanism: RandomizedResponse
    unit: Unit
    changing: tuple[int, ...] = ()  # cells that may differ; empty for the whole record, one unit
    stretch: float = 1.0  # of the numbers: beyond 1 a record lies outside its declared range

    def record(self, data: DataSet) -> tuple[int, int, float]:
        label, state, number = data if self.changing else data[0]
        return label, state, number

    def stated(self) -> dict[str, Any]:
        guarantees = self.mechanism.guarantees(["state", "number"])
        guarantee = next(g for g in guarantees if g.unit is self.unit)
        return claim(guarantee.event, guarantee.delta)

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        """Return answers, codes and values, one record a row."""
        label, state, number = self.record(data)
        table = pa.table(
            {"state": np.full(times, state), "number": np.full(times, self.stretch * number)}
        )
        release = self.mechanism.release(table, np.full(times, label), ledger=None)
        parts = (release.arrays["answers"][:, None], release.arrays["codes"])
        return np.hstack([*parts, release.arrays["values"]]).astype(np.float64)

    def space(self) -> Space:
        cells: tuple[Sequence[Any], ...] = ((0, 1), (0, 1, 2), (0.0, 1.0, *_INSIDE))
        if self.changing:
            return Space(cells, self.changing, "cell")
        return Space((list(product(*cells)),), unit="record")

    def distance(self, first: DataSet, second: DataSet) -> float:
        """Return the largest loss of states, and how far numbers are apart, in deviations."""
        label, state, (noise, step) = self._channels
        (a, s, u), (b, t, v) = self.record(first), self.record(second)
        losses = (label[:, a] - label[:, b]).max() + (state[:, s] - state[:, t]).max()
        return float(losses + abs(u - v) / noise.scale / step)

    @cached_property
    def _channels(self) -> tuple[np.ndarray, np.ndarray, tuple[Noise, float]]:
        """Return the logarithms of both channels, and the noise of a number with its step."""
        first, second = self.mechanism.columns(["state", "number"])
        assert isinstance(first.noise, Flips)  # noqa: S101  # for the type checker
        lattice = channel_of(second.noise)
        assert isinstance(lattice, Lattice)  # noqa: S101
        flips = Flips(2, keep=1 - self.mechanism.label_flip)
        label = np.log(response_of(flips).matrix)
        return label, np.log(response_of(first.noise).matrix), (lattice.noise, lattice.step)

    def logs(self, outputs: np.ndarray, data: DataSet) -> np.ndarray:
        label, state, (noise, step) = self._channels
        a, s, u = self.record(data)
        answers, codes = outputs[:, 0].astype(int), outputs[:, 1].astype(int)
        far = (outputs[:, 2:] - self.stretch * u) / step
        return np.asarray(label[answers, a] + state[codes, s] + log_density(noise, far))


def cases() -> Iterator[Case]:
    """Yield the cases of this family."""
    laplace = RandomizedResponse(
        label_flip=0.3, states={"state": (0, 1, 2)}, ranges={"number": (0.0, 1.0)},
        feature_flip=0.5, feature_noise=2.0, kernel="laplace",
    )  # fmt: skip
    yield from _Records(laplace, Unit.LABEL, (0,)).cases(
        "responses, a label", CHEAP,
        Flaw("too few flips", "half as many labels are flipped", SOME,
             mechanism=replace(laplace, label_flip=0.15)),
    )  # fmt: skip
    attribute = _Records(laplace, Unit.ATTRIBUTE, (1, 2))
    yield from attribute.cases(
        "responses, an attribute, laplace", CHEAP,
        Flaw("half the noise", "a quarter of the variance", SOME,
             mechanism=replace(laplace, feature_noise=0.5)),
        Flaw("too few flips of values", "states are flipped half as often as stated", SOME,
             mechanism=replace(laplace, feature_flip=0.25)),
        Flaw("not held to the range",
             "numbers outside the declared range are not clipped, with the noise of the range",
             SOME, stretch=2.0, mechanism=replace(laplace, ranges={"number": (0.0, 2.0)})),
    )  # fmt: skip
    record = _Records(laplace, Unit.RECORD).case("responses, a record", CHEAP)
    yield record
    yield record.broken_copy(
        "dearest cell only", "a record is said to cost what its most expensive cell costs",
        claimed=attribute.stated()["claimed"], samples=SOME,
    )  # fmt: skip
    gaussian = replace(laplace, feature_flip=0.6, feature_noise=0.5, kernel="gaussian", delta=0.01)
    number = _Records(gaussian, Unit.ATTRIBUTE, (2,))
    event = channel_of(Added(0.0, 1.0, "gaussian", 0.5)).event  # of the number alone
    for case in number.cases(
        "responses, a number, gaussian", SOME,
        Flaw("half the range", "the sensitivity is the distance to the middle of the range",
             mechanism=replace(gaussian, feature_noise=0.5 / 4)),
    ):  # fmt: skip
        yield replace(case, **claim(event, 0.01))
    states = ("never", "once", "often")
    yield from _ParticipantChoice(Choice(states, 0.6)).cases(
        "participant, a choice", CHEAP,
        Flaw("too few flips", "the truth is sent too often", SOME, question=Choice(states, 0.8)),
        Flaw("memory lost", "the same question gets a new random answer, three times", SOME,
             answers=3),
    )  # fmt: skip
    report = Report([2, 3], 2, 0.6)
    yield from _ParticipantReport(report).cases(
        "participant, a report", SOME,
        Flaw("truth too often", "the true combination is sent too often",
             report=Report([2, 3], 2, 0.75)),
        Flaw("memory lost", "a second report is drawn for the same answers", answers=2),
    )  # fmt: skip
    for kernel, variance, delta in (("laplace", 2.0, 0.0), ("gaussian", 0.5, 0.01)):
        thin = Number(0.0, 1.0, kernel, variance / 4)
        yield from _ParticipantNumber(Number(0.0, 1.0, kernel, variance), delta).cases(
            f"participant, a number, {kernel}", SOME if delta else CHEAP // 2,
            Flaw("half the noise", "a quarter of the variance", SOME // 2, number=thin),
        )  # fmt: skip


@dataclass(frozen=True)
class _ParticipantChoice(Subject):
    """A participant's answers to one question, which is asked so many times."""

    kind = "responses"
    question: Choice
    answers: int = 1

    def stated(self) -> dict[str, Any]:
        return {"claimed": Randomizer(self.question).epsilon, "delta": 0.0}

    def space(self) -> Space:
        return Space((self.question.states,), unit="answer")

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        states, code = self.question.states, self.question.locate(data[0])
        drawn = [states.index(self.question.draw(code)) for _ in range(times * self.answers)]
        return np.array(drawn).reshape(times, self.answers)


@dataclass(frozen=True)
class _ParticipantReport(Subject):
    """A participant's reports of all answers together."""

    kind = "reports"
    report: Report
    answers: int = 1

    def stated(self) -> dict[str, Any]:
        return {"claimed": self.report.pure, "delta": 0.0}

    def space(self) -> Space:
        return Space(tuple(range(states) for states in self.report.states), unit="record")

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        drawn = [self.report.draw(data) for _ in range(times * self.answers)]
        return np.array(drawn).reshape(times, -1)

    def logs(self, outputs: np.ndarray, data: DataSet) -> np.ndarray:
        report, number = self.report, self.report.locate(data)
        kept = report.keep / math.comb(report.count - 1, report.size - 1)
        left = (1 - report.keep) / math.comb(report.count - 1, report.size)
        sheets = outputs.reshape(len(outputs), -1, report.size)
        holds = (sheets == number).any(axis=2)
        return np.asarray(np.where(holds, math.log(kept), math.log(left)).sum(axis=1))


@dataclass(frozen=True)
class _ParticipantNumber(Subject):
    """A participant's answer to a question for a number."""

    kind = "responses"
    number: Number
    delta: float

    def stated(self) -> dict[str, Any]:
        randomizer = Randomizer(self.number, delta=self.delta or 1e-6)
        mu = self.number.precision**0.5 if self.delta else None
        return {"claimed": randomizer.epsilon, "delta": randomizer.delta, "mu": mu}

    def space(self) -> Space:
        return Space(((0.0, 1.0, *_INSIDE, -3.0, 5.0),), unit="number")

    def distance(self, first: DataSet, second: DataSet) -> float:
        return abs(self.number.locate(first[0]) - self.number.locate(second[0]))

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        position = self.number.locate(data[0])
        return np.array([[self.number.draw(position)] for _ in range(times)])

    def logs(self, outputs: np.ndarray, data: DataSet) -> np.ndarray:
        number = self.number
        far = np.abs(outputs[:, 0] / number.step - number.locate(data[0])) / float(number.scale)
        return np.asarray(-far if number.kernel == "laplace" else -(far**2) / 2)
