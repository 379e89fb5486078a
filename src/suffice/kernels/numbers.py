"""Which cells of bytes are numbers, read byte by byte."""

import numba
import numpy as np

__all__ = ["find_numbers"]

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
