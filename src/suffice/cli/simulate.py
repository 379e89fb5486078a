"""Commands that play a whole protocol on data that are public."""

from dataclasses import dataclass
from pathlib import Path

import typer
from typer.core import TyperCommand

from suffice.cli.building import Asked, group_with, make_command, selected_fields
from suffice.cli.options import Overwriting
from suffice.cli.output import say, show_json, show_table, steps
from suffice.errors import ParameterError
from suffice.options import (
    REQUIRED,
    Option,
    data_option,
    names,
    numbers,
    output_option,
    privacy_option,
)

__all__ = ["register"]


@dataclass(frozen=True, kw_only=True)
class _Simulated(Overwriting):
    """A public table, how it is cut into parties, and what is compared."""

    table: Path = data_option(
        REQUIRED,
        "Parquet, CSV, Feather, Excel or SPSS file, or a folder of them.",
        path=Path,
        argument=True,
    )
    label: str = data_option(REQUIRED, "Column of labels; all of the table is public here.")
    party: str | None = data_option(None, "Column that says whose a record is.")
    count: int | None = data_option(
        None,
        "Number of parties that records are dealt to at random, instead of --party.",
        name="--parties",
    )
    epsilons: list[float] = privacy_option(
        (10.0, 3.0, 1.0, 0.3, 0.1),
        "Epsilons of each party, with commas. Default: 10,3,1,0.3,0.1.",
        parse=numbers,
    )
    delta: float = privacy_option(1e-5, "Delta. With 0 the noise is K-norm noise. Default: 1e-5.")
    methods: list[str] | None = privacy_option(
        None, "Methods to compare, with commas. Default: all.", parse=names
    )
    trials: int = data_option(3, "Number of times that the table is cut and dealt anew.")
    seed: int = data_option(0, "Seed of the cuts, 0 or more; noise is never seeded.")
    aux_share: float = data_option(0.1, "Share of the rows that all parties vote on.")
    test_share: float = data_option(0.25, "Share of the rows held out to test.")
    output: Path = output_option(
        Path("suffice-parties.html"),
        "The HTML page with the plot. Default: suffice-parties.html.",
        name="--output",
        short="-o",
        parse=Path,
        path=Path,
        writes=True,
    )
    json: bool = output_option(False, "Print JSON for programs.")


def _parties_command() -> TyperCommand:
    """Return ``suffice simulate parties``."""
    from suffice.owner.parties.mechanism import PrivateEnsemble
    from suffice.owner.public_rows import Preprocessing

    def of_ensemble(name: str, declared: Option) -> Option | None:
        return declared if name in ("classes", "lam") else None

    def of_rows(name: str, declared: Option) -> Option | None:
        return declared if name in ("categories", "map", "missing") else None

    def run(asked: Asked) -> None:
        from suffice.study.hamm import simulation
        from suffice.study.hamm.crowds import Shares

        given = _Simulated(**asked.values["given"])
        if given.seed < 0:
            raise ParameterError("--seed must be 0 or more.")
        with steps() as tell:
            found = simulation.simulate_table(
                given.table,
                given.epsilons,
                delta=given.delta,
                label=given.label,
                trials=given.trials,
                seed=given.seed,
                methods=given.methods or simulation.METHODS,
                progress=tell,
                party=given.party,
                parties=given.count,
                shares=Shares(given.aux_share, given.test_share),
                **{"lam": 1e-4, "classes": (0, 1), **asked.values["ensemble"]},
                **asked.values["mapped"],
            )
        drawn = simulation.write_simulation(found, given.output, overwrite=given.force)
        if given.json:
            show_json(found)
            return
        show_table(drawn.title, drawn.columns, drawn.rows)
        say(f"The page with the plot: {given.output}")

    parts = {
        "given": _Simulated,
        "ensemble": selected_fields(PrivateEnsemble, of_ensemble),
        "mapped": selected_fields(Preprocessing, of_rows),
    }
    summary = "Simulate many parties on a public table: accuracy of every method against 1/epsilon."
    return make_command("parties", parts, run, help=summary)


simulate_app = typer.Typer(
    cls=group_with({"parties": _parties_command}),
    help="Play a protocol many times on a public table.",
)


def register(app: typer.Typer) -> None:
    """Add ``simulate``."""
    app.add_typer(simulate_app, name="simulate", no_args_is_help=True)


@simulate_app.callback()
def _simulate() -> None:
    """Keep ``parties`` a command of its own, though it is the only one."""
