"""What a paper prints beside what we computed, and whether both agree."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from suffice.study.report import Table

__all__ = ["Comparison", "comparison_table", "comparison_values"]


@dataclass(frozen=True)
class Comparison:
    """One statement of a paper (``printed``, None where it is words), our number, and a verdict."""

    what: str
    printed: float | None
    ours: float
    verdict: str
    digits: int = 3

    @property
    def difference(self) -> float | None:
        """Ours less the printed one."""
        return None if self.printed is None else self.ours - self.printed


def comparison_table(title: str, found: Sequence[Comparison]) -> Table:
    """Return the statements as rows of text."""

    def cell(value: float | None, digits: int, sign: str = "") -> str:
        return "-" if value is None else f"{round(value, digits) + 0.0:{sign}.{digits}f}"

    rows = tuple(
        (
            one.what,
            cell(one.printed, one.digits),
            cell(one.ours, one.digits),
            cell(one.difference, one.digits, "+"),
            one.verdict,
        )
        for one in found
    )
    return Table(title, ("what", "printed", "ours", "difference", "verdict"), rows)


def comparison_values(found: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Return the statements as plain JSON values."""
    return [
        {key: value for key, value in asdict(one).items() if key != "digits"}
        | {"difference": one.difference}
        for one in found
    ]
