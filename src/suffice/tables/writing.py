"""Tables to files, by the ending of their name."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from suffice.errors import StorageError, TableError

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


def write_table(table: pa.Table, path: Path) -> None:
    """Write ``table`` as Parquet, CSV or Feather."""
    check_ending(path)
    try:
        _WRITERS[path.suffix.lower()](table, str(path))
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or 'disk error'}.") from None
