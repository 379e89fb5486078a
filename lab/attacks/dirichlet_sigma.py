"""One label from Scaled Dirichlet: sigma comes from the counts, and the spread shows sigma.

The attacker knows all labels of a set but one, which is of a rare class or of another (a coin
decides), and says which by the likelihood of what was released. At (epsilon, delta) = (.05, .05)
nobody may be right more often than 1/2 + (e^epsilon - 1 + 2 delta) / (2 (e^epsilon + 1)) = .537.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np
from run import Rate
from scipy.stats import dirichlet

from suffice.owner.proportions import LabelProportions
from suffice.privacy.dirichlet import largest_sigma
from suffice.releases.release import Release

_EPSILON, _DELTA = 0.05, 0.05
_CLASSES, _COMMON, _RARE = 40, 100, 7  # below seven there is no sigma, and the refusal shows it
_MAY = ".537 at most, if it kept its guarantee"


def _counts(rare: int) -> np.ndarray:
    """Return the counts if the last label is of the rare class (one more of it) or not."""
    counts = np.full(_CLASSES, _COMMON)
    counts[0], counts[1] = rare, _COMMON + _RARE + 1 - rare
    return counts


def _released(rare: int, mechanism: str) -> Release:
    labels = np.repeat(np.arange(_CLASSES), _counts(rare))
    owner = LabelProportions(_EPSILON, _DELTA, mechanism, classes=tuple(range(_CLASSES)))
    rows, sets = np.arange(len(labels))[:, None] % 7.0, np.zeros(len(labels), dtype=int)
    return owner.release(rows, labels, sets, ledger=None, unprotected=True)


@cache
def _sigma(rare: int) -> float:
    return largest_sigma(_counts(rare), _EPSILON, _DELTA, "exact")


def _by_spread(mechanism: str, coin: np.random.Generator) -> bool:
    rare = _RARE + int(coin.integers(0, 2))
    (shares,) = _released(rare, mechanism).arrays["proportions"]
    shares = np.maximum(shares, 1e-12) / np.maximum(shares, 1e-12).sum()

    def likelihood(guess: int) -> float:
        return float(dirichlet.logpdf(shares, _sigma(guess) * _counts(guess)))

    return max((_RARE, _RARE + 1), key=likelihood) == rare


def _by_share(mechanism: str, coin: np.random.Generator) -> bool:
    """Guess by the proportion of the rare class, the best attack where the noise is public."""
    rare = _RARE + int(coin.integers(0, 2))
    (shares,) = _released(rare, mechanism).arrays["proportions"]
    return (_RARE + int(shares[0] * _counts(rare).sum() > _RARE + 0.5)) == rare


def rates(trials: int) -> Iterator[Rate]:
    """Yield how often the label is guessed."""
    coin = np.random.default_rng(0)
    right = sum(_by_spread("scaled-dirichlet", coin) for _ in range(trials))
    yield Rate("scaled-dirichlet, by its spread", right, trials, _MAY)
    for mechanism in ("scaled-dirichlet-bounded", "gaussian"):
        right = sum(_by_share(mechanism, coin) for _ in range(trials))
        yield Rate(f"{mechanism}, by the proportion", right, trials, _MAY)
