"""The mean operator's release: right on average, private by its own account, clear when refused."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from builders import assert_noise, read_labels
from suffice.engines.sums import MappedSums, label_weights
from suffice.errors import (
    BudgetError,
    ParameterError,
    PrivacyError,
    SufficeError,
    TableError,
    UnprotectedError,
)
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import MECHANISMS, ExactSums, MeanOperator
from suffice.owner.mechanism import Payment, publish
from suffice.plain_text import collected_notes
from suffice.privacy.events import Unbounded
from suffice.privacy.guarantee import Budget, Guarantee, Protection, Unit
from suffice.releases.release import Covariance

rng = np.random.default_rng(11)
X = rng.normal(size=(200, 5)) * [1, 10, 0.1, 5, 1] + [0, 3, 0, -7, 0]
y = (X[:, 0] + 0.1 * X[:, 1] > 0).astype(int)
three = rng.integers(0, 3, len(X))
WIDE = np.hstack([X, rng.normal(size=(200, 75))])
NUMBERS = {"laplace": 8000, "gaussian": 4000, "knorm": 8000}  # by how many 10 % are noticed
NO_LEDGER = {"payment": Payment(None), "parameters": {}}


def exact(release, labels: np.ndarray, classes: int, rows: np.ndarray = X) -> np.ndarray:
    """Compute mu or M the obvious way, from the rows that the pipeline makes."""
    columns = {f"x{j}": column for j, column in enumerate(rows.T)}
    Z = release.pipeline.transform(pa.record_batch(columns))
    if classes == 2:
        return (Z * (2 * labels - 1)[:, None]).mean(axis=0)
    return Z.T @ np.eye(classes)[labels] / len(Z)


def whitened(gaps: np.ndarray, noise: Covariance) -> np.ndarray:
    """Return noise divided by a root of its stated covariance, one release a row."""
    columns = gaps.reshape(len(gaps), gaps.shape[1], -1)
    root = np.eye(gaps.shape[1]) if noise.array is None else noise.array
    return (np.linalg.solve(root, columns) / math.sqrt(noise.variance)).reshape(len(gaps), -1)


@pytest.mark.parametrize(("mechanism", "numbers"), NUMBERS.items())
@pytest.mark.parametrize("classes", [2, 3])
def test_the_release_is_the_statistic_plus_noise_of_the_stated_size(mechanism, numbers, classes):
    """For all seeds but 1 in 10^7; noise that is 10 % off, or shared by classes, is rejected."""
    labels = y if classes == 2 else three
    operator = MeanOperator(
        epsilon=2.0, delta=1e-6, mechanism=mechanism, classes=tuple(range(classes)), map=None
    )
    dimension = (WIDE.shape[1] + 1) * (1 if classes == 2 else classes)
    gaps = []
    for _ in range(math.ceil(numbers / dimension)):
        release = operator.release(WIDE, labels, ledger=None)
        gaps.append(release.arrays["mean_operator"] - exact(release, labels, classes, WIDE))
    z = whitened(np.array(gaps), release.noise)
    scale = {"laplace": 0.5, "gaussian": 1.0, "knorm": 1 / (dimension + 1)}[mechanism] ** 0.5
    assert_noise(z, scale, mechanism)  # of variance one
    assert abs(z.mean()) < 6 / math.sqrt(z.size)
    columns = z.reshape(-1, 1 if classes == 2 else classes).T
    for first, other in itertools.combinations(columns, 2):
        assert abs(stats.spearmanr(first, other).statistic) < 6 / math.sqrt(len(first))
    assert release.guarantee.epsilon <= 2.0
    assert release.guarantee.unit is Unit.LABEL


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("width", [1, 5])
def test_the_automatic_mechanism_is_the_one_predicted_to_be_best(delta, width):
    rows = X[:, :width]
    forecasts = {
        name: MeanOperator(epsilon=1.0, delta=delta, mechanism=name, map=None).forecast(rows)
        for name in MECHANISMS
        if name != "gaussian" or delta
    }
    release = MeanOperator(epsilon=1.0, delta=delta, map=None).release(rows, y, ledger=None)
    chosen = forecasts[release.details["mechanism"]]
    best = max(forecast.utility.correlation for forecast in forecasts.values())
    assert chosen.utility.correlation >= best / 1.01  # even noise may be preferred by so much
    assert release.guarantee == chosen.guarantee
    assert MeanOperator(epsilon=1.0, delta=delta, map=None).forecast(rows).utility == chosen.utility


def test_with_almost_no_noise_the_release_is_the_statistic():
    release = MeanOperator(epsilon=1e6, mechanism="laplace", map=None).release(X, y, ledger=None)
    assert np.allclose(release.arrays["mean_operator"], exact(release, y, 2), atol=1e-4)


@settings(max_examples=20)
@given(st.integers(0, 199), st.integers(0, 2), st.integers(2, 3))
def test_replacing_one_label_never_moves_the_sums_by_more_than_the_sensitivity(row, label, classes):
    labels = y.copy() if classes == 2 else three.copy()
    public = MeanOperator(epsilon=1.0, map=None).public_rows(X)

    def sums(codes: np.ndarray) -> ExactSums:
        names = tuple(range(classes))
        return read_labels(ExactSums(public, names, None), public, codes, names)

    before = sums(labels)
    changed = labels.copy()
    changed[row] = label % classes
    moved = sums(changed)._sums.result() - before._sums.result()
    assert np.abs(moved).sum() <= before.sensitivity.l1
    assert np.linalg.norm(moved.astype(float)) <= before.sensitivity.l2


def test_the_sensitivity_is_reached():
    release = MeanOperator(epsilon=1.0, map=None).release(X, y, ledger=None)
    pipeline = release.pipeline
    engine = MappedSums(pipeline, 1)
    columns = pipeline.encoded(pa.record_batch({f"x{j}": X[:, j] for j in range(5)}))
    engine.update((columns, label_weights(y, 2)))
    codes = np.rint(
        pipeline.transform(pa.record_batch({f"x{j}": X[:, j] for j in range(5)})) / engine.step
    )
    assert engine.reach.l1 == int(np.abs(codes).sum(axis=1).max())
    assert engine.reach.l2 == pytest.approx(np.linalg.norm(codes, axis=1).max(), rel=1e-12)


def test_the_ledger_pays_once_and_the_same_request_gets_the_same_bytes(tmp_path):
    ledger = Ledger(tmp_path / "l", {"d": Budget(1.0)})
    operator = MeanOperator(epsilon=0.6, map=None)
    first = operator.release(X, y, ledger=ledger, dataset="d")
    assert operator.release(X, y, ledger=ledger, dataset="d") == first
    order = np.roll(np.arange(len(X)), 1)
    assert operator.release(X[order], y[order], ledger=ledger, dataset="d") == first
    with pytest.raises(BudgetError):
        operator.release(X, y, ledger=ledger, dataset="d", request="again")
    with pytest.raises(BudgetError):
        MeanOperator(epsilon=0.5, map=None).release(X, y, ledger=ledger, dataset="d")
    changed = y.copy()
    changed[0] = 1 - changed[0]
    assert operator.release(X, changed, ledger=ledger, dataset="d") == first
    with pytest.raises(ParameterError, match="dataset"):
        operator.release(X, y, ledger=ledger)


def test_the_same_labels_draw_on_one_budget_whatever_else_changes(tmp_path):
    ledger = Ledger(tmp_path / "l", {"d": Budget(3.0), "e": Budget(3.0)})
    MeanOperator(epsilon=1.0, map=None).release(X, y, ledger=ledger, dataset="d")
    MeanOperator(epsilon=1.0, map=None).release(X[:, :2], y, ledger=ledger, dataset="d")
    MeanOperator(epsilon=1.0, classes=(1, 0), map=None).release(X, y, ledger=ledger, dataset="d")
    assert ledger.balances()[0].spent == pytest.approx(3.0)
    with collected_notes() as notes:
        MeanOperator(epsilon=1.0, map=None).release(X, y == 1, ledger=ledger, dataset="e")
    assert "under the name 'd'" in str(notes)


def test_a_pipeline_that_would_not_clip_is_refused():
    """A stranger's pipeline must not switch clipping off by underflow (then sums overflow)."""
    honest = MeanOperator(epsilon=1.0, map=None).release(X, y, ledger=None).pipeline
    with pytest.raises(ParameterError, match="neither too small"):
        dataclasses.replace(honest, bound=2.0**-665)
    tiny = dataclasses.replace(honest, bound=2.0**-299, intercept=0.0)
    release = MeanOperator(epsilon=1.0, pipeline=tiny).release(X, y, ledger=None)
    assert np.isfinite(release.arrays["mean_operator"]).all()


def test_the_ledger_does_not_store_the_labels_or_an_unkeyed_hash_of_them(tmp_path):
    path = tmp_path / "l"
    operator = MeanOperator(epsilon=0.5, map=None)
    for name in ("l", "m"):
        ledger = Ledger(tmp_path / name, {"d": Budget(1.0)})
        operator.release(X, y, ledger=ledger, dataset="d")
    fingerprints = []
    import sqlite3

    for name in ("l", "m"):
        db = sqlite3.connect(tmp_path / name)
        fingerprints += [
            json.loads(text) for (text,) in db.execute("SELECT fingerprints FROM debits")
        ]
        db.close()
    assert fingerprints[0].keys() == fingerprints[1].keys() == {"d"}
    assert fingerprints[0] != fingerprints[1]
    assert path.exists()


def test_an_output_lost_in_drawing_is_burnt(tmp_path):
    from suffice.errors import BurntRequestError

    ledger = Ledger(tmp_path / "l", {"d": Budget(1.0)})
    guarantee = MeanOperator(epsilon=0.5, map=None).forecast(X).guarantee

    def draw():
        raise MemoryError

    options = {
        "payment": Payment(ledger, "d", "r"),
        "parameters": {"kind": "test"},
        "fingerprint": b"f",
    }
    with pytest.raises(MemoryError):
        publish(draw, [guarantee], **options)
    assert ledger.history()[0].state == "burnt"
    with pytest.raises(BurntRequestError):
        publish(draw, [guarantee], **options)


def test_what_protects_nothing_leaves_only_if_somebody_says_so(release):
    nothing = Guarantee(unit=Unit.LABEL, event=Unbounded(), kind=Protection.NONE)
    with pytest.raises(UnprotectedError, match="unprotected"):
        publish(lambda: release, [nothing], **NO_LEDGER)
    with pytest.raises(UnprotectedError, match="unprotected"):  # one that is none is enough
        publish(lambda: release, [*release.guarantees, nothing], **NO_LEDGER)
    with pytest.raises(ParameterError, match="at least one guarantee"):
        publish(lambda: release, [], **NO_LEDGER)


def test_only_what_was_paid_for_leaves(release):
    other = MeanOperator(epsilon=0.1, map=None).forecast(X).guarantee
    with pytest.raises(PrivacyError, match="were charged"):
        publish(lambda: release, [other], **NO_LEDGER)
    assert publish(lambda: release, release.guarantees, **NO_LEDGER) is release


def test_a_forecast_reads_no_label_and_tells_the_truth():
    operator = MeanOperator(epsilon=1.0, delta=1e-6, mechanism="gaussian", map=None)
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "secret": pa.nulls(len(X), pa.int64())})
    forecast = operator.forecast(table, label="secret")
    release = operator.release(X[:, :2], y, ledger=None)
    power = np.trace(release.noise.dense(3)) / 3
    assert forecast.noise_deviation == pytest.approx(math.sqrt(power))
    assert forecast.guarantee == release.guarantee
    assert forecast.coordinates == 3


def test_every_source_of_the_same_rows_gives_the_same_statistic(clinic, clinic_file):
    import polars as pl

    wards = {"ward": ["north", "south", "west"]}
    operator = MeanOperator(epsilon=1e6, mechanism="laplace", categories=wards, map=None)
    releases = [
        operator.release(source, label="sick", ledger=None)
        for source in (clinic, clinic_file, clinic.to_pandas(), pl.from_arrow(clinic))
    ]
    for release in releases[1:]:
        assert release.parts[0].rows == releases[0].parts[0].rows
        assert release.pipeline == releases[0].pipeline
        gap = release.arrays["mean_operator"] - releases[0].arrays["mean_operator"]
        assert np.abs(gap).max() < 1e-3


def test_features_can_be_chosen_and_missing_values_have_a_policy(clinic):
    holes = clinic.set_column(0, "age", pa.array([None, *clinic["age"].to_pylist()[1:]]))
    with pytest.raises(TableError, match=r"'age' has 1 missing"):
        MeanOperator(epsilon=1.0, map=None).release(holes, label="sick", ledger=None)
    filled = MeanOperator(epsilon=1.0, missing="mean", map=None).release(
        holes, label="sick", ledger=None
    )
    assert filled.pipeline.missing == "mean"
    chosen = MeanOperator(epsilon=1.0, map=None).release(
        holes, label="sick", features=["dose"], ledger=None
    )
    assert chosen.pipeline.outputs == ("dose", "(intercept)")


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ({"epsilon": 0}, y),
        ({"epsilon": math.inf}, y),
        ({"epsilon": -1}, y),
        ({"epsilon": 1, "mechanism": "gaussian"}, y),
        ({"epsilon": 1, "mechanism": "magic"}, y),
        ({"epsilon": 1, "clip": 0}, y),
        ({"epsilon": 1, "intercept": -1}, y),
        ({"epsilon": 1, "missing": "maybe"}, y),
        ({"epsilon": 1, "classes": (0,)}, y),
        ({"epsilon": 1, "classes": (0, 0)}, y),
        ({"epsilon": 1, "classes": (0, "a")}, y),
        ({"epsilon": 1, "categories": {"nowhere": ["a"]}}, y),
        ({"epsilon": 1}, y[:-1]),
        ({"epsilon": 1}, np.append(y, 1)),
        ({"epsilon": 1}, three),
        ({"epsilon": 1}, 2 * y - 1),
        ({"epsilon": 1}, None),
    ],
)
def test_what_cannot_be_released_is_refused_before_anything_is_spent(tmp_path, options, labels):
    ledger = Ledger(tmp_path / "l", {"d": Budget(1.0, 1e-5)})
    with pytest.raises(SufficeError):
        MeanOperator(**options, map=None).release(X, labels, ledger=ledger, dataset="d")
    assert ledger.history() == []


def test_empty_and_constant_tables_are_refused():
    with pytest.raises(TableError, match="no rows"):
        MeanOperator(epsilon=1.0, map=None).release(X[:0], y[:0], ledger=None)
    with pytest.raises(ParameterError):
        MeanOperator(epsilon=1.0, intercept=0.0, map=None).release(
            np.ones((9, 2)), y[:9], ledger=None
        )


def test_a_label_outside_the_classes_is_counted_and_not_shown():
    labels = y.copy()
    labels[3] = 4711
    with pytest.raises(TableError, match="1 of 200 labels") as caught:
        MeanOperator(epsilon=1.0, map=None).release(X, labels, ledger=None)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize(
    "option",
    [
        {"clip": 0.5},
        {"intercept": 0.0},
        {"map": "rff:8"},
        {"missing": "mean"},
        {"categories": {"x0": [0, 1]}},
    ],
)
def test_what_a_given_pipeline_settles_cannot_be_asked_for(option):
    agreed = MeanOperator(epsilon=1.0, map=None).release(X, y, ledger=None).pipeline
    with pytest.raises(ParameterError, match=f"already fixes {next(iter(option))}"):
        MeanOperator(epsilon=1.0, pipeline=agreed, **option).release(X, y, ledger=None)


def test_a_second_owner_may_use_a_pipeline_of_many_categories():
    names = [f"town {i}" for i in range(1200)]
    first = MeanOperator(epsilon=1.0, categories={"town": names}, map=None)
    release = first.release(pa.table({"town": names, "y": [0, 1] * 600}), label="y", ledger=None)
    again = MeanOperator(epsilon=1.0, pipeline=release.pipeline)
    table = pa.table({"town": names[::-1], "y": [0, 1] * 600})
    assert again.release(table, label="y", ledger=None).pipeline == release.pipeline


def test_numbers_of_numpy_are_plain_numbers(tmp_path):
    ledger = Ledger(tmp_path / "l", {"d": Budget(np.float32(3.0), 1e-5)})
    operator = MeanOperator(np.float32(0.1), np.float64(1e-6), mechanism="gaussian", map=None)
    release = operator.release(X, y, ledger=ledger, dataset="d")
    assert type(operator.epsilon) is float
    assert release.guarantees[0].epsilon <= float(np.float32(0.1))
    assert MeanOperator(np.int64(1), map=None) == MeanOperator(1.0, map=None)


@pytest.mark.parametrize(
    "changes",
    [{"epsilon": None}, {"epsilon": "much"}, {"delta": 5}, {"delta": math.nan}, {"epsilon": 0}],
)
def test_what_is_no_promise_is_refused_when_it_is_made(changes):
    with pytest.raises(ParameterError, match="must"):
        MeanOperator(**({"epsilon": 1.0, "mechanism": "laplace"} | changes))


def test_classes_that_no_file_can_hold_are_refused():
    with pytest.raises(ParameterError, match="2\\^53"):
        MeanOperator(1.0, classes=(0, 2**60), map=None).release(X, y, ledger=None)
