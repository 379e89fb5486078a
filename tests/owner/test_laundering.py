"""Scales of private rows cannot be laundered by reuse, merging, models or parties."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.errors import PrivacyError, UnprotectedError
from suffice.learner.operator import FactoredClassifier
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.mechanism import Payment, publish
from suffice.owner.parties.contribution import AuxiliaryRows, PartyContribution
from suffice.owner.parties.ensemble import PrivateEnsemble
from suffice.owner.policy import Policy
from suffice.owner.proportions import LabelProportions
from suffice.owner.rados import Rados
from suffice.owner.scaling import SharedRowsWarning, shared_rows
from suffice.privacy.guarantee import Budget, Protection
from suffice.protocol.grant import grant, propose
from suffice.protocol.messages import Granted, Refused
from suffice.releases.codec import load
from suffice.releases.merge import merge
from suffice.releases.release import Release, encode
from suffice.tables.pipeline import (
    DECLARED,
    PRIVATE_ROWS,
    UNKNOWN,
    Origin,
    Pipeline,
    Provenance,
    public_rows,
)
from suffice.tables.sources import open_table

FILES = Path(__file__).parents[1] / "fixtures"
RECORD = {"unit": "record", "epsilon": 1.0, "delta": 1e-6, "count": 8}
_rng = np.random.default_rng(0)
X, Y = _rng.normal(size=(60, 3)), _rng.integers(0, 2, 60)
OTHER = _rng.normal(size=(60, 3))
del _rng  # tests draw from the fixture
ROWS_HASH = MeanOperator(1.0, map=None).public_rows(X).pipeline.origin.rows[0]
STRENGTH = {
    Origin.PRIVATE_ROWS: 0,
    Origin.UNKNOWN: 0,
    Origin.PUBLIC_ROWS: 1,
    Origin.DECLARED: 2,
}


def from_rows(rows: np.ndarray = X, labels: np.ndarray = Y) -> Release:
    """Release rados whose scales were read off the private rows."""
    return Rados(**RECORD, standardize="rows").release(rows, labels, ledger=None, unprotected=True)


def per_record(pipeline: Pipeline, **options) -> Release:
    return Rados(**RECORD, pipeline=pipeline).release(X, Y, ledger=None, **options)


def assert_laundering_fails(pipeline: Pipeline, reason: str) -> None:
    """Every mechanism that takes a pipeline says what this one is, and leaves only knowingly."""
    bags = np.arange(60) // 30
    auxiliary = AuxiliaryRows.read(X, pipeline=pipeline)
    parts = [PartyContribution.of(f"p{i}", Y, auxiliary) for i in range(3)]
    releases = [
        lambda **how: Rados(**RECORD, pipeline=pipeline).release(X, Y, **how),
        lambda **how: MeanOperator(1.0, pipeline=pipeline).release(X, Y, **how),
        lambda **how: MeanOperator(1.0, mechanism="response", pipeline=pipeline).release(
            X, Y, **how
        ),
        lambda **how: LabelProportions(5.0, pipeline=pipeline).release(X, Y, bags, **how),
        lambda **how: PrivateEnsemble(1.0).aggregate(parts, auxiliary, enrolled=3, **how).release,
    ]
    for make_release in releases:
        with pytest.raises(UnprotectedError, match=reason):
            make_release(ledger=None)
        release = make_release(ledger=None, unprotected=True)
        assert {g.kind for g in release.guarantees} == {Protection.DATA_DEPENDENT}
        assert reason in str(release.guarantee)
        assert release.pipeline.origin == pipeline.origin


# ------------------------------------------------------------------ what each way states


def test_each_source_of_scales_is_stated():
    assert from_rows().pipeline.origin == PRIVATE_ROWS
    unprotected = Rados().release(X, Y, ledger=None, unprotected=True)
    assert unprotected.pipeline.origin == PRIVATE_ROWS
    declared = Rados(**RECORD, ranges=(-5, 5)).release(X, Y, ledger=None)
    assert declared.pipeline.origin == DECLARED
    unscaled = Rados(**RECORD, standardize="none", bound=2.0).release(X, Y, ledger=None)
    assert unscaled.pipeline.origin == DECLARED
    public = Rados(**RECORD, standardize=OTHER).release(X, Y, ledger=None)
    assert public.pipeline.origin == MeanOperator(1.0, map=None).public_rows(OTHER).pipeline.origin
    operator = MeanOperator(1.0, mechanism="sums", map=None).release(X, Y, ledger=None)
    assert operator.pipeline.origin == public_rows(operator.parts[0].rows.hash)
    mapped = MeanOperator(1.0, map="polynomial:2").release(X, Y, ledger=None)
    assert mapped.pipeline.origin == operator.pipeline.origin
    assert FactoredClassifier().fit(X, Y).pipeline_.origin == UNKNOWN


def test_declared_and_public_pipelines_are_used_again_as_they_were():
    for first in (
        Rados(**RECORD, ranges=(-5, 5)).release(X, Y, ledger=None),
        Rados(**RECORD, standardize=OTHER).release(X, Y, ledger=None),
    ):
        again = per_record(load(encode(first)).pipeline)
        assert again.guarantee.kind is Protection.GLOBAL
        assert again.pipeline.origin == first.pipeline.origin


# ------------------------------------------------------------------ laundering


def test_private_scales_cannot_be_laundered_by_a_pipeline():
    assert_laundering_fails(from_rows().pipeline, "comes from private rows")


def test_private_scales_cannot_be_laundered_by_a_file():
    assert_laundering_fails(load(encode(from_rows())).pipeline, "comes from private rows")


def test_private_scales_cannot_be_laundered_by_a_merge():
    """An owner whose file states more than another's does not speak for both."""
    private = from_rows()
    proud = replace(private.pipeline, origin=DECLARED)
    other = Rados(**RECORD, pipeline=proud).release(OTHER, Y, ledger=None)
    for pair in ([private, other], [other, private]):
        assert_laundering_fails(merge(pair).pipeline, "comes from private rows")


def test_private_scales_cannot_be_laundered_by_a_model():
    shared = from_rows().pipeline
    release = MeanOperator(1.0, mechanism="sums", pipeline=shared).release(
        X, Y, ledger=None, unprotected=True
    )
    proud = MeanOperator(1.0, mechanism="sums", pipeline=replace(shared, origin=DECLARED)).release(
        OTHER, Y, ledger=None
    )
    both = np.vstack([OTHER, X])
    model = FactoredClassifier(lam=1.0).fit_release([proud, release], both).to_release()
    assert_laundering_fails(load(encode(model)).pipeline, "comes from private rows")
    again = FactoredClassifier.from_release(load(encode(model))).to_release()
    assert again.pipeline.origin == PRIVATE_ROWS


def test_private_scales_cannot_be_laundered_through_parties():
    auxiliary = AuxiliaryRows.read(OTHER, pipeline=from_rows().pipeline)
    parts = [PartyContribution.of(f"p{i}", Y, auxiliary) for i in range(3)]
    release = PrivateEnsemble(1.0).aggregate(
        parts, auxiliary, enrolled=3, ledger=None, unprotected=True
    )
    assert_laundering_fails(release.release.pipeline, "comes from private rows")


@pytest.mark.parametrize("name", ["rados-from-rows", "mean-operator", "model"])
def test_scales_of_unknown_origin_stay_unknown_when_they_are_used_again(name):
    table = pyarrow.csv.read_csv(FILES / "clinic.csv")
    pipeline = replace(load(FILES / f"{name}.suffice").pipeline, origin=UNKNOWN)
    owner = Rados(**RECORD, pipeline=pipeline)
    with pytest.raises(UnprotectedError, match="nobody stated where the scaling"):
        owner.release(table, label="sick", ledger=None)
    release = owner.release(table, label="sick", ledger=None, unprotected=True)
    assert release.guarantee.kind is Protection.DATA_DEPENDENT
    assert release.pipeline.origin == UNKNOWN


@pytest.mark.parametrize("origin", [PRIVATE_ROWS, UNKNOWN])
def test_private_auxiliary_rows_need_scales_that_are_known_to_be_public(origin):
    pipeline = replace(AuxiliaryRows.read(OTHER).pipeline, origin=origin)
    ensemble = PrivateEnsemble(1.0, 1e-5, "soft", private_auxiliary=True, lam=1.0)
    auxiliary = AuxiliaryRows.read(X, pipeline=pipeline)
    parts = [PartyContribution.of(f"p{i}", Y, auxiliary) for i in range(3)]
    how = {"enrolled": 3, "ledger": None}
    stated = ensemble.guarantees(auxiliary, enrolled=3)
    assert [g.kind for g in stated] == [Protection.DATA_DEPENDENT] * 2
    with pytest.raises(UnprotectedError, match="scaling of its columns"):
        ensemble.aggregate(parts, auxiliary, **how)
    release = ensemble.aggregate(parts, auxiliary, **how, unprotected=True).release
    assert [g.kind for g in release.guarantees] == [Protection.DATA_DEPENDENT] * 2


def test_an_owner_who_once_called_auxiliary_rows_public_is_told():
    public = PrivateEnsemble(1.0)
    first = AuxiliaryRows.read(X)
    parts = [PartyContribution.of(f"p{i}", Y, first) for i in range(3)]
    release = public.aggregate(parts, first, enrolled=3, ledger=None).release
    auxiliary = AuxiliaryRows.read(X, pipeline=release.pipeline)
    ensemble = PrivateEnsemble(1.0, 1e-5, "soft", private_auxiliary=True, lam=1.0)
    with pytest.warns(SharedRowsWarning, match="fitted on these rows"):
        ensemble.aggregate(parts, auxiliary, enrolled=3, ledger=None)


def test_a_ledger_does_not_pay_for_private_scales(tmp_path):
    ledger = Ledger(tmp_path / "l", {"d": Budget(5.0)})
    operator = MeanOperator(1.0, pipeline=from_rows().pipeline)
    with pytest.raises(PrivacyError, match="no guarantee that can be charged to a budget"):
        operator.release(X, Y, ledger=ledger, dataset="d", unprotected=True)
    assert ledger.balances()[0].debits == 0


@pytest.mark.parametrize(
    ("origin", "reason"),
    [(PRIVATE_ROWS, "comes from private rows"), (UNKNOWN, "nobody stated where the scaling")],
)
def test_a_grant_is_refused_where_the_pipeline_is_not_public(tmp_path, origin, reason):
    """From public facts: before the ledger, the policy or any column is looked at."""
    policy = Policy(largest_epsilon=2.0, classes=(0, 1))
    ledger = Ledger(tmp_path / "l", {"d": Budget(5.0)})
    pipeline = MeanOperator(1.0, map=None).public_rows(X).pipeline
    proposal = propose(X, epsilon=1.0, pipeline=pipeline)
    options = {"policy": policy, "ledger": ledger, "dataset": "d"}
    answer, release = grant(proposal, X, Y, **options, pipeline=replace(pipeline, origin=origin))
    assert isinstance(answer, Refused)
    assert release is None
    assert reason in answer.reasons[0]
    assert ledger.balances()[0].debits == 0
    assert isinstance(grant(proposal, X, Y, **options, pipeline=pipeline)[0], Granted)


def test_the_door_stays_shut_for_a_mechanism_that_forgets_where_scales_come_from():
    release = MeanOperator(1.0, map=None).release(X, Y, ledger=None)
    relabelled = replace(release, pipeline=replace(release.pipeline, origin=PRIVATE_ROWS))
    with pytest.raises(PrivacyError, match="does not state it"):
        publish(
            lambda: relabelled,
            release.guarantees,
            Payment(None),
            parameters={},
        )


# ------------------------------------------------------------------ any chain


def _release_with(pipeline: Pipeline, rows: np.ndarray = X) -> Release:
    operator = MeanOperator(1.0, mechanism="laplace", pipeline=pipeline)
    release = operator.release(rows, Y, ledger=None, unprotected=True)
    assert (release.guarantee.kind is Protection.GLOBAL) == pipeline.origin.is_public
    return release


def _merged(pipeline: Pipeline, other: Provenance) -> Pipeline:
    partner = _release_with(replace(pipeline, origin=other), OTHER)
    return merge([partner, _release_with(pipeline)]).pipeline


def _modelled(pipeline: Pipeline, other: Provenance) -> Pipeline:
    releases = [_release_with(replace(pipeline, origin=other), OTHER), _release_with(pipeline)]
    model = FactoredClassifier(lam=1.0).fit_release(releases, np.vstack([OTHER, X]))
    return model.to_release().pipeline


STEPS = {
    "file": lambda p, _: load(encode(_release_with(p))).pipeline,
    "like": lambda p, _: _release_with(p).pipeline,
    "merge": _merged,
    "model": _modelled,
    "auxiliary": lambda p, _: AuxiliaryRows.read(OTHER, pipeline=p).pipeline,
    "rados": lambda p, _: per_record(replace(p), unprotected=True).pipeline,
}
ORIGINS = st.sampled_from([DECLARED, public_rows("sha256:" + "a" * 64), PRIVATE_ROWS, UNKNOWN])
START = MeanOperator(1.0, map=None).public_rows(X).pipeline


@settings(max_examples=40, deadline=None)
@given(ORIGINS, st.lists(st.tuples(st.sampled_from(sorted(STEPS)), ORIGINS), max_size=4))
def test_no_chain_of_uses_makes_an_origin_stronger(origin, chain):
    pipeline = replace(START, origin=origin)
    for name, other in chain:
        result = STEPS[name](pipeline, other)
        assert result == START
        assert STRENGTH[result.origin.source] <= STRENGTH[pipeline.origin.source]
        assert set(result.origin.rows) >= set(pipeline.origin.rows) or not result.origin.is_public
        pipeline = result


# ------------------------------------------------------------------ rows that are in both tables


@pytest.mark.parametrize("batch", [7, 60])
def test_shared_rows_are_counted_with_their_copies(batch, rng):
    words = np.array(["a", "b"])[(X[:, 0] > 0).astype(int)]
    public = pyarrow.table({"x": X[:, 1], "w": words}).slice(0, 20)
    private = pyarrow.table({"w": words, "x": X[:, 1]}).slice(10).take(rng.permutation(50))
    twice = pyarrow.concat_tables([public, public.slice(15)])
    parts = pyarrow.Table.from_batches(private.to_batches(max_chunksize=batch))
    names = ("x", "w")
    assert shared_rows(open_table(public), open_table(parts), names) == (10, 20)
    assert shared_rows(open_table(twice), open_table(parts), names) == (10, 25)
    assert shared_rows(open_table(parts), open_table(twice), names) == (10, 50)
    assert shared_rows(open_table(public), open_table(private.slice(0, 0)), names) == (0, 20)


def test_part_of_a_public_table_that_is_private_is_told_and_decides_nothing(capsys, rng):
    mixed = np.vstack([OTHER[:5], X[:3]])
    owner = Rados(**RECORD, standardize=mixed)
    with pytest.warns(SharedRowsWarning, match="3 of the 8 rows that were used for scaling"):
        release = owner.release(X, Y, ledger=None)
    assert owner.release(X, Y, ledger=None).rows == 60  # here every warning would be an error
    assert "3 of the 8 rows that were used for scaling" in capsys.readouterr().err
    apart = owner.release(rng.normal(size=(60, 3)), Y, ledger=None)
    assert not capsys.readouterr().err
    assert release.guarantee == apart.guarantee
    assert release.pipeline.to_json() == apart.pipeline.to_json()
    assert math.isclose(release.noise.variance, apart.noise.variance)


def test_a_pipeline_fitted_on_rows_that_are_private_now_is_told():
    with pytest.warns(SharedRowsWarning, match="fitted on these rows"):
        release = per_record(MeanOperator(1.0, map=None).public_rows(X[::-1].copy()).pipeline)
    assert release.guarantee.kind is Protection.GLOBAL
    assert release.pipeline.origin == public_rows(ROWS_HASH)
