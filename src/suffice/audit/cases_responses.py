"""Randomised records: an owner's, cell by cell, and the answers of participants themselves."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.audit.case import CHEAP, SOME, Case
from suffice.audit.scores import Score, log_density
from suffice.audit.search import Pair, Space, neighbouring_pairs
from suffice.owner.responses import Lattice, RandomizedResponse, channel_of, response_of
from suffice.participant import Choice, Number, Randomizer
from suffice.privacy.events import Gaussian
from suffice.privacy.guarantee import Unit
from suffice.privacy.noise import Noise
from suffice.release.columns import Added, Flips

__all__ = ["cases"]

_KIND = "responses"
_INSIDE = (0.37, 0.81)  # of a range of 0 to 1, besides its ends


@dataclass(frozen=True)
class _Records:
    """Records of a label, a state of three and a number, randomised by one whole release.

    A record's cells are randomised on their own, so that a table of n equal records is n outputs.
    """

    mechanism: RandomizedResponse
    unit: Unit
    changing: tuple[int, ...] = ()
    stretch: float = 1.0  # of the numbers: beyond 1 a record lies outside its declared range

    def sample(self, record: tuple[Any, ...], times: int) -> np.ndarray:
        """Return answers, codes and values, one record a row."""
        label, state, number = record if self.changing else record[0]
        table = pa.table(
            {"state": np.full(times, state), "number": np.full(times, self.stretch * number)}
        )
        release = self.mechanism.release(table, np.full(times, label), ledger=None)
        parts = (release.arrays["answers"][:, None], release.arrays["codes"])
        return np.hstack([*parts, release.arrays["values"]]).astype(np.float64)

    def pairs(self, rng: np.random.Generator) -> list[Pair]:
        """Return the records, or the cells of one, that are easiest to tell apart."""
        numbers = (0.0, 1.0, *_INSIDE)
        cells: tuple[Sequence[Any], ...] = ((0, 1), (0, 1, 2), numbers)
        if self.changing:
            space = Space(cells, self.changing, "cell")
        else:
            records = [(c, s, v) for c in cells[0] for s in cells[1] for v in numbers]
            space = Space((records,), unit="record")
        return neighbouring_pairs(space, self._distance, rng)

    def _distance(self, first: tuple[Any, ...], second: tuple[Any, ...]) -> float:
        """Return the largest loss of states, and how far the numbers are apart, in deviations."""
        (a, s, u), (b, t, v) = (r if self.changing else r[0] for r in (first, second))
        label, state, noise = self._channels()
        losses = (label[:, a] - label[:, b]).max() + (state[:, s] - state[:, t]).max()
        return float(losses + abs(u - v) / noise[0].scale / noise[1])

    def _channels(self) -> tuple[np.ndarray, np.ndarray, tuple[Noise, float]]:
        """Return the logarithms of both channels, and the noise of a number with its step."""
        first, second = self.mechanism.columns(["state", "number"])
        assert isinstance(first.noise, Flips)  # noqa: S101  # for the type checker
        lattice = channel_of(second.noise)
        assert isinstance(lattice, Lattice)  # noqa: S101
        flips = Flips(2, keep=1 - self.mechanism.label_flip)
        label = np.log(response_of(flips).matrix)
        return label, np.log(response_of(first.noise).matrix), (lattice.noise, lattice.step)

    def score(self, pair: Pair) -> Score:
        """Return the exact loss of a record."""
        label, state, (noise, step) = self._channels()

        def log_of(outputs: np.ndarray, record: tuple[Any, ...]) -> np.ndarray:
            a, s, u = record if self.changing else record[0]
            answers, codes = outputs[:, 0].astype(int), outputs[:, 1].astype(int)
            far = (outputs[:, 2:] - self.stretch * u) / step
            return np.asarray(label[answers, a] + state[codes, s] + log_density(noise, far))

        return lambda outputs: log_of(outputs, pair.first) - log_of(outputs, pair.second)

    def case(self, name: str, samples: int) -> Case:
        """Return the case of the guarantee about the unit."""
        guarantee = next(
            g for g in self.mechanism.guarantees(["state", "number"]) if g.unit is self.unit
        )
        assert guarantee.epsilon is not None  # noqa: S101
        event = guarantee.event
        return Case(
            name,
            _KIND,
            claimed=guarantee.epsilon,
            delta=guarantee.delta,
            mu=1 / event.multiplier if isinstance(event, Gaussian) else None,
            pairs=self.pairs,
            sample=self.sample,
            score=self.score,
            samples=samples,
        )

    def broken_copy(self, case: Case, name: str, what: str, **changed: Any) -> Case:
        """Return the case of the same stated guarantee with changed noise."""
        own = {key: changed.pop(key) for key in ("stretch",) if key in changed}
        broken = replace(self, mechanism=replace(self.mechanism, **changed), **own)
        return case.broken_copy(
            name, what, pairs=broken.pairs, sample=broken.sample, score=broken.score
        )


def cases() -> Iterator[Case]:
    """Yield the cases of this family."""
    owner = RandomizedResponse(
        label_flip=0.3, states={"state": (0, 1, 2)}, ranges={"number": (0.0, 1.0)},
        feature_flip=0.5, feature_noise=2.0, kernel="laplace",
    )  # fmt: skip
    yield from _labels(owner)
    yield from _attributes(owner)
    yield from _whole_records(owner)
    yield from _gaussian_numbers(owner)
    yield from _participant_choices()
    yield from _participant_numbers()


def _labels(laplace: RandomizedResponse) -> Iterator[Case]:
    label = _Records(laplace, Unit.LABEL, (0,))
    case = label.case("responses, a label", CHEAP)
    yield case
    case = replace(case, samples=SOME)
    yield label.broken_copy(
        case, "too few flips", "half as many labels are flipped", label_flip=0.15
    )


def _attributes(laplace: RandomizedResponse) -> Iterator[Case]:
    attribute = _Records(laplace, Unit.ATTRIBUTE, (1, 2))
    case = attribute.case("responses, an attribute, laplace", CHEAP)
    yield case
    case = replace(case, samples=SOME)
    yield attribute.broken_copy(
        case, "half the noise", "a quarter of the variance", feature_noise=0.5
    )
    yield attribute.broken_copy(
        case,
        "too few flips of values",
        "states are flipped half as often as stated",
        feature_flip=0.25,
    )
    far = replace(attribute, stretch=2.0, mechanism=replace(laplace, ranges={"number": (0.0, 2.0)}))
    yield case.broken_copy(
        "not held to the range",
        "numbers outside the declared range are not clipped, with the noise of the range",
        sample=far.sample,
        score=far.score,
    )


def _whole_records(laplace: RandomizedResponse) -> Iterator[Case]:
    record = _Records(laplace, Unit.RECORD)
    case = record.case("responses, a record", CHEAP)
    yield case
    dearest = _Records(laplace, Unit.ATTRIBUTE, (1, 2)).case("", SOME).claimed
    yield replace(
        case.broken_copy(
            "dearest cell only", "a record is said to cost what its most expensive cell costs"
        ),
        claimed=dearest,
        samples=SOME,
    )


def _gaussian_numbers(laplace: RandomizedResponse) -> Iterator[Case]:
    gaussian = replace(laplace, feature_flip=0.6, feature_noise=0.5, kernel="gaussian", delta=0.01)
    number = _Records(gaussian, Unit.ATTRIBUTE, (2,))
    event = channel_of(Added(0.0, 1.0, "gaussian", 0.5)).event
    assert isinstance(event, Gaussian)  # noqa: S101  # for the type checker
    case = replace(
        number.case("responses, a number, gaussian", SOME),
        claimed=event.epsilon(0.01),
        delta=0.01,
        mu=1 / event.multiplier,
    )
    yield case
    yield number.broken_copy(
        case,
        "half the range",
        "the sensitivity is the distance to the middle of the range",
        feature_noise=0.5 / 4,
    )


def _participant_choices() -> Iterator[Case]:
    states = ("never", "once", "often")
    choice = Choice(states, 0.6)
    codes: dict[Hashable, int] = {state: code for code, state in enumerate(states)}

    def answer(question: Choice, times: int = 1) -> Callable[[Any, int], np.ndarray]:
        """Return what draws answers, each question asked ``times`` times."""

        def sample(truth: tuple[str], count: int) -> np.ndarray:
            code = question.locate(truth[0])
            answers = [codes[question.draw(code)] for _ in range(count * times)]
            return np.array(answers).reshape(count, times)

        return sample

    space = Space((states,), unit="answer")
    case = Case(
        "participant, a choice",
        _KIND,
        claimed=Randomizer(choice).epsilon,
        delta=0.0,
        pairs=lambda rng: neighbouring_pairs(space, lambda a, b: float(a != b), rng),
        sample=answer(choice),
        score=None,
    )
    yield case
    case = replace(case, samples=SOME)
    yield case.broken_copy(
        "too few flips", "the truth is sent too often", sample=answer(Choice(states, 0.8))
    )
    yield case.broken_copy(
        "memory lost",
        "the same question gets a new random answer, three times",
        sample=answer(choice, 3),
    )


def _participant_numbers() -> Iterator[Case]:
    for kernel, variance, delta in (("laplace", 2.0, 0.0), ("gaussian", 0.5, 0.01)):
        number = Number(0.0, 1.0, kernel, variance)
        case = _number_case(number, delta)
        yield case
        thin = Number(0.0, 1.0, kernel, variance / 4)
        yield case.broken_copy(
            "half the noise",
            "a quarter of the variance",
            sample=_number_sample(thin),
            score=_number_score(thin),
            samples=SOME // 2,
        )


def _number_case(number: Number, delta: float) -> Case:
    randomizer = Randomizer(number, delta=delta or 1e-6)
    return Case(
        f"participant, a number, {number.kernel}",
        _KIND,
        claimed=randomizer.epsilon,
        delta=randomizer.delta,
        pairs=lambda rng: neighbouring_pairs(
            Space(((0.0, 1.0, *_INSIDE, -3.0, 5.0),), unit="number"),
            lambda a, b: abs(number.locate(a[0]) - number.locate(b[0])),
            rng,
        ),
        sample=_number_sample(number),
        score=_number_score(number),
        samples=SOME if delta else CHEAP // 2,
        mu=number.precision**0.5 if delta else None,
    )


def _number_sample(number: Number) -> Callable[[Any, int], np.ndarray]:
    def sample(truth: tuple[float], count: int) -> np.ndarray:
        position = number.locate(truth[0])
        return np.array([[number.draw(position)] for _ in range(count)])

    return sample


def _number_score(number: Number) -> Callable[[Pair], Score]:
    def score(pair: Pair) -> Score:
        first, second = (number.locate(data[0]) * number.step for data in (pair.first, pair.second))
        spread = float(number.scale) * number.step

        def loss(outputs: np.ndarray) -> np.ndarray:
            near, far = outputs[:, 0] - first, outputs[:, 0] - second
            if number.kernel == "laplace":
                return np.asarray((np.abs(far) - np.abs(near)) / spread)
            return np.asarray((far**2 - near**2) / (2 * spread**2))

        return loss

    return score
