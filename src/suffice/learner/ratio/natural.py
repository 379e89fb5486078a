"""Test label shift between bags; where bags contradict it, state a range and a warning.

The test. Under label shift the mean of rows over bag i is P_i Psi, Psi (K, d) the class means. With
rows whitened by their covariance within bags, Y_i = sqrt(n_i) times the mean of bag i, and Q the
projector onto what sqrt(n) P does not explain,

    T = ||Q Y||^2,   E = sum_i Q_ii tr S_i,   V = 2 sum_ij Q_ij^2 tr(S_i S_j),   nu = 2 E^2 / V

and T nu / E is nearly chi-square of nu degrees of freedom (Welch 1938, Satterthwaite 1946; MATHS.md
section 8). S_i is the covariance of rows within bag i. It contains the difference of classes, which
exact proportions fix, so that the test rejects a little less often than its level says.

Noise z_i on P_i moves Y_i by sqrt(n_i) z_i Psi: S_i gains n_i Psi^T V_i Psi. P are then the
proportions before their projection, and Psi comes from them with their noise taken off, as in
`posteriors`, and is no farther apart than label shift allows. Whitened means of few rows are not
normal: only as many coordinates are used as the smallest bag has groups of `_ROWS_PER_COORDINATE`
rows.

The range (two classes). Bags such as months or occupations differ because their rows do. The model
p(x) = sigma(theta x + b) then holds in every bag, and the proportion of class 1 in bag i is the
mean of p over its rows:

    P_i ~ N(mean_i p, t^2 + v_i + mean_i p(1 - p) / n_i),   theta ~ N(0, a^2 I),

with v_i the noise on P_i, t a misfit of the model, and b such that the mean of p over all bags is
pi, the proportion of class 1 there. A new table U is one of two things (MATHS.md section 8):

- rows of the bags' classes at other proportions. Its rows then have the density
  rho p(x) / pi + (1 - rho) (1 - p(x)) / (1 - pi) relative to the bags', and rho has a posterior by
  a Laplace approximation in theta for each rho of a grid;
- a bag of its own, whose proportion is the mean of p over its rows.

`explains` tests the first against the second. Values of a and t are weighted by their evidence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp, softmax
from scipy.stats import chi2, norm
from scipy.stats import t as student

from suffice.learner.ratio.bags import KnownBags
from suffice.learner.ratio.posteriors import ScoreMoments, mean_and_covariance

LEVEL = 0.05  # share of false alarms in the long run
_ROWS_PER_COORDINATE = 5  # of the smallest bag: means of fewer are far from normal


@dataclass(frozen=True)
class LabelShiftTest:
    """Says whether the bags differ in more than their class proportions, if it can be tested."""

    tested: bool
    p: float | None = None  # chance of bags that differ as much or more under label shift
    rejected: bool | None = None  # whether ``p`` is below .05; both are None if untested
    # How much larger the differences are than label shift explains, as a ratio of variances; at
    # least 1, and 1 if untested.
    excess: float = 1.0
    reason: str | None = None  # why the bags cannot be tested; None if they were

    def to_json(self) -> dict[str, bool | float | str | None]:
        """Return all of it for programs."""
        return {name: getattr(self, name) for name in ("tested", "p", "rejected", "reason")}


def assess_label_shift(bags: KnownBags, rows: np.ndarray, codes: np.ndarray) -> LabelShiftTest:
    """Return the test of bags with these rows (n, d), ``codes`` the bag of each.

    ``bags.sizes`` are the numbers of these rows. With exactly K bags every mean is explained, and
    nothing is left to test.
    """
    many, classes = bags.proportions.shape
    if many <= classes:
        reason = f"{many} bags with {classes} classes leave nothing to test"
        return LabelShiftTest(tested=False, reason=reason)
    if not bags.disjoint:
        return LabelShiftTest(tested=False, reason="some rows are in several bags")
    if bags.variances is None:
        return LabelShiftTest(tested=False, reason="the release does not state its noise")
    axes = white_axes(rows, codes, int(bags.sizes.min()))
    moments = ScoreMoments.of(bags, rows @ axes, codes)
    psi = _possible_means(bags, moments.class_means().psi)
    spreads = bags.sizes[:, None, None] * moments.errors(psi)
    root = np.sqrt(bags.sizes)[:, None]
    explained = root * bags.unbiased_proportions
    left = np.eye(len(root)) - explained @ np.linalg.pinv(explained)
    statistic = float(((left @ (root * moments.means)) ** 2).sum())
    mean = float(np.diag(left) @ np.trace(spreads, axis1=1, axis2=2))
    flat = spreads.reshape(len(spreads), -1)
    variance = 2 * float((left**2 * (flat @ flat.T)).sum())
    p = chance_beyond(statistic, mean, variance)
    return LabelShiftTest(tested=True, p=p, rejected=p < LEVEL, excess=max(1.0, statistic / mean))


def _possible_means(bags: KnownBags, psi: np.ndarray) -> np.ndarray:
    """Return class means (K, q) of white rows, drawn together as far as label shift allows.

    The covariance within bags is the unit matrix. Under label shift it contains that of the class
    means, B = sum_i n_i psi^T (diag P_i - P_i P_i^T) psi / n, whose eigenvalues are thus at most
    one. Bags that differ in x make class means look farther apart, and with them the noise on P.
    """
    shares, weights = bags.unbiased_proportions, bags.sizes / bags.sizes.sum()
    squares = np.einsum("i,ik,il->kl", weights, shares, shares)
    noise = np.einsum("i,ikl->kl", weights, bags.noise_covariances)  # is in the squares too
    between = psi.T @ (np.diag(weights @ shares) - squares + noise) @ psi
    most = float(np.linalg.eigvalsh(between)[-1])
    return psi / np.sqrt(max(most, 1.0))


def chance_beyond(statistic: float, mean: float, variance: float) -> float:
    """Return the chance of more than ``statistic`` for a scaled chi-square of these moments."""
    freedom = 2 * mean**2 / max(variance, 1e-300)
    return float(chi2.sf(statistic * freedom / max(mean, 1e-300), freedom))


def white_axes(rows: np.ndarray, codes: np.ndarray, fewest: int) -> np.ndarray:
    """Return axes (d, q) along which rows vary by one within bags, the widest first.

    ``fewest`` is the number of rows of the smallest group whose mean is to be compared. Directions
    of less than a millionth of the largest variance are constant.
    """
    many = int(codes.max()) + 1
    within = np.zeros((rows.shape[1], rows.shape[1]))
    for i in range(many):
        part = rows[codes == i]
        within += mean_and_covariance(part)[1] * len(part) ** 2
    values, vectors = np.linalg.eigh(within / len(rows))
    values, vectors = values[::-1], vectors[:, ::-1]
    most = int(np.clip(fewest // _ROWS_PER_COORDINATE, 2, 100))
    count = min(most, int(np.count_nonzero(values > 1e-6 * max(values[0], 1e-300))))
    return np.asarray(vectors[:, :count] / np.sqrt(values[:count]))


_COMPONENTS = 24  # principal components of the rows that p(y | x) is a function of
_SLOPES, _MISFITS = (1.0, 3.0, 9.0), (0.02, 0.05, 0.12)  # a, for rows of mean square one; t
_GRID = np.linspace(0.03, 0.97, 13)  # values of rho, between which ends are interpolated
_POOL_ROWS = 2000  # rows of all bags that the model is fitted to, and at least 30 of a bag
TABLE_ROWS = 1000  # rows of U that are asked; the misfit of the model does not shrink with more


Posterior = tuple[float, float, float]  # mean and central interval of the proportion of class 1
_Table = tuple[np.ndarray, float]  # coordinates of the rows of U, and a proportion rho of class 1


@dataclass(frozen=True, eq=False)
class _Point:
    """The log posterior at (theta, b), given (a, t): value, gradient, Gauss-Newton curvature."""

    slope: float
    misfit: float
    theta: np.ndarray
    shift: float
    value: float
    gradient: np.ndarray
    curvature: np.ndarray
    evidence: float


@dataclass(frozen=True, eq=False)
class _Pool:
    """A sample of the rows of bags of two classes, bag by bag."""

    rows: np.ndarray  # (n, d): coordinates
    codes: np.ndarray  # the bag of each row
    weights: np.ndarray  # of each row, with sum one
    counts: np.ndarray  # sampled rows of each bag
    sizes: np.ndarray  # rows of each bag that the sample stands for
    shares: np.ndarray  # the proportion of class 1 in each bag; its noise has mean zero
    noise: np.ndarray  # the variance of this noise
    pi: float  # the proportion of class 1 in all bags

    def bag_means(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of values (n,) or (n, d) over each bag."""
        if values.ndim == 1:
            return np.bincount(self.codes, weights=values, minlength=len(self.counts)) / self.counts
        starts = np.flatnonzero(np.diff(self.codes, prepend=-1))
        return np.add.reduceat(values, starts, axis=0) / self.counts[:, None]

    def shift(self, theta: np.ndarray, start: float) -> tuple[float, np.ndarray]:
        """Return b with mean p = pi, and p of all rows."""
        scores, shift = self.rows @ theta, start
        for _ in range(30):
            p = expit(scores + shift)
            slope = max(float(self.weights @ (p * (1 - p))), 1e-9)
            step = float(np.clip((self.weights @ p - self.pi) / slope, -1, 1))
            shift -= step
            if abs(step) < 1e-7:
                break
        return shift, expit(scores + shift)

    def variances(self, p: np.ndarray, misfit: float) -> np.ndarray:
        """Return the variance of each bag's proportion about the mean of p."""
        spread = self.bag_means(p**2) - self.bag_means(p) ** 2
        sampled = spread / self.counts * (1 - self.counts / self.sizes)
        return misfit**2 + self.noise + self.bag_means(p * (1 - p)) / self.sizes + sampled + 1e-6


@dataclass(frozen=True, eq=False)
class StableClassifier:
    """Models p(y = 1 | x) as the same in all bags, with its uncertainty.

    ``modes`` are those of each pair (a, t); ``centre`` and ``axes`` turn rows into
    coordinates.
    """

    pool: _Pool
    centre: np.ndarray
    axes: np.ndarray
    modes: tuple[_Point, ...]

    def coordinates(self, rows: np.ndarray) -> np.ndarray:
        """Return the coordinates of rows, at most `TABLE_ROWS` evenly spaced ones of them."""
        some = rows[:: -(-len(rows) // TABLE_ROWS)]
        return np.asarray((some - self.centre) @ self.axes)

    @property
    def _best(self) -> list[_Point]:
        """The modes of the two likeliest pairs (a, t): a new table is asked of these."""
        return sorted(self.modes, key=lambda mode: -mode.evidence)[:2]

    def shifted_proportion(self, rows: np.ndarray, level: float) -> Posterior:
        """Return the proportion in a table of the bags' classes at other proportions."""
        table, modes = self.coordinates(rows), self._best
        evidences = np.empty((len(modes), len(_GRID)))
        middle = int(np.argmin(np.abs(_GRID - self.pool.pi)))
        for mode, profile in zip(modes, evidences, strict=True):
            # Each rho of the grid, from pi outwards.
            for places in (range(middle, len(_GRID)), range(middle - 1, -1, -1)):
                point = mode
                for place in places:
                    point = _climb(self.pool, point, (table, float(_GRID[place])))
                    profile[place] = point.evidence
        weights = softmax(logsumexp(evidences, axis=0))
        reached = np.cumsum(weights) - weights / 2
        low, high = np.interp([(1 - level) / 2, (1 + level) / 2], reached, _GRID)
        return float(weights @ _GRID), float(low), float(high)

    def own_proportion(self, rows: np.ndarray, level: float, rng: np.random.Generator) -> Posterior:
        """Return the proportion in a table that is a bag of its own: the mean of p over it."""
        table = self.coordinates(rows)
        draws = []
        weights = softmax([mode.evidence for mode in self.modes])
        for mode, count in zip(self.modes, rng.multinomial(400, weights), strict=True):
            root = np.linalg.cholesky(np.linalg.inv(mode.curvature))
            for _ in range(count):
                theta = mode.theta + root @ rng.normal(size=len(root))
                shift, _ = self.pool.shift(theta, mode.shift)
                draws.append(expit(table @ theta + shift).mean() + mode.misfit * rng.normal())
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
        return float(np.mean(draws)), float(low), float(high)

    def explains(self, rows: np.ndarray, rho: float) -> float:
        """Return the p value of U against the bags' rows, weighed as those of proportion rho are.

        The same approximation as in `assess_label_shift`, in whitened coordinates: T is the squared
        distance of the two means, and its moments are those of their covariances.
        """
        table = self.coordinates(rows)
        point = _climb(self.pool, self._best[0], (table, rho))
        pool, pi = self.pool, self.pool.pi
        fewest = min(len(table), int(pool.counts.min()))
        axes = white_axes(pool.rows, pool.codes, fewest)
        white, new = pool.rows @ axes, table @ axes
        p = pool.shift(point.theta, point.shift)[1]
        weights = pool.weights * (rho * p / pi + (1 - rho) * (1 - p) / (1 - pi))
        weights /= weights.sum()
        centred = white - weights @ white
        mean, covariance = mean_and_covariance(new)
        covariance = covariance + (centred * weights[:, None] ** 2).T @ centred
        distance = float(((mean - weights @ white) ** 2).sum())
        expected, variance = float(np.trace(covariance)), 2 * float((covariance**2).sum())
        return chance_beyond(distance, expected, variance)


def fit_stable_classifier(
    bags: KnownBags, rows: np.ndarray, codes: np.ndarray, rng: np.random.Generator
) -> StableClassifier:
    """Return the classifier of bags of two classes with these rows (n, d)."""
    sizes = np.bincount(codes, minlength=len(bags.names)).astype(np.float64)
    centre = rows.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(rows.T).reshape(rows.shape[1], -1))
    axes = vectors[:, ::-1][:, :_COMPONENTS] / np.sqrt(max(values.sum(), 1e-300))
    most = max(30, _POOL_ROWS // len(sizes))
    parts = [np.flatnonzero(codes == i) for i in range(len(sizes))]
    some = np.concatenate([np.sort(rng.permutation(part)[:most]) for part in parts])
    counts = np.bincount(codes[some], minlength=len(sizes)).astype(np.float64)
    shares = bags.unbiased_proportions[:, 1]
    pool = _Pool(
        (rows[some] - centre) @ axes,
        codes[some],
        (sizes / counts)[codes[some]] / sizes.sum(),
        counts,
        sizes,
        shares,
        bags.noise_covariances[:, 1, 1],
        float(np.clip(sizes @ shares / sizes.sum(), 0.01, 0.99)),
    )
    start = np.zeros(axes.shape[1])
    modes = [
        _climb(pool, _evaluate(pool, start, 0.0, slope, misfit, None), None)
        for slope in _SLOPES
        for misfit in _MISFITS
    ]
    return StableClassifier(pool, centre, axes, tuple(modes))


def _climb(pool: _Pool, point: _Point, table: _Table | None) -> _Point:
    """Return the mode of theta near ``point`` by Gauss-Newton steps, halved until they rise."""
    slope, misfit = point.slope, point.misfit
    point = _evaluate(pool, point.theta, point.shift, slope, misfit, table)
    for _ in range(15):
        step = np.linalg.solve(point.curvature, point.gradient)
        for halvings in range(10):
            theta = point.theta + step / 2**halvings
            new = _evaluate(pool, theta, point.shift, slope, misfit, table)
            if new.value >= point.value:
                break
        else:
            return point
        gain, point = new.value - point.value, new
        if gain < 1e-3:  # of a log posterior, whose differences of one matter
            break
    return point


def _evaluate(  # noqa: PLR0917  # the symbols of the model
    pool: _Pool, theta: np.ndarray, start: float, slope: float, misfit: float, table: _Table | None
) -> _Point:
    """Return the log posterior of theta, with b and the variances of the bags that belong to it."""
    shift, p = pool.shift(theta, start)
    vary = p * (1 - p)
    by_theta = -(pool.weights * vary) @ pool.rows / max(float(pool.weights @ vary), 1e-9)
    variances = pool.variances(p, misfit)
    off = pool.shares - pool.bag_means(p)
    value = -0.5 * float((off**2 / variances + np.log(variances)).sum())
    value -= 0.5 * float(theta @ theta) / slope**2
    moves = pool.bag_means(vary[:, None] * (pool.rows + by_theta))
    gradient = moves.T @ (off / variances) - theta / slope**2
    curvature = (moves.T / variances) @ moves + np.eye(len(theta)) / slope**2
    if table is not None:
        (rows, rho), pi = table, pool.pi
        q = expit(rows @ theta + shift)
        density = rho * q / pi + (1 - rho) * (1 - q) / (1 - pi)
        value += float(np.log(density).sum())
        rate = q * (1 - q) * (rho / pi - (1 - rho) / (1 - pi)) / density
        each = rate[:, None] * (rows + by_theta)
        gradient += each.sum(axis=0)
        curvature += each.T @ each
    evidence = value - 0.5 * float(np.linalg.slogdet(curvature * slope**2)[1])
    return _Point(slope, misfit, theta, shift, value, gradient, curvature, evidence)


# The next three were chosen on adult by occupation, covertype by elevation, magic by fAlpha and
# abalone by length; that unclear tables get the wider range, after a look at adult by workclass.
# lab/bench/natural_bags.py measures what they are worth on other tables.
_WIDENING = 1.7  # factor by which ends of a posterior are moved away from its centre
_NEW_BAG = 1e-4  # p value below which a table is a new bag; from here to LEVEL it may be one
_CONTRADICTION = 1.9  # sum of classes' proportions, each against the rest; those of new bags are 2+


@dataclass(frozen=True)
class NaturalRange:
    """The proportion of class 1 in a table under a stable p(y | x), and the range of both."""

    stable: float
    low: float
    high: float
    new_bag_p: float | None  # against the bags' classes at other proportions; None if untested
    own: float | None  # the proportion if the table is a bag of its own; None if ruled out

    @property
    def new_bag(self) -> bool | None:
        """Whether the table looks like a bag of its own."""
        return None if self.new_bag_p is None else self.new_bag_p < _NEW_BAG

    @property
    def words(self) -> str | None:
        """What must be read about the table itself before the figures, if anything."""
        if self.new_bag_p is None:
            return (
                "With more than two classes, suffice does not test whether the new table is a new"
                " bag. The range allows for both."
            )
        shown = _shown_p(self.new_bag_p)
        if self.new_bag:
            return (
                f"The new table looks like a new bag ({shown}), and not like the classes of the"
                " bags at other proportions."
            )
        if self.new_bag_p < LEVEL:
            return f"The new table may be a new bag ({shown}). The range allows for this too."
        return None


def natural_range(
    classifier: StableClassifier,
    rows: np.ndarray,
    label_shift: Sequence[float],
    level: float,
    rng: np.random.Generator,
    *,
    tested: bool = True,
) -> NaturalRange:
    """Return what is known of a table where the bags contradict label shift.

    No interval is right then. The range holds the interval under label shift, and what the bags say
    under a stable p(y | x) (`StableClassifier`). It is a range under two assumptions, and has no
    confidence level. With more than two classes each class is set against the rest of them.

    ``label_shift`` are the ends of the interval under label shift. Ends of the posterior are moved
    away, from pi or for a new bag from its mean, by a factor that was chosen on natural bags. How
    far a new bag is from the model is known from M bags only: its ends are those of Student's
    distribution with M - 2 degrees of freedom. Not ``tested``, as the other classes may be mixed in
    another way: the table may be both, rows of the bags' classes or a new bag.
    """
    stable, stable_low, stable_high = classifier.shifted_proportion(rows, level)
    p = classifier.explains(rows, stable) if tested else None
    ends, own = list(label_shift), None
    if p is None or p >= _NEW_BAG:
        pi = classifier.pool.pi  # ends beyond it move away from it
        ends.append(_moved(stable_low, pi) if stable_low < pi else stable_low)
        ends.append(_moved(stable_high, pi) if stable_high > pi else stable_high)
    if p is None or p < LEVEL:
        own, *own_ends = classifier.own_proportion(rows, level, rng)
        few = _few_bags(len(classifier.pool.sizes), level)
        ends += [_moved(end, own, few) for end in own_ends]
        stable = own if p is not None and p < _NEW_BAG else stable
    low, high = np.clip([min(ends), max(ends)], 0.0, 1.0)
    return NaturalRange(stable, float(low), float(high), p, own)


def _few_bags(many: int, level: float) -> float:
    """Return how much further Student's quantile is than the normal one."""
    tail = (1 + level) / 2
    return float(student.ppf(tail, max(many - 2, 1)) / norm.ppf(tail))


def _moved(end: float, centre: float, factor: float = 1.0) -> float:
    return centre + _WIDENING * factor * (end - centre)


@dataclass(frozen=True, eq=False)
class RatioEstimate:
    """Holds the class proportions (K,) of one table, and how far they can be trusted.

    Where the bags contradict label shift, no single figure is left: ``ratios`` is None, ``low`` and
    ``high`` are the ends of a range and not of intervals, and ``level`` is None.
    """

    classes: tuple[Any, ...]
    ratios: np.ndarray | None
    low: np.ndarray
    high: np.ndarray
    level: float | None
    label_shift: LabelShiftTest
    # Under each assumption: ``label_shift``, and where that is contradicted ``stable``, for the
    # same p(y | x) in all bags.
    estimates: dict[str, np.ndarray]
    # Whether the table looks like a new bag rather than like the bags' classes at other
    # proportions; None where this was not tested.
    new_bag: bool | None
    words: tuple[str, ...]  # what must be read before the figures

    @classmethod
    def with_interval(
        cls,
        classes: Any,
        ratios: np.ndarray,
        ends: np.ndarray,
        level: float,
        test: LabelShiftTest,
        *,
        doubt: str | None = None,
    ) -> "RatioEstimate":
        """Return proportions with intervals (2, K): nothing contradicts label shift.

        ``doubt`` is what must be read before intervals of bags that hardly differ.
        """
        words = [] if doubt is None else [doubt]
        if not test.tested:
            words.append(
                f"Label shift cannot be tested: {test.reason}. The intervals assume that each class"
                " looks alike in all bags and in the new table."
            )
        low, high = ends
        estimates = {"label_shift": ratios}
        return cls(tuple(classes), ratios, low, high, level, test, estimates, None, tuple(words))

    @classmethod
    def with_range(
        cls,
        classes: Any,
        ratios: np.ndarray,
        outcomes: Sequence[NaturalRange],
        test: LabelShiftTest,
    ) -> "RatioEstimate":
        """Return estimates under two assumptions: an outcome per class, of two for the second."""
        first = outcomes[0]
        words = [contradiction(test), first.words]
        if len(outcomes) == 1:
            stable = np.array([1 - first.stable, first.stable])
            low, high = np.array([1 - first.high, first.low]), np.array([1 - first.low, first.high])
        else:
            low = np.array([outcome.low for outcome in outcomes])
            high = np.array([outcome.high for outcome in outcomes])
            stable = np.array([outcome.stable for outcome in outcomes])
            # Each class is set against the rest. Proportions of a table whose classes are the bags'
            # sum to nearly one. If they contradict each other, the table is taken for a new bag.
            total = float(stable.sum())
            if total >= _CONTRADICTION:
                stable = np.array([outcome.own or 0.0 for outcome in outcomes])
                words.append(
                    f"As rows of the bags' classes, the classes would sum to {total:.1f}. The"
                    " second estimate therefore takes the new table for a new bag."
                )
            stable = stable / stable.sum()
        estimates = {"label_shift": ratios, "stable": stable}
        new_bag, shown = first.new_bag, tuple(filter(None, words))
        return cls(tuple(classes), None, low, high, None, test, estimates, new_bag, shown)

    def to_json(self) -> dict[str, Any]:
        """Return the figures for programs."""
        return {
            "ratios": None if self.ratios is None else self.ratios.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "level": self.level,
            "label_shift": self.label_shift.to_json(),
            "estimates": {name: value.tolist() for name, value in self.estimates.items()},
            "new_bag": self.new_bag,
            "words": list(self.words),
        }


def contradiction(test: LabelShiftTest) -> str:
    """Return what is said where the bags contradict label shift."""
    shown = _shown_p(test.p or 0.0)
    return (
        f"The bags differ in more than their class proportions: {shown} under label shift. A class"
        " does not look alike in all bags, so no interval at a confidence level is given."
    )


def _shown_p(p: float) -> str:
    return f"p < {_NEW_BAG:g}" if p < _NEW_BAG else f"p = {p:.2g}"
