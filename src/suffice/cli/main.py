"""The program ``suffice``: its commands by role, its version, and how it reports errors."""

import io
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from suffice._version import __version__
from suffice.cli.building import PAPERS, group_with
from suffice.cli.output import print_notes, reported, say

# Where each command is defined, and the first line of its help: a module is imported when one of
# its commands runs, so that a list of commands costs nothing.
_COMMANDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Owner": {
        "init": (
            "starting.init_command",
            "Write the data sheet and the settings of a table, once.",
        ),
        "advise": (
            "releases.advise_command",
            "Say which release to make, with its options and its commands.",
        ),
        "plan": ("releases.plan_app", "Predict how useful a release would be, before any charge."),
        "release": (
            "releases.release_app",
            "Publish statistics of private data, charged to a ledger.",
        ),
        "ledger": ("ledgers.ledger_app", "Set privacy budgets, and see what was charged to them."),
        "serve": ("serving.serve", "Answer learners' proposals over the network."),
        "grant": ("protocol.grant", "Answer a learner's proposal, as your policy allows."),
        "keygen": ("releases.keygen", "Make a key pair that signs and verifies releases."),
        "token": ("serving.token_app", "Make, list and revoke the tokens of a service."),
    },
    "Learner": {
        "propose": ("protocol.propose_command", "Ask an owner for a release of labels or records."),
        "fit": ("learner.fit_command", "Train a classifier, or a regression, from releases."),
        "predict": ("learner.predict", "Predict the class of new rows, or their number."),
        "score": ("learner.score", "Measure how good a model is on labels that you may see."),
        "frequencies": (
            "learner.frequencies",
            "Estimate true proportions and means, with intervals.",
        ),
        "describe": (
            "learner.describe",
            "State means, variances and correlations, with intervals.",
        ),
        "sample": ("learner.sample", "Draw synthetic rows, which are no people, from moments."),
    },
    "Participant and survey": {
        "survey": (
            "survey.survey_app",
            "Ask people, who change their answers at random themselves.",
        ),
    },
    "Auditor": {
        "inspect": (
            "inspecting.inspect",
            "Show what a file holds, what it protects, and how strongly.",
        ),
        "card": (
            "inspecting.card",
            "Describe a release on one page, for those who decide about it.",
        ),
        "verify": ("auditing.verify", "Check who signed a file, and that it is what was granted."),
        "audit": ("auditing.audit", "Attack mechanisms, to bound their true epsilon from below."),
    },
    "Try": {
        "demo": ("auditing.demo", "Play five releases from start to end, on invented patients."),
    },
    PAPERS: {
        "ratio": ("learner.ratio", "Estimate the proportion of each class in a new table."),
        "contribute": (
            "parties.contribute_command",
            "Write one party's contribution, for the aggregator only.",
        ),
        "aggregate": (
            "parties.aggregate_command",
            "Publish the noisy sum of what parties contributed.",
        ),
        "round": ("parties.round_app", "Hold a round of many parties over a network."),
        "simulate": ("parties.simulate_app", "Simulate many parties on a public table."),
        "reproduce": (
            "auditing.reproduce",
            "Recompute tables and figures of the papers, on public data.",
        ),
    },
}
SECTIONS: Mapping[str, Sequence[str]] = {h: tuple(named) for h, named in _COMMANDS.items()}
RARE = frozenset(
    ("grant", "keygen", "token", "frequencies", "describe", "sample", "audit", *SECTIONS[PAPERS])
)
_ALL_COMMANDS = {name: told for named in _COMMANDS.values() for name, told in named.items()}

app = typer.Typer(
    name="suffice",
    cls=group_with(
        {name: place for name, (place, _) in _ALL_COMMANDS.items()},
        SECTIONS,
        RARE,
        {name: summary for name, (_, summary) in _ALL_COMMANDS.items()},
    ),
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


def run() -> None:
    """Run the program; an error of the library is one line on stderr and its own exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a letter gets its escape
            stream.reconfigure(errors="backslashreplace")
    with reported():
        app(prog_name="suffice")
