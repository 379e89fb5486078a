"""The tables of the golden files: invented, small, and the same for ever on every machine."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pyreadstat

from seeds import Stream

__all__ = ["PARTIES", "WRITERS", "clinic", "write_all"]

ROWS, PUBLIC_ROWS, PARTIES = 96, 40, 8
WARDS, SMOKES, COURSES = ("north", "south", "west"), ("never", "some", "daily"), ("a", "b", "c")


def clinic(rows: int, name: str) -> pa.Table:
    """Return patients with numbers, categories, two labels, a bag and a party.

    Numbers are short decimals: they are the same in text and in binary files.
    """
    draws = Stream(f"golden table {name}")
    u = [draws.uniforms(column, rows).tolist() for column in ("age", "dose", "ward", "x", "y", "z")]
    age = [round(20 + 60 * a, 1) for a in u[0]]
    dose = [round(1 + 4 * d * d, 2) for d in u[1]]
    ward = [WARDS[int(3 * w)] for w in u[2]]
    smokes = [SMOKES[int(3 * (0.7 * s + 0.3 * a))] for s, a in zip(u[3], u[0], strict=True)]
    score = [a + 12 * d + 25 * e for a, d, e in zip(age, dose, u[4], strict=True)]
    return pa.table(
        {
            "age": age,
            "dose": dose,
            "ward": ward,
            "smokes": smokes,
            "sick": [int(s > 92) for s in score],
            "course": [COURSES[(s > 80) + (s > 105)] for s in score],
            "year": [2021 + int(1.5 * (z + (s > 92))) for z, s in zip(u[5], score, strict=True)],
            "relapse": [int(x + a > 1.1) for x, a in zip(u[3], u[0], strict=True)],
            "practice": [f"p{i % PARTIES}" for i in range(rows)],
        }
    )  # fmt: skip


def _with_gaps(table: pa.Table) -> pa.Table:
    """Return the table without every 7th age, every 5th ward and every 9th label."""
    for name, every in (("age", 7), ("ward", 5), ("sick", 9)):
        gaps = pa.array([i % every == every - 1 for i in range(table.num_rows)])
        filled = pc.if_else(gaps, None, table[name])
        table = table.set_column(table.schema.get_field_index(name), name, filled)
    return table


def _excel(table: pa.Table, path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(table.column_names)
    for row in table.to_pylist():
        book.active.append(list(row.values()))
    book.save(path)


def _sqlite(table: pa.Table, path: Path) -> None:
    columns, marks = ", ".join(table.column_names), ", ".join("?" * table.num_columns)
    base = sqlite3.connect(path)
    base.execute(f"create table clinic (place integer primary key, {columns})")
    base.executemany(
        f"insert into clinic ({columns}) values ({marks})",
        [list(row.values()) for row in table.to_pylist()],
    )
    base.commit()
    base.close()


def _folder(table: pa.Table, path: Path) -> None:
    path.mkdir()
    for number, start in enumerate(range(0, table.num_rows, 40)):
        pq.write_table(table.slice(start, 40), path / f"{number}.parquet")


def _wide_csv(table: pa.Table, path: Path) -> None:
    """Write a CSV file as spreadsheets of Europe do: semicolons, and commas in numbers."""
    lines = [";".join(table.column_names)]
    for row in table.to_pylist():
        cells = (str(v).replace(".", ",") if isinstance(v, float) else str(v) for v in row.values())
        lines.append(";".join(cells))
    path.write_text("\n".join(lines) + "\n")


def _spss(table: pa.Table, path: Path) -> None:
    pyreadstat.write_sav(table.to_pandas(), path)


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "csv": pyarrow.csv.write_csv,
    "parquet": pq.write_table,
    "feather": pyarrow.feather.write_feather,
    "xlsx": _excel,
    "sqlite": _sqlite,
    "sav": _spss,
    "folder": _folder,
    "wide.csv": _wide_csv,
}


def write_all(folder: Path) -> None:
    """Write every table that a case reads."""
    table, public = clinic(ROWS, "private"), clinic(PUBLIC_ROWS, "public")
    for name, write in WRITERS.items():
        write(table, folder / f"clinic.{name}")
    for name in ("csv", "parquet"):
        WRITERS[name](public.select(["age", "dose", "ward"]), folder / f"aux.{name}")
    WRITERS["csv"](public, folder / "public.csv")
    WRITERS["csv"](_with_gaps(table), folder / "gaps.csv")
    other = clinic(ROWS, "other owner")
    WRITERS["csv"](other, folder / "other.csv")
    for name, rows in (("rows.csv", table), ("other rows.csv", other)):
        WRITERS["csv"](rows.select(["age", "dose", "ward"]), folder / name)
    WRITERS["csv"](clinic(PUBLIC_ROWS, "test"), folder / "test.csv")
    for party in range(PARTIES):
        own = table.filter(pc.equal(table["practice"], f"p{party}"))
        WRITERS["csv"](own.drop_columns(["practice"]), folder / f"p{party}.csv")
