"""How often each state occurs, from randomised answers alone, with intervals that cover."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from suffice.errors import ParameterError
from suffice.learner.spread.priors import deconvolved
from suffice.release.artifact import Release
from suffice.release.spread import Flips, SpreadColumn

__all__ = ["Frequencies", "estimate_frequencies", "release_frequencies"]

_HARD = 10.0  # condition number of a channel
_RARE = 0.05  # a share
_WIDER = 0.03  # at 95 %: to cover 95.5


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Holds the estimated share of each state, and the two ends of its interval."""

    name: str
    states: tuple[Any, ...]
    shares: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as plain JSON values."""
        return {
            "name": self.name,
            "states": list(self.states),
            "frequencies": self.shares.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "level": self.level,
        }


def estimate_frequencies(
    codes: np.ndarray,
    noise: Flips,
    *,
    states: tuple[Any, ...] | None = None,
    name: str = "",
    method: str = "likelihood",
    level: float = 0.95,
) -> Frequencies:
    """Return the share of each true state from answers that went through ``noise``.

    ``method``: "inverse" is P^-1 f~, unbiased, and for two states Warner's estimate
    (f~ - p) / (1 - 2p), corrected (docs/errata.md); it can leave [0, 1]. "likelihood" is the most
    likely distribution, which is the same wherever that is one. The intervals, one per state, are
    Agresti and Coull's (1998) of a mean, widened where a share is small or the channel hard, and
    stay within [0, 1].
    """
    if method not in {"likelihood", "inverse"} or not 0 < level < 1:
        raise ParameterError("method must be likelihood or inverse, and level between 0 and 1.")
    answers = np.asarray(codes)
    counts = np.bincount(answers.ravel(), minlength=noise.states).astype(np.float64)
    if len(counts) > noise.states or not answers.size:
        raise ParameterError("answers must be codes of the declared states, one or more.")
    low, high = _intervals(counts[None, :], noise, level)
    observed = counts / counts.sum()
    shares = (
        deconvolved(observed[None, :], noise)[0]
        if method == "likelihood"
        else np.linalg.solve(noise.matrix, observed)
    )
    named = tuple(range(noise.states)) if states is None else states
    return Frequencies(name, named, shares, low[0], high[0], level)


def _intervals(counts: np.ndarray, noise: Flips, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends for each row of answer counts (rows, states).

    The share of state k is the mean over answers i of w_i = (P^-1)_ki. Agresti and Coull's z^2
    further answers go half to the largest and half to the smallest w: with two values of w, as of
    keep-else-uniform noise, it is their interval of a proportion. Where that may cover too seldom
    (shares near 0 or 1, or a hard channel) it is a little wider, and half the weight of one answer
    is added to either side.
    """
    z = float(ndtri((1 + level) / 2))
    total = counts.sum(axis=1) + z**2
    inverse = np.linalg.inv(noise.matrix)
    hard = np.linalg.cond(noise.matrix) > _HARD
    low, high = np.empty_like(counts), np.empty_like(counts)
    for k, weights in enumerate(inverse):
        ends = np.array([weights.min(), weights.max()])
        centre = (counts @ weights + z**2 * ends.mean()) / total
        second = (counts @ weights**2 + z**2 * (ends**2).mean()) / total
        reach = z * np.sqrt(np.maximum(second - centre**2, 0.0) / total)
        rare = hard | (np.minimum(centre - reach, 1 - centre - reach) < _RARE)
        reach = reach * (1 + _WIDER * rare) + rare * (ends[1] - ends[0]) / (2 * total)
        low[:, k], high[:, k] = np.clip(centre - reach, 0, 1), np.clip(centre + reach, 0, 1)
    return low, high


def release_frequencies(
    release: Release, *, method: str = "likelihood", level: float = 0.95
) -> list[Frequencies]:
    """Return the shares of the label and of every discrete column of a release of answers."""
    if "channel" not in release.arrays:
        raise ParameterError(f"a {release.kind} release holds no randomised answers.")
    channel = Flips(
        len(release.classes), table=tuple(map(tuple, release.arrays["channel"].tolist()))
    )
    found = [("label", release.classes, channel, release.arrays["answers"])]
    discrete = 0
    for item in release.details.get("columns", ()):
        column = SpreadColumn.from_json(item)
        if isinstance(column.noise, Flips):
            cells = release.arrays["codes"][:, discrete]
            found.append((column.name, column.states or (), column.noise, cells))
            discrete += 1
    return [
        estimate_frequencies(cells, noise, states=states, name=name, method=method, level=level)
        for name, states, noise, cells in found
    ]
