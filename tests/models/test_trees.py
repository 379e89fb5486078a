"""Trees as plain arrays: the scores of scikit-learn's own, and nothing but whole trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier

from suffice.errors import CorruptFileError
from suffice.learner.sklearn_names import boosted_trees
from suffice.models.trees import BoostedTrees, are_whole_trees

SMALL = {"max_iter": 7, "max_leaf_nodes": 6, "early_stopping": False}


def forest(count: int, rng: np.random.Generator):
    X = rng.normal(size=(600, 4)).round(1)  # values that repeat meet thresholds
    y = rng.integers(0, count, 600) * (X[:, 0] > 0)
    return HistGradientBoostingClassifier(**SMALL).fit(X, y), X


@pytest.mark.parametrize("count", [2, 3, 5])
def test_scores_are_those_of_scikit_learn(count, rng):
    estimator, X = forest(count, rng)
    trees = boosted_trees(estimator)
    assert are_whole_trees(trees.features, count)
    p = softmax(trees.scores(X), axis=1)
    np.testing.assert_allclose(p, estimator.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("count", [2, 3])
def test_the_kernel_walks_as_its_plain_twin(count, rng):
    estimator, X = forest(count, rng)
    trees = boosted_trees(estimator)

    def leaf_from(node, row):
        """Return the value of the leaf and the node behind this subtree."""
        feature, number = trees.features[node], trees.numbers[node]
        if feature < 0:
            return number, node + 1
        left, behind_left = leaf_from(node + 1, row)
        right, behind = leaf_from(behind_left, row)
        return (left if row[feature] <= number else right), behind

    for row, scores in zip(X[:40], trees.scores(X[:40]), strict=True):
        expected, node, tree = trees.baseline.copy(), 0, 0
        while node < len(trees.features):
            value, node = leaf_from(node, row)
            expected[1 if count == 2 else tree % count] += value
            tree += 1
        np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_a_slope_and_a_shift_go_into_the_leaves(rng):
    estimator, X = forest(3, rng)
    trees = boosted_trees(estimator)
    shift = np.array([0.0, 1.0, -2.0])
    moved = trees.rescaled(2.5, shift)
    np.testing.assert_allclose(moved.scores(X), 2.5 * trees.scores(X) + shift)


@given(st.lists(st.integers(-2, 2), min_size=1, max_size=30), st.integers(2, 4))
def test_any_list_of_nodes_is_refused_or_walked_to_an_end(features, classes):
    nodes = np.array(features, dtype=np.int64)
    if not are_whole_trees(nodes, classes):
        return
    trees = BoostedTrees(nodes, np.zeros(len(features)), np.zeros(classes))
    leaves = features.count(-1)
    assert leaves == len(features) - leaves + len(trees.layout[1])  # one more a tree
    assert np.isfinite(trees.scores(np.zeros((2, 3)))).all()


@pytest.mark.parametrize(
    ("features", "classes"),
    [([], 2), ([0, -1], 2), ([0], 2), ([-2], 2), ([-1, -1], 3), ([0, -1, -1, 0, -1], 2)],
)
def test_broken_trees_are_refused(features, classes):
    nodes = np.array(features, dtype=np.int64)
    assert not are_whole_trees(nodes, classes)


def test_trees_that_are_cut_off_cannot_be_walked():
    trees = BoostedTrees(np.array([0, -1], dtype=np.int64), np.zeros(2), np.zeros(2))
    with pytest.raises(CorruptFileError, match="ends before"):
        trees.scores(np.zeros((1, 1)))
