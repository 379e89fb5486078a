"""The owner's data as they were given: a table, its labels, and batches of both."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from suffice.errors import ParameterError, TableError
from suffice.options import data_option, names, output_option
from suffice.tables.columns import Roles
from suffice.tables.labels import Classes, label_codes
from suffice.tables.sources import Table

__all__ = [
    "LabelledBatch",
    "OwnerReport",
    "PublicSource",
    "Source",
    "labelled_batches",
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
class Source:
    """What an owner hands to a mechanism; the labels are ``y``, or the column ``label``.

    ``data`` is a table in any form. ``outside`` says what a label of no class is: an error, or no
    label at all, which weighs nothing (for requests that must not depend on labels). ``report`` is
    given what the owner alone may know.
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
    progress: Callable[[int], None] | None = field(default=None, kw_only=True)
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


def labelled_batches(
    table: Table, roles: Roles, classes: Classes, source: Source
) -> Iterator[LabelledBatch]:
    """Yield the feature columns batch by batch, with the codes of the labels."""
    features, label = roles.features, roles.label
    if label is not None:
        for batch in table.batches([*features, label]):
            codes = label_codes(batch.column(label), classes, outside=source.outside)
            yield LabelledBatch(batch, codes)
        return
    codes, start = label_codes(source.y, classes, outside=source.outside), 0
    for batch in table.batches(features):
        end = start + batch.num_rows
        if len(codes) < end:
            raise TableError(f"there are more rows than the {len(codes)} labels.")
        yield LabelledBatch(batch, codes[start:end])
        start = end
    if start < len(codes):
        raise TableError(f"there are {start} rows but {len(codes)} labels.")


def unlabelled_batches(table: Table, features: Sequence[str]) -> Iterator[LabelledBatch]:
    """Yield batches of public rows, each row under the first class: no label is read."""
    for batch in table.batches(features):
        yield LabelledBatch(batch, np.zeros(batch.num_rows, dtype=np.int64))
