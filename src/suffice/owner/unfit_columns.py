"""Public columns that cannot be features: ids, free text, numbers that were read as text.

They are refused, and the error says what to type. Columns that only look odd are used, and a note
names them. All of this is about public rows.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from suffice.engines.summary import Summary
from suffice.errors import TableError
from suffice.notes import note
from suffice.plain_text import listed
from suffice.tables.cell_types import looks_like_numbers
from suffice.tables.columns import temporal_unit

__all__ = ["note_oddities", "refuse_unfit"]

_FEW = 20  # rows: a run of so few numbers can be chance
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
    for name, counts in texts.items():
        _refuse_numbers(name, counts)
    if features_listed:
        return
    reasons = {
        name: "numbers the rows"
        for name in summary.mean
        if name in summary.runs and summary.rows - summary.missing[name] >= _FEW
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


def _refuse_numbers(name: str, counts: Counter[Any]) -> None:
    """Raise if most texts of a column are numbers in a form that was not read as such."""
    words = [str(text) for text in counts if text is not None]
    unread_numbers = [word for word in words if looks_like_numbers(word)]
    plain_numbers = [word for word in words if _is_number(word)]
    numbers = {*unread_numbers, *plain_numbers}
    if len(unread_numbers) == len(words) or (
        2 * len(unread_numbers) > len(words) and len(numbers) == len(words)
    ):
        raise TableError(
            f"Column {name!r} holds numbers with commas, blanks, percent or currency signs, which"
            " are read as text. Set the decimal mark (--decimal), write plain numbers, or leave"
            f" the column out (--drop {_quoted_name(name)})."
        )
    many = len(plain_numbers) > _FEW_NUMBERS or 2 * len(unread_numbers) > len(words)
    if many and len(numbers) < len(words) < 2 * len(numbers):
        strange = sum(counts[word] for word in words if word not in numbers and word in counts)
        raise TableError(
            f"Column {name!r} holds numbers and {strange:,} cells that are not numbers. Empty"
            " these cells, declare its categories (--categories), or leave the column out (--drop"
            f" {_quoted_name(name)})."
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
    numbered = [name for name in features if _differs_everywhere(summary, name)]
    if numbered:
        note(
            f"Columns with a different whole number in every row: {listed(numbered)}. If these are"
            " ids, leave them out with --drop."
        )
    constant = [name for name in features if _is_constant(summary, name)]
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


def _differs_everywhere(summary: Summary, name: str) -> bool:
    """Say whether no two rows of the sample have the same whole number."""
    column = summary.sample.rows.column(name)
    if not pa.types.is_integer(column.type) or name in summary.counts:
        return False
    all_different = bool((summary.sample.weights == 1).all())
    return all_different and len(column) >= _FEW and len(column.unique()) == len(column)


def _is_constant(summary: Summary, name: str) -> bool:
    if name in summary.counts:
        return len([text for text in summary.counts[name] if text is not None]) <= 1
    return summary.deviation[name] == 0
