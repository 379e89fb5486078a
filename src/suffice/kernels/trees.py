"""Scores of rows under many small decision trees."""

import numba
import numpy as np

__all__ = ["add_tree_scores", "find_right_children"]


@numba.njit(nogil=True, cache=True)
def find_right_children(features, right, is_root):
    """Write where the right child of each inner node is, and which nodes begin a tree.

    Nodes are whole trees, in the order that `add_tree_scores` describes.
    """
    waiting = np.empty(len(features), dtype=np.int64)  # inner nodes whose right child is to come
    count = 0
    is_left = False
    for node in range(len(features)):
        if not is_left:
            if count:
                count -= 1
                right[waiting[count]] = node
            else:
                is_root[node] = True
        is_left = features[node] >= 0
        if is_left:
            waiting[count] = node
            count += 1


@numba.njit(nogil=True, cache=True)
def add_tree_scores(rows, features, numbers, right, roots, groups, scores):
    """Add the leaf of each tree that a row falls into to ``scores`` (n, K).

    Nodes come tree by tree, each before its children and the left child right behind it; ``right``
    is where the other one is. A node with ``features`` -1 is a leaf, and ``numbers`` its value;
    elsewhere ``numbers`` is the largest value of the feature that goes left. Tree t begins at
    ``roots[t]`` and adds to column ``groups[t]``.
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        for t in range(roots.shape[0]):
            node = roots[t]
            while features[node] >= 0:
                node = node + 1 if row[features[node]] <= numbers[node] else right[node]
            scores[i, groups[t]] += numbers[node]
