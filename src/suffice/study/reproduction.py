"""What a reproduction is: one table or figure of a paper, and how it is computed anew."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suffice.pages.report import Table
from suffice.study.comparison import Comparison, comparison_table

__all__ = ["Figure", "Progress", "Reproduction", "Result", "Setting", "Steps"]

Progress = Callable[[int, int, str], None]  # steps done, steps in all, what is being done


@dataclass(frozen=True)
class Setting:
    """What a reproduction runs with: where its files are, which data sets, how many repetitions."""

    folder: Path
    sets: tuple[str, ...]
    seeds: int
    progress: Progress


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
class Result:
    """What came out: tables and figures for people, ``values`` for programs (plain JSON).

    ``notes`` say how this differs from the paper; there is always one, if only that it does not.
    ``compared`` are its statements with our numbers, under the title ``compared_as``; ``seconds``
    is how long it took.
    """

    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]
    values: Mapping[str, Any]
    compared: tuple[Comparison, ...] = ()
    compared_as: str = "Beside the paper"
    seconds: float = 0.0

    @property
    def shown(self) -> tuple[Table, ...]:
        """All tables, the comparison last."""
        if not self.compared:
            return self.tables
        return (*self.tables, comparison_table(self.compared_as, self.compared))


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
