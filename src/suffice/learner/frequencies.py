"""The proportion of each possible value, from randomised answers alone, with intervals.

For one discrete column with channel P and observed frequencies f~, the maximum-likelihood marginal
p maximises sum_i f~_i log (P p)_i; EM multiplies p_j by sum_i f~_i P_ij / (P p)_i until it stands
still (Barber 2020, eq. 65, with the expectation computed in place of sampled). All columns of one
kind go together; with keep-else-uniform noise the sum is b sum_k R_k + (a - b) R_j, R = f~ / (P p),
and no matrix is needed.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from scipy.special import ndtri

from suffice.errors import ParameterError
from suffice.learner.reports import Reports, question_columns
from suffice.models.simplex import nearest_proportions
from suffice.releases.columns import Added, Flips, SpreadColumn
from suffice.releases.release import Release

# Where Agresti and Coull's intervals cover too seldom, and by how much they are then widened, so
# that those at 95 % cover 95.5 (lab/bench/coverage.py).
_HARD_CONDITION = 10.0  # condition number of a channel
_RARE_SHARE = 0.05  # distance of an interval's end from 0 or 1
_WIDENING = 1.03  # factor of the half width


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Holds the estimated proportion of each possible value of a column, with an interval."""

    name: str  # of the column; "label" for the label
    states: tuple[Any, ...]  # the K possible values
    shares: np.ndarray  # (K,), as are both ends of the intervals
    low: np.ndarray
    high: np.ndarray
    level: float  # the confidence level of each interval

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as plain JSON values, by name."""
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
    """Return the proportion of each true value from answers that went through ``noise``.

    The intervals, one per value, are those of Agresti and Coull (1998) for a mean. They are wider
    where a proportion is small or the noise is strong, and stay within [0, 1].

    Parameters
    ----------
    codes : array
        The randomised answers, as positions of possible values from 0 on.
    noise : Flips
        The noise that the answers went through.
    states : tuple, optional
        The possible values; 0, 1, 2, ... unless set.
    name : str, default=""
        The name of the column.
    method : {"likelihood", "inverse"}, default="likelihood"
        "inverse" is P^-1 f~, unbiased, and for two values Warner's estimate (f~ - p) / (1 - 2p),
        corrected (docs/errata.md). It can leave [0, 1]. "likelihood" is the most likely
        distribution; both agree wherever the inverse is a distribution.
    level : float, default=0.95
        The confidence level of each interval.

    Returns
    -------
    Frequencies
        The proportions and their intervals.

    Raises
    ------
    ParameterError
        If an answer is not a position of a possible value, or there are no answers.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> from suffice.releases.columns import Flips
    >>> answers = np.repeat([0, 1], [620, 380])
    >>> estimate = suffice.estimate_frequencies(answers, Flips(2, keep=0.8))
    >>> estimate.shares.round(2)
    array([0.7, 0.3])
    """
    if method not in {"likelihood", "inverse"} or not 0 < level < 1:
        raise ParameterError(
            "method must be likelihood or inverse, and level must lie between 0 and 1. Change them."
        )
    answers = np.asarray(codes)
    counts = np.bincount(answers.ravel(), minlength=noise.states).astype(np.float64)
    if len(counts) > noise.states or not answers.size:
        raise ParameterError(
            "codes must be the numbers of possible values, from 0 on, for at least one answer."
        )
    low, high = _intervals(counts[None, :], noise, level)
    observed = counts / counts.sum()
    shares = (
        deconvolve(observed[None, :], noise)[0]
        if method == "likelihood"
        else np.linalg.solve(noise.matrix, observed)
    )
    state_names = tuple(range(noise.states)) if states is None else states
    return Frequencies(name, state_names, shares, low[0], high[0], level)


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
    hard = np.linalg.cond(noise.matrix) > _HARD_CONDITION
    low, high = np.empty_like(counts), np.empty_like(counts)
    for k, weights in enumerate(inverse):
        ends = np.array([weights.min(), weights.max()])
        centre = (counts @ weights + z**2 * ends.mean()) / total
        second = (counts @ weights**2 + z**2 * (ends**2).mean()) / total
        reach = z * np.sqrt(np.maximum(second - centre**2, 0.0) / total)
        rare = hard | (np.minimum(centre - reach, 1 - centre - reach) < _RARE_SHARE)
        reach = np.where(rare, _WIDENING * reach + (ends[1] - ends[0]) / (2 * total), reach)
        low[:, k], high[:, k] = np.clip(centre - reach, 0, 1), np.clip(centre + reach, 0, 1)
    return low, high


def release_frequencies(
    release: Release, *, method: str = "likelihood", level: float = 0.95
) -> list[Frequencies]:
    """Return the proportions of the label, then of every discrete column, of a release of answers.

    ``method`` and ``level`` are those of `estimate_frequencies`. Of whole-record reports, the last
    proportions are those of all combinations of answers, and "likelihood" is the distribution that
    is nearest to the unbiased estimate.
    """
    if release.kind == "reports":
        return reported_frequencies(release, method, level)
    if "channel" not in release.arrays:
        raise ParameterError(
            f"This {release.kind} release holds no randomised answers. Use a release of responses."
        )
    channel = Flips(
        len(release.classes), table=tuple(map(tuple, release.arrays["channel"].tolist()))
    )
    columns = [("label", release.classes, channel, release.arrays["answers"])]
    discrete = 0
    for item in release.details.get("columns", ()):
        column = SpreadColumn.from_json(item)
        if isinstance(column.noise, Flips):
            cells = release.arrays["codes"][:, discrete]
            columns.append((column.name, column.states or (), column.noise, cells))
            discrete += 1
    return [
        estimate_frequencies(cells, noise, states=states, name=name, method=method, level=level)
        for name, states, noise, cells in columns
    ]


def reported_frequencies(release: Release, method: str, level: float) -> list[Frequencies]:
    """Return the proportions of the answers to each question, then of all combinations."""
    reports, questions = Reports.of(release), question_columns(release)
    names = [(column.name, column.states or ()) for column in questions]
    joint = tuple(product(*(states for _, states in names)))
    wanted = [*zip(names, reports.marginals(), strict=True)]
    wanted.append((("all answers together", joint), reports.shares.ravel()))
    found = []
    for (name, states), shares in wanted:
        low, high = reports.interval(shares, len(joint) // len(states), level)
        if method == "likelihood":
            shares = nearest_proportions(shares[None, :])[0]  # noqa: PLW2901  # a distribution
        found.append(Frequencies(name, states, shares, low, high, level))
    found[0] = replace(found[0], name="label")
    return found


@dataclass(frozen=True)
class Mean:
    """Holds the estimated mean of a column of numbers, with an interval."""

    name: str
    mean: float  # of the true numbers, each held to the declared range
    low: float
    high: float
    level: float  # the confidence level of the interval


def release_means(release: Release, *, level: float = 0.95) -> list[Mean]:
    """Return the mean of every column of numbers of a release of answers, with an interval.

    The noise on answers has the mean zero, so their mean is that of the true numbers. The interval
    counts the noise and the sampling of people.
    """
    columns = [SpreadColumn.from_json(item) for item in release.details.get("columns", ())]
    noises = [(column.name, column.noise) for column in columns]
    added = [(name, noise) for name, noise in noises if isinstance(noise, Added)]
    answers = release.arrays.get("values", np.empty((0, 0)))
    reach, means = float(ndtri((1 + level) / 2)), []
    for (name, noise), cells in zip(added, answers.T, strict=True):
        # Of few answers their own variance says little; that of the noise is known.
        variance = max(float(cells.var()), noise.variance)
        mean, off = float(cells.mean()), reach * float(np.sqrt(variance / len(cells)))
        means.append(Mean(name, mean, mean - off, mean + off, level))
    return means


def observed_frequencies(codes: np.ndarray, states: int) -> np.ndarray:
    """Return the share of each state in each column of ``codes`` (n, q), of shape (q, states)."""
    columns = codes.shape[1]
    flat = codes.astype(np.int64) + states * np.arange(columns)
    counts = np.bincount(flat.ravel(), minlength=states * columns)
    return counts.reshape(columns, states) / len(codes)


def deconvolve(frequencies: np.ndarray, noise: Flips) -> np.ndarray:
    """Return the clean marginals (q, states) of columns that went through the same noise."""
    return maximum_likelihood(frequencies, noise.matrix, noise.keep)


def maximum_likelihood(
    frequencies: np.ndarray, channel: np.ndarray, keep: float | None = None
) -> np.ndarray:
    """Return the distributions whose images under ``channel`` explain ``frequencies`` best.

    ``keep`` is the diagonal of a channel that sends what it does not keep to all others evenly.
    """
    states = frequencies.shape[1]
    other = None if keep is None else (1 - keep) / (states - 1)
    # Where P^-1 f~ is a distribution it is the answer itself; else EM starts near it.
    if keep is None or other is None:
        inverse = np.linalg.solve(channel, frequencies.T).T
    else:
        inverse = (frequencies - other) / (keep - other)
    clean = np.maximum(inverse, 1e-3 / states)  # EM cannot leave zero
    clean /= clean.sum(axis=1, keepdims=True)
    for _ in range(500):
        if keep is None or other is None:
            ratio = frequencies / (clean @ channel.T)
            step = clean * (ratio @ channel)
        else:
            ratio = frequencies / (other + (keep - other) * clean)
            step = clean * (other * ratio.sum(axis=1, keepdims=True) + (keep - other) * ratio)
        moved = float(np.abs(step - clean).max())
        clean = step
        if moved < 1e-7:
            break
    return clean / clean.sum(axis=1, keepdims=True)
