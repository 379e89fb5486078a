"""The second moments of rows, under weights."""

import numpy as np

__all__ = ["gram"]

_ROWS_AT_ONCE = 4096


def gram(rows: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return sum_i w_i x_i x_i^T for nonnegative weights, without a weighted copy of all rows."""
    if weights is None:
        return rows.T @ rows
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        block = np.sqrt(weights[part, None]) * rows[part]  # a product with itself costs half
        total += block.T @ block
    return total
