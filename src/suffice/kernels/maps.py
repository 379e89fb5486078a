"""Map rows: the affine end of the pipeline with exact sums, and feature maps.

Affine end: floats are added in one order, whatever machine this runs on: no sum is reordered and no
product is fused with a sum, so that a row has the same coordinates, to the last bit, in any batch.

Feature maps: every coordinate is a sum in the order of the columns, each term added by an operation
that rounds once on any machine (fma), and then a polynomial. Nothing is left to the compiler's
choice, so a row has the same coordinates, to the last bit, in any batch, at any place and on any
machine. The matrix product of a library promises none of it, nor do its cosine and exponential.
"""

import math

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from suffice.kernels.compiled import kernel

SUM_TILE = 256  # rows at once of an exact sum
LARGEST_CODE = 2**31  # times SUM_TILE rows, and weights up to 2^10: far below 2^53


@kernel()
def _map_tile(columns, start, end, mean, inverse_scale, bound, tile, factors):
    """Write clip((x - mean) / scale, bound) of rows start..end into ``tile`` (width, TILE).

    A row whose 2-norm exceeds ``bound`` is shrunk to it. Returns how many rows are not finite.
    """
    size = end - start
    factors[:size] = 0.0
    for j in range(columns.shape[0]):
        source, target = columns[j, start:end], tile[j]
        origin, factor = mean[j], inverse_scale[j]
        for i in range(size):
            v = (source[i] - origin) * factor
            target[i] = v
            factors[i] += v * v
    bad = 0
    for i in range(size):
        norm = np.sqrt(factors[i])
        bad += 0 if norm < np.inf else 1
        factors[i] = bound / norm if norm > bound else 1.0
    for j in range(columns.shape[0]):
        target = tile[j]
        for i in range(size):
            target[i] *= factors[i]
    return bad


@kernel()
def map_columns(columns, mean, inverse_scale, bound, out):
    """Write the mapped columns into ``out`` (width, rows); return how many rows are not finite."""
    width, rows = columns.shape
    tile = np.empty((width, SUM_TILE))
    factors = np.empty(SUM_TILE)
    bad = 0
    for start in range(0, rows, SUM_TILE):
        end = min(start + SUM_TILE, rows)
        bad += _map_tile(columns, start, end, mean, inverse_scale, bound, tile, factors)
        for j in range(width):
            out[j, start:end] = tile[j, : end - start]
    return bad


@kernel()
def map_rows(rows, mean, inverse_scale, bound, out):
    """Write mapped rows (rows, width) into ``out``, to the last bit as `map_columns` maps columns.

    Return how many rows are not finite.
    """
    count, width = rows.shape
    factors = np.empty(count)
    for i in range(count):
        source, target = rows[i], out[i]
        square = 0.0
        for j in range(width):
            v = (source[j] - mean[j]) * inverse_scale[j]
            target[j] = v
            square += v * v
        factors[i] = square
    bad = 0
    for i in range(count):
        norm = np.sqrt(factors[i])
        bad += 0 if norm < np.inf else 1
        factors[i] = bound / max(norm, bound)  # no branch: which rows are long is hard to foresee
    for i in range(count):
        target, factor = out[i], factors[i]
        for j in range(width):
            target[j] *= factor
    return bad


@kernel()
def _add_tile(tile, size, weights, inverse_step, totals, products):
    """Put a tile on the lattice, in place, and add its weighted sums to ``totals`` (r, width).

    All are integers far below 2^53, so that halves can be added to halves: exact, and vectorised.
    """
    for j in range(tile.shape[0]):
        codes = tile[j]
        for i in range(size):
            codes[i] = np.rint(codes[i] * inverse_step)
        for r in range(weights.shape[0]):
            weight = weights[r]
            for i in range(size):
                products[i] = weight[i] * codes[i]
            products[size:] = 0.0
            half = SUM_TILE // 2
            while half:
                for i in range(half):
                    products[i] += products[half + i]
                half //= 2
            totals[r, j] += np.int64(products[0])


@kernel()
def _raise_reach(tile, size, constant, ones, twos, reach):
    """Raise ``reach`` to the largest 1-norm and squared 2-norm of the tile's rows, in steps.

    Each row has one more coordinate, ``constant``.
    """
    ones[:size] = abs(constant)
    twos[:size] = constant * constant
    for j in range(tile.shape[0]):
        codes = tile[j]
        for i in range(size):
            ones[i] += abs(codes[i])
            twos[i] += codes[i] * codes[i]
    for i in range(size):
        reach[0] = max(reach[0], ones[i])
        reach[1] = max(reach[1], twos[i])


@kernel()
def mapped_sums(columns, weights, affine, constant, inverse_step, totals, reach):
    """Map, put on the lattice and sum rows in one pass; return 0, or the bad rows of a bad tile.

    ``affine`` is (mean, 1/scale, bound); ``weights`` (r, rows) holds integers; ``totals``
    (r, width) gains sum_i w_ri rint(x_i / step); ``reach`` rises to the largest row norms.
    """
    mean, inverse_scale, bound = affine
    width, rows = columns.shape
    tile = np.empty((width, SUM_TILE))
    factors, ones, twos = np.empty(SUM_TILE), np.empty(SUM_TILE), np.empty(SUM_TILE)
    local, products = np.empty((weights.shape[0], SUM_TILE)), np.empty(SUM_TILE)
    bad = 0
    for start in range(0, rows, SUM_TILE):
        end = min(start + SUM_TILE, rows)
        size = end - start
        local[:, :size] = weights[:, start:end]
        bad += _map_tile(columns, start, end, mean, inverse_scale, bound, tile, factors)
        if bad:
            return bad
        _add_tile(tile, size, local, inverse_step, totals, products)
        _raise_reach(tile, size, constant, ones, twos, reach)
    return 0


TILE = 128  # rows at once: what a product reads again and again stays in the cache
_1, _2, _3 = (np.uint64(n) for n in (1, 2, 3))
_T = np.uint64(TILE)
_MAGIC = 1.5 * 2.0**52  # x + _MAGIC has rint(x) in its last bits
_MAGIC_BITS = np.float64(_MAGIC).view(np.int64)
_LARGEST_ANGLE = 2.0**30  # a larger one counts as this one: it has no digits left in any case
_LARGEST_POWER = 700.0  # exp(-700) is as good as zero, and its exponent still fits
# pi and ln 2 in parts: those before the last have 22 or 32 bits, and exact products with rint(x).
_PI_1 = float.fromhex("0x1.921fb8p+1")
_PI_2 = float.fromhex("-0x1.5dde98p-22")
_PI_3 = float.fromhex("0x1.8469898cc5170p-47")
_LN2_1 = float.fromhex("0x1.62e42ffp-1")
_LN2_2 = float.fromhex("-0x1.718432a1b0e26p-35")
_PER_PI = 1.0 / math.pi
_PER_LN2 = 1.0 / math.log(2.0)
_COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(11, -1, -1))
_EXPONENTIAL = tuple(1.0 / math.factorial(k) for k in range(13, -1, -1))


@intrinsic
def _fma(_typing, a, b, c):
    """Return a * b + c, rounded once: an instruction where there is one, else a call."""
    if (a, b, c) != (types.float64, types.float64, types.float64):
        return None
    return types.float64(a, b, c), lambda _context, builder, _signature, args: builder.fma(*args)


@kernel()
def linear(matrix, columns, out):
    """Write the products of ``matrix`` (outputs, width) and columns (width, rows)."""
    padded, offset = _pad_to_fours(matrix), np.zeros(matrix.shape[0] + 3)
    packed, sums = np.zeros(padded.shape[1] * TILE), np.empty(4 * TILE)
    for start in range(0, columns.shape[1], TILE):
        size = _pack(columns, start, packed)
        _multiply(padded, packed, offset, sums, out[:, start : start + size])


@kernel()
def fourier(frequencies, phases, columns, out):
    """Write sqrt(2 / outputs) cos(<f, x> + phase), an output for each frequency f and phase."""
    outputs = frequencies.shape[0]
    padded, offset = _pad_to_fours(frequencies), np.zeros(outputs + 3)
    offset[:outputs] = phases
    packed, sums = np.zeros(padded.shape[1] * TILE), np.empty(4 * TILE)
    factor = np.sqrt(2.0 / outputs)
    for start in range(0, columns.shape[1], TILE):
        size = _pack(columns, start, packed)
        target = out[:, start : start + size]
        _multiply(padded, packed, offset, sums, target)
        for k in range(outputs):
            _cosines(target[k], factor)


@kernel()
def nystroem(landmarks, whitening, gamma, columns, out):
    """Write whitening @ exp(-gamma ||l - x||^2), l the ``landmarks`` (width, count)."""
    width, count = landmarks.shape
    padded, offset = _pad_to_fours(whitening), np.zeros(whitening.shape[0] + 3)
    packed, sums = np.zeros(width * TILE), np.empty(4 * TILE)
    near = np.zeros(padded.shape[1] * TILE)
    for start in range(0, columns.shape[1], TILE):
        size = _pack(columns, start, packed)
        for k in range(count):
            target = near[k * TILE : (k + 1) * TILE]
            target[:] = 0.0
            for j in range(width):
                landmark, column = landmarks[j, k], packed[j * TILE : (j + 1) * TILE]
                for i in range(TILE):
                    distance = column[i] - landmark
                    target[i] = _fma(distance, distance, target[i])
            _falling(target, gamma)
        _multiply(padded, near, offset, sums, out[:, start : start + size])


@kernel()
def products(columns, parents, factors, out):
    """Write out[k] = out[parents[k]] * columns[factors[k]]; a parent of -1 stands for one."""
    for k in range(parents.size):
        column = columns[factors[k]]
        if parents[k] < 0:
            for i in range(column.size):
                out[k, i] = column[i]
        else:
            parent = out[parents[k]]
            for i in range(column.size):
                out[k, i] = parent[i] * column[i]


@kernel()
def row_sums(columns):
    """Return the 1-norm of each row of columns (width, rows)."""
    sums = np.zeros(columns.shape[1])
    for j in range(columns.shape[0]):
        column = columns[j]
        for i in range(column.size):
            sums[i] += abs(column[i])
    return sums


@kernel()
def row_norms(columns):
    """Return the 2-norm of each row of columns (width, rows)."""
    squares = np.zeros(columns.shape[1])
    for j in range(columns.shape[0]):
        column = columns[j]
        for i in range(column.size):
            squares[i] += column[i] * column[i]
    return np.sqrt(squares)


@kernel()
def _pad_to_fours(matrix):
    """Return the matrix with zeros below and beside, so that four of everything can be taken."""
    height, width = matrix.shape
    padded = np.zeros((height + -height % 4, width + -width % 4))
    padded[:height, :width] = matrix
    return padded


@kernel()
def _pack(columns, start, packed):
    """Copy up to TILE rows of columns into ``packed``, TILE numbers a column; return how many."""
    size = min(TILE, columns.shape[1] - start)
    for j in range(columns.shape[0]):
        target, column = packed[j * TILE : (j + 1) * TILE], columns[j, start : start + size]
        for i in range(size):
            target[i] = column[i]
    return size


@kernel()
def _multiply(matrix, packed, offset, sums, out):
    """Write offset + matrix @ packed to ``out`` (outputs, rows), summed column by column.

    Four outputs and four columns at once: fewer loads, and the same order of every sum. Indices
    are unsigned, so that no loop asks whether they are negative: only then is it vectorised.
    """
    outputs, rows = out.shape
    for k in range(0, outputs, 4):
        for r in range(4):
            sums[r * TILE : (r + 1) * TILE] = offset[k + r]
        for j in range(0, matrix.shape[1], 4):
            _add_sixteen(matrix, np.uint64(k), np.uint64(j), packed, sums)
        for r in range(min(4, outputs - k)):
            out[k + r] = sums[r * TILE : r * TILE + rows]


@kernel()
def _add_sixteen(matrix, k, j, packed, sums):
    """Add the products of outputs k..k + 3 and columns j..j + 3 to ``sums``."""
    k1, k2, k3, j1, j2, j3 = k + _1, k + _2, k + _3, j + _1, j + _2, j + _3
    a0, a1, a2, a3 = matrix[k, j], matrix[k, j1], matrix[k, j2], matrix[k, j3]
    b0, b1, b2, b3 = matrix[k1, j], matrix[k1, j1], matrix[k1, j2], matrix[k1, j3]
    c0, c1, c2, c3 = matrix[k2, j], matrix[k2, j1], matrix[k2, j2], matrix[k2, j3]
    d0, d1, d2, d3 = matrix[k3, j], matrix[k3, j1], matrix[k3, j2], matrix[k3, j3]
    for step in range(TILE):
        i = np.uint64(step)
        at = j * _T + i
        x0, x1, x2, x3 = packed[at], packed[at + _T], packed[at + _2 * _T], packed[at + _3 * _T]
        a, b, c, d = i, i + _T, i + _2 * _T, i + _3 * _T
        sums[a] = _fma(a3, x3, _fma(a2, x2, _fma(a1, x1, _fma(a0, x0, sums[a]))))
        sums[b] = _fma(b3, x3, _fma(b2, x2, _fma(b1, x1, _fma(b0, x0, sums[b]))))
        sums[c] = _fma(c3, x3, _fma(c2, x2, _fma(c1, x1, _fma(c0, x0, sums[c]))))
        sums[d] = _fma(d3, x3, _fma(d2, x2, _fma(d1, x1, _fma(d0, x0, sums[d]))))


@kernel()
def _cosines(angles, factor):
    """Replace angles by factor cos(angle): Cody and Waite's reduction, then Taylor's series."""
    for i in range(angles.size):
        angle = min(max(angles[i], -_LARGEST_ANGLE), _LARGEST_ANGLE)
        turns = np.rint(angle * _PER_PI)
        rest = ((angle - turns * _PI_1) - turns * _PI_2) - turns * _PI_3
        square = rest * rest
        value = 0.0
        for coefficient in _COSINE:
            value = _fma(value, square, coefficient)
        half = turns * 0.5
        sign = 1.0 - 4.0 * abs(half - np.rint(half))  # -1 where turns is odd
        angles[i] = factor * (sign * value)


@kernel()
def _falling(distances, gamma):
    """Replace squared distances d by exp(-gamma d)."""
    for i in range(distances.size):
        power = -min(gamma * distances[i], _LARGEST_POWER)
        doublings = np.rint(power * _PER_LN2)
        rest = (power - doublings * _LN2_1) - doublings * _LN2_2
        value = 0.0
        for coefficient in _EXPONENTIAL:
            value = _fma(value, rest, coefficient)
        shifted = np.float64(doublings + _MAGIC)
        exponent = (shifted.view(np.int64) - _MAGIC_BITS + np.int64(1023)) << np.int64(52)
        distances[i] = value * np.int64(exponent).view(np.float64)


# Taylor's terms for |a| <= 1: what is left out is below 1e-17.
_SIN = tuple((-1.0) ** k / np.prod(np.arange(1.0, 2 * k + 2)) for k in range(9))
_COS = tuple((-1.0) ** k / np.prod(np.arange(1.0, 2 * k + 1)) for k in range(10))


@kernel(fastmath={"contract"})
def add_fourier_sums(angles, cells, halvings, sums):
    """Add the cosines and sines of every row's angles to the sums of its cell.

    Bandwidths are a ladder, each half of the one before. Halving one doubles the angles of Fourier
    features and multiplies the exponents of a Gaussian (by four) or Laplace kernel (by two):
    cos 2a, sin 2a and k^2 cost a few products where a new cosine or exponential would cost a call.
    An error doubles with each step: ten steps lose three digits of sixteen.

    ``angles`` (rows, F) are those of the widest bandwidth; divided by 2^halvings they must lie in
    [-1, 1]. ``cells`` (rows,) is overwritten nowhere; ``sums`` (levels, cells, 2, F) holds level e
    for the bandwidth that is 2^e times narrower.
    """
    levels, _, _, width = sums.shape
    small = 0.5**halvings
    cosine, sine = np.empty(width), np.empty(width)
    for i in range(angles.shape[0]):
        for f in range(width):
            a = angles[i, f] * small
            square = a * a
            s, c = _SIN[8], _COS[9]
            for k in range(7, -1, -1):
                s = s * square + _SIN[k]
            for k in range(8, -1, -1):
                c = c * square + _COS[k]
            sine[f], cosine[f] = s * a, c
        for _ in range(halvings):
            _double(cosine, sine)
        for level in range(levels):
            if level:
                _double(cosine, sine)
            totals = sums[level, cells[i]]
            for f in range(width):
                totals[0, f] += cosine[f]
                totals[1, f] += sine[f]


@kernel(fastmath={"contract"})
def _double(cosine, sine):
    """Turn cos a and sin a into cos 2a and sin 2a; small sines keep their digits."""
    for f in range(cosine.size):
        s, c = sine[f], cosine[f]
        sine[f] = 2.0 * s * c
        cosine[f] = 1.0 - 2.0 * s * s


@kernel()
def add_kernel_sums(values, row_cells, starts, squarings, sums):
    """Add kernel values of a block of rows with all other rows to the sums of their cells.

    ``values`` (rows, n) are those of the widest bandwidth, and are overwritten. ``row_cells``
    (rows,) holds the cell of each row of the block; the n others stand in order of their cells,
    cell j from starts[j] to starts[j + 1]. A narrower bandwidth takes ``squarings`` squares.
    ``sums`` (levels, cells, cells).
    """
    levels = sums.shape[0]
    for i in range(values.shape[0]):
        row = values[i]
        for level in range(levels):
            totals = sums[level, row_cells[i]]
            for j in range(starts.size - 1):
                total = 0.0
                for k in range(starts[j], starts[j + 1]):
                    total += row[k]
                totals[j] += total
            if level + 1 < levels:
                for _ in range(squarings):
                    for k in range(row.size):
                        row[k] *= row[k]
