"""DuckDB, through its own library."""

from collections.abc import Generator
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from suffice.errors import TableError
from suffice.tables.labels import LONGEST_TEXT
from suffice.tables.sql.database import (
    TYPED_ROWS,
    Column,
    Database,
    Declared,
    as_it_is,
    as_label,
    as_numbers,
    file_of,
    identifier,
    selected,
    unusable,
)

__all__ = ["DuckDB"]


class DuckDB(Database):
    """A DuckDB file, read by its own library, which fetches nothing from the network."""

    libraries = ("duckdb",)
    _SETTINGS: ClassVar[dict[str, Any]] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "memory_limit": "128MB",
        "threads": 1,  # rows wait for us, and each thread holds some
    }
    _NATIVE = frozenset(
        {"BOOLEAN", "FLOAT", "DOUBLE"}
        | {sign + size for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER")}
        | {"BIGINT", "UBIGINT", "TIME"}
    )
    _WIDE = ("DECIMAL", "HUGEINT", "UHUGEINT", "BIGNUM")
    _TEXTS = ("VARCHAR", "UUID", "ENUM")

    def __init__(self, url: str) -> None:
        import duckdb

        self.errors = (duckdb.Error,)
        self._statements = duckdb.extract_statements
        self._connection = duckdb.connect(file_of(url), read_only=True, config=self._SETTINGS)
        self._connection.execute("set enable_progress_bar = false")  # it would print
        self._connection.execute("begin transaction")

    def names(self, sql: str) -> list[str]:
        """Return the names of the columns of a query; it reads no row."""
        return list(self._relation(sql).columns)

    def _relation(self, sql: str) -> Any:
        query = selected([], sql)
        if len(self._statements(query)) != 1:
            raise TableError("A query must be one statement. Remove the others.")
        return self._connection.sql(query)

    def columns(self, sql: str, declared: Declared, order: str) -> list[Column]:
        """Return how each column is read; the types are those of the query."""
        del order
        relation = self._relation(sql)
        pairs = zip(relation.columns, map(str, relation.types), strict=True)
        planned = [self._column(name, native, declared.get(name)) for name, native in pairs]
        cells = [cell for column in planned for cell in column.cells]
        kinds = iter(self._reader(selected(cells, sql, " limit 0")).schema.types)
        found = [next(kinds) if column.cells else column.kind for column in planned]
        return [
            replace(column, kind=kind) if column.kind == pa.null() else column
            for column, kind in zip(planned, found, strict=True)
        ]

    def _column(self, name: str, native: str, declared: pa.DataType | None) -> Column:
        cell, kind = identifier(name), pa.null()  # the reader says it
        if native in self._NATIVE:
            return Column(name, kind, (cell,), as_it_is)
        text = f"cast({cell} as varchar)"
        if declared is not None and pa.types.is_string(declared):
            short = f"case when strlen({text}) <= {LONGEST_TEXT} then {text} end"
            return Column(name, kind, (short,), as_label)
        if native.startswith(self._WIDE) and not native.endswith("]"):
            # By its text: DuckDB's own cast divides, and rounds twice.
            return Column(name, kind, (f"cast({text} as double)",), as_it_is)
        if native.startswith(self._TEXTS) and not native.endswith("]"):
            read = (kind, as_it_is) if declared is None else (pa.float64(), as_numbers)
            return Column(name, read[0], (text,), read[1])
        if native == "DATE" or (native.startswith("TIMESTAMP") and not native.endswith("]")):
            finite = f"case when isfinite({cell}) then {cell} end"
            return Column(name, kind, (finite,), as_it_is)
        return unusable(name, native)

    def _reader(self, sql: str) -> Any:
        return self._connection.sql(sql).to_arrow_reader(TYPED_ROWS)

    def stream(self, sql: str) -> Generator[pa.RecordBatch]:
        """Yield the rows of a query."""
        with self._reader(sql) as reader:
            yield from reader

    def close(self) -> None:
        """End the snapshot and the connection."""
        self._connection.close()
