"""Columns as ranks among public rows: a value becomes the share of public values below it."""

import numpy as np

from suffice.tables.spacing import evenly_spaced

__all__ = ["fit_grid", "mid_ranks"]


def fit_grid(columns: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Return ``size`` evenly spaced quantiles of each column (width, size), in order.

    Rows occur ``weights`` times each.
    """
    grid = np.empty((len(columns), size))
    for values, quantiles in zip(columns, grid, strict=True):
        order = np.argsort(values, kind="stable")
        quantiles[:] = values[order][evenly_spaced(weights[order], size)]
    return grid


def mid_ranks(grid: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    """Write u - 1/2 of every value, u = (#{grid < x} + #{grid <= x}) / (2 size).

    Values that repeat get the middle of their ranks. No number is added in an order of its own, so
    that a row has the same coordinates in any batch.
    """
    size = grid.shape[1]
    for quantiles, values, ranks in zip(grid, columns, out, strict=True):
        below = np.searchsorted(quantiles, values, side="left")
        up_to = np.searchsorted(quantiles, values, side="right")
        ranks[:] = (below + up_to) / (2 * size) - 0.5
