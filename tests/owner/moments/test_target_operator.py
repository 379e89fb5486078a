"""A private number beside public rows: what leaves, how far another number moves it, who learns."""

import dataclasses
import math
from functools import partial

import numpy as np
import pandas as pd
import pytest

import suffice as sf
from suffice.errors import CorruptFileError, ParameterError
from suffice.owner.moments import Moments, calibrated_moments
from suffice.privacy.guarantee import Unit
from suffice.privacy.moments import BlockWeights
from suffice.releases.codec import decode
from suffice.releases.release import encode

NAMES = ["a", "b", "c"]


@pytest.fixture
def frame(rng):
    rows = rng.uniform(-1, 1, (2000, 3))
    hours = 2 * rows[:, 0] - rows[:, 1] + rng.normal(size=2000) / 2
    return pd.DataFrame(rows, columns=NAMES).assign(hours=hours)


def released(frame, epsilon=1.0, unit="label", **options):
    owner = Moments(
        epsilon, 1e-6, unit=unit, ranges={**dict.fromkeys(NAMES, (-1, 1)), "hours": (-4, 4)}
    )
    return owner.release(frame, target="hours", ledger=None, **options)


@pytest.mark.parametrize("sizes", [(1.0, 0.3), (0.2, 1.5), (2.0, 0.1)])
def test_no_two_targets_are_farther_apart_than_is_paid_for(sizes, rng):
    weights = BlockWeights(0, 1.0, *sizes, public_rows=True)

    def blocks(row, target):
        return np.append(
            weights.operator * target * row,
            [weights.proportions * target, weights.square * target**2],
        )

    farthest = 0.0
    for _ in range(5000):
        row = rng.normal(size=3)
        row /= np.linalg.norm(row) * rng.choice([1.0, 1.5])
        pair = rng.uniform(-1, 1, 2)
        pair[rng.integers(2)] = rng.choice([-1.0, 1.0])
        farthest = max(farthest, np.linalg.norm(blocks(row, pair[0]) - blocks(row, pair[1])))
    assert farthest <= weights.sensitivity
    ends = np.linalg.norm(blocks(np.array([1.0, 0, 0]), -1) - blocks(np.array([1.0, 0, 0]), 1))
    assert ends == pytest.approx(weights.sensitivity)
    b = np.linspace(0, 1, 100_001)
    free = weights.square**2 / (weights.operator**2 + weights.proportions**2)
    assert 0.999 < free * 4 * np.max(b**2 * (1 - b) / (1 + b)) <= 1


def test_moments_of_rows_leave_as_they_are_and_the_target_with_noise(frame):
    release = released(frame)
    rows = frame[NAMES].to_numpy()
    bound, pipeline = release.pipeline.bound, release.pipeline
    scaled = (rows - pipeline.mean) / pipeline.scale
    assert np.linalg.norm(scaled, axis=1).max() <= bound
    second = release.arrays["second_moments"]
    assert second == pytest.approx(scaled.T @ scaled / len(rows), abs=1e-3)
    noise = calibrated_moments(3, 0, 2000, 1.0, 1e-6, public_rows=True)
    assert {*noise.blocks} == {"operator", "counts", "squares"}
    assert noise.event.epsilon(1e-6) <= 1.0
    stated = release.details["operator_noise"]
    assert stated == pytest.approx(noise.blocks["operator"].deviation / 2000 * bound)
    exact = scaled.T @ np.clip(frame["hours"] / 4, -1, 1) / len(rows)
    apart = np.abs(release.arrays["operator"] - exact)
    assert 0 < apart.max() < 6 * stated
    assert "second_noise" not in release.details


def test_the_file_protects_each_label_and_loads(frame):
    release = released(frame)
    assert (release.kind, release.rows) == ("target-operator", 2000)
    assert release.guarantee.unit is Unit.LABEL
    assert "the feature columns" in str(release.guarantee)
    assert decode(encode(release)).guarantee == release.guarantee
    merged = sf.merge([release, released(frame + 0.001)])
    assert decode(encode(merged)).rows == 4000


def test_a_file_cannot_claim_more_than_its_noise_keeps(frame):
    release = released(frame)
    (part,) = release.parts
    event = release.guarantee.event
    louder = dataclasses.replace(event, multiplier=1.1 * event.multiplier)
    for stated in (
        dataclasses.replace(release.guarantee, event=louder),
        dataclasses.replace(release.guarantee, unit=Unit.RECORD),
    ):
        parts = (dataclasses.replace(part, guarantees=(stated,)),)
        with pytest.raises(CorruptFileError):
            decode(encode(dataclasses.replace(release, parts=parts)))
    for name in ("operator_noise", "target_noise", "target_square_noise"):
        details = {**release.details, name: release.details[name] / 2}
        with pytest.raises(CorruptFileError):
            decode(encode(dataclasses.replace(release, details=details)))


def test_a_learner_gets_a_regression_from_less_noise_than_of_records(frame):
    ours, records = released(frame, 0.3), released(frame, 0.3, "record")
    assert ours.details["operator_noise"] < 0.95 * records.details["operator_noise"]
    model = sf.MomentRegressor().fit_release(ours)
    assert model.score(frame[NAMES], frame["hours"]) > 0.8
    table = model.coefficient_intervals()
    wide = np.column_stack([frame[NAMES], np.ones(2000)])
    truth = np.linalg.lstsq(wide, frame["hours"].clip(-4, 4), rcond=None)[0]
    assert ((table.low <= truth) & (truth <= table.high)).all()


def test_scales_may_be_of_the_public_rows_themselves(frame, recwarn):
    owner = Moments(1.0, 1e-6, unit="label", standardize=frame[NAMES], ranges={"hours": (-4, 4)})
    release = owner.release(frame, target="hours", ledger=None)
    assert release.kind == "target-operator"
    assert not [w for w in recwarn if "also in the" in str(w.message)]


def test_classes_and_people_are_refused_before_anything_is_read(frame):
    with pytest.raises(ParameterError, match="mean-operator"):
        Moments(1.0, 1e-6, unit="label", ranges=(-1, 1)).release(
            frame[NAMES], frame["hours"] > 0, ledger=None
        )
    with pytest.raises(ParameterError, match="one row of each"):
        released(frame.assign(id=1), person="id")


def test_a_budget_per_label_pays(frame, tmp_path):
    budgets = {"clinic": {"label": sf.Budget(3.0, 1e-5)}}
    ledger = sf.Ledger(tmp_path / "l", budgets)
    ranges = {**dict.fromkeys(NAMES, (-1, 1)), "hours": (-4, 4)}
    owner = Moments(1.0, 1e-6, unit="label", ranges=ranges)
    first = owner.release(frame, target="hours", ledger=ledger, dataset="clinic")
    assert ledger.balances()[0].spent > 0.5
    again = owner.release(frame, target="hours", ledger=ledger, dataset="clinic")
    assert encode(first) == encode(again)


@pytest.mark.parametrize("cell", ["x", None, b"7", 10**400, {}, math.nan])
def test_rows_that_scale_themselves_show_nothing_of_a_target(cell, tmp_path):
    """The public table may be the private one: its target is not looked at, nor a dropped label."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.uniform(-1, 1, (60, 2)).round(3), columns=["a", "b"])
    plain = frame.assign(y=1.5, ill=0)
    odd_cells = {name: [*plain[name][:-1], cell] for name in ("y", "ill")}
    odd = plain.assign(**{name: pd.Series(c, dtype=object) for name, c in odd_cells.items()})
    plain.to_csv(tmp_path / "plain.csv", index=False)
    text = (tmp_path / "plain.csv").read_text().splitlines()
    text[-1] = text[-1].rsplit(",", 2)[0] + ',"1,5","1;5"'
    (tmp_path / "odd.csv").write_text("\n".join([*text, ""]))
    mechanism = partial(Moments, 1.0, 1e-6, unit="label", ranges={"y": (0, 2)})
    seen = [
        mechanism(standardize=table).release(table, target="y", drop=("ill",), ledger=None).pipeline
        for table in (plain, odd, tmp_path / "plain.csv", tmp_path / "odd.csv")
    ]
    assert seen[0].digest() == seen[1].digest()
    assert seen[2].digest() == seen[3].digest()
