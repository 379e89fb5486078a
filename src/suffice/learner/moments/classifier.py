"""A linear classifier from noisy second moments: no row, no iteration, no tuning."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from suffice.learner.base import FIGURES, LinearModel
from suffice.learner.class_weights import CLASS_WEIGHT
from suffice.learner.features import FeatureUnits
from suffice.learner.moments.estimates import MomentNumbers, numbers_of, plain_numbers
from suffice.learner.moments.intervals import CoefficientIntervals, ridge_intervals
from suffice.learner.moments.quality import class_probabilities, expected_accuracy
from suffice.learner.moments.rule import learn_rule
from suffice.learner.operator.doubts import MAJORITY_HIDDEN, NoiseWarning
from suffice.learner.sklearn_names import Interval, fit_context
from suffice.learner.weights import MOMENTS_HAVE_NONE, refuse_weights
from suffice.release.artifact import Release
from suffice.release.merge import merge

__all__ = ["MomentClassifier"]


class MomentClassifier(LinearModel):
    """Learns a linear classifier with calibrated probabilities from moments of private records.

    The release says how much noise is in each of its numbers, and the learner uses it: it cleans
    mean, covariance and class proportions, averages the weights of coordinates over how large they
    may be, and measures by thinning how far to trust the scores. Of two classes the result is
    linear discriminant analysis. Of more it lies between that and least squares of the class
    indicators.

    Parameters
    ----------
    draws : int, default=8
        Number of thinning draws, for example 8. More make the probabilities a little steadier.
    random_state : int, default=0
        Seed of these draws: the same release and seed give the same model.
    class_weight : dict, "balanced" or None, default=None
        What a mistake about each class costs: `predict` takes the class of largest weight times
        probability. A class that a dict lacks has weight 1; "balanced" weighs against the class
        proportions. Probabilities, scores and coefficients stay as they are.

    Attributes
    ----------
    coef_ : ndarray of shape (1, p) or (K, p)
        One coefficient per feature, in the units of its column (`get_feature_names_out`).
    intercept_ : ndarray of shape (1,) or (K,)
        The score of a row whose features are all zero.
    theta_ : ndarray of shape (d,) or (d, K)
        One weight per coordinate of ``pipeline_``, the intercept's last.
    accuracy_, accuracy_interval_ : float, tuple of float
        The accuracy that is expected on fresh rows, estimated without labels, with an interval at
        90 % for the noise and for scores that are not Gaussian. None for three classes or more,
        where no interval that we tried covered. Model files do not store them.
    majority_known_ : bool
        Whether the noise leaves it clear which class is the largest. If not, the classifier may do
        worse than always predicting the largest class.
    lam_ : float
        The penalty that the noise on second moments adds.
    classes_, pipeline_, releases_
        As of `FactoredClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from suffice import MomentClassifier, Moments
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 3))
    >>> y = (X[:, 0] + X[:, 1] > 0).astype(int)
    >>> release = Moments(epsilon=3.0, delta=1e-6, ranges=(-1, 1)).release(X, y, ledger=None)
    >>> model = MomentClassifier().fit_release(release)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    stored_as = "MomentClassifier"
    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "draws": [Interval(Integral, 1, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left")],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(self, draws: int = 8, random_state: int = 0, class_weight: Any = None) -> None:
        self.draws = draws
        self.random_state = random_state
        self.class_weight = class_weight

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "MomentClassifier":
        """Learn from plain rows and labels; nothing is protected.

        Parameters
        ----------
        X : array of shape (n, p)
            The rows: numbers without missing values.
        y : array of shape (n,)
            One label per row.
        sample_weight : array of shape (n,), optional
            How often each row counts.

        Returns
        -------
        MomentClassifier
            The fitted classifier.
        """
        rows, codes, weights = self._weighted_data(X, y, sample_weight)
        coordinates = rows[:, :-1] / self.pipeline_.bound  # the last is the intercept
        return self._fit_numbers(plain_numbers(coordinates, codes, len(self.classes_), weights))

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(MOMENTS_HAVE_NONE)
    def fit_release(self, release: Release | Sequence[Release]) -> "MomentClassifier":
        """Learn from a release of moments, or from those of several owners; no row is needed.

        Parameters
        ----------
        release : Release or sequence of Release
            One release of moments, or several of different people.

        Returns
        -------
        MomentClassifier
            The fitted classifier.

        Raises
        ------
        ParameterError
            If a release is of another kind, or the owners' pipelines differ.

        Warns
        -----
        NoiseWarning
            If the noise hides which class is the largest.
        """
        merged = merge(release)
        merged.array("second_moments", "moments")
        self._learn_from((merged,))
        # Rows of a release have no intercept; the model has one, of weight 1.
        self.pipeline_ = replace(self.pipeline_, intercept=1.0)
        self._fit_numbers(numbers_of(merged))
        if not self.majority_known_:
            # Above this frame are two decorators, then the caller.
            warnings.warn(MAJORITY_HIDDEN, NoiseWarning, stacklevel=4)
        return self

    def _fit_numbers(self, numbers: MomentNumbers) -> "MomentClassifier":
        rule = learn_rule(numbers, self.draws, self.random_state)
        coefficients = np.vstack(
            [rule.weights / self.pipeline_.bound, rule.at_zero / self.pipeline_.intercept]
        )
        self.theta_ = coefficients[:, 0] if numbers.classes == 2 else coefficients
        expected = expected_accuracy(rule, numbers.proportions_noise)
        self.accuracy_ = expected and expected.estimate
        self.accuracy_interval_ = expected and (expected.low, expected.high)
        self.majority_known_ = numbers.majority_known
        self.lam_ = rule.moments.penalty * self.pipeline_.bound**2
        self.numbers_ = numbers
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class."""
        return class_probabilities(self.decision_function(X))

    def coefficient_intervals(self, level: float = 0.9) -> CoefficientIntervals:
        """Return ridge coefficients with intervals that cover what the noise has done to them.

        Parameters
        ----------
        level : float, default=0.9
            Confidence level of each interval, for example 0.9.

        Returns
        -------
        CoefficientIntervals
            One coefficient per feature, in the units of its column as ``coef_``, at a public
            penalty. They predict y = -1 or +1 (of three classes or more 0 or 1), so they are not
            those of this classifier, which predicts log odds. Sampling is not covered.

        Raises
        ------
        ParameterError
            If the level is none, or the model was fitted to plain data.
        """
        numbers = self._from_fit("numbers_", "numbers of the release")
        features = FeatureUnits(self.pipeline_)
        return ridge_intervals(
            numbers, features.names, level, features.matrix.T / self.pipeline_.bound
        )

    def _details(self) -> dict[str, Any]:
        return {"loss": "logistic", **dict.fromkeys(FIGURES)}
