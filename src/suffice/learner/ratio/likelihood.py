"""Calibration of scores by the bags that rows are in, and by how many of each class a bag has.

Scores become class posteriors by one slope and one constant per class (Alexandari et al. 2020),
those that explain the bags of rows best through the channel T of `bag_likelihood`.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from suffice.learner.ratio.bags import KnownBags, balanced_groups
from suffice.learner.spread.likelihood import CleanFeatures, SpreadLikelihood, maximise
from suffice.learner.weak import group_sums
from suffice.models.simplex import mixture_weights

__all__ = [
    "BagLikelihood",
    "Calibration",
    "Coordinates",
    "LabelCounts",
    "calibrate",
    "calibrate_by_bags",
    "fit_bag_likelihood",
]


_LEAST = 1e-300
_CALIBRATION_TOL = 4e-3  # of a gradient whose standard deviation is some .2 / sqrt(rows)
_PRIOR = 1.0  # weight, in rows, of knowing that scores are calibrated already
_STEEPEST = 20.0  # logarithm of a slope; a search may try more, and numbers would overflow


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


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """What the proportions P say of how many rows of each class a bag has.

    Given a bag's rows, row x is of class k with probability r_k(x), and so the counts N_i have the
    mean sum_x r(x) and the covariance sum_x (diag r - r r^T), to which noise on P adds n_i^2 v_i.
    The likelihood of bags takes rows for independent draws; that the counts came out as n_i P_i is
    the factor it leaves out, here by its normal approximation with the covariance held fixed:

        1/2 sum_i (sum_x r(x) - n_i P_i)^T C_i^-1 (sum_x r(x) - n_i P_i)

    ``expected`` (M, K) is n P; ``precisions`` (M, K, K) are C^-1.
    """

    expected: np.ndarray
    precisions: np.ndarray

    @classmethod
    def of(
        cls, bags: KnownBags, codes: np.ndarray, weights: np.ndarray, within: np.ndarray | None
    ) -> "LabelCounts | None":
        """Return the counts of rows of these bags; None where their noise is not known.

        ``within`` (n, K) is r of all rows of the bags. None for a sample of them, whose counts are
        those of n_i independent draws: C_i = n_i (diag P_i - P_i P_i^T).
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
        return cls(expected, np.linalg.inv(diagonal - seconds))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Scores of rows of bags, and how likely their bags are when these are calibrated."""

    scores: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    channel: np.ndarray

    def within(self, calibration: Calibration) -> np.ndarray:
        """Return the probability of each class given row and bag, (n, K)."""
        joint = self.channel[self.codes] * np.exp(calibration.log_posteriors(self.scores))
        return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), _LEAST))

    def fit(self, start: Calibration, labels: LabelCounts | None) -> Calibration:
        """Return the calibration that explains bags best, and what is known of their labels."""
        total, chances = self.weights.sum(), self.channel[self.codes]
        weights = self.weights[:, None]

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            slope = _slope(flat[0])
            clean = softmax(slope * self.scores + flat[1:], axis=1)
            joint = chances * clean
            chance = np.maximum(joint.sum(axis=1), _LEAST)
            within = joint / chance[:, None]
            value = _PRIOR / 2 * float(flat @ flat) - float(self.weights @ np.log(chance))
            pull = weights * (clean - within)
            if labels is not None:
                off = group_sums(weights * within, self.codes, len(self.channel)) - labels.expected
                force = np.einsum("ijk,ik->ij", labels.precisions, off)
                value += float(np.vdot(force, off)) / 2
                each = force[self.codes]
                each -= (within * each).sum(axis=1, keepdims=True)
                pull += weights * within * each
            by_slope = slope * float(np.vdot(pull, self.scores))
            gradient = np.append(by_slope, pull.sum(axis=0)) + _PRIOR * flat
            return value / total, gradient / total

        first = np.append(np.log(start.slope), start.shifts)
        options = {"gtol": _CALIBRATION_TOL / np.sqrt(total), "hess_inv0": start.bend}
        optimum = minimize(objective, first, jac=True, method="BFGS", options=options)
        bend = (optimum.hess_inv + optimum.hess_inv.T) / 2
        return Calibration(_slope(optimum.x[0]), optimum.x[1:], bend)


def _slope(logarithm: float) -> float:
    return float(np.exp(np.clip(logarithm, -_STEEPEST, _STEEPEST)))


def calibrate_by_bags(
    bags: KnownBags, scores: np.ndarray, codes: np.ndarray, start: Calibration | None = None
) -> Calibration:
    """Return the slope and shifts that explain the bags of rows best, through their channel.

    ``scores`` (n, K) of rows, ``codes`` of their bags. A weak prior holds the slope near one and
    the shifts near zero: classes that are told apart without error would else have no best slope.
    """
    first = start or Calibration(1.0, np.zeros(scores.shape[1]))
    return _Rows(scores, codes, np.ones(len(codes)), bags.channel).fit(first, None)


def calibrate(
    bags: KnownBags,
    scores: np.ndarray,
    codes: np.ndarray,
    start: Calibration,
    *,
    counts: np.ndarray | None = None,
    complete: bool = False,
) -> Calibration:
    """Return the same with what is known of the labels, from ``start``, that of bags alone.

    ``counts`` says how often each row counts, ``complete`` that these are all rows of the bags, and
    not a sample.
    """
    weights = np.ones(len(codes)) if counts is None else counts
    rows = _Rows(scores, codes, weights, bags.channel)
    within = rows.within(start) if complete else None
    return rows.fit(start, LabelCounts.of(bags, codes, weights, within))


_FOLDS = 5
_LAMS = 10.0 ** np.arange(0.0, -5.01, -1.0)  # coarse: calibration mends the scale of the scores
_TOL, _MAX_ITER = 3e-4, 500
_WIDEST = 128  # coordinates; of more, the principal components of the rows
_SAMPLE = 5000  # rows enough for those


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Rows as the classifier sees them: their principal components if they are wide, and a one."""

    axes: np.ndarray | None
    scale: float

    @classmethod
    def of(cls, rows: np.ndarray, rng: np.random.Generator) -> "Coordinates":
        """Return coordinates in which rows have a mean square of one per coordinate."""
        axes = None
        if rows.shape[1] > _WIDEST:
            some = rows[np.sort(rng.permutation(len(rows))[:_SAMPLE])]
            axes = np.linalg.eigh(some.T @ some)[1][:, ::-1][:, :_WIDEST].copy()
        projected = rows if axes is None else rows @ axes
        return cls(axes, float(np.sqrt(np.mean(projected**2))) or 1.0)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the coordinates of rows."""
        projected = rows if self.axes is None else rows @ self.axes
        return np.column_stack([projected / self.scale, np.ones(len(rows))])


@dataclass(frozen=True, eq=False)
class BagLikelihood:
    """A fitted classifier of bags, and the held-out scores that it was calibrated with.

    ``fold_weights`` (F, d + 1, K) are the folds' models; ``scores`` (n, K), ``codes`` and
    ``folds`` are those of the rows it learnt from; ``gain`` is by how much held-out rows are
    likelier than under bags that cannot be told apart, with its standard error.
    """

    bags: KnownBags
    coordinates: Coordinates
    fold_weights: np.ndarray
    calibration: Calibration
    scores: np.ndarray
    codes: np.ndarray
    folds: np.ndarray
    lam: float
    gain: tuple[float, float]

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

    def likelihoods(self, scores: np.ndarray) -> np.ndarray:
        """Return p(x | k) up to a factor per row."""
        log = self.calibration.log_posteriors(scores) - np.log(self.bags.prior)
        return np.asarray(np.exp(log - log.max(axis=1, keepdims=True)))

    def ratios(self, scores: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
        """Return the ratios of the table whose rows have these scores."""
        return mixture_weights(self.likelihoods(scores), counts)

    def recalibrate(self, bags: KnownBags, counts: np.ndarray) -> "BagLikelihood":
        """Return what other proportions and other counts of the same rows would have given."""
        calibration = calibrate(bags, self.scores, self.codes, self.calibration, counts=counts)
        return replace(self, bags=bags, calibration=calibration)

    def held_back_parts(self) -> list[np.ndarray]:
        """Return which rows each fold holds back; bags of fewer rows than folds have fewer."""
        return [self.folds == fold for fold in range(min(_FOLDS, int(self.bags.sizes.min())))]

    def held_back_errors(self) -> np.ndarray:
        """Return squared errors (folds, M + 1), as `mean_embedding.held_back_errors` does."""
        truth = np.vstack([self.bags.proportions, self.bags.prior])
        errors = []
        for held_back in self.held_back_parts():
            fitted = self.recalibrate(self.bags, np.where(held_back, 0.0, 1.0))
            parts = [held_back & (self.codes == i) for i in range(len(self.bags.names))]
            estimates = np.array([fitted.ratios(self.scores[part]) for part in [*parts, held_back]])
            errors.append(((estimates - truth) ** 2).sum(axis=1))
        return np.array(errors)


def fit_bag_likelihood(
    bags: KnownBags,
    rows: np.ndarray,
    codes: np.ndarray,
    rng: np.random.Generator,
    *,
    complete: bool = True,
) -> BagLikelihood:
    """Return the classifier of bags with the penalty that explains held-out rows best.

    From the strongest penalty on, each solution where the next search starts, until one is no
    better. ``bags`` has the sizes of these rows' bags; ``complete`` says that the proportions
    are those of these rows, and not of more of which they are a sample.
    """
    coordinates = Coordinates.of(rows, rng)
    mapped = coordinates(rows)
    folds = balanced_groups(codes, _FOLDS, rng)
    pooled = SpreadLikelihood(CleanFeatures(mapped), codes, bags.channel)
    parts = [pooled.select_rows(np.flatnonzero(folds != fold)) for fold in range(_FOLDS)]
    models = [np.zeros(part.shape) for part in parts]
    tried: list[BagLikelihood] = []
    calibration: Calibration | None = None
    for lam in _LAMS:
        models = [
            maximise(part, float(lam), tol=_TOL, max_iter=_MAX_ITER, start=model)[0]
            for part, model in zip(parts, models, strict=True)
        ]
        weights = [_by_class(model) for model in models]
        scores = np.empty((len(codes), len(bags.classes)))
        for fold, model in enumerate(weights):
            scores[folds == fold] = mapped[folds == fold] @ model
        calibration = calibrate_by_bags(bags, scores, codes, calibration)
        gain = _gain(calibration.log_posteriors(scores), codes, bags)
        stacked = np.stack(weights)
        tried.append(
            BagLikelihood(
                bags, coordinates, stacked, calibration, scores, codes, folds, float(lam), gain
            )
        )
        best = int(np.argmax([candidate.gain[0] for candidate in tried]))
        if best < len(tried) - 1:
            break
    chosen = tried[best]
    final = calibrate(bags, chosen.scores, codes, chosen.calibration, complete=complete)
    return replace(chosen, calibration=final)


def _by_class(model: np.ndarray) -> np.ndarray:
    """Return weights (d, K); a model of two classes has one score, that of the second."""
    return model if model.ndim == 2 else np.column_stack([np.zeros(len(model)), model])


def _gain(log_posteriors: np.ndarray, codes: np.ndarray, bags: KnownBags) -> tuple[float, float]:
    """Return the mean log likelihood of rows' bags over that of their sizes, and its error."""
    chance = (bags.channel[codes] * np.exp(log_posteriors)).sum(axis=1)
    sizes = np.bincount(codes, minlength=len(bags.names)) / len(codes)
    gains = np.log(np.maximum(chance, 1e-300)) - np.log(sizes[codes])
    return float(gains.mean()), float(gains.std() / np.sqrt(len(gains)))
