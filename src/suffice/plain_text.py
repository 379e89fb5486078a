"""Text from files is data: nothing that a stranger wrote steers a terminal, a page or a sheet.

Everything that suffice prints, logs or puts into HTML or CSV passes through here. What cannot be
seen (controls, escapes, bidirectional marks, separators, halves of characters, letters that look
blank) is shown as an escape; what is long is cut, and the cut says so; what could be read as a
sentence of ours is put in quotes. Values in Parquet and Feather files, and those that a program
reads, stay as they are.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["FromFile", "escaped", "listed", "markup", "name", "phrase", "quoted", "sheet_cell"]

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
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?)?")


class FromFile(str):
    """A phrase that a stranger may have written: it is shown in quotes, whatever it says."""

    __slots__ = ()


def escaped(text: str, most: int = _LONGEST_LINE) -> str:
    """Return ``text`` on one line: what cannot be seen as an escape, runs of blanks as a count."""
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
        seen = letter.isprintable() and letter not in _BLANK_LETTERS and marks <= _MARKS
        yield letter if seen else letter.encode("unicode_escape", "surrogatepass").decode()


def quoted(text: str, most: int = _LONGEST_PHRASE) -> str:
    """Return ``text`` escaped and in quotes, so that it is seen where it begins and ends."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped(plain, most)}"'


def name(value: Any) -> str:
    """Return a class, column, state or bag for reading: as it is if it is a few plain words."""
    text = str(value)
    return text if _plain(text, _NAME_WORD, _LONGEST_NAME) else quoted(text, _LONGEST_NAME)


def phrase(text: str) -> str:
    """Return part of a sentence: as it is if it is ours and cannot end the sentence."""
    if isinstance(text, FromFile):
        return quoted(text)
    return text if _plain(text, _PHRASE_WORD, _LONGEST_PHRASE) else quoted(text)


def _plain(text: str, word: re.Pattern[str], most: int) -> bool:
    """Say whether a text is short and made of plain words, one blank between them."""
    words = text.split(" ") if len(text) <= most else [""]
    return all(map(word.fullmatch, words)) and escaped(text) == text


def listed(values: Iterable[Any], last: str = ", ", each: Callable[[Any], str] = name) -> str:
    """Return the first few of many names, and how many more there are."""
    items = list(values)
    shown = [each(item) for item in items[:_LISTED]]
    if len(items) > _LISTED:
        return f"{', '.join(shown)} and {len(items) - _LISTED:,} more"
    return ", ".join(shown[:-1]) + last + shown[-1] if len(shown) > 1 else "".join(shown)


def markup(text: str) -> str:
    """Return ``text`` as HTML that shows it, line by line, and does nothing."""
    return html.escape("\n".join("".join(_visible(line)) for line in text.split("\n")))


def sheet_cell(text: str) -> str:
    """Return ``text`` for a cell of a CSV file that a spreadsheet takes for no formula.

    One that begins as a formula does gets an apostrophe in front; numbers, and a sign alone, do not
    need it.
    """
    plain = "".join(_visible(text))
    formula = text.startswith(_FORMULA) and not _PLAIN_NUMBER.fullmatch(text)
    return f"'{plain}" if formula else plain
