"""Scores of rows under many small decision trees."""

import numba

__all__ = ["add_tree_scores"]


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
