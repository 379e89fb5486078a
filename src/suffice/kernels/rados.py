"""Sums of rows over many random subsets at once: structured signs, free bits, chosen supports.

Subset sums are integers where rows are integers: a float64 adds them exactly below 2^53, and the
caller moves ``sums`` to integers before that. Random words come from the caller; none is kept.
"""

import numpy as np

from suffice.kernels.compiled import kernel

_WIDTH = 32  # coordinates at once: two tables of 64 kB
_HALF = np.uint64(0xFFFFFFFF)


@kernel()
def shuffle(words, orders):
    """Write a uniform permutation into each row of ``orders`` (blocks, size); say if words lasted.

    Fisher-Yates; each place is a 32-bit word of ``words`` scaled to its range, and a word that
    would make one place likelier than another is thrown away (Lemire 2019, arXiv 1805.10941v4).
    """
    size = orders.shape[1]
    at = 0
    for b in range(orders.shape[0]):
        order = orders[b]
        for i in range(size):
            order[i] = i
        for i in range(size - 1, 0, -1):
            bound = np.uint64(i + 1)
            uneven = (_HALF - bound + np.uint64(1)) % bound  # 2^32 mod bound
            while True:
                if at == words.size:
                    return False
                product = np.uint64(words[at]) * bound
                at += 1
                if (product & _HALF) >= uneven:
                    break
            j = np.int64(product >> np.uint64(32))
            order[i], order[j] = order[j], order[i]
    return True


@kernel()
def _two_stages(source, target):
    """Write two stages of a Walsh-Hadamard transform, from quarters to fours side by side."""
    step = source.size // 4
    first, second = source[:step], source[step : 2 * step]
    third, fourth = source[2 * step : 3 * step], source[3 * step :]
    for i in range(step):
        p, q = first[i] + second[i], first[i] - second[i]
        r, s = third[i] + fourth[i], third[i] - fourth[i]
        target[4 * i], target[4 * i + 1] = p + r, q + s
        target[4 * i + 2], target[4 * i + 3] = p - r, q - s


@kernel()
def transform(tile, spare):
    """Return ``tile`` times the Sylvester Hadamard matrix of its size, a power of two.

    The result stands in ``tile`` or in ``spare``; both are used. Every stage has the same shape
    (Pease 1968), so that reading is contiguous and writing interleaved, whatever the stage.
    """
    remaining = tile.size
    while remaining >= 4:
        _two_stages(tile, spare)
        tile, spare = spare, tile
        remaining //= 4
    if remaining == 2:
        half = tile.size // 2
        lower, upper = tile[:half], tile[half:]
        for i in range(half):
            spare[2 * i], spare[2 * i + 1] = lower[i] + upper[i], lower[i] - upper[i]
        tile, spare = spare, tile
    return tile


@kernel()
def hadamard_sums(columns, first, weights, signs, orders, inverse_step, sums):
    """Add twice the subset sums of structured signs to ``sums`` (coordinates, subsets).

    Blocks are size - 1 rows each of ``columns`` (coordinates, rows), from row ``first`` on. Example
    c of a block has the signs D_c H[., c + 1], H the Sylvester Hadamard matrix and D = ``signs``;
    subset s is the block's row orders[block, s] and holds the examples whose sign is +1 there, each
    times its weight. ``inverse_step`` puts rows on a lattice; zero leaves them as they are.
    """
    size = orders.shape[1]
    tile, spare = np.empty(size), np.empty(size)
    coordinates, rows = columns.shape
    subsets = sums.shape[1]
    for block in range(orders.shape[0]):
        start = first + block * (size - 1)
        count = min(size - 1, rows - start)
        order = orders[block]
        weight, sign = weights[start : start + count], signs[start : start + count]
        for j in range(coordinates):
            column, target = columns[j, start : start + count], tile[1:]
            if inverse_step > 0.0:
                for i in range(count):
                    v = np.rint(column[i] * inverse_step) * weight[i]
                    spare[i], target[i] = v, v * sign[i]
            else:
                for i in range(count):
                    v = column[i] * weight[i]
                    spare[i], target[i] = v, v * sign[i]
            spare[count:] = 0.0
            half = size // 2
            while half:  # halves are added to halves: one order, and vectorised
                for i in range(half):
                    spare[i] += spare[half + i]
                half //= 2
            # Column 0 of H is all ones: sum plus signed sum is twice the subset.
            tile[0] = spare[0]
            tile[count + 1 :] = 0.0
            signed, totals = transform(tile, spare), sums[j]
            for s in range(subsets):
                totals[s] += signed[order[s]]


@kernel()
def _fill_table(columns, weights, first, start, inverse_step, table):
    """Write the 256 sums of rows start..start + 8, coordinates from ``first``, to a table."""
    coordinates, rows = columns.shape
    width = min(table.shape[1], coordinates - first)
    for k in range(8):
        i, half = start + k, 1 << k
        row = table[half]
        row[:] = 0.0
        if i < rows:
            for w in range(width):
                v = columns[first + w, i]
                row[w] = (np.rint(v * inverse_step) if inverse_step > 0.0 else v) * weights[i]
        for t in range(1, half):
            without, with_it = table[t], table[half + t]
            for w in range(width):
                with_it[w] = without[w] + row[w]


@kernel()
def subset_sums(columns, weights, bits, inverse_step, sums):
    """Add the weighted sum of each subset to ``sums`` (subsets, coordinates).

    Bit k of bits[g, s] says whether row 8 g + k of ``columns`` (coordinates, rows) is in subset s;
    the number of groups g is even. The 256 sums of eight rows are tabled once and each subset looks
    its own up: eight times fewer additions than row by row, and no matrix of signs.
    """
    coordinates = columns.shape[0]
    even, odd = np.zeros((256, _WIDTH)), np.zeros((256, _WIDTH))
    for first in range(0, coordinates, _WIDTH):
        width = min(_WIDTH, coordinates - first)
        for g in range(0, bits.shape[0], 2):
            _fill_table(columns, weights, first, 8 * g, inverse_step, even)
            _fill_table(columns, weights, first, 8 * g + 8, inverse_step, odd)
            even_bits, odd_bits = bits[g], bits[g + 1]
            for s in range(sums.shape[0]):
                totals = sums[s, first : first + width]
                a, b = even[even_bits[s]], odd[odd_bits[s]]
                for w in range(width):
                    totals[w] += a[w] + b[w]


@kernel()
def choose(words, needs, rows, count, bits):
    """Choose among the next ``count`` rows for subsets of fixed size; say if the words lasted.

    Subset s still needs needs[s] of the ``rows`` that remain, and takes the next one with
    probability needs[s] / rows (Knuth, algorithm S): all supports are equally likely. A word of 32
    bits decides, and where it cannot, the next one goes on with the remainder: no rounding.
    """
    at = 0
    for g in range(bits.shape[0]):
        group = bits[g]
        group[:] = 0
        for k in range(min(8, count - 8 * g)):
            rows_left = np.uint64(rows)
            for s in range(needs.size):
                needed = np.uint64(needs[s])
                while True:
                    if at == words.size:
                        return False
                    below, target = np.uint64(words[at]) * rows_left, needed << np.uint64(32)
                    at += 1
                    chosen = below + rows_left <= target
                    if chosen or below >= target:
                        break
                    needed = target - below
                group[s] |= np.uint8(chosen) << np.uint8(k)
                needs[s] -= chosen
            rows -= 1
    return True


STRONGEST, MEDIAN = 0, 1
LARGEST_EDGE = 1.0 - 1e-9  # beyond it a step would be infinite: all rows agree on a coordinate

_FLOATS = {"reassoc", "nsz", "contract"}  # sums of public numbers: their order may change


@kernel()
def _largest(rows):
    """Return max_j |rows_jk| per coordinate k."""
    largest = np.zeros(rows.shape[1])
    for j in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            largest[k] = max(largest[k], abs(rows[j, k]))
    return largest


@kernel(fastmath=_FLOATS)
def _edges(rows, weights, largest, edges):
    """Write r_k = sum_j w_j rows_jk / largest_k, eq. (9), or (14) of edges; 0 / 0 is zero."""
    edges[:] = 0.0
    for j in range(rows.shape[0]):
        row, w = rows[j], weights[j]
        for k in range(row.size):
            edges[k] += w * row[k]
    for k in range(edges.size):
        edges[k] = edges[k] / largest[k] if largest[k] > 0.0 else 0.0


@kernel()
def _pick(edges, oracle):
    """Return the coordinate that the weak learner picks among those whose edge is not zero, or -1.

    STRONGEST: the largest |r|. MEDIAN: the middle one, of two the stronger.
    """
    order = np.argsort(np.abs(edges))
    zeros = np.count_nonzero(edges == 0.0)
    usable = edges.size - zeros
    if usable == 0:
        return -1
    return order[zeros + usable // 2] if oracle == MEDIAN else order[-1]


@kernel()
def _normalise(logs, weights):
    """Write w_j = e^(l_j) / sum, and return log((1/n) sum_j e^(l_j)), which never overflows."""
    largest = logs.max()
    total = 0.0
    for j in range(logs.size):
        weights[j] = np.exp(logs[j] - largest)
        total += weights[j]
    for j in range(logs.size):
        weights[j] /= total
    return largest + np.log(total / logs.size)


@kernel()
def boost(rows, examples, oracle, cap, least, scale, gentle, weights, path):
    """Boost for at most len(path) rounds; return how many were run before every edge was zero.

    Rows are rados, or edges y_i x_i: the loop is the same (Nock, Patrini & Friedman 2015, Algorithm
    1; for edges Schapire & Singer 1999). A round costs O(rows x coordinates).

    A round picks coordinate k with edge r (`_pick`), steps by alpha = scale / (2 largest_k)
    log((1 + s) / (1 - s)), eq. (10) with scale = 1/kappa, and weighs the rows anew. s is r, at
    least ``least`` in size (Section 4: outliers make r tiny), at most ``cap`` (5.2) and
    LARGEST_EDGE. ``gentle`` weights follow eq. (11), the others are e^(-<theta, row>), AdaBoost's;
    both are kept as logarithms, so that none is lost to rounding. Writes the last ``weights`` and,
    per round of ``path``: k, r, s, alpha, log (1/n) sum_j e^(-<theta, row_j>), and how many of
    ``examples``, edges again, theta does not put on the right side.
    """
    n, width = rows.shape
    largest = _largest(rows)
    edges, logs, margins, spare = np.empty(width), np.zeros(n), np.zeros(n), np.empty(n)
    sides = np.zeros(examples.shape[0])
    weights[:] = 1.0 / n
    for t in range(path.shape[0]):
        _edges(rows, weights, largest, edges)
        k = _pick(edges, oracle)
        if k < 0:
            return t
        edge = edges[k]
        size = min(max(abs(edge), least), cap, LARGEST_EDGE)
        step = size if edge > 0.0 else -size
        alpha = scale * np.log((1.0 + step) / (1.0 - step)) / (2.0 * largest[k])
        share = step / largest[k]
        for j in range(n):
            margins[j] -= alpha * rows[j, k]
        if gentle:
            for j in range(n):
                logs[j] += np.log1p(-share * rows[j, k])
            _normalise(logs, weights)
        log_risk = _normalise(margins, spare if gentle else weights)
        wrong = 0
        for i in range(sides.size):
            sides[i] += alpha * examples[i, k]
            wrong += 1 if sides[i] <= 0.0 else 0
        path[t, 0], path[t, 1], path[t, 2], path[t, 3] = k, edge, step, alpha
        path[t, 4], path[t, 5] = log_risk, wrong
    return path.shape[0]
