"""Commands of a ledger: budgets, charges, its log, and how it is kept for years."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import building
from suffice.cli.building import HelpfulCommand, check_outputs, group_with, refuse_unused
from suffice.cli.output import say, show_json, show_table
from suffice.errors import LedgerError, ParameterError
from suffice.options import ledger_file, states
from suffice.privacy.guarantee import round_up

_SPENT = (
    "Spent is what all charges cost together, at the delta of the budget. It is at most the sum of"
    " their epsilons, and often less, because noise is counted exactly."
)
_ORDER = {
    "Commands": ("init", "show", "history", "what-if"),
    "Audit": ("log", "checkpoint", "verify", "backup", "archive", "recover"),
}
ledger_app = typer.Typer(
    cls=group_with({}, _ORDER), help="Set privacy budgets, and see what was charged to them."
)
_CheckpointFile = Annotated[
    Path | None,
    typer.Option("--checkpoint", help="A checkpoint of this ledger, as somebody kept it."),
]
_Key = Annotated[
    Path | None, typer.Option("--key", help="Public key that the checkpoint must be signed with.")
]
_DataSet = Annotated[str, typer.Option(help="Name of the data set, for example diagnosis.")]


@ledger_app.command("init", cls=HelpfulCommand)
def init(
    path: Annotated[
        str,
        typer.Argument(
            help="The ledger's file, or postgresql://HOST/DATABASE; made if it is missing.",
            metavar="PATH",
        ),
    ],
    dataset: _DataSet,
    epsilon: Annotated[
        float, typer.Option(help="Largest epsilon of all releases together, for example 2.")
    ],
    delta: Annotated[
        float, typer.Option(help="Delta at which that epsilon is counted, for example 1e-5.")
    ] = 0.0,
    unit: Annotated[
        str,
        typer.Option(
            help="What the budget protects: label, attribute, record, person-labels,"
            " person or party."
        ),
    ] = "label",
    classes: Annotated[
        str | None,
        typer.Option(help="List of all classes, with commas; of two, the last is positive."),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Label column that has these classes. Default: any column."),
    ] = None,
    anchor: building.AnchorPlace = None,
) -> None:
    """Set the privacy budget of a data set. It is never lowered.

    A new ledger also gets an anchor: the end of its log, kept in another place. With it, a ledger
    that was put back from a copy starts frozen.
    """
    from suffice.owner.ledger import Ledger
    from suffice.privacy.guarantee import Budget

    if classes is None:
        refuse_unused("without --classes", {"--label": label})
    budget = Budget(epsilon, delta)
    declared = None if classes is None else {dataset: {label or "": tuple(states(classes))}}
    ledger = Ledger(path, {dataset: {unit: budget}}, declared, anchor=anchor)
    if about := budget.explained(unit):
        say(about)
    say(f"{ledger.path}: the budget of data set {dataset!r} is {budget} per {unit}.")
    if classes is not None:
        column = "every label column" if label is None else f"label column {label!r}"
        say(f"Its classes, for {column}: {', '.join(map(str, states(classes)))}.")
    say(_anchor_sentence(ledger.anchor))


def _anchor_sentence(anchor: Any) -> str:
    """Return where the anchor of a ledger is, or that nothing notices a copy."""
    if anchor.kind == "none":
        return "It has no anchor: only a checkpoint notices that it was put back from a copy."
    return f"Its anchor is {anchor.shown_place}. Do not restore it together with the ledger."


@ledger_app.command("show", cls=HelpfulCommand)
def show(path: building.LedgerPath, json: building.Json = False) -> None:
    """Show every budget, what is spent of it, and what is left."""
    from suffice.owner.ledger import Ledger

    ledger = Ledger(path)
    if json:
        show_json(balance_json(ledger.balances()))
        return
    balances = ledger.balances()
    balance_table(str(ledger.path), balances)
    if any(balance.debits for balance in balances):
        say(f"{_SPENT} suffice ledger history {ledger.path} lists them.")


def balance_json(balances: Sequence[Any]) -> list[dict[str, Any]]:
    """Return every budget for programs."""
    return [
        {
            "dataset": balance.dataset,
            "unit": str(balance.unit),
            "epsilon": balance.budget.epsilon,
            "delta": balance.budget.delta,
            "spent": balance.spent,
            "left": balance.left,
            "debits": balance.debits,
        }
        for balance in balances
    ]


def balance_table(title: str, balances: Sequence[Any]) -> None:
    """Print every budget, what is spent of it and what is left."""
    rows = [
        [f"{value:g}" if isinstance(value, float) else str(value) for value in balance.values()]
        for balance in balance_json(balances)
    ]
    columns = ["data set", "unit", "epsilon allowed", "at delta", "spent", "left", "charges"]
    show_table(title, columns, rows)


@ledger_app.command("history", cls=HelpfulCommand)
def history(path: building.LedgerPath, json: building.Json = False) -> None:
    """List every charge, and what all charges cost together.

    A charge whose output was lost stays spent. Several charges cost at most their sum, and often
    less: the last lines give both numbers.
    """
    from suffice.owner.ledger import Ledger
    from suffice.owner.ledger.rules import STATES, stated_epsilon

    ledger = Ledger(path)
    entries = ledger.history()
    if json:
        show_json(
            [
                {
                    "number": entry.number,
                    "dataset": entry.dataset,
                    "request": entry.request,
                    "state": entry.state,
                    "time": datetime.fromtimestamp(entry.time, UTC).isoformat(timespec="seconds"),
                    "charges": _events(entry.charges),
                    "also": {name: _events(charges) for name, charges in entry.also.items()},
                    "parameters": dict(entry.parameters),
                }
                for entry in entries
            ]
        )
        return
    rows = []
    for entry in entries:
        # What it cost, unit by unit, at the delta that its release states.
        own = [f"{epsilon:.4g} per {unit}" for unit, epsilon in entry.epsilons]
        others = [
            f"{stated_epsilon(event, entry.stated_delta):.4g} per {unit} of {name}"
            for name, charges in entry.also.items()
            for unit, event in charges
        ]
        rows.append(
            (
                str(entry.number),
                f"{datetime.fromtimestamp(entry.time, UTC):%Y-%m-%d %H:%M:%S}",
                entry.dataset,
                str(entry.parameters.get("kind", "")),
                ", ".join([*own, *others]),
                STATES.get(entry.state, entry.state),
                entry.request,
            )
        )
    columns = ["#", "time (UTC)", "data set", "kind", "epsilon charged", "state", "request"]
    show_table(str(ledger.path), columns, rows)
    for balance in ledger.balances():
        if balance.debits:
            summed = sum(entry.stated_sum(balance) for entry in entries)
            say(
                f"{balance.dataset}, per {balance.unit}: the charges' epsilons add up to"
                f" {summed:.4g}; spent is {balance.spent:.4g} of {balance.budget.epsilon:g}."
            )
    if entries:
        say(_SPENT)


def _events(charges: Sequence[tuple[Any, Any]]) -> list[dict[str, Any]]:
    return [{"unit": str(unit), **event.to_json()} for unit, event in charges]


@ledger_app.command("what-if", cls=HelpfulCommand)
def what_if(
    path: building.LedgerPath,
    dataset: _DataSet,
    delta: Annotated[
        float, typer.Option(help="Delta of the next release, for example 1e-6.")
    ] = 0.0,
    unit: Annotated[
        str | None,
        typer.Option(
            help="What the next release protects: label, attribute, record, person-labels, person"
            " or party. Default: as the budget."
        ),
    ] = None,
    json: building.Json = False,
) -> None:
    """Find the largest epsilon that a further release may have."""
    from suffice.owner.ledger import Ledger

    epsilon = Ledger(path).largest_epsilon(dataset, delta=delta, unit=unit)
    if json:
        show_json({"dataset": dataset, "delta": delta, "unit": unit, "largest_epsilon": epsilon})
    elif epsilon > 0:
        most = f"epsilon {epsilon:g} at most, at delta {round_up(delta)}"
        say(f"A release of {dataset!r} may have {most}.")
    else:
        say(f"No further release of {dataset!r} at delta {round_up(delta)} fits the budget.")


@ledger_app.command("log", cls=HelpfulCommand)
def log(path: building.LedgerPath, json: building.Json = False) -> None:
    """List the audit log: charges, releases, grants and refusals.

    Each entry contains a hash of the one before it. The log holds names, budgets and charges, and
    nothing that depends on a record.
    """
    from suffice.owner.ledger import Ledger
    from suffice.owner.ledger.log import KINDS

    ledger = Ledger(path)
    entries = ledger.log()
    if json:
        fields = ("number", "time", "kind", "digest", "facts")
        show_json([{field: getattr(entry, field) for field in fields} for entry in entries])
        return
    subjects = ("request", "proposal", "token")
    rows = [
        (
            str(entry.number),
            entry.time,
            KINDS.get(entry.kind, entry.kind),
            str(entry.facts.get("dataset", "")),
            next((str(entry.facts[n]) for n in subjects if n in entry.facts), ""),
            entry.digest[:16],
        )
        for entry in entries
    ]
    columns = ["#", "time (UTC)", "entry", "data set", "request, proposal or token", "hash begins"]
    show_table(str(ledger.path), columns, rows)


@ledger_app.command("checkpoint", cls=HelpfulCommand)
def checkpoint(
    path: building.LedgerPath,
    sign: Annotated[Path, typer.Option(help="Private key that signs the checkpoint.")],
    output: building.Output,
    force: building.Force = False,
    json: building.Json = False,
) -> None:
    """Sign the end of the audit log, for somebody else to keep.

    Give the file to your data protection officer. Whoever has it can notice later that the ledger
    was rewritten, or put back from a copy.
    """
    from suffice.owner.ledger import Ledger

    check_outputs(output, reads=(ledger_file(path), sign), force=force)
    ledger = Ledger(path)
    signed = ledger.checkpoint(sign)
    signed.save(output, overwrite=force)
    if json:
        show_json({"written": str(output), **checkpoint_json(signed)})
    else:
        say(
            f"{output}: the log of {ledger.path} has {signed.entries} entries at"
            f" {signed.time}, signed with key {signed.key_id}."
        )


def checkpoint_json(checkpoint: Any) -> dict[str, Any]:
    """Return what a checkpoint says, for programs."""
    fields = {name: getattr(checkpoint, name) for name in ("ledger", "entries", "head", "time")}
    return {**fields, "key": checkpoint.key_id}


@ledger_app.command("verify", cls=HelpfulCommand)
def verify(
    path: building.LedgerPath,
    checkpoint: _CheckpointFile = None,
    key: _Key = None,
    json: building.Json = False,
) -> None:
    """Check that a ledger is not altered, damaged or an old copy.

    The anchor shows a ledger that was put back without it. Whoever can write the ledger can also
    write its log and its anchor again. A checkpoint in other hands shows that too.
    """
    from suffice.owner.ledger import Ledger

    signed = _kept(checkpoint, key)
    ledger = Ledger(path)
    entries = ledger.verify(signed)
    if json:
        compared = None if signed is None else checkpoint_json(signed)
        facts = {"entries": len(entries), "head": entries[-1].digest, "frozen": ledger.frozen}
        facts["anchor"] = ledger.anchor.shown_place
        show_json({"ledger": str(ledger.path), **facts, "checkpoint": compared})
    else:
        say(
            f"{ledger.path}: {len(entries)} entries. Budgets, charges and releases agree with them."
        )
        say(_anchor_sentence(ledger.anchor))
        if signed is None:
            lookalike = "a ledger that was put back together with its anchor looks like this"
            say(f"No checkpoint was compared: {lookalike}.")
        else:
            say(
                f"The log continues the checkpoint of {signed.time}, which has {signed.entries}"
                f" entries and is signed with key {signed.key_id}."
            )
            if key is None:
                say("Compare the key with the one that you know, or use --key.")
    if reason := ledger.frozen:
        raise LedgerError(f"The ledger is frozen: {reason}. Use `suffice ledger recover`.")


def _kept(path: Path | None, key: Path | None) -> Any:
    """Return the checkpoint that somebody kept, if there is one."""
    from suffice.owner.ledger.log import Checkpoint

    if path is None:
        refuse_unused("without --checkpoint", {"--key": key})
        return None
    return Checkpoint.load(path, key)


@ledger_app.command("backup", cls=HelpfulCommand)
def backup(
    path: building.LedgerPath, output: building.Output, *, force: building.Force = False
) -> None:
    """Write a copy of a ledger to a new file, while others use it.

    The copy starts frozen, because it lacks the charges that come later. `suffice ledger recover`
    ends that. A ledger in a database becomes a file.
    """
    from suffice.owner.ledger import Ledger

    check_outputs(output, reads=(ledger_file(path),), force=force)
    ledger = Ledger(path)
    if force:  # a plain file, as was checked
        output.unlink(missing_ok=True)
    ledger.backup(output)
    say(f"{output}: a backup of {ledger.path}. It is as secret as the ledger, and starts frozen.")


@ledger_app.command("archive", cls=HelpfulCommand)
def archive(
    path: building.LedgerPath,
    before: Annotated[
        str,
        typer.Argument(
            metavar="DAY", help="Move what is older than this day (UTC), such as 2026-01-01."
        ),
    ],
    sign: Annotated[Path, typer.Option(help="Private key that signs the archive.")],
    output: building.Output,
    json: building.Json = False,
) -> None:
    """Move old releases and proposals into one signed file.

    Charges, digests and the log stay for ever, and nothing is drawn again. Keep the file beside the
    ledger: then a request that comes again gets its old bytes. Without the file it is told that
    they are archived.
    """
    from suffice.owner.ledger import Ledger

    check_outputs(output, reads=(ledger_file(path), sign), force=None)
    try:
        day = datetime.strptime(before, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise ParameterError("Name a day, such as 2026-01-01.") from None
    ledger = Ledger(path)
    written = ledger.archive(output, sign, day)
    if json:
        show_json({"written": str(output), **archive_json(written)})
        return
    say(
        f"{output}: {written.releases} releases and {written.proposals} proposals of"
        f" {ledger.path}, signed with key {written.key_id}."
    )
    say(f"Its SHA-256 is in the log: {written.digest}. Keep it beside the ledger.")


def archive_json(archive: Any) -> dict[str, Any]:
    """Return what an archive holds, for programs."""
    names = ("releases", "proposals", "digest")
    fields = {"ledger": archive.manifest.ledger, "charges": archive.manifest.charges}
    return fields | {n: getattr(archive, n) for n in names} | {"key": archive.key_id}


@ledger_app.command("recover", cls=HelpfulCommand)
def recover(
    path: building.LedgerPath,
    checkpoint: _CheckpointFile = None,
    key: _Key = None,
    released: Annotated[
        list[str] | None,
        typer.Argument(metavar="DATASET=FILE", help="Releases that the ledger may have forgotten."),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="[complete|only-copy]",
            help="You state: the ledger and these releases are all that was released (complete), or"
            " this is the only copy of the ledger, for example after a move (only-copy).",
        ),
    ] = None,
    anchor: building.AnchorPlace = None,
) -> None:
    """Use a ledger again that is frozen.

    A ledger that was moved finds no anchor. State with `--state only-copy` that no other copy is
    used. A
    ledger that was restored has forgotten the charges since the copy was made. This command
    compares it with your newest checkpoint, or with its anchor. It charges the releases that you
    name, and ends the freeze.
    """
    from suffice.owner.ledger import Ledger
    from suffice.owner.ledger.ledger import LostEntriesError
    from suffice.releases.codec import load

    if state not in (None, "complete", "only-copy"):
        raise ParameterError(f"--state must be one of complete, only-copy; got {state!r}.")
    only_copy = state == "only-copy"
    if only_copy:
        unused = {"--checkpoint": checkpoint, "DATASET=FILE": released or None}
        refuse_unused("with --state only-copy", unused)
    signed = _kept(checkpoint, key)
    releases: dict[str, list[Any]] = {}
    for item in released or ():
        dataset, sign, file = item.partition("=")
        if not (dataset and sign and file):
            raise ParameterError("Name each release as DATASET=FILE.")
        releases.setdefault(dataset, []).append(load(Path(file)))
    ledger = Ledger(path)
    if state is None:
        try:
            ledger.verify(signed)
            outcome = "Later charges than those of the checkpoint or the anchor may be missing."
        except LostEntriesError as lost:
            outcome = str(lost)
        raise ParameterError(
            f"{outcome} Collect every release since the copy was made. Name each as DATASET=FILE,"
            " and add --state complete. If this is the only copy, use --state only-copy instead."
        )
    charged = ledger.recover(signed, None if only_copy else releases, anchor=anchor)
    say(
        f"{ledger.path}: the ledger can be used again. Releases charged now: {charged}. Sign a new"
        " checkpoint."
    )
    say(_anchor_sentence(ledger.anchor))
