"""No noise at all, and a list of what was asked for: what a release holds *before* its noise.

Inside `silent` every sampler is replaced by one that changes nothing and notes its law, its scale
and how many numbers it was asked for:

- additive noise (`suffice.privacy.noise.Noise.add`, of every law): zero;
- randomised response, of an owner's records and of a participant's answer: the truth;
- Polya's urn: as many balls of each colour as its weights say;
- a participant's noise on numbers: zero;
- a participant's report: the true combination, and the first of the others.

Random signs and subsets are no noise that could be left out: a rado is made of them. They, and
the other words of our own stream, repeat themselves as in `seeds.seeded`, and are noted.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import seeds
from suffice import participant
from suffice.kernels import response as kernels_response
from suffice.privacy import noise, randomness, response

__all__ = ["silent"]

MOST_WEIGHTS = 16  # of a table of probabilities that is noted whole: 4 x 4 possible values


class _Draws:
    """What was asked of the samplers, in order."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def note(self, law: str, scale: Any, length: int) -> None:
        """Note one draw; draws of the same sort, one after the other, are counted."""
        draw = {"law": law, "scale": scale, "length": length}
        with self._lock:
            last = self.asked[-1] if self.asked else {}
            if draw == {key: last.get(key) for key in draw}:
                last["times"] += 1
            else:
                self.asked.append({**draw, "times": 1})


@contextmanager
def silent(seed: object) -> Iterator[list[dict[str, Any]]]:
    """Leave out all noise of this process; yield the list of the draws that were asked for."""
    draws = _Draws()
    with seeds.seeded(seed), pytest.MonkeyPatch.context() as patched:
        patched.setattr(noise.Noise, "add", _no_noise(draws))
        patched.setattr(response.Response, "randomise", _truth(draws))
        patched.setattr(kernels_response, "draw_balls", _even_balls(draws))
        patched.setattr(randomness, "_fresh_key", _noted_key(draws, randomness._fresh_key))
        patched.setattr(participant, "_laplace", _no_step(draws, "laplace"))
        patched.setattr(participant, "_gaussian", _no_step(draws, "gaussian"))
        patched.setattr(participant.Choice, "draw", _true_answer(draws))
        patched.setattr(participant.Report, "draw", _first_others(draws))
        yield draws.asked


def _no_noise(draws: _Draws) -> Any:
    def add(self, exact):
        values = np.array(exact, dtype=np.int64)
        draws.note(self.name, self.scale, values.size)
        return values

    return add


def _truth(draws: _Draws) -> Any:
    def randomise(self, states):
        codes = np.array(states)
        draws.note("response", _table(self.weights), codes.size)
        return codes

    return randomise


def _even_balls(draws: _Draws) -> Any:
    def draw_balls(weights, unit, words, most, tallies):
        del words
        exact, total = [int(weight) for weight in weights], sum(map(int, weights))
        draws.note("urn", {"weights": exact, "unit": int(unit)}, int(most))
        tallies += np.array([most * weight // total for weight in exact])
        tallies[np.argmax(tallies)] += most - tallies.sum()
        return most

    return draw_balls


def _noted_key(draws: _Draws, fresh_key: Any) -> Any:
    def noted(size):
        count = sys._getframe(1).f_locals["count"]  # of `private_blocks`, the only caller
        draws.note("words", None, count)
        return fresh_key(size)  # of `seeds`: it finds `count` here

    return noted


def _no_step(draws: _Draws, law: str) -> Any:
    def sample(scale):
        draws.note(f"participant's {law}", f"{scale.numerator}/{scale.denominator}", 1)
        return 0

    return sample


def _true_answer(draws: _Draws) -> Any:
    def draw(self, index):
        table = [self.weights(truth) for truth in range(len(self.states))]
        draws.note("participant's response", _table(table), 1)
        return self.states[index]

    return draw


def _table(weights: Any) -> dict[str, Any]:
    """Return a table of probabilities, in units of 2^-64: whole if it is small."""
    if len(weights) ** 2 <= MOST_WEIGHTS:
        return {"weights": [list(column) for column in weights]}
    kept = sorted({column[truth] for truth, column in enumerate(weights)})
    moved = sorted({w for truth, c in enumerate(weights) for i, w in enumerate(c) if i != truth})
    return {"states": len(weights), "kept": kept, "moved": moved}


def _first_others(draws: _Draws) -> Any:
    def draw(self: participant.Report, indices: Any) -> list[int]:
        draws.note("participant's report", f"{self.size} of {self.count}, {self.threshold}", 1)
        number = self.locate(indices)
        others = [other for other in range(self.count) if other != number]
        return sorted([number, *others[: self.size - 1]])

    return draw
