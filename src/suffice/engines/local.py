"""The local engine: batches of one table, one after the other, in this process."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from suffice.engines.accumulator import Accumulator

__all__ = ["fold"]

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
