"""PostgreSQL, through its ADBC driver."""

import pyarrow as pa

from suffice.tables.sql.database import (
    AdbcDatabase,
    Column,
    Declared,
    as_it_is,
    as_label,
    as_numbers,
    identifier,
    unusable,
)

__all__ = ["PostgreSQL"]

_INFINITE = 2**1024 - 2**970  # from here on the nearest float64 is infinity
_ZERO = "2.4703282292062327209e-324"  # 2^-1075: up to here it is zero


class PostgreSQL(AdbcDatabase):
    """A PostgreSQL server; libpq reads passwords from PGPASSWORD and ~/.pgpass."""

    libraries = ("adbc_driver_manager", "adbc_driver_postgresql")
    _SETTINGS = (
        "set transaction isolation level repeatable read, read only",
        "set local datestyle to 'ISO'",
        "set local timezone to 'UTC'",
        "set local extra_float_digits to 1",
        "set local client_min_messages to error",  # a notice may quote a cell
    )
    _NATIVE = frozenset({"int2", "int4", "int8", "float4", "float8", "bool"})
    _DATES = frozenset({"date", "timestamp", "timestamptz"})

    def __init__(self, url: str) -> None:
        from adbc_driver_postgresql import dbapi

        self._connect(dbapi, url)
        try:
            with self._connection.cursor() as cursor:
                for setting in self._SETTINGS:
                    cursor.execute(setting)
        except dbapi.Error:
            self.close()
            raise

    def columns(self, sql: str, declared: Declared, order: str) -> list[Column]:
        """Return how each column is read; the types are those of the query."""
        del order
        return [self._column(field, declared) for field in self._schema(sql)]

    def _column(self, field: pa.Field, declared: Declared) -> Column:
        native = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
        cell = identifier(field.name)
        if native in self._NATIVE or native == "time":
            return Column(field.name, field.type, (cell,), as_it_is)
        text = f"cast({cell} as text)"
        if pa.types.is_string(declared.get(field.name, pa.null())):
            return Column(field.name, pa.string(), (text,), as_label)
        if pa.types.is_string(field.type) or native == "uuid":
            read = (pa.float64(), as_numbers) if field.name in declared else (pa.string(), as_it_is)
            return Column(field.name, read[0], (text,), read[1])
        if native in {"numeric", "money"}:
            nearest = _nearest_double(cell if native == "numeric" else f"cast({cell} as numeric)")
            return Column(field.name, pa.float64(), (nearest,), as_it_is)
        if native in self._DATES:
            # Arrow's microseconds end in 294247, PostgreSQL's 29 years later.
            finite = f"case when isfinite({cell}) and {cell} < '294000-01-01' then {cell} end"
            return Column(field.name, field.type, (finite,), as_it_is)
        return unusable(field.name, native)


def _nearest_double(cell: str) -> str:
    """Return SQL for the nearest float64 of a numeric; a cast alone fails beyond their range."""
    return (
        f"case when {cell} = 'NaN' then 'NaN' when {cell} >= {_INFINITE} then 'Infinity'"
        f" when {cell} <= -{_INFINITE} then '-Infinity' when abs({cell}) <= {_ZERO} then 0"
        f" else cast({cell} as double precision) end"
    )
