"""How a ledger that was restored from a copy is charged with what the copy has forgotten."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from suffice.errors import LedgerError
from suffice.owner.ledger.anchors import LOST, anchor_of
from suffice.owner.ledger.chain import FIRST, LogEntry, digest_of_bytes
from suffice.owner.ledger.checkpoint import Checkpoint
from suffice.owner.ledger.rows import Request
from suffice.owner.ledger.tables import Tables
from suffice.owner.ledger.verification import LostEntriesError, check_continues, checked_log
from suffice.release.artifact import Release
from suffice.release.codec import encode

__all__ = ["recover"]


def recover(
    records: Tables,
    checkpoint: Checkpoint | None,
    released: Mapping[str, Sequence[Release]] | None,
    place: str | None,
) -> int:
    """Charge each release that the ledger does not hold, and let it be charged again.

    Charges are facts here: they are written even where they exceed a budget. An entry of the log
    says what the ledger was compared with, how many entries are lost, and how many releases were
    charged. ``place`` is where the anchor is from now on, if it moves.
    """
    for dataset in released or {}:
        if dataset not in records.datasets():
            raise LedgerError(f"The ledger has no data set {dataset!r}. Name one that it has.")
    entries = checked_log(records)
    compared, lost = _compare(records, entries, checkpoint)
    if lost and checkpoint is None and released is None:
        raise LostEntriesError(
            f"This is not the only copy: {LOST}. Collect every release since the copy was made."
            " Name those files with --released, and add --complete."
        )
    charged = 0
    for dataset, releases in (released or {}).items():
        for release in releases:
            charged += _charge(records, dataset, release)
    facts = {**compared, "entries_lost": lost, "releases_charged": charged}
    records.thaw(facts, records.anchor() if place is None else place)
    return charged


def _compare(
    records: Tables, entries: Sequence[LogEntry], checkpoint: Checkpoint | None
) -> tuple[dict[str, Any], int]:
    """Return what the ledger is compared with, and how many of its entries are lost."""
    if checkpoint is not None:
        lost = 0
        try:
            check_continues(entries, checkpoint)
        except LostEntriesError:
            lost = max(checkpoint.entries - len(entries), 1)
        facts = {"entries": checkpoint.entries, "head": checkpoint.head}
        return {"compared": "checkpoint", **facts}, lost
    anchor = anchor_of(records)
    mark = None if anchor.trouble(records) not in {"", LOST} else anchor.read()
    if mark is None:
        return {"compared": "nothing", "entries": 0, "head": FIRST}, 0
    lost = max(mark.entries - len(entries), 1) if anchor.trouble(records) else 0
    return {"compared": "anchor", "entries": mark.entries, "head": mark.head}, lost


def _charge(records: Tables, dataset: str, release: Release) -> bool:
    """Charge a release to a data set, with its bytes, unless it is stored; say whether it was."""
    data = encode(replace(release, signature=None))  # as `publish` stores it, before it is signed
    if records.released(dataset, data) or records.released(dataset, encode(release)):
        return False
    digest = digest_of_bytes(data)
    delta = max(guarantee.delta for guarantee in release.guarantees)
    parameters = {"kind": release.kind, "delta": delta, "recovered": True}
    request = Request(f"recovered {digest[:16]}", parameters)
    records.add_charge(dataset, release.guarantees, request, "")
    return records.finish(dataset, request.name, "", data)
