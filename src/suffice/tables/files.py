"""Files of tables: CSV with its dialects, Parquet, Feather and sheets; and tables to files.

Columns of texts are numbers, truth values, dates, or texts that stay texts. Arrow guesses types
from the first block of bytes, and where that block ends depends on every cell before it, private
ones too. Here a column's type depends on its own first cells alone, and their number is fixed. The
byte-order mark and the first line of a CSV file tell the delimiter and, where they can, the
encoding. The first cells of public columns tell the rest, or the owner declares it. The decimal
mark is one for the whole table: a comma if there are columns that are numbers with it and none that
is one with a point.

Columns that may not be looked at (a label, categories, ranges) are declared. They are read as
bytes, of which each cell becomes a text or a number by itself, or is missing; a character that
cannot be decoded becomes the replacement character. Nothing is read of any column but the header
before it is asked for.

Nor does it depend on private cells whether a table can be read: Arrow refuses a row that reaches
over two ends of blocks, and longer labels move those; such a table is read in larger blocks.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.fs

from suffice.errors import ParameterError, StorageError, TableError
from suffice.plain_text import listed, note, sheet_cell
from suffice.tables import table as tables_table
from suffice.tables.columns import (
    check_one_type,
    numbers_of,
    plain_batch,
    plain_schema,
    position_of,
    texts_of,
)
from suffice.tables.sheets import read_sheet, sheet_names
from suffice.tables.table import MemoryTable, Table, equal_batches, read_ahead

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
    " --read decimal=, or leave the column out with --drop"
)
_THOUSANDS = (
    "holds numbers such as 1.234, which may be thousands or decimals. Set the decimal mark with"
    " --read decimal=. or --read decimal=, or leave the column out with --drop"
)
_NO_TEXT = (
    "is not UTF-8. Save the table as CSV UTF-8, or name its encoding, for example --read"
    " encoding=latin-1"
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
    """The types of columns of texts, found in their cells."""

    types: Mapping[str, pa.DataType]
    decimal: str | None  # the decimal mark, None if no cell has one
    formats: list[str] = field(default_factory=list)  # of dates, as strptime knows them
    refused: Mapping[str, str] = field(default_factory=dict)  # why a column cannot be used as it is
    zeros: Sequence[str] = ()  # columns of numbers with cells that begin with 0


def types_of_cells(
    cells: Mapping[str, pa.ChunkedArray], decimal: str | None, *, commas_between: bool = True
) -> CellTypes:
    """Return the types of columns; ``decimal`` is the decimal mark if it is declared.

    Where no ``commas_between`` columns suggest points, numbers that may be thousands are refused.
    """
    point = {name: _type_of(column, decimal or ".") for name, column in cells.items()}
    types, refused = dict(point), dict[str, str]()
    if decimal is None:
        floats = [name for name, kind in point.items() if pa.types.is_floating(kind)]
        if not commas_between:
            for name in floats:  # whole, or with three digits behind each point, no zero first
                words = pc.unique(cells[name].drop_null())
                if pc.all(pc.match_substring_regex(words, _GROUPED)).as_py():
                    refused[name] = _THOUSANDS
        with_commas = [
            name
            for name, kind in point.items()
            if pa.types.is_string(kind)
            and pc.any(pc.match_substring(cells[name], ",")).as_py()
            and pa.types.is_floating(_type_of(cells[name], ","))
        ]
        if any(pc.any(pc.match_substring(cells[name], ".")).as_py() for name in floats):
            decimal = "."
        elif with_commas:
            decimal = ","
        if decimal == ",":
            types |= dict.fromkeys(with_commas, pa.float64())
        else:
            refused |= dict.fromkeys(with_commas, _MIXED)
    formats: dict[str, None] = {}
    for name, kind in types.items():
        if pa.types.is_binary(kind):
            refused[name] = _NO_TEXT
        elif pa.types.is_string(kind) and name not in refused:
            date_formats = _date_formats(cells[name])
            if len(date_formats) > 1:
                refused[name] = _AMBIGUOUS
            elif date_formats:
                types[name] = pa.timestamp("s")
                formats |= dict.fromkeys(date_formats)
    if all(any(form.startswith(first) for form in formats) for first in (_DAY_FIRST, _MONTH_FIRST)):
        dated = [n for n, kind in types.items() if kind == pa.timestamp("s")]
        refused |= dict.fromkeys(dated, _AMBIGUOUS)
    zeros = [
        name
        for name, kind in types.items()
        if pa.types.is_integer(kind)
        and pc.any(pc.match_substring_regex(cells[name], _ZEROS)).as_py()
    ]
    return CellTypes(types, decimal, list(formats), refused, zeros)


def looks_like_numbers(text: str) -> bool:
    """Say whether a text is a number in a form that is not read as one."""
    return _LIKE_NUMBER.fullmatch(text) is not None


def _type_of(cells: pa.ChunkedArray, decimal: str) -> pa.DataType:
    """Return the type of cells; whatever they are, they have one: bytes, if they are no text."""
    if not pa.types.is_string(cells.type):
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
    for pattern, days in _DATES.items():
        for clock, suffix in _CLOCKS.items():
            full_pattern = rf"^\s*{pattern}{clock}\s*$"
            if len(words) and pc.all(pc.match_substring_regex(words, full_pattern)).as_py():
                trimmed, formats = pc.utf8_trim_whitespace(words), [day + suffix for day in days]
                parsed = [pc.strptime(trimmed, f, unit="s", error_is_null=True) for f in formats]
                return [f for f, dates in zip(formats, parsed, strict=True) if not dates.null_count]
    return []


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
    """How a CSV file is written, as far as it is declared or was found; None is not known yet."""

    delimiter: str | None = None  # the character between columns, or a word for it, such as "tab"
    decimal: str | None = None  # the decimal mark, "." or ","
    encoding: str | None = None  # a name that Python knows
    quote: str = '"'  # around cells
    guessed: bool = False  # whether the encoding is only known not to be UTF-8
    above: int = 0  # lines above the names: spreadsheets write ``sep=;`` there

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


def _without_packing(name: str) -> str:
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

    Of what was read beyond the first line nothing is looked at. It must name each column once; an
    error shows only names.
    """
    with pa.input_stream(str(path), compression="detect") as stream:
        start = stream.read(_LONGEST_HEADER)
    encoding = declared.encoding or next((e for mark, e in _MARKS if start.startswith(mark)), None)
    head = re.split(rb"[\r\n]", start, maxsplit=1)[0]
    if encoding is None and b"\0" in head:  # every other byte of plain letters
        encoding = "utf-16-le" if head.index(b"\0") % 2 else "utf-16-be"
    elif encoding is None and not head.isascii():
        try:
            head.decode()
            encoding = "utf-8"
        except UnicodeDecodeError:
            encoding = _LATIN
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
    return names, dialect


def _first_line(start: bytes, encoding: str | None, after: int = 0) -> str:
    """Return the first line, or one ``after`` others; a name in quotes may hold a line's end.

    A quote opens a name at its beginning alone.
    """
    decoder = codecs.getincrementaldecoder(encoding or "utf-8")(errors="replace")
    text = decoder.decode(start).removeprefix("\ufeff")
    for _ in range(after):
        text = re.split(r"\r\n|\r|\n", text, maxsplit=1)[-1]
    inside, fresh = False, True
    for position, sign in enumerate(text):
        if sign in "\r\n" and not inside:
            return text[:position]
        if sign == '"' and (inside or fresh):
            inside = not inside
        fresh = sign in _SIGNS
    return text


def _delimiter_of(line: str, path: Path, quote: str) -> str:
    """Return the sign that stands most often between the names of the first line."""
    if _without_packing(path.name).endswith(".tsv"):
        return "\t"
    unquoted = re.sub(f"{quote}[^{quote}]*{quote}", "", line)
    counts = {sign: unquoted.count(sign) for sign in _SIGNS}
    most = max(counts.values())
    best = [sign for sign, count in counts.items() if count == most]
    if most and len(best) > 1:
        words = " and ".join(_SIGNS[sign] for sign in best)
        raise TableError(
            f"{path} has equally many {words} in its first line. Set the one that separates columns"
            " with --read delimiter=..."
        )
    return best[0]


_SCHEME = "://"
_STORES = {".db": "sqlite", ".sqlite": "sqlite", ".sqlite3": "sqlite", ".duckdb": "duckdb"}
_DATABASES = {"postgresql", "postgres", "sqlite", "duckdb"}


@dataclass(frozen=True)
class Place:
    """A file or folder in a file system that is not this machine's.

    It prints as its address without what may be secret: user, password, parameters.
    """

    filesystem: pa.fs.FileSystem
    path: str
    address: str

    def __str__(self) -> str:
        return self.address


def shown_address(address: str) -> str:
    """Return an address without user, password and parameters.

    Examples
    --------
    >>> shown_address("postgresql://me:secret@db.example/clinic?sslmode=require")
    'postgresql://db.example/clinic'
    >>> shown_address("postgresql://me:se#cret@db.example/clinic")
    'postgresql://...'
    """
    scheme, _, rest = address.partition(_SCHEME)
    try:
        parts = urlsplit("//" + rest)
    except ValueError:
        return f"{scheme}{_SCHEME}..."
    if ":" in parts.netloc and "@" in rest[len(parts.netloc) :]:  # a password with / ? or # in it
        return f"{scheme}{_SCHEME}..."
    return f"{scheme}{_SCHEME}{parts.netloc.rpartition('@')[2]}{parts.path}"


_FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather",
    ".ipc": "feather", ".xlsx": "sheet", ".sav": "sheet",
    ".csv": "csv", ".tsv": "csv", ".txt": "csv",
}  # fmt: skip


@dataclass(frozen=True)
class TableFile:
    """Describes where a table is stored, and how it is written if it is a CSV file.

    Pass it wherever a function takes a table. What you leave out is read from the first line and
    from public columns, never from a private cell. If all columns are private, decimals have points
    and texts are UTF-8, unless you set the fields here.

    Parameters
    ----------
    path : str or Path
        A file, a folder of files of one kind, or an address such as ``s3://bucket/folder``.
    delimiter : str, optional
        The character between columns of a CSV file, for example ``";"``, or ``"tab"``. Default: the
        one that the first line uses.
    decimal : str, optional
        The decimal mark of a CSV file, ``"."`` or ``","``. Default: the one that public columns
        use.
    encoding : str, optional
        The encoding of a CSV file, for example ``"latin-1"``. Default: the one of the byte-order
        mark, the first line and the public columns.

    Raises
    ------
    ParameterError
        If the delimiter, the decimal mark or the encoding is not one that can be read.

    Examples
    --------
    >>> from suffice import TableFile
    >>> biopsies = TableFile("biopsies.csv", delimiter=";", decimal=",")
    >>> biopsies.delimiter
    ';'
    """

    path: str | Path
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    dialect: Dialect = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        dialect = Dialect(self.delimiter, self.decimal, self.encoding)
        object.__setattr__(self, "dialect", dialect)

    @property
    def place(self) -> Path | Place:
        """The path of the table, or its address in a file system."""
        data = self.path
        if isinstance(data, Path) or _SCHEME not in data:
            return Path(data)
        address = shown_address(data)
        if data.partition(_SCHEME)[0].lower() in _DATABASES:
            raise TableError(
                f'{address} is a database. Choose its rows with --read query="select ...".'
            )
        try:
            filesystem, path = pa.fs.FileSystem.from_uri(data)
        except (pa.ArrowException, ValueError, ImportError):  # whose messages quote the address
            raise TableError(
                f"{address} cannot be read. Use a path, or an address that pyarrow.fs supports, for"
                " example s3://bucket/folder."
            ) from None
        except OSError as error:
            raise StorageError(
                f"{address} cannot be read: {type(error).__name__}. Check the address and your"
                " permissions."
            ) from None
        if isinstance(filesystem, pa.fs.LocalFileSystem):
            return Path(path)
        return Place(filesystem, path, address)

    @property
    def format(self) -> str:
        """The kind of the files, by their names: parquet, csv, feather or sheet."""
        place = self.place
        with _translate_errors(place):
            files = _files_at(place)
        if files is None:
            raise StorageError(f"{place} does not exist. Check the path.")
        formats = set()
        for file in files:
            unpacked = _without_packing(file.name)
            kind = _FORMATS.get(PurePosixPath(unpacked).suffix, "")
            formats.add(kind if kind == "csv" or unpacked == file.name.lower() else "")
        if PurePosixPath(place.name if isinstance(place, Path) else "").suffix in _STORES:
            raise TableError(
                f"{place} looks like a database. Call it {_STORES[place.suffix]}:///{place}, and"  # type: ignore[union-attr]  # a path, as was asked
                ' choose its rows with --read query="select ..." (Python: Query).'
            )
        if len(formats) != 1 or "" in formats:
            raise TableError(
                f"{place} cannot be read as a table. Use a file, or a folder of files of one kind:"
                " Parquet, Feather, Excel (.xlsx), SPSS (.sav) or CSV (.csv, .tsv, .txt; also with"
                " .gz, .bz2 or .zst)."
            )
        if formats <= {"csv", "sheet"} and not isinstance(place, Path):
            raise TableError(
                f"{place}: files of this kind can only be read from a local disk. Save the table as"
                " Parquet, or copy it to this computer."
            )
        return formats.pop()

    def names(self) -> list[str]:
        """Return the names of the columns. Nothing else of a CSV file or a sheet is read.

        Returns
        -------
        list of str
            The names, in the order of the table.

        Raises
        ------
        StorageError
            If there is no such file, or it may not be read.
        TableError
            If the file is not a table.
        """
        kind = self.format
        if kind == "sheet":
            return sheet_names(Path(str(self.place)))
        if kind == "csv":
            with _translate_errors(self.place, _CSV_TROUBLE):
                return read_header(_csv_files(self.place)[0], self.dialect)[0]
        return list(self.opened({}).schema.names)

    def opened(self, declared: Mapping[str, pa.DataType]) -> Table:
        """Return the table, ready to be read in batches.

        Parameters
        ----------
        declared : mapping of str to pyarrow.DataType
            Types of columns whose cells must not be looked at, such as private labels.

        Returns
        -------
        Table
            The columns with their types.
        """
        kinds: dict[str, type[Sheet | CsvTable]] = {"sheet": Sheet, "csv": CsvTable}
        return kinds.get(self.format, ArrowFiles)(self, declared)


def _files_at(place: Path | Place) -> list[PurePosixPath] | None:
    """Return the file itself, or the files of a folder that Arrow reads. None if nothing is there.

    Names that begin with a point or an underscore are left out.
    """
    if isinstance(place, Path):
        if not place.is_dir():
            return [PurePosixPath(place.name)] if place.exists() else None
        paths = [p.relative_to(place).as_posix() for p in place.rglob("*") if p.is_file()]
    else:
        kind = place.filesystem.get_file_info(place.path).type
        if kind != pa.fs.FileType.Directory:
            return None if kind == pa.fs.FileType.NotFound else [PurePosixPath(place.path)]
        inside = place.filesystem.get_file_info(pa.fs.FileSelector(place.path, recursive=True))
        files = [info.path for info in inside if info.type == pa.fs.FileType.File]
        paths = [path.removeprefix(place.path).lstrip("/") for path in files]
    below = map(PurePosixPath, paths)
    return [path for path in below if not any(part[0] in "._" for part in path.parts)]


def _csv_files(path: Path | Place) -> list[Path]:
    found = ds.dataset(str(path), format="csv", schema=pa.schema([]))  # it opens nothing
    return [Path(file) for file in found.files]


_CSV_TROUBLE = (
    "A line has more or fewer cells than the first line, or a column does not fit its type, or the"
    " encoding is another one. Remove titles and comments above the names. If decimals have"
    " commas, use --read decimal=, and, if the file is not UTF-8, --read encoding=... Write"
    " integers among decimals with a point, declare the categories of text columns, or save the"
    " table as Parquet"
)


@contextmanager
def _translate_errors(path: Path | Place, trouble: str = "Check its format") -> Iterator[None]:
    """Turn what Arrow raises into one line. Its own message may quote a cell: it is not passed."""
    try:
        yield
    except pa.ArrowException as error:
        raise TableError(
            f"{path} is not a readable table ({type(error).__name__}). {trouble}."
        ) from None
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {type(error).__name__}. Check that it exists and that you may"
            " read it."
        ) from None


class StoredTable:
    """An open table of a file; of columns that are ``declared`` no cell is looked at."""

    def __init__(self, stored: TableFile, declared: Mapping[str, pa.DataType]) -> None:
        self.stored, self.declared, self._path = stored, declared, stored.place
        self._texts = frozenset(n for n, kind in declared.items() if pa.types.is_string(kind))
        self._numbers = frozenset(declared) - self._texts

    def opened(self, declared: Mapping[str, pa.DataType]) -> Any:
        """Return the same table, with ``declared`` columns as well."""
        union = {**self.declared, **declared}
        return self if union == self.declared else type(self)(self.stored, union)


class Sheet(StoredTable, MemoryTable):
    """A sheet of Excel or SPSS."""

    def __init__(self, stored: TableFile, declared: Mapping[str, pa.DataType]) -> None:
        StoredTable.__init__(self, stored, declared)
        cells = read_sheet(Path(str(self._path)), self._texts, self._numbers)
        MemoryTable.__init__(self, cells, self._texts)


_TYPED_ROWS = 1 << 16  # of which a type is inferred
BLOCKS = (1 << 20, 1 << 24, 1 << 28)  # bytes that are parsed at once: the next if a row is longer
_ACROSS = "straddling"  # Arrow's word for a row that reaches over two ends of blocks
_ONE_STREAM = "A {} file can only be read from start to end. Save the table as Parquet."


class CsvTable(StoredTable):
    """CSV files of one header.

    An empty cell is missing, a quoted empty text is not. Elsewhere words such as NA and null are
    missing too, but a column that is declared to be text holds them as they are: they may be a
    class. A cell there that is no UTF-8 is read as Latin-1, each on its own. In a column that is
    declared to be numbers, every cell that is no number is missing. In a table of one
    column an empty line is a missing value.
    """

    rows, stays = None, _ONE_STREAM.format("CSV")

    def __init__(self, stored: TableFile, declared: Mapping[str, pa.DataType]) -> None:
        super().__init__(stored, declared)
        with _translate_errors(self._path, _CSV_TROUBLE):
            self._files = _csv_files(self._path)
            names, self.dialect = read_header(self._files[0], stored.dialect)
            for file in self._files[1:]:
                if set(read_header(file, self.dialect)[0]) != set(names):
                    raise TableError(
                        f"{self._path}: the first line of {file.name} names other columns than the"
                        " first file. Files of a folder must have the same columns."
                    )
            self._width, self._formats = len(names), list[str]()
            cells = self._first_cells([name for name in names if name not in declared])
            commas = self.dialect.delimiter == ","
            inferred = types_of_cells(cells, self.dialect.decimal, commas_between=commas)
        if self._numbers and inferred.decimal is None and self.dialect.delimiter == ";":
            raise TableError(
                f"{self._path}: its columns are separated by semicolons, so its private numbers may"
                " have decimal commas, and no public column shows it. Say which: --read decimal=,"
                " or --read decimal=. (Python: TableFile(decimal=...)), or save the table as"
                " Parquet."
            )
        self.dialect = replace(self.dialect, decimal=inferred.decimal)
        self._formats, self._refused = inferred.formats, inferred.refused
        types = {**inferred.types, **declared}
        self.schema = pa.schema([(name, types[name]) for name in names])
        note(f"{self._path} is read as: {self.dialect}.")
        if inferred.zeros:
            note(
                "Columns read as numbers although some of their cells begin with 0, as"
                f" codes do: {listed(inferred.zeros)}."
            )

    def parts(self) -> Sequence["CsvTable"]:
        """Return the table: it has one part."""
        return [self]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, in batches of one size until the last.

        Declared columns are read apart, and are put beside the others again.
        """
        for name in columns:
            position_of(self.schema, name)
            if name in self._refused:
                raise TableError(f"{self._path}: column {name!r} {self._refused[name]}.")
        typed = {n: self.schema.field(n).type for n in columns if n not in self.declared}
        apart = {name: pa.binary() for name in columns if name in self.declared}
        readers = [self._read(typed)] if typed else []
        if apart:
            # Each cell by itself, and before batches are put together: no array runs out of bytes.
            readers.append(
                pa.record_batch(
                    [
                        texts_of(cells, self.declared[name])
                        if name in self._texts
                        else numbers_of(cells, self.dialect.decimal or ".")
                        for name, cells in zip(apart, batch.columns, strict=True)
                    ],
                    names=list(apart),
                )
                for batch in self._read(apart, null_values=[""])
            )
        with _translate_errors(self._path, _CSV_TROUBLE):
            # Each is read by a thread of its own: on demand, one would wait for the other.
            parts = [read_ahead(equal_batches(r, tables_table.BATCH_ROWS)) for r in readers]
            for side_by_side in zip(*parts, strict=True):
                cells = {n: part.column(n) for part in side_by_side for n in part.schema.names}
                yield pa.record_batch([cells[name] for name in columns], names=list(columns))

    def _read(self, types: Mapping[str, pa.DataType], **words: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of every file. If one is too long for a block, go on in larger blocks."""
        lines = pa.csv.ParseOptions(
            delimiter=self.dialect.delimiter,
            quote_char=self.dialect.quote,
            ignore_empty_lines=self._width > 1,
            # A cell in quotes may hold a line's end: a reader that did not know it would cut there.
            newlines_in_values=True,
        )
        cells = pa.csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            decimal_point=self.dialect.decimal or ".",
            timestamp_parsers=[pa.csv.ISO8601, *self._formats],
            **words,
        )
        done = 0
        for size in BLOCKS:
            blocks = pa.csv.ReadOptions(block_size=size, skip_rows=self.dialect.above)
            again = done
            try:
                for file in self._files:
                    with open_stream(file, self.dialect.encoding) as stream:
                        for batch in pa.csv.open_csv(stream, blocks, lines, cells):
                            rest = batch.slice(min(again, batch.num_rows))
                            again -= batch.num_rows - rest.num_rows
                            done += rest.num_rows
                            yield rest
            except pa.ArrowInvalid as error:
                if _ACROSS not in str(error) or size == BLOCKS[-1]:
                    raise
            else:
                return

    def _first_cells(self, names: list[str]) -> dict[str, pa.ChunkedArray]:
        """Return the first cells of public columns as texts; they may settle the encoding.

        Cells that are no text though the encoding is settled stay bytes.
        """
        batches, rows = [], _TYPED_ROWS
        for batch in self._read(dict.fromkeys(names, pa.binary())) if names else ():
            batches.append(batch.slice(0, rows))
            rows -= batch.num_rows
            if rows <= 0:
                break
        columns = {}
        for name in names:
            columns[name] = pa.chunked_array([b.column(name) for b in batches], pa.binary())
            try:
                columns[name] = columns[name].cast(pa.string())
            except pa.ArrowInvalid:
                if self.dialect.encoding is None:
                    self.dialect = replace(self.dialect, encoding="latin-1", guessed=True)
                    return self._first_cells(names)
        return columns


_READ_AHEAD = 4  # batches in flight: this bounds the memory of a scan
_PART_ROWS = 1 << 18  # row groups are joined until a part has so many
# Whole row groups are not fetched ahead: less memory in our scan, and faster.
_PARQUET = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)


@dataclass(frozen=True)
class ParquetPart:
    """Row groups of a Parquet file that follow each other.

    Any process that reaches the file can read them.
    """

    path: str
    filesystem: pa.fs.FileSystem
    groups: tuple[int, ...]
    rows: int
    schema: pa.Schema  # of the whole table
    texts: frozenset[str]  # columns that are labels and become texts
    numbers: frozenset[str]  # columns of private numbers: texts in them become numbers
    stays = ""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, in batches of one size until the last."""
        with _translate_errors(Path(self.path)):
            fragment = ds.ParquetFileFormat().make_fragment(
                self.path, self.filesystem, row_groups=self.groups
            )
            private = {*columns} & (self.texts | self.numbers)
            check_one_type(fragment.physical_schema, self.schema, private)
            scanned = _scan(fragment, columns, schema=self.schema, fragment_scan_options=_PARQUET)
            converted = (plain_batch(batch, self.texts, self.numbers) for batch in scanned)
            yield from read_ahead(equal_batches(converted, tables_table.BATCH_ROWS))


class ArrowFiles(StoredTable):
    """Files of Parquet or Feather."""

    rows, stays = None, _ONE_STREAM.format("FEATHER")  # where the table is its only part

    def __init__(self, stored: TableFile, declared: Mapping[str, pa.DataType]) -> None:
        super().__init__(stored, declared)
        self._kind = stored.format
        how: dict[str, Any] = {"format": self._kind, "exclude_invalid_files": False}
        with _translate_errors(self._path):
            if isinstance(self._path, Path):
                self._dataset = ds.dataset(self._path, **how)
            else:
                where = self._path.filesystem
                self._dataset = ds.dataset(self._path.path, filesystem=where, **how)
            self.schema = plain_schema(self._dataset.schema, self._texts, self._numbers)

    def parts(self) -> Sequence[Any]:
        """Return the parts of the table in order; one, unless it is Parquet."""
        return self._row_groups if self._kind == "parquet" else [self]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, in batches of one size until the last."""
        for name in columns:
            position_of(self.schema, name)
        if self._kind == "parquet":
            part_batches = (batch for part in self._row_groups for batch in part.batches(columns))
            yield from equal_batches(part_batches, tables_table.BATCH_ROWS)
            return
        scanned = _scan(self._dataset, columns)
        converted = (plain_batch(batch, self._texts, self._numbers) for batch in scanned)
        with _translate_errors(self._path):
            private = {*columns} & (self._texts | self._numbers)
            for fragment in self._dataset.get_fragments():
                check_one_type(fragment.physical_schema, self._dataset.schema, private)
            yield from read_ahead(equal_batches(converted, tables_table.BATCH_ROWS))

    @cached_property
    def _row_groups(self) -> list[ParquetPart]:
        """The parts of a Parquet table: neighbouring row groups of a file, joined where small."""
        parts: list[ParquetPart] = []
        declared = (self._texts, self._numbers)
        with _translate_errors(self._path):
            for fragment in self._dataset.get_fragments():
                groups: tuple[int, ...] = ()
                rows = 0
                sizes = [group.num_rows for group in fragment.row_groups]
                for k, size in enumerate(sizes):
                    groups, rows = (*groups, k), rows + size
                    if rows >= _PART_ROWS or k == len(sizes) - 1:
                        where = (fragment.path, fragment.filesystem, groups, rows)
                        parts.append(ParquetPart(*where, self._dataset.schema, *declared))
                        groups, rows = (), 0
        return parts


def _scan(
    source: ds.Dataset | ds.Fragment, columns: Sequence[str], **more: Any
) -> Iterator[pa.RecordBatch]:
    batches: Iterator[pa.RecordBatch] = source.to_batches(
        columns=list(columns),
        batch_size=tables_table.BATCH_ROWS,
        batch_readahead=_READ_AHEAD,
        fragment_readahead=1,
        use_threads=not tables_table.reads_alone(),
        **more,
    )
    return batches


_WRITTEN = (".parquet", ".csv", ".feather", ".arrow")


def check_ending(path: Path) -> None:
    """Raise unless a table can be written to a file of that name."""
    if path.suffix.lower() not in _WRITTEN:
        raise TableError(f"{path} must end in {', '.join(_WRITTEN)}.")


def write_table(
    table: pa.Table, path: Path, *, for_sheets: bool = False, overwrite: bool = True
) -> None:
    """Write ``table`` as Parquet, CSV or Feather, by the ending of the file's name.

    If people will open it in a spreadsheet (``for_sheets``), no text of a CSV file is a formula or
    holds anything invisible (`suffice.plain_text.sheet_cell`). An existing file is an error unless
    it may be replaced (``overwrite``).
    """
    from pyarrow import feather, parquet  # whoever reads needs neither

    check_ending(path)
    ending = path.suffix.lower()
    if for_sheets and ending == ".csv":
        columns = []
        for column in table.columns:
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                coded = pc.dictionary_encode(column).combine_chunks()  # each distinct text once
                harmless = [sheet_cell(word) for word in coded.dictionary.to_pylist()]
                texts = pc.take(pa.array(harmless, column.type), coded.indices)
                columns.append(pa.chunked_array([texts]))
            else:
                columns.append(column)
        table = pa.table(columns, names=[sheet_cell(name) for name in table.column_names])
    try:
        with path.open("wb" if overwrite else "xb") as file:
            if ending == ".csv":
                pa.csv.write_csv(table, file)
            elif ending == ".parquet":
                parquet.write_table(table, file)
            else:
                feather.write_feather(table, file)
    except FileExistsError:
        raise StorageError(f"{path} already exists. Write to another file.") from None
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error.strerror or 'disk error'}. Check the folder and"
            " your permissions."
        ) from None
