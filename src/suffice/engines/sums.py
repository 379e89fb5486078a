"""Exact sums of rows before noise: mean operators, moments, and sums over subsets (rados).

Subsets are passed in with rows by whoever draws them; nothing is drawn here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from suffice.errors import ParameterError
from suffice.kernels import maps, sums
from suffice.kernels import rados as kernel
from suffice.kernels.sums import code_columns
from suffice.tables.columns import person_codes
from suffice.tables.pipeline import Pipeline


def lattice_step(bound: float, bits: int = 30) -> float:
    """Return the power of two that puts numbers up to ``bound`` on at most 2^bits integers.

    It is read off the float. A logarithm is rounded, and not in the same way on the machines of all
    parties.
    """
    if not 0 < bound < math.inf:
        raise ParameterError("A bound must be finite and above 0.")
    fraction, exponent = math.frexp(bound)  # bound = fraction 2^exponent, 1/2 <= fraction < 1
    return math.ldexp(1.0, exponent - (fraction == 0.5) - bits)


def label_weights(codes: np.ndarray, classes: int) -> np.ndarray:
    """Return the weights of rows with these labels: -1, +1 for two classes, else one-hot rows.

    A label of no class, of code -1, weighs nothing.
    """
    if classes == 2:
        signs: np.ndarray = np.array([-1.0, 1.0, 0.0])[codes]  # -1 is the last
        return signs[None, :]
    one_hot: np.ndarray = codes[None, :] == np.arange(classes)[:, None]
    return one_hot.astype(np.float64)


class WeightedSums:
    """Computes sum_i w_ri rint(x_i / step), r weights per row; an accumulator.

    Its state is integers: any split, order or tree of merges gives the same numbers, so that
    nothing leaks through rounding and two engines agree to the last bit.
    """

    def __init__(self, width: int, weights: int, step: float) -> None:
        self._inverse_step = 1.0 / step
        self._totals = np.zeros((weights, width), dtype=np.int64)

    def update(self, batch: tuple[np.ndarray | Sequence[np.ndarray], np.ndarray]) -> None:
        """Take in rows (n, width), or a sequence of columns, and weights (r, n)."""
        rows, weights = batch
        if isinstance(rows, np.ndarray):
            rows = np.ascontiguousarray(rows)
            sums.sums_of_rows(rows, weights, self._inverse_step, self._totals)
            return
        for j, column in enumerate(rows):
            sums.sums_of_column(column, weights, self._inverse_step, self._totals[:, j])

    def merge(self, other: "WeightedSums") -> None:
        """Take in everything that ``other`` has seen."""
        self._totals += other._totals

    def result(self) -> np.ndarray:
        """Return the integer sums, one row per weight."""
        return self._totals.copy()


@dataclass(frozen=True)
class RowReach:
    """The largest norms of a row on the rounding grid, in steps, rounded up.

    Parameters
    ----------
    l1 : int
        The largest 1-norm.
    l2 : float
        The largest 2-norm.
    """

    l1: int
    l2: float


class MappedSums(WeightedSums):
    """Computes the weighted sums of rows mapped by a pipeline, and the largest norms of a row.

    An accumulator over pairs (encoded columns, weights); mapping, clipping, the lattice and the
    sums are one pass.
    """

    def __init__(self, pipeline: Pipeline, weights: int) -> None:
        self._pipeline = pipeline
        self._affine = (pipeline.mean, 1.0 / pipeline.scale, pipeline.bound)
        self.step = lattice_step(pipeline.norm_bound)
        self._constant = float(np.rint(pipeline.intercept / self.step))
        self._reach = np.zeros(2)
        super().__init__(len(pipeline.outputs), weights, self.step)

    def update(self, batch: tuple[np.ndarray, np.ndarray]) -> None:  # type: ignore[override]  # encoded columns only
        """Take in encoded columns (`Pipeline.encoded`) and the weights of their rows."""
        columns, weights = batch
        totals = np.zeros((len(weights), len(columns)), dtype=np.int64)
        bad = maps.mapped_sums(
            columns,
            weights,
            self._affine,
            self._constant,
            self._inverse_step,
            totals,
            self._reach,
        )
        if bad:
            self._pipeline.explain_holes(columns)
        self._totals[:, : len(columns)] += totals
        if self._constant:
            signs = weights.sum(axis=1).astype(np.int64)
            self._totals[:, -1] += signs * np.int64(self._constant)

    def merge(self, other: "WeightedSums") -> None:
        """Take in everything that ``other`` has seen."""
        super().merge(other)
        if isinstance(other, MappedSums):
            self._reach = np.maximum(self._reach, other._reach)

    @property
    def reach(self) -> RowReach:
        """The largest norms of a single row; public whenever the rows are."""
        # l1 adds integers below 2^53: exact. l2 adds squares: at most width roundings of 2^-53.
        slack = 1 + (self._totals.shape[1] + 4) * 2.0**-52
        l2 = math.sqrt(self._reach[1]) * slack
        if l2 > maps.LARGEST_CODE:
            raise ParameterError(
                "A row lies outside the rounding grid. The pipeline's bound is smaller than this"
                " row: fit a new pipeline."
            )
        return RowReach(int(self._reach[0]), l2)


Integers = NDArray[np.int64]


class PersonSums:
    """Adds up ``numbers`` integers by person; an accumulator over rows with a column of ids.

    Its state has a line for each person, at most twice: 10^7 people and one integer take 320 MB. A
    row without an id belongs to nobody. Whoever sees the state sees ids: it stays with the rows.
    """

    def __init__(self, person: str, numbers: int = 1) -> None:
        self.person = person
        # Sorted codes and their totals: each chunk is more than twice as long as the next.
        self._chunks = [(np.zeros(0, dtype=np.int64), np.zeros((numbers, 0), dtype=np.int64))]

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in rows: how many each person has."""
        codes, held = person_codes(batch.column(self.person))
        self.add(codes[held], np.ones((1, np.count_nonzero(held)), dtype=np.int64))

    def add(self, codes: Integers, values: Integers) -> None:
        """Take in integers (numbers, n) of rows of the people with these codes."""
        chunk = _by_person([(codes, values)])
        while self._chunks and len(self._chunks[-1][0]) <= 2 * len(chunk[0]):
            chunk = _by_person([self._chunks.pop(), chunk])
        self._chunks.append(chunk)

    def merge(self, other: "PersonSums") -> None:
        """Take in everything that ``other`` has seen."""
        for codes, totals in other._chunks:
            self.add(codes, totals)

    def result(self) -> tuple[Integers, Integers]:
        """Return the codes of all people in their order, and their totals (numbers, people)."""
        return _by_person(self._chunks)


def _by_person(chunks: Sequence[tuple[Integers, Integers]]) -> tuple[Integers, Integers]:
    codes = np.concatenate([codes for codes, _ in chunks])
    values = np.concatenate([values for _, values in chunks], axis=1)
    people, places = np.unique(codes, return_inverse=True)
    totals = np.zeros((len(values), len(people)), dtype=np.int64)
    for total, value in zip(totals, values, strict=True):
        np.add.at(total, places, value)
    return people, totals


@dataclass(frozen=True, eq=False)
class PersonWeights:
    """The weight of each person's rows: 1/k in steps of 2^-18, rounded down, k their number.

    So the rows of one person weigh at most one row together, whatever they are, and nobody else's
    weigh otherwise because of them.
    """

    person: str  # the column of ids
    people: Integers  # the codes of all people, in their order
    rows: Integers  # how many rows each has
    one: ClassVar[int] = 2**18  # steps of the weight 1: of 20 rows less than 1e-4 is lost

    def of(self, batch: pa.RecordBatch) -> tuple[Integers, Integers]:
        """Return the weights of rows in steps, 0 without an id; and whose rows, as `seen` has it.

        A person who was not counted weighs nothing.
        """
        codes, held = person_codes(batch.column(self.person))
        places = np.minimum(np.searchsorted(self.people, codes), len(self.people) - 1)
        weights = np.where(held, self.one // self.rows[places], 0)
        known = np.where(self.people[places] == codes, weights, 0)
        return known, np.array([np.count_nonzero(held), codes[held].sum()])

    @property
    def seen(self) -> Integers:
        """The number of rows with an id, and the sum of their codes in 64 bits."""
        return np.array([self.rows.sum(), (self.people * self.rows).sum()])


LONGEST_CODE = 2**15  # the length of the longest row, in lattice steps
# Products of codes are at most 2^30, so that 2^22 of them add up exactly in a float64.
_EXACT_ROWS = 2**22


def inner_length(width: int) -> int:
    """Return the length, in steps, that rows have before they are rounded to integers.

    Rounding adds at most sqrt(width) / 2 to it.
    """
    return LONGEST_CODE - math.ceil(math.sqrt(width) / 2)


@dataclass(frozen=True, eq=False)
class RowCodes:
    """Turns encoded columns into integer rows of length at most `LONGEST_CODE`.

    Attributes
    ----------
    pipeline : Pipeline
        How rows are scaled and clipped; it has no intercept.
    """

    pipeline: Pipeline

    @property
    def width(self) -> int:
        """The number of coordinates of a row."""
        return len(self.pipeline.mean)

    def of(self, columns: np.ndarray) -> np.ndarray:
        """Return the codes (width, rows) of columns as `Pipeline.encoded` has them, as floats.

        No number is an error: what is missing, infinite or too large counts as declared.
        """
        pipeline = self.pipeline
        filled = (pipeline.stand_ins - pipeline.mean) / pipeline.scale
        affine = (pipeline.mean, 1.0 / pipeline.scale, pipeline.bound, filled)
        codes = np.empty((self.width, columns.shape[1]))
        inner = float(inner_length(self.width))
        code_columns(np.ascontiguousarray(columns), affine, inner, float(LONGEST_CODE), codes)
        return codes


@dataclass(frozen=True, eq=False)
class MomentTotals:
    """Exact sums over all rows, in lattice steps.

    Attributes
    ----------
    second : ndarray of shape (d, d)
        The sums of products of two coordinates.
    mean : ndarray of shape (d,)
        The sum of rows.
    operator : ndarray of shape (columns, d)
        For two classes one column, the sum of y x. Else K of them, the sums of (K e_y - 1) x.
    counts : ndarray of shape (columns,)
        For two classes the sum of y. Else the number of rows of each class.
    squares : ndarray of shape (0,) or (1,)
        Where rows have a target y in place of a class, the sum of its squares. Operator and counts
        are then as of two classes.
    """

    second: Integers
    mean: Integers
    operator: Integers
    counts: Integers
    squares: Integers


class MomentSums:
    """Computes exact moments of integer rows and their labels; an accumulator.

    Its state is integers: any split, order or tree of merges gives the same numbers. Where there
    are no classes, the last coordinate of a row is its target. Rows may have weights, in steps of
    `PersonWeights`. Sums are then in such steps, but for those of products: these are in whole
    numbers, rounded down at the end.
    """

    def __init__(self, width: int, classes: int) -> None:
        self._second = np.zeros((width, width), dtype=np.int64)
        self._fraction = np.zeros((width, width), dtype=np.int64)  # of products, in steps
        self._mean = np.zeros(width, dtype=np.int64)
        self._by_class = np.zeros((classes, width), dtype=np.int64)
        self._counts = np.zeros(classes, dtype=np.int64)

    def update(self, batch: tuple[np.ndarray, np.ndarray], weight: np.int64 | None = None) -> None:
        """Take in codes (width, rows), as `RowCodes.of` returns them, and class codes.

        A label of no class, of code -1, belongs to none; its row counts all the same. ``weight`` is
        that of each of these rows.
        """
        codes, labels = batch
        for start in range(0, codes.shape[1], _EXACT_ROWS):
            rows = slice(start, start + _EXACT_ROWS)
            self._add(codes[:, rows], labels[rows], weight)

    def update_weighted(self, codes: np.ndarray, labels: np.ndarray, weights: Integers) -> None:
        """Take in codes and class codes of rows, each with a weight of its own."""
        for weight in np.unique(weights):
            alike = weights == weight
            self.update((codes[:, alike], labels[alike]), weight)

    def _add(self, codes: np.ndarray, labels: np.ndarray, weight: np.int64 | None) -> None:
        classes = len(self._counts)
        members = (labels[None, :] == np.arange(classes)[:, None]).astype(np.float64)
        weights = np.vstack([members, np.ones((1, len(labels)))])
        sums = (weights @ codes.T).astype(np.int64)
        products, counts = (codes @ codes.T).astype(np.int64), members.sum(axis=1).astype(np.int64)
        if weight is not None:
            # Whole products times a weight would not fit into 64 bits.
            wholes, rest = np.divmod(products, PersonWeights.one)
            self._fraction += rest * weight
            self._carry()
            products, sums, counts = wholes * weight, sums * weight, counts * weight
        self._second += products
        self._by_class += sums[:-1]
        self._mean += sums[-1]
        self._counts += counts

    def _carry(self) -> None:
        wholes, self._fraction = np.divmod(self._fraction, PersonWeights.one)
        self._second += wholes

    def merge(self, other: "MomentSums") -> None:
        """Take in everything that ``other`` has seen."""
        self._second += other._second
        self._fraction += other._fraction
        self._carry()
        self._mean += other._mean
        self._by_class += other._by_class
        self._counts += other._counts

    def result(self) -> MomentTotals:
        """Return the exact sums: private."""
        classes = len(self._counts)
        if not classes:
            rows, target = slice(-1), slice(-1, None)
            second, mean = self._second.copy(), self._mean.copy()
            squares = second[target, target].ravel()
            return MomentTotals(
                second[rows, rows], mean[rows], second[target, rows], mean[target], squares
            )
        if classes == 2:
            operator = self._by_class[1:] - self._by_class[:1]
            counts = self._counts[1:] - self._counts[:1]
        else:
            operator = classes * self._by_class - self._by_class.sum(axis=0)
            counts = self._counts.copy()
        none = np.zeros(0, dtype=np.int64)
        return MomentTotals(self._second.copy(), self._mean.copy(), operator, counts, none)


# Rows between two flushes: codes of at most 2^31, and twice each, add exactly in a float64.
_EXACT_RADO_ROWS = 2**20


def default_count(examples: int) -> int:
    """Return the default number of rados: min(1000, m/2) (Section 4), at least 2."""
    return max(2, min(1000, examples // 2))


class _Sums:
    """Sums over subsets: floats, or exact integers on a rounding grid (``step`` > 0)."""

    def __init__(self, shape: tuple[int, int], step: float) -> None:
        self._inverse_step = 1.0 / step if step else 0.0
        self._recent = np.zeros(shape)
        self._totals: np.ndarray = np.zeros(shape, dtype=np.int64 if step else np.float64)
        self._rows = 0

    def _make_room(self, rows: int) -> None:
        """Move the recent sums to the totals before floats could round an integer."""
        if rows > _EXACT_RADO_ROWS:
            raise ParameterError(
                "A batch has too many rows to be added exactly. Use smaller batches."
            )
        self._rows += rows
        if self._rows > _EXACT_RADO_ROWS:
            self._flush()
            self._rows = rows

    def _flush(self) -> None:
        self._totals += self._recent.astype(self._totals.dtype)
        self._recent[:] = 0.0

    def merge(self, other: "_Sums") -> None:
        """Take in everything that ``other`` has seen."""
        self._totals += other._totals + other._recent.astype(other._totals.dtype)


class HadamardSums(_Sums):
    """Computes the sums of ``subsets`` subsets with structured signs; an accumulator.

    A batch is (rows (coordinates, rows), first, weights, signs, orders), as `kernels.rados` has
    them. Each example of a block lies in half of the block's subsets.
    """

    def __init__(self, coordinates: int, subsets: int, step: float) -> None:
        super().__init__((coordinates, subsets), step)

    def update(self, batch: tuple[np.ndarray, int, np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Take in rows with the secret signs and orders of their blocks."""
        rows, first, weights, signs, orders = batch
        self._make_room(rows.shape[1])
        kernel.hadamard_sums(rows, first, weights, signs, orders, self._inverse_step, self._recent)

    def result(self) -> np.ndarray:
        """Return the sums (subsets, coordinates), in lattice steps if there is a lattice."""
        self._flush()
        twice = self._totals.T
        return np.ascontiguousarray(twice // 2 if twice.dtype == np.int64 else twice / 2)


class SubsetSums(_Sums):
    """Computes the sums of ``subsets`` subsets given bit by bit; an accumulator.

    A batch is (rows (coordinates, rows), weights, bits), as `kernels.rados` has them.
    """

    def __init__(self, coordinates: int, subsets: int, step: float) -> None:
        super().__init__((subsets, coordinates), step)

    def update(self, batch: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        """Take in rows with the bits that say which subsets they are in."""
        rows, weights, bits = batch
        self._make_room(rows.shape[1])
        kernel.subset_sums(rows, weights, bits, self._inverse_step, self._recent)

    def result(self) -> np.ndarray:
        """Return the sums (subsets, coordinates), in lattice steps if there is a lattice."""
        self._flush()
        return self._totals.copy()
