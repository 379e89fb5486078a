"""The mean operator of private labels and public rows: noise on sums, and randomised labels."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, product
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.audit.case import (
    CHEAP,
    FEW,
    HALF_SCALE,
    SOME,
    Case,
    Flaw,
    NoisyStatistic,
    Subject,
    claim,
    half,
    part,
    repeated,
)
from suffice.audit.search import DataSet, Space
from suffice.engines.engine import fold
from suffice.owner.forecast import PublicMoments
from suffice.owner.labelled import LabelMechanism
from suffice.owner.mean_operator import (
    ExactSums,
    MeanOperator,
    Shape,
    ShrunkSignal,
    paired_transform,
    people_reach,
    whitening,
)
from suffice.owner.source import PublicSource, Source, labelled_batches
from suffice.privacy.noise import LaplaceNoise, Noise, calibrated_noise
from suffice.privacy.response import Response

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
class _Operator(NoisyStatistic):
    """A mean operator of few public rows: the sums of a release, the noise of a release.

    A data set is which public rows there are, by name, and labels; a label without a row is not
    looked at.
    """

    kind = "mean-operator"
    mechanism: MeanOperator
    rows: tuple[tuple[float, ...], ...] = _ROWS
    transform: Callable[[np.ndarray], np.ndarray | None] | None = None

    @cache  # noqa: B019  # frozen, few, and as long-lived as the process
    def sums(self, data: DataSet) -> ExactSums:
        rows = np.array(_BOUNDARIES.get(data[0], self.rows))
        # Rows that are all equal are nothing but an intercept; some rows are worst without one,
        # unless the intercept is what the transform is about.
        lone = data[0] == _SOME_ROWS and self.transform is not _paired
        mechanism = replace(self.mechanism, intercept=0.0 if lone else 1.0)
        public, classes = mechanism.public_rows(rows), tuple(mechanism.classes)
        matrix = None if self.transform is None else self.transform(public.sample()[0])
        sums = ExactSums(public, classes, None if matrix is None else Shape.of(matrix))
        source = Source(None, np.array(data[1 : 1 + len(rows)]))
        return fold(labelled_batches(public.table, public.roles, classes, source), sums)

    def exact(self, data: DataSet) -> np.ndarray:
        return self.sums(data).result()

    @cache  # noqa: B019
    def _noise(self, which: str) -> Noise:
        mechanism = self.mechanism
        reach = self.sums((which, *(mechanism.classes[0],) * _MOST_ROWS)).sensitivity
        return calibrated_noise(mechanism.mechanism, reach, mechanism.epsilon, mechanism.delta)

    def noise(self, data: DataSet) -> Noise:
        return self._noise(data[0])

    def stated(self) -> dict[str, Any]:
        return claim(self._noise(_SOME_ROWS).event, self.mechanism.delta)

    def distance(self, first: DataSet, second: DataSet) -> float:
        """Return how far apart the two statistics are, in the norm and the scale of the noise."""
        shift, noise = (self.exact(first) - self.exact(second)).ravel(), self.noise(first)
        norm = np.linalg.norm(shift, 1 if isinstance(noise, LaplaceNoise) else 2)
        return float(norm) / float(noise.scale)

    def space(self) -> Space:
        labels = (tuple(range(len(self.mechanism.classes))),) * _MOST_ROWS
        return Space(((_SOME_ROWS, *_BOUNDARIES), *labels), tuple(range(1, 1 + len(labels))))


@dataclass(frozen=True)
class _PeopleOperator(_Operator):
    """The same where three rows are of one person, all of whose labels change together."""

    together: bool = True  # whether the noise is for all labels of a person

    @cache  # noqa: B019
    def sums(self, data: DataSet) -> ExactSums:
        table = pa.table({**dict(zip(("a", "b"), np.array(self.rows).T, strict=True)), "id": _IDS})
        mechanism = replace(self.mechanism, intercept=0.0, map=None)
        source = PublicSource(table, label="label", features=["a", "b"], person="id")
        labels = [label for unit in data[1:] for label in unit]
        source = replace(source, data=table.append_column("label", pa.array(labels)))
        public = LabelMechanism.public(mechanism, source)  # of all rows, whatever is better
        people = people_reach(public.rows, "id", 2) if self.together else None
        sums = ExactSums(public.rows, public.classes, None, people)
        return fold(chain.from_iterable(part.batches() for part in public.parts()), sums)

    @cache  # noqa: B019
    def _noise(self, which: str) -> Noise:
        mechanism, reach = self.mechanism, self.sums((which, (0, 0, 0), (0,), (0,))).sensitivity
        return calibrated_noise(mechanism.mechanism, reach, mechanism.epsilon, mechanism.delta)

    def space(self) -> Space:
        persons = (list(product((0, 1), repeat=3)), [(0,), (1,)], [(0,), (1,)])
        return Space(((_SOME_ROWS,), *persons), (1, 2, 3), "person")


_IDS = ("1", "1.0", "1", "2", "3")  # of three people
_ALIKE = ((1.0, 0.0), (1.0, 0.0), (1.0, 0.0), (-1.5, 0.0), (-1.5, 0.0))


def _operator(mechanism: str, epsilon: float = 1.0, **options: Any) -> MeanOperator:
    return MeanOperator(epsilon, mechanism=mechanism, clip=1.0, map=None, **options)


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


def at(epsilon: float) -> Iterator[Case]:
    """Yield the mechanisms of this family at another epsilon; Gaussian noise at delta = .01."""
    yield _Operator(_operator("laplace", epsilon)).case("mean-operator laplace", CHEAP)
    gaussian = _operator("gaussian", epsilon, delta=0.01)
    yield _Operator(gaussian).case("mean-operator gaussian", SOME)
    yield _Operator(_operator("knorm", epsilon)).case("mean-operator knorm", FEW)
    yield _responses(2, epsilon)


def cases() -> Iterator[Case]:
    """Yield the cases of this family."""

    def by_2_norm(noise: Noise) -> Noise:
        return replace(noise, scale=noise.sensitivity.l2)  # epsilon is 1

    laplace, three = _operator("laplace"), (0, 1, 2)
    gaussian = _operator("gaussian", 4.0, delta=0.01)
    moves_by_x = "a changed label is said to move the sum by x, not by 2 x"
    # A variant, how it is set up, outputs, and what its broken copies are.
    table: tuple[tuple[str, _Operator, int, tuple[Flaw, ...]], ...] = (
        ("laplace", _Operator(laplace), CHEAP, (
            Flaw(*HALF_SCALE, SOME, spoil=half),
            Flaw("2-norm for 1-norm", "Laplace noise of scale D2/epsilon (Patrini et al., Theorem"
                 " 9, read with ||x||_2 <= 1)", SOME, spoil=by_2_norm))),
        ("laplace, heavier intercept", _Operator(laplace, transform=_counted), CHEAP, (
            Flaw("a weight without its noise", "the noise is that of a lighter intercept", SOME,
                 spoil=half),)),
        ("laplace, count with a direction", _Operator(laplace, transform=_paired), CHEAP, (
            Flaw("a pair with half the noise", moves_by_x, SOME, spoil=half),)),
        ("laplace, 3 classes", _Operator(replace(laplace, classes=three), _AXIS), CHEAP // 2, (
            Flaw("one column only", "a changed label is said to move one column", SOME // 2,
                 spoil=half),)),
        ("gaussian", _Operator(gaussian), SOME, (Flaw(*HALF_SCALE, spoil=half),)),
        ("gaussian, whitened", _Operator(gaussian, transform=_whitened), SOME, (
            Flaw("norm for diameter", moves_by_x, spoil=half),)),
        ("gaussian, 3 classes", _Operator(replace(gaussian, classes=three)), SOME // 2, (
            Flaw("factor 1 for sqrt 2", "the 2-norm of a change is taken to be that of one column",
                 spoil=part(1 / math.sqrt(2))),)),
        ("knorm", _Operator(_operator("knorm")), FEW, (Flaw(*HALF_SCALE, 2 * FEW, spoil=half),)),
        ("laplace, a person of three rows", _PeopleOperator(laplace, _ALIKE), CHEAP, (
            Flaw("one label for a person's", "noise is for one label, and a person has three",
                 SOME, together=False),)),
    )  # fmt: skip
    for name, operator, samples, flaws in table:
        yield from operator.cases(f"mean-operator {name}", samples, *flaws)
    yield from _seed_and_float(laplace)
    yield from _randomised_labels()


def _seed_and_float(laplace: MeanOperator) -> Iterator[Case]:
    """Yield broken copies whose scale is right and whose randomness is not."""
    operator = _Operator(laplace)

    def reused(data: DataSet, times: int) -> np.ndarray:
        sums = operator.exact(data)
        noise = repeated(operator.noise(data), np.zeros_like(sums), times)
        others = operator.exact((data[0], *(0 for _ in data[1:])))
        return np.hstack([noise + sums.ravel(), noise + others.ravel()])

    yield operator.case("mean-operator laplace", SOME).broken_copy(
        "seed reused",
        "a release about other labels had the same noise: their difference is exact",
        sample=reused,
        score=None,
    )
    poll = _Operator(laplace, ((1.0,), (-1.0,)))
    rng = np.random.default_rng(0)

    def in_floats(data: DataSet, times: int) -> np.ndarray:
        unit = poll.sums(data).unit
        exact, scale = poll.exact(data).ravel() * unit, float(poll.noise(data).scale) * unit
        return np.asarray(exact + rng.laplace(scale=scale, size=(times, exact.size)))

    yield poll.case("mean-operator laplace", CHEAP).broken_copy(
        "noise in floating point",
        "numpy's Laplace noise: its floats show what it was added to (Mironov 2012)",
        sample=in_floats,
        score=None,
    )


@dataclass(frozen=True)
class _Answers(Subject):
    """The labels of two people, one of whom changes, randomised many times.

    One release of many rows is as many outputs.
    """

    kind = "label-responses"
    response: Response
    mechanism: MeanOperator | None = None  # whose releases randomise; None for the response alone

    def stated(self) -> dict[str, Any]:
        return claim(self.response.event, 0.0)

    def space(self) -> Space:
        return Space((tuple(range(self.response.states)),) * 2)

    def distance(self, first: DataSet, second: DataSet) -> float:
        logs = np.log(self.response.matrix)
        return float((logs[:, list(first)] - logs[:, list(second)]).max(axis=0).sum())

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        if self.mechanism is None:
            codes = np.tile(np.array(data, dtype=np.uint8), times)
            return self.response.randomise(codes).reshape(times, -1).astype(np.int64)
        y = np.tile(np.array(data), times)
        rows = np.arange(len(y), dtype=np.float64)[:, None] % 5
        answers = self.mechanism.release(rows, y, ledger=None).arrays["answers"]
        return answers.reshape(times, -1).astype(np.int64)

    def logs(self, outputs: np.ndarray, data: DataSet) -> np.ndarray:
        return np.asarray(np.log(self.response.matrix)[outputs, np.array(data)].sum(axis=1))


def _responses(classes: int, epsilon: float = 1.0) -> Case:
    labels = tuple(range(classes))
    mechanism = MeanOperator(epsilon, mechanism="response", classes=labels, clip=1.0)
    answers = _Answers(Response.from_epsilon(classes, epsilon), mechanism)
    return answers.case(f"label-responses, {classes} classes", CHEAP)


def _randomised_labels() -> Iterator[Case]:
    two, three = _responses(2), _responses(3)
    for classes, case in ((2, two), (3, three)):
        yield case
        yield case.broken_copy(
            "too few flips",
            "labels are flipped as rarely as twice the epsilon allows",
            **_Answers(Response.from_epsilon(classes, 2 * case.claimed)).attack(),
        )
    once = _Answers(Response.from_epsilon(2, 1.0))
    yield two.broken_copy(
        "answered twice",
        "every label is randomised again for a second release that is not charged",
        sample=lambda data, times: np.hstack([once.sample(data, times) for _ in range(2)]),
        score=None,
    )
    uneven = np.array([[0.5, 0.2, 0.3], [0.25, 0.4, 0.3], [0.25, 0.4, 0.4]])
    yield three.broken_copy(
        "ratios within columns",
        "epsilon is the largest ratio within a column of P, not within a row",
        claimed=max(float(np.log(column.max() / column.min())) for column in uneven.T),
        **_Answers(Response.from_matrix(uneven)).attack(),
    )
