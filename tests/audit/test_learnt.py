"""Classifiers that tell outputs apart, beside the exact loss in every case."""

import numpy as np

from suffice.audit.auditor import EXACT, audit_case, learnt_scores
from suffice.audit.registry import case_named


def test_trees_see_shapes_that_no_line_parts():
    rng = np.random.default_rng(8)
    rings = [rng.normal(size=(2000, 2)) * r for r in (1.0, 3.0)]
    scores = learnt_scores(*rings, seed=0)
    fresh = rng.normal(size=(2000, 2)), 3 * rng.normal(size=(2000, 2))
    right = {
        name: np.mean(score(fresh[0]) > 0) + np.mean(score(fresh[1]) < 0)
        for name, score in scores.items()
    }
    assert right["trees"] > 1.5
    assert right["linear classifier"] < 1.3


def test_numbers_that_are_none_or_huge_stop_no_classifier():
    rng = np.random.default_rng(9)
    outputs = [rng.normal(size=(300, 3)) + side for side in (0, 3)]
    for side in outputs:
        side[:5, 0], side[5:9, 1], side[9:12, 2] = np.nan, np.inf, -1e308
    scores = learnt_scores(*outputs, seed=0)
    assert all(np.isfinite(score(outputs[0])).all() for score in scores.values())
    assert np.mean(scores["trees"](outputs[1]) < 0) > 0.9


def test_few_outcomes_teach_nothing_that_counts_do_not():
    codes = np.arange(300)[:, None] % 7
    assert learnt_scores(codes, codes, seed=0) == {}


def test_a_learnt_score_is_tried_beside_the_exact_one(monkeypatch):
    """Also where the exact loss is known: a wrong density must not hide what a classifier sees."""
    from dataclasses import replace

    broken_copy = case_named("mean-operator gaussian / half the noise")
    without_exact_loss = replace(
        broken_copy, score=lambda _: lambda outputs: np.zeros(len(outputs))
    )
    finding = audit_case(without_exact_loss, effort=0.3, alpha=1e-7)
    assert finding.violated
    assert finding.score != EXACT
    monkeypatch.setattr("suffice.audit.auditor.learnt_scores", lambda *_: {})
    monkeypatch.setattr("suffice.audit.auditor.support_scores", lambda *_: {})
    assert not audit_case(without_exact_loss, effort=0.3, alpha=1e-7).violated
