"""Pages as one self-contained HTML file: paragraphs and tables; figures are SVG inside it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from suffice.plain_text import markup

__all__ = [
    "PageTable", "describe_repeats", "figure_html", "mean_and_range", "page", "paragraphs", "prose",
    "table_html",
]  # fmt: skip

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


@dataclass(frozen=True)
class PageTable:
    """Rows of text under named columns: the same on a page and on a terminal."""

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


def table_html(table: PageTable) -> str:
    """Return the table as markup, its title above it."""
    head = "".join(f"<th>{markup(column)}</th>" for column in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{markup(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    title = f"<caption>{markup(table.title)}</caption>"
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def figure_html(svg: str, caption: str = "") -> str:
    """Return an SVG element as a figure, ``caption`` under it."""
    below = f"<figcaption>{markup(caption)}</figcaption>" if caption else ""
    return f"<figure>{svg}{below}</figure>"


def mean_and_range(values: Sequence[float]) -> str:
    """Return the mean of several values with their range, or one value alone."""
    mean = f"{sum(values) / len(values):.3f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.2f}-{max(values):.2f})"


def describe_repeats(count: int, unit: str) -> str:
    """Return what `mean_and_range` shows: the value of one ``unit``, or of several."""
    return f"one {unit}" if count == 1 else f"mean and range of {count} {unit}s"
