"""Draw the accuracy table of docs/accuracy.md as docs/images/utility.svg.

``python docs/accuracy_figure.py`` writes the drawing; ``--check`` fails if it is not up to date.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "utility.svg"

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 760, 110, 24, 74, 34
_LOWEST, _HIGHEST = 0.5, 1.0
_STYLE = """
    text { font: 13px sans-serif; fill: #222 }
    .ground { fill: #fff }  .grid { stroke: #ddd }  .range { stroke: #bbb; stroke-width: 2 }
    .guess, .exact { stroke: #222; stroke-width: 2 }  .guess { stroke-dasharray: 2 2 }
    .e005 { fill: #9ecae1 }  .e01 { fill: #4292c6 }  .e1 { fill: #08519c }
    @media (prefers-color-scheme: dark) {
      text { fill: #ddd }  .ground { fill: #161616 }  .grid { stroke: #333 }
      .range { stroke: #555 }  .guess, .exact { stroke: #ddd }
      .e005 { fill: #2f6690 }  .e01 { fill: #5aa9e6 }  .e1 { fill: #cfe8ff }
    }
"""


@dataclass(frozen=True)
class Accuracy:
    """One row of the table: test accuracies of a data set."""

    name: str
    exact: float
    private: tuple[float, ...]  # at epsilon 1, 0.1 and 0.05
    guess: float


def accuracies(readme: str) -> list[Accuracy]:
    """Return the rows of the accuracy table."""
    table = readme[readme.index("| data set |") :].split("\n\n", maxsplit=1)[0].splitlines()[2:]
    cells = [re.split(r"\s*\|\s*", row.strip("| ")) for row in table]
    return [
        Accuracy(name, float(exact), tuple(map(float, private)), float(guess))
        for name, exact, *private, guess in cells
    ]


def picture(rows: list[Accuracy]) -> str:
    """Return the drawing: one line per data set, from the guess to the exact labels."""
    bottom = _TOP + _ROW * len(rows)
    height = bottom + 46
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        "<title>Test accuracy with private labels on seven data sets</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{_WIDTH}" height="{height}"/>',
        *_legend(),
    ]
    for tenths in range(5, 11):
        x = _across(tenths / 10)
        parts += [
            f'<line class="grid" x1="{x}" x2="{x}" y1="{_TOP - 12}" y2="{bottom}"/>',
            f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{tenths / 10:.1f}</text>',
        ]
    middle = (_LEFT + _WIDTH - _RIGHT) // 2
    parts.append(f'<text x="{middle}" y="{bottom + 38}" text-anchor="middle">test accuracy</text>')
    for number, row in enumerate(rows):
        parts += _line(row, _TOP + _ROW * number + _ROW // 3)
    return "\n".join([*parts, "</svg>", ""])


def _across(accuracy: float) -> float:
    fraction = (accuracy - _LOWEST) / (_HIGHEST - _LOWEST)
    return round(_LEFT + fraction * (_WIDTH - _LEFT - _RIGHT), 1)


def _tick(kind: str, x: float, y: float) -> str:
    return f'<line class="{kind}" x1="{x}" x2="{x}" y1="{y - 10}" y2="{y + 10}"/>'


def _dot(kind: str, x: float, y: float) -> str:
    return f'<circle class="{kind}" cx="{x}" cy="{y}" r="6"/>'


def _line(row: Accuracy, y: float) -> list[str]:
    """Return one data set; strong guarantees are drawn last, so that no dot hides them."""
    guess, exact = _across(row.guess), _across(row.exact)
    dots = zip(("e1", "e01", "e005"), row.private, strict=True)
    return [
        f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{row.name}</text>',
        f'<line class="range" x1="{guess}" x2="{exact}" y1="{y}" y2="{y}"/>',
        _tick("guess", guess, y),
        *(_dot(kind, _across(accuracy), y) for kind, accuracy in dots),
        _tick("exact", exact, y),
    ]


def _legend() -> list[str]:
    entries = [
        ("guess", "always the larger class"),
        ("e005", "epsilon 0.05"),
        ("e01", "epsilon 0.1"),
        ("e1", "epsilon 1"),
        ("exact", "exact labels"),
    ]
    parts, x = [], _LEFT
    for kind, name in entries:
        mark = _dot if kind.startswith("e") and kind != "exact" else _tick
        parts += [mark(kind, x, 26), f'<text x="{x + 12}" y="30">{name}</text>']
        x += 40 + 7 * len(name)
    return parts


def main() -> int:
    """Write the drawing, or compare it."""
    drawing = picture(accuracies((ROOT / "docs" / "accuracy.md").read_text()))
    if "--check" in sys.argv:
        return int(PICTURE.read_text() != drawing)
    PICTURE.write_text(drawing)
    print(PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
