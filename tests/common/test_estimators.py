"""Every estimator of the library goes through scikit-learn's checks; a new one is one entry."""

import importlib
import inspect
import pkgutil

import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import suffice.learner
import suffice.papers
from suffice import errors
from suffice.learner.moments import MomentClassifier, MomentRegressor
from suffice.learner.noisy_labels import NoisyLabelClassifier
from suffice.learner.operator import FactoredClassifier
from suffice.learner.rados import RadoBoost, RadoRidge
from suffice.learner.ratio.estimator import ClassRatio
from suffice.learner.sklearn_names import InvalidParameterError
from suffice.learner.spread import SpreadClassifier
from suffice.learner.votes import VoteClassifier
from suffice.papers.adaboost import AdaBoostLinear

ESTIMATORS = [
    AdaBoostLinear(rounds=40),
    ClassRatio(),
    FactoredClassifier(),
    MomentClassifier(),
    MomentRegressor(),
    NoisyLabelClassifier("logistic", settings=[{"C": 1.0}], folds=2),  # trees take minutes
    RadoBoost(rounds=40),
    RadoRidge(),
    SpreadClassifier(),
    VoteClassifier(),
]
WRONG = {  # a parameter of each that is outside its domain
    AdaBoostLinear: {"rounds": 0},
    ClassRatio: {"kernel": "round"},
    FactoredClassifier: {"lam": -1.0},
    MomentClassifier: {"draws": 0},
    NoisyLabelClassifier: {"folds": 1},
    RadoBoost: {"kappa": 0.5},
    RadoRidge: {"lam": "much"},
    SpreadClassifier: {"prior": "guess"},
    VoteClassifier: {"labels": "smallest"},
}


def estimators_of_the_library() -> set[type]:
    """Return every class of learners, and of the papers, that can be fitted to plain rows."""
    estimators = set()
    learners = pkgutil.walk_packages(suffice.learner.__path__, "suffice.learner.")
    papers = pkgutil.walk_packages(suffice.papers.__path__, "suffice.papers.")
    for info in (*learners, *papers):
        for _, value in inspect.getmembers(importlib.import_module(info.name), inspect.isclass):
            own = value.__module__ == info.name and issubclass(value, BaseEstimator)
            if own and not value.__name__.startswith("_") and hasattr(value, "fit"):
                estimators.add(value)
    return estimators


def test_every_estimator_is_checked():
    checked = {type(estimator) for estimator in ESTIMATORS}
    assert checked == estimators_of_the_library()
    assert checked - {MomentRegressor} == set(WRONG)  # which has no parameter


@pytest.mark.parametrize("learner", WRONG, ids=lambda estimator: estimator.__name__)
def test_docstrings_describe_every_parameter_also_those_that_learners_share(learner):
    described = learner.__doc__.splitlines()
    for name in learner().get_params(deep=False):
        assert any(line.startswith(f"{name} : ") for line in described), name
    assert "Itself, fitted." in learner.fit.__doc__ or "Returns" in learner.fit.__doc__


@pytest.mark.filterwarnings("ignore:The rows do not tell classes:UserWarning")  # random labels
@parametrize_with_checks(
    ESTIMATORS,
    expected_failed_checks=lambda estimator: dict.fromkeys(
        ("check_methods_sample_order_invariance", "check_methods_subset_invariance")
        if isinstance(estimator, ClassRatio)
        else (),
        "proportions are of all rows together, and not of each",
    ),
)
def test_scikit_learn_finds_nothing_wrong(estimator, check):
    check(estimator)


@pytest.mark.parametrize("learner", WRONG, ids=lambda estimator: estimator.__name__)
def test_a_bad_parameter_is_an_error_of_ours_and_of_scikit_learn(learner, rng):
    from sklearn.utils._param_validation import InvalidParameterError as TheirError

    with pytest.raises(errors.ParameterError, match=next(iter(WRONG[learner]))) as caught:
        learner(**WRONG[learner]).fit(rng.normal(size=(20, 2)), [0, 1] * 10)
    assert caught.type is InvalidParameterError
    assert isinstance(caught.value, TheirError)
    assert caught.value.exit_code == errors.UsageError.exit_code


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_what_was_not_fitted_says_so(estimator, rng):
    ask = estimator.quantify if isinstance(estimator, ClassRatio) else estimator.predict
    with pytest.raises(NotFittedError):
        ask(rng.normal(size=(4, 2)))
