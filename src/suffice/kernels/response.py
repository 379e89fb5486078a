"""Randomised response over many records: integer thresholds against uniform 64-bit words.

Both kernels of responses return False as soon as they meet a state outside the domain; the caller
then throws the answers away. They are free of branches that depend on a word, which would be
mispredicted at random.
"""

import numpy as np

from suffice.kernels.compiled import kernel

_FEW = 16  # up to here, counting thresholds is faster than searching them


@kernel()
def respond_uniform(states, words, keep, width, count, out):
    """Keep a state if its word is below ``keep``, else take the (word - keep) // width-th other."""
    inverse = 1.0 / np.float64(width)
    for i in range(states.size):
        state = np.int64(states[i])
        if state < 0 or state >= count:
            return False
        moved = words[i] >= keep
        rest = words[i] - keep
        # A float guesses the quotient, integers put it right: no float decides an answer.
        other = np.int64(np.float64(np.int64(rest >> np.uint64(1))) * inverse * 2.0)
        remainder = np.int64(rest - np.uint64(other) * width)
        other += np.int64(remainder >= np.int64(width)) - np.int64(remainder < 0)
        other += np.int64(other >= state)
        out[i] = other if moved else state
    return True


@kernel()
def respond_by_table(states, words, ends, out):
    """Give record i the first output whose end in column ``states[i]`` lies above its word."""
    count = ends.shape[1]
    for i in range(states.size):
        if states[i] < 0 or states[i] >= count:
            return False
    if count <= _FEW:
        for i in range(states.size):
            column = ends[states[i]]
            answer = np.int64(0)
            for k in range(count - 1):
                answer += np.int64(words[i] >= column[k])
            out[i] = answer
        return True
    for i in range(states.size):
        column = ends[states[i]]
        answer, size = 0, count
        while size > 1:  # the same number of steps for every word
            half = size // 2
            answer += half * np.int64(words[i] >= column[answer + half - 1])
            size -= half
        out[i] = answer
    return True


@kernel()
def draw_balls(weights, unit, words, most, tallies):
    """Draw at most ``most`` balls with these uniform words; return how many were drawn.

    Polya's urn in integers: each ball drawn goes back with one more of its colour.

    Colour k comes with probability weights[k] / sum(weights), which must stay below 2^63; ``unit``
    is added to the weight of the colour that came, and one to ``tallies``. A word gives its leading
    bits, as many as the sum has, and is left out if they are not below the sum: no division, and
    every ball is exactly as likely as its weight says.
    """
    total = np.uint64(0)
    for k in range(weights.size):
        total += weights[k]
    shift = np.uint64(63)
    count = 0
    for i in range(words.size):
        if count == most:
            break
        while (total - np.uint64(1)) >> (np.uint64(64) - shift):
            shift -= np.uint64(1)
        position = words[i] >> shift
        if position >= total:
            continue
        k = 0
        while position >= weights[k]:
            position -= weights[k]
            k += 1
        weights[k] += unit
        total += unit
        tallies[k] += 1
        count += 1
    return count
