"""Averaging: a participant whose answer is randomised again every time reveals the truth.

One answer that is kept with probability 3/4 leaves doubt; the majority of many new ones does not.
So the program remembers answers: the same question gets the same answer again.
"""

from collections.abc import Iterator

from run import Rate

from suffice.participant import Choice, Randomizer

_KEEP = 0.75
_STATES = ("no", "yes")


def _majority(answers: list[str]) -> str:
    return max(_STATES, key=answers.count)


def rates(trials: int) -> Iterator[Rate]:
    """Yield how often the majority of k answers is the truth, without and with a memory."""
    noise = Choice(_STATES, _KEEP)
    for times in (1, 11, 51):
        without_memory = with_memory = 0
        for person in range(trials):
            truth, randomizer = _STATES[person % 2], Randomizer(_STATES, _KEEP)
            answers = [str(noise.draw(noise.locate(truth))) for _ in range(times)]
            without_memory += _majority(answers) == truth
            answers = [str(randomizer.answer("smokes", truth)) for _ in range(times)]
            with_memory += _majority(answers) == truth
        words = "no better than one answer, .75"
        yield Rate(f"new random answers, asked {times}x", without_memory, trials, "tends to 1")
        yield Rate(f"one answer remembered, asked {times}x", with_memory, trials, words)
