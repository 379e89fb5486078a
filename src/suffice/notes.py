"""Lines for whoever runs a program: what was found in a table, what was left out, what looks odd.

They go to the logger ``suffice``: the command line prints them, a program is silent unless it
listens. A note is about what is public, or about what the caller may see: others can read the
terminal.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["LOGGER", "collected_notes", "note"]

LOGGER = logging.getLogger("suffice")


def note(line: str) -> None:
    """Hand a line to whoever listens."""
    LOGGER.info(line)


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def collected_notes() -> Iterator[list[str]]:
    """Yield a list that all notes go to until the block ends, and to nobody else."""
    collector, handlers, level = _Collector(), LOGGER.handlers, LOGGER.level
    LOGGER.handlers = [collector]
    LOGGER.setLevel(logging.INFO)
    try:
        yield collector.lines
    finally:
        LOGGER.handlers = handlers
        LOGGER.setLevel(level)
