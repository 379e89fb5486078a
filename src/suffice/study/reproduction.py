"""What a reproduction is: one table or figure of a paper, and how it is computed anew."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from suffice.pages.report import PageTable

__all__ = ["Comparison", "Figure", "Progress", "Reproduction", "Result", "Setting", "Steps"]

Progress = Callable[[int, int, str], None]  # steps done, steps in all, what is being done


@dataclass(frozen=True)
class Setting:
    """What a reproduction runs with: where its files are, which data sets, how many repetitions."""

    folder: Path
    sets: tuple[str, ...]
    seeds: int
    progress: Progress

    @property
    def warnings(self) -> tuple[str, ...]:
        """A note for those who see one repetition, none for others."""
        luck = "One seed shows luck as well as skill: ask for more with --seeds."
        return (luck,) if self.seeds == 1 else ()


@dataclass
class Steps:
    """Counts steps of equal weight for a progress bar."""

    progress: Progress
    total: int
    done: int = 0

    def begin(self, what: str) -> None:
        """Say that the next step begins, and that the one before it is done."""
        self.progress(self.done, self.total, what)
        self.done += 1


@dataclass(frozen=True)
class Figure:
    """A drawing, as an SVG element, with the sentence under it."""

    caption: str
    svg: str


@dataclass(frozen=True)
class Comparison:
    """One statement of a paper (``printed``, None where it is words), our number, and a verdict."""

    what: str
    printed: float | None
    ours: float
    verdict: str
    digits: int = 3

    COLUMNS = ("printed", "ours", "difference", "verdict")

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """What stands under `COLUMNS`; a sentence has no number to differ from."""
        printed = "in words" if self.printed is None else self._text(self.printed)
        difference = "see verdict" if self.difference is None else self._text(self.difference, "+")
        return printed, self._text(self.ours), difference, self.verdict

    def _text(self, value: float, sign: str = "") -> str:
        return f"{round(value, self.digits) + 0.0:{sign}.{self.digits}f}"

    @property
    def difference(self) -> float | None:
        """Ours less the printed one."""
        return None if self.printed is None else self.ours - self.printed

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        values = {key: value for key, value in asdict(self).items() if key != "digits"}
        return values | {"difference": self.difference}


@dataclass(frozen=True)
class Result:
    """What came out: tables and figures for people, ``values`` for programs (plain JSON).

    ``notes`` say how this differs from the paper; there is always one, if only that it does not.
    ``compared`` are its statements with our numbers, under the title ``compared_as``; ``seconds``
    is how long it took.
    """

    tables: tuple[PageTable, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]
    values: Mapping[str, Any]
    compared: tuple[Comparison, ...] = ()
    compared_as: str = "Beside the paper"
    seconds: float = 0.0

    @property
    def shown(self) -> tuple[PageTable, ...]:
        """All tables, the comparison last."""
        if not self.compared:
            return self.tables
        rows = tuple((statement.what, *statement.cells) for statement in self.compared)
        return (*self.tables, PageTable(self.compared_as, ("what", *Comparison.COLUMNS), rows))


@dataclass(frozen=True)
class Reproduction:
    """Computes one table or figure of a paper anew.

    ``paper`` says which one; ``files`` names the Parquet file of each data set that it needs in the
    folder of --data, empty for none; ``seeds`` is how often it repeats unless told otherwise, if it
    ``repeats``; ``uncompared`` says why there is nothing to compare with, where there is not.
    """

    name: str
    title: str
    paper: str
    run: Callable[[Setting], Result]
    files: Mapping[str, str] = field(default_factory=dict)
    seeds: int = 1
    repeats: bool = True
    uncompared: str = ""
