"""Tables in databases: the rows of a query, read in one snapshot and never held together."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from weakref import finalize

import pyarrow as pa

from suffice.errors import ParameterError, StorageError, TableError
from suffice.tables import batching
from suffice.tables.batching import equal_batches, read_ahead
from suffice.tables.columns import position_of
from suffice.tables.places import shown_address
from suffice.tables.sql.database import Column, Database, identifier, selected
from suffice.tables.sql.opening import database_at

__all__ = ["Query", "QueryTable"]


@dataclass(frozen=True, repr=False)
class Query:
    """The rows of a query, as a table that a release or a learner reads.

    Nothing is ever written to the database, and all passes of a release read one snapshot. A query
    prints as its address without user, password and parameters, and no message quotes the SQL.
    Which rows the query returns, and in which order, is public: do not choose them by looking at
    what is private.

    Parameters
    ----------
    url : str
        The address: ``postgresql://host/database`` as libpq takes it (libpq also reads PGPASSWORD
        and ~/.pgpass), or a file. ``sqlite:///folder/file.db`` and ``duckdb:///folder/file.duckdb``
        are relative paths, ``sqlite:////folder/file.db`` is an absolute path.
    sql : str
        One SELECT.
    order_by : tuple of str, optional
        Columns of the query that identify each row, such as a key. They need not be features.
        Without them rows have no order, and what depends on an order is refused.

    Raises
    ------
    ParameterError
        If the SQL is empty.

    Examples
    --------
    >>> from suffice import Query
    >>> Query("postgresql://me:secret@db.example/clinic", "select * from visits", ("id",))
    Query('postgresql://db.example/clinic')
    """

    url: str
    sql: str
    order_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        columns = (self.order_by,) if isinstance(self.order_by, str) else tuple(self.order_by)
        object.__setattr__(self, "order_by", columns)
        object.__setattr__(self, "sql", self.sql.strip().rstrip(";"))
        if not self.sql:
            raise ParameterError("The query is empty. Give one SELECT.")

    def __str__(self) -> str:
        return shown_address(self.url)

    def __repr__(self) -> str:
        return f"Query({str(self)!r})"

    @property
    def ordered(self) -> bool:
        """Whether its rows have an order."""
        return bool(self.order_by)

    def names(self) -> list[str]:
        """Return the names of the columns. No row is read.

        Returns
        -------
        list of str
            The names, in the order of the query.

        Raises
        ------
        StorageError
            If the database cannot be reached.
        TableError
            If the query cannot be run.
        """
        return self.opened({}).names()

    def opened(self, declared: Mapping[str, pa.DataType]) -> "QueryTable":
        """Return the table, ready to be read in batches.

        A label is a text, or a number or truth value if its column holds these. A cell that is
        neither is missing, and so is a private number that is not a number.

        Parameters
        ----------
        declared : mapping of str to pyarrow.DataType
            Types of columns whose cells must not be looked at, such as private labels.

        Returns
        -------
        QueryTable
            The rows of one snapshot.
        """
        return QueryTable(self, declared, _Session(self))


class _Session:
    """One connection and one snapshot: opened at first use, closed after the last one."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._database: Database | None = None
        self._busy = Lock()

    @contextmanager
    def reading(self) -> Iterator[Database]:
        """Yield the connection for one pass; what fails is said in one line, without a cell."""
        if not self._busy.acquire(blocking=False):
            raise TableError(
                f"{self._query}: two passes over one query cannot run at the same time. Finish the"
                " first one before the next."
            )
        try:
            if self._database is None:
                self._database = self._connect()
            with _translate_errors(self._query, self._database):
                yield self._database
        finally:
            self._busy.release()

    def _connect(self) -> Database:
        try:
            database = database_at(self._query.url)
        except (TableError, ParameterError, StorageError):
            raise
        except Exception as error:  # noqa: BLE001  # of a library that may not be installed
            raise StorageError(
                f"{self._query} cannot be reached ({_error_name(error)}). Check the address, the"
                " server and your permissions."
            ) from None
        finalize(self, database.close)
        return database


@contextmanager
def _translate_errors(query: Query, database: Database) -> Iterator[None]:
    """Turn errors of a library into one line: their messages quote SQL and cells."""
    try:
        yield
    except (TableError, ParameterError, StorageError):
        raise
    except database.errors as error:
        raise TableError(
            f"{query}: the query cannot be run ({_error_name(error)}). Give one SELECT of"
            " columns that exist and that you may read."
        ) from None
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{query}: the query stopped while its rows were read ({_error_name(error)})."
            f" {database.stopped}."
        ) from None


def _error_name(error: Exception) -> str:
    """Return the class of an error, and its SQLSTATE if there is one."""
    state = getattr(error, "sqlstate", None)
    return type(error).__name__ + (f", SQLSTATE {state}" if state else "")


class QueryTable:
    """The rows of ``stored``, read in batches; ``declared`` columns are not looked at before."""

    rows = None
    stays = "The rows of a query are read in one process. Save them as Parquet."

    def __init__(
        self, stored: Query, declared: Mapping[str, pa.DataType], session: _Session
    ) -> None:
        self.stored, self.declared, self._session = stored, declared, session

    @property
    def ordered(self) -> bool:
        """Whether its rows have an order."""
        return self.stored.ordered

    @property
    def order_by(self) -> tuple[str, ...]:
        """The columns that order its rows."""
        return self.stored.order_by

    def opened(self, declared: Mapping[str, pa.DataType]) -> "QueryTable":
        """Return the same rows of the same snapshot, with ``declared`` columns as well."""
        union = {**self.declared, **declared}
        return self if union == self.declared else QueryTable(self.stored, union, self._session)

    def names(self) -> list[str]:
        """Return the names of the columns; it reads no row."""
        with self._session.reading() as database:
            return database.names(self.stored.sql)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns with their types."""
        return pa.schema([(column.name, column.kind) for column in self._columns])

    @cached_property
    def _columns(self) -> list[Column]:
        with self._session.reading() as database:
            lacking = sorted(set(self.order_by) - set(database.names(self.stored.sql)))
            if lacking:
                raise TableError(
                    f"{self.stored} has no column {lacking[0]!r} to order rows by. Name a column"
                    " of the query with --order-by."
                )
            return database.columns(self.stored.sql, self.declared, self._order)

    def parts(self) -> Sequence["QueryTable"]:
        """Return the table: it has one part."""
        return [self]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``columns``, in their order if they have one, in equal batches."""
        chosen = [self._columns[position_of(self.schema, name)] for name in columns]
        for column in chosen:
            if not column.cells:
                raise TableError(
                    f"Column {column.name!r} cannot be read: its type is {column.kind}. Cast it in"
                    " the query, or leave it out."
                )
        with (
            self._session.reading() as database,
            closing(database.stream(self._select(chosen))) as stream,
        ):
            decoded = (_decode_batch(batch, chosen) for batch in stream)
            yield from read_ahead(equal_batches(decoded, batching.BATCH_ROWS))

    def _select(self, columns: Sequence[Column]) -> str:
        cells = [cell for column in columns for cell in column.cells]
        return selected(cells, self.stored.sql, self._order)

    @property
    def _order(self) -> str:
        keys = ", ".join(identifier(name) for name in self.order_by)
        return f" order by {keys}" if keys else ""


def _decode_batch(batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """Return a batch of the columns, from the cells that SQL returned for them."""
    cells = iter(batch.columns)
    arrays = [column.decode([next(cells) for _ in column.cells]) for column in columns]
    return pa.record_batch(arrays, names=[column.name for column in columns])
