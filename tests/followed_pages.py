"""Run the commands that a page tells the reader to type, and compare what they print.

A block of language ``sh`` holds commands. A block of language ``text`` right after one holds what
the commands print. A line ``...`` in a ``text`` block stands for lines that the page leaves out.
"""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from suffice.cli.main import app

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
_TABLE_LINES = re.compile(r"[┏┳┓┡╇┩└┴┘━│┃]")
_NUMBER = re.compile(r"\d*\.?\d+(e[+-]?\d+)?")


def glossary() -> dict[str, str]:
    """Return the words of docs/glossary.md with their meanings, in the order of the page."""
    rows = re.findall(
        r"^\| \*\*(.+?)\*\* \| (.+) \|$", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE
    )
    return dict(rows)


def steps(page: Path) -> list[tuple[list[str], str]]:
    """Return the commands of each ``sh`` block, and the output below it, empty if there is none."""
    blocks = _BLOCK.findall(page.read_text())
    return [(code.replace("\\\n", " ").splitlines(), output) for code, output in blocks]


def run(command: str) -> str:
    """Return what one command of the page prints."""
    program, *arguments = shlex.split(command)
    assert program == "suffice", command
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, (command, result.output)
    return result.stdout


def words(text: str) -> list[str | float]:
    """Return the words of a text, numbers as numbers, without the lines of tables."""
    pieces = _TABLE_LINES.sub(" ", text).split()
    return [float(word) if _NUMBER.fullmatch(word) else word for word in pieces]


def check_output(stated: str, printed: str, *, tolerance: float = 0.02) -> None:
    """Fail unless the page states what was printed: words exactly, numbers within ``tolerance``."""
    chunks = re.split(r"^\.\.\.\n", stated, flags=re.MULTILINE)
    rest = words(printed)
    for number, chunk in enumerate(chunks):
        expected = words(chunk)
        exact_start = number == 0
        exact_end = number == len(chunks) - 1
        starts = [0] if exact_start else range(len(rest) - len(expected) + 1)
        if exact_end and expected:
            starts = [start for start in starts if start == len(rest) - len(expected)]
        start = next((s for s in starts if _agree(expected, rest[s:], tolerance)), None)
        assert start is not None, f"the page states:\n{chunk}\nthe program prints:\n{printed}"
        rest = rest[start + len(expected) :]


def _agree(expected: list[str | float], actual: list[str | float], tolerance: float) -> bool:
    """Say whether ``actual`` begins with ``expected``."""
    return len(expected) <= len(actual) and all(
        a == pytest.approx(e, rel=tolerance)
        if isinstance(e, float) and isinstance(a, float)
        else a == e
        for e, a in zip(expected, actual, strict=False)
    )
