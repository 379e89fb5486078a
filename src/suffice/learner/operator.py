"""The classifier of least factored risk, from a mean operator and public rows."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from suffice.engines.engine import Computing
from suffice.engines.streamed import StreamedRows
from suffice.errors import ParameterError
from suffice.learner.base import CLASS_WEIGHT, FIGURES
from suffice.learner.denoise import LARGEST_DOUBT, Denoised, denoise, within_rows
from suffice.learner.intervals import Evidence, FiguredModel, calibrate_model
from suffice.learner.penalty import choose_penalty, intercept_alone
from suffice.learner.problem import (
    NoiseWarning,
    Supervised,
    are_votes,
    combine_releases,
    factored_problems,
    side_by_side,
    weigh_release,
    weighted_supervision,
)
from suffice.learner.sklearn_names import Interval, StrOptions, fit_context
from suffice.learner.weak import PlainLabels, Supervision, estimate_mean_operator
from suffice.models.problem import (
    LOSSES,
    PENALTIES,
    LinearOddLoss,
    Penalty,
    loss_named,
    one_blas_thread,
    penalty_named,
)
from suffice.releases.merge import merge
from suffice.releases.release import Release

CONSTANT = "no feature helps for certain, so the model always predicts the larger class"
MAJORITY_HIDDEN = (
    "The noise hides which class is the largest. The model may do worse than always predicting"
    " that class."
)


NO_SIGNAL = (
    "The release may hold no more than noise. The model may do no better than always predicting the"
    " larger class."
)


def warnings_of(model: Any) -> list[str]:
    """Return why a fitted `FactoredClassifier` may be no better than a guess, a sentence each."""
    doubts = []
    if model.intercept_only_:
        doubts.append(f"{CONSTANT[0].upper()}{CONSTANT[1:]}.")
    evidence = model._fitted_evidence  # noqa: SLF001  # of the models of this file
    if are_votes(model.releases_) and evidence.chance_of_worse > LARGEST_DOUBT:
        doubts.append("The model may do worse than always predicting the larger class.")
    elif not model.intercept_only_ and evidence.chance_of_signal < 1 - LARGEST_DOUBT:
        doubts.append(NO_SIGNAL)
    guess = risk_of_guess(model)
    if guess is not None and model.risk_interval_[1] >= guess:
        doubts.append(
            f"The risk may be as high as {guess:.3g}, that of a guess without the release: there is"
            " too much noise."
        )
    return doubts


def risk_of_guess(model: Any) -> float | None:
    """Return the risk of a guess without the release; None where the risk is of other labels."""
    votes = are_votes(model.releases_)
    return log(len(model.classes_)) if model.loss in ("logistic", "softmax") and not votes else None


def is_majority_known(supervision: Supervised, *, intercept: bool) -> bool:
    """Return whether one class leads by more than the intercept's noise explains."""
    estimate = supervision.estimate
    if not intercept or estimate.noise.form == "none":
        return True
    sizes = np.sort(np.atleast_1d(estimate.operator[-1]))
    # A smaller lead of a class is chance in more than 5 of 100 releases.
    lead = float(ndtri(0.95) * np.sqrt(estimate.noise.last().variance))
    if len(sizes) == 1:
        return bool(abs(sizes[0]) > lead)
    return bool(sizes[-1] - sizes[-2] > np.sqrt(2.0) * lead)


# Scores of the square loss leave [-1, 1], and would then call a class impossible. No data can.
_SMALLEST_SQUARE_PROBABILITY = 1e-3


@dataclass(eq=False, repr=False)
class FactoredClassifier(FiguredModel):
    """Computes the linear classifier of least factored risk, from a mean operator and public rows.

    minimise (1/m) sum_i g(<theta, x_i>) - (a/2) <theta, mu> + penalty(theta)

    over theta, with rows x_i and the mean operator mu. The operator comes from releases
    (`fit_release`), from weak supervision (`fit_weak`) or from exact labels (`fit`). The last two
    protect nothing.

    Parameters
    ----------
    loss : str, LinearOddLoss or callable, default="logistic"
        "logistic" or "softmax" (the same loss; softmax for three classes or more), "square",
        "matsushita", "linear", or a function of the margin, which must be linear-odd. All but
        logistic train one model per class against the rest if there are three classes or more.
    penalty : {"l2", "l1", "elastic-net", "none"} or Penalty, default="l2"
        (lam/2) ||theta||_2^2, lam ||theta||_1, the mean of both, or none. "none" is refused where
        no best model exists. The intercept always has the penalty (lam/2) theta^2, unless "none".
    lam : float or "auto", default="auto"
        Weight of the penalty. "auto" chooses it from the release alone (`learner.penalty`). A
        model that may well be worse than a known larger class then becomes a constant.
    denoise : bool, default=True
        Whether noise is removed from the operator first, with what is known of it: of each
        direction the part is kept that is likely to be signal. With lam="auto" and the l2 penalty,
        the penalty is then in coordinates in which the rows are white (`suffice.learner.denoise`),
        and scores of releases are calibrated: where the release says little of labels,
        probabilities are the class proportions (`suffice.learner.intervals.calibrate_model`).
    tol : float, default=1e-6
        The solver stops where the largest entry of the gradient is at most ``tol``. More than ten
        times as much is an error.
    max_iter : int, default=1000
        The largest number of iterations of the solver.
    class_weight

    Attributes
    ----------
    coef_
    intercept_
    theta_
    coef_interval_, intercept_interval_ : ndarray of shape (2, 1, p) or (2, K, p), (2, 1) or (2, K)
        The interval at 95 % of each coefficient without the mechanism's noise; see
        `coef_interval`. Missing with a 1-norm, and where the noise is not known.
    risk_ : float
        The risk on fresh labels of the same rows, estimated without any label.
    risk_interval_ : ndarray of shape (2,)
        The interval of ``risk_`` at 95 %, for the mechanism's noise and the sampling of labels.
    classes_
    lam_ : float
        The weight of the penalty that was used.
    intercept_only_ : bool
        Whether the model predicts a constant because another one may well be worse.
    majority_known_ : bool
        Whether the release tells which class is the largest, with its noise in mind.
    n_iter_ : int
        The number of iterations of the solver; the largest of several problems.
    gradient_norm_ : float
        The largest entry of the gradient at the solution.
    gives_probabilities : bool
        Whether `predict_proba` works: the loss has probabilities, and no release is of parties.
        With three classes or more only the logistic loss has them.
    n_features_in_
    pipeline_
    releases_

    Examples
    --------
    The owner publishes a noisy mean operator; the learner has the public rows ``X``.

    >>> import numpy as np, suffice
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> labels = (X[:, 0] > 0).astype(int)
    >>> owner = suffice.MeanOperator(epsilon=100.0, mechanism="laplace")
    >>> release = owner.release(X, labels, ledger=None)
    >>> model = suffice.FactoredClassifier().fit_release(release, X)
    >>> model.predict([[2.0, 0.0], [-2.0, 0.0]])
    array([1, 0])
    >>> model.score(X, labels) > 0.9
    True
    """

    stored_as = "FactoredClassifier"
    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "loss": [StrOptions({*LOSSES, "softmax", "hinge", "rho"}), LinearOddLoss, callable],
        "penalty": [StrOptions(set(PENALTIES)), Penalty],
        "lam": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "denoise": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "class_weight": CLASS_WEIGHT,
    }

    loss: Any = "logistic"
    penalty: Any = "l2"
    lam: float | str = "auto"
    denoise: bool = True
    tol: float = 1e-6
    max_iter: int = 1000
    class_weight: Any = None

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "FactoredClassifier":
        """Learn from exact labels. This protects nothing about them.

        Parameters
        ----------
        X
        y
        sample_weight

        Raises
        ------
        ParameterError
            If the labels hold one class only, or a parameter is not valid.
        OptimisationError

        Examples
        --------
        >>> import suffice
        >>> X = [[-2.0], [-1.0], [1.0], [2.0]]
        >>> suffice.FactoredClassifier(lam=0.1).fit(X, [0, 0, 1, 1]).predict([[3.0]])
        array([1])
        """
        rows, codes, weights = self._weighted_data(X, y, sample_weight)
        source = PlainLabels(codes, range(len(self.classes_)))
        return self._fit_operator(weighted_supervision(rows, source, weights, repeated=True))

    @fit_context(prefer_skip_nested_validation=True)
    def fit_weak(self, X: Any, source: Supervision) -> "FactoredClassifier":
        """Learn from weak supervision: from what is known about the labels of the rows.

        Parameters
        ----------
        X
        source : Supervision
            One of `suffice.learner.weak`, for example ``KnownProportions`` or ``FlippedLabels``.

        Raises
        ------
        ParameterError
            If the source does not fit the rows, or a parameter is not valid.
        OptimisationError

        Examples
        --------
        Labels of which one in five was flipped:

        >>> import numpy as np, suffice
        >>> from suffice.learner.weak import FlippedLabels
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(1000, 1))
        >>> flipped = (X[:, 0] > 0) ^ (rng.random(1000) < 0.2)
        >>> source = FlippedLabels(flipped.astype(int), classes=(0, 1), rates=(0.2, 0.2))
        >>> suffice.FactoredClassifier().fit_weak(X, source).predict([[2.0], [-2.0]])
        array([1, 0])
        """
        rows = self._map_exact_rows(self._checked_rows(X))
        supervision = Supervised(rows, estimate_mean_operator(rows, source))
        self.classes_, self._class_shares = np.array(supervision.estimate.classes), None
        return self._fit_operator(supervision)

    @fit_context(prefer_skip_nested_validation=True)
    def fit_release(
        self, release: Release | Sequence[Release], X: Any, **computing: Any
    ) -> "FactoredClassifier":
        """Learn from one release, or those of several owners, and the public rows behind them.

        Rows that do not fit into memory stay in their files, and are read again for each sum over
        them (`suffice.learner.problem`).

        Parameters
        ----------
        release : Release or sequence of Release
            Releases of kind mean-operator, label-responses or votes, with one pipeline and one
            list of classes.
        X : array, table or path
            The public rows that the releases belong to: owner after owner, unchanged.
        sample_weight : array of shape (n,), optional
            How much each public row counts. For releases of kind label-responses or votes, whose
            rows are in memory.
        engine : str or object, default="threads"
            Where rows are read: "threads", "dask" or "spark", or an open client or session.
        workers : int, optional
            The number of workers; one for each core unless set.
        scheduler : str, optional
            The address of a running cluster.
        progress

        Raises
        ------
        ForeignRowsError
        ParameterError
            If the releases do not fit together, or a parameter is not valid.
        OptimisationError

        Warns
        -----
        NoiseWarning
            If the noise leaves no model that is better than a guess for certain.
        """
        releases = (release,) if isinstance(release, Release) else tuple(release)
        weights = computing.pop("sample_weight", None)
        where = Computing(**computing)
        with where.running() as running:
            if weights is None:
                supervision = combine_releases(releases, X, running)
            else:
                releases = (merge(releases),)
                supervision = weigh_release(releases[0], X, weights, running)
            self._learn_from(releases)
            self._fit_operator(supervision)
            try:
                doubts = warnings_of(self)
            except ParameterError:  # the noise is not known, and so no figure is shown
                doubts = []
            if doubts:
                warnings.warn(" ".join(doubts), NoiseWarning, stacklevel=4)
        if isinstance(supervision.rows, StreamedRows):  # intervals need further passes
            supervision.rows.run_on(where)
        return self

    @one_blas_thread()
    def _fit_operator(self, supervision: Supervised) -> "FactoredClassifier":
        """Remove noise, choose the penalty if asked to, then minimise every problem there is."""
        intercept = self.pipeline_.intercept > 0
        self.majority_known_ = is_majority_known(supervision, intercept=intercept)
        problems, noise = factored_problems(
            supervision, loss_named(self.loss), penalty_named(self.penalty), intercept=intercept
        )
        votes = are_votes(self.releases_)
        if self.denoise:
            denoised = denoise(problems, noise, votes=votes, tuned=self.lam == "auto")
        else:
            denoised = within_rows(problems, noise)
        joint = intercept and loss_named(self.loss).joint
        calibrated = denoised.basis is not None and joint and bool(self.releases_) and not votes
        if self.lam == "auto":
            steps = int(self.max_iter)
            self.lam_ = choose_penalty(denoised, max_iter=steps, calibrated=calibrated)
        else:
            self.lam_ = float(self.lam)
        self.intercept_only_ = False
        models = self._solve(denoised)
        if self.majority_known_ and denoised.may_be_worse(models):
            self.intercept_only_ = True
            models = self._solve(denoised)
        basis, link = denoised.basis, None
        if calibrated:
            models[0], link = calibrate_model(
                denoised.problems[0], models[0], self.lam_, denoised.denoisers[0]
            )
        self.theta_ = side_by_side(models if basis is None else [basis @ m for m in models])
        problems, noise = denoised.problems, denoised.noise
        if self.intercept_only_:  # it was fitted on one coordinate alone
            problems, noise = [intercept_alone(problem) for problem in problems], noise.last()
            models = [model[-1:] for model in models]
        self._evidence = Evidence(problems, models, self.lam_, noise, denoised.denoisers, link)
        return self

    def _solve(self, denoised: Denoised) -> list[np.ndarray]:
        """Return the minimiser of each problem; of a constant all but the last weight are 0."""
        problems = denoised.cleaned
        if self.intercept_only_:
            problems = [intercept_alone(problem) for problem in problems]
        steps = int(self.max_iter)
        solutions = [p.solve(self.lam_, tol=self.tol, max_iter=steps) for p in problems]
        self.n_iter_ = max(solution.iterations for solution in solutions)
        self.gradient_norm_ = max(solution.gradient for solution in solutions)
        models = []
        for problem, solution in zip(denoised.cleaned, solutions, strict=True):
            models.append(np.zeros_like(problem.operator))
            models[-1][-len(solution.parameters) :] = solution.parameters
        return models

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the model, without the rows that it was learnt from."""
        return {k: v for k, v in super().__getstate__().items() if k != "_evidence"}

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        loss = loss_named(self.loss)
        if scores.ndim > 1 or loss.link is None:
            return super()._probabilities(scores)
        least = _SMALLEST_SQUARE_PROBABILITY if loss.name == "square" else 0.0
        positive = np.clip(loss.link(scores), least, 1 - least)
        return np.column_stack([1 - positive, positive])

    def _probability_refusal(self) -> str:
        loss = loss_named(self.loss)
        if loss.link is None:
            return (
                f"The {loss.name} loss gives scores but no probabilities. Use decision_function, or"
                " fit with loss='logistic'."
            )
        if not loss.joint and len(getattr(self, "classes_", ())) > 2:
            return (
                f"The {loss.name} loss trains one model for each class against the rest. Their"
                " scores give no probabilities of three classes or more. Use loss='logistic'."
            )
        return super()._probability_refusal()

    def _details(self) -> dict[str, Any]:
        """Return the loss, and what is known of the model's quality."""
        low, high = (float(end) for end in self.risk_interval_)
        try:
            moved = self.noise_bounds().parameters if not self.intercept_only_ else None
        except ParameterError:
            moved = None
        values = (self.risk_, low, high, moved, self.stored_deviations())
        figures = dict(zip(FIGURES, values, strict=True))
        return {"loss": loss_named(self.loss).name, **figures}

    @classmethod
    def _unfitted(cls, details: Mapping[str, Any]) -> Self:
        loss = details["loss"]
        return cls(loss=loss if loss in LOSSES else LOSSES["linear"])  # a stranger's: scores only
