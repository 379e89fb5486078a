"""What a ledger offers to auditors: its log, checkpoints, and the way back from a copy."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suffice.owner.ledger.chain import Kind, LogEntry, utc_now
from suffice.owner.ledger.checkpoint import Checkpoint, signed_checkpoint
from suffice.owner.ledger.recovery import recover
from suffice.owner.ledger.store import Store
from suffice.owner.ledger.verification import check_continues, checked_log
from suffice.release.artifact import Release

__all__ = ["AuditedLedger"]


class AuditedLedger:
    """The audit log of a ledger; see `Ledger`."""

    _store: Store

    @property
    def store(self) -> Store:
        """Where the ledger is, for a service that keeps its own records beside it."""
        return self._store

    @property
    def frozen(self) -> str:
        """Why nothing can be charged until the ledger is recovered; empty if it can."""
        with self._store.reading() as records:
            return records.frozen()

    def log(self) -> list[LogEntry]:
        """Return the audit log, oldest entry first, after checking it as `verify` does."""
        with self._store.reading() as records:
            return checked_log(records)

    def verify(self, checkpoint: Checkpoint | None = None) -> list[LogEntry]:
        """Check the audit log and all that it records; with a checkpoint, that nothing is missing.

        Parameters
        ----------
        checkpoint : Checkpoint, optional
            An earlier head of the log, from somebody who kept it.

        Returns
        -------
        list of LogEntry
            The log, oldest entry first.

        Raises
        ------
        LostEntriesError
            If the log does not continue the checkpoint: the ledger was put back from a copy.
        LedgerError
            If the log is broken, or budgets and charges are not what it says.
        """
        entries = self.log()
        if checkpoint is not None:
            check_continues(entries, checkpoint)
        return entries

    def checkpoint(self, private_key: str | Path) -> Checkpoint:
        """Return the head of the audit log, signed, for somebody else to keep.

        Parameters
        ----------
        private_key : str or Path
            The file of the private key.

        Returns
        -------
        Checkpoint
            The ledger's name, the number of entries, the head and the time.
        """
        entries = self.log()
        name, last = str(entries[0].facts["ledger"]), entries[-1]
        return signed_checkpoint(name, last.number, last.digest, utc_now(), private_key)

    def recover(
        self, checkpoint: Checkpoint, released: Mapping[str, Sequence[Release]] | None = None
    ) -> int:
        """Let a ledger that was restored be charged again, after charging what it has forgotten.

        The caller states that the ledger and ``released`` hold every release that was ever made. A
        checkpoint shows how many entries were lost, but not what they said.

        Parameters
        ----------
        checkpoint : Checkpoint
            The newest checkpoint of this ledger.
        released : mapping, optional
            Data set name to the releases of it that may be missing. Each that the ledger does not
            hold is charged, whatever the budget allows.

        Returns
        -------
        int
            How many releases were charged.

        Raises
        ------
        LedgerError
            If the log is broken, the checkpoint is one of another ledger, or there is no such data
            set.
        """
        with self._store.writing() as records:
            return recover(records, checkpoint, released or {})

    def record_answer(self, dataset: str, kind: Kind, facts: Mapping[str, Any]) -> None:
        """Write a grant or a refusal into the audit log, once; all of ``facts`` must be public."""
        with self._store.writing() as records:
            records.append(kind, {"dataset": dataset, **facts}, once=True)
