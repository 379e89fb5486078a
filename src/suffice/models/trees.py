"""Boosted decision trees as plain arrays, so that a model file holds no code."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from suffice.errors import CorruptFileError

# From so many effective labels on, trees on randomised labels beat the mean operator on most tables
# of lab/bench/rule.py (at 1,760 by 4 points); below, they learn the randomisation (at 790 they lose
# 4 points). Owner and learner go by the same number.
ENOUGH_LABELS = 1_500
_LEAF = -1  # in the place of a column, as in model files


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """Computes scores s(x) = baseline + the leaves that x falls into, one a class.

    Attributes
    ----------
    features : ndarray of int64, shape (n,)
        Of each node, the column that it looks at; -1 of a leaf. Nodes come tree by tree, each
        before its children, and the left child right behind it.
    numbers : ndarray of float64, shape (n,)
        Of a leaf its value; elsewhere the largest value of the column that goes to the left.
    baseline : ndarray of float64, shape (K,)
        What the scores begin with. Trees belong to the classes in turn; of two classes, all of
        them to the second.
    """

    features: np.ndarray
    numbers: np.ndarray
    baseline: np.ndarray

    @cached_property
    def layout(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the right child of each node is, and where each tree begins."""
        from suffice.kernels.models import find_right_children

        if not are_whole_trees(self.features, len(self.baseline)):
            raise CorruptFileError("The last tree ends before its last leaf.")
        right = np.zeros(len(self.features), dtype=np.int64)
        is_root = np.zeros(len(self.features), dtype=np.bool_)
        find_right_children(self.features, right, is_root)
        return right, np.flatnonzero(is_root)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """Return the scores (n, K) of rows (n, width)."""
        from suffice.kernels.models import add_tree_scores

        right, roots = self.layout
        scores = np.tile(self.baseline, (len(rows), 1))
        first = 1 if len(self.baseline) == 2 else 0
        groups = first + np.arange(len(roots)) % _trees_in_a_round(len(self.baseline))
        add_tree_scores(
            np.ascontiguousarray(rows), self.features, self.numbers, right, roots, groups, scores
        )
        return scores

    def rescaled(self, slope: float, shift: np.ndarray) -> "BoostedTrees":
        """Return the trees whose scores are slope s(x) + shift."""
        leaves = self.features == _LEAF
        numbers = np.where(leaves, slope * self.numbers, self.numbers)
        return BoostedTrees(self.features, numbers, slope * self.baseline + shift)

    @classmethod
    def joined(cls, trees: list[tuple[Any, Any]], baseline: np.ndarray) -> "BoostedTrees":
        """Return trees given one by one as (features, numbers), nodes in our order."""
        features = [np.asarray(tree[0], dtype=np.int64) for tree in trees]
        numbers = [np.asarray(tree[1], dtype=np.float64) for tree in trees]
        return cls(np.concatenate(features), np.concatenate(numbers), baseline)


def are_whole_trees(features: np.ndarray, classes: int) -> bool:
    """Say whether nodes are whole trees, as many for each class.

    Every inner node needs one more node and every leaf fills a place: each tree ends where their
    running difference is lower than ever before.
    """
    if not len(features) or int(features.min()) < _LEAF:
        return False
    places = np.cumsum(np.where(features == _LEAF, -1, 1))
    trees = -int(places[-1])
    ends = trees > 0 and int(places.argmin()) == len(places) - 1  # the first time so low
    return ends and trees % _trees_in_a_round(classes) == 0


def _trees_in_a_round(classes: int) -> int:
    return 1 if classes == 2 else classes
