"""A case of the audit: one mechanism, or one broken copy of it, and what all cases share."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from suffice.audit.scores import Score
from suffice.audit.search import Pair
from suffice.privacy.events import Event, Gaussian
from suffice.privacy.noise import CellNoise, Noise

__all__ = ["CHEAP", "FEW", "SOME", "Case", "as_it_is", "claim", "half", "repeated"]

CHEAP, SOME, FEW = 100_000, 20_000, 4_000  # outputs per data set, by what one costs


@dataclass(frozen=True)
class Case:
    """One mechanism with its stated guarantee, neighbouring data sets, and a source of outputs.

    Parameters
    ----------
    name
        The name of the case.
    kind
        The kind of release.
    claimed, delta
        The epsilon and the delta that the mechanism itself states.
    pairs
        ``pairs(rng)`` searches for the worst neighbouring data sets.
    sample
        ``sample(data_set, n)`` returns n outputs (n, numbers) of the code that makes releases.
    score
        ``score(pair)`` is the exact privacy loss; None where it is unknown.
    samples
        How many outputs of each data set to draw.
    mu
        The parameter of the Gaussian curve, if the mechanism states one.
    broken
        Whether this is a broken copy, which the audit must catch.
    what
        What is wrong with a broken copy; empty for a mechanism.
    """

    name: str
    kind: str
    claimed: float
    delta: float
    pairs: Callable[[np.random.Generator], list[Pair]]
    sample: Callable[[Any, int], np.ndarray]
    score: Callable[[Pair], Score] | None
    samples: int = CHEAP
    mu: float | None = None
    broken: bool = False
    what: str = ""

    def broken_copy(self, name: str, what: str, **changed: Any) -> "Case":
        """Return a broken copy: the same stated guarantee for a mechanism that does not keep it.

        Parameters
        ----------
        name
            What is broken, in a few words.
        what
            What is wrong, in words.
        changed
            The fields of the case that differ.
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


def as_it_is(noise: Noise) -> Noise:
    """Return the noise of a release."""
    return noise


def half(noise: Noise) -> Noise:
    """Return noise of half the scale that the stated guarantee needs."""
    return replace(noise, scale=noise.scale / 2)
