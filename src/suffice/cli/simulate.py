"""Commands that play a whole protocol on data that are public."""

from pathlib import Path
from typing import Annotated

import typer

from suffice import options as parsing
from suffice.cli import options
from suffice.cli.checks import check_outputs
from suffice.cli.output import say, show_json, show_table, steps
from suffice.errors import ParameterError

__all__ = ["register"]

simulate_app = typer.Typer(help="Play a protocol many times on a public table.")


def register(app: typer.Typer) -> None:
    """Add ``simulate``."""
    app.add_typer(simulate_app, name="simulate", no_args_is_help=True)


@simulate_app.callback()
def _simulate() -> None:
    """Keep ``parties`` a command of its own, though it is the only one."""


@simulate_app.command("parties")
def parties(
    table: options.TablePath,
    label: Annotated[str, typer.Option(help="The column of labels; all of it is public here.")],
    party: Annotated[
        str | None, typer.Option(help="The column that says whose a record is.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--parties", help="Or: deal the records to so many, at random.")
    ] = None,
    epsilons: Annotated[
        str, typer.Option(help="What a release costs each party, with commas.")
    ] = "10,3,1,0.3,0.1",
    delta: Annotated[float, typer.Option(help="0: noise of the K-norm.")] = 1e-5,
    methods: Annotated[
        str | None,
        typer.Option(help="operator, votes, pate, soft, vote, average, with commas; default: all."),
    ] = None,
    trials: Annotated[int, typer.Option(help="How often the table is cut and dealt anew.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of the cuts; noise is never seeded.")] = 0,
    aux_share: Annotated[float, typer.Option(help="Share of rows that all parties vote on.")] = 0.1,
    test_share: Annotated[float, typer.Option(help="Share of rows held out to test.")] = 0.25,
    lam: Annotated[
        float, typer.Option(help="Penalty of the parties' own classifiers, and of the paper's.")
    ] = 1e-4,
    classes: options.Classes = "0,1",
    categories: options.Categories = None,
    feature_map: options.FeatureMap = None,
    missing: options.Missing = "error",
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The HTML page with the plot.")
    ] = Path("suffice-parties.html"),
    json: options.Json = False,
) -> None:
    """Simulate many parties on a public table: accuracy of every method against 1/epsilon."""
    from suffice.study.hamm import simulation as study
    from suffice.study.hamm.crowds import Shares

    check_outputs(output, reads=[table])
    with steps() as tell:
        found = study.simulate_table(
            table,
            _numbers(epsilons),
            delta=delta,
            label=label,
            trials=trials,
            seed=seed,
            methods=parsing.names(methods) or study.METHODS,
            lam=lam,
            progress=tell,
            party=party,
            parties=count,
            classes=parsing.values(classes),
            shares=Shares(aux_share, test_share),
            categories=parsing.lists_by_column("--categories")(categories),
            map=feature_map,
            missing=missing,
        )
    drawn = study.write_simulation(found, output)
    if json:
        show_json(found)
        return
    show_table(drawn.title, drawn.columns, drawn.rows)
    say(f"The page with the plot: {output}")


def _numbers(text: str) -> list[float]:
    try:
        return [float(item) for item in text.split(",")]
    except ValueError:
        raise ParameterError(f"--epsilons takes numbers with commas; got {text!r}.") from None
