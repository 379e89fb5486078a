"""Tables in databases: the rows of a query, read in one snapshot and never held together.

SQLite and PostgreSQL are read through their ADBC drivers, DuckDB through its own library.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar
from urllib.parse import quote
from weakref import finalize

import pyarrow as pa
import pyarrow.compute as pc

from suffice.errors import ParameterError, StorageError, TableError
from suffice.tables import table
from suffice.tables.columns import (
    LONGEST_TEXT,
    label_texts,
    numbers_of,
    plain_texts,
    position_of,
    texts_of,
)
from suffice.tables.files import shown_address
from suffice.tables.table import equal_batches, read_ahead

Cells = Sequence[pa.Array]
Declared = Mapping[str, pa.DataType]

TYPED_ROWS = 1 << 16  # of which a type is inferred, as for CSV files


@dataclass(frozen=True)
class Column:
    """A column of a query, and how it is read.

    ``cells`` are SQL for its cells, in one column or several; without SQL it cannot be read.
    ``decode`` makes one Arrow array of what the SQL returns.
    """

    name: str
    kind: pa.DataType
    cells: tuple[str, ...]
    decode: Callable[[Cells], pa.Array] = itemgetter(0)


class Database(ABC):
    """An open connection that reads, in one snapshot of the database.

    ``errors`` are those of its library. Their messages quote SQL and cells, and go no further.
    ``stopped`` says what to do if one happens while rows are read.
    """

    libraries: ClassVar[tuple[str, ...]]
    errors: tuple[type[Exception], ...]
    stopped: ClassVar[str] = "Run it in the database to see why"

    @abstractmethod
    def names(self, sql: str) -> list[str]:
        """Return the names of the columns of a query; it reads no row, and refuses two queries."""

    @abstractmethod
    def columns(self, sql: str, declared: Declared, order: str) -> list[Column]:
        """Return how each column is read; of ``declared`` ones no cell is looked at.

        ``order`` is SQL behind the query, by which its rows are ordered.
        """

    @abstractmethod
    def stream(self, sql: str) -> Generator[pa.RecordBatch]:
        """Yield the rows of a query."""

    @abstractmethod
    def close(self) -> None:
        """End the snapshot and the connection."""


def identifier(name: str) -> str:
    """Return the name of a column of the query as SQL."""
    doubled = name.replace('"', '""')
    return f'q."{doubled}"'


def selected(cells: Sequence[str], sql: str, rest: str = "") -> str:
    """Return the query of these cells, named c0, c1 and so on."""
    cell_list = ", ".join(f"{cell} as c{k}" for k, cell in enumerate(cells))
    return f"select {cell_list or '*'} from (\n{sql}\n) as q{rest}"  # noqa: S608  # the owner's own


def file_of(url: str) -> Path:
    """Return the file of an address. It must exist: a connection would create a new one."""
    path = url.partition(":///")[2]
    if not path or path == ":memory:" or "?" in path:
        raise ParameterError(
            "The address of a database file must be sqlite:///PATH or duckdb:///PATH, without"
            " parameters. An absolute path begins with a fourth /."
        )
    if not Path(path).is_file():
        raise StorageError(f"{path} does not exist. Check the path.")
    return Path(path).absolute()


def as_label(cells: Cells) -> pa.Array:
    """Return texts. A cell that is not a text is missing."""
    return plain_texts(cells[0])


def as_numbers(cells: Cells) -> pa.Array:
    """Return numbers. A text that is not a number is missing."""
    return numbers_of(cells[0])


def unusable(name: str, kind: str) -> Column:
    """Return a column of a type that is neither numbers nor texts nor a time."""
    return Column(name, pa.opaque(pa.null(), kind, "SQL"), ())


class AdbcDatabase(Database):
    """A database that is read through its ADBC driver."""

    options: ClassVar[dict[str, str]] = {}

    def _connect(self, library: Any, address: str) -> None:
        self.errors = (library.Error,)
        self._connection = library.connect(address)

    def stream(self, sql: str) -> Generator[pa.RecordBatch]:
        """Yield the rows of a query."""
        with self._connection.cursor(adbc_stmt_kwargs=self.options) as cursor:
            cursor.execute(sql)
            with cursor.fetch_record_batch() as reader:
                yield from reader

    def _schema(self, sql: str) -> pa.Schema:
        with self._connection.cursor() as cursor:
            cursor.execute(selected([], sql, " limit 0"))
            with cursor.fetch_record_batch() as reader:
                return reader.schema

    def names(self, sql: str) -> list[str]:
        """Return the names of the columns of a query; it reads no row."""
        return list(self._schema(sql).names)

    def close(self) -> None:
        """End the snapshot and the connection."""
        self._connection.close()


class SQLite(AdbcDatabase):
    """A SQLite file. Each cell has its own type, so the first rows decide the type of a column."""

    libraries = ("adbc_driver_manager", "adbc_driver_sqlite")
    stopped = (
        f"Each column must hold values of the type that its first {TYPED_ROWS:,} rows have. Cast"
        " it in the query, for example cast(x as real)"
    )
    options: ClassVar[dict[str, str]] = {"adbc.sqlite.query.batch_rows": str(TYPED_ROWS)}

    def __init__(self, url: str) -> None:
        from adbc_driver_sqlite import dbapi

        self._connect(dbapi, f"file:{quote(str(file_of(url)))}?mode=ro")

    def names(self, sql: str) -> list[str]:
        """Return the names of the columns of a query; it reads no row."""
        with self._connection.cursor() as cursor:
            cursor.adbc_prepare(sql)  # of two queries the driver would read the first alone
        return super().names(sql)

    def columns(self, sql: str, declared: Declared, order: str) -> list[Column]:
        """Return how each column is read: as declared, or by the type of its first cells."""
        names = self.names(sql)
        looked_at = [name for name in names if name not in declared]
        types = {name: pa.null() for name in looked_at}
        cells = [identifier(name) for name in looked_at]
        if cells:
            with closing(
                self.stream(selected(cells, sql, f"{order} limit {TYPED_ROWS}"))
            ) as stream:
                for batch in stream:
                    pairs = zip(looked_at, batch.columns, strict=True)
                    types |= {n: c.type for n, c in pairs if c.null_count < len(c)}
        return [
            self._private(name, declared[name])
            if name in declared
            else Column(name, types[name], (identifier(name),), self._typed(types[name]))
            for name in names
        ]

    def _private(self, name: str, kind: pa.DataType) -> Column:
        """Return SQL that is never NULL and has one type: the driver infers types from first rows.

        The first column says what a cell is: missing, a text, or a number that SQL would round.
        """
        cell = identifier(name)
        real = f"case typeof({cell}) when 'real' then {cell} else 0.0 end"
        if not pa.types.is_string(kind):
            number = f"typeof({cell}) in ('integer', 'real')"
            value = f"case when {number} then cast({cell} as real) else 0.0 end"
            return Column(
                name,
                pa.float64(),
                (number, value),
                lambda cells: pc.if_else(pc.equal(cells[0], 1), cells[1], None),
            )
        short = f"length(cast({cell} as blob)) <= {LONGEST_TEXT}"
        sort = f"case typeof({cell}) when 'real' then 2 when 'blob' then 0 when 'null' then 0"
        sort += f" else {short} end"
        text = f"case when typeof({cell}) in ('integer', 'text') and {short}"
        text += f" then cast({cell} as text) else '' end"
        return Column(name, pa.string(), (sort, text, real), _where_text)

    def _typed(self, kind: pa.DataType) -> Callable[[Cells], pa.Array]:
        """Return a function that gives cells the type of the first rows."""
        return lambda cells: cells[0] if cells[0].type == kind else cells[0].cast(kind)


def _where_text(cells: Cells) -> pa.Array:
    sort, text, real = cells
    texts = texts_of(pc.if_else(pc.equal(sort, 1), text.cast(pa.binary()), None), pa.string())
    is_real = pc.equal(sort, 2)
    if not pc.any(is_real).as_py():
        return texts
    coded = real.dictionary_encode()
    spelled = pa.array(label_texts(coded.dictionary.to_pylist()), pa.string())
    return pc.if_else(is_real, spelled.take(coded.indices), texts)


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
            return Column(field.name, field.type, (cell,))
        text = f"cast({cell} as text)"
        if pa.types.is_string(declared.get(field.name, pa.null())):
            return Column(field.name, pa.string(), (text,), as_label)
        if pa.types.is_string(field.type) or native == "uuid":
            read = (
                (pa.float64(), as_numbers)
                if field.name in declared
                else (pa.string(), itemgetter(0))
            )
            return Column(field.name, read[0], (text,), read[1])
        if native in {"numeric", "money"}:
            exact = cell if native == "numeric" else f"cast({cell} as numeric)"
            nearest = (  # the nearest float64: a cast alone fails beyond their range
                f"case when {exact} = 'NaN' then 'NaN' when {exact} >= {_INFINITE} then 'Infinity'"
                f" when {exact} <= -{_INFINITE} then '-Infinity'"
                f" when abs({exact}) <= {_ZERO} then 0 else cast({exact} as double precision) end"
            )
            return Column(field.name, pa.float64(), (nearest,))
        if native in self._DATES:
            # Arrow's microseconds end in 294247, PostgreSQL's 29 years later.
            finite = f"case when isfinite({cell}) and {cell} < '294000-01-01' then {cell} end"
            return Column(field.name, field.type, (finite,))
        return unusable(field.name, native)


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
            return Column(name, kind, (cell,))
        text = f"cast({cell} as varchar)"
        if declared is not None and pa.types.is_string(declared):
            short = f"case when strlen({text}) <= {LONGEST_TEXT} then {text} end"
            return Column(name, kind, (short,), as_label)
        if native.startswith(self._WIDE) and not native.endswith("]"):
            # By its text: DuckDB's own cast divides, and rounds twice.
            return Column(name, kind, (f"cast({text} as double)",))
        if native.startswith(self._TEXTS) and not native.endswith("]"):
            read = (kind, itemgetter(0)) if declared is None else (pa.float64(), as_numbers)
            return Column(name, read[0], (text,), read[1])
        if native == "DATE" or (native.startswith("TIMESTAMP") and not native.endswith("]")):
            finite = f"case when isfinite({cell}) then {cell} end"
            return Column(name, kind, (finite,))
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
                    " of the query with --read order-by=COLUMN."
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
        cells = [cell for column in chosen for cell in column.cells]
        with (
            self._session.reading() as database,
            closing(database.stream(selected(cells, self.stored.sql, self._order))) as stream,
        ):
            decoded = (_decode_batch(batch, chosen) for batch in stream)
            yield from read_ahead(equal_batches(decoded, table.BATCH_ROWS))

    @property
    def _order(self) -> str:
        keys = ", ".join(identifier(name) for name in self.order_by)
        return f" order by {keys}" if keys else ""


def _decode_batch(batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """Return a batch of the columns, from the cells that SQL returned for them."""
    cells = iter(batch.columns)
    arrays = [column.decode([next(cells) for _ in column.cells]) for column in columns]
    return pa.record_batch(arrays, names=[column.name for column in columns])
