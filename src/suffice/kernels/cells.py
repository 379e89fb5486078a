"""Kernels over cells: which texts are numbers, and an order-free fingerprint of rows.

The fingerprint, per row and lane: NH (Black et al. 1999, UMAC), sum_j (low_j + k_j)(high_j + k'_j)
over the 32-bit halves of each value, with public constants; then the splitmix64 finaliser; then a
sum mod 2^64. Two lanes make 128 bits. It notices accidents; it does not stop somebody who crafts
rows on purpose.
"""

import numba
import numpy as np

_OTHER, _BLANK, _SIGN, _DIGIT, _MARK, _EXPONENT = range(6)  # sorts of bytes
_LEAD, _SIGNED, _WHOLE, _MARKED, _FRACTION, _LETTER, _POWER_SIGN, _POWER, _TRAIL, _NONE = range(10)
_NEXT = np.full((10, 6), _NONE, dtype=np.uint8)  # by what was read so far, and the next byte
_NEXT[_LEAD, [_BLANK, _SIGN, _DIGIT, _MARK]] = _LEAD, _SIGNED, _WHOLE, _MARKED
_NEXT[_SIGNED, [_DIGIT, _MARK]] = _WHOLE, _MARKED
_NEXT[_WHOLE, [_DIGIT, _MARK, _EXPONENT, _BLANK]] = _WHOLE, _FRACTION, _LETTER, _TRAIL
_NEXT[_MARKED, _DIGIT] = _FRACTION
_NEXT[_FRACTION, [_DIGIT, _EXPONENT, _BLANK]] = _FRACTION, _LETTER, _TRAIL
_NEXT[_LETTER, [_SIGN, _DIGIT]] = _POWER_SIGN, _POWER
_NEXT[_POWER_SIGN, _DIGIT] = _POWER
_NEXT[_POWER, [_DIGIT, _BLANK]] = _POWER, _TRAIL
_NEXT[_TRAIL, _BLANK] = _TRAIL
_COMPLETE = np.isin(np.arange(10), [_WHOLE, _FRACTION, _POWER, _TRAIL])
_SORTS = np.full(256, _OTHER, dtype=np.uint8)
_SORTS[list(b" \t\r\n")] = _BLANK
_SORTS[list(b"+-")] = _SIGN
_SORTS[list(b"0123456789")] = _DIGIT
_SORTS[list(b"eE")] = _EXPONENT


def find_numbers(cells: np.ndarray, offsets: np.ndarray, mark: str) -> np.ndarray:
    """Return for each cell whether it is a number such as -1.5e3, with blanks around it or none.

    Cell i is ``cells[offsets[i] : offsets[i + 1]]``; ``mark`` is the decimal mark.
    """
    sorts = _SORTS.copy()
    sorts[ord(mark)] = _MARK
    return _walk(cells, offsets, sorts, _NEXT, _COMPLETE)


@numba.njit(nogil=True, cache=True, boundscheck=False)
def _walk(cells, offsets, sorts, following, complete):
    """Say of each cell whether its bytes lead from the first state to a complete one."""
    out = np.empty(offsets.size - 1, dtype=np.bool_)
    for i in range(out.size):
        state = np.uint8(0)
        for k in range(offsets[i], offsets[i + 1]):
            state = following[state, sorts[cells[k]]]
        out[i] = complete[state]
    return out


_TILE = 1024
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_NAN = np.uint64(0x7FF8000000000000)


@numba.njit(nogil=True, cache=True, boundscheck=False)
def add_numbers(columns, keys, lanes):
    """Add the NH terms of numbers to both lanes; every NaN is one value, and so are 0 and -0.

    ``keys`` (width, 4) holds four 32-bit constants per column; ``lanes`` has shape (2, rows).
    """
    width, rows = columns.shape
    for start in range(0, rows, _TILE):  # so that their lanes stay in the cache
        end = min(start + _TILE, rows)
        first_lane, second_lane = lanes[0, start:end], lanes[1, start:end]
        for j in range(width):
            column = columns[j, start:end]
            a, b, c, d = keys[j, 0], keys[j, 1], keys[j, 2], keys[j, 3]
            for i in range(column.size):
                bits = np.float64(column[i] + 0.0).view(np.uint64)
                word = bits if column[i] == column[i] else _NAN
                low = word & _LOW
                high = word >> _HALF
                first_lane[i] += ((low + a) & _LOW) * ((high + b) & _LOW)
                second_lane[i] += ((low + c) & _LOW) * ((high + d) & _LOW)


@numba.njit(nogil=True, cache=True, boundscheck=False)
def add_words(words, key, lanes):
    """Add the NH terms of one column of 64-bit words to both lanes."""
    for i in range(words.size):
        low = words[i] & _LOW
        high = words[i] >> _HALF
        lanes[0, i] += ((low + key[0]) & _LOW) * ((high + key[1]) & _LOW)
        lanes[1, i] += ((low + key[2]) & _LOW) * ((high + key[3]) & _LOW)


@numba.njit(nogil=True, cache=True, boundscheck=False)
def fold_lanes(lanes, sums):
    """Mix the lanes of each row and add them to ``sums`` modulo 2^64."""
    for i in range(lanes.shape[1]):
        second = _mix(lanes[1, i] ^ _mix(lanes[0, i]))
        sums[0] += second
        sums[1] += _mix(second ^ lanes[0, i])


@numba.njit(nogil=True, cache=True, boundscheck=False)
def row_keys(lanes, keys):
    """Write one word per row, by which rows can be told apart and put into an order of chance."""
    for i in range(lanes.shape[1]):
        keys[i] = _mix(lanes[1, i] ^ _mix(lanes[0, i]))


@numba.njit(nogil=True, cache=True, inline="always")
def _mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
