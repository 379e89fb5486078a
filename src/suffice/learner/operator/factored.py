"""A linear classifier that learns from public rows and a mean operator, and never sees a label."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import sqrt
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted, validate_data

from suffice.engines.opening import Computing
from suffice.engines.streamed import StreamedRows
from suffice.errors import ParameterError
from suffice.learner.base import FIGURES, LinearModel
from suffice.learner.operator.bounds import NoiseBounds
from suffice.learner.operator.combining import Supervised, combine_releases
from suffice.learner.operator.evidence import Evidence, interval
from suffice.learner.operator.shrinking import Shrinkage
from suffice.learner.operator.tuning import choose_lam, intercept_alone
from suffice.learner.sklearn_names import Interval, StrOptions, fit_context
from suffice.learner.weak import PlainLabels, Supervision, estimate_mean_operator
from suffice.models.losses import LOSSES, LinearOddLoss, loss_named
from suffice.models.penalties import PENALTIES, Penalty, penalty_named
from suffice.models.problem import FactoredProblem, Solution
from suffice.models.threads import one_blas_thread
from suffice.models.zonotope import project
from suffice.privacy.guarantee import Unit
from suffice.release.artifact import Release
from suffice.release.covariance import Covariance

__all__ = ["FactoredClassifier"]

_RIGHT = 1e-9  # of the largest coordinate: what rounding does to sums
_NOISY = 0.1  # share of noise in ||mu||^2 below which a projection is not worth its time


class FactoredClassifier(LinearModel):
    """Computes the linear classifier of least factored risk, from a mean operator and public rows.

    minimise (1/m) sum_i g(<theta, x_i>) - (a/2) <theta, mu> + penalty(theta)

    with mu from releases (`fit_release`), from weak supervision (`fit_weak`) or from plain labels
    (`fit`); the latter two are not private.

    Parameters
    ----------
    loss : str, LinearOddLoss or callable, default="logistic"
        "logistic" or "softmax" (one model; softmax for three classes or more), "square",
        "matsushita", "linear", or a loss of one's own that is checked to be linear-odd; those work
        one against the rest for more classes.
    penalty : {"l2", "l1", "elastic-net", "none"} or Penalty, default="l2"
        (lam/2) ||theta||_2^2, lam ||theta||_1, the mean of both, or nothing, which is refused where
        no minimiser exists. The intercept's coordinate pays (lam/2) theta^2 in the first three.
    lam : float or "auto", default="auto"
        Weight of the penalty. "auto" chooses it from the release alone (`operator.tuning`), and
        falls back to the intercept where no model does better.
    project : bool, default=True
        Whether a noisy operator is first moved to the nearest one that labels can have.
    shrink : bool or "auto", default="auto"
        Whether what noise left of the operator is estimated first, and the penalty taken in
        coordinates in which the rows are white (`operator.shrinking`, which also chooses lam), in
        the place of ``project``. "auto": of releases that protect parties, with the l2 penalty.
    tol : float, default=1e-6
        The gradient's largest entry at which the solver may stop. More than ten times as much is
        an error; ``gradient_norm_`` is what was reached.
    max_iter : int, default=1000
        The most iterations of the solver.

    Attributes
    ----------
    coef_ : ndarray of shape (d,) or (d, K)
        One weight per coordinate of ``pipeline_``, the intercept's among them.
    coef_interval_ : ndarray of shape (2, d) or (2, d, K)
        Where each coefficient would be without the mechanism's noise, at 95 %; see `coef_interval`.
    risk_ : float
        The risk on fresh labels of the same rows, estimated without any label.
    risk_interval_ : ndarray of shape (2,)
        Its interval at 95 %, for the mechanism's noise and the sampling of labels.
    classes_ : ndarray
        The classes; for two, positive scores mean the second.
    lam_ : float
        The penalty's weight that was used.
    intercept_only_ : bool
        Whether no model was found better than a constant.
    pipeline_ : Pipeline
        What turns raw rows into coordinates.
    releases_ : tuple of Release
        The releases that the model was learnt from.
    """

    stored_as = "FactoredClassifier"
    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "loss": [StrOptions({*LOSSES, "softmax", "hinge", "rho"}), LinearOddLoss, callable],
        "penalty": [StrOptions(set(PENALTIES)), Penalty],
        "lam": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "project": ["boolean"],
        "shrink": ["boolean", StrOptions({"auto"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(  # noqa: PLR0917  # scikit-learn's convention
        self,
        loss: Any = "logistic",
        penalty: Any = "l2",
        lam: float | str = "auto",
        project: bool = True,  # noqa: FBT001, FBT002
        shrink: bool | str = "auto",  # noqa: FBT001
        tol: float = 1e-6,
        max_iter: int = 1000,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.lam = lam
        self.project = project
        self.shrink = shrink
        self.tol = tol
        self.max_iter = max_iter

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> "FactoredClassifier":
        """Learn from plain labels; this promises nothing about them."""
        rows, codes = self._plain_data(X, y)
        source = PlainLabels(codes, range(len(self.classes_)))
        return self._fit_operator(Supervised(rows, estimate_mean_operator(rows, source)))

    @fit_context(prefer_skip_nested_validation=True)
    def fit_weak(self, X: Any, source: Supervision) -> "FactoredClassifier":
        """Learn from what is known about the labels of the rows (`suffice.learner.weak`)."""
        rows = self._plain_rows(validate_data(self, X, dtype=np.float64))
        supervision = Supervised(rows, estimate_mean_operator(rows, source))
        self.classes_ = np.array(supervision.estimate.classes)
        return self._fit_operator(supervision)

    @fit_context(prefer_skip_nested_validation=True)
    def fit_release(
        self, release: Release | Sequence[Release], X: Any, **computing: Any
    ) -> "FactoredClassifier":
        """Learn from one release, or several owners', and the public rows they belong to.

        Rows that do not fit into memory stay in their files (`suffice.learner.streaming`), and are
        read again for each sum over them; ``computing`` (``engine``, ``workers``, ``scheduler``,
        ``progress``) says where.
        """
        releases = (release,) if isinstance(release, Release) else tuple(release)
        where = Computing(**computing)
        with where.running() as running:
            supervision = combine_releases(releases, X, running)
            self._learn_from(releases)
            self._fit_operator(supervision)
        if isinstance(supervision.rows, StreamedRows):  # intervals need further passes
            supervision.rows.run_on(where)
        return self

    @one_blas_thread()
    def _fit_operator(self, supervision: Supervised) -> "FactoredClassifier":
        """Choose the penalty if asked to, then minimise every factored problem there is."""
        shrinkage = self._shrinkage(supervision)
        inputs = supervision if shrinkage is None else shrinkage.released
        problems = self._problems(inputs)
        noise = _column_noise(inputs).scaled(_noise_per_problem(problems))
        self.lam_, self.intercept_only_ = self._penalty(problems, noise, shrinkage)
        adjusted_problems = problems
        if shrinkage is not None:
            adjusted_problems = self._problems(shrinkage.shrunk)
        elif self.project:
            adjusted_problems = [_project_if_noisy(problem, noise) for problem in problems]
        solutions = [self._solve(problem) for problem in adjusted_problems]
        self.n_iter_ = max(solution.iterations for solution in solutions)
        self.gradient_norm_ = max(solution.gradient for solution in solutions)
        models = [solution.parameters for solution in solutions]
        self.coef_ = _side_by_side(
            models if shrinkage is None else [shrinkage.basis @ m for m in models]
        )
        self._evidence = self._evidence_of(problems, models, noise, shrinkage)
        return self

    def _shrinkage(self, supervision: Supervised) -> Shrinkage | None:
        """Return what noise left of the operator, where that is asked for."""
        parties = bool(self.releases_) and all(
            guarantee.unit is Unit.PARTY
            for release in self.releases_
            for guarantee in release.guarantees
        )
        squared = penalty_named(self.penalty).name == "l2"
        wanted = parties and squared if self.shrink == "auto" else self.shrink
        if not wanted:
            return None
        if not squared or supervision.estimate.noise.form == "none":
            raise ParameterError(
                "an operator is shrunk where its noise is known, and with the l2 penalty only."
            )
        return Shrinkage.of(supervision, intercept=self.pipeline_.intercept > 0)

    def _evidence_of(
        self,
        problems: list[FactoredProblem],
        models: list[np.ndarray],
        noise: Covariance,
        shrinkage: Shrinkage | None,
    ) -> Evidence:
        """Return what the model was fitted on; a constant was fitted on one coordinate alone."""
        if not self.intercept_only_:
            return Evidence(problems, models, self.lam_, noise, shrinkage)
        constants = [intercept_alone(problem) for problem in problems]
        intercept_part = None if shrinkage is None else shrinkage.last()
        return Evidence(
            constants, [model[-1:] for model in models], self.lam_, noise.last(), intercept_part
        )

    def _problems(self, supervision: Supervised) -> list[FactoredProblem]:
        """Return one problem, or one per class where a binary loss meets three or more."""
        loss, operator = loss_named(self.loss), supervision.estimate.operator
        make = partial(
            FactoredProblem,
            supervision.weighted,
            penalty=penalty_named(self.penalty),
            intercept=self.pipeline_.intercept > 0,
        )
        if operator.ndim == 1:
            return [make(operator=operator, loss=loss)]
        mean = supervision.weighted.mean
        # Every row is in one class: M 1 = mean x is public, and what noise adds to it is known.
        operator = operator - ((operator.sum(axis=1) - mean) / operator.shape[1])[:, None]
        if loss.joint:
            return [make(operator=operator, loss=None)]
        return [make(operator=2 * column - mean, loss=loss) for column in operator.T]

    def _penalty(
        self, problems: list[FactoredProblem], noise: Covariance, shrinkage: Shrinkage | None
    ) -> tuple[float, bool]:
        if self.lam != "auto":
            return float(self.lam), False
        if problems[0].penalty.name == "none":
            return 0.0, False
        if shrinkage is not None:
            weight = problems[0].operator_weight * sqrt(_noise_per_problem(problems))
            return shrinkage.lam(weight), problems[0].intercept and shrinkage.hides_all_features
        choice = choose_lam(problems, noise, max_iter=int(self.max_iter))
        return choice.lam, choice.intercept_only

    def _solve(self, problem: FactoredProblem) -> Solution:
        steps = int(self.max_iter)
        if not self.intercept_only_:
            return problem.solve(self.lam_, tol=self.tol, max_iter=steps)
        solution = intercept_alone(problem).solve(self.lam_, tol=self.tol, max_iter=steps)
        full = np.zeros_like(problem.operator)
        full[-1:] = solution.parameters
        return replace(solution, parameters=full)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the model, without the rows that it was learnt from."""
        return {k: v for k, v in super().__getstate__().items() if k != "_evidence"}

    def coef_interval(self, level: float = 0.95, *, sampling: bool = False) -> np.ndarray:
        """Return the interval of each coefficient, (2, d) or (2, d, K), to first order.

        It covers what exact labels would give in the place of noisy ones; with ``sampling`` also
        what other labels of the same rows would give. Shrinkage by the penalty is in neither.
        """
        fitted_deviations = self._fitted_evidence.deviations(sampling=sampling)
        deviations = np.zeros_like(self.coef_)
        # Of a constant only the intercept has a deviation.
        deviations[-len(fitted_deviations) :] = fitted_deviations
        return interval(self.coef_, deviations, level)

    def noise_bounds(self, delta: float = 0.05) -> NoiseBounds:
        """Return how far, with probability 1 - delta, the noise has moved model and risk at most.

        Patrini et al. 2016, Theorems 6 and 10, corrected (docs/errata.md): true for every data set,
        and far from what happens on most.
        """
        check_is_fitted(self)
        mechanism = "mixed"
        if len(self.releases_) == 1 and len(self.releases_[0].parts) == 1:
            mechanism = self.releases_[0].details["mechanism"]
        return self._fitted_evidence.bounds(mechanism, delta)

    @property
    def _fitted_evidence(self) -> Evidence:
        evidence: Evidence = self._from_fit("_evidence", "intervals")
        return evidence

    @property
    def coef_interval_(self) -> np.ndarray:
        """The interval of each coefficient for the mechanism's noise, at 95 %."""
        return self.coef_interval()

    @property
    def risk_(self) -> float:
        """The estimated risk on fresh labels of the same rows; not below zero where none is."""
        risk = self._fitted_evidence.risk[0]
        return max(risk, 0.0) if loss_named(self.loss).steepest else risk

    @property
    def risk_interval_(self) -> np.ndarray:
        """The interval of the risk at 95 %; not below zero where the loss is not."""
        ends = interval(*self._fitted_evidence.risk, 0.95)
        return np.maximum(ends, 0.0) if loss_named(self.loss).steepest else ends

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, where the loss has a link to one."""
        loss = loss_named(self.loss)
        if loss.link is None:
            raise ParameterError(f"the {loss.name} loss gives scores but no probabilities.")
        scores = self.decision_function(X)
        if scores.ndim == 1:
            positive = loss.link(scores)
            return np.column_stack([1 - positive, positive])
        if loss.joint:
            return np.asarray(softmax(scores, axis=1))
        shares = np.maximum(loss.link(scores), 1e-12)
        return shares / shares.sum(axis=1, keepdims=True)

    @property
    def gives_probabilities(self) -> bool:
        """Whether the loss links scores to probabilities."""
        return loss_named(self.loss).link is not None

    def _details(self) -> dict[str, Any]:
        """Return the loss, and what is known of the model's quality."""
        low, high = (float(end) for end in self.risk_interval_)
        try:
            moved = self.noise_bounds().parameters if not self.intercept_only_ else None
        except ParameterError:
            moved = None
        figures = dict(zip(FIGURES, (self.risk_, low, high, moved), strict=True))
        return {"loss": loss_named(self.loss).name, **figures}

    @classmethod
    def _unfitted(cls, details: Mapping[str, Any]) -> Self:
        loss = details["loss"]
        return cls(loss=loss if loss in LOSSES else LOSSES["linear"])  # a stranger's: scores only


def _project_if_noisy(problem: FactoredProblem, noise: Covariance) -> FactoredProblem:
    """Return the problem with the nearest operator that labels can have, where noise is large.

    Without a penalty the operator must also be inside: a projected one is on the boundary.
    """
    width, columns = len(problem.operator), problem.operator.size // len(problem.operator)
    energy = columns * float(noise.diagonal(width).sum())
    if energy <= _NOISY * float(np.sum(problem.operator**2)):
        return problem
    nearest = project(problem.weighted, problem.operator)
    without_penalty = problem.penalty.name == "none"
    return problem.with_operator(nearest.shrunk() if without_penalty else nearest.operator)


def _column_noise(supervision: Supervised) -> Covariance:
    """Return the noise of each column of M, as if independent until their sum is set right.

    That leaves 1 - 1/K of independent noise, and all of it where the columns summed to mean x
    already, as those of corrected labels do.
    """
    operator, noise = supervision.estimate.operator, supervision.estimate.noise
    if operator.ndim == 1:
        return noise
    mean = supervision.weighted.mean
    right = np.allclose(operator.sum(axis=1), mean, rtol=0, atol=_RIGHT * np.abs(mean).max())
    columns = operator.shape[1]
    return noise.scaled(columns / (columns - 1)) if right else noise


def _noise_per_problem(problems: list[FactoredProblem]) -> float:
    """Return how much of that noise is in 2 M_k - mean x, if that is each problem's operator."""
    return 4 * (1 - 1 / len(problems)) if len(problems) > 1 else 1.0


def _side_by_side(columns: list[np.ndarray]) -> np.ndarray:
    """Return one model as it is, several as the columns of one matrix."""
    return columns[0] if len(columns) == 1 else np.column_stack(columns)
