"""The mean operator of private labels and public rows: noise on sums, and randomised labels."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from suffice.audit.case import CHEAP, FEW, SOME, Case, as_it_is, claim, half, repeated
from suffice.audit.scores import Score, shift_score
from suffice.audit.search import DataSet, Pair, Space, neighbouring_pairs
from suffice.engines.engine import fold
from suffice.owner.forecast import PublicMoments
from suffice.owner.mean_operator import (
    ExactSums,
    MeanOperator,
    Shape,
    ShrunkSignal,
    paired_transform,
    whitening,
)
from suffice.owner.source import Source, labelled_batches
from suffice.privacy.noise import LaplaceNoise, Noise, calibrated_noise
from suffice.privacy.response import Response

__all__ = ["at", "cases"]

_KIND = "mean-operator"
_SOME_ROWS = "some rows"
# Public rows: along an axis, where the 1-norm equals the 2-norm, and along the diagonal.
_ROWS = ((1.5, 0.0), (-1.5, 0.0), (1.0, 1.0), (-1.0, -1.0), (0.2, -0.3))
# The longest along an axis: the fewer numbers a change moves, the likelier the worst event is.
_AXIS = ((2.5, 0.0), (-2.5, 0.0), (0.0, 0.3), (0.0, -0.3), (0.2, 0.0))
_MOST_ROWS = 5
_BOUNDARIES = {
    "one row": ((0.6, 0.8),),
    "equal rows": ((0.6, 0.8),) * 5,
    "extreme rows": ((1e150, 0.0), (0.0, -1e150), (1e-150, 0.0), (0.0, 0.0), (1.0, 1.0)),
}


@dataclass(frozen=True)
class _Operator:
    """A mean operator of few public rows: the sums of a release, the noise of a release.

    A data set is which public rows there are, by name, and labels; a label without a row is not
    looked at.
    """

    mechanism: MeanOperator
    rows: tuple[tuple[float, ...], ...]
    transform: Callable[[np.ndarray], np.ndarray | None] | None = None
    spoil: Callable[[Noise], Noise] = as_it_is

    @classmethod
    def of(
        cls,
        rows: tuple[tuple[float, ...], ...],
        transform: Callable[[np.ndarray], np.ndarray | None] | None = None,
        **options: Any,
    ) -> "_Operator":
        return cls(MeanOperator(clip=1.0, **options), rows, transform)

    def public(self, which: str) -> np.ndarray:
        """Return the public rows of this name."""
        return np.array(_BOUNDARIES.get(which, self.rows))

    @cache  # noqa: B019  # frozen, few, and as long-lived as the process
    def exact(self, data: DataSet) -> ExactSums:
        """Return the exact sums of these rows under these labels."""
        # Rows that are all equal are nothing but an intercept; some rows are worst without one,
        # unless the intercept is what the transform is about.
        lone = data[0] == _SOME_ROWS and self.transform is not _paired
        mechanism = replace(self.mechanism, intercept=0.0 if lone else 1.0)
        public, classes = mechanism.public_rows(self.public(data[0])), tuple(mechanism.classes)
        matrix = None if self.transform is None else self.transform(public.sample()[0])
        sums = ExactSums(public, classes, None if matrix is None else Shape.of(matrix))
        source = Source(None, np.array(data[1 : 1 + len(self.public(data[0]))]))
        return fold(labelled_batches(public.table, public.roles, classes, source), sums)

    @cache  # noqa: B019
    def noise(self, which: str = _SOME_ROWS) -> Noise:
        """Return the noise of a release, calibrated on the public rows of this name."""
        labels = (self.mechanism.classes[0],) * _MOST_ROWS
        reach, mechanism = self.exact((which, *labels)).sensitivity, self.mechanism
        return calibrated_noise(mechanism.mechanism, reach, mechanism.epsilon, mechanism.delta)

    def distance(self, first: DataSet, second: DataSet) -> float:
        """Return how far apart the two statistics are, in the norm and the scale of the noise."""
        shift, noise = (self.sums(first) - self.sums(second)).ravel(), self.noise(first[0])
        return float(np.linalg.norm(shift, 1 if isinstance(noise, LaplaceNoise) else 2)) / float(
            noise.scale
        )

    def sums(self, data: DataSet) -> np.ndarray:
        """Return the exact sums of a data set."""
        return self.exact(data).result()

    def pairs(self, rng: np.random.Generator) -> list[Pair]:
        """Return the labels that move the statistic most, of any rows."""
        labels = (tuple(range(len(self.mechanism.classes))),) * _MOST_ROWS
        public = (_SOME_ROWS, *_BOUNDARIES)
        space = Space((public, *labels), tuple(range(1, 1 + len(labels))))
        return neighbouring_pairs(space, self.distance, rng)

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        """Return noisy sums."""
        return repeated(self.spoil(self.noise(data[0])), self.sums(data), times)

    def score(self, pair: Pair) -> Score:
        """Return the exact loss."""
        noise = self.spoil(self.noise(pair.first[0]))
        return shift_score(noise, self.sums(pair.first), self.sums(pair.second))

    def case(self, name: str, samples: int) -> Case:
        """Return the case of the mechanism as it is."""
        stated = claim(self.noise().event, self.mechanism.delta)
        return Case(
            name, _KIND, pairs=self.pairs, sample=self.sample, score=self.score, samples=samples,
            **stated,
        )  # fmt: skip

    def broken_copy(
        self, case: Case, name: str, what: str, spoil: Callable[[Noise], Noise]
    ) -> Case:
        """Return the case with spoilt noise."""
        broken = replace(self, spoil=spoil)
        return case.broken_copy(name, what, sample=broken.sample, score=broken.score)


def _whitened(rows: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    return whitening(values, vectors, 0.1, 0.25)


def _counted(rows: np.ndarray) -> np.ndarray:
    """Return a heavier intercept, as `Candidates` has it where a majority would be hidden."""
    return np.diag(np.append(np.ones(rows.shape[1] - 1), 4.0))


def _paired(rows: np.ndarray) -> np.ndarray | None:
    """Return the count with a direction of the features, as `Candidates` has it on few rows."""
    signal = ShrunkSignal(rows, PublicMoments.of(rows, len(rows), classes=2))
    return paired_transform(signal, epsilon=1.0, sure=math.inf, most=math.inf)


def cases() -> Iterator[Case]:
    """Yield the cases of this family."""
    yield from _laplace_sums()
    yield from _gaussian_sums()
    yield from _knorm_sums()
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
    yield laplace.broken_copy(case, "half the noise", "the scale is half of what it must be", half)
    yield laplace.broken_copy(
        case,
        "2-norm for 1-norm",
        "Laplace noise of scale D2/epsilon (Patrini et al., Theorem 9, read with ||x||_2 <= 1)",
        lambda noise: replace(noise, scale=noise.sensitivity.l2 / laplace.mechanism.epsilon),
    )
    counting = _Operator.of(_ROWS, _counted, epsilon=1.0, mechanism="laplace")
    case = counting.case("mean-operator laplace, heavier intercept", CHEAP)
    yield case
    yield counting.broken_copy(
        replace(case, samples=SOME),
        "a weight without its noise",
        "the noise is that of a lighter intercept",
        half,
    )
    pairing = _Operator.of(_ROWS, _paired, epsilon=1.0, mechanism="laplace")
    case = pairing.case("mean-operator laplace, count with a direction", CHEAP)
    yield case
    yield pairing.broken_copy(
        replace(case, samples=SOME),
        "a pair with half the noise",
        "a changed label is said to move the sum by x, not by 2 x",
        half,
    )
    many = _Operator.of(_AXIS, epsilon=1.0, mechanism="laplace", classes=(0, 1, 2))
    case = many.case("mean-operator laplace, 3 classes", CHEAP // 2)
    yield case
    case = replace(case, samples=SOME // 2)
    yield many.broken_copy(
        case, "one column only", "a changed label is said to move one column", half
    )


def _gaussian_sums() -> Iterator[Case]:
    gaussian: dict[str, Any] = {"epsilon": 4.0, "delta": 0.01, "mechanism": "gaussian"}
    even = _Operator.of(_ROWS, **gaussian)
    case = even.case("mean-operator gaussian", SOME)
    yield case
    yield even.broken_copy(case, "half the noise", "the scale is half of what it must be", half)
    whitened = _Operator.of(_ROWS, _whitened, **gaussian)
    case = whitened.case("mean-operator gaussian, whitened", SOME)
    yield case
    yield whitened.broken_copy(
        case, "norm for diameter", "a changed label is said to move the sum by x, not by 2 x", half
    )
    many = _Operator.of(_ROWS, classes=(0, 1, 2), **gaussian)
    case = many.case("mean-operator gaussian, 3 classes", SOME // 2)
    yield case
    yield many.broken_copy(
        case,
        "factor 1 for sqrt 2",
        "the 2-norm of a change is taken to be that of one column",
        lambda noise: replace(noise, scale=noise.scale / math.sqrt(2)),
    )


def _knorm_sums() -> Iterator[Case]:
    knorm = _Operator.of(_ROWS, epsilon=1.0, mechanism="knorm")
    case = knorm.case("mean-operator knorm", FEW)
    yield case
    case = replace(case, samples=2 * FEW)
    yield knorm.broken_copy(case, "half the noise", "the scale is half of what it must be", half)


def _seed_and_float() -> Iterator[Case]:
    """Yield broken copies whose scale is right and whose randomness is not."""
    operator = _Operator.of(_ROWS, epsilon=1.0, mechanism="laplace")
    case = operator.case("mean-operator laplace", SOME)

    def reused(data: DataSet, times: int) -> np.ndarray:
        sums = operator.sums(data)
        noise = repeated(operator.noise(data[0]), np.zeros_like(sums), times)
        others = operator.sums((data[0], *(0 for _ in data[1:])))
        return np.hstack([noise + sums.ravel(), noise + others.ravel()])

    yield case.broken_copy(
        "seed reused",
        "a release about other labels had the same noise: their difference is exact",
        sample=reused,
        score=None,
    )
    poll = _Operator.of(((1.0,), (-1.0,)), epsilon=1.0, mechanism="laplace")
    rng = np.random.default_rng(0)

    def in_floats(data: DataSet, times: int) -> np.ndarray:
        unit, noise = poll.exact(data).unit, poll.noise(data[0])
        exact, scale = poll.sums(data).ravel() * unit, float(noise.scale) * unit
        return np.asarray(exact + rng.laplace(scale=scale, size=(times, exact.size)))

    case = poll.case("mean-operator laplace", CHEAP)
    yield case.broken_copy(
        "noise in floating point",
        "numpy's Laplace noise: its floats show what it was added to (Mironov 2012)",
        sample=in_floats,
        score=None,
    )


def _randomised_labels() -> Iterator[Case]:
    """Yield randomised labels: one release of many rows is as many outputs."""
    for classes in (2, 3):
        case = _responses(classes)
        yield case
        stronger = Response.from_epsilon(classes, 2 * case.claimed)
        yield case.broken_copy(
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

    yield case.broken_copy(
        "answered twice",
        "every label is randomised again for a second release that is not charged",
        sample=again,
        score=None,
    )
    uneven = np.array([[0.5, 0.2, 0.3], [0.25, 0.4, 0.3], [0.25, 0.4, 0.4]])
    within = max(float(np.log(column.max() / column.min())) for column in uneven.T)
    response = Response.from_matrix(uneven)
    yield replace(
        _responses(3).broken_copy(
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
        return _by_output(mechanism.release(rows, y, ledger=None).arrays["answers"], times)

    response = Response.from_epsilon(classes, epsilon)
    return Case(
        f"label-responses, {classes} classes",
        "label-responses",
        **{**_answers(response), "sample": sample},
        **claim(response.event, 0.0),
    )


def _by_output(answers: np.ndarray, times: int) -> np.ndarray:
    """Return the answers of one release as many outputs, one a row."""
    return answers.reshape(times, -1).astype(np.int64)


def _answers(response: Response) -> dict[str, Any]:
    """Return how a response answers, on which labels, and its exact loss, as fields of a case."""
    logs = np.log(response.matrix)
    space = Space((tuple(range(response.states)),) * 2)  # two people, one of whom changes

    def distance(first: tuple[int, ...], second: tuple[int, ...]) -> float:
        return float((logs[:, list(first)] - logs[:, list(second)]).max(axis=0).sum())

    def pairs(rng: np.random.Generator) -> list[Pair]:
        return neighbouring_pairs(space, distance, rng)

    def sample(labels: tuple[int, ...], times: int) -> np.ndarray:
        codes = np.tile(np.array(labels, dtype=np.uint8), times)
        return _by_output(response.randomise(codes), times)

    def score(pair: Pair) -> Score:
        def loss(outputs: np.ndarray) -> np.ndarray:
            parts = [
                logs[outputs, np.array(labels)].sum(axis=1) for labels in (pair.first, pair.second)
            ]
            return np.asarray(parts[0] - parts[1])

        return loss

    return {"pairs": pairs, "sample": sample, "score": score}
