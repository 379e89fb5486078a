"""The owner's data as they were given: a table, its labels, and batches of both.

Public columns that cannot be features (ids, free text, numbers that were read as text) are refused,
and the error says what to type. Columns that only look odd are used, and a note names them. All of
this is about public rows.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa

from suffice.engines.engine import Computing
from suffice.engines.summary import Summary
from suffice.errors import ParameterError, TableError
from suffice.options import Group, data_option, names, option, output_option
from suffice.plain_text import collected_notes, listed, note
from suffice.releases.release import LabelledRows
from suffice.tables.columns import (
    Classes,
    Roles,
    StrangeLabelsError,
    label_array,
    label_codes,
    missing_labels,
    temporal_unit,
)
from suffice.tables.databases import Query
from suffice.tables.files import looks_like_numbers
from suffice.tables.sources import Picked, Without, open_columns, open_table
from suffice.tables.table import (
    MemoryTable,
    RowsPart,
    Table,
    check_order,
    names_in_memory,
    sizes_of,
)


@dataclass(frozen=True)
class OwnerReport:
    """What only the owner may know of a release: it depends on private data."""

    lines: tuple[str, ...] = ()  # warnings for the owner's terminal
    facts: Mapping[str, Any] = field(default_factory=dict)  # the same for a caller in Python

    def tell(self) -> None:
        """Tell the owner, and nobody else, what depends on private data; no answer does."""
        for line in self.lines:
            note(f"{line} Only you see this line.")


PERSON: dict[str, Any] = {
    "help": "Column of ids that says whose row each is, for example patient. The release protects"
    " all rows of a person together. No id leaves, and the column is no feature.",
    "group": Group.DATA,
}


@dataclass(frozen=True)
class Source(Computing):
    """What an owner hands to a mechanism: a table, and its labels as an array or a column.

    The fields of `Computing` say where its rows are read.
    """

    data: Any  # a table in any form
    y: Any = None  # the labels, one for each row, if they are not a column
    label: str | None = data_option(
        None,
        "Column that holds the private labels, for example diagnosis. Default: as `suffice init`"
        " was told.",
        kw_only=True,
    )
    features: Sequence[str] | None = data_option(
        None,
        "Feature columns, with commas (repeatable). Default: all columns but the label.",
        parse=names,
        many=True,
        kw_only=True,
    )
    drop: Sequence[str] = data_option(
        (),
        "Column to leave out, for example an id (repeatable).",
        many=True,
        kw_only=True,
    )
    # Column of a private number that takes the place of a label, for mechanisms that offer it.
    target: str | None = field(default=None, kw_only=True)
    person: str | None = option(None, **PERSON, kw_only=True)
    # A label outside the class list is an error, or no label at all, which weighs nothing (for
    # requests that must not depend on labels).
    outside: Literal["error", "none"] = field(default="error", kw_only=True)
    report: Callable[[OwnerReport], None] | None = field(default=None, kw_only=True)

    def check(self) -> None:
        """Raise unless the labels are given, as an array or as a column, and not as both.

        A target takes their place; where it is an array, it has a name as well.
        """
        if self.target is not None:
            if self.label is not None:
                raise ParameterError("Give a label or a target, not both. Remove one of them.")
        elif (self.y is None) == (self.label is None):
            raise ParameterError(
                "Give the labels once: as an array (y), or as the name of a column (label)."
            )

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Yield the same with an open engine, and with the table as a mechanism may see it.

        Every pass reads the rows of one snapshot, if the table is a query.
        """
        data = self.data
        source = replace(self, data=data.opened({})) if isinstance(data, Query) else self
        with super(Source, source).running() as opened:
            yield opened.prepared()

    def prepared(self) -> Self:
        """Return the same without the columns that are to be left out, a target among the rest."""
        if self.drop and {self.label, self.target, self.person} & set(self.drop):
            raise ParameterError(
                "The label and the column of ids cannot be left out. Name other columns with"
                " --drop (Python: drop=...)."
            )
        data = Without(self.data, tuple(self.drop)) if self.drop else self.data
        if self.target is not None and self.y is not None:
            if not (hasattr(self.data, "__arrow_c_stream__") or isinstance(self.data, np.ndarray)):
                raise TableError("The target of a file must be one of its columns. Name it.")
            rows, cells = self.data, label_array(self.y)
            objects = hasattr(rows, "assign")  # of pandas: their types are declared later
            if not objects:
                table = open_table(rows)
                rows = pa.Table.from_batches(table.batches(table.schema.names))
            if len(cells) != len(rows) or self.target in names_in_memory(rows):
                raise TableError("Give one target for each row, under a name that no column has.")
            if objects:
                rows = rows.assign(**{self.target: cells.to_numpy(zero_copy_only=False)})
            else:
                rows = rows.append_column(self.target, cells)
            data = Without(rows, tuple(self.drop)) if self.drop else rows
        if self.target is not None:
            return replace(self, data=data, drop=(), y=None, label=self.target)
        return replace(self, data=data, drop=()) if self.drop else self


@dataclass(frozen=True)
class TargetSource(Source):
    """A source whose records have a label, or a number in its place: a target."""

    label: str | None = data_option(
        None,
        "Column that holds the private labels, for example diagnosis. For numbers use --target.",
        kw_only=True,
    )
    target: str | None = data_option(
        None,
        "Column that holds a private number to predict, for example hours. Declare its --range.",
        kw_only=True,
    )


class MissingLabels(StrEnum):
    """What becomes of rows that have no label."""

    ERROR = "error"
    SKIP = "skip"


@dataclass(frozen=True)
class PublicSource(Source):
    """A source whose rows everybody may see.

    ``labelled`` says which rows have a label, where those without one are skipped.
    """

    missing_labels: Literal["error", "skip"] = data_option(
        "error",
        "What happens to rows without a label: error (refuse) or skip. With skip, the release"
        " shows which rows have labels.",
        choices=MissingLabels,
        kw_only=True,
    )
    labelled: LabelledRows | None = field(default=None, kw_only=True)
    found_at: str | None = output_option(
        None,
        "Address where others can find the public rows, for example a web page.",
        name="--rows-url",
        kw_only=True,
    )

    def prepared(self) -> Self:
        """Return the same without columns, and without rows, that are to be left out."""
        source = super().prepared()
        if self.missing_labels not in {*MissingLabels}:
            raise ParameterError(f"missing_labels must be one of {', '.join(MissingLabels)}.")
        if self.missing_labels != "skip" or self.labelled is not None:
            return source
        check_order(source.data, "the order says which rows have labels")
        label = self.label
        if label is None:
            mask = ~missing_labels(self.y)
        else:
            with collected_notes():  # what may be said of the table is said where it is read
                if self.features is None:
                    table = open_table(source.data, text=[label])
                else:
                    table = open_columns(source.data, self.features, label=label)
                cells = [missing_labels(b.column(label)) for b in table.batches([label])]
            mask = ~np.concatenate(cells)
        if not mask.any():
            raise TableError("No row has a label. Check the name of the label column.")
        y = self.y if self.y is None else label_array(self.y).filter(pa.array(mask))
        return replace(source.picked(mask), y=y)

    def picked(self, mask: np.ndarray) -> Self:
        """Return the same of those rows alone where ``mask`` is true, a public choice."""
        whole = mask
        if self.labelled is not None:  # of a table that has more rows
            whole = self.labelled.mask.copy()
            whole[whole] = mask
        return replace(self, data=Picked(self.data, mask), labelled=LabelledRows.of(whole))


@dataclass(frozen=True, eq=False)
class LabelledBatch:
    """Rows, that is their feature columns, with the codes of their labels and of their bags."""

    rows: pa.RecordBatch
    codes: np.ndarray
    bags: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.rows.num_rows)


@dataclass(frozen=True, eq=False)
class LabelledPart(RowsPart):
    """Private labels beside the feature columns of a part of a table."""

    classes: Classes
    label: str | None = None  # the column of labels, unless ``codes`` hold them
    outside: Literal["error", "none"] = "error"  # what a label outside the class list is
    codes: np.ndarray | None = None  # of labels that were given as an array, one for each row
    bags: np.ndarray | None = None  # the codes of the bags of each row

    def batches(self) -> Iterator[LabelledBatch]:
        """Yield the rows with the codes of their labels, and of their bags if there are any."""
        start = 0
        columns = [*self.columns, *([] if self.label is None else [self.label])]
        for batch in self.part.batches(columns):
            rows = slice(start, start := start + batch.num_rows)
            if self.codes is None:
                labels = batch.column(self.label)
                codes = np.zeros(len(labels), dtype=np.int64)  # of a target, which has no classes
                if self.classes:
                    codes = label_codes(labels, self.classes, outside=self.outside)
            else:
                codes = self.codes[rows]
                if len(codes) < batch.num_rows:
                    self._check_length(start, len(self.codes))
            yield LabelledBatch(batch, codes, None if self.bags is None else self.bags[rows])
        for separate_array in (self.codes, self.bags):
            if separate_array is not None:
                self._check_length(start, len(separate_array))

    def strange_labels(self) -> tuple[int, int]:
        """Return how many labels are missing or of no class, and the number of rows."""
        codes = [] if self.codes is None else [self.codes]
        if self.label is not None:
            label_batches = self.part.batches([self.label])
            codes = [label_codes(b.column(0), self.classes, outside="none") for b in label_batches]
        return sum(int((c < 0).sum()) for c in codes), sum(map(len, codes))

    def _check_length(self, rows: int, labels: int) -> None:
        """Raise unless there is one label, or one line of bags, for each row."""
        if rows != labels and self.rows is not None:
            raise TableError(
                "The table changed while it was read. Use a copy that nobody writes to."
            )
        if rows > labels:
            raise TableError(
                f"There are more rows than the {labels} labels. Give one label for each row."
            )
        if rows < labels:
            raise TableError(
                f"There are {rows} rows but {labels} labels. Give one label for each row."
            )


def labelled_parts(
    table: Table, roles: Roles, classes: Classes, source: Source, bags: np.ndarray | None = None
) -> list[LabelledPart]:
    """Return the feature columns in parts, with the codes of the labels, and of ``bags`` if given.

    Labels or bags that were given apart are cut where the parts are. Raise if a file or a database
    declares numbers with decimals for the labels, where no label is an error: all would be none.
    """
    parts = table.parts()
    kind = None if roles.label is None else table.schema.field(roles.label).type
    # In a frame the type may say that a label is missing: then pandas has no whole numbers.
    is_declared = not all(isinstance(part, MemoryTable) for part in parts)
    if (
        source.outside == "none"
        and classes
        and is_declared
        and kind is not None
        and (pa.types.is_floating(kind) or pa.types.is_decimal(kind))
    ):
        raise TableError(
            f"Column {roles.label!r} holds numbers with decimals ({kind}), which are no classes."
            " Store classes as whole numbers or texts. To learn to predict the number, use suffice"
            f" release moments --target {_quoted_name(roles.label or '')}."
        )
    codes = None
    if roles.label is None:
        codes = label_codes(source.y, classes, outside=source.outside)
    sizes = sizes_of(parts)
    if codes is not None and sizes is not None and sum(sizes) != len(codes):
        raise TableError(
            f"There are {sum(sizes)} rows but {len(codes)} labels. Give one label for each row."
        )
    slices = [slice(None)]  # of the one part of a table whose size is not known
    if sizes is not None:
        slices = [slice(*ends) for ends in pairwise([0, *accumulate(sizes)])]
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
        for part, rows in zip(parts, slices, strict=True)
    ]


def counted(parts: Sequence[LabelledPart], source: Source) -> StrangeLabelsError:
    """Return the error of labels that are of no class, with the number of all of them."""
    label_counts = [part.strange_labels() for part in parts]
    strange, rows = (sum(numbers) for numbers in zip(*label_counts, strict=True))
    skipping = " To skip rows without a label, use --missing-labels skip."
    advice = skipping if isinstance(source, PublicSource) else ""
    return StrangeLabelsError(strange, rows, parts[0].classes, advice)


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


FEW_ROWS = 20  # a run of so few numbers can be chance
_FEW_TEXTS = 5
_FEW_NUMBERS = 20
_SMALL_TABLE = 100
_MANY_CATEGORIES = 30
_SUSPECTS = frozenset({"split", "fold", "index", "id", "row", "rownum", "row_id", "uuid", "key"})


def refuse_unfit(
    summary: Summary, declared: Collection[str], *, features_listed: bool, min_count: int
) -> None:
    """Raise if a column is no feature: it numbers the rows, names them, or holds odd numbers.

    ``declared`` are columns whose categories were declared. If the owner listed the features
    (``features_listed``), ids and names among them are wanted. They are also used where there is
    nothing else.
    """
    texts = {name: counts for name, counts in summary.counts.items() if name not in declared}
    for name, counts in texts.items():  # most of which may be numbers that were not read as such
        words = [str(text) for text in counts if text is not None]
        unread_numbers = [word for word in words if looks_like_numbers(word)]
        plain_numbers = [word for word in words if _is_number(word)]
        numbers = {*unread_numbers, *plain_numbers}
        if len(unread_numbers) == len(words) or (
            2 * len(unread_numbers) > len(words) and len(numbers) == len(words)
        ):
            raise TableError(
                f"Column {name!r} holds numbers with commas, blanks, percent or currency signs,"
                " which are read as text. Set the decimal mark (--read decimal=,), write plain"
                f" numbers, or leave the column out (--drop {_quoted_name(name)})."
            )
        many = len(plain_numbers) > _FEW_NUMBERS or 2 * len(unread_numbers) > len(words)
        if many and len(numbers) < len(words) < 2 * len(numbers):
            strange = sum(counts[word] for word in words if word not in numbers and word in counts)
            raise TableError(
                f"Column {name!r} holds numbers and {strange:,} cells that are not numbers. Empty"
                " these cells, declare its categories (--categories), or leave the column out"
                f" (--drop {_quoted_name(name)})."
            )
    if features_listed:
        return
    reasons = {
        name: "numbers the rows"
        for name in summary.mean
        if name in summary.runs and summary.rows - summary.missing[name] >= FEW_ROWS
    }
    for name, counts in texts.items():
        single_texts = sum(count == 1 for text, count in counts.items() if text is not None)
        if single_texts > summary.rows / 2 and summary.rows >= _FEW_TEXTS and min_count == 1:
            reasons[name] = f"has a different text in {single_texts:,} of {summary.rows:,} rows"
    if reasons and len(reasons) < len(summary.missing):  # else nothing would be left
        sentences = ". ".join(f"Column {name!r} {reason}" for name, reason in reasons.items())
        drops = " ".join(f"--drop {_quoted_name(name)}" for name in reasons)
        joining = ", join rare texts (--min-count 10)" if set(reasons) & set(texts) else ""
        raise TableError(
            f"{sentences}. A model cannot learn from ids and free text. Leave them out"
            f" ({drops}){joining}, or list the features with --features."
        )


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _quoted_name(name: str) -> str:
    """Return a name as it is typed after an option."""
    return name if name.isidentifier() else f"'{name}'"


def note_oddities(summary: Summary, features: Sequence[str]) -> None:
    """Say what whoever releases should know of public columns."""
    for name in features:
        unit = temporal_unit(summary.sample.rows.schema.field(name).type)
        if unit:
            note(f"Column {name!r} holds dates or times. They are counted in {unit}.")
    for name, counts in summary.counts.items():
        if len(counts) > _MANY_CATEGORIES:
            note(
                f"Column {name!r} becomes {len(counts)} categories. Join rare ones with"
                " --min-count, or leave the column out with --drop."
            )
    columns = {name: summary.sample.rows.column(name) for name in features}
    numbered = []  # features of which no two rows of the sample have the same whole number
    if (summary.sample.weights == 1).all():
        numbered = [
            name
            for name, column in columns.items()
            if pa.types.is_integer(column.type) and name not in summary.counts
            if len(column) >= FEW_ROWS and len(column.unique()) == len(column)
        ]
    if numbered:
        note(
            f"Columns with a different whole number in every row: {listed(numbered)}. If these are"
            " ids, leave them out with --drop."
        )
    constant = [
        name
        for name in features
        if (
            len({*summary.counts[name]} - {None}) <= 1
            if name in summary.counts
            else summary.deviation[name] == 0
        )
    ]
    if constant:
        note(
            "Columns with the same value in all rows, from which nothing can be learnt:"
            f" {listed(constant)}."
        )
    suspects = [name for name in features if name.lower() in _SUSPECTS]
    if suspects:
        note(
            f"Columns used as features: {listed(suspects)}. If they are ids or row numbers, leave"
            " them out with --drop."
        )
    if summary.rows < _SMALL_TABLE:
        note(
            f"The table has only {summary.rows} rows. The noise will probably hide what they show."
            " Run suffice plan first."
        )
