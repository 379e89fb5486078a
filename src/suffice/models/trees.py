"""Boosted decision trees as plain arrays, so that a model file holds no code."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from suffice.errors import CorruptFileError

__all__ = ["BoostedTrees", "are_whole_trees"]

_LEAF = -1


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

    @property
    def _trees_a_round(self) -> int:
        return _trees_in_a_round(len(self.baseline))

    @cached_property
    def _layout(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the right child of each node is, and where each tree begins."""
        layout = _layout_of(self.features)
        if layout is None:
            raise CorruptFileError("The last tree ends before its last leaf.")
        return layout

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """Return the scores (n, K) of rows (n, width)."""
        from suffice.kernels.trees import add_tree_scores

        right, roots = self._layout
        scores = np.tile(self.baseline, (len(rows), 1))
        first = 1 if len(self.baseline) == 2 else 0
        groups = first + np.arange(len(roots)) % self._trees_a_round
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
    """Say whether nodes are whole trees, as many for each class."""
    layout = _layout_of(features)
    return (
        layout is not None
        and len(features) > 0
        and int(features.min()) >= _LEAF
        and len(layout[1]) % _trees_in_a_round(classes) == 0
    )


def _trees_in_a_round(classes: int) -> int:
    return 1 if classes == 2 else classes


def _layout_of(features: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return where the right child of each node is, and where each tree begins; None if cut off."""
    right = np.zeros(len(features), dtype=np.int64)
    roots: list[int] = []
    waiting: list[int] = []  # inner nodes whose right child has not come yet
    is_left = False  # whether the next node is a left child
    for node, feature in enumerate(features.tolist()):
        if not is_left:
            if waiting:
                right[waiting.pop()] = node
            else:
                roots.append(node)
        is_left = feature != _LEAF
        if is_left:
            waiting.append(node)
    return None if is_left or waiting else (right, np.array(roots, dtype=np.int64))
