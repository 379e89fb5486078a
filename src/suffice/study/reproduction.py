"""A reproduction: one table or figure of a paper, and how to compute it again."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from suffice.pages.report import PageTable

__all__ = ["Comparison", "Figure", "Progress", "Reproduction", "Result", "Setting", "Steps"]

Progress = Callable[[int, int, str], None]  # steps done, number of steps, what is being done


@dataclass(frozen=True)
class Setting:
    """What a reproduction runs with.

    Parameters
    ----------
    folder
        The folder with the data sets.
    sets
        The names of the data sets to use.
    seeds
        The number of repetitions.
    progress
        Called with the steps done, the number of steps, and what is being done.
    """

    folder: Path
    sets: tuple[str, ...]
    seeds: int
    progress: Progress

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning if there is only one repetition."""
        warning = "One repetition depends much on chance. Use --seeds for more."
        return (warning,) if self.seeds == 1 else ()


@dataclass
class Steps:
    """Counts steps of equal weight for a progress bar.

    Parameters
    ----------
    progress
        Called at the start of every step.
    total
        The number of steps.
    done
        The number of steps that are done.
    """

    progress: Progress
    total: int
    done: int = 0

    def begin(self, what: str) -> None:
        """Report that the next step begins, which is ``what``, and that the one before is done."""
        self.progress(self.done, self.total, what)
        self.done += 1


@dataclass(frozen=True)
class Figure:
    """A drawing and its caption.

    Parameters
    ----------
    caption
        One or more sentences.
    drawing
        Markup, from `suffice.pages.plots.draw_panels`.
    """

    caption: str
    drawing: str


@dataclass(frozen=True)
class Comparison:
    """One statement of a paper next to our number.

    Parameters
    ----------
    what
        What is compared.
    printed
        The number in the paper, or None if the paper says it in words.
    ours
        Our number.
    verdict
        How the two agree, in words.
    digits
        The number of decimal places.
    """

    what: str
    printed: float | None
    ours: float
    verdict: str
    digits: int = 3

    COLUMNS = ("printed", "ours", "difference", "verdict")

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The cells under `COLUMNS`; a statement in words has no number to differ from."""
        printed = "in words" if self.printed is None else self._text(self.printed)
        difference = "see verdict" if self.difference is None else self._text(self.difference, "+")
        return printed, self._text(self.ours), difference, self.verdict

    def _text(self, value: float, sign: str = "") -> str:
        return f"{round(value, self.digits) + 0.0:{sign}.{self.digits}f}"

    @property
    def difference(self) -> float | None:
        """Our number minus the printed one, or None if there is none."""
        return None if self.printed is None else self.ours - self.printed

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        values = {key: value for key, value in asdict(self).items() if key != "digits"}
        return values | {"difference": self.difference}


@dataclass(frozen=True)
class Result:
    """The result of a reproduction: tables and figures for people, values for programs.

    Parameters
    ----------
    tables, figures
        What to show.
    notes
        How this differs from the paper. There is at least one note.
    values
        The same numbers as plain JSON values.
    compared
        The paper's statements with our numbers.
    compared_as
        The title of the table of ``compared``.
    seconds
        How long it took.
    """

    tables: tuple[PageTable, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]
    values: Mapping[str, Any]
    compared: tuple[Comparison, ...] = ()
    compared_as: str = "What the paper says, and our numbers."
    seconds: float = 0.0

    @property
    def all_tables(self) -> tuple[PageTable, ...]:
        """All tables, the comparison last."""
        if not self.compared:
            return self.tables
        rows = tuple((statement.what, *statement.cells) for statement in self.compared)
        return (*self.tables, PageTable(self.compared_as, ("what", *Comparison.COLUMNS), rows))


@dataclass(frozen=True)
class Reproduction:
    """One table or figure of a paper that can be computed again.

    Parameters
    ----------
    name
        The name for the command line.
    title
        What it shows.
    paper
        Which table or figure of which paper it is.
    run
        Computes the result.
    files
        By data set, the Parquet file that is needed in the folder of --data.
    seeds
        The default number of repetitions.
    repeats
        Whether it can be repeated at all.
    uncompared
        Why there is nothing to compare with; empty if there is.
    """

    name: str
    title: str
    paper: str
    run: Callable[[Setting], Result]
    files: Mapping[str, str] = field(default_factory=dict)
    seeds: int = 1
    repeats: bool = True
    uncompared: str = ""
