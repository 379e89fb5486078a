"""How sure a fitted model is: its risk without labels, and intervals from the known noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr, ndtri, ndtri_exp

from suffice.errors import ParameterError
from suffice.learner.operator.bounds import NoiseBounds, noise_bounds
from suffice.learner.operator.probing import optimism_by_trial
from suffice.learner.operator.restoring import Restoration
from suffice.learner.operator.shrinking import Shrinkage
from suffice.learner.operator.tuning import Optimism, labels_behind
from suffice.models.problem import FactoredProblem
from suffice.release.covariance import Covariance

__all__ = ["Evidence", "interval", "interval_above"]

_LARGEST = 2000  # entries of a model whose Hessian is inverted


@dataclass(frozen=True, eq=False)
class Evidence:
    """Holds what a model was fitted on: one problem, or one per class, and the operator's noise.

    The problems have the operator as it was released, whether or not it was restored or shrunk.
    Where it was shrunk, in white coordinates, ``shrinkage`` says to what share, and how models of
    them become models of the pipeline's coordinates. So does each problem's restoration, where
    there are ``restorations``; one without a basis is a projection.
    """

    problems: Sequence[FactoredProblem]
    models: Sequence[np.ndarray]
    lam: float
    noise: Covariance
    shrinkage: Shrinkage | None = None
    restorations: Sequence[Restoration] = ()

    @cached_property
    def risk(self) -> tuple[float, float]:
        """The estimated risk on fresh labels of the same rows, and its standard deviation.

        The mean over the classes, one against the rest. The deviation is that of the mechanism's
        noise and the sampling of labels together. How far a model of a restored operator follows
        the noise is tried (`probing`); of others a formula says it.
        """
        self._check_noise()
        mended = [self._mended(i) for i in range(len(self.problems))]
        risks = [risk + mend for risk, (mend, _) in zip(self._own_risks, mended, strict=True)]
        return float(np.mean(risks)), float(np.mean([deviation for _, deviation in mended]))

    @cached_property
    def least_risk(self) -> float:
        """The least risk that any labels of the rows give the models: that of their predictions."""
        return float(np.mean(list(map(_least_risk, self.problems, self.models, self._own_risks))))

    @cached_property
    def _own_risks(self) -> list[float]:
        """The risk of each model on the operator that it was fitted on; rows are read once."""
        pairs = zip(self.problems, self.models, strict=True)
        return [problem.risk(model)[0] for problem, model in pairs]

    def _mended(self, i: int) -> tuple[float, float]:
        """Return by how much the risk of the i-th model is too small, and its deviation then."""
        problem, model = self.problems[i], self.models[i]
        if self.restorations and len(problem.operator) > 1:
            return optimism_by_trial(problem, model, self.lam, self.restorations[i])
        count = labels_behind(problem)
        optimism = Optimism(problem, self.noise, count, kept_shares=self._kept_shares(i))
        return optimism.of(problem, model, self.lam), optimism.error(problem, model, self.lam)

    def _kept_shares(self, i: int) -> np.ndarray | None:
        if self.restorations:  # of a constant
            return self.restorations[i].kept_shares[-1:]
        return None if self.shrinkage is None else self.shrinkage.kept_shares

    def _check_noise(self) -> None:
        if self.noise.form == "none":
            raise ParameterError(
                "The noise of this mean operator is not known, so its effect cannot be computed."
                " Use a release or a source that states its noise."
            )

    def bounds(self, mechanism: str, delta: float) -> NoiseBounds:
        """Return what the mechanism's noise can have done to the model (`bounds`)."""
        penalty = self.problems[0].penalty.name
        shrunk = self.shrinkage is not None or any(r.basis is not None for r in self.restorations)
        if len(self.problems) > 1 or penalty != "l2" or shrunk:
            raise ParameterError(
                "Noise bounds exist only for penalty='l2', shrink=False and a loss that trains one"
                " model. Use these settings."
            )
        problem = self.problems[0]
        a = 2 * problem.operator_weight
        return noise_bounds(self.noise, mechanism, self.models[0], a=a, lam=self.lam, delta=delta)

    def deviations(self, *, sampling: bool, basis: np.ndarray | None = None) -> np.ndarray:
        """Return the standard deviation of each coefficient, (d,) or (d, K).

        The minimiser moves by weight H^-1 n when the operator moves by n, H the Hessian there: the
        covariance is weight^2 H^-1 C H^-1, to first order. With a ``basis`` B (q, d) they are those
        of B theta, (q,) or (q, K).
        """
        columns = [
            self._deviations(i, sampling=sampling, basis=basis) for i in range(len(self.problems))
        ]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)

    def _deviations(self, i: int, *, sampling: bool, basis: np.ndarray | None) -> np.ndarray:
        self._check_noise()
        problem, model = self.problems[i], self.models[i]
        if not problem.penalty.smooth or model.size > _LARGEST:
            raise ParameterError(
                f"Intervals exist only for penalties without a 1-norm and at most {_LARGEST:,}"
                " coefficients. Use penalty='l2' or fewer columns."
            )
        if self.restorations and self.restorations[i].basis is not None:
            # Coverage was 0.16 to 0.83 (bench/coverage.py): what noise left decides what is kept.
            raise ParameterError(
                "The noise hides too much of this release for intervals of coefficients. Use"
                " shrink=False, project=False and a lam of your own."
            )
        inverse = np.linalg.inv(problem.hessian(model, self.lam))
        width, columns = len(model), model.size // len(model)
        noise = self.noise
        if sampling:  # a label is in one of K columns: about 1/K of S/m in each
            labels = labels_behind(problem) * columns
            vary = Covariance("factor", 1 / labels, _root(problem.moment))
            noise = noise + vary if noise.variance else vary
        blocks = inverse.reshape(width, columns, model.size)  # C acts on each column alone
        if problem.loss is None:  # what all columns of M share is public, and was set right
            blocks = blocks - blocks.mean(axis=1, keepdims=True)
        if self.shrinkage is not None:
            blocks = _in_pipeline(blocks, self.shrinkage.kept_shares, self.shrinkage.basis)
        if basis is not None:
            coefficients = blocks.reshape(width, columns, -1, columns)
            blocks = np.einsum("wkdc,qd->wkqc", coefficients, basis).reshape(width, columns, -1)
        variances = np.sum([noise.along(blocks[:, k]) for k in range(columns)], axis=0)
        return problem.operator_weight * np.sqrt(variances).reshape(-1, *model.shape[1:])


def _in_pipeline(blocks: np.ndarray, kept_shares: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Return how the pipeline's coefficients follow the noise, from how white ones follow it.

    The shrunk operator moves by the kept share of the noise, and coefficients are B theta.
    """
    width, columns, _ = blocks.shape
    parts = (kept_shares * blocks.T).T.reshape(width, columns, width, columns)
    rotated_blocks = np.einsum("wkvc,dv->wkdc", parts, basis)
    return rotated_blocks.reshape(width, columns, -1)


def _root(moment: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(moment)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _least_risk(problem: FactoredProblem, model: np.ndarray, risk: float) -> float:
    """Return sum_i w_i (g(z_i) - weight |z_i|); of softmax the largest score of a row for |z_i|.

    ``risk`` is sum_i w_i g(z_i) - weight <theta, operator>.
    """
    scores = problem.weighted.scores(model)
    best = np.abs(scores) if scores.ndim == 1 else scores.max(axis=1)
    labelled = float(np.sum(model * problem.operator))
    return risk + problem.operator_weight * (labelled - float(problem.weighted.weights @ best))


def interval_above(centre: float, deviation: float, level: float, least: float) -> np.ndarray:
    """Return a Gaussian interval of a number that is at least ``least``.

    The upper end leaves (1 - level) / 2 of what is left of the distribution above ``least``, so
    that the interval is never empty; far above ``least`` it is `interval`.
    """
    low, high = interval(centre, deviation, level)
    if deviation > 0:
        above = float(log_ndtr((centre - least) / deviation))
        high = centre - deviation * float(ndtri_exp(np.log((1 - level) / 2) + above))
    return np.maximum([low, high], least)


def interval(centre: np.ndarray | float, deviation: np.ndarray | float, level: float) -> np.ndarray:
    """Return the two ends of a Gaussian interval, stacked in front."""
    if not 0 < level < 1:
        raise ParameterError(f"level must lie between 0 and 1. It is {level!r}.")
    reach = ndtri((1 + level) / 2) * deviation
    return np.stack([centre - reach, centre + reach])
