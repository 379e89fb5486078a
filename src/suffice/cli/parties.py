"""Commands of many parties: contribute, aggregate and simulate."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from suffice.cli.building import (
    Inputs,
    JsonOutput,
    OutputFile,
    Overwriting,
    check_outputs,
    make_command,
    selected_fields,
)
from suffice.cli.help import group_with
from suffice.cli.output import (
    owner_warnings,
    progress,
    say,
    show_json,
    show_pairs,
    show_table,
    steps,
)
from suffice.cli.releases import Reading, ReleaseOptions, ledger_arguments, write_release
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

__all__ = ["COMMANDS", "register"]


@dataclass(frozen=True, kw_only=True)
class _Contributed(OutputFile):
    """What a party contributes, and where its contribution goes."""

    table: Path = data_option(REQUIRED, "The party's private records.", argument=True, path=Path)
    label: str | None = data_option(
        None, "Column that holds the labels of the records, for example diagnosis."
    )
    cast: str | None = data_option(
        None,
        "Column of votes in TABLE, instead of records and --label: one vote per auxiliary row, in"
        " their order.",
        name="--votes-column",
    )
    party: str | None = data_option(
        None, "Name that the party is enrolled by. Default: the name of the output."
    )


def _contribute_command() -> TyperCommand:
    """Return ``suffice contribute``."""
    from suffice.owner.parties.contribution import AgreedRows
    from suffice.owner.parties.ensemble import METHODS, PrivateEnsemble

    def shared(name: str, declared: Option) -> Option | None:
        return declared if name in ("method", "classes", "lam", "samples") else None

    def run(inputs: Inputs) -> None:
        options = inputs.make("contribution", _Contributed)
        ensemble = PrivateEnsemble(epsilon=1.0, **inputs.values["ensemble"])
        rows = inputs.make("agreed", AgreedRows).rows
        statistic, classes = METHODS[ensemble.released_method], ensemble.declared_classes()
        table = inputs.make("reading", Reading).table(options.table)
        asked = (statistic, ensemble.lam, ensemble.samples or 1)
        part = _contribution(options, table, rows, classes, *asked)
        part.save(options.output, overwrite=options.force)
        facts = {"written": str(options.output), "party": part.party, "holds": part.statistic}
        warning = (
            "not private. Send it to the aggregator only, by a connection that you both trust."
        )
        if options.json:
            show_json({**facts, "warning": warning})
            return
        show_pairs([*facts.items(), ("warning", warning)])

    parts = {
        "contribution": _Contributed,
        "reading": Reading,
        "agreed": AgreedRows,
        "ensemble": selected_fields(PrivateEnsemble, shared),
    }
    summary = (
        "Write one party's contribution, for the aggregator only.\n\nA contribution holds what the"
        " party votes on public rows, or sums of its records. It is not private."
    )
    return make_command("contribute", parts, run, help=summary)


def _contribution(  # one call
    options: _Contributed,
    table: Any,
    rows: Any,
    classes: Any,
    statistic: str,
    lam: float,
    samples: int,
) -> Any:
    """Return the contribution of a column of votes, or of a classifier of the party's records."""
    from suffice.owner.parties.gathering import PartyTable, cast_votes

    if (options.label is None) == (options.cast is None):
        raise ParameterError(
            "Choose what votes: records with --label, or a column with --votes-column."
        )
    name = options.party or options.output.stem
    if options.cast is not None:
        return cast_votes(table, options.cast, name, rows, classes=classes, statistic=statistic)
    with progress("reading records") as count_rows:
        records = PartyTable.read(
            table, rows, label=options.label or "", classes=classes, party=None, progress=count_rows
        )
    return records.contribution(name, rows, statistic, lam, samples)


@dataclass(frozen=True)
class _Sent:
    parts: list[Path] = data_option(
        REQUIRED,
        "Contributions (*.part files), or folders of them.",
        argument=True,
        many=True,
        parse=lambda texts: [Path(text) for text in texts],
    )


def _aggregate_command() -> TyperCommand:
    """Return ``suffice aggregate``."""
    from suffice.owner.mechanism import Payment, make_release
    from suffice.owner.parties.ensemble import PrivateEnsemble
    from suffice.owner.parties.gathering import RoundSource

    def run(inputs: Inputs) -> None:
        files: list[Path] = []
        for path in inputs.values["sent"]["parts"]:
            files += sorted(path.glob("*.part")) if path.is_dir() else [path]
        options = inputs.make("release", ReleaseOptions)
        # Of a folder, only the contributions are read.
        check_outputs(options.output, reads=files, force=options.force)
        payment = ledger_arguments(inputs.values["payment"], options)
        reports: list[Any] = []
        charges: list[Any] = []
        source = inputs.fields("source", RoundSource)
        with owner_warnings(), progress("adding up contributions") as count_rows:
            round_ = RoundSource(files, **source, report=reports.append, progress=count_rows)
            ensemble = PrivateEnsemble(**inputs.values["mechanism"])
            release = make_release(ensemble, round_, Payment(**payment, report=charges.append))
        write_release(release, options, reports[0], *charges)

    parts = {
        "sent": _Sent,
        "source": RoundSource,
        "mechanism": PrivateEnsemble,
        "payment": Payment,
        "release": ReleaseOptions,
    }
    summary = (
        "Publish the noisy sum of what parties contributed.\n\nA contribution that is missing or"
        " malformed counts as zero."
    )
    return make_command("aggregate", parts, run, help=summary)


COMMANDS = {"contribute": _contribute_command, "aggregate": _aggregate_command}


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
    from suffice.owner.labelled import Preprocessing
    from suffice.owner.parties.ensemble import PrivateEnsemble

    def of_ensemble(name: str, declared: Option) -> Option | None:
        return declared if name in ("classes", "lam") else None

    def of_rows(name: str, declared: Option) -> Option | None:
        return declared if name in ("categories", "map", "missing") else None

    def run(inputs: Inputs) -> None:
        from suffice.papers import hamm
        from suffice.papers.hamm import Shares

        options = inputs.make("simulation", _Simulation)
        if options.seed < 0:
            raise ParameterError("--seed must be 0 or more.")
        with steps("simulating") as show_step:
            results = hamm.simulate_table(
                options.table,
                options.epsilons,
                delta=options.delta,
                label=options.label,
                trials=options.trials,
                seed=options.seed,
                methods=options.methods or hamm.METHODS,
                progress=show_step,
                party=options.party,
                parties=options.count,
                shares=Shares(options.aux_share, options.test_share),
                **{"lam": 1e-4, "classes": (0, 1), **inputs.values["ensemble"]},
                **inputs.values["mapped"],
            )
        page = hamm.write_simulation(results, options.output, overwrite=options.force)
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
