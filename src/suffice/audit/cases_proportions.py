"""Label proportions of sets: noisy counts, sets formed by response, and draws from an urn.

Dirichlet draws are there as they are sound, and as they are printed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln, log_expit

from suffice.audit.case import CHEAP, FEW, HALF_SCALE, SOME, Case, Flaw, Subject, claim
from suffice.audit.scores import Score, log_density
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

Counts = tuple[int, ...]
# The sizes of the bags that are released together; the labels fill the first of them.
_BAGS = {"one bag": (6,), "a bag of one row": (1,), "an empty bag": (6, 0)}


@dataclass(frozen=True)
class _Bag(Subject):
    """The counts of a bag (or of ``overlap`` bags that hold the same row), many times over.

    Disjoint bags cost what one of them costs, so that one draw for n equal bags is n outputs. A
    data set is which bags there are, by name, and the labels of the first of them.
    """

    kind = "proportions"
    mechanism: str
    classes: int
    epsilon: float
    delta: float = 0.0
    overlap: int = 1
    names: tuple[str, ...] = tuple(_BAGS)
    shrink: float = 1.0  # of the noise

    def noisy_counts(self, times: int = 1, bags: str = "one bag") -> AdditiveCounts:
        """Return the mechanism of a release about this many bags."""
        sizes = np.tile(_BAGS[bags], times * self.overlap)
        public = BagSizes(sizes, self.classes, self.overlap)
        noisy_counts = count_noise(self.mechanism, public, self.epsilon, self.delta)
        assert isinstance(noisy_counts, AdditiveCounts)  # noqa: S101  # for the type checker
        noise = noisy_counts.noise
        return replace(noisy_counts, noise=replace(noise, scale=noise.scale * self.shrink))

    def stated(self) -> dict[str, Any]:
        return claim(self.noisy_counts().event, self.delta)

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

    def logs(self, outputs: np.ndarray, data: DataSet) -> np.ndarray:
        """Return ln p of counts; of two counts the first says all."""
        noisy_counts = self.noisy_counts()
        cut = 1 if noisy_counts.noise_on_first_count_only else self.classes
        steps = noisy_counts.noise.scale / noisy_counts.scale
        cells = outputs.reshape(len(outputs), -1, self.classes)[:, :, :cut]
        far = (
            cells.reshape(len(outputs), -1) / (1 / steps)
            - self.counts(data)[:, :cut].reshape(1, -1) * steps
        )
        return log_density(noisy_counts.noise, far)

    def distance(self, first: DataSet, second: DataSet) -> float:
        """Return how far apart the counts are."""
        return float(np.abs(self.counts(first) - self.counts(second)).sum())

    def space(self) -> Space:
        """Return bags of these names with all labels; only a label may change."""
        most = max(_BAGS[name][0] for name in self.names)
        labels = (tuple(range(self.classes)),) * most
        return Space((self.names, *labels), tuple(range(1, 1 + most)))


def at(epsilon: float) -> Iterator[Case]:
    """Yield the mechanisms of this family at another epsilon; Gaussian noise at delta = .01."""
    yield _Bag("laplace", 2, epsilon).case("proportions laplace, 2 classes", CHEAP)
    yield _Bag("laplace", 3, epsilon).case("proportions laplace, 3 classes", CHEAP)
    yield _Bag("gaussian", 3, epsilon, 0.01).case("proportions gaussian", SOME)


def cases() -> Iterator[Case]:
    """Yield the cases of this family."""
    two = _Bag("laplace", 2, 1.0)
    # A variant, how it is set up, outputs, and what its broken copy is.
    table = (
        ("laplace, 2 classes", two, CHEAP, Flaw(*HALF_SCALE, SOME, shrink=0.5)),
        ("laplace, 3 classes", _Bag("laplace", 3, 1.0), CHEAP,
         Flaw("sensitivity 1", "a changed label is said to move one count", SOME, shrink=0.5)),
        ("laplace, overlapping bags", _Bag("laplace", 2, 1.0, overlap=2), CHEAP,
         Flaw("sets taken for disjoint", "a row in two sets is charged as if it were in one", SOME,
              shrink=0.5)),
        ("gaussian", _Bag("gaussian", 3, 4.0, 0.01), SOME,
         Flaw("factor 1 for sqrt 2", "the 2-norm of a change is said to be 1", shrink=0.5**0.5)),
    )  # fmt: skip
    for name, bag, samples, flaw in table:
        yield from bag.cases(f"proportions {name}", samples, flaw)
    rng = np.random.default_rng(0)

    def in_floats(labels: DataSet, times: int) -> np.ndarray:
        return np.asarray(labels.count(0) + rng.laplace(size=(times, 1)) / two.epsilon)

    yield two.case("proportions laplace, 2 classes", CHEAP).broken_copy(
        "noise in floating point",
        "numpy's Laplace noise: its floats show what it was added to (Mironov 2012)",
        pairs=lambda rng: neighbouring_pairs(
            Space(((0, 1),) * 2), lambda a, b: float(a.count(0) * b.count(0) == 0), rng
        ),
        sample=in_floats,
        score=None,
    )
    # A release refuses bags of too few rows.
    whole = replace(two, names=("one bag",)).case("proportions laplace, a whole release", SOME)
    yield replace(whole, sample=_through(LabelProportions(1.0, mechanism="laplace")))
    yield whole.broken_copy(
        "epsilon doubled",
        "the noise of twice the epsilon that is stated",
        sample=_through(LabelProportions(2.0, mechanism="laplace")),
    )
    yield from _drawn()
    yield from _formed()


def _through(mechanism: LabelProportions) -> Callable[[DataSet, int], np.ndarray]:
    """Return how one release about many equal sets comes about, from end to end."""

    def sample(data: DataSet, times: int) -> np.ndarray:
        y = np.tile(np.array(data[1:]), times)
        rows = np.arange(len(y), dtype=np.float64)[:, None] % 5
        bags = np.repeat(np.arange(times), len(y) // times)
        return mechanism.release(rows, y, bags, ledger=None).arrays["counts"]

    return sample


def _formed() -> Iterator[Case]:
    """Yield sets that are formed by randomised response, and by the labels."""
    skew, classes = 0.8, 3

    def sample(label: DataSet, times: int) -> np.ndarray:
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
    yield case.broken_copy(
        "sets by label",
        "sets are skewed by the labels, and only the noise on their counts (epsilon 1) is"
        " charged (Iyer et al., Section 3.1)",
        claimed=1.0,
    )


def _drawn() -> Iterator[Case]:
    """Yield the sound mechanisms, which draw in an urn, and what is printed."""
    # Proportions drawn from noisy counts: where one is cut off at zero, nothing is drawn.
    filled = ("one bag", "a bag of one row")  # of no row nothing can be drawn
    yield from _Prior("laplace", 2, 2.0, names=filled).cases(
        "proportions laplace-prior", FEW,
        Flaw("half the noise", "the counts behind the draw have too little noise", FEW // 2,
             shrink=0.5),
    )  # fmt: skip
    size, epsilon, delta = 1, 1.0, 0.01  # the worst pair of counts is that of one row
    bags = BagSizes(np.array([size]), 2)
    sound = _Bounded(size, ((0, 1), (1, 0)), epsilon, delta, BoundedCounts(bags, epsilon, delta, 3))
    case = sound.case("proportions scaled-dirichlet-bounded", FEW)
    yield case
    yield case.broken_copy(
        "kappa left out",
        "sigma is that of counts plus kappa, and the draw is from the counts",
        sample=replace(sound, mechanism=_Unpadded(bags, epsilon, delta, 3)).sample,
        score=lambda _: lambda outputs: outputs[:, 0],
        samples=FEW // 4,
    )
    size = 50
    rare = [(k, size - k) for k in range(16)]
    printed = _Printed(size, rare, epsilon, delta).case("proportions scaled-dirichlet", 2 * FEW)
    yield printed.broken_copy(
        "as printed", "sigma is computed from the private counts (Iyer et al.)"
    )
    yield printed.broken_copy(
        "refusal",
        "whether a sigma exists, and anything is released, depends on the private counts",
        samples=FEW // 4,
        **_Refused(size, rare, epsilon, delta).attack(),
    )


class _Prior(_Bag):
    """Proportions that are drawn from noisy counts."""

    farthest = 1
    logs = None  # type: ignore[assignment]  # unknown

    def distance(self, first: DataSet, second: DataSet) -> float:
        """Return how much oftener one count than the other is cut off at zero."""
        rare = [np.exp(-self.epsilon * self.counts(data)[0]) for data in (first, second)]
        return float(np.abs(rare[0] - rare[1]).max())

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        exact = np.tile(self.counts(data), (times, 1))
        return PriorCounts(self.noisy_counts(times, data[0])).draw(exact).reshape(times, -1)


@dataclass(frozen=True)
class _Urn(Subject):
    """Counts of one bag, released as balls of an urn whose parameters are ``weights(counts)``.

    A data set is one tuple of counts.
    """

    kind = "proportions"
    farthest = 1
    total: int  # rows of the bag
    choices: Sequence[Counts]
    epsilon: float
    delta: float

    def stated(self) -> dict[str, Any]:
        return {"claimed": self.epsilon, "delta": self.delta}

    def weights(self, counts: Counts) -> np.ndarray:
        raise NotImplementedError

    def shares(self, outputs: np.ndarray) -> np.ndarray:
        """Return which part of the balls each output states."""
        return outputs / self.total

    def apart(self, first: Counts, second: Counts) -> float:
        raise NotImplementedError

    def space(self) -> Space:
        return Space((self.choices,))

    def distance(self, first: DataSet, second: DataSet) -> float:
        """Return how far apart counts are of which one label was moved."""
        moved = np.abs(np.subtract(first[0], second[0])).sum()
        fits = moved == 2 and sum(first[0]) == sum(second[0]) == self.total
        return self.apart(first[0], second[0]) if fits else -1.0

    def logs(self, outputs: np.ndarray, data: DataSet) -> np.ndarray:
        """Return ln p of a Dirichlet-multinomial draw, up to what is the same for all."""
        weights = self.weights(data[0])
        balls = np.rint(self.shares(outputs) * enough_balls(float(weights.sum())))
        total, number = weights.sum(), balls.sum(axis=1)
        positive = np.where(weights > 0, weights, 1.0)
        parts = gammaln(balls + positive) - gammaln(positive)
        parts = np.where(weights > 0, parts, np.where(balls > 0, -np.inf, 0.0))  # no such ball
        with np.errstate(invalid="ignore"):  # an empty urn, of which nothing is drawn
            return np.asarray(parts.sum(axis=1) + gammaln(total) - gammaln(total + number))


@dataclass(frozen=True)
class _Bounded(_Urn):
    """The sound mechanism, which pads the counts by kappa."""

    mechanism: BoundedCounts

    def weights(self, counts: Counts) -> np.ndarray:
        return self.mechanism.sigma * (np.array(counts) + self.mechanism.kappa)

    def shares(self, outputs: np.ndarray) -> np.ndarray:
        kappa = self.mechanism.kappa
        return (outputs + kappa) / (self.total + 2 * kappa)

    def apart(self, first: Counts, second: Counts) -> float:
        i, j = (int(np.argmax(np.subtract(*pair))) for pair in ((first, second), (second, first)))
        padded = first[i] + self.mechanism.kappa, first[j] + self.mechanism.kappa
        return float(pair_delta(*padded, self.mechanism.sigma, self.epsilon))

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        many = replace(self.mechanism, bags=BagSizes(np.full(times, self.total), 2))
        return many.draw(np.tile(np.array(data[0]), (times, 1)))


class _Unpadded(BoundedCounts):
    """A broken copy: the sigma of a kappa that is not there."""

    @cached_property
    def _chosen(self) -> tuple[int, float]:
        assert self.requested_kappa is not None  # noqa: S101  # for the type checker
        return 0, bounded_sigma(self.requested_kappa, self.epsilon, self.delta) or 0.0


class _Printed(_Urn):
    """Scaled Dirichlet as printed, which is broken because sigma comes from the counts."""

    def weights(self, counts: Counts) -> np.ndarray:
        return (_sigma(counts, self.epsilon, self.delta) or 0.0) * np.array(counts)

    def apart(self, first: Counts, second: Counts) -> float:
        """Return the exact delta at epsilon of two Beta distributions, of two sigmas."""
        parts = self.weights(first), self.weights(second)
        if min(p.min() for p in parts) == 0:
            return 0.0
        logits = np.linspace(-60, 60, 6001)
        logs = [a * log_expit(logits) + b * log_expit(-logits) - betaln(a, b) for a, b in parts]
        excess = np.exp(logs[0]) - np.exp(self.epsilon + logs[1])
        return float(excess.clip(0).sum() * (logits[1] - logits[0]))

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        """Return counts as drawn; a refusal shows as a count of -1."""
        bags = BagSizes(np.full(times, self.total), 2)
        try:
            mechanism = _RememberedCounts(bags, self.epsilon, self.delta)
            return mechanism.draw(np.tile(np.array(data[0]), (times, 1)))
        except ParameterError:
            return np.full((times, 2), -1.0)


class _Refused(_Printed):
    """The same; neighbours are told apart by whether anything is released."""

    def apart(self, first: Counts, second: Counts) -> float:
        refusals = [_sigma(counts, self.epsilon, self.delta) is None for counts in (first, second)]
        return float(refusals[0] != refusals[1])

    def score(self, pair: Pair) -> Score:
        del pair
        return lambda outputs: (outputs[:, 0] < 0).astype(np.float64)


class _RememberedCounts(ScaledCounts):
    """Scaled Dirichlet as printed; the sigma of counts that were seen before is remembered."""

    def _sigma(self, counts: np.ndarray) -> float:
        cached = _sigma(tuple(counts.tolist()), self.epsilon, self.delta)
        return super()._sigma(counts) if cached is None else cached


@lru_cache(maxsize=4096)
def _sigma(counts: Counts, epsilon: float, delta: float) -> float | None:
    return largest_sigma(counts, epsilon, delta)
