"""A whole release as one output: nothing that others see of it is left out."""

from dataclasses import replace

import numpy as np

from suffice.audit.auditor import audit_case
from suffice.audit.public_part import outputs_of, repeated_releases
from suffice.audit.registry import case_named
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.rados import Rados

ROWS = np.array([[1.5, 0.0], [-1.5, 0.0], [1.0, 1.0], [0.2, -0.3]])
LABELS = np.array([0, 1, 1, 0])


def releases(mechanism, times, **options):
    return repeated_releases(mechanism, mechanism.source(ROWS, LABELS), times, **options)


def test_releases_of_one_source_differ_in_noise_alone():
    outputs = outputs_of(releases(MeanOperator(1.0, mechanism="laplace", map=None), 5))
    same = (outputs == outputs[0]).all(axis=0)
    assert (~same).sum() == 3  # two coordinates and an intercept
    assert not same[-3:].any()


def test_every_public_byte_is_in_an_output():
    (release,) = releases(MeanOperator(1.0, mechanism="laplace", map=None), 1)
    step = float(np.nextafter(release.details["step"], 1.0))
    mean = -release.pipeline.mean
    others = [
        replace(release, details={**release.details, "step": step}),
        replace(release, library="suffice 0"),
        replace(release, pipeline=replace(release.pipeline, mean=mean)),
        replace(release, pipeline=replace(release.pipeline, bound=9.0)),
    ]
    outputs = outputs_of([release, *others])
    assert len(set(outputs[:, 0])) == len(outputs)  # digests
    assert (outputs[4, 1:] != outputs[0, 1:]).any()  # a number shows as a number, too


def test_rados_are_independent_only_if_records_are_read_again():
    """Signs are drawn while rows are read: one pass gives one set of them to all releases."""
    rados = Rados(epsilon=1.0, unit="label", count=2, ranges=(-2.0, 2.0), bound=1.0)
    differences = [
        np.unique(
            [np.abs(np.diff(r.arrays["rados"], axis=0)).sum().round(6) for r in drawn_releases]
        )
        for drawn_releases in (releases(rados, 40), releases(rados, 40, read_again=True))
    ]
    assert len(differences[0]) == 1  # noise is shared, so that signs alone decide it
    assert len(differences[1]) > 1


def test_a_detail_that_shows_labels_is_found_and_only_through_the_public_part(monkeypatch):
    broken_copy = case_named("mean-operator laplace, whole releases / parity in the step")
    assert audit_case(broken_copy, alpha=1e-7).violated

    def numbers_only(drawn_releases):
        return np.array([release.arrays["mean_operator"] for release in drawn_releases])

    monkeypatch.setattr("suffice.audit.cases_whole.outputs_of", numbers_only)
    assert not audit_case(broken_copy, alpha=1e-7).violated
