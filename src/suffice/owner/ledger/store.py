"""What a place to keep ledgers in must offer. SQLite files are the first; see sqlite.py.

The rules are elsewhere (ledger.py, rules.py) and the same for every store.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from suffice.owner.ledger.charging import DatasetCharge
from suffice.owner.ledger.rows import Charge, Request, Versions
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

    def versions(self) -> dict[str, Versions]:
        """Return the fingerprints of every data set, version by version."""

    def add_fingerprints(self, dataset: str, version: int, prints: Mapping[str, str]) -> None:
        """Write down further fingerprints of one version of a data set."""

    def spent(self, dataset: str) -> list[str]:
        """Return what every charge cost this data set, as text, whichever it was a charge of."""

    def charge(self, dataset: str, request: str) -> Charge | None:
        """Return the charge of this name, with its bytes, or None."""

    def charges(self) -> list[Charge]:
        """Return every charge, oldest first, without bytes."""

    def add_charge(
        self,
        dataset: str,
        guarantees: Sequence[Guarantee],
        request: Request,
        version: int,
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


class Store(Protocol):
    """A ledger's place: connections, transactions and claims. All are safe among processes."""

    def prepare(self) -> None:
        """Make the tables, or bring those of an older version up to date; raise if unknown."""

    def reading(self) -> AbstractContextManager[Records]:
        """Return a connection for reading."""

    def writing(self) -> AbstractContextManager[Records]:
        """Return a transaction that excludes all others; durable once the block has ended well."""

    def claim(self) -> Claim:
        """Return a new lock, held by the caller."""

    def held(self, token: str) -> bool:
        """Say whether the lock of this name is held by anybody."""
