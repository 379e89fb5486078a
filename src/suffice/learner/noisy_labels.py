"""Learn from randomised labels with any classifier, and calibrate it through their channel.

A classifier trained on randomised labels estimates q = P p, with P the channel. P^-1 q would bring
p back, but amplifies the errors of q and leaves [0, 1]. So p = softmax(slope log q + shift) is
fitted to held-out randomised labels through the channel (forward correction: Patrini et al. 2017,
Theorem 2, of two parameters a class instead of the whole model), with the slope integrated out
(`suffice.learner.calibration`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy.special import ndtri, softmax
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from suffice.errors import ParameterError
from suffice.learner.base import (
    CLASS_WEIGHT,
    FIGURES,
    Classifier,
    FeatureUnits,
    check_takes_weights,
)
from suffice.learner.calibration import Calibration, calibrate_by_labels
from suffice.learner.portable import Arithmetic, arithmetic_of
from suffice.learner.problem import checked_weights, design_matrix, matching_rows
from suffice.learner.sklearn_names import (
    HasMethods,
    Interval,
    StrOptions,
    boosted_trees,
    fit_context,
)
from suffice.models.trees import BoostedTrees
from suffice.releases.merge import apart, merge
from suffice.releases.release import Covariance, Release
from suffice.tables.pipeline import Pipeline

Settings = Sequence[Mapping[str, Any]]
WITHOUT_PROBABILITIES = "logistic (no probabilities)"  # the loss in a model file that refuses them
TOO_LITTLE = (
    "The randomised labels tell too little about how probable classes are. Use predict or"
    " decision_function, or learn from more records or a larger epsilon."
)
ESTIMATORS = ("hist-gradient-boosting", "logistic")

# From smooth to detailed. Leaves hold many rows: a mean of randomised labels needs them.
_BOOSTING = (
    {"max_leaf_nodes": 4, "max_iter": 100, "learning_rate": 0.1, "min_samples_leaf": 400},
    {"max_leaf_nodes": 15, "max_iter": 150, "learning_rate": 0.05, "min_samples_leaf": 200},
    {"max_leaf_nodes": 31, "max_iter": 100, "learning_rate": 0.1, "min_samples_leaf": 200},
    {"max_leaf_nodes": 63, "max_iter": 200, "learning_rate": 0.1, "min_samples_leaf": 400},
)
_FEWEST_LEAVES = 40  # that the rows of a small table fill: a leaf holds at most so much of them
_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)  # C of logistic regression, for one row


def label_losses(probabilities: np.ndarray, labels: np.ndarray, channel: np.ndarray) -> np.ndarray:
    """Return -log (P p_i)_z(i), the log loss of each randomised label z(i)."""
    chances = (channel[labels] * probabilities).sum(axis=1)
    return np.asarray(-np.log(np.maximum(chances, np.finfo(float).tiny)))


@dataclass(frozen=True, eq=False)
class StoredEstimator:
    """Predicts with scores that were read from a model file, as a scikit-learn classifier does."""

    scores: BoostedTrees | np.ndarray  # trees, or weights (d + 1, K) of columns and the constant
    classes_: np.ndarray  # codes

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        """Return the probability of each class (n, K)."""
        if isinstance(self.scores, BoostedTrees):
            return np.asarray(softmax(self.scores.scores(rows), axis=1))
        return np.asarray(softmax(rows @ self.scores[:-1] + self.scores[-1], axis=1))


def linear_scores(estimator: Any, link: Calibration) -> np.ndarray | None:
    """Return weights (d + 1, K) with the link's probabilities; None of what is not linear."""
    if isinstance(estimator, StoredEstimator):
        weights = estimator.scores
        if isinstance(weights, BoostedTrees):
            return None
    elif isinstance(estimator, LogisticRegression):
        weights = np.vstack([estimator.coef_.T, estimator.intercept_])
        if weights.shape[1] == 1:  # of two classes the first has the score 0
            weights = np.hstack([np.zeros_like(weights), weights])
    else:
        return None
    shifted = link.slope * weights
    shifted[-1] += link.shift
    return np.asarray(shifted)


_HELD_OUT_ROWS = 20_000  # more folds would only cost time
_FEWEST_ROWS = 50  # of a table of which some are held out: fewer leave a link open
_SMALLEST_STATED = 1e-12  # of a probability that an estimator states
_TREE_ARRAYS = ("features", "numbers", "baseline")  # of `BoostedTrees`, in a model file


@dataclass(eq=False, repr=False)
class NoisyLabelClassifier(Classifier):
    """Computes the classifier of true labels from a release of kind ``label-responses``.

        q(x) = P p(x), learnt by any estimator; p = softmax(slope log q + shift)

    P is the channel that randomised the labels, stated in the release. The estimator learns the
    randomised labels as they are. Slope and shift are fitted to held-out randomised labels through
    P (`suffice.learner.noisy_labels`), as is the choice among settings of the estimator.
    Assumes that each label was randomised by itself, given its true class.

    Parameters
    ----------
    estimator : {"hist-gradient-boosting", "logistic"} or scikit-learn classifier
        What is trained, on standardised rows that are not clipped. A classifier of your own must
        have ``predict_proba``.
    settings : list of dict, optional
        Parameters of the estimator, of which the best on held-out randomised labels are taken.
        Default: a few for the named estimators, and the estimator as it is for one of your own.
    folds : int, default=4
        One fold of rows after the other is held out, until 20,000 rows have been. After each the
        better half of the settings goes on.
    random_state : int, default=0
        Seed of the folds.
    class_weight

    Attributes
    ----------
    estimator_ : scikit-learn classifier
        The estimator, fitted to all rows with the settings ``settings_``.
    settings_ : dict
        The settings that were taken.
    link_ : Calibration
        Slope and shift. A slope of 0 means that the rows tell nothing of the labels.
    link_error_ : float
        How far off probabilities are on average, because held-out labels leave the link open.
        Infinite where no rows could be held out: then `predict_proba` refuses.
    accuracy_, accuracy_interval_ : float, tuple of float
        Accuracy on true labels, estimated from held-out randomised ones, with an interval at 95 %
        for the noise and the number of rows. None where no rows could be held out.
    classes_
    pipeline_

    Examples
    --------
    >>> import numpy as np, suffice as sf
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> mechanism = sf.MeanOperator(epsilon=3.0, mechanism="response")
    >>> release = mechanism.release(X, y, ledger=None)
    >>> model = sf.NoisyLabelClassifier("logistic").fit_release(release, X)
    >>> model.predict_proba(X).shape
    (400, 2)
    """

    stored_as = "NoisyLabelClassifier"
    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "estimator": [StrOptions(set(ESTIMATORS)), HasMethods(["fit", "predict_proba"])],
        "settings": [list, tuple, None],
        "folds": [Interval(Integral, 2, None, closed="left")],
        "random_state": [Interval(Integral, 0, None, closed="left")],
        "class_weight": CLASS_WEIGHT,
    }

    estimator: Any = "hist-gradient-boosting"
    settings: Settings | None = None
    folds: int = 4
    random_state: int = 0
    class_weight: Any = None

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on exact labels. This protects nothing.

        Parameters
        ----------
        X
        y
        sample_weight : array of shape (n,), optional
            How much each row counts for the estimator and its link. The estimator must take
            weights. ``accuracy_`` counts all rows alike.
        """
        X, codes, weights = self._weighted_labels(X, y, sample_weight)
        self._map_exact_rows(X, weights)  # fits the pipeline
        self.pipeline_ = _without_clipping(self.pipeline_)
        rows = design_matrix(self._with_names(X), self.pipeline_)
        self._train(rows, codes, np.eye(len(self.classes_)), weights)
        return self

    @fit_context(prefer_skip_nested_validation=False)
    def fit_release(
        self, release: Release | Sequence[Release], X: Any, *, sample_weight: Any = None
    ) -> Self:
        """Learn from randomised labels and the public rows that they belong to, in their order.

        Parameters
        ----------
        release : Release or sequence of Release
            Of kind ``label-responses``, of one owner or of several with the same channel.
        X : table
            The owners' public rows, one owner after the other.
        sample_weight : array of shape (n,), optional
            How much each public row counts for the estimator and its link. The estimator must take
            weights. ``accuracy_`` counts all rows alike.
        """
        whole = merge(release)
        channel, labels = (
            whole.array(name, "randomised labels") for name in ("channel", "answers")
        )
        self._learn_from((whole,))
        self.pipeline_ = _without_clipping(self.pipeline_)
        rows = matching_rows(X, [replace(whole, pipeline=self.pipeline_)])[0]
        weights = checked_weights(sample_weight, len(rows))
        self._train(rows, labels.astype(np.int64), channel, weights)
        return self

    def _train(
        self,
        rows: np.ndarray,
        codes: np.ndarray,
        channel: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> None:
        """Choose settings, fit the link on held-out rows, and the estimator on all of them."""
        base, settings = self._candidates(len(rows))
        if weights is not None:
            check_takes_weights(base)

        def fitted(setting: Mapping[str, Any], among: Any = slice(None)) -> Any:
            """Return the estimator fitted to some rows; a constant if all are of one class."""
            learnt, labels = rows[among], codes[among]
            if (labels == labels[0]).all():
                return DummyClassifier(strategy="prior").fit(learnt, labels)
            weighted = {} if weights is None else {"sample_weight": weights[among]}
            return clone(base).set_params(**setting).fit(learnt, labels, **weighted)

        classes = len(channel)
        self.link_, self.settings_ = Calibration(1.0, np.zeros(classes)), dict(settings[0])
        self.link_error_ = 0.0 if np.array_equal(channel, np.eye(classes)) else inf
        self.accuracy_: float | None = None
        self.accuracy_interval_: tuple[float, float] | None = None
        if len(rows) >= max(_FEWEST_ROWS, self.folds) and classes > 1:
            splits = KFold(self.folds, shuffle=True, random_state=self.random_state).split(rows)
            enough = -(-_HELD_OUT_ROWS * self.folds // len(rows))
            folds = list(splits)[: max(1, enough)]
            # Successive halving (Jamieson & Talwalkar 2016): after each fold the better half of the
            # settings goes on to the next. Our own go from smooth to detailed: where more detail is
            # worse, still more is not tried.
            logs: list[list[np.ndarray]] = [[] for _ in settings]
            tried = list(range(len(settings)))
            for place, (learnt, rest) in enumerate(folds, 1):
                held_out = np.concatenate([others for _, others in folds[:place]])
                labels = codes[held_out]
                counts = np.ones(len(labels)) if weights is None else weights[held_out]
                losses: dict[int, float] = {}
                best = inf
                for i in tried:
                    estimator = fitted(settings[i], learnt)
                    logs[i].append(_log_probabilities(estimator, rows[rest], classes))
                    if len(tried) == 1 and place < len(folds):
                        break  # there is nothing to compare
                    scores = np.vstack(logs[i])
                    link = calibrate_by_labels(scores, labels, channel, counts)
                    probabilities = link.apply(scores)
                    losses[i] = float(label_losses(probabilities, labels, channel) @ counts)
                    if losses[i] < best:
                        best, predicted = losses[i], probabilities.argmax(axis=1)
                        self.link_, self.settings_ = link, dict(settings[i])
                    elif self.settings is None:
                        break
                ranked = sorted(losses, key=lambda i: losses[i]) or tried
                tried = ranked[: max(1, len(ranked) // 2)]
            self.link_error_ = self.link_.error
            # P(predicted = true): (P^-1)[predicted, z] has that mean, label by label. The same
            # labels chose among settings, and the K + 1 numbers of the link. The estimate is too
            # high for that, so that the lower end is one for all of these choices together
            # (Bonferroni; lab/bench/coverage.py).
            hits = np.linalg.inv(channel)[predicted, labels]
            self.accuracy_ = float(np.clip(hits.mean(), 0, 1))
            error = float(hits.std(ddof=1)) / len(hits) ** 0.5
            low = hits.mean() + error * ndtri(0.025 / (len(settings) * (classes + 1)))
            high = hits.mean() - error * ndtri(0.025)
            self.accuracy_interval_ = (float(max(0.0, low)), float(min(1.0, high)))
        self.estimator_ = fitted(self.settings_)

    def _candidates(self, rows: int) -> tuple[Any, Settings]:
        """Return the estimator, unfitted, and the settings that are tried on so many rows."""
        if not isinstance(self.estimator, str):
            return self.estimator, self.settings or [{}]
        if self.estimator == "logistic":
            settings = [{"C": weight} for weight in _PENALTIES]
            return LogisticRegression(max_iter=1000), self.settings or settings
        most = max(1, rows // _FEWEST_LEAVES)
        boosting = [{**s, "min_samples_leaf": min(s["min_samples_leaf"], most)} for s in _BOOSTING]
        trees = HistGradientBoostingClassifier(early_stopping=False, random_state=0)
        return trees, self.settings or boosting

    def to_release(self) -> Release:
        """Return the model as a release, to save it in a file.

        The model keeps the guarantees of the releases that it was learnt from. Boosted trees are
        stored as kind "tree-model", logistic regression as kind "model"; the link is part of
        either.

        Returns
        -------
        Release
            Write it with ``save``; `suffice.load` reads it again.

        Raises
        ------
        ParameterError
            If the model was learnt from exact data, or of an estimator that cannot be stored.
        """
        first = self._learnt_release()
        if "learner" in first.details:  # it was loaded, and is written as it was
            return first
        weights = linear_scores(self.estimator_, self.link_)
        two = weights is not None and weights.shape[1] == 2
        loss = "logistic" if weights is None or two else "softmax"
        details: dict[str, Any] = {
            "classes": self.classes_.tolist(),
            "learner": self.stored_as,
            "loss": loss if self.gives_probabilities else WITHOUT_PROBABILITIES,
        }
        if weights is not None:  # of the columns and a constant; of two classes their difference
            kind, pipeline = "model", replace(self.pipeline_, intercept=1.0)
            arrays = {"coefficients": weights[:, 1] - weights[:, 0] if two else weights}
            penalty = 1 / (self.estimator_.C * self.releases_[0].rows)
            details |= {"lam": float(penalty), **dict.fromkeys(FIGURES)}
        elif (trees := self._stored_trees()) is not None:
            kind, pipeline = "tree-model", self.pipeline_
            arrays = {name: getattr(trees, name) for name in _TREE_ARRAYS}
            low, high = self.accuracy_interval_ or (None, None)
            details |= {"count": len(trees.features), "accuracy": self.accuracy_}
            details |= {"accuracy_low": low, "accuracy_high": high}
        elif isinstance(self.estimator_, DummyClassifier):
            raise ParameterError(
                "All randomised labels are of one class, so there is no model to store. Every row"
                " is predicted to be of that class."
            )
        else:
            raise ParameterError(
                f"A model of {type(self.estimator_).__name__} cannot be stored in a file. Use it in"
                " Python, or choose hist-gradient-boosting or logistic."
            )
        return replace(
            first,
            kind=kind,
            parts=apart(self.releases_),
            pipeline=pipeline,
            arrays=arrays,
            details=details,
            noise=Covariance("none"),
        )

    @classmethod
    def from_release(cls, model: Release) -> Self:
        """Return the fitted learner of a release that `to_release` returned.

        It predicts as the model that was stored did.
        """
        cls._check_learner(model)
        self = cls()
        self._learn_from((model,))
        self.pipeline_ = replace(self.pipeline_, intercept=0.0)
        codes = np.arange(len(self.classes_))
        if "features" in model.arrays:
            scores: Any = BoostedTrees(*(model.arrays[name] for name in _TREE_ARRAYS))
        else:
            scores = model.arrays["coefficients"]
            if scores.ndim == 1:
                scores = np.column_stack([np.zeros_like(scores), scores])
        self.estimator_ = StoredEstimator(scores, codes)
        self.link_ = Calibration(1.0, np.zeros(len(codes)))
        refused = model.details.get("loss") == WITHOUT_PROBABILITIES
        self.link_error_ = inf if refused else 0.0
        self.accuracy_ = model.details.get("accuracy")
        low, high = (model.details.get(f"accuracy_{end}") for end in ("low", "high"))
        self.accuracy_interval_ = None if low is None or high is None else (low, high)
        return self

    def _coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        weights = self._linear_weights()
        if weights is None:
            raise AttributeError("The trained estimator is not linear: it has no coefficients.")
        return FeatureUnits(replace(self.pipeline_, intercept=1.0)).coefficients(weights)

    def _linear_weights(self) -> np.ndarray | None:
        """Return weights of columns and a constant, with the link; None of what is not linear."""
        check_is_fitted(self)
        weights = linear_scores(self.estimator_, self.link_)
        if weights is None or weights.shape[1] != 2:
            return weights
        return np.asarray(weights[:, 1] - weights[:, 0])

    def _stored_trees(self) -> BoostedTrees | None:
        """Return the trees with the link, as a model file holds them; None of other models."""
        if isinstance(self.estimator_, HistGradientBoostingClassifier):
            # softmax(slope log softmax(s) + shift) = softmax(slope s + shift): a row's constant
            # cancels.
            return boosted_trees(self.estimator_).rescaled(self.link_.slope, self.link_.shift)
        if isinstance(self.estimator_, StoredEstimator):
            trees = self.estimator_.scores
            return trees if isinstance(trees, BoostedTrees) else None
        return None

    def arithmetic(self) -> Arithmetic:
        """Return what the model computes of a row, as plain numbers for other programs.

        Raises
        ------
        ParameterError
            If it is neither linear nor boosted trees.
        NotFittedError
        """
        weights = self._linear_weights()
        if weights is not None:
            return arithmetic_of(
                self, FeatureUnits(self.pipeline_), weights.reshape(len(weights), -1)
            )
        trees, fitted = self._stored_trees(), None
        if trees is None or len(self.estimator_.classes_) < len(self.classes_):
            raise ParameterError(
                f"A model of {type(self.estimator_).__name__} is neither linear nor boosted trees"
                " of all classes, so it stays in Python. Choose hist-gradient-boosting or logistic."
            )
        if not isinstance(self.estimator_, StoredEstimator):
            fitted = (self.estimator_, self.link_.slope, self.link_.shift)
        return arithmetic_of(self, FeatureUnits(self.pipeline_), trees, fitted)

    def _scores(self, rows: np.ndarray) -> np.ndarray:
        """Return log-odds, or one logarithm per class up to a constant."""
        weights = self._linear_weights()
        if weights is not None:
            return np.asarray(rows @ weights[:-1] + weights[-1])
        logs = _log_probabilities(self.estimator_, rows, len(self.classes_))
        scores = self.link_.slope * logs + self.link_.shift
        return np.asarray(scores[:, 1] - scores[:, 0]) if scores.shape[1] == 2 else scores

    def _probability_refusal(self) -> str:
        refused = getattr(self, "link_error_", 0.0) == inf
        return TOO_LITTLE if refused else super()._probability_refusal()


def _without_clipping(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline that neither clips rows nor adds a constant: its release needs both."""
    return replace(pipeline, bound=2.0**299, intercept=0.0, clipped=None)


def _log_probabilities(estimator: Any, rows: np.ndarray, count: int) -> np.ndarray:
    """Return the logarithms of what an estimator says of each class; one it lacks is improbable."""
    stated = np.full((len(rows), count), _SMALLEST_STATED)
    stated[:, estimator.classes_] = estimator.predict_proba(rows)
    return np.asarray(np.log(np.maximum(stated, _SMALLEST_STATED)))
