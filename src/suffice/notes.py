"""Notes to whoever runs a program: how a table was read, what was left out, what looks odd.

They go to the logger ``suffice``. The command line prints them. A program prints nothing unless it
listens. A note is about what is public, or about what the caller may see: others can read the
terminal.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

LOGGER = logging.getLogger("suffice")


def note(line: str) -> None:
    """Send a line to whoever listens to the logger ``suffice``.

    Parameters
    ----------
    line : str
        A sentence about what is public, or about what the caller may see.
    """
    LOGGER.info(line)


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def collected_notes() -> Iterator[list[str]]:
    """Collect all notes in a list until the block ends. Nobody else receives them.

    Yields
    ------
    list of str
        The notes so far.

    Examples
    --------
    >>> from suffice.notes import collected_notes, note
    >>> with collected_notes() as lines:
    ...     note("The table has 10 rows.")
    >>> lines
    ['The table has 10 rows.']
    """
    collector, handlers, level = _Collector(), LOGGER.handlers, LOGGER.level
    LOGGER.handlers = [collector]
    LOGGER.setLevel(logging.INFO)
    try:
        yield collector.lines
    finally:
        LOGGER.handlers = handlers
        LOGGER.setLevel(level)
