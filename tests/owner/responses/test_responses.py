"""Randomised records: what is promised before data, what is refused, and what leaves.

All noise is seeded. A test of its law holds for all seeds but one of a million.
"""

import dataclasses
import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from builders import assert_noise
from suffice.errors import (
    BudgetError,
    CorruptFileError,
    ParameterError,
    SufficeError,
    TableError,
    UnitError,
)
from suffice.learner.spread_likelihood import Corrupted, clean_features
from suffice.owner.ledger import Ledger
from suffice.owner.responses import Lattice, RandomizedResponse
from suffice.privacy.events import Approximate, gaussian_epsilon
from suffice.privacy.guarantee import Budget, Unit
from suffice.privacy.noise import KNormNoise, LaplaceNoise, Sensitivity
from suffice.releases.codec import decode
from suffice.releases.columns import Added, Flips, SpreadColumn
from suffice.releases.merge import merge
from suffice.releases.release import encode

ALARM = 1e-6
PIXELS = [f"x{j}" for j in range(784)]
LIAR = [[0.2, 0.8], [0.8, 0.2]]
ANY = np.array([[0.8, 0.1, 0.1], [0.1, 0.7, 0.3], [0.1, 0.2, 0.6]])
DECLARED = {
    "classes": ("no", "yes"),
    "label_flip": 0.2,
    "states": {"ward": ["north", "south", "west"], "grade": range(-1, 4)},
    "ranges": {"size": (-1.0, 3.0)},
    "feature_flip": 0.3,
    "feature_noise": 4.0,
}


def table(rows: int = 200, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "ward": rng.choice(["north", "south", "west"], rows),
            "size": rng.uniform(-1, 3, rows),
            "grade": rng.integers(-1, 4, rows),
            "sick": rng.choice(["no", "yes"], rows),
        }
    )


def mechanism(**changes) -> RandomizedResponse:
    return RandomizedResponse(**{**DECLARED, **changes})


def released(rows=None, *, ledger=None, changes=None, **options):
    return mechanism(**(changes or {})).release(
        table() if rows is None else rows, label="sick", ledger=ledger, **options
    )


# ------------------------------------------------------------------ what is promised


def test_digits_are_deniable_pixel_by_pixel_and_not_as_a_whole():
    digits = RandomizedResponse(label_flip=0.2, states=range(256), feature_flip=0.2)
    label, attribute, record = digits.guarantees(PIXELS)
    assert (label.unit, attribute.unit, record.unit) == (Unit.LABEL, Unit.ATTRIBUTE, Unit.RECORD)
    assert label.epsilon == pytest.approx(math.log(4), rel=1e-12)
    assert attribute.epsilon == pytest.approx(math.log(0.8 * 255 / 0.2), rel=1e-12)
    assert record.epsilon == pytest.approx(784 * attribute.epsilon + label.epsilon, rel=1e-12)
    assert record.epsilon >= 784 * attribute.event.bound + label.event.bound
    assert 5431 < record.epsilon - label.epsilon < 5432
    assert {label.delta, attribute.delta, record.delta} == {0.0}
    assert str(label).startswith("Protects each label. ")
    assert str(attribute).startswith("Weakly protects each value of each record, ")
    assert str(record).startswith("Practically no protection (epsilon = ")


def test_any_matrix_costs_the_largest_ratio_within_a_row():
    response = mechanism(
        classes=("a", "b", "c"), label_flip=ANY, feature_flip={"ward": ANY, "grade": 0.4}
    )
    label, attribute, _ = response.guarantees()
    assert label.epsilon == pytest.approx(math.log(8), rel=1e-9)
    gaussian = gaussian_epsilon(1e-6, 2.0 / 4.0)  # deviation over range
    assert attribute.epsilon == pytest.approx(gaussian, rel=1e-6)
    assert isinstance(attribute.event, Approximate)
    dearest = mechanism(feature_flip={"ward": 1e-9, "grade": 0.4}).guarantees()[1]
    assert dearest.epsilon == pytest.approx(math.log((1 - 1e-9) * 2 / 1e-9), rel=1e-6)
    assert dearest.delta == 1e-6


def test_label_noise_by_epsilon_spends_it_and_no_more():
    label = mechanism(label_flip=None, label_epsilon=1.5).guarantees()[0]
    assert 1.5 - 1e-9 < label.epsilon <= 1.5


def test_a_liar_costs_as_much_as_an_honest_answer():
    assert mechanism(label_flip=LIAR).guarantees()[0].epsilon == pytest.approx(math.log(4))


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_gaussian_cells_join_exactly_and_the_label_is_added(delta):
    response = RandomizedResponse(
        label_flip=0.2, ranges={f"x{j}": (0, 1) for j in range(9)}, feature_noise=9.0, delta=delta
    )
    label, attribute, record = response.guarantees()
    single = gaussian_epsilon(delta, 3.0)
    assert attribute.epsilon == pytest.approx(max(single, label.epsilon), rel=1e-6)
    assert (attribute.epsilon > label.epsilon) == (delta < 1e-4)  # the label is an attribute too
    together = gaussian_epsilon(delta, 1.0)  # nine cells at 3 are one at 3 / sqrt 9
    assert together < record.epsilon <= (together + label.epsilon) * (1 + 1e-9)
    assert record.delta == delta


def test_laplace_cells_are_pure():
    """They cost what a range of 2^21 steps and two more costs: those are what the lattice costs."""
    response = mechanism(kernel="laplace", feature_flip=0.5)
    _, attribute, record = response.guarantees()
    scale = math.sqrt(4.0 / 2)
    step = Lattice.of(Added(-1.0, 3.0, "laplace", 4.0)).step
    assert 4.0 / step == 2.0**21
    assert attribute.epsilon == pytest.approx((4.0 + 2 * step) / scale, rel=1e-12)
    assert attribute.epsilon >= (4.0 + 2 * step) / scale
    assert record.delta == 0.0
    numbers_only = RandomizedResponse(
        label_flip=0.2, ranges=(0, 1), feature_noise=1.0, kernel="laplace"
    )
    label, attribute, _ = numbers_only.guarantees(["a", "b"])
    assert label.event.bound < attribute.event.bound < math.sqrt(2) * (1 + 1e-5)


def test_promises_need_no_data_and_are_those_of_the_release():
    assert released().guarantees == mechanism().guarantees(["ward", "size", "grade"])
    assert released().guarantees == mechanism().guarantees()


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"states": {"ward": ["north", "south", "west"]}},
            "'grade' has no declared possible values",
        ),
        (
            {"ranges": None, "feature_noise": None},
            "'size' has no declared possible values or range",
        ),
        ({"feature_flip": None}, r"'ward' has no noise\. Declare it with --flip"),
        ({"feature_flip": {"ward": 0.2}}, r"'grade' has no noise\. Declare it with --flip"),
        (
            {"feature_noise": None},
            r"'size' has no noise\. Declare it with --noise-variance",
        ),
        ({"feature_flip": {"ward": 0.2, "grade": 0.2, "nose": 0.2}}, "'nose' is declared"),
        ({"ranges": {"size": (0, 1), "ward": (0, 1)}}, "both"),
        ({"states": range(3), "ranges": (0, 1), "feature_flip": 0.2}, "both"),
        ({"label_flip": None}, "label_flip or label_epsilon"),
        ({"label_epsilon": 1.0}, "label_flip or label_epsilon"),
        ({"label_flip": 0.0}, "'label': .* above 0 and below 1"),
        ({"label_flip": 0.5}, "not near 1 / "),
        ({"label_flip": [[0.5, 0.5], [0.5, 0.5]]}, "singular"),
        ({"label_flip": [[1.0, 0.3], [0.0, 0.7]]}, "positive: .* infinite"),
        ({"label_flip": [[0.8, 0.3], [0.1, 0.7]]}, "sum to one"),
        ({"label_flip": ANY}, "2 rows"),
        ({"label_flip": [0.8, 0.2]}, "square matrix"),
        ({"label_flip": [[0.8, 0.2], [0.2]]}, "square matrix"),
        ({"label_flip": "often"}, "square matrix"),
        ({"feature_flip": {"ward": np.full((3, 3), 1 / 3), "grade": 0.2}}, "'ward': .* singular"),
        ({"feature_flip": 0.9}, "must exceed 1 / "),
        ({"feature_noise": -1.0}, "'size': .* positive"),
        ({"feature_noise": "much"}, "'size': .* number"),
        ({"feature_noise": 1e-9}, "at least 1/4096"),
        ({"feature_noise": 1e12}, "at most 65,536 times"),
        ({"kernel": "uniform"}, "must be one of gaussian, laplace"),
        ({"delta": 0.0}, "needs a delta above 0"),
        ({"ranges": {"size": (3, -1)}}, "low < high"),
        ({"ranges": {"size": (1e17, 1e17 + 64)}}, "too far from zero"),
        ({"states": {"ward": ["north"] * 3, "grade": range(9)}}, "different"),
        ({"states": {"ward": ["north", "south", "west"], "grade": range(257)}}, "2 to 256"),
    ],
)
def test_what_cannot_be_declared_is_refused_before_data_are_read(changes, reason):
    with pytest.raises(ParameterError, match=reason):
        mechanism(**changes).guarantees(["ward", "size", "grade"])
    with pytest.raises(ParameterError, match=reason):
        mechanism(**changes).release(table(), label="sick", ledger=None)


def test_columns_must_be_named_somewhere():
    with pytest.raises(ParameterError, match="columns are not known"):
        RandomizedResponse(label_flip=0.2, states=range(2), feature_flip=0.2).guarantees()


def replaced(name: str, cells) -> pa.Table:
    rows = table(20)
    return rows.set_column(rows.schema.get_field_index(name), name, pa.array(cells))


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (replaced("ward", ["north"] * 17 + ["secret"] * 3), "'ward': 3 cells"),
        (replaced("ward", ["north"] * 18 + [None] * 2), "'ward': 2 cells"),
        (replaced("grade", [0] * 19 + [77123]), "'grade': 1 cells"),
        (replaced("grade", [0.0] * 15 + [0.77123] * 4 + [math.nan]), "'grade': 5 cells"),
        (replaced("ward", [77123] * 20), "'ward': 20 cells"),
        (replaced("size", [0.5] * 13 + [math.nan] * 7), "'size': 7 cells"),
        (replaced("size", ["secret"] * 20), "'size': 20 cells"),
        (replaced("sick", ["no"] * 19 + ["secret"]), "1 of 20 labels"),
    ],
)
def test_cells_outside_their_domain_count_as_none_and_the_owner_is_told(rows, line):
    told = []
    release = mechanism().release(rows, label="sick", ledger=None, report=told.append)
    assert len(release.arrays["answers"]) == 20
    assert line in told[0].lines[0]
    assert "secret" not in told[0].lines[0]
    assert "77123" not in told[0].lines[0]
    with pytest.raises(TableError, match="no rows"):
        released(table(0))


def test_a_cell_of_no_state_is_drawn_and_then_randomised_like_any_other():
    """Each state is as likely behind it, so each answer is (within 5 standard errors)."""
    count, rng = 6000, np.random.default_rng(0)
    cells = {"ward": ["nobody's"] * count, "size": [math.nan] * count, "sick": [None] * count}
    rows = pa.table({**cells, "kept": rng.choice(["a", "b"], count)})
    mechanism = RandomizedResponse(
        classes=("no", "yes"), label_flip=0.1, ranges={"size": (10.0, 20.0)}, feature_noise=25.0,
        states={"ward": ["x", "y", "z"], "kept": ["a", "b"]}, feature_flip=0.1,
    )  # fmt: skip
    arrays = mechanism.release(rows, label="sick", ledger=None).arrays
    for answers, states in ((arrays["codes"][:, 0], 3), (arrays["answers"], 2)):
        shares = np.bincount(answers, minlength=states) / count
        assert abs(shares - 1 / states).max() < 5 * 0.5 / math.sqrt(count)
    assert abs(arrays["values"].mean() - 15) < 5 * 5 / math.sqrt(count)  # the middle of its range
    kept = arrays["codes"][:, 1] == (rows["kept"].to_numpy(zero_copy_only=False) == "b")
    assert kept.mean() > 0.85  # other cells are as they were


def test_the_labels_are_given_once():
    with pytest.raises(ParameterError, match="once"):
        mechanism().release(table(), ledger=None)
    with pytest.raises(ParameterError, match="once"):
        mechanism().release(table(), ["no"] * 200, label="sick", ledger=None)


def test_tables_of_noise_that_no_file_can_hold_are_refused():
    rng = np.random.default_rng(0)
    P = rng.uniform(0.5, 1, (256, 256)) + 300 * np.eye(256)
    P /= P.sum(axis=0)
    many = {f"x{j}": P for j in range(8)}
    response = RandomizedResponse(label_flip=0.2, states=range(256), feature_flip=many)
    X = rng.integers(0, 256, (5, 8))
    with pytest.raises(ParameterError, match="too large"):
        response.release(X, [0, 1, 0, 1, 0], ledger=None)


# ------------------------------------------------------------------ what leaves


def test_the_release_holds_columns_in_order_and_survives_a_round_trip():
    release = released()
    columns = [SpreadColumn.from_json(item) for item in release.details["columns"]]
    assert [c.name for c in columns] == ["ward", "size", "grade"]
    assert columns[1] == SpreadColumn("size", None, Added(-1.0, 3.0, "gaussian", 4.0))
    assert columns[2].noise == Flips(5, keep=0.7)
    assert release.arrays["codes"].shape == (200, 2)
    assert release.arrays["values"].shape == (200, 1)
    assert decode(encode(release)) == release
    assert release.pipeline.outputs == (
        "ward=north", "ward=south", "ward=west", "size", "grade", "(intercept)",
    )  # fmt: skip


def test_a_learner_gets_the_coordinates_of_the_pipeline():
    release = released()
    columns = tuple(SpreadColumn.from_json(item) for item in release.details["columns"])
    codes, values = (iter(release.arrays[name].T) for name in ("codes", "values"))
    cells = tuple(next(values if column.states is None else codes) for column in columns)
    coordinates = clean_features(Corrupted(columns, cells), "learned")
    assert coordinates.mean.shape == (200, len(release.pipeline.outputs))


def test_a_pipeline_that_the_columns_do_not_declare_is_refused():
    release = released(changes={"kernel": "laplace"})
    wider = dataclasses.replace(release.pipeline, scale=2 * release.pipeline.scale)
    with pytest.raises(CorruptFileError, match="columns declare"):
        dataclasses.replace(release, pipeline=wider)


def test_a_table_of_one_sort_only_has_an_empty_array():
    X = np.random.default_rng(0).integers(0, 2, (50, 4))
    flips = RandomizedResponse(label_flip=0.2, states=range(2), feature_flip=0.1)
    noise = RandomizedResponse(label_flip=0.2, ranges=(0, 1), feature_noise=1.0)
    for response, shapes in ((flips, [(50, 4), (50, 0)]), (noise, [(50, 0), (50, 4)])):
        release = decode(encode(response.release(X, X[:, 0], ledger=None)))
        assert [release.arrays[name].shape for name in ("codes", "values")] == shapes


def test_a_poll_has_labels_only():
    poll = RandomizedResponse(label_flip=0.2, classes=("no", "yes"))
    release = poll.release(table().select(["sick"]), label="sick", ledger=None)
    assert [promise.unit for promise in release.guarantees] == [Unit.LABEL, Unit.RECORD]
    assert release.guarantees == poll.guarantees()
    assert decode(encode(release)) == release
    assert release.pipeline.outputs == ("(intercept)",)
    assert poll.release(table(), label="sick", features=[], ledger=None).rows == 200
    with pytest.raises(ParameterError, match="'ward' has no declared possible values or range"):
        poll.release(table(), label="sick", ledger=None)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float64, np.bool_])
def test_cells_become_the_codes_of_their_states_whatever_their_type(dtype):
    X = np.random.default_rng(1).integers(0, 2, (4000, 3)).astype(dtype)
    response = RandomizedResponse(label_flip=0.2, states=[1, 0], feature_flip=1e-12)
    codes = response.release(X, X[:, 0].astype(int), ledger=None).arrays["codes"]
    assert np.array_equal(codes, 1 - X.astype(int))
    run = RandomizedResponse(label_flip=0.2, states=range(-3, 5), feature_flip=1e-12)
    codes = run.release(X, X[:, 0].astype(int), ledger=None).arrays["codes"]
    assert np.array_equal(codes, 3 + X.astype(int))


def test_answers_have_the_stated_probabilities_and_ten_percent_less_noise_is_rejected():
    rows = pa.table({"a": ["u", "v", "w"] * 60_000, "b": [0, 1, 2] * 60_000})
    response = RandomizedResponse(
        classes=("u", "v", "w"),
        label_flip=ANY,
        states={"a": ["u", "v", "w"], "b": range(3)},
        feature_flip={"a": ANY, "b": 0.3},
    )
    release = response.release(rows, rows["a"], ledger=None)
    even = np.full((3, 3), 0.15) + 0.55 * np.eye(3)
    codes = release.arrays["codes"]
    for answers, P in ((release.arrays["answers"], ANY), (codes[:, 0], ANY), (codes[:, 1], even)):
        for state in range(3):
            observed = np.bincount(answers[state::3], minlength=3)
            truth = P[:, state]
            assert stats.chisquare(observed, truth * 60_000).pvalue > ALARM
            less = truth * 0.9
            less[state] = 1 - np.delete(less, state).sum()
            assert stats.chisquare(observed, less * 60_000).pvalue < ALARM
    moved = codes != np.array([0, 1, 2] * 60_000)[:, None]
    assert abs(np.corrcoef(moved.T)[0, 1]) < 5 / math.sqrt(len(moved))


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_values_have_the_stated_noise_on_a_public_lattice(kernel):
    """So for all seeds but one of 10^6; noise that is 10 % off is rejected."""
    x = np.repeat([-7.0, -0.5, 0.123456789, math.inf], 5000)
    response = RandomizedResponse(label_flip=0.2, ranges=(-1, 1), feature_noise=0.25, kernel=kernel)
    values = response.release(x[:, None], np.arange(20_000) % 2, ledger=None).arrays["values"][:, 0]
    step = Lattice.of(Added(-1.0, 1.0, kernel, 0.25)).step
    assert step == 2.0**-21
    assert np.array_equal(np.rint(values / step) * step, values)
    noise = values - np.clip(x, -1, 1)  # what lies outside was held to the range
    assert_noise(noise, 0.5 if kernel == "gaussian" else 0.5 / math.sqrt(2), kernel)
    for part in noise.reshape(4, 5000):
        assert abs(part.mean()) < 5.5 * 0.5 / math.sqrt(5000)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_every_cell_has_noise_of_its_own(kernel):
    """Neither columns nor neighbouring records share any. Four at 6 sigma."""
    response = RandomizedResponse(label_flip=0.2, ranges=(-1, 1), feature_noise=0.25, kernel=kernel)
    release = response.release(np.zeros((3000, 2)), np.arange(3000) % 2, ledger=None)
    one, other = release.arrays["values"].T
    for first, second in ((one, other), (one[:-1], one[1:])):
        assert abs(stats.spearmanr(first, second).statistic) < 6 / math.sqrt(len(first))


def test_every_number_is_an_output_of_every_other():
    """Mironov's event: the lattice is the same whatever the value and beyond the range's ends."""
    lattice = Lattice.of(Added(-1.0, 1 / 3, "laplace", 1e-3))
    cells = np.array([-1.0, -1e-9, 0.1, 1 / 3, 1e300, -math.inf])
    exact = lattice.exact(cells)
    assert exact.max() - exact.min() <= lattice.noise.sensitivity.l1
    values = lattice.randomise(exact)
    assert np.array_equal(np.rint(values / lattice.step), values / lattice.step)


def test_only_noise_drawn_number_by_number_can_be_repeated():
    with pytest.raises(ParameterError, match="single number"):
        LaplaceNoise.calibrated(Sensitivity(3, 3.0, 2), 1.0).per_cell(5)
    assert not hasattr(KNormNoise, "per_cell")
    noise = LaplaceNoise.of_scale(Sensitivity(3, 3.0, 1), 2.0)
    assert noise.per_cell(5).event == noise.event
    assert noise.per_cell(5).add(np.zeros(5)).shape == (5,)


def test_rows_are_named_by_what_leaves_and_owners_merge():
    pure = {"kernel": "laplace"}
    first, second = released(changes=pure), released(changes=pure)
    assert first.parts[0].rows.hash != second.parts[0].rows.hash
    both = merge([first, second])
    for name in ("answers", "codes", "values"):
        pair = [release.arrays[name] for release in (first, second)]
        assert np.array_equal(both.arrays[name], np.concatenate(pair))
    own = first.guarantees + second.guarantees
    assert [(g.unit, g.event) for g in both.guarantees] == [(g.unit, g.event) for g in own]
    for changes in ({"feature_flip": 0.2}, {"feature_noise": 1.0}, {"label_flip": 0.1}):
        with pytest.raises(ParameterError, match="differ"):
            merge([first, released(changes=pure | changes)])


# ------------------------------------------------------------------ what it costs


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    budgets = {Unit.LABEL: Budget(3.0), Unit.RECORD: Budget(50.0, 1e-5)}
    return Ledger(tmp_path / "l", {"d": budgets})


def test_each_budget_is_charged_with_the_promise_about_its_unit(ledger):
    release = released(ledger=ledger, dataset="d")
    spent = {balance.unit: balance.spent for balance in ledger.balances()}
    assert spent[Unit.LABEL] == release.guarantees[0].epsilon
    assert 0.9 * release.guarantees[2].epsilon < spent[Unit.RECORD] < release.guarantees[2].epsilon
    again = released(ledger=ledger, dataset="d")
    assert encode(again) == encode(release)
    assert len(ledger.history()) == 1
    released(ledger=ledger, dataset="d", request="another")
    with pytest.raises(BudgetError, match="per label"):
        released(ledger=ledger, dataset="d", request="a third")


def test_a_budget_per_attribute_pays_for_the_label_too(tmp_path):
    """A column that is nearly noise once hid what an exact label costs."""
    ledger = Ledger(tmp_path / "a", {"d": {Unit.ATTRIBUTE: Budget(12.0, 1e-6)}})
    with pytest.raises(BudgetError, match="per attribute"):
        released(changes={"label_flip": 1e-6, "feature_flip": 0.6}, ledger=ledger, dataset="d")


def test_changed_cells_get_the_stored_records_until_the_request_has_a_new_name(ledger):
    first = released(ledger=ledger, dataset="d")
    other = table().set_column(1, "size", pa.array(np.zeros(200)))
    for rows in (other, table(seed=1)):
        assert released(rows, ledger=ledger, dataset="d") == first
    assert released(other, ledger=ledger, dataset="d", request="today") != first
    assert len(ledger.history()) == 2
    with pytest.raises(BudgetError):  # the number of records is public: another request
        released(table().slice(1), ledger=ledger, dataset="d")


def test_a_budget_per_party_is_not_for_records(tmp_path):
    ledger = Ledger(tmp_path / "l", {"d": {Unit.PARTY: Budget(100.0, 1e-5)}})
    with pytest.raises(UnitError):
        released(ledger=ledger, dataset="d")


def test_nothing_leaves_if_the_noise_fails(ledger, monkeypatch):
    def fail(*_):
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(Lattice, "randomise", fail)
        with pytest.raises(RuntimeError):
            released(ledger=ledger, dataset="d")
    with pytest.raises(SufficeError, match="its output was lost"):
        released(ledger=ledger, dataset="d")
