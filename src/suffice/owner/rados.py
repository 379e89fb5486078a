"""Rados: sums of private records over secret random subsets, with noise.

Every rado is the sum of the edges y_i x_i over a random subset of the examples (Nock, Patrini &
Friedman 2015, Definition 1: those with sigma_i = y_i). A uniform sigma is a uniform subset,
whatever the labels are. Signs are drawn batch by batch from the operating system's randomness. They
say which examples are in which sum, are as secret as the data, and are never stored.

Each procedure knows its guarantees before it sees a row (``privacy/proofs/rados.md`` proves them).
Its subsets are drawn while rows are added, on the owner's machine; what comes out of them is
released after the charge only.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import index
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from suffice.engines.sums import HadamardSums, SubsetSums, WeightedSums, default_count, lattice_step
from suffice.errors import ParameterError
from suffice.kernels import rados as kernel
from suffice.options import data_option, names, option, privacy_option
from suffice.owner.forecast import Plan
from suffice.owner.labelled import PublicRows
from suffice.owner.mechanism import (
    CLASSES,
    DELTA,
    EPSILON,
    Asked,
    Mechanism,
    as_scaled,
)
from suffice.owner.moments import calibrated_moments
from suffice.owner.scaling import (
    PUBLIC_FACTS,
    UNCLIPPED,
    PrivateRows,
    PrivateScaling,
    PrivateTable,
    RecordPass,
    RecordProcedure,
    declared_assumptions,
    noise_guarantee,
    sheet_scaling,
)
from suffice.owner.source import LabelledBatch, Source
from suffice.privacy.binomial import edge_mass, most_draws, shift_epsilon, truncation
from suffice.privacy.events import Approximate, Unbounded, check_delta, check_promise
from suffice.privacy.guarantee import Assumption, Guarantee, Protection, Scope, Unit
from suffice.privacy.noise import (
    LARGEST_SUM,
    GaussianNoise,
    KNormNoise,
    LaplaceNoise,
    Noise,
    Sensitivity,
)
from suffice.privacy.randomness import private_words
from suffice.releases.release import Covariance, Release
from suffice.tables.columns import Classes, check_classes
from suffice.tables.pipeline import Pipeline

_WORDS_AT_ONCE = 2**20  # of fair bits drawn at once: 8 MB
_SPARE_WORDS = 64  # words: to need more has, for either use below, a chance far below 10^-100


class HadamardSubsets:
    """Draws structured subsets: per block of B - 1 examples, B = 2^ceil(log2 count).

    Example c of a block is in subset s where D_c H[order(s), c + 1] = +1, H the Sylvester Hadamard
    matrix, D_c a random sign, order a random permutation of its B rows, both fresh for every block.
    Column 0 is all ones and would put its example in all rados or in none, so it is skipped. Any
    other column has B/2 of either sign: an example is in at least count - B/2 and in at most B/2 of
    the rados, and count > B/2. A single rado is uniform, because the signs D are.

    Which block an example is in depends on its place in the table alone, never on how the rows
    happen to arrive: the sizes of batches can depend on private cells.
    """

    def __init__(self, coordinates: int, count: int, step: float) -> None:
        size = 1 << (count - 1).bit_length()
        self._size, self._block = size, size - 1
        self._sums = HadamardSums(coordinates, count, step)
        self._waiting = np.empty((coordinates, self._block))
        self._weights = np.empty(self._block)
        self._held = 0

    def update(self, rows: np.ndarray, weights: np.ndarray) -> None:
        """Draw the subsets of these rows and add the rows to their sums, block by block."""
        first = self._hold(rows, weights, 0) if self._held else 0
        if self._held == self._block:
            self._close()
        blocks = (rows.shape[1] - first) // self._block
        if blocks > 0:
            signs_orders = _signs(rows.shape[1]), self._orders(blocks)
            self._sums.update((rows, first, weights, *signs_orders))
        first += blocks * self._block
        if first < rows.shape[1]:
            self._hold(rows, weights, first)

    def _hold(self, rows: np.ndarray, weights: np.ndarray, first: int) -> int:
        """Keep rows for a block that is not whole yet; return the first that is not kept."""
        last: int = min(first + self._block - self._held, rows.shape[1])
        free = slice(self._held, self._held + last - first)
        self._waiting[:, free], self._weights[free] = rows[:, first:last], weights[first:last]
        self._held = free.stop
        return last

    def _close(self) -> None:
        """Add the rows that were held, as one block; it may be shorter than the others."""
        if self._held:
            block = np.ascontiguousarray(self._waiting[:, : self._held])
            signs_orders = _signs(self._held), self._orders(1)
            self._sums.update((block, 0, self._weights[: self._held], *signs_orders))
        self._held = 0

    def _orders(self, blocks: int) -> np.ndarray:
        """Return one uniform permutation of 0..B - 1 per block."""
        orders = np.empty((blocks, self._size), dtype=np.int32)
        while not kernel.shuffle(_halves(blocks * self._size + _SPARE_WORDS), orders):
            pass  # too many words were rejected: all are drawn anew
        return orders

    def result(self) -> np.ndarray:
        """Return the sums (count, coordinates)."""
        self._close()
        return self._sums.result()


class FreeSubsets:
    """Draws subsets that are uniform and independent of each other: a fair coin per membership."""

    _memberships = 2**26  # drawn at once: 8 MB of bits

    def __init__(self, coordinates: int, count: int, step: float) -> None:
        self._count = count
        self._sums = SubsetSums(coordinates, count, step)

    def update(
        self, rows: np.ndarray, weights: np.ndarray, flipped: np.ndarray | None = None
    ) -> None:
        """Draw the subsets of these rows and add the rows to their sums.

        Rows that are ``flipped`` are in exactly the subsets that they would else be out of.
        """
        most = max(16, self._memberships // self._count // 16 * 16)
        for start in range(0, rows.shape[1], most):
            part = slice(start, min(start + most, rows.shape[1]))
            part_rows = np.ascontiguousarray(rows[:, part])
            bits = self._bits(part_rows.shape[1])
            if flipped is not None:
                packed = np.packbits(flipped[part], bitorder="little")
                bits[: len(packed)] ^= packed[:, None]
            self._sums.update((part_rows, weights[part], bits))

    def _bits(self, rows: int) -> np.ndarray:
        """Return who is in: bit k of [g, s] for row 8 g + k and subset s, an even number of g."""
        groups = 2 * -(-rows // 16)
        words = private_words(-(-groups * self._count // 8))
        return words.view(np.uint8)[: groups * self._count].reshape(groups, self._count)

    def result(self) -> np.ndarray:
        """Return the sums (count, coordinates)."""
        return self._sums.result()


class ChosenSubsets(FreeSubsets):
    """Draws subsets of fixed sizes, all subsets of a size equally likely, in one pass.

    ``sizes`` has one entry per subset, ``rows`` is how many examples there will be.
    """

    _memberships = 2**22  # a word of 32 bits each: 16 MB

    def __init__(self, coordinates: int, sizes: np.ndarray, step: float, rows: int) -> None:
        super().__init__(coordinates, len(sizes), step)
        self._remaining, self._rows = sizes.astype(np.int64), rows

    def _bits(self, rows: int) -> np.ndarray:
        bits = np.empty((2 * -(-rows // 16), self._count), dtype=np.uint8)
        while True:
            remaining = self._remaining.copy()
            words = _halves(rows * self._count + _SPARE_WORDS)
            if kernel.choose(words, remaining, self._rows, rows, bits):
                break
        self._remaining, self._rows = remaining, self._rows - rows
        return bits


Subsets = HadamardSubsets | FreeSubsets  # sums over random subsets, as rows come in


def binomials(trials: int, count: int, low: int) -> np.ndarray:
    """Return ``count`` exact draws of Bin(trials, 1/2), each one held to low..trials - low."""
    words = -(-trials // 64)
    draws = np.full(count, -1)
    while (pending := np.flatnonzero((draws < low) | (draws > trials - low))).size:
        batch = pending[: max(1, _WORDS_AT_ONCE // words)]
        bits = private_words(words * len(batch)).reshape(len(batch), words)
        bits[:, -1] >>= np.uint64(-trials % 64)
        draws[batch] = np.bitwise_count(bits).sum(axis=1)
    return draws


def _halves(count: int) -> np.ndarray:
    """Return ``count`` independent uniform 32-bit words."""
    return private_words(-(-count // 2)).view(np.uint32)[:count]


def _signs(count: int) -> np.ndarray:
    """Return ``count`` independent fair signs as floats."""
    bits = np.unpackbits(private_words(-(-count // 64)).view(np.uint8), count=count)
    return np.where(bits, 1.0, -1.0)


_ROUNDING_MARGIN = 1 + 1e-12  # than a handful of float operations can lose


def most_memberships(count: int, signs: str) -> int:
    """Return in how many of ``count`` rados one example can be: B/2 with structured signs."""
    return (1 << (count - 1).bit_length()) // 2 if signs == "hadamard" else count


def _row_steps(pipeline: Pipeline, step: float) -> float:
    """Return the largest 2-norm of a row on the lattice, from its declared bound."""
    width = len(pipeline.outputs)
    clipped = pipeline.norm_bound * (1 + (width + 8) * 2.0**-52)  # clipping rounds
    return (clipped / step + math.sqrt(width) / 2) * _ROUNDING_MARGIN  # and so does the lattice


def _sensitivity(steps: float, dimension: int) -> Sensitivity:
    return Sensitivity(math.ceil(steps * math.sqrt(dimension) * _ROUNDING_MARGIN), steps, dimension)


def label_sensitivity(pipeline: Pipeline, step: float) -> Sensitivity:
    """Return how far one label moves the vector that all rados share: by its row."""
    return _sensitivity(_row_steps(pipeline, step), len(pipeline.outputs))


def record_sensitivity(
    pipeline: Pipeline, step: float, memberships: int, count: int
) -> Sensitivity:
    """Return how far one record moves the whole matrix: 2 sqrt(memberships) max ||x||."""
    steps = 2 * math.sqrt(memberships) * _row_steps(pipeline, step) * _ROUNDING_MARGIN
    return _sensitivity(steps, count * len(pipeline.outputs))


def attribute_sensitivity(
    reach: float, step: float, memberships: int, count: int, coordinates: int
) -> Sensitivity:
    """Return how far one value moves the coordinates of its column: ``reach`` in each rado."""
    # Both values are rounded to the lattice, and a little before it.
    steps = reach * _ROUNDING_MARGIN / step + math.sqrt(coordinates) * (1 + 2.0**-10)
    return _sensitivity(math.sqrt(memberships) * steps * _ROUNDING_MARGIN, count * coordinates)


_SECRET = Assumption("the random signs are known to nobody", "drawn from the system, never stored")

_NO_GUARANTEE = Guarantee(
    unit=Unit.RECORD,
    event=Unbounded(),
    kind=Protection.NONE,
    public=("the number of rows", "the class list", "the columns"),
)


_EDGES_AT_ONCE = 4096  # records that get their noise in one call
State = tuple[Any, ...]  # the sums that rows are added to


class RadoPass(RecordPass):
    """Takes in private records on one machine, and hands their vectors to a procedure.

    Without a ``state`` that they are added to, records are only identified.
    """

    def __init__(
        self, procedure: "RadoProcedure", state: State | None, *, identified: bool
    ) -> None:
        rows, classes = procedure.rows, procedure.classes
        identified = identified or bool(rows.named_rows)
        super().__init__(rows.table, rows.roles.features, classes, identified=identified)
        self._rows, self._procedure, self.state = rows, procedure, state

    def update(self, batch: LabelledBatch) -> None:
        """Take in private records; no cell is an error.

        A label of no class becomes either class by a fair coin. One is drawn for every record.
        """
        super().update(batch)
        vectors = self._rows.vectors(batch.rows, self.unknown)
        if self.state is not None:
            codes = batch.codes
            labels = np.where(codes < 0, _signs(len(codes)), np.where(codes == 1, 1.0, -1.0))
            self._procedure.add_rows(self.state, vectors, labels)

    def merge(self, other: "RadoPass") -> NoReturn:
        """Refuse: the signs of all rows are drawn in one place."""
        del other
        raise ParameterError(
            "Rados are summed on the owner's machine, because their secret signs are drawn there."
        )

    def result(self) -> State:
        """Return the exact sums: private."""
        return self.state or ()


class RadoProcedure(RecordProcedure[RadoPass]):
    """One mechanism that sums and protects the rados that are ``asked`` for.

    ``step`` is the rounding step that rows are put on, zero for none.
    """

    kind = "rados"
    stays = "Rados are summed on the owner's machine: their secret signs are drawn there."
    mechanism: str
    step = 0.0

    def __init__(self, asked: "Rados", rows: PrivateRows, size: int) -> None:
        self.asked, self.rows, self.size = asked, rows, size
        self.classes = asked.declared_classes()
        self.unit = None if asked.unit is None else Unit(asked.unit)
        self.epsilon, self.delta = asked.epsilon, asked.delta
        self.support = None if asked.support is None else _whole("support", asked.support)
        self.count = asked.count_for(size)
        self.signs = asked.signs_for(self.count)
        self.width = len(rows.pipeline.outputs)

    def subsets(self, step: float) -> Subsets:
        """Return fresh subsets, not drawn yet."""
        if self.support is not None:
            sizes = np.full(self.count, self.support)
            return ChosenSubsets(self.width, sizes, step, self.size)
        subsets = HadamardSubsets if self.signs == "hadamard" else FreeSubsets
        return subsets(self.width, self.count, step)

    def begin(self) -> State:
        """Return empty sums over fresh subsets."""
        return (self.subsets(self.step),)

    def add_rows(self, state: State, rows: np.ndarray, labels: np.ndarray) -> None:
        """Add rows (coordinates, rows) with their labels, -1 or +1."""
        state[0].update(rows, labels)

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        """Return the rados (count, coordinates) as they leave, and what noise is in them."""
        return state[0].result(), Covariance("none")

    def accumulator(self, *, identified: bool) -> RadoPass:
        """Return empty rados over fresh subsets."""
        return RadoPass(self, self.begin(), identified=identified)

    def identifier(self) -> RadoPass:
        """Return a pass that identifies the rows, and adds nothing up."""
        return RadoPass(self, None, identified=True)

    def parameters(self, exact: RadoPass) -> Mapping[str, Any]:
        """Return the public description of the request."""
        asked = self.asked
        return {
            **super().parameters(exact),
            "mechanism": self.mechanism,
            "count": None if self.count == default_count(self.size) else self.count,
            "signs": self.signs,
            "support": self.support,
            "protect": list(asked.protect or ()),
            "truncate": asked.truncate,
            "attributes": list(asked.attributes or ()),
        }

    def draw(self, exact: RadoPass, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release."""
        rados, noise = self.noisy(exact.result())
        details = {
            "mechanism": self.mechanism,
            "count": self.count,
            "signs": self.signs,
            "support": self.support,
            "protect": list(self.asked.protect or ()),
            "step": self.step,
        }
        return self.released({"rados": np.ascontiguousarray(rados)}, details, noise, guarantees)


class _Plain(RadoProcedure):
    """Rados as they are: they protect nothing."""

    mechanism = "plain"

    def guarantees(self, exact: RadoPass) -> tuple[Guarantee, ...]:
        del exact
        return (_NO_GUARANTEE,)


class _Feature(RadoProcedure):
    """DP-Feat (Algorithm 2): what the protected columns alone reveal is protected, no more.

    Untruncated, the signs are uniform. Truncated, a column's sum is held to eq. (16): its K is
    drawn first and then a subset of that K, instead of rejecting whole signatures.
    """

    def __init__(self, asked: "Rados", rows: PrivateRows, size: int) -> None:
        super().__init__(asked, rows, size)
        self.mechanism = "dp-feat" if asked.truncate is None else "dp-feat-truncated"

    def begin(self) -> State:
        if self.asked.truncate is None:
            return (FreeSubsets(self.width, self.count, 0.0),)
        low = truncation(self.size, self.asked.truncate)
        sizes = binomials(self.size, self.count, low)
        return (ChosenSubsets(self.width, sizes, 0.0, self.size),)

    def guarantees(self, exact: RadoPass) -> tuple[Guarantee, ...]:
        """Return the statements of DP-Feat, one per column: marginal, over all rados together.

        The epsilon is what all of them cost at delta, independent and exactly composed; where they
        are truncated the edges count as infinite loss. More than was asked for is refused.
        """
        del exact
        asked, size, count, delta = self.asked, self.size, self.count, self.delta
        low = 0 if asked.truncate is None else truncation(size, asked.truncate)
        edge = edge_mass(size, low)
        edges = -math.expm1(count * math.log1p(-edge)) if edge < 1 else 1.0
        if edges >= delta:
            raise ParameterError(
                f"The most extreme sums would show one value with probability {edges:.2g}, more"
                f" than delta {delta:g}. Remove or raise --truncate, or use a smaller --count."
                if asked.truncate is not None
                else f"{size} rows are too few for delta {delta:g}: an extreme sum shows all of"
                " their values. Use more rows or a larger --delta."
            )
        cost = shift_epsilon(size, count, delta, low)
        if self.epsilon is not None and not cost <= self.epsilon:
            fits = most_draws(size, self.epsilon, delta, low)
            raise ParameterError(
                f"{count} rados of {size} rows need epsilon {cost:.4g} at delta {delta:g}. Epsilon"
                f" {self.epsilon:g} allows {fits or 'none'}. Use a smaller --count or a larger"
                " --epsilon."
            )
        origin = self.rows.pipeline.origin
        guarantees = (
            Guarantee(
                unit=Unit.ATTRIBUTE,
                event=Approximate(cost, delta),
                delta=delta,
                scope=Scope.MARGINAL,
                public=PUBLIC_FACTS,
                assumptions=(*declared_assumptions(origin), _SECRET),
                columns=(column,),
            )
            for column in asked.protect or ()
        )
        return tuple(as_scaled(guarantee, origin) for guarantee in guarantees)

    def add_rows(self, state: State, rows: np.ndarray, labels: np.ndarray) -> None:
        flipped = None
        if self.asked.truncate is not None and self.asked.protect:
            # K counts edges of +1 that are in and edges of -1 that are out.
            (position,) = self.rows.positions(self.asked.protect[0])
            flipped = rows[position] * labels < 0
        state[0].update(rows, labels, flipped)


class _OnLattice(RadoProcedure):
    """Adds noise to integers; rows are put on a lattice that their bound decides."""

    protects: ClassVar[Unit]
    noise: Noise

    def __init__(self, asked: "Rados", rows: PrivateRows, size: int) -> None:
        super().__init__(asked, rows, size)
        bound = rows.pipeline.norm_bound
        self.step = lattice_step(bound)
        if size * bound / self.step >= LARGEST_SUM / 4:
            raise ParameterError("There are too many rows for exact sums. Release them in parts.")
        assert self.epsilon is not None  # noqa: S101  # for the type checker: checked before
        self.calibrate(self.epsilon, self.delta)

    def calibrate(self, epsilon: float, delta: float) -> None:
        """Set the noise: on everything that one record moves."""
        most = most_memberships(self.count, self.signs)
        reach = record_sensitivity(self.rows.pipeline, self.step, most, self.count)
        self.noise = GaussianNoise.calibrated(reach, epsilon, delta)

    def guarantees(self, exact: RadoPass) -> tuple[Guarantee, ...]:
        del exact
        origin = self.rows.pipeline.origin
        return (noise_guarantee(self.protects, self.noise.event, self.delta, origin=origin),)


class _Shared(_OnLattice):
    """One noise vector, shared by all rados: protects each label.

    With u_si = [sigma_si = +1], a rado is sum_i u_si x_i - sum_(y_i = -1) x_i. Labels are in the
    second sum only, the same for all rados, and one label moves it by its row.
    """

    mechanism = "shared"
    protects = Unit.LABEL

    def calibrate(self, epsilon: float, delta: float) -> None:
        reach = label_sensitivity(self.rows.pipeline, self.step)
        self.noise = label_noise(reach, epsilon, delta)

    def begin(self) -> State:
        return (*super().begin(), WeightedSums(self.width, 1, self.step))

    def add_rows(self, state: State, rows: np.ndarray, labels: np.ndarray) -> None:
        subsets, negative = state
        subsets.update(rows, np.ones_like(labels))
        negative.update((list(rows), (labels < 0).astype(np.float64)[None, :]))

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        subsets, negative = state
        noisy = self.noise.add(negative.result())
        rados = (subsets.result() - noisy) * self.step
        return rados, Covariance("identity", self.noise.variance * self.step**2)


class _Matrix(_OnLattice):
    """Independent Gaussian noise on the whole matrix of rados: protects each record."""

    mechanism = "matrix"
    protects = Unit.RECORD

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        noisy = self.noise.add(state[0].result())
        return noisy * self.step, Covariance("identity", self.noise.variance * self.step**2)


class _Attributes(_OnLattice):
    """Independent Gaussian noise on the coordinates of the named columns: protects their values."""

    mechanism = "matrix"

    def calibrate(self, epsilon: float, delta: float) -> None:
        most, rows = most_memberships(self.count, self.signs), self.rows
        self._noises = {}
        for name in self.asked.attributes or ():
            coordinates = len(rows.positions(name))
            reach = attribute_sensitivity(
                rows.reach(name), self.step, most, self.count, coordinates
            )
            self._noises[name] = GaussianNoise.calibrated(reach, epsilon, delta)

    def guarantees(self, exact: RadoPass) -> tuple[Guarantee, ...]:
        del exact
        origin = self.rows.pipeline.origin
        return tuple(
            noise_guarantee(Unit.ATTRIBUTE, noise.event, self.delta, origin=origin, of=(name,))
            for name, noise in self._noises.items()
        )

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        rados, variances = state[0].result(), np.zeros(self.width)
        for name, noise in self._noises.items():
            where = list(self.rows.positions(name))
            rados[:, where] = noise.add(np.ascontiguousarray(rados[:, where]))
            variances[where] = noise.variance
        return rados * self.step, Covariance("diagonal", self.step**2, variances)


class _Edges(_OnLattice):
    """Gaussian noise on every edge vector before anything is summed (Section 5.2).

    Protects each record with local noise: sensitivity 2 max ||x||, whatever the number of rados and
    their supports. What is summed afterwards is as good as public.
    """

    mechanism = "edges"
    protects = Unit.RECORD
    draws_while_reading = True

    def calibrate(self, epsilon: float, delta: float) -> None:
        reach = record_sensitivity(self.rows.pipeline, self.step, 1, 1)
        self.noise = GaussianNoise.calibrated(reach, epsilon, delta)

    def begin(self) -> State:
        return (self.subsets(0.0),)  # sums of noisy numbers, which are as good as public

    def add_rows(self, state: State, rows: np.ndarray, labels: np.ndarray) -> None:
        for start in range(0, rows.shape[1], _EDGES_AT_ONCE):
            part = slice(start, start + _EDGES_AT_ONCE)
            edges = np.rint(rows[:, part] * labels[part] / self.step).astype(np.int64)
            # Every edge is a unit of its own, so the cost stays that of one (proofs/rados.md).
            alike = replace(self.noise.sensitivity, dimension=edges.size)
            noisy = replace(self.noise, sensitivity=alike).add(edges).astype(np.float64)
            state[0].update(noisy * self.step, np.ones(edges.shape[1]))

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        support = self.size / 2 if self.support is None else self.support
        variance = support * self.noise.variance * self.step**2  # expected, of uniform signs
        return state[0].result(), Covariance("identity", variance)


def label_noise(reach: Sensitivity, epsilon: float, delta: float) -> Noise:
    """Return the noise of least variance for one vector; Gaussian only where delta is positive."""
    noises: list[Noise] = [
        LaplaceNoise.calibrated(reach, epsilon),
        KNormNoise.calibrated(reach, epsilon),
    ]
    if delta > 0:
        noises.append(GaussianNoise.calibrated(reach, epsilon, delta))
    return min(noises, key=lambda noise: noise.variance)


def _check_asked(asked: "Rados", rows: PrivateRows, size: int) -> None:
    """Raise where fields cannot be combined, with what to change."""
    count = asked.count_for(size)
    iid = asked.signs_for(count) == "iid"
    support = None if asked.support is None else _whole("support", asked.support)
    uniform = support is None and not asked.protect
    rules = [
        (
            iid or count >= 2,
            "A single rado needs --signs iid: structured signs are balanced over several.",
        ),
        (
            iid or uniform,
            "--signs hadamard cannot be used with --support or --protect. Use --signs iid.",
        ),
        (
            support is None or 1 <= support < size,
            f"--support must lie between 1 and {size - 1}: some rows in, some out.",
        ),
        (
            not asked.protect or (asked.unit is None and asked.noise_on == "sums"),
            "--protect cannot be used with --unit or --noise-on: it adds no noise. Remove one.",
        ),
        (
            not asked.protect or asked.support is None,
            "--protect cannot be used with --support. Remove one.",
        ),
        (
            not asked.protect or asked.delta > 0,
            "--protect needs a --delta above 0, for example 1e-6.",
        ),
        (
            asked.truncate is None or len(asked.protect or ()) == 1,
            "--truncate works with exactly one protected column (--protect).",
        ),
    ]
    unit = None if asked.unit is None else Unit(asked.unit)
    noisy = asked.epsilon is not None
    of_noise = [
        (
            noisy or (unit is None and asked.noise_on == "sums"),
            "--unit and --noise-on need an --epsilon, for example 1.",
        ),
        (
            not noisy or unit is not None,
            "--epsilon needs to know what it protects. Add --unit label, record or attribute.",
        ),
        (unit is not Unit.PARTY, "--unit must be label, record or attribute."),
        (
            asked.noise_on == "sums" or unit is Unit.RECORD,
            "--noise-on records protects records. Use it with --unit record.",
        ),
        (
            unit is not Unit.LABEL or asked.support is None,
            (
                "--unit label does not protect labels with --support: differences of rados would"
                " carry no noise (docs/errata.md). Use --unit record, or remove --support."
            ),
        ),
        (
            unit in {None, Unit.LABEL} or asked.delta > 0,
            "Noise for this unit is Gaussian. It needs a --delta above 0, for example 1e-6.",
        ),
        (
            (unit is Unit.ATTRIBUTE) == bool(asked.attributes),
            (
                "--unit attribute needs the protected columns (--attribute COLUMN; Python:"
                " attributes=...), and --attribute needs --unit attribute."
            ),
        ),
        (
            unit is not Unit.ATTRIBUTE or rows.pipeline.map is None,
            "--unit attribute cannot be used with a feature map, which mixes columns.",
        ),
    ]
    for holds, message in rules if asked.protect else [*rules, *of_noise]:
        if not holds:
            raise ParameterError(message)


_FINE, _DROWNED = 0.5, 2.0  # noise over spread: below, it hardly shows; above, nothing else does
_SHARED = "rados, shared noise"
_WHERE = {
    _SHARED: "once, to all sums",
    "rados, noise on the matrix": "to every sum",
    "rados, noise on records": "to every record",
}  # how a table shows what JSON has codes for
_VERDICTS = {
    "fine": "useful",
    "noisy": "noisy",
    "mean only": "mean useful",
    "drowned": "too noisy",
}


def _plan_rados(rows: PrivateRows, size: int, count: int, epsilon: float, delta: float) -> Plan:
    """Return whether ``count`` rados of ``size`` such rows stay useful; reads none of them.

    A coordinate of a rado varies over its random signs by sqrt(m q) / 2, q the mean square of that
    coordinate over the rows; so does the mean of all rados, the mean operator, over the sampling of
    the rows. Noise per record grows with sqrt(count) on a rado, and stays sqrt(2) times that of one
    vector on their mean. Where it exceeds the spread of a rado, whoever learns from rados learns
    from their mean alone.

    A public table that scales come from says how long rows are, otherwise they are taken to be as
    long as allowed.
    """
    pipeline = rows.pipeline
    if pipeline.bound >= UNCLIPPED:
        raise ParameterError(
            "A plan needs a bound on the length of rows. Declare --range or --bound, or give a"
            " public table with --standardize FILE (Python: ranges, bound, standardize)."
        )
    square = pipeline.norm_bound**2 / len(pipeline.outputs)  # the mean square of a coordinate
    if rows.public is not None:
        sample, _ = PublicRows(rows.public, rows.roles, pipeline).sample()
        square = float(np.mean(sample**2))
    spread = math.sqrt(size * square) / 2
    step = lattice_step(pipeline.norm_bound)

    def row(release: str, number: int, noise: float, mean_noise: float) -> dict[str, Any]:
        verdict = "mean only" if mean_noise <= _DROWNED * spread else "drowned"
        if noise <= _DROWNED * spread:
            verdict = "fine" if noise <= _FINE * spread else "noisy"
        unit = "label" if release == _SHARED else "record"
        return {
            "release": release, "unit": unit, "count": number, "noise": noise,
            "mean_noise": mean_noise, "spread": spread, "verdict": verdict,
        }  # fmt: skip

    def gaussian(memberships: int, number: int) -> float:
        reach = record_sensitivity(pipeline, step, memberships, number)
        return GaussianNoise.calibrated(reach, epsilon, delta).scale * step

    def on_sums(number: int) -> dict[str, Any]:
        noise = gaussian(most_memberships(number, "hadamard" if number > 1 else "iid"), number)
        return row("rados, noise on the matrix", number, noise, noise / math.sqrt(number))

    reach = label_sensitivity(pipeline, step)
    shared = math.sqrt(label_noise(reach, epsilon, delta).variance) * step
    label, record = row(_SHARED, count, shared, shared), on_sums(count)
    powers = (2**k for k in range(count.bit_length() - 1, 0, -1) if 2**k < count)
    survive = (some for some in map(on_sums, powers) if some["noise"] <= _DROWNED * spread)
    fewer = [*islice(survive, 1)] if record["noise"] > _DROWNED * spread else []
    edges = gaussian(1, 1) * math.sqrt(size / 2)
    local = row("rados, noise on records", count, edges, edges / math.sqrt(2))
    table = [label, record, *fewer, local]
    # Noise of variance v on each of n rados of m rows is 4 v/m in the mean products of two columns.
    # Once that is subtracted, an error of 4 v/(m sqrt(n)) remains; on the mean operator it is
    # 2 sqrt(v/n)/m.
    width = len(pipeline.outputs) - (pipeline.intercept > 0)
    blocks = calibrated_moments(width, 2, size, epsilon, delta).blocks
    deviations = {name: block.deviation / size for name, block in blocks.items()}
    products = 4 * record["noise"] ** 2 / (size * math.sqrt(count)) / pipeline.bound**2
    operator = 2 * record["mean_noise"] / size / pipeline.bound
    over_moments = {
        "products": products / deviations.get("products", deviations["diagonal"]),
        "operator": operator / deviations["operator"],
    }
    advice = [*_advice(label, record, fewer, over_moments)]
    return Plan(
        title=(
            f"Subset sums of {size:,} rows: how much they vary, and their noise"
            " (standard deviations per coordinate)"
        ),
        columns={
            "noise is added": lambda row: _WHERE[row["release"]],
            "protects": "{unit}".format_map,
            "sums": "{count}".format_map,
            "spread": "{spread:.3g}".format_map,
            "noise": "{noise:.3g}".format_map,
            "noise on mean": "{mean_noise:.3g}".format_map,
            "verdict": lambda row: _VERDICTS[row["verdict"]],
        },
        rows=table,
        facts={
            "rows": size, "options": table, "noise_over_moments": over_moments, "advice": advice,
        },
        advice=advice,
    )  # fmt: skip


def _advice(
    label: Mapping[str, Any],
    record: Mapping[str, Any],
    fewer: Sequence[Mapping[str, Any]],
    over_moments: Mapping[str, float],
) -> Iterator[str]:
    """Yield what to do, in sentences."""
    spread = record["spread"]
    if record["noise"] <= _DROWNED * spread:
        yield "The noise is not much larger than what the sums vary by themselves."
    else:
        useful = "Only the mean" if record["verdict"] == "mean only" else "Nothing"
        with_fewer = "".join(
            f" With --count {row['count']} it would be {row['noise'] / spread:.2g} times."
            for row in fewer
        )
        yield (
            f"Protecting records: the noise on each of {record['count']} sums is"
            f" {record['noise'] / spread:.2g} times what they vary by themselves.{with_fewer} On"
            f" their mean it is {record['mean_noise'] / spread:.2g} times. {useful} is useful for"
            " learning."
        )
        remedy = "Raise --epsilon, or wait for more rows."
        if label["noise"] <= _DROWNED * spread:
            remedy = (
                "If only labels are private, use --unit label. If rows may be seen too, release the"
                " mean operator."
            )
        yield (
            f"Protecting labels: the noise is {label['noise'] / spread:.2g} times what the sums"
            f" vary by. {remedy}"
        )
    if min(over_moments.values()) > 1:  # records protected, two classes
        smaller, together = (
            f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.2g} times"
            for ratio in (over_moments["operator"], over_moments["products"])
        )
        yield (
            f"To protect records, release moments instead: their noise is {smaller} smaller on the"
            f" mean operator. On how columns vary together it is {together} smaller. Only epsilon,"
            " delta and the numbers of rows, columns and sums decide this. See `suffice plan"
            " moments`."
        )


_MOST_RADOS = 2**20  # beyond, a block of structured signs would not add exactly


@dataclass(frozen=True)
class Rados(PrivateScaling, Mechanism[PrivateTable]):
    """Publish subset sums (rados): sums of private records over secret random subsets.

    Protects what ``unit`` names: each label, each record or the values of some columns. Without
    ``epsilon`` it protects nothing. The number of rows, the class list and how columns are scaled
    are public; with unit label the feature columns are not protected.

    A rado is pi_s = (1/2) sum_i (sigma_si + y_i) x_i (Nock, Patrini & Friedman 2015, Definition 1):
    the sum of the edges y_i x_i over the records with sigma_si = y_i. ``count`` of them are
    published, and neither the rows nor their signs sigma are. y = -1 for the first of the two
    ``classes``. Guarantees, R the largest norm of a row and k how many rados one record is in at
    most (count/2 if that is a power of two and signs are structured, else up to count):

    - none of the below: no guarantee at all; needs ``unprotected``;
    - ``protect``, columns of two values (DP-Feat, Section 5.1): only what each such column *alone*
      reveals, at ``delta``; marginal. ``truncate``, the paper's epsilon per rado, truncates it
      (eq. 16), which costs more than it saves;
    - ``unit`` "label": one noise vector, shared by all rados, of sensitivity R;
    - ``unit`` "record": Gaussian noise on the matrix, 2 sqrt(k) R; with ``noise_on`` "records" on
      every edge instead (Section 5.2), 2 R each;
    - ``unit`` "attribute", of ``attributes``: Gaussian noise on their coordinates, sqrt(k) times
      the width of their range.

    Rows are private; `PrivateScaling` says how they become vectors. The release's noise is that on
    one rado: with mechanism "shared" all rados carry the same draw of it, with "matrix" each its
    own; with "edges" it is the expected one, and rados that share records share their noise.

    Parameters
    ----------
    count : int, optional
        Number of rados. Default: half the rows, at most 1000.
    signs : str
        "hadamard" (structured, uniform one by one, far faster; owner/rados.py), "iid", or
        "auto".
    support : int, optional
        How many records each rado sums (eq. 18). Default: about half of them.
    protect : sequence of str, optional
        Two-valued columns that are protected when read alone.
    truncate : float, optional
        The paper's epsilon per rado, at which ``protect`` truncates.
    epsilon : float, optional
        Epsilon of each unit. Default: no noise, and no protection.
    delta : float
        Delta, for example 1e-6. Gaussian noise needs a value above 0.
    unit : Unit or str, optional
        What epsilon protects: label, record or attribute.
    attributes : sequence of str, optional
        The columns that unit attribute protects.
    noise_on : str
        "sums", or "records" before they are summed.
    classes : sequence
        The two labels that can occur; the last is positive.
    standardize, ranges, bound, clip, intercept, missing, categories, pipeline
        How rows become vectors; see `PrivateScaling`.

    Raises
    ------
    ParameterError
        If a field is outside its domain, or if fields cannot be combined.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X, y = np.eye(4).repeat(25, axis=0), np.repeat([0, 1], 50)
    >>> rados = suffice.Rados(epsilon=1.0, unit="label", count=8, ranges=(0, 1))
    >>> release = rados.release(X, y, ledger=None)
    >>> release.kind, release.arrays["rados"].shape, str(release.guarantee.unit)
    ('rados', (8, 5), 'label')
    """

    name = "rados"
    release_help = (
        "Publish noisy sums of records over secret random subsets.\n\n"
        "The release holds subset sums (rados): sums of records over secret random subsets, with"
        " noise if --epsilon is set. It protects each label, value or record, as --unit says, and"
        " nothing without --epsilon or --protect. The number of records, the columns and their"
        " scaling are public."
    )
    plan_help = "Predict whether subset sums stay useful after noise."

    noises: ClassVar[Mapping[str, bool]] = {"gaussian": True}
    offered: ClassVar[Mapping[str, type]] = {"bound": float, "count": int}

    count: int | None = data_option(
        None, "Number of sums (rados), for example 256. Default: half the rows, at most 1000."
    )
    signs: str = privacy_option(
        "auto",
        "Random signs: hadamard (structured, fast) or iid (independent). auto takes hadamard where"
        " it can.",
        choices=("auto", "hadamard", "iid"),
        planned=False,
    )
    support: int | None = privacy_option(
        None,
        "Number of records in each sum, for example 500. Default: about half of them.",
        planned=False,
    )
    protect: Sequence[str] | None = privacy_option(
        None,
        "Limit what this two-valued column shows when read alone (repeatable). Readers who combine"
        " columns may still recover it, so this needs --unprotected.",
        parse=names,
        many=True,
        planned=False,
    )
    truncate: float | None = privacy_option(
        None, "Epsilon per sum at which --protect truncates, for example 0.9.", planned=False
    )
    epsilon: float | None = option(None, **EPSILON)
    delta: float = option(0.0, **DELTA)
    unit: Unit | str | None = privacy_option(
        None,
        "What epsilon protects: label, record or attribute.",
        choices=("label", "record", "attribute"),
        planned=False,
    )
    attributes: Sequence[str] | None = privacy_option(
        None,
        "Column that --unit attribute protects, for example hiv (repeatable).",
        name="--attribute",
        parse=names,
        many=True,
        planned=False,
    )
    noise_on: str = privacy_option(
        "sums",
        "Where noise is added: to the sums, or to every record before it is summed.",
        choices=("sums", "records"),
        planned=False,
    )
    classes: Sequence[Any] = option((0, 1), **CLASSES, planned=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is not None:
            check_promise(self)
        else:
            check_delta(self.delta)

    def declared_classes(self) -> Classes:
        """Return the two declared classes."""
        classes = check_classes(self.classes)
        if len(classes) != 2:
            raise ParameterError("Rados are for two classes. Merge or drop the others.")
        return classes

    @classmethod
    def as_asked(cls, asked: Asked) -> Self:
        """Return what a proposal asks for: noise on the sums that protects each record."""
        return cls(
            epsilon=asked.epsilon,
            delta=asked.delta,
            unit=Unit.RECORD,
            classes=asked.classes,
            **sheet_scaling(asked),
        )

    def cost(self, width: int, rows: int) -> tuple[int, int]:
        """Return about how many products the sums take, and how many bytes they have."""
        return rows * self.count_for(rows) * width, 8 * self.count_for(rows) * width

    def public(self, source: Source) -> PrivateTable:
        """Return the table, its pipeline and its number of rows; tells the owner of shared rows."""
        return PrivateTable.of(
            self.private_rows(source), self.declared_classes(), source, self.unit
        )

    def choose(self, public: PrivateTable) -> RadoProcedure:
        """Return the procedure with its noise, calibrated by what was declared."""
        return self.procedure(public.rows, public.size)

    def procedure(self, rows: PrivateRows, size: int) -> RadoProcedure:
        """Return the procedure for ``size`` such rows; raise where fields cannot be combined."""
        _check_asked(self, rows, size)
        made: type[RadoProcedure] = _Plain
        if self.protect:
            made = _Feature
        elif self.epsilon is not None and self.noise_on == "records":
            made = _Edges
        elif self.epsilon is not None:
            by_unit: dict[Unit, type[RadoProcedure]] = {
                Unit.LABEL: _Shared,
                Unit.RECORD: _Matrix,
                Unit.ATTRIBUTE: _Attributes,
            }
            made = by_unit[Unit(self.unit or "")]
        return made(self, rows, size)

    def plan(self, source: Source, epsilons: Sequence[float] = ()) -> Plan:
        """Return whether rados stay useful after noise, from the number of rows and public tables.

        Raises
        ------
        ParameterError
            If scales would come from private rows, or if there is not exactly one epsilon.
        """
        if self.scaled_by(promised=True) == "rows":
            raise ParameterError(
                "A plan reads no private row. Declare --range or --bound, or give a public table"
                " with --standardize FILE."
            )
        if len(epsilons) > 1 or self.epsilon is None:
            raise ParameterError("A plan of rados is for one epsilon. Use --epsilon once.")
        rows = self.read_private(source, promised=True, protect=(), boxed=False)
        size = rows.size(source, None)
        return _plan_rados(rows, size, self.count_for(size), self.epsilon, self.delta or 1e-6)

    def private_rows(self, source: Source) -> PrivateRows:
        """Return the private table with its pipeline; reads it only with standardize="rows"."""
        return self.read_private(
            source,
            promised=self.epsilon is not None or bool(self.protect),
            protect=tuple(self.protect or ()),
            boxed=bool(self.attributes),
        )

    def count_for(self, size: int) -> int:
        """Return the number of rados of ``size`` rows."""
        count = default_count(size) if self.count is None else _whole("count", self.count)
        if not 1 <= count <= _MOST_RADOS:
            raise ParameterError(f"--count must lie between 1 and {_MOST_RADOS}; got {count}.")
        return count

    def signs_for(self, count: int) -> str:
        """Return how the signs of ``count`` rados are drawn: hadamard or iid."""
        if self.signs != "auto":
            return str(self.signs)
        free = self.support is None and not self.protect and count > 1
        return "hadamard" if free else "iid"


def plan_rados(
    X: Any,
    epsilon: float,
    delta: float,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    **settings: Any,
) -> Plan:
    """Return whether rados of the table ``X`` stay useful after noise; reads no private row.

    Where ``standardize`` is a public table its rows say how long rows are; otherwise rows are taken
    to be as long as allowed.

    Parameters
    ----------
    X
        The private table. Only its number of rows is used.
    epsilon, delta : float
        What the noise may cost.
    label : str, optional
        The label column.
    features : sequence of str, optional
        The feature columns. Default: all but the label.
    **settings
        Fields of `Rados` that say how rows are scaled (``ranges``, ``standardize``, ``bound``,
        ``clip``, ``intercept``, ``pipeline``, ``categories``), and the ``count``.

    Returns
    -------
    Plan
        A table of noise and spread, and what to do; a row has the ``release``, the ``unit`` that it
        protects, the ``count`` of rados, the ``noise`` on one and the ``mean_noise`` on the mean of
        all, how much one varies with its random subset (``spread``), and a ``verdict``: fine,
        noisy, mean only (only their mean is useful) or drowned (too noisy).

    Examples
    --------
    >>> import numpy as np, suffice
    >>> plan = suffice.plan_rados(np.zeros((1000, 4)), 8.0, 1e-5, ranges=(0, 1), count=4)
    >>> [row["verdict"] for row in plan.rows]
    ['fine', 'fine', 'drowned']
    """
    mechanism = Rados(epsilon=epsilon, delta=delta, **settings)
    return mechanism.plan(Source(X, label=label, features=features))


def _whole(name: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise ParameterError(f"--{name} must be an integer; got {value!r}.") from None
