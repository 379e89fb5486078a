"""What every command prints with: lines and tables for people, JSON for programs, a bar to wait by.

Nothing else in the command line writes to a terminal, so that text from files is made harmless in
one place (`suffice.plain_text`).
"""

import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from suffice.notes import LOGGER
from suffice.plain_text import escaped

__all__ = [
    "owner_warnings",
    "print_notes",
    "progress",
    "say",
    "show_json",
    "show_pairs",
    "show_table",
    "steps",
]

_LONGEST_CELL = 400
_LONGEST_HEAD = 80  # of a line's name: a longer one would push every value out of sight


def say(*lines: str, error: bool = False) -> None:
    """Print lines, each of them one line whatever it holds, on stdout or on stderr."""
    file = sys.stderr if error else sys.stdout
    file.write("".join(f"{escaped(line)}\n" for line in lines))
    file.flush()


def show_json(value: Any) -> None:
    """Print one JSON document on stdout, in ASCII: all other characters are escapes."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=True) + "\n")


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(escaped(title)), title_justify="left")
    for column in columns:
        table.add_column(Text(escaped(column, _LONGEST_CELL)), overflow="fold")
    for row in rows:  # a stranger's text is no markup
        table.add_row(*(Text(escaped(cell, _LONGEST_CELL)) for cell in row))
    Console().print(table)


def show_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair a line, long values wrapped under themselves."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:  # a stranger's text is no markup
        grid.add_row(Text(escaped(name, _LONGEST_HEAD)), Text(escaped(value)))
    Console().print(grid)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int], None] | None]:
    """Yield a function that is told how many rows were read; silent unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with _bar("{task.completed:,} rows") as bar:
        task = bar.add_task(what, total=None)
        yield lambda rows: bar.advance(task, rows)


@contextmanager
def steps() -> Iterator[Callable[[int, int, str], None]]:
    """Yield a function that is told (done, in all, what is next); silent as `progress` is."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    with _bar("{task.completed} of {task.total}") as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, what: bar.update(
            task, completed=done, total=total, description=what
        )


def _bar(counted: str) -> Any:
    """Return a bar on stderr that leaves nothing behind; ``counted`` is shown beside it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn(counted))
    return Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)


class _Printed(logging.Handler):
    """Prints every note once, a line each, on stderr."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if line not in self._lines:
            self._lines.add(line)
            say(f"suffice: {line}", error=True)


def print_notes() -> None:
    """Print the library's notes from now on, each of them once."""
    for former in [h for h in LOGGER.handlers if isinstance(h, _Printed)]:
        LOGGER.removeHandler(former)
    LOGGER.addHandler(_Printed())
    LOGGER.setLevel(logging.INFO)


@contextmanager
def owner_warnings() -> Iterator[None]:
    """Print warnings about shared rows on stderr, a line each, whatever Python was told of them."""
    from suffice.owner.overlap import SharedRowsWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", SharedRowsWarning)
        usual = warnings.showwarning

        def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
            if category is SharedRowsWarning:
                say(f"suffice: warning: {message}", error=True)
            else:
                usual(message, category, *where, **more)

        warnings.showwarning = show
        yield
