"""Make text from files harmless: it can steer no terminal, no page and no spreadsheet.

All text that suffice prints, logs or writes into HTML or CSV passes through this module. Invisible
characters (controls, escapes, bidirectional marks, separators, halves of characters, letters that
look blank) are shown as escapes. Long text is cut, and the cut is marked. Text that could look like
a sentence of ours is put in quotes. Values in Parquet and Feather files, and values that a program
reads, stay as they are.

Notes to whoever runs a program (how a table was read, what was left out, what looks odd) go to the
logger ``suffice``. The command line prints them. A program prints nothing unless it listens. A note
is about what is public, or about what the caller may see: others can read the terminal.
"""

import html
import logging
import re
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_LONGEST_NAME = 60
_LONGEST_PHRASE = 300
_LONGEST_LINE = 4000  # a guarantee and all that it rests on
_LISTED = 12  # of many values
_MARKS = 4  # on one letter: more of them paint over the lines above
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters that nobody can see
_BLANKS = re.compile(r" {3,}")
# Words with a full stop inside them at most, as numbers have: nothing that ends a sentence.
_NAME_WORD = re.compile(r"[\w(<>+%/-][\w(<>+%/)=-]*(\.[\w(<>+%/)=-]+)*")
_PHRASE_WORD = re.compile(r"[\w(,:;/'+%-][\w(,:;/')+%-]*(\.[\w(,:;/')+%-]+)*")
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # the last four: as wide letters
_LEFT = 'style="text-align:left"'  # notebooks put cells to the right, also sentences
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?)?")


class FromFile(str):
    """A phrase from a file: `phrase` always shows it in quotes."""

    __slots__ = ()


def escaped(text: str, most: int = _LONGEST_LINE) -> str:
    """Return ``text`` on one line, with invisible characters as escapes.

    Parameters
    ----------
    text
        Any text.
    most
        The number of characters after which it is cut.

    Examples
    --------
    >>> escaped("a" + chr(27)) == "a" + chr(92) + "x1b"
    True
    >>> escaped("abcdef", 3)
    'abc... [3 characters more]'
    """
    left_out = len(text) - most
    text = text[:most]
    if not text.isprintable() or not text.isascii():
        text = "".join(_visible(text))
    text = _BLANKS.sub(lambda run: f" [{len(run[0])} blanks] ", text)
    return f"{text}... [{left_out:,} characters more]" if left_out > 0 else text


def _visible(text: str) -> Iterable[str]:
    """Yield each character, or its escape if it would move, hide or paint over others."""
    marks = 0
    for letter in text:
        marks = marks + 1 if unicodedata.category(letter) in {"Mn", "Me"} else 0
        visible = letter.isprintable() and letter not in _BLANK_LETTERS and marks <= _MARKS
        yield letter if visible else letter.encode("unicode_escape", "surrogatepass").decode()


def quoted(text: str, most: int = _LONGEST_PHRASE) -> str:
    """Return ``text`` escaped and in quotes, which it cannot close itself.

    Examples
    --------
    >>> quoted('a "b"') == '"a ' + chr(92) + '"b' + chr(92) + '""'
    True
    """
    protected = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped(protected, most)}"'


def name(value: Any) -> str:
    """Return the name of a class, column, value or bag, in quotes unless it is a few plain words.

    Examples
    --------
    >>> name("blood pressure"), name("x = 1")
    ('blood pressure', '"x = 1"')
    """
    text = str(value)
    return text if _is_plain(text, _NAME_WORD, _LONGEST_NAME) else quoted(text, _LONGEST_NAME)


def phrase(text: str) -> str:
    """Return part of a sentence, in quotes if it is from a file or could end the sentence.

    Examples
    --------
    >>> phrase("the rows"), phrase(FromFile("the rows"))
    ('the rows', '"the rows"')
    """
    if isinstance(text, FromFile):
        return quoted(text)
    return text if _is_plain(text, _PHRASE_WORD, _LONGEST_PHRASE) else quoted(text)


def _is_plain(text: str, word: re.Pattern[str], most: int) -> bool:
    """Say whether a text is short and made of plain words, one blank between them."""
    words = text.split(" ") if len(text) <= most else [""]
    return all(map(word.fullmatch, words)) and escaped(text) == text


def listed(values: Iterable[Any], last: str = ", ", each: Callable[[Any], str] = name) -> str:
    """Return the first few of many names, and how many more there are.

    Parameters
    ----------
    values
        What is listed.
    last
        What stands before the last one.
    each
        How one of them is written.

    Examples
    --------
    >>> listed(["a", "b", "c"], last=" and ")
    'a, b and c'
    """
    items = list(values)
    texts = [each(item) for item in items[:_LISTED]]
    if len(items) > _LISTED:
        return f"{', '.join(texts)} and {len(items) - _LISTED:,} more"
    return ", ".join(texts[:-1]) + last + texts[-1] if len(texts) > 1 else "".join(texts)


def markup(text: str) -> str:
    """Return ``text`` as HTML that shows it, line by line, without any markup of its own.

    Examples
    --------
    >>> markup("<b>")
    '&lt;b&gt;'
    """
    return html.escape("\n".join("".join(_visible(line)) for line in text.split("\n")))


def sheet_cell(text: str) -> str:
    """Return ``text`` for a cell of a CSV file that no spreadsheet takes for a formula.

    Text that begins like a formula gets an apostrophe in front. Numbers, and a single sign, do not.

    Examples
    --------
    >>> sheet_cell("=1+1"), sheet_cell("-3.5")
    ("'=1+1", '-3.5')
    """
    visible = "".join(_visible(text))
    formula = text.startswith(_FORMULA) and not _PLAIN_NUMBER.fullmatch(text)
    return f"'{visible}" if formula else visible


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
    >>> html_table("A <b>", [], [])
    '<table><caption style="text-align:left">A &lt;b&gt;</caption><tr></tr></table>'
    """
    head = _line("th", columns)
    body = "".join(_line("td", row) for row in rows)
    below = "".join(f"<p>{markup(escaped(note))}</p>" for note in notes)
    caption = f"<caption {_LEFT}>{markup(escaped(title))}</caption>"
    return f"<table>{caption}{head}{body}</table>{below}"


def _line(tag: str, cells: Sequence[str]) -> str:
    texts = (markup(escaped(cell)) for cell in cells)
    return "<tr>" + "".join(f"<{tag} {_LEFT}>{text}</{tag}>" for text in texts) + "</tr>"


def html_facts(facts: Iterable[tuple[str, str]]) -> str:
    """Return names and values as an HTML table, a pair a line.

    Examples
    --------
    >>> html_facts([])
    '<table></table>'
    """
    pairs = ((markup(head), markup(text)) for head, text in facts)
    lines = (f"<tr><th {_LEFT}>{head}</th><td {_LEFT}>{text}</td></tr>" for head, text in pairs)
    return f"<table>{''.join(lines)}</table>"


LOGGER = logging.getLogger("suffice")


def note(line: str) -> None:
    """Send a line to whoever listens to the logger ``suffice``.

    Parameters
    ----------
    line : str
        A sentence about what is public, or about what the caller may see.
    """
    LOGGER.info(line)


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


WATCH = threading.Lock()  # one sign of life at a time, and none beside a progress bar


@contextmanager
def sign_of_life(activity: str, after: float = 4.0) -> Iterator[None]:
    """Count the seconds of a long call for a person who watches, and for nobody else.

    On a terminal and in a notebook, one line of stderr shows them ``after`` so many seconds. It
    disappears at the end.

    Parameters
    ----------
    activity : str
        What is going on.
    after : float
        When the line appears.
    """
    stream = sys.stderr
    notebook = type(stream).__module__.partition(".")[0] == "ipykernel"
    if not (notebook or (stream is not None and stream.isatty())) or not WATCH.acquire(
        blocking=False
    ):
        yield
        return
    done = threading.Event()

    def count() -> None:
        seconds = after
        while not done.wait(after if seconds == after else 1.0):
            stream.write(f"\r{activity}: {seconds:.0f} s")
            stream.flush()
            seconds += 1.0
        if seconds > after:
            stream.write(f"\r{' ' * (len(activity) + 12)}\r")
            stream.flush()

    counting = threading.Thread(target=count, daemon=True)
    counting.start()
    try:
        yield
    finally:
        done.set()
        counting.join()
        WATCH.release()


@contextmanager
def collected_notes() -> Iterator[list[str]]:
    """Collect all notes in a list until the block ends. Nobody else receives them.

    Yields
    ------
    list of str
        The notes so far.

    Examples
    --------
    >>> from suffice.plain_text import collected_notes, note
    >>> with collected_notes() as lines:
    ...     note("The table has 10 rows.")
    >>> lines
    ['The table has 10 rows.']
    """
    collector, handlers, level = _Collector(), LOGGER.handlers, LOGGER.level
    LOGGER.handlers = [collector]
    LOGGER.setLevel(logging.INFO)
    try:
        yield collector.lines
    finally:
        LOGGER.handlers = handlers
        LOGGER.setLevel(level)
