"""SQLite, through its ADBC driver."""

from collections.abc import Callable
from contextlib import closing
from typing import ClassVar
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from suffice.tables.labels import LONGEST_TEXT, label_texts, texts_of
from suffice.tables.sql.database import (
    TYPED_ROWS,
    AdbcDatabase,
    Cells,
    Column,
    Declared,
    file_of,
    identifier,
    selected,
)

__all__ = ["SQLite"]


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
            return Column(name, pa.float64(), (number, value), _where_number)
        short = f"length(cast({cell} as blob)) <= {LONGEST_TEXT}"
        sort = f"case typeof({cell}) when 'real' then 2 when 'blob' then 0 when 'null' then 0"
        sort += f" else {short} end"
        text = f"case when typeof({cell}) in ('integer', 'text') and {short}"
        text += f" then cast({cell} as text) else '' end"
        return Column(name, pa.string(), (sort, text, real), _where_text)

    def _typed(self, kind: pa.DataType) -> Callable[[Cells], pa.Array]:
        """Return a function that gives cells the type of the first rows."""
        return lambda cells: cells[0] if cells[0].type == kind else cells[0].cast(kind)


def _where_number(cells: Cells) -> pa.Array:
    is_number, value = cells
    return pc.if_else(pc.equal(is_number, 1), value, None)


def _where_text(cells: Cells) -> pa.Array:
    sort, text, real = cells
    texts = texts_of(pc.if_else(pc.equal(sort, 1), text.cast(pa.binary()), None), pa.string())
    is_real = pc.equal(sort, 2)
    if not pc.any(is_real).as_py():
        return texts
    coded = real.dictionary_encode()
    spelled = pa.array(label_texts(coded.dictionary.to_pylist()), pa.string())
    return pc.if_else(is_real, spelled.take(coded.indices), texts)
