"""Commands of many parties: contribute (a party), aggregate (whoever sums)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from suffice.cli.building import Asked, make_command, selected_fields
from suffice.cli.checks import check_outputs
from suffice.cli.options import OutputFile
from suffice.cli.output import owner_warnings, progress, show_json, show_pairs
from suffice.cli.reading import Reading
from suffice.cli.releasing import Written, paid_by, write_release
from suffice.errors import ParameterError
from suffice.options import REQUIRED, Option, data_option

__all__ = ["COMMANDS"]


@dataclass(frozen=True, kw_only=True)
class _Contributed(OutputFile):
    """What a party gives, and where its contribution goes."""

    table: Path = data_option(REQUIRED, "The party's private records.", argument=True, path=Path)
    label: str | None = data_option(None, "Column of their labels.")
    cast: str | None = data_option(
        None,
        "Column of votes in TABLE, one per auxiliary row and in their order, instead of"
        " records and --label.",
        name="--votes-column",
        old=("--cast",),
    )
    party: str | None = data_option(None, "Name that the party is enrolled by. Default: OUTPUT's.")


def _contribute_command() -> TyperCommand:
    """Return ``suffice contribute``."""
    from suffice.owner.parties.auxiliary import AgreedRows
    from suffice.owner.parties.mechanism import METHODS, PrivateEnsemble

    def shared(name: str, declared: Option) -> Option | None:
        return declared if name in ("method", "classes", "lam") else None

    def run(asked: Asked) -> None:
        given = _Contributed(**asked.values["given"])
        ensemble = PrivateEnsemble(epsilon=1.0, **asked.values["ensemble"])
        rows = asked.make("agreed", AgreedRows).rows
        statistic, classes = METHODS[ensemble.method], ensemble.declared_classes()
        table = asked.make("reading", Reading).table(given.table)
        part = _contribution(given, table, rows, classes, statistic, ensemble.lam)
        part.save(given.output, overwrite=given.force)
        facts = {"written": str(given.output), "party": part.party, "holds": part.statistic}
        warning = "not private: for the aggregator only; send it by a channel that you both trust"
        if given.json:
            show_json({**facts, "warning": warning})
            return
        show_pairs([*facts.items(), ("warning", warning)])

    parts = {
        "given": _Contributed,
        "reading": Reading,
        "agreed": AgreedRows,
        "ensemble": selected_fields(PrivateEnsemble, shared),
    }
    summary = "Write a party's contribution for the aggregator: its votes on public rows. It is"
    return make_command("contribute", parts, run, help=f"{summary} not private.")


def _contribution(  # one call
    given: _Contributed, table: Any, rows: Any, classes: Any, statistic: str, lam: float
) -> Any:
    """Return the contribution of a column of votes, or of a classifier of the party's records."""
    from suffice.owner.parties.records import PartyTable, cast_votes

    if (given.label is None) == (given.cast is None):
        raise ParameterError(
            "say what votes: records with a --label, or a column (--votes-column)."
        )
    name = given.party or given.output.stem
    if given.cast is not None:
        return cast_votes(table, given.cast, name, rows, classes=classes, statistic=statistic)
    with progress("reading") as tell:
        records = PartyTable.read(
            table, rows, label=given.label or "", classes=classes, party=None, progress=tell
        )
    return records.contribution(name, rows, statistic, lam)


@dataclass(frozen=True)
class _Sent:
    parts: list[Path] = data_option(
        REQUIRED,
        "*.part files, or folders of them.",
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

    def run(asked: Asked) -> None:
        sent = _files(asked.values["sent"]["parts"])
        written = Written(**asked.values["written"])
        # Of a folder the contributions alone are read.
        check_outputs(written.output, reads=sent, force=written.force)
        payment = paid_by(asked.values["payment"], written)
        reports: list[Any] = []
        source = asked.fields("source", RoundSource)
        round_ = RoundSource(sent, **source, report=reports.append)
        with owner_warnings():
            ensemble = PrivateEnsemble(**asked.values["mechanism"])
            release = make_release(ensemble, round_, Payment(**payment))
        write_release(release, written, reports[0])

    parts = {
        "sent": _Sent,
        "source": RoundSource,
        "mechanism": PrivateEnsemble,
        "payment": Payment,
        "written": Written,
    }
    summary = "Release what enrolled parties contributed; what is missing or wrong counts as zero."
    return make_command("aggregate", parts, run, help=summary)


def _files(parts: list[Path]) -> list[Path]:
    """Return the files that were named, those of a folder in the order of their names."""
    files: list[Path] = []
    for path in parts:
        files += sorted(path.glob("*.part")) if path.is_dir() else [path]
    return files


COMMANDS = {"contribute": _contribute_command, "aggregate": _aggregate_command}
