"""Tables as text for a terminal and as HTML for a notebook; all text is escaped."""

from collections.abc import Sequence

from suffice.plain_text import escaped, markup

__all__ = ["html_table", "text_table"]


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
