"""Synthetic rows follow the release that they are drawn from, and say that they are synthetic."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import spearmanr

import suffice
from suffice.errors import ParameterError
from suffice.learner.sampling import public_values
from suffice.owner.moments import Moments


def people(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = rng.multivariate_normal(np.zeros(3), [[1, 0.8, 0], [0.8, 1, 0.3], [0, 0.3, 1]], rows)
    size, age = np.exp(x[:, 0]), (20 + 10 * x[:, 1]).round()
    ward = np.where(x[:, 2] > 0.5, "north", "south")
    ill = (x[:, 1] + rng.normal(size=rows) > 0).astype(int)
    hours = 40 + 5 * x[:, 0] + rng.normal(size=rows)
    return pa.table({"size": size, "age": age, "ward": ward, "ill": ill, "hours": hours})


def released(*, target: bool = False, **options):
    asked = {"standardize": people(1000, 1).drop_columns(["ill", "hours"]), "map": "ranks"}
    asked |= {"ranges": {"hours": (0, 80)}} if target else {}
    private = people(20_000, 2).drop_columns(["ill"] if target else ["hours"])
    named = {"target": "hours"} if target else {"label": "ill"}
    return Moments(3.0, 1e-6, **{**asked, **options}).release(private, ledger=None, **named)


def test_sampled_rows_follow_the_release():
    found = suffice.sample(released(), 20_000).to_pandas()
    true = people(20_000, 3).to_pandas()
    assert list(found.columns) == ["size", "age", "ward", "label"]
    for name in ("size", "age"):
        apart = found[name].quantile([0.1, 0.5, 0.9]) / true[name].quantile([0.1, 0.5, 0.9])
        assert (abs(apart - 1) < 0.15).all()
    assert spearmanr(found["size"], found["age"])[0] == pytest.approx(
        spearmanr(true["size"], true["age"])[0], abs=0.1
    )
    assert (found["ward"] == "north").mean() == pytest.approx(
        (true["ward"] == "north").mean(), abs=0.05
    )
    assert found["label"].mean() == pytest.approx(true["ill"].mean(), abs=0.05)
    gap = found.groupby("label")["age"].mean().diff().iloc[-1]
    assert gap == pytest.approx(true.groupby("ill")["age"].mean().diff().iloc[-1], rel=0.3)


def test_a_target_is_drawn_with_what_the_rows_do_not_explain():
    found, true = suffice.sample(released(target=True), 20_000), people(20_000, 3)
    drawn, exact = found["hours"].to_numpy(), true["hours"].to_numpy()
    assert drawn.std() == pytest.approx(exact.std(), rel=0.1)
    assert drawn.mean() == pytest.approx(exact.mean(), abs=0.5)


def test_the_same_seed_gives_the_same_rows_and_a_file_says_what_they_are(tmp_path):
    release = released()
    first, again, other = (suffice.sample(release, 50, seed) for seed in (0, 0, 1))
    assert first.equals(again)
    assert not first.equals(other)
    pq.write_table(first, tmp_path / "rows.parquet")
    stored = pq.read_schema(tmp_path / "rows.parquet").metadata[b"suffice"]
    about = json.loads(stored)
    assert about["synthetic"] is True
    assert about["guarantees"] == [str(release.guarantee)]


def test_values_that_occur_often_are_met_exactly():
    values = np.array([0.1, 0.1, 0.30000001, 7.0, 7.0, 1 / 3])
    centre, spread = values.mean(), values.std()
    found = public_values((values - centre) / spread, centre, spread)
    assert found[:5].tolist() == values[:5].tolist()
    assert ((found - centre) / spread == (values - centre) / spread).all()


def test_other_releases_are_refused():
    declared = {"standardize": None, "map": None, "ranges": (-1000, 1000)}
    plain = released(**declared, categories={"ward": ["north", "south"]})
    with pytest.raises(ParameterError, match="--map ranks"):
        suffice.sample(plain, 10)
    with pytest.raises(ParameterError, match="positive"):
        suffice.sample(released(), 0)
