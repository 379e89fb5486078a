"""Proportions that are drawn from an urn of counts: Dirichlet draws, sound and as printed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln, log_expit

from suffice.audit.case import FEW, Case, Flaw, Subject
from suffice.audit.cases_proportions import NoisyBag
from suffice.audit.scores import Score
from suffice.audit.search import DataSet, Pair, Space, neighbouring_pairs
from suffice.errors import ParameterError
from suffice.owner.proportions import BagSizes, BoundedCounts, PriorCounts, ScaledCounts
from suffice.privacy.dirichlet import bounded_sigma, largest_sigma, pair_delta
from suffice.privacy.response import enough_balls

Counts = tuple[int, ...]


def cases() -> Iterator[Case]:
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


class _Prior(NoisyBag):
    """Proportions that are drawn from noisy counts."""

    score = None  # type: ignore[assignment]  # it is unknown

    def distance(self, first: DataSet, second: DataSet) -> float:
        """Return how much oftener one count than the other is cut off at zero."""
        rare = [np.exp(-self.epsilon * self.counts(data)[0]) for data in (first, second)]
        return float(np.abs(rare[0] - rare[1]).max())

    def pairs(self, rng: np.random.Generator) -> list[Pair]:
        return neighbouring_pairs(self.space(), self.distance, rng, 1)

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        exact = np.tile(self.counts(data), (times, 1))
        return PriorCounts(self.noisy_counts(times, data[0])).draw(exact).reshape(times, -1)


@dataclass(frozen=True)
class _Urn(Subject):
    """Counts of one bag, released as balls of an urn whose parameters are ``weights(counts)``.

    A data set is one tuple of counts.
    """

    kind = "proportions"
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
        raise NotImplementedError

    def distance(self, first: Counts, second: Counts) -> float:
        raise NotImplementedError

    def pairs(self, rng: np.random.Generator) -> list[Pair]:
        """Return counts of which one label was moved."""

        def apart(first: DataSet, second: DataSet) -> float:
            moved = np.abs(np.subtract(first[0], second[0])).sum()
            fits = moved == 2 and sum(first[0]) == sum(second[0]) == self.total
            return self.distance(first[0], second[0]) if fits else -1.0

        return neighbouring_pairs(Space((self.choices,)), apart, rng, 1)

    def score(self, pair: Pair) -> Score:
        """Return the exact loss of a Dirichlet-multinomial draw."""
        first, second = (self.weights(data[0]) for data in (pair.first, pair.second))

        def log_of(outputs: np.ndarray, weights: np.ndarray) -> np.ndarray:
            """Return ln p of balls drawn from the urn, up to what is the same for all."""
            balls = np.rint(self.shares(outputs) * enough_balls(float(weights.sum())))
            total, number = weights.sum(), balls.sum(axis=1)
            positive = np.where(weights > 0, weights, 1.0)
            parts = gammaln(balls + positive) - gammaln(positive)
            parts = np.where(weights > 0, parts, np.where(balls > 0, -np.inf, 0.0))  # no such ball
            with np.errstate(invalid="ignore"):  # an empty urn, of which nothing is drawn
                return np.asarray(parts.sum(axis=1) + gammaln(total) - gammaln(total + number))

        return lambda outputs: log_of(outputs, first) - log_of(outputs, second)


@dataclass(frozen=True)
class _Bounded(_Urn):
    """The sound mechanism, which pads the counts by kappa."""

    mechanism: BoundedCounts

    def weights(self, counts: Counts) -> np.ndarray:
        return self.mechanism.sigma * (np.array(counts) + self.mechanism.kappa)

    def shares(self, outputs: np.ndarray) -> np.ndarray:
        kappa = self.mechanism.kappa
        return (outputs + kappa) / (self.total + 2 * kappa)

    def distance(self, first: Counts, second: Counts) -> float:
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

    def shares(self, outputs: np.ndarray) -> np.ndarray:
        return outputs / self.total

    def distance(self, first: Counts, second: Counts) -> float:
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

    def distance(self, first: Counts, second: Counts) -> float:
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
