"""What every command prints with: lines and tables for people, JSON for programs, progress bars.

Nothing else in the command line writes to a terminal, so that text from files is made harmless in
one place (`suffice.plain_text`).
"""

import io
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from suffice.errors import StorageError, SufficeError, missing_packages
from suffice.plain_text import LOGGER, WATCH, escaped

Pair = tuple[str, str]
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
    for row in rows:  # text from files is not markup
        table.add_row(*(Text(escaped(cell, _LONGEST_CELL)) for cell in row))
    Console().print(table)


def show_pairs(pairs: Iterable[Pair]) -> None:
    """Print names and values, one pair a line, long values wrapped under themselves."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:  # text from files is not markup
        grid.add_row(Text(escaped(name, _LONGEST_HEAD)), Text(escaped(value)))
    Console().print(grid)


class RowCounter:
    """Shows on a bar how many rows were read, and in which pass over them.

    A pass is expected to be as long as the one before: usually both read the same table.
    """

    def __init__(self, bar: Any, activity: str) -> None:
        self._bar, self._activity = bar, activity
        self._task = bar.add_task(activity, total=None, counted="")
        self._pass, self._rows, self._expected = 0, 0, 0

    def __call__(self, rows: int) -> None:
        """Count rows of the present pass."""
        self._rows += rows
        self._show()

    def begin_pass(self) -> None:
        """Count from zero again."""
        if self._rows or self._pass == 0:
            self._pass, self._expected, self._rows = self._pass + 1, self._rows, 0
        self._show()

    def _show(self) -> None:
        total = self._expected if 0 < self._expected >= self._rows else None
        number = f", pass {self._pass}" if self._pass > 1 else ""
        self._bar.update(
            self._task,
            description=f"{self._activity}{number}",
            completed=self._rows,
            total=total,
            counted=f"{self._rows:,} rows" if self._rows else "",
        )


@contextmanager
def progress(activity: str) -> Iterator[RowCounter | None]:
    """Yield a function that counts the rows that were read; None unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with WATCH, _bar("{task.fields[counted]}") as bar:
        yield RowCounter(bar, activity)


@contextmanager
def steps(activity: str) -> Iterator[Callable[[int, int, str], None]]:
    """Yield a function of (steps done, steps in all, present step); silent as `progress` is."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    with WATCH, _bar("{task.completed} of {task.total}") as bar:
        task = bar.add_task(activity, total=None)

        def show(done: int, total: int, step: str) -> None:
            description = f"{activity}: {escaped(step, _LONGEST_HEAD)}"
            bar.update(task, completed=done, total=total, description=description)

        yield show


def _bar(count: str) -> Any:
    """Return a bar on stderr that disappears at the end; ``count`` is shown beside it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), TextColumn(count, markup=False))
    return Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)


class _Printed(logging.Handler):
    """Prints every note once, a line each, on stderr."""

    said: set[str]

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if line not in self.said:
            self.said.add(line)
            say(f"suffice: {line}", error=True)


def print_notes() -> None:
    """Print the library's notes from now on, each of them once."""
    for former in [h for h in LOGGER.handlers if isinstance(h, _Printed)]:
        LOGGER.removeHandler(former)
    printed = _Printed(logging.INFO)
    printed.said = set()
    LOGGER.addHandler(printed)
    LOGGER.setLevel(logging.INFO)


@contextmanager
def owner_warnings() -> Iterator[None]:
    """Print warnings about shared rows on stderr, a line each, whatever Python's filters say."""
    from suffice.owner.scaling import SharedRowsWarning

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


@contextmanager
def reported() -> Iterator[None]:
    """Report an error of the library as one line on stderr, and end with its own exit code."""
    try:
        with missing_packages():
            yield
    except SufficeError as error:
        say(f"suffice: {error}", error=True)
        sys.exit(error.exit_code)
    except MemoryError:
        say("suffice: This needs more memory than there is. Use a smaller file.", error=True)
        sys.exit(StorageError.exit_code)


def recorded(program: Callable[..., Any], words: Sequence[str]) -> tuple[int, str, str]:
    """Run the program with these words; return its exit code, and what it said on both streams."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            with reported():
                program(args=list(words), prog_name="suffice")
        except SystemExit as ended:
            code = ended.code or 0
    return int(code), out.getvalue(), err.getvalue()
