"""Random parts of rows, and rows drawn again: the simulated randomness of folds and intervals."""

import numpy as np

__all__ = ["balanced_groups", "resample_counts"]


def balanced_groups(codes: np.ndarray, groups: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random group for each row, of equal size within each code up to one row."""
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    assigned = np.empty(len(codes), dtype=np.int64)
    starts = np.searchsorted(codes[order], codes[order])
    assigned[order] = (np.arange(len(codes)) - starts) % groups
    return assigned


def resample_counts(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return how often each member is drawn, as many times per code as it has members."""
    times = np.empty(len(codes))
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        times[members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)))
    return times
