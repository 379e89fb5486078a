"""Pages as one HTML file each: prose, tables that fit a phone, and figures inside the file.

The pages follow the reader's choice of light or dark colours, and nothing on them is wider than the
screen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from suffice.pages.plots import BLUE, ORANGE, RED, draw_panels
from suffice.plain_text import markup

_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1d2733; --soft: #4a5666; --line: #d8dee6;
        --accent: #2f6fc4; --tint: #f3f7fc; --code: #f6f7f9; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #12161b; --ink: #e3e8ee; --soft: #a9b4c0; --line: #37414d; --accent: #7db0f0;
          --tint: #1a222c; --code: #1b2027; }
}
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem;
       color: var(--ink); background: var(--paper); overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; } h3 { font-size: 1rem; }
.table { overflow-x: auto; margin: 1.5rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem;
        font-variant-numeric: tabular-nums; overflow-wrap: normal; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .5rem;
         border-bottom: 1px solid var(--line); }
figure { margin: 1.5rem 0; } figcaption { font-size: .9rem; color: var(--soft); }
svg { max-width: 100%; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; font-size: .85rem; }
.legend svg { width: 2.2rem; height: auto; vertical-align: middle; margin-right: .35rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr));
          gap: .6rem; }
.panels.single { display: block; max-width: 34rem; }
.panels svg { width: 100%; height: auto; }
blockquote { margin: 1rem 0; padding: .6rem 1rem; border-left: 4px solid var(--accent);
             background: var(--tint); font-size: .92rem; }
blockquote p { margin: .5rem 0; }
pre { background: var(--code); padding: .8rem; font-size: .8rem; white-space: pre-wrap; }
summary { cursor: pointer; font-size: .9rem; color: var(--accent); }
@media (max-width: 38rem) {
  body { margin: 1.5rem auto; }
  table, caption, tbody, tr, td { display: block; overflow-wrap: anywhere; }
  thead { display: none; }
  tr { padding: .4rem 0; border-bottom: 1px solid var(--line); }
  td { border: 0; padding: .1rem 0; }
  td[data-column]::before { content: attr(data-column) ": "; color: var(--soft); }
  td:first-child { font-weight: 600; }
}
"""


@dataclass(frozen=True)
class PageTable:
    """Rows of text under column headings: the same on a page and on a terminal.

    The title is one or more sentences that say what the table shows.

    Raises
    ------
    ValueError
        If the title is not a sentence, or a row has too few or too many cells.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        _check_sentence(self.title)
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"{self.title!r}: every row needs {len(self.columns)} cells.")


def page(title: str, body: str) -> str:
    """Return an HTML page that needs no other file: a title of plain text, and markup below it."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{markup(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{markup(title)}</h1>{body}</body></html>"
    )


def paragraphs(text: str) -> tuple[str, ...]:
    r"""Return the paragraphs of ``text``, each on one line; blank lines separate them.

    Examples
    --------
    >>> paragraphs("\nOne\nline.\n\nAnother.\n")
    ('One line.', 'Another.')
    """
    return tuple(" ".join(part.split()) for part in text.strip().split("\n\n"))


def prose(parts: Iterable[str]) -> str:
    """Return plain text as paragraphs of markup.

    Examples
    --------
    >>> prose(["1 < 2"])
    '<p>1 &lt; 2</p>'
    """
    return "".join(f"<p>{markup(part)}</p>" for part in parts)


def table_html(table: PageTable) -> str:
    """Return the table as markup, its title above it.

    On a narrow screen every row becomes a list of cells, each but the first behind the heading of
    its column.
    """
    columns = [markup(column) for column in table.columns]
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = ""
    for first, *others in table.rows:
        cells = (
            f'<td data-column="{column}">{markup(cell)}</td>'
            for column, cell in zip(columns[1:], others, strict=True)
        )
        body += f"<tr><td>{markup(first)}</td>{''.join(cells)}</tr>"
    title = f"<caption>{markup(table.title)}</caption>"
    rows = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="table"><table>{title}{rows}</table></div>'


def figure_html(drawing: str, caption: str) -> str:
    """Return a drawing, which is markup, as a figure with a caption below it.

    The caption is one or more sentences of plain text. Readers who see no drawing read it instead.

    Raises
    ------
    ValueError
        If the caption is not a sentence.
    """
    text = markup(_check_sentence(caption))
    return (
        f'<figure><div role="img" aria-label="{text}">{drawing}</div>'
        f"<figcaption>{text}</figcaption></figure>"
    )


def _check_sentence(text: str) -> str:
    """Return ``text`` if it ends as a sentence does, or raise."""
    if not text.endswith("."):
        raise ValueError(f"A caption must be a sentence with a full stop: {text!r}.")
    return text


def mean_and_range(values: Sequence[float]) -> str:
    """Return the mean of several values with their range, or a single value.

    Examples
    --------
    >>> mean_and_range([0.25, 0.75])
    '0.500 (0.25-0.75)'
    >>> mean_and_range([0.5])
    '0.500'
    """
    mean = f"{sum(values) / len(values):.3f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.2f}-{max(values):.2f})"


def describe_repeats(count: int, unit: str) -> str:
    """Return what `mean_and_range` shows: the value of one ``unit``, or of several.

    Examples
    --------
    >>> describe_repeats(3, "split")
    'mean and range of 3 splits'
    """
    return f"one {unit}" if count == 1 else f"mean and range of {count} {unit}s"


_FIGURE_PANELS = 6
_EXPLANATION = (
    "Each panel compares the outputs for two neighbouring data sets. It shows how often each score"
    " occurs for either of them. Where the probability density is known, the score is the privacy"
    " loss itself. A guarantee with delta = 0 keeps this loss between the dashed lines; one with a"
    " larger delta lets a few outputs leave them. Where the density is unknown, an attack computes"
    " the score, and only differences between the two data sets matter."
)


def audit_page(findings: Sequence[Any], columns: Sequence[str], failure: float) -> str:
    """Return an HTML page about the results of an audit.

    Parameters
    ----------
    findings
        The results, for mechanisms and broken copies (`Finding`).
    columns
        The headings of the cells of each result.
    failure
        The probability that any of the lower bounds is wrong.
    """
    sound = [finding for finding in findings if not finding.broken]
    copies = [finding for finding in findings if finding.broken]
    summary = (
        f"The attack refutes {sum(f.violated for f in sound)} of {len(sound)} mechanisms."
        f" It catches {sum(f.violated for f in copies)} of {len(copies)} broken copies."
        f" All lower bounds together are correct with probability {1 - failure:g} or more."
        " A lower bound below a guarantee does not prove the guarantee. It shows how far this"
        " attack came."
    )
    surprises = [finding.name for finding in [*sound, *copies] if not finding.expected]
    alarm = [f"Not as expected: {'; '.join(surprises)}."] if surprises else []
    tables = {
        "What each mechanism guarantees, and what the attack found.": sound,
        "Broken copies, which the audit must catch.": copies,
    }
    body = [
        prose([summary, *alarm]),
        *(
            table_html(PageTable(title, tuple(columns), tuple(f.cells() for f in shown)))
            for title, shown in tables.items()
        ),
        "<h2>What is wrong with each broken copy</h2><ul>",
        *(f"<li>{markup(finding.name)}: {markup(finding.what)}</li>" for finding in copies),
        "</ul><h2>Privacy loss</h2>",
        prose([_EXPLANATION]),
    ]
    for first in range(0, len(findings), _FIGURE_PANELS):
        panels = [partial(_draw_scores, f) for f in findings[first : first + _FIGURE_PANELS]]
        last = first + len(panels)
        span = f"Result {last}" if len(panels) == 1 else f"Results {first + 1} to {last}"
        caption = "how often each score occurs for two neighbouring data sets."
        figure = figure_html(draw_panels(*panels), f"{span} of {len(findings)}: {caption}")
        body.append(figure)
    return page("What the audit found", "".join(body))


def _draw_scores(finding: Any, axes: Any) -> None:
    """Draw both histograms in front of the guarantee and the lower bound.

    A loss that only takes a few values is a spike, often exactly where the guarantee is: so lines
    stay behind, and every bar has an edge of its own.
    """
    edges, counts, neighbour_counts = (np.array(part) for part in finding.losses)
    for sign, label in ((-1, None), (1, "guarantee (epsilon)")):
        position = sign * finding.claimed
        axes.axvline(position, color="black", linestyle="--", linewidth=1, label=label, zorder=0.6)
    axes.axvline(finding.lower_bound, color=RED, linewidth=1.6, label="lower bound", zorder=0.7)
    for heights, colour, label in (
        (counts, BLUE, "one data set"),
        (neighbour_counts, ORANGE, "its neighbour"),
    ):
        axes.stairs(heights, edges, fill=True, alpha=0.35, color=colour, label=label, zorder=2)
        axes.stairs(heights, edges, color=colour, linewidth=1.1, zorder=3)
    axes.set_title(finding.name.replace(" / ", "\n"), fontsize=8)
    axes.set_yticks([])
    reach = 1.3 * max(finding.claimed, finding.lower_bound)
    low, high = min(edges[0], -reach), max(edges[-1], reach)
    axes.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))  # no spike on the frame
    axes.locator_params(axis="x", nbins=6)
    axes.set_ylim(0, 1.08 * max(counts.max(), neighbour_counts.max(), 1))
