"""Commands that simulate a protocol on public data."""

from dataclasses import dataclass
from pathlib import Path

import typer
from typer.core import TyperCommand

from suffice.cli.building import Inputs, make_command, selected_fields
from suffice.cli.help import group_with
from suffice.cli.options import JsonOutput, Overwriting
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
class _Simulation(JsonOutput, Overwriting):
    """A public table, how it is cut into parties, and what is compared."""

    table: Path = data_option(
        REQUIRED,
        "Parquet, CSV, Feather, Excel or SPSS file, or a folder of them.",
        path=Path,
        argument=True,
    )
    label: str = data_option(REQUIRED, "Column that holds the labels; the whole table is public.")
    party: str | None = data_option(None, "Column that names the party of each record.")
    count: int | None = data_option(
        None,
        "Number of parties, instead of --party: records are dealt to them at random.",
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
    trials: int = data_option(3, "Number of random repetitions. Default: 3.")
    seed: int = data_option(
        0, "Seed of the random splits, 0 or more; noise has no seed. Default: 0."
    )
    aux_share: float = data_option(
        0.1, "Proportion of the rows that all parties vote on. Default: 0.1."
    )
    test_share: float = data_option(
        0.25, "Proportion of the rows held out for the test. Default: 0.25."
    )
    output: Path = output_option(
        Path("suffice-parties.html"),
        "The HTML page to write, with a plot. Default: suffice-parties.html.",
        name="--output",
        short="-o",
        parse=Path,
        path=Path,
        writes=True,
    )


def _parties_command() -> TyperCommand:
    """Return ``suffice simulate parties``."""
    from suffice.owner.parties.mechanism import PrivateEnsemble
    from suffice.owner.public_rows import Preprocessing

    def of_ensemble(name: str, declared: Option) -> Option | None:
        return declared if name in ("classes", "lam") else None

    def of_rows(name: str, declared: Option) -> Option | None:
        return declared if name in ("categories", "map", "missing") else None

    def run(inputs: Inputs) -> None:
        from suffice.study.hamm import simulation
        from suffice.study.hamm.crowds import Shares

        options = inputs.make("simulation", _Simulation)
        if options.seed < 0:
            raise ParameterError("--seed must be 0 or more.")
        with steps("simulating") as show_step:
            results = simulation.simulate_table(
                options.table,
                options.epsilons,
                delta=options.delta,
                label=options.label,
                trials=options.trials,
                seed=options.seed,
                methods=options.methods or simulation.METHODS,
                progress=show_step,
                party=options.party,
                parties=options.count,
                shares=Shares(options.aux_share, options.test_share),
                **{"lam": 1e-4, "classes": (0, 1), **inputs.values["ensemble"]},
                **inputs.values["mapped"],
            )
        page = simulation.write_simulation(results, options.output, overwrite=options.force)
        if options.json:
            show_json(results)
            return
        show_table(page.title, page.columns, page.rows)
        say(f"The page with the plot: {options.output}")

    parts = {
        "simulation": _Simulation,
        "ensemble": selected_fields(PrivateEnsemble, of_ensemble),
        "mapped": selected_fields(Preprocessing, of_rows),
    }
    summary = "Compare the accuracy of methods for many parties."
    return make_command("parties", parts, run, help=summary)


simulate_app = typer.Typer(
    cls=group_with({"parties": _parties_command}),
    help="Simulate many parties on a public table.",
)


def register(app: typer.Typer) -> None:
    """Add ``simulate``."""
    app.add_typer(simulate_app, name="simulate", no_args_is_help=True)


@simulate_app.callback()
def _simulate() -> None:
    """Keep ``parties`` a command of its own, though it is the only one."""
