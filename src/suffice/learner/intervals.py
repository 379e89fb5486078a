"""What noise on the mean operator can do to a model, with exact quantiles of the noise.

Throughout b = mu~ - mu is the noise; F(theta) = L(theta) + (lam/2) ||theta||^2 is the regularised
risk with the true operator, F~ that with the noisy one; theta and theta~ are their minimisers; a is
the loss's constant, 2 for softmax, whose operator has weight one. A denoised operator is not
covered. Norms are 2-norms over all entries.

The bounds of Patrini et al. 2016 are Theorem 6, whose penalty is lam ||theta||^2, and Theorem 10,
which is corrected; see docs/errata.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log, sqrt
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.special import binom, log_ndtr, ndtri, ndtri_exp, wofz
from scipy.stats import chi, gamma
from sklearn.utils.validation import check_is_fitted

from suffice.errors import ParameterError
from suffice.kernels.models import softmax_shares
from suffice.learner.base import FeatureUnits, LinearModel, MissingFigureError
from suffice.learner.calibration import (
    ProductPrior,
    calibrate_by_product,
    expected_share,
    expected_shares,
)
from suffice.learner.denoise import WIDEST_DECOMPOSED, Denoiser
from suffice.learner.penalty import least_ridge, optimism, spreads
from suffice.learner.problem import side_by_side
from suffice.models.problem import FactoredProblem
from suffice.releases.release import Covariance

_SMALLEST_DELTA = 1e-7  # numerical inversion is good to 1e-10
_DAMPING = 25.0  # e^-25: the error of the inversion (Abate & Whitt 1995)


@dataclass(frozen=True)
class NoiseBounds:
    """Holds bounds on what noise did to one model; all hold together.

    Only the noise is random: labels and rows are as they are, so they say nothing about other
    samples.

    Attributes
    ----------
    delta : float
        The probability that they do not hold.
    noise : float
        Bound on ||b||, the norm of the noise.
    parameters : float
        Bound on ||theta~ - theta||, how far the model moved.
    risk : float
        Bound on |F~ - F| at theta~, the error of the noisy risk.
    excess : float
        Bound on F(theta~) - F(theta), the regularised risk that the noise costs.
    plain_risk : float
        Bound on |L(theta~) - L(theta)|, the same without the penalty.
    """

    delta: float
    noise: float
    parameters: float
    risk: float
    excess: float
    plain_risk: float

    @classmethod
    def of(
        cls, norm: float, *, a: float, lam: float, size: float, delta: float = 0.0
    ) -> "NoiseBounds":
        """Return the bounds where ||b|| is at most ``norm``, and ``size`` is ||theta~||.

        With D = theta~ - theta:

        - ||D|| <= a/(2 lam) ||b||, for any convex loss (Theorem 6, with its constant a and our
          penalty). F is lam-strongly convex and F~ = F - (a/2) <., b>, so that
          grad F(theta~) = (a/2) b, and lam ||D||^2 <= <grad F(theta~) - grad F(theta), D> =
          (a/2) <b, D>. Equality for the linear loss.
        - |F~ - F| <= (a/2) size ||b||, by Cauchy and Schwarz from (a/2) |<theta, b>| (Theorem 10,
          with the norm of all of b in the place of that of one entry). It holds for all theta of
          this size at once, so also for one that was learnt from the noisy operator, and for some
          theta it is an equality.
        - F(theta~) - F(theta) <= a^2 ||b||^2 / (8 lam). It is F~(theta~) - F~(theta) + (a/2) <D, b>
          <= -(lam/2) ||D||^2 + (a/2) ||D|| ||b||, by strong convexity of F~ at its minimiser;
          ||D|| = a ||b|| / (2 lam) is the worst. Equality for the linear loss.
        - |L(theta~) - L(theta)| <= a^2 ||b||^2 / (4 lam) + (a/2) ||b|| size.
          L(theta~) - L(theta) <= (a/2) <D, b> - lam <theta~, D> as before, and
          L(theta) - L(theta~) <= lam <theta~, D> from F(theta) + (lam/2) ||D||^2 <= F(theta~); put
          ||D|| <= a ||b|| / (2 lam) into both.
        """
        if not (0 < lam < np.inf and 0 < a < np.inf and norm >= 0):
            raise ParameterError(
                "These bounds need lam > 0 and a > 0, and a norm that is not negative."
            )
        risk, square = a / 2 * norm * size, (a * norm) ** 2
        moved = a / (2 * lam) * norm
        return cls(delta, norm, moved, risk, square / (8 * lam), square / (4 * lam) + risk)


def noise_norm(
    noise: Covariance, mechanism: str, shape: tuple[int, ...], delta: float = 0.05
) -> float:
    """Return a radius that ||b|| exceeds with probability at most ``delta``.

    ``shape`` is that of the operator, (d,) or (d, K); D is its number of entries. gaussian: the
    exact quantile, of a chi_D or of a weighted sum of squares. laplace: the exact quantile of the
    norm of D Laplace variables, by inverting the transform of their squares. knorm: that of
    a Gamma(D) radius. Those two are exact for C = variance I; for shaped noise b = A eta the radius
    is the largest singular value of A times that of eta. Any other mechanism, or a merged release
    of several: sqrt(trace / delta), Markov's bound, true of any noise of this covariance. The noise
    lives on a lattice, taken here as continuous: its step is far below its scale.
    """
    if not _SMALLEST_DELTA <= delta < 1:
        raise ParameterError(
            f"delta must be at least {_SMALLEST_DELTA:g} and below 1. It is {delta!r}."
        )
    if noise.form == "none":
        raise ParameterError(
            "The noise of this release is not known, so nothing bounds it. Use a release that"
            " states its noise."
        )
    columns = int(np.prod(shape[1:], dtype=int))
    values = noise.diagonal(shape[0])  # the eigenvalues of C, of one column
    if noise.form == "factor" and noise.array is not None:
        values = np.asarray(noise.variance * np.linalg.svd(noise.array, compute_uv=False) ** 2)
    if mechanism == "gaussian":
        return _gaussian_norm(np.repeat(values, columns), delta)
    inner = shape[0] if noise.form != "factor" or noise.array is None else noise.array.shape[1]
    if mechanism == "laplace":
        scale = np.sqrt(values.max() / 2)  # a Laplace variable has variance 2 scale^2
        return float(scale * _laplace_norm(inner * columns, delta))
    if mechanism == "knorm":
        scale = np.sqrt(values.max() / (inner * columns + 1))  # (D + 1) scale^2 in each entry
        return float(scale * gamma.isf(delta, inner * columns))
    return float(np.sqrt(values.sum() * columns / delta))


def _gaussian_norm(values: np.ndarray, delta: float) -> float:
    """Return the quantile of sqrt(sum_j values_j g_j^2), g_j standard normal."""
    largest = float(values.max(initial=0.0))
    if largest == values.min():
        return float(np.sqrt(largest) * chi.isf(delta, len(values)))
    shares = values / largest

    def log_transform(s: np.ndarray) -> np.ndarray:
        return -0.5 * np.log1p(2 * np.multiply.outer(s, shares)).sum(axis=-1)

    spread = np.sqrt(2 * np.sum(shares**2))
    return float(np.sqrt(largest * _upper_quantile(log_transform, shares.sum(), spread, delta)))


def _laplace_norm(count: int, delta: float) -> float:
    """Return the quantile of the norm of ``count`` Laplace variables of scale one."""

    def log_transform(s: np.ndarray) -> np.ndarray:
        """Return count log E e^(-s b^2) = count log(sqrt(pi)/(2 sqrt s) erfcx(1/(2 sqrt s)))."""
        z = 0.5 / np.sqrt(s)
        return count * np.log(np.sqrt(np.pi) * z * wofz(1j * z))

    return float(np.sqrt(_upper_quantile(log_transform, 2.0 * count, np.sqrt(20.0 * count), delta)))


def _upper_quantile(
    log_transform: Callable[[np.ndarray], np.ndarray], mean: float, spread: float, delta: float
) -> float:
    """Return x with P(sum > x) = delta for a positive sum with this log E e^(-s sum)."""
    delta -= 1e-9  # bounds are rounded up by more than the inversion is off
    high = mean + spread
    while _upper_tail(log_transform, high, mean / spread) > delta:
        high += (high - mean) + spread
    low = mean * 1e-6
    return float(brentq(lambda x: _upper_tail(log_transform, x, mean / spread) - delta, low, high))


def _upper_tail(
    log_transform: Callable[[np.ndarray], np.ndarray], x: float, sharpness: float
) -> float:
    """Return P(sum > x) from the transform (Abate & Whitt 1995, the Euler algorithm).

    The transform of the distribution function is e^log_transform(s) / s; ``sharpness`` = mean over
    deviation says how many terms of the series matter, and Euler's summation ends it.
    """
    terms, averaged = 60 + int(20 * sharpness), 12
    k = np.arange(terms + averaged + 1)
    s = (_DAMPING + 2j * np.pi * k) / (2 * x)
    series = np.exp(_DAMPING / 2) / x * (np.exp(log_transform(s)) / s).real * (-1.0) ** k
    series[0] /= 2
    sums = np.cumsum(series)[terms:]
    weights = binom(averaged, np.arange(averaged + 1)) / 2.0**averaged
    return float(np.clip(1 - weights @ sums, 0, 1))


# What one label varies by (d, d), over the labels, and how a model follows its operator.
Reaction = tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]


def model_reaction(
    problem: FactoredProblem, model: np.ndarray, lam: float, *, by_class: bool = False
) -> Reaction:
    """Return the covariance of sampled labels, and the move of a model after one of its operator.

    The move is weight H^-1 times that of the operator. ``by_class`` each class has its own block of
    the Hessian: rare ones follow noise farther. Between classes it is K/(K - 1) times the block, as
    the columns of a model add up to 0. Of many rows those with most of the curvature stand for all.
    """
    hessian, varied = spreads(problem, model)
    sampling = varied / problem.rows.labels
    if by_class and problem.has_metric:
        between = 1 - 1 / model.shape[1]
        near, ridge = problem.on_rows(problem.rows.sample), np.full_like(model, between * lam)
        blocks = near.hessian_roots(model, ridge, 10 * near.metric_rows)

        def follow_by_class(moved: np.ndarray) -> np.ndarray:
            solved = [cho_solve((b, False), m) for b, m in zip(blocks, moved.T, strict=True)]
            return between * np.column_stack(solved)

        return sampling, follow_by_class
    hessian = hessian + least_ridge(problem, lam, hessian) * np.eye(len(hessian))
    used = np.ones(len(model), dtype=bool)
    if not problem.penalty.smooth:  # coordinates at zero stay there when the operator moves
        used = np.asarray(model.reshape(len(model), -1).any(axis=1))
    factor = cho_factor(hessian[np.ix_(used, used)])

    def follow(moved: np.ndarray) -> np.ndarray:
        solved = np.zeros_like(moved)
        solved[used] = problem.operator_weight * cho_solve(factor, moved[used])
        return solved

    return sampling, follow


_TRIAL_STEP = 0.01  # of the noise: with .25 gaps of many classes were up to half too large
_TRIALS = 8


def optimism_by_trial(
    problem: FactoredProblem,
    model: np.ndarray,
    lam: float,
    denoiser: Denoiser,
    calibrated: np.ndarray | None = None,
    *,
    reaction: Reaction | None = None,
) -> tuple[float, float]:
    """Return by how much a model's risk is too small, and the deviation of the mended risk.

    Stein's lemma (`suffice.learner.penalty`) needs tr(Q d theta / d mu). Of a denoised operator no
    formula gives it: so noise e ~ N(0, Q) is drawn, and a little of it, h e, is added to the
    released operator, which is then denoised again. With v = (theta(mu + h e) - theta(mu)) / h,

        E <e, v> = tr(Q d theta / d mu),
        E v^T Q v = tr((d theta / d mu)^T Q (d theta / d mu) Q),

    up to h^2 (Ramani, Blu & Unser 2008). The solver is not run again: the model moves by its
    ``reaction`` to what the denoised operator moves by (`model_reaction`).

    ``problem`` has the released operator, in the coordinates that ``denoiser`` returns, and
    ``model`` is fitted to what that returns. The deviation is that of `optimism`, and of the
    draws here. The same numbers are drawn every time. Of a model that is ``calibrated`` later, that
    says how labels vary, and both are those of the scores without the last coordinate. Of others
    `trusted_shares` says how much of <theta, mu> is taken from the release.
    """
    rng = np.random.default_rng(0)
    sampling, follow = reaction or model_reaction(problem, model, lam)
    counted, unseen = np.ones(len(model)), 0.0
    if calibrated is not None:
        counted[-1] = 0.0
    elif denoiser.white and model.ndim == 1:
        counted, unseen = trusted_shares(model, denoiser)
    on_sample = replace(denoiser, rows=denoiser.rows.sample)
    operator, rows = denoiser.released, on_sample.rows
    still = on_sample(operator)
    scored = model if calibrated is None else calibrated
    chances = _label_chances(problem, problem.rows.sample.scores(scored))
    expected = rows.combined((rows.weights * chances.T).T)
    ends = np.cumsum(chances, axis=-1) if chances.ndim > 1 else chances
    # As many labels as there are vary less than those of a sample.
    few = np.sqrt(rows.labels / denoiser.rows.labels)
    weight, products, sizes = problem.operator_weight, [], []
    for _ in range(_TRIALS):
        noise = _released_noise(denoiser.noise, operator.shape, rng)
        drawn = rows.combined(_drawn_labels(ends, rows.weights, rng)) - expected
        noise = noise + few * (drawn if operator.ndim > 1 else 2 * drawn)  # labels are -1 and 1
        if operator.ndim > 1:  # what all columns of M share is public, and was set right
            noise = noise - noise.mean(axis=1, keepdims=True)
        moved = (on_sample(operator + _TRIAL_STEP * noise) - still) / _TRIAL_STEP
        follows = (counted * follow(moved).T).T
        in_model = denoiser.basis.T @ noise if denoiser.white else noise
        products.append(float(np.sum(in_model * follows)))
        sizes.append(_spread(follows, sampling, denoiser))
    features = (counted * model.T).T
    variance = _spread(features, sampling, denoiser) + float(np.mean(sizes))
    variance += float(np.var(products, ddof=1)) / len(products)
    gap = float(np.mean(products))
    if calibrated is None:
        gap += float(np.sum((model - features) * problem.operator))
    return weight * gap, weight * (float(np.sqrt(variance)) + unseen / float(ndtri(0.975)))


_TRUSTED_NOISE = 10.0 ** np.arange(-6.0, 4.1, 0.25)  # variances that halve a share; labels have 1


def trusted_shares(model: np.ndarray, denoiser: Denoiser) -> tuple[np.ndarray, float]:
    """Return the shares D of <theta, A> that are taken from the release, and what the rest can be.

    Along white coordinates in which rows hardly vary the noise n is a multiple of all that labels
    can be: ||A||^2 <= E[y^2] = 1 (Bessel). There <theta, A> is better left out: <D theta, A~> has
    the variance sum_j D_j^2 n_j theta_j^2, and misses r ||(1 - D) theta|| at most. Of all linear
    estimates those with D_j = t / (t + n_j) have the narrowest intervals (Donoho 1994); t is the
    one of the narrowest. Coordinates of the least noise are taken whole: r^2 is 1 less what they
    are known to have, two standard deviations below A~_j^2 - n_j.
    """
    noise = denoiser.white_noise + 1 / denoiser.rows.labels
    order, found = np.argsort(noise), (denoiser.basis.T @ denoiser.released) ** 2 - noise
    spread = 4 * np.maximum(found, 0.0) * noise + 2 * noise**2
    known = np.cumsum(found[order]) - 2 * np.sqrt(np.cumsum(spread[order]))
    whole = int(np.argmax(known))
    left = sqrt(min(max(1 - float(known[whole]), 0.0), 1.0))
    shares = np.vstack([np.ones(len(model)), 1 / (1 + noise / _TRUSTED_NOISE[:, None])])
    shares[:, order[: whole + 1]] = 1.0
    missed = left * np.sqrt((((1 - shares) * model) ** 2).sum(axis=1))
    reach = missed + float(ndtri(0.975)) * np.sqrt((shares * model) ** 2 @ noise)
    best = int(np.argmin(reach))
    return shares[best], float(missed[best])


def _spread(model: np.ndarray, sampling: np.ndarray, denoiser: Denoiser) -> float:
    """Return theta^T Q theta over the columns of a model."""
    theta = model.reshape(len(model), -1)
    pipeline = denoiser.basis @ theta if denoiser.white else theta
    return denoiser.noise.quadratic(pipeline) + float(np.sum(theta * (sampling @ theta)))


def _released_noise(
    noise: Covariance, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Return noise like that of the release, as if it were Gaussian."""
    if noise.form == "factor" and noise.array is not None:
        drawn = noise.array @ rng.normal(size=(noise.array.shape[1], *shape[1:]))
    else:
        drawn = rng.normal(size=shape)
        if noise.array is not None:
            drawn = (np.sqrt(noise.array) * drawn.T).T
    return np.asarray(np.sqrt(noise.variance) * drawn)


def _label_chances(problem: FactoredProblem, scores: np.ndarray) -> np.ndarray:
    """Return how likely labels are, as the model says it: (n, K), or (n,) of the second class."""
    if scores.ndim > 1:
        return softmax_shares(scores)
    loss = problem.loss
    if loss is None or loss.link is None:
        return np.full(len(scores), 0.5)
    return np.asarray(loss.link(scores))


def _drawn_labels(ends: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> Any:
    """Return the weights of rows in the columns of fresh labels; (n,) where these are 1, not 0.

    ``ends`` are the chances of classes (n, K), summed along each row; of two, those of the second.
    """
    if ends.ndim == 1:
        return weights * (rng.random(len(ends)) < ends)
    reached = rng.random((len(ends), 1)) <= ends
    reached[:, -1] = True  # a sum may end below one by a rounding
    codes, places = reached.argmax(axis=1), np.arange(len(ends) + 1)
    return csr_array((weights, codes, places), shape=ends.shape)


@dataclass(frozen=True, eq=False)
class Link:
    """What is known of a calibrated softmax model: E[u_y] of scores u without their constants."""

    product: float
    error: float  # the standard deviation of it
    shares: np.ndarray  # the class proportions
    deviations: np.ndarray  # of these


def calibrate_model(
    problem: FactoredProblem, model: np.ndarray, lam: float, denoiser: Denoiser
) -> tuple[np.ndarray, Link]:
    """Return a model whose probabilities are as sure as it is right.

    A ridge that keeps noise small makes scores too flat, and noise that is left makes them too
    steep. Scores u without their constants have the mean 0 in white coordinates, and E[u_y] =
    <theta, M> does not depend on how large the classes are. It is what the release says, less the
    gap of `optimism_by_trial`; from it the slope is integrated out (`calibrate_by_product`). Where
    noise hides it, the denoiser's prior says more: what it expects of <theta, M>, and how likely
    the rows say nothing at all. The constants make mean probabilities the class proportions. So a
    model of which nothing is known states these proportions.

    Of two classes u is half the score for one, and half of it below 0 for the other.
    """
    features = model.copy()
    features[-1] = 0.0
    sample = problem.rows.sample
    count = min(len(sample), 1000)  # with more rows the slope moves by less than its error
    reached = np.searchsorted(np.cumsum(sample.weights), (np.arange(count) + 0.5) / count)
    scores = _by_class(sample.scores(features)[np.minimum(reached, len(sample) - 1)])
    scores -= scores.mean(axis=0)
    shares, deviations = _shares_of_classes(problem, denoiser)
    calibrated, weight = model, problem.operator_weight
    mean, deviation = (weight * part for part in denoiser.expected_product(features))
    # On 11 tables of two to 26 classes the denoiser expected up to a third too little of a product.
    spread = sqrt(deviation**2 + (0.3 * mean) ** 2)
    prior = ProductPrior(mean, spread, denoiser.chance_of_signal)
    reaction = model_reaction(problem, model, lam, by_class=model.ndim > 1)
    for _ in range(2):  # flat scores say that labels vary more than they do
        gap, error = optimism_by_trial(problem, model, lam, denoiser, calibrated, reaction=reaction)
        # Most gaps of the same tables were right to a twentieth.
        error = sqrt(error**2 + (0.05 * gap) ** 2)
        product = weight * float(np.sum(features * problem.operator)) - gap
        found = calibrate_by_product(scores, shares, product, error, prior=prior)
        calibrated, shift = found.slope * features, found.shift - found.shift.mean()
        calibrated[-1] = shift if model.ndim > 1 else shift[1] - shift[0]
    # The nearest link has the mean product of all likely ones.
    expected = found.slope * float((found.apply(scores) * scores).sum(axis=1).mean())
    # The interval reaches as far beyond its noise as the prior of slopes moved the product.
    moved = abs(found.slope * product - expected) / float(ndtri(0.975))
    return calibrated, Link(expected, found.slope * error + moved, shares, deviations)


def _by_class(scores: np.ndarray) -> np.ndarray:
    """Return the score of each class: of two, half of the one that there is, with both signs."""
    return scores if scores.ndim > 1 else np.multiply.outer(scores, [-0.5, 0.5])


def _shares_of_classes(
    problem: FactoredProblem, denoiser: Denoiser
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of the class proportions, with the noise and sampling in mind."""
    sizes, classes = problem.operator[-1], max(problem.operator.ndim, 2)
    if problem.operator.ndim > 1:
        classes = len(sizes)
    spread = sqrt(denoiser.white_noise[-1] + 1 / (problem.rows.labels * classes))
    if problem.operator.ndim > 1:
        return expected_shares(sizes, spread)
    second = expected_share((1 + float(sizes)) / 2, spread / 2)
    # What one class has the other has not: together their deviations are no smaller.
    return np.array([1 - second, second]), np.full(2, spread / sqrt(2))


@dataclass(frozen=True, eq=False)
class Evidence:
    """Holds what a model was fitted on: one problem, or one per class, and the operator's noise.

    The problems have the operator as it was released, whether or not it was denoised; each has a
    denoiser then, which also says how a model becomes one of the pipeline's coordinates. A constant
    has the problem of its last coordinate alone.
    """

    problems: Sequence[FactoredProblem]
    models: Sequence[np.ndarray]
    lam: float
    noise: Covariance
    denoisers: Sequence[Denoiser] = ()
    link: Link | None = None  # of a softmax model that was calibrated

    @cached_property
    def risk(self) -> tuple[float, float, float]:
        """The estimated risk on fresh labels of the same rows, its deviation, and the least risk.

        The mean over the classes, one against the rest. The deviation is that of the mechanism's
        noise and the sampling of labels together. How far a model of a denoised operator follows
        the noise is tried (`optimism_by_trial`); of others a formula says it. The least risk is
        that of predictions as labels, sum_i w_i (g(z_i) - weight |z_i|), with the largest score of
        a row for |z_i| of softmax: no labels of the rows give less.
        """
        self._check_noise()
        figures = []
        for i, (problem, model) in enumerate(zip(self.problems, self.models, strict=True)):
            if self.link is not None:
                constants = _by_class(model[-1:]).ravel()
                labelled = self.link.product + float(constants @ self.link.shares)
                gap = problem.operator_weight * float(np.sum(model * problem.operator)) - labelled
                sizes = float(np.sum((constants * self.link.deviations) ** 2))
                error = sqrt(self.link.error**2 + sizes)
            elif self.denoisers and len(model) > 1:
                gap, error = optimism_by_trial(problem, model, self.lam, self.denoisers[i])
            else:
                shares = self.denoisers[i].kept_shares[-1:] if self.denoisers else None
                gap, error = optimism(
                    problem, model, self.lam, self.noise,
                    count=problem.rows.labels, kept_shares=shares,
                )  # fmt: skip
            own, scores = problem.risk(model)[0], problem.rows.scores(model)
            best = np.abs(scores) if scores.ndim == 1 else scores.max(axis=1)
            labelled = float(np.sum(model * problem.operator))
            right = labelled - float(problem.rows.weights @ best)
            figures.append((own + gap, error, own + problem.operator_weight * right))
        risk, deviation, least = np.mean(figures, axis=0).tolist()
        return risk, deviation, least

    @property
    def chance_of_signal(self) -> float:
        """How likely rows say anything of labels; 1 where that is not known."""
        white = self.denoisers and self.denoisers[0].white
        return self.denoisers[0].chance_of_signal if white else 1.0

    @cached_property
    def chance_of_worse(self) -> float:
        """How likely a constant is right more often; 0 where that is not known."""
        model = self.models[0]
        if not self.denoisers or len(self.models) > 1 or model.ndim > 1 or len(model) == 1:
            return 0.0
        denoiser = self.denoisers[0]
        if not denoiser.white or not denoiser.intercept:
            return 0.0
        return denoiser.chance_of_worse(model, denoiser(denoiser.released))

    def _check_noise(self) -> None:
        if self.noise.form == "none":
            raise ParameterError(
                "The noise of this mean operator is not known, so its effect cannot be computed."
                " Use a release or a source that states its noise."
            )

    def bounds(self, mechanism: str, delta: float) -> NoiseBounds:
        """Return what the mechanism's noise can have done to the model."""
        problem, model = self.problems[0], self.models[0]
        if len(self.problems) > 1 or problem.penalty.name != "l2" or self.denoisers:
            raise ParameterError(
                "Noise bounds exist only for penalty='l2', denoise=False and a loss that trains one"
                " model. Use these settings."
            )
        norm = noise_norm(self.noise, mechanism, model.shape, delta)
        a, size = 2 * problem.operator_weight, float(np.linalg.norm(model))
        return NoiseBounds.of(norm, a=a, lam=self.lam, size=size, delta=delta)

    def deviations(self, *, sampling: bool, basis: np.ndarray | None = None) -> np.ndarray:
        """Return the standard deviation of each coefficient, (d,) or (d, K).

        The minimiser moves by weight H^-1 n when the operator moves by n, H the Hessian there: the
        covariance is weight^2 H^-1 C H^-1, to first order. With a ``basis`` B (q, d) they are those
        of B theta, (q,) or (q, K).
        """
        self._check_noise()
        found = []
        for i, problem in enumerate(self.problems):
            model, noise = self.models[i], self.noise
            if not problem.penalty.smooth or model.size > WIDEST_DECOMPOSED:
                raise ParameterError(
                    "Intervals exist only for penalties without a 1-norm and at most"
                    f" {WIDEST_DECOMPOSED:,} coefficients. Use penalty='l2' or fewer columns."
                )
            denoiser = self.denoisers[i] if self.denoisers else None
            if denoiser is not None and denoiser.is_noisy:
                # Coverage was 0.16 to 0.83 (lab/bench/coverage.py): what noise leaves is kept.
                raise ParameterError(
                    "The noise hides too much of this release for intervals of coefficients. Use"
                    " denoise=False and a lam of your own."
                )
            model = self.undenoised[i]
            inverse = np.linalg.inv(problem.hessian(model, self.lam))
            width, columns = len(model), model.size // len(model)
            if sampling:  # a label is in one of K columns: about 1/K of S/m in each
                values, vectors = np.linalg.eigh(problem.rows.moment)
                root = np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
                vary = Covariance("factor", 1 / (problem.rows.labels * columns), root)
                noise = noise + vary if noise.variance else vary
            blocks = inverse.reshape(width, columns, model.size)  # C acts on each column alone
            if problem.loss is None:  # what all columns of M share is public, and was set right
                blocks = blocks - blocks.mean(axis=1, keepdims=True)
            turns = [] if basis is None else [basis]
            if denoiser is not None and denoiser.white:  # coefficients are B theta
                turns.insert(0, denoiser.basis if width > 1 else denoiser.basis[-1:, -1:])
            for turn in turns:
                coefficients = blocks.reshape(width, columns, -1, columns)
                blocks = np.einsum("wkdc,qd->wkqc", coefficients, turn).reshape(width, columns, -1)
            variances = np.sum([noise.along(blocks[:, k]) for k in range(columns)], axis=0)
            found.append(problem.operator_weight * np.sqrt(variances).reshape(-1, *model.shape[1:]))
        return side_by_side(found)

    @cached_property
    def undenoised(self) -> Sequence[np.ndarray]:
        """The models of the operator as it was released, at the same penalty.

        Rows that are not in memory are not read again for it: what their sample shows is added.
        """
        if not self.denoisers:
            return self.models
        models = []
        for problem, model, denoiser in zip(
            self.problems, self.models, self.denoisers, strict=True
        ):
            rows = problem.rows.sample
            near = problem.on_rows(rows)
            released = near.solve(self.lam, tol=1e-6, max_iter=1000).parameters
            if rows is not problem.rows:
                cleaned = near.with_operator(denoiser(denoiser.released)[-len(model) :])
                shrunk = cleaned.solve(self.lam, tol=1e-6, max_iter=1000).parameters
                released = model + released - shrunk
            models.append(released)
        return models

    def shift(self, basis: np.ndarray | None = None) -> np.ndarray:
        """Return how far denoising moved each coefficient, as `deviations` has them."""
        columns = []
        for i, (model, released) in enumerate(zip(self.models, self.undenoised, strict=True)):
            moved = released - model
            if self.denoisers and self.denoisers[i].white:
                turn = self.denoisers[i].basis
                moved = (turn if len(moved) > 1 else turn[-1:, -1:]) @ moved
            columns.append(np.abs(moved if basis is None else basis @ moved))
        return side_by_side(columns)


def interval_above(centre: float, deviation: float, level: float, least: float) -> np.ndarray:
    """Return a Gaussian interval of a number that is at least ``least``.

    The upper end leaves (1 - level) / 2 of what is left of the distribution above ``least``, so
    that the interval is never empty; far above ``least`` it is `interval`.
    """
    low, high = interval(centre, deviation, level)
    if deviation > 0:
        above = float(log_ndtr((centre - least) / deviation))
        high = centre - deviation * float(ndtri_exp(np.log((1 - level) / 2) + above))
    return np.maximum([low, high], least)


def interval(
    centre: np.ndarray | float,
    deviation: np.ndarray | float,
    level: float,
    shift: np.ndarray | float = 0.0,
) -> np.ndarray:
    """Return the two ends of a Gaussian interval that may be off by ``shift``, stacked in front."""
    if not 0 < level < 1:
        raise ParameterError(f"level must lie between 0 and 1. It is {level!r}.")
    reach = shift + ndtri((1 + level) / 2) * deviation
    return np.stack([centre - reach, centre + reach])


_STORED_DEVIATIONS = 500  # coefficients: computing those of more takes longer than the fit


class FiguredModel(LinearModel):
    """A linear model that keeps what it was fitted on, and computes figures of its quality from it.

    A model file does not store what a model was fitted on: there the figures are missing.
    """

    loss: Any
    intercept_only_: bool
    _evidence: Evidence

    def theta_interval(self, level: float = 0.95, *, sampling: bool = False) -> np.ndarray:
        """Return the interval of each weight of the model's own coordinates, to first order.

        See `coef_interval`.

        Parameters
        ----------
        level
        sampling

        Returns
        -------
        ndarray of shape (2, d) or (2, d, K)
            The lower and the upper ends.
        """
        fitted_deviations = self._fitted_evidence.deviations(sampling=sampling)
        deviations = np.zeros_like(self.theta_)
        shift = np.zeros_like(self.theta_)
        # Of a constant only the intercept has a deviation.
        deviations[-len(fitted_deviations) :] = fitted_deviations
        shift[-len(fitted_deviations) :] = self._fitted_evidence.shift()
        return interval(self.theta_, deviations, level, shift)

    def coef_interval(self, level: float = 0.95, *, sampling: bool = False) -> np.ndarray:
        """Return the interval of each coefficient, in the units of ``coef_``, to first order.

        It covers the coefficient that exact labels would give at the same penalty: it reaches as
        far beyond the coefficient as denoising moved it, and the noise on top. It does not cover
        how the penalty shrinks coefficients.

        Parameters
        ----------
        level
        sampling

        Returns
        -------
        ndarray of shape (2, 1, p) or (2, K, p)
            The lower and the upper ends.

        Raises
        ------
        ParameterError
            If the penalty has a 1-norm, or the noise is not known.
        AttributeError
            If the model was loaded from a file.
        """
        deviations, shift = self._feature_spread(sampling=sampling)
        return interval(self.coef_, deviations[:-1].T, level, shift[:-1].T)

    def intercept_interval(self, level: float = 0.95, *, sampling: bool = False) -> np.ndarray:
        """Return the interval of ``intercept_``, as `coef_interval` does of the coefficients.

        Parameters
        ----------
        level
        sampling

        Returns
        -------
        ndarray of shape (2, 1) or (2, K)
            The lower and the upper ends.
        """
        deviations, shift = self._feature_spread(sampling=sampling)
        return interval(self.intercept_, deviations[-1], level, shift[-1])

    def feature_deviations(self, *, sampling: bool = False) -> np.ndarray:
        """Return the standard deviation of each coefficient and, last, of the intercept.

        Parameters
        ----------
        sampling

        Returns
        -------
        ndarray of shape (p + 1, 1) or (p + 1, K)
            In the units of ``coef_`` and ``intercept_``.
        """
        return self._feature_spread(sampling=sampling)[0]

    def _feature_spread(self, *, sampling: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return deviations, and how far denoising moved each coefficient; the intercept's last."""
        evidence, basis = self._fitted_evidence, FeatureUnits(self.pipeline_).basis()
        basis = basis[:, -1:] if self.intercept_only_ else basis  # only the intercept follows noise
        deviations = evidence.deviations(sampling=sampling, basis=basis)
        return deviations.reshape(len(basis), -1), evidence.shift(basis).reshape(len(basis), -1)

    def stored_deviations(self) -> list[float] | None:
        """Return deviations as a model file holds them, line by line: 1.96 reach the 95 % interval.

        None if there are none, or more than 500: computing them takes longer than the fit.
        """
        if self.theta_.size > _STORED_DEVIATIONS:
            return None
        try:
            deviations, shift = self._feature_spread(sampling=False)
        except ParameterError:
            return None
        stored: list[float] = (deviations + shift / ndtri(0.975)).ravel().tolist()
        return stored

    def noise_bounds(self, delta: float = 0.05) -> NoiseBounds:
        """Return bounds on how far the noise has moved the model and its risk.

        Patrini et al. 2016, Theorems 6 and 10, corrected (docs/errata.md). They hold for every data
        set, and are far too large for most.

        Parameters
        ----------
        delta : float, default=0.05
            The probability that a bound fails.

        Returns
        -------
        NoiseBounds
            All bounds; they hold together with probability 1 - delta.

        Raises
        ------
        ParameterError
            If the penalty is not l2, the operator was shrunk, or the noise is not known.
        AttributeError
            If the model was loaded from a file.
        """
        check_is_fitted(self)
        mechanism = "mixed"
        if len(self.releases_) == 1 and len(self.releases_[0].parts) == 1:
            mechanism = self.releases_[0].details["mechanism"]
        return self._fitted_evidence.bounds(mechanism, delta)

    def _figure(self, compute: Callable[[], Any]) -> Any:
        """Return what ``compute`` does; for an attribute, what it refuses is missing."""
        try:
            return compute()
        except ParameterError as error:
            raise MissingFigureError(str(error)) from None

    @property
    def _fitted_evidence(self) -> Evidence:
        evidence: Evidence = self._from_fit("_evidence", "intervals")
        return evidence

    @property
    def coef_interval_(self) -> np.ndarray:
        """The interval at 95 % of each coefficient for the mechanism's noise."""
        return np.asarray(self._figure(self.coef_interval))

    @property
    def intercept_interval_(self) -> np.ndarray:
        """The interval at 95 % of the intercept for the mechanism's noise."""
        return np.asarray(self._figure(self.intercept_interval))

    @property
    def risk_(self) -> float:
        """The estimated risk on fresh labels of the same rows; not below that of any labels."""
        risk, _, least = self._figure(lambda: self._fitted_evidence.risk)
        return float(max(risk, least))

    @property
    def risk_interval_(self) -> np.ndarray:
        """The interval of the risk at 95 %; not below the risk that any labels give."""
        risk, deviation, least = self._figure(lambda: self._fitted_evidence.risk)
        # Along a direction, tails of Laplace and K-norm noise are taken as those of one Laplace
        # variable; they are shorter where noise of several coordinates adds up. So 95 % reach as
        # much farther than those of Gaussian noise as quantiles at 97.5 % of variance 1 differ.
        if {"laplace", "knorm", "mixed"} & {r.details["mechanism"] for r in self.releases_}:
            deviation *= log(20) / sqrt(2) / float(ndtri(0.975))
        return interval_above(risk, deviation, 0.95, least)
