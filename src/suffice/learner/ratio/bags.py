"""What is known of bags of rows, and what the methods that find ratios from them share.

That is random parts of rows, rows drawn again and intervals from them, and how much of a second
moment is noise that can be taken off.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.linalg import eigh

from suffice.errors import ParameterError
from suffice.learner.weak import CONDITION_LIMIT, FOLDS, class_shares
from suffice.models.simplex import nearest_proportions
from suffice.releases.release import Release
from suffice.tables.columns import check_classes

FEWEST_ROWS = 2 * FOLDS  # of a bag: two in each fold
LEAST_SHARE_LEFT = 0.25  # of a direction's variance: an estimate of its noise may be too large
# Standard deviations of proportions over bags, below which resampled intervals cover too seldom
# (lab/bench/coverage.py): in general, and with three classes or more and fewer than 2 K bags.
_ALIKE, _ALIKE_IF_FEW = 0.05, 0.1


def balanced_groups(codes: np.ndarray, groups: int, rng: Generator) -> np.ndarray:
    """Return a random group for each row, of equal size within each code up to one row."""
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    assigned = np.empty(len(codes), dtype=np.int64)
    starts = np.searchsorted(codes[order], codes[order])
    assigned[order] = (np.arange(len(codes)) - starts) % groups
    return assigned


def resample_counts(codes: np.ndarray, rng: Generator) -> np.ndarray:
    """Return how often each member is drawn, as many times per code as it has members."""
    times = np.empty(len(codes))
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        times[members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)))
    return times


def zero_sum_basis(classes: int) -> np.ndarray:
    """Return an orthonormal basis (K, K - 1) of the directions within the simplex."""
    return np.linalg.svd(np.eye(classes) - 1 / classes)[0][:, : classes - 1]


def removable_part(noisy: np.ndarray, noise: np.ndarray) -> float:
    """Return how much of its noise can be taken off a second moment.

    All of it where at least a quarter is left of every direction, else as much as leaves that.
    """
    floor = 1e-12 * max(float(np.trace(noisy)), 1e-300) * np.eye(len(noisy))
    share = float(eigh(noise, noisy + floor, eigvals_only=True)[-1])
    return min(1.0, (1 - LEAST_SHARE_LEFT) / max(share, 1e-300))


@dataclass(frozen=True, eq=False)
class KnownBags:
    """Holds what is known of M bags of K classes."""

    classes: tuple[Any, ...]
    names: tuple[Any, ...]
    proportions: np.ndarray  # P (M, K)
    sizes: np.ndarray  # rows of each bag
    # Of a bag's proportions along any unit direction that keeps their sum, (M,); zero where they
    # are exact, None where the release does not state it.
    variances: np.ndarray | None
    # (M, K) before they were moved to the nearest point of the simplex, with sum one: exact ones
    # plus noise of mean zero. None where these are ``proportions``.
    unprojected: np.ndarray | None = None
    disjoint: bool = True  # no row is in two bags

    @property
    def least_spread(self) -> float:
        """The standard deviation of proportions over bags, along the direction of least."""
        centred = self.proportions - self.proportions.mean(axis=0)
        sizes = np.linalg.svd(centred, compute_uv=False)
        # Along (1, -1)/sqrt 2, two proportions are sqrt 2 times as far apart as each of them.
        return float(sizes[len(self.classes) - 2] / np.sqrt(2 * len(self.names)))

    @property
    def doubt(self) -> str | None:
        """What must be read before resampled intervals from bags that hardly differ, or None.

        With K + 1 bags of 300 rows, three classes and a spread below 0.1, intervals at 95 % covered
        74 % of the proportions. With at least 2 K bags they covered 94 %
        (lab/bench/coverage.py). Intervals of moments do not need bags that differ.
        """
        few = len(self.classes) > 2 and len(self.names) < 2 * len(self.classes)
        if self.least_spread >= (_ALIKE_IF_FEW if few else _ALIKE):
            return None
        return (
            "The class proportions of the bags hardly differ in one direction, so the intervals may"
            " be too narrow. Use more bags, with other proportions."
        )

    @property
    def unbiased_proportions(self) -> np.ndarray:
        """Proportions (M, K) whose noise has mean zero; they may lie outside the simplex."""
        return self.proportions if self.unprojected is None else self.unprojected

    @property
    def noise_covariances(self) -> np.ndarray:
        """V (M, K, K): the covariance v_i (I - 1 1^T / K) of the noise on the proportions."""
        many, classes = self.proportions.shape
        variances = np.zeros(many) if self.variances is None else self.variances
        return variances[:, None, None] * (np.eye(classes) - 1 / classes)

    def against_rest(self, k: int) -> "KnownBags":
        """Return the bags with two classes: all but class k, and class k."""

        def paired(shares: np.ndarray) -> np.ndarray:
            return np.column_stack([1 - shares[:, k], shares[:, k]])

        # V of two classes is v / 2 on its diagonal, and must stay that of class k.
        variances = None if self.variances is None else 2 * self.noise_covariances[:, k, k]
        return replace(
            self,
            classes=(0, 1),
            proportions=paired(self.proportions),
            variances=variances,
            unprojected=None if self.unprojected is None else paired(self.unprojected),
        )

    @cached_property
    def solved(self) -> np.ndarray:
        """A (K, M) with class = A bag: the least squares solution of P class = bag, sizes weighed.

        The variance of a bag's mean is one over its size. For M = K it is P^-1.
        """
        root = np.sqrt(self.sizes / self.sizes.sum())
        return np.asarray(np.linalg.pinv(root[:, None] * self.proportions) * root)

    @property
    def prior(self) -> np.ndarray:
        """The proportion of each class among the rows of all bags."""
        return self.sizes @ self.proportions / self.sizes.sum()

    def squared_errors(self, estimates: Sequence[np.ndarray]) -> np.ndarray:
        """Return the squared errors (M + 1,) of ratios of each bag, and of all bags together."""
        truth = np.vstack([self.proportions, self.prior])
        return np.asarray(((np.array(estimates) - truth) ** 2).sum(axis=1))

    @property
    def channel(self) -> np.ndarray:
        """T (M, K): the probability of each bag for a row of each class."""
        joint = self.sizes[:, None] * self.proportions
        return joint / joint.sum(axis=0)

    def redraw(self, rng: Generator) -> "KnownBags":
        """Return the bags as another draw of the same noise would have left them, were these exact.

        Gaussian noise of the stated variance, whatever the mechanism; the total stays one.
        """
        if self.variances is None or not self.variances.any():
            return self
        noise = rng.normal(size=self.proportions.shape) * np.sqrt(self.variances)[:, None]
        noise -= noise.mean(axis=1, keepdims=True)
        return replace(self, proportions=nearest_proportions(self.proportions + noise))

    def check(self, fewest: int = FEWEST_ROWS) -> None:
        """Raise unless the bags have enough rows and tell all classes apart (assumption A0).

        A0 asks that the affine hull of the proportions holds the simplex: P has rank K. With noise
        the smallest singular value must also exceed what noise alone can make (Weyl), at most
        s (sqrt(M) + sqrt(K - 1)) in mean for entries of deviation s (Gordon).
        """
        many, classes = self.proportions.shape
        small = [n for n, size in zip(self.names, self.sizes, strict=True) if size < fewest]
        if small:
            raise ParameterError(
                f"{len(small)} of {many} bags have fewer than {fewest} rows, for example"
                f" {small[0]!r}. Join bags, or leave these out."
            )
        if many < classes:
            raise ParameterError(
                f"{many} bags cannot tell {classes} classes apart. Use at least {classes} bags."
            )
        unseen = [c for c, share in zip(self.classes, self.prior, strict=True) if not share]
        if unseen:
            raise ParameterError(
                f"Class {unseen[0]!r} occurs in no bag (assumption A0). Add a bag that has it, or"
                " leave the class out."
            )
        root = np.sqrt(self.sizes * many / self.sizes.sum())[:, None]
        _, values, axes = np.linalg.svd(root * self.proportions, full_matrices=False)
        mixed = mixed_class_names(self.classes, axes[-1])
        if values[-1] * CONDITION_LIMIT <= values[0]:
            raise ParameterError(
                f"The proportions do not tell classes {mixed} apart: these occur in the same"
                " relation in every bag (assumption A0). Form bags in which this relation differs."
            )
        noise = 0.0 if self.variances is None else float(np.sqrt(self.variances.mean()))
        if values[-1] <= noise * (np.sqrt(many) + np.sqrt(classes - 1)):
            raise ParameterError(
                f"The noise on the proportions hides how classes {mixed} differ between the bags:"
                f" the smallest singular value is {values[-1]:.2g}, the noise {noise:.2g} (standard"
                " deviation). Use larger bags, bags that differ more, or a larger epsilon."
            )


def mixed_class_names(classes: Sequence[Any], direction: np.ndarray) -> str:
    """Return the names of the classes that a direction mixes."""
    size = np.abs(direction)
    return ", ".join(str(c) for c, s in zip(classes, size, strict=True) if s >= size.max() / 4)


def released_bags(release: Release) -> KnownBags:
    """Return the bags of a release of proportions, of one owner or merged."""
    proportions = release.array("proportions", "label proportions of bags")
    sizes = release.arrays["sizes"].astype(np.float64)
    variances = unprojected = None
    if release.noise.form != "none":
        variances = np.diag(release.noise.dense(len(sizes))) / sizes**2
        shares = release.arrays["counts"] / sizes[:, None]
        unprojected = shares - (shares.sum(axis=1, keepdims=True) - 1) / shares.shape[1]
    names = tuple(release.details["bags"])
    return KnownBags(release.classes, names, proportions, sizes, variances, unprojected)


def exact_bags(
    names: Sequence[Any], sizes: np.ndarray, proportions: Any, classes: Any
) -> KnownBags:
    """Return bags whose proportions are known exactly, one line per name; checked."""
    labels = check_classes(classes)
    shares = class_shares(proportions, len(labels))
    if len(shares) != len(names):
        raise ParameterError(
            f"proportions must have {len(names)} rows, one per bag. It has {len(shares)}."
        )
    many = np.asarray(sizes, dtype=np.float64)
    return KnownBags(labels, tuple(names), shares, many, np.zeros(len(many)))


def resampled_ends(
    method: Any,
    summaries: Sequence[Any],
    level: float,
    draws: int,
    rng: Generator,
    *,
    excess: float,
) -> np.ndarray:
    """Return both ends (n, 2, K) of each ratio's interval: quantiles of resampled answers.

    A resampled answer is what other rows from the same distributions, in the bags and in U, and
    another draw of the noise on the proportions might have given: rows are drawn again with
    replacement (Efron 1979), in cells of some rows for mean embeddings, and noise is added of the
    kind that the release states. That the classifier of bags itself would differ is left out: its
    errors cost accuracy, and calibration, which is done anew, keeps them from costing truth.

    All tables are asked of the same redrawn methods, which cost more than the answers do. The
    quantiles are those that a further draw lies beyond as often as the level says, however few the
    draws (Weibull 1939). All variances are ``excess`` times as large as those of rows and noise.
    """
    resampled_ratios = []
    for _ in range(draws):
        again = method.redraw(rng)
        resampled_ratios.append([again.resample(summary, rng) for summary in summaries])
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(resampled_ratios, tails, axis=0, method="weibull")
    ratios = np.array([method.ratios(summary) for summary in summaries])
    ends = np.stack([np.minimum(low, ratios), np.maximum(high, ratios)], axis=1)
    middle = ratios[:, None]
    return np.clip(middle + np.sqrt(excess) * (ends - middle), 0.0, 1.0)
