"""The spread likelihood of corrupted labels, given what corrupted features say of the clean ones.

With the label channel P and the clean model p(c | x) (Barber 2020, Section 5), a corrupted record
has the likelihood

    p(c~ | x~) = sum_c P[c~ | c] E[p(c | x) | x~].

The expectation is a matter of what is known of the clean record (`Knowledge`); this module has the
one for moments: given x~, the clean score z = theta^T x is Gaussian with mean m and variance v, by
model or since it sums many independent columns. The logistic function is a mixture of normal
distribution functions, phi(z) = sum_k w_k Phi(s_k z) to 5e-6 (Monahan & Stefanski 1992), and so

    E[phi(z)] = sum_k w_k Phi(s_k m / sqrt(1 + s_k^2 v)):

smooth in theta, closed, and a few hundred times closer than phi(m / sqrt(1 + pi v / 8)) (MacKay
1992), whose error of .017 would not fall with more records. For K classes phi becomes the
normalised product over pairs (Lu, Ie & Sha 2020),

    E[p(k | x)] ~ 1 / (1 + sum_j (1 / E[phi(z_k - z_j)] - 1)),

the same for K = 2, an approximation for more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, ndtr, softmax

from suffice.errors import OptimisationError, ParameterError
from suffice.learner.calibration import Calibration, calibrate_by_labels
from suffice.learner.frequencies import deconvolve, observed_frequencies
from suffice.learner.weak import FOLDS
from suffice.models.problem import one_blas_thread
from suffice.releases.columns import Added, DeclaredColumn, Flips, SpreadColumn

# phi(z) = sum_k w_k Phi(s_k z): least largest error with four terms, 5.0e-6 over all z (tested).
_WEIGHTS = (0.1082489, 0.4602303, 0.3716470, 0.0598738)
_SLOPES = (1.0210243, 0.6969911, 0.4738997, 0.3203917)
_LEAST_CHANCE = 1e-100  # of a probability that divides: its square must not vanish

Pull = Callable[[np.ndarray], np.ndarray]


def expected_logistic(
    mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return E[phi(z)] of z ~ N(mean, variance), and its derivatives by mean and variance."""
    value, by_mean, by_variance = (np.zeros_like(mean) for _ in range(3))
    for weight, slope in zip(_WEIGHTS, _SLOPES, strict=True):
        scale = slope / np.sqrt(1 + slope**2 * variance)
        argument = scale * mean
        density = (weight / np.sqrt(2 * np.pi)) * scale * np.exp(-(argument**2) / 2)
        value += weight * ndtr(argument)
        by_mean += density
        by_variance -= density * mean * scale**2 / 2
    return value, by_mean, by_variance


@dataclass(frozen=True, eq=False)
class CleanFeatures:
    """Holds mean and covariance of every clean record x given its corrupted one.

    ``mean`` is (n, d). The covariance is diag(spread_i) - sum_b (mean_ib)(mean_ib)^T + root root^T:
    ``spread`` (n, d) holds variances, or E[x^2] for the coordinates of a one-hot ``block`` b, whose
    coordinates exclude each other (``blocks`` (d, B) marks them); ``root`` (d, r) is shared by all
    records. None of the three for records that are known exactly.
    """

    mean: np.ndarray
    spread: np.ndarray | None = None
    blocks: np.ndarray | None = None
    root: np.ndarray | None = None

    @property
    def width(self) -> int:
        """The number of coordinates."""
        return self.mean.shape[1]

    @property
    def expected_rows(self) -> np.ndarray:
        """E[x] of each clean record."""
        return self.mean

    @property
    def exact(self) -> bool:
        """Whether the records are known exactly."""
        return self.spread is None and self.root is None

    def select_rows(self, rows: np.ndarray) -> "CleanFeatures":
        """Return what is known of some of the records."""
        spread = None if self.spread is None else self.spread[rows]
        return replace(self, mean=self.mean[rows], spread=spread)

    def expected(self, theta: np.ndarray) -> tuple[np.ndarray, Pull]:
        """Return E[p(c | x)] of each record, and the map of gradients back to ``theta``.

        Of two classes, with weights (d,), it is the probability of the second, (n,); of more, with
        weights (d, K), all probabilities, (n, K). The map takes derivatives by these numbers to
        derivatives by ``theta``.
        """
        scores = self.mean @ theta
        if self.exact:
            clean, by_score = model(scores)
            return clean, lambda by_clean: self.mean.T @ by_score(by_clean)
        if theta.ndim == 1:
            positive, by_mean, by_variance = expected_logistic(scores, self.variances(theta))

            def pull_of_one(by_positive: np.ndarray) -> np.ndarray:
                moved = self.covariance_times(2 * by_positive * by_variance, theta)
                return np.asarray(self.mean.T @ (by_positive * by_mean) + moved)

            return positive, pull_of_one
        classes = theta.shape[1]
        pairs = [(k, j) for k in range(classes) for j in range(classes) if j != k]
        gaps = {pair: theta[:, pair[0]] - theta[:, pair[1]] for pair in pairs}
        variances = {(k, j): self.variances(gaps[k, j]) for k, j in pairs if j < k}
        expectations = {
            (k, j): expected_logistic(scores[:, k] - scores[:, j], variances[max(k, j), min(k, j)])
            for k, j in pairs
        }
        odds = np.ones((len(scores), classes))
        for (k, _), (chance, _, _) in expectations.items():
            odds[:, k] += 1 / np.maximum(chance, _LEAST_CHANCE) - 1
        shares = 1 / odds
        total = shares.sum(axis=1, keepdims=True)
        clean = shares / total

        def pull(by_clean: np.ndarray) -> np.ndarray:
            by_share = (by_clean - (by_clean * clean).sum(axis=1, keepdims=True)) / total
            gradient = np.zeros_like(theta)
            for (k, j), (chance, by_mean, by_variance) in expectations.items():
                ratio = shares[:, k] / np.maximum(chance, _LEAST_CHANCE)
                by_chance = by_share[:, k] * ratio**2
                moved = self.mean.T @ (by_chance * by_mean)
                moved += self.covariance_times(2 * by_chance * by_variance, gaps[k, j])
                gradient[:, k] += moved
                gradient[:, j] -= moved
            return gradient

        return clean, pull

    def variances(self, theta: np.ndarray) -> np.ndarray:
        """Return theta^T Cov(x | x~) theta for every record."""
        total = np.zeros(len(self.mean))
        if self.spread is not None:
            total += self.spread @ theta**2
        if self.blocks is not None:
            total -= ((self.mean * theta) @ self.blocks) ** 2 @ np.ones(self.blocks.shape[1])
        if self.root is not None:
            total += float(np.sum((self.root.T @ theta) ** 2))
        return np.maximum(total, 0.0)

    def covariance_times(self, pulls: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return sum_i pulls_i Cov_i theta, half the gradient of their sum of variances."""
        total = np.zeros_like(theta)
        if self.spread is not None:
            total += (self.spread.T @ pulls) * theta
        if self.blocks is not None:
            scores = (self.mean * theta) @ self.blocks
            total -= np.einsum("nd,nb,db->d", self.mean, pulls[:, None] * scores, self.blocks)
        if self.root is not None:
            total += pulls.sum() * (self.root @ (self.root.T @ theta))
        return total


def by_class(clean: np.ndarray) -> np.ndarray:
    """Return probabilities (n, K) of what `expected` of them returns."""
    return np.column_stack([1 - clean, clean]) if clean.ndim == 1 else clean


def model(scores: np.ndarray) -> tuple[np.ndarray, Pull]:
    """Return the clean model's p(c | x) at given scores, and the map of gradients back to them."""
    if scores.ndim == 1:
        positive = expit(scores)
        return positive, lambda by: by * positive * (1 - positive)
    clean = softmax(scores, axis=1)
    return clean, lambda by: clean * (by - (by * clean).sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class JointStates:
    """Holds the clean combinations and p(x | x~) for each observed one.

    Let x run over the M = K_1 K_2 ... combinations of states. Columns are randomised one by one, so

        P[x~ | x] = prod_j P_j[x~_j | x_j],   p(x | x~) = p(x) P[x~ | x] / sum_x' p(x') P[x~ | x'],

    and the expectation of the clean model is a finite sum, without any approximation of the score.
    With p(x) learnt by EM over the combinations, features may depend on each other in any way: the
    estimate is consistent where independent columns (Barber 2020, Section 5) are not.

    ``points`` (M, d) are the coordinates of the combinations, the constant one last; ``posterior``
    (M, M) has one row per observed combination; ``observed`` (n,) says which one each record shows.
    """

    points: np.ndarray
    posterior: np.ndarray
    observed: np.ndarray
    exact: ClassVar[bool] = False

    @property
    def width(self) -> int:
        """The number of coordinates."""
        return self.points.shape[1]

    @property
    def expected_rows(self) -> np.ndarray:
        """E[x] of each clean record."""
        return np.asarray((self.posterior @ self.points)[self.observed])

    def select_rows(self, rows: np.ndarray) -> "JointStates":
        """Return what is known of some of the records."""
        return replace(self, observed=self.observed[rows])

    def expected(self, theta: np.ndarray) -> tuple[np.ndarray, Pull]:
        """Return E[p(c | x)] of each record, and the map of gradients back to ``theta``."""
        clean, by_score = model(self.points @ theta)

        def pull(by_clean: np.ndarray) -> np.ndarray:
            columns = by_clean.reshape(len(self.observed), -1).T
            sums = [np.bincount(self.observed, c, len(self.posterior)) for c in columns]
            by_combination = self.posterior.T @ np.stack(sums, axis=1)
            return np.asarray(self.points.T @ by_score(by_combination.reshape(clean.shape)))

        return (self.posterior @ clean)[self.observed], pull


Knowledge = CleanFeatures | JointStates  # what is known of every clean record


@dataclass(frozen=True, eq=False)
class SpreadLikelihood:
    """Computes the mean negative log likelihood of corrupted labels, and its gradient.

    ``features`` say what is known of each clean record. ``codes`` are the observed labels,
    ``channel`` P with P_ij = P[observed i | true j], not always square. Two classes have one weight
    vector (d,), more a matrix (d, K). ``constant``: whether the last coordinate is the constant
    one, whose weight bears no penalty (as scikit-learn's does not): else a strong penalty would tie
    the threshold to where the features' zero happens to be.
    """

    features: Knowledge
    codes: np.ndarray
    channel: np.ndarray
    constant: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameters."""
        width, classes = self.features.width, self.channel.shape[1]
        return (width,) if classes == 2 else (width, classes)

    def linked(self, theta: np.ndarray, slope: float, shift: np.ndarray) -> np.ndarray:
        """Return weights whose scores are ``slope`` times those of ``theta``, plus ``shift`` (K,).

        The shift goes into the constant's weight, if there is one.
        """
        weights = slope * theta
        if self.constant:
            constant = float(self.features.expected_rows[0, -1])
            weights[-1] += (shift[1] - shift[0] if theta.ndim == 1 else shift) / constant
        return np.asarray(weights)

    def select_rows(self, rows: np.ndarray) -> "SpreadLikelihood":
        """Return the likelihood of some of the records."""
        return replace(self, features=self.features.select_rows(rows), codes=self.codes[rows])

    def sample(self, rng: np.random.Generator) -> "SpreadLikelihood":
        """Return the likelihood of at most 20,000 records, on which a penalty is chosen."""
        order = rng.permutation(len(self.codes))[:_MOST_RECORDS]
        return self if len(order) == len(self.codes) else self.select_rows(np.sort(order))

    def __call__(self, theta: np.ndarray, lam: float = 0.0) -> tuple[float, np.ndarray]:
        """Return -(1/n) sum_i log p(c~_i) + (lam/2) ||w||^2, w without constant; its gradient."""
        clean, pull = self.features.expected(theta)
        if theta.ndim == 1:
            base, gain = self.channel[:, 0], self.channel[:, 1] - self.channel[:, 0]
            slope = gain[self.codes]
            chance = base[self.codes] + slope * clean
        else:
            slope = self.channel[self.codes]
            chance = (slope * clean).sum(axis=1)
        chance = np.maximum(chance, 1e-300)
        by_clean = -(slope.T / chance).T / len(self.codes)
        size, by_size = self.ridge(theta, lam)
        return size - float(np.log(chance).mean()), pull(by_clean) + by_size

    def ridge(self, theta: np.ndarray, lam: float) -> tuple[float, np.ndarray]:
        """Return (lam/2) ||w||^2 and its gradient."""
        weights = theta.copy()
        if self.constant:
            weights[-1] = 0.0
        return lam / 2 * float(np.vdot(weights, weights)), lam * weights


Prior = str | Sequence[np.ndarray]

LEAST_VARIANCE = 1e-6  # of a clean coordinate, whose range has the half width 1
_FLAT_VARIANCE = 10.0  # prior of a continuous coordinate that nothing is known of (Section 6.1)


@dataclass(frozen=True, eq=False)
class Corrupted:
    """Holds corrupted records: a column of codes or of values for each of ``columns``, in order."""

    columns: tuple[SpreadColumn, ...]
    cells: tuple[np.ndarray, ...]

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self.cells[0]) if self.cells else 0

    def groups(self) -> Mapping[tuple[Any, ...], list[int]]:
        """Return the positions of columns that share states (or range) and noise."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for position, column in enumerate(self.columns):
            groups.setdefault((column.states, column.noise), []).append(position)
        return groups


def check_prior(records: Corrupted, prior: Prior) -> None:
    """Raise unless there are columns to learn from, and a given prior is about them."""
    if not records.columns:
        raise ParameterError(
            "This release has answers to one question and no columns to learn from. Use `suffice"
            " frequencies` (Python: estimate_frequencies)."
        )
    if isinstance(prior, str):
        return
    if len(prior) != len(records.columns):
        raise ParameterError(
            f"prior must hold one array for each of the {len(records.columns)} columns."
        )
    for column, own_prior in zip(records.columns, prior, strict=True):
        values = np.asarray(own_prior, dtype=np.float64)
        if column.states is None:
            if values.shape != (2,) or not np.isfinite(values).all() or values[1] <= 0:
                raise ParameterError(
                    "prior must hold the mean and the variance of each continuous column."
                )
        elif values.shape != (len(column.states),) or not (values >= 0).all() or not values.any():
            raise ParameterError(
                "prior must hold one probability for each possible value of a discrete column."
            )


def coordinates(column: DeclaredColumn) -> np.ndarray:
    """Return what each state of a discrete column becomes, (states, width)."""
    states = column.states or ()
    if not column.numeric:
        return np.eye(len(states))
    middle, half = column.scale
    return ((np.array(states, dtype=np.float64) - middle) / half)[:, None]


def clean_features(records: Corrupted, prior: Prior) -> CleanFeatures:
    """Return mean and spread of the clean coordinates under independent columns; constant last.

    A column's states are coordinates: numbers scaled to [-1, 1] by the declared domain, texts one
    coordinate each (one-hot). A discrete cell o gives

        p(k | o) = p(k) P_ok / sum_j p(j) P_oj,

    so that mean and spread of a coordinate are a table with one entry per observed state: looking
    it up costs O(1) per cell. A continuous cell under a Gaussian prior N(mu, s^2) and noise of
    variance t has mean (x~ s^2 + mu t) / (s^2 + t) and variance s^2 t / (s^2 + t) (Barber 2020,
    eq. 68-69).

    ``prior``: "flat" (all states alike; a wide Gaussian), "marginals" learnt from the corrupted
    records themselves, or one array per column: probabilities of its states, or (mean, variance).
    """
    means: list[np.ndarray | None] = [None] * len(records.columns)
    spreads: list[np.ndarray | None] = [None] * len(records.columns)
    for (_, noise), positions in records.groups().items():
        own_priors = None if isinstance(prior, str) else [np.asarray(prior[j]) for j in positions]
        cells = np.stack([records.cells[j] for j in positions], axis=1)
        column = records.columns[positions[0]]
        if isinstance(noise, Flips):
            marginals, states = marginals_of(cells, noise, prior, own_priors), coordinates(column)
            evidence = (marginals @ noise.matrix.T)[:, :, None]  # P[o], of each column
            first, second = (
                np.einsum("ck,kw,ok->cow", marginals, s, noise.matrix, optimize=True) / evidence
                for s in (states, states**2)
            )
            if column.numeric:  # a number's variance; one-hot coordinates keep E[x^2] = E[x]
                second = np.maximum(second - first**2, 0.0)
            picked = np.arange(len(positions))
            own_mean, own_spread = first[picked, cells], second[picked, cells]
        else:
            own_mean, own_spread = gaussian_posterior(cells, noise, prior, own_priors)
        for index, j in enumerate(positions):
            means[j], spreads[j] = own_mean[:, index], own_spread[:, index]
    mean = np.hstack([*(m for m in means if m is not None), np.ones((records.count, 1))])
    spread = np.hstack([*(s for s in spreads if s is not None), np.zeros((records.count, 1))])
    starts = np.concatenate([[0], np.cumsum([c.width for c in records.columns])])
    hot = [j for j, c in enumerate(records.columns) if not c.numeric]
    blocks = np.zeros((mean.shape[1], len(hot)))
    for b, j in enumerate(hot):
        blocks[starts[j] : starts[j + 1], b] = 1.0
    return CleanFeatures(mean, spread, blocks if hot else None)


def marginals_of(
    cells: np.ndarray, noise: Flips, prior: object, own_priors: list[np.ndarray] | None
) -> np.ndarray:
    """Return p(k) of every column, (columns, states)."""
    if own_priors is not None:
        marginals = np.stack(own_priors).astype(np.float64)
        return marginals / marginals.sum(axis=1, keepdims=True)
    if prior == "flat":
        return np.full((cells.shape[1], noise.states), 1 / noise.states)
    return deconvolve(observed_frequencies(cells, noise.states), noise)


def gaussian_posterior(
    cells: np.ndarray, noise: Added, prior: object, own_priors: list[np.ndarray] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance (n, columns, 1) of continuous cells under Gaussian priors."""
    observed, added = noise.scaled(cells), noise.scaled_variance
    if own_priors is not None:
        pairs = np.stack(own_priors).astype(np.float64)
        centre, own = noise.scaled(pairs[:, 0]), pairs[:, 1] / noise.half**2
    elif prior == "flat":
        centre, own = np.zeros(cells.shape[1]), np.full(cells.shape[1], _FLAT_VARIANCE)
    else:
        centre = np.clip(observed.mean(axis=0), -1, 1)
        own = np.clip(observed.var(axis=0) - added, LEAST_VARIANCE, 1.0)
    mean = (observed * own + centre * added) / (own + added)
    spread = np.broadcast_to(own * added / (own + added), mean.shape)
    return mean[:, :, None], spread[:, :, None]


_LAMS = 10.0 ** np.arange(-5.0, 1.01, 0.5)
_EVIDENCE_LAMS = 10.0 ** np.arange(-5.0, 1.51, 0.25)
_MOST_RECORDS = 20_000  # that a penalty and a slope are chosen on
_HOPELESS = 20.0  # log evidence below the best, from which on weaker penalties are not tried


@one_blas_thread()
def maximise(
    likelihood: SpreadLikelihood,
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

    Exact labels: by the likelihood of held-out records. Randomised labels: by the evidence, that is
    the probability of all labels with the weights integrated out (empirical Bayes). Held-out
    randomised labels are few and mostly noise: at flips of .4, 500 of them weigh as much as 20
    exact ones, and a choice by them loses 3 points of accuracy (lab/bench/label_noise.py).

    No clean record is needed: the corrupted ones have a likelihood of their own. Of more than
    20,000 records a sample decides, and the penalty falls with their number, as the best one does.
    """
    count = len(likelihood.codes)
    if count < 2 * FOLDS:
        raise ParameterError(
            f"{count} records are too few to choose the weight of the penalty. Set it with"
            " --penalty-weight (Python: lam=...)."
        )
    rng = np.random.default_rng(seed)
    sample = likelihood.sample(rng)
    exact = np.array_equal(likelihood.channel, np.eye(*likelihood.channel.shape))
    if not exact:
        return most_evident_lam(sample, max_iter) * len(sample.codes) / count
    # Five folds, twice. (Taking the strongest penalty within a standard error of the best, Breiman
    # et al. 1984, left nothing of a weak signal.)
    total = np.zeros(len(_LAMS))
    for folds in (rng.permutation(len(sample.codes)) % FOLDS for _ in range(2)):
        for held_out in (folds == fold for fold in range(FOLDS)):
            fitted, tested = sample.select_rows(~held_out), sample.select_rows(held_out)
            losses, start, worse = np.full(len(_LAMS), np.inf), None, 0
            for i in reversed(range(len(_LAMS))):  # from the strongest penalty on
                lam = float(_LAMS[i])
                start, _, _ = maximise(fitted, lam, tol=1e-4, max_iter=max_iter, start=start)
                losses[i] = tested(start)[0]
                worse = worse + 1 if losses[i] > losses.min() else 0
                if worse == 3:
                    losses[:i] = losses[i]  # weaker penalties overfit more
                    break
            total += losses
    return float(_LAMS[int(np.argmin(total))]) * len(sample.codes) / count


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
    shares, channel = by_class(likelihood.features.expected(theta)[0]), likelihood.channel
    chances = np.maximum(shares @ channel.T, np.finfo(float).tiny)
    # J = P diag(p) - Pp p^T, so that J^T diag(1/Pp) J = diag(p) P^T diag(1/Pp) P diag(p) - p p^T.
    weighted = np.einsum("ni,ik,il->nkl", 1 / chances, channel, channel, optimize=True)
    weighted *= shares[:, :, None] * shares[:, None, :]
    mean = weighted.mean(axis=0) - shares.T @ shares / len(shares)
    if theta.ndim == 1:  # one score, of the second class
        return np.maximum(mean[1:, 1], 0.0)
    return np.maximum(np.linalg.eigvalsh(mean), 0.0)


def held_out_link(
    likelihood: SpreadLikelihood, lam: float, *, max_iter: int, seed: int = 0
) -> Calibration:
    """Return what turns scores into log-odds of fresh rows: a slope, and a shift of the constant.

    Scores are those of models that were learnt from the records of all other folds. Where labels
    tell little, models are too sure of themselves at any penalty that keeps a weak signal. So the
    slope is integrated out (`suffice.learner.calibration`).
    """
    rng = np.random.default_rng(seed)
    sample = likelihood.sample(rng)
    folds = rng.permutation(len(sample.codes)) % FOLDS
    fold_lam = lam * len(likelihood.codes) / len(sample.codes)
    pairs = []
    for held_out in (folds == fold for fold in range(FOLDS)):
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
    return calibrate_by_labels(
        scores,
        np.concatenate([part.codes for part, _ in pairs]),
        likelihood.channel,
        expected=None if likelihood.features.exact else expected,
        shifted=likelihood.constant,
    )
