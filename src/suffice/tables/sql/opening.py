"""Which database an address leads to."""

from importlib.util import find_spec

from suffice.errors import ParameterError
from suffice.tables.sql.database import Database
from suffice.tables.sql.duckdb_file import DuckDB
from suffice.tables.sql.postgresql import PostgreSQL
from suffice.tables.sql.sqlite import SQLite

__all__ = ["database_at"]

_KINDS: dict[str, type[DuckDB] | type[PostgreSQL] | type[SQLite]] = {
    "postgresql": PostgreSQL, "postgres": PostgreSQL, "sqlite": SQLite, "duckdb": DuckDB,
}  # fmt: skip


def database_at(url: str) -> Database:
    """Return an open connection to an address, or raise an error of one line."""
    scheme = url.partition("://")[0]
    kind = _KINDS.get(scheme)
    if kind is None:
        raise ParameterError(
            "The address of a database must begin with postgresql://, sqlite:/// or duckdb:///."
        )
    if any(find_spec(library) is None for library in kind.libraries):
        raise ParameterError(
            "Databases need more packages. Install them: pip install 'suffice[database]'."
        )
    return kind(url)
