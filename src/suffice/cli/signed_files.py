"""How exports of a service and checkpoints of a ledger are told apart, printed and verified."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from suffice.cli.output import say
from suffice.plain_text import name, phrase, quoted
from suffice.privacy.words import round_up

__all__ = [
    "CHECKPOINT_HEAD",
    "EXPORT_HEAD",
    "checkpoint_lines",
    "export_lines",
    "file_head",
    "verify_checkpoint",
    "verify_export",
]

CHECKPOINT_HEAD = b"suffice ledger checkpoint "
EXPORT_HEAD = b'{"anchor":'  # canonical JSON: the fields are in the order of their names
_HEAD_BYTES = 64
_DATASETS = 20  # shown of many

Pair = tuple[str, str]


def file_head(path: Path) -> bytes:
    """Return the first bytes of a file; what cannot be read is for the reader of it to report."""
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES) if path.is_file() else b""
    except OSError:
        return b""


def checkpoint_lines(checkpoint: Any) -> list[Pair]:
    """Return what a checkpoint says."""
    return [
        ("holds", "a signed checkpoint of a ledger, for somebody else to keep"),
        ("ledger", checkpoint.ledger),
        ("entries", f"{checkpoint.entries:,}"),
        ("hash of the last", checkpoint.head),
        ("signed at", f"{checkpoint.time} (UTC)"),
        ("signed", _signer(checkpoint)),
    ]


def export_lines(export: Any) -> Iterator[Pair]:
    """Yield what an export says, in short; --json has everything."""
    content = export.content
    yield "holds", "a signed export of a service: requests, grants, charges, tokens and log"
    yield "organisation", phrase(content["organisation"])
    yield "made at", f"{name(content['time'])} (UTC)"
    yield "ledger", name(content["ledger"])
    if content["frozen"]:
        yield "warning", f"the ledger was frozen: {quoted(content['frozen'])}"
    if content["anchor"] == "none":
        yield "warning", "the ledger has no anchor: only checkpoints notice that it was put back"
    if export.is_complete:
        yield "log", f"{content['entries']:,} entries, one unbroken chain"
        yield "hash of the last", name(content["head"])
    else:
        shown = f"{len(content['log']):,} of {content['entries']:,} entries, without hashes"
        yield "log", f"{shown}, because the export is about some data sets only"
    for dataset in content["datasets"][:_DATASETS]:
        yield f"data set {name(dataset['name'])}", _dataset_words(dataset)
    if len(content["datasets"]) > _DATASETS:
        yield "", f"{len(content['datasets']) - _DATASETS:,} more data sets; see --json"
    yield "tokens", f"{len(content['tokens']):,}"
    yield "signed", _signer(export)


def _dataset_words(dataset: Any) -> str:
    budgets = [
        f"epsilon {budget['left']:.4g} of {budget['epsilon']:g} left per {name(budget['unit'])}"
        f" at delta {round_up(budget['delta'])}"
        for budget in dataset["budgets"]
    ]
    states = Counter(proposal["state"] for proposal in dataset["proposals"])
    proposals = ", ".join(f"{number:,} {name(state)}" for state, number in states.items())
    charges = f"{len(dataset['charges']):,} charges"
    return "; ".join([*budgets, f"proposals: {proposals or 'none'}", charges])


def _signer(signed: Any) -> str:
    return f"by key {signed.key_id}; check whose it is with suffice verify"


def verify_export(path: Path, key: Path | None, checkpoint: Path | None) -> None:
    """Check an export, and that its log continues a checkpoint; say what is right."""
    from suffice.owner.ledger.checkpoint import Checkpoint
    from suffice.transport.export import Export

    export = Export.load(path, key)
    if key is not None:
        say(f"{path}: unaltered, and signed with {key}.")
    else:
        say(f"{path}: unaltered, and signed with key {export.key_id}. Is it the one you know?")
    if export.is_complete:
        say(f"Its log is whole: {export.content['entries']:,} entries in one unbroken chain.")
    if checkpoint is not None:
        older = Checkpoint.load(checkpoint, key)
        export.check_continues(older)
        say(f"The log continues {checkpoint}, which was signed at {older.time}.")


def verify_checkpoint(path: Path, key: Path) -> None:
    """Check who signed a checkpoint, and say what is right."""
    from suffice.owner.ledger.checkpoint import Checkpoint

    Checkpoint.load(path, key)
    say(f"{path}: unaltered, and signed with {key}.")
