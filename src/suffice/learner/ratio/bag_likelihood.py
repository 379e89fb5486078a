"""Class ratios by the likelihood of bags: a classifier of which bag a row is in.

A row x of the pooled bags is in bag i with probability

    q_i(x) = sum_k T_ik p(k | x),   T_ik = n_i P_ik / sum_j n_j P_jk,

since within a class the bag says nothing (assumption A1). So bags are class labels that went
through a known channel T, and the model of p(k | x) that explains the bags best is found by the
likelihood of `suffice.learner.spread`, with no label. What T^-1 makes of a free classifier of bags
can be negative; these class posteriors cannot.

Scores come from models that did not see their row (five folds) and are then calibrated, by one
slope and one constant per class (Alexandari et al. 2020), again through T. Calibration uses one
thing more that is known: how many rows of each class a bag has (`calibration`). The penalty is the
one whose calibrated scores explain held-out rows best. The ratios of a table U are the weights of
the mixture sum_k rho_k p(k | x) / p(k) that explains its rows best.
"""

from dataclasses import dataclass, replace

import numpy as np

from suffice.learner.ratio.bags import KnownBags
from suffice.learner.ratio.calibration import Calibration, calibrate, calibrate_by_bags
from suffice.learner.ratio.resampling import balanced_groups
from suffice.learner.spread.likelihood import CleanFeatures, SpreadLikelihood
from suffice.learner.spread.selection import maximise
from suffice.models.simplex import mixture_weights

__all__ = ["BagLikelihood", "Coordinates", "fit_bag_likelihood"]

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
