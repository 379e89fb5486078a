"""A case of the audit: one mechanism, or one broken copy of it, and what all cases share.

A family of cases is a `Subject`: which data sets are neighbours, what an output is, and its exact
loss where that is known. A broken copy is the same subject with a field changed (`Flaw`).
"""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from suffice.audit.scores import Score, log_density
from suffice.audit.search import DataSet, Pair, Space, neighbouring_pairs
from suffice.privacy.events import Event, Gaussian
from suffice.privacy.noise import CellNoise, Noise

CHEAP, SOME, FEW = 100_000, 20_000, 4_000  # outputs per data set, by what one costs


@dataclass(frozen=True)
class Case:
    """One mechanism with its stated guarantee, neighbouring data sets, and a source of outputs."""

    name: str
    kind: str  # of release
    claimed: float  # the epsilon that the mechanism itself states
    delta: float  # that it states
    pairs: Callable[[np.random.Generator], list[Pair]]  # searches for the worst neighbours
    sample: Callable[
        [Any, int], np.ndarray
    ]  # of a data set and n: outputs (n, numbers) as released
    score: Callable[[Pair], Score] | None  # the exact privacy loss; None where it is unknown
    samples: int = CHEAP  # outputs of each data set to draw
    mu: float | None = None  # the parameter of the Gaussian curve, if the mechanism states one
    broken: bool = False  # whether this is a broken copy, which the audit must catch
    what: str = ""  # is wrong with a broken copy

    def broken_copy(self, name: str, what: str, **changed: Any) -> "Case":
        """Return a broken copy, which has the same stated guarantee and does not keep it.

        ``what`` is wrong, in words; ``changed`` are the fields of the case that differ.
        """
        return replace(self, name=f"{self.name} / {name}", what=what, broken=True, **changed)


def claim(event: Event, delta: float) -> dict[str, Any]:
    """Return the epsilon, delta and mu of an event at ``delta``, as fields of a case."""
    mu = 1 / event.multiplier if isinstance(event, Gaussian) else None
    return {"claimed": event.epsilon(delta), "delta": delta, "mu": mu}


def repeated(noise: Noise, exact: np.ndarray, times: int) -> np.ndarray:
    """Return ``times`` independent noisy copies of a statistic, (times, numbers).

    It is the sampler and the scale of a release. Noise that is drawn cell by cell is drawn for all
    copies in one call.
    """
    flat = exact.ravel()
    if isinstance(noise, CellNoise):
        many = replace(noise.sensitivity, dimension=flat.size * times)
        return replace(noise, sensitivity=many).add(np.tile(flat, times)).reshape(times, -1)
    return np.array([noise.add(flat) for _ in range(times)])


def part(share: float) -> Callable[[Noise], Noise]:
    """Return what makes noise of this share of the scale that the stated guarantee needs."""
    return lambda noise: replace(noise, scale=noise.scale * share)


as_it_is, half = part(1.0), part(0.5)


class Flaw:
    """A broken copy: its name, what is wrong, and which fields of the subject are changed.

    ``samples`` is how many outputs of each data set to draw, None for as many as of the mechanism.
    """

    def __init__(self, name: str, what: str, samples: int | None = None, **changed: Any) -> None:
        self.name, self.what, self.samples, self.changed = name, what, samples, changed


HALF_SCALE = ("half the noise", "the scale is half of what it must be")  # a flaw, in words


class Subject:
    """What is attacked: a frozen dataclass from which a case and its broken copies follow.

    A subclass has the ``kind`` of release.
    """

    kind: Any
    logs: Any = None  # ``logs(outputs, data)``: ln p up to a constant; None where it is unknown
    farthest = 2  # pairs of largest distance that are tried, besides those at boundaries

    def sample(self, data: Any, times: int) -> np.ndarray:
        """Return outputs (times, numbers) of the code that makes releases."""
        raise NotImplementedError

    def stated(self) -> dict[str, Any]:
        """Return what the mechanism itself states, as `claim` has it."""
        raise NotImplementedError

    def space(self) -> Space:
        """Return the data sets that are possible."""
        raise NotImplementedError

    def distance(self, first: DataSet, second: DataSet) -> float:
        """Return how far apart two data sets are; negative if they are not neighbours."""
        return float(first != second)

    def pairs(self, rng: np.random.Generator) -> list[Pair]:
        """Search for the worst neighbouring data sets."""
        return neighbouring_pairs(self.space(), self.distance, rng, self.farthest)

    def attack(self) -> dict[str, Any]:
        """Return neighbours, outputs and exact loss, as fields of a case."""
        score = self.score if self.logs is not None else None
        return {"pairs": self.pairs, "sample": self.sample, "score": score}

    def score(self, pair: Pair) -> Score:
        """Return the exact privacy loss."""
        return lambda outputs: self.logs(outputs, pair.first) - self.logs(outputs, pair.second)

    def case(self, name: str, samples: int) -> Case:
        """Return the case of the mechanism as it is."""
        return Case(name, self.kind, samples=samples, **self.attack(), **self.stated())

    def cases(self, name: str, samples: int, *flaws: Flaw) -> Iterator[Case]:
        """Yield the mechanism as it is, and with every flaw."""
        case = self.case(name, samples)
        yield case
        for flaw in flaws:
            broken: Subject = replace(self, **flaw.changed)  # type: ignore[type-var]
            yield case.broken_copy(
                flaw.name, flaw.what, samples=flaw.samples or samples, **broken.attack()
            )


@dataclass(frozen=True)
class NoisyStatistic(Subject):
    """Exact integers of a data set with the noise of a release, or spoilt noise."""

    _: KW_ONLY
    spoil: Callable[[Noise], Noise] = as_it_is

    def exact(self, data: DataSet) -> np.ndarray:
        """Return what noise is added to."""
        raise NotImplementedError

    def noise(self, data: DataSet) -> Noise:
        """Return the noise of a release of these data; it depends on what is public in them."""
        raise NotImplementedError

    def distance(self, first: DataSet, second: DataSet) -> float:
        """Return how far apart the statistics of two data sets are."""
        return float(np.linalg.norm(self.exact(first) - self.exact(second)))

    def sample(self, data: DataSet, times: int) -> np.ndarray:
        """Return noisy statistics."""
        return repeated(self.spoil(self.noise(data)), self.exact(data), times)

    def logs(self, outputs: np.ndarray, data: DataSet) -> np.ndarray:
        """Return ln p of outputs."""
        return log_density(self.spoil(self.noise(data)), outputs - self.exact(data).reshape(1, -1))
