"""The owner's data as they were given: a table, its labels, and batches of both."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from suffice.engines.opening import Computing
from suffice.errors import ParameterError, TableError
from suffice.options import data_option, names, output_option
from suffice.tables.columns import Roles
from suffice.tables.labels import Classes, label_codes
from suffice.tables.sources import RowsPart, Table, sizes_of

__all__ = [
    "LabelledBatch",
    "LabelledPart",
    "OwnerReport",
    "PublicSource",
    "Source",
    "labelled_batches",
    "labelled_parts",
    "unlabelled_batches",
]


@dataclass(frozen=True)
class OwnerReport:
    """What the owner alone may know of a release: it depends on private data.

    ``lines`` are warnings for the owner's terminal, ``shown`` are named figures beside the result,
    ``facts`` are for the owner's programs.
    """

    lines: tuple[str, ...] = ()
    shown: tuple[tuple[str, str], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Source(Computing):
    """What an owner hands to a mechanism; the labels are ``y``, or the column ``label``.

    ``data`` is a table in any form. ``outside`` says what a label of no class is: an error, or no
    label at all, which weighs nothing (for requests that must not depend on labels). ``report`` is
    given what the owner alone may know. `Computing` says where its rows are read.
    """

    data: Any
    y: Any = None
    label: str | None = data_option(
        None,
        "Column that holds the private labels, for example diagnosis.",
        required=True,
        kw_only=True,
    )
    features: Sequence[str] | None = data_option(
        None,
        "Feature columns, with commas (repeatable). Default: all columns but the label.",
        parse=names,
        many=True,
        kw_only=True,
    )
    outside: Literal["error", "none"] = field(default="error", kw_only=True)
    report: Callable[[OwnerReport], None] | None = field(default=None, kw_only=True)

    def check(self) -> None:
        """Raise unless the labels are given, as an array or as a column, and not as both."""
        if (self.y is None) == (self.label is None):
            raise ParameterError("give the labels once: as y, or as the name of a column (label).")


@dataclass(frozen=True)
class PublicSource(Source):
    """A source whose rows everybody may see; ``found_at`` says where."""

    found_at: str | None = output_option(
        None,
        "Address where the public rows can be found, for example a web page.",
        name="--rows-url",
        old=("--found-at",),
        kw_only=True,
    )


@dataclass(frozen=True, eq=False)
class LabelledBatch:
    """Rows with the codes of their labels, and of the bags that they are in if there are bags."""

    rows: pa.RecordBatch
    codes: np.ndarray
    bags: np.ndarray | None = None

    def __len__(self) -> int:
        return self.rows.num_rows


@dataclass(frozen=True, eq=False)
class LabelledPart(RowsPart):
    """Private labels beside the feature columns of a part of a table.

    The labels are the column ``label``, or ``codes`` that were given apart, one for each row; so
    are the ``bags`` that rows are in.
    """

    classes: Classes
    label: str | None = None
    outside: Literal["error", "none"] = "error"
    codes: np.ndarray | None = None
    bags: np.ndarray | None = None

    def batches(self) -> Iterator[LabelledBatch]:
        """Yield the rows with the codes of their labels, and of their bags if there are any."""
        start = 0
        columns = [*self.columns, *([] if self.label is None else [self.label])]
        for batch in self.part.batches(columns):
            rows = slice(start, start := start + batch.num_rows)
            bags = None if self.bags is None else self.bags[rows]
            yield LabelledBatch(batch, self._codes(batch, rows), bags)
        for given in (self.codes, self.bags):
            if given is not None:
                self._check_length(start, len(given))

    def _codes(self, batch: pa.RecordBatch, rows: slice) -> np.ndarray:
        if self.label is not None:
            return label_codes(batch.column(self.label), self.classes, outside=self.outside)
        assert self.codes is not None  # noqa: S101  # for the type checker
        if len(self.codes) < rows.stop:
            self._check_length(rows.stop, len(self.codes))
        return self.codes[rows]

    def _check_length(self, rows: int, given: int) -> None:
        """Raise unless there is one label, or one line of bags, for each row."""
        if rows != given and self.rows is not None:
            raise TableError("the table changed while it was read; give one that stays as it is.")
        if rows > given:
            raise TableError(f"there are more rows than the {given} labels.")
        if rows < given:
            raise TableError(f"there are {rows} rows but {given} labels.")


def labelled_parts(
    table: Table, roles: Roles, classes: Classes, source: Source, bags: np.ndarray | None = None
) -> list[LabelledPart]:
    """Return the feature columns in parts, with the codes of the labels, and of ``bags`` if given.

    Labels or bags that were given apart are cut where the parts are.
    """
    codes = None
    if roles.label is None:
        codes = label_codes(source.y, classes, outside=source.outside)
    parts = table.parts()
    sizes = sizes_of(parts)
    if codes is not None and sizes is not None and sum(sizes) != len(codes):
        raise TableError(f"there are {sum(sizes)} rows but {len(codes)} labels.")
    return [
        LabelledPart(
            part,
            roles.features,
            classes,
            roles.label,
            source.outside,
            None if codes is None else codes[rows],
            None if bags is None else bags[rows],
        )
        for part, rows in zip(parts, _places(sizes), strict=True)
    ]


def _places(sizes: Sequence[int] | None) -> list[slice]:
    """Return where the rows of each part stand in a list of one item a row."""
    if sizes is None:  # there is one part
        return [slice(None)]
    ends = list(accumulate(sizes))
    return [slice(*ends_of) for ends_of in pairwise([0, *ends])]


def labelled_batches(
    table: Table, roles: Roles, classes: Classes, source: Source
) -> Iterator[LabelledBatch]:
    """Yield the feature columns batch by batch, with the codes of the labels."""
    for part in labelled_parts(table, roles, classes, source):
        yield from part.batches()


def unlabelled_batches(table: Table, features: Sequence[str]) -> Iterator[LabelledBatch]:
    """Yield batches of public rows, each row under the first class: no label is read."""
    for batch in table.batches(features):
        yield LabelledBatch(batch, np.zeros(batch.num_rows, dtype=np.int64))
