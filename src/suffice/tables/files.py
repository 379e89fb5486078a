"""Tables in files: Parquet, CSV, Feather, Excel and SPSS, on disk or in object storage.

A Parquet table is read in parts, each of them on its own, by any process that reaches the files.

``s3://bucket/folder?endpoint_override=...`` and the like go to the file systems of pyarrow, which
also reach those of fsspec (``fsspec+NAME://...``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs

from suffice.errors import StorageError, TableError
from suffice.notes import note
from suffice.plain_text import listed
from suffice.tables import table
from suffice.tables.columns import plain_batch, plain_schema, position_of
from suffice.tables.csv import ENDINGS, CsvFiles, Dialect, header_of, without_packing
from suffice.tables.memory import MemoryTable
from suffice.tables.sheets import read_sheet, sheet_names
from suffice.tables.table import Table, equal_batches, read_ahead

__all__ = [
    "Files",
    "ParquetPart",
    "Place",
    "Sheet",
    "TableFile",
    "format_of",
    "names_at",
    "place_of",
    "shown_address",
]


_SCHEME = "://"
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


def place_of(data: str | Path) -> Path | Place:
    """Return where ``data`` leads: a path, or an address with a scheme."""
    if isinstance(data, Path) or _SCHEME not in data:
        return Path(data)
    address = shown_address(data)
    if data.partition(_SCHEME)[0].lower() in _DATABASES:
        raise TableError(f'{address} is a database. Choose its rows with --query "select ...".')
    try:
        filesystem, path = pa.fs.FileSystem.from_uri(data)
    except (pa.ArrowException, ValueError, ImportError):  # their messages quote the whole address
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


def names_at(place: Path | Place) -> list[PurePosixPath] | None:
    """Return the file itself, or the files of a folder that Arrow reads. None if nothing is there.

    Names that begin with a point or an underscore are left out.
    """
    if isinstance(place, Path):
        if not place.is_dir():
            return [PurePosixPath(place.name)] if place.exists() else None
        files = (file for file in place.rglob("*") if file.is_file())
        return _visible_files(file.relative_to(place).as_posix() for file in files)
    kind = place.filesystem.get_file_info(place.path).type
    if kind != pa.fs.FileType.Directory:
        missing = kind == pa.fs.FileType.NotFound
        return None if missing else [PurePosixPath(PurePosixPath(place.path).name)]
    inside = place.filesystem.get_file_info(pa.fs.FileSelector(place.path, recursive=True))
    paths = (info.path for info in inside if info.type == pa.fs.FileType.File)
    return _visible_files(path.removeprefix(place.path).lstrip("/") for path in paths)


def _visible_files(paths: Iterable[str]) -> list[PurePosixPath]:
    paths_below = (PurePosixPath(path) for path in paths)
    return [path for path in paths_below if not any(part[0] in "._" for part in path.parts)]


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


_READ_AHEAD = 4  # batches in flight: this bounds the memory of a scan
_PART_ROWS = 1 << 18  # row groups are joined until a part has so many
# Whole row groups are not fetched ahead: less memory in our scan, and faster.
_PARQUET = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
_FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather",
    ".ipc": "feather", ".xlsx": "sheet", ".sav": "sheet", **dict.fromkeys(ENDINGS, "csv"),
}  # fmt: skip
_CSV_TROUBLE = (
    "A line has more or fewer cells than the first line, or a column does not fit its type, or the"
    " encoding is another one. Remove titles and comments above the names. If decimals have"
    " commas, use --decimal , and if the file is not UTF-8, use --encoding. Write integers among"
    " decimals with a point, declare the categories of text columns, or save the table as Parquet"
)
_ONE_STREAM = "A {} file can only be read from start to end. Save the table as Parquet."


@dataclass(frozen=True)
class ParquetPart:
    """Row groups of a Parquet file that follow each other.

    Any process that reaches the file can read them.

    Parameters
    ----------
    path : str
        The file.
    filesystem : pyarrow.fs.FileSystem
        The file system that holds it.
    groups : tuple of int
        The row groups.
    rows : int
        How many rows they have.
    schema : pyarrow.Schema
        The schema of the whole table.
    texts : frozenset of str
        Columns that are labels and become texts.
    numbers : frozenset of str
        Columns of private numbers: texts in them become numbers.
    """

    path: str
    filesystem: pa.fs.FileSystem
    groups: tuple[int, ...]
    rows: int
    schema: pa.Schema
    texts: frozenset[str]
    numbers: frozenset[str]
    stays = ""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, in batches of one size until the last."""
        with _translate_errors(Path(self.path), "parquet"):
            fragment = ds.ParquetFileFormat().make_fragment(
                self.path, self.filesystem, row_groups=self.groups
            )
            scanned = _scan(fragment, list(columns), schema=self.schema, options=_PARQUET)
            converted = (plain_batch(batch, self.texts, self.numbers) for batch in scanned)
            yield from read_ahead(equal_batches(converted, table.BATCH_ROWS))


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

    def __post_init__(self) -> None:
        _ = self.dialect  # raises

    @property
    def dialect(self) -> Dialect:
        """The delimiter, decimal mark and encoding that were declared."""
        return Dialect(self.delimiter, self.decimal, self.encoding)

    @property
    def place(self) -> Path | Place:
        """The path of the table, or its address in a file system."""
        return place_of(self.path)

    @property
    def format(self) -> str:
        """The kind of the files, by their names: parquet, csv, feather or sheet."""
        return format_of(self.place)

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
        if self.format == "sheet":
            return sheet_names(_on_disk(self.place))
        if self.format == "csv":
            with _translate_errors(self.place, "csv"):
                return header_of(_on_disk(self.place), self.dialect)
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
        return Sheet(self, declared) if self.format == "sheet" else Files(self, declared)


class Sheet(MemoryTable):
    """A sheet of Excel or SPSS; of columns that are ``declared`` no cell is looked at."""

    def __init__(self, stored: TableFile, declared: Mapping[str, pa.DataType]) -> None:
        self.stored, self.declared = stored, declared
        texts = [name for name, kind in declared.items() if pa.types.is_string(kind)]
        numbers = [name for name in declared if name not in texts]
        super().__init__(read_sheet(_on_disk(stored.place), texts, numbers), texts)

    def opened(self, declared: Mapping[str, pa.DataType]) -> "Sheet":
        """Return the same sheet, with ``declared`` columns as well."""
        union = {**self.declared, **declared}
        return self if union == self.declared else Sheet(self.stored, union)


class Files:
    """Files of one format; ``declared`` holds the types of columns that CSV files do not tell."""

    def __init__(self, stored: TableFile, declared: Mapping[str, pa.DataType]) -> None:
        self.stored, self.declared = stored, declared
        self.path, self.format = stored.place, stored.format
        self._texts = frozenset(n for n, kind in declared.items() if pa.types.is_string(kind))
        self._numbers = frozenset(declared) - self._texts
        self._refused: Mapping[str, str] = {}
        with _translate_errors(self.path, self.format):
            if self.format == "csv":
                self._csv = CsvFiles(_on_disk(self.path), declared, stored.dialect)
                self.schema, self._refused = self._csv.schema, self._csv.refused
                note(f"{self.path} is read as: {self._csv.dialect}.")
                if self._csv.zeros:
                    some = listed(self._csv.zeros)
                    note(
                        "Columns read as numbers although some of their cells begin with 0, as"
                        f" codes do: {some}."
                    )
            else:
                self._dataset = _open_dataset(self.path, self.format)
                self.schema = plain_schema(self._dataset.schema, self._texts, self._numbers)

    def opened(self, declared: Mapping[str, pa.DataType]) -> "Files":
        """Return the same files, with ``declared`` columns as well."""
        union = {**self.declared, **declared}
        return self if union == self.declared else Files(self.stored, union)

    @property
    def rows(self) -> int | None:
        """The number of rows, where files state it."""
        return sum(part.rows for part in self._row_groups) if self.format == "parquet" else None

    @property
    def stays(self) -> str:
        """Why the table cannot be read in parts, or nothing."""
        return "" if self.format == "parquet" else _ONE_STREAM.format(self.format.upper())

    def parts(self) -> Sequence[Any]:
        """Return the parts of the table in order; one, unless it is Parquet."""
        return self._row_groups if self.format == "parquet" else [self]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, in batches of one size until the last."""
        for name in columns:
            position_of(self.schema, name)
            if name in self._refused:
                raise TableError(f"{self.path}: column {name!r} {self._refused[name]}.")
        if self.format == "parquet":
            part_batches = (batch for part in self._row_groups for batch in part.batches(columns))
            yield from equal_batches(part_batches, table.BATCH_ROWS)
            return
        wanted, is_csv = list(columns), self.format == "csv"
        stored = self._csv_batches(wanted) if is_csv else _scan(self._dataset, wanted)
        converted = (plain_batch(batch, self._texts, self._numbers) for batch in stored)
        with _translate_errors(self.path, self.format):
            yield from read_ahead(equal_batches(converted, table.BATCH_ROWS))

    @cached_property
    def _row_groups(self) -> list[ParquetPart]:
        """The parts of a Parquet table: neighbouring row groups of a file, joined where small."""
        parts: list[ParquetPart] = []
        declared = (self._texts, self._numbers)
        with _translate_errors(self.path, self.format):
            for fragment in self._dataset.get_fragments():
                sizes = [group.num_rows for group in fragment.row_groups]
                for groups in _join_row_groups(sizes):
                    rows = sum(sizes[k] for k in groups)
                    where = (fragment.path, fragment.filesystem, groups, rows)
                    parts.append(ParquetPart(*where, self._dataset.schema, *declared))
        return parts

    def _csv_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of columns that are read apart and put side by side again."""
        readers = self._csv.readers(columns)
        # Each is read by a thread of its own: on demand, one would wait for the other.
        parts = [read_ahead(equal_batches(r, table.BATCH_ROWS)) for r in readers]
        for side_by_side in zip(*parts, strict=True):
            columns_by_name = {
                n: part.column(n) for part in side_by_side for n in part.schema.names
            }
            yield pa.record_batch([columns_by_name[name] for name in columns], names=columns)


def _open_dataset(path: Path | Place, kind: str) -> ds.Dataset:
    """Return the files of a place as Arrow reads them."""
    if isinstance(path, Path):
        return ds.dataset(path, format=kind, exclude_invalid_files=False)
    where = {"filesystem": path.filesystem, "exclude_invalid_files": False}
    return ds.dataset(path.path, format=kind, **where)


def _on_disk(path: Path | Place) -> Path:
    if isinstance(path, Path):
        return path
    raise TableError(
        f"{path}: files of this kind can only be read from a local disk. Save the table as"
        " Parquet, or copy it to this computer."
    )


def _join_row_groups(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield neighbouring row groups, joined until they have enough rows together."""
    first, rows = 0, 0
    for k, size in enumerate(sizes):
        rows += size
        if rows >= _PART_ROWS or k == len(sizes) - 1:
            yield tuple(range(first, k + 1))
            first, rows = k + 1, 0


def _scan(
    source: ds.Dataset | ds.Fragment, columns: list[str], *, options: Any = None, **more: Any
) -> Iterator[pa.RecordBatch]:
    batches: Iterator[pa.RecordBatch] = source.to_batches(
        columns=columns,
        batch_size=table.BATCH_ROWS,
        batch_readahead=_READ_AHEAD,
        fragment_readahead=1,
        use_threads=not table.reads_alone(),
        fragment_scan_options=options,
        **more,
    )
    return batches


def format_of(place: Path | Place) -> str:
    """Return the format of a file, or of all files of a folder, by their names."""
    with _translate_errors(place, ""):
        names = names_at(place)
    if names is None:
        raise StorageError(f"{place} does not exist. Check the path.")
    formats = {_format_of_name(name.name) for name in names}
    if len(formats) != 1 or "" in formats:
        raise TableError(
            f"{place} cannot be read as a table. Use a file, or a folder of files of one kind:"
            " Parquet, Feather, Excel (.xlsx), SPSS (.sav) or CSV (.csv, .tsv, .txt; also with"
            " .gz, .bz2 or .zst)."
        )
    return formats.pop()


def _format_of_name(name: str) -> str:
    unpacked = without_packing(name)
    kind = _FORMATS.get(PurePosixPath(unpacked).suffix, "")
    return kind if kind == "csv" or unpacked == name.lower() else ""


@contextmanager
def _translate_errors(path: Path | Place, kind: str) -> Iterator[None]:
    """Turn what Arrow raises into one line. Its own message may quote a cell: it is not passed."""
    try:
        yield
    except pa.ArrowException as error:
        trouble = _CSV_TROUBLE if kind == "csv" else "Check its format"
        raise TableError(
            f"{path} is not a readable table ({type(error).__name__}). {trouble}."
        ) from None
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {type(error).__name__}. Check that it exists and that you may"
            " read it."
        ) from None
