"""What a place to keep ledgers in must offer: SQLite files (sqlite.py) and PostgreSQL do.

The rules are elsewhere (ledger.py, rules.py) and the same for every store.
"""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path

from suffice.owner.ledger.tables import Tables

__all__ = ["Claim", "Store"]


class Claim(ABC):
    """A lock that a process holds from before its charge until it has finished or given up.

    It is released with the process, however that ends. ``token`` is its name, written into the
    charge, so that others can ask whether it is still held.
    """

    token: str

    @abstractmethod
    def release(self) -> None:
        """Let go; whoever asks from now on finds that nobody is at work."""


class Store(ABC):
    """A ledger's place: connections, transactions and claims. All are safe among processes.

    ``path`` is how messages name it: the file, or the address of the database without user and
    password.
    """

    path: Path | str

    @abstractmethod
    def exists(self) -> bool:
        """Say whether there is something to open."""

    @abstractmethod
    def prepare(self, anchor: str) -> None:
        """Make the tables, with an anchor there, or check those that there are.

        Raises
        ------
        LedgerError
            If they are of another version, or damaged.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[Tables]:
        """Return a connection for reading; all that is read in a block is of one moment."""

    @abstractmethod
    def writing(self, claim: Claim | None = None) -> AbstractContextManager[Tables]:
        """Return a transaction that excludes all others; durable once the block has ended well.

        With ``claim`` nothing is written unless that lock is still held.
        """

    @abstractmethod
    def claim(self) -> Claim:
        """Return a new lock, held by the caller."""

    @abstractmethod
    def held(self, token: str) -> bool:
        """Say whether the lock of this name is held by anybody."""
