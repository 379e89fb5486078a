"""The mean operator of private labels and public rows: noise on sums, and randomised labels."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from suffice.audit.case import CHEAP, FEW, SOME, Case, as_it_is, claim, half, repeated
from suffice.audit.scores import Score, shift_score
from suffice.audit.search import Pair, Space, worst_pairs
from suffice.engines.engine import fold
from suffice.owner.operator.exact import ExactSums
from suffice.owner.operator.mechanism import MeanOperator
from suffice.owner.operator.shaping import Shape, whitening
from suffice.owner.source import Source, labelled_batches
from suffice.privacy.noise import LaplaceNoise, Noise, calibrated_noise
from suffice.privacy.response import Response

__all__ = ["at", "cases"]

_KIND = "mean-operator"
# Public rows: along an axis, where the 1-norm equals the 2-norm, and along the diagonal.
_ROWS = np.array([[1.5, 0.0], [-1.5, 0.0], [1.0, 1.0], [-1.0, -1.0], [0.2, -0.3]])
# The longest along an axis: the fewer numbers a change moves, the likelier the worst event is.
_AXIS = np.array([[2.5, 0.0], [-2.5, 0.0], [0.0, 0.3], [0.0, -0.3], [0.2, 0.0]])


@dataclass(frozen=True)
class _Operator:
    """A mean operator of few public rows: the sums of a release, the noise of a release."""

    mechanism: MeanOperator
    rows: bytes
    width: int
    shaped: bool = False
    spoil: Callable[[Noise], Noise] = as_it_is

    @classmethod
    def of(cls, rows: np.ndarray, *, shaped: bool = False, **options: Any) -> "_Operator":
        mechanism = MeanOperator(intercept=0.0, clip=1.0, **options)
        return cls(mechanism, rows.tobytes(), rows.shape[1], shaped)

    @property
    def X(self) -> np.ndarray:  # noqa: N802
        return np.frombuffer(self.rows).reshape(-1, self.width)

    @lru_cache  # noqa: B019  # frozen, few, and as long-lived as the process
    def exact(self, labels: tuple[int, ...]) -> ExactSums:
        """Return the exact sums under these labels."""
        public, classes = self.mechanism.public_rows(self.X), tuple(self.mechanism.classes)
        shape = None
        if self.shaped:
            rows, _ = public.sample()
            values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
            shape = Shape.of(whitening(values, vectors, 0.1, 0.25))
        sums = ExactSums(public, classes, shape)
        source = Source(None, np.array(labels))
        return fold(labelled_batches(public.table, public.roles, classes, source), sums)

    @property
    def noise(self) -> Noise:
        """The noise of a release, calibrated on the public rows."""
        reach, asked = self.exact((0,) * len(self.X)).sensitivity, self.mechanism
        return calibrated_noise(asked.mechanism, reach, asked.epsilon, asked.delta)

    def distance(self, one: tuple[int, ...], two: tuple[int, ...]) -> float:
        """Return how far apart the two statistics are, in the norm of the noise."""
        moved = (self.exact(one).result() - self.exact(two).result()).ravel()
        return float(np.linalg.norm(moved, 1 if isinstance(self.noise, LaplaceNoise) else 2))

    def pairs(self, rng: np.random.Generator) -> list[Pair]:
        """Return the labels that move the statistic most."""
        choices = tuple(range(len(self.mechanism.classes)))
        return worst_pairs(Space((choices,) * len(self.X)), self.distance, rng)

    def sample(self, labels: tuple[int, ...], times: int) -> np.ndarray:
        """Return noisy sums."""
        return repeated(self.spoil(self.noise), self.exact(labels).result(), times)

    def score(self, pair: Pair) -> Score:
        """Return the exact loss."""
        sums = [self.exact(labels).result() for labels in (pair.one, pair.two)]
        return shift_score(self.spoil(self.noise), *sums)

    def case(self, name: str, samples: int) -> Case:
        """Return the case of the mechanism as it is."""
        stated = claim(self.noise.event, self.mechanism.delta)
        return Case(
            name, _KIND, pairs=self.pairs, sample=self.sample, score=self.score, samples=samples,
            **stated,
        )  # fmt: skip

    def twin(self, case: Case, name: str, what: str, spoil: Callable[[Noise], Noise]) -> Case:
        """Return the case with spoilt noise."""
        broken = replace(self, spoil=spoil)
        return case.twin(name, what, sample=broken.sample, score=broken.score)


def cases() -> Iterator[Case]:
    """Yield the cases of this family."""
    yield from _laplace_sums()
    yield from _gaussian_sums()
    yield from _knorm_sums()
    yield from _whole_releases()
    yield from _seed_and_float()
    yield from _randomised_labels()


def at(epsilon: float) -> Iterator[Case]:
    """Yield the mechanisms of this family at another epsilon; Gaussian noise at delta = .01."""
    for mechanism, delta, samples in (
        ("laplace", 0.0, CHEAP),
        ("gaussian", 0.01, SOME),
        ("knorm", 0.0, FEW),
    ):
        operator = _Operator.of(_ROWS, epsilon=epsilon, delta=delta, mechanism=mechanism)
        yield operator.case(f"mean-operator {mechanism}", samples)
    yield _responses(2, epsilon)


def _laplace_sums() -> Iterator[Case]:
    laplace = _Operator.of(_ROWS, epsilon=1.0, mechanism="laplace")
    case = laplace.case("mean-operator laplace", CHEAP)
    yield case
    case = replace(case, samples=SOME)
    yield laplace.twin(case, "half the noise", "the scale is half of what it must be", half)
    yield laplace.twin(
        case,
        "2-norm for 1-norm",
        "Laplace noise of scale D2/epsilon (Patrini et al., Theorem 9, read with ||x||_2 <= 1)",
        lambda noise: replace(noise, scale=noise.sensitivity.l2 / laplace.mechanism.epsilon),
    )
    many = _Operator.of(_AXIS, epsilon=1.0, mechanism="laplace", classes=(0, 1, 2))
    case = many.case("mean-operator laplace, 3 classes", CHEAP // 2)
    yield case
    case = replace(case, samples=SOME // 2)
    yield many.twin(case, "one column only", "a changed label is said to move one column", half)


def _gaussian_sums() -> Iterator[Case]:
    gaussian = {"epsilon": 4.0, "delta": 0.01, "mechanism": "gaussian"}
    even = _Operator.of(_ROWS, **gaussian)
    case = even.case("mean-operator gaussian", SOME)
    yield case
    yield even.twin(case, "half the noise", "the scale is half of what it must be", half)
    whitened = _Operator.of(_ROWS, shaped=True, **gaussian)
    case = whitened.case("mean-operator gaussian, whitened", SOME)
    yield case
    yield whitened.twin(
        case, "norm for diameter", "a changed label is said to move the sum by x, not by 2 x", half
    )
    many = _Operator.of(_ROWS, classes=(0, 1, 2), **gaussian)
    case = many.case("mean-operator gaussian, 3 classes", SOME // 2)
    yield case
    yield many.twin(
        case,
        "factor 1 for sqrt 2",
        "the 2-norm of a change is taken to be that of one column",
        lambda noise: replace(noise, scale=noise.scale / math.sqrt(2)),
    )


def _knorm_sums() -> Iterator[Case]:
    knorm = _Operator.of(_ROWS, epsilon=1.0, mechanism="knorm")
    case = knorm.case("mean-operator knorm", FEW)
    yield case
    case = replace(case, samples=FEW // 2)
    yield knorm.twin(case, "half the noise", "the scale is half of what it must be", half)


def _whole_releases() -> Iterator[Case]:
    """Yield releases from end to end, as floats, about which the auditor is told nothing."""
    operator = _Operator.of(_ROWS, epsilon=2.0, mechanism="laplace")

    def through(mechanism: MeanOperator) -> Callable[[Any, int], np.ndarray]:
        def sample(labels: tuple[int, ...], times: int) -> np.ndarray:
            y = np.array(labels)
            releases = (mechanism.release(operator.X, y, ledger=None) for _ in range(times))
            return np.array([release.arrays["mean_operator"] for release in releases])

        return sample

    case = operator.case("mean-operator laplace, whole releases", FEW // 4)
    case = replace(case, sample=through(operator.mechanism), score=None)
    yield case
    yield case.twin(
        "epsilon fourfold",
        "the noise of four times the epsilon that is stated",
        sample=through(replace(operator.mechanism, epsilon=8.0)),
        samples=FEW // 8,
    )


def _seed_and_float() -> Iterator[Case]:
    """Yield twins whose scale is right and whose randomness is not."""
    operator = _Operator.of(_ROWS, epsilon=1.0, mechanism="laplace")
    case = operator.case("mean-operator laplace", SOME)
    others = (0,) * len(_ROWS)

    def reused(labels: tuple[int, ...], times: int) -> np.ndarray:
        drawn = repeated(operator.noise, np.zeros(2, dtype=np.int64), times)
        sums = [operator.exact(y).result().ravel() for y in (labels, others)]
        return np.hstack([drawn + sums[0], drawn + sums[1]])

    def difference(pair: Pair) -> Score:
        one, two = (operator.exact(y).result().ravel() for y in (pair.one, others))
        return lambda outputs: -np.abs(outputs[:, :2] - outputs[:, 2:] - (one - two)).sum(axis=1)

    yield case.twin(
        "seed reused",
        "a release about other labels had the same noise: their difference is exact",
        sample=reused,
        score=difference,
    )
    poll = _Operator.of(np.array([[1.0], [-1.0]]), epsilon=1.0, mechanism="laplace")
    rng = np.random.default_rng(0)

    def in_floats(labels: tuple[int, ...], times: int) -> np.ndarray:
        exact = poll.exact(labels).result().ravel() * poll.exact(labels).unit
        return np.asarray(exact + rng.laplace(size=(times, 1)) / poll.mechanism.epsilon)

    case = poll.case("mean-operator laplace", CHEAP)
    yield case.twin(
        "noise in floating point",
        "numpy's Laplace noise: which floats come out tells what it was added to (Mironov 2012)",
        sample=in_floats,
        score=lambda _: lambda outputs: outputs[:, 0],
    )


def _randomised_labels() -> Iterator[Case]:
    """Yield randomised labels: one release of many rows is as many outputs."""
    for classes in (2, 3):
        case = _responses(classes)
        yield case
        stronger = Response.from_epsilon(classes, 2 * case.claimed)
        yield case.twin(
            "too few flips",
            "labels are flipped as rarely as twice the epsilon allows",
            **_answers(stronger),
        )
    case = _responses(2)
    response = Response.from_epsilon(2, 1.0)

    def again(labels: tuple[int, ...], times: int) -> np.ndarray:
        codes = np.tile(np.array(labels, dtype=np.uint8), times)
        both = [response.randomise(codes).reshape(times, -1) for _ in range(2)]
        return np.hstack(both).astype(np.int64)

    yield case.twin(
        "answered twice",
        "every label is randomised afresh for a second release that is not paid for",
        sample=again,
        score=None,
    )
    uneven = np.array([[0.5, 0.2, 0.3], [0.25, 0.4, 0.3], [0.25, 0.4, 0.4]])
    within = max(float(np.log(column.max() / column.min())) for column in uneven.T)
    response = Response.from_matrix(uneven)
    yield replace(
        _responses(3).twin(
            "ratios within columns",
            "epsilon is the largest ratio within a column of P, not within a row",
            **_answers(response),
        ),
        claimed=within,
    )


def _responses(classes: int, epsilon: float = 1.0) -> Case:
    labels = tuple(range(classes))
    mechanism = MeanOperator(epsilon, mechanism="response", classes=labels, clip=1.0)

    def sample(labels: tuple[int, ...], times: int) -> np.ndarray:
        y = np.tile(np.array(labels), times)
        rows = np.arange(len(y), dtype=np.float64)[:, None] % 5
        return _whole(mechanism.release(rows, y, ledger=None).arrays["answers"], times)

    response = Response.from_epsilon(classes, epsilon)
    return Case(
        f"label-responses, {classes} classes",
        "label-responses",
        **{**_answers(response), "sample": sample},
        **claim(response.event, 0.0),
    )


def _whole(answers: np.ndarray, times: int) -> np.ndarray:
    return answers.reshape(times, -1).astype(np.int64)


def _answers(response: Response) -> dict[str, Any]:
    """Return how a response answers, on which labels, and its exact loss, as fields of a case."""
    logs = np.log(response.matrix)
    space = Space((tuple(range(response.states)),) * 2)  # two people, one of whom changes

    def distance(one: tuple[int, ...], two: tuple[int, ...]) -> float:
        return float((logs[:, list(one)] - logs[:, list(two)]).max(axis=0).sum())

    def pairs(rng: np.random.Generator) -> list[Pair]:
        return worst_pairs(space, distance, rng)

    def sample(labels: tuple[int, ...], times: int) -> np.ndarray:
        codes = np.tile(np.array(labels, dtype=np.uint8), times)
        return _whole(response.randomise(codes), times)

    def score(pair: Pair) -> Score:
        def loss(outputs: np.ndarray) -> np.ndarray:
            parts = [logs[outputs, np.array(labels)].sum(axis=1) for labels in (pair.one, pair.two)]
            return np.asarray(parts[0] - parts[1])

        return loss

    return {"pairs": pairs, "sample": sample, "score": score}
