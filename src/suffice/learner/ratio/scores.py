"""Errors of class ratios under the names and conventions of QuaPy 0.2."""

from typing import Any

import numpy as np

from suffice.errors import ParameterError

__all__ = ["ae", "nkld", "rae"]


def ae(true: Any, estimated: Any) -> Any:
    """Return the absolute error: the mean over classes of |p - p^|, a K-th of the L1 distance."""
    p, q = _pair(true, estimated)
    return np.abs(q - p).mean(axis=-1)


def rae(true: Any, estimated: Any, eps: float) -> Any:
    """Return the relative absolute error: the mean over classes of |p - p^| / p.

    Both are first smoothed by ``eps``, as a rule 1 / (2 rows of the table).
    """
    p, q = (_smooth(value, eps) for value in _pair(true, estimated))
    return (np.abs(q - p) / p).mean(axis=-1)


def nkld(true: Any, estimated: Any, eps: float) -> Any:
    """Return the normalised divergence 2 e^d / (1 + e^d) - 1, d = sum p log(p / p^), smoothed."""
    p, q = (_smooth(value, eps) for value in _pair(true, estimated))
    return np.tanh((p * np.log(p / q)).sum(axis=-1) / 2)  # the same, and e^d cannot overflow


def _pair(true: Any, estimated: Any) -> tuple[np.ndarray, np.ndarray]:
    p, q = np.asarray(true, dtype=np.float64), np.asarray(estimated, dtype=np.float64)
    if p.shape != q.shape or not p.size:
        raise ParameterError("true and estimated ratios must have the same shape.")
    return p, q


def _smooth(ratios: np.ndarray, eps: float) -> np.ndarray:
    if not eps > 0:
        raise ParameterError("eps must be a positive number.")
    return (ratios + eps) / (eps * ratios.shape[-1] + 1)
