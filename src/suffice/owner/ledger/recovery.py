"""How a ledger that was restored from a copy is charged with what the copy has forgotten."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from suffice.errors import LedgerError
from suffice.owner.ledger.chain import digest_of_bytes
from suffice.owner.ledger.checkpoint import Checkpoint
from suffice.owner.ledger.rows import Request
from suffice.owner.ledger.store import Records
from suffice.owner.ledger.verification import LostEntriesError, check_continues, checked_log
from suffice.release.artifact import Release
from suffice.release.codec import encode

__all__ = ["recover"]


def recover(
    records: Records, checkpoint: Checkpoint, released: Mapping[str, Sequence[Release]]
) -> int:
    """Charge each release that the ledger does not hold, and let it be charged again.

    Charges are facts here: they are written even where they exceed a budget. An entry of the log
    says which checkpoint the ledger was compared with, how many of its entries are lost, and how
    many releases were charged.
    """
    for dataset in released:
        if dataset not in records.datasets():
            raise LedgerError(f"The ledger has no data set {dataset!r}. Name one that it has.")
    entries = checked_log(records)
    lost = 0
    try:
        check_continues(entries, checkpoint)
    except LostEntriesError:
        lost = max(checkpoint.entries - len(entries), 1)
    charged = 0
    for dataset, releases in released.items():
        for release in releases:
            charged += _charge(records, dataset, release)
    facts: dict[str, Any] = {"entries": checkpoint.entries, "head": checkpoint.head}
    records.thaw({**facts, "entries_lost": lost, "releases_charged": charged})
    return charged


def _charge(records: Records, dataset: str, release: Release) -> bool:
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
