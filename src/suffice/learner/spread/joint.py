"""Few discrete columns: every combination of their states, and how likely each is.

Let x run over the M = K_1 K_2 ... combinations of states. Columns are randomised one by one, so

    P[x~ | x] = prod_j P_j[x~_j | x_j],     p(x | x~) = p(x) P[x~ | x] / sum_x' p(x') P[x~ | x'],

and the expectation of the clean model is a finite sum, without any approximation of the score. With
p(x) learnt by EM over the combinations, features may depend on each other in any way: the estimate
is consistent where independent columns (Barber 2020, Section 5) are not.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from suffice.learner.spread.frequencies import maximum_likelihood
from suffice.learner.spread.likelihood import Knowledge, Pull, model
from suffice.learner.spread.posterior import Corrupted, Prior, coordinates, marginals_of
from suffice.release.spread import Flips

__all__ = ["JointStates", "joint_states"]

_MOST_COMBINATIONS = 1024  # the table of posteriors is their square: 8 MB
_RECORDS_PER_COMBINATION = 10  # from which on p(x) is learnt combination by combination


@dataclass(frozen=True, eq=False)
class JointStates(Knowledge):
    """Holds the clean combinations and p(x | x~) for each observed one.

    ``points`` (M, d) are the coordinates of the combinations, the constant one last; ``posterior``
    (M, M) has one row per observed combination; ``observed`` (n,) says which one each record shows.
    """

    points: np.ndarray
    posterior: np.ndarray
    observed: np.ndarray

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self.observed)

    @property
    def width(self) -> int:
        """The number of coordinates."""
        return self.points.shape[1]

    @property
    def expected_rows(self) -> np.ndarray:
        """E[x] of each clean record."""
        return np.asarray((self.posterior @ self.points)[self.observed])

    def select_rows(self, rows: np.ndarray) -> "JointStates":
        """Return what is known of some of the records."""
        return replace(self, observed=self.observed[rows])

    def expected(self, theta: np.ndarray) -> tuple[np.ndarray, Pull]:
        """Return E[p(c | x)] of each record, and the map of gradients back to ``theta``."""
        clean, by_score = model(self.points @ theta)

        def pull(by_clean: np.ndarray) -> np.ndarray:
            columns = by_clean.reshape(self.count, -1).T
            sums = [np.bincount(self.observed, c, len(self.posterior)) for c in columns]
            by_combination = self.posterior.T @ np.stack(sums, axis=1)
            return np.asarray(self.points.T @ by_score(by_combination.reshape(clean.shape)))

        return (self.posterior @ clean)[self.observed], pull


def joint_states(records: Corrupted, prior: Prior) -> JointStates | None:
    """Return what is known of clean combinations; None where there are too many of them.

    ``prior``: as of `clean_features`, its marginals taken as independent, or "learned": any
    distribution of combinations, if there are records enough to tell it.
    """
    noises = [c.noise for c in records.columns if isinstance(c.noise, Flips)]
    combinations = math.prod(noise.states for noise in noises)
    if not noises or len(noises) < len(records.columns) or combinations > _MOST_COMBINATIONS:
        return None
    learned = isinstance(prior, str) and prior == "learned"
    if learned and records.count < _RECORDS_PER_COMBINATION * combinations:
        return None
    sizes = tuple(noise.states for noise in noises)
    observed_codes = np.ravel_multi_index(
        tuple(np.asarray(c, dtype=np.int64) for c in records.cells), sizes
    )
    channel = _kronecker([noise.matrix for noise in noises])
    if learned:
        observed = np.bincount(observed_codes, minlength=combinations) / records.count
        likely = maximum_likelihood(observed[None, :], channel)[0]
    else:
        likely = _kronecker(_marginals(records, prior))
    joint = channel * likely
    posterior = joint / np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return JointStates(_points(records, sizes), posterior, observed_codes)


def _marginals(records: Corrupted, prior: Prior) -> list[np.ndarray]:
    marginals = []
    for j, column in enumerate(records.columns):
        cells, noise = records.cells[j][:, None], column.noise
        assert isinstance(noise, Flips)  # noqa: S101  # for the type checker
        own_prior = None if isinstance(prior, str) else [np.asarray(prior[j])]
        marginals.append(marginals_of(cells, noise, prior, own_prior)[0])
    return marginals


def _kronecker(factors: list[np.ndarray]) -> np.ndarray:
    """Return the Kronecker product of the factors, from left to right."""
    product = factors[0]
    for factor in factors[1:]:
        product = np.kron(product, factor)
    return product


def _points(records: Corrupted, sizes: tuple[int, ...]) -> np.ndarray:
    """Return the coordinates of all combinations, the last column changing fastest."""
    places = np.indices(sizes).reshape(len(sizes), -1)
    parts = [coordinates(c)[at] for c, at in zip(records.columns, places, strict=True)]
    return np.hstack([*parts, np.ones((places.shape[1], 1))])
