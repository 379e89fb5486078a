"""Every mechanism is audited and has a broken copy; the audit tells them apart."""

from dataclasses import replace
from pathlib import Path

import pytest

from suffice.audit.auditor import Finding, audit, audit_case
from suffice.audit.registry import all_cases, case_named, selected
from suffice.audit.scores import event_bound
from suffice.errors import ParameterError
from suffice.owner.mean_operator import MECHANISMS
from suffice.owner.parties.ensemble import METHODS
from suffice.owner.proportions import MECHANISMS as OF_COUNTS
from suffice.releases.kinds import KINDS

ALPHA = 1e-7  # of each bound below: the chance that a sound mechanism is flagged here


def test_every_kind_of_release_is_audited_and_has_a_broken_copy():
    for kind in set(KINDS) - {"tree-model", "regression-model"}:  # learners make these, no owner
        cases = [case_named(name) for name in selected((kind,))]
        assert {case.broken for case in cases} == {True, False}, kind


def test_every_case_has_a_broken_copy_which_says_what_is_wrong():
    cases = all_cases()
    for name, case in cases.items():
        assert name == case.name
        assert bool(case.what) == case.broken
        if not case.broken:
            assert any(other.startswith(f"{name} / ") for other in cases), name


def test_every_mechanism_that_an_owner_can_name_is_there():
    names = " ".join(all_cases())
    for mechanism in MECHANISMS:
        wanted = "label-responses" if mechanism == "response" else f"mean-operator {mechanism}"
        assert wanted in names
    for mechanism in OF_COUNTS:
        assert f"proportions {mechanism}" in names
    for method in METHODS:
        assert f"parties, {method}, gaussian" in names
    for unit in ("a label", "a record", "an attribute", "a column alone"):
        assert f"rados, {unit}" in names


@pytest.mark.parametrize(
    ("name", "effort"),
    [
        ("mean-operator laplace", 0.2),
        ("mean-operator gaussian", 0.4),
        ("label-responses, 3 classes", 0.2),
        ("responses, a record", 0.2),
        ("participant, a choice", 0.1),
        ("proportions laplace, 2 classes", 0.1),
        ("proportions laplace, overlapping bags", 0.3),
        ("parties, operator, gaussian", 0.4),
        ("parties, average, gaussian", 0.4),
        ("parties, class-sums, gaussian", 0.4),
        ("rados, a column alone", 2.0),
    ],
)
def test_sound_mechanisms_are_not_flagged_and_the_bound_comes_near(name, effort):
    finding = audit_case(case_named(name), seed=1, effort=effort, alpha=ALPHA)
    assert not finding.violated
    assert finding.tightness > 0.6


@pytest.mark.parametrize(
    ("name", "effort"),
    [
        ("mean-operator laplace / half the noise", 0.6),
        ("mean-operator laplace / seed reused", 0.1),
        ("mean-operator laplace / noise in floating point", 0.2),
        ("mean-operator gaussian / half the noise", 0.2),
        ("label-responses, 2 classes / too few flips", 0.1),
        ("label-responses, 2 classes / answered twice", 0.2),
        ("label-responses, 3 classes / ratios within columns", 1.0),
        ("responses, an attribute, laplace / not held to the range", 0.5),
        ("participant, a choice / memory lost", 0.3),
        ("proportions laplace, 2 classes / noise in floating point", 0.2),
        ("proportions scaled-dirichlet / refusal", 0.3),
        ("sets by response / sets by label", 0.1),
        ("parties, majority-model, gaussian / averaged over parties", 0.5),
        ("parties, class-sums, gaussian / clip forgotten", 0.2),
        ("rados, a column alone, truncated / Theorem 6", 1.0),
    ],
)
def test_broken_copies_are_caught(name, effort):
    finding = audit_case(case_named(name), seed=1, effort=effort, alpha=ALPHA)
    assert finding.broken
    assert finding.violated


def test_a_verdict_is_never_a_proof():
    (sound,) = audit(["label-responses, 2 classes"], effort=0.05)
    assert sound.verdict.startswith("no violation found; bound at ")
    assert sound.expected
    caught = replace(sound, lower_bound=2 * sound.claimed)
    assert caught.verdict == "violated"
    assert not caught.expected
    assert replace(caught, broken=True).expected
    assert not replace(sound, broken=True).expected


def test_the_failure_probability_is_shared_by_all_cases():
    names = ["label-responses, 2 classes", "label-responses, 3 classes"]
    findings: list[Finding] = audit(names, effort=0.01, failure=1e-3)
    assert [finding.alpha for finding in findings] == [5e-4, 5e-4]
    assert [finding.name for finding in findings] == names


@pytest.mark.parametrize("name", ["mean-operator laplace", "parties, vote-table, gaussian"])
def test_what_may_fail_is_shared_by_directions_and_readings(name, monkeypatch):
    """Every bound that is looked at has its share of alpha: four of a Gaussian claim, or two."""
    reports = []

    def spy(event, scored, measure, alpha):
        reports.append(alpha)
        return event_bound(event, scored, measure, alpha)

    monkeypatch.setattr("suffice.audit.auditor.event_bound", spy)
    audit_case(case_named(name), effort=0.02, alpha=1e-4)
    assert len(reports) == (2 if case_named(name).mu is None else 4)
    assert sum(reports) == pytest.approx(1e-4)


def test_the_promise_counts_the_mechanisms():
    sound = [case for case in all_cases().values() if not case.broken]
    readme = (Path(__file__).parents[2] / "docs" / "promise.md").read_text()
    assert f"true epsilon of {len(sound)} mechanisms" in " ".join(readme.split())


def test_a_kind_that_does_not_exist_is_named():
    with pytest.raises(ParameterError, match="nothing-like-this"):
        list(selected(("nothing-like-this",)))
