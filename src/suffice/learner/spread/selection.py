"""Fitting by the spread likelihood, and the weight of its penalty.

Exact labels: the penalty by the likelihood of held-out records. Randomised labels: by the evidence,
that is the probability of all labels with the weights integrated out (empirical Bayes). Held-out
randomised labels are few and mostly noise: at flips of .4, 500 of them weigh as much as 20 exact
ones, and a choice by them loses 3 points of accuracy (bench/label_noise.py).
"""

import numpy as np
from scipy.optimize import minimize

from suffice.errors import OptimisationError, ParameterError
from suffice.learner.moderation import Moderated, moderated_by_labels
from suffice.learner.spread.likelihood import Objective, SpreadLikelihood, by_class, is_exact
from suffice.models.threads import one_blas_thread

__all__ = [
    "choose_lam",
    "held_out_link",
    "label_information",
    "log_evidence",
    "maximise",
    "most_evident_lam",
    "squared_sizes",
]

_LAMS = 10.0 ** np.arange(-5.0, 1.01, 0.5)
_FOLDS = 5
_REPEATS = 2
_RISES = 3
_MOST_RECORDS = 20_000
_EVIDENCE_LAMS = 10.0 ** np.arange(-5.0, 1.51, 0.25)
_HOPELESS = 20.0  # log evidence below the best, from which on weaker penalties are not tried


@one_blas_thread()
def maximise(
    likelihood: Objective,
    lam: float,
    *,
    tol: float,
    max_iter: int,
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, float, int]:
    """Return the parameters of largest penalised likelihood, the gradient there, and the steps.

    The likelihood is not concave where labels are corrupted; from zero, L-BFGS finds the optimum
    that is nearest to knowing nothing.
    """
    shape = likelihood.shape

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = likelihood(flat.reshape(shape), lam)
        return value, gradient.ravel()

    first = np.zeros(shape) if start is None else start
    options = {"maxiter": max_iter, "gtol": tol, "ftol": 0.0, "maxcor": 20}
    optimum = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B", options=options)
    gradient = float(np.abs(optimum.jac).max())
    if not gradient <= 10 * tol:
        raise OptimisationError(
            f"The solver stopped at a gradient of {gradient:.2g}, above the goal of {tol:.2g}."
            " Use a larger max_iter or lam."
        )
    return optimum.x.reshape(shape), gradient, int(optimum.nit)


def choose_lam(likelihood: SpreadLikelihood, *, max_iter: int, seed: int = 0) -> float:
    """Return the weight of the penalty: by cross-validation, or by evidence if labels are noisy.

    No clean record is needed: the corrupted ones have a likelihood of their own. Of more than
    20,000 records a sample decides, and the penalty falls with their number, as the best one does.
    """
    count = len(likelihood.codes)
    if count < 2 * _FOLDS:
        raise ParameterError(
            f"{count} records are too few to choose the weight of the penalty. Set it with"
            " --penalty-weight (Python: lam=...)."
        )
    rng = np.random.default_rng(seed)
    order = rng.permutation(count)[:_MOST_RECORDS]
    sample = likelihood if len(order) == count else likelihood.select_rows(np.sort(order))
    exact = np.array_equal(likelihood.channel, np.eye(*likelihood.channel.shape))
    lam = _cross_validated(sample, max_iter, rng) if exact else most_evident_lam(sample, max_iter)
    return lam * len(order) / count


def most_evident_lam(likelihood: SpreadLikelihood, max_iter: int) -> float:
    """Return the penalty of largest evidence, for a prior that is flat in the weights' deviation.

    The penalty (lam/2) ||w||^2 is the prior N(0, 1/(n lam)) of every weight but the constant's. By
    Laplace's approximation at the maximiser, with h the eigenvalues of the information there,

        log evidence = -n (loss + (lam/2) ||w||^2) - (1/2) sum_j log(1 + h_j / (n lam))

    (MacKay 1992). The information is taken as F (x) X^T X: X the centred rows as they are expected,
    F = mean_i J_i^T diag(1/p~_i) J_i, J_i = P (diag p_i - p_i p_i^T), so that h is all products of
    the eigenvalues. Where labels say next to nothing, evidence is even from some penalty on, and
    its maximum would be a constant model. A flat prior of the deviation 1/sqrt(n lam) (Gelman 2006)
    adds -(1/2) log lam.
    """
    squares = squared_sizes(likelihood)
    best, most_evident, start = -np.inf, float(_EVIDENCE_LAMS[-1]), None
    for lam in map(float, reversed(_EVIDENCE_LAMS)):
        start, _, _ = maximise(likelihood, lam, tol=1e-4, max_iter=max_iter, start=start)
        value = log_evidence(likelihood, start, lam, squares) - np.log(lam) / 2
        if value > best:
            best, most_evident = value, lam
        elif value < best - _HOPELESS:
            break
    return most_evident


def log_evidence(
    likelihood: SpreadLikelihood, theta: np.ndarray, lam: float, squares: np.ndarray
) -> float:
    """Return Laplace's log evidence at the maximiser ``theta``, up to a constant.

    ``squares`` are the eigenvalues of X^T X, from `squared_sizes`.
    """
    count = len(likelihood.codes)
    sizes = np.multiply.outer(label_information(likelihood, theta), squares)
    return -count * likelihood(theta, lam)[0] - float(np.log1p(sizes / (count * lam)).sum()) / 2


def squared_sizes(likelihood: SpreadLikelihood) -> np.ndarray:
    """Return the eigenvalues of X^T X, X the expected rows without constant, centred if it is."""
    rows = likelihood.features.expected_rows
    if likelihood.constant:
        rows = rows[:, :-1] - rows[:, :-1].mean(axis=0)
    gram = rows.T @ rows if rows.shape[1] <= len(rows) else rows @ rows.T
    return np.maximum(np.linalg.eigvalsh(gram), 0.0)


def label_information(likelihood: SpreadLikelihood, theta: np.ndarray) -> np.ndarray:
    """Return the eigenvalues of F, the mean information of a randomised label on the scores."""
    clean = likelihood.features.expected(theta)[0]
    shares = np.column_stack([1 - clean, clean]) if clean.ndim == 1 else clean
    channel = likelihood.channel
    chances = np.maximum(shares @ channel.T, np.finfo(float).tiny)
    # J = P diag(p) - Pp p^T, so that J^T diag(1/Pp) J = diag(p) P^T diag(1/Pp) P diag(p) - p p^T.
    weighted = np.einsum("ni,ik,il->nkl", 1 / chances, channel, channel, optimize=True)
    weighted *= shares[:, :, None] * shares[:, None, :]
    mean = weighted.mean(axis=0) - shares.T @ shares / len(shares)
    if theta.ndim == 1:  # one score, of the second class
        return np.maximum(mean[1:, 1], 0.0)
    return np.maximum(np.linalg.eigvalsh(mean), 0.0)


def _cross_validated(
    likelihood: SpreadLikelihood, max_iter: int, rng: np.random.Generator
) -> float:
    """Return the penalty whose models give held-out labels the largest likelihood.

    Five folds, twice. (Taking the strongest penalty within a standard error of the best, Breiman et
    al. 1984, left nothing of a weak signal.)
    """
    losses = np.zeros(len(_LAMS))
    for _ in range(_REPEATS):
        folds = rng.permutation(len(likelihood.codes)) % _FOLDS
        for fold in range(_FOLDS):
            held_out = folds == fold
            fitted, tested = likelihood.select_rows(~held_out), likelihood.select_rows(held_out)
            losses += _path(fitted, tested, max_iter)
    return float(_LAMS[int(np.argmin(losses))])


def held_out_link(
    likelihood: SpreadLikelihood, lam: float, *, max_iter: int, seed: int = 0
) -> Moderated:
    """Return what turns scores into log-odds of fresh rows: a slope, and a shift of the constant.

    Scores are those of models that were learnt from the records of all other folds. Where labels
    tell little, models are too sure of themselves at any penalty that keeps a weak signal. So the
    slope is integrated out (`suffice.learner.moderation`).
    """
    count = len(likelihood.codes)
    rng = np.random.default_rng(seed)
    order = rng.permutation(count)[:_MOST_RECORDS]
    sample = likelihood if len(order) == count else likelihood.select_rows(np.sort(order))
    folds = rng.permutation(len(order)) % _FOLDS
    fold_lam = lam * count / len(order)
    pairs = []
    for held_out in (folds == fold for fold in range(_FOLDS)):
        training = sample.select_rows(~held_out)
        theta, _, _ = maximise(training, fold_lam, tol=1e-4, max_iter=max_iter)
        pairs.append((sample.select_rows(held_out), theta))

    def expected(slope: float, shift: np.ndarray) -> np.ndarray:
        return np.vstack(
            [by_class(part.features.expected(part.linked(t, slope, shift))[0]) for part, t in pairs]
        )

    scores = np.concatenate([part.features.expected_rows @ theta for part, theta in pairs])
    if scores.ndim == 1:
        scores = np.column_stack([np.zeros_like(scores), scores])
    return moderated_by_labels(
        scores,
        np.concatenate([part.codes for part, _ in pairs]),
        likelihood.channel,
        expected=None if is_exact(likelihood.features) else expected,
        shifted=likelihood.constant,
    )


def _path(fit: SpreadLikelihood, held_out: SpreadLikelihood, max_iter: int) -> np.ndarray:
    """Return the held-out loss at every penalty, from the strongest on."""
    losses = np.full(len(_LAMS), np.inf)
    start, worse = None, 0
    for i in reversed(range(len(_LAMS))):
        start, _, _ = maximise(fit, float(_LAMS[i]), tol=1e-4, max_iter=max_iter, start=start)
        losses[i] = held_out(start)[0]
        worse = worse + 1 if losses[i] > losses.min() else 0
        if worse == _RISES:
            losses[:i] = losses[i]  # weaker penalties overfit more
            break
    return losses
