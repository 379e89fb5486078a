"""Whether the rows of a table have an order: those of a query have the one that it is given."""

from typing import Any

from suffice.errors import TableError

__all__ = ["check_order", "is_ordered", "order_columns"]


def check_order(data: Any, why: str) -> None:
    """Raise if ``data`` is a query without an order; ``why`` says what depends on the order.

    A database may return the rows of such a query in another order each time.
    """
    if not is_ordered(data):
        raise TableError(
            f"The rows of this query have no order, and {why}. Name columns that identify each"
            " row: --order-by COLUMN (Python: Query(..., order_by=[COLUMN]))."
        )


def is_ordered(data: Any) -> bool:
    """Say whether rows have an order. Only the rows of a query without ``order_by`` have none."""
    return getattr(data, "ordered", True) is not False  # a frame may have a column of this name


def order_columns(data: Any) -> tuple[str, ...]:
    """Return the columns that order the rows of a query; none of other tables."""
    names = getattr(data, "order_by", ())
    return names if isinstance(names, tuple) else ()
