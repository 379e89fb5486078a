"""What every plan has: the epsilons that it is made for, and a table of plain text."""

from collections.abc import Iterable, Sequence

from suffice.errors import ParameterError
from suffice.privacy.calibrate import check_epsilon

__all__ = ["asked_epsilons", "text_table"]

_AROUND = (0.25, 0.5, 1.0, 2.0, 4.0)  # times the one epsilon that was asked for


def asked_epsilons(epsilon: float | Iterable[float], *, around: bool = True) -> list[float]:
    """Return the epsilons of a plan; one alone is shown with smaller and larger ones around it."""
    if isinstance(epsilon, Iterable):
        asked = [check_epsilon(e) for e in epsilon]
    else:
        one = check_epsilon(epsilon)
        asked = [one * factor for factor in _AROUND] if around else [one]
    if not asked:
        raise ParameterError("a plan needs at least one epsilon.")
    return asked


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, its columns aligned."""
    lines = [columns, *rows]
    widths = [max(len(line[j]) for line in lines) for j in range(len(columns))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
