"""Frequencies, and a smooth joint distribution, from counts of randomised reports of whole records.

A report of a person with the combination x holds x with the probability p, and each other one with
q = (size - p) / (k - 1), of k combinations. So with c_v reports of m that hold v, the share of v is
estimated by (c_v / m - q) / (p - q), and the share of a set of combinations by their sum (subset
selection, Ye and Barg 2018).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from suffice.errors import ParameterError
from suffice.models.simplex import nearest_proportions
from suffice.releases.columns import DeclaredColumn, ReportNoise
from suffice.releases.release import Release


@dataclass(frozen=True, eq=False)
class Reports:
    """Holds the estimates from a release of reports: combinations are (class, other answers)."""

    constant_deviation: ClassVar = 10.0  # of a constant, of which nothing is known
    least_share: ClassVar = 1e-3  # of a class among people with the same other answers

    sizes: tuple[int, ...]  # the number of classes, then of possible answers to each question
    noise: ReportNoise
    rows: int
    shares: np.ndarray  # unbiased, of the combinations, in an array of shape ``sizes``

    @classmethod
    def of(cls, release: Release) -> "Reports":
        """Return what a release tells."""
        details = release.details
        sizes = tuple(len(states) for _, states in details["questions"])
        noise = ReportNoise(math.prod(sizes), details["size"], details["keep"])
        counts = release.arrays["counts"].reshape(sizes)
        shares = (counts / release.rows - noise.inclusion) / (noise.keep - noise.inclusion)
        return cls(sizes, noise, release.rows, shares)

    def interval(self, share: np.ndarray, count: int, level: float) -> tuple[np.ndarray, ...]:
        """Return both ends of the shares of sets of ``count`` combinations each.

        An end is a share f whose distance to the estimate is z of its own standard errors (Wilson
        1927). The number of combinations of the set that a report holds has the moments m0, s0 if
        the true one is outside, m1, s1 if it is inside, so its variance under f is
        s0 + f (s1 - s0) - (m0 + f (m1 - m0))^2, and m1 - m0 = p - q.
        """
        (m0, s0), (m1, s1) = (self.noise.moments(count, inside=i) for i in (False, True))
        slope, z2 = m1 - m0, float(ndtri((1 + level) / 2)) ** 2
        a = slope**2 * (self.rows + z2)
        b = -2 * slope**2 * self.rows * share + z2 * (2 * m0 * slope - (s1 - s0))
        c = slope**2 * self.rows * share**2 + z2 * (m0**2 - s0)
        root = np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0))
        return np.clip((-b - root) / (2 * a), 0, 1), np.clip((-b + root) / (2 * a), 0, 1)

    def marginals(self) -> list[np.ndarray]:
        """Return the unbiased shares of the answers to each question, classes first."""
        axes = range(len(self.sizes))
        return [self.shares.sum(axis=tuple(j for j in axes if j != i)) for i in axes]

    def smoothed(self, rows: np.ndarray) -> np.ndarray:
        """Return a distribution (classes, other answers) whose class shares are linear in rows.

        ``rows`` (n, d) are the coordinates of each combination of other answers, the constant last.
        With P(x) the share of x in the nearest distribution to the estimate, the shares of the
        classes are fitted by

            share(x, c) - P(x) / K = P(x) (theta_c . x) + noise,

        whose variance is known. Slopes have a normal prior, whose deviation is the one of largest
        evidence.
        """
        classes = self.sizes[0]
        cells = self.shares.reshape(classes, -1)
        nearest = nearest_proportions(cells.reshape(1, -1)).reshape(cells.shape).sum(axis=0)
        m0, s0 = self.noise.moments(1, inside=False)
        m1, _ = self.noise.moments(1, inside=True)
        deviation = math.sqrt((s0 - m0**2) * (1 - 1 / classes) / self.rows) / (m1 - m0)
        design = nearest[:, None] * rows / deviation
        target = (cells - cells.mean(axis=0)).T / deviation
        best: tuple[float, Any] = (-math.inf, None)
        for prior in np.logspace(-2, 1, 16):
            weights = np.append(np.full(rows.shape[1] - 1, prior**2), self.constant_deviation**2)
            covariance = np.eye(len(rows)) + (design * weights) @ design.T
            solved = np.linalg.solve(covariance, target)
            logdet = np.linalg.slogdet(covariance)[1]
            evidence = -(classes - 1) * logdet / 2 - float((target * solved).sum()) / 2
            if evidence > best[0]:
                best = evidence, weights[:, None] * (design.T @ solved)
        shares = np.maximum(1 / classes + rows @ best[1], self.least_share)
        return np.asarray(nearest * (shares / shares.sum(axis=1, keepdims=True)).T)


def question_columns(release: Release) -> list[DeclaredColumn]:
    """Return the questions of a release of reports, the label's first."""
    asked = release.details["questions"]
    return [DeclaredColumn(name, tuple(states)) for name, states in asked]


def invented_records(
    release: Release, coordinates: Callable[[DeclaredColumn], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (n, d) and codes of classes (n,) of 20,000 invented people, who are no one.

    There are as many of each combination as the smoothed distribution asks for. ``coordinates``
    are those of the possible answers to a question.
    """
    reports, questions = Reports.of(release), question_columns(release)[1:]
    if not questions:
        raise ParameterError("There is one question only, so nothing can predict its answer.")
    places = np.indices(reports.sizes[1:]).reshape(len(questions), -1)
    parts = [coordinates(c)[at] for c, at in zip(questions, places, strict=True)]
    rows = np.hstack([*parts, np.ones((places.shape[1], 1))])
    times = np.rint(20_000 * reports.smoothed(rows)).astype(int)
    codes = np.repeat(np.repeat(np.arange(len(times)), len(rows)), times.ravel())
    return rows[np.repeat(np.tile(np.arange(len(rows)), len(times)), times.ravel())], codes
