"""Folds: every row is tested once, and scaled by what is learnt from."""

import numpy as np

from suffice.papers.nock import Fold, folds_of
from suffice.papers.reproduction import numbers


def test_every_row_is_tested_once(folder):
    rows, labels = numbers("abalone", folder)
    folds = list(folds_of("abalone", folder, 4, seed=1))
    tested = np.concatenate([fold.test_rows for fold in folds])
    assert sorted(map(tuple, tested)) == sorted(map(tuple, rows))
    assert sum(fold.test_labels.sum() for fold in folds) == labels.sum()
    for fold in folds:
        assert abs(fold.labels.mean() - labels.mean()) < 0.03


def test_a_fold_is_standardised_by_what_is_learnt_from(rng):
    fold = Fold(rng.normal(5, 3, (50, 3)), np.arange(50) % 2, np.full((2, 3), 5.0), np.zeros(2))
    scaled = fold.standardised(coded=1)
    assert np.abs(scaled.rows[:, [0, 2]].mean(axis=0)).max() < 1e-12
    assert np.abs(scaled.rows[:, [0, 2]].std(axis=0) - 1).max() < 1e-12
    assert set(scaled.rows[:, 1]) == {-1.0, 1.0}
    assert set(scaled.test_rows[:, 1]) <= {-1.0, 1.0}
    np.testing.assert_array_equal(scaled.edges()[1], scaled.rows[1])
    np.testing.assert_array_equal(scaled.edges()[0], -scaled.rows[0])
