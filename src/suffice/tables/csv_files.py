"""CSV files: what type a column has is read off its own first rows, never off a block of bytes.

Arrow guesses types from the first block of bytes, and where that block ends depends on every cell
before it, private ones too. Here a column's type depends on its own first cells alone, and their
number is fixed. Columns that may not be looked at (a label, categories, ranges) are declared, and
nothing is read of any column but the header before it is asked for.

Nor does it depend on private cells whether a table can be read: Arrow refuses a row that reaches
over two ends of blocks, and longer labels move those; such a table is read in larger blocks.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds

from suffice.errors import TableError
from suffice.tables.labels import texts_of

__all__ = ["BLOCKS", "CsvFiles", "csv_trouble", "header_of"]

_TYPED_ROWS = 1 << 16  # of which a type is inferred
_LONGEST_HEADER = 1 << 20
BLOCKS = (1 << 20, 1 << 24, 1 << 28)  # bytes that are parsed at once: the next if a row is longer
_ACROSS = "straddling"  # Arrow's word for a row that reaches over two ends of blocks
_OTHER_SIGNS = (";", "\t", "|")  # between columns, where there should be commas


def header_of(path: Path) -> list[str]:
    """Return the names that the first line of a CSV file, or of a folder's first one, states."""
    first = Path(ds.dataset(path, format="csv", schema=pa.schema([])).files[0])
    with first.open("rb") as file:
        line = file.readline(_LONGEST_HEADER)
        while line.count(b'"') % 2 and (more := file.readline(_LONGEST_HEADER)):
            line += more  # a name in quotes may hold a line's end
    names = next(csv.reader(io.StringIO(line.decode("utf-8-sig"), newline="")), [])
    alone = len(names) == 1 and any(sign in names[0] for sign in _OTHER_SIGNS)
    if not names or alone or len(set(names)) < len(names):
        raise TableError(f"{path} is not a readable table: {csv_trouble(first)}.")
    return names


class CsvFiles:
    """CSV files of one header; ``declared`` holds the types of columns that are not looked at.

    An empty cell is missing, a quoted empty text is not. Elsewhere words such as NA and null are
    missing too, but a column that is declared to be text holds them as they are: they may be a
    class; what is missing there is a cell that is no UTF-8. In a table of one column an empty line
    is a missing value.
    """

    def __init__(self, path: Path, declared: Mapping[str, pa.DataType]) -> None:
        self._path, self._names = path, header_of(path)
        names = self._names
        # A cell in quotes may hold a line's end: a reader that did not know it would cut there.
        self._lines = pa.csv.ParseOptions(
            ignore_empty_lines=len(names) > 1, newlines_in_values=True
        )
        self._apart = {n for n in names if pa.types.is_string(declared.get(n, pa.null()))}
        looked_at = [name for name in names if name not in declared]
        types = self._inferred(looked_at) | {n: declared[n] for n in names if n in declared}
        self.schema = pa.schema([(name, types[name]) for name in names])

    def readers(
        self, columns: Sequence[str], scanned: Callable[..., Iterator[pa.RecordBatch]]
    ) -> list[Iterator[pa.RecordBatch]]:
        """Return what reads these columns, by a scan of data sets: labels go apart."""
        apart = [name for name in columns if name in self._apart]
        others = [name for name in columns if name not in self._apart]
        readers = [self._read(self.schema, others, scanned)] if others else []
        if apart:
            raw = pa.schema([(n, pa.binary() if n in apart else pa.string()) for n in self._names])
            texts = self._read(raw, apart, scanned, null_values=[""])
            readers.append(_as_texts(batch) for batch in texts)
        return readers

    def _read(
        self,
        schema: pa.Schema,
        columns: list[str],
        scanned: Callable[..., Iterator[pa.RecordBatch]],
        **words: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows, from where a row was too long for a block in blocks that are larger."""
        cells = pa.csv.ConvertOptions(
            column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False, **words
        )
        done = 0
        for block in BLOCKS:
            how = ds.CsvFileFormat(
                self._lines,
                convert_options=cells,
                read_options=pa.csv.ReadOptions(block_size=block),
            )
            # Given a schema, it opens nothing.
            files = ds.dataset(self._path, schema=schema, format=how)
            try:
                for batch in _behind(done, scanned(files, columns)):
                    done += batch.num_rows
                    yield batch
            except pa.ArrowInvalid as error:
                if _ACROSS not in str(error) or block == BLOCKS[-1]:
                    raise
            else:
                return

    def _inferred(self, names: list[str]) -> dict[str, pa.DataType]:
        """Return the type that Arrow infers for the first cells of each column, as one block."""
        if not names:
            return {}
        # Bytes: only what is looked at need be text.
        binary = pa.schema([(name, pa.binary()) for name in self._names])
        raw = self._read(binary, names, lambda files, names: files.to_batches(columns=names))
        rows = pa.Table.from_batches(list(_first(raw, _TYPED_ROWS)))
        if not rows.num_columns:
            return dict.fromkeys(names, pa.null())
        return {name: _type_of(rows[name]) for name in names}


def _first(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the first so many rows, and at least one batch, if there is one."""
    for batch in batches:
        yield batch.slice(0, rows)
        rows -= batch.num_rows
        if rows <= 0:
            return


def _behind(rows: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield all rows but the first so many."""
    for batch in batches:
        rest = batch.slice(min(rows, batch.num_rows))
        rows -= batch.num_rows - rest.num_rows
        yield rest


def _as_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    texts = [texts_of(column, pa.string()) for column in batch.columns]
    return pa.record_batch(texts, names=batch.schema.names)


def _type_of(raw: pa.ChunkedArray) -> pa.DataType:
    """Return the type of cells; whatever they are, they have one: bytes, if they are no UTF-8."""
    written = io.BytesIO()
    try:
        cells = pa.table({"cells": raw.cast(pa.string())})
    except pa.ArrowInvalid:
        return pa.binary()
    pa.csv.write_csv(cells, written, pa.csv.WriteOptions(include_header=False))
    if not written.tell():
        return pa.null()
    found = pa.csv.read_csv(
        pa.BufferReader(written.getvalue()),
        pa.csv.ReadOptions(column_names=["cells"], block_size=max(written.tell(), 1)),
        pa.csv.ParseOptions(ignore_empty_lines=False, newlines_in_values=True),
        pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False),
    )
    return found.schema.field(0).type


def csv_trouble(path: Path) -> str:
    """Return what is wrong with a CSV file, as far as its header shows it; never a cell."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        header = file.readline(_LONGEST_HEADER)
    names = next(csv.reader([header]), [])
    twice = sorted({name for name in names if names.count(name) > 1})
    if not header.strip():
        return "it is empty, or its first line is; the first line must name the columns"
    if twice:
        return f"its first line names {twice[0]!r} more than once"
    other = next((sign for sign in _OTHER_SIGNS if header.count(sign) >= len(names)), None)
    if other is not None:
        return (
            f"its columns seem to be separated by {other!r}; save it with commas between columns"
            " and points in decimals, or as Parquet"
        )
    return (
        "some line has more or fewer cells than the first, or a column holds something else than"
        " its first rows, or than what is declared of it (write integers among decimals with a"
        " point, declare the categories of a column of texts, or write the table as Parquet), or it"
        " is not UTF-8"
    )
