"""Kernels of models: slopes of losses, many small penalised classifiers, and scores of trees.

The classifiers, one per party, are found by Newton's method. A party has n rows in d coordinates, n
far below d: its minimiser is X^T b, and Newton's equations are of size n (n k for softmax over k
classes) with the Gram matrix X X^T in them. Steps are halved until the risk falls.
"""

import numpy as np

from suffice.kernels.compiled import kernel

_HALVINGS = 40


def logistic_slopes(scores: np.ndarray, weights: np.ndarray) -> float:
    """Return sum_i w_i g(z_i), and overwrite the scores z_i with w_i g'(z_i).

    g(z) = log(e^(z/2) + e^(-z/2)) is the even part of the logistic loss, from e^(-|z|), which never
    overflows. NumPy's exponential and logarithm take several entries at once.
    """
    powers = np.exp(-np.abs(scores))
    total = float(_slopes_of_powers(scores, powers, weights))
    powers += 1.0
    return total + float(weights @ np.log(powers, out=powers))


@kernel()
def _slopes_of_powers(scores, powers, weights):
    """Overwrite z_i with w_i g'(z_i), given e^(-|z_i|); return sum_i w_i |z_i| / 2."""
    total = 0.0
    for i in range(scores.size):
        z = scores[i]
        slope = 0.5 * (1.0 - powers[i]) / (1.0 + powers[i])
        total += weights[i] * (0.5 * abs(z))
        scores[i] = weights[i] * (slope if z >= 0 else -slope)
    return total


def softmax_shares(scores: np.ndarray) -> np.ndarray:
    """Overwrite each row of scores (rows, K) with its e^(z_k) / sum_j e^(z_j), and return them."""
    softmax_slopes(scores, np.ones(len(scores)))
    return scores


def softmax_slopes(scores: np.ndarray, weights: np.ndarray) -> float:
    """Do the same for g(z) = log sum_k e^(z_k), row by row of scores (rows, K)."""
    largest = np.empty(len(scores))
    _take_off_largest(scores, largest)
    np.exp(scores, out=scores)
    return float(_weigh_shares(scores, largest, weights))


@kernel()
def _take_off_largest(scores, largest):
    """Write the largest score of each row, and subtract it from the row."""
    for i in range(scores.shape[0]):
        row = scores[i]
        most = row[0]
        for k in range(1, row.size):
            most = max(most, row[k])
        largest[i] = most
        for k in range(row.size):
            row[k] -= most


@kernel()
def _weigh_shares(powers, largest, weights):
    """Overwrite each row of e^(z_k - largest) with w_i times its shares; return sum_i w_i g."""
    total = 0.0
    for i in range(powers.shape[0]):
        row = powers[i]
        mass = 0.0
        for k in range(row.size):
            mass += row[k]
        total += weights[i] * (largest[i] + np.log(mass))
        share = weights[i] / mass
        for k in range(row.size):
            row[k] *= share
    return total


@kernel()
def _pivot(matrix, right, at):
    """Bring the largest entry of column ``at``, from its diagonal down, to the diagonal."""
    best = at
    for j in range(at + 1, right.size):
        if abs(matrix[j, at]) > abs(matrix[best, at]):
            best = j
    if best != at:
        for j in range(at, right.size):
            matrix[at, j], matrix[best, j] = matrix[best, j], matrix[at, j]
        right[at], right[best] = right[best], right[at]


@kernel()
def _solve(matrix, right):
    """Overwrite ``right`` with the solution of a small system, ``matrix`` with its elimination.

    LAPACK costs more in calls than in work at this size.
    """
    size = right.size
    for i in range(size):
        _pivot(matrix, right, i)
        inverse = 1.0 / matrix[i, i]
        for j in range(i + 1, size):
            factor = matrix[j, i] * inverse
            if factor != 0.0:
                for m in range(i + 1, size):
                    matrix[j, m] -= factor * matrix[i, m]
                right[j] -= factor * right[i]
    for i in range(size - 1, -1, -1):
        for j in range(i + 1, size):
            right[i] -= matrix[i, j] * right[j]
        right[i] /= matrix[i, i]


@kernel()
def _gram(rows, out):
    """Write X X^T into ``out``."""
    for i in range(rows.shape[0]):
        for j in range(i + 1):
            total = 0.0
            for c in range(rows.shape[1]):
                total += rows[i, c] * rows[j, c]
            out[i, j] = out[j, i] = total


@kernel()
def _times(gram, dual, out):
    """Write G B into ``out``, B (n, k)."""
    for i in range(dual.shape[0]):
        for a in range(dual.shape[1]):
            total = 0.0
            for j in range(dual.shape[0]):
                total += gram[i, j] * dual[j, a]
            out[i, a] = total


@kernel()
def _inner(left, right):
    """Return <L, R> of two matrices."""
    total = 0.0
    for i in range(left.shape[0]):
        for a in range(left.shape[1]):
            total += left[i, a] * right[i, a]
    return total


@kernel()
def _equations(gram, codes, lam, scores, dual, residual, matrix):
    """Write Newton's equations of one party at B = ``dual``; return its risk there.

    One column is the score of a logistic margin, more are those of softmax. The residual is
    lam B + (P - Y)/n, the gradient X^T times that, and Newton's step solves
    (lam I + W G) step = residual with W the curvature of each row's loss over n.
    """
    n, k = dual.shape
    total = 0.0
    for i in range(n):
        if k == 1:
            sign = 2.0 * codes[i] - 1.0
            z = sign * scores[i, 0]
            e = np.exp(-abs(z))
            wrong = (e if z >= 0 else 1.0) / (1.0 + e)  # the share of the other class
            total += np.log1p(e) + max(-z, 0.0)
            residual[i, 0] = lam * dual[i, 0] - sign * wrong / n
            for j in range(n):
                matrix[i, j] = wrong * (1.0 - wrong) / n * gram[i, j]
            matrix[i, i] += lam
            continue
        largest = scores[i].max()
        mass = 0.0
        for a in range(k):
            residual[i, a] = np.exp(scores[i, a] - largest)
            mass += residual[i, a]
        total += largest + np.log(mass) - scores[i, codes[i]]
        for a in range(k):
            share = residual[i, a] / mass
            for b in range(k):
                curve = share * ((a == b) - residual[i, b] / mass) / n
                for j in range(n):
                    matrix[i * k + a, j * k + b] = curve * gram[i, j]
            matrix[i * k + a, i * k + a] += lam
        for a in range(k):
            residual[i, a] = lam * dual[i, a] + (residual[i, a] / mass - (a == codes[i])) / n
    return total / n + 0.5 * lam * _inner(dual, scores)


@kernel()
def _newton(gram, codes, lam, tol, steps, dual):
    """Write the minimiser's B into ``dual`` (n, k), k = 1 for logistic.

    Every step is halved until the risk does not rise; a gradient of norm ``tol`` ends it.
    """
    n, k = dual.shape
    scores, moved = np.zeros((n, k)), np.empty((n, k))
    step, matrix = np.empty((n, k)), np.empty((n * k, n * k))
    dual[:] = 0.0
    risk = _equations(gram, codes, lam, scores, dual, step, matrix)
    for _ in range(steps):
        _times(gram, step, moved)
        if np.sqrt(max(_inner(step, moved), 0.0)) <= tol:
            break
        _solve(matrix, step.reshape(n * k))
        _times(gram, step, moved)
        length, shift = 1.0, step.copy()
        for _halving in range(_HALVINGS):
            for i in range(n):
                for a in range(k):
                    scores[i, a] -= length * moved[i, a]
                    dual[i, a] -= length * shift[i, a]
            ahead = _equations(gram, codes, lam, scores, dual, step, matrix)
            if ahead <= risk:
                break
            for i in range(n):
                for a in range(k):
                    scores[i, a] += length * moved[i, a]
                    dual[i, a] += length * shift[i, a]
            length *= 0.5
        else:
            break  # the risk has no digits left to fall by
        risk = ahead


@kernel()
def _present(codes, positions):
    """Write each class's position among those present, or -1; return how many are present."""
    positions[:] = -1
    for code in codes:
        positions[code] = 0
    count = 0
    for code in range(positions.size):
        if positions[code] == 0:
            positions[code] = count
            count += 1
    return count


@kernel()
def local_minimisers(rows, codes, starts, lam, tol, steps, coefficients):
    """Write the classifier of each party into ``coefficients`` (parties, d, K).

    Party p has ``rows`` and ``codes`` from starts[p] to starts[p + 1]. K = 1 stands for two classes
    and the logistic margin of the second. For more it is a softmax over the classes that the party
    has; the others keep zero coefficients, and so do all of a party with one class. A party is done
    where its gradient is at most ``tol`` times the norm of its own longest row: nothing that is
    computed for one depends on the rows of another (privacy/proofs/parties.md).
    """
    columns = coefficients.shape[2]
    positions = np.empty(max(columns, 2), np.int64)
    for p in range(starts.size - 1):
        own, labels = rows[starts[p] : starts[p + 1]], codes[starts[p] : starts[p + 1]]
        coefficients[p] = 0.0
        k = _present(labels, positions)
        if k < 2:
            continue
        gram, short = np.empty((labels.size, labels.size)), np.empty_like(labels)
        dual = np.empty((labels.size, 1 if columns == 1 else k))
        for i in range(labels.size):
            short[i] = positions[labels[i]]
        _gram(own, gram)
        longest = 0.0
        for i in range(labels.size):
            longest = max(longest, np.sqrt(gram[i, i]))
        _newton(gram, short, lam, tol * longest, steps, dual)
        for code in range(columns):
            a = 0 if columns == 1 else positions[code]
            if a < 0:
                continue
            for i in range(labels.size):
                for c in range(own.shape[1]):
                    coefficients[p, c, code] += dual[i, a] * own[i, c]


@kernel()
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


@kernel()
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
