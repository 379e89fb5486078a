"""Rados of exact examples, from simulated randomness: for studies and `fit`, never a release."""

import numpy as np

from suffice.kernels.rados import subset_sums

__all__ = ["rados_of_subsets", "simulated_rados"]


def simulated_rados(edges: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return ``count`` uniform rados of ``edges`` (m, d), signs drawn independently.

    pi = (1/2) sum_i (sigma_i + y_i) x_i is the sum of the edges y_i x_i with sigma_i = y_i
    (Definition 1), and which those are is uniform when sigma is.
    """
    return _sums(edges, rng.integers(0, 256, (-(-len(edges) // 8), count), dtype=np.uint8))


def rados_of_subsets(edges: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return the sum of the edges in each subset; ``inside`` (count, m) says which those are."""
    return _sums(edges, np.packbits(inside.T, axis=0, bitorder="little"))


def _sums(edges: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Return the sums of subsets given as bits: bit k of bits[g, s] is edge 8 g + k in subset s."""
    if len(bits) % 2:  # the kernel takes groups in pairs
        bits = np.vstack([bits, np.zeros((1, bits.shape[1]), dtype=np.uint8)])
    rados = np.zeros((bits.shape[1], edges.shape[1]))
    subset_sums(np.ascontiguousarray(edges.T), np.ones(len(edges)), bits, 0.0, rados)
    return rados
