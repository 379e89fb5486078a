"""Noisy second moments: what they hold, what they protect, and that no record is an error."""

import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from builders import assert_noise, clinic_table
from suffice.engines.sums import LONGEST_CODE, MomentSums
from suffice.errors import ParameterError, TableError
from suffice.owner.ledger import Ledger
from suffice.owner.moments import Moments, calibrated_moments, moments_noise, plan_moments
from suffice.owner.scaling import SharedRowsWarning
from suffice.owner.source import LabelledBatch, OwnerReport, Source
from suffice.privacy.guarantee import Budget, Protection, Unit
from suffice.privacy.moments import BlockWeights
from suffice.releases.codec import decode
from suffice.releases.merge import merge
from suffice.releases.release import encode

ASKED = {"epsilon": 1.0, "delta": 1e-6, "ranges": (-1, 1)}


def data(rows: int = 400, width: int = 3, classes: int = 2, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, width))
    return X, (X[:, 0] * classes / 2 + classes / 2).astype(int)


def exact_of(X, y, **options):
    """Return the procedure of a release, and its exact sums."""
    mechanism = Moments(**{**ASKED, **options})
    source = Source(X, np.asarray(y))
    public = mechanism.public(source)
    procedure = mechanism.choose(public)
    return procedure, source.fold(public.parts(), lambda: procedure.accumulator(identified=False))


@pytest.mark.parametrize("classes", [2, 4])
def test_the_exact_sums_are_those_of_rows_on_the_lattice(classes):
    X, y = data(classes=classes)
    procedure, exact = exact_of(X, y, classes=tuple(range(classes)))
    bound = procedure.rows.pipeline.bound
    assert bound == pytest.approx(math.sqrt(3), rel=1e-5)
    W = X / bound
    totals = exact.result()
    np.testing.assert_allclose(totals.second / LONGEST_CODE**2, W.T @ W, rtol=1e-3, atol=0.05)
    np.testing.assert_allclose(totals.mean / LONGEST_CODE, W.sum(axis=0), atol=0.05)
    if classes == 2:
        np.testing.assert_allclose(totals.operator[0] / LONGEST_CODE, (2 * y - 1) @ W, atol=0.05)
        assert totals.counts.tolist() == [int((2 * y - 1).sum())]
    else:
        centred = np.eye(classes)[y] - 1 / classes
        found = totals.operator / LONGEST_CODE / classes
        np.testing.assert_allclose(found, centred.T @ W, atol=0.05)
        assert (totals.operator.sum(axis=0) == 0).all()
        assert totals.counts.tolist() == np.bincount(y).tolist()


def test_a_release_holds_moments_in_the_units_of_its_pipeline():
    X, y = data(200_000)
    release = Moments(**{**ASKED, "epsilon": 8.0}).release(X, y, ledger=None)
    arrays = release.arrays
    np.testing.assert_allclose(arrays["second_moments"], X.T @ X / len(X), atol=2e-3)
    np.testing.assert_allclose(arrays["mean"], X.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(arrays["operator"], (2 * y - 1) @ X / len(X), atol=2e-3)
    np.testing.assert_allclose(arrays["proportions"], np.bincount(y) / len(y), atol=2e-3)
    assert arrays["proportions"].sum() == pytest.approx(1)
    assert release.rows == 200_000
    assert release.guarantee.unit is Unit.RECORD
    assert release.guarantee.epsilon <= 8.0
    assert decode(encode(release)) == release


@pytest.mark.parametrize("classes", [2, 3])
def test_every_block_has_the_noise_that_is_stated(classes):
    weights = BlockWeights(classes, 0.5, 1.1, 0.4)
    noise = moments_noise(12, 1000, weights, 2.0)
    zero = np.zeros((12, 0))
    sums = MomentSums(12, classes)
    sums.update((zero, np.zeros(0, dtype=int)))
    exact = sums.result()
    D = weights.sensitivity
    expected = {
        "diagonal": 2 * D,
        "products": 2 * D / math.sqrt(2),
        "mean": 2 * D / 0.5,
        "operator": 2 * D / 1.1,
        "counts": 2 * D / 0.4,
    }
    for name, block in noise.blocks.items():
        assert block.deviation == pytest.approx(expected[name], rel=1e-6)
        assert block.noise.scale >= 2**24
        assert block.noise.scale == math.ceil(block.noise.scale)
    drawn = [noise.add(exact) for _ in range(400)]
    upper = np.triu_indices(12, 1)
    diagonal = np.array([np.diagonal(d["second"]) for d in drawn])
    assert_noise(diagonal, expected["diagonal"], "gaussian")
    assert_noise(np.array([d["second"][upper] for d in drawn]), expected["products"], "gaussian")
    assert_noise(np.array([d["mean"] for d in drawn]), expected["mean"], "gaussian")
    assert_noise(np.array([d["operator"] for d in drawn]), expected["operator"], "gaussian")
    assert all((d["second"] == d["second"].T).all() for d in drawn)


def test_the_noise_costs_what_was_asked_and_hardly_less():
    for width, classes, epsilon in ((1, 2, 1.0), (40, 2, 0.1), (7, 5, 10.0), (785, 2, 1.0)):
        noise = calibrated_moments(width, classes, 5000, epsilon, 1e-6)
        assert 0.999 * epsilon < noise.event.epsilon(1e-6) <= epsilon
        assert 0 < noise.event.slack < 1e-4
        assert 0 < noise.event.tail < 1e-30
    with pytest.raises(ParameterError, match="too many rows"):
        calibrated_moments(4, 2, 2**33, 1.0, 1e-6)


def test_no_record_is_an_error_and_the_owner_alone_is_told():
    X, y = data()
    X[0, 0], X[1, 1], X[2, 2] = np.nan, np.inf, 1e308
    labels = y.astype(object).tolist()
    labels[5], labels[6] = None, 7
    told = []
    release = Moments(**ASKED).release(X, labels, ledger=None, report=told.append)
    assert release.rows == 400
    (report,) = told
    assert isinstance(report, OwnerReport)
    assert not report.facts
    assert "2 of 400 labels" in report.lines[0]
    _, exact = exact_of(X, labels)
    filled = X.copy()
    filled[0, 0] = filled[1, 1] = 0.0  # the middle of the declared range
    filled[2, 2] = 1.0  # the end of the range
    _, same = exact_of(filled, y)
    assert (exact.result().second == same.result().second).all()
    assert (exact.result().mean == same.result().mean).all()
    labelled = np.delete(2 * y - 1, [5, 6])
    assert exact.result().counts.tolist() == [labelled.sum()]


def test_categories_that_were_not_declared_count_as_none():
    table = clinic_table()
    ranges = {"age": (0, 100), "dose": (0, 10)}
    told = []
    asked = {"epsilon": 1.0, "delta": 1e-6, "ranges": ranges}
    mechanism = Moments(**asked, categories={"ward": ["north", "south"]})
    mechanism.release(table, label="sick", ledger=None, report=told.append)
    strange = sum(ward not in {"north", "south", None} for ward in table["ward"].to_pylist())
    line = f"column 'ward': {strange} cells hold no declared value; they count as none."
    assert told[0].lines[0] == line


def test_scales_come_from_a_public_table_and_shared_rows_are_told_to_the_owner():
    X, y = data(600, 5)
    frame = pd.DataFrame(X, columns=list("abcde"))
    private, public = frame.iloc[200:], frame.iloc[:200]
    asked = {"epsilon": 1.0, "delta": 1e-6, "standardize": public}
    release = Moments(**asked).release(private, y[200:], ledger=None)
    pipeline = release.pipeline
    assert pipeline.intercept == 0
    norms = np.linalg.norm((public.to_numpy() - pipeline.mean) / pipeline.scale, axis=1)
    assert pipeline.bound == pytest.approx(np.quantile(norms, 0.2, method="inverted_cdf"), rel=1e-6)
    assert release.guarantee.kind is Protection.GLOBAL
    with pytest.warns(SharedRowsWarning):
        Moments(**asked).release(frame, y, ledger=None)
    own = Moments(epsilon=1.0, delta=1e-6, standardize="rows")
    unprotected = own.release(private, y[200:], ledger=None, unprotected=True)
    assert unprotected.guarantee.kind is Protection.DATA_DEPENDENT


@pytest.mark.parametrize("engine", ["threads"])
def test_parts_and_engines_give_the_same_sums(engine, tmp_path):
    X, y = data(5000)
    table = pa.table({**{f"x{j}": X[:, j] for j in range(3)}, "y": y})
    import pyarrow.parquet as pq

    pq.write_table(table, tmp_path / "t.parquet", row_group_size=700)
    mechanism = Moments(**ASKED)
    results = []
    for workers in (1, 3):
        source = Source(tmp_path / "t.parquet", label="y", engine=engine, workers=workers)
        with source.running() as opened:
            public = mechanism.public(opened)
            procedure = mechanism.choose(public)
            fold = opened.fold(public.parts(), lambda p=procedure: p.accumulator(identified=True))
            results.append((fold.result(), fold.fingerprint, fold.count))
    (one, name, count), (two, other, number) = results
    assert (one.second == two.second).all()
    assert (one.operator == two.operator).all()
    assert (name, count) == (other, number)
    _, memory = exact_of(X, y)
    assert (memory.result().second == one.second).all()


def test_the_ledger_charges_records_and_repeats_a_request(tmp_path):
    X, y = data()
    ledger = Ledger(tmp_path / "l", {"d": {Unit.RECORD: Budget(2.0, 1e-5)}})
    mechanism = Moments(**ASKED)
    first = mechanism.release(X, y, ledger=ledger, dataset="d")
    assert mechanism.release(X, y, ledger=ledger, dataset="d") == first
    assert len(ledger.history()) == 1


def test_a_table_that_grew_is_another_request(tmp_path):
    X, y = data()
    ledger = Ledger(tmp_path / "l", {"d": {Unit.RECORD: Budget(9.0, 1e-5)}})
    mechanism = Moments(**ASKED)
    first = mechanism.release(X[1:], y[1:], ledger=ledger, dataset="d")
    changed = X[1:] * 0.5
    assert mechanism.release(changed, y[1:], ledger=ledger, dataset="d") == first
    assert mechanism.release(X, y, ledger=ledger, dataset="d").rows == len(X)
    assert len(ledger.history()) == 2


def test_what_is_asked_wrongly_is_refused():
    X, y = data()
    with pytest.raises(ParameterError, match="delta"):
        Moments(epsilon=1.0, delta=0.0)
    with pytest.raises(ParameterError, match="missing must be one of mean, zero"):
        Moments(**ASKED, missing="error")
    with pytest.raises(ParameterError, match="unit must be one of record, label"):
        Moments(**ASKED, unit="attribute")
    with pytest.raises(ParameterError, match="range"):
        Moments(epsilon=1.0, delta=1e-6).release(X, y, ledger=None)
    with pytest.raises(ParameterError, match="reads no private row"):
        plan_moments(X, 1.0, 1e-6, standardize="rows")


def test_moments_whose_noise_would_take_long_are_refused_by_an_estimate(tmp_path):
    ledger = Ledger(tmp_path / "l", {"d": {Unit.RECORD: Budget(9.0, 1e-5)}})
    wide = np.full((3, 1710), np.nan)
    estimate = "1,710 coordinates. Noise on their 1,466,326 moments would take about 16 seconds"
    with pytest.raises(ParameterError, match=estimate):
        Moments(**ASKED).release(wide, [0, 1, 0], ledger=ledger, dataset="d")
    with pytest.raises(ParameterError, match=estimate):
        plan_moments(wide, 1.0, 1e-6, ranges=(-1, 1))
    assert not ledger.history()
    rows = np.broadcast_to(np.float64(0.0), (300_000, 1710))  # whose sums take as long
    assert plan_moments(rows, 1.0, 1e-6, ranges=(-1, 1)).to_json()["coordinates"] == 1710


def test_a_plan_reads_no_cell_and_grows_better_with_epsilon():
    X, _ = data(1000, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = plan_moments(np.full_like(X, np.nan), [0.01, 0.1, 1.0], 1e-6, ranges=(-1, 1))
    assert [row["epsilon"] for row in plan.rows] == [0.01, 0.1, 1.0]
    noise = [row["products"] for row in plan.rows]
    assert noise == sorted(noise, reverse=True)
    assert plan.rows[0]["verdict"] == "too noisy"
    assert plan.rows[-1]["verdict"] == "fine"
    assert plan.to_json()["coordinates"] == 6
    assert "epsilon = 1 on" in plan.advice[0] or "epsilon = 0.1 on" in plan.advice[0]
    by_rows = plan_moments(X, 1.0, 1e-6, standardize=X[:100] * 2)
    assert len(by_rows.rows) == 5
    hopeless = plan_moments(X[:10], [0.01], 1e-6, ranges=(-1, 1))
    assert "Raise epsilon" in hopeless.advice[0]


def test_owners_of_unequal_sizes_are_weighted_by_their_noise():
    (X, y), (Z, u) = data(4000, seed=1), data(400, seed=2)
    one = Moments(**ASKED).release(X, y, ledger=None)
    two = Moments(**ASKED, pipeline=None).release(Z, u, ledger=None)
    both = merge([one, two])
    s = [r.details["second_noise"] / r.pipeline.bound**2 for r in (one, two)]
    weights = np.array([1 / (s[0] ** 2 + 1 / (4000 * 9)), 1 / (s[1] ** 2 + 1 / (400 * 9))])
    weights /= weights.sum()
    expected = weights[0] * one.arrays["mean"] + weights[1] * two.arrays["mean"]
    np.testing.assert_allclose(both.arrays["mean"], expected)
    noises = np.array([one.details["mean_noise"], two.details["mean_noise"]])
    assert both.details["mean_noise"] == pytest.approx(np.linalg.norm(weights * noises))
    assert both.details["mean_noise"] < np.linalg.norm(noises * [10 / 11, 1 / 11])
    assert both.noise.variance == pytest.approx(both.details["operator_noise"] ** 2)
    assert both.rows == 4400
    assert decode(encode(both)) == both


def test_a_pass_travels_to_workers_and_back():
    X, y = data(900)
    procedure, whole = exact_of(X, y)
    passes = []
    for rows in (slice(0, 300), slice(300, 900)):
        exact = procedure.accumulator(identified=True)
        batch = pa.record_batch(list(X[rows].T), ["x0", "x1", "x2"])
        exact.update(LabelledBatch(batch, y[rows]))
        passes.append(pickle.loads(pickle.dumps(exact)))
    first, second = passes
    first.merge(second)
    assert first.count == 900
    assert (first.result().second == whole.result().second).all()
    assert (first.result().counts == whole.result().counts).all()
    assert not procedure.stays


def test_a_pipeline_with_a_map_is_used_without_its_intercept():
    from suffice.owner.mean_operator import MeanOperator

    X, y = data(300)
    given = MeanOperator(1.0, map="rff:16").public_rows(X * 1.1).pipeline
    X[0, 0], X[1, 1] = np.nan, np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SharedRowsWarning)
        release = Moments(epsilon=1.0, delta=1e-6, pipeline=given).release(X, y, ledger=None)
    assert release.pipeline.intercept == 0
    assert release.arrays["mean"].shape == (len(given.outputs) - 1,)
    assert np.isfinite(release.arrays["second_moments"]).all()


def test_a_table_that_changes_while_it_is_read_is_refused():
    X, y = data(50)
    procedure, exact = exact_of(X, y)
    procedure.check(exact)
    with pytest.raises(TableError, match="changed while it was read"):
        replace(procedure, size=49).check(exact)
    with pytest.raises(TableError, match="no rows"):
        procedure.check(procedure.accumulator(identified=False))
