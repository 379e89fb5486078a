"""The notebook view of fitted learners: what they learnt from, and nothing that acts as HTML."""

import numpy as np
import pytest
from sklearn import config_context

from builders import clinic_table
from suffice.learner.base import MissingFigureError, html_summary, summary_lines
from suffice.learner.operator import FactoredClassifier
from suffice.learner.rados import RadoRidge
from suffice.learner.ratio.estimator import ClassRatio
from suffice.owner.mean_operator import MeanOperator

TABLE = clinic_table(200)
EVIL = "<script>alert(1)</script>"


def fitted(classes: tuple[str, str] = ("well", "ill"), **options) -> FactoredClassifier:
    rows = TABLE.drop_columns("sick")
    labels = np.array(classes)[TABLE["sick"].to_numpy()]
    owner = MeanOperator(epsilon=1000.0, mechanism="laplace", classes=classes, map=None)
    release = owner.release(rows, labels, ledger=None)
    return FactoredClassifier(**options).fit_release(release, rows)


def test_the_view_names_release_guarantee_features_and_classes():
    model = fitted()
    lines = dict(summary_lines(model))
    assert lines["learner"] == "FactoredClassifier"
    assert lines["learnt from"] == "a noisy mean operator: 200 rows"
    assert lines["guarantee"] == str(model.releases_[0].guarantee)
    assert lines["features"] == "3 (age, dose, ward)"
    assert lines["classes"] == "well, ill"


def test_models_of_exact_data_claim_no_guarantee(rng):
    X = rng.normal(size=(60, 2)) + 3 * (np.arange(60) % 2)[:, None]
    for model in (RadoRidge(), ClassRatio()):
        lines = dict(summary_lines(model.fit(X, np.arange(60) % 2)))
        assert lines["learnt from"] == "exact data, without a guarantee"
        assert "guarantee" not in lines


def test_names_from_files_cannot_act_as_html():
    view = html_summary(fitted(classes=("well", EVIL)))
    assert "<script" not in view
    assert "&lt;script&gt;" in view


def test_notebooks_show_what_a_model_learnt_below_scikit_learns_diagram():
    model = fitted()
    assert model._repr_html_().endswith(html_summary(model))
    assert "sk-" in model._repr_html_()
    assert model._repr_mimebundle_()["text/html"].count(html_summary(model)) == 1
    assert model._repr_mimebundle_()["text/plain"] == repr(model)
    assert "sk-" in FactoredClassifier()._repr_html_()
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()
        assert not hasattr(model, "_repr_html_")


def test_a_figure_that_a_model_lacks_is_a_missing_attribute():
    model = fitted(penalty="l1", lam=0.01)
    assert "coef_interval_" not in dir(model)
    assert "risk_" in dir(model)
    with pytest.raises(MissingFigureError, match="Intervals exist only"):
        model.coef_interval_  # noqa: B018
