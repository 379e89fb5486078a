"""Tables to files, by the ending of their name."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from suffice.errors import StorageError, TableError
from suffice.plain_text import sheet_cell

__all__ = ["check_ending", "write_table"]

_WRITERS = {
    ".parquet": pyarrow.parquet.write_table,
    ".csv": pyarrow.csv.write_csv,
    ".feather": pyarrow.feather.write_feather,
    ".arrow": pyarrow.feather.write_feather,
}


def check_ending(path: Path) -> None:
    """Raise unless a table can be written to a file of that name."""
    if path.suffix.lower() not in _WRITERS:
        raise TableError(f"{path} must end in {', '.join(_WRITERS)}.")


def write_table(
    table: pa.Table, path: Path, *, for_sheets: bool = False, overwrite: bool = True
) -> None:
    """Write ``table`` as Parquet, CSV or Feather.

    Parameters
    ----------
    table : pyarrow.Table
        The table.
    path : Path
        The file. Its ending decides the format.
    for_sheets : bool
        Whether people will open it in a spreadsheet. Then no text of a CSV file is a formula or
        holds anything invisible (`suffice.plain_text.sheet_cell`).
    overwrite : bool
        Whether an existing file is replaced. Otherwise it is an error.

    Raises
    ------
    TableError
        If the file has another ending.
    StorageError
        If the file exists and must not be replaced, or cannot be written.
    """
    check_ending(path)
    if for_sheets and path.suffix.lower() == ".csv":
        columns = [_sheet_column(column) for column in table.columns]
        table = pa.table(columns, names=[sheet_cell(name) for name in table.column_names])
    try:
        with path.open("wb" if overwrite else "xb") as file:
            _WRITERS[path.suffix.lower()](table, file)
    except FileExistsError:
        raise StorageError(f"{path} already exists. Write to another file.") from None
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error.strerror or 'disk error'}. Check the folder and"
            " your permissions."
        ) from None


def _sheet_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text made harmless, each distinct text once; others as they are."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    coded = pc.dictionary_encode(column).combine_chunks()
    words = pa.array([sheet_cell(word) for word in coded.dictionary.to_pylist()], column.type)
    return pa.chunked_array([pc.take(words, coded.indices)])
