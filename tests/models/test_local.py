"""Classifiers of many small parties: each the minimiser that a plain solver finds alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from suffice.errors import ParameterError
from suffice.models import local
from suffice.models.local import local_classifiers

LAM = 1e-3


def crowd(
    rng: np.random.Generator, parties: int, size: int, classes: int, width: int = 12
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of norm about one, codes and parties; a third of all rows are duplicates."""
    rows = rng.normal(size=(parties * size, width)) / np.sqrt(width)
    copied = rng.random(len(rows)) < 1 / 3
    rows[copied] = rows[rng.integers(0, len(rows), copied.sum())]
    codes = rng.integers(0, classes, len(rows))
    return rows, codes, rng.permutation(np.arange(len(rows)) % parties)


def gradient(rows: np.ndarray, codes: np.ndarray, theta: np.ndarray, lam: float) -> np.ndarray:
    """Return the gradient of one party's risk, over the classes that it has."""
    if theta.ndim == 1:
        signs = 2.0 * codes - 1
        pull = signs * expit(-signs * (rows @ theta))
        return lam * theta - rows.T @ pull / len(rows)
    present = np.unique(codes)
    wrong = softmax(rows @ theta[:, present], axis=1) - (codes[:, None] == present)
    return rows.T @ wrong / len(rows) + lam * theta[:, present]


def slow_twin(rows: np.ndarray, codes: np.ndarray, lam: float) -> np.ndarray:
    """Return one party's softmax over its classes by a general minimiser."""
    present = np.unique(codes)
    truth = (codes[:, None] == present).astype(float)

    def risk(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = flat.reshape(rows.shape[1], len(present))
        scores = rows @ theta
        top = scores.max(axis=1)
        value = np.mean(np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top)
        value += lam / 2 * flat @ flat - np.sum(truth * scores) / len(rows)
        slope = rows.T @ (softmax(scores, axis=1) - truth) / len(rows) + lam * theta
        return float(value), slope.ravel()

    start = np.zeros(rows.shape[1] * len(present))
    optimum = minimize(risk, start, jac=True, method="BFGS", options={"gtol": 1e-9})
    return optimum.x.reshape(rows.shape[1], len(present))


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("lam", [1e-4, 1e-2, 10.0])
def test_every_party_is_at_its_minimum(rng, classes, lam):
    rows, codes, parties = crowd(rng, 40, 7, classes)
    classifiers = local_classifiers(rows, codes, parties, classes, lam)
    assert classifiers.shape == ((40, 12) if classes == 2 else (40, 12, classes))
    largest = np.linalg.norm(rows, axis=1).max()
    for party, theta in enumerate(classifiers):
        own = parties == party
        if len(np.unique(codes[own])) > 1:
            gradient_left = gradient(rows[own], codes[own], theta, lam)
            assert np.linalg.norm(gradient_left) <= 1e-6 * largest
            assert np.abs(theta).max() > 0


def test_it_is_what_a_general_minimiser_finds(rng):
    rows, codes, parties = crowd(rng, 4, 6, 3, width=4)
    classifiers = local_classifiers(rows, codes, parties, 3, LAM)
    for party in range(4):
        own = parties == party
        expected = slow_twin(rows[own], codes[own], LAM)
        assert classifiers[party][:, np.unique(codes[own])] == pytest.approx(expected, abs=1e-4)


def test_it_is_what_scikit_learn_finds(rng):
    rows, codes, parties = crowd(rng, 5, 20, 2)
    classifiers = local_classifiers(rows, codes, parties, 2, LAM)
    for party in range(5):
        own = parties == party
        model = LogisticRegression(C=1 / (20 * LAM), fit_intercept=False, tol=1e-10, max_iter=10**4)
        model.fit(rows[own], codes[own])
        assert classifiers[party] == pytest.approx(model.coef_[0], abs=1e-4)


@pytest.mark.parametrize("classes", [2, 4])
def test_large_parties_take_the_other_solver_to_the_same_end(rng, classes, monkeypatch):
    rows, codes, parties = crowd(rng, 6, 15, classes)
    small = local_classifiers(rows, codes, parties, classes, LAM)
    monkeypatch.setattr(local, "_LARGEST", 0)
    assert local_classifiers(rows, codes, parties, classes, LAM) == pytest.approx(small, abs=1e-4)


def test_sizes_may_differ_and_the_order_of_rows_does_not_matter(rng, monkeypatch):
    rows, codes, _ = crowd(rng, 1, 60, 3)
    parties = np.repeat([0, 1, 3, 4], [1, 9, 40, 10])  # two has no rows
    monkeypatch.setattr(local, "_LARGEST", 60)  # three is a large one, between small ones
    classifiers = local_classifiers(rows, codes, parties, 3, LAM)
    order = rng.permutation(60)
    again = local_classifiers(rows[order], codes[order], parties[order], 3, LAM)
    assert classifiers == pytest.approx(again, abs=1e-4)
    assert classifiers.shape == (5, 12, 3)
    assert not classifiers[[0, 2]].any()
    assert all(classifiers[party].any() for party in (1, 3, 4))


def test_a_class_that_a_party_lacks_keeps_zeros(rng):
    rows, parties = rng.normal(size=(12, 5)), np.repeat([0, 1, 2], 4)
    codes = np.array([0, 2, 0, 2, 1, 1, 1, 1, 0, 1, 2, 3])
    classifiers = local_classifiers(rows, codes, parties, 4, LAM)
    assert classifiers[0].any(axis=0).tolist() == [True, False, True, False]
    assert not classifiers[1].any()
    assert classifiers[2].any(axis=0).all()


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 4),
    st.floats(1e-6, 1e2),
    st.floats(1e-3, 1e3),
    st.integers(1, 8),
)
def test_any_scale_and_penalty_is_solved(seed, classes, lam, scale, size):
    local_rng = np.random.default_rng(seed)
    rows, codes, parties = crowd(local_rng, 3, size, classes, width=3)
    rows *= scale
    classifiers = local_classifiers(rows, codes, parties, classes, lam)
    assert np.isfinite(classifiers).all()
    for party, theta in enumerate(classifiers):
        own = parties == party
        if len(np.unique(codes[own])) > 1 and lam >= 1e-3 * scale:  # else so flat that it may be
            gradient_left = np.linalg.norm(
                gradient(rows[own], codes[own], theta, lam)
            )  # rounding alone
            assert gradient_left <= 2e-6 * np.linalg.norm(rows[own], axis=1).max()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("largest", [300, 0])
def test_a_party_with_long_rows_changes_no_other_classifier(rng, classes, largest, monkeypatch):
    """Once the longest row of all decided how exactly every party was solved."""
    monkeypatch.setattr(local, "_LARGEST", largest)
    rows, codes, parties = crowd(rng, 5, 8, classes, width=3)
    before = local_classifiers(rows, codes, parties, classes, 1e-4)
    rows[parties == 4] *= 1e4
    after = local_classifiers(rows, codes, parties, classes, 1e-4)
    assert np.array_equal(before[:4], after[:4])
    assert not np.array_equal(before[4], after[4])


@pytest.mark.parametrize("classes", [2, 3])
def test_a_large_party_changes_no_small_party_s_solver(rng, classes):
    """Which solver a party has follows from its own number of records, bit by bit."""
    rows, codes, parties = crowd(rng, 5, 12, classes, width=3)
    before = local_classifiers(rows, codes, parties, classes, LAM)
    large = rng.normal(size=(400, 3)), rng.integers(0, classes, 400)
    more = [np.concatenate(both) for both in zip((rows, codes), large, strict=True)]
    after = local_classifiers(*more, np.concatenate([parties, np.full(400, 5)]), classes, LAM)
    assert np.array_equal(before, after[:5])
    assert after[5].any()


def test_a_large_party_whose_solver_stops_short_is_solved_more_coarsely(rng, monkeypatch):
    monkeypatch.setattr(local, "_LARGEST", 0)
    monkeypatch.setattr(local, "_ITERATIONS", 2)
    rows, codes, parties = crowd(rng, 3, 8, 3)
    assert local_classifiers(rows, codes, parties, 3, LAM).all()
    monkeypatch.setattr(local, "_COARSER", (1.0,))
    assert not local_classifiers(rows, codes, parties, 3, LAM).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": np.full((4, 2), np.nan)}, "finite"),
        ({"codes": np.array([0, 1, 2, 0])}, "between 0 and classes"),
        ({"codes": np.array([0, 1, -1, 0])}, "between 0 and classes"),
        ({"codes": np.array([0.0, 1, 1, 0])}, "whole"),
        ({"parties": np.array([0, 0, 1, -1])}, "negative"),
        ({"parties": np.array([0, 0, 1])}, "one number for each row"),
        ({"classes": 1}, "classes at least 2"),
        ({"lam": 0.0}, "positive"),
        ({"lam": np.nan}, "positive"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    arguments = {
        "rows": np.ones((4, 2)),
        "codes": np.array([0, 1, 1, 0]),
        "parties": np.array([0, 0, 1, 1]),
        "classes": 2,
        "lam": 1.0,
    }
    with pytest.raises(ParameterError, match=message):
        local_classifiers(**(arguments | change))
