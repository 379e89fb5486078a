"""The data sheet of a table: what everybody may know of it before anything is released.

One file, ``columns.json``, names the columns with their types, ranges and categories, and says
which of them are public. It holds no path, no budget and no number that was read off a private
cell. Each number says where it came from. Names are those of CSV on the Web where it has one
(``name``, ``datatype``, ``minimum``, ``maximum``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from suffice import strict_json
from suffice.errors import ParameterError, StorageError

Source = Literal["known beforehand", "public rows", "private cells"]


@dataclass(frozen=True)
class SheetColumn:
    """One column: its name and type, what its cells can be, and where that is known from.

    A column of texts, or of codes, has ``categories``; a column of numbers has a range. What nobody
    has filled in yet is None.
    """

    name: str
    datatype: Literal["number", "integer", "boolean", "string", "date"] = "number"
    public: bool = False
    minimum: float | None = None
    maximum: float | None = None
    categories: tuple[str | int | bool, ...] | None = None
    source: Source | None = None  # of the range or the categories

    def __post_init__(self) -> None:
        told = f"The data sheet's column {self.name!r}"
        ends = (self.minimum, self.maximum)
        stated = self.categories is not None or ends != (None, None)
        if not self.name or not self.name.isprintable():
            raise ParameterError("Each column of a data sheet needs a name that can be printed.")
        if self.categories is not None and ends != (None, None):
            raise ParameterError(f"{told} has both categories and a range. Remove one of them.")
        if self.categories is not None and len({*map(str, self.categories)}) < max(
            len(self.categories), 1
        ):
            raise ParameterError(f"{told} needs different categories, at least one.")
        if (ends[0] is None) != (ends[1] is None) or (
            ends[0] is not None and ends[1] is not None and not ends[0] < ends[1]
        ):
            raise ParameterError(f"{told} needs a minimum and a larger maximum.")
        if stated and self.source is None:
            raise ParameterError(
                f"{told} does not say where its numbers come from. Set its source: known"
                " beforehand, public rows or private cells."
            )

    @property
    def width(self) -> int:
        """How many numbers a cell becomes: one, or one for each category."""
        return 1 if self.categories is None else len(self.categories)

    @property
    def is_text(self) -> bool:
        """Whether cells are read as one of some categories."""
        return self.categories is not None or self.datatype == "string"


@dataclass(frozen=True)
class DataSheet:
    """What everybody may know of a table, and all that a learner sees of private records.

    Parameters
    ----------
    columns : tuple of SheetColumn
        The columns that may be named. All others are as if they did not exist.
    label : str, optional
        The column of private labels; its categories are the classes.
    rows : int, optional
        About how many rows there are: work is estimated, and accuracy predicted, by it.
    rows_source : str, optional
        Where that number is known from.
    ordered : bool
        Whether the table has its rows in the order in which everybody has them. Only then may a
        learner ask for what speaks of public rows one by one.

    Examples
    --------
    >>> ward = SheetColumn("ward", "string", categories=("n", "s"), source="known beforehand")
    >>> sheet = DataSheet((SheetColumn("age", "integer", public=True), ward))
    >>> sheet.public, sheet.width(["age", "ward"])
    (('age',), 3)
    """

    columns: tuple[SheetColumn, ...]
    label: str | None = None
    rows: int | None = None
    rows_source: Source | None = None
    ordered: bool = False

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names or len({*names}) < len(names):
            raise ParameterError("A data sheet names at least one column, and each of them once.")
        if self.label is not None and self.label not in names:
            raise ParameterError("The label of a data sheet must be one of its columns.")
        if self.label is not None and self[self.label].public:
            raise ParameterError("The label of a data sheet is private. Set its public to false.")
        if self.rows is not None and (self.rows < 1 or self.rows_source in (None, "private cells")):
            raise ParameterError(
                "The rows of a data sheet must be a positive number, with rows_source: known"
                " beforehand or public rows."
            )

    @classmethod
    def load(cls, path: str | Path) -> "DataSheet":
        """Return the data sheet in a file, after checking all of it."""
        try:
            with Path(path).open("rb") as file:
                data = file.read(2**20 + 1)
        except OSError:
            raise StorageError(f"The data sheet {path} cannot be read.") from None
        if len(data) > 2**20:
            raise ParameterError("A data sheet has at most a mebibyte.")
        return cls.from_json(strict_json.parse(data))

    @classmethod
    def from_json(cls, data: object) -> "DataSheet":
        """Return the data sheet of plain JSON values; an unknown member is an error."""
        return strict_json.read(cls, data, "data sheet", defaults=True, error=ParameterError)

    def to_json(self) -> dict[str, Any]:
        """Return the data sheet as plain JSON values."""
        plain: dict[str, Any] = strict_json.plain(self)
        return plain

    def __contains__(self, name: object) -> bool:
        return any(column.name == name for column in self.columns)

    def __getitem__(self, name: str) -> SheetColumn:
        for column in self.columns:
            if column.name == name:
                return column
        raise ParameterError(f"The data sheet has no column {name!r}.")

    @property
    def public(self) -> tuple[str, ...]:
        """The columns whose cells everybody may see."""
        return tuple(column.name for column in self.columns if column.public)

    @property
    def features(self) -> tuple[str, ...]:
        """All columns but the label."""
        return tuple(column.name for column in self.columns if column.name != self.label)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels that can occur, None where the sheet leaves them open."""
        return None if self.label is None else self._declared(self[self.label]).categories

    def ranges(self, features: Iterable[str]) -> dict[str, tuple[float, float]]:
        """Return the range of each column of numbers among ``features``."""
        columns = [self._declared(self[name]) for name in features]
        return {
            column.name: (column.minimum, column.maximum)
            for column in columns
            if column.minimum is not None and column.maximum is not None
        }

    def categories(self, features: Iterable[str]) -> dict[str, tuple[Any, ...]]:
        """Return the categories of each column among ``features`` that has some."""
        columns = [self._declared(self[name]) for name in features]
        return {c.name: c.categories for c in columns if c.categories is not None}

    def open_columns(self, features: Iterable[str]) -> list[str]:
        """Return the columns whose range or categories nobody has filled in."""
        columns = [self[name] for name in features]
        return [c.name for c in columns if c.categories is None and c.minimum is None]

    def width(self, features: Iterable[str]) -> int:
        """Return how many numbers rows of these columns become, before a feature map."""
        return sum(self[name].width for name in features)

    def blank(self, features: Sequence[str]) -> pa.Table:
        """Return a table of as many rows, whose cells are all missing: for plans.

        Whatever is computed from it is a function of the sheet.
        """
        if self.rows is None:
            raise ParameterError(
                "The data sheet does not say how many rows there are. Its owner fills in rows."
            )
        names = [*features, *([] if self.label is None else [self.label])]
        texts = {n for n in names if n == self.label or self[n].is_text}
        size = min(self.rows, 2**16)  # of one batch, which is repeated
        kinds = [pa.string() if name in texts else pa.float64() for name in names]
        batch = pa.record_batch([pa.nulls(size, kind) for kind in kinds], names)
        whole, rest = divmod(self.rows, size)
        return pa.Table.from_batches([*[batch] * whole, batch.slice(0, rest)])

    @staticmethod
    def _declared(column: SheetColumn) -> SheetColumn:
        """Return a column whose numbers may be declared, or raise."""
        if column.source == "private cells":
            raise ParameterError(
                f"The numbers of column {column.name!r} come from private cells, so they cannot be"
                " declared. State numbers that were known beforehand. --standardize rows"
                " --unprotected reads them off private rows, and the release says so."
            )
        return column
