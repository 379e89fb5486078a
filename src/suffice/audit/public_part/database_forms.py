"""Tables handed over as queries of a database, of those that are installed or at hand."""

import os
import sqlite3
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

from suffice.tables.databases import Query

__all__ = ["SERVER", "database_forms"]

SERVER = "SUFFICE_POSTGRESQL"  # the variable that holds the address of a server to write tables to
_KEY = "key"
_numbers = count()


def database_forms() -> Mapping[str, Callable[[pa.Table, Path], Query]]:
    """Return what writes a table to a database and hands over a query, by the database's name."""
    forms: dict[str, Callable[[pa.Table, Path], Query]] = {}
    if find_spec("adbc_driver_sqlite") is not None:
        forms["SQLite"] = _in_sqlite
    if find_spec("duckdb") is not None:
        forms["DuckDB"] = _in_duckdb
    if os.environ.get(SERVER) and find_spec("adbc_driver_postgresql") is not None:
        forms["PostgreSQL"] = _in_postgresql
    return forms


def _keyed(table: pa.Table) -> pa.Table:
    return table.append_column(_KEY, pa.array(np.arange(table.num_rows)))


def _in_sqlite(table: pa.Table, folder: Path) -> Query:
    """Write cells of no declared type: SQLite's own are all that a reader has."""
    keyed, path = _keyed(table), folder / "table.db"
    names = ", ".join(f'"{name}"' for name in keyed.column_names)
    marks = ", ".join("?" for _ in keyed.column_names)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(f"create table people ({names})")
        rows = zip(*(column.to_pylist() for column in keyed.columns), strict=True)
        connection.executemany(f"insert into people values ({marks})", rows)  # noqa: S608
    connection.close()
    return Query(f"sqlite:///{path}", "select * from people", (_KEY,))


def _in_duckdb(table: pa.Table, folder: Path) -> Query:
    import duckdb

    path = folder / "table.duckdb"
    with duckdb.connect(path) as connection:
        connection.register("given", _keyed(table))
        connection.execute("create table people as select * from given")
    return Query(f"duckdb:///{path}", "select * from people", (_KEY,))


def _in_postgresql(table: pa.Table, folder: Path) -> Query:
    """Write a table of its own: one that is still read cannot be replaced."""
    del folder
    from adbc_driver_postgresql import dbapi

    address, name = os.environ[SERVER], f"people_{os.getpid()}_{next(_numbers)}"
    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest(name, _keyed(table), mode="create")
        connection.commit()
    return Query(address, f"select * from {name}", (_KEY,))  # noqa: S608
