"""Class proportions by a classifier of bags: its likelihood, or class means of its posteriors.

The classifier explains which bag a row is in, through the channel T of the bags (`KnownBags`). Its
scores become class posteriors by one slope and one constant per class (Alexandari et al. 2020),
those that explain the bags of held-out rows best. The ratios of a table are then those of largest
likelihood, or are found from moments:

Any score g(x) that was not fitted to the rows it is computed on has, under label shift,

    mean of g over bag i = P_i psi,    mean of g over U = rho psi,

with psi (K, K) its class means: here g are the class posteriors. The likelihood needs them to be
right. The moments do not: wrong posteriors cost width, not truth. So moments are used where noise
on P misleads the likelihood.

With P known up to noise z of covariance V_i, least squares shrinks psi: P^T W P is too large by
sum_i w_i V_i in mean, which is taken off (errors in variables; MATHS.md section 8):

    psi = (P~^T W P~ - sum_i w_i V_i)^-1 P~^T W g,    rho = g_U psi^-1

P~ are the proportions before their projection onto the simplex, which would bias them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from scipy.stats import chi2

from suffice.learner.ratio.bags import (
    LEAST_SHARE_LEFT,
    KnownBags,
    balanced_groups,
    removable_part,
    resample_counts,
    resampled_ends,
    zero_sum_basis,
)
from suffice.learner.spread_likelihood import CleanFeatures, SpreadLikelihood, maximise
from suffice.learner.weak import FOLDS, group_sums
from suffice.models.simplex import mixture_weights, nearest_proportions

_CALIBRATION_TOL = 4e-3  # of a gradient whose standard deviation is some .2 / sqrt(rows)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Computes log p(k | x) = log softmax(slope s(x) + shifts)_k from scores s.

    ``bend`` is the inverse Hessian where it was found, with which a search nearby starts.
    """

    slope: float
    shifts: np.ndarray
    bend: np.ndarray | None = None

    def log_posteriors(self, scores: np.ndarray) -> np.ndarray:
        """Return log p(k | x), (n, K)."""
        return np.asarray(log_softmax(self.slope * scores + self.shifts, axis=1))


def label_counts(
    bags: KnownBags, codes: np.ndarray, weights: np.ndarray, within: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return what the proportions P say of how many rows of each class a bag has.

    Given a bag's rows, row x is of class k with probability r_k(x), and so the counts N_i have the
    mean sum_x r(x) and the covariance sum_x (diag r - r r^T), to which noise on P adds n_i^2 v_i.
    The likelihood of bags takes rows for independent draws; that the counts came out as n_i P_i is
    the factor it leaves out, here by its normal approximation with the covariance held fixed:

        1/2 sum_i (sum_x r(x) - n_i P_i)^T C_i^-1 (sum_x r(x) - n_i P_i)

    ``within`` (n, K) is r of all rows of the bags. None for a sample of them, whose counts are
    those of n_i independent draws: C_i = n_i (diag P_i - P_i P_i^T). Returns n P (M, K) and C^-1
    (M, K, K); None where the noise of the proportions is not known.
    """
    if bags.variances is None:
        return None
    sizes = np.bincount(codes, weights=weights, minlength=len(bags.names))
    expected = sizes[:, None] * bags.proportions
    means, seconds = expected, expected[:, :, None] * bags.proportions[:, None, :]
    if within is not None:
        parts = [within[codes == i] for i in range(len(sizes))]
        means = np.stack([posteriors.sum(axis=0) for posteriors in parts])
        seconds = np.stack([posteriors.T @ posteriors for posteriors in parts])
    noise = 1.0 + bags.variances * sizes**2  # one row is as near as counts need be
    diagonal = np.eye(len(bags.classes)) * (means + noise[:, None])[:, None, :]
    return expected, np.linalg.inv(diagonal - seconds)


def calibrate(
    bags: KnownBags,
    scores: np.ndarray,
    codes: np.ndarray,
    start: Calibration | None = None,
    *,
    counts: np.ndarray | None = None,
    complete: bool = False,
    alone: bool = False,
) -> Calibration:
    """Return the slope and shifts that explain the bags of rows best, through their channel.

    ``scores`` (n, K) of rows, ``codes`` of their bags; ``counts`` says how often each row counts.
    A weak prior, of the weight of one row, holds the slope near one and the shifts near zero:
    classes that are told apart without error would else have no best slope. Unless the bags
    ``alone`` decide, so does what is known of their labels, from a ``start`` by bags alone;
    ``complete`` says that these are all rows of the bags, and not a sample.
    """
    start = start or Calibration(1.0, np.zeros(scores.shape[1]))
    each_counts = np.ones(len(codes)) if counts is None else counts
    total, chances, weights = each_counts.sum(), bags.channel[codes], each_counts[:, None]
    within = None
    if complete:  # the probability of each class given row and bag
        joint = chances * np.exp(start.log_posteriors(scores))
        within = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    labels = None if alone else label_counts(bags, codes, each_counts, within)

    def slope_of(logarithm: float) -> float:  # a search may try any, and floats would overflow
        return float(np.exp(np.clip(logarithm, -20, 20)))

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        slope = slope_of(flat[0])
        clean = softmax(slope * scores + flat[1:], axis=1)
        joint = chances * clean
        chance = np.maximum(joint.sum(axis=1), 1e-300)
        within = joint / chance[:, None]
        value = float(flat @ flat) / 2 - float(each_counts @ np.log(chance))
        pull = weights * (clean - within)
        if labels is not None:
            expected, precisions = labels
            off = group_sums(weights * within, codes, len(bags.names)) - expected
            force = np.einsum("ijk,ik->ij", precisions, off)
            value += float(np.vdot(force, off)) / 2
            each = force[codes]
            each -= (within * each).sum(axis=1, keepdims=True)
            pull += weights * within * each
        by_slope = slope * float(np.vdot(pull, scores))
        gradient = np.append(by_slope, pull.sum(axis=0)) + flat
        return value / total, gradient / total

    first = np.append(np.log(start.slope), start.shifts)
    options = {"gtol": _CALIBRATION_TOL / np.sqrt(total), "hess_inv0": start.bend}
    optimum = minimize(objective, first, jac=True, method="BFGS", options=options)
    bend = (optimum.hess_inv + optimum.hess_inv.T) / 2
    return Calibration(slope_of(optimum.x[0]), optimum.x[1:], bend)


_LAMS = 10.0 ** np.arange(0.0, -5.01, -1.0)  # coarse: calibration mends the scale of the scores
_MOST_COORDINATES = 128  # of wider rows the principal components, which 5,000 rows tell


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Rows as the classifier sees them: their principal components if they are wide, and a one."""

    axes: np.ndarray | None
    scale: float

    @classmethod
    def of(cls, rows: np.ndarray, rng: Generator) -> "Coordinates":
        """Return coordinates in which rows have a mean square of one per coordinate."""
        axes = None
        if rows.shape[1] > _MOST_COORDINATES:
            some = rows[np.sort(rng.permutation(len(rows))[:5000])]
            axes = np.linalg.eigh(some.T @ some)[1][:, ::-1][:, :_MOST_COORDINATES].copy()
        projected = rows if axes is None else rows @ axes
        return cls(axes, float(np.sqrt(np.mean(projected**2))) or 1.0)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the coordinates of rows."""
        projected = rows if self.axes is None else rows @ self.axes
        return np.column_stack([projected / self.scale, np.ones(len(rows))])


@dataclass(frozen=True, eq=False)
class BagLikelihood:
    """A fitted classifier of bags, and the held-out scores that it was calibrated with."""

    bags: KnownBags
    coordinates: Coordinates
    fold_weights: np.ndarray  # (F, d + 1, K), the folds' models
    calibration: Calibration
    scores: np.ndarray  # (n, K) of the rows it learnt from, as are their bags and folds
    codes: np.ndarray
    folds: np.ndarray
    # By how much held-out rows are likelier than under bags that cannot be told apart, with its
    # standard error.
    gain: tuple[float, float]

    ends = resampled_ends

    def scores_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the scores (n, K) of other rows, before calibration."""
        return np.asarray(self.coordinates(rows) @ self.fold_weights.mean(axis=0))

    def mean_posteriors(self, rows: np.ndarray) -> np.ndarray:
        """Return p(k | x) (n, K) of other rows, the mean over the folds' models.

        Their mean over a class is what that of `held_out_posteriors` estimates.
        """
        mapped = self.coordinates(rows)
        scores = [mapped @ weights for weights in self.fold_weights]
        return np.mean([np.exp(self.calibration.log_posteriors(s)) for s in scores], axis=0)

    @property
    def held_out_posteriors(self) -> np.ndarray:
        """p(k | x) (n, K) of the bags' rows, by models that did not see their row."""
        return np.exp(self.calibration.log_posteriors(self.scores))

    def summarise(self, batches: Iterable[np.ndarray], rng: Generator) -> np.ndarray:
        """Return the scores of a table's rows."""
        del rng
        return np.vstack([self.scores_of(rows) for rows in batches])

    def ratios(self, summary: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
        """Return the ratios of the table whose rows have these scores."""
        log = self.calibration.log_posteriors(summary) - np.log(self.bags.prior)
        # p(x | k), up to a factor per row
        likelihoods = np.asarray(np.exp(log - log.max(axis=1, keepdims=True)))
        return mixture_weights(likelihoods, counts)

    def redraw(self, rng: Generator) -> "BagLikelihood":
        """Return the method as other rows of the bags, and other noise, might have left it."""
        return self.recalibrate(self.bags.redraw(rng), resample_counts(self.codes, rng))

    def resample(self, summary: np.ndarray, rng: Generator) -> np.ndarray:
        """Return the ratios of rows of the table drawn again."""
        return self.ratios(summary, resample_counts(np.zeros(len(summary), dtype=np.int64), rng))

    def recalibrate(self, bags: KnownBags, counts: np.ndarray) -> "BagLikelihood":
        """Return what other proportions and other counts of the same rows would have given."""
        calibration = calibrate(bags, self.scores, self.codes, self.calibration, counts=counts)
        return replace(self, bags=bags, calibration=calibration)

    def held_back_errors(self) -> np.ndarray:
        """Return squared errors (folds, M + 1), as `embedding.held_back_errors` does."""

        def learnt_from(rest: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
            fitted = self.recalibrate(self.bags, np.where(rest, 1.0, 0.0))
            return lambda part: fitted.ratios(self.scores[part])

        return self.errors_by_fold(learnt_from)

    def errors_by_fold(
        self, learnt_from: Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]]
    ) -> np.ndarray:
        """Return squared errors (folds, M + 1) of ratios of rows that each fold holds back.

        ``learnt_from`` the other rows (n,), a mask, is a function of a mask to ratios. Bags of
        fewer rows than folds have fewer folds.
        """
        errors = []
        for fold in range(min(FOLDS, int(self.bags.sizes.min()))):
            held_back = self.folds == fold
            ratios = learnt_from(~held_back)
            parts = [held_back & (self.codes == i) for i in range(len(self.bags.names))]
            errors.append(self.bags.squared_errors([ratios(p) for p in [*parts, held_back]]))
        return np.array(errors)


def fit_bag_likelihood(
    bags: KnownBags,
    rows: np.ndarray,
    codes: np.ndarray,
    rng: Generator,
    *,
    complete: bool = True,
) -> BagLikelihood:
    """Return the classifier of bags with the penalty that explains held-out rows best.

    A row x of the pooled bags is in bag i with probability

        q_i(x) = sum_k T_ik p(k | x),   T_ik = n_i P_ik / sum_j n_j P_jk,

    since within a class the bag says nothing (assumption A1). So bags are class labels that went
    through a known channel T, and the model of p(k | x) that explains the bags best is found by the
    likelihood of `suffice.learner.spread_likelihood`, with no label. What T^-1 makes of a free
    classifier of bags can be negative; these class posteriors cannot.

    Scores come from models that did not see their row (folds) and are then calibrated, again
    through T, with one thing more that is known: how many rows of each class a bag has
    (`label_counts`). The ratios of a table U are the weights of the mixture
    sum_k rho_k p(k | x) / p(k) that explains its rows best.

    From the strongest penalty on, each solution where the next search starts, until one is no
    better. ``bags`` has the sizes of these rows' bags; ``complete`` says that the proportions
    are those of these rows, and not of more of which they are a sample.
    """
    coordinates = Coordinates.of(rows, rng)
    mapped = coordinates(rows)
    folds = balanced_groups(codes, FOLDS, rng)
    pooled = SpreadLikelihood(CleanFeatures(mapped), codes, bags.channel)
    parts = [pooled.select_rows(np.flatnonzero(folds != fold)) for fold in range(FOLDS)]
    models = [np.zeros(part.shape) for part in parts]
    tried: list[BagLikelihood] = []
    # The log likelihood of rows' bags where rows tell nothing: that of the bags' sizes.
    blind = np.log(np.bincount(codes)[codes] / len(codes))
    calibration: Calibration | None = None
    for lam in _LAMS:
        models = [
            maximise(part, float(lam), tol=3e-4, max_iter=500, start=model)[0]
            for part, model in zip(parts, models, strict=True)
        ]
        # A model of two classes has one score, that of the second.
        weights = [m if m.ndim == 2 else np.column_stack([np.zeros(len(m)), m]) for m in models]
        scores = np.empty((len(codes), len(bags.classes)))
        for fold, model in enumerate(weights):
            scores[folds == fold] = mapped[folds == fold] @ model
        calibration = calibrate(bags, scores, codes, calibration, alone=True)
        chance = (bags.channel[codes] * np.exp(calibration.log_posteriors(scores))).sum(axis=1)
        gains = np.log(np.maximum(chance, 1e-300)) - blind
        gain = float(gains.mean()), float(gains.std() / np.sqrt(len(gains)))
        stacked = np.stack(weights)
        tried.append(
            BagLikelihood(bags, coordinates, stacked, calibration, scores, codes, folds, gain)
        )
        best = int(np.argmax([candidate.gain[0] for candidate in tried]))
        if best < len(tried) - 1:
            break
    chosen = tried[best]
    final = calibrate(bags, chosen.scores, codes, chosen.calibration, complete=complete)
    return replace(chosen, calibration=final)


def mean_and_covariance(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean (K,) of scores (n, K), and the covariance of that mean."""
    mean = scores.mean(axis=0)
    centred = scores - mean
    return mean, centred.T @ centred / max(len(scores) - 1, 1) / len(scores)


def within_classes(
    covariance: np.ndarray, psi: np.ndarray, shares: np.ndarray, size: float
) -> np.ndarray:
    """Return the covariance (..., d, d) of a mean over rows whose class counts are what they are.

    The mean over n rows then varies within classes only: psi^T (diag s - s s^T) psi / n is taken
    off ``covariance`` (d, d), s (..., K) the shares of the classes and psi (..., K, d) their means.
    At least a quarter is left everywhere.
    """
    centred = psi - (shares[..., None] * psi).sum(axis=-2, keepdims=True)
    between = np.swapaxes(centred, -1, -2) @ (shares[..., None] * centred) / size
    values, vectors = np.linalg.eigh(covariance)
    root = vectors / np.sqrt(np.maximum(values, 1e-12 * max(float(values[-1]), 1e-300)))
    share = np.linalg.eigvalsh(root.T @ between @ root)[..., -1]
    part = np.minimum(1.0, (1 - LEAST_SHARE_LEFT) / np.maximum(share, 1e-300))
    return np.asarray(covariance - part[..., None, None] * between)


@dataclass(frozen=True, eq=False)
class ScoreMoments:
    """Means of scores over bags: ``means`` (M, d), and the covariances (M, d, d) of these means.

    ``complete`` says that the proportions are those of exactly these rows: their means then vary
    within classes only.
    """

    bags: KnownBags
    means: np.ndarray
    covariances: np.ndarray
    complete: bool = False

    @classmethod
    def of(
        cls, bags: KnownBags, scores: np.ndarray, codes: np.ndarray, *, complete: bool = False
    ) -> "ScoreMoments":
        """Return the moments of the scores (n, d) of rows in the bags ``codes``."""
        parts = [mean_and_covariance(scores[codes == i]) for i in range(len(bags.names))]
        means, covariances = (np.stack(values) for values in zip(*parts, strict=True))
        return cls(bags, means, covariances, complete)

    def class_means(self) -> "ClassMeans":
        """Return psi.

        A bag weighs one over the variance of its mean: that of sampling, and that of the noise on
        its proportions, psi^T V_i psi.
        """
        sizes, shares = self.bags.sizes, self.bags.unbiased_proportions
        weights = sizes / sizes.sum()
        basis = zero_sum_basis(shares.shape[1])
        for _ in range(3):  # the weights depend on the class means
            # P^T W P without the noise on P, which lies in the directions of sum zero
            middle = weights @ shares
            noisy = (shares.T * weights) @ shares - np.outer(middle, middle)
            noise = np.einsum("i,ikl->kl", weights, self.bags.noise_covariances)
            noisy, noise = (basis.T @ moment @ basis for moment in (noisy, noise))
            spread = noisy - removable_part(noisy, noise) * noise
            second_moments = basis @ spread @ basis.T + np.outer(middle, middle)
            leverage = np.linalg.solve(second_moments, shares.T * weights)
            psi = leverage @ self.means
            variances = np.trace(self.errors(psi), axis1=-2, axis2=-1)
            weights = 1 / np.maximum(variances, 1e-12 * max(variances.max(), 1e-300))
            weights /= weights.sum()
        return ClassMeans(psi, leverage, self)

    def errors(self, psi: np.ndarray) -> np.ndarray:
        """Return the covariances (..., M, d, d) of bags' means about P~ psi, psi (..., K, d)."""
        bags, sampling = self.bags, self.covariances
        if self.complete:
            parts = zip(self.covariances, bags.proportions, bags.sizes, strict=True)
            sampling = np.stack([within_classes(c, psi, s, n) for c, s, n in parts], axis=-3)
        noise = np.einsum("...ka,mkl,...lb->...mab", psi, bags.noise_covariances, psi)
        return np.asarray(sampling + noise)


@dataclass(frozen=True, eq=False)
class ClassMeans:
    """Class means psi (K, d) of scores, class by class: ``leverage`` (K, M) times the bags' means.

    ``moments`` are those of the bags, whose errors are those of psi.
    """

    psi: np.ndarray
    leverage: np.ndarray
    moments: ScoreMoments

    def ratios(self, mean: np.ndarray) -> np.ndarray:
        """Return the nearest proportions to rho with rho psi = mean."""
        rho = np.linalg.lstsq(self.psi.T, mean, rcond=None)[0]
        return nearest_proportions((rho / rho.sum())[None])[0]


# The values of one proportion that are tested: 81 over [0, 1], and 81 within 5 standard errors of
# the estimate. Ends are interpolated between them.
_VALUES, _NEAREST = np.linspace(0, 1, 81), 5.0 * np.linspace(-1, 1, 81)
_FARTHEST = 100.0  # proportions: free ones are sought no farther from the simplex


@dataclass(frozen=True, eq=False)
class TableMoments:
    """The mean score (K,) of a table of ``size`` rows, and the covariance (K, K) of that mean."""

    mean: np.ndarray
    covariance: np.ndarray
    size: int


def accepted_ends(
    means: ClassMeans, table: TableMoments, level: float, excess: float = 1.0
) -> np.ndarray:
    """Return the ends (2, K) of the proportions of a table.

    They are the proportions that are not rejected. Under label shift the mean of scores over U is
    g_U = rho psi, and psi is sum_i l_i g_i, l_i (K,) the leverage of bag i and g_i its mean score.
    With C the covariance of g_U and C_i that of g_i,

        t(rho) = (g_U - rho psi)^T S^-1 (g_U - rho psi),   S = C + sum_i (rho l_i)^2 C_i

    is chi-square where rho is true, however near to singular psi is. For two classes this is
    Fieller's interval (1954): c is in it if t(c) is below the quantile of one degree of freedom.
    For more, the interval of rho_k holds the c for which some rho with rho_k = c is not rejected,
    again at one degree of freedom: the subset test of Anderson and Rubin, which rejects the truth
    no more often than that if bags have the same covariance up to a factor (Guggenberger et al.
    2012).

    C and C_i are covariances within classes, and so depend on psi. They are those at the class
    means that rho makes likely, psi + Cov(psi, rho psi) S^-1 (g_U - rho psi). Bags that hardly
    differ may make classes look far apart by chance. The covariances at psi would then be far too
    small. What is compared with the quantile is t less its least value over [0, 1], which keeps the
    interval from vanishing where the estimate lies outside.

    All covariances are ``excess`` times as large as the rows say. Scores sum to one, so that all
    but the last say everything.
    """
    ratios = means.ratios(table.mean)
    moments = means.moments
    fewer = replace(
        moments, means=moments.means[:, :-1], covariances=moments.covariances[:, :-1, :-1]
    )
    test = _MixtureTest(
        ClassMeans(means.psi[:, :-1], means.leverage, fewer),
        replace(table, mean=table.mean[:-1], covariance=table.covariance[:-1, :-1]),
    )
    quantile = excess * float(chi2.ppf(level, 1))
    ends = []
    for k, error in enumerate(np.sqrt(excess) * test.standard_errors(ratios)):
        near = ratios[k] + error * _NEAREST
        values = np.unique(np.clip(np.concatenate([_VALUES, near]), 0, 1))
        statistics = test.least_statistics(k, values, ratios)
        above = statistics - statistics.min() - quantile
        inside = np.flatnonzero(above <= 0)
        low, high = _zero(values, above, inside[0], -1), _zero(values, above, inside[-1], 1)
        ends.append((min(low, ratios[k]), max(high, ratios[k])))
    return np.array(ends).T


# Covariances of g_U (n, d, d) and of the bags' means (n, M, d, d), and S^-1 (n, d, d).
_Variances = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class _MixtureTest:
    """The test of proportions rho (n, K) of a table, from scores without their last column."""

    classes: ClassMeans
    table: TableMoments

    def off(self, rho: np.ndarray) -> np.ndarray:
        """Return g_U - rho psi."""
        return np.asarray(self.table.mean - rho @ self.classes.psi)

    def variances(self, rho: np.ndarray, psi: np.ndarray) -> _Variances:
        """Return S and what it consists of, at proportions rho and class means psi (n, K, d)."""
        errors = self.classes.moments.errors(psi)
        pull = rho @ self.classes.leverage
        own = within_classes(self.table.covariance, psi, rho.clip(0, 1), self.table.size)
        total = own + np.einsum("nm,nmab->nab", pull**2, errors)
        size = np.trace(total, axis1=1, axis2=2)[:, None, None]
        floor = np.maximum(1e-12 * size, 1e-300) * np.eye(len(self.table.mean))  # no division by 0
        return own, errors, np.linalg.inv(total + floor)

    def standard_errors(self, ratios: np.ndarray) -> np.ndarray:
        """Return the standard error of each proportion, to first order."""
        psi = self.classes.psi
        moves = np.linalg.pinv(psi[:-1] - psi[-1]).T  # of all proportions but the last, by the mean
        moves = np.vstack([moves, -moves.sum(axis=0)])
        covariance = np.linalg.inv(self.variances(ratios[None], psi[None])[2][0])
        return np.sqrt(np.einsum("ki,ij,kj->k", moves, covariance, moves))

    def least_statistics(self, k: int, values: np.ndarray, ratios: np.ndarray) -> np.ndarray:
        """Return the least t over the other proportions, for each value of proportion k.

        With two classes none is free.
        """
        many = len(ratios)
        others = np.delete(np.arange(many), k)
        shares = ratios[others] + 1e-9
        start = np.empty((len(values), many))
        start[:, k] = values
        start[:, others] = (1 - values)[:, None] * (shares / shares.sum())
        free = np.zeros((many - 2, many))  # directions in which the others can move
        free[np.arange(many - 2), others[:-1]] = 1.0
        free[:, others[-1]] = -1.0
        if many == 2:
            return self._search(start, lambda _: start)
        return np.minimum(
            self._search(start, lambda v: start + self._nearest(start, free, v) @ free),
            self._search(start, lambda v: start + self._least_ratio(start, free, v) @ free),
        )

    def _search(self, start: np.ndarray, move: Callable[[_Variances], np.ndarray]) -> np.ndarray:
        """Return the least t on a way of proportions from ``start``, where ``move`` says the next.

        The first is not counted: its covariances are those at psi.
        """
        leverage = self.classes.leverage
        rho, psi = start, np.repeat(self.classes.psi[None], len(start), axis=0)
        least = np.full(len(start), np.inf)
        for step in range(8):  # covariances depend on class means, and these on covariances
            variances = self.variances(rho, psi)
            _, errors, precisions = variances
            off = self.off(rho)
            if step > 0:
                least = np.minimum(least, np.einsum("ni,nij,nj->n", off, precisions, off))
            # The class means (n, K, d) that proportions rho make likely.
            forces = np.einsum("nab,nb->na", precisions, off)
            moves = np.einsum("km,nm,nmab,nb->nka", leverage, rho @ leverage, errors, forces)
            psi, rho = self.classes.psi + moves, move(variances)
        return least

    def _nearest(self, start: np.ndarray, free: np.ndarray, variances: _Variances) -> np.ndarray:
        """Return how far to go along the free directions for the least t, were S as it is."""
        slopes = free @ self.classes.psi
        bent = slopes @ variances[2]
        matrices = bent @ slopes.T
        size = np.trace(matrices, axis1=1, axis2=2)[:, None, None]
        floor = np.maximum(1e-12 * size, 1e-300) * np.eye(len(free))
        targets = np.einsum("naj,nj->na", bent, self.off(start))
        moves = np.linalg.solve(matrices + floor, targets[..., None])[..., 0]
        return np.asarray(np.clip(moves, -_FARTHEST, _FARTHEST))

    def _least_ratio(
        self, start: np.ndarray, free: np.ndarray, variances: _Variances
    ) -> np.ndarray:
        """Return how far to go along the free directions for the least t, S changing on the way.

        Of covariances that differ by a factor, t is a ratio of quadratic forms in h = (1, moves),
        and least at the eigenvector of the least generalised eigenvalue.
        """
        (covariances, errors, precisions), width = variances, len(self.table.mean)
        along = np.repeat((-free @ self.classes.psi)[None], len(start), axis=0)
        sides = np.concatenate([self.off(start)[:, None], along], axis=1)
        above = sides @ precisions @ np.swapaxes(sides, 1, 2)
        own = np.einsum("nab,nab->n", precisions, covariances) / width
        each = np.einsum("nab,nmab->nm", precisions, errors) / width
        lever = self.classes.leverage
        pulls = np.repeat((free @ lever)[None], len(start), axis=0)
        pulls = np.concatenate([(start @ lever)[:, None], pulls], axis=1)
        below = (pulls * each[:, None]) @ np.swapaxes(pulls, 1, 2)
        below[:, 0, 0] += own
        values, vectors = np.linalg.eigh(below)
        values = np.maximum(values, np.maximum(1e-10 * values[:, -1:], 1e-300))
        back = vectors / np.sqrt(values)[:, None]
        ratios = np.swapaxes(back, 1, 2) @ above @ back
        h = (back @ np.linalg.eigh(ratios)[1][:, :, :1])[:, :, 0]
        first = np.where(h[:, :1] < 0, -1.0, 1.0) * np.maximum(np.abs(h[:, :1]), 1e-300)
        return np.asarray(np.clip(h[:, 1:] / first, -_FARTHEST, _FARTHEST))


def _zero(values: np.ndarray, above: np.ndarray, inside: int, step: int) -> float:
    """Return where the line from a value inside to its neighbour outside is zero, if there is one.

    ``step`` is 1 or -1, to the neighbour on the right or left. The last value has none.
    """
    if not 0 <= inside + step < len(values):
        return float(values[inside])
    left = min(inside, inside + step)
    rise = above[left + 1] - above[left]
    return float(values[left] - above[left] * (values[left + 1] - values[left]) / rise)


@dataclass(frozen=True, eq=False)
class ByMoments:
    """Class ratios by class means of the posteriors that the likelihood of bags gives."""

    fitted: BagLikelihood
    means: ClassMeans

    @classmethod
    def of(cls, fitted: BagLikelihood, *, complete: bool) -> "ByMoments":
        """Return the method of a classifier, fitted to all rows of the bags if ``complete``."""
        moments = ScoreMoments.of(
            fitted.bags, fitted.held_out_posteriors, fitted.codes, complete=complete
        )
        return cls(fitted, moments.class_means())

    def summarise(self, batches: Iterable[np.ndarray], rng: Generator) -> TableMoments:
        """Return the mean posterior of the table's rows, with its covariance."""
        del rng
        posteriors = [self.fitted.mean_posteriors(rows) for rows in batches]
        stacked = np.vstack(posteriors)
        return TableMoments(*mean_and_covariance(stacked), len(stacked))

    def ratios(self, summary: TableMoments) -> np.ndarray:
        """Return the ratios of the table."""
        return self.means.ratios(summary.mean)

    def ends(
        self,
        summaries: Sequence[TableMoments],
        level: float,
        draws: int,
        rng: Generator,
        *,
        excess: float,
    ) -> np.ndarray:
        """Return both ends (n, 2, K) of each interval: the proportions that are not rejected."""
        del draws, rng
        return np.array([accepted_ends(self.means, table, level, excess) for table in summaries])

    def held_back_errors(self) -> np.ndarray:
        """Return squared errors (folds, M + 1), as `BagLikelihood.held_back_errors` does."""
        bags, codes = self.fitted.bags, self.fitted.codes
        posteriors = self.fitted.held_out_posteriors

        def learnt_from(rest: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
            means = ScoreMoments.of(bags, posteriors[rest], codes[rest]).class_means()
            return lambda part: means.ratios(posteriors[part].mean(axis=0))

        return self.fitted.errors_by_fold(learnt_from)
