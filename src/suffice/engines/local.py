"""How statistics are computed over rows: the one protocol, and the engine of this process.

Batches of one table are taken in one after the other.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, Self, TypeVar

__all__ = ["Accumulator", "fold"]


class Accumulator(Protocol):
    """A monoid over batches: merging the halves equals one pass over the whole.

    It may be updated anywhere (a thread, a dask worker, a spark task) and merged in any tree. It
    never writes, logs or keeps a row that is not part of its result.
    """

    def update(self, batch: Any) -> None:
        """Take in one batch."""

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen."""

    def result(self) -> Any:
        """Return the statistic of all that was seen."""


A = TypeVar("A", bound=Accumulator)


def fold(
    batches: Iterable[Any], accumulator: A, progress: Callable[[int], None] | None = None
) -> A:
    """Update ``accumulator`` with every batch and return it; ``progress`` is told the rows done."""
    for batch in batches:
        accumulator.update(batch)
        if progress is not None:
            progress(len(batch))
    return accumulator
