"""What all databases share: a connection that reads, columns by the SQL of their cells."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from suffice.errors import ParameterError, StorageError
from suffice.tables.labels import plain_texts
from suffice.tables.numbers import numbers_of

__all__ = [
    "TYPED_ROWS", "AdbcDatabase", "Cells", "Column", "Database", "Declared", "as_it_is", "as_label",
    "as_numbers", "file_of", "identifier", "selected", "unusable",
]  # fmt: skip

Cells = Sequence[pa.Array]
Declared = Mapping[str, pa.DataType]

TYPED_ROWS = 1 << 16  # of which a type is inferred, as for CSV files


@dataclass(frozen=True)
class Column:
    """A column of a query, and how it is read.

    Parameters
    ----------
    name : str
        The name of the column.
    kind : pyarrow.DataType
        The type of the column.
    cells : tuple of str
        SQL for its cells, in one column or several. A column without SQL cannot be read.
    decode : callable
        Makes one Arrow array of what the SQL returns.
    """

    name: str
    kind: pa.DataType
    cells: tuple[str, ...]
    decode: Callable[[Cells], pa.Array]


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


def as_it_is(cells: Cells) -> pa.Array:
    """Return cells of one column as SQL returned them."""
    return cells[0]


def as_label(cells: Cells) -> pa.Array:
    """Return texts. A cell that is not a text is missing."""
    return plain_texts(cells[0])


def as_numbers(cells: Cells) -> pa.Array:
    """Return numbers. A text that is not a number is missing."""
    return numbers_of(cells[0])


def unusable(name: str, kind: str) -> Column:
    """Return a column of a type that is neither numbers nor texts nor a time."""
    return Column(name, pa.opaque(pa.null(), kind, "SQL"), (), as_it_is)


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
