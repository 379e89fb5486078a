"""Checks which releases need the order of rows, and that nothing private decides it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from suffice.errors import TableError
from suffice.owner.publish import Payment
from suffice.owner.source import Source
from suffice.tables.databases import Query
from suffice.tables.order import check_order, order_columns

__all__ = ["check_order_given", "check_order_of", "in_one_snapshot"]

S = TypeVar("S", bound=Source)


def in_one_snapshot(source: S) -> S:
    """Return a source of which every pass reads the same rows, if it is a query."""
    data = source.data
    return replace(source, data=data.opened({})) if isinstance(data, Query) else source


def check_order_given(source: Source, payment: Payment) -> None:
    """Raise, before anything is read, if rows lack the order that labels or a ledger need.

    A ledger knows labels again by their order (`LabelFingerprint`); labels that are given apart
    belong to rows by it.
    """
    if source.y is not None:
        check_order(source.data, "the labels are in a separate array")
    if payment.ledger is not None:
        check_order(source.data, "a ledger recognises a data set by the order of its rows")
    if source.label in order_columns(source.data):
        raise TableError(
            f"Rows must not be ordered by their private label, {source.label!r}. Order them by"
            " another column, such as a key."
        )


def check_order_of(source: Source, procedure: Any, public_columns: Iterable[str]) -> None:
    """Raise, before anything private is read, if a release of this kind needs another order.

    Where it shows something of each row, the order is public: no private feature may decide it.
    """
    if procedure.row_by_row:
        check_order(source.data, "this release describes each row, in their order")
        keys = order_columns(source.data)
        private = set(keys if source.features is None else source.features) - set(public_columns)
        hidden = [name for name in keys if name in private]
        if hidden:
            raise TableError(
                f"Rows must not be ordered by a private column, {hidden[0]!r}. Order them by a"
                " key, and list the features with --features (Python: features=...)."
            )
    elif procedure.draws_while_reading:
        check_order(source.data, "this release reads the rows twice, in the same order")
