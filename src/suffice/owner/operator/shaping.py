"""Noise with a shape: even in other public coordinates, where it harms a classifier less."""

import math
from dataclasses import dataclass

import numpy as np

from suffice.kernels import maps
from suffice.release.covariance import Covariance

__all__ = ["MOST_SHAPED", "Shape", "whitening"]

MOST_SHAPED = 1500  # coordinates: beyond, a matrix of all pairs is no small file any more
_BITS = 20  # of the largest entry of the integer matrix


def whitening(values: np.ndarray, vectors: np.ndarray, lam: float, curvature: float) -> np.ndarray:
    """Return T = (lam I + curvature S)^(-1/2), S given by its eigenvalues and eigenvectors.

    Of all T that share the eigenvectors of S it has the least margin noise at this ``lam`` for a
    fixed mean ||T x||^2: minimise (sum_j s_j g_j)(sum_j s_j / (h_j^2 g_j)) over g = T^T T, with
    h = lam + curvature s; by Cauchy and Schwarz g = 1/h.
    """
    return np.asarray((vectors / np.sqrt(lam + curvature * values)) @ vectors.T)


@dataclass(frozen=True, eq=False)
class Shape:
    """Computes u = rint(A s / 2^bits) of exact integer sums s, A an invertible integer matrix.

    Noise of covariance v I on u is noise of covariance v B B^T on s, B = 2^bits A^-1. A is public.
    All of it is integer arithmetic, so that the reach below bounds what one row can move
    (privacy/proofs/shaping.md).
    """

    matrix: np.ndarray
    bits: int = _BITS

    @classmethod
    def of(cls, transform: np.ndarray) -> "Shape":
        """Return the shape of noise that is even in the coordinates ``transform`` x."""
        scaled = np.rint(transform / np.abs(transform).max() * 2.0**_BITS)
        return cls(scaled.astype(np.int64))

    def apply(self, sums: np.ndarray) -> np.ndarray:
        """Return rint(A s / 2^bits) for each row s of ``sums``, in exact integers, as int64."""
        exact = sums.astype(object) @ self.matrix.T.astype(object)  # beyond 64 bits on the way
        half = 1 << (self.bits - 1)
        return np.asarray((exact + half) >> self.bits).astype(np.int64)

    def norms(self, codes: np.ndarray) -> tuple[float, float]:
        """Return bounds on the largest 1-norm and 2-norm of A x / 2^bits over rows x.

        ``codes`` (width, rows) may be off by one step in each coordinate, and floats round: both
        are added. The bounds do not depend on how rows are cut into batches.
        """
        shaped = np.empty_like(codes)
        maps.linear(self.matrix.astype(np.float64), codes, shaped)
        width = len(self.matrix)
        more = 1 + (width + 4) ** 2 * 2.0**-52  # than any sum of width^2 floats can lose
        size = float(np.linalg.norm(self.matrix)) * more
        row = float(maps.row_norms(codes).max())
        slack = size * (math.sqrt(width) + (width + 4) * 2.0**-52 * row) * more
        l1 = (float(maps.row_sums(shaped).max()) + math.sqrt(width) * slack) * more
        l2 = (float(maps.row_norms(shaped).max()) + slack) * more
        return l1 / 2**self.bits, l2 / 2**self.bits

    def back(self) -> np.ndarray:
        """Return B = 2^bits A^-1, which takes noisy u to the coordinates of s."""
        return np.linalg.inv(self.matrix / 2.0**self.bits)

    def covariance(self, variance: float) -> Covariance:
        """Return the covariance of noise on s that has the covariance ``variance`` I on u."""
        back = self.back()
        if np.array_equal(self.matrix, np.diag(self.matrix.diagonal())):
            return Covariance("diagonal", variance, np.ascontiguousarray(back.diagonal() ** 2))
        return Covariance("factor", variance, np.ascontiguousarray(back))
