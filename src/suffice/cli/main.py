"""The program ``suffice``: its commands by role, its version, and how it reports errors."""

import io
import sys
from collections.abc import Mapping, Sequence
from functools import partial
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
    starting,
    survey,
)
from suffice.cli.building import HelpfulCommand, Maker, group_with, make_command
from suffice.cli.output import print_notes, reported, say
from suffice.engines.engine import Computing

SECTIONS: Mapping[str, Sequence[str]] = {
    "Owner": ("init", "advise", "plan", "release", "ledger", "grant", "keygen", "serve", "token"),
    "Learner": ("propose", "fit", "predict", "score", "ratio", "frequencies", "describe", "sample"),
    "Participant and survey": ("survey",),
    "Party and aggregator": ("contribute", "aggregate", "round", "simulate"),
    "Auditor": ("inspect", "card", "verify", "audit"),
    "Try": ("demo", "reproduce"),
}
MADE = (
    protocol.grant,
    learner.frequencies,
    learner.describe,
    learner.sample,
    learner.predict,
    learner.score,
    learner.ratio,
    auditing.audit,
)
MAKERS: Mapping[str, Maker] = {
    **{run.__name__: partial(make_command, run) for run in MADE},
    "init": starting.init_command,
    "advise": releases.advise_command,
    "propose": protocol.propose_command,
    "fit": partial(make_command, learner.fit, computing=Computing),
    "contribute": parties.contribute_command,
    "aggregate": parties.aggregate_command,
}
COMMANDS = (
    releases.keygen,
    inspecting.inspect,
    inspecting.card,
    auditing.verify,
    auditing.demo,
    auditing.reproduce,
    serving.serve,
)
GROUPS = {
    "plan": releases.plan_app,
    "release": releases.release_app,
    "ledger": ledgers.ledger_app,
    "simulate": parties.simulate_app,
    "survey": survey.survey_app,
    "round": parties.round_app,
    "token": serving.token_app,
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
for _command in COMMANDS:
    app.command(cls=HelpfulCommand)(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name, no_args_is_help=True)


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


def run() -> None:
    """Run the program; an error of the library is one line on stderr and its own exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a letter gets its escape
            stream.reconfigure(errors="backslashreplace")
    with reported():
        app(prog_name="suffice")
