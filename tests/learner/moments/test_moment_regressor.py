"""Regressions and descriptions from noisy moments: estimates, intervals, and none of them."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtri
from sklearn.linear_model import LinearRegression

import suffice
from suffice.errors import ParameterError
from suffice.learner.moments import MomentRegressor, describe, references
from suffice.owner.moments import Moments

RANGES = {"age": (0, 10), "size": (-1, 1), "hours": (0, 40)}


def people(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    age, size = rng.uniform(0, 10, rows), rng.uniform(-1, 1, rows)
    sex = rng.choice(["f", "m"], rows)
    hours = 10 + 1.5 * age - 3 * size + 4 * (sex == "m") + rng.normal(size=rows)
    return pa.table({"age": age, "size": size, "sex": sex, "hours": hours})


def released(rows: int = 4000, epsilon: float = 3.0, seed: int = 0, **options):
    asked = {"ranges": RANGES, "categories": {"sex": ["f", "m"]}, **options}
    return Moments(epsilon, 1e-6, **asked).release(people(rows, seed), target="hours", ledger=None)


def test_without_noise_it_is_least_squares():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = X @ [1.0, -2.0, 0.0] + 5 + rng.normal(size=2000)
    model, plain = MomentRegressor().fit(X, y), LinearRegression().fit(X, y)
    # Rows that are very long are shortened, here as in a release.
    assert np.median(np.abs(model.predict(X) - plain.predict(X))) < 0.03
    table = model.coefficient_intervals()
    assert table.names == ("x0", "x1", "x2", "(intercept)")
    np.testing.assert_allclose(table.estimate[:3], plain.coef_, atol=0.08)
    assert model.r2_ == pytest.approx(plain.score(X, y), abs=0.03)
    assert model.r2_interval_[0] < model.r2_ < model.r2_interval_[1]


def test_the_intervals_of_a_table_cover():
    """Of 40 releases of other people nearly all intervals hold the truth, and none is vast."""
    truth = {"age": 1.5, "size": -3.0, "sex=f": 0.0, "sex=m": 4.0, "(intercept)": 10.0}
    hits, widths = [], []
    for seed in range(40):
        table = MomentRegressor().fit_release(released(seed=seed)).coefficient_intervals()
        true = np.array([truth[name] for name in table.names])
        hits.append((table.low <= true) & (true <= table.high))
        widths.append(table.high - table.low)
    hits, widths = np.array(hits), np.median(widths, axis=0)
    names = list(table.names)
    assert hits[:, names.index("sex=f")].all()  # the reference
    assert hits.mean() > 0.93
    assert widths[names.index("age")] < 0.5
    assert widths[names.index("sex=f")] == 0


def test_intervals_are_as_long_as_errors_where_noise_outweighs_sampling():
    """10 % shorter ones have errors of 1.06."""
    truth = {"age": 1.5, "size": -3.0, "sex=m": 4.0, "(intercept)": 10.0}
    errors = []
    for seed in range(120):
        model = MomentRegressor().fit_release(released(rows=3000, epsilon=0.3, seed=seed))
        table = model.coefficient_intervals()
        own = [table.names.index(name) for name in truth]
        deviation = (table.high - table.low)[own] / 2 / ndtri(0.975)
        errors.append((table.estimate[own] - list(truth.values())) / deviation)
    assert 0.9 < np.sqrt(np.mean(np.square(errors))) < 1.02


def test_where_noise_hides_a_combination_there_is_a_sentence_and_no_interval():
    model = MomentRegressor().fit_release(released(rows=300, epsilon=0.1))
    assert model.r2_interval_ is None
    with pytest.raises(ParameterError, match="no interval can be stated"):
        model.coefficient_intervals()
    predicted = model.predict(people(50, 1))
    assert ((predicted >= 0) & (predicted <= 40)).all()
    assert model.to_release().details["coefficient_deviations"] is None


def test_a_model_file_predicts_and_keeps_its_table(tmp_path):
    model = MomentRegressor().fit_release(released())
    model.to_release().save(tmp_path / "model.suffice")
    loaded, rows = suffice.load(tmp_path / "model.suffice"), people(100, 9)
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    mine, stored = model.coefficient_intervals(0.9), loaded.model.coefficient_intervals(0.9)
    np.testing.assert_array_equal(mine.low, stored.low)
    assert loaded.model.r2_interval_ == model.r2_interval_
    assert loaded.score(rows, rows["hours"].to_numpy()) > 0.8
    assert "target hours" in repr(loaded)
    assert loaded.model.to_release().arrays.keys() == {"coefficients", "estimates"}


def test_owners_of_different_people_teach_one_regression():
    first = released(seed=1)
    second = released(seed=2, ranges={"hours": (0, 40)}, pipeline=first.pipeline, categories=None)
    model = MomentRegressor().fit_release([first, second])
    assert model.score(people(500, 3), people(500, 3)["hours"].to_numpy()) > 0.8


def test_a_release_with_classes_is_refused():
    rows = people(300, 0)
    labelled = Moments(1.0, 1e-6, ranges=(0, 40), categories={"sex": ["f", "m"]}).release(
        rows, np.zeros(300, dtype=int), ledger=None
    )
    with pytest.raises(ParameterError, match="target"):
        MomentRegressor().fit_release(labelled)


def test_references_are_first_categories():
    pipeline = released().pipeline
    assert references(pipeline).tolist() == [False, False, True, False]


def test_a_description_is_in_the_units_of_the_columns():
    rows = people(20_000, 0)
    found = describe(released(20_000), 0.999)
    assert found.names == ("age", "size", "sex=f", "sex=m", "hours")
    hours = rows["hours"].to_numpy()
    truth = {"age": (5, 100 / 12), "size": (0, 1 / 3), "hours": (hours.mean(), hours.var())}
    for name, (mean, variance) in truth.items():
        k = found.names.index(name)
        assert found.means[k, 1] <= mean <= found.means[k, 2]
        assert found.variances[k, 1] <= variance <= found.variances[k, 2]
    pairs = {(first, second): r for first, second, r in found.pairs()}
    true = np.corrcoef(rows["age"].to_numpy(), hours)[0, 1]
    assert pairs["age", "hours"][1] <= true <= pairs["age", "hours"][2]
    assert pairs["sex=f", "sex=m"][0] < -0.95
    content = found.to_json()
    assert len(content["columns"]) == 5
    assert len(content["correlations"]) == 10
    hidden = describe(released(100, epsilon=0.05))
    assert any(r is None for _, _, r in hidden.pairs())
    with pytest.raises(ParameterError, match="level"):
        describe(released(100), 1.0)
