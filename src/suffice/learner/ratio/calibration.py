"""Calibration of scores by the bags that rows are in, and by how many of each class a bag has.

Scores become class posteriors by one slope and one constant per class (Alexandari et al. 2020),
those that explain the bags of rows best through the channel T of `bag_likelihood`.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from suffice.learner.ratio.bags import KnownBags
from suffice.learner.weak.moments import group_sums

__all__ = ["Calibration", "LabelCounts", "calibrate", "calibrate_by_bags"]

_LEAST = 1e-300
_TOL = 4e-3  # of a gradient whose standard deviation is some .2 / sqrt(rows)
_PRIOR = 1.0  # weight, in rows, of knowing that scores are calibrated already
_STEEPEST = 20.0  # logarithm of a slope; a search may try more, and numbers would overflow


@dataclass(frozen=True, eq=False)
class Calibration:
    """Computes log p(k | x) = log softmax(slope s(x) + shifts)_k from scores s.

    ``bend`` is the inverse Hessian where it was found, with which a search nearby starts.
    """

    slope: float
    shifts: np.ndarray
    bend: np.ndarray | None = None

    def log_posteriors(self, scores: np.ndarray) -> np.ndarray:
        """Return log p(k | x), (n, K)."""
        return np.asarray(log_softmax(self.slope * scores + self.shifts, axis=1))


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """What the proportions P say of how many rows of each class a bag has.

    Given a bag's rows, row x is of class k with probability r_k(x), and so the counts N_i have the
    mean sum_x r(x) and the covariance sum_x (diag r - r r^T), to which noise on P adds n_i^2 v_i.
    The likelihood of bags takes rows for independent draws; that the counts came out as n_i P_i is
    the factor it leaves out, here by its normal approximation with the covariance held fixed:

        1/2 sum_i (sum_x r(x) - n_i P_i)^T C_i^-1 (sum_x r(x) - n_i P_i)

    ``expected`` (M, K) is n P; ``precisions`` (M, K, K) are C^-1.
    """

    expected: np.ndarray
    precisions: np.ndarray

    @classmethod
    def of(
        cls, bags: KnownBags, codes: np.ndarray, weights: np.ndarray, within: np.ndarray | None
    ) -> "LabelCounts | None":
        """Return the counts of rows of these bags; None where their noise is not known.

        ``within`` (n, K) is r of all rows of the bags. None for a sample of them, whose counts are
        those of n_i independent draws: C_i = n_i (diag P_i - P_i P_i^T).
        """
        if bags.variances is None:
            return None
        sizes = np.bincount(codes, weights=weights, minlength=len(bags.names))
        expected = sizes[:, None] * bags.proportions
        means, seconds = expected, expected[:, :, None] * bags.proportions[:, None, :]
        if within is not None:
            parts = [within[codes == i] for i in range(len(sizes))]
            means = np.stack([posteriors.sum(axis=0) for posteriors in parts])
            seconds = np.stack([posteriors.T @ posteriors for posteriors in parts])
        noise = 1.0 + bags.variances * sizes**2  # one row is as near as counts need be
        diagonal = np.eye(len(bags.classes)) * (means + noise[:, None])[:, None, :]
        return cls(expected, np.linalg.inv(diagonal - seconds))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Scores of rows of bags, and how likely their bags are when these are calibrated."""

    scores: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    channel: np.ndarray

    def within(self, calibration: Calibration) -> np.ndarray:
        """Return the probability of each class given row and bag, (n, K)."""
        joint = self.channel[self.codes] * np.exp(calibration.log_posteriors(self.scores))
        return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), _LEAST))

    def fit(self, start: Calibration, labels: LabelCounts | None) -> Calibration:
        """Return the calibration that explains bags best, and what is known of their labels."""
        total, chances = self.weights.sum(), self.channel[self.codes]
        weights = self.weights[:, None]

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            slope = _slope(flat[0])
            clean = softmax(slope * self.scores + flat[1:], axis=1)
            joint = chances * clean
            chance = np.maximum(joint.sum(axis=1), _LEAST)
            within = joint / chance[:, None]
            value = _PRIOR / 2 * float(flat @ flat) - float(self.weights @ np.log(chance))
            pull = weights * (clean - within)
            if labels is not None:
                off = group_sums(weights * within, self.codes, len(self.channel)) - labels.expected
                force = np.einsum("ijk,ik->ij", labels.precisions, off)
                value += float(np.vdot(force, off)) / 2
                each = force[self.codes]
                each -= (within * each).sum(axis=1, keepdims=True)
                pull += weights * within * each
            by_slope = slope * float(np.vdot(pull, self.scores))
            gradient = np.append(by_slope, pull.sum(axis=0)) + _PRIOR * flat
            return value / total, gradient / total

        first = np.append(np.log(start.slope), start.shifts)
        options = {"gtol": _TOL / np.sqrt(total), "hess_inv0": start.bend}
        optimum = minimize(objective, first, jac=True, method="BFGS", options=options)
        bend = (optimum.hess_inv + optimum.hess_inv.T) / 2
        return Calibration(_slope(optimum.x[0]), optimum.x[1:], bend)


def _slope(logarithm: float) -> float:
    return float(np.exp(np.clip(logarithm, -_STEEPEST, _STEEPEST)))


def calibrate_by_bags(
    bags: KnownBags, scores: np.ndarray, codes: np.ndarray, start: Calibration | None = None
) -> Calibration:
    """Return the slope and shifts that explain the bags of rows best, through their channel.

    ``scores`` (n, K) of rows, ``codes`` of their bags. A weak prior holds the slope near one and
    the shifts near zero: classes that are told apart without error would else have no best slope.
    """
    first = start or Calibration(1.0, np.zeros(scores.shape[1]))
    return _Rows(scores, codes, np.ones(len(codes)), bags.channel).fit(first, None)


def calibrate(
    bags: KnownBags,
    scores: np.ndarray,
    codes: np.ndarray,
    start: Calibration,
    *,
    counts: np.ndarray | None = None,
    complete: bool = False,
) -> Calibration:
    """Return the same with what is known of the labels, from ``start``, that of bags alone.

    ``counts`` says how often each row counts, ``complete`` that these are all rows of the bags, and
    not a sample.
    """
    weights = np.ones(len(codes)) if counts is None else counts
    rows = _Rows(scores, codes, weights, bags.channel)
    within = rows.within(start) if complete else None
    return rows.fit(start, LabelCounts.of(bags, codes, weights, within))
