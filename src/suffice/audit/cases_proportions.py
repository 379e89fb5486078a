"""Label proportions of sets: noisy counts, and sets formed by response.

The cases of Dirichlet draws are in a module of their own, which is named as text.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from suffice.audit.case import CHEAP, HALF_SCALE, SOME, Case, Flaw, Subject, claim
from suffice.audit.scores import Score, shift_score
from suffice.audit.search import DataSet, Pair, Space, neighbouring_pairs
from suffice.owner.proportions import (
    AdditiveCounts,
    BagSizes,
    LabelProportions,
    assign_bags,
    count_noise,
    skew_epsilon,
)

_DIRICHLET = "suffice.audit.cases_dirichlet"
# The sizes of the bags that are released together; the labels fill the first of them.
_BAGS = {"one bag": (6,), "a bag of one row": (1,), "an empty bag": (6, 0)}


@dataclass(frozen=True)
class NoisyBag(Subject):
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
        """Return what the noise states."""
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

    def space(self) -> Space:
        """Return bags of these names with all labels; only a label may change."""
        most = max(_BAGS[name][0] for name in self.names)
        labels = (tuple(range(self.classes)),) * most
        return Space((self.names, *labels), tuple(range(1, 1 + most)))

    def pairs(self, rng: np.random.Generator) -> list[Pair]:
        """Return labels whose counts are farthest apart."""
        return neighbouring_pairs(self.space(), self.distance, rng)


def at(epsilon: float) -> Iterator[Case]:
    """Yield the mechanisms of this family at another epsilon; Gaussian noise at delta = .01."""
    yield NoisyBag("laplace", 2, epsilon).case("proportions laplace, 2 classes", CHEAP)
    yield NoisyBag("laplace", 3, epsilon).case("proportions laplace, 3 classes", CHEAP)
    yield NoisyBag("gaussian", 3, epsilon, 0.01).case("proportions gaussian", SOME)


def cases() -> Iterator[Case]:
    """Yield the cases of this family."""
    two = NoisyBag("laplace", 2, 1.0)
    yield from two.cases(
        "proportions laplace, 2 classes", CHEAP, Flaw(*HALF_SCALE, SOME, shrink=0.5)
    )
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
    yield from NoisyBag("laplace", 3, 1.0).cases(
        "proportions laplace, 3 classes", CHEAP,
        Flaw("sensitivity 1", "a changed label is said to move one count", SOME, shrink=0.5),
    )  # fmt: skip
    yield from NoisyBag("laplace", 2, 1.0, overlap=2).cases(
        "proportions laplace, overlapping bags", CHEAP,
        Flaw("sets taken for disjoint", "a row in two sets is charged as if it were in one", SOME,
             shrink=0.5),
    )  # fmt: skip
    yield from NoisyBag("gaussian", 3, 4.0, 0.01).cases(
        "proportions gaussian", SOME,
        Flaw("factor 1 for sqrt 2", "the 2-norm of a change is said to be 1", shrink=0.5**0.5),
    )  # fmt: skip
    # A release refuses bags of too few rows.
    whole = replace(two, names=("one bag",)).case("proportions laplace, a whole release", SOME)
    yield replace(whole, sample=_through(LabelProportions(1.0, mechanism="laplace")))
    yield whole.broken_copy(
        "epsilon doubled",
        "the noise of twice the epsilon that is stated",
        sample=_through(LabelProportions(2.0, mechanism="laplace")),
    )
    yield from import_module(_DIRICHLET).cases()
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
