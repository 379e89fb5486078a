"""Commands of many parties: contribute, aggregate and simulate."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from suffice.cli.building import (
    OUTPUT,
    JsonOutput,
    OutputFile,
    Overwriting,
    check_outputs,
    group_with,
    make_command,
    selected_fields,
)
from suffice.cli.output import progress, say, show_json, show_pairs, show_table, steps
from suffice.cli.releases import Reading, ReleaseOptions, make_and_write
from suffice.errors import ParameterError
from suffice.options import REQUIRED, data_option, names, numbers, output_option, privacy_option


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


def contribute_command() -> TyperCommand:
    """Return ``suffice contribute``."""
    from suffice.owner.parties.contribution import AgreedRows
    from suffice.owner.parties.ensemble import METHODS, PrivateEnsemble
    from suffice.owner.parties.gathering import PartyTable, cast_votes

    def contribute(
        options: _Contributed, reading: Reading, agreed: dict[str, Any], fields: dict[str, Any]
    ) -> None:
        """Write one party's contribution, for the aggregator only.

        A contribution holds what the party votes on public rows, or sums of its records. It is not
        private.
        """
        ensemble = PrivateEnsemble(epsilon=1.0, **fields)
        rows = AgreedRows(**agreed).rows
        statistic, classes = METHODS[ensemble.released_method], ensemble.declared_classes()
        table = reading.open(options.table)
        if (options.label is None) == (options.cast is None):
            raise ParameterError(
                "Choose what votes: records with --label, or a column with --votes-column."
            )
        party = options.party or options.output.stem
        if options.cast is not None:
            part = cast_votes(
                table, options.cast, party, rows, classes=classes, statistic=statistic
            )
        else:
            with progress("reading records") as count_rows:
                records = PartyTable.read(
                    table,
                    rows,
                    label=options.label or "",
                    classes=classes,
                    party=None,
                    progress=count_rows,
                )
            samples = ensemble.samples or 1
            part = records.contribution(party, rows, statistic, ensemble.lam, samples)
        part.save(options.output, overwrite=options.force)
        warning = (
            "not private. Send it to the aggregator only, by a connection that you both trust."
        )
        facts = {"written": str(options.output), "party": part.party, "holds": part.statistic}
        facts["warning"] = warning
        if options.json:
            show_json(facts)
        else:
            show_pairs(facts.items())

    fields = selected_fields(PrivateEnsemble, ("method", "classes", "lam", "samples"))
    return make_command(contribute, agreed=AgreedRows, fields=fields)


@dataclass(frozen=True)
class _Sent:
    parts: list[Path] = data_option(
        REQUIRED,
        "Contributions (*.part files), or folders of them.",
        argument=True,
        many=True,
        parse=lambda texts: [Path(text) for text in texts],
    )


def aggregate_command() -> TyperCommand:
    """Return ``suffice aggregate``."""
    from suffice.owner.mechanism import Payment
    from suffice.owner.parties.ensemble import PrivateEnsemble
    from suffice.owner.parties.gathering import RoundSource

    def aggregate(
        sent: _Sent,
        source: dict[str, Any],
        mechanism: dict[str, Any],
        payment: dict[str, Any],
        release: ReleaseOptions,
    ) -> None:
        """Publish the noisy sum of what parties contributed.

        A contribution that is missing or malformed counts as zero.
        """
        files: list[Path] = []
        for path in sent.parts:
            files += sorted(path.glob("*.part")) if path.is_dir() else [path]
        # Of a folder, only the contributions are read.
        check_outputs(release.output, reads=files, force=release.force)
        make_and_write(
            partial(PrivateEnsemble, **mechanism),
            partial(RoundSource, files, **source),
            payment,
            release,
            "adding up contributions",
        )

    return make_command(aggregate, source=RoundSource, mechanism=PrivateEnsemble, payment=Payment)


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
        **OUTPUT,
    )


def _parties_command() -> TyperCommand:
    """Return ``suffice simulate parties``."""
    from suffice.owner.labelled import Preprocessing
    from suffice.owner.parties.ensemble import PrivateEnsemble

    def parties(options: _Simulation, ensemble: dict[str, Any], mapped: dict[str, Any]) -> None:
        """Compare the accuracy of methods for many parties."""
        from suffice.papers import hamm

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
                shares=(options.aux_share, options.test_share),
                **{"lam": 1e-4, "classes": (0, 1), **ensemble},
                **mapped,
            )
        page = hamm.write_simulation(results, options.output, overwrite=options.force)
        if options.json:
            show_json(results)
            return
        show_table(page.title, page.columns, page.rows)
        say(f"The page with the plot: {options.output}")

    return make_command(
        parties,
        ensemble=selected_fields(PrivateEnsemble, ("classes", "lam")),
        mapped=selected_fields(Preprocessing, ("categories", "map", "missing")),
    )


simulate_app = typer.Typer(
    cls=group_with({"parties": _parties_command}),
    help="Simulate many parties on a public table.",
)
