"""Commands that show what suffice can do, on data that are public."""

from pathlib import Path
from typing import Annotated

import typer

from suffice.cli.output import show_table

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(demo)


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The HTML report to write.")
    ] = Path("suffice-demo.html"),
) -> None:
    """Release, inspect and learn, end to end, on data that ship with scikit-learn."""
    from suffice.study.demo import run_demo

    story = run_demo(output)
    for paragraph in story.paragraphs:
        typer.echo(paragraph + "\n")
    show_table(story.title, story.columns, story.rows)
    typer.echo(f"\nThe report with a plot: {output}")
