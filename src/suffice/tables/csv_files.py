"""CSV files: what type a column has is read off its own first rows, never off a block of bytes.

Arrow guesses types from the first block of bytes, and where that block ends depends on every cell
before it, private ones too. Here a column's type depends on its own first cells alone, and their
number is fixed. Columns that may not be looked at (a label, categories, ranges) are declared. They
are read as bytes, of which each cell becomes a text or a number by itself, or is missing.
Nothing is read of any column but the header before it is asked for. The decimal mark, and the
encoding where the first line does not tell it, come from the same public cells.

Nor does it depend on private cells whether a table can be read: Arrow refuses a row that reaches
over two ends of blocks, and longer labels move those; such a table is read in larger blocks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds

from suffice.errors import TableError
from suffice.tables.cell_types import types_of_cells
from suffice.tables.dialects import Dialect, open_stream, read_header
from suffice.tables.labels import texts_of
from suffice.tables.numbers import numbers_of

__all__ = ["BLOCKS", "CsvFiles", "header_of"]

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
