"""Commands of many parties: contribute, aggregate, and their plan and release."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import options, parsing
from suffice.cli.checks import check_outputs, refuse_unused
from suffice.cli.groups import Leaving, MappedRows, grouped
from suffice.cli.output import progress, say, show_json, show_pairs, show_table
from suffice.cli.warned import owner_warnings
from suffice.errors import ParameterError

__all__ = ["register"]

_SHOWN = 8  # of many parties

Auxiliary = Annotated[
    Path, typer.Option("--aux", help="The public rows on which every party votes.")
]
Epsilon = Annotated[float, typer.Option(help="What the release may cost each party.")]
Delta = Annotated[float, typer.Option(help="Of Gaussian noise; 0: noise of the K-norm.")]
Method = Annotated[
    str,
    typer.Option(help="operator, votes, soft, vote or average; see docs/parties.md."),
]
Penalty = Annotated[
    float, typer.Option(help="Of the parties' own classifiers, and of soft, vote and average.")
]
Form = Annotated[str, typer.Option(help="Noise of the operator: whitened or even.")]
Noise = Annotated[str, typer.Option(help="gaussian or knorm; auto: gaussian if delta is not 0.")]
Like = Annotated[
    Path | None, typer.Option(help="Use the pipeline of this release for the auxiliary rows.")
]
PrivateRows = Annotated[
    bool,
    typer.Option(
        "--private-aux", help="Protect each auxiliary row too: soft and vote only, needs --like."
    ),
]
RowsDataset = Annotated[
    str | None,
    typer.Option(
        "--aux-dataset",
        help="With --private-aux: the ledger's data set of the auxiliary rows, with a budget per"
        " record.",
    ),
]
Parties = Annotated[
    str,
    typer.Option(
        help="How many parties are enrolled, or their names: a text file with a name on each line,"
        " or a list with commas. Public, and never read off the records."
    ),
]


def register(app: typer.Typer, plan: typer.Typer, release: typer.Typer) -> None:
    """Add ``contribute``, ``aggregate``, ``plan parties`` and ``release parties``."""
    app.command()(contribute)
    app.command()(aggregate)
    plan.command("parties")(plan_parties)
    release.command("parties")(release_parties)


@grouped
def contribute(
    table: Annotated[Path, typer.Argument(help="The party's private records.")],
    aux: Auxiliary,
    output: options.Output,
    label: Annotated[str | None, typer.Option(help="The column of their labels.")] = None,
    cast: Annotated[
        str | None,
        typer.Option(
            help="In the place of records and --label: TABLE holds this column of votes, one per"
            " auxiliary row and in their order."
        ),
    ] = None,
    party: Annotated[
        str | None, typer.Option(help="The name the party is enrolled by; default: OUTPUT's.")
    ] = None,
    method: Method = "operator",
    lam: Penalty = 1e-4,
    classes: options.Classes = "0,1",
    like: Like = None,
    json: options.Json = False,
    *,
    mapped: MappedRows,
) -> None:
    """Write a party's contribution for the aggregator: its votes on public rows, not private."""
    from suffice.owner.parties.aggregate import METHODS
    from suffice.owner.parties.contribution import PartyContribution
    from suffice.tables.labels import check_classes

    check_outputs(output, reads=(table, aux, like))
    if method not in METHODS:
        raise ParameterError(f"--method must be one of {', '.join(METHODS)}.")
    if (label is None) == (cast is None):
        raise ParameterError("say what votes: records with a --label, or a column (--cast).")
    rows = _auxiliary(aux, mapped, like)
    declared, name = check_classes(parsing.values(classes)), party or output.stem
    if cast is not None:
        part = _cast(PartyContribution, table, cast, name, rows, declared, METHODS[method])
    else:
        part = _trained(table, label, name, rows, declared, METHODS[method], lam)
    part.save(output)
    told = {"written": str(output), "party": part.party, "holds": part.statistic}
    warning = "not private: for the aggregator only; send it by a channel that you both trust"
    if json:
        show_json({**told, "warning": warning})
        return
    show_pairs([*told.items(), ("warning", warning)])


def _cast(
    kind: Any, table: Path, column: str, name: str, rows: Any, classes: Any, statistic: str
) -> Any:
    """Return the contribution of a column of votes."""
    import pyarrow as pa

    from suffice.tables.columns import resolve_roles
    from suffice.tables.sources import open_table

    if statistic == "parameters":
        raise ParameterError("votes have no parameters to average; give records and --label.")
    source = open_table(table)
    resolve_roles(source.schema, features=[column])
    votes = pa.chunked_array([batch.column(column) for batch in source.batches([column])])
    return kind.of(name, votes, rows, classes=classes, statistic=statistic)


def _trained(
    table: Path, label: str | None, name: str, rows: Any, classes: Any, statistic: str, lam: float
) -> Any:
    """Return the contribution of a linear classifier of the party's own records."""
    from suffice.owner.parties.tables import PartyTable

    with progress("reading") as tell:
        own = PartyTable.read(
            table, rows, label=label or "", classes=classes, party=None, progress=tell
        )
    return own.contribution(name, rows, statistic, lam)


@grouped
def aggregate(
    parts: Annotated[list[Path], typer.Argument(help="*.part files, or folders of them.")],
    aux: Auxiliary,
    enrolled: Parties,
    epsilon: Epsilon,
    output: options.Output,
    delta: Delta = 0.0,
    method: Method = "operator",
    mechanism: Noise = "auto",
    noise: Form = "whitened",
    lam: Penalty = 1e-4,
    private_aux: PrivateRows = False,
    aux_dataset: RowsDataset = None,
    classes: options.Classes = "0,1",
    like: Like = None,
    found_at: options.FoundAt = None,
    unprotected: options.Unprotected = False,
    *,
    mapped: MappedRows,
    leaving: Leaving,
) -> None:
    """Release what enrolled parties contributed; what is missing or wrong counts as zero."""
    from suffice.owner.parties.aggregate import PrivateEnsemble

    sent = _files(parts)
    check_outputs(output, reads=(*sent, aux, _list_of(enrolled), like, *leaving.files))
    paid = leaving.paid()
    rows = _auxiliary(aux, mapped, like)
    ensemble = PrivateEnsemble(
        epsilon=epsilon,
        delta=delta,
        method=method,
        classes=parsing.values(classes),
        mechanism=mechanism,
        noise=noise,
        lam=lam,
        private_auxiliary=private_aux,
    )
    with owner_warnings():
        outcome = ensemble.aggregate(
            sent,
            rows,
            enrolled=_enrolled(enrolled),
            auxiliary_dataset=aux_dataset,
            found_at=found_at,
            unprotected=unprotected,
            **paid,
        )
    _report(outcome, output, leaving)


@grouped
def release_parties(
    table: Annotated[Path, typer.Argument(help="Private records of all parties in one table.")],
    label: options.Label,
    party: Annotated[str, typer.Option(help="The column that says whose a record is.")],
    enrolled: Parties,
    aux: Auxiliary,
    epsilon: Epsilon,
    output: options.Output,
    delta: Delta = 0.0,
    method: Method = "operator",
    mechanism: Noise = "auto",
    noise: Form = "whitened",
    lam: Penalty = 1e-4,
    classes: options.Classes = "0,1",
    like: Like = None,
    found_at: options.FoundAt = None,
    unprotected: options.Unprotected = False,
    *,
    mapped: MappedRows,
    leaving: Leaving,
) -> None:
    """Train a classifier per enrolled party of one table, and release what they say together."""
    from suffice.owner.parties.aggregate import PrivateEnsemble
    from suffice.owner.parties.enrolled import Enrolled
    from suffice.owner.parties.tables import PartyTable
    from suffice.tables.labels import check_classes

    check_outputs(output, reads=(table, aux, _list_of(enrolled), like, *leaving.files))
    paid, parties = leaving.paid(), Enrolled.of(_enrolled(enrolled))
    rows = _auxiliary(aux, mapped, like)
    declared = check_classes(parsing.values(classes))
    ensemble = PrivateEnsemble(
        epsilon=epsilon,
        delta=delta,
        method=method,
        classes=declared,
        mechanism=mechanism,
        noise=noise,
        lam=lam,
    )
    with progress("reading") as tell:
        own = PartyTable.read(
            table,
            rows,
            label=label,
            classes=declared,
            party=party,
            enrolled=parties,
            progress=tell,
        )
    count = own.parameter_tally if method == "average" else own.tally
    outcome = ensemble.aggregate(
        count(rows, lam, parties),
        rows,
        enrolled=parties,
        found_at=found_at,
        unprotected=unprotected,
        **paid,
    )
    _report(outcome, output, leaving, own.strangers)


def plan_parties(
    parties: Annotated[int, typer.Option(help="How many parties are enrolled.")],
    epsilon: Annotated[
        list[float], typer.Option(help="What a release may cost each party; repeat it.")
    ],
    delta: Delta = 0.0,
    aux: Annotated[
        Path | None, typer.Option("--aux", help="The public rows; or say --rows and --features.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="How many auxiliary rows.")] = None,
    features: Annotated[int | None, typer.Option(help="How many features.")] = None,
    classes: Annotated[int, typer.Option(help="How many classes.")] = 2,
    samples: Annotated[int, typer.Option(help="How many records a party has.")] = 100,
    lam: Penalty = 1e-4,
    json: options.Json = False,
) -> None:
    """Predict what parties could learn together, and say whether it is worth it."""
    from suffice.owner.parties.auxiliary import AuxiliaryRows
    from suffice.owner.parties.plan import plan_parties as make_plan

    if aux is not None:
        refuse_unused("with --aux", {"--rows": rows, "--features": features})
    plan = make_plan(
        parties,
        epsilon,
        delta,
        auxiliary=None if aux is None else AuxiliaryRows.read(aux),
        rows=rows,
        features=features,
        classes=classes,
        samples=samples,
        lam=lam,
    )
    if json:
        show_json(plan.to_json())
        return
    show_table(
        "Predicted noise in scores and accuracy between two equal classes, where votes explain 5 %"
        " (hard), 20 % (usual) or 70 % (easy) of the labels' variance; the bound is that of Hamm"
        " et al. 2016, Theorem 4, corrected",
        plan.COLUMNS,
        plan.cells(),
    )
    for verdict in plan.verdicts:
        say(verdict)


def _auxiliary(table: Path, mapped: MappedRows, like: Path | None) -> Any:
    """Return the public rows, mapped as the options say or as an earlier release does."""
    from suffice.owner.parties.auxiliary import AuxiliaryRows
    from suffice.release.codec import load

    pipeline = load(like).pipeline if like else None
    return AuxiliaryRows.read(table, pipeline=pipeline, features=mapped.names, **mapped.pipeline)


def _files(parts: list[Path]) -> list[Path]:
    """Return the files that were named, those of a folder in the order of their names."""
    found: list[Path] = []
    for path in parts:
        found += sorted(path.glob("*.part")) if path.is_dir() else [path]
    return found


def _list_of(enrolled: str) -> Path | None:
    """Return the file of names that --enrolled means, unless it is a number or a list."""
    path = Path(enrolled)
    return None if enrolled.isdecimal() or ("," in enrolled and not path.exists()) else path


def _enrolled(text: str) -> int | list[str]:
    """Return a number of parties, or their names: those in a file, or those with commas."""
    if text.isdecimal():
        return int(text)
    from suffice.release.files import read_bounded

    path = _list_of(text)
    if path is None:
        lines = text.split(",")
    else:
        lines = read_bounded(path, 2**26).decode(errors="replace").splitlines()
    return [line.strip() for line in lines if line.strip()]


def _report(outcome: Any, output: Path, leaving: Leaving, strangers: Sequence[Any] = ()) -> None:
    """Write the release; say on stderr whose contribution counted as zero, and why."""
    rejections = [*strangers, *outcome.rejected]
    told = {
        "kind": outcome.release.kind,
        "accepted": outcome.accepted,
        "absent": outcome.absent,
        "missing": list(outcome.missing),
        "rejected": [
            {"party": r.party, "source": r.source, "reason": r.reason} for r in rejections
        ],
    }
    if not leaving.json:
        for rejected in [*strangers[:_SHOWN], *outcome.rejected]:
            say(f"suffice: counted as zero: {rejected}", error=True)
        if len(strangers) > _SHOWN:
            more = f"{len(strangers) - _SHOWN:,} more that are not enrolled"
            say(f"suffice: counted as zero: {more}", error=True)
        if outcome.absent:
            names = f": {', '.join(outcome.missing[:_SHOWN])}" if outcome.missing else ""
            more = ", ..." if len(outcome.missing) > _SHOWN else ""
            text = f"suffice: nothing came from {outcome.absent} parties{names}{more}"
            say(text, error=True)
        if not outcome.accepted:  # a refusal would tell that the only party left had nothing
            say("suffice: nothing was counted: what left is noise, and paid for", error=True)
    counted = ("parties", f"{outcome.accepted:,} counted")
    leaving.write(outcome.release, output, told, shown=[counted])
