"""How the command line reads tables: files as they are written, or rows of a database."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suffice.cli.checks import refuse_unused
from suffice.options import data_option

__all__ = ["TABLE_HELP", "Reading", "count_rows_of"]

TABLE_HELP = (
    "Parquet, CSV, Feather, Excel or SPSS file, or a folder of them; also an address (s3://..., or"
    " that of a database with --query)."
)
_DATABASES = ("postgresql://", "postgres://", "sqlite:///", "duckdb:///")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The form of a table; what is not set is read from the file, where that may be done."""

    delimiter: str | None = data_option(
        None,
        "Character between the columns of a CSV file, for example ; or tab. Default: as in its"
        " first line.",
    )
    decimal: str | None = data_option(
        None, "Decimal mark of a CSV file: . or ,. Default: as in public columns, else a point."
    )
    encoding: str | None = data_option(
        None,
        "Encoding of a CSV file, for example latin-1. Default: as its first line and public columns"
        " show it, else utf-8.",
    )

    query: str | None = data_option(
        None,
        "SQL query whose rows are the table; the table is then the address of a database:"
        " postgresql://HOST/DATABASE, sqlite:///FILE or duckdb:///FILE.",
    )
    order_by: list[str] | None = data_option(
        None,
        "Column that orders the rows of --query, for example a key (repeatable).",
        many=True,
    )

    def tables(self, paths: Sequence[str]) -> list[Any]:
        """Return several tables; a query is for those that are addresses of databases."""
        stored = [path.startswith(_DATABASES) for path in paths]
        if self.query is None or all(stored) or not any(stored):
            return [self.table(path) for path in paths]
        files = replace(self, query=None, order_by=None)
        databases = replace(self, delimiter=None, decimal=None, encoding=None)
        readings = [databases if in_database else files for in_database in stored]
        return [reading.table(path) for reading, path in zip(readings, paths, strict=True)]

    def table(self, path: str | Path) -> Any:
        """Return what the library reads as a table: a file, or the query of a database."""
        if self.query is None:
            from suffice.tables.files import TableFile

            refuse_unused("without --query", {"--order-by": self.order_by or None})
            return TableFile(path, self.delimiter, self.decimal, self.encoding)
        from suffice.tables.databases import Query

        for name in ("delimiter", "decimal", "encoding"):
            refuse_unused("with --query", {f"--{name}": getattr(self, name)})
        return Query(str(path), self.query, tuple(self.order_by or ()))


def count_rows_of(table: Any, count_rows: Callable[[int], None] | None) -> Any:
    """Return a table that reports the rows that are read of it."""
    if count_rows is None:
        return table
    from suffice.tables.sources import open_table

    return _CountedTable(open_table(table), count_rows)


class _CountedTable:
    """A table that reports its rows to a progress bar as they are read."""

    def __init__(self, table: Any, count_rows: Callable[[int], None]) -> None:
        self._table, self._count_rows = table, count_rows
        self.schema, self.parts = table.schema, table.parts

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the rows of ``columns``, and report each batch."""
        from suffice.engines.engine import begin_pass

        begin_pass(self._count_rows)
        for batch in self._table.batches(columns):
            yield batch
            self._count_rows(batch.num_rows)
