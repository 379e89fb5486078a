"""Baselines of the spread likelihood: other ways to learn from randomised records.

All are logistic (softmax) regressions with weights in the coordinates of the declared columns
(`declared_pipeline`), the penalty (lam/2) ||theta||^2 chosen by cross-validation on what each was
given. Barber 2020 names them:

clean           on the clean records: what no learner here has (Section 6)
naive           on the corrupted records as if they were clean (eq. 34)
whitened        the same in coordinates of even spread (Appendix B)
reconstruction  on records that the model being learnt reconstructs (eq. 36, 37)

None of the last three is consistent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.covariance import ledoit_wolf

from suffice.errors import ParameterError
from suffice.learner.base import LinearModel
from suffice.learner.rows import design_matrix
from suffice.learner.spread.likelihood import (
    CleanFeatures,
    Corrupted,
    Objective,
    SpreadLikelihood,
    choose_lam,
    clean_features,
    coordinates,
    maximise,
)
from suffice.release.columns import Added, SpreadColumn, declared_pipeline
from suffice.release.release import Release

__all__ = ["Baseline", "ReconstructionObjective", "as_observed", "spread_baselines"]


Fit = tuple[np.ndarray, float]  # weights, and the penalty that they were found with

_TOL, _MAX_ITER = 1e-5, 2000


class Baseline(LinearModel):
    """Computes the class of clean rows by the weights ``theta_`` of a fit that it did not make.

    Rows are tables with the declared columns. It is for comparison, and has no file.
    """

    @classmethod
    def of(
        cls, coef: np.ndarray, lam: float, columns: Sequence[SpreadColumn], classes: Sequence[Any]
    ) -> "Baseline":
        """Return the model with these weights."""
        model = cls()
        model.theta_, model.lam_ = coef, lam
        model.classes_, model.releases_ = np.array(classes), ()
        model.pipeline_ = declared_pipeline(columns)
        return model

    def decision_function(self, X: Any) -> np.ndarray:
        """Return scores: one per row for two classes, one per row and class for more."""
        return design_matrix(X, self.pipeline_, new=True) @ self.theta_

    def to_release(self) -> Release:
        """Raise: what is for comparison is no release."""
        raise ParameterError(
            "A baseline is for comparison only and has no file. Use SpreadClassifier."
        )


def spread_baselines(
    records: Corrupted,
    codes: np.ndarray,
    channel: np.ndarray,
    classes: Sequence[Any],
    clean: tuple[Any, np.ndarray] | None = None,
    *,
    lam: float | str = "auto",
    seed: int = 0,
) -> dict[str, Baseline]:
    """Return the other ways to learn from corrupted records, fitted, by name.

    ``codes`` are the observed labels and ``channel`` is P[observed i | true j], as in
    `SpreadClassifier.fit_corrupted`. ``clean``, a table of clean rows and the codes of their
    labels, adds what could be learnt from those. ``lam`` is the penalty, "auto" by cross-validation
    with folds drawn by ``seed``.
    """
    exact_channel = np.eye(len(channel))
    fits = {}

    def fitted(likelihood: SpreadLikelihood) -> Fit:
        own = choose_lam(likelihood, max_iter=_MAX_ITER, seed=seed) if lam == "auto" else float(lam)
        return maximise(likelihood, own, tol=_TOL, max_iter=_MAX_ITER)[0], own

    if clean is not None:
        rows = CleanFeatures(design_matrix(clean[0], declared_pipeline(records.columns)))
        fits["clean"] = fitted(SpreadLikelihood(rows, clean[1], exact_channel))
    observed = as_observed(records)
    fits["naive"] = fitted(SpreadLikelihood(observed, codes, exact_channel))
    fits["whitened"] = _whitened(
        observed, lambda even: fitted(SpreadLikelihood(even, codes, exact_channel))
    )
    # Its own held-out value cannot choose a penalty, being best where the model is surest: it gets
    # that of naive training.
    fits["reconstruction"] = _reconstructed(records, codes, channel, fits["naive"][1])
    return {name: Baseline.of(*fit, records.columns, classes) for name, fit in fits.items()}


def as_observed(records: Corrupted) -> CleanFeatures:
    """Return the corrupted records as if they were clean; the constant coordinate last."""
    blocks = []
    for column, cells in zip(records.columns, records.cells, strict=True):
        if isinstance(column.noise, Added):
            blocks.append(column.noise.scaled(cells)[:, None])
        else:
            blocks.append(coordinates(column)[cells])
    return CleanFeatures(np.hstack([*blocks, np.ones((records.count, 1))]))


def _whitened(observed: CleanFeatures, fitted: Callable[[CleanFeatures], Fit]) -> Fit:
    """Return naive training after a whitening of what was observed, in the old coordinates.

    Appendix B: naive training finds the direction of theta if inputs are isotropic. (A linear map
    changes a fit by its penalty alone; for Gaussian inputs and clean features the direction is
    right for any covariance, docs/errata.md.) Deviation: the covariance is shrunk (Ledoit & Wolf
    2004), for with fewer records than columns there is no whitening by the plain one.
    """
    rows = observed.mean[:, :-1]
    middle = rows.mean(axis=0)
    values, vectors = np.linalg.eigh(ledoit_wolf(rows)[0])
    sure = values > values.max() * np.finfo(float).eps
    root = vectors[:, sure] / np.sqrt(values[sure])
    even = CleanFeatures(np.column_stack([(rows - middle) @ root, np.ones(len(rows))]))
    solution, lam = fitted(even)
    weights = root @ solution[:-1]
    constant = solution[-1] - middle @ weights
    return np.concatenate([weights, constant[None]]), lam


def _reconstructed(records: Corrupted, codes: np.ndarray, channel: np.ndarray, lam: float) -> Fit:
    rows = clean_features(records, "marginals").mean
    objective = ReconstructionObjective(rows, codes, channel)
    return maximise(objective, lam, tol=_TOL, max_iter=_MAX_ITER)[0], lam


@dataclass(frozen=True, eq=False)
class ReconstructionObjective(Objective):
    """Computes -J, the fit to labels that the model itself reconstructs, and its gradient.

    J(theta) = (1/n) sum_i sum_c q_ic log p(c | x_i),    q_ic ~ P[c~_i | c] p(c | x_i)

    (Barber 2020, eq. 36 and 37), at the ``rows`` x_i expected of the corrupted ones: deviation, the
    spread around them is left out, which makes no difference where features are clean. Not
    consistent; worse, wherever P is positive J is largest, zero, for any direction of theta whose
    length goes to infinity, for a model that is sure reconstructs what it believes
    (docs/errata.md). What is found is the optimum nearest to zero, held by the penalty.
    """

    rows: np.ndarray
    codes: np.ndarray
    channel: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameters, as of `SpreadLikelihood`."""
        width, classes = self.rows.shape[1], len(self.channel)
        return (width,) if classes == 2 else (width, classes)

    def __call__(self, theta: np.ndarray, lam: float = 0.0) -> tuple[float, np.ndarray]:
        """Return -J + (lam/2) ||theta||^2 and its gradient."""
        scores = self.rows @ theta
        two = theta.ndim == 1
        logs = log_softmax(
            np.column_stack([np.zeros_like(scores), scores]) if two else scores, axis=1
        )
        with np.errstate(divide="ignore"):  # without noise: log 0, and a reconstruction of zero
            posterior = softmax(np.log(self.channel[self.codes]) + logs, axis=1)
        fits = (posterior * logs).sum(axis=1, keepdims=True)
        # d fit / d score_k = q_k (log p_k - fit) + q_k - p_k
        pulls = posterior * (logs - fits + 1) - np.exp(logs)
        gradient = -self.rows.T @ (pulls[:, 1] if two else pulls) / len(self.codes)
        value = -float(fits.mean()) + lam / 2 * float(np.vdot(theta, theta))
        return value, gradient + lam * theta
