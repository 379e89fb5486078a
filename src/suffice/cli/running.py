"""How the program runs: errors of the library are one line and an exit code, in every run of it."""

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from suffice.cli.output import say
from suffice.errors import StorageError, SufficeError

__all__ = ["recorded", "reported"]


@contextmanager
def reported() -> Iterator[None]:
    """Report an error of the library as one line on stderr, and end with its own exit code."""
    try:
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
