"""The program ``suffice``: its commands by role, its version, and how it reports errors."""

import io
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from suffice._version import __version__
from suffice.cli import (
    auditing,
    inspecting,
    learner,
    ledgers,
    parties,
    protocol,
    releases,
    serving,
    survey,
)
from suffice.cli.help import group_with
from suffice.cli.output import print_notes, reported, say

__all__ = ["MAKERS", "SECTIONS", "app", "run"]


SECTIONS: Mapping[str, Sequence[str]] = {
    "Owner": ("advise", "plan", "release", "ledger", "grant", "keygen", "serve", "token"),
    "Learner": ("propose", "fit", "predict", "score", "ratio", "frequencies"),
    "Participant and survey": ("survey",),
    "Party and aggregator": ("contribute", "aggregate", "simulate"),
    "Auditor": ("inspect", "verify", "audit"),
    "Try": ("demo", "reproduce"),
}
MAKERS = {
    **releases.COMMANDS,
    **learner.COMMANDS,
    **learner.MODEL_COMMANDS,
    **learner.RATIO_COMMANDS,
    **parties.COMMANDS,
    **protocol.COMMANDS,
    **auditing.COMMANDS,
}

app = typer.Typer(
    name="suffice",
    cls=group_with(MAKERS, SECTIONS),
    help="Publish statistics from private data with a differential-privacy guarantee, and train"
    " classifiers from them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"suffice {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    del version
    print_notes()


for _module in (releases, ledgers, inspecting, auditing, parties, survey, serving):
    _module.register(app)


def run() -> None:
    """Run the program; an error of the library is one line on stderr and its own exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a letter gets its escape
            stream.reconfigure(errors="backslashreplace")
    with reported():
        app(prog_name="suffice")
