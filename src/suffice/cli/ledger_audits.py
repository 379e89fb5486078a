"""Commands of a ledger for auditors: log, checkpoint, verify, recover."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import options
from suffice.cli.checks import check_outputs, refuse_unused
from suffice.cli.help import HelpfulCommand
from suffice.cli.ledger_views import anchor_sentence
from suffice.cli.output import say, show_json, show_table
from suffice.errors import LedgerError, ParameterError
from suffice.options import ledger_file

__all__ = ["register"]

_SUBJECTS = ("request", "proposal", "token")
_CheckpointFile = Annotated[
    Path | None,
    typer.Option("--checkpoint", help="A checkpoint of this ledger, as somebody kept it."),
]
_Key = Annotated[
    Path | None, typer.Option("--key", help="Public key that the checkpoint must be signed with.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to ``ledger``."""
    for name, command in _COMMANDS.items():
        app.command(name, cls=HelpfulCommand)(command)


def _log(path: options.LedgerPath, json: options.Json = False) -> None:
    """List the audit log: charges, releases, grants and refusals.

    Each entry contains a hash of the one before it. The log holds names, budgets and charges, and
    nothing that depends on a record.
    """
    from suffice.owner.ledger import Ledger
    from suffice.owner.ledger.words import KINDS

    ledger = Ledger(path)
    entries = ledger.log()
    if json:
        show_json(
            [
                {
                    "number": entry.number,
                    "time": entry.time,
                    "kind": entry.kind,
                    "digest": entry.digest,
                    "facts": entry.facts,
                }
                for entry in entries
            ]
        )
        return
    rows = [
        (
            str(entry.number),
            entry.time,
            KINDS.get(entry.kind, entry.kind),
            str(entry.facts.get("dataset", "")),
            next((str(entry.facts[n]) for n in _SUBJECTS if n in entry.facts), ""),
            entry.digest[:16],
        )
        for entry in entries
    ]
    columns = ["#", "time (UTC)", "entry", "data set", "request, proposal or token", "hash begins"]
    show_table(str(ledger.path), columns, rows)


def _checkpoint(
    path: options.LedgerPath,
    sign: Annotated[Path, typer.Option(help="Private key that signs the checkpoint.")],
    output: options.Output,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Sign the end of the audit log, for somebody else to keep.

    Give the file to your data protection officer. Whoever has it can notice later that the ledger
    was rewritten, or put back from a copy.
    """
    from suffice.owner.ledger import Ledger

    check_outputs(output, reads=(ledger_file(path), sign), force=force)
    ledger = Ledger(path)
    checkpoint = ledger.checkpoint(sign)
    checkpoint.save(output, overwrite=force)
    if json:
        show_json({"written": str(output), **_as_json(checkpoint)})
    else:
        say(
            f"{output}: the log of {ledger.path} has {checkpoint.entries} entries at"
            f" {checkpoint.time}, signed with key {checkpoint.key_id}."
        )


def _verify(
    path: options.LedgerPath,
    checkpoint: _CheckpointFile = None,
    key: _Key = None,
    json: options.Json = False,
) -> None:
    """Check that a ledger is not altered, damaged or an old copy.

    The anchor shows a ledger that was put back without it. Whoever can write the ledger can also
    write its log and its anchor again. A checkpoint in other hands shows that too.
    """
    from suffice.owner.ledger import Ledger
    from suffice.owner.ledger.checkpoint import Checkpoint

    if checkpoint is None:
        refuse_unused("without --checkpoint", {"--key": key})
    signed = None if checkpoint is None else Checkpoint.load(checkpoint, key)
    ledger = Ledger(path)
    entries = ledger.verify(signed)
    if json:
        compared = None if signed is None else _as_json(signed)
        facts = {"entries": len(entries), "head": entries[-1].digest, "frozen": ledger.frozen}
        facts["anchor"] = ledger.anchor.shown_place
        show_json({"ledger": str(ledger.path), **facts, "checkpoint": compared})
    else:
        say(
            f"{ledger.path}: {len(entries)} entries. Budgets, charges and releases agree with them."
        )
        say(anchor_sentence(ledger.anchor), *_compared(signed, key))
    if reason := ledger.frozen:
        raise LedgerError(f"The ledger is frozen: {reason}. Use `suffice ledger recover`.")


def _compared(signed: Any, key: Path | None) -> list[str]:
    """Return what a checkpoint has shown, in sentences."""
    if signed is None:
        lookalike = "a ledger that was put back together with its anchor looks like this"
        return [f"No checkpoint was compared: {lookalike}."]
    continues = (
        f"The log continues the checkpoint of {signed.time}, which has {signed.entries} entries and"
        f" is signed with key {signed.key_id}."
    )
    unknown = "Compare the key with the one that you know, or use --key."
    return [continues] + [unknown] * (key is None)


def _recover(
    path: options.LedgerPath,
    checkpoint: _CheckpointFile = None,
    key: _Key = None,
    released: Annotated[
        list[str] | None,
        typer.Option(
            help="A release that the ledger may have forgotten, as DATASET=FILE (repeatable)."
        ),
    ] = None,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete",
            help="You state: the ledger and the files of --released are all that was released.",
        ),
    ] = False,
    only_copy: Annotated[
        bool,
        typer.Option(
            "--only-copy",
            help="You state: this is the only copy of the ledger, for example after a move.",
        ),
    ] = False,
    anchor: options.AnchorPlace = None,
) -> None:
    """Use a ledger again that is frozen.

    A ledger that was moved finds no anchor. State with --only-copy that no other copy is used. A
    ledger that was restored has forgotten the charges since the copy was made. This command
    compares it with your newest checkpoint, or with its anchor. It charges the releases that you
    name, and ends the freeze.
    """
    from suffice.owner.ledger import Ledger
    from suffice.owner.ledger.checkpoint import Checkpoint
    from suffice.owner.ledger.verification import LostEntriesError
    from suffice.release.codec import load

    if only_copy:
        refuse_unused(
            "with --only-copy",
            {"--checkpoint": checkpoint, "--released": released, "--complete": complete or None},
        )
    if checkpoint is None:
        refuse_unused("without --checkpoint", {"--key": key})
    signed = None if checkpoint is None else Checkpoint.load(checkpoint, key)
    releases: dict[str, list[Any]] = {}
    for item in released or ():
        dataset, sign, file = item.partition("=")
        if not (dataset and sign and file):
            raise ParameterError("--released takes DATASET=FILE, once for each file.")
        releases.setdefault(dataset, []).append(load(Path(file)))
    ledger = Ledger(path)
    if not complete and not only_copy:
        try:
            ledger.verify(signed)
            outcome = "Later charges than those of the checkpoint or the anchor may be missing."
        except LostEntriesError as lost:
            outcome = str(lost)
        raise ParameterError(
            f"{outcome} Collect every release since the copy was made. Name those files with"
            " --released, and add --complete. If this is the only copy, use --only-copy instead."
        )
    charged = ledger.recover(signed, None if only_copy else releases, anchor=anchor)
    say(
        f"{ledger.path}: the ledger can be used again. Releases charged now: {charged}. Sign a new"
        " checkpoint."
    )
    say(anchor_sentence(ledger.anchor))


def _as_json(checkpoint: Any) -> dict[str, Any]:
    fields = {name: getattr(checkpoint, name) for name in ("ledger", "entries", "head", "time")}
    return {**fields, "key": checkpoint.key_id}


_COMMANDS: Mapping[str, Callable[..., None]] = {
    "log": _log,
    "checkpoint": _checkpoint,
    "verify": _verify,
    "recover": _recover,
}
