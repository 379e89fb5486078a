"""What a ledger offers to auditors: its log, checkpoints, and the way back from a copy."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suffice.errors import LedgerError, SufficeError
from suffice.owner.ledger.anchors import LOST, Anchor, anchor_of, recorded_place
from suffice.owner.ledger.chain import AlteredLedgerError, Kind, LogEntry, utc_now
from suffice.owner.ledger.checkpoint import Checkpoint, signed_checkpoint
from suffice.owner.ledger.recovery import recover
from suffice.owner.ledger.store import Store
from suffice.owner.ledger.tables import Tables
from suffice.owner.ledger.verification import Replay, check_continues, checked_log
from suffice.release.artifact import Release

__all__ = ["AuditedLedger"]


class AuditedLedger:
    """The audit log of a ledger; see `Ledger`."""

    _store: Store
    _replay: Replay
    _altered: str

    @property
    def store(self) -> Store:
        """Where the ledger is, for a service that keeps its own records beside it."""
        return self._store

    @property
    def frozen(self) -> str:
        """Why nothing can be charged until the ledger is recovered; empty if it can."""
        with self._store.reading() as records:
            return self._reason_to_freeze(records)

    def _reason_to_freeze(self, records: Tables) -> str:
        return records.frozen() or self._altered or anchor_of(records).trouble(records)

    @property
    def anchor(self) -> Anchor:
        """Where the end of the log is also kept."""
        with self._store.reading() as records:
            return anchor_of(records)

    def _check_opened(self, anchor: str | Path | None) -> None:
        """Compare the ledger with its log and its anchor, and freeze it if they disagree."""
        try:
            with self._store.writing() as records:
                self._replay.catch_up(records)
                self._replay.check_all(records)
                if anchor is not None and records.anchor() != recorded_place(anchor):
                    raise LedgerError(
                        f"The ledger {self._store.path} has its anchor in another place. Move it"
                        " with `suffice ledger recover --only-copy --anchor PLACE`."
                    )
                if not records.frozen() and anchor_of(records).trouble(records) == LOST:
                    records.freeze(LOST)
        except AlteredLedgerError as error:
            self._freeze(error.reason)

    def _freeze(self, reason: str) -> None:
        """Let nobody charge the ledger any more: this process alone, if it cannot be written."""
        self._replay = Replay()
        try:
            with self._store.writing() as records:
                if not records.frozen():
                    records.freeze(reason)
        except SufficeError:
            self._altered = reason

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
        self,
        checkpoint: Checkpoint | None = None,
        released: Mapping[str, Sequence[Release]] | None = None,
        *,
        anchor: str | Path | None = None,
    ) -> int:
        """Let a ledger that is frozen be charged again, after charging what it has forgotten.

        The caller states that the ledger and ``released`` hold every release that was ever made.
        Without ``released`` and ``checkpoint``, the caller states that this is the only copy of
        the ledger, for example because it was moved to another machine.

        Parameters
        ----------
        checkpoint : Checkpoint, optional
            The newest checkpoint of this ledger. It shows how many entries were lost, but not what
            they said. Without it the ledger is compared with its anchor.
        released : mapping, optional
            Data set name to the releases of it that may be missing. Each that the ledger does not
            hold is charged, whatever the budget allows.
        anchor : str or Path, optional
            Where the anchor is from now on, as for `Ledger`. Default: where it was.

        Returns
        -------
        int
            How many releases were charged.

        Raises
        ------
        LedgerError
            If the log is broken, the checkpoint is one of another ledger, or there is no such data
            set.
        LostEntriesError
            If the anchor shows that this is not the only copy.
        StorageError
            If the anchor cannot be written.
        """
        place = None if anchor is None else recorded_place(anchor)
        with self._store.writing() as records:
            charged = recover(records, checkpoint, released, place)
        with self._store.writing() as records:
            anchor_of(records).replace(records)
        self._replay, self._altered = Replay(), ""
        return charged

    def record_answer(self, dataset: str, kind: Kind, facts: Mapping[str, Any]) -> None:
        """Write a grant or a refusal into the audit log, once; all of ``facts`` must be public."""
        with self._store.writing() as records:
            records.append(kind, {"dataset": dataset, **facts}, once=True)
