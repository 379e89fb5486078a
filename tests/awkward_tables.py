"""Tables as people have them: how each is written, what it needs to be typed, what is said of it.

A table has rows of `clinic_rows`; a maker writes some of them to a folder and returns what is given
to a release. Cells that nobody may quote hold the word SECRET.
"""

import bz2
import datetime as dt
import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pyreadstat

WARDS = ("Nord", "Süd", "West")
CLASSES = ("gesünder", "krank")
DECLARED = ("--classes", ",".join(CLASSES))


def clinic_rows(rows: int, seed: int) -> pd.DataFrame:
    """Return rows whose weight and ward tell something of the diagnosis."""
    rng = np.random.default_rng(seed)
    sick = rng.random(rows) < 0.5
    return pd.DataFrame(
        {
            "size": rng.normal(170, 8, rows).round(1),
            "weight": (70 + 14 * sick + rng.normal(0, 8, rows)).round(2),
            "ward": np.array(WARDS)[np.minimum(rng.integers(0, 3, rows) + sick, 2)],
            "diagnosis": np.array(CLASSES)[sick.astype(int)],
        }
    )


@dataclass(frozen=True)
class Awkward:
    """One form: how it is written, what is typed for it, and what refuses it (None: it works)."""

    name: str
    make: Callable[[pd.DataFrame, Path], Any]
    release: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    refused: str | None = None
    said: str = ""
    in_file: bool = True


def written(
    ending: str,
    sign: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8",
    change: Callable[[pd.DataFrame], pd.DataFrame] = lambda rows: rows,
    **more: Any,
) -> Callable[[pd.DataFrame, Path], Path]:
    """Return a maker of a CSV file in this dialect; ``change`` alters the rows first."""

    def make(rows: pd.DataFrame, folder: Path) -> Path:
        path = folder / f"rows{ending}"
        how = {"index": False, "lineterminator": "\r\n", **more}
        text = change(rows).to_csv(sep=sign, decimal=decimal, **how)
        packs = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": pa.Codec("zstd").compress}
        data = text.encode(encoding)
        pack = packs.get(path.suffix)
        path.write_bytes(data if pack is None else memoryview(pack(data)))
        return path

    return make


def raw(text: str | bytes) -> Callable[[pd.DataFrame, Path], Path]:
    def make(_: pd.DataFrame, folder: Path) -> Path:
        path = folder / "rows.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return make


def with_column(name: str, cells: Callable[[int], Any]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda rows: rows.assign(**{name: cells(len(rows))})


def with_gaps(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows.copy()
    rows.loc[::9, "size"] = np.nan
    rows.loc[::11, "ward"] = None
    return rows


def unlabelled(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows.copy()
    rows.loc[::7, "diagnosis"] = None
    return rows


def plain_names(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of which the labels alone have letters beyond ASCII."""
    return rows.assign(ward=rows["ward"].str.replace("ü", "ue"))


def parquet(change: Callable[[pa.Table], pa.Table]) -> Callable[[pd.DataFrame, Path], Path]:
    def make(rows: pd.DataFrame, folder: Path) -> Path:
        table = pa.Table.from_pandas(rows, preserve_index=False)
        pq.write_table(change(table), folder / "rows.parquet")
        return folder / "rows.parquet"

    return make


def cast(**kinds: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        for name, kind in kinds.items():
            position = table.schema.get_field_index(name)
            table = table.set_column(position, name, table[name].cast(kind))
        return table

    return change


def appended(name: str, cells: Callable[[int], pa.Array]) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.append_column(name, cells(len(table)))


def folder_of(ending: str, headers: tuple[str, ...] = ()) -> Callable[[pd.DataFrame, Path], Path]:
    def make(rows: pd.DataFrame, folder: Path) -> Path:
        path = folder / "parts"
        path.mkdir()
        half = len(rows) // 2
        for k, part in enumerate((rows[:half], rows[half:])):
            inner = path / str(k)
            inner.mkdir()
            renamed = part.rename(columns={"size": headers[k]}) if headers else part
            written(ending)(renamed, inner).rename(path / f"{k}{ending}")
            inner.rmdir()
        return path

    return make


def excel(rows: pd.DataFrame, folder: Path) -> Path:
    rows.assign(day=days(len(rows))).to_excel(folder / "rows.xlsx", index=False)
    return folder / "rows.xlsx"


def spss(rows: pd.DataFrame, folder: Path) -> Path:
    pyreadstat.write_sav(rows, str(folder / "rows.sav"))
    return folder / "rows.sav"


def polars_file(rows: pd.DataFrame, folder: Path) -> Path:
    polars_frame(rows).write_ipc(folder / "rows.arrow")
    return folder / "rows.arrow"


def polars_frame(rows: pd.DataFrame, _: Path | None = None) -> pl.DataFrame:
    frame = pl.from_pandas(rows)
    return frame.with_columns(pl.col("ward").cast(pl.Categorical))


def days(count: int) -> list[dt.date]:
    return [dt.date(2015, 1, 1) + dt.timedelta(days=(37 * k) % 1000) for k in range(count)]


def formatted(form: str) -> Callable[[int], list[str]]:
    return lambda count: [f"{day:{form}}" for day in days(count)]


def hard_to_tell(count: int) -> list[str]:
    return [f"{1 + k % 9:02d}/{1 + k % 7:02d}/2020" for k in range(count)]


def notes(count: int) -> list[str]:
    return [f"SECRET note number {k}" for k in range(count)]


def single_quoted(rows: pd.DataFrame, folder: Path) -> Path:
    return written(".csv", quotechar="'", quoting=1)(rows, folder)


def with_blank_lines_in_cells(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(ward=rows["ward"].str.replace("West", "We\nst"))


SEMICOLONS = {"sign": ";", "decimal": ","}
FILES = (
    Awkward("plain", written(".csv"), said="read as: commas, decimal points, utf-8"),
    Awkward("semicolons", written(".csv", ";"), said="semicolons, decimal points"),
    Awkward("tabs", written(".tsv", "\t"), said="tabs"),
    Awkward("bars", written(".txt", "|"), said="bars"),
    Awkward(
        "a sign of its own",
        written(".csv", "^"),
        ("--read", "delimiter=^"),
        ("--read", "delimiter=^"),
    ),
    Awkward("decimal commas", written(".csv", **SEMICOLONS), said="semicolons, decimal commas"),
    Awkward("decimal commas in quotes", written(".csv", ",", ","), said="commas, decimal commas"),
    Awkward("UTF-8 with a mark", written(".csv", encoding="utf-8-sig")),
    Awkward("UTF-16", written(".csv", encoding="utf-16"), said="utf-16"),
    Awkward("UTF-16 without a mark", written(".csv", ";", encoding="utf-16-be"), said="utf-16-be"),
    Awkward("Latin-1", written(".csv", encoding="latin-1", **SEMICOLONS), said="latin-1"),
    Awkward(
        "Latin-1 names",
        written(
            ".csv", encoding="latin-1", change=lambda rows: rows.rename(columns={"size": "Größe"})
        ),
        said="latin-1",
    ),
    Awkward("Latin-1 labels alone", written(".csv", encoding="latin-1", change=plain_names)),
    Awkward(
        "Windows-1252",
        written(".csv", encoding="cp1252", change=lambda r: r.replace("West", "W€st")),
    ),
    Awkward(
        "an encoding that is said",
        written(".csv", encoding="cp437"),
        *[("--read", "encoding=cp437")] * 2,
    ),
    Awkward("gz", written(".csv.gz")),
    Awkward("bz2", written(".csv.bz2", "\t")),
    Awkward("zst", written(".tsv.zst", "\t")),
    Awkward("single quotes", single_quoted),
    Awkward("lines in cells", written(".csv", change=with_blank_lines_in_cells)),
    Awkward("row numbers of pandas", written(".csv", index=True)),
    Awkward(
        "padded labels",
        written(".csv", change=lambda rows: rows.assign(diagnosis="  " + rows["diagnosis"] + "\t")),
    ),
    Awkward("gaps", written(".csv", change=with_gaps), ("--missing", "mean")),
    Awkward("gaps, and no rule", written(".csv", change=with_gaps), refused="--missing"),
    Awkward(
        "rows without labels",
        written(".csv", change=unlabelled),
        refused=r"35 of 240 labels are missing.*--missing-labels skip",
    ),
    Awkward("row numbers", written(".csv", change=with_column("nr", range)), refused="--drop nr"),
    Awkward(
        "row numbers left out", written(".csv", change=with_column("nr", range)), ("--drop", "nr")
    ),
    Awkward("free text", written(".csv", change=with_column("note", notes)), refused="--drop note"),
    Awkward(
        "free text joined",
        written(".csv", change=with_column("note", lambda n: ["SECRET", *["same"] * (n - 1)])),
        ("--min-count", "5"),
    ),
    Awkward(
        "ISO dates",
        written(".csv", change=with_column("day", formatted("%Y-%m-%d"))),
        said="counted in days since 1970-01-01",
    ),
    Awkward(
        "German dates",
        written(".csv", change=with_column("day", formatted("%d.%m.%Y"))),
        said="days",
    ),
    Awkward("American dates", written(".csv", change=with_column("day", formatted("%m/%d/%Y")))),
    Awkward(
        "day or month",
        written(".csv", change=with_column("day", hard_to_tell)),
        refused="day and month",
    ),
    Awkward(
        "truth values",
        written(".csv", change=with_column("ok", lambda n: ["TRUE", "False"] * (n // 2))),
    ),
    Awkward(
        "thousands",
        written(".csv", change=with_column("paid", lambda n: [f"{k % 7},234.5" for k in range(n)])),
        refused="--read decimal=",
    ),
    Awkward(
        "percent",
        written(".csv", change=with_column("part", lambda n: [f"{k % 9} %" for k in range(n)])),
        refused="currency signs",
    ),
    Awkward(
        "commas and points",
        written(".csv", change=with_column("dose", lambda n: [f"{k % 5},5" for k in range(n)])),
        refused="--read decimal=",
    ),
    Awkward(
        "numbers with words among them",
        written(
            ".csv",
            change=with_column(
                "dose", lambda n: [*(f"{k % 60}.5" for k in range(n - 1)), "SECRET"]
            ),
        ),
        refused="1 cells that are not numbers",
    ),
    Awkward(
        "an empty column",
        written(".csv", change=with_column("none", lambda n: [None] * n)),
        refused="--drop",
    ),
    Awkward(
        "a column of one value",
        written(".csv", change=with_column("unit", lambda n: ["kg"] * n)),
        said="same value in all rows",
    ),
    Awkward(
        "a column called split",
        written(".csv", change=with_column("split", lambda n: [k % 2 for k in range(n)])),
        said="used as features: split",
    ),
    Awkward("no names", raw("1.5,2,SECRET1\n2,3,0\n" * 9), refused="first line holds numbers"),
    Awkward("no names, whole numbers", raw("1,2,SECRET1\n2,3,0\n" * 9), refused="first line name"),
    Awkward("numbers as names", raw("1.5,2,0\n2,3,0\n" * 9), refused="first line holds numbers"),
    Awkward("a name twice", raw("a,a,diagnosis\n1,2,krank\n"), refused="more than once"),
    Awkward("nothing", raw(""), refused="it is empty"),
    Awkward("names alone", raw("size,weight,diagnosis\n"), refused="no rows"),
    Awkward("two signs", raw("a,b;diagnosis\n1,2;krank\n"), refused="--read delimiter="),
    Awkward("a short line", raw("a,b,diagnosis\n1,2,krank\nSECRET\n"), refused="fewer cells"),
    Awkward(
        "half a gz", lambda rows, folder: cut(written(".csv.gz")(rows, folder)), refused="read"
    ),
    Awkward("a folder of gz", folder_of(".csv.gz")),
    Awkward(
        "a folder of two tables", folder_of(".csv", ("size", "height")), refused="other columns"
    ),
    Awkward("polars' own file", polars_file),
    Awkward("Excel", excel, said="days since 1970"),
    Awkward("SPSS", spss),
    Awkward("decimals", parquet(cast(weight=pa.decimal128(12, 2)))),
    Awkward(
        "nullable integers",
        parquet(appended("n", lambda n: pa.array([1, None] * (n // 2)))),
        ("--missing", "zero"),
    ),
    Awkward("large strings", parquet(cast(ward=pa.large_string(), diagnosis=pa.large_string()))),
    Awkward(
        "dictionaries",
        parquet(
            cast(
                ward=pa.dictionary(pa.int8(), pa.string()),
                diagnosis=pa.dictionary(pa.int8(), pa.string()),
            )
        ),
    ),
    Awkward(
        "times with a zone",
        parquet(
            appended("at", lambda n: pa.array(days(n)).cast(pa.timestamp("ns", "Europe/Berlin")))
        ),
    ),
    Awkward(
        "times of the day",
        parquet(appended("at", lambda n: pa.array([dt.time(k % 24) for k in range(n)]))),
    ),
    Awkward(
        "lists", parquet(appended("l", lambda n: pa.array([["SECRET"]] * n))), refused="--drop"
    ),
    Awkward("no table", lambda _, folder: json_file(folder), refused="of one kind: Parquet"),
)


def cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-400])
    return path


def json_file(folder: Path) -> Path:
    path = folder / "rows.json"
    path.write_text(json.dumps([{"size": "SECRET"}]))
    return path


def arrow_table(rows: pd.DataFrame, _: Path) -> pa.Table:
    table = pa.Table.from_pandas(rows, preserve_index=False)
    return table.append_column(
        "cost", pa.array([Decimal("1.25"), Decimal("2.50")] * (len(rows) // 2))
    )


def dataset(rows: pd.DataFrame, folder: Path) -> ds.Dataset:
    return ds.dataset(parquet(lambda table: table)(rows, folder))


def pandas_frame(rows: pd.DataFrame, _: Path) -> pd.DataFrame:
    return rows.astype({"ward": "category", "size": "Float64"}).assign(
        n=pd.array([1, 2] * (len(rows) // 2), dtype="Int64")
    )


IN_MEMORY = (
    Awkward("pandas", pandas_frame, in_file=False),
    Awkward("polars", polars_frame, in_file=False),
    Awkward("arrow", arrow_table, in_file=False),
    Awkward("data set", dataset, in_file=False),
    Awkward(
        "batch",
        lambda rows, _: pa.RecordBatch.from_pandas(rows, preserve_index=False),
        in_file=False,
    ),
)
