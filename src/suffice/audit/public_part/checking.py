"""Releases pairs of neighbouring data sets, and reports where others see a difference.

Every number that decides a pair follows from the seed and the pair's number, so that one pair can
be run again.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.audit.public_part.exercise import ExercisedMechanism, exercised_mechanisms
from suffice.audit.public_part.forms import FORMS, Form, Handed, handed
from suffice.audit.public_part.neighbours import Neighbours, neighbours, with_ugly_cells
from suffice.audit.public_part.releasing import (
    Command,
    by_command,
    in_process,
    repeated_draws,
    without_owners_report,
)
from suffice.audit.public_part.shown import Shown, frozen_cells
from suffice.errors import SufficeError, UnprotectedError
from suffice.tables import batching, csv_files

__all__ = [
    "Difference",
    "Pair",
    "Verdict",
    "check_pair",
    "check_public_part",
    "differing",
    "pair_of",
]

_BATCHES = (61, 128, 500, 1 << 16)  # rows of a batch: several of them, or one
_BLOCKS = (1 << 14, 1 << 15, 1 << 20)  # bytes of CSV that are parsed at once
_COMMANDS = 5  # of so many pairs that could go through the command line, one does
_DRAWN = 8  # of so many pairs, one is drawn again and again
_FEW_ROWS, _MOST_ROWS = 240, 1500


@dataclass(frozen=True)
class Pair:
    """One pair of neighbouring data sets.

    Parameters
    ----------
    number
        The number of the pair, from 0.
    seed
        With the number, it decides everything about the pair.
    exercised
        The mechanism and how it is exercised.
    form
        The form in which the tables are handed over.
    """

    number: int
    seed: int
    exercised: ExercisedMechanism
    form: Form

    def __str__(self) -> str:
        return f"pair {self.number} of seed {self.seed}, {self.exercised}, {self.form.name}"


@dataclass(frozen=True)
class Difference:
    """A difference between two data sets that others can see.

    Parameters
    ----------
    pair
        The pair.
    where
        What differs.
    """

    pair: Pair
    where: str

    def __str__(self) -> str:
        return f"{self.pair}: {self.where}"


@dataclass(frozen=True)
class Verdict:
    """The result for some pairs.

    Parameters
    ----------
    pairs
        The number of pairs.
    differences
        All differences that others can see.
    """

    pairs: int
    differences: tuple[Difference, ...]

    def lines(self) -> list[str]:
        """Return the verdict in words."""
        if not self.differences:
            return [f"no difference in {self.pairs:,} pairs"]
        return [f"the public part differs: {difference}" for difference in self.differences]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        differences = [
            {
                "pair": difference.pair.number,
                "seed": difference.pair.seed,
                "mechanism": difference.pair.exercised.mechanism,
                "exercise": difference.pair.exercised.exercise.name,
                "form": difference.pair.form.name,
                "where": difference.where,
            }
            for difference in self.differences
        ]
        return {"pairs": self.pairs, "differs": bool(differences), "differences": differences}


def check_public_part(
    mechanisms: Sequence[str] = (),
    *,
    pairs: int,
    seed: int = 0,
    command: Command | None = None,
    first_only: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> Verdict:
    """Return where releases of neighbouring data sets differ outside their noise.

    Parameters
    ----------
    mechanisms
        The names of mechanisms; empty for all.
    pairs
        How many pairs to try.
    seed
        Decides everything about the pairs but the noise.
    command
        Runs the program with words, for the pairs that use the command line.
    first_only
        Whether to stop at the first pair that differs.
    progress
        Called with the number of pairs done, the number of pairs, and the mechanism.
    """
    exercises = exercised_mechanisms(mechanisms)
    differences: list[Difference] = []
    for number in range(pairs):
        pair = pair_of(number, seed, exercises)
        if progress is not None:
            progress(number, pairs, str(pair.exercised))
        differences += [Difference(pair, where) for where in check_pair(pair, command)]
        if differences and first_only:
            return Verdict(number + 1, tuple(differences))
    return Verdict(pairs, tuple(differences))


def pair_of(number: int, seed: int, exercises: Sequence[ExercisedMechanism]) -> Pair:
    """Return the pair of this number: exercises take turns, and so do the forms of each."""
    exercised = exercises[number % len(exercises)]
    forms = [form for form in FORMS.values() if form.name not in exercised.exercise.without]
    turn = sum(divmod(number, len(exercises)))  # of the exercise, and of its forms
    return Pair(number, seed, exercised, forms[turn % len(forms)])


def check_pair(pair: Pair, command: Command | None = None) -> Iterator[str]:
    """Yield where others can see a difference between the two data sets of a pair."""
    rng = np.random.default_rng([pair.seed, pair.number])
    exercise = pair.exercised.exercise
    draws_often = rng.integers(_DRAWN) == 0
    batches = rng.choice(_BATCHES, 2)  # the batch must not show either
    data = neighbours(
        rng,
        exercise.changed,
        rows=_FEW_ROWS if draws_often else int(rng.integers(_FEW_ROWS, _MOST_ROWS)),
        batch=int(batches[0]),
        classes=int(rng.integers(2, exercise.most_classes + 1)),
        lone=bool(draws_often or rng.random() < 0.3),
    )
    ugly = exercise.any_cells and pair.form.named and bool(rng.integers(2))
    if ugly:
        data = with_ugly_cells(data, rng)
    block = int(rng.choice(_BLOCKS))
    route: Callable[[ExercisedMechanism, Handed], Shown] = in_process
    if command is not None and exercise.command and pair.form.in_file:
        route = by_command(command) if rng.integers(_COMMANDS) == 0 else in_process
    first, second = (
        _on_its_own(pair, data, side, (int(batches[side]), block), route) for side in (0, 1)
    )
    if ugly:
        first, second = (without_owners_report(side) for side in (first, second))
    yield from differing(first, second)
    yield from _badly_answered(first, refused=exercise.refused)
    if draws_often and "refused" not in first and not exercise.refused:
        yield from _frozen(pair, data, block)


def _frozen(pair: Pair, data: Neighbours, block: int) -> Iterator[str]:
    """Yield which noisy cells of a pair have no noise in them, by many draws of both sides."""
    cuts = (max(_BATCHES), block)
    try:
        first, second = (_on_its_own(pair, data, side, cuts, repeated_draws) for side in (0, 1))
    except SufficeError as error:
        yield f"many draws were refused: {error}"
        return
    yield from frozen_cells(first, second)


def _on_its_own(
    pair: Pair, data: Neighbours, side: int, cuts: tuple[int, int], run: Callable[..., Any]
) -> Any:
    """Return what ``run`` returns for one side, in a new folder."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder), _cut(*cuts):
        table, auxiliary = data.tables[side], data.auxiliary[side]
        return run(pair.exercised, handed(pair.form, table, auxiliary, data.classes))


@contextmanager
def _cut(batch: int, block: int) -> Iterator[None]:
    """Read tables in batches of so many rows, and CSV in blocks of so many bytes."""
    usual_batch, usual_blocks = batching.BATCH_ROWS, csv_files.BLOCKS
    batching.BATCH_ROWS = batch
    csv_files.BLOCKS = (block, *usual_blocks)  # type: ignore[assignment]  # one more, for this block
    try:
        yield
    finally:
        batching.BATCH_ROWS, csv_files.BLOCKS = usual_batch, usual_blocks


def differing(first: Shown, second: Shown) -> Iterator[str]:
    """Yield where two sides show something else."""
    for where in dict.fromkeys([*first, *second]):
        if first.get(where) != second.get(where):
            yield where


def _badly_answered(first: Shown, *, refused: bool) -> Iterator[str]:
    answer = first.get("refused", b"").decode()
    if refused and not answer:
        yield "the release was made, and should have been refused"
    elif answer and not (refused and answer.startswith(UnprotectedError.__name__)):
        yield f"nothing was released: {answer}"
