"""The mean operators that some labels of these rows can have: where a risk has a minimiser.

For two classes they are the zonotope Z = { sum_i w_i u_i x_i : |u_i| <= 1 }, for K classes the set
{ sum_i w_i x_i U_i^T : U_i in the simplex }. A true operator lies in it, and noise throws it out. A
minimiser without a penalty exists well inside it.
"""

from collections.abc import Iterator

import numpy as np

from suffice.models.rows import WeightedRows, as_weighted
from suffice.models.simplex import nearest_proportions

_CERTIFICATE_STEPS = 10  # between two certificates, each of which costs half a step
_INTERIOR = 0.995  # fraction of the way from the middle to the boundary; beyond, models are huge
_ROUNDING = 1e-9  # relative size of a rounding error in an operator


def _operator_of(rows: WeightedRows, labels: np.ndarray) -> np.ndarray:
    return rows.combined((rows.weights * labels.T).T)


def _centre(rows: WeightedRows, operator: np.ndarray) -> np.ndarray:
    """Return the operator of labels that say nothing: zero, or mean x / K in each column."""
    if operator.ndim == 1:
        return np.zeros_like(operator)
    return np.tile(rows.mean[:, None] / operator.shape[1], operator.shape[1])


def _steps(
    rows: WeightedRows, operator: np.ndarray, max_iter: int
) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """Yield labels, what is missing to ``operator``, and the gap, every few steps.

    FISTA (Beck & Teboulle 2009) in the labels with the inner product sum_i w_i u_i v_i, restarted
    when the momentum points uphill (O'Donoghue & Candes 2015, eq. 13). One step needs two
    passes over the rows: an operator is linear in its labels, so that of a momentum is free.
    """
    binary, weights = operator.ndim == 1, rows.weights
    step = 1 / (1.05 * float(np.linalg.eigvalsh(rows.moment)[-1]))
    labels = _nearest_labels(np.zeros((len(rows), *operator.shape[1:])))
    operator_now = _operator_of(rows, labels)
    ahead, operator_ahead, momentum = labels, operator_now, 1.0
    for i in range(1, max_iter + 1):
        new = _nearest_labels(ahead + step * rows.scores(operator - operator_ahead))
        operator_new = _operator_of(rows, new)
        if np.vdot((weights * (ahead - new).T).T, new - labels) > 0:
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        push = (momentum - 1) / following
        ahead, operator_ahead = (
            new + push * (new - labels),
            operator_new + push * (operator_new - operator_now),
        )
        labels, operator_now, momentum = new, operator_new, following
        if i % _CERTIFICATE_STEPS == 0 or i == max_iter:
            missing = operator - operator_now
            scores = rows.scores(missing)
            best = np.abs(scores) if binary else scores.max(axis=1)
            gap = float(weights @ best) - float(np.vdot(missing, operator_now))
            yield labels, missing, max(gap, 0.0)


def _nearest_labels(labels: np.ndarray) -> np.ndarray:
    """Return the nearest point of [-1, 1]^m, or of the simplex in each row."""
    if labels.ndim == 1:
        return np.clip(labels, -1, 1)
    return nearest_proportions(labels)


def why_no_minimiser(
    rows: np.ndarray | WeightedRows,
    operator: np.ndarray,
    *,
    weights: np.ndarray | None = None,
    steepest: float | None = 1.0,
    max_iter: int = 2000,
) -> str:
    """Return why the risk has no minimiser without a penalty, or an empty string where it has one.

    ``steepest`` is the supremum of g' in units of a/2 (one for softmax). The risk grows in every
    direction that the rows span, iff mu lies in the relative interior of ``steepest`` times Z.
    Infinite (square): iff mu lies in the span of the rows. Zero (linear): iff mu = 0. Softmax also
    needs M 1 = mean x. Inside is proved by labels strictly inside, outside by a plane; an operator
    within half a percent of the boundary counts as outside, since its model would be huge.
    """
    if steepest is None:
        return "your own loss may have none. Use a penalty with lam > 0."
    if steepest == 0:
        still = not operator.any()
        return (
            ""
            if still
            else "the linear loss falls without end along the mean operator. Use lam > 0."
        )
    weighted = as_weighted(rows, weights)
    reason = _outside_the_span(weighted, operator)
    if not reason and np.isfinite(steepest):
        centre = _centre(weighted, operator)
        target = centre + (operator - centre) / (_INTERIOR * steepest)
        if not _holds(weighted, target, max_iter):
            reason = (
                "no labels of these rows have this mean operator, or it lies on the boundary of"
                " those that do, so the risk falls without end"
            )
    return reason and f"{reason}. Use lam > 0."


def _outside_the_span(rows: WeightedRows, operator: np.ndarray) -> str:
    """Return which linear equation a true operator fulfils and this one does not."""
    size = float(np.linalg.norm(operator))
    if operator.ndim == 2:
        excess = float(np.linalg.norm(operator.sum(axis=1) - rows.mean))
        if excess > _ROUNDING * (1 + size):
            return f"the columns of M miss mean x by {excess:.2g} in their sum"
    basis = _basis(rows)[0]
    if np.linalg.norm(operator - basis @ (basis.T @ operator)) > _ROUNDING * size:
        return "the mean operator leaves the span of the rows"
    return ""


def _basis(rows: WeightedRows) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvectors of S that the rows span, and their eigenvalues."""
    eigenvalues, vectors = np.linalg.eigh(rows.moment)
    spanned = eigenvalues > len(eigenvalues) * np.finfo(float).eps * eigenvalues[-1]
    return vectors[:, spanned], eigenvalues[spanned]


def _holds(rows: WeightedRows, target: np.ndarray, max_iter: int) -> bool:
    """Return whether labels strictly inside their bounds, times _INTERIOR, have ``target``.

    In coordinates in which S = I what is missing, r, is itself the operator of the labels X r: they
    mend the labels found so far, and prove the point if no bound is touched.
    """
    basis, eigenvalues = _basis(rows)
    map_ = basis / np.sqrt(eigenvalues)
    white = rows.in_basis(map_)
    for labels, missing, gap in _steps(white, map_.T @ target, max_iter):
        if np.vdot(missing, missing) > gap:  # <r, target> > max over Z of <r, s>: a plane between
            return False
        if _strictly_inside(labels + white.scores(missing)):
            return True
    return False


def _strictly_inside(labels: np.ndarray) -> bool:
    """Return whether labels, moved to the middle by the factor _INTERIOR, touch no bound."""
    if labels.ndim == 1:
        return bool(np.abs(labels).max() * _INTERIOR < 1)
    return bool((_INTERIOR * labels + (1 - _INTERIOR) / labels.shape[1]).min() > 0)
