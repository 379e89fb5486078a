"""The forms in which a table is handed over: arrays, frames, files, folders, databases."""

import gzip
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq

from suffice.audit.public_part.database_forms import database_forms
from suffice.audit.public_part.neighbours import NAMES
from suffice.owner.source import PublicSource, Source
from suffice.tables.files import TableFile

__all__ = ["FORMS", "Form", "Handed", "handed"]

_PARTS = 3  # files of a folder
_SPREADSHEET = {"decimal": ",", "encoding": "latin-1"}


@dataclass(frozen=True)
class Form:
    """One form of a table, such as an array or a file.

    Parameters
    ----------
    name
        The name of the form.
    hand
        ``hand(table, folder)`` returns what an owner gives to a release.
    named
        Whether its columns have names. If not, labels and categories go beside it.
    in_file
        Whether it is a file, so that the command line can read it.
    needs
        A library that it needs; empty for none.
    dialect
        What the owner must state about a file of private columns.
    """

    name: str
    hand: Callable[[pa.Table, Path], Any]
    named: bool = True
    in_file: bool = True
    needs: str = ""
    dialect: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Handed:
    """A data set as an owner hands it over.

    Parameters
    ----------
    form
        Its form.
    data
        The table in that form.
    table
        The table itself.
    auxiliary
        A file of auxiliary rows.
    classes
        The declared classes.
    """

    form: Form
    data: Any
    table: pa.Table
    auxiliary: Path
    classes: tuple[str, ...]

    def dialect_for(self, source: type[Source]) -> Mapping[str, str]:
        """Return the dialect that the owner must state; nothing if the columns are public."""
        return {} if issubclass(source, PublicSource) else self.form.dialect

    def table_for(self, source: type[Source]) -> Any:
        """Return the table as an owner gives it to a release."""
        dialect = self.dialect_for(source)
        return TableFile(self.data, **dialect) if dialect else self.data

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


def _text(table: pa.Table, sign: str) -> str:
    """Return a table as CSV with another sign between columns; cells in quotes stay so."""
    lines = io.BytesIO()
    pa.csv.write_csv(table, lines, pa.csv.WriteOptions(delimiter=sign))
    return lines.getvalue().decode()


def _packed(table: pa.Table, path: Path) -> None:
    path.write_bytes(gzip.compress(_text(table, ",").encode(), mtime=0))


def _spreadsheet(table: pa.Table, path: Path) -> None:
    """Write semicolons, decimal commas and Latin-1, as spreadsheets of many countries do."""
    columns = [
        pc.replace_substring(column.cast(pa.string()), ".", ",") if name in NAMES else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    text = _text(pa.table(columns, names=table.column_names), ";")
    path.write_bytes(text.encode("latin-1", errors="replace"))


def _wide(table: pa.Table, path: Path) -> None:
    path.write_bytes(_text(table, "\t").encode("utf-16"))


def _excel(table: pa.Table, path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    sheet.append(table.column_names)
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        sheet.append(row)
    book.save(path)


def _spss(table: pa.Table, path: Path) -> None:
    import pyreadstat

    pyreadstat.write_sav(table.to_pandas(), str(path))


def _polars(table: pa.Table, _: Path) -> Any:
    import polars as pl

    return pl.from_arrow(table)


def _dataset(table: pa.Table, folder: Path) -> Any:
    path = folder / "set.parquet"
    pq.write_table(table, path)
    return ds.dataset(path)


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
        Form("pandas", _frame, in_file=False, needs="pandas"),
        Form("Parquet", _file(pq.write_table, ".parquet")),
        Form("CSV", _file(pa.csv.write_csv, ".csv")),
        Form("CSV.gz", _file(_packed, ".csv.gz")),
        Form("spreadsheet CSV", _file(_spreadsheet, ".txt"), dialect=_SPREADSHEET),
        Form("UTF-16", _file(_wide, ".tsv")),
        Form("Feather", _file(pa.feather.write_feather, ".feather")),
        Form("folder", _folder),
        Form("Excel", _file(_excel, ".xlsx"), needs="openpyxl"),
        Form("SPSS", _file(_spss, ".sav"), needs="pyreadstat"),
        Form("polars", _polars, in_file=False, needs="polars"),
        Form("data set", _dataset, in_file=False),
        *(Form(name, hand, in_file=False) for name, hand in database_forms().items()),
    )
    if not form.needs or find_spec(form.needs) is not None
}
