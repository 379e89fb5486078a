"""Moments of records that have a number in place of a label."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.engines.sums import LONGEST_CODE
from suffice.errors import CorruptFileError, ParameterError, TableError
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.mechanism import Payment, make_release
from suffice.owner.moments import Moments, calibrated_moments
from suffice.owner.rados import Rados
from suffice.owner.responses import RandomizedResponse
from suffice.owner.source import TargetSource
from suffice.privacy.guarantee import Budget, Unit
from suffice.releases.codec import decode
from suffice.releases.release import encode

RANGES = {"x0": (-1, 1), "x1": (-1, 1), "hours": (0, 100)}
ASKED = {"epsilon": 1.0, "delta": 1e-6, "ranges": RANGES}


def table(rows: int = 500, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (2, rows))
    hours = np.clip(40 + 20 * X[0] + rng.normal(size=rows) * 5, 0, 100)
    return pa.table({"x0": X[0], "x1": X[1], "hours": hours})


def exact_of(data, **asked):
    """Return the exact sums of a table."""
    mechanism, source = Moments(**{**ASKED, **asked}), TargetSource(data, target="hours").prepared()
    public = mechanism.public(source)
    procedure = mechanism.choose(public)
    return source.fold(public.parts(), lambda: procedure.accumulator(identified=False)).result()


def test_a_release_holds_the_moments_of_the_target_and_states_their_noise():
    data = table(200_000)
    release = Moments(**{**ASKED, "epsilon": 8.0}).release(data, target="hours", ledger=None)
    X = np.column_stack([data["x0"], data["x1"]])
    scaled = (data["hours"].to_numpy() - 50) / 50
    assert release.kind == "target-moments"
    assert release.classes == ()
    np.testing.assert_allclose(release.arrays["operator"], scaled @ X / len(X), atol=2e-3)
    expected = [scaled.mean(), np.mean(scaled**2)]
    np.testing.assert_allclose(release.arrays["target_moments"], expected, atol=2e-3)
    noise = calibrated_moments(2, 0, 200_000, 8.0, 1e-6)
    stated = release.details["target_square_noise"]
    assert stated == pytest.approx(noise.blocks["squares"].deviation / 200_000)
    assert release.guarantee.unit is Unit.RECORD
    assert decode(encode(release)) == release


@pytest.mark.parametrize("cell", ["no number", "7", None, b"7", 10**400, math.inf, object()])
def test_no_cell_beside_an_array_of_targets_is_an_error(cell):
    """A column of objects gets its type by what is declared, never by its cells."""
    frame = table().to_pandas().astype({"x0": object})
    frame.loc[3, "x0"] = cell
    targets = frame.pop("hours")
    release = Moments(**ASKED).release(frame, targets, target="hours", ledger=None)
    assert release.parts[0].rows.count == len(frame)
    left_out = frame.assign(other="text", hour=1)
    release = Moments(**ASKED).release(
        left_out, targets, target="hours", drop=["other", "hour"], ledger=None
    )
    assert [column.name for column in release.pipeline.columns] == ["x0", "x1"]


def test_an_array_of_targets_is_released_as_a_column_of_them():
    data = table()
    rows = np.column_stack([data["x0"], data["x1"]])
    as_array = TargetSource(rows, data["hours"].to_numpy(), target="hours").prepared()
    public = Moments(**ASKED).public(as_array)
    procedure = Moments(**ASKED).choose(public)
    found = as_array.fold(public.parts(), lambda: procedure.accumulator(identified=False)).result()
    expected = exact_of(data)
    for name in ("second", "mean", "operator", "counts", "squares"):
        assert (getattr(found, name) == getattr(expected, name)).all()
    with pytest.raises(TableError, match="one target for each row"):
        TargetSource(rows, [1.0], target="hours").prepared()
    with pytest.raises(TableError, match="one of its columns"):
        TargetSource("records.csv", [1.0], target="hours").prepared()


@pytest.mark.parametrize("cell", [1e300, -1e300, math.inf, math.nan, None, 100.0, 0.0])
def test_a_target_is_held_to_its_range(cell):
    data = table(4)
    hours = [cell, 50.0, 50.0, 50.0]
    totals = exact_of(data.set_column(2, "hours", pa.array(hours, pa.float64())))
    assert abs(totals.counts[0]) <= LONGEST_CODE
    assert 0 <= totals.squares[0] <= LONGEST_CODE**2
    finite = cell is not None and math.isfinite(cell)
    assert (totals.squares[0] > 0) == finite


def test_a_target_needs_a_range_and_stands_alone():
    data = table()
    with pytest.raises(ParameterError, match="no declared range"):
        Moments(1.0, 1e-6, ranges={"x0": (-1, 1), "x1": (-1, 1)}).release(
            data, target="hours", ledger=None
        )
    with pytest.raises(ParameterError, match="too narrow"):
        Moments(1.0, 1e-6, ranges={**RANGES, "hours": (0, 5e-324)}).release(
            data, target="hours", ledger=None
        )
    with pytest.raises(ParameterError, match="not both"):
        Moments(**ASKED).release(data, target="hours", label="x0", ledger=None)
    with pytest.raises(ParameterError, match="cannot be left out"):
        Moments(**ASKED).release(data, target="hours", drop=["hours"], ledger=None)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.decimal128(12, 6)])
def test_a_continuous_label_is_refused_by_its_type(kind, tmp_path):
    """Its cells are not read, and nothing is charged: they could all be 0 and 1."""
    ones = pa.array(np.ones(500)).cast(kind)
    pq.write_table(table().set_column(2, "radius", ones), tmp_path / "records.parquet")
    ledger = Ledger(tmp_path / "clinic.ledger", {"records": {Unit.RECORD: Budget(2.0, 1e-5)}})
    charged = {"ledger": ledger, "dataset": "records"}
    declared = {"epsilon": 1.0, "delta": 1e-6, "ranges": (-1, 1)}
    for mechanism in (Moments(**declared), Rados(unit="record", **declared)):
        with pytest.raises(TableError, match="--target radius"):
            mechanism.release(tmp_path / "records.parquet", label="radius", **charged)
    assert not ledger.history()


def test_a_missing_label_of_a_frame_changes_its_type_and_nothing_else(tmp_path):
    """A frame of pandas has no whole numbers once one of them is missing."""
    whole = pd.DataFrame({"a": [0.1, 0.2, 0.3, 0.4] * 50, "sick": [0, 1, 1, 0] * 50})
    lacking = whole.assign(sick=whole["sick"].where(whole.index != 3))
    assert whole["sick"].dtype != lacking["sick"].dtype
    declared = {"epsilon": 1.0, "delta": 1e-6, "ranges": (0, 1)}
    response = RandomizedResponse(label_flip=0.25, ranges=(0, 1), feature_noise=0.5)
    for mechanism in (Moments(**declared), Rados(unit="record", **declared), response):
        releases = [mechanism.release(f, label="sick", ledger=None) for f in (whole, lacking)]
        assert releases[0].details == releases[1].details
    for number, frame in enumerate((whole, lacking)):
        ledger = Ledger(tmp_path / f"{number}.ledger", {"sick": Budget(2.0)})
        asked = {"ledger": ledger, "dataset": "sick", "label": "sick"}
        MeanOperator(1.0).release_whatever_labels(frame, **asked)
        assert len(ledger.history()) == 1


def test_a_label_that_is_called_a_target_is_refused_as_classes_would_not_be_checked(tmp_path):
    """The ledger declares the classes: whoever asks cannot find out which labels occur."""
    classes = {"d": {"sick": (0, 1, 2)}}
    ledger = Ledger(tmp_path / "clinic.ledger", {"d": Budget(2.0)}, classes)
    rows = pa.table({"x": [0.1, 0.2, 0.3, 0.4] * 50, "sick": [0, 1, 1, 0] * 50})
    response = RandomizedResponse(label_flip=0.25, ranges=(0, 1), feature_noise=0.5)
    for mechanism in (MeanOperator(1.0, map=None), Rados(unit="label", epsilon=1.0), response):
        with pytest.raises(ParameterError, match="no number to predict"):
            mechanism.release(rows, target="sick", ledger=ledger, dataset="d")
    assert not ledger.history()


def test_another_target_or_range_is_another_request(tmp_path):
    ledger = Ledger(tmp_path / "clinic.ledger", {"records": {Unit.RECORD: Budget(9.0, 1e-3)}})
    charged = {"ledger": ledger, "dataset": "records"}
    first = Moments(**ASKED).release(table(), target="hours", **charged)
    same = Moments(**ASKED).release(table(), target="hours", **charged)
    wider = {**RANGES, "hours": (0, 120)}
    other = Moments(**{**ASKED, "ranges": wider}).release(table(), target="hours", **charged)
    assert encode(first) == encode(same) != encode(other)
    assert len(ledger.history()) == 2


def test_a_file_that_states_too_little_noise_on_squares_is_refused():
    release = Moments(**ASKED).release(table(), target="hours", ledger=None)
    details = {**release.details}
    details["target_square_noise"] /= 2
    data = encode(type(release)(**{**vars(release), "details": details}))
    with pytest.raises(CorruptFileError, match="more protection"):
        decode(data)


def test_the_plan_of_a_target_reads_no_cell():
    source = TargetSource(table(), target="hours").prepared()
    plan = Moments(**ASKED).plan(source, (0.5, 2.0))
    assert "target mean" in plan.columns
    assert [row["epsilon"] for row in plan.rows] == [0.5, 2.0]


def test_only_the_owner_hears_how_many_targets_are_no_numbers():
    data, told = table(), []
    hours = [*map(str, data["hours"].to_pylist())]
    hours[:3] = ["many", "", "inf"]
    data = data.set_column(2, "hours", pa.array(hours))
    source = TargetSource(data, target="hours", report=told.append)
    release = make_release(Moments(**ASKED), source, Payment(None))
    (line,) = told[0].lines
    assert line.startswith(
        "column 'hours': 3 of 500 cells are no finite numbers; they count as the"
    )
    assert release.guarantee.public[1] == "the range of the target"


@pytest.mark.parametrize("limits", [(-1e308, 1e308), (0, 1e200)])
def test_a_range_of_the_target_has_a_finite_square(limits):
    with pytest.raises(ParameterError, match="too narrow or too wide"):
        Moments(**{**ASKED, "ranges": {**RANGES, "hours": limits}}).release(
            table(), target="hours", ledger=None
        )
