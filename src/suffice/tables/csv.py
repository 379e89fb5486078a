"""CSV files: the dialect, the types of columns, and batches of rows.

Types of columns of texts are numbers, truth values, dates, or texts that stay texts. Each column's
type depends on its own cells. The decimal mark is one for the whole table: a comma if there are
columns that are numbers with it and none that is one with a point.

The byte-order mark and the first line tell the delimiter and, where they can, the encoding. Cells
of public columns tell the rest, or the owner declares it. No private cell decides anything, and no
private cell can fail: a character that cannot be decoded becomes the replacement character.

Arrow guesses types from the first block of bytes, and where that block ends depends on every cell
before it, private ones too. Here a column's type depends on its own first cells alone, and their
number is fixed. Columns that may not be looked at (a label, categories, ranges) are declared. They
are read as bytes, of which each cell becomes a text or a number by itself, or is missing. Nothing
is read of any column but the header before it is asked for. The decimal mark, and the encoding
where the first line does not tell it, come from the same public cells.

Nor does it depend on private cells whether a table can be read: Arrow refuses a row that reaches
over two ends of blocks, and longer labels move those; such a table is read in larger blocks.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds

from suffice.errors import ParameterError, TableError
from suffice.tables.columns import numbers_of
from suffice.tables.labels import texts_of

__all__ = [
    "BLOCKS",
    "ENDINGS",
    "CellTypes",
    "CsvFiles",
    "Dialect",
    "header_of",
    "looks_like_numbers",
    "open_stream",
    "read_header",
    "types_of_cells",
    "without_packing",
]


# A pattern, and what it stands for to strptime. Years have four digits: with two, nobody knows the
# century. Whether 03/04/2020 is in March or in April is told by other cells of the column, or not.
_DAY_FIRST, _MONTH_FIRST = "%d/%m/%Y", "%m/%d/%Y"
_CLOCKS = {"": "", r"[ T]\d{1,2}:\d\d": " %H:%M", r"[ T]\d{1,2}:\d\d:\d\d": " %H:%M:%S"}
_DATES = {
    r"\d{1,2}\.\d{1,2}\.\d{4}": ("%d.%m.%Y",),
    r"\d{4}/\d{1,2}/\d{1,2}": ("%Y/%m/%d",),
    r"\d{1,2}/\d{1,2}/\d{4}": (_DAY_FIRST, _MONTH_FIRST),
}
_AMBIGUOUS = (
    "holds dates in which day and month cannot be told apart. Write them as 2020-12-31, or leave"
    " the column out with --drop"
)
_MIXED = (
    "has decimal commas, but other columns have decimal points. Set the decimal mark with"
    " --decimal, or leave the column out with --drop"
)
_THOUSANDS = (
    "holds numbers such as 1.234, which may be thousands or decimals. Set the decimal mark with"
    " --decimal . or --decimal , or leave the column out with --drop"
)
_NO_TEXT = (
    "is not UTF-8. Save the table as CSV UTF-8, or name its encoding, for example --encoding"
    " latin-1"
)
# Digits, with signs that no number of ours has: 1,5 or 1.234,5 or 1 234 or 12 % or 3 EUR.
_ZEROS = r"^\s*0[0-9]+\s*$"
_GROUPED = r"^\s*[-+]?(?:[0-9]{1,3}|[1-9][0-9]{0,2}(?:\.[0-9]{3})+)\s*$"
_MONEY = r"(?:[$\u20ac\u00a3\u00a5]|EUR|USD|CHF|GBP|PLN|SEK|NOK|DKK|JPY|kr|z\u0142|Fr\.?)"
_LIKE_NUMBER = re.compile(
    rf"\s*{_MONEY}\s*[-+]?[0-9][0-9.,' \u00a0]*|\s*[-+]?[0-9][0-9.,' \u00a0]*{_MONEY}\s*"
    r"|\s*[-+]?[0-9]+(?:[.' \u00a0][0-9]{3})*,[0-9]+\s*%?\s*"
    r"|\s*[-+]?[0-9]{1,3}(?:[' \u00a0,][0-9]{3})+(?:[.,][0-9]+)?\s*%?\s*"
    r"|\s*[-+]?[0-9]+(?:[.,][0-9]+)?\s*%\s*"
)


@dataclass(frozen=True)
class CellTypes:
    """The types of columns of texts, found in their cells.

    Parameters
    ----------
    types : mapping of str to pyarrow.DataType
        The type of each column.
    decimal : str, optional
        The decimal mark. None if no cell has one.
    formats : list of str
        The formats of dates, as strptime knows them.
    refused : mapping of str to str
        Why a column cannot be used as it is.
    zeros : sequence of str
        Columns of numbers with cells that begin with 0.
    """

    types: Mapping[str, pa.DataType]
    decimal: str | None
    formats: list[str] = field(default_factory=list)
    refused: Mapping[str, str] = field(default_factory=dict)
    zeros: Sequence[str] = ()


def types_of_cells(
    cells: Mapping[str, pa.ChunkedArray], decimal: str | None, *, commas_between: bool = True
) -> CellTypes:
    """Return the types of columns; ``decimal`` is the decimal mark if it is declared.

    Where no ``commas_between`` columns suggest points, numbers that may be thousands are refused.
    """
    point = {name: _type_of(column, decimal or ".") for name, column in cells.items()}
    types, refused = dict(point), dict[str, str]()
    if decimal is None:
        if not commas_between:
            unclear = [n for n, t in point.items() if _may_be_thousands(cells[n], t)]
            refused |= dict.fromkeys(unclear, _THOUSANDS)
        decimal, with_commas = _decimal_mark(cells, point)
        if decimal == ",":
            types |= dict.fromkeys(with_commas, pa.float64())
        else:
            refused |= dict.fromkeys(with_commas, _MIXED)
    formats: dict[str, None] = {}
    for name, kind in types.items():
        if pa.types.is_binary(kind):
            refused[name] = _NO_TEXT
        elif _is_text(kind) and name not in refused:
            date_formats = _date_formats(cells[name])
            if len(date_formats) > 1:
                refused[name] = _AMBIGUOUS
            elif date_formats:
                types[name] = pa.timestamp("s")
                formats |= dict.fromkeys(date_formats)
    if all(any(form.startswith(first) for form in formats) for first in (_DAY_FIRST, _MONTH_FIRST)):
        dated = [n for n, kind in types.items() if kind == pa.timestamp("s")]
        refused |= dict.fromkeys(dated, _AMBIGUOUS)
    integer_columns = [name for name, kind in types.items() if pa.types.is_integer(kind)]
    zeros = [name for name in integer_columns if _some_match(cells[name], _ZEROS)]
    return CellTypes(types, decimal, list(formats), refused, zeros)


def _decimal_mark(
    cells: Mapping[str, pa.ChunkedArray], point: Mapping[str, pa.DataType]
) -> tuple[str | None, list[str]]:
    """Return the decimal mark, given types ``point`` if it is a point, and who has commas."""
    texts = [name for name, kind in point.items() if _is_text(kind) and _holds(cells[name], ",")]
    with_commas = [name for name in texts if pa.types.is_floating(_type_of(cells[name], ","))]
    numbers = [name for name, kind in point.items() if pa.types.is_floating(kind)]
    if any(_holds(cells[name], ".") for name in numbers):
        return ".", with_commas
    return ("," if with_commas else None), with_commas


def _may_be_thousands(cells: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Say whether every number is whole, or has three digits behind each point, no zero first."""
    if not pa.types.is_floating(kind):
        return False
    words = pc.unique(cells.drop_null())
    return bool(pc.all(pc.match_substring_regex(words, _GROUPED)).as_py())


def _some_match(cells: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(cells, pattern)).as_py())


def _holds(cells: pa.ChunkedArray, sign: str) -> bool:
    return bool(pc.any(pc.match_substring(cells, sign)).as_py())


def looks_like_numbers(text: str) -> bool:
    """Say whether a text is a number in a form that is not read as one."""
    return _LIKE_NUMBER.fullmatch(text) is not None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind))


def _type_of(cells: pa.ChunkedArray, decimal: str) -> pa.DataType:
    """Return the type of cells; whatever they are, they have one: bytes, if they are no text."""
    if not _is_text(cells.type):
        return pa.binary()
    written = io.BytesIO()
    table = pa.table({"cells": cells})
    pa.csv.write_csv(table, written, pa.csv.WriteOptions(include_header=False))
    if not written.tell():
        return pa.null()
    parsed = pa.csv.read_csv(
        pa.BufferReader(written.getvalue()),
        pa.csv.ReadOptions(column_names=["cells"], block_size=max(written.tell(), 1)),
        pa.csv.ParseOptions(ignore_empty_lines=False, newlines_in_values=True),
        pa.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False, decimal_point=decimal
        ),
    )
    return parsed.schema.field(0).type


def _date_formats(cells: pa.ChunkedArray) -> list[str]:
    """Return the formats in which all cells of a column are dates; none if they are no dates."""
    words = pc.unique(cells.drop_null())
    for pattern, formats in _DATES.items():
        for clock, suffix in _CLOCKS.items():
            full_pattern = rf"^\s*{pattern}{clock}\s*$"
            if len(words) and pc.all(pc.match_substring_regex(words, full_pattern)).as_py():
                return [form + suffix for form in formats if _all_parse(words, form + suffix)]
    return []


def _all_parse(words: pa.Array, form: str) -> bool:
    days = pc.strptime(pc.utf8_trim_whitespace(words), form, unit="s", error_is_null=True)
    return bool(days.null_count == 0)


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


_TYPED_ROWS = 1 << 16  # of which a type is inferred
BLOCKS = (1 << 20, 1 << 24, 1 << 28)  # bytes that are parsed at once: the next if a row is longer
_ACROSS = "straddling"  # Arrow's word for a row that reaches over two ends of blocks


def header_of(path: Path, dialect: Dialect) -> list[str]:
    """Return the names that the first line of a CSV file, or of a folder's first one, states."""
    return read_header(_files_of(path)[0], dialect)[0]


def _files_of(path: Path) -> list[Path]:
    listed = ds.dataset(path, format="csv", schema=pa.schema([])).files  # it opens nothing
    return [Path(file) for file in listed]


class CsvFiles:
    """CSV files of one header; ``declared`` holds the types of columns that are not looked at.

    An empty cell is missing, a quoted empty text is not. Elsewhere words such as NA and null are
    missing too, but a column that is declared to be text holds them as they are: they may be a
    class. A cell there that is no UTF-8 is read as Latin-1, each on its own. In a column that is
    declared to be numbers, every cell that is no number is missing. In a table of one
    column an empty line is a missing value. ``refused`` says why a column cannot be used, ``zeros``
    are columns of numbers that begin with zeros.
    """

    def __init__(
        self, path: Path, declared: Mapping[str, pa.DataType], declared_dialect: Dialect
    ) -> None:
        self._files = _files_of(path)
        names, dialect = read_header(self._files[0], declared_dialect)
        for file in self._files[1:]:
            if set(read_header(file, dialect)[0]) != set(names):
                raise TableError(
                    f"{path}: the first line of {file.name} names other columns than the first"
                    " file. Files of a folder must have the same columns."
                )
        self._names, self.dialect = names, dialect
        self._declared = declared
        self._formats: list[str] = []
        cells = self._first_cells([name for name in names if name not in declared])
        commas = self.dialect.delimiter == ","
        inferred = types_of_cells(cells, self.dialect.decimal, commas_between=commas)
        self.dialect = replace(self.dialect, decimal=inferred.decimal)
        self._formats, self.refused = inferred.formats, inferred.refused
        self.zeros = inferred.zeros
        types = {**inferred.types, **declared}
        self.schema = pa.schema([(name, types[name]) for name in names])

    def readers(self, columns: Sequence[str]) -> list[Iterator[pa.RecordBatch]]:
        """Return one reader for declared columns, and one for the other columns."""
        apart = [name for name in columns if name in self._declared]
        others = [name for name in columns if name not in self._declared]
        readers = [self._read(self.schema, others)] if others else []
        if apart:
            raw = pa.schema([(name, pa.binary()) for name in apart])
            cells = self._read(raw, apart, null_values=[""])
            readers.append(map(self._as_declared, cells))
        return readers

    def _as_declared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return bytes as texts and numbers, each cell by itself."""
        decimal, kinds = (
            self.dialect.decimal or ".",
            [self._declared[n] for n in batch.schema.names],
        )
        columns = [
            texts_of(cells, kind) if pa.types.is_string(kind) else numbers_of(cells, decimal)
            for cells, kind in zip(batch.columns, kinds, strict=True)
        ]
        return pa.record_batch(columns, names=batch.schema.names)

    def _read(
        self, schema: pa.Schema, columns: list[str], **words: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows. If a row is too long for a block, continue in larger blocks."""
        done = 0
        for block in BLOCKS:
            try:
                for batch in _skip_rows(done, self._batches(schema, columns, block, words)):
                    done += batch.num_rows
                    yield batch
            except pa.ArrowInvalid as error:
                if _ACROSS not in str(error) or block == BLOCKS[-1]:
                    raise
            else:
                return

    def _batches(
        self, schema: pa.Schema, columns: list[str], block: int, words: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of every file, parsed in blocks of so many bytes."""
        lines = pa.csv.ParseOptions(
            delimiter=self.dialect.delimiter,
            quote_char=self.dialect.quote,
            ignore_empty_lines=len(self._names) > 1,
            # A cell in quotes may hold a line's end: a reader that did not know it would cut there.
            newlines_in_values=True,
        )
        cells = pa.csv.ConvertOptions(
            column_types={name: schema.field(name).type for name in columns},
            include_columns=columns,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            decimal_point=self.dialect.decimal or ".",
            timestamp_parsers=[pa.csv.ISO8601, *self._formats],
            **words,
        )
        for file in self._files:
            with open_stream(file, self.dialect.encoding) as stream:
                yield from pa.csv.open_csv(
                    stream,
                    pa.csv.ReadOptions(block_size=block, skip_rows=self.dialect.above),
                    lines,
                    cells,
                )

    def _first_cells(self, names: list[str]) -> dict[str, pa.ChunkedArray]:
        """Return the first cells of public columns as texts; they may settle the encoding.

        Cells that are no text though the encoding is settled stay bytes.
        """
        if not names:
            return {}
        binary = pa.schema([(name, pa.binary()) for name in names])
        batches = list(_take_rows(self._read(binary, names), _TYPED_ROWS))
        columns = {}
        for name in names:
            column = pa.chunked_array([b.column(name) for b in batches], pa.binary())
            columns[name] = _as_text_column(column)
        is_plain = all(pa.types.is_string(column.type) for column in columns.values())
        if not is_plain and self.dialect.encoding is None:
            self.dialect = replace(self.dialect, encoding="latin-1", guessed=True)
            return self._first_cells(names)
        return columns


def _as_text_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return column


def _take_rows(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the first so many rows, and at least one batch, if there is one."""
    for batch in batches:
        yield batch.slice(0, rows)
        rows -= batch.num_rows
        if rows <= 0:
            return


def _skip_rows(rows: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield all rows but the first so many."""
    for batch in batches:
        rest = batch.slice(min(rows, batch.num_rows))
        rows -= batch.num_rows - rest.num_rows
        yield rest
