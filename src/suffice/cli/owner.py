"""Commands of the owner: plan, release, keygen; `suffice.cli.ledgers` has those of ledgers."""

from pathlib import Path
from typing import Annotated

import typer

from suffice.cli.help import HelpfulCommand
from suffice.cli.mechanisms import PlanGroup, ReleaseGroup
from suffice.cli.output import say

__all__ = ["register"]

plan_app = typer.Typer(
    cls=PlanGroup, help="Predict how useful a release would be, before any charge."
)
release_app = typer.Typer(
    cls=ReleaseGroup, help="Publish statistics of private data, charged to a ledger."
)


@plan_app.callback()
@release_app.callback()
def _mechanisms() -> None:
    """Keep both groups, though their commands are made when they are needed."""


def register(app: typer.Typer) -> None:
    """Add the owner's commands."""
    app.add_typer(plan_app, name="plan", no_args_is_help=True)
    app.add_typer(release_app, name="release", no_args_is_help=True)
    app.command(cls=HelpfulCommand)(keygen)


def keygen(
    stem: Annotated[
        Path, typer.Argument(help="Name of the keys: clinic makes clinic.key and clinic.pub.")
    ],
) -> None:
    """Make a key pair that signs and verifies releases."""
    from suffice.release.signing import generate_keys

    private, public = generate_keys(stem)
    say(f"{private}: keep it secret.", f"{public}: give it to those who verify.")
