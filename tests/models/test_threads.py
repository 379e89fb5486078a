"""Solvers use one thread of linear algebra, and give the others back."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from suffice.learner.operator import FactoredClassifier
from suffice.models.problem import FactoredProblem, one_blas_thread


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_one_thread_within_and_as_many_as_before_afterwards():
    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == before
        with pytest.raises(KeyError), one_blas_thread():
            raise KeyError
        assert threads() == before


def test_a_classifier_is_fitted_with_one(monkeypatch):
    thread_counts = set()

    def spy(self, *arguments, **options):
        thread_counts.update(threads())
        return solve(self, *arguments, **options)

    solve = FactoredProblem.solve
    monkeypatch.setattr(FactoredProblem, "solve", spy)
    X = np.random.default_rng(0).normal(size=(60, 2))
    with threadpool_limits(limits=2, user_api="blas"):
        FactoredClassifier().fit(X, (X[:, 0] > 0).astype(int))
    assert thread_counts == {1}
