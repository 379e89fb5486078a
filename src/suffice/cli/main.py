"""The program ``suffice``: its commands by role, its version, and how it reports errors."""

import io
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from suffice._version import __version__
from suffice.cli import (
    advising,
    auditing,
    inspecting,
    learner,
    ledgers,
    models,
    owner,
    parties,
    protocol,
    ratio,
    serving,
    simulate,
    study,
    survey,
)
from suffice.cli.help import group_with
from suffice.cli.output import print_notes, say
from suffice.cli.running import reported

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
    **advising.COMMANDS,
    **learner.COMMANDS,
    **models.COMMANDS,
    **ratio.COMMANDS,
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


for _module in (owner, ledgers, inspecting, auditing, study, simulate, survey, serving):
    _module.register(app)


def run() -> None:
    """Run the program; an error of the library is one line on stderr and its own exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a letter gets its escape
            stream.reconfigure(errors="backslashreplace")
    with reported():
        app(prog_name="suffice")
