"""The forms in which a table is handed over: arrays, frames, files, folders, databases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

from suffice.audit.public_part.database_forms import database_forms
from suffice.audit.public_part.neighbours import NAMES

__all__ = ["FORMS", "LEFT_OUT", "Form", "Handed", "handed"]

_PARTS = 3  # files of a folder


@dataclass(frozen=True)
class Form:
    """One form of a table; ``hand(table, folder)`` returns what an owner gives to a release.

    ``named``: its columns have names; otherwise labels, and what else is no number, go beside it.
    ``in_file``: it lies in a file, so that the command line can read it.
    """

    name: str
    hand: Callable[[pa.Table, Path], Any]
    named: bool = True
    in_file: bool = True


@dataclass(frozen=True)
class Handed:
    """A data set as it is handed over: ``data`` is the table in its form, ``auxiliary`` a file."""

    form: Form
    data: Any
    table: pa.Table
    auxiliary: Path
    classes: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Say whether the form has a column of this name."""
        return self.form.named or name in NAMES

    def column(self, name: str) -> Any:
        """Return a column as a source takes it: its name, or its cells where names are lacking."""
        return name if self.form.named else self.table[name].to_numpy(zero_copy_only=False)


def handed(form: Form, table: pa.Table, auxiliary: pa.Table, classes: tuple[str, ...]) -> Handed:
    """Return a data set in this form; files go to the current folder."""
    path = Path("auxiliary.parquet")
    pq.write_table(auxiliary, path)
    return Handed(form, form.hand(table, Path()), table, path, classes)


def _matrix(table: pa.Table, _: Path) -> np.ndarray:
    return np.column_stack([table[name].to_numpy() for name in NAMES])


def _frame(table: pa.Table, _: Path) -> Any:
    return table.to_pandas()


def _file(write: Callable[[pa.Table, Path], None], ending: str) -> Callable[[pa.Table, Path], Path]:
    def hand(table: pa.Table, folder: Path) -> Path:
        path = folder / f"table{ending}"
        write(table, path)
        return path

    return hand


def _folder(table: pa.Table, folder: Path) -> Path:
    """Write several CSV files; the first ones have equally many rows."""
    path = folder / "tables"
    path.mkdir()
    rows = table.num_rows // _PARTS + 1
    for k in range(_PARTS):
        pa.csv.write_csv(table.slice(k * rows, rows), path / f"{k}.csv")
    return path


FORMS: Mapping[str, Form] = {
    form.name: form
    for form in (
        Form("numpy", _matrix, named=False, in_file=False),
        Form("pandas", _frame, in_file=False),
        Form("Parquet", _file(pq.write_table, ".parquet")),
        Form("CSV", _file(pa.csv.write_csv, ".csv")),
        Form("Feather", _file(pa.feather.write_feather, ".feather")),
        Form("folder", _folder),
        *(Form(name, hand, in_file=False) for name, hand in database_forms().items()),
    )
}
LEFT_OUT = {"CSV.gz": "no reader of the package takes compressed CSV: it is refused by its ending"}
