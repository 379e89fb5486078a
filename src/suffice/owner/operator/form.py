"""The two forms of a mean operator, and how far one label moves it: one rule for all who release.

For two classes it is mu = (1/m) sum_i y_i x_i with y = -1 or +1, one column; for K > 2 it is
M = (1/m) sum_i x_i e_(y_i)^T, a column per class. Another label moves m mu by 2 x_i, and m M by x_i
in two columns.
"""

import math

__all__ = ["gradient_change", "label_change", "operator_columns"]

_ROOT = math.sqrt(2.0) * (1 + 1e-15)  # never below the square root


def operator_columns(classes: int) -> int:
    """Return how many columns the operator of so many classes has."""
    return 1 if classes == 2 else classes


def label_change(classes: int) -> float:
    """Return how far one label moves the sum, at most: in lengths (2-norms) of its row."""
    return 2.0 if classes == 2 else _ROOT


def gradient_change(classes: int) -> float:
    """Return the same of the loss's gradient, which weighs mu by 1/2 (logistic) and M by 1."""
    return 1.0 if classes == 2 else _ROOT
