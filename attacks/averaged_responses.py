"""Averaging: a participant who answers the same question afresh every time gives the truth away.

One answer kept with probability 3/4 leaves doubt; the majority of many fresh ones does not. Hence
a participant's memory: asked again, a question gets the answer that it got.
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
    for asked in (1, 11, 51):
        fresh = kept = 0
        for person in range(trials):
            truth, randomizer = _STATES[person % 2], Randomizer(_STATES, _KEEP)
            heard = [str(noise.draw(noise.place(truth))) for _ in range(asked)]
            fresh += _majority(heard) == truth
            heard = [str(randomizer.answer("smokes", truth)) for _ in range(asked)]
            kept += _majority(heard) == truth
        words = "no better than one answer, .75"
        yield Rate(f"fresh answers, asked {asked}x", fresh, trials, "tends to 1")
        yield Rate(f"one answer remembered, asked {asked}x", kept, trials, words)
