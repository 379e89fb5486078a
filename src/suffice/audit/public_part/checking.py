"""Runs pairs of neighbouring data sets through releases, and says where others see a difference.

Every number that decides a pair follows from the seed and the pair's number, so that one pair can
be run again.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.audit.public_part.exercise import Way, ways
from suffice.audit.public_part.forms import FORMS, Form, handed
from suffice.audit.public_part.neighbours import Neighbours, neighbours
from suffice.audit.public_part.releasing import Command, by_command, in_process, repeated_draws
from suffice.audit.public_part.shown import Shown, frozen_cells
from suffice.errors import SufficeError, UnprotectedError
from suffice.tables import batching, csv_files

__all__ = ["Difference", "Pair", "Verdict", "check_pair", "check_public_part"]

_BATCHES = (61, 128, 500, 1 << 16)  # rows of a batch: several of them, or one
_BLOCKS = (1 << 14, 1 << 15, 1 << 20)  # bytes of CSV that are parsed at once
_COMMANDS = 5  # of so many pairs that could go through the command line, one does
_DRAWN = 8  # of so many pairs, one is drawn again and again
_FEW_ROWS, _MOST_ROWS = 240, 1500


@dataclass(frozen=True)
class Pair:
    """One pair: what is released, in which form, and by which route."""

    number: int
    seed: int
    way: Way
    form: Form

    def __str__(self) -> str:
        return f"pair {self.number} of seed {self.seed}, {self.way}, {self.form.name}"


@dataclass(frozen=True)
class Difference:
    """A place in which others see that two data sets are not one."""

    pair: Pair
    where: str

    def __str__(self) -> str:
        return f"{self.pair}: {self.where}"


@dataclass(frozen=True)
class Verdict:
    """What came out of some pairs."""

    pairs: int
    differences: tuple[Difference, ...]

    def lines(self) -> list[str]:
        """Return the verdict in words."""
        if not self.differences:
            return [f"no difference in {self.pairs:,} pairs"]
        return [f"the public part differs: {one}" for one in self.differences]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        found = [
            {
                "pair": one.pair.number,
                "seed": one.pair.seed,
                "mechanism": one.pair.way.mechanism,
                "exercise": one.pair.way.exercise.name,
                "form": one.pair.form.name,
                "where": one.where,
            }
            for one in self.differences
        ]
        return {"pairs": self.pairs, "differs": bool(found), "differences": found}


def check_public_part(
    mechanisms: Sequence[str] = (),
    *,
    pairs: int,
    seed: int = 0,
    command: Command | None = None,
    first_only: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> Verdict:
    """Return what neighbouring data sets of these mechanisms, or of all, show of each other.

    ``command`` runs the program with words, for the pairs that go through it. ``first_only`` stops
    at the first pair that differs.
    """
    exercised = ways(mechanisms)
    found: list[Difference] = []
    for number in range(pairs):
        pair = _pair(number, seed, exercised)
        if progress is not None:
            progress(number, pairs, str(pair.way))
        found += [Difference(pair, where) for where in check_pair(pair, command)]
        if found and first_only:
            return Verdict(number + 1, tuple(found))
    return Verdict(pairs, tuple(found))


def _pair(number: int, seed: int, exercised: Sequence[Way]) -> Pair:
    """Return the pair of this number: ways take turns, and so do the forms of each."""
    way = exercised[number % len(exercised)]
    forms = [form for form in FORMS.values() if form.name not in way.exercise.without]
    turn = sum(divmod(number, len(exercised)))  # of the way, and of its forms
    return Pair(number, seed, way, forms[turn % len(forms)])


def check_pair(pair: Pair, command: Command | None = None) -> Iterator[str]:
    """Yield where the two data sets of a pair show that they are not one."""
    rng = np.random.default_rng([pair.seed, pair.number])
    exercise = pair.way.exercise
    drawn = rng.integers(_DRAWN) == 0
    batches = rng.choice(_BATCHES, 2)  # the batch must not show either
    data = neighbours(
        rng,
        exercise.changed,
        rows=_FEW_ROWS if drawn else int(rng.integers(_FEW_ROWS, _MOST_ROWS)),
        batch=int(batches[0]),
        classes=int(rng.integers(2, exercise.most_classes + 1)),
        lone=bool(drawn or rng.random() < 0.3),
    )
    block = int(rng.choice(_BLOCKS))
    route = in_process
    if command is not None and exercise.command and pair.form.in_file:
        route = by_command(command) if rng.integers(_COMMANDS) == 0 else in_process
    one, two = (
        _on_its_own(pair, data, side, (int(batches[side]), block), route) for side in (0, 1)
    )
    yield from _differing(one, two, refused=exercise.refused)
    if drawn and "refused" not in one and not exercise.refused:
        yield from _frozen(pair, data, block)


def _frozen(pair: Pair, data: Neighbours, block: int) -> Iterator[str]:
    """Yield which noisy cells of a pair have no noise in them, by many draws of both sides."""
    cuts = (max(_BATCHES), block)
    try:
        one, two = (_on_its_own(pair, data, side, cuts, repeated_draws) for side in (0, 1))
    except SufficeError as error:
        yield f"many draws were refused: {error}"
        return
    yield from frozen_cells(one, two)


def _on_its_own(
    pair: Pair, data: Neighbours, side: int, cuts: tuple[int, int], run: Callable[..., Any]
) -> Any:
    """Return what ``run`` makes of one side, in a folder of its own that has no name in it."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder), _cut(*cuts):
        table, auxiliary = data.tables[side], data.auxiliary[side]
        return run(pair.way, handed(pair.form, table, auxiliary, data.classes))


@contextmanager
def _cut(batch: int, block: int) -> Iterator[None]:
    """Read tables in batches of so many rows, and CSV in blocks of so many bytes."""
    usual = batching.BATCH_ROWS, csv_files.BLOCKS
    batching.BATCH_ROWS, csv_files.BLOCKS = batch, (block, *usual[1])
    try:
        yield
    finally:
        batching.BATCH_ROWS, csv_files.BLOCKS = usual


def _differing(one: Shown, two: Shown, *, refused: bool) -> Iterator[str]:
    for where in dict.fromkeys([*one, *two]):
        if one.get(where) != two.get(where):
            yield where
    answer = one.get("refused", b"").decode()
    if refused and not answer:
        yield "it was released, and should have been refused"
    elif answer and not (refused and answer.startswith(UnprotectedError.__name__)):
        yield f"nothing was released: {answer}"
