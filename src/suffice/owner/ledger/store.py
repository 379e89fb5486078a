"""What a place to keep ledgers in must offer: SQLite files (sqlite.py) and PostgreSQL do.

The rules are elsewhere (ledger.py, rules.py) and the same for every store.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from suffice.owner.ledger.chain import Kind, LogEntry
from suffice.owner.ledger.charging import DatasetCharge
from suffice.owner.ledger.log_tables import Connection
from suffice.owner.ledger.rows import Charge, Request
from suffice.owner.ledger.tokens import Token
from suffice.privacy.guarantee import Budget, Guarantee, Unit

__all__ = ["Claim", "Records", "Store"]


class Claim(Protocol):
    """A lock that a process holds from before its charge until it has finished or given up.

    It is released with the process, however that ends. ``token`` is its name, written into the
    charge, so that others can ask whether it is still held.
    """

    token: str

    def release(self) -> None:
        """Let go; whoever asks from now on finds that nobody is at work."""


class Records(Protocol):
    """The contents of a ledger, as seen by one connection."""

    @property
    def db(self) -> Connection:
        """The connection itself, for the records that a service keeps in the same database."""

    def secret(self) -> bytes:
        """Return the ledger's own key."""

    def datasets(self) -> list[str]:
        """Return the names of all data sets, sorted."""

    def budgets(self, dataset: str) -> dict[Unit, Budget]:
        """Return the budgets of a data set, by unit."""

    def add_dataset(self, dataset: str, budgets: Mapping[Unit, Budget]) -> None:
        """Write down a new data set with its budgets."""

    def classes(self, dataset: str) -> dict[str, tuple[Any, ...]]:
        """Return the declared classes by label column; "" stands for every column."""

    def add_classes(self, dataset: str, label: str, classes: Sequence[Any]) -> None:
        """Write down the classes of a label column."""

    def spent(self, dataset: str) -> list[str]:
        """Return what every charge, oldest first, cost this data set, whichever it was for."""

    def spent_by_request(self) -> dict[tuple[str, str], str]:
        """Return what every charge cost, as text, by data set and request."""

    def charge(self, dataset: str, request: str) -> Charge | None:
        """Return the charge of this name, with its bytes, or None."""

    def charges(self) -> list[Charge]:
        """Return every charge, oldest first, without bytes."""

    def add_charge(
        self,
        dataset: str,
        guarantees: Sequence[Guarantee],
        request: Request,
        token: str,
        *,
        also: Sequence[DatasetCharge] = (),
    ) -> None:
        """Write down what a request costs, before anything is drawn for it.

        ``also`` is what it costs other data sets: all of it is written down, or nothing.
        """

    def finish(self, dataset: str, request: str, token: str, data: bytes) -> bool:
        """Store the bytes of a charge that is still this token's to finish; say whether it was."""

    def burn(self, dataset: str, request: str, token: str) -> bool:
        """Declare that a charge will never have bytes, unless it has; say whether it was open."""

    def released(self, dataset: str, data: bytes) -> bool:
        """Say whether these bytes are stored for this data set."""

    def release_digests(self) -> dict[int, str]:
        """Return the digests of all stored bytes, by the numbers of their charges."""

    def append(self, kind: Kind, facts: Mapping[str, Any], *, once: bool = False) -> int:
        """Write an entry of the audit log; return its number.

        With ``once`` an entry that says the same is not written again.
        """

    def log(self, after: int = 0) -> list[LogEntry]:
        """Return the entries of the audit log after some number, oldest first, unchecked."""

    def head(self) -> tuple[int, str]:
        """Return number and digest of the last entry, unchecked."""

    def digest_at(self, number: int) -> str | None:
        """Return the digest of the entry of this number, or None."""

    def anchor(self) -> str:
        """Return where the ledger's anchor is."""

    def add_token(self, token: Token) -> None:
        """Write down a new token, and that it was made."""

    def tokens(self) -> list[Token]:
        """Return every token, oldest first."""

    def token(self, identity: str) -> Token | None:
        """Return the token of this id, or None."""

    def revoke_token(self, identity: str, time: datetime) -> bool:
        """End a token, and write that down, unless it was revoked before; say whether it exists."""

    def use_token(self, identity: str, day: datetime) -> None:
        """Write down the day of a token's last use; the log says nothing about it."""

    def name(self) -> str:
        """Return the name of the ledger, by which checkpoints know it."""

    def frozen(self) -> str:
        """Return why nothing may be charged until the ledger is recovered; "" if it may."""

    def freeze(self, reason: str) -> None:
        """Let nothing be charged any more."""

    def thaw(self, facts: Mapping[str, Any], anchor: str) -> None:
        """Write down how the ledger was recovered; from now on it may be charged again."""


class Store(Protocol):
    """A ledger's place: connections, transactions and claims. All are safe among processes.

    ``path`` is how messages name it.
    """

    @property
    def path(self) -> Path | str:
        """The file, or the address of the database without user and password."""

    def exists(self) -> bool:
        """Say whether there is something to open."""

    def prepare(self, anchor: str) -> None:
        """Make the tables, with an anchor there, or check those that there are.

        Raises
        ------
        LedgerError
            If they are of another version, or damaged.
        """

    def reading(self) -> AbstractContextManager[Records]:
        """Return a connection for reading; all that is read in a block is of one moment."""

    def writing(self, claim: Claim | None = None) -> AbstractContextManager[Records]:
        """Return a transaction that excludes all others; durable once the block has ended well.

        With ``claim`` nothing is written unless that lock is still held.
        """

    def claim(self) -> Claim:
        """Return a new lock, held by the caller."""

    def held(self, token: str) -> bool:
        """Say whether the lock of this name is held by anybody."""
