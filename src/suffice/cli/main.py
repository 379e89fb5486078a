"""The program ``suffice``: its commands, its version, and how it reports errors."""

import io
import sys
from typing import Annotated

import typer

from suffice._version import __version__
from suffice.cli import auditing, learner, owner, parties, protocol, ratio, simulate, study, survey
from suffice.cli.building import group_with
from suffice.cli.output import print_notes, say
from suffice.cli.running import reported

__all__ = ["app", "run"]

app = typer.Typer(
    name="suffice",
    cls=group_with(parties.COMMANDS | protocol.COMMANDS),
    help="Release just enough to learn: private statistics out, classifiers in.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"suffice {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version
    print_notes()


for _role in (owner, auditing, learner, ratio, protocol, study, simulate, survey):
    _role.register(app)


def run() -> None:
    """Run the program; an error of the library is one line on stderr and its own exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a letter gets its escape
            stream.reconfigure(errors="backslashreplace")
    with reported():
        app(prog_name="suffice")
