"""Tools of scikit-learn work with every classifier, on frames with categories where they can."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import AdaBoostClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import suffice as sf

ROWS = 150
WEIGHTED = [
    sf.FactoredClassifier(lam=0.01),
    sf.MomentClassifier(draws=2),
    sf.NoisyLabelClassifier("logistic", settings=[{"C": 1.0}], folds=2),
    sf.VoteClassifier(),
]
OTHERS = [
    sf.SpreadClassifier(lam=0.01),
    sf.RadoRidge(),
    sf.RadoBoost(rounds=20),
    sf.AdaBoostLinear(rounds=20),
]
every_learner = pytest.mark.parametrize(
    "learner", [*WEIGHTED, *OTHERS], ids=lambda learner: type(learner).__name__
)
every_weighted = pytest.mark.parametrize(
    "learner", WEIGHTED, ids=lambda learner: type(learner).__name__
)


@pytest.fixture
def patients(rng):
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 12, ROWS),
            "ward": rng.choice(["north", "south", "east"], ROWS),
            "smoker": rng.random(ROWS) < 0.3,
        }
    )
    score = (frame["age"] - 50) / 12 + (frame["ward"] == "north")
    return frame, np.where(score + rng.normal(0, 0.3, ROWS) > 0.3, "ill", "well")


@every_learner
def test_searches_folds_and_calibration_take_frames(patients, learner):
    frame, y = patients
    assert cross_val_score(clone(learner), frame, y, cv=3).mean() > 0.75
    search = GridSearchCV(clone(learner), {"class_weight": [None, "balanced"]}, cv=2)
    assert search.fit(frame, y).score(frame, y) > 0.75
    calibrated = CalibratedClassifierCV(clone(learner), cv=2).fit(frame, y)
    assert calibrated.score(frame, y) > 0.75
    again = pickle.loads(pickle.dumps(clone(learner).fit(frame, y)))
    assert again.score(frame, y) > 0.75


@every_learner
def test_pipelines_and_votes_take_numbers(patients, learner):
    frame, y = patients
    numbers = frame[["age", "smoker"]].astype(float)
    scaler = StandardScaler().set_output(transform="pandas")
    chain = make_pipeline(scaler, clone(learner)).fit(numbers, y)
    assert chain.score(numbers, y) > 0.65
    assert chain[-1].feature_names_in_.tolist() == ["age", "smoker"]
    members = [("ours", clone(learner)), ("theirs", LogisticRegression())]
    votes = VotingClassifier(members, voting="soft").fit(numbers, y)
    assert votes.score(numbers, y) > 0.65


@every_weighted
def test_tools_pass_weights_on(patients, learner):
    frame, y = patients
    weights = np.where(y == "ill", 5.0, 1.0)
    search = GridSearchCV(clone(learner), {"class_weight": [None]}, cv=2)
    search.fit(frame, y, sample_weight=weights)
    plain = clone(learner).fit(frame, y)
    ill = [(model.predict(frame) == "ill").sum() for model in (search, plain)]
    assert ill[0] > ill[1]
    with config_context(enable_metadata_routing=True):
        routed = clone(learner).set_fit_request(sample_weight=True)
        routed = routed.set_score_request(sample_weight=True)
        figures = cross_validate(routed, frame, y, params={"sample_weight": weights}, cv=2)
    assert figures["test_score"].mean() > 0.7


@every_weighted
def test_boosting_scales_weights_to_one_and_loses_nothing(patients, learner):
    """Weights that sum to 1 do not stand for one label.

    NoisyLabelClassifier leaves them to its estimator, whose penalty is not per label.
    """
    frame, y = patients
    numbers = frame[["age", "smoker"]].astype(float)
    first = clone(learner).fit(numbers, y, sample_weight=np.full(ROWS, 1 / ROWS))
    if not isinstance(learner, sf.NoisyLabelClassifier):
        assert first.coef_[0] == pytest.approx(clone(learner).fit(numbers, y).coef_[0], rel=1e-3)
    boosted = AdaBoostClassifier(clone(learner), n_estimators=3).fit(numbers, y)
    assert boosted.score(numbers, y) > 0.65
