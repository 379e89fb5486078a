"""Exact sums: of numbers and their squares, of weighted rows on a lattice, of hashes of rows.

No order, split or batch changes a bit. For numbers and their squares a block of `_BLOCK` numbers is
cut into integers: with 2^E above all of them in size,

    x = 2^(E - 26) (k1 + 2^-27 k2 + 2^-54 k3),   |k| <= 2^26,

which is exact unless a number is below 2^(E - 28). Sums of k and of products are integers, and
they join one long fixed-point number per column, in words of 32 bits. A block that cannot be cut
so is added exponent by exponent (R. Neal 2015, "Fast exact summation using small and large
superaccumulators"): slower, and to the same bits.

The fingerprint of rows in any order, per row and lane: NH (Black et al. 1999, UMAC),
sum_j (low_j + k_j)(high_j + k'_j) over the 32-bit halves of each value, with public constants; then
the splitmix64 finaliser; then a sum mod 2^64. Two lanes make 128 bits. It notices accidents; it
does not stop somebody who crafts rows on purpose.

A state machine says which texts are numbers.
"""

import numpy as np

from suffice.kernels.compiled import kernel

_OTHER, _BLANK, _SIGN, _DIGIT, _MARK, _EXPONENT = range(6)  # sorts of bytes
_LEAD, _SIGNED, _WHOLE, _MARKED, _DECIMALS, _LETTER, _POWER_SIGN, _POWER, _TRAIL, _NONE = range(10)
_NEXT = np.full((10, 6), _NONE, dtype=np.uint8)  # by what was read so far, and the next byte
_NEXT[_LEAD, [_BLANK, _SIGN, _DIGIT, _MARK]] = _LEAD, _SIGNED, _WHOLE, _MARKED
_NEXT[_SIGNED, [_DIGIT, _MARK]] = _WHOLE, _MARKED
_NEXT[_WHOLE, [_DIGIT, _MARK, _EXPONENT, _BLANK]] = _WHOLE, _DECIMALS, _LETTER, _TRAIL
_NEXT[_MARKED, _DIGIT] = _DECIMALS
_NEXT[_DECIMALS, [_DIGIT, _EXPONENT, _BLANK]] = _DECIMALS, _LETTER, _TRAIL
_NEXT[_LETTER, [_SIGN, _DIGIT]] = _POWER_SIGN, _POWER
_NEXT[_POWER_SIGN, _DIGIT] = _POWER
_NEXT[_POWER, [_DIGIT, _BLANK]] = _POWER, _TRAIL
_NEXT[_TRAIL, _BLANK] = _TRAIL
_COMPLETE = np.isin(np.arange(10), [_WHOLE, _DECIMALS, _POWER, _TRAIL])
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


@kernel()
def _walk(cells, offsets, sorts, following, complete):
    """Say of each cell whether its bytes lead from the first state to a complete one."""
    out = np.empty(offsets.size - 1, dtype=np.bool_)
    for i in range(out.size):
        state = np.uint8(0)
        for k in range(offsets[i], offsets[i + 1]):
            state = following[state, sorts[cells[k]]]
        out[i] = complete[state]
    return out


_HASHED_ROWS = 1024  # at once
_LOW = np.uint64(0xFFFFFFFF)
_HALF_BITS = np.uint64(32)
_NAN = np.uint64(0x7FF8000000000000)


@kernel()
def add_numbers(columns, keys, lanes):
    """Add the NH terms of numbers to both lanes; every NaN is one value, and so are 0 and -0.

    ``keys`` (width, 4) holds four 32-bit constants per column; ``lanes`` has shape (2, rows).
    """
    width, rows = columns.shape
    for start in range(0, rows, _HASHED_ROWS):  # so that their lanes stay in the cache
        end = min(start + _HASHED_ROWS, rows)
        first_lane, second_lane = lanes[0, start:end], lanes[1, start:end]
        for j in range(width):
            column = columns[j, start:end]
            a, b, c, d = keys[j, 0], keys[j, 1], keys[j, 2], keys[j, 3]
            for i in range(column.size):
                bits = np.float64(column[i] + 0.0).view(np.uint64)
                word = bits if column[i] == column[i] else _NAN
                low = word & _LOW
                high = word >> _HALF_BITS
                first_lane[i] += ((low + a) & _LOW) * ((high + b) & _LOW)
                second_lane[i] += ((low + c) & _LOW) * ((high + d) & _LOW)


@kernel()
def add_words(words, key, lanes):
    """Add the NH terms of one column of 64-bit words to both lanes."""
    for i in range(words.size):
        low = words[i] & _LOW
        high = words[i] >> _HALF_BITS
        lanes[0, i] += ((low + key[0]) & _LOW) * ((high + key[1]) & _LOW)
        lanes[1, i] += ((low + key[2]) & _LOW) * ((high + key[3]) & _LOW)


@kernel()
def fold_lanes(lanes, sums):
    """Mix the lanes of each row and add them to ``sums`` modulo 2^64."""
    for i in range(lanes.shape[1]):
        second = _mix(lanes[1, i] ^ _mix(lanes[0, i]))
        sums[0] += second
        sums[1] += _mix(second ^ lanes[0, i])


@kernel()
def row_keys(lanes, keys):
    """Write one word per row, by which rows can be told apart and put into an order of chance."""
    for i in range(lanes.shape[1]):
        keys[i] = _mix(lanes[1, i] ^ _mix(lanes[0, i]))


@kernel(inline="always")
def _mix(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


_BLOCK = 512  # products of halves are below 2^54: so many of them stay below 2^63
_EXPONENTS = 2048
_LARGEST_EXPONENT = 1023 + 510  # beyond, a square may leave the floats
_LEAST_EXPONENT = 128  # below, a block cannot be scaled to integers
_FRACTION = np.int64((1 << 52) - 1)
_SIZE = np.int64((1 << 63) - 1)
_INFINITY = np.int64(0x7FF << 52)
_WORD = np.int64(0xFFFFFFFF)
_HALF = np.int64((1 << 27) - 1)
_MAGIC = 1.5 * 2.0**52  # x + _MAGIC has rint(x) in its last bits
_MAGIC_BITS = np.float64(_MAGIC).view(np.int64)
# Bit 0 of a sum is worth 2^-1074 (the smallest float), bit 0 of a sum of squares 2^-2148. Numbers
# stay below 2^511, squares below 2^1022; 64 bits more hold the sum of any number of rows.
SUM_WORDS = (1074 + 512 + 64) // 32 + 3
SQUARE_WORDS = (2148 + 1024 + 64) // 32 + 3


@kernel()
def add_moments(columns, counts, sums, squares, wrong):
    """Add count, sum and sum of squares of each column (width, rows); a NaN is missing.

    ``sums`` (width, SUM_WORDS) and ``squares`` (width, SQUARE_WORDS) hold 32 bits a word, the last
    one signed. ``wrong`` (width,) counts values that are infinite or too large to be squared.
    """
    width, rows = columns.shape
    bins = np.zeros((_EXPONENTS, 4), dtype=np.int64)
    values = np.empty(_BLOCK)
    for j in range(width):
        for start in range(0, rows, _BLOCK):
            size = min(_BLOCK, rows - start)
            largest, missing = _copy_block(columns[j, start : start + size], values)
            counts[j] += size - missing
            exponent = largest >> 52
            cut = _LEAST_EXPONENT <= exponent <= _LARGEST_EXPONENT
            if not cut or not _add_cut(values[:size], exponent, sums[j], squares[j]):
                wrong[j] += _add_by_exponent(values[:size], bins, sums[j], squares[j])
        _carry(sums[j])
        _carry(squares[j])


@kernel()
def _copy_block(column, values):
    """Copy numbers, missing ones as zero; return the bits of the largest, and how many miss."""
    largest, missing = np.int64(0), np.int64(0)
    for i in range(column.size):
        value = np.float64(column[i])
        size = value.view(np.int64) & _SIZE
        present = size <= _INFINITY
        values[i] = value if present else 0.0
        largest = max(largest, size if present else np.int64(0))
        missing += np.int64(0) if present else np.int64(1)
    return largest, missing


@kernel()
def _add_cut(values, exponent, total, square):
    """Add numbers below 2^(exponent - 1022) in size, cut into integers; say whether it is exact."""
    scale = np.int64((1023 + 26 - (exponent - 1022)) << 52).view(np.float64)  # 2^(26 - E)
    sum1, sum2, sum3 = np.int64(0), np.int64(0), np.int64(0)
    sum11, sum12, sum13 = np.int64(0), np.int64(0), np.int64(0)
    sum22, sum23, sum33 = np.int64(0), np.int64(0), np.int64(0)
    lost = np.int64(0)
    for i in range(values.size):
        first = values[i] * scale
        shifted = np.float64(first + _MAGIC)
        k1 = np.int64(np.int32(shifted.view(np.int64) - _MAGIC_BITS))
        second = (first - (shifted - _MAGIC)) * 2.0**27
        shifted = np.float64(second + _MAGIC)
        k2 = np.int64(np.int32(shifted.view(np.int64) - _MAGIC_BITS))
        third = (second - (shifted - _MAGIC)) * 2.0**27
        shifted = np.float64(third + _MAGIC)
        k3 = np.int64(np.int32(shifted.view(np.int64) - _MAGIC_BITS))
        lost |= np.float64(third - (shifted - _MAGIC)).view(np.int64) & _SIZE
        # A product below the smallest float is zero, and leaves no rest to see.
        lost |= np.int64((first == 0.0) != (values[i] == 0.0))
        sum1 += k1
        sum2 += k2
        sum3 += k3
        sum11 += k1 * k1
        sum12 += k1 * k2
        sum13 += k1 * k3
        sum22 += k2 * k2
        sum23 += k2 * k3
        sum33 += k3 * k3
    if lost:
        return False
    unit = exponent - 1022 - 26 - 54 + 1074  # the bit that k3 counts from
    _add_at(total, unit + 54, sum1)
    _add_at(total, unit + 27, sum2)
    _add_at(total, unit, sum3)
    _add_at(square, 2 * unit + 108, sum11)
    _add_at(square, 2 * unit + 82, sum12)
    _add_at(square, 2 * unit + 55, sum13)
    _add_at(square, 2 * unit + 54, sum22)
    _add_at(square, 2 * unit + 28, sum23)
    _add_at(square, 2 * unit, sum33)
    return True


@kernel()
def _add_by_exponent(values, bins, total, square):
    """Add any numbers, exactly; return how many are infinite or too large, which are left out."""
    low, high, bad = np.int64(_EXPONENTS), np.int64(-1), 0
    for i in range(values.size):
        bits = np.float64(values[i]).view(np.int64)
        exponent = (bits & _SIZE) >> 52
        mantissa = bits & _FRACTION
        if exponent > _LARGEST_EXPONENT:
            bad += 1
            continue
        if exponent > 0:
            mantissa |= np.int64(1 << 52)
        else:
            exponent = np.int64(1)  # zero or subnormal: no hidden bit, the unit of exponent 1
        if mantissa == 0:
            continue
        upper, lower = mantissa >> 27, mantissa & _HALF
        sign = bits >> 63  # 0 or -1
        sums = bins[exponent]
        sums[0] += (mantissa ^ sign) - sign
        sums[1] += upper * upper
        sums[2] += upper * lower
        sums[3] += lower * lower
        low = min(low, exponent)
        high = max(high, exponent)
    for exponent in range(low, high + 1):
        sums, first = bins[exponent], exponent - 1  # the bit that a mantissa begins at
        _add_at(total, first, sums[0])
        _add_at(square, 2 * first + 54, sums[1])
        _add_at(square, 2 * first + 28, sums[2])
        _add_at(square, 2 * first, sums[3])
        sums[:] = 0
    return bad


@kernel()
def _add_at(words, bit, value):
    """Add value 2^bit to a number in words of 32 bits; carries stay where they are."""
    if value == 0:
        return
    index, shift = bit >> 5, bit & 31
    lower = (value & _WORD) << shift  # below 2^63
    upper = (value >> 32) << shift  # of value's sign, below 2^62 in size
    words[index] += lower & _WORD
    words[index + 1] += (lower >> 32) + (upper & _WORD)
    words[index + 2] += upper >> 32


@kernel()
def _carry(words):
    """Bring every word but the last into 0..2^32 - 1; the last one carries the sign."""
    for k in range(words.size - 1):
        words[k + 1] += words[k] >> 32
        words[k] &= _WORD


_ROWS_AT_ONCE = 1024


@kernel()
def sums_of_column(column, weights, inverse_step, totals):
    """Add sum_i w_ri rint(x_i / step) to ``totals`` (r,), for one feature as it is."""
    for start in range(0, column.size, _ROWS_AT_ONCE):
        end = min(start + _ROWS_AT_ONCE, column.size)
        values = column[start:end]
        for r in range(weights.shape[0]):
            weight = weights[r, start:end]
            total = 0.0
            for i in range(end - start):
                total += weight[i] * np.rint(values[i] * inverse_step)
            totals[r] += np.int64(total)


@kernel()
def sums_of_rows(rows, weights, inverse_step, totals):
    """Do what `sums_of_column` does for C-ordered rows in memory (rows, width)."""
    count, width = rows.shape
    partial = np.empty(width)
    for r in range(weights.shape[0]):
        weight = weights[r]
        for start in range(0, count, _ROWS_AT_ONCE):
            partial[:] = 0.0
            for i in range(start, min(start + _ROWS_AT_ONCE, count)):
                row = rows[i]
                w = weight[i]
                for j in range(width):
                    partial[j] += w * np.rint(row[j] * inverse_step)
            for j in range(width):
                totals[r, j] += np.int64(partial[j])


_TILE = 256
LARGEST_NUMBER = 1e150  # of a standardised number: squares of it neither overflow nor lose a row


@kernel()
def code_columns(columns, affine, inner, most, out):
    """Write the integer codes of columns (width, rows) into ``out``, as floats.

    Rows as integer vectors of bounded length: standardised, filled, clipped and rounded in one
    pass. Floats are added in one order, so that a row has the same codes in any batch.

    ``affine`` is (mean, 1/scale, bound, filled): a row becomes clip((x - mean) / scale, bound), in
    which a number that is not finite counts as ``filled`` of its column. Codes are
    rint(row inner / bound). A row of codes longer than ``most`` is shortened.
    """
    mean, inverse_scale, bound, filled = affine
    width, rows = columns.shape
    norms = np.empty(_TILE)
    lengths = np.empty(_TILE)
    for start in range(0, rows, _TILE):
        end = min(start + _TILE, rows)
        size = end - start
        norms[:size] = 0.0
        for j in range(width):
            source, target = columns[j, start:end], out[j, start:end]
            origin, factor, instead = mean[j], inverse_scale[j], filled[j]
            for i in range(size):
                v = (source[i] - origin) * factor
                v = v if abs(v) <= LARGEST_NUMBER else instead
                target[i] = v
                norms[i] += v * v
        for i in range(size):
            norm = np.sqrt(norms[i])
            norms[i] = inner / norm if norm > bound else inner / bound
        lengths[:size] = 0.0
        for j in range(width):
            target = out[j, start:end]
            for i in range(size):
                code = np.rint(target[i] * norms[i])
                target[i] = code
                lengths[i] += code * code
        for i in range(size):
            if lengths[i] > most * most:
                _shorten(out, start + i, most)


@kernel()
def _shorten(out, row, most):
    """Shorten one row of codes to ``most``; its squares are added as integers."""
    total = np.int64(0)
    for j in range(out.shape[0]):
        code = np.int64(out[j, row])
        total += code * code
    factor = most / np.sqrt(np.float64(total)) * (1 - 1e-9)
    for j in range(out.shape[0]):
        out[j, row] = np.trunc(out[j, row] * factor) if factor < 1.0 else out[j, row]
