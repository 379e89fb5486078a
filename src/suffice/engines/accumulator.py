"""The one protocol for every statistic that is computed over rows."""

from typing import Any, Protocol, Self

__all__ = ["Accumulator"]


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
