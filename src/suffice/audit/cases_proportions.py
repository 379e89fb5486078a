"""Label proportions of sets: noisy counts, Dirichlet draws, and sets formed by response."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln, log_expit

from suffice.audit.case import CHEAP, FEW, SOME, Case, claim
from suffice.audit.scores import Score, shift_score
from suffice.audit.search import DataSet, Pair, Space, neighbouring_pairs
from suffice.errors import ParameterError
from suffice.owner.proportions import (
    AdditiveCounts,
    BagSizes,
    BoundedCounts,
    LabelProportions,
    PriorCounts,
    ScaledCounts,
    assign_bags,
    count_noise,
    skew_epsilon,
)
from suffice.privacy.dirichlet import bounded_sigma, largest_sigma, pair_delta
from suffice.privacy.response import enough_balls

__all__ = ["at", "cases"]

_KIND = "proportions"
Counts = tuple[int, ...]


# The sizes of the bags that are released together; the labels fill the first of them.
_BAGS = {"one bag": (6,), "a bag of one row": (1,), "an empty bag": (6, 0)}


@dataclass(frozen=True)
class _Counts:
    """The counts of a bag (or of ``overlap`` bags that hold the same row), many times over.

    Disjoint bags cost what one of them costs, so that one draw for n equal bags is n outputs. A
    data set is which bags there are, by name, and the labels of the first of them.
    """

    mechanism: str
    classes: int
    epsilon: float
    delta: float = 0.0
    overlap: int = 1
    shrink: float = 1.0  # of the noise

    def noisy_counts(self, times: int = 1, bags: str = "one bag") -> AdditiveCounts:
        """Return the mechanism of a release about this many bags."""
        sizes = np.tile(_BAGS[bags], times * self.overlap)
        public = BagSizes(sizes, self.classes, self.overlap)
        noisy_counts = count_noise(self.mechanism, public, self.epsilon, self.delta)
        assert isinstance(noisy_counts, AdditiveCounts)  # noqa: S101  # for the type checker
        return replace(
            noisy_counts,
            noise=replace(noisy_counts.noise, scale=noisy_counts.noise.scale * self.shrink),
        )

    def counts(self, data: DataSet) -> np.ndarray:
        """Return the exact counts of every bag."""
        sizes = _BAGS[data[0]]
        exact = np.zeros((len(sizes), self.classes), dtype=np.int64)
        exact[0] = np.bincount(data[1 : 1 + sizes[0]], minlength=self.classes)
        return np.tile(exact, (self.overlap, 1))

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        """Return noisy counts."""
        exact = np.tile(self.counts(data), (times, 1))
        return self.noisy_counts(times, data[0]).draw(exact).reshape(times, -1)

    def score(self, pair: Pair) -> Score:
        """Return the exact loss; of two counts the first says all."""
        noisy_counts = self.noisy_counts()
        cut = 1 if noisy_counts.noise_on_first_count_only else self.classes
        first, second = (self.counts(data)[:, :cut] for data in (pair.first, pair.second))
        steps = noisy_counts.noise.scale / noisy_counts.scale
        shift = shift_score(noisy_counts.noise, first * steps, second * steps, 1 / steps)

        def loss(outputs: np.ndarray) -> np.ndarray:
            cells = outputs.reshape(len(outputs), -1, self.classes)[:, :, :cut]
            return shift(cells.reshape(len(outputs), -1))

        return loss

    def distance(self, first: DataSet, second: DataSet) -> float:
        """Return how far apart the counts are."""
        return float(np.abs(self.counts(first) - self.counts(second)).sum())

    def pairs(self, rng: np.random.Generator) -> list[Pair]:
        """Return labels whose counts are farthest apart."""
        return neighbouring_pairs(_labelled_bags(self.classes), self.distance, rng)

    def case(self, name: str, samples: int) -> Case:
        """Return the case of the mechanism as it is."""
        return Case(
            name, _KIND, pairs=self.pairs, sample=self.sample, score=self.score, samples=samples,
            **claim(self.noisy_counts().event, self.delta),
        )  # fmt: skip

    def broken_copy(self, case: Case, name: str, what: str, shrink: float) -> Case:
        """Return the case with less noise."""
        broken = replace(self, shrink=shrink)
        return case.broken_copy(name, what, sample=broken.sample, score=broken.score, samples=SOME)


def _labelled_bags(classes: int, names: tuple[str, ...] = tuple(_BAGS)) -> Space:
    """Return bags of these names with all labels; only a label may change."""
    most = max(_BAGS[name][0] for name in names)
    labels = (tuple(range(classes)),) * most
    return Space((names, *labels), tuple(range(1, 1 + most)))


def cases() -> Iterator[Case]:
    """Yield the cases of this family."""
    yield from _additive()
    yield from _whole_release()
    yield from _urn_draws()
    yield from _printed()
    yield from _formed()


def at(epsilon: float) -> Iterator[Case]:
    """Yield the mechanisms of this family at another epsilon; Gaussian noise at delta = .01."""
    yield _Counts("laplace", 2, epsilon).case("proportions laplace, 2 classes", CHEAP)
    yield _Counts("laplace", 3, epsilon).case("proportions laplace, 3 classes", CHEAP)
    yield _Counts("gaussian", 3, epsilon, 0.01).case("proportions gaussian", SOME)


def _additive() -> Iterator[Case]:
    two = _Counts("laplace", 2, 1.0)
    case = two.case("proportions laplace, 2 classes", CHEAP)
    yield case
    yield two.broken_copy(case, "half the noise", "the scale is half of what it must be", 0.5)
    rng = np.random.default_rng(0)

    def in_floats(labels: tuple[int, ...], times: int) -> np.ndarray:
        return np.asarray(labels.count(0) + rng.laplace(size=(times, 1)) / two.epsilon)

    yield case.broken_copy(
        "noise in floating point",
        "numpy's Laplace noise: its floats show what it was added to (Mironov 2012)",
        pairs=lambda rng: neighbouring_pairs(
            Space(((0, 1),) * 2), lambda a, b: float(a.count(0) * b.count(0) == 0), rng
        ),
        sample=in_floats,
        score=None,
    )
    three = _Counts("laplace", 3, 1.0)
    case = three.case("proportions laplace, 3 classes", CHEAP)
    yield case
    yield three.broken_copy(case, "sensitivity 1", "a changed label is said to move one count", 0.5)
    shared = _Counts("laplace", 2, 1.0, overlap=2)
    case = shared.case("proportions laplace, overlapping bags", CHEAP)
    yield case
    yield shared.broken_copy(
        case, "sets taken for disjoint", "a row in two sets is charged as if it were in one", 0.5
    )
    gaussian = _Counts("gaussian", 3, 4.0, 0.01)
    case = gaussian.case("proportions gaussian", SOME)
    yield case
    yield gaussian.broken_copy(
        case, "factor 1 for sqrt 2", "the 2-norm of a change is said to be 1", 0.5**0.5
    )


def _whole_release() -> Iterator[Case]:
    """Yield one release about many equal sets, from end to end."""
    laplace = _Counts("laplace", 2, 1.0)

    def through(mechanism: LabelProportions) -> Callable[[Any, int], np.ndarray]:
        def sample(data: DataSet, times: int) -> np.ndarray:
            y = np.tile(np.array(data[1:]), times)
            rows = np.arange(len(y), dtype=np.float64)[:, None] % 5
            bags = np.repeat(np.arange(times), len(y) // times)
            return mechanism.release(rows, y, bags, ledger=None).arrays["counts"]

        return sample

    def pairs(rng: np.random.Generator) -> list[Pair]:  # a release refuses bags of too few rows
        return neighbouring_pairs(_labelled_bags(2, ("one bag",)), laplace.distance, rng)

    case = replace(
        laplace.case("proportions laplace, a whole release", SOME),
        pairs=pairs,
        sample=through(LabelProportions(1.0, mechanism="laplace")),
    )
    yield case
    yield case.broken_copy(
        "epsilon doubled",
        "the noise of twice the epsilon that is stated",
        sample=through(LabelProportions(2.0, mechanism="laplace")),
    )


def _log_urn(balls: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return ln p of balls drawn from the urn of Dir(weights), up to what is the same for all."""
    total, number = weights.sum(), balls.sum(axis=1)
    positive = np.where(weights > 0, weights, 1.0)
    parts = gammaln(balls + positive) - gammaln(positive)
    parts = np.where(weights > 0, parts, np.where(balls > 0, -np.inf, 0.0))  # no such ball
    with np.errstate(invalid="ignore"):  # an empty urn, of which nothing is drawn, has no density
        return np.asarray(parts.sum(axis=1) + gammaln(total) - gammaln(total + number))


@dataclass(frozen=True)
class _UrnDraws:
    """Counts that are released as balls of an urn whose parameters are ``weights(counts)``."""

    sample: Callable[[tuple[Counts], int], np.ndarray]
    weights: Callable[[Counts], np.ndarray]
    shares: Callable[[np.ndarray], np.ndarray]

    def score(self, pair: Pair) -> Score:
        """Return the exact loss of a Dirichlet-multinomial draw."""
        one, two = (self.weights(data[0]) for data in (pair.first, pair.second))
        number = enough_balls(float(one.sum())), enough_balls(float(two.sum()))

        def loss(outputs: np.ndarray) -> np.ndarray:
            logs = [
                _log_urn(np.rint(self.shares(outputs) * n), w)
                for n, w in zip(number, (one, two), strict=True)
            ]
            return np.asarray(logs[0] - logs[1])

        return loss


def _neighbours(
    distance: Callable[[Counts, Counts], float], counts: Sequence[Counts], total: int
) -> Callable[[np.random.Generator], list[Pair]]:
    """Return a search over counts of which one label was moved; a data set is one such tuple."""

    def apart(first: DataSet, second: DataSet) -> float:
        moved = np.abs(np.subtract(first[0], second[0])).sum()
        fits = moved == 2 and sum(first[0]) == sum(second[0]) == total
        return distance(first[0], second[0]) if fits else -1.0

    return lambda rng: neighbouring_pairs(Space((counts,)), apart, rng, 1)


def _urn_draws() -> Iterator[Case]:
    """Yield the sound Dirichlet mechanisms, which draw in an urn."""
    yield from _prior()
    size, epsilon, delta = 1, 1.0, 0.01  # the worst pair of counts is that of one row
    bounded = BoundedCounts(BagSizes(np.array([size]), 2), epsilon, delta, 3)

    def distance(first: Counts, second: Counts) -> float:
        i, j = (int(np.argmax(np.subtract(*pair))) for pair in ((first, second), (second, first)))
        padded = first[i] + bounded.kappa, first[j] + bounded.kappa
        return float(pair_delta(*padded, bounded.sigma, epsilon))

    def of(mechanism: BoundedCounts) -> _UrnDraws:
        def sample(data: tuple[Counts], times: int) -> np.ndarray:
            many = replace(mechanism, bags=BagSizes(np.full(times, size), 2))
            return many.draw(np.tile(np.array(data[0]), (times, 1)))

        return _UrnDraws(
            sample,
            lambda counts: mechanism.sigma * (np.array(counts) + mechanism.kappa),
            lambda outputs: (outputs + mechanism.kappa) / (size + 2 * mechanism.kappa),
        )

    sound = of(bounded)
    case = Case(
        "proportions scaled-dirichlet-bounded", _KIND,
        pairs=_neighbours(distance, [(k, size - k) for k in range(size + 1)], size),
        sample=sound.sample, score=sound.score, samples=FEW, claimed=epsilon, delta=delta,
    )  # fmt: skip
    yield case
    bare = of(_Unpadded(bounded.bags, epsilon, delta, 3))
    yield case.broken_copy(
        "kappa left out", "sigma is that of counts plus kappa, and the draw is from the counts",
        sample=bare.sample, score=lambda _: lambda outputs: outputs[:, 0], samples=FEW // 4,
    )  # fmt: skip


def _prior() -> Iterator[Case]:
    """Yield proportions drawn from noisy counts: where one is cut off at zero, nothing is drawn."""
    laplace = _Counts("laplace", 2, 2.0)

    def cut_off(first: DataSet, second: DataSet) -> float:
        rare = [np.exp(-laplace.epsilon * laplace.counts(data)[0]) for data in (first, second)]
        return float(np.abs(rare[0] - rare[1]).max())

    def sampler(counts: _Counts) -> Callable[[Any, int], np.ndarray]:
        def sample(data: DataSet, times: int) -> np.ndarray:
            exact = np.tile(counts.counts(data), (times, 1))
            return PriorCounts(counts.noisy_counts(times, data[0])).draw(exact).reshape(times, -1)

        return sample

    filled = ("one bag", "a bag of one row")  # of no row nothing can be drawn
    case = replace(
        laplace.case("proportions laplace-prior", FEW),
        pairs=lambda rng: neighbouring_pairs(_labelled_bags(2, filled), cut_off, rng, 1),
        sample=sampler(laplace),
        score=None,
    )
    yield case
    yield case.broken_copy(
        "half the noise",
        "the counts behind the draw have too little noise",
        sample=sampler(replace(laplace, shrink=0.5)),
        samples=FEW // 2,
    )


class _Unpadded(BoundedCounts):
    """A broken copy: the sigma of a kappa that is not there."""

    @cached_property
    def _chosen(self) -> tuple[int, float]:
        assert self.requested_kappa is not None  # noqa: S101  # for the type checker
        return 0, bounded_sigma(self.requested_kappa, self.epsilon, self.delta) or 0.0


class _Printed(ScaledCounts):
    """Scaled Dirichlet as printed; the sigma of counts that were seen before is remembered."""

    def _sigma(self, counts: np.ndarray) -> float:
        cached = _sigma(tuple(counts.tolist()), self.epsilon, self.delta)
        return super()._sigma(counts) if cached is None else cached


@lru_cache(maxsize=4096)
def _sigma(counts: Counts, epsilon: float, delta: float) -> float | None:
    return largest_sigma(counts, epsilon, delta)


def _printed() -> Iterator[Case]:
    """Yield Scaled Dirichlet as printed, which is broken because sigma comes from the counts."""
    total, epsilon, delta = 50, 1.0, 0.01
    rare = [(k, total - k) for k in range(16)]
    draws = _printed_draw(total, epsilon, delta)
    case = Case(
        "proportions scaled-dirichlet", _KIND,
        pairs=_neighbours(lambda *counts: _beta_delta(draws, epsilon, *counts), rare, total),
        sample=draws.sample, score=draws.score, samples=FEW, claimed=epsilon, delta=delta,
    )  # fmt: skip
    yield case.broken_copy(
        "as printed", "sigma is computed from the private counts (Iyer et al.)", samples=2 * FEW
    )

    def refused(first: Counts, second: Counts) -> float:
        refusals = [_sigma(counts, epsilon, delta) is None for counts in (first, second)]
        return float(refusals[0] != refusals[1])

    yield case.broken_copy(
        "refusal",
        "whether a sigma exists, and anything is released, depends on the private counts",
        pairs=_neighbours(refused, rare, total),
        score=lambda _: lambda outputs: (outputs[:, 0] < 0).astype(np.float64),
        samples=FEW // 4,
    )


def _printed_draw(total: int, epsilon: float, delta: float) -> _UrnDraws:
    """Return how Scaled Dirichlet as printed draws; a refusal shows as a count of -1."""

    def sample(data: tuple[Counts], times: int) -> np.ndarray:
        mechanism = _Printed(BagSizes(np.full(times, total), 2), epsilon, delta)
        try:
            return mechanism.draw(np.tile(np.array(data[0]), (times, 1)))
        except ParameterError:
            return np.full((times, 2), -1.0)

    def weights(counts: Counts) -> np.ndarray:
        return (_sigma(counts, epsilon, delta) or 0.0) * np.array(counts)

    return _UrnDraws(sample, weights, lambda outputs: outputs / total)


def _beta_delta(draws: _UrnDraws, epsilon: float, first: Counts, second: Counts) -> float:
    """Return the exact delta at epsilon of two Beta distributions, of two sigmas."""
    parts = draws.weights(first), draws.weights(second)
    if min(p.min() for p in parts) == 0:
        return 0.0
    logits = np.linspace(-60, 60, 6001)
    logs = [a * log_expit(logits) + b * log_expit(-logits) - betaln(a, b) for a, b in parts]
    excess = np.exp(logs[0]) - np.exp(epsilon + logs[1])
    return float(excess.clip(0).sum() * (logits[1] - logits[0]))


def _formed() -> Iterator[Case]:
    """Yield sets that are formed by randomised response, and by the labels."""
    skew, classes = 0.8, 3

    def sample(label: tuple[int], times: int) -> np.ndarray:
        rows = np.arange(times, dtype=np.float64)[:, None] % 5
        y = np.full(times, label[0])
        sets = assign_bags(rows, y, skew=skew, classes=tuple(range(classes)), ledger=None)
        return sets.arrays["answers"][:, None].astype(np.int64)

    space = Space((tuple(range(classes)),))
    case = Case(
        "sets by response", "label-responses", claimed=skew_epsilon(skew, classes), delta=0.0,
        pairs=lambda rng: neighbouring_pairs(space, lambda a, b: float(a != b), rng),
        sample=sample, score=None,
    )  # fmt: skip
    yield case
    yield replace(
        case.broken_copy(
            "sets by label",
            "sets are skewed by the labels, and only the noise on their counts (epsilon 1) is"
            " charged (Iyer et al., Section 3.1)",
        ),
        claimed=1.0,
    )
