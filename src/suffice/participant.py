"""One person, one record, one randomised answer; standard library only.

A participant runs this file alone, on their own machine, and can read all of it. It imports nothing
from the rest of the package.
"""

import math
import secrets
from collections.abc import Hashable, Sequence

__all__ = ["Randomizer"]

_WHOLE = 2**64


class Randomizer:
    """Protects a participant's answer: it is replaced at random before it leaves.

    With probability ``keep`` the true answer is given, otherwise one of the others, evenly. Each
    question is answered once: asked again, this object gives the same answer again, because many
    fresh answers to one question would average the noise away. (An answer that must survive a
    restart has to be kept by the participant.)

    The cost of one answer is epsilon = ln(keep (K - 1) / (1 - keep)) with K = len(states),
    computed from the integer probabilities that are used (multiples of 2^-64).
    """

    def __init__(self, states: Sequence[Hashable], keep: float) -> None:
        self.states = tuple(states)
        others = len(self.states) - 1
        if others < 1 or len(set(self.states)) <= others:
            raise ValueError("states must list two or more different answers.")
        if not 1 / (others + 1) < keep < 1:
            raise ValueError("keep must lie between 1/states and 1; both ends are excluded.")
        numerator, denominator = float(keep).as_integer_ratio()
        self._width = (denominator - numerator) * _WHOLE // (denominator * others)
        self._kept = _WHOLE - others * self._width
        if not 0 < self._width < self._kept:
            raise ValueError("keep is too close to an end of its range.")
        self._answers: dict[Hashable, Hashable] = {}

    @property
    def epsilon(self) -> float:
        """The cost of one answer, rounded up."""
        bound = math.log(self._kept) - math.log(self._width)
        return bound + 4 * math.ulp(64.0)

    def answer(self, question: Hashable, truth: Hashable) -> Hashable:
        """Return the randomised answer to ``question``: the same one, however often it is asked."""
        if truth not in self.states:
            raise ValueError("the truth must be one of the declared states.")
        if question not in self._answers:
            self._answers[question] = self._draw(self.states.index(truth))
        return self._answers[question]

    def _draw(self, state: int) -> Hashable:
        word = secrets.randbits(64)
        if word < self._kept:
            return self.states[state]
        other = (word - self._kept) // self._width
        return self.states[other + (other >= state)]
