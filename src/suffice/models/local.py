"""Many parties' own classifiers at once: thousands of small penalised logistic regressions."""

from contextlib import suppress

import numpy as np

from suffice.errors import OptimisationError, ParameterError
from suffice.kernels.models import local_minimisers
from suffice.models.problem import LOSSES, FactoredProblem

_STEPS = 200  # of Newton, halved ones included; about ten are usual
_ITERATIONS = 10_000  # of the solver of large parties
_LARGEST = 300  # rows times classes of one party, beyond which its Gram matrix is no small system
_TOL = 1e-7  # of a party's longest row: where its gradient counts as none
_COARSER = (1.0, 1e2, 1e4, 1e6)  # times that, in turn: what a large party is solved to


def local_classifiers(
    rows: np.ndarray,
    codes: np.ndarray,
    parties: np.ndarray,
    classes: int,
    lam: float,
) -> np.ndarray:
    """Compute the classifier of every party from its own rows, (P, d) or (P, d, K) coefficients.

    minimise (1/n) sum_i log(1 + e^(-y_i <theta, x_i>)) + (lam/2) ||theta||^2

    for two classes, y = +1 for the second, and its softmax over the classes that the party has for
    more; a class that it lacks keeps coefficients of zero and must get no vote. A party of one
    class learns nothing: all its coefficients are zero. ``rows`` (m, d) are mapped, ``codes`` the
    places of their classes, ``parties`` their parties' numbers from 0 on. The gradient's norm at
    each solution is about 1e-7 times the largest norm of the party's rows. Each classifier
    depends on its own party's rows and on nothing else, bit by bit: many parties' votes are added
    up under a guarantee that one of them changes only its own vote. So there is no error either
    where a risk is too flat for floats: such a party has the best that its solver reached.
    """
    rows, codes, parties = _checked(rows, codes, parties, classes, lam)
    order = np.argsort(parties, kind="stable")
    counts = np.bincount(parties)
    starts = np.concatenate([[0], np.cumsum(counts)])
    rows, codes = np.ascontiguousarray(rows[order]), codes[order]
    coefficients = np.zeros((len(counts), rows.shape[1], classes if classes > 2 else 1))
    small = counts * coefficients.shape[2] <= _LARGEST
    # Stretches of neighbouring small parties: the first, and past the last.
    edges = np.flatnonzero(np.diff(np.concatenate([[0], small.astype(np.int8), [0]])))
    for first, last in edges.reshape(-1, 2):
        own = starts[first : last + 1]
        local_minimisers(rows, codes, own, lam, _TOL, _STEPS, coefficients[first:last])
    coefficients[~np.isfinite(coefficients).all(axis=(1, 2))] = 0.0
    for party in np.flatnonzero(~small):
        members = slice(starts[party], starts[party + 1])
        coefficients[party] = _large_party_classifier(rows[members], codes[members], classes, lam)
    return coefficients if classes > 2 else coefficients[:, :, 0]


def _large_party_classifier(
    rows: np.ndarray, codes: np.ndarray, classes: int, lam: float
) -> np.ndarray:
    """Return the coefficients (d, K) of a party with many rows: those of a factored problem."""
    coefficients = np.zeros((rows.shape[1], classes if classes > 2 else 1))
    present, short = np.unique(codes, return_inverse=True)
    if len(present) < 2:
        return coefficients
    operator = rows.T @ np.eye(len(present))[short] / len(rows)
    if classes == 2:
        problem = FactoredProblem(rows, operator[:, 1] - operator[:, 0], LOSSES["logistic"])
    else:
        problem = FactoredProblem(rows, operator, None)
    longest = float(np.linalg.norm(rows, axis=1).max())
    tol = _TOL * longest / np.sqrt(operator.size)  # the solver's is on the largest entry
    for coarser in _COARSER:
        with suppress(OptimisationError):
            solved = problem.solve(lam, tol=coarser * tol, max_iter=_ITERATIONS).parameters
            coefficients[:, slice(1) if classes == 2 else present] = solved.reshape(
                len(coefficients), -1
            )
            break
    return coefficients


def _checked(
    rows: np.ndarray, codes: np.ndarray, parties: np.ndarray, classes: int, lam: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    mapped = np.asarray(rows, dtype=np.float64)
    labels, owners = np.asarray(codes), np.asarray(parties)
    if mapped.ndim != 2 or not np.isfinite(mapped).all():
        raise ParameterError(
            "rows must be a matrix of finite numbers. Map them with a pipeline first."
        )
    if labels.shape != (len(mapped),) or owners.shape != (len(mapped),):
        raise ParameterError("codes and parties must hold one number for each row.")
    if classes < 2 or labels.dtype.kind not in "iu" or owners.dtype.kind not in "iu":
        raise ParameterError("codes and parties must be whole numbers, and classes at least 2.")
    if len(mapped) and not (0 <= labels.min() <= labels.max() < classes and owners.min() >= 0):
        raise ParameterError(
            "codes must lie between 0 and classes - 1, and parties must not be negative."
        )
    if not (np.isfinite(lam) and lam > 0):
        raise ParameterError(f"lam must be a positive number. It is {lam!r}.")
    return mapped, labels.astype(np.int64), owners.astype(np.int64)
