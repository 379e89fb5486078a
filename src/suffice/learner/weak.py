"""Mean operators from weak supervision: what is known of labels becomes an operator and its noise.

Patrini et al. 2016, Meta-Algorithm 1: estimate the mean operator from what there is, then minimise
the factored risk. A source of supervision (labels, flipped labels, votes, bags of known
proportions, ...) is a dataclass of what is known. All of them estimate by `Supervision.estimate`,
and become a mean operator and how sure it is (`OperatorEstimate`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from suffice.errors import ForeignRowsError, ParameterError, TableError
from suffice.models.problem import WeightedRows, as_weighted, gram
from suffice.releases.release import Covariance, Release
from suffice.tables.columns import Classes, check_classes, label_codes

CONDITION_LIMIT = 1e6  # beyond it, what is inverted is mostly rounding and sampling noise
_NEGLIGIBLE = 1e-12  # of the largest eigenvalue: rounding


@dataclass(frozen=True, eq=False)
class OperatorEstimate:
    """Holds an estimate of a mean operator, in public coordinates."""

    operator: np.ndarray  # mu (d,) for two classes, M (d, K) for more
    # The covariance of its error given the true labels of the rows; of M the mean over its
    # columns. Form "none" where it is not known.
    noise: Covariance
    classes: tuple[Any, ...]  # the second of two counts as +1


class Supervision(ABC):
    """A source of supervision: what is known about the labels of some rows."""

    @abstractmethod
    def estimate(self, rows: Any) -> OperatorEstimate:
        """Return an estimate of the mean operator of these mapped rows (m, d).

        Labels, votes and releases also take `WeightedRows`. Rows that do not fit what is known
        about their labels are an error.
        """


def _codes_of(labels: Any, classes: Classes, rows: np.ndarray | WeightedRows) -> np.ndarray:
    """Return each label's position among the classes; there must be one label per row."""
    codes = label_codes(labels, classes)
    if len(codes) != len(rows):
        raise ParameterError(
            f"There are {len(codes)} labels for {len(rows)} rows. Pass one for each row."
        )
    return codes


def group_sums(rows: np.ndarray | WeightedRows, codes: np.ndarray, groups: int) -> np.ndarray:
    """Return the sum of the rows of each group, one group per line."""
    if isinstance(rows, WeightedRows):  # a byte for each row and group, and no row
        return rows.combined((codes[:, None] == np.arange(groups)).astype(np.int8)).T
    count = len(rows)
    member = csr_array((np.ones(count), (codes, np.arange(count))), shape=(groups, count))
    return np.asarray(member @ rows)


def _as_operator(matrix: np.ndarray) -> np.ndarray:
    """Return mu = M_2 - M_1 for two classes, M (d, K) itself for more."""
    return matrix[:, 1] - matrix[:, 0] if matrix.shape[1] == 2 else matrix


def _noise_of_gram(matrix: np.ndarray, variance: float) -> Covariance:
    """Return variance x matrix in factor form; eigenvalues below rounding are left out."""
    values, vectors = np.linalg.eigh(matrix)
    significant = values > _NEGLIGIBLE * max(values[-1], 0.0)
    if variance <= 0 or not significant.any():
        return Covariance("identity", 0.0)
    return Covariance(
        "factor", float(variance), vectors[:, significant] * np.sqrt(values[significant])
    )


def _as_numbers(values: Any) -> np.ndarray:
    """Return values as an array; an empty one, which fits nothing, if they are no numbers."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return np.empty(0)


@dataclass(frozen=True, eq=False)
class FlippedLabels(Supervision):
    """Computes an unbiased mean operator from labels flipped independently at known rates.

    M = (1/m) sum_i x_i (P^-1 e_o(i))^T with o(i) the observed label and P_ij = P(observed i | true
    j); for two classes this is mu = (1/m) sum_i y_i x_i with

        y_i = (y~_i + rho_pos - rho_neg) / (1 - rho_pos - rho_neg).

    Assumes that a flip depends on the true class only, neither on the row nor on other flips. The
    covariance is that of the flips given the true labels, (1/m^2) sum_i v_i x_i x_i^T, v_i being
    the unbiased estimate of a row's conditional variance, at least zero.

    Parameters
    ----------
    labels : array of shape (m,)
        One observed label per row.
    classes : sequence
        The K classes; the second of two counts as +1.
    rates : array of shape (K, K) or (2,)
        P with P_ij = P(observed i | true j). For two classes also the pair (rho_neg, rho_pos): the
        probability that a label of the first (second) class was flipped.
    """

    labels: Any
    classes: Any
    rates: Any

    def estimate(self, rows: np.ndarray | WeightedRows) -> OperatorEstimate:
        """Return the operator, corrected for the flips."""
        classes = check_classes(self.classes)
        count, m = len(classes), len(rows)
        channel = _as_numbers(self.rates)
        if count == 2 and channel.shape == (2,):
            channel = np.array([[1 - channel[0], channel[1]], [channel[0], 1 - channel[1]]])
        if channel.shape != (count, count):
            raise ParameterError(
                f"rates must be a {count} x {count} matrix P(observed | true)"
                + (", or the flip rates of both classes." if count == 2 else ".")
            )
        inside = ((channel >= 0) & (channel <= 1)).all()
        if not (inside and np.allclose(channel.sum(axis=0), 1, atol=1e-9)):
            raise ParameterError(
                "rates must be probabilities, and each column (one true class) must sum to one."
            )
        if count == 2 and not channel[0, 1] + channel[1, 0] < 1:
            raise ParameterError(
                f"The flip rates sum to {channel[0, 1] + channel[1, 0]:.3g}, but must sum to less"
                " than one. Check which class each rate belongs to."
            )
        condition = float(np.linalg.cond(channel))
        if not condition <= CONDITION_LIMIT:
            raise ParameterError(
                f"Some classes can hardly be told apart: rates has condition number"
                f" {condition:.2g}, above {CONDITION_LIMIT:.0e}. Merge these classes, or use other"
                " rates."
            )
        inverse = np.linalg.inv(channel)
        codes = _codes_of(self.labels, classes, rows)
        # Natarajan et al. 2013, Lemma 1; Patrini et al. 2017, Theorem 1 (backward correction)
        matrix = (group_sums(rows, codes, count) / m).T @ inverse.T
        # Var(P^-1 e_o | true j)_k is linear in e_j, so P^-1 gives its unbiased estimate from o:
        # q (q - 1) with q = (P^-1)_ko. Summed over k, q sums to one; mu is 2 M_2 - mean x.
        spread = (inverse**2).sum(axis=0) - 1
        spread *= 2.0 if count == 2 else 1 / count
        second = as_weighted(rows).gram(np.maximum(spread, 0.0)[codes]) / m
        return OperatorEstimate(_as_operator(matrix), _noise_of_gram(second, 1 / m), classes)


def estimate_mean_operator(rows: Any, source: Supervision) -> OperatorEstimate:
    """Return an estimate of the mean operator of mapped rows from a source of supervision.

    Patrini et al. 2016, Meta-Algorithm 1, step 1. What a source assumes stands in its docstring.

    Parameters
    ----------
    rows : array of shape (m, d)
        Mapped rows. Those of a release may also be `WeightedRows`, which need not be in memory.
    source : Supervision
        One of `suffice.learner.weak`, for example ``PlainLabels`` or ``KnownProportions``.

    Returns
    -------
    OperatorEstimate
        The operator and the covariance of its error.

    Raises
    ------
    ParameterError
        If the rows are not a matrix of finite numbers, or do not fit the source.

    Examples
    --------
    >>> import suffice
    >>> from suffice.learner.weak import PlainLabels
    >>> source = PlainLabels([0, 1], classes=(0, 1))
    >>> suffice.estimate_mean_operator([[1.0, 2.0], [3.0, 4.0]], source).operator
    array([1., 1.])
    """
    if isinstance(rows, WeightedRows):
        return source.estimate(rows)
    mapped = _as_numbers(rows)
    if mapped.ndim != 2 or 0 in mapped.shape or not np.isfinite(mapped).all():
        raise ParameterError(
            "rows must be a matrix of finite numbers, with one row per record. Map them with a"
            " pipeline first."
        )
    if not isinstance(source, Supervision):
        raise ParameterError(
            "source must be an object of suffice.learner.weak, such as PlainLabels."
        )
    return source.estimate(mapped)


@dataclass(frozen=True, eq=False)
class PlainLabels(Supervision):
    """Computes the mean operator itself: mu = (1/m) sum_i y_i x_i, or M = (1/m) sum_i x_i e_y^T.

    Parameters
    ----------
    labels : array of shape (m,)
        One exact label per row.
    classes : sequence
        The classes; the second of two counts as +1.

    Examples
    --------
    >>> import numpy as np
    >>> from suffice.learner.weak import PlainLabels
    >>> source = PlainLabels(["ill", "well"], classes=("well", "ill"))
    >>> source.estimate(np.array([[1.0, 0.0], [0.0, 1.0]])).operator
    array([ 0.5, -0.5])
    """

    labels: Any
    classes: Any

    def estimate(self, rows: np.ndarray) -> OperatorEstimate:
        """Return the operator of the exact labels."""
        classes = check_classes(self.classes)
        codes = _codes_of(self.labels, classes, rows)
        matrix = group_sums(rows, codes, len(classes)).T / len(rows)
        return OperatorEstimate(_as_operator(matrix), Covariance("identity", 0.0), classes)


@dataclass(frozen=True, eq=False)
class SoftVotes(Supervision):
    """Computes the mean operator of soft labels: M = (1/m) sum_i x_i v_i^T.

    The operator's noise is variance S/m per column, S = X^T X / m, twice that for mu.
    """

    votes: np.ndarray  # (m, K), of the proportion of each class; need not be proportions themselves
    classes: Any
    variance: float = 0.0  # of the independent noise on every entry

    def estimate(self, rows: np.ndarray | WeightedRows) -> OperatorEstimate:
        """Return the operator of the votes."""
        classes = check_classes(self.classes)
        votes = np.asarray(self.votes, dtype=np.float64)
        if votes.shape != (len(rows), len(classes)):
            raise ParameterError(
                f"votes must be a matrix with {len(rows)} rows and {len(classes)} columns"
                " (classes)."
            )
        weighted = as_weighted(rows)
        operator = _as_operator(weighted.combined(votes) / len(rows))
        entries = 2.0 if len(classes) == 2 else 1.0
        noise = _noise_of_gram(weighted.moment / len(rows), entries * self.variance)
        return OperatorEstimate(operator, noise, classes)


@dataclass(frozen=True, eq=False)
class Released(Supervision):
    """Computes the mean operator of a release: as it was released, or from labels or votes.

    Patrini et al. 2016, Section 4: the release is unbiased. Only the number and the width of the
    rows are checked here; `suffice.learner.problem.matching_rows` checks the rows themselves.

    Parameters
    ----------
    release : Release
        A release of kind mean-operator, label-responses or votes.
    """

    release: Release

    def estimate(self, rows: np.ndarray | WeightedRows) -> OperatorEstimate:
        """Return the operator of the release."""
        release, classes = self.release, self.release.classes
        width = release.pipeline.width
        if (release.rows, width) != rows.shape:
            raise ForeignRowsError(
                f"The release belongs to {release.rows} rows of {width} coordinates, but there are"
                f" {len(rows)} rows of {rows.shape[1]}. Map the owner's rows with the release's"
                " pipeline."
            )
        if {*release.arrays} == {"answers", "channel"}:  # labels, each randomised
            answers, codes = release.arrays["answers"], range(len(classes))
            corrected = FlippedLabels(answers, codes, release.arrays["channel"]).estimate(rows)
            return replace(corrected, classes=classes)
        if "votes" in release.arrays:
            votes = SoftVotes(release.arrays["votes"], classes, release.noise.variance)
            return votes.estimate(rows)
        operator = release.array("mean_operator", "mean operator")
        return OperatorEstimate(operator, release.noise, classes)


FOLDS = 5  # of cross-validation, here and wherever rows of bags or records are held out
_FEWEST = 2 * FOLDS  # labelled rows
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # times the mean eigenvalue of the labelled rows' gram


@dataclass(frozen=True, eq=False)
class PositiveUnlabelled(Supervision):
    """Computes mu from positive rows, unlabelled rows and the proportion of positives.

    mu = 2 pi E[x | +] - E[x], with pi = ``prior``. Assumes two classes, a prior that is right for
    these rows, and positives that are a random sample of all positive ones. The covariance is
    4 pi^2 Cov(x | +) (1/n + s/(pi m)) from the sample covariance of n positives, s = -1 if they are
    among the rows and +1 if not; an error of the prior is not in it.

    Parameters
    ----------
    positives : array of shape (m,) or (n, d)
        A mask over the rows, true for rows that are known to be positive; or other mapped rows,
        all of them positive.
    prior : float
        The proportion of the second class among the rows.
    classes : sequence
        The two classes; the second is the positive one.
    """

    positives: Any
    prior: float
    classes: Any

    def estimate(self, rows: np.ndarray) -> OperatorEstimate:
        """Return the operator; its error comes from the sampling of the positives."""
        classes = check_classes(self.classes)
        if len(classes) != 2:
            raise ParameterError("PositiveUnlabelled works for two classes only. List two classes.")
        if not 0 < self.prior < 1:
            raise ParameterError(
                "prior, the proportion of the second class, must lie between 0 and 1. It is"
                f" {self.prior!r}."
            )
        array = np.asarray(self.positives)
        among = array.dtype == bool and array.shape == (len(rows),)  # or from elsewhere
        outside = array.ndim == 2 and array.shape[1] == rows.shape[1] and array.dtype.kind in "fiu"
        if not (among or outside):
            raise ParameterError(
                f"positives must be a mask of {len(rows)} booleans, or rows of {rows.shape[1]}"
                " coordinates."
            )
        positive_rows = rows[array] if among else array.astype(np.float64)
        if len(positive_rows) < 2 or not np.isfinite(positive_rows).all():
            raise ParameterError("positives must hold two or more rows of finite numbers.")
        expected = self.prior * len(rows)
        if among and len(positive_rows) > expected + 0.5:
            raise ParameterError(
                f"{len(positive_rows)} rows are marked positive, but the prior allows"
                f" {expected:.0f}. Raise the prior."
            )
        # mu = pi E[x|+] - (1 - pi) E[x|-], and E[x] = pi E[x|+] + (1 - pi) E[x|-]
        centre = positive_rows.mean(axis=0)
        operator = 2 * self.prior * centre - rows.mean(axis=0)
        # a sample of the rows' own positives errs less (finite population), one from elsewhere more
        share = 1 / len(positive_rows) + (-1 if among else 1) / expected
        scatter = gram(positive_rows - centre) / (len(positive_rows) - 1)
        noise = _noise_of_gram(scatter, 4 * self.prior**2 * share)
        return OperatorEstimate(operator, noise, classes)


@dataclass(frozen=True, eq=False)
class SemiSupervised(Supervision):
    """Computes the mean operator of all rows from the labels of a random sample of them.

    M = S B + (1/n) sum_{labelled} x_i (e_y(i) - B^T x_i)^T,   S = (1/m) sum_{all} x_i x_i^T

    (y in -1, +1 and mu for two classes): the linear prediction B^T x of the label is averaged over
    every row, and the labelled ones correct its bias. It is the generalised regression estimator
    (Saerndal, Swensson and Wretman 1992, chapter 6), with S as the control variate; B is fitted
    on other folds than it corrects (cross-prediction, Zrnic and Candes 2024), which keeps it
    unbiased for any B. B is ridge regression with the penalty of least estimated variance; B = 0,
    the labelled rows alone, is among the choices (as in PPI++, Angelopoulos et al. 2023).

    Assumes that labels are missing completely at random. Folds are drawn from a fixed seed. The
    covariance is that of drawing the labelled rows, (1/n - 1/m) Cov(x r), r the residuals of labels
    predicted from other folds.

    Parameters
    ----------
    labels : array of shape (m,)
        One label per row, None or NaN where it is missing.
    classes : sequence
        The classes; the second of two counts as +1.
    """

    labels: Any
    classes: Any

    def estimate(self, rows: np.ndarray) -> OperatorEstimate:
        """Return the operator; its error comes from the sampling of the labelled rows."""
        classes = check_classes(self.classes)
        try:
            column = pa.array(self.labels, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError):
            raise TableError(
                "labels must be of one type. Use None or NaN where a label is missing."
            ) from None
        if len(column) != len(rows):
            raise ParameterError(
                f"There are {len(column)} labels for {len(rows)} rows. Pass one for each row, None"
                " where it is missing."
            )
        labelled = np.asarray(column.is_valid())
        if labelled.sum() < _FEWEST:
            raise ParameterError(
                f"Only {labelled.sum()} rows have a label. Label at least {_FEWEST}."
            )
        codes = label_codes(column.drop_null(), classes)
        missing = len(classes) - len(np.unique(codes))
        if missing:
            raise ParameterError(
                f"{missing} of the classes have no labelled row. Label rows of each class."
            )
        if labelled.all():
            return PlainLabels(self.labels, classes).estimate(rows)
        labelled_rows, n, m = rows[labelled], len(codes), len(rows)
        targets = np.eye(len(classes))[codes]
        if len(classes) == 2:
            targets = targets @ [[-1.0], [1.0]]
        slopes, residuals = _cross_fit(labelled_rows, targets)
        centres = labelled_rows.T @ residuals / n
        operator = centres + gram(rows) @ slopes / m if slopes.any() else centres
        columns = targets.shape[1]
        # n of m rows without replacement; every column of M has its own, of which this is the mean
        scatter = gram(labelled_rows, (residuals**2).sum(axis=1)) - n * centres @ centres.T
        noise = _noise_of_gram(scatter / (n - 1) / columns, 1 / n - 1 / m)
        final = operator[:, 0] if columns == 1 else operator
        return OperatorEstimate(final, noise, classes)


def _cross_fit(labelled_rows: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean slopes (d, c) and out-of-fold residuals (n, c) of the best ridge, or of 0."""
    n, d = labelled_rows.shape
    fold = np.random.default_rng(0).permutation(n) % FOLDS
    second, first = gram(labelled_rows), labelled_rows.T @ targets
    unit = np.trace(second) / d or 1.0
    slopes = np.zeros((len(_RIDGES), d, targets.shape[1]))
    residuals = np.repeat(targets[None], len(_RIDGES) + 1, axis=0)  # the last: no prediction
    for k in range(FOLDS):
        held_out, y = labelled_rows[fold == k], targets[fold == k]
        values, vectors = np.linalg.eigh(second - gram(held_out))
        projected_moments = vectors.T @ (first - held_out.T @ y)
        for i, ridge in enumerate(_RIDGES):
            slope = vectors @ (
                projected_moments / (np.maximum(values, 0.0) + ridge * unit)[:, None]
            )
            residuals[i, fold == k] -= held_out @ slope
            slopes[i] += len(held_out) / n * slope
    noise = (residuals**2).sum(axis=2) @ (labelled_rows**2).sum(axis=1)
    best = int(noise.argmin())
    return (slopes[best] if best < len(_RIDGES) else np.zeros_like(first)), residuals[best]


@dataclass(frozen=True, eq=False)
class BagMoments:
    """Holds n bags: each row's bag, and per bag its size, mean row and class shares."""

    codes: np.ndarray  # (m,)
    sizes: np.ndarray  # (n,)
    means: np.ndarray  # (n, d)
    shares: np.ndarray  # (n, K)
    squares: np.ndarray  # (n,), the mean squared 2-norm of the rows

    @property
    def weights(self) -> np.ndarray:
        """The share of all rows in each bag."""
        return self.sizes / self.sizes.sum()

    @property
    def prior(self) -> np.ndarray:
        """The share of each class among all rows."""
        return self.weights @ self.shares

    @property
    def spread(self) -> np.ndarray:
        """The trace of each bag's covariance."""
        return np.maximum(self.squares - (self.means**2).sum(axis=1), 0.0)


def bags_of(rows: np.ndarray, bags: Any, proportions: Any, classes: int) -> BagMoments:
    """Return the bags of these rows, or say what does not fit."""
    shares = class_shares(proportions, classes)
    codes = np.asarray(bags)
    if codes.shape != (len(rows),) or codes.dtype.kind not in "iu":
        raise ParameterError(
            f"bags must hold one whole number, that of its bag, for each of the {len(rows)} rows."
        )
    count = len(shares)
    if codes.min() < 0 or codes.max() >= count:
        raise ParameterError(
            f"bags must hold numbers from 0 to {count - 1}, one for each row of proportions. Some"
            " rows have another number."
        )
    sizes = np.bincount(codes, minlength=count).astype(np.float64)
    if not sizes.all():
        raise ParameterError(
            f"{np.count_nonzero(sizes == 0)} of {count} bags have no rows. Leave them out."
        )
    means = group_sums(rows, codes, count) / sizes[:, None]
    squares = np.bincount(codes, weights=(rows**2).sum(axis=1)) / sizes
    return BagMoments(codes, sizes, means, shares, squares)


def class_shares(proportions: Any, classes: int) -> np.ndarray:
    """Return class shares (n, K); of two classes those of the second, (n,), are enough."""
    matrix = _as_numbers(proportions)
    if matrix.ndim == 1 and classes == 2 and len(matrix):
        matrix = np.column_stack([1 - matrix, matrix])
    if matrix.ndim != 2 or matrix.shape[1] != classes:
        short_form = ", or one number per bag for the second class" if classes == 2 else ""
        raise ParameterError(f"proportions must have {classes} columns, one per class{short_form}.")
    inside = ((matrix >= 0) & (matrix <= 1)).all()
    if not (inside and np.allclose(matrix.sum(axis=1), 1, atol=1e-6)):
        raise ParameterError(
            "proportions must be between 0 and 1, and those of each bag must sum to one."
        )
    return matrix


def check_identified(bags: BagMoments) -> None:
    """Raise unless the proportions tell all classes apart (Quadrianto et al. 2009)."""
    count, classes = bags.shares.shape
    if count < classes:
        raise ParameterError(
            f"{count} bags cannot tell {classes} classes apart. Use at least {classes} bags."
        )
    condition = float(np.linalg.cond(np.sqrt(bags.weights)[:, None] * bags.shares))
    if not condition <= CONDITION_LIMIT:
        raise ParameterError(
            f"The proportions of the bags are too much alike: their matrix has condition number"
            f" {condition:.2g}, above {CONDITION_LIMIT:.0e}. Form bags that differ more."
        )


Mapped = tuple[np.ndarray, Covariance]  # an operator and its covariance


class BagMethod(ABC):
    """Estimates a mean operator from bags of rows whose class proportions are known."""

    @abstractmethod
    def estimate(self, rows: np.ndarray, bags: BagMoments) -> Mapped:
        """Return the operator and its covariance."""


@dataclass(frozen=True)
class MeanMap(BagMethod):
    """Computes class means by least squares from bag means (Quadrianto et al. 2009).

    w = (Pi^T D Pi)^-1 Pi^T D B,   M_k = p_k w_k

    with B the bag means, Pi the proportions, p the class shares of all rows, and D the bag sizes
    (theirs is the identity; the variance of a bag's mean is one over its size).
    Assumes homogeneity, E[x | y, bag] = E[x | y] (E[x | bag] in Patrini et al. 2016, section 3, is
    a misprint), and proportions that tell the classes apart. The covariance is that of the rows
    about their class means, carried through the bag means; it assumes one within-class covariance
    for all classes. A bias from bags that are not homogeneous is not in it.
    """

    def weights(self, bags: BagMoments) -> np.ndarray:
        """Return G (n, K) with M = B^T G."""
        check_identified(bags)
        root = np.sqrt(bags.weights)
        inverse = np.linalg.pinv(root[:, None] * bags.shares)  # Algorithm 1, weighted
        return (bags.prior[:, None] * inverse * root).T

    def estimate(self, rows: np.ndarray, bags: BagMoments) -> Mapped:
        """Return the operator and its covariance."""
        weights = self.weights(bags)
        # Of the covariance about bag means, a part is due to classes mixed in one bag. It is
        # sum_j p_j (sum_k pi_jk w_k w_k^T - b_j b_j^T) with b_j = sum pi_jk w_k; the noise of the
        # solved means w adds a share of the within part to it, so that part is shrunk until the
        # traces agree.
        pooled, solve = within_bags(rows, bags), weights / bags.prior
        shares, sizes = bags.shares, bags.weights
        mixed = np.diag(sizes @ shares) - shares.T @ (sizes[:, None] * shares)  # (K, K)
        means = solve.T @ bags.means
        between = means.T @ mixed @ means
        added = float(np.trace(mixed @ (solve.T / bags.sizes) @ solve))
        # traces: E[between] = true + added within, E[pooled] = true + within; solved for the true
        part, shrunk = max(np.trace(between), 1e-300), 0.0
        if added < 1:
            true = (part - added * np.trace(pooled)) / (1 - added)
            shrunk = np.clip(true / part, 0, 1)
        return operator_of_bags(bags, weights, pooled - shrunk * between)


def operator_of_bags(bags: BagMoments, weights: np.ndarray, within: np.ndarray) -> Mapped:
    """Return B^T G as an operator, with the noise that rows of covariance ``within`` give it.

    The error of sum_j g_j b_j is sum_i e_i (g_j(i)/n_j(i) - t_y(i)/m), with e_i row i's deviation
    from its class mean and t_y what a row of class y weighs in the true operator.
    """
    operator = _as_operator(bags.means.T @ weights)
    target = np.eye(weights.shape[1])
    if weights.shape[1] == 2:
        weights, target = weights[:, 1:] - weights[:, :1], target[:, 1:] - target[:, :1]
    per_row = (weights / bags.sizes[:, None])[:, None] - target / bags.sizes.sum()  # (n, K, c)
    rows = bags.sizes[:, None] * bags.shares
    variance = float(np.einsum("jk,jkc->c", rows, per_row**2).mean())
    return operator, _noise_of_gram(within, variance)


def within_bags(rows: np.ndarray, bags: BagMoments) -> np.ndarray:
    """Return the pooled covariance of rows about their bag's mean."""
    free = max(len(rows) - len(bags.sizes), 1)
    return (gram(rows) - gram(bags.means, bags.sizes)) / free


# By name, since learners do not import the papers.
_METHODS_OF_PAPERS = ("laplacian", "alternating-min", "alternating-max")


@dataclass(frozen=True, eq=False)
class KnownProportions(Supervision):
    """Computes the mean operator from the proportion of each class in disjoint bags of rows.

    All methods assume that the proportions are exact; what else they assume stands there.

    Parameters
    ----------
    bags : array of shape (m,)
        The number of each row's bag, from 0.
    proportions : array of shape (n, K) or (n,)
        The class proportions of the bags, in the order of ``classes``; for two classes also the
        proportions of the second only.
    classes : sequence
        The K classes.
    method : str or object, default="mean-map"
        "mean-map"; "laplacian", "alternating-min" or "alternating-max" of the papers; or an object
        with its options: `MeanMap`, or one of `suffice.papers.bags`.
    """

    bags: Any
    proportions: Any
    classes: Any
    method: str | BagMethod = "mean-map"

    def estimate(self, rows: np.ndarray) -> OperatorEstimate:
        """Return the operator that the method estimates."""
        classes = check_classes(self.classes)
        method = MeanMap() if self.method == "mean-map" else self.method
        if method in _METHODS_OF_PAPERS:
            method = import_module("suffice.papers.bags").METHODS[method]
        if not isinstance(method, BagMethod):
            names = ", ".join(["mean-map", *_METHODS_OF_PAPERS])
            raise ParameterError(f"method must be one of {names}, or an object such as MeanMap().")
        bags = bags_of(rows, self.bags, self.proportions, len(classes))
        return OperatorEstimate(*method.estimate(rows, bags), classes)
