"""Tables as text for a terminal and as HTML for a notebook; all text is escaped."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suffice.errors import ParameterError
from suffice.plain_text import escaped, markup
from suffice.privacy.calibrate import check_epsilon
from suffice.privacy.guarantee import Guarantee

__all__ = ["GuaranteePlan", "Plan", "PlanCurves", "html_table", "planned_epsilons", "text_table"]


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as lines of text, its columns aligned.

    Examples
    --------
    >>> print(text_table(("epsilon", "unit"), [("1", "label"), ("0.25", "record")]))
    epsilon  unit
    1        label
    0.25     record
    """
    lines = [[escaped(cell) for cell in line] for line in (columns, *rows)]
    widths = [max(len(line[j]) for line in lines) for j in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def html_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
) -> str:
    """Return a table as HTML, with its title above and notes below.

    Examples
    --------
    >>> html_table("A <b>", ["x"], [["1"]])
    '<table><caption>A &lt;b&gt;</caption><tr><th>x</th></tr><tr><td>1</td></tr></table>'
    """
    head = _line("th", columns)
    body = "".join(_line("td", row) for row in rows)
    below = "".join(f"<p>{markup(escaped(note))}</p>" for note in notes)
    return f"<table><caption>{markup(escaped(title))}</caption>{head}{body}</table>{below}"


def _line(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{markup(escaped(cell))}</{tag}>" for cell in cells) + "</tr>"


_AROUND = (0.25, 0.5, 1.0, 2.0, 4.0)  # times the one epsilon of a plan


@dataclass(frozen=True)
class PlanCurves:
    """What a drawing of a plan shows: a quantity against epsilon, curve by curve.

    Parameters
    ----------
    epsilons : sequence of float
        The epsilons of the band.
    series : mapping
        Name of a curve to its points (epsilon, value).
    band_name : str
        What the band shows.
    band : sequence of (float, float)
        Its lower and upper end at each epsilon.
    without_noise : float
        A level to compare with.
    y_label : str
        The quantity on the vertical axis.
    """

    epsilons: Sequence[float]
    series: Mapping[str, Sequence[tuple[float, float]]]
    band_name: str
    band: Sequence[tuple[float, float]]
    without_noise: float
    y_label: str


class Plan(ABC):
    """A forecast of releases, as a table; nothing private was read for it.

    A plan prints as a table, and is one in a notebook.

    Attributes
    ----------
    title : str
        What the table shows.
    columns : sequence of str
        The heads of its columns.
    advice : sequence of str
        Sentences that follow it.
    """

    @property
    @abstractmethod
    def title(self) -> str:
        """What the table shows."""

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The heads of the columns."""

    @abstractmethod
    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as text, row by row."""

    @property
    def advice(self) -> Sequence[str]:
        """What to do, in sentences."""
        return ()

    def curves(self) -> "PlanCurves":
        """Return what a drawing of the plan shows, where it can be drawn."""
        raise ParameterError("This plan is a table and cannot be drawn. Remove --plot.")

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""

    def __str__(self) -> str:
        return "\n".join([text_table(self.columns, self.cells()), *map(escaped, self.advice)])

    def __repr__(self) -> str:
        return f"{escaped(self.title)}\n{self}"

    def _repr_html_(self) -> str:
        return html_table(self.title, self.columns, self.cells(), self.advice)


@dataclass(frozen=True, repr=False)
class GuaranteePlan(Plan):
    """What a release would guarantee; how useful it would be is not predicted.

    Parameters
    ----------
    guarantees : sequence of Guarantee
        The guarantees that the release would state.
    """

    guarantees: Sequence[Guarantee]

    title = "What a release would guarantee; no private cell was read"
    columns = ("epsilon", "delta", "unit", "guarantee")

    def cells(self) -> list[tuple[str, ...]]:
        """Return the guarantees as text."""
        return [
            (f"{g.epsilon or math.inf:.4g}", f"{g.delta:g}", str(g.unit), str(g.kind))
            for g in self.guarantees
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the guarantees as plain JSON values."""
        return {"rows": [guarantee.to_json() for guarantee in self.guarantees]}


def planned_epsilons(epsilon: float | Iterable[float], *, around: bool = True) -> list[float]:
    """Return the epsilons of a plan; a single one is shown with smaller and larger ones around it.

    Examples
    --------
    >>> planned_epsilons(1.0), planned_epsilons([0.1, 1])
    ([0.25, 0.5, 1.0, 2.0, 4.0], [0.1, 1.0])
    """
    if isinstance(epsilon, Iterable):
        epsilons = [check_epsilon(e) for e in epsilon]
    else:
        single = check_epsilon(epsilon)
        epsilons = [single * factor for factor in _AROUND] if around else [single]
    if not epsilons:
        raise ParameterError("A plan needs at least one epsilon. Add --epsilon 1, for example.")
    return epsilons
