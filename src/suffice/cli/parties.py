"""Commands of many parties: contribute (a party), aggregate (the aggregator)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from suffice.cli.building import Inputs, make_command, selected_fields
from suffice.cli.checks import check_outputs
from suffice.cli.options import OutputFile
from suffice.cli.output import owner_warnings, progress, show_json, show_pairs
from suffice.cli.reading import Reading
from suffice.cli.releasing import ReleaseOptions, ledger_arguments, write_release
from suffice.errors import ParameterError
from suffice.options import REQUIRED, Option, data_option

__all__ = ["COMMANDS"]


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
    from suffice.owner.parties.auxiliary import AgreedRows
    from suffice.owner.parties.mechanism import METHODS, PrivateEnsemble

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
    from suffice.owner.parties.records import PartyTable, cast_votes

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
    from suffice.owner.mechanism import make_release
    from suffice.owner.parties.mechanism import PrivateEnsemble
    from suffice.owner.parties.sources import RoundSource
    from suffice.owner.publish import Payment

    def run(inputs: Inputs) -> None:
        files = _files(inputs.values["sent"]["parts"])
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


def _files(parts: list[Path]) -> list[Path]:
    """Return the files that were named, those of a folder in the order of their names."""
    files: list[Path] = []
    for path in parts:
        files += sorted(path.glob("*.part")) if path.is_dir() else [path]
    return files


COMMANDS = {"contribute": _contribute_command, "aggregate": _aggregate_command}
