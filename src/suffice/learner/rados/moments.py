"""What rados say about the mean and the second moments of examples, and how sure the mean is."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from suffice.release.artifact import Release
from suffice.release.covariance import Covariance

__all__ = ["RadoMoments", "moments_of", "rados_of"]


@dataclass(frozen=True, eq=False)
class RadoMoments:
    """Holds mu = (1/m) sum_i y_i x_i, rows with the second moments of the examples, and m.

    S = (1/m) sum_i x_i x_i^T is the mean of row row^T. ``noise`` is the covariance of what the
    mechanism added to mu; sampling is not in it.
    """

    operator: np.ndarray
    rows: np.ndarray
    noise: Covariance
    examples: int

    @cached_property
    def second(self) -> np.ndarray:
        """S, as the rows have it."""
        return self.rows.T @ self.rows / len(self.rows)


def rados_of(release: Release) -> np.ndarray:
    """Return the rados of a release, or say that it holds none."""
    return release.array("rados", "rados")


def moments_of(release: Release) -> RadoMoments:
    """Return the moments of the examples behind a release of rados.

    Over uniform signs a rado has mean (m/2) mu and covariance (m/4) S. With support m_* it is a sum
    drawn without replacement: mean m_* mu and covariance m_* (m - m_*)/(m - 1) (S - mu mu^T).
    What a mechanism adds to each rado by itself stays in S, where it acts like a penalty.
    """
    rados, m = rados_of(release), release.rows
    n, support = len(rados), release.details["support"]
    mean = rados.mean(axis=0)
    share = m / 2 if support is None else support
    spread = m / 4 if support is None else support * max(m - support, 1) / max(m - 1, 1)
    rows = (rados - mean) * np.sqrt(n / (max(n - 1, 1) * spread))
    if support is not None:
        rows += mean / share  # the rows have mean zero: this adds mu mu^T and nothing else
    # Of a rado's noise the mean rado has: all where one vector is shared; the n-th part where each
    # rado has its own; where edges have theirs, so much as there are edges in one rado.
    noise_share = {"matrix": 1 / n, "edges": share / m}.get(release.details["mechanism"], 1.0)
    return RadoMoments(mean / share, rows, release.noise.scaled(noise_share / share**2), m)
