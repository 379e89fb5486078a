"""Pages that studies write: one self-contained HTML file, figures drawn inside it."""

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from suffice.plain_text import markup

__all__ = ["Table", "figure_svg", "page", "paragraphs", "prose", "spread", "table_html"]

Draw = Callable[[Any], None]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem;
       color: #1d2733; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; } h3 { font-size: 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1.5rem 0; font-size: .9rem;
        font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { text-align: left; padding: .35rem .5rem; border-bottom: 1px solid #d8dee6; }
figure { margin: 1.5rem 0; } figcaption { font-size: .9rem; color: #4a5666; }
svg { width: 100%; height: auto; }
blockquote { margin: 1rem 0; padding: .6rem 1rem; border-left: 4px solid #3b7dd8;
             background: #f3f7fc; font-size: .92rem; }
pre { background: #f6f7f9; padding: .8rem; font-size: .8rem; white-space: pre-wrap; }
summary { cursor: pointer; font-size: .9rem; color: #3b5a80; }
"""
_WIDTH, _ALONE, _PANEL = 7.2, 4.2, 2.6  # inches: a figure, the height of one panel, of many
_ACROSS = 2


@dataclass(frozen=True)
class Table:
    """Rows of text under named columns: a study shows the same on a page and on a terminal."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def page(title: str, body: str) -> str:
    """Return a whole HTML page; ``body`` is markup already."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{markup(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{markup(title)}</h1>{body}</body></html>"
    )


def paragraphs(text: str) -> tuple[str, ...]:
    """Return the paragraphs of ``text``, which blank lines part, each on one line."""
    return tuple(" ".join(part.split()) for part in text.strip().split("\n\n"))


def prose(parts: Iterable[str]) -> str:
    """Return plain text as paragraphs of markup."""
    return "".join(f"<p>{markup(part)}</p>" for part in parts)


def table_html(table: Table) -> str:
    """Return the table as markup, its title above it."""
    head = "".join(f"<th>{markup(column)}</th>" for column in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{markup(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    title = f"<caption>{markup(table.title)}</caption>"
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def spread(values: Sequence[float]) -> str:
    """Return the mean of several values with their range, or one value alone."""
    mean = f"{sum(values) / len(values):.3f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.2f}-{max(values):.2f})"


def figure_svg(*draws: Draw) -> str:
    """Return what each of ``draws`` put on its pair of axes, as one SVG element.

    The legend of the first panel stands above all of them. Needs no display, and the same drawing
    gives the same bytes.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    across = min(_ACROSS, len(draws))
    down = -(-len(draws) // across)
    height = _ALONE if len(draws) == 1 else 0.6 + _PANEL * down
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1, w_pad=0.08)
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for axes, draw in zip(panels, draws, strict=False):
        axes.grid(alpha=0.25)
        draw(axes)
    for unused in panels[len(draws) :]:
        unused.set_axis_off()
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=4, frameon=False)
    file = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "suffice"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    _, start, rest = file.getvalue().partition("<svg")
    return start + rest
