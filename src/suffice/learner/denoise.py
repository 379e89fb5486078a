"""Denoise a mean operator: shrink each of its coordinates by empirical Bayes.

In coordinates z = B^T x in which the rows are white (sum_i w_i z_i z_i^T = I, the intercept one of
them) an operator A = B^T M is the least-squares fit of the labels, and entries along different z_j
are alike but for their noise n_j, which is known. Signal is taken to be

    A_j ~ N(centre_j, g_j I),   g_j = R^2 s_j^q / sum_i s_i^q,

s_j the variance of the rows along z_j, so that A_j ~ N(centre_j, (g_j + n_j) I) as released. R^2 is
the part of the labels' variance that rows explain: any size of it is as likely as another on a
logarithmic scale. q = 0 is a ridge in white coordinates, q = 1 one in those of the pipeline. Kept
is the mean share k_j = g_j / (g_j + n_j), over R^2 and q as the operator makes them likely, of what
differs from the centre, the operator of labels that say nothing.

A model of z is then fitted with a small ridge. It shrinks all directions alike, so that it decides
little, but where the loss is flat it alone keeps what is left of the noise, k_j^2 n_j, small in
scores: they vary by at most weight^2 sum_j k_j^2 n_j / lam^2 with it (margin noise, H >= lam I).

Which layers of an earlier denoiser went, and why: docs/decisions/layers.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, logsumexp, ndtr, softmax

from suffice.models.problem import FactoredProblem, WeightedRows
from suffice.releases.release import Covariance

_EXPONENTS = (0.0, 0.5, 1.0)  # q
_EXPLAINED_SHARES = 10.0 ** np.arange(-2.5, 0.01, 0.1)  # R^2
# Variance that noise may add to a score. Scores as they are: the best of .25, 2.5 and 25 on splits
# that decided nothing (docs/decisions/layers.md). Scores that are calibrated later need no size:
# lab/bench/ridge.py compares five values on tables that did not choose this one. Votes, which are
# about other rows than the learner's: the best of three on activities (lab/bench/parties.py).
_MARGIN_VARIANCE = {"as they are": 2.5, "calibrated": 0.075, "votes": 0.25}
_SMALLEST_RIDGE = 1e-4
_RANK_TOLERANCE = 2.0**-20  # of the largest variance: where rows vary less nothing can be learnt
_NOISE_SHARE = 0.1  # of ||mu||^2: with more noise, intervals of coefficients do not cover
_LEFT_OUT_VARIANCE = 10.0  # times that of labels: with more noise a direction was not released
LARGEST_DOUBT = 0.2  # that a model is worse than the larger class, where that is known
WIDEST_DECOMPOSED = 2000  # rows of a matrix that is decomposed: more take minutes


def white_basis(rows: WeightedRows, *, intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows' variances along the eigenvectors of their covariance, and B.

    Rows are centred by the intercept's coordinate, which stays the last one and becomes one;
    without it, second moments take the place of variances. Directions in which no row varies are
    left out.
    """
    width = rows.shape[1] - intercept
    mean = rows.mean[:width] if intercept else np.zeros(width)
    values, vectors = np.linalg.eigh(rows.moment[:width, :width] - np.outer(mean, mean))
    varying = values > _RANK_TOLERANCE * max(float(values[-1]), np.finfo(float).tiny)
    values, basis = values[varying][::-1], (vectors[:, varying] / np.sqrt(values[varying]))[:, ::-1]
    if not intercept:
        return values, basis
    constant = float(rows.sample.matrix[0, -1])
    full = np.zeros((rows.shape[1], len(values) + 1))
    full[:-1, :-1], full[-1, :-1], full[-1, -1] = basis, -mean @ basis / constant, 1 / constant
    return values, full


def around_centre(operator: np.ndarray) -> np.ndarray:
    """Return what an operator (r,) or (r, K) has that labels which say nothing have not, (r, K)."""
    if operator.ndim == 1:
        return operator[:, None]
    return operator - operator.mean(axis=1, keepdims=True)


def noise_in_basis(noise: Covariance, basis: np.ndarray) -> Covariance:
    """Return the covariance of B^T n for noise n on the pipeline's coordinates."""
    directions = basis.T
    if noise.array is not None:
        root = noise.array if noise.form == "factor" else np.diag(np.sqrt(noise.array))
        directions = basis.T @ root
    return Covariance("factor", noise.variance, np.ascontiguousarray(directions))


@dataclass(frozen=True, eq=False)
class Denoiser:
    """Computes what is left of a problem's operator; ``noise`` is that of each of its columns.

    ``rows`` and ``noise`` are in the pipeline's coordinates. ``basis`` B is (d, r): z = B^T x are
    white coordinates, and ``variances`` those of the rows along them. If the result is ``white`` it
    is in these coordinates, and a model theta of z is the model B theta of x; else it is in those
    of the pipeline. ``sampling`` says whether the labels, too, are a sample of what they could be.
    """

    rows: WeightedRows
    noise: Covariance
    released: np.ndarray
    basis: np.ndarray
    variances: np.ndarray
    intercept: bool
    white: bool = True
    sampling: bool = True

    @classmethod
    def of(
        cls,
        problem: FactoredProblem,
        noise: Covariance,
        *,
        white: bool = True,
        sampling: bool = True,
    ) -> "Denoiser":
        """Return what shrinks a problem's operator.

        Owners of few rows leave out most directions, of components of their own sample of the rows.
        So white coordinates are turned until their noise is independent, and those with too much of
        it go. Where nothing was left out they stay as they are.
        """
        variances, basis = white_basis(problem.rows, intercept=problem.intercept)
        if noise.form == "factor":
            columns = problem.operator.size // len(problem.operator)
            features = basis[:, : len(variances)]
            sizes, turn = np.linalg.eigh(noise_in_basis(noise, features).dense(len(variances)))
            released = sizes <= _LEFT_OUT_VARIANCE / columns
            if not released.all():
                turn = turn[:, released]
                basis = np.hstack([features @ turn, basis[:, len(variances) :]])
                variances = np.asarray(variances @ turn**2)
        return cls(
            problem.rows, noise, problem.operator, basis, variances, problem.intercept,
            white, sampling,
        )  # fmt: skip

    def __call__(self, operator: np.ndarray) -> np.ndarray:
        """Return what is left of an operator in the pipeline's coordinates."""
        white = self.basis.T @ operator
        lost = (1 - self._shares(white))[:, None] * around_centre(white)
        left = white - lost.reshape(white.shape)
        return np.asarray(left if self.white else self._way_back @ left)

    @cached_property
    def _way_back(self) -> np.ndarray:
        """S B: it turns an operator of z into one of x, as B^T S B = I."""
        return np.asarray(self.rows.moment @ self.basis)

    @cached_property
    def left_noise(self) -> Covariance:
        """The noise of what is left, in the coordinates of models, with the shares as they are."""
        matrix = self.basis * self.kept_shares
        return noise_in_basis(self.noise, matrix if self.white else matrix @ self._way_back.T)

    @cached_property
    def is_noisy(self) -> bool:
        """Whether noise is a large part of the released operator."""
        columns = self.released.size // len(self.released)
        energy = columns * float(self.noise.diagonal(len(self.released)).sum())
        return energy > _NOISE_SHARE * float(np.sum(self.released**2))

    @cached_property
    def white_noise(self) -> np.ndarray:
        """The variance of the noise along each white coordinate."""
        return self.noise.along(self.basis)

    @cached_property
    def kept_shares(self) -> np.ndarray:
        """The share of the released operator that is kept along each white coordinate."""
        return self._shares(self.basis.T @ self.released)

    def _shares(self, operator: np.ndarray) -> np.ndarray:
        """Return the share that is kept of an operator along each white coordinate.

        The noise n_j is that of the release, and of sampled labels if ``sampling``. The intercept
        says how large the classes are and nothing about rows: its share is its own.
        """
        shares, classes = self._found(operator).mean_shares, around_centre(operator).shape[1]
        if not self.intercept:
            return shares
        # All proportions are as likely: 2 p - 1 has the variance 1/3, p_k of K (1 - 1/K)/K/(K + 1).
        vary = 1 / 3 if classes == 1 else (1 - 1 / classes) / (classes * (classes + 1))
        return np.append(shares, vary / (vary + self.white_noise[-1]))

    def _found(self, operator: np.ndarray) -> "_Found":
        """Return what an operator has along the coordinates of the features, and its noise."""
        features = slice(None, -1 if self.intercept else None)
        signal = around_centre(operator)[features]
        classes = signal.shape[1]
        columns = max(classes - 1, 1)  # every row is in one class: the last one follows
        # Labels have the variance 1, or (1 - 1/K) over all of K columns: 1/K in each free one.
        unit = 1 / classes
        noise = self.white_noise[features] + (unit / self.rows.labels if self.sampling else 0.0)
        energy = np.sum(signal**2, axis=1) / columns
        return _Found(self.variances, energy, noise, columns, unit)

    def expected_product(self, model: np.ndarray) -> tuple[float, float]:
        """Return <theta, A> and its deviation, as the prior and the release say it together.

        A is taken as normal around what is left of the operator, with the variances k_j n_j that
        shrinking leaves.
        """
        left = self.kept_shares * self.white_noise
        mean = float(np.sum(model * self(self.released)))
        return mean, float(np.sqrt(np.sum(left * (model**2).T)))

    @cached_property
    def chance_of_signal(self) -> float:
        """How likely labels depend on the rows at all; without the release: as likely as not."""
        return self._found(self.basis.T @ self.released).chance_of_signal

    def ridge(self, weight: float, *, calibrated: bool = False) -> float:
        """Return the least ridge that bounds the margin noise; ``weight`` is the operator's.

        The margin of two classes has the noise of two columns. Of scores that are ``calibrated``
        later, and of votes, less noise is allowed.
        """
        columns = 1 if self.released.ndim == 1 else 2
        noise = columns * float(np.sum(self.kept_shares**2 * self.white_noise))
        kind = "calibrated" if calibrated else "as they are"
        allowed = _MARGIN_VARIANCE[kind if self.sampling else "votes"]
        return max(weight * float(np.sqrt(noise / allowed)), _SMALLEST_RIDGE)

    @property
    def leaves_most_out(self) -> bool:
        """Whether noise hides most directions of the features, as where a count has one beside it.

        Owners of few rows release such operators (`suffice.owner.mean_operator`).
        """
        variances, _ = white_basis(self.rows, intercept=self.intercept)
        return 2 * len(self.variances) <= len(variances)

    def chance_of_worse(self, model: np.ndarray, cleaned: np.ndarray) -> float:
        """Return how likely a model of two classes is right less often than a constant.

        Rows to which it gives the smaller class make the difference, -c sum_i w_i E[y_i] over them,
        c the larger class. E[y] = A^T z is taken as linear in the white coordinates z, and A as
        normal around ``cleaned``, with the variances k_j n_j that shrinking leaves.
        """
        rows = self.rows.sample.in_basis(self.basis)
        larger = np.sign(cleaned[-1])
        differs = (larger * rows.scores(model) < 0).astype(float)
        direction = -larger * rows.combined(rows.weights * differs)
        variance = float(np.sum(direction**2 * self.kept_shares * self.white_noise))
        gain = float(direction @ cleaned)
        return float(ndtr(-gain / np.sqrt(variance))) if variance > 0 else 0.0


@dataclass(frozen=True, eq=False)
class _Found:
    """What an operator has along white coordinates, and what its noise explains of it.

    ``energy`` is the mean square of the signal's ``columns`` free entries along a coordinate.
    """

    variances: np.ndarray
    energy: np.ndarray
    noise: np.ndarray
    columns: int
    unit: float

    @cached_property
    def _priors(self) -> tuple[np.ndarray, np.ndarray]:
        """The signal g_j of each R^2 and q, and its log likelihood."""
        signals = []
        for exponent in _EXPONENTS:
            spread = (self.variances / self.variances.max()) ** exponent
            signals.append(self.unit * _EXPLAINED_SHARES[:, None] * spread / spread.sum())
        signal = np.concatenate(signals)
        return signal, self._log_likelihood(signal + self.noise)

    def _log_likelihood(self, total: np.ndarray) -> np.ndarray:
        """Return that of entries with these variances along the coordinates."""
        return -self.columns / 2 * np.sum(np.log(total) + self.energy / total, axis=-1)

    @property
    def mean_shares(self) -> np.ndarray:
        """The mean of k_j over R^2 and q, as the operator makes them likely."""
        if not len(self.variances):
            return np.zeros(0)
        signal, fits = self._priors
        return np.asarray(softmax(fits) @ (signal / (signal + self.noise)))

    @property
    def chance_of_signal(self) -> float:
        """How likely there is one: before the release as likely as not, of any R^2 and q."""
        if not len(self.variances):
            return 0.0
        fits = self._priors[1]
        return float(expit(logsumexp(fits) - np.log(len(fits)) - self._log_likelihood(self.noise)))


@dataclass(frozen=True, eq=False)
class Denoised:
    """Problems with their operators as they were released, and with those that are left of them."""

    problems: list[FactoredProblem]  # one, or one per class, with the released operator
    noise: Covariance  # of each column of it
    cleaned: list[FactoredProblem]  # with the operator that models are fitted to
    denoisers: Sequence[Denoiser] = ()  # of each problem; none where operators stay as they are

    @property
    def basis(self) -> np.ndarray | None:
        """The basis of white coordinates, in which all problems are; None in the pipeline's."""
        white = self.denoisers and self.denoisers[0].white
        return self.denoisers[0].basis if white else None

    def may_be_worse(self, models: list[np.ndarray]) -> bool:
        """Return whether a model of two classes may well be worse than always saying the larger.

        Elsewhere than where most directions were left out the chance is overestimated: of 12
        Laplace releases of spambase at epsilon .1, two models were given up that were right 20
        points more often than a constant.
        """
        if self.basis is None or len(models) > 1 or models[0].ndim > 1:
            return False
        denoiser = self.denoisers[0]
        if not denoiser.intercept or not denoiser.leaves_most_out:
            return False
        return denoiser.chance_of_worse(models[0], self.cleaned[0].operator) > LARGEST_DOUBT


def denoise(
    problems: list[FactoredProblem], noise: Covariance, *, votes: bool, tuned: bool
) -> Denoised:
    """Return problems whose operators have as much of the noise removed as is known of it.

    ``tuned`` says whether the penalty is chosen here. A squared one is then in white coordinates,
    and what labels vary by is removed too, but for ``votes`` of parties, which are no sample. Of
    other problems only the mechanism's noise is removed, in the pipeline's coordinates.
    """
    first = problems[0]
    if noise.form == "none":
        return Denoised(problems, noise, problems)
    white = tuned and first.penalty.name == "l2" and first.curvature > 0
    sampling = white and not votes
    denoisers = [Denoiser.of(p, noise, white=white, sampling=sampling) for p in problems]
    if white:
        basis = denoisers[0].basis
        noise, rows = noise_in_basis(noise, basis), first.rows.in_basis(basis)
        problems = [p.on_rows(rows).with_operator(basis.T @ p.operator) for p in problems]
    pairs = zip(problems, denoisers, strict=True)
    cleaned = [problem.with_operator(denoiser(denoiser.released)) for problem, denoiser in pairs]
    return Denoised(problems, noise, cleaned, denoisers)


def within_rows(problems: list[FactoredProblem], noise: Covariance) -> Denoised:
    """Return problems whose operators are in the span of their rows, and the noise there.

    The exact operator is a sum of rows. Along directions in which no row has a part, such as those
    of indicators that always add up to one, the released operator is noise alone. No score depends
    on it, but the risk and the choice of a penalty would.
    """
    width = len(problems[0].operator)
    if noise.form != "none" and width <= WIDEST_DECOMPOSED:
        values, vectors = np.linalg.eigh(problems[0].rows.moment)
        span = vectors[:, values > 1e-12 * values[-1]]
        if span.shape[1] < width:
            projection = span @ span.T
            problems = [p.with_operator(projection @ p.operator) for p in problems]
            noise = noise_in_basis(noise, projection)
    return Denoised(problems, noise, problems)
