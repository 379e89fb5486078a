"""What every command prints with: tables for people, JSON for programs, a bar for long work."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["progress", "show_json", "show_pairs", "show_table", "steps"]


def show_json(value: Any) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # a stranger's text is no markup
    Console().print(table)


def show_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and values, one pair a line, long values wrapped under themselves."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(Text(name), Text(value))  # a stranger's text is no markup
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
