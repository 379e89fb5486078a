"""Tables in files: Parquet, CSV and Feather, or folders of them, on disk or in object storage.

A Parquet table is read in parts, each of them on its own, by any process that reaches the files.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs

from suffice.errors import StorageError, TableError
from suffice.tables import batching
from suffice.tables.batching import equal_batches, read_ahead
from suffice.tables.csv_files import CsvFiles, csv_trouble, header_of
from suffice.tables.labels import plain_texts, plain_type
from suffice.tables.places import Place, names_at

__all__ = [
    "Files",
    "ParquetPart",
    "format_of",
    "names_of_csv",
    "plain_batch",
    "plain_schema",
    "position_of",
]

_READ_AHEAD = 4  # batches in flight: this bounds the memory of a scan
_PART_ROWS = 1 << 18  # row groups are joined until a part has so many
# Whole row groups are not fetched ahead: less memory in our scan, and faster.
_PARQUET = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
_FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".feather": "feather",
    ".arrow": "feather", ".ipc": "feather",
}  # fmt: skip
_ONE_STREAM = "a {} file is read from its beginning to its end; save the table as Parquet."


@dataclass(frozen=True)
class ParquetPart:
    """Some row groups of a Parquet file that follow each other; anybody who has it can read them.

    ``schema`` is that of the whole table; columns ``texts`` are labels, and become texts.
    """

    path: str
    filesystem: pa.fs.FileSystem
    groups: tuple[int, ...]
    rows: int
    schema: pa.Schema
    texts: frozenset[str]
    stays = ""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns`` in order, in batches of one size until the last."""
        try:
            fragment = ds.ParquetFileFormat().make_fragment(
                self.path, self.filesystem, row_groups=self.groups
            )
            read = _scanned(fragment, list(columns), schema=self.schema, options=_PARQUET)
            plain = (plain_batch(batch, self.texts) for batch in read)
            yield from read_ahead(equal_batches(plain, batching.BATCH_ROWS))
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(Path(self.path), error) from None


class Files:
    """Files of one format; ``declared`` holds the types of columns that CSV files do not tell."""

    def __init__(self, path: Path | Place, declared: Mapping[str, pa.DataType]) -> None:
        self.path, self.declared = path, declared
        self.format = format_of(path)
        self._texts = frozenset(n for n, kind in declared.items() if pa.types.is_string(kind))
        try:
            if self.format == "csv":
                self._csv = CsvFiles(_on_disk(path), declared)
                self.schema = self._csv.schema
            else:
                self._dataset = _opened(path, self.format)
                self.schema = plain_schema(self._dataset.schema, self._texts)
        except UnicodeDecodeError:
            raise TableError(f"{path} is not UTF-8; save it so, its header too.") from None
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path, error) from None

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
            self._check_text(self.schema.field(position_of(self.schema, name)))
        if self.format == "parquet":
            read = (batch for part in self._row_groups for batch in part.batches(columns))
            yield from equal_batches(read, batching.BATCH_ROWS)
            return
        reader = self._csv_batches if self.format == "csv" else self._feather_batches
        plain = (plain_batch(batch, self._texts) for batch in reader(list(columns)))
        try:
            yield from read_ahead(equal_batches(plain, batching.BATCH_ROWS))
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.path, error) from None

    @cached_property
    def _row_groups(self) -> list[ParquetPart]:
        """The parts of a Parquet table: neighbouring row groups of a file, joined where small."""
        parts: list[ParquetPart] = []
        try:
            for fragment in self._dataset.get_fragments():
                sizes = [group.num_rows for group in fragment.row_groups]
                for groups in _joined(sizes):
                    rows = sum(sizes[k] for k in groups)
                    where = (fragment.path, fragment.filesystem, groups, rows)
                    parts.append(ParquetPart(*where, self._dataset.schema, self._texts))
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.path, error) from None
        return parts

    def _check_text(self, field: pa.Field) -> None:
        """Raise if the first cells of a CSV column are no text."""
        if self.format == "csv" and pa.types.is_binary(field.type):
            raise TableError(
                f"{self.path}: column {field.name!r} is not UTF-8; save it as CSV UTF-8."
            )

    def _csv_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of columns that are read apart and put side by side again."""
        readers = self._csv.readers(columns, _scanned)
        parts = [equal_batches(reader, batching.BATCH_ROWS) for reader in readers]
        for side_by_side in zip(*parts, strict=True):
            found = {n: part.column(n) for part in side_by_side for n in part.schema.names}
            yield pa.record_batch([found[name] for name in columns], names=columns)

    def _feather_batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        return _scanned(self._dataset, columns)


def _opened(path: Path | Place, kind: str) -> ds.Dataset:
    """Return the files of a place as Arrow reads them."""
    if isinstance(path, Path):
        return ds.dataset(path, format=kind, exclude_invalid_files=False)
    where = {"filesystem": path.filesystem, "exclude_invalid_files": False}
    return ds.dataset(path.path, format=kind, **where)


def _on_disk(path: Path | Place) -> Path:
    if isinstance(path, Path):
        return path
    raise TableError(f"{path}: CSV files are read from disk alone; save the table as Parquet.")


def _joined(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield neighbouring row groups, joined until they have enough rows together."""
    first, rows = 0, 0
    for k, size in enumerate(sizes):
        rows += size
        if rows >= _PART_ROWS or k == len(sizes) - 1:
            yield tuple(range(first, k + 1))
            first, rows = k + 1, 0


def plain_schema(schema: pa.Schema, texts: Collection[str | None]) -> pa.Schema:
    """Return the schema of a table whose columns ``texts`` are read as texts."""
    fields = [f.with_type(plain_type(f.type)) if f.name in texts else f for f in schema]
    return pa.schema(fields)


def plain_batch(batch: pa.RecordBatch, texts: Collection[str | None]) -> pa.RecordBatch:
    """Return rows whose columns ``texts`` are texts, or missing where they cannot be."""
    schema = plain_schema(batch.schema, texts)
    pairs = zip(batch.schema.names, batch.columns, strict=True)
    return pa.record_batch([plain_texts(c) if n in texts else c for n, c in pairs], schema=schema)


def _scanned(
    source: ds.Dataset | ds.Fragment, columns: list[str], *, options: Any = None, **more: Any
) -> Iterator[pa.RecordBatch]:
    return source.to_batches(
        columns=columns,
        batch_size=batching.BATCH_ROWS,
        batch_readahead=_READ_AHEAD,
        fragment_readahead=1,
        fragment_scan_options=options,
        memory_pool=_scan_pool(),
        **more,
    )


def position_of(schema: pa.Schema, name: str) -> int:
    """Return the position of a column; one that is not there is an error."""
    position = schema.get_field_index(name)  # -1 would be the last column
    if position < 0:
        raise TableError(f"the table has no column {name!r}.")
    return position


def _scan_pool() -> pa.MemoryPool:
    """Return the pool that gave memory back soonest (a release peaked at 515 MB, not 628)."""
    try:
        return pa.jemalloc_memory_pool()
    except NotImplementedError:  # not built for every platform
        return pa.default_memory_pool()


def format_of(place: Path | Place) -> str:
    """Return the format of a file, or of all files of a folder, by their names."""
    try:
        names = names_at(place)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(place, error) from None
    if names is None:
        raise StorageError(f"{place} does not exist.")
    formats = {_FORMATS.get(name.suffix.lower(), "") for name in names}
    if len(formats) != 1 or "" in formats:
        raise TableError(
            f"{place} must be, or hold only, Parquet, CSV or Feather files of one kind."
        )
    return formats.pop()


def _unreadable(path: Path | Place, error: Exception) -> StorageError | TableError:
    # Arrow's own message may quote a cell: only its class is passed on.
    if isinstance(error, OSError) and not isinstance(error, pa.ArrowException):
        return StorageError(f"{path} cannot be read: {type(error).__name__}.")
    trouble = None
    if isinstance(path, Path) and path.suffix.lower() == ".csv" and path.is_file():
        trouble = csv_trouble(path)
    return TableError(
        f"{path} is not a readable table ({type(error).__name__}): {trouble or 'check its format'}."
    )


def names_of_csv(path: Path | Place) -> list[str]:
    """Return the names of a CSV file's columns; nothing but its first line is read."""
    try:
        return header_of(_on_disk(path))
    except UnicodeDecodeError:
        raise TableError(f"{path} is not UTF-8; save it so, its header too.") from None
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from None
