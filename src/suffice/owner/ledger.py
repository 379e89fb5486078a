"""The privacy ledger: a budget that cannot be overspent, kept in one SQLite file.

The order is what makes it safe (see docs/promise.md):

1. in one transaction, look the request up, recompose everything that was ever spent together with
   the new events, refuse if a budget does not allow it, and write the debit down durably;
2. only then may noise be drawn;
3. store the release's bytes; only then hand them out.

The same request always gets the same bytes. A debit without bytes is burnt: it stays spent and is
never drawn again. A debit charges every unit that its unit contains (record: also attribute and
label; party: all), and is refused where a wider unit has a budget, because it says nothing there.
"""

import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from suffice.errors import (
    BudgetError,
    BurntRequestError,
    DataChangedError,
    LedgerError,
    ParameterError,
    PendingRequestError,
    RequestConflictError,
    StorageError,
    UnitError,
)
from suffice.owner.charging import DatasetCharge, check_chargeable, closest_events
from suffice.owner.ledger_rows import (
    Balance,
    Entry,
    Request,
    budgets_of,
    entry_of,
    spent_by_debit,
    spent_events,
    state_of,
    write_debit,
)
from suffice.owner.ledger_schema import SCHEMA, VERSION
from suffice.privacy.accounting import composed_epsilon, fits
from suffice.privacy.guarantee import Budget, Guarantee, Unit
from suffice.privacy.randomness import private_words

__all__ = ["Balance", "Entry", "Ledger", "Request"]

_BUSY_SECONDS = 120.0
_PENDING_SECONDS = 30.0


class Ledger:
    """Guards the privacy budgets of an owner's data sets.

    ``budgets`` maps a data set's name to its budget, or to budgets per unit; a budget without a
    unit is per label. Data sets that the file already has must have the same budgets there.
    """

    def __init__(
        self,
        path: str | Path,
        budgets: Mapping[str, Budget | Mapping[Unit | str, Budget]] | None = None,
    ) -> None:
        self.path = Path(path)
        if not budgets and not self.path.exists():
            raise LedgerError(f"{self.path} does not exist; make it with suffice ledger init.")
        per_unit = {name: _by_unit(budget) for name, budget in (budgets or {}).items()}
        with self._connection() as db:
            self._prepare(db)
            for name, given in per_unit.items():
                self._register(db, name, given)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection whose commits survive a power cut; SQLite's errors become ours."""
        db = None
        try:
            if not self.path.exists():  # as secret as the labels: for its owner alone
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))
            db = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            db.execute("PRAGMA synchronous = FULL")
            yield db
        except (sqlite3.OperationalError, OSError) as error:
            raise StorageError(f"the ledger {self.path} cannot be used: {error}.") from None
        except sqlite3.DatabaseError:
            raise LedgerError(f"{self.path} is not a suffice ledger, or it is damaged.") from None
        finally:
            if db is not None:
                db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that holds the write lock until the block ends well."""
        with self._connection() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def _prepare(self, db: sqlite3.Connection) -> None:
        if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            db.execute("PRAGMA journal_mode = WAL")  # stays with the file
        db.execute("BEGIN IMMEDIATE")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0 and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
            for statement in SCHEMA:
                db.execute(statement)
            db.execute("INSERT INTO secret VALUES (1, ?)", (private_words(4).tobytes(),))
            db.execute(f"PRAGMA user_version = {VERSION}")
        elif version != VERSION:
            db.execute("ROLLBACK")
            raise LedgerError(
                f"{self.path} has ledger version {version}, this library uses {VERSION}."
            )
        db.execute("COMMIT")

    def _register(self, db: sqlite3.Connection, name: str, budgets: Mapping[Unit, Budget]) -> None:
        if not name or not budgets:
            raise ParameterError("a data set needs a name and at least one budget.")
        wanted = {(str(u), repr(b.epsilon), repr(b.delta)) for u, b in budgets.items()}
        db.execute("BEGIN IMMEDIATE")
        known = set(
            db.execute("SELECT unit, epsilon, delta FROM budgets WHERE dataset = ?", (name,))
        )
        if known and known != wanted:
            db.execute("ROLLBACK")
            raise LedgerError(
                f"data set {name!r} has other budgets in {self.path}; they are final."
            )
        if not known:
            db.execute("INSERT INTO datasets VALUES (?, NULL)", (name,))
            db.executemany("INSERT INTO budgets VALUES (?, ?, ?, ?)", [(name, *w) for w in wanted])
        db.execute("COMMIT")

    def secret(self) -> bytes:
        """Return the ledger's own key, with which data fingerprints and requests are hashed."""
        with self._connection() as db:
            return bytes(db.execute("SELECT key FROM secret").fetchone()[0])

    def debit(
        self,
        dataset: str,
        guarantees: Sequence[Guarantee],
        request: Request,
        also: Sequence[DatasetCharge] = (),
    ) -> bytes | None:
        """Pay for a request, durably; return the stored bytes instead if it was paid before.

        ``also`` is what the same release costs other data sets: all are charged, or none is. After
        None, and only then, draw noise.
        """
        charges = [DatasetCharge(dataset, guarantees, request.fingerprint), *also]
        if len({charge.dataset for charge in charges}) < len(charges):
            raise ParameterError(
                f"one release cannot charge data set {dataset!r} twice. Give each set of secrets a"
                " data set of its own."
            )
        with self._transaction() as db:
            for charge in charges:
                self._check_data(db, charge.dataset, charge.fingerprint)
            found = self._find(db, dataset, request.name)
            if found is None:
                for charge in charges:
                    self._afford(db, charge.dataset, charge.guarantees)
                write_debit(db, charges, request)
                return None
        if found[0] != request.hash:
            raise RequestConflictError(
                f"request {request.name!r} was used for other parameters of data set {dataset!r}."
            )
        return found[1] if found[1] is not None else self._await_bytes(dataset, request.name)

    def finish(self, dataset: str, request: str, data: bytes) -> None:
        """Store the bytes of a paid request, once; only then may they be handed out."""
        with self._transaction() as db:
            changed = db.execute(
                "UPDATE debits SET bytes = ? WHERE dataset = ? AND request = ? AND bytes IS NULL",
                (data, dataset, request),
            ).rowcount
            if changed != 1:
                raise LedgerError("the request is not open; its bytes are not stored twice.")

    def released(self, dataset: str, data: bytes) -> bool:
        """Say whether these very bytes were paid for from this data set's budget."""
        with self._connection() as db:
            query = "SELECT 1 FROM debits WHERE dataset = ? AND bytes = ?"
            return db.execute(query, (dataset, data)).fetchone() is not None

    def abandon(self, dataset: str, request: str) -> None:
        """Say that a paid request will never have an output: it is burnt from now on."""
        with self._transaction() as db:
            db.execute(
                "UPDATE debits SET pid = 0 WHERE dataset = ? AND request = ? AND bytes IS NULL",
                (dataset, request),
            )

    def _check_data(self, db: sqlite3.Connection, dataset: str, fingerprint: str) -> None:
        known = dict(db.execute("SELECT name, fingerprint FROM datasets"))
        if dataset not in known:
            raise LedgerError(f"{self.path} has no data set {dataset!r}; see suffice ledger init.")
        for name, content in known.items():
            if name != dataset and content == fingerprint:
                raise DataChangedError(
                    f"these data already have a budget, under the name {name!r}; the same secrets"
                    " cannot have two. (As many parties are taken for the same, unless they are"
                    " enrolled by name.)"
                )
        if known[dataset] is None:
            db.execute("UPDATE datasets SET fingerprint = ? WHERE name = ?", (fingerprint, dataset))
        elif known[dataset] != fingerprint:
            raise DataChangedError(
                f"the private data under the name {dataset!r}, or their order, are not those of"
                " earlier releases. Restore them, or give data about other people a budget of"
                " their own; the same people must never have two."
            )

    @staticmethod
    def _find(
        db: sqlite3.Connection, dataset: str, request: str
    ) -> tuple[str, bytes | None] | None:
        row = db.execute(
            "SELECT request_hash, bytes FROM debits WHERE dataset = ? AND request = ?",
            (dataset, request),
        ).fetchone()
        return None if row is None else (row[0], row[1])

    def _await_bytes(self, dataset: str, request: str) -> bytes:
        """Return the bytes of a request that another process may be finishing right now."""
        deadline = time.monotonic() + _PENDING_SECONDS
        while True:
            with self._connection() as db:
                found = self._find(db, dataset, request)
                state = self._state(db, dataset, request)
            if found is not None and found[1] is not None:
                return found[1]
            if state == "burnt":
                raise BurntRequestError(
                    f"request {request!r} was paid for but its output was lost; it stays spent."
                    " Ask under a new name (request=..., --request) to pay and draw again."
                )
            if time.monotonic() > deadline:
                raise PendingRequestError(
                    f"request {request!r} is paid for and still being drawn, by another process;"
                    " ask again later, under the same name."
                )
            time.sleep(0.05)

    def _state(self, db: sqlite3.Connection, dataset: str, request: str) -> str:
        host, pid = db.execute(
            "SELECT host, pid FROM debits WHERE dataset = ? AND request = ?", (dataset, request)
        ).fetchone()
        return state_of(None, host, pid)

    def _afford(
        self, db: sqlite3.Connection, dataset: str, guarantees: Sequence[Guarantee]
    ) -> None:
        """Raise unless every budget that the guarantees touch allows them on top of the rest."""
        check_chargeable(guarantees)
        budgets = budgets_of(db, dataset)
        if not any(g.unit.covers(unit) for g in guarantees for unit in budgets):
            raise UnitError(
                f"data set {dataset!r} has no budget for what this release protects"
                f" ({', '.join(sorted({str(g.unit) for g in guarantees}))})."
            )
        for unit, budget in budgets.items():
            if not any(g.unit.covers(unit) for g in guarantees):
                raise UnitError(
                    f"data set {dataset!r} has a budget per {unit}, and this release promises"
                    f" nothing about a {unit}; it would be lost without limit."
                )
            new = closest_events(unit, [(g.unit, g.event) for g in guarantees])
            spent = spent_events(db, dataset, unit)
            if not fits([*spent, *new], budget.epsilon, budget.delta):
                used = composed_epsilon(spent, budget.delta) if spent else 0.0
                raise BudgetError(
                    f"data set {dataset!r} has epsilon {budget.epsilon:g} per {unit} (delta"
                    f" {budget.delta:g}), of which {used:.6g} is spent; this release does not fit."
                )

    def balances(self) -> list[Balance]:
        """Return every budget with what is spent of it, recomposed from the stored events."""
        with self._connection() as db:
            names = [row[0] for row in db.execute("SELECT name FROM datasets ORDER BY name")]
            result = []
            for name in names:
                for unit, budget in budgets_of(db, name).items():
                    debits = spent_by_debit(db, name, unit)
                    events = [event for debit in debits for event in debit]
                    spent = composed_epsilon(events, budget.delta) if events else 0.0
                    result.append(Balance(name, unit, budget, spent, sum(map(bool, debits))))
        return result

    def history(self) -> list[Entry]:
        """Return every debit, oldest first; those without output are pending or burnt."""
        with self._connection() as db:
            rows = db.execute(
                "SELECT number, dataset, request, spent, parameters, time, bytes IS NOT NULL, host,"
                " pid FROM debits ORDER BY number"
            ).fetchall()
        return [entry_of(row) for row in rows]


def _by_unit(budget: Budget | Mapping[Unit | str, Budget]) -> dict[Unit, Budget]:
    if isinstance(budget, Budget):
        return {Unit.LABEL: budget}
    return {Unit(unit): one for unit, one in budget.items()}
