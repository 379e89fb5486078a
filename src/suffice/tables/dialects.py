"""How a CSV file is written: the delimiter, the decimal mark, the encoding.

The byte-order mark and the first line tell the delimiter and, where they can, the encoding. Cells
of public columns tell the rest (`suffice.tables.csv_files`), or the owner declares it. No private
cell decides anything, and no private cell can fail: a character that cannot be decoded becomes the
replacement character.
"""

import codecs
import csv
import io
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from suffice.errors import ParameterError, TableError

__all__ = ["ENDINGS", "Dialect", "open_stream", "read_header", "without_packing"]

ENDINGS = (".csv", ".tsv", ".txt")
_PACKINGS = (".gz", ".bz2", ".zst")
_LONGEST_HEADER = 1 << 20
_SIGNS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "bar": "|", "pipe": "|"}
_DECIMALS = {".": "decimal points", ",": "decimal commas"}
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BOTH_WAYS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
# What is called Latin-1 is nearly always Windows' larger set; the web's standard reads it so too.
_LATIN = "cp1252"
_SIGN_LINE = re.compile(r'"?sep=(.)"?')
_NUMBER = re.compile(r"\s*[-+]?[0-9][0-9.,]*(?:[eE][-+]?[0-9]+)?\s*")
_DECIMAL = re.compile(r"\s*[-+]?[0-9]+[.,][0-9]+(?:[eE][-+]?[0-9]+)?\s*")


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written, as far as it is declared or was found. None means not known yet.

    Parameters
    ----------
    delimiter : str, optional
        The character between columns, or a word for it, such as "tab".
    decimal : str, optional
        The decimal mark, "." or ",".
    encoding : str, optional
        A name of an encoding that Python knows.
    quote : str
        The quotation mark around cells.
    guessed : bool
        Whether the encoding is only known not to be UTF-8.
    above : int
        The number of lines above the names. Spreadsheets write ``sep=;`` there.
    """

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    quote: str = '"'
    guessed: bool = False
    above: int = 0

    def __post_init__(self) -> None:
        sign = _WORDS.get(self.delimiter or "", self.delimiter)
        object.__setattr__(self, "delimiter", sign)
        if sign is not None and (len(sign) != 1 or not sign.isascii() or sign in '"\r\n'):
            raise ParameterError(
                "The delimiter must be one character, for example ';', or the word tab."
            )
        if self.decimal not in {None, *_DECIMALS}:
            raise ParameterError("The decimal mark must be '.' or ','.")
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _codec(self.encoding))

    def __str__(self) -> str:
        sign = self.delimiter or ","
        encoding = "latin-1" if self.encoding == _LATIN else self.encoding or "utf-8"
        facts = [_SIGNS.get(sign, f"{sign!r} between columns"), _DECIMALS.get(self.decimal or "")]
        return ", ".join([*filter(None, facts), encoding + " (guessed)" * self.guessed])


def _codec(name: str) -> str:
    """Return the name of an encoding in which no cell can change the next one."""
    try:
        codec = codecs.lookup(name).name
        fits = codec.startswith(("utf-16", "utf-32")) or _keeps_cells_apart(codec, ",")
    except (LookupError, TypeError, ValueError):
        fits = False
    if not fits:
        raise ParameterError(
            f"Tables in the encoding {name!r} cannot be read. Save the table as UTF-8, or name its"
            " encoding, for example latin-1, cp1250, utf-16 or shift_jis."
        ) from None
    return _LATIN if codec == "iso8859-1" else "utf-8" if codec == "utf-8-sig" else codec


def _keeps_cells_apart(codec: str, sign: str) -> bool:
    """Say whether ASCII bytes mean themselves, and no byte before the delimiter changes it."""
    if any(bytes([byte]).decode(codec, "replace") != chr(byte) for byte in range(128)):
        return False
    if b"\\u002c".decode(codec, "replace") != "\\u002c":  # a sign that is spelt out
        return False
    ends = [bytes([byte]) + sign.encode() + b"\n" for byte in range(128, 256)]
    return all(end.decode(codec, "replace").endswith(sign + "\n") for end in ends)


def without_packing(name: str) -> str:
    """Return the name of a file without the ending of a compressed one."""
    lower = name.lower()
    return next((lower[: -len(end)] for end in _PACKINGS if lower.endswith(end)), lower)


def open_stream(path: Path, encoding: str | None) -> pa.NativeFile:
    """Return the bytes of a file, unpacked, as UTF-8, with lines that end in LF.

    Of a CR LF in quotes Arrow loses half where a block ends between the two, and the lengths of
    private cells move the ends of blocks. So there is none, in cells either.
    """
    raw = pa.input_stream(str(path), compression="detect")
    is_utf8 = encoding in {None, "utf-8"}
    decoder = None if is_utf8 else codecs.getincrementaldecoder(encoding or "")(errors="replace")
    pending = b""

    def convert(part: bytes) -> bytes:
        nonlocal pending
        data = pending + (bytes(part) if decoder is None else decoder.decode(bytes(part)).encode())
        complete = data.rstrip(b"\r")
        data, pending = complete, data[len(complete) :]
        while b"\r\n" in data:  # again: the LF may stand behind several
            data = data.replace(b"\r\n", b"\n")
        return data

    return pa.TransformInputStream(raw, convert)


def read_header(path: Path, declared: Dialect) -> tuple[list[str], Dialect]:
    """Return the names of the columns, and the dialect as far as the first line tells it.

    Of what was read beyond the first line nothing is looked at.
    """
    with pa.input_stream(str(path), compression="detect") as stream:
        start = stream.read(_LONGEST_HEADER)
    encoding = declared.encoding or _encoding_of(start)
    if encoding in {"utf-16", "utf-32"} and not start.startswith(_BOTH_WAYS):
        encoding += "-le"  # as most programs write it where there is no mark
    line, above = _first_line(start, encoding), 0
    stated = _SIGN_LINE.fullmatch(line)
    if stated:
        line, above = _first_line(start, encoding, after=1), 1
        declared = replace(declared, delimiter=declared.delimiter or stated[1])
    quote = "'" if re.match(r"\s*'[^',;\t|]*'\s*[,;\t|]", line) else '"'
    sign = declared.delimiter or _delimiter_of(line, path, quote)
    guessed = encoding == _LATIN and declared.encoding is None
    if encoding and not encoding.startswith("utf-") and not _keeps_cells_apart(encoding, sign):
        raise TableError(
            f"{path}: the encoding {encoding} cannot be used with this delimiter. Save the table"
            " as UTF-8."
        )
    dialect = replace(
        declared, delimiter=sign, encoding=encoding, quote=quote, guessed=guessed, above=above
    )
    rows = csv.reader(io.StringIO(line, newline=""), delimiter=sign, quotechar=quote)
    names = next(rows, [])
    _check_names(names, path)
    return names, dialect


def _encoding_of(start: bytes) -> str | None:
    """Return the encoding that the mark or the first line tells; None if it is plain ASCII."""
    for mark, encoding in _MARKS:
        if start.startswith(mark):
            return encoding
    line = re.split(rb"[\r\n]", start, maxsplit=1)[0]
    if b"\0" in line:  # every other byte of plain letters
        return "utf-16-le" if line.index(b"\0") % 2 else "utf-16-be"
    try:
        return "utf-8" if line.decode() and not line.isascii() else None
    except UnicodeDecodeError:
        return _LATIN


def _first_line(start: bytes, encoding: str | None, after: int = 0) -> str:
    """Return the first line, or one ``after`` others; a name in quotes may hold a line's end."""
    decoder = codecs.getincrementaldecoder(encoding or "utf-8")(errors="replace")
    text = decoder.decode(start).removeprefix("\ufeff")
    for _ in range(after):
        text = re.split(r"\r\n|\r|\n", text, maxsplit=1)[-1]
    return text[: _end_of_line(text)]


def _end_of_line(text: str) -> int:
    """Return where the first line ends; a quote opens a name at its beginning alone."""
    inside, fresh = False, True
    for position, sign in enumerate(text):
        if sign in "\r\n" and not inside:
            return position
        if sign == '"' and (inside or fresh):
            inside = not inside
        fresh = sign in _SIGNS
    return len(text)


def _delimiter_of(line: str, path: Path, quote: str) -> str:
    """Return the sign that stands most often between the names of the first line."""
    if without_packing(path.name).endswith(".tsv"):
        return "\t"
    unquoted = re.sub(f"{quote}[^{quote}]*{quote}", "", line)
    counts = {sign: unquoted.count(sign) for sign in _SIGNS}
    most = max(counts.values())
    best = [sign for sign, count in counts.items() if count == most]
    if most and len(best) > 1:
        words = " and ".join(_SIGNS[sign] for sign in best)
        raise TableError(
            f"{path} has equally many {words} in its first line. Set the one that separates columns"
            " with --delimiter."
        )
    return best[0]


def _check_names(names: list[str], path: Path) -> None:
    """Raise unless the first line names each column once. The error shows only names."""
    trouble = None
    twice = sorted({name for name in names if names.count(name) > 1})
    if not any(name.strip() for name in names):
        trouble = (
            "it is empty, or its first line is. Put the names of the columns in the first line"
        )
    elif all(map(_NUMBER.fullmatch, names)) or any(map(_DECIMAL.fullmatch, names)):
        trouble = "its first line holds numbers. Add a first line that names the columns"
    elif twice:
        repeated = f"{twice[0]!r}" if twice[0].strip() else "a column without a name"
        trouble = f"its first line has {repeated} more than once. Rename all but one of them"
    if trouble is not None:
        raise TableError(f"{path} is not a readable table: {trouble}.")
