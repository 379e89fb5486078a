"""The secret signs of rados: which examples are in which sum. As secret as the data, never stored.

Every rado is the sum of the edges y_i x_i over a random subset of the examples (Nock, Patrini &
Friedman 2015, Definition 1: those with sigma_i = y_i). A uniform sigma is a uniform subset,
whatever the labels are. Signs are drawn batch by batch from the operating system's randomness.
"""

import numpy as np

from suffice.engines.rados import HadamardSums, SubsetSums
from suffice.kernels import rados as kernel
from suffice.privacy.randomness import private_words

__all__ = ["ChosenSubsets", "FreeSubsets", "HadamardSubsets", "Subsets", "binomials"]

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
