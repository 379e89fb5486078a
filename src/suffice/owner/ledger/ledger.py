"""The privacy ledger: what was charged is written down before noise is drawn, in one order.

The order is what makes it safe (see docs/promise.md):

1. in one transaction, look the request up, recompose everything that was ever spent together with
   the new events, refuse if a budget does not allow it, and write the charge down durably;
2. only then may noise be drawn;
3. store the release's bytes; only then hand them out.

The same request always gets the same bytes. Whoever pays holds a lock from before the charge until
its bytes are stored. A charge without bytes whose lock nobody holds is burnt: the first who finds
that out writes it down, it stays spent, and a payer who comes back late cannot finish it. A charge
counts for every unit that its unit contains (record: also attribute and label; party: all), and is
refused where a wider unit has a budget, because it says nothing there.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from suffice.errors import (
    BurntRequestError,
    LedgerError,
    ParameterError,
    PendingRequestError,
    RequestConflictError,
)
from suffice.owner.ledger import rules
from suffice.owner.ledger.charging import DatasetCharge
from suffice.owner.ledger.rows import (
    Balance,
    Charge,
    Entry,
    Request,
    charges_from_text,
    texts_by_dataset,
)
from suffice.owner.ledger.sqlite import SqliteStore
from suffice.owner.ledger.store import Claim, Records, Store
from suffice.privacy.accounting import composed_epsilon
from suffice.privacy.guarantee import Budget, Guarantee, Unit
from suffice.tables.labels import Classes, canonical_class, check_classes

__all__ = ["Ledger"]

_PENDING_SECONDS = 30.0
_ANY_COLUMN = ""

Declared = Mapping[str, Sequence[Any] | Mapping[str, Sequence[Any]]]
"""Classes by data set, or by data set and label column."""


class Ledger:
    """Guards the privacy budgets of an owner's data sets.

    ``budgets`` maps a data set's name to its budget, or to budgets per unit; a budget without a
    unit is per label. ``classes`` maps it to its classes, or to those of each label column. Both
    are final: what the file already has must be the same there.
    """

    def __init__(
        self,
        path: str | Path,
        budgets: Mapping[str, Budget | Mapping[Unit | str, Budget]] | None = None,
        classes: Declared | None = None,
    ) -> None:
        self.path = Path(path)
        self._store: Store = SqliteStore(self.path)
        self._claims: dict[tuple[str, str], Claim] = {}
        if not budgets and not self.path.exists():
            raise LedgerError(f"{self.path} does not exist; make it with suffice ledger init.")
        per_unit = {name: _by_unit(budget) for name, budget in (budgets or {}).items()}
        per_label = {name: _by_label(declared) for name, declared in (classes or {}).items()}
        self._store.prepare()
        if not per_unit and not per_label:
            return
        with self._store.writing() as records:
            for name, given in per_unit.items():
                self._register(records, name, given)
            for name, declared in per_label.items():
                self._declare(records, name, declared)

    def _register(self, records: Records, name: str, budgets: Mapping[Unit, Budget]) -> None:
        if not name or not budgets:
            raise ParameterError("a data set needs a name and at least one budget.")
        known = records.budgets(name)
        if known and known != budgets:
            raise LedgerError(
                f"data set {name!r} has other budgets in {self.path}; they are final."
            )
        if not known:
            records.add_dataset(name, budgets)

    def _declare(self, records: Records, name: str, declared: Mapping[str, Classes]) -> None:
        self._check_known(records, name)
        known = records.classes(name)
        for label, classes in declared.items():
            if label not in known:
                records.add_classes(name, label, classes)
            elif list(map(canonical_class, known[label])) != list(map(canonical_class, classes)):
                raise LedgerError(
                    f"data set {name!r} has other classes in {self.path}"
                    f" ({', '.join(map(str, known[label]))}); they are final."
                )

    def _check_known(self, records: Records, dataset: str) -> None:
        if dataset not in records.datasets():
            known = ", ".join(map(repr, records.datasets())) or "none yet"
            raise LedgerError(
                f"{self.path} has no data set {dataset!r}, but {known}; see suffice ledger init."
            )

    def classes(self, dataset: str, label: str | None = None) -> Classes | None:
        """Return the classes that were declared for a label column of a data set, or None."""
        with self._store.reading() as records:
            self._check_known(records, dataset)
            declared = records.classes(dataset)
        return declared.get(label or _ANY_COLUMN, declared.get(_ANY_COLUMN))

    def label_columns(self, dataset: str | None = None) -> set[str]:
        """Return the columns that were declared as labels, of one data set or of any."""
        with self._store.reading() as records:
            asked = records.datasets() if dataset is None else [dataset]
            names = {name for one in asked for name in records.classes(one)}
        return names - {_ANY_COLUMN}

    def secret(self) -> bytes:
        """Return the ledger's own key, with which data fingerprints and requests are hashed."""
        with self._store.reading() as records:
            return records.secret()

    def debit(
        self,
        dataset: str,
        guarantees: Sequence[Guarantee],
        request: Request,
        also: Sequence[DatasetCharge] = (),
        *,
        data_changed: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> bytes | None:
        """Charge for a request, durably; return the stored bytes instead if that was done before.

        ``also`` is what the same release costs other data sets: all are charged, or none is. After
        None, and only then, draw noise; then call `finish` or `abandon` on this ledger.
        ``data_changed`` says that the data under this name were changed: a new version of them is
        charged to the same budget. With ``tell`` no answer depends on the data: whatever their
        fingerprint is, they are charged, and what would have been an error is told.
        """
        rules.check_apart(dataset, also)
        charged = [(dataset, guarantees, request.fingerprints)]
        charged += [(c.dataset, c.guarantees, c.fingerprints) for c in also]
        claim = self._store.claim()
        try:
            with self._store.writing() as records:
                found = records.charge(dataset, request.name)
                versions = []
                for name, _, prints in charged:
                    self._check_known(records, name)
                    versions.append(
                        self._version(records, name, prints, tell, data_changed=data_changed)
                    )
                if found is None:
                    for name, stated, _ in charged:
                        budgets, spent = records.budgets(name), records.spent(name)
                        rules.check_affordable(name, stated, budgets, spent)
                numbers = [
                    self._recorded(records, name, prints, number)
                    for (name, _, prints), number in zip(charged, versions, strict=True)
                    if found is None or number is not None
                ]
                if found is None:
                    records.add_charge(
                        dataset, guarantees, request, numbers[0], claim.token, also=also
                    )
                version = versions[0]
        except BaseException:
            claim.release()
            raise
        if found is None:
            self._claims[dataset, request.name] = claim
            return None
        claim.release()
        # Where no answer may depend on the data, what follows from them is not compared.
        if not rules.same_request(request, found, None if tell is not None else version):
            raise RequestConflictError(
                f"request {request.name!r} was used for other parameters of data set {dataset!r}."
            )
        return self._bytes_of(found)

    def _version(
        self,
        records: Records,
        dataset: str,
        prints: Mapping[str, str],
        tell: Callable[[str], None] | None,
        *,
        data_changed: bool,
    ) -> int | None:
        """Return the version of the data that a request is about, None for a new one, or raise."""
        known = records.versions()
        own = known.pop(dataset)
        version = rules.known_version(own, prints)
        elsewhere = rules.names_of_same_data(known, prints)
        changed = version is None and bool(own)
        if tell is None:
            rules.check_elsewhere(elsewhere)
            rules.check_unchanged(dataset, changed=changed and not data_changed)
            return version
        if elsewhere:
            tell(
                f"these data have a budget under the name {elsewhere[0]!r} as well: together they"
                " can lose what both allow. Use one name only."
            )
        if changed:
            tell(
                f"the private data under the name {dataset!r}, or their order, are not those of"
                " earlier releases; this one is charged to the same budget."
            )
        return version

    @staticmethod
    def _recorded(
        records: Records, dataset: str, prints: Mapping[str, str], version: int | None
    ) -> int:
        """Write down the fingerprints that are new of this version; return its number."""
        known = records.versions()[dataset]
        number = version or max(known, default=0) + 1
        kept = rules.recorded(prints)
        new = {k: v for k, v in kept.items() if k not in known.get(number, {})}
        records.add_fingerprints(dataset, number, new)
        return number

    def finish(self, dataset: str, request: str, data: bytes) -> None:
        """Store the bytes of a charge that this ledger made, once; only then hand them out."""
        claim = self._claims.get((dataset, request))
        if claim is None:
            raise LedgerError("the request is not open; its bytes are not stored twice.")
        with self._store.writing() as records:
            if not records.finish(dataset, request, claim.token, data):
                raise BurntRequestError(
                    f"request {request!r} was declared burnt before its output was stored; the"
                    " output must not be used. Ask under a new name (request=..., --request)."
                )
        self._released(dataset, request)

    def abandon(self, dataset: str, request: str) -> None:
        """Say that a charge of this ledger will never have an output: it is burnt from now on."""
        claim = self._claims.get((dataset, request))
        if claim is None:
            return
        try:
            with self._store.writing() as records:
                records.burn(dataset, request, claim.token)
        finally:
            self._released(dataset, request)

    def _released(self, dataset: str, request: str) -> None:
        claim = self._claims.pop((dataset, request), None)
        if claim is not None:
            claim.release()

    def released(self, dataset: str, data: bytes) -> bool:
        """Say whether these very bytes were paid for from this data set's budget."""
        with self._store.reading() as records:
            return records.released(dataset, data)

    def _bytes_of(self, charge: Charge) -> bytes:
        """Return the bytes of a request that another process may be finishing right now."""
        deadline = time.monotonic() + _PENDING_SECONDS
        while charge.data is None:
            if charge.state == "burnt":
                raise BurntRequestError(
                    f"request {charge.request!r} was paid for but its output was lost; it stays"
                    " spent. Ask under a new name (request=..., --request) to pay and draw again."
                )
            if time.monotonic() > deadline:
                raise PendingRequestError(
                    f"request {charge.request!r} is paid for and still being drawn, by another"
                    " process; ask again later, under the same name."
                )
            if self._store.held(charge.token):
                time.sleep(0.05)
                charge = self._again(charge, burn=False)
            else:
                charge = self._again(charge, burn=True)
        return charge.data

    def _again(self, charge: Charge, *, burn: bool) -> Charge:
        """Return what became of a charge; nobody can finish it later if it is burnt here."""
        with self._store.writing() if burn else self._store.reading() as records:
            if burn:
                records.burn(charge.dataset, charge.request, charge.token)
            found = records.charge(charge.dataset, charge.request)
        if found is None:
            raise LedgerError(f"{self.path} was put back from a copy while it was used.")
        return found

    def balances(self) -> list[Balance]:
        """Return every budget with what is spent of it, recomposed from the stored events."""
        with self._store.reading() as records:
            names = records.datasets()
            known = [(name, records.budgets(name), records.spent(name)) for name in names]
        result = []
        for name, budgets, spent in known:
            for unit, budget in budgets.items():
                charges = rules.spent_by_charge(spent, unit)
                events = [event for charge in charges for event in charge]
                used = composed_epsilon(events, budget.delta) if events else 0.0
                result.append(Balance(name, unit, budget, used, sum(map(bool, charges))))
        return result

    def history(self) -> list[Entry]:
        """Return every charge, oldest first; those without output are pending or burnt."""
        with self._store.reading() as records:
            charges = records.charges()
        return [self._entry(charge) for charge in charges]

    def _entry(self, charge: Charge) -> Entry:
        texts = texts_by_dataset(charge.spent, charge.dataset)
        costs = {name: charges_from_text(text) for name, text in texts.items()}
        return Entry(
            number=charge.number,
            dataset=charge.dataset,
            request=charge.request,
            charges=costs.pop(charge.dataset, ()),
            parameters=charge.parameters,
            state=self._shown(charge),
            time=charge.time,
            version=charge.version,
            also=costs,
        )

    def _shown(self, charge: Charge) -> str:
        """Return the state of a charge in the words that people are shown."""
        if charge.state == "debited":
            if self._store.held(charge.token):
                return "pending"
            charge = self._again(charge, burn=False)  # it may have been finished since
        return "released" if charge.state == "finished" else "burnt"


def _by_unit(budget: Budget | Mapping[Unit | str, Budget]) -> dict[Unit, Budget]:
    if isinstance(budget, Budget):
        return {Unit.LABEL: budget}
    return {Unit(unit): one for unit, one in budget.items()}


def _by_label(declared: Sequence[Any] | Mapping[str, Sequence[Any]]) -> dict[str, Classes]:
    if not isinstance(declared, Mapping):
        declared = {_ANY_COLUMN: declared}
    for classes in declared.values():
        if len({canonical_class(c) for c in check_classes(classes)}) < len(classes):
            raise ParameterError(
                "two of the declared classes are the same: 1, True and their text."
            )
    return {label or _ANY_COLUMN: check_classes(classes) for label, classes in declared.items()}
