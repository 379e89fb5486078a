"""Which store an owner means: a file, or a PostgreSQL database."""

from importlib.util import find_spec
from pathlib import Path

from suffice.errors import ParameterError
from suffice.options import ledger_file
from suffice.owner.ledger.sqlite import SqliteStore
from suffice.owner.ledger.store import Store

__all__ = ["store_at"]


def store_at(place: str | Path) -> Store:
    """Return the store at a path, or at an address that begins with postgresql://."""
    file = ledger_file(place)
    if file is not None:
        return SqliteStore(file)
    if find_spec("psycopg") is None:
        raise ParameterError(
            "A ledger in PostgreSQL needs more packages. Install them: pip install"
            " 'suffice[postgres]'."
        )
    from suffice.owner.ledger.postgres import PostgresStore

    return PostgresStore(str(place))
