"""Release a mean operator: its forms, the choice of noise, and the procedures that add it.

For two classes it is mu = (1/m) sum_i y_i x_i with y = -1 or +1, one column; for K > 2 it is
M = (1/m) sum_i x_i e_(y_i)^T, a column per class. Another label moves m mu by 2 x_i, and m M by x_i
in two columns.

It is released as sums with noise, or as labels that are randomised one by one. Mechanisms are
compared by what they would do to a classifier (`suffice.owner.forecast`). All of that is computed
from public rows: choosing costs no privacy.
"""

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain, product
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from suffice.engines.engine import fold
from suffice.engines.summary import Summary
from suffice.engines.sums import MappedSums, PersonSums, label_weights, lattice_step
from suffice.errors import ParameterError, TableError
from suffice.kernels import maps
from suffice.options import (
    REQUIRED,
    data_option,
    option,
    preprocessing_option,
    privacy_option,
)
from suffice.owner.forecast import (
    EQUAL,
    SIGNALS,
    Plan,
    PublicMoments,
    Utility,
    check_balance,
    planned_epsilons,
    starred,
)
from suffice.owner.labelled import (
    Contents,
    LabelledPass,
    LabelMechanism,
    LabelProcedure,
    PublicRows,
    PublicTable,
)
from suffice.owner.mechanism import CLASSES, DELTA, EPSILON, Asked
from suffice.owner.scaling import UNCLIPPED
from suffice.owner.source import PublicSource, unlabelled_batches
from suffice.plain_text import collected_notes, note
from suffice.privacy.events import Event, Pure, check_promise
from suffice.privacy.guarantee import Guarantee
from suffice.privacy.noise import (
    LARGEST_SUM,
    NOISES,
    Noise,
    Sensitivity,
    calibrated_noise,
    needs_delta,
)
from suffice.privacy.response import Response
from suffice.releases.release import Covariance
from suffice.tables.columns import Classes, person_codes
from suffice.tables.pipeline import cost_of_map
from suffice.tables.table import RowLanes, is_ordered, narrow_batches, rows_parts

_ROOT = math.sqrt(2.0) * (1 + 1e-15)  # never below the square root


def operator_columns(classes: int) -> int:
    """Return how many columns the operator of so many classes has."""
    return 1 if classes == 2 else classes


def label_change(classes: int) -> float:
    """Return how far one label moves the sum, at most: in lengths (2-norms) of its row."""
    return 2.0 if classes == 2 else _ROOT


def gradient_change(classes: int) -> float:
    """Return the same of the loss's gradient, which weighs mu by 1/2 (logistic) and M by 1."""
    return 1.0 if classes == 2 else _ROOT


MOST_SHAPED = 1500  # coordinates: beyond, a matrix of all pairs is no small file any more
_BITS = 20  # of the largest entry of the integer matrix


def whitening(values: np.ndarray, vectors: np.ndarray, lam: float, curvature: float) -> np.ndarray:
    """Return T = (lam I + curvature S)^(-1/2), S given by its eigenvalues and eigenvectors.

    Of all T that share the eigenvectors of S it has the least margin noise at this ``lam`` for a
    fixed mean ||T x||^2: minimise (sum_j s_j g_j)(sum_j s_j / (h_j^2 g_j)) over g = T^T T, with
    h = lam + curvature s; by Cauchy and Schwarz g = 1/h.
    """
    return np.asarray((vectors / np.sqrt(lam + curvature * values)) @ vectors.T)


@dataclass(frozen=True, eq=False)
class Shape:
    """Computes u = rint(A s / 2^bits) of exact integer sums s, A an invertible integer matrix.

    Noise of covariance v I on u is noise of covariance v B B^T on s, B = 2^bits A^-1. A is public.
    All of it is integer arithmetic, so that the reach below bounds what one row can move
    (privacy/proofs/shaping.md).
    """

    matrix: np.ndarray
    bits: int = _BITS

    @classmethod
    def of(cls, transform: np.ndarray) -> "Shape":
        """Return the shape of noise that is even in the coordinates ``transform`` x."""
        scaled = np.rint(transform / np.abs(transform).max() * 2.0**_BITS)
        return cls(scaled.astype(np.int64))

    def apply(self, sums: np.ndarray) -> np.ndarray:
        """Return rint(A s / 2^bits) for each row s of ``sums``, in exact integers, as int64."""
        exact = sums.astype(object) @ self.matrix.T.astype(object)  # beyond 64 bits on the way
        half = 1 << (self.bits - 1)
        return np.asarray((exact + half) >> self.bits).astype(np.int64)

    def norms(self, codes: np.ndarray) -> tuple[float, float]:
        """Return bounds on the largest 1-norm and 2-norm of A x / 2^bits over rows x.

        ``codes`` (width, rows) may be off by one step in each coordinate, and floats round: both
        are added. The bounds do not depend on how rows are cut into batches.
        """
        shaped = np.empty_like(codes)
        maps.linear(self.matrix.astype(np.float64), codes, shaped)
        width = len(self.matrix)
        more = 1 + (width + 4) ** 2 * 2.0**-52  # than any sum of width^2 floats can lose
        size = float(np.linalg.norm(self.matrix)) * more
        row = float(maps.row_norms(codes).max())
        slack = size * (math.sqrt(width) + (width + 4) * 2.0**-52 * row) * more
        l1 = (float(maps.row_sums(shaped).max()) + math.sqrt(width) * slack) * more
        l2 = (float(maps.row_norms(shaped).max()) + slack) * more
        return l1 / 2**self.bits, l2 / 2**self.bits

    def back(self) -> np.ndarray:
        """Return B = 2^bits A^-1, which takes noisy u to the coordinates of s."""
        return np.linalg.inv(self.matrix / 2.0**self.bits)

    def covariance(self, variance: float) -> Covariance:
        """Return the covariance of noise on s that has the covariance ``variance`` I on u."""
        back = self.back()
        if np.array_equal(self.matrix, np.diag(self.matrix.diagonal())):
            return Covariance("diagonal", variance, np.ascontiguousarray(back.diagonal() ** 2))
        return Covariance("factor", variance, np.ascontiguousarray(back))


_SHAPED_ROWS = 4096  # mapped at once, to bound the memory of a shaped reach


@dataclass(frozen=True)
class PeopleReach:
    """How far all labels of one person move the sums, at most: from public rows and ids."""

    people: int  # how many there are
    rows: int  # the largest number of rows of a person
    l1: int  # the largest 1-norm of a person's rows, added up with the worst signs, in steps
    l2: int  # the largest 2-norm of the same


def rows_without_id(person: str) -> str:
    """Return the error of public rows that are nobody's."""
    return (
        f"Some rows have no id in column {person!r}, so that nobody knows whose labels they have."
        " Fill in the ids, or leave these rows out."
    )


class _PersonNorms(PersonSums):
    """Adds up the rows of each person, and their 1-norms and 2-norms in steps, rounded up."""

    def __init__(self, public: PublicRows, person: str) -> None:
        super().__init__(person, 3)
        self._pipeline, self._step = public.pipeline, lattice_step(public.pipeline.norm_bound)

    def codes_of(self, batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """Return whose rows these are, and the rows in steps, off by one in each at most."""
        people, held = person_codes(batch.column(self.person))
        if not held.all():
            raise TableError(rows_without_id(self.person))
        columns = self._pipeline.encoded(batch)
        if not np.isfinite(columns).all():
            self._pipeline.explain_holes(columns)
        return people, np.rint(self._pipeline.finished(columns) / self._step)

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in public rows and ids."""
        for part in narrow_batches(batch, len(self._pipeline.outputs)):
            people, rows = self.codes_of(part)
            self.add(people, np.vstack([np.ones(len(rows)), *_norms(rows, 1)]).astype(np.int64))


def _norms(rows: np.ndarray, added: int) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds on the norms of rows in steps, each a sum of ``added`` rows off by one step."""
    width = rows.shape[1]
    l2 = np.sqrt((rows * rows).sum(axis=1)) + added * math.sqrt(width) + 1  # for rounded floats
    return np.abs(rows).sum(axis=1) + added * width, np.ceil(l2)


def people_reach(public: PublicRows, person: str, classes: int) -> PeopleReach:
    """Return how far one person's labels move the sums (proofs/person.md).

    Other labels of rows x_i move the sums of two classes by 2 sum_i s_i x_i, s_i = -1, 0 or 1. The
    farthest has signs throughout: of up to 12 rows all signs are tried. Of more rows, or for more
    classes, lengths add up.
    """
    norms, columns = _PersonNorms(public, person), [*public.roles.features, person]
    parts = rows_parts(public.table, columns)
    people, (rows, l1, l2) = public.computing.fold(parts, lambda: deepcopy(norms)).result()
    if not len(people):
        raise TableError("The table has no rows.")
    tried = np.flatnonzero((rows > 1) & (rows <= 12)) if classes == 2 else np.zeros(0, dtype=int)
    lone = np.delete(l2, tried)
    tried = tried[l2[tried] > (lone.max() if len(lone) else 0)]  # others decide nothing
    # The farthest of them, as many as fit into 128 MB with all of their rows.
    most = 2**24 // (12 * len(public.pipeline.outputs))
    tried = tried[np.argsort(-l2[tried], kind="stable")][:most]
    if len(tried):
        gathered: dict[int, list[np.ndarray]] = {int(people[p]): [] for p in tried}
        for batch in chain.from_iterable(part.batches() for part in parts):
            for whose, row in zip(*norms.codes_of(batch), strict=True):
                if int(whose) in gathered:
                    gathered[int(whose)].append(row)
        for place in tried:
            own = np.array(gathered[int(people[place])])
            signs = np.array([*product([1.0], *[(-1.0, 1.0)] * (len(own) - 1))])
            both = _norms(signs @ own, len(own))
            l1[place], l2[place] = (int(norm.max()) for norm in both)
    return PeopleReach(len(people), int(rows.max()), int(l1.max()), int(l2.max()))


def one_row_each(public: PublicRows, person: str) -> np.ndarray:
    """Return one truth value for each row: whether it is the one that is kept of its person.

    It is the row of the least hash: a draw that depends on public cells and on no order. Of rows
    alike it is the first.
    """
    names = public.roles.features
    lanes, hashes, codes = RowLanes(public.table.schema, names), [], []
    for batch in public.table.batches([*names, person]):
        hashes.append(lanes.of(batch)[0])
        codes.append(person_codes(batch.column(person))[0])
    people = np.concatenate(codes)
    order = np.lexsort([np.concatenate(hashes), people])
    kept = np.zeros(len(people), dtype=bool)
    kept[order[np.unique(people[order], return_index=True)[1]]] = True
    return kept


class ExactSums(LabelledPass):
    """The exact sums of rows under their labels, and how far one label can move them."""

    def __init__(
        self,
        public: PublicRows,
        classes: Classes,
        shape: Shape | None,
        people: PeopleReach | None = None,
        *,
        identified: bool = True,
    ) -> None:
        super().__init__(public, classes, identified=identified)
        self._people = people
        self._columns = operator_columns(len(classes))
        self._sums = MappedSums(public.pipeline, self._columns)
        self.shape = shape
        self._shaped = np.zeros(2)
        self.step = self._sums.step

    def _take(self, columns: np.ndarray, codes: np.ndarray) -> None:
        self._sums.update((columns, label_weights(codes, len(self.classes))))
        if self.shape is None:
            return
        for first in range(0, columns.shape[1], _SHAPED_ROWS):
            rows = self.pipeline.finished(columns[:, first : first + _SHAPED_ROWS])
            norms = self.shape.norms(np.rint(rows.T / self.step))
            self._shaped = np.maximum(self._shaped, norms)

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen."""
        super().merge(other)
        self._sums.merge(other._sums)
        self._shaped = np.maximum(self._shaped, other._shaped)

    @property
    def sensitivity(self) -> Sensitivity:
        """How far one label moves the integers that noise is added to, from public rows alone."""
        width = len(self.pipeline.outputs)
        reach, dimension = self._sums.reach, width * self._columns
        # A changed label moves mu by 2x/m, or two columns of M by x/m each (docs/errata.md).
        factor = label_change(len(self.classes))
        l1, l2 = float(reach.l1), reach.l2
        extra = 0.0
        if self.shape is not None:
            (l1, l2), extra = self._shaped.tolist(), 1.0  # rounding: one step per coordinate
        people = self._people
        if people is not None:
            l1, l2 = float(people.l1), float(people.l2)
            if self.shape is not None:
                l1, l2 = (people.rows * self._shaped).tolist()
        if self.count * max(l2, reach.l2, 1.0) >= LARGEST_SUM:  # what is summed, and shaped
            raise ParameterError("There are too many rows for exact sums. Release them in parts.")
        return Sensitivity(
            math.ceil(2 * l1 + extra * dimension),
            factor * l2 + extra * math.sqrt(dimension),
            dimension,
        )

    @property
    def unit(self) -> float:
        """What one rounding step is worth in the mean."""
        return self.step / self.count

    def result(self) -> np.ndarray:
        """Return the exact sums that noise is added to, shaped where there is a shape: private."""
        exact = self._sums.result()
        return exact if self.shape is None else self.shape.apply(exact)

    def covariance(self, noise: Noise) -> Covariance:
        """Return the covariance of this noise on the mean, per column."""
        variance = noise.variance * self.unit**2
        if self.shape is None:
            return Covariance("identity", variance)
        return self.shape.covariance(variance)


class ExactLabels(LabelledPass):
    """The labels in the order of their rows, for randomised response.

    A label of no class is unknown: its answer comes from a class that is drawn first.
    """

    ordered = True

    def __init__(self, public: PublicRows, classes: Classes, *, identified: bool = True) -> None:
        super().__init__(public, classes, identified=identified)
        self._codes: list[np.ndarray] = []
        self._unknown: list[np.ndarray] = []

    def _take(self, columns: np.ndarray, codes: np.ndarray) -> None:
        if not np.isfinite(columns).all():
            self.pipeline.explain_holes(columns)
        self._codes.append(np.maximum(codes, 0).astype(np.uint8))
        self._unknown.append(codes < 0)

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen: the rows that follow."""
        super().merge(other)
        self._codes += other._codes
        self._unknown += other._unknown

    def result(self) -> np.ndarray:
        """Return the codes of all labels, 0 for one of no class: private."""
        return np.concatenate(self._codes)

    def randomised(self, response: Response) -> np.ndarray:
        """Return one randomised answer per row."""
        unknown = np.concatenate(self._unknown)
        return response.randomise(response.with_drawn(self.result(), unknown))


_EXPONENTS = (0.0, 0.5, 1.0)  # as in `suffice.learner.denoise`
_FLAT = 1e-9  # of the largest variance: no row varies in such a direction
_NARROW = 0.03  # of the first component's range: a narrower one is scaled as if it had that
_UNUSED = 0.02  # of the pair's part: what all components without a weight have together
_WEIGHTS = (0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5)  # of all weighted components together, by sqrt(k)
_TRIED = 8  # numbers of components with a weight


@dataclass(frozen=True, eq=False)
class ShrunkSignal:
    """What a learner that shrinks can expect of public rows, along their principal components.

    In white coordinates signal has the variance g_j, proportional to s_j^q with q one of a few, and
    the noise n_j. A learner who knows both keeps the share k_j = g_j / (g_j + n_j) of each, and
    scores then have the correlation sqrt(sum_j k_j g_j) with the labels.
    """

    codes: np.ndarray  # public rows as integers, the intercept's coordinate last
    moments: PublicMoments  # their number, the number of classes and the declared balance

    @property
    def constant(self) -> float:
        """The intercept's coordinate c."""
        return float(np.abs(self.codes[0, -1]))

    @cached_property
    def mean(self) -> np.ndarray:
        """The mean of the features."""
        return np.asarray(self.codes[:, :-1].mean(axis=0))

    @cached_property
    def components(self) -> tuple[np.ndarray, np.ndarray]:
        """All variances of the features, the largest first, and their principal components."""
        features = self.codes[:, :-1] - self.mean
        values, vectors = np.linalg.eigh(features.T @ features / len(features))
        return np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors[:, ::-1])

    @cached_property
    def rank(self) -> int:
        """How many components rows vary along."""
        values = self.components[0]
        if not len(values):
            return 0
        return int((values > _FLAT * max(float(values[0]), np.finfo(float).tiny)).sum())

    @cached_property
    def white_basis(self) -> np.ndarray:
        """B (d, r) such that B^T x has the mean zero and the covariance I."""
        values, vectors = (part[..., : self.rank] for part in self.components)
        scaled = vectors / np.sqrt(values)
        return np.vstack([scaled, -self.mean @ scaled / self.constant])

    def captured(self, variances: np.ndarray, r2: float) -> float:
        """Return the squared correlation of scores and labels, the mean over q.

        ``variances`` are those of the mechanism's noise along the white coordinates.
        """
        shares, signal = self._shares(variances, r2)
        return float((shares * signal).sum(axis=1).mean()) / self._pair**2

    @property
    def _pair(self) -> float:
        """The part of the rows that two classes have."""
        return 1.0 if self.moments.classes == 2 else 2 / self.moments.classes

    def _shares(self, variances: np.ndarray, r2: float) -> tuple[np.ndarray, np.ndarray]:
        """Return k_j and g_j, a row for each q."""
        values = self.components[0][: self.rank]
        spread = (values / values[0]) ** np.array(_EXPONENTS)[:, None]
        signal = r2 * self._pair**2 * spread / spread.sum(axis=1, keepdims=True)
        # The noise of the difference of two columns, and that of sampled labels.
        balance, columns = self.moments.balance, 1.0 if self.moments.classes == 2 else 2.0
        label_variance = 4 * balance * (1 - balance)
        noise = columns * variances / label_variance + self._pair / self.moments.count
        return signal / (signal + noise), signal

    def utility(self, variances: np.ndarray) -> Utility:
        """Return the prediction for noise of these variances along the white coordinates."""
        rho = {name: math.sqrt(self.captured(variances, r2)) for name, r2 in SIGNALS.items()}
        shares, _ = self._shares(variances, SIGNALS["usual"])
        columns, weight = (1.0, 0.5) if self.moments.classes == 2 else (2.0, 1.0)
        noise = columns * float((shares**2 * variances).sum(axis=1).mean())
        margin = (weight / self.moments.curvature) ** 2 * noise
        return Utility(rho["usual"], rho, margin, 0.0, self.moments.balance)


@dataclass(frozen=True, eq=False)
class _Ranges:
    """The principal components of rows, each scaled to [-1, 1] by its range."""

    signal: ShrunkSignal

    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The middle of each component's range, and half its width."""
        projected = self.signal.codes[:, :-1] @ self.signal.components[1]
        low, high = projected.min(axis=0), projected.max(axis=0)
        widths = (high - low) / 2
        return (low + high) / 2, np.maximum(widths, _NARROW * max(float(widths[0]), 1.0))

    @cached_property
    def sizes(self) -> np.ndarray:
        """|z_ij| / c of each row, (n, d - 1)."""
        middles, widths = self.ends
        return np.abs(self.signal.codes[:, :-1] @ self.signal.components[1] - middles) / widths

    def growth(self, weights: np.ndarray) -> float:
        """Return W for the weights of all components but the first."""
        return float(np.max(np.maximum(self.sizes[:, 0], 1.0) + self.sizes[:, 1:] @ weights))

    def white_noise(self, weights: np.ndarray, budget: float) -> np.ndarray:
        """Return the variance of the noise along each white coordinate; ``budget`` is m epsilon."""
        unit, rank = 2 * self.growth(weights) / budget, self.signal.rank
        (values, vectors), (middles, widths) = self.signal.components, self.ends
        deviations = np.sqrt(values[:rank])
        half = widths[:rank] / deviations
        aside = (middles - self.signal.mean @ vectors)[:rank] / deviations
        own = 4 * half**2
        own[1:] = 2 * (half[1:] / weights[: rank - 1]) ** 2
        return np.asarray(unit**2 * (own + 4 * aside**2))

    def transform(self, weights: np.ndarray) -> np.ndarray:
        """Return T (d, d) with rows (c + z_1) / 2, (c - z_1) / 2 and w_j z_j, on rows x."""
        vectors, (middles, widths) = self.signal.components[1], self.ends
        constant = self.signal.constant
        scaled = np.vstack([constant * vectors / widths, -middles / widths]).T  # z_j = <row j, x>
        one = np.append(np.zeros(len(vectors)), 1.0)
        first = scaled[0]
        pair = [(one + first) / 2, (one - first) / 2]
        return np.vstack([*pair, weights[:, None] * scaled[1:]])


def paired_transform(
    signal: ShrunkSignal, epsilon: float, sure: float, most: float
) -> np.ndarray | None:
    """Return the matrix in whose coordinates Laplace noise of one size is best, or None.

    Small tables: the class count and one principal component, at the cost of one count. Where m
    epsilon is small, noise on all coordinates hides everything, even which class is the larger, and
    a count of labels alone leaves nothing for the features. But the two sums

        u = sum_i y_i (c + z_i) / 2,    v = sum_i y_i (c - z_i) / 2,    |z_i| <= c,

    together move by 2 max(c, |z_i|) = 2c in the 1-norm when one label changes: no more than the
    count c sum_i y_i alone. Each has Laplace noise of all of epsilon, so that the count u + v and
    the direction u - v have twice the variance of a count alone. Two releases of half of epsilon
    each have four times that variance.

    z is the first principal component of the public rows, scaled to [-c, c] by its range: where
    rows fall into two clusters, it tells them apart. Other components j have a weight w_j, as part
    of the same 1-norm, in units of c: every noise grows by W = max_i (1 + sum_j w_j |z_ij| / c).
    How many have one, and how large, is chosen by the largest predicted correlation
    (`ShrunkSignal`), as long as the count stays sure.

    The noise of the count has the standard deviation 4 W / (m epsilon) in units of the rows. It is
    held to ``sure``, or to what the pair alone has where that is more. None if that is above
    ``most``.
    """
    if not signal.rank:
        return None
    budget = signal.moments.count * epsilon
    ranges, width = _Ranges(signal), signal.codes.shape[1] - 1
    unused = np.full(width - 1, _UNUSED / max(width - 1, 1))
    least = 4 * ranges.growth(unused) / budget
    if least > most:
        return None
    best, largest = unused, signal.captured(ranges.white_noise(unused, budget), SIGNALS["usual"])
    counts: list[int] = []  # evenly apart on a logarithmic scale
    if signal.rank > 1:
        counts = sorted({round(float(n)) for n in np.geomspace(1, signal.rank - 1, _TRIED)})
    for count in counts:
        for level in _WEIGHTS:
            weights = unused.copy()
            weights[:count] = np.maximum(level / math.sqrt(count), unused[:count])
            if 4 * ranges.growth(weights) / budget > max(sure, least):
                break
            captured = signal.captured(ranges.white_noise(weights, budget), SIGNALS["usual"])
            if captured > largest:
                best, largest = weights, captured
    return ranges.transform(best)


MECHANISMS = (*NOISES, "response")


class OperatorMechanism(StrEnum):
    """The mechanisms of a mean operator; the first two let public rows choose."""

    AUTO = "auto"
    SUMS = "sums"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    KNORM = "knorm"
    RESPONSE = "response"


# Names for a choice that public rows make: any mechanism, or any that adds noise to sums.
GROUPS: Mapping[str, tuple[str, ...]] = {"auto": MECHANISMS, "sums": tuple(NOISES)}
MOST_STATES = 256  # classes of randomised labels: an answer is one byte
_CLEARLY = 1.01  # randomised labels must be that much better than even noise
_UNSURE = 0.1  # deviation of the difference of two class proportions: beyond, a majority is hidden
_MOST_UNSURE = 0.2  # the same, where features are released with the count of labels
_COUNTED = 28.0  # m times the intercept's own epsilon: the deviation is then sqrt(8) / 28 = 0.1
_MOST_COUNTED = 0.95  # of epsilon, for the intercept
_LEAST_COUNTED = 0.2  # of epsilon: where less would do, rows are many and features worth more


@dataclass(frozen=True, eq=False)
class Candidate:
    """One mechanism at one epsilon, and what public rows predict of it."""

    mechanism: str  # laplace, gaussian, knorm or response
    epsilon: float  # the epsilon that it is calibrated for
    deviation: float  # root mean square of the noise per coordinate of the mean operator
    utility: Utility  # predicted accuracy and score noise
    shape: Shape | None = None  # the shape of noise that is not even
    # The part of epsilon that the intercept has for itself; 0 for noise like every
    # coordinate's.
    counted: float = 0.0
    # Variance of the noise on the last coordinate, the intercept's where there is one.
    intercept_variance: float = 0.0
    # Whether the count of labels shares its epsilon with a direction of the features.
    paired: bool = False


def choose(offered: Sequence[Candidate]) -> Candidate:
    """Return the candidate of the largest predicted correlation of scores with labels.

    Noise on sums is preferred to randomised labels unless they are clearly better: its release is
    small, and says nothing about single rows.
    """
    if not offered:
        raise ParameterError(
            f"Mechanism response takes at most {MOST_STATES} classes. Use another mechanism."
        )
    sums = [c for c in offered if c.mechanism in NOISES] or offered
    best_sums = max(sums, key=lambda c: c.utility.correlation)
    best = max(offered, key=lambda c: c.utility.correlation)
    clearly_better = best.utility.correlation > _CLEARLY * best_sums.utility.correlation
    return best if clearly_better else best_sums


class Candidates:
    """What could be released about these public rows and labels of this many classes.

    ``balance`` is the proportion of the positive class for which accuracy is predicted. A release
    chooses its mechanism for equal classes.

    With a given pipeline the noise is even. Such releases are merged: noise that is shaped for one
    owner's few rows gives up most directions, and those of other owners with them. Where ``people``
    are protected, shaped noise is for as many labels as a person has at most. ``count`` is that of
    rows unless it is given: for so many rows that are alike.
    """

    def __init__(
        self,
        public: PublicRows,
        classes: int,
        balance: float = EQUAL,
        people: PeopleReach | None = None,
        count: int = 0,
    ) -> None:
        self._labels = 1 if people is None else people.rows  # that change together
        rows, every = public.sample()
        count = count or every
        step = lattice_step(public.pipeline.norm_bound)
        moments = replace(PublicMoments.of(rows, count, classes), balance=balance)
        self._moments, self._unit, self.balance = moments, step / moments.count, balance
        self._weight = public.pipeline.intercept
        self._is_given = public.summary is None  # nothing was fitted on these rows
        self._codes = rows / step
        self._even_reach = self._reach(self._codes)
        if people is not None:
            l2 = label_change(classes) * people.l2
            self._even_reach = Sensitivity(2 * people.l1, l2, self._even_reach.dimension)

    def _reach(self, rows: np.ndarray) -> Sensitivity:
        """Return how far one label moves the sums of these rows."""
        classes, width = self._moments.classes, rows.shape[1]
        l1 = float(np.abs(rows).sum(axis=1).max())
        l2 = float(np.linalg.norm(rows, axis=1).max())
        dimension = width * operator_columns(classes)
        return Sensitivity(math.ceil(2 * l1), label_change(classes) * l2, dimension)

    @property
    def without_noise(self) -> Utility:
        """What exact labels would give."""
        return self._moments.utility(np.zeros_like(self._moments.values))

    def every(self, mechanism: str, epsilon: float, delta: float) -> list[Candidate]:
        """Return every candidate of ``mechanism``: of "auto" and "sums" those of many."""
        names = [mechanism]
        if mechanism in GROUPS:
            names = [name for name in GROUPS[mechanism] if delta > 0 or not needs_delta(name)]
            if self._is_given:
                names = [name for name in names if name in NOISES]
        if self._moments.classes > MOST_STATES:
            names = [name for name in names if name != "response"]
        return [self.of(name, epsilon, delta) for name in names]

    def best(self, mechanism: str, epsilon: float, delta: float) -> Candidate:
        """Return what a release uses: the best predicted, or one that knows the larger class.

        On few rows the noise of the intercept hides which class is the larger. Where the mechanism
        is left to public rows, the intercept is then released together with a direction of the
        features (`paired_transform`). On fewer still it has a part of epsilon for itself.
        """
        chosen = choose(self.every(mechanism, epsilon, delta))
        unsure = chosen.intercept_variance > (_UNSURE * self._weight) ** 2
        if mechanism not in GROUPS or not self._weight or not unsure:
            return chosen
        if self._codes.shape[1] > MOST_SHAPED or self._is_given:
            return chosen
        each = epsilon / self._labels
        share = min(_COUNTED / (self._moments.count * each), _MOST_COUNTED)
        small = share >= _LEAST_COUNTED
        transform = paired_transform(self._signal, each, _UNSURE, _MOST_UNSURE)
        if transform is not None:
            pair = self._shaped_laplace(epsilon, Shape.of(transform))
            if small or self._captured(pair) > self._captured(chosen):
                return pair
        return self._counting(epsilon, share) if small else chosen

    @cached_property
    def _signal(self) -> ShrunkSignal:
        return ShrunkSignal(self._codes, self._moments)

    def _captured(self, candidate: Candidate) -> float:
        """Return what a learner that shrinks gets of a usual signal."""
        return self._signal.captured(self._white_noise(candidate), SIGNALS["usual"])

    def _white_noise(self, candidate: Candidate) -> np.ndarray:
        """Return the variances of a candidate's noise along the white coordinates of the rows."""
        if candidate.mechanism == "response":
            constant = _response_variance(self._moments, candidate.epsilon / self._labels)
            return np.full(self._signal.rank, constant)
        basis, shape = self._signal.white_basis, candidate.shape
        back = np.eye(len(basis)) if shape is None else shape.back()
        power = len(back) * (candidate.deviation / (self._unit * self._moments.count)) ** 2
        return np.asarray(power * ((back.T @ basis) ** 2).sum(axis=0) / np.sum(back**2))

    def _shaped_laplace(self, epsilon: float, shape: Shape) -> Candidate:
        """Return Laplace noise in which the count shares its epsilon with features."""
        reach = self._reach(self._codes @ (shape.matrix.T / 2.0**shape.bits))
        noise = calibrated_noise("laplace", reach, epsilon / self._labels)
        own = noise.variance * self._unit**2 * (shape.back() ** 2).sum(axis=1)
        deviation = math.sqrt(float(own.mean()))
        blank = Utility(0.0, {}, 0.0, 0.0)
        pair = Candidate(
            "laplace", epsilon, deviation, blank, shape, 0.0, float(own[-1]), paired=True
        )
        return replace(pair, utility=self._signal.utility(self._white_noise(pair)))

    def _counting(self, epsilon: float, share: float) -> Candidate:
        """Return Laplace noise in which the intercept has ``share`` of epsilon for itself.

        With weight t on the intercept's coordinate c a row has the 1-norm ||x||_1 + t c, of which
        t c is the share. (Laplace noise on a count of its own, composed, is the same.)
        """
        moments = self._moments
        features = float(np.abs(self._codes[:, :-1]).sum(axis=1).max())
        constant = float(np.abs(self._codes[0, -1]))
        weight = share / (1 - share) * max(features, constant) / constant
        weights = np.ones(self._codes.shape[1])
        weights[-1] = weight
        reach = self._reach(self._codes * weights)
        noise = calibrated_noise("laplace", reach, epsilon / self._labels)
        own = noise.variance * self._unit**2 / weights**2
        deviation = math.sqrt(float(own.mean()))
        utility = moments.utility((moments.vectors**2).T @ own)
        shape = Shape.of(np.diag(weights))
        return Candidate("laplace", epsilon, deviation, utility, shape, share, float(own[-1]))

    def of(self, name: str, epsilon: float, delta: float) -> Candidate:
        """Return one mechanism: randomised labels, or noise that is even over the coordinates."""
        moments, width = self._moments, self._codes.shape[1]
        if name == "response":
            variances = _response_variance(moments, epsilon / self._labels) * moments.values
        else:
            noise = calibrated_noise(name, self._even_reach, epsilon, delta)
            variances = np.full(width, noise.variance * self._unit**2)
        deviation = math.sqrt(float(variances.mean()))
        intercept = float(moments.vectors[-1] ** 2 @ variances)
        utility = moments.utility(variances)
        return Candidate(name, epsilon, deviation, utility, intercept_variance=intercept)

    def like(self, other: Candidate, delta: float) -> Candidate:
        """Return the candidate of the same mechanism and shape, as these labels have it."""
        if other.counted:
            return self._counting(other.epsilon, other.counted)
        if other.paired and other.shape is not None:
            return self._shaped_laplace(other.epsilon, other.shape)
        return self.of(other.mechanism, other.epsilon, delta)


def _response_variance(moments: PublicMoments, epsilon: float) -> float:
    """Return c with C = c S: 4q(1-q)/(1-2q)^2 / m for two classes, q the chance of a flip.

    For more classes C depends on the labels; c is the mean over the columns of M for labels that
    are evenly spread, as its trace does not depend on them.
    """
    inverse = np.linalg.inv(Response.from_epsilon(moments.classes, epsilon).matrix)
    spread = float((inverse**2).sum(axis=0).mean()) - 1  # sum_k q(q - 1), q = P^-1 e_answer
    spread *= 2.0 if moments.classes == 2 else 1 / moments.classes
    return spread / moments.count


@dataclass(frozen=True, eq=False)
class NoisySums(LabelProcedure[ExactSums]):
    """The mean operator as sums with noise, even or in a shape.

    ``best`` is the candidate that public rows predict to be best.
    """

    kind = "mean-operator"
    best: Candidate
    people: PeopleReach | None = None

    def accumulator(self, *, identified: bool) -> ExactSums:
        """Return empty sums."""
        rows, shape = self.public.rows, self.best.shape
        return ExactSums(rows, self.public.classes, shape, self.people, identified=identified)

    def foreseen(self) -> ExactSums:
        """Return sums of the public rows, all under the first class: their reach sets the noise."""
        exact, rows = self.accumulator(identified=False), self.public.rows
        fold(unlabelled_batches(rows.table, rows.roles.features), exact)
        return exact

    def noise(self, exact: ExactSums) -> Noise:
        """Return the noise, fitted to the reach of the rows that were read: a public number."""
        epsilon, delta = self.request["epsilon"], self.request["delta"]
        return calibrated_noise(self.best.mechanism, exact.sensitivity, epsilon, delta)

    def event(self, exact: ExactSums) -> Event:
        """Return what one label costs."""
        return self.noise(exact).event

    def deviation(self, exact: ExactSums) -> float:
        """Return the root mean square of the noise per coordinate of the mean."""
        width = len(self.public.rows.pipeline.outputs)
        return math.sqrt(float(exact.covariance(self.noise(exact)).diagonal(width).mean()))

    def contents(self, exact: ExactSums) -> Contents:
        """Return the operator per row with noise: (width,) or (width, classes)."""
        noise, shape = self.noise(exact), exact.shape
        noisy = noise.add(exact.result())
        sums = noisy if shape is None else noisy @ shape.back().T
        operator = np.ascontiguousarray((sums[0] if len(sums) == 1 else sums.T) * exact.unit)
        details = {"mechanism": self.best.mechanism, "step": exact.step}
        return {"mean_operator": operator}, details, exact.covariance(noise)


@dataclass(frozen=True, eq=False)
class RandomisedLabels(LabelProcedure[ExactLabels]):
    """The labels themselves, each randomised; the learner derives the mean operator."""

    kind = "label-responses"
    best: Candidate
    people: PeopleReach | None = None

    def accumulator(self, *, identified: bool) -> ExactLabels:
        """Return an empty list of labels."""
        return ExactLabels(self.public.rows, self.public.classes, identified=identified)

    @cached_property
    def response(self) -> Response:
        """The most faithful response within epsilon, or within a person's share for each label."""
        epsilon, people = self.request["epsilon"], self.people
        if people is not None:
            epsilon *= (1 - 1e-12) / people.rows  # so that the sum below is no more
        return Response.from_epsilon(len(self.public.classes), epsilon)

    def deviation(self, exact: ExactLabels) -> float:
        """Return the predicted noise: it depends on the rows, and the forecast's figure stands."""
        del exact
        return self.best.deviation

    def event(self, exact: ExactLabels) -> Event:
        """Return what one label costs, or all labels of a person, whose answers are independent."""
        del exact
        one, people = self.response.event, self.people
        return one if people is None else Pure(one.bound * people.rows * (1 + 1e-15))

    def contents(self, exact: ExactLabels) -> Contents:
        """Return the randomised labels."""
        answers = exact.randomised(self.response)
        arrays = {"answers": answers, "channel": self.response.matrix}
        return arrays, {"mechanism": "response"}, Covariance("none")


RANKS = "ranks"  # the public feature map
# Components of a kernel of ranks up to so many rows times epsilon: with more, noise hides them
# (lab/bench/rule.py).
_COMPONENTS: Mapping[float, int] = {2_000: 50, 10_000: 100, 40_000: 200, math.inf: 400}
# Kernel components beat ranks, and ranks plain rows, on most tables of lab/bench/rule.py, unless
# noise leaves less than 6 of 7 parts of what it leaves of ranks (epsilon 0.1 without delta).
_WORTH: Mapping[str, float] = {"": 1.0, RANKS: 1.03, "ranks+kernel": 1.2}


def kernel_map(rows: int, epsilon: float, different: float = math.inf) -> str | None:
    """Return the kernel map for the mean operator of so many public rows; None if none will do.

    It has fewer components than rows are ``different``, and no more than cost seconds.

    Examples
    --------
    >>> kernel_map(10_000, 0.1), kernel_map(10_000, 1.0), kernel_map(100_000, 1.0)
    ('ranks+kernel:50', 'ranks+kernel:100', 'ranks+kernel:400')
    """
    wanted: float = next(size for most, size in _COMPONENTS.items() if rows * epsilon <= most)
    # Rows times squared components: 2e10 take about ten seconds of one core.
    wanted = min(wanted, math.sqrt(2e10 / rows))
    sizes = [size for size in _COMPONENTS.values() if size <= wanted and size < different]
    return f"ranks+kernel:{sizes[-1]}" if sizes else None


def operator_maps(summary: Summary, epsilon: float) -> list[str | None]:
    """Return the maps that the rule compares for these public rows; None is plain rows."""
    kernel = kernel_map(summary.rows, epsilon, len(summary.sample.weights))
    return [None, RANKS, *([] if kernel is None else [kernel])]


def map_worth(feature_map: str | None) -> float:
    """Return what a map of the rule is worth without noise, as a factor of the correlation."""
    return _WORTH[(feature_map or "").partition(":")[0]]


@dataclass(frozen=True, eq=False)
class MappedRows:
    """Public rows under one map, and what noise leaves of them."""

    rows: PublicRows
    noise: str  # the noise that public rows choose
    left: float  # of the correlation of scores and labels


@dataclass(frozen=True)
class Forecast:
    """What a release would guarantee and how good it would be; no label was read for it."""

    mechanism: str  # the mechanism that the release would use
    guarantee: Guarantee  # what the release would protect, and how strongly
    noise_deviation: float  # root mean square of the noise per coordinate
    coordinates: int  # how many numbers the mean operator has
    utility: Utility  # predicted accuracy and score noise


@dataclass(frozen=True)
class MeanOperator(LabelMechanism):
    """Publish the mean operator with noise: one number per feature and class.

    Protects each label. The feature columns of every row, the number of rows and the class list
    are public. The mean operator is the average of each feature, counted plus for one class and
    minus for the other; a learner who has the rows trains a classifier on it.

    The statistic is mu = (1/m) sum_i y_i x_i for two classes (y = -1 for the first declared class,
    +1 for the second) and M = (1/m) sum_i x_i e_(y_i)^T for more. Replacing one label moves it by
    at most

        D1 = (2/m) max ||x_i||_1, D2 = (2/m) max ||x_i||_2 (sqrt2/m for three classes or more),

    computed exactly from the public rows (Patrini et al. 2016, Theorem 9, takes the 1-norm for the
    2-norm; see docs/errata.md). Noise is even over the coordinates. On few rows "auto" and "sums"
    give the intercept less noise than the features, so that the larger class is known. With a given
    ``pipeline`` noise on sums is always even: such releases are merged, and shaped noise would hide
    what other owners show. Assumes that rows, their number and ``classes`` are public and were not
    chosen by looking at the labels.

    Parameters
    ----------
    epsilon : float
        Epsilon of each label, for example 1. Smaller protects more strongly.
    delta : float
        Delta, for example 1e-6. Gaussian noise needs a value above 0.
    mechanism : str
        "laplace" (delta = 0, D1), "knorm" (delta = 0, D2), "gaussian" (needs ``delta``, D2) or
        "response" (delta = 0: each label is randomised and published, and the learner derives the
        statistic). "auto" takes the one that public rows predict to be best for a classifier
        (owner/mean_operator.py), "sums" the best of all but "response". With a given
        ``pipeline`` both take sums.
    classes : sequence
        The labels that can occur. Of two, the last is positive.
    balance : float, optional
        Proportion of the positive class that the owner expects, for forecasts alone. Default: equal
        classes. It is never read from labels, and no release depends on it.
    map : str, optional
        A public feature map, by name. "auto" takes the one that public rows advise, from their
        number, their spectrum and epsilon; it is as good at most tables as the best one in
        hindsight (lab/bench/rule.py). None keeps the columns as they are, and so ``coef_`` is of
        them. A given ``pipeline`` has its own map: maps of different owners do not merge.
    clip, intercept, missing, categories, pipeline, ...
        How rows become vectors; see `Preprocessing`.

    Raises
    ------
    ParameterError
        If a field is outside its domain.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X, y = np.eye(4).repeat(25, axis=0), np.repeat([0, 1], 50)
    >>> operator = suffice.MeanOperator(epsilon=1.0)
    >>> release = operator.release(X, y, ledger=None)
    >>> release.kind, release.guarantee.epsilon
    ('mean-operator', 1.0)
    """

    name = "mean-operator"
    protects_people = True
    noises: ClassVar[Mapping[str, bool]] = {name: needs_delta(name) for name in NOISES}
    release_help = (
        "Publish a noisy summary of the private labels of public rows.\n\n"
        "The release holds the mean operator, one number per feature: its average, counted plus for"
        " one class and minus for the other, with noise. It protects each label. The rows, their"
        " number and the list of classes are public."
    )
    plan_help = "Predict how useful a summary of private labels would be."

    epsilon: float = option(REQUIRED, **EPSILON)
    delta: float = option(0.0, **DELTA)
    mechanism: str = privacy_option(
        "auto",
        "laplace, gaussian, knorm or response. auto picks the best predicted accuracy; sums does"
        " the same without response.",
        name="--noise",
        choices=OperatorMechanism,
    )
    classes: Sequence[Any] = option((0, 1), **CLASSES)
    _: KW_ONLY
    balance: float | None = data_option(
        None,
        "Proportion of the positive class that you expect, for example 0.12. It is never read from"
        " the labels. Default: equal classes.",
        released=False,
    )

    map: str | None = preprocessing_option(
        "auto",
        "Public feature map: auto (by public rows), ranks+kernel:100, ranks, ranks+polynomial:2,"
        " components:50, rff:512, nystroem:200, polynomial:2, pca:50 or whiten:50; none for"
        " coefficients of your own columns.",
        parse=lambda text: None if text == "none" else text,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_promise(self)
        check_balance(self.balance, len(self.declared_classes()))

    def public(self, source: PublicSource) -> PublicTable:
        """Return the public side of a table; "auto" takes the map that public rows advise.

        A given pipeline has its own map, and randomised labels need none. Where people have several
        rows, one row of each is kept if public rows predict that this is better.
        """
        if source.person is not None and is_ordered(source.data):
            source = self._kept(source, source.person)
        if self.map != "auto":
            return super().public(source)
        plain = LabelMechanism.public(replace(self, map=None), source)
        summary = plain.rows.summary
        if summary is None or self.mechanism == "response":
            return plain
        offered = []
        for name in operator_maps(summary, self.epsilon):
            mapped = replace(self, map=name).mapped(plain.rows, source.person)
            offered.append((mapped.left * map_worth(name), name, mapped))
        _, name, best = max(offered, key=lambda item: item[0])
        replace(self, map=name).tell_clipping(best, source.person)
        if name is not None:
            note(
                f"Public facts advise the feature map {name}. For coefficients of your own columns"
                " use --map none (Python: map=None)."
            )
        return replace(plain, rows=best.rows)

    def _kept(self, source: PublicSource, person: str) -> PublicSource:
        """Return the same, or one row of each person, as the forecast of plain rows advises.

        All rows are more labels, and one row is less noise unless all people have as many rows.
        """
        with collected_notes():  # they are about rows that may not be kept
            plain = LabelMechanism.public(replace(self, map=None), source)
        classes = len(plain.classes)
        people = people_reach(plain.rows, person, classes)
        price = (self.mechanism, self.epsilon, self.delta)
        every = Candidates(plain.rows, classes, people=people).best(*price)
        one = Candidates(plain.rows, classes, count=people.people).best(*price)
        if people.rows == 1 or one.utility.correlation <= every.utility.correlation:
            return source
        note(
            f"One row of each person is used, {people.people:,} in all: public facts predict that"
            " more rows would cost more in noise than they teach."
        )
        return source.picked(one_row_each(plain.rows, person))

    def tell_clipping(self, mapped: MappedRows, person: str | None) -> None:
        """Note the forecast for mapped rows, and that for one in twenty of them clipped.

        Nothing is chosen by it: with a fixed share of 5 % accuracy fell by .6 points at epsilon 1
        in the mean of 12 tables, and by 5 on a table of 156 rows whose forecast was better.
        """
        pipeline = mapped.rows.pipeline
        share = pipeline.clipped or 0.0
        if self.clip is not None or share <= 0.05:
            return
        whole = replace(pipeline, bound=UNCLIPPED, intercept=0.0)
        lengths = np.linalg.norm(replace(mapped.rows, pipeline=whole).sample()[0], axis=1)
        bound = float(np.quantile(lengths, 0.95))
        intercept = bound / 4 if self.intercept is None else self.intercept
        fewer = replace(pipeline, bound=bound, intercept=intercept)
        left = self._forecast(replace(mapped.rows, pipeline=fewer), person).left
        note(
            f"{100 * share:.0f} % of the public rows are shortened. By the forecast that leaves"
            f" {100 * mapped.left:.1f} % of the signal, and {100 * left:.1f} % if 5 % were"
            " (--clip 0.95)."
        )

    def mapped(self, rows: PublicRows, person: str | None = None) -> MappedRows:
        """Return public rows that were read under this mechanism's map; no cell is read again."""
        if (self.map is not None or self.clip is not None) and rows.summary is not None:
            rows = replace(rows, pipeline=self.fitted(rows.summary, rows.roles))
        return self._forecast(rows, person)

    def _forecast(self, rows: PublicRows, person: str | None) -> MappedRows:
        classes = len(self.declared_classes())
        people = None if person is None else people_reach(rows, person, classes)
        every = Candidates(rows, classes, people=people)
        best = choose(every.every(self.mechanism, self.epsilon, self.delta))
        whole = max(every.without_noise.correlation, np.finfo(float).tiny)
        return MappedRows(rows, best.mechanism, min(best.utility.correlation / whole, 1.0))

    def choose(self, public: PublicTable) -> NoisySums | RandomisedLabels:
        """Return the procedure that public rows predict to be best."""
        person, rows = public.source.person, public.rows
        people = None if person is None else people_reach(rows, person, len(public.classes))
        every = Candidates(public.rows, len(public.classes), people=people)
        best = every.best(self.mechanism, self.epsilon, self.delta)
        request = {"mechanism": self.mechanism, "epsilon": self.epsilon, "delta": self.delta}
        procedure = RandomisedLabels if best.mechanism == "response" else NoisySums
        return procedure(public, request, best, people)

    def plan(self, source: PublicSource, epsilons: Sequence[float] = ()) -> Plan:
        """Return what each mechanism would do at each epsilon, from public rows alone.

        Parameters
        ----------
        source : PublicSource
            The table. Its label column is never read.
        epsilons : sequence of float
            Epsilons to compare. Default: this one, with smaller and larger ones around it.

        Returns
        -------
        Plan
            A table of noise and predicted accuracy, for the class balance that was declared.
        """
        public = self.public(source)
        classes = len(public.classes)
        person, balance = source.person, check_balance(self.balance, classes)
        people = None if person is None else people_reach(public.rows, person, classes)
        offered = Candidates(public.rows, classes, people=people)
        # Mechanisms are chosen as a release does it, for equal classes; accuracy is predicted for
        # the class balance that is expected.
        expected = offered
        if balance != EQUAL:
            expected = Candidates(public.rows, classes, balance, people)
        rows = []
        for epsilon in planned_epsilons(epsilons or self.epsilon):
            every = offered.every(self.mechanism, epsilon, self.delta)
            best = offered.best(self.mechanism, epsilon, self.delta)
            for name in dict.fromkeys(candidate.mechanism for candidate in every):
                own = [candidate for candidate in every if candidate.mechanism == name]
                taken = best if best.mechanism == name else choose(own)
                row = taken if expected is offered else expected.like(taken, self.delta)
                rows.append(
                    {
                        "epsilon": epsilon,
                        "mechanism": name,
                        "chosen": taken is best,
                        "noise": row.deviation,
                        "margin_noise": row.utility.margin_noise,
                        "score_noise": row.utility.score_noise,
                        "accuracy": row.utility.accuracy,
                    }
                )
        exact = expected.without_noise.accuracy
        guess = max(balance, 1 - balance)
        shown = "two equal classes"
        if balance != EQUAL:
            shown = f"classes of {1 - balance:.3g} and {balance:.3g} of the rows"
        return Plan(
            title=(
                f"Predicted noise (standard deviation per feature, and in scores) and accuracy for"
                f" {shown}. The features explain 5 % (hard), 20 % (usual) or 70 % (easy) of the"
                " labels' variance. Yours may be easier. * marks what auto chooses."
            ),
            columns={
                "epsilon": "{epsilon:g}".format_map,
                "mechanism": starred("{mechanism}"),
                "noise": "{noise:.2g}".format_map,
                "score noise": "{score_noise:.2g}".format_map,
                **{name: f"{{accuracy[{name}]:.3f}}".format_map for name in SIGNALS},
            },
            rows=rows,
            facts={
                "delta": self.delta,
                "balance": balance,
                "rows": rows,
                "without_noise": exact,
                "always_larger_class": guess,
            },
            footer=[
                ("", "without noise", "0", "0", *(f"{value:.3f}" for value in exact.values())),
                ("", "always the larger class", "", "", *[f"{guess:.3f}"] * len(SIGNALS)),
            ],
        )

    @classmethod
    def as_asked(cls, asked: Asked) -> Self:
        """Return what a proposal asks for; noise is on sums, never on labels one by one."""
        return cls(
            epsilon=asked.epsilon,
            delta=asked.delta,
            mechanism="sums" if asked.noise == "auto" else asked.noise,
            classes=asked.classes,
            missing=asked.missing,
            map=asked.map,
            pipeline=asked.pipeline,
        )

    def cost(self, width: int, rows: int) -> tuple[int, int]:
        """Return about how many products mapped rows take, and how many bytes the map has."""
        mapped = None if self.pipeline is None else self.pipeline.map
        return cost_of_map(
            self.map if mapped is None else f"{mapped.kind}:{mapped.size}", width, rows
        )

    def forecast(
        self, data: Any, *, label: str | None = None, features: Sequence[str] | None = None
    ) -> Forecast:
        """Return the guarantee and the noise of a release, from public rows alone.

        Parameters
        ----------
        data
            The table.
        label : str, optional
            The label column; it is never read.
        features : sequence of str, optional
            The feature columns. Default: all but the label.

        Returns
        -------
        Forecast
            The mechanism, the guarantee, the noise and the predicted accuracy.
        """
        public = self.public(PublicSource(data, label=label, features=features))
        procedure: Any = self.choose(public)
        rows, classes = public.rows, len(public.classes)
        exact = procedure.foreseen()
        (guarantee,) = procedure.guarantees(exact)
        best = procedure.best
        if self.balance is not None:
            expected = Candidates(rows, classes, check_balance(self.balance, classes))
            best = expected.like(best, self.delta)
        return Forecast(
            best.mechanism,
            guarantee,
            procedure.deviation(exact),
            len(rows.pipeline.outputs) * operator_columns(classes),
            best.utility,
        )

    def public_rows(
        self, data: Any, label: str | None = None, features: Sequence[str] | None = None
    ) -> PublicRows:
        """Return the public side of a table: everything but the column ``label``."""
        return self.public(PublicSource(data, label=label, features=features)).rows


def plan_mean_operator(
    X: Any,
    epsilon: float | Sequence[float],
    delta: float = 0.0,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    **settings: Any,
) -> Plan:
    """Return what each mechanism would do at each epsilon, from public rows alone.

    Parameters
    ----------
    X
        The table: an array, a data frame or a file.
    epsilon : float or sequence of float
        One epsilon is shown with a quarter, a half, the double and four times of it.
    delta : float
        Delta, for example 1e-6. Gaussian noise needs a value above 0.
    label : str, optional
        The label column. It is left out and never read.
    features : sequence of str, optional
        The feature columns. Default: all but the label.
    **settings
        Further fields of `MeanOperator`: ``mechanism``, ``classes``, ``balance``, ``clip``, ...

    Returns
    -------
    Plan
        A table of noise and predicted accuracy; a row has the ``epsilon`` and ``mechanism``,
        whether it is ``chosen`` by auto, its ``noise`` and ``score_noise`` (standard deviations)
        and its ``accuracy`` on hard, usual and easy problems.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> rows = np.eye(4).repeat(250, axis=0)
    >>> plan = suffice.plan_mean_operator(rows, epsilon=[1.0], mechanism="knorm", balance=0.12)
    >>> print(plan)  # doctest: +NORMALIZE_WHITESPACE
    epsilon  mechanism                noise  score noise  hard   usual  easy
    1        knorm *                  0.01   0.048        0.880  0.898  0.994
             without noise            0      0            0.880  0.898  0.994
             always the larger class                      0.880  0.880  0.880
    """
    several = tuple(epsilon) if isinstance(epsilon, Sequence) else ()
    first = planned_epsilons(epsilon)[0] if several else epsilon
    operator = MeanOperator(first, delta, **settings)  # type: ignore[arg-type]  # one number
    return operator.plan(PublicSource(X, label=label, features=features), several)
