"""How the command line reads tables: files as they are written, or rows of a database."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli.checks import refuse_unused
from suffice.options import data_option, options_of

__all__ = ["Decimal", "Delimiter", "Encoding", "OrderBy", "Reading", "SqlQuery"]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is said of a table's form; what is not said is found, where it may be looked for."""

    delimiter: str | None = data_option(
        None,
        "What stands between the columns of a CSV file: one character, or tab. Default: as in its"
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
        "SQL query whose rows are the table; TABLE is then the address of a database:"
        " postgresql://HOST/DATABASE, sqlite:///FILE or duckdb:///FILE.",
    )
    order_by: list[str] | None = data_option(
        None,
        "Column that orders the rows of --query, for example a key (repeatable).",
        many=True,
    )

    def table(self, place: str | Path) -> Any:
        """Return what the library reads as a table."""
        if self.query is None:
            from suffice.tables.files import TableFile

            refuse_unused("without --query", {"--order-by": self.order_by or None})
            return TableFile(place, self.delimiter, self.decimal, self.encoding)
        from suffice.tables.databases import Query

        for name in ("delimiter", "decimal", "encoding"):
            refuse_unused("with --query", {f"--{name}": getattr(self, name)})
        return Query(str(place), self.query, tuple(self.order_by or ()))


_OPTIONS = options_of(Reading)
Delimiter = Annotated[str | None, typer.Option(help=_OPTIONS["delimiter"].help)]
Decimal = Annotated[str | None, typer.Option(help=_OPTIONS["decimal"].help)]
Encoding = Annotated[str | None, typer.Option(help=_OPTIONS["encoding"].help)]
SqlQuery = Annotated[str | None, typer.Option("--query", help=_OPTIONS["query"].help)]
OrderBy = Annotated[list[str] | None, typer.Option(help=_OPTIONS["order_by"].help)]
