"""Calibrate probabilities: average the link over the posterior of its slope.

A model's scores u rank rows; how sure its classes are must be learnt from randomised labels, or
from a noisy mean operator, which tell little of it. One best slope is then far too sure, or says
nothing. So the slope is integrated out (MacKay 1992, "moderated" outputs): p(k | x) is the mean of
softmax(slope u + shift) over all slopes, as what was released makes them likely. A priori the part
R^2 of the labels' variance that scores explain is zero, or any size of it is as likely as another
on a logarithmic scale, as in `suffice.learner.denoise`, and

    slope = R / (1 - R^2) / s,    s^2 = E_x Var_k(u_k) over the class proportions,

which is linear discriminant analysis for two classes. The shift makes the mean probability of every
class its proportion, which has a posterior of its own (`class_proportions`). With little
information probabilities so come close to the proportions, and with much to those of the most
likely slope. No limit is needed at which they are refused.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln, expit, log_ndtr, logit, logsumexp, ndtri, softmax
from scipy.stats import norm

from suffice.kernels.models import softmax_shares

# log10 R^2 of slopes: its range, and the steps of a coarse and a fine grid. Halving the steps moves
# probabilities by less than 1e-3.
_EXPONENT_RANGE = (-2.5, -0.01)
_COARSE_STEP, _FINE_STEP = 0.1, 0.02
_LIKELY_GAP = 12.0  # log likelihood below the best at which a slope counts for nothing
_ENOUGH_STEPS = 8  # coarse ones that are likely: with fewer, finer ones are taken between them
_SCORE_BINS = 1000  # of two classes
_GRID = (np.arange(1000) + 0.5) / 1000  # proportions of the second of two classes
_LARGEST_LABEL_MEAN = 0.98  # one class may be rare
_LARGEST_CORRELATION = 0.97  # of scores with labels
_LARGEST_GAUSSIAN_CORRELATION = 0.75  # the same where the tails of scores are not known
_GAUSSIAN_QUANTILES = 400  # of scores that stand for those of rows
_SMALLEST_SLOPE = 1e-6  # of standardised scores: predictions and probabilities agree
_TINY = np.finfo(float).tiny  # of a probability whose logarithm is taken

Expected = Callable[[float, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Calibration:
    """The link softmax(slope u + shift) that is nearest to the mean over all likely slopes."""

    slope: float  # 0 if scores tell nothing
    shift: np.ndarray  # (K,), 0 for the first class
    error: float = 0.0  # deviation of probabilities over likely slopes, mean of rows and classes

    def apply(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each class (n, K) for scores (n, K)."""
        return np.asarray(softmax(self.slope * scores + self.shift, axis=1))


@dataclass(frozen=True)
class ProductPrior:
    """What is known of E[u_y] beside a measured product: it may be 0, else it is near a mean."""

    mean: float
    deviation: float  # above 0
    chance: float  # that it is not 0

    def log_weight(self, product: float) -> float:
        """Return the prior's weight of a coarse step of slopes whose E[u_y] is ``product``.

        Without a slope it is 0. Else it is as likely as a normal variable above 0 is, and grows as
        the slope does: a step is a tenth of a power of ten of R^2.
        """
        if not product > 1e-9 * self.deviation:
            return float(np.log(max(1 - self.chance, _TINY)))
        step = product / self.deviation * np.log(10) * _COARSE_STEP / 2
        away = (product - self.mean) / self.deviation
        likely = norm.logpdf(away) - log_ndtr(self.mean / self.deviation)
        return float(np.log(max(self.chance * step, _TINY)) + likely)


def class_proportions(
    labels: np.ndarray, channel: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the posterior mean of class proportions, given randomised labels.

    A priori all proportions are as likely, but for one label of each class that is taken as known:
    an owner lists no class that cannot occur. For two classes the mean is exact, by a sum over a
    grid. For more, prior and likelihood are taken to be Gaussian, with the moments that they have.
    All are above 0. ``labels`` (n,) are codes, ``channel`` (L, K) holds
    P[z, y] = P(randomised label z | true label y), ``weights`` (n,) say how often a label counts.

    Examples
    --------
    >>> import numpy as np
    >>> channel = np.array([[0.6, 0.4], [0.4, 0.6]])
    >>> class_proportions(np.ones(3, dtype=int), channel).round(2)
    array([0.44, 0.56])
    """
    observed, classes = channel.shape
    counts = np.bincount(labels, weights, minlength=observed)
    if classes == 2:
        chances = np.maximum(channel @ np.stack([1 - _GRID, _GRID]), _TINY)
        second = _mean_share(counts @ np.log(chances))
        return np.array([1 - second, second])
    total = counts.sum()
    inverse = np.linalg.pinv(channel)
    smooth = (counts + 1) / (total + observed)
    error = inverse @ (np.diag(smooth) - np.outer(smooth, smooth)) @ inverse.T / total
    prior = (np.eye(classes) - 1 / classes) / (classes * (2 * classes + 1))  # Dirichlet's
    apart = inverse @ (counts / total) - 1 / classes
    mean = 1 / classes + prior @ np.linalg.pinv(prior + error) @ apart
    # A class that is listed may occur: a thousandth of an even share.
    mean = np.maximum(mean, 1e-3 / classes)
    return np.asarray(mean / mean.sum())


def expected_share(measured: float, error: float) -> float:
    """Return the posterior mean of a class's proportion that was measured with Gaussian noise.

    The prior is that of `class_proportions`. Noise may have thrown ``measured`` out of [0, 1].

    Examples
    --------
    >>> round(expected_share(1.2, 0.3), 1)
    0.7
    """
    if not error > 2 / len(_GRID):  # no prior matters
        return float(np.clip(measured, 0, 1))
    return _mean_share(-(((_GRID - measured) / error) ** 2) / 2)


def _mean_share(log_likelihoods: np.ndarray) -> float:
    """Return the mean proportion of the second class over the grid."""
    fits = log_likelihoods + np.log(_GRID * (1 - _GRID))
    likely = np.exp(fits - fits.max())
    return float(likely @ _GRID / likely.sum())


def expected_shares(measured: np.ndarray, error: float) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of the proportions of K classes, measured with Gaussian noise.

    A priori each is one of Dirichlet's proportions with some alpha, which all of them together make
    likely: of equal classes noise is removed, and of unequal ones their sizes stay.

    Examples
    --------
    >>> import numpy as np
    >>> expected_shares(np.array([0.95, 0.1, -0.05]), 0.05)[0].round(2)
    array([0.92, 0.07, 0.01])
    """
    classes, grid = len(measured), _GRID**2  # fine where proportions are small
    fits, means, squares = [], [], []
    # From most classes empty to all alike but for a tenth.
    for alpha in 10.0 ** np.arange(-0.5, 2.1, 0.5):
        rest = alpha * (classes - 1)
        prior = (alpha - 1) * np.log(grid) + (rest - 1) * np.log1p(-grid) - betaln(alpha, rest)
        logs = prior + np.log(_GRID) - ((grid - measured[:, None]) / error) ** 2 / 2
        total = logsumexp(logs, axis=1, keepdims=True)
        likely = np.exp(logs - total)
        fits.append(float(total.sum()))
        means.append(likely @ grid)
        squares.append(likely @ grid**2)
    weights = softmax(fits)
    mean, square = weights @ np.array(means), weights @ np.array(squares)
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    mean = np.maximum(mean, 1e-3 / classes)  # as in `class_proportions`
    return mean / mean.sum(), deviation


def calibrate_by_labels(
    scores: np.ndarray,
    labels: np.ndarray,
    channel: np.ndarray,
    weights: np.ndarray | None = None,
    expected: Expected | None = None,
    *,
    shifted: bool = True,
) -> Calibration:
    """Return the link of scores, with the slope integrated out, from randomised labels.

    ``scores`` u (n, K) are of models that have not seen the labels of these rows; ``labels``,
    ``channel`` and ``weights`` are those of `class_proportions`. ``expected`` returns the
    probabilities (n, K) for a slope and a shift (K,), where they are more than
    softmax(slope u + shift) because rows are known with an error. Models without a constant are
    not ``shifted``.
    """
    counts = np.ones(len(labels)) if weights is None else weights
    shares = class_proportions(labels, channel, weights)
    if expected is None and len(shares) == 2 and len(labels) > _SCORE_BINS:
        scores, labels, counts = _binned(scores, labels, counts)
    chances = channel[labels]

    def log_likelihood(p: np.ndarray) -> float:
        return float(counts @ np.log(np.maximum((chances * p).sum(axis=1), _TINY)))

    return _moderated(scores, counts, shares, log_likelihood, expected, shifted=shifted)


def calibrate_by_product(
    scores: np.ndarray,
    shares: np.ndarray,
    product: float,
    error: float,
    *,
    shifted: bool = True,
    prior: ProductPrior | None = None,
) -> Calibration:
    """Return the link of scores u (n, K), with the slope integrated out, from E[u_y].

    ``product`` is E[u_y], the mean score of the true class, as a mean operator says it, without
    what the model has learnt from noise; ``error`` its standard deviation, above 0. ``shares`` (K,)
    are the class proportions. Models without a constant are not ``shifted``. ``prior`` is what is
    known of E[u_y] beside the product.
    """
    counts = np.ones(len(scores))
    if len(shares) == 2 and len(scores) > _SCORE_BINS:
        product -= float(scores[:, 0].mean())  # scores of a row count by their difference
        scores, _, counts = _binned(scores, np.zeros(len(scores), dtype=int), counts)
    rows = counts / counts.sum()

    def log_likelihood(p: np.ndarray) -> float:
        expected = float(rows @ (p * scores).sum(axis=1))
        likely = -(((product - expected) / error) ** 2) / 2
        return likely if prior is None else likely + prior.log_weight(expected)

    return _moderated(scores, counts, shares, log_likelihood, shifted=shifted)


def _moderated(
    scores: np.ndarray,
    counts: np.ndarray,
    shares: np.ndarray,
    log_likelihood: Callable[[np.ndarray], float],
    expected: Expected | None = None,
    *,
    shifted: bool = True,
) -> Calibration:
    """Return the mean link over slopes, as ``log_likelihood`` of probabilities weighs them."""
    rows = counts / counts.sum()
    centre = rows @ scores if shifted else np.zeros(len(shares))
    apart = scores - centre
    apart = apart - (apart @ shares)[:, None]
    size = float(np.sqrt(rows @ (apart**2 @ shares)))
    if not size > 1e-12 * (1 + float(np.abs(centre).max())):
        shift = np.log(shares / shares[0]) if shifted else np.zeros(len(shares))
        return Calibration(0.0, shift, 0.0)
    candidates = _Candidates(
        expected or (lambda slope, shift: softmax_shares(slope * scores + shift)),
        log_likelihood, rows, shares if shifted else None, centre, size,
    )  # fmt: skip
    exponents = np.append(-np.inf, np.arange(*_EXPONENT_RANGE, _COARSE_STEP))  # none, and some
    links = candidates.links(exponents)
    likely = exponents[_likelihoods(links) > np.exp(-_LIKELY_GAP)]
    if likely[0] > -np.inf and len(likely) < _ENOUGH_STEPS:
        ends = likely[0] - _COARSE_STEP, min(likely[-1] + _COARSE_STEP, _EXPONENT_RANGE[1])
        links = candidates.links(np.arange(*ends, _FINE_STEP))
    return _nearest_link(candidates.expected, links, scores, rows, shifted=shifted)


def _binned(
    scores: np.ndarray, labels: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of two classes with nearly equal scores as one row for each label."""
    difference = scores[:, 1] - scores[:, 0]
    order = np.argsort(difference, kind="stable")
    before = np.cumsum(counts[order]) - counts[order] / 2
    bins = np.empty(len(order), dtype=int)
    bins[order] = (before * _SCORE_BINS / counts.sum()).astype(int)
    observed = int(labels.max()) + 1
    cells = bins * observed + labels
    totals = np.bincount(cells, counts)
    filled = np.flatnonzero(totals)
    means = np.bincount(cells, counts * difference)[filled] / totals[filled]
    return np.column_stack([np.zeros_like(means), means]), filled % observed, totals[filled]


@dataclass(frozen=True, eq=False)
class _Link:
    """One slope and its shift, and the log likelihood of held-out labels."""

    slope: float
    shift: np.ndarray
    log_likelihood: float


def _likelihoods(links: list[_Link]) -> np.ndarray:
    """Return likelihoods as parts of the largest."""
    logs = np.array([link.log_likelihood for link in links])
    return np.asarray(np.exp(logs - logs.max()))


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Computes links by R^2. ``shares`` are class proportions; None: there is no shift."""

    expected: Expected
    log_likelihood: Callable[[np.ndarray], float]
    rows: np.ndarray
    shares: np.ndarray | None
    centre: np.ndarray
    size: float

    def links(self, exponents: np.ndarray) -> list[_Link]:
        """Return the links of R^2 = 10^exponent, from the flattest on."""
        links = []
        slope, shift = 0.0, np.zeros(len(self.centre))
        if self.shares is not None:
            shift = np.log(self.shares)
        for part in 10.0**exponents:
            before, slope = slope, float(np.sqrt(part) / (1 - part) / self.size)
            if self.shares is not None:
                shift = shift - (slope - before) * self.centre
                for _ in range(6):  # steps of Newton, until mean probabilities are the proportions
                    p = self.expected(slope, shift)
                    gap = self.shares - self.rows @ p
                    if np.allclose(gap, 0.0, rtol=0.0, atol=1e-5):
                        break
                    # Rows that are known with an error have a little less curvature than these.
                    curvature = np.diag(self.rows @ p) - (p.T * self.rows) @ p
                    step = np.linalg.lstsq(curvature, gap, rcond=1e-10)[0]
                    shift = shift + step * min(1.0, 2 / max(float(np.abs(step).max()), _TINY))
            fit = self.log_likelihood(self.expected(slope, shift))
            links.append(_Link(slope, shift, fit))
        return links


def _nearest_link(
    expected: Expected, links: list[_Link], scores: np.ndarray, rows: np.ndarray, *, shifted: bool
) -> Calibration:
    """Return the link of least Kullback-Leibler divergence from the mean over ``links``."""
    likely = _likelihoods(links)
    likely /= likely.sum()
    used = [(part, link) for part, link in zip(likely, links, strict=True) if part > _TINY]
    mean, square = np.zeros_like(scores), np.zeros_like(scores)
    for part, link in used:
        p = expected(link.slope, link.shift)
        mean += part * p
        square += part * p**2
    deviations = np.sqrt(np.maximum(square - mean**2, 0.0))
    mean = mean / mean.sum(axis=1, keepdims=True)

    def divergence(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        linked = parameters[0] * scores + np.append(0.0, parameters[1:])
        normaliser = logsumexp(linked, axis=1)
        value = float(rows @ (normaliser - (mean * linked).sum(axis=1)))
        gaps = rows[:, None] * (np.exp(linked - normaliser[:, None]) - mean)
        return value, np.append((gaps * scores).sum(), gaps.sum(axis=0)[1:])

    slope = sum(part * link.slope for part, link in used)
    shift = np.sum([part * link.shift for part, link in used], axis=0)
    start = np.append(slope, shift[1:] - shift[0])
    bounds = [(0.0, None)] + [(None, None) if shifted else (0.0, 0.0)] * (len(shift) - 1)
    best = minimize(divergence, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    error = float((rows @ deviations).mean())
    return Calibration(float(best[0]), np.append(0.0, best[1:]), error)


def class_probabilities(scores: np.ndarray) -> np.ndarray:
    """Return the probability of each class: of one score per row by its link, else in proportion.

    Scores of three classes or more are log odds of each class against all others.
    """
    positive = expit(scores)
    if scores.ndim == 1:
        return np.column_stack([1 - positive, positive])
    total = positive.sum(axis=1, keepdims=True)
    return np.asarray(positive / np.maximum(total, 1e-300))


@dataclass(frozen=True)
class LabelMeans:
    """What is known of labels: E[y s] and E[y], and the standard deviation of the first."""

    product: float  # E[y s], without the part that the model has learnt from noise
    error: float  # the standard deviation of it by noise
    mean: float | None  # E[y]; None if it is not known: then scores of 0 count as undecided

    @property
    def balance(self) -> float:
        """E[y], held away from -1 and +1; 0 if it is not known."""
        if self.mean is None:
            return 0.0
        return float(np.clip(self.mean, -_LARGEST_LABEL_MEAN, _LARGEST_LABEL_MEAN))


@dataclass(frozen=True)
class LogOdds:
    """The log odds of the second class: ``slope`` times the score, plus ``offset``."""

    slope: float
    offset: float


def log_odds_of_scores(
    scores: np.ndarray, labels: LabelMeans, most: float = _LARGEST_CORRELATION
) -> LogOdds:
    """Return the log odds of least logistic risk over unlabelled rows with these scores.

    Of labels y = -1 or +1 and scores s, the mean operator gives E[y] and E[y s]. The logistic risk
    of slope a and offset c is E[log(2 cosh((a s + c)/2))] - (a E[y s] + c E[y])/2: its first part
    needs scores and no label (Patrini 2016, Theorem 3). So unlabelled rows calibrate scores as
    labelled ones would (Platt 1999). Without rows, scores of a class are taken to be Gaussian
    (`gaussian_log_odds`).

    Where E[y s] has an error, the slope is integrated out. No correlation of scores and labels
    above ``most`` is believed.
    """
    free = labels.mean is not None
    centre = float(scores.mean()) if free else 0.0
    size = float(np.sqrt(np.mean((scores - centre) ** 2)))
    if not size > 1e-12 * max(abs(centre), 1e-300):
        return LogOdds(0.0, float(logit((1 + labels.balance) / 2)))
    standard = (scores - centre) / size
    covariance = _possible((labels.product - labels.balance * centre) / size, labels, most)
    if labels.error > 1e-10 * size:
        link = calibrate_by_product(
            np.column_stack([np.zeros_like(standard), standard]),  # the first class scores 0
            np.array([1 - labels.balance, 1 + labels.balance]) / 2,
            (covariance + float(standard.mean())) / 2,  # E[s if y = 1] = (E[y s] + E[s]) / 2
            labels.error / size / 2,
            shifted=free,
        )
        slope, offset = link.slope, float(link.shift[1])
    else:
        slope, offset = _least_risk(standard, covariance, labels)
    slope = max(slope, _SMALLEST_SLOPE)
    return LogOdds(slope / size, offset - slope * centre / size)


def _possible(covariance: float, labels: LabelMeans, most: float) -> float:
    """Return a covariance of standardised scores and labels that is not beyond what can be."""
    return float(np.clip(covariance, 0.0, most * np.sqrt(1 - labels.balance**2)))


def _least_risk(scores: np.ndarray, product: float, labels: LabelMeans) -> tuple[float, float]:
    """Return slope and offset of least logistic risk; without E[y] the offset is 0."""
    free = labels.mean is not None
    design = np.column_stack([scores, np.full_like(scores, float(free))])
    goal = np.array([product, labels.balance * free]) / 2
    ridge = np.diag([1e-4, 0.0 if free else 1.0])  # so that the slope exists always

    def risk(weights: np.ndarray) -> float:
        even = np.logaddexp(design @ weights / 2, -design @ weights / 2).mean()
        return float(even - goal @ weights + weights @ ridge @ weights / 2)

    def gradient(weights: np.ndarray) -> np.ndarray:
        half = np.tanh(design @ weights / 2)
        return np.asarray(design.T @ half / (2 * len(half)) - goal + ridge @ weights)

    def hessian(weights: np.ndarray) -> np.ndarray:
        half = np.tanh(design @ weights / 2)
        return np.asarray((design.T * (1 - half**2)) @ design / (4 * len(half)) + ridge)

    best = minimize(
        risk, np.zeros(2), jac=gradient, hess=hessian, method="trust-exact",
        options={"gtol": 1e-10},
    ).x  # fmt: skip
    return max(float(best[0]), 0.0), float(best[1]) if free else 0.0


def gaussian_log_odds(square: float, mean_score: float | None, labels: LabelMeans) -> LogOdds:
    """Return the log odds if scores are Gaussian in each class, with one variance.

    ``square`` is E[s^2] and ``mean_score`` E[s]; if either mean is not known, classes are taken to
    lie at +-E[y s]. With class means m_1, m_0 and the variance v within them the log odds are
    logit pi + (m_1 - m_0)/v (s - (m_1 + m_0)/2). Scores of real tables have longer tails, so no
    correlation with labels above 0.75 is believed.
    """
    if mean_score is None or labels.mean is None:
        labels, mean_score = LabelMeans(labels.product, labels.error, None), 0.0
    variance = square - mean_score**2
    if not variance > 1e-24 * square:
        return LogOdds(0.0, float(logit((1 + labels.balance) / 2)))
    covariance = (labels.product - labels.balance * mean_score) / float(np.sqrt(variance))
    spread = float(np.sqrt(1 - labels.balance**2))
    correlation = _possible(covariance, labels, _LARGEST_GAUSSIAN_CORRELATION) / spread
    # Quantiles of two classes of scores, with mean 0, variance 1 and this correlation.
    share = (1 + labels.balance) / 2
    second = int(np.clip(round(_GAUSSIAN_QUANTILES * share), 2, _GAUSSIAN_QUANTILES - 2))
    within = np.sqrt(1 - correlation**2)
    parts = []
    for count, mean in (
        (second, correlation * np.sqrt((1 - share) / share)),
        (_GAUSSIAN_QUANTILES - second, -correlation * np.sqrt(share / (1 - share))),
    ):
        parts.append(mean + within * ndtri((np.arange(count) + 0.5) / count))
    quantiles = np.concatenate(parts)
    standard = (quantiles - quantiles.mean()) / quantiles.std()
    scores = mean_score + float(np.sqrt(variance)) * standard
    return log_odds_of_scores(scores, labels, _LARGEST_GAUSSIAN_CORRELATION)
