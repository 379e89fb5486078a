"""Tables to files, by the ending of their name."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from suffice.errors import StorageError, TableError

__all__ = ["write_table"]

_WRITERS = {
    ".parquet": pyarrow.parquet.write_table,
    ".csv": pyarrow.csv.write_csv,
    ".feather": pyarrow.feather.write_feather,
}


def write_table(table: pa.Table, path: Path) -> None:
    """Write ``table`` as Parquet, CSV or Feather."""
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise TableError(f"{path} must end in {', '.join(_WRITERS)}.")
    try:
        writer(table, str(path))
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or 'disk error'}.") from None
