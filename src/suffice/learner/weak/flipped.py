"""Labels that were flipped at known rates."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.learner.weak.moments import (
    CONDITION_LIMIT,
    OperatorEstimate,
    Supervision,
    as_operator,
    codes_of,
    group_sums,
    noise_of_gram,
    per_column,
)
from suffice.models.rows import WeightedRows, as_weighted
from suffice.tables.labels import check_classes

__all__ = ["FlippedLabels"]


@dataclass(frozen=True, eq=False)
class FlippedLabels(Supervision):
    """Computes an unbiased mean operator from labels flipped independently at known rates.

    M = (1/m) sum_i x_i (P^-1 e_o(i))^T with o(i) the observed label and P_ij = P(observed i | true
    j); for two classes this is mu = (1/m) sum_i y_i x_i with

        y_i = (y~_i + rho_pos - rho_neg) / (1 - rho_pos - rho_neg).

    Assumes that a flip depends on the true class only, neither on the row nor on other flips.

    Parameters
    ----------
    labels : array of shape (m,)
        One observed label per row.
    classes : sequence
        The K classes; the second of two counts as +1.
    rates : array of shape (K, K) or (2,)
        P with P_ij = P(observed i | true j). For two classes also the pair (rho_neg, rho_pos): the
        probability that a label of the first (second) class was flipped.
    """

    labels: Any
    classes: Any
    rates: Any

    def estimate(self, rows: np.ndarray | WeightedRows) -> OperatorEstimate:
        """Return the operator, corrected for the flips.

        Parameters
        ----------
        rows : array of shape (m, d) or WeightedRows
            Mapped rows.

        Returns
        -------
        OperatorEstimate
            The operator, the covariance of its error, and a note on what that covers.

        Raises
        ------
        ParameterError
            If the rates are no probabilities, or cannot be inverted.
        """
        classes = check_classes(self.classes)
        count, m = len(classes), len(rows)
        inverse = np.linalg.inv(_channel(self.rates, count))
        codes = codes_of(self.labels, classes, rows)
        # Natarajan et al. 2013, Lemma 1; Patrini et al. 2017, Theorem 1 (backward correction)
        matrix = (group_sums(rows, codes, count) / m).T @ inverse.T
        # Var(P^-1 e_o | true j)_k is linear in e_j, so P^-1 gives its unbiased estimate from o:
        # q (q - 1) with q = (P^-1)_ko. Summed over k, q sums to one; mu is 2 M_2 - mean x.
        spread = (inverse**2).sum(axis=0) - 1
        spread *= 2.0 if count == 2 else 1 / count
        second = as_weighted(rows).gram(np.maximum(spread, 0.0)[codes]) / m
        note = (
            "The covariance of the flips given the true labels, (1/m^2) sum_i v_i x_i x_i^T; v_i"
            " is the unbiased estimate of each row's conditional variance from its observed label,"
            " at least zero." + per_column(count)
        )
        return OperatorEstimate(as_operator(matrix), noise_of_gram(second, 1 / m), classes, note)


def _channel(rates: Any, classes: int) -> np.ndarray:
    """Return P, or say why these rates leave nothing to invert."""
    try:
        channel = np.asarray(rates, dtype=np.float64)
    except (TypeError, ValueError):
        channel = np.empty(0)
    if classes == 2 and channel.shape == (2,):
        channel = np.array([[1 - channel[0], channel[1]], [channel[0], 1 - channel[1]]])
    if channel.shape != (classes, classes):
        raise ParameterError(
            f"rates must be a {classes} x {classes} matrix P(observed | true)"
            + (", or the flip rates of both classes." if classes == 2 else ".")
        )
    inside = ((channel >= 0) & (channel <= 1)).all()
    if not (inside and np.allclose(channel.sum(axis=0), 1, atol=1e-9)):
        raise ParameterError(
            "rates must be probabilities, and each column (one true class) must sum to one."
        )
    if classes == 2 and not channel[0, 1] + channel[1, 0] < 1:
        raise ParameterError(
            f"The flip rates sum to {channel[0, 1] + channel[1, 0]:.3g}, but must sum to less than"
            " one. Check which class each rate belongs to."
        )
    condition = float(np.linalg.cond(channel))
    if not condition <= CONDITION_LIMIT:
        raise ParameterError(
            f"Some classes can hardly be told apart: rates has condition number {condition:.2g},"
            f" above {CONDITION_LIMIT:.0e}. Merge these classes, or use other rates."
        )
    return channel
