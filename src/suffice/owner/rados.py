"""The secret signs of rados: which examples are in which sum. As secret as the data, never stored.

Every rado is the sum of the edges y_i x_i over a random subset of the examples (Nock, Patrini &
Friedman 2015, Definition 1: those with sigma_i = y_i). A uniform sigma is a uniform subset,
whatever the labels are. Signs are drawn batch by batch from the operating system's randomness.
"""

import hashlib
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import islice
from operator import index
from typing import Any, NoReturn

import numpy as np

from suffice.engines.sums import HadamardSums, SubsetSums, WeightedSums, default_count, lattice_step
from suffice.errors import ParameterError
from suffice.kernels import rados as kernel
from suffice.options import data_option, names, option, privacy_option
from suffice.owner.forecast import Plan
from suffice.owner.labelled import CellFingerprint, LabelFingerprint, PublicRows
from suffice.owner.mechanism import (
    CLASSES,
    DELTA,
    EPSILON,
    Mechanism,
    PrivateIdentity,
    Procedure,
    Public,
)
from suffice.owner.moments import MomentNoise, calibrated_moments
from suffice.owner.scaling import (
    UNCLIPPED,
    PrivateRows,
    PrivateScaling,
    attribute_sensitivity,
    feature_guarantees,
    label_sensitivity,
    most_memberships,
    no_guarantee,
    noise_guarantee,
    record_sensitivity,
    warn_of_same_rows,
)
from suffice.owner.source import LabelledBatch, LabelledPart, Source, labelled_parts
from suffice.privacy.binomial import truncation
from suffice.privacy.calibrate import check_delta, check_promise
from suffice.privacy.guarantee import Guarantee, Unit
from suffice.privacy.noise import (
    LARGEST_SUM,
    GaussianNoise,
    KNormNoise,
    LaplaceNoise,
    Noise,
    Sensitivity,
)
from suffice.privacy.randomness import private_words
from suffice.release.release import Covariance, Part, Release, RowSet
from suffice.strict_json import canonical
from suffice.tables.labels import Classes, check_classes
from suffice.tables.sources import row_count

__all__ = [
    "ChosenSubsets",
    "FreeSubsets",
    "HadamardSubsets",
    "NoisePlace",
    "RadoPass",
    "RadoProcedure",
    "RadoRequest",
    "RadoUnit",
    "Rados",
    "Signs",
    "Subsets",
    "binomials",
    "check_request",
    "label_noise",
    "plan_rados",
    "procedure_for",
]


_WORDS = 2**20  # of fair bits drawn at once: 8 MB
_SPARE = 64  # words: to need more has, for either use below, a chance far below 10^-100


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
        while not kernel.shuffle(_halves(blocks * self._size + _SPARE), orders):
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
        for part in self._parts(rows.shape[1]):
            part_rows = np.ascontiguousarray(rows[:, part])
            bits = self._bits(part_rows.shape[1])
            if flipped is not None:
                bits ^= _packed(flipped[part], len(bits))
            self._sums.update((part_rows, weights[part], bits))

    def _parts(self, rows: int) -> list[slice]:
        """Return slices of rows, each short enough for its membership bits."""
        most = max(16, self._memberships // self._count // 16 * 16)
        return [slice(start, min(start + most, rows)) for start in range(0, rows, most)]

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
            words = _halves(rows * self._count + _SPARE)
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
        batch = pending[: max(1, _WORDS // words)]
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


def _packed(flags: np.ndarray, groups: int) -> np.ndarray:
    """Return flags as bytes (groups, 1), bit k of byte g for flag 8 g + k."""
    packed = np.zeros((groups, 1), dtype=np.uint8)
    packed[: -(-len(flags) // 8), 0] = np.packbits(flags, bitorder="little")
    return packed


class Signs(StrEnum):
    """How the random signs of rados are drawn."""

    AUTO = "auto"
    HADAMARD = "hadamard"
    IID = "iid"


class NoisePlace(StrEnum):
    """Where noise per record is added: to the sums, or to every record before it is summed."""

    SUMS = "sums"
    RECORDS = "records"


class RadoUnit(StrEnum):
    """What the noise on rados can protect."""

    LABEL = "label"
    RECORD = "record"
    ATTRIBUTE = "attribute"


@dataclass(frozen=True)
class RadoRequest:
    """A request, with everything about the rows that is known before they are read.

    Parameters
    ----------
    rows : PrivateRows
        The private table and its pipeline.
    size : int
        Number of rows; public.
    count : int
        Number of rados.
    signs : str
        hadamard or iid.
    classes : tuple
        The two classes; the last is positive.
    support : int, optional
        Number of records in each rado.
    protect : tuple of str
        Two-valued columns that are protected when read alone.
    truncate : float, optional
        Epsilon per rado at which ``protect`` truncates.
    attributes : tuple of str
        Columns that unit attribute protects.
    epsilon, delta : float
        What the noise may cost; no noise without epsilon.
    unit : Unit, optional
        What epsilon protects.
    noise_on : str
        sums or records.
    """

    rows: PrivateRows
    size: int
    count: int
    signs: str
    classes: Classes = (0, 1)
    support: int | None = None
    protect: tuple[str, ...] = ()
    truncate: float | None = None
    attributes: tuple[str, ...] = ()
    epsilon: float | None = None
    delta: float = 0.0
    unit: Unit | None = None
    noise_on: str = "sums"

    @property
    def coordinates(self) -> int:
        """The number of coordinates of a rado."""
        return len(self.rows.pipeline.outputs)

    @property
    def epsilon_delta(self) -> tuple[float, float]:
        """(epsilon, delta), where noise is added."""
        assert self.epsilon is not None  # noqa: S101  # for the type checker: checked before
        return self.epsilon, self.delta

    def subsets(self, step: float) -> Subsets:
        """Return fresh subsets, not drawn yet."""
        if self.support is not None:
            sizes = np.full(self.count, self.support)
            return ChosenSubsets(self.coordinates, sizes, step, self.size)
        subsets = HadamardSubsets if self.signs == "hadamard" else FreeSubsets
        return subsets(self.coordinates, self.count, step)


def check_request(request: RadoRequest) -> None:
    """Raise where the parts of a request cannot be combined, with what to change."""
    uniform = request.support is None and not request.protect
    rules = [
        (request.count >= 1, "--count must be a positive integer."),
        (
            request.signs == "iid" or request.count >= 2,
            "A single rado needs --signs iid: structured signs are balanced over several.",
        ),
        (
            request.signs == "iid" or uniform,
            "--signs hadamard cannot be used with --support or --protect. Use --signs iid.",
        ),
        (
            request.support is None or 1 <= request.support < request.size,
            f"--support must lie between 1 and {request.size - 1}: some rows in, some out.",
        ),
        (
            not request.protect or (request.unit is None and request.noise_on == "sums"),
            "--protect cannot be used with --unit or --noise-on: it adds no noise. Remove one.",
        ),
        (
            not request.protect or request.support is None,
            "--protect cannot be used with --support. Remove one.",
        ),
        (
            not request.protect or request.delta > 0,
            "--protect needs a --delta above 0, for example 1e-6.",
        ),
        (
            request.truncate is None or len(request.protect) == 1,
            "--truncate works with exactly one protected column (--protect).",
        ),
    ]
    broken = [message for holds, message in [*rules, *_noise_rules(request)] if not holds]
    if broken:
        raise ParameterError(broken[0])


def _noise_rules(request: RadoRequest) -> list[tuple[bool, str]]:
    """Return the rules for noise: what must hold, and what to change where it does not."""
    if request.protect:
        return []
    unit, noisy = request.unit, request.epsilon is not None
    return [
        (
            noisy or (unit is None and request.noise_on == "sums"),
            "--unit and --noise-on need an --epsilon, for example 1.",
        ),
        (
            not noisy or unit is not None,
            "--epsilon needs to know what it protects. Add --unit label, record or attribute.",
        ),
        (unit is not Unit.PARTY, "--unit must be label, record or attribute."),
        (
            request.noise_on == "sums" or unit is Unit.RECORD,
            "--noise-on records protects records. Use it with --unit record.",
        ),
        (
            unit is not Unit.LABEL or request.support is None,
            (
                "--unit label does not protect labels with --support: differences of rados would"
                " carry no noise (docs/errata.md). Use --unit record, or remove --support."
            ),
        ),
        (
            unit in {None, Unit.LABEL} or request.delta > 0,
            "Noise for this unit is Gaussian. It needs a --delta above 0, for example 1e-6.",
        ),
        (
            (unit is Unit.ATTRIBUTE) == bool(request.attributes),
            (
                "--unit attribute needs the protected columns (--attribute COLUMN; Python:"
                " attributes=...), and --attribute needs --unit attribute."
            ),
        ),
        (
            unit is not Unit.ATTRIBUTE or request.rows.pipeline.map is None,
            "--unit attribute cannot be used with a feature map, which mixes columns.",
        ),
    ]


class RadoPass:
    """Takes in private rows as vectors with their labels; an accumulator of one machine.

    ``add`` is given vectors (coordinates, rows) and labels -1 or +1, and adds them to ``state``;
    without it the rows are only identified.
    """

    def __init__(
        self,
        request: RadoRequest,
        add: Callable[[np.ndarray, np.ndarray], None] | None,
        state: tuple[Any, ...],
        *,
        identified: bool,
    ) -> None:
        self._rows, self._add, self.state = request.rows, add, state
        self._labels = LabelFingerprint(request.classes)
        features = self._rows.roles.features
        self._cells = CellFingerprint(self._rows.table.schema, features) if identified else None
        self.count = 0

    def lead(self) -> None:
        """Say that no rows come before these."""
        self._labels.lead()
        if self._cells is not None:
            self._cells.lead()

    def update(self, batch: LabelledBatch) -> None:
        """Take in private rows."""
        self._labels.update(batch.codes)
        self.count += len(batch)
        if self._cells is not None:
            self._cells.update(batch.rows)
        if self._add is not None:
            vectors = self._rows.pipeline.finished(self._rows.encoded(batch.rows)).T
            self._add(vectors, np.where(batch.codes == 1, 1.0, -1.0))

    def merge(self, other: "RadoPass") -> NoReturn:
        """Refuse: the signs of all rows are drawn in one place."""
        del other
        raise ParameterError(
            "Rados are summed on the owner's machine, because their secret signs are drawn there."
        )

    def result(self) -> tuple[Any, ...]:
        """Return the exact sums: private."""
        return self.state

    @property
    def fingerprint(self) -> bytes:
        """What identifies the people, and their cells; leaves under the ledger's key only."""
        return self._labels.result() + (b"" if self._cells is None else self._cells.result())

    @property
    def content(self) -> bytes:
        """What identifies the feature cells in any order."""
        return b"" if self._cells is None else self._cells.unordered().encode()


_EDGES_AT_ONCE = 4096  # records that get their noise in one call
State = tuple[Any, ...]  # the sums that rows are added to


class RadoProcedure(Procedure[RadoPass]):
    """One mechanism that sums and protects the rados of a request.

    ``step`` is the rounding step that rows are put on, zero for none.
    """

    kind = "rados"
    stays = "Rados are summed on the owner's machine: their secret signs are drawn there."
    mechanism: str
    step = 0.0

    def __init__(self, request: RadoRequest) -> None:
        self.request = request

    @cached_property
    @abstractmethod
    def promises(self) -> tuple[Guarantee, ...]:
        """What is promised."""

    def begin(self) -> State:
        """Return empty sums over fresh subsets."""
        return (self.request.subsets(self.step),)

    def add_rows(self, state: State, rows: np.ndarray, labels: np.ndarray) -> None:
        """Add rows (coordinates, rows) with their labels, -1 or +1."""
        state[0].update(rows, labels)

    @abstractmethod
    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        """Return the rados (count, coordinates) as they leave, and what noise is in them."""

    def accumulator(self, *, identified: bool) -> RadoPass:
        """Return empty rados over fresh subsets."""
        state = self.begin()

        def add(rows: np.ndarray, labels: np.ndarray) -> None:
            self.add_rows(state, rows, labels)

        return RadoPass(self.request, add, state, identified=identified or self._reused)

    def identifier(self) -> RadoPass:
        """Return a pass that identifies the rows, and adds nothing up."""
        return RadoPass(self.request, None, (), identified=True)

    @property
    def _reused(self) -> bool:
        """Whether the pipeline was given and names the rows that it was fitted on."""
        return bool(self.request.rows.named_rows)

    def report(self, exact: RadoPass) -> None:
        """Warn the owner if the given pipeline was fitted on the very rows that are now private."""
        if self._reused:
            warn_of_same_rows(exact.content.decode(), self.request.rows.named_rows)

    def guarantees(self, exact: RadoPass) -> tuple[Guarantee, ...]:
        """Return what is promised: it was known before a row was read."""
        del exact
        return self.promises

    def parameters(self, exact: RadoPass) -> Mapping[str, Any]:
        """Return the public description of the request."""
        del exact
        request = self.request
        usual_count = default_count(request.size)
        return {
            "kind": self.kind,
            "mechanism": self.mechanism,
            "unit": None if request.unit is None else str(request.unit),
            "epsilon": request.epsilon,
            "delta": request.delta,
            "records": request.size,
            "count": None if request.count == usual_count else request.count,
            "signs": request.signs,
            "support": request.support,
            "protect": list(request.protect),
            "truncate": request.truncate,
            "attributes": list(request.attributes),
            "classes": list(request.classes),
            "ranges": {name: list(limits) for name, limits in request.rows.ranges.items()},
            "pipeline": request.rows.pipeline.digest(),
        }

    def identity(self, exact: RadoPass, guarantees: tuple[Guarantee, ...]) -> PrivateIdentity:
        """Return the fingerprint of labels and cells."""
        del guarantees
        return PrivateIdentity(exact.fingerprint)

    def draw(self, exact: RadoPass, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release; rows are named by what leaves, not by what stays."""
        request = self.request
        rados, noise = self.noisy(exact.state)
        details = {
            "classes": list(request.classes),
            "mechanism": self.mechanism,
            "count": request.count,
            "signs": request.signs,
            "support": request.support,
            "protect": list(request.protect),
            "step": self.step,
        }
        content = hashlib.sha256(b"rados\0" + canonical(details) + rados.tobytes())
        rows = RowSet(exact.count, "sha256:" + content.hexdigest())
        return Release(
            kind=self.kind,
            arrays={"rados": np.ascontiguousarray(rados)},
            details=details,
            parts=(Part(rows, guarantees),),
            pipeline=request.rows.pipeline,
            noise=noise,
        )


class _Plain(RadoProcedure):
    """Rados as they are: they protect nothing."""

    mechanism = "plain"

    @cached_property
    def promises(self) -> tuple[Guarantee, ...]:
        return (no_guarantee(),)

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        return state[0].result(), Covariance("none")


class _Feature(RadoProcedure):
    """DP-Feat (Algorithm 2): what the protected columns alone reveal is protected, no more.

    Untruncated, the signs are uniform. Truncated, a column's sum is held to eq. (16): its K is
    drawn first and then a subset of that K, instead of rejecting whole signatures.
    """

    def __init__(self, request: RadoRequest) -> None:
        super().__init__(request)
        self.mechanism = "dp-feat" if request.truncate is None else "dp-feat-truncated"

    def begin(self) -> State:
        request = self.request
        if request.truncate is None:
            return (FreeSubsets(request.coordinates, request.count, 0.0),)
        low = truncation(request.size, request.truncate)
        sizes = binomials(request.size, request.count, low)
        return (ChosenSubsets(request.coordinates, sizes, 0.0, request.size),)

    @cached_property
    def promises(self) -> tuple[Guarantee, ...]:
        request = self.request
        return feature_guarantees(
            request.protect,
            request.size,
            request.count,
            epsilon=request.epsilon,
            delta=request.delta,
            truncate=request.truncate,
            origin=request.rows.origin,
        )

    def add_rows(self, state: State, rows: np.ndarray, labels: np.ndarray) -> None:
        flipped = None
        if self.request.truncate is not None:
            # K counts edges of +1 that are in and edges of -1 that are out.
            (position,) = self.request.rows.positions(self.request.protect[0])
            flipped = rows[position] * labels < 0
        state[0].update(rows, labels, flipped)

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        return state[0].result(), Covariance("none")


class _OnLattice(RadoProcedure):
    """Adds noise to integers; rows are put on a lattice that their bound decides."""

    def __init__(self, request: RadoRequest) -> None:
        super().__init__(request)
        bound = request.rows.pipeline.norm_bound
        self.step = lattice_step(bound)
        if request.size * bound / self.step >= LARGEST_SUM / 4:
            raise ParameterError("There are too many rows for exact sums. Release them in parts.")

    def _promise(self, noise: Noise, unit: Unit, of: tuple[str, ...] = ()) -> Guarantee:
        return noise_guarantee(
            unit, noise.event, self.request.delta, origin=self.request.rows.origin, of=of
        )


class _Shared(_OnLattice):
    """One noise vector, shared by all rados: protects each label.

    With u_si = [sigma_si = +1], a rado is sum_i u_si x_i - sum_(y_i = -1) x_i. Labels are in the
    second sum only, the same for all rados, and one label moves it by its row.
    """

    mechanism = "shared"

    def __init__(self, request: RadoRequest) -> None:
        super().__init__(request)
        self._noise = label_noise(
            label_sensitivity(request.rows.pipeline, self.step), *request.epsilon_delta
        )

    @cached_property
    def promises(self) -> tuple[Guarantee, ...]:
        return (self._promise(self._noise, Unit.LABEL),)

    def begin(self) -> State:
        return (*super().begin(), WeightedSums(self.request.coordinates, 1, self.step))

    def add_rows(self, state: State, rows: np.ndarray, labels: np.ndarray) -> None:
        subsets, negative = state
        subsets.update(rows, np.ones_like(labels))
        negative.update((list(rows), (labels < 0).astype(np.float64)[None, :]))

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        subsets, negative = state
        noisy = self._noise.add(negative.result())
        rados = (subsets.result() - noisy) * self.step
        return rados, Covariance("identity", self._noise.variance * self.step**2)


class _Matrix(_OnLattice):
    """Independent Gaussian noise on the whole matrix of rados: protects each record."""

    mechanism = "matrix"

    def __init__(self, request: RadoRequest) -> None:
        super().__init__(request)
        most = most_memberships(request.count, request.signs)
        reach = record_sensitivity(request.rows.pipeline, self.step, most, request.count)
        self._noise = GaussianNoise.calibrated(reach, *request.epsilon_delta)

    @cached_property
    def promises(self) -> tuple[Guarantee, ...]:
        return (self._promise(self._noise, Unit.RECORD),)

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        noisy = self._noise.add(state[0].result())
        return noisy * self.step, Covariance("identity", self._noise.variance * self.step**2)


class _Attributes(_OnLattice):
    """Independent Gaussian noise on the coordinates of the named columns: protects their values."""

    mechanism = "matrix"

    def __init__(self, request: RadoRequest) -> None:
        super().__init__(request)
        self._noises = {name: self._noise_of(name) for name in request.attributes}

    def _noise_of(self, name: str) -> GaussianNoise:
        request, coordinates = self.request, len(self.request.rows.positions(name))
        most = most_memberships(request.count, request.signs)
        reach = attribute_sensitivity(
            request.rows.reach(name), self.step, most, request.count, coordinates
        )
        return GaussianNoise.calibrated(reach, *request.epsilon_delta)

    @cached_property
    def promises(self) -> tuple[Guarantee, ...]:
        return tuple(
            self._promise(noise, Unit.ATTRIBUTE, (name,)) for name, noise in self._noises.items()
        )

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        rados, variances = state[0].result(), np.zeros(self.request.coordinates)
        for name, noise in self._noises.items():
            where = list(self.request.rows.positions(name))
            rados[:, where] = noise.add(np.ascontiguousarray(rados[:, where]))
            variances[where] = noise.variance
        return rados * self.step, Covariance("diagonal", self.step**2, variances)


class _Edges(_OnLattice):
    """Gaussian noise on every edge vector before anything is summed (Section 5.2).

    Protects each record with local noise: sensitivity 2 max ||x||, whatever the number of rados and
    their supports. What is summed afterwards is as good as public.
    """

    mechanism = "edges"
    draws_while_reading = True

    def __init__(self, request: RadoRequest) -> None:
        super().__init__(request)
        reach = record_sensitivity(request.rows.pipeline, self.step, 1, 1)
        self._noise = GaussianNoise.calibrated(reach, *request.epsilon_delta)

    @cached_property
    def promises(self) -> tuple[Guarantee, ...]:
        return (self._promise(self._noise, Unit.RECORD),)

    def begin(self) -> State:
        return (self.request.subsets(0.0),)  # sums of noisy numbers, which are as good as public

    def add_rows(self, state: State, rows: np.ndarray, labels: np.ndarray) -> None:
        for start in range(0, rows.shape[1], _EDGES_AT_ONCE):
            part = slice(start, start + _EDGES_AT_ONCE)
            edges = np.rint(rows[:, part] * labels[part] / self.step).astype(np.int64)
            # Every edge is a unit of its own, so the cost stays that of one (proofs/rados.md).
            alike = replace(self._noise.sensitivity, dimension=edges.size)
            noisy = replace(self._noise, sensitivity=alike).add(edges).astype(np.float64)
            state[0].update(noisy * self.step, np.ones(edges.shape[1]))

    def noisy(self, state: State) -> tuple[np.ndarray, Covariance]:
        support = self.request.size / 2 if self.request.support is None else self.request.support
        variance = support * self._noise.variance * self.step**2  # expected, of uniform signs
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


def procedure_for(request: RadoRequest) -> RadoProcedure:
    """Return the procedure of a request; raise where its parts cannot be combined."""
    check_request(request)
    if request.protect:
        return _Feature(request)
    if request.epsilon is None:
        return _Plain(request)
    if request.noise_on == "records":
        return _Edges(request)
    procedures: dict[Unit, Callable[[RadoRequest], RadoProcedure]] = {
        Unit.LABEL: _Shared,
        Unit.RECORD: _Matrix,
        Unit.ATTRIBUTE: _Attributes,
    }
    assert request.unit is not None  # noqa: S101  # for the type checker: checked above
    return procedures[request.unit](request)


_FINE, _DROWNED = 0.5, 2.0  # noise over spread: below, it hardly shows; above, nothing else does
_SHARED, _ON_SUMS, _ON_RECORDS = (
    "rados, shared noise",
    "rados, noise on the matrix",
    "rados, noise on records",
)
_WHERE = {
    _SHARED: "once, to all sums",
    _ON_SUMS: "to every sum",
    _ON_RECORDS: "to every record",
}  # how a table shows what JSON has codes for
_VERDICTS = {
    "fine": "useful",
    "noisy": "noisy",
    "mean only": "mean useful",
    "drowned": "too noisy",
}


def _plan_rados(rows: PrivateRows, size: int, count: int, epsilon: float, delta: float) -> Plan:
    """Return whether ``count`` rados of ``size`` such rows stay useful; reads none of them.

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

    def gaussian(memberships: int, number: int) -> float:
        reach = record_sensitivity(pipeline, step, memberships, number)
        return GaussianNoise.calibrated(reach, epsilon, delta).scale * step

    def on_sums(number: int) -> dict[str, Any]:
        noise = gaussian(most_memberships(number, "hadamard" if number > 1 else "iid"), number)
        return _row(_ON_SUMS, number, spread, noise, noise / math.sqrt(number))

    on_labels = label_noise(label_sensitivity(pipeline, step), epsilon, delta)
    shared = math.sqrt(on_labels.variance) * step
    edges = gaussian(1, 1) * math.sqrt(size / 2)
    label, record = _row(_SHARED, count, spread, shared, shared), on_sums(count)
    powers = (2**k for k in range(count.bit_length() - 1, 0, -1) if 2**k < count)
    survive = (row for row in map(on_sums, powers) if row["noise"] <= _DROWNED * spread)
    fewer = [*islice(survive, 1)] if record["noise"] > _DROWNED * spread else []
    table = [label, record, *fewer, _row(_ON_RECORDS, count, spread, edges, edges / math.sqrt(2))]
    width = len(pipeline.outputs) - (pipeline.intercept > 0)
    moments = calibrated_moments(width, 2, size, epsilon, delta)
    ratios = _over_moments(record, pipeline.bound, size, moments)
    advice = [*_advice(label, record, fewer), *_moments_advice(**ratios)]
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
        facts={"rows": size, "options": table, "noise_over_moments": ratios, "advice": advice},
        advice=advice,
    )


def _row(
    release: str, count: int, spread: float, noise: float, mean_noise: float
) -> dict[str, Any]:
    """Return a row of the plan: the noise on a rado and on the mean of all, beside its spread."""
    verdict = "mean only" if mean_noise <= _DROWNED * spread else "drowned"
    if noise <= _DROWNED * spread:
        verdict = "fine" if noise <= _FINE * spread else "noisy"
    return {
        "release": release,
        "unit": "label" if release == _SHARED else "record",
        "count": count,
        "noise": noise,
        "mean_noise": mean_noise,
        "spread": spread,
        "verdict": verdict,
    }


def _over_moments(
    record: Mapping[str, Any], bound: float, size: int, moments: MomentNoise
) -> dict[str, float]:
    """Return the noise of rados over that of moments, on products and on the mean operator.

    Noise of variance v on each of n rados of m rows is 4 v/m in the mean products of two columns.
    Once that is subtracted, an error of 4 v/(m sqrt(n)) remains; on the mean operator it is
    2 sqrt(v/n)/m.
    """
    deviations = {name: block.deviation / size for name, block in moments.blocks.items()}
    products = 4 * record["noise"] ** 2 / (size * math.sqrt(record["count"])) / bound**2
    operator = 2 * record["mean_noise"] / size / bound
    return {
        "products": products / deviations.get("products", deviations["diagonal"]),
        "operator": operator / deviations["operator"],
    }


def _moments_advice(products: float, operator: float) -> list[str]:
    """Return when moments are the better release, if they are: records protected, two classes."""
    if min(products, operator) <= 1:
        return []
    smaller, together = (
        f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.2g} times"
        for ratio in (operator, products)
    )
    sentence = (
        "To protect records, release moments instead: their noise is"
        f" {smaller} smaller on the mean operator. On how columns vary together it is"
        f" {together} smaller. Only epsilon, delta and the numbers of rows, columns and"
        " sums decide this. See `suffice plan moments`."
    )
    return [sentence]


def _advice(
    label: Mapping[str, Any], record: Mapping[str, Any], fewer: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return what to do, in sentences."""
    spread = record["spread"]
    if record["noise"] <= _DROWNED * spread:
        return ["The noise is not much larger than what the sums vary by themselves."]
    useful = "Only the mean" if record["verdict"] == "mean only" else "Nothing"
    with_fewer = "".join(
        f" With --count {row['count']} it would be {row['noise'] / spread:.2g} times."
        for row in fewer
    )
    remedy = (
        "Raise --epsilon, or wait for more rows."
        if label["noise"] > _DROWNED * spread
        else "If only labels are private, use --unit label. If rows may be seen too, release the"
        " mean operator."
    )
    return [
        (
            f"Protecting records: the noise on each of {record['count']} sums is"
            f" {record['noise'] / spread:.2g} times what they vary by themselves.{with_fewer} On"
            f" their mean it is {record['mean_noise'] / spread:.2g} times. {useful} is useful for"
            " learning."
        ),
        (
            f"Protecting labels: the noise is {label['noise'] / spread:.2g} times what the sums"
            f" vary by. {remedy}"
        ),
    ]


_MOST_RADOS = 2**20  # beyond, a block of structured signs would not add exactly


@dataclass(frozen=True)
class _PrivateTable(Public):
    """A private table with its pipeline, and its number of rows, which is public."""

    rows: PrivateRows
    size: int
    classes: Classes
    source: Source

    def parts(self) -> Sequence[LabelledPart]:
        """Return the private rows with their labels, in parts."""
        return labelled_parts(self.rows.table, self.rows.roles, self.classes, self.source)


@dataclass(frozen=True)
class Rados(PrivateScaling, Mechanism[_PrivateTable]):
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

    count: int | None = data_option(
        None, "Number of sums (rados), for example 256. Default: half the rows, at most 1000."
    )
    signs: str = privacy_option(
        "auto",
        "Random signs: hadamard (structured, fast) or iid (independent). auto takes hadamard where"
        " it can.",
        choices=Signs,
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
        None, "What epsilon protects: label, record or attribute.", choices=RadoUnit, planned=False
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
        choices=NoisePlace,
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

    def public(self, source: Source) -> _PrivateTable:
        """Return the table, its pipeline and its number of rows; tells the owner of shared rows."""
        rows = self._private_rows(source)
        rows.tell_overlap()
        size = _row_count(rows) if source.y is None else len(source.y)
        return _PrivateTable(rows, size, self.declared_classes(), source)

    def choose(self, public: _PrivateTable) -> RadoProcedure:
        """Return the procedure with its noise, calibrated by what was declared."""
        return procedure_for(self.request(public.rows, public.size))

    def plan(self, source: Source, epsilons: Sequence[float] = ()) -> Plan:
        """Return whether rados stay useful after noise, from the number of rows and public tables.

        Raises
        ------
        ParameterError
            If scales would come from private rows, or if there is not exactly one epsilon.
        """
        if isinstance(self.standardize, str) and self.standardize == "rows":
            raise ParameterError(
                "A plan reads no private row. Declare --range or --bound, or give a public table"
                " with --standardize FILE."
            )
        if len(epsilons) > 1 or self.epsilon is None:
            raise ParameterError("A plan of rados is for one epsilon. Use --epsilon once.")
        rows = self.read_private(source, promised=True, protect=(), boxed=False)
        size = _row_count(rows)
        count = default_count(size) if self.count is None else self.count
        return _plan_rados(rows, size, count, self.epsilon, self.delta or 1e-6)

    def private_rows(
        self,
        data: Any,
        label: str | None = None,
        features: Sequence[str] | None = None,
    ) -> PrivateRows:
        """Return the private table with its pipeline; reads it only with standardize="rows"."""
        return self._private_rows(Source(data, label=label, features=features))

    def _private_rows(self, source: Source) -> PrivateRows:
        return self.read_private(
            source,
            promised=self.epsilon is not None or bool(self.protect),
            protect=tuple(self.protect or ()),
            boxed=bool(self.attributes),
        )

    def request(self, rows: PrivateRows, size: int) -> RadoRequest:
        """Return the request, about ``size`` rows."""
        count = default_count(size) if self.count is None else _whole("count", self.count)
        if not 1 <= count <= _MOST_RADOS:
            raise ParameterError(f"--count must lie between 1 and {_MOST_RADOS}; got {count}.")
        free = self.support is None and not self.protect and count > 1
        signs = ("hadamard" if free else "iid") if self.signs == "auto" else self.signs
        return RadoRequest(
            rows=rows,
            size=size,
            count=count,
            signs=str(signs),
            classes=self.declared_classes(),
            support=None if self.support is None else _whole("support", self.support),
            protect=tuple(self.protect or ()),
            truncate=self.truncate,
            attributes=tuple(self.attributes or ()),
            epsilon=self.epsilon,
            delta=self.delta,
            unit=None if self.unit is None else Unit(self.unit),
            noise_on=self.noise_on,
        )


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


def _row_count(rows: PrivateRows) -> int:
    """Return how many rows there are: a number that every guarantee takes as public."""
    return row_count(rows.table, rows.roles.label or rows.roles.features[0])


def _whole(name: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise ParameterError(f"--{name} must be an integer; got {value!r}.") from None
