"""Randomised response for K states: integer thresholds on private 64-bit words.

Probabilities are multiples of 2^-64, chosen once; epsilon is computed from those integers and not
from the numbers that were asked for. No floating-point number takes part in a draw.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suffice.errors import ParameterError
from suffice.privacy import events
from suffice.privacy.events import Pure
from suffice.privacy.randomness import private_blocks

_WHOLE = 2**64
_MOST = 45.0  # e^45 > 2^64: from here on every other answer has one word, the least


@dataclass(frozen=True)
class Response:
    """Protects one state: each is replaced at random, so any answer could have come from any state.

    ``weights[j][i] / 2^64`` is P_ij = P[answer i | state j] (Barber 2020, Section 2). The cost is

        epsilon = max_i ln(max_j P_ij / min_j P_ij),

    the largest ratio within a row of P.
    """

    weights: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        states = len(self.weights)
        if states < 2 or any(len(column) != states for column in self.weights):
            raise ParameterError("Randomised response needs a square matrix of two or more rows.")
        if any(w <= 0 for column in self.weights for w in column):
            raise ParameterError(
                "Every answer must be possible from every value: a zero probability makes epsilon"
                " infinite. Use positive entries only."
            )
        if any(sum(column) != _WHOLE for column in self.weights):
            raise ParameterError("The probabilities of each column must sum to one.")

    @classmethod
    def keep_else_uniform(cls, states: int, keep: float) -> "Response":
        """Keep the state with probability ``keep``, otherwise answer any other one, evenly."""
        if states < 2 or not 0 < keep < 1:
            raise ParameterError("keep must lie strictly between 0 and 1, for two or more values.")
        return cls._uniform(states, round(Fraction(1 - Fraction(keep)) * _WHOLE / (states - 1)))

    @classmethod
    def from_epsilon(cls, states: int, epsilon: float) -> "Response":
        """Return the most faithful keep-else-uniform response that costs at most ``epsilon``.

        More than about 44 cannot be spent: the least probability is 2^-64.
        """
        epsilon = events.check_epsilon(epsilon)
        odds = math.exp(min(epsilon, _MOST))
        width = math.ceil(_WHOLE / (states - 1 + odds))
        while (response := cls._uniform(states, width)).event.bound > epsilon:
            width += 1 + width // 2**52  # a float's last digit is worth this many words
        return response

    @classmethod
    def _uniform(cls, states: int, width: int) -> "Response":
        same = _WHOLE - (states - 1) * width
        if width < 1 or same <= width:
            raise ParameterError(
                "keep must exceed 1 / (number of possible values), and leave 2^-64 for each other"
                " value."
            )
        return cls(
            tuple(tuple(same if i == j else width for i in range(states)) for j in range(states))
        )

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> "Response":
        """Return the response of P with P_ij = P[answer i | state j]; columns sum to one."""
        table = np.asarray(matrix, dtype=np.float64)
        square = table.ndim == 2 and table.shape[0] == table.shape[1] and table.shape[0] > 1
        if not square or not np.isfinite(table).all() or (table <= 0).any():
            raise ParameterError("P must be a square matrix of positive finite probabilities.")
        if np.abs(table.sum(axis=0) - 1).max() > 1e-9:
            raise ParameterError("the columns of P must sum to one: P_ij is P[answer i | state j].")
        columns = []
        for column in table.T:
            exact = [Fraction(float(p)) for p in column]
            total = sum(exact)
            words = [max(1, round(p / total * _WHOLE)) for p in exact]
            words[int(np.argmax(column))] += _WHOLE - sum(words)  # the largest takes the remainder
            columns.append(tuple(words))
        return cls(tuple(columns))

    @property
    def states(self) -> int:
        """The number of states K."""
        return len(self.weights)

    @property
    def event(self) -> Pure:
        """What one answer costs, from the integer weights, rounded up."""
        ratio = max(Fraction(max(row), min(row)) for row in zip(*self.weights, strict=True))
        bound = math.log(ratio.numerator) - math.log(ratio.denominator)
        if bound <= 0:
            raise ParameterError(
                "All columns are equal: the answers say nothing about the true values."
            )
        return Pure(bound + 4 * math.ulp(max(bound, 64 * math.log(2))))

    @property
    def matrix(self) -> NDArray[np.float64]:
        """P as floats, P_ij = P[answer i | state j]."""
        return np.array([[w / _WHOLE for w in column] for column in self.weights]).T

    def randomise(self, states: ArrayLike) -> NDArray[Any]:
        """Return one randomised answer per state (codes 0..K-1), fresh at every call.

        Integer arrays keep their type, so a byte per answer goes in and out as a byte.
        """
        codes = np.ascontiguousarray(states)
        if not np.issubdtype(codes.dtype, np.integer):
            raise ParameterError("states must be integer codes 0, 1, ..., K - 1.")
        if np.iinfo(codes.dtype).max < self.states - 1:
            raise ParameterError("the integer type cannot hold every possible value.")
        answers = np.empty_like(codes)
        flat, out, start = codes.reshape(-1), answers.reshape(-1), 0
        draw = self._kernel()
        for words in private_blocks(flat.size):
            part = slice(start, start := start + words.size)
            if not draw(flat[part], words, out[part]):
                raise ParameterError("A value is not one of the declared possible values.")
        return answers

    def with_drawn(self, states: NDArray[Any], unknown: NDArray[np.bool_]) -> NDArray[Any]:
        """Return states in which each of the ``unknown`` ones is drawn, as likely as any other.

        Its answer is then no less protected, and says nothing: all states are as likely behind it.
        Words are drawn for every state, so that their number does not show how many are unknown.
        """
        drawn = np.empty(states.size, dtype=states.dtype)
        start = 0
        for words in private_blocks(states.size):
            drawn[start : start + words.size] = words % np.uint64(self.states)
            start += words.size
        return np.where(unknown, drawn.reshape(states.shape), states)

    def _kernel(self) -> Callable[[NDArray[Any], NDArray[np.uint64], NDArray[Any]], bool]:
        from suffice.kernels import response as kernel

        if self._uniform_weights:
            same, width = (np.uint64(weight) for weight in self._uniform_weights)
            return lambda codes, words, out: bool(
                kernel.respond_uniform(codes, words, same, width, self.states, out)
            )
        table: list[list[Any]] = []  # cumulative weights per state; the last end is never compared
        for column in self.weights:
            totals = np.cumsum(np.array(column[:-1], dtype=object))
            table.append([*totals.tolist(), _WHOLE - 1])
        ends = np.array(table, dtype=np.uint64)
        return lambda codes, words, out: bool(kernel.respond_by_table(codes, words, ends, out))

    @cached_property
    def _uniform_weights(self) -> tuple[int, int] | None:
        """Return (same, width) if a division (in signed words) does instead of a table."""
        same, width = self.weights[0][0], self.weights[0][1]
        uniform = all(
            w == (same if i == j else width)
            for j, column in enumerate(self.weights)
            for i, w in enumerate(column)
        )
        return (same, width) if uniform and width <= _WHOLE // 4 else None


_LARGEST_TOTAL = 2**62
_FEWEST, _MOST_BALLS = 2**16, 2**20  # a million balls take some hundredths of a second
_PER_UNIT = 64  # balls per unit of A: the deviation grows by 0.8 %


def enough_balls(concentration: float) -> int:
    """Return N for a Dirichlet of this A = sum a; above 2^14 it no longer keeps up with A."""
    return int(min(max(_PER_UNIT * concentration, _FEWEST), _MOST_BALLS))


def draw_balls(weights: Sequence[int], unit: int, balls: int) -> NDArray[np.int64]:
    """Return how often each colour comes among ``balls`` balls of the urn of Dir(weights / unit).

    Fresh at every call; exact in integers.
    """
    start = [int(w) for w in weights]
    if any(w < 0 for w in start) or sum(start) < 1 or unit < 1 or balls < 1:
        raise ParameterError("The weights must be zero or more, and not all zero.")
    if sum(start) + unit * balls >= _LARGEST_TOTAL:
        raise ParameterError("The Dirichlet parameters are too large. Use another mechanism.")
    from suffice.kernels import response as kernel

    state, counts = np.array(start, dtype=np.uint64), np.zeros(len(start), dtype=np.int64)
    remaining = balls
    while remaining:
        for words in private_blocks(2 * remaining):  # more than half of all words give a ball
            remaining -= kernel.draw_balls(state, np.uint64(unit), words, remaining, counts)
            if not remaining:
                break
    return counts
