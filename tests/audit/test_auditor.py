"""The bound of a whole audit holds as often as it says, whatever chose its event."""

import math

import numpy as np
import pytest

from suffice.audit.auditor import audit_case
from suffice.audit.case import Case
from suffice.audit.search import Pair


def exact_cases(rng):
    """Yield mechanisms whose epsilon is known exactly, each claimed as it is."""
    keep = 0.7

    def answers(data, n):
        return np.where(rng.random((n, 1)) < keep, data[0], 1 - data[0])

    def with_details(data, n):
        """Return the answer, in two places, beside numbers that say nothing."""
        same = np.where(rng.random((n, 2)) < 0.5, 0.0, rng.normal(size=(n, 2)))
        empty = np.where(rng.random((n, 1)) < 0.1, np.nan, -0.0)
        answered = answers(data, n)
        return np.hstack([answered, answered * 0.5, same, empty])

    for sample in (answers, with_details):
        yield Case(
            sample.__name__, "test", claimed=math.log(keep / (1 - keep)), delta=0.0,
            pairs=lambda _: [Pair((0,), (1,)), Pair((1,), (0,)), Pair((0,), (1,), "again")],
            sample=sample, score=None, samples=1000,
        )  # fmt: skip


@pytest.mark.parametrize("which", [0, 1])
def test_a_sound_mechanism_is_flagged_no_more_often_than_alpha_says(which):
    """Of 60 audits at alpha = .3 more than 28 would be flagged for one seed in 500."""
    rng = np.random.default_rng(which)
    case = list(exact_cases(rng))[which]
    flagged = sum(audit_case(case, seed=seed, alpha=0.3).violated for seed in range(60))
    assert flagged <= 28


def test_the_bound_is_near_the_truth():
    rng = np.random.default_rng(3)
    for case in exact_cases(rng):
        finding = audit_case(case, alpha=1e-3)
        assert 0.5 * case.claimed < finding.lower_bound


def test_counts_are_of_fresh_outputs():
    """Outputs that chose an event are never counted: the last draw is used for nothing else."""
    sizes = []

    def sample(_, n):
        sizes.append(n)
        return np.full((n, 1), len(sizes))  # every draw has a value of its own

    case = Case(
        "test", "test", claimed=1.0, delta=0.0, pairs=lambda _: [Pair((0,), (1,))],
        sample=sample, score=None, samples=1000,
    )  # fmt: skip
    finding = audit_case(case, alpha=1e-6)
    assert sizes == [200, 200, 800, 800]
    assert not finding.violated  # what told the chosen outputs apart says nothing about fresh ones


def test_outputs_of_different_length_are_told_apart():
    rng = np.random.default_rng(5)
    case = Case(
        "test", "test", claimed=1.0, delta=0.0, pairs=lambda _: [Pair((0,), (1,))],
        sample=lambda data, n: rng.normal(size=(n, 2 + data[0])), score=None, samples=1000,
    )  # fmt: skip
    assert audit_case(case, alpha=1e-6).violated
