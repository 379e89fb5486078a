"""Histories tell nothing: releases, grants and restarts over data that change or do not."""

import pytest
import typer
from history_mutants import HISTORY_MUTANTS, named_by_data

from suffice.audit.histories import check_histories
from suffice.cli.main import app
from suffice.cli.output import recorded

# Which mechanisms show a fault, and in how many pairs of these it has to be found.
FOUND_IN = {
    "named_by_data": (["mean-operator"], 8),
    "conflict_by_content": (["bags"], 12),
    "refused_as_changed": (["bags"], 12),
    "refused_elsewhere": (["bags"], 24),
}


def command(words):
    return recorded(typer.main.get_command(app).main, words)


def test_pairs_of_histories_differ_in_noise_alone():
    verdict = check_histories(["bags", "proportions", "moments"], pairs=8, seed=1, command=command)
    assert verdict.lines() == ["no difference in 8 pairs"]


@pytest.mark.audit
def test_500_pairs_of_histories_in_both_stores_differ_in_noise_alone(postgres_url, monkeypatch):
    monkeypatch.setenv("SUFFICE_POSTGRESQL", postgres_url)
    verdict = check_histories(pairs=500, seed=0, command=command)
    assert verdict.lines() == ["no difference in 500 pairs"]


@pytest.mark.parametrize("mutant", HISTORY_MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_pairs_find_what_told_whether_data_changed(mutant, monkeypatch):
    mutant(monkeypatch)
    mechanisms, pairs = FOUND_IN[mutant.__name__]
    verdict = check_histories(mechanisms, pairs=pairs, seed=0, first_only=True)
    print(f"{mutant.__name__}: pair {verdict.pairs}, {verdict.lines()[0]}")  # noqa: T201
    assert verdict.differences


@pytest.mark.audit
@pytest.mark.parametrize("mechanism", ["mean-operator", "moments", "parties"])
def test_a_name_that_follows_from_the_data_is_found_in_every_mechanism(mechanism, monkeypatch):
    named_by_data(monkeypatch)
    verdict = check_histories([mechanism], pairs=30, seed=0, first_only=True)
    print(f"{mechanism}: pair {verdict.pairs}, {verdict.lines()[0]}")  # noqa: T201
    assert verdict.differences


@pytest.mark.audit
def test_a_learner_sees_by_a_grant_that_a_name_follows_from_the_data(monkeypatch):
    named_by_data(monkeypatch)
    verdict = check_histories(["mean-operator"], pairs=6, seed=0)
    answers = [d for d in verdict.differences if d.where.startswith("grant")]
    print(f"first in pair {answers[0].pair.number + 1}: {answers[0]}")  # noqa: T201
    assert answers
