"""What a paper prints beside what we computed, and whether both agree."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from suffice.pages.report import Table

__all__ = ["COLUMNS", "Comparison", "comparison_table", "comparison_values"]

COLUMNS = ("printed", "ours", "difference", "verdict")


@dataclass(frozen=True)
class Comparison:
    """One statement of a paper (``printed``, None where it is words), our number, and a verdict."""

    what: str
    printed: float | None
    ours: float
    verdict: str
    digits: int = 3

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


def comparison_table(title: str, found: Sequence[Comparison]) -> Table:
    """Return the statements as rows of text."""
    return Table(title, ("what", *COLUMNS), tuple((one.what, *one.cells) for one in found))


def comparison_values(found: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Return the statements as plain JSON values."""
    return [
        {key: value for key, value in asdict(one).items() if key != "digits"}
        | {"difference": one.difference}
        for one in found
    ]
