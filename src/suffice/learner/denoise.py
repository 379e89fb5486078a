"""Denoise a mean operator: project it onto the feasible set, then shrink each coordinate.

In coordinates z = B^T x in which the rows are white (sum_i w_i z_i z_i^T = I, the intercept one of
them) an operator A = B^T M is the least-squares fit of the labels, and entries along different z_j
are alike but for their noise n_j, which is known. Signal is taken to be

    A_j ~ N(centre_j, g_j I),   g_j = t (s_j / s_1)^q,

s_j the variance of the rows along z_j, so that A_j ~ N(centre_j, (g_j + n_j) I) as released. The
scale t and the exponent q are those of the largest likelihood: q = 0 is a ridge in white
coordinates, q = 1 one in the coordinates of the pipeline. The posterior mean keeps the share
k_j = g_j / (g_j + n_j) of what differs from the centre, the operator of labels that say nothing.

A model of z is then fitted with a small ridge. It shrinks all directions alike, so that it decides
little, but where the loss is flat it alone keeps what is left of the noise, k_j^2 n_j, small in
scores: they vary by at most weight^2 sum_j k_j^2 n_j / lam^2 with it (margin noise, H >= lam I).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from suffice.learner.problem import side_by_side
from suffice.models.problem import FactoredProblem
from suffice.models.rows import WeightedRows
from suffice.models.zonotope import Projection, project
from suffice.release.release import Covariance

__all__ = [
    "WIDEST_DECOMPOSED",
    "Denoised",
    "Denoiser",
    "around_centre",
    "denoise",
    "is_noisy",
    "noise_in_basis",
    "white_basis",
    "within_rows",
]

# Exponents q and scales t of the prior, of which the likeliest is taken for votes of parties.
_VOTE_EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
_VOTE_SCALES = 10.0 ** np.arange(-8.0, 3.01, 0.1)  # of the largest signal
_VOTE_MARGIN_VARIANCE = 0.25  # that noise may add to a margin: the loss of votes is often flat
_EXPONENTS = (0.0, 0.5, 1.0)
_EXPLAINED_SHARES = 10.0 ** np.arange(-2.5, 0.01, 0.1)  # R^2
_MARGIN_VARIANCE = 25.0  # that noise may add to a score: shares have bounded it already
_SMALLEST_RIDGE = 1e-4
_RANK_TOLERANCE = 2.0**-20  # of the largest variance: where rows vary less nothing can be learnt
_NOISE_SHARE = 0.1  # of ||mu||^2: with less noise than that, denoising is not worth its time
_METRIC_TOLERANCE = 1e-2  # of the largest variance: with less, a projection hardly ends
_PROJECTION_TOLERANCE = 3e-3  # of a projection whose result is shrunk
_LEFT_OUT_VARIANCE = 10.0  # times that of labels: with more noise a direction was not released
_MOST_DOUBT = 0.2  # that a model is worse than the larger class, where that is known
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


def is_noisy(problem: FactoredProblem, noise: Covariance) -> bool:
    """Return whether noise is a large part of a problem's operator."""
    width, columns = len(problem.operator), problem.operator.size // len(problem.operator)
    energy = columns * float(noise.diagonal(width).sum())
    return energy > _NOISE_SHARE * float(np.sum(problem.operator**2))


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
    the white coordinates, in which the result is; a model theta of z is the model B theta of x.
    Without a basis the operator is only projected, and moved by the factor ``inwards`` where a
    minimiser must exist without a penalty. A ``linear`` one keeps the shares of largest likelihood
    and projects nothing: votes of parties are no labels that others could be.
    """

    rows: WeightedRows
    noise: Covariance
    released: np.ndarray
    basis: np.ndarray | None = None
    variances: np.ndarray | None = None
    intercept: bool = False
    inwards: float = 1.0
    linear: bool = False

    @classmethod
    def of(cls, problem: FactoredProblem, noise: Covariance) -> "Denoiser":
        """Return what projects and shrinks a problem's operator, in white coordinates."""
        variances, basis = white_basis(problem.weighted, intercept=problem.intercept)
        if noise.form == "factor":
            columns = problem.operator.size // len(problem.operator)
            variances, basis = _released_directions(
                variances, basis, noise, _LEFT_OUT_VARIANCE / columns
            )
        return cls(problem.weighted, noise, problem.operator, basis, variances, problem.intercept)

    @classmethod
    def of_votes(cls, problem: FactoredProblem, noise: Covariance) -> "Denoiser":
        """Return what shrinks an operator of parties' votes, in white coordinates."""
        variances, basis = white_basis(problem.weighted, intercept=problem.intercept)
        return cls(
            problem.weighted, noise, problem.operator, basis, variances, problem.intercept,
            linear=True,
        )  # fmt: skip

    @classmethod
    def projecting(cls, problem: FactoredProblem, noise: Covariance) -> "Denoiser":
        """Return the projection alone; without a penalty it must end inside."""
        inwards = 0.99 if problem.penalty.name == "none" else 1.0
        return cls(problem.weighted, noise, problem.operator, inwards=inwards)

    def on_sample(self) -> "Denoiser":
        """Return the same on a sample of the rows that is in memory."""
        return replace(self, rows=self.rows.sample)

    def __call__(self, operator: np.ndarray) -> np.ndarray:
        """Return what is left of an operator in the pipeline's coordinates."""
        if self.basis is None:
            if self.noise.form == "factor":
                return self._projected_by_labels(operator)
            nearest = project(self.rows, operator)
            return nearest.operator if self.inwards == 1 else nearest.shrunk(self.inwards)
        white = self.basis.T @ operator
        projected, shares = white, self.kept_shares
        if not self.linear:
            projected, shares = self._projected(operator, white), self._shares(white)
        lost = (1 - shares)[:, None] * around_centre(projected)
        return np.asarray(projected - lost.reshape(projected.shape))

    def _projected(self, operator: np.ndarray, white: np.ndarray) -> np.ndarray:
        """Return the nearest operator that labels can have, in white coordinates."""
        if self.noise.form == "factor":
            return self.nearest_in_white(white).operator
        metric = None  # even noise
        if self.noise.form == "diagonal":
            variances = self.noise.diagonal(len(operator))
            metric = np.maximum(variances, _METRIC_TOLERANCE * variances.max())
        projected = (
            self._basis.T
            @ project(self.rows, operator, metric=metric, tol=_PROJECTION_TOLERANCE).operator
        )
        if self._knows_classes:  # better than a projection of everything else does
            projected[-1] = np.clip(white[-1], -1.0 if operator.ndim == 1 else 0.0, 1.0)
        return np.asarray(projected)

    def _projected_by_labels(self, operator: np.ndarray) -> np.ndarray:
        """Return the projection alone of an operator with uneven noise, from its soft labels."""
        _, basis = white_basis(self.rows, intercept=False)
        nearest = replace(self, basis=basis).nearest_in_white(basis.T @ operator)
        centre = self.rows.mean[:, None] / operator.shape[1] if operator.ndim > 1 else 0.0
        projected = self.rows.combined((self.rows.weights * nearest.labels.T).T)
        return np.asarray(centre + self.inwards * (projected - centre))

    def bounded(self) -> tuple[np.ndarray, Covariance]:
        """Return the released operator and its noise, neither larger than labels can make it.

        Each white coordinate is taken for normal, as in a projection. Of noise that is even or far
        smaller than that nothing changes.
        """
        _, basis = white_basis(self.rows, intercept=False)
        kept = replace(self, basis=basis).kept_of_labels(self.released)
        way_back = self.rows.moment @ basis  # B^T S B = I
        matrix = way_back @ kept @ basis.T
        centre = self.released - around_centre(self.released).reshape(self.released.shape)
        noise = noise_in_basis(self.noise, matrix.T)
        return np.asarray(centre + matrix @ (self.released - centre)), noise

    def kept_of_labels(self, operator: np.ndarray) -> np.ndarray:
        """Return (I + C / u)^-1 in white coordinates, u the variance of labels."""
        unit = 1.0 if operator.ndim == 1 else 1 / operator.shape[1]
        covariance = noise_in_basis(self.noise, self._basis).dense(self._basis.shape[1])
        return np.linalg.inv(np.eye(len(covariance)) + covariance / unit)

    def nearest_in_white(self, white: np.ndarray) -> Projection:
        """Return the projection where some directions have far more noise than labels have signal.

        Along a white coordinate no labels give more than their own deviation. So each is first
        taken for normal with that variance, u: its mean is u (u I + C)^-1 A then, and its
        covariance u C (u I + C)^-1, in which the projection is the nearest.
        """
        kept = self.kept_of_labels(white)
        covariance = noise_in_basis(self.noise, self._basis).dense(len(white))
        centre = white - around_centre(white).reshape(white.shape)
        mean = centre + kept @ (white - centre)
        left = covariance @ kept
        left += _METRIC_TOLERANCE * float(left.diagonal().max()) * np.eye(len(left))
        metric = np.linalg.cholesky((left + left.T) / 2)
        rows = self.rows.in_basis(self._basis)
        return project(rows, mean, metric=metric, tol=_PROJECTION_TOLERANCE)

    @property
    def _knows_classes(self) -> bool:
        """Whether the intercept has so much less noise that no metric says it."""
        if not self.intercept or self.noise.form != "diagonal":
            return False
        variances = self.noise.diagonal(len(self.released))
        return bool(variances[-1] < _METRIC_TOLERANCE * variances.max())

    @cached_property
    def white_noise(self) -> np.ndarray:
        """The variance of the noise along each white coordinate."""
        return self.noise.along(self._basis)

    @property
    def _basis(self) -> np.ndarray:
        return np.eye(len(self.released)) if self.basis is None else self.basis

    @cached_property
    def kept_shares(self) -> np.ndarray:
        """The share of the released operator that is kept along each white coordinate."""
        if self.basis is None:
            return np.ones(len(self.released))
        return self._shares(self.basis.T @ self.released)

    def _shares(self, operator: np.ndarray) -> np.ndarray:
        """Return the share that is kept of an operator along each white coordinate.

        The intercept says how large the classes are and nothing about rows: its share is its own.
        """
        shares, _ = self._posterior(operator)
        if not self.intercept:
            return shares
        if self.linear:
            columns = max(operator.size // len(operator) - 1, 1)
            energy = float(np.sum(around_centre(operator)[-1] ** 2)) / columns
            own = max(0.0, 1 - self.white_noise[-1] / energy) if energy > 0 else 0.0
            return np.append(shares, own)
        # All proportions are as likely: 2 p - 1 has the variance 1/3, p_k of K (1 - 1/K)/K/(K + 1).
        classes = operator.size // len(operator)
        spread = 1 / 3 if classes == 1 else (1 - 1 / classes) / (classes * (classes + 1))
        return np.append(shares, spread / (spread + self.white_noise[-1]))

    def _posterior(self, operator: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the shares of the features, and the logarithm of the Bayes factor for signal."""
        features = slice(None, -1 if self.intercept else None)
        signal = around_centre(operator)[features]
        columns = max(signal.shape[1] - 1, 1)  # every row is in one class: the last one follows
        energy = np.sum(signal**2, axis=1) / columns
        noise = self.white_noise[features]
        assert self.variances is not None  # noqa: S101  # for the type checker: there is a basis
        if self.linear:
            return _likeliest_shares(self.variances, energy, noise, columns)
        # Labels have the variance 1, or (1 - 1/K) over all of K columns: 1/K in each free one.
        unit = 1 / signal.shape[1]
        return _mean_shares(self.variances, energy, noise + unit / self.rows.labels, columns, unit)

    def ridge(self, weight: float) -> float:
        """Return the least ridge that bounds the margin noise; ``weight`` is the operator's.

        The margin of two classes has the noise of two columns.
        """
        columns = 1 if self.released.ndim == 1 else 2
        noise = columns * float(np.sum(self.kept_shares**2 * self.white_noise))
        most = _VOTE_MARGIN_VARIANCE if self.linear else _MARGIN_VARIANCE
        return max(weight * float(np.sqrt(noise / most)), _SMALLEST_RIDGE)

    @property
    def leaves_most_out(self) -> bool:
        """Whether noise hides most directions of the features, as where a count has one beside it.

        Owners of few rows release such operators (`suffice.owner.mean_operator`).
        """
        variances, _ = white_basis(self.rows, intercept=self.intercept)
        return self.variances is not None and 2 * len(self.variances) <= len(variances)

    def chance_of_worse(self, model: np.ndarray, restored: np.ndarray) -> float:
        """Return how likely a model of two classes is right less often than a constant.

        Rows to which it gives the smaller class make the difference, -c sum_i w_i E[y_i] over them,
        c the larger class. E[y] = A^T z is taken as linear in the white coordinates z, and A as
        normal around ``restored``, with the variances k_j n_j that shrinking leaves.
        """
        rows = self.rows.sample.in_basis(self._basis)
        larger = np.sign(restored[-1])
        differs = (larger * rows.scores(model) < 0).astype(float)
        direction = -larger * rows.combined(rows.weights * differs)
        variance = float(np.sum(direction**2 * self.kept_shares * self.white_noise))
        gain = float(direction @ restored)
        return float(ndtr(-gain / np.sqrt(variance))) if variance > 0 else 0.0

    @cached_property
    def hides_all_features(self) -> bool:
        """Whether the released operator is as likely if the features say nothing."""
        return self.intercept and self._posterior(self._basis.T @ self.released)[1] <= 0


def _released_directions(
    variances: np.ndarray, basis: np.ndarray, noise: Covariance, most: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the white directions of the features whose noise is at most ``most``; the intercept.

    Owners of few rows leave out most directions, of components of their own sample of the rows. So
    white coordinates are turned until their noise is independent. Where nothing was left out they
    stay as they are.
    """
    features = basis[:, : len(variances)]
    sizes, turn = np.linalg.eigh(noise_in_basis(noise, features).dense(len(variances)))
    released = sizes <= most
    if released.all():
        return variances, basis
    turn = turn[:, released]
    turned = np.hstack([features @ turn, basis[:, len(variances) :]])
    return np.asarray(variances @ turn**2), turned


def _mean_shares(
    variances: np.ndarray, energy: np.ndarray, noise: np.ndarray, columns: int, unit: float
) -> tuple[np.ndarray, float]:
    """Return the mean of k_j over R^2 and q, and the logarithm of the Bayes factor for signal.

    ``energy`` is the mean square of the signal's ``columns`` free entries along a coordinate.
    """
    if not len(variances):
        return np.zeros(0), 0.0
    shares, fits = [], []
    for exponent in _EXPONENTS:
        spread = (variances / variances.max()) ** exponent
        signal = unit * _EXPLAINED_SHARES[:, None] * spread / spread.sum()
        total = signal + noise
        shares.append(signal / total)
        fits.append(-columns / 2 * (np.log(total) + energy / total).sum(axis=1))
    likely = np.concatenate(fits)
    nothing = -columns / 2 * float((np.log(noise) + energy / noise).sum())
    weights = np.exp(likely - likely.max())
    mean = weights @ np.concatenate(shares) / weights.sum()
    return np.asarray(mean), float(np.log(weights.mean()) + likely.max()) - nothing


def _likeliest_shares(
    variances: np.ndarray, energy: np.ndarray, noise: np.ndarray, columns: int
) -> tuple[np.ndarray, float]:
    """Return k_j of the t and q of largest likelihood, and by how much that exceeds no signal's.

    ``energy`` is the mean square of the signal's ``columns`` free entries along a coordinate.
    """
    largest = float(energy.max(initial=0.0))
    if not largest > 0 or not noise.any():
        return np.full(len(noise), float(largest > 0)), np.inf if largest > 0 else 0.0
    nothing = -np.inf
    if noise.all():
        nothing = -columns / 2 * float((np.log(noise) + energy / noise).sum())
    best = (nothing, np.zeros(len(noise)))
    for exponent in _VOTE_EXPONENTS:
        signal = largest * _VOTE_SCALES[:, None] * (variances / variances.max()) ** exponent
        total = signal + noise
        fits = -columns / 2 * (np.log(total) + energy / total).sum(axis=1)
        at = int(np.argmax(fits))
        if fits[at] > best[0]:
            best = (float(fits[at]), signal[at] / total[at])
    return best[1], best[0] - nothing


@dataclass(frozen=True, eq=False)
class Denoised:
    """Problems with their operators as they were released, and with those that are left of them.

    Both are in the same coordinates: white ones where the denoisers have a basis.

    Attributes
    ----------
    problems : list of FactoredProblem
        One problem, or one per class, with the released operator.
    noise : Covariance
        The noise of each column of it.
    cleaned : list of FactoredProblem
        The same with the operator that models are fitted to.
    denoisers : list of Denoiser
        One for each problem; none where operators stay as they are.
    """

    problems: list[FactoredProblem]
    noise: Covariance
    cleaned: list[FactoredProblem]
    denoisers: Sequence[Denoiser] = ()

    @property
    def basis(self) -> np.ndarray | None:
        """The basis of white coordinates; None in those of the pipeline."""
        return self.denoisers[0].basis if self.denoisers else None

    def prefers_constant(self, models: list[np.ndarray], *, majority_known: bool) -> bool:
        """Return whether a constant is as good as these models, as far as the noise tells.

        It is where each operator is as likely if the features say nothing, and the models give all
        rows one class anyway; or where a model may well be worse than a larger class that is known.
        """
        if self.basis is None or self.denoisers[0].linear:
            return False
        if all(denoiser.hides_all_features for denoiser in self.denoisers):
            scores = self.problems[0].weighted.scores(side_by_side(models))
            classes = scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)
            if (classes == classes[0]).all():
                return True
        denoiser = self.denoisers[0]
        if len(models) > 1 or models[0].ndim > 1 or not (majority_known and denoiser.intercept):
            return False
        # Elsewhere the chance is overestimated: of 12 Laplace releases of spambase at epsilon .1,
        # two models were given up that were right 20 points more often than a constant.
        return denoiser.leaves_most_out and (
            denoiser.chance_of_worse(models[0], self.cleaned[0].operator) > _MOST_DOUBT
        )


def denoise(
    problems: list[FactoredProblem], noise: Covariance, *, votes: bool, tuned: bool
) -> Denoised:
    """Return problems whose operators have as much of the noise removed as their settings allow.

    ``votes`` says whether parties' votes are behind them, ``tuned`` whether the penalty is chosen
    here. Where noise is small, or not known, operators stay as they are.
    """
    first = problems[0]
    squared = first.penalty.name == "l2"
    if votes and squared and noise.form != "none":
        make = Denoiser.of_votes
    elif noise.form == "none" or not any(is_noisy(problem, noise) for problem in problems):
        return within_rows(problems, noise)
    else:
        make = Denoiser.of if squared and tuned and first.curvature > 0 else Denoiser.projecting
    denoisers = [make(problem, noise) for problem in problems]
    basis = denoisers[0].basis
    if basis is not None:
        noise, rows = noise_in_basis(noise, basis), first.weighted.in_basis(basis)
        problems = [
            problem.on_rows(rows).with_operator(basis.T @ problem.operator) for problem in problems
        ]
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
        values, vectors = np.linalg.eigh(problems[0].moment)
        span = vectors[:, values > 1e-12 * values[-1]]
        if span.shape[1] < width:
            projection = span @ span.T
            problems = [p.with_operator(projection @ p.operator) for p in problems]
            noise = noise_in_basis(noise, projection)
    return Denoised(problems, noise, problems)
