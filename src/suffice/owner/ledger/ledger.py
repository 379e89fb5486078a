"""Charge releases to budgets, verify a ledger by its audit log, and recover one that was restored.

`Ledger` says in which order things happen. `Replay` says what its tables must hold, by its log.
"""

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from suffice.errors import (
    ArchivedRequestError,
    BudgetError,
    BurntRequestError,
    LedgerError,
    ParameterError,
    PendingRequestError,
    StorageError,
    SufficeError,
    UnitError,
)
from suffice.options import ledger_file
from suffice.owner.ledger import rules
from suffice.owner.ledger.archive import Archive, read_member, write_archive
from suffice.owner.ledger.log import (
    FIRST,
    AlteredLedgerError,
    Checkpoint,
    Kind,
    LogEntry,
    checked_chain,
    digest_of_bytes,
    signed_checkpoint,
    utc_now,
)
from suffice.owner.ledger.rules import (
    Balance,
    Charge,
    DatasetCharge,
    Entry,
    Made,
    Request,
    charges_to_text,
    event_for_delta,
    event_of_same_type,
    largest_epsilon,
    seal_of,
)
from suffice.owner.ledger.store import (
    LOST,
    Anchor,
    Claim,
    SqliteStore,
    Store,
    Tables,
    budget_texts,
    budgets_from,
    name_for,
    name_program,
    recorded_place,
    token_facts,
)
from suffice.plain_text import html_table, note, text_table
from suffice.privacy.accounting import Tally, compose_events
from suffice.privacy.events import NO_PROTECTION_DELTA, check_delta
from suffice.privacy.guarantee import Budget, Guarantee, Unit
from suffice.releases.release import Release, encode
from suffice.tables.columns import Classes, canonical_class, check_classes

_PENDING_SECONDS = 30.0
_ANY_COLUMN = ""
_CHECKED_AT_ONCE = 32  # earlier charges that each charge looks at: about a millisecond
_ADVICE = "Budget may be spent twice. Use `suffice ledger recover` before any release."


class Ledger:
    """Refuses releases that exceed the privacy budgets of an owner's data sets.

    A ledger is one file, or one schema of a PostgreSQL database. It records each charge before
    noise is drawn, and returns the stored bytes for a request that was charged before. Its audit
    log shows whether it was altered, and with a checkpoint whether it was put back from a copy.

    Parameters
    ----------
    path : str or Path
        The ledger's file, or the address of a database: ``postgresql://host/database`` as libpq
        takes it (libpq also reads PGPASSWORD and ~/.pgpass). A name after # tells several ledgers
        of one database apart. The ledger is made if it is missing and ``budgets`` are given.
    budgets : mapping, optional
        Data set name to `Budget`, or to a mapping from unit to `Budget`. A budget without a unit
        is per label. Those of an existing ledger must be the same. They are never lowered;
        `change_budgets` raises them.
    classes : mapping, optional
        Data set name to its list of classes, or to a mapping from label column to such a list.
        Classes are final as well.
    anchor : str or Path, optional
        Where the end of the log is also kept, so that a ledger that was put back from a copy
        starts frozen: a file, ``command:PROGRAM`` (run with the word read or write), or ``none``.
        Default: a file in the user's state folder ($XDG_STATE_HOME or ~/.local/state). An existing
        ledger knows its anchor.

    Raises
    ------
    LedgerError
        If the ledger is missing and no budgets are given, if it holds other budgets or classes, or
        if its file is damaged.
    StorageError
        If it, or the anchor of a new ledger, cannot be read or written.

    Examples
    --------
    >>> import tempfile, suffice
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = folder.name + "/clinic.ledger"
    >>> ledger = suffice.Ledger(path, {"diagnosis": suffice.Budget(2.0, delta=1e-5)})
    >>> print(ledger)
    data set   unit   epsilon  delta  spent  left  charges
    diagnosis  label  2        1e-05  0      2     0
    >>> ledger.largest_epsilon("diagnosis")
    2.0
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | Path,
        budgets: Mapping[str, Budget | Mapping[Unit | str, Budget]] | None = None,
        classes: Mapping[str, Sequence[Any] | Mapping[str, Sequence[Any]]] | None = None,
        *,
        anchor: str | Path | None = None,
    ) -> None:
        self._store: Store = store_at(path)
        self.path: Path | str = self._store.path
        self._claims: dict[tuple[str, str], Claim] = {}
        self._replay, self._altered = Replay(), ""
        self._curves: dict[tuple[str, int], Curve] = {}
        self._catching_up = threading.Lock()
        if budgets is None and not self._store.exists():
            raise LedgerError(
                f"The ledger {self.path} does not exist. Make it with `suffice ledger init`."
            )
        per_unit = {name: _by_unit(budget) for name, budget in (budgets or {}).items()}
        per_label = {name: _by_label(declared) for name, declared in (classes or {}).items()}
        if anchor is not None:
            name_program(recorded_place(anchor))
        self._store.prepare(recorded_place(anchor))
        try:
            with self._store.writing() as records:
                self._replay.catch_up(records)
                self._replay.check(records)
                about = records.about()
                if anchor is not None and about.anchor.place != recorded_place(anchor):
                    raise LedgerError(
                        f"The ledger {self.path} has its anchor in another place. Move it with"
                        " `suffice ledger recover --state only-copy --anchor PLACE`."
                    )
                if not about.frozen and about.anchor.trouble(records) == LOST:
                    records.freeze(LOST)
        except AlteredLedgerError as error:
            self._freeze(error.reason)
        if per_unit or per_label:
            with self._store.writing() as records:
                self._declare(records, per_unit, per_label)

    def _declare(
        self,
        records: Tables,
        per_unit: Mapping[str, Mapping[Unit, Budget]],
        per_label: Mapping[str, Mapping[str, Classes]],
    ) -> None:
        """Write down new budgets and classes; those that are there must be the same."""
        for name, by_unit in per_unit.items():
            if not name or not by_unit:
                raise ParameterError("A data set needs a name and at least one budget.")
            stored_budgets = records.budgets(name)
            if stored_budgets and stored_budgets != by_unit:
                raise LedgerError(
                    f"Data set {name!r} has other budgets in {self.path}. They stay as they are."
                )
            if not stored_budgets:
                records.add_dataset(name, by_unit)
        for name, declared in per_label.items():
            self._check_exists(records, name)
            stored_classes = records.classes(name)
            for label, classes in declared.items():
                stored = stored_classes.get(label)
                if stored is None:
                    records.add_classes(name, label, classes)
                elif list(map(canonical_class, stored)) != list(map(canonical_class, classes)):
                    raise LedgerError(
                        f"Data set {name!r} has other classes in {self.path}"
                        f" ({', '.join(map(str, stored))}). Classes are final."
                    )

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def __str__(self) -> str:
        return text_table(*self._table())

    def _repr_html_(self) -> str:
        return html_table(f"Ledger {self.path}", *self._table())

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """Return every budget as a row of text."""
        rows = [
            (
                balance.dataset,
                str(balance.unit),
                f"{balance.budget.epsilon:g}",
                f"{balance.budget.delta:g}",
                f"{balance.spent:.6g}",
                f"{balance.left:.6g}",
                str(balance.debits),
            )
            for balance in self.balances()
        ]
        return ("data set", "unit", "epsilon", "delta", "spent", "left", "charges"), rows

    def _check_exists(self, records: Tables, dataset: str) -> None:
        if dataset not in records.datasets():
            names = ", ".join(map(repr, records.datasets())) or "none yet"
            raise LedgerError(
                f"{self.path} has no data set {dataset!r}; it has {names}. Add one with `suffice"
                " ledger init`."
            )

    def classes(self, dataset: str, label: str | None = None) -> Classes | None:
        """Return the classes that were declared for a label column of a data set.

        Parameters
        ----------
        dataset : str
            Name of the data set.
        label : str, optional
            Name of the label column. Without it: the classes of every label column.

        Returns
        -------
        tuple or None
            The classes in their declared order; None if none were declared.

        Raises
        ------
        LedgerError
            If the ledger has no such data set.
        """
        declared = self.declared(dataset)
        return declared.get(label or _ANY_COLUMN, declared.get(_ANY_COLUMN))

    def declared(self, dataset: str) -> dict[str, Classes]:
        """Return the declared classes of a data set by label column; "" stands for every column."""
        with self._store.reading() as records:
            self._check_exists(records, dataset)
            return records.classes(dataset)

    def label_columns(self) -> set[str]:
        """Return the columns that were declared as labels, of any data set."""
        with self._store.reading() as records:
            columns = {label for name in records.datasets() for label in records.classes(name)}
        return columns - {_ANY_COLUMN}

    def debit(
        self,
        dataset: str,
        guarantees: Sequence[Guarantee],
        request: Request,
        also: Sequence[DatasetCharge] = (),
        *,
        report: Callable[[Made], None] | None = None,
    ) -> bytes | None:
        """Charge for a request, durably; return the stored bytes instead if that was done before.

        The answer follows from the names, the public parameters and earlier charges. It is the same
        whatever the private data are now. If they have changed, a note tells the owner alone.
        After None, and only then, draw noise; then call `finish` or `abandon` on this ledger.

        Parameters
        ----------
        dataset : str
            Name of the data set that is charged.
        guarantees : sequence of Guarantee
            What the release states about this data set.
        request : Request
            The request, with its public parameters.
        also : sequence of DatasetCharge
            What the same release costs other data sets: all are charged, or none is.
        report : callable, optional
            Called with when the charge was made, once it is durable.

        Returns
        -------
        bytes or None
            None if the request was charged now; else the bytes that are stored for it.

        Raises
        ------
        BudgetError
            If the release would exceed a budget. The message says what would fit.
        UnitError
            If a budget is about a unit that the release does not protect.
        RequestConflictError
            If the name was used with other public parameters.
        BurntRequestError
            If the request was charged, and its output was lost.
        PendingRequestError
            If another process is still at work on the request.
        """
        charges = [DatasetCharge(dataset, guarantees, request.fingerprint), *also]
        names = [charge.dataset for charge in charges]
        if len(set(names)) < len(names):
            raise ParameterError(
                f"One release cannot charge data set {dataset!r} twice. Give each table a data set"
                " of its own."
            )
        elsewhere: list[str] = []
        claim = self._store.claim()
        try:
            with self._store.writing(claim) as records:
                key = records.about().key
                for place, charge in enumerate(charges):
                    self._check_exists(records, charge.dataset)
                    if charge.fingerprint:
                        content = b"data\0" + charge.fingerprint.encode()
                        keyed = hmac.new(key, content, hashlib.sha256).hexdigest()
                        charges[place] = replace(charge, fingerprint=keyed)
                with self._catching_up:  # what a charge rests on must be what the log says
                    self._replay.catch_up(records)
                    self._replay.check(records, names)
                    earlier = records.charge(dataset, request.name)
                    if (earlier is None) == ((dataset, request.name) in self._replay.charges):
                        raise _differs(f"request {request.name!r} of data set {dataset!r}")  # noqa: TRY301
                    if earlier is None:
                        if reason := self._reason_to_freeze(records):
                            raise LedgerError(  # noqa: TRY301
                                f"The ledger {self.path} is frozen: {reason}. Nothing can be"
                                " charged until you use `suffice ledger recover`."
                            )
                        for name, charge in zip(names, charges, strict=True):
                            budgets, spent = records.budgets(name), self._replay.spent[name]
                            rules.check_affordable(name, charge.guarantees, budgets, spent)
                        own, *others = charges
                        keyed_request = replace(request, fingerprint=own.fingerprint)
                        elsewhere = records.add_charge(
                            dataset, guarantees, keyed_request, claim.token, also=others
                        )
                    charged = earlier or records.charge(dataset, request.name)
        except BudgetError as refusal:
            claim.release()
            self._record_refusal(request, charges, str(refusal))
            raise BudgetError(f"{refusal} {self._what_fits(charges)}".rstrip()) from None
        except AlteredLedgerError as error:
            claim.release()
            self._freeze(error.reason)
            raise
        except BaseException:
            claim.release()
            raise
        data = None
        if earlier is None:
            self._claims[dataset, request.name] = claim
            self._advance_anchor(dataset, request.name)
            if elsewhere:
                note(
                    f"These data also have a budget under the name {elsewhere[0]!r}. Together they"
                    " can use both budgets. Use one name only. Only you see this line."
                )
        else:
            claim.release()
            rules.check_same_request(request, charges, earlier)
            data = self._bytes_of(earlier)
            _note_repeated(earlier, charges)
        if report is not None and charged is not None:
            report(Made(datetime.fromtimestamp(charged.time, UTC), earlier is not None))
        return data

    def _advance_anchor(self, dataset: str, request: str) -> None:
        """Move the anchor to this charge; a charge whose anchor cannot be written is burnt."""
        try:
            with self._store.writing() as records:
                records.about().anchor.advance(records)
        except BaseException as error:
            self.abandon(dataset, request)
            if not isinstance(error, SufficeError):
                raise
            raise type(error)(
                f"{error} Request {request!r} stays charged, and nothing was drawn for it. Correct"
                " this first, then use a new --request name (Python: request=...)."
            ) from None

    def _record_refusal(
        self, request: Request, charges: Sequence[DatasetCharge], reason: str
    ) -> None:
        """Write down a refusal for the budget, once; it follows from public charges alone."""
        first, *also = charges
        facts = {
            "dataset": first.dataset,
            "request": request.name,
            "spent": json.loads(charges_to_text(first.guarantees, also)),
            "reason": reason,
        }
        with self._store.writing() as records:
            records.append(Kind.REFUSAL, facts, once=True)

    def _what_fits(self, charges: Sequence[DatasetCharge]) -> str:
        """Return what to do about a release that exceeds a budget.

        Where it states one guarantee, the largest epsilon of a release like it is named. All of it
        follows from budgets, charges and events, which are public.
        """
        advice = "Request a smaller --epsilon (Python: epsilon=...)."
        if len(charges) > 1:
            return advice
        (charge,) = charges
        with self._verified() as (records, spent):
            budgets = records.budgets(charge.dataset)
            if any(budget.delta >= NO_PROTECTION_DELTA for budget in budgets.values()):
                return ""
            if len(charge.guarantees) != 1:
                return advice
            (guarantee,) = charge.guarantees
            event_at = event_of_same_type(guarantee.event, guarantee.delta)
            if event_at is None:
                return advice
            rooms = rules.rooms_for(guarantee.unit, budgets, spent[charge.dataset])
            largest = largest_epsilon(rooms, event_at)
        if largest > 0:
            return f"The largest epsilon that still fits is {largest:g}."
        if guarantee.delta > 0:
            return f"No release with delta {guarantee.delta:g} fits any more."
        return "No further release fits."

    def finish(self, dataset: str, request: str, data: bytes) -> None:
        """Store the bytes of a charge that this ledger made, once; only then hand them out.

        Raises
        ------
        LedgerError
            If this ledger has no open charge of this name.
        BurntRequestError
            If somebody declared the output lost before it was stored.
        """
        claim = self._claims.get((dataset, request))
        if claim is None:
            raise LedgerError("The request is not open; its bytes are not stored twice.")
        with self._store.writing() as records:
            if not records.close_charge(dataset, request, claim.token, data):
                raise BurntRequestError(
                    f"The output of request {request!r} was declared lost before it was stored. Do"
                    " not use this output. To release again, use a new request name (--request;"
                    " Python: request=...); it will be charged too."
                )
        self._release_claim(dataset, request)

    def abandon(self, dataset: str, request: str) -> None:
        """Say that a charge of this ledger will never have an output: it is burnt from now on."""
        claim = self._claims.get((dataset, request))
        if claim is None:
            return
        try:
            with self._store.writing() as records:
                records.close_charge(dataset, request, claim.token, None)
        finally:
            self._release_claim(dataset, request)

    def _release_claim(self, dataset: str, request: str) -> None:
        claim = self._claims.pop((dataset, request), None)
        if claim is not None:
            claim.release()

    def was_charged(self, dataset: str, request: str) -> bool:
        """Say whether a request of this name was charged to a data set."""
        with self._store.reading() as records:
            return records.charge(dataset, request) is not None

    def released(self, dataset: str, data: bytes) -> bool:
        """Say whether these very bytes were charged to this data set's budget."""
        with self._store.reading() as records:
            return records.released(dataset, data)

    def _bytes_of(self, charge: Charge) -> bytes:
        """Return the bytes of a request that another process may be finishing right now."""
        deadline = time.monotonic() + _PENDING_SECONDS
        while charge.state != "finished":
            if charge.state == "burnt":
                raise BurntRequestError(
                    f"Request {charge.request!r} was charged, but its output was lost. The charge"
                    " stays. To draw again, name a new request: --request NAME (Python:"
                    " request=...). It will be charged too."
                )
            if time.monotonic() > deadline:
                raise PendingRequestError(
                    f"Request {charge.request!r} was charged, and another process is still drawing"
                    " its noise. Try again later, under the same name."
                )
            if self._store.held(charge.token):
                time.sleep(0.05)
                charge = self._again(charge, burn=False)
            else:
                charge = self._again(charge, burn=True)
        with self._catching_up, self._store.reading() as records:
            self._replay.catch_up(records)
            data = self._replay.check_charge(charge, records)
        if data is None:
            data = self.archived(f"releases/{charge.number}.suffice", charge.release)
        if data is None:
            raise ArchivedRequestError(
                f"Request {charge.request!r} was charged, and its output was archived. The charge"
                " stays, and nothing is drawn again. Take the output from the archive."
            )
        return data

    @contextmanager
    def _verified(self) -> Iterator[tuple[Tables, Mapping[str, rules.Spent]]]:
        """Yield the tables, and what all charges cost each data set, by what the log says.

        The log is checked from where this process has checked it. Where it is broken, what the
        table of charges says has to do: nothing is charged then.
        """
        with self._catching_up, self._store.reading() as records:
            replay = self._replay
            try:
                replay.catch_up(records)
            except AlteredLedgerError:
                replay = Replay()
                for name in records.datasets():
                    replay.spent[name] = {unit: Tally() for unit in records.budgets(name)}
                for charge in records.charges():
                    replay.add_costs(charge.costs())
            yield records, replay.spent

    def _again(self, charge: Charge, *, burn: bool) -> Charge:
        """Return what became of a charge; nobody can finish it later if it is burnt here."""
        with self._store.writing() if burn else self._store.reading() as records:
            if burn:
                records.close_charge(charge.dataset, charge.request, charge.token, None)
            current = records.charge(charge.dataset, charge.request)
        if current is None:
            raise LedgerError(
                f"The ledger {self.path} was restored from a copy while it was in use."
            )
        return current

    def largest_epsilon(
        self, dataset: str, delta: float = 0.0, unit: Unit | str | None = None
    ) -> float:
        """Return the largest epsilon of a further release that the budget allows.

        The composition rule is that of charges: a release of this epsilon is accepted, and one
        that is 1 % larger is refused. The result has three digits and is rounded down. Nothing is
        charged or written.

        Parameters
        ----------
        dataset : str
            Name of the data set.
        delta : float
            Delta of the release. 0 stands for noise that needs no delta (laplace, knorm,
            response); above 0 stands for Gaussian noise, which composes better.
        unit : Unit or str, optional
            What the release protects. Default: the unit of the data set's budget; of several
            budgets, the narrowest unit that covers them all.

        Returns
        -------
        float
            The largest epsilon that fits; 0.0 if none does.

        Raises
        ------
        LedgerError
            If the ledger has no such data set.
        UnitError
            If a release about ``unit`` says nothing about a unit that has a budget.
        BudgetError
            If the budget limits nothing (a delta of 0.1 or more).

        Examples
        --------
        >>> import tempfile, suffice
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = suffice.Ledger(folder.name + "/l", {"d": suffice.Budget(2.0, delta=1e-5)})
        >>> ledger.largest_epsilon("d"), ledger.largest_epsilon("d", delta=1e-5)
        (2.0, 2.0)
        >>> folder.cleanup()
        """
        delta = check_delta(delta)
        with self._verified() as (records, spent):
            self._check_exists(records, dataset)
            budgets = records.budgets(dataset)
            protected = rules.unit_covering(dataset, budgets, unit)
            rooms = rules.rooms_for(protected, budgets, spent[dataset])
            return largest_epsilon(rooms, event_for_delta(delta))

    def budgets(self, dataset: str) -> dict[Unit, Budget]:
        """Return the budgets of a data set, by unit."""
        with self._store.reading() as records:
            self._check_exists(records, dataset)
            return records.budgets(dataset)

    def balances(self, dataset: str | None = None) -> list[Balance]:
        """Return every budget with what is spent of it, recomposed from the stored events.

        Parameters
        ----------
        dataset : str, optional
            Name of a data set. Without it: the budgets of every data set.

        Returns
        -------
        list of Balance
            One for each data set and unit that has a budget.
        """
        with self._verified() as (records, spent):
            names = records.datasets() if dataset is None else [dataset]
            return _balances(records, spent, names)

    def left_after(self, dataset: str, guarantees: Sequence[Guarantee]) -> dict[Unit, float] | None:
        """Return what would be left of each budget after a release; None if it does not fit.

        Nothing is charged. The rule is that of `debit`, which has the last word.
        """
        with self._verified() as (records, spent):
            budgets, left = records.budgets(dataset), {}
            try:
                rules.check_affordable(dataset, guarantees, budgets, spent[dataset])
            except (BudgetError, UnitError):
                return None
            for unit, budget in budgets.items():
                events = rules.closest_events(unit, [(g.unit, g.event) for g in guarantees])
                tally = spent[dataset][unit].plus(compose_events(events))
                left[unit] = rules.balance_of(dataset, unit, budget, tally).left
            return left

    def spent_after(self, dataset: str, most: int) -> dict[Unit, list["Step"]]:
        """Return each budget of a data set after it was set, charged or raised, oldest first.

        Of the charges at most so many, evenly from all of them, and the last one.
        """
        with self._verified() as (records, _):
            curve = self._curves.setdefault((dataset, most), Curve(dataset, most))
            curve.catch_up(records, self._replay.limits.get(dataset, ()))
            return {unit: [steps[unit] for _, steps in curve.steps] for unit in curve.budgets}

    def history(self) -> list[Entry]:
        """Return every charge, oldest first; those without output are pending or burnt.

        `Entry.epsilons` are what each charge cost by itself. The `Balance` of a data set holds
        what they cost together.

        Returns
        -------
        list of Entry
            One for each request that was ever charged.
        """
        with self._store.reading() as records:
            charges = list(records.charges())
        return [rules.entry_of(charge, self.state_shown(charge)) for charge in charges]

    def history_of(self, dataset: str, most: int) -> list[Entry]:
        """Return the last charges of one data set, newest first, as `history` shows them."""
        with self._store.reading() as records:
            charges = records.last_charges(dataset, most)
        return [rules.entry_of(charge, self.state_shown(charge)) for charge in charges]

    def state_shown(self, charge: Charge) -> str:
        """Return the state of a charge in the words that people are shown."""
        if charge.state == "debited":
            if self._store.held(charge.token):
                return "pending"
            charge = self._again(charge, burn=False)  # it may have been finished since
        return "released" if charge.state == "finished" else "burnt"

    def agreed(self, dataset: str, proposal: str, records: Tables | None = None) -> list[str]:
        """Return who of two people agreed to a proposal so far, by the log.

        With ``records``, which exclude others who write, as that open transaction sees it.
        """
        # A block that was opened before the lock is held may be older than what is known.
        with self._catching_up, ExitStack() as block:
            self._replay.catch_up(records or block.enter_context(self._store.reading()))
            agreed = self._replay.agreed.get((dataset, proposal), ())
            return [facts["by"] for facts in agreed]

    def change_budgets(
        self,
        dataset: str,
        budgets: Mapping[Unit, Budget],
        decision: Mapping[str, Any],
        *,
        declared: Mapping[str, Classes] | None = None,
        person: str = "",
    ) -> bool:
        """Open the budgets of a data set, or raise them, as its owners decided.

        A raise is a public decision. It must not depend on what releases have shown: all of them
        together then have the guarantee of the largest budget that could have come of it. Charges
        stay as they are.

        Parameters
        ----------
        dataset : str
            Name of the data set. Without budgets so far, it is opened.
        budgets : mapping
            Unit to the budget from now on: of an open data set the same units and deltas.
        decision : mapping
            Who decided and why, for the audit log; public.
        declared : mapping, optional
            Label column to its classes, of a data set that is opened.
        person : str, optional
            How the name of whoever decides ends, of the two people who have to agree. Without it,
            one decision is enough.

        Returns
        -------
        bool
            Whether the budgets are so now; False if the other person has to agree first.

        Raises
        ------
        ParameterError
            If budgets would become smaller or stay what they are, or this person agreed before.
        LedgerError
            If the ledger is frozen, or was altered.
        """
        facts = {"dataset": dataset, "budgets": budget_texts(budgets), **decision}
        if declared:
            facts["classes"] = {label: list(classes) for label, classes in declared.items()}
        with self._store.writing() as records, self._catching_up:
            self._replay.catch_up(records)
            self._replay.check(records, [dataset])
            if reason := self._reason_to_freeze(records):
                raise LedgerError(f"The ledger {self.path} is frozen: {reason}.")
            is_open = dataset in records.datasets()
            if is_open and not rules.is_raise(records.budgets(dataset), budgets):
                raise ParameterError(
                    "A budget can be raised, and not changed otherwise. Name an epsilon above the"
                    " present one, at the same delta."
                )
            agreed = self._replay.agreed.get((dataset, what_is_decided(facts)), [])
            if person and any(earlier["by"].endswith(person) for earlier in agreed):
                raise ParameterError("You agreed already. Another person has to agree.")
            is_decided = not person or bool(agreed)
            facts["decision"] = "granted" if is_decided else "agreed"
            records.append(Kind.DECISION, facts)
            if not is_decided:
                return False
            if is_open:
                records.raise_budgets(dataset, budgets)
            else:
                self._declare(records, {dataset: budgets}, {dataset: declared or {}})
        return True

    def refuse_budgets(self, agreed: Mapping[str, Any], decision: Mapping[str, Any]) -> None:
        """Write down that nothing comes of what `open_decisions` returned, and who decided so."""
        about = {name: agreed[name] for name in ("dataset", "budgets", "classes") if name in agreed}
        with self._store.writing() as records:
            records.append(Kind.DECISION, {**about, **decision, "decision": "refused"})

    def open_decisions(self, dataset: str | None = None) -> list[Mapping[str, Any]]:
        """Return what one of two people agreed to about budgets, of one data set or all of them."""
        with self._verified() as (records, _):
            agreed = [facts[0] for facts in self._replay.agreed.values()]
            # The others are about proposals.
            found = [f for f in agreed if "budgets" in f and dataset in (None, f["dataset"])]
            stored = [records.budgets(facts["dataset"]) for facts in found]
        return [
            facts
            for facts, budgets in zip(found, stored, strict=True)
            if not budgets or rules.is_raise(budgets, budgets_from(facts["budgets"]))
        ]

    # --- the audit log

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
        about = records.about()
        return about.frozen or self._altered or about.anchor.trouble(records)

    @property
    def anchor(self) -> Anchor:
        """Where the end of the log is also kept."""
        with self._store.reading() as records:
            return records.about().anchor

    def _freeze(self, reason: str) -> None:
        """Let nobody charge the ledger any more: this process alone, if it cannot be written."""
        self._replay = Replay()
        try:
            with self._store.writing() as records:
                if not records.about().frozen:
                    records.freeze(reason)
        except SufficeError:
            self._altered = reason

    @contextmanager
    def snapshot(self) -> Iterator["Snapshot"]:
        """Yield the ledger as it is at one moment, after checking what is new in its log.

        Others go on charging meanwhile, and nothing of that is seen in the block.

        Raises
        ------
        LedgerError
            If the log is broken, or budgets are not what it says.
        """
        with ExitStack() as block:
            with self._catching_up:
                records, replay = block.enter_context(self._store.reading()), self._replay
                replay.catch_up(records)
                names = records.datasets()
                replay.check(records, names)
                balances = _balances(records, replay.spent, names)
                end = (replay.ledger, replay.entries, replay.head)
            yield Snapshot(records, *end, self._reason_to_freeze(records), balances)

    def backup(self, path: str | Path) -> None:
        """Write the ledger, as it is at one moment, to a new file. Others go on using it.

        The file is a ledger that starts frozen, also where the original is in a database. It holds
        all that the original holds, and is as secret.

        Parameters
        ----------
        path : str or Path
            The new file.

        Raises
        ------
        StorageError
            If there is a file of that name, or it cannot be written.
        LedgerError
            If the log is broken.
        """
        file = Path(path)
        if file.exists():
            raise StorageError(f"{file} exists. A backup overwrites nothing: name another file.")
        try:
            with self.snapshot() as now, SqliteStore(file).writing(making=True) as copied:
                copied.copy(now.records)
        except BaseException:
            file.unlink(missing_ok=True)
            raise

    def archive(self, path: str | Path, private_key: str | Path, before: datetime) -> Archive:
        """Move the bytes of old releases and proposals into a new file, signed.

        Charges, digests and the log stay, so that nothing is ever drawn again. Others who use the
        ledger wait meanwhile. The file is found again beside the ledger's file; for a ledger in a
        database, beside its anchor.

        Parameters
        ----------
        path : str or Path
            The new file, whose name ends with ``.archive``.
        private_key : str or Path
            The file of the private key that signs it.
        before : datetime
            What is older than this is moved.

        Returns
        -------
        Archive
            What was written.

        Raises
        ------
        ParameterError
            If nothing is that old.
        LedgerError
            If the ledger is frozen, or was altered.
        StorageError
            If the file cannot be written; then nothing is moved.
        """
        with self._store.writing() as records, self._catching_up:
            replay = self._replay
            replay.catch_up(records)
            if reason := self._reason_to_freeze(records):
                raise LedgerError(
                    f"The ledger {self.path} is frozen: {reason}. Nothing is moved out of it until"
                    " you use `suffice ledger recover`."
                )
            last, outputs = records.old_outputs(before)

            def members() -> Iterator[tuple[str, bytes]]:
                for charge, data in outputs:
                    replay.check_charge(charge, records)
                    yield f"releases/{charge.number}.suffice", data
                for number, body, answer, signature, record in records.old_proposals(before):
                    yield f"proposals/{number}/proposal.json", bytes(body)
                    yield f"proposals/{number}/answer.json", bytes(answer)
                    yield f"proposals/{number}/record.json", (record or "").encode()
                    if signature is not None:
                        yield f"proposals/{number}/signature", bytes(signature)

            moved = members()
            first = next(moved, None)
            if first is None:
                raise ParameterError("Nothing in the ledger is that old. Name a later day.")
            written = write_archive(
                Path(path), chain([first], moved), replay.ledger, last, private_key
            )
            facts = {"charges": last, "file": written.digest, "key": written.key_id}
            facts |= {"releases": written.releases, "proposals": written.proposals}
            records.leave_to_archive(before, facts)
        return written

    def archived(self, name: str, digest: str | None = None) -> bytes | None:
        """Return what an archive of this ledger holds under a name, if that file is at hand.

        With a digest, only bytes of this digest.
        """
        with self._catching_up, self._store.reading() as records:
            self._replay.catch_up(records)
            known, anchor = {*self._replay.archives}, records.about().anchor
        place = self.path if isinstance(self.path, Path) else Path(anchor.shown_place)
        if not isinstance(self.path, Path) and anchor.kind != "file":
            return None
        data = read_member(place.parent, name, known)
        return data if digest is None or (data and digest_of_bytes(data) == digest) else None

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
        if place is not None:
            name_program(place)
        with self._store.writing() as records:
            for dataset in released or {}:
                if dataset not in records.datasets():
                    raise LedgerError(
                        f"The ledger has no data set {dataset!r}. Name one that it has."
                    )
            compared, lost = _compare(records, checked_log(records), checkpoint)
            if lost and checkpoint is None and released is None:
                raise LostEntriesError(
                    f"This is not the only copy: {LOST}. Collect every release since the copy was"
                    " made. Name each as DATASET=FILE, and add --state complete."
                )
            charged = 0
            for dataset, releases in (released or {}).items():
                for release in releases:
                    charged += _charge(records, dataset, release)
            facts = {**compared, "entries_lost": lost, "releases_charged": charged}
            records.thaw(facts, records.about().anchor.place if place is None else place)
        with self._store.writing() as records:
            records.about().anchor.replace(records)
        self._replay, self._altered = Replay(), ""
        return charged

    def record_answer(self, dataset: str, kind: Kind, facts: Mapping[str, Any]) -> None:
        """Write a grant or a refusal into the audit log, once; all of ``facts`` must be public."""
        with self._store.writing() as records:
            records.append(kind, {"dataset": dataset, **facts}, once=True)


def _note_repeated(charge: Charge, charges: Sequence[DatasetCharge]) -> None:
    """Tell the owner, and nobody else, whether data have changed since a request was made."""
    day = f"{datetime.fromtimestamp(charge.time, UTC):%Y-%m-%d}"
    if all(charge.fingerprints.get(c.dataset) == c.fingerprint for c in charges):
        note(f"This request was made on {day}. The file is the same, and nothing was charged.")
        return
    note(
        f"This request was made on {day}, and your data have changed since. The file is the same,"
        " and nothing was charged. For a release of today's data, name it: --request NAME (Python:"
        " request=...). Only you see this line."
    )


def _balances(
    records: Tables, spent: Mapping[str, rules.Spent], names: Sequence[str]
) -> list[Balance]:
    return [
        rules.balance_of(name, unit, budget, spent[name][unit])
        for name in names
        for unit, budget in records.budgets(name).items()
    ]


def what_is_decided(facts: Mapping[str, Any]) -> str:
    """Return what a decision is about: a proposal, or budgets with the classes of their data set.

    Two people agree if they decide about the same.
    """
    budgets = [facts.get("budgets"), facts.get("classes")]
    return str(facts.get("proposal") or json.dumps(budgets, sort_keys=True))


def _by_unit(budget: Budget | Mapping[Unit | str, Budget]) -> dict[Unit, Budget]:
    if isinstance(budget, Budget):
        return {Unit.LABEL: budget}
    return {Unit(unit): unit_budget for unit, unit_budget in budget.items()}


def _by_label(declared: Sequence[Any] | Mapping[str, Sequence[Any]]) -> dict[str, Classes]:
    if not isinstance(declared, Mapping):
        declared = {_ANY_COLUMN: declared}
    for classes in declared.values():
        if len({canonical_class(c) for c in check_classes(classes)}) < len(classes):
            raise ParameterError(
                "Two of the declared classes are the same. For example, 1, True and '1' are one"
                " class."
            )
    return {label or _ANY_COLUMN: check_classes(classes) for label, classes in declared.items()}


def store_at(place: str | Path) -> Store:
    """Return the store at a path, or at an address that begins with postgresql://."""
    file = ledger_file(place)
    if file is not None:
        return SqliteStore(file)
    if find_spec("psycopg") is None:
        raise ParameterError(
            "A ledger in PostgreSQL needs more packages. Install them: pip install"
            " 'suffice[postgres]'."
        )
    from suffice.owner.ledger.postgres import PostgresStore

    return PostgresStore(str(place))


class Step(NamedTuple):
    """A budget at some time: after it was set, charged or raised."""

    time: datetime
    spent: float
    limit: float  # its epsilon


@dataclass
class Curve:
    """What was spent of a data set's budgets, in few steps; each charge is read once.

    It is for a picture. Nothing is decided by it.
    """

    dataset: str
    most: int  # charges among the steps, besides the last one
    every: int = 1  # so many charges there is a step
    seen: int = 0  # charges
    last: int = 0  # the number of the newest of them
    limits: int = 0  # that were read
    budgets: dict[Unit, Budget] = field(default_factory=dict)
    spent: dict[Unit, Tally] = field(default_factory=dict)
    # After so many charges; 0 where a budget was set or raised.
    steps: list[tuple[int, dict[Unit, Step]]] = field(default_factory=list)

    def catch_up(self, records: Tables, limits: Sequence["Limit"]) -> None:
        """Read the charges and limits since the last time."""
        charges = [*records.charges(self.last, dataset=self.dataset)]
        total, new = self.seen + len(charges), [*limits[self.limits :]]
        self.limits = len(limits)
        while total > self.most * self.every:
            self.every *= 2
        self.steps = [step for step in self.steps if step[0] % self.every == 0]
        for charge in (*charges, None):
            while new and (charge is None or new[0][0] < charge.opened):
                _, time, self.budgets = new.pop(0)
                self._add(0, datetime.fromisoformat(time))
            if charge is not None:
                self.seen, self.last = self.seen + 1, charge.number
                _add_cost(self.spent, charge.costs()[self.dataset])
                if self.seen % self.every == 0 or self.seen == total:
                    self._add(self.seen, datetime.fromtimestamp(charge.time, UTC))

    def _add(self, number: int, time: datetime) -> None:
        self.spent = {unit: self.spent.get(unit, Tally()) for unit in self.budgets}
        balances = [
            rules.balance_of(self.dataset, unit, budget, self.spent[unit])
            for unit, budget in self.budgets.items()
        ]
        steps = {b.unit: Step(time, b.spent, b.budget.epsilon) for b in balances}
        self.steps.append((number, steps))


Limit = tuple[int, str, dict[Unit, Budget]]
"""The number and the time of an entry of the log that sets budgets, and what they are then."""


def _add_cost(spent: rules.Spent, cost: rules.Cost) -> None:
    """Add what one more charge, the newest, cost a data set."""
    for unit, tally in spent.items():
        if events := rules.closest_events(unit, cost):
            tally.add(compose_events(events))


class Snapshot(NamedTuple):
    """A ledger at one moment."""

    records: Tables
    name: str
    entries: int  # of its log
    head: str  # digest of the last of them
    frozen: str  # why nothing can be charged; empty if it can
    balances: list[Balance]


class LostEntriesError(AlteredLedgerError):
    """The log lacks entries that somebody remembers: the ledger was put back from a copy."""

    reason = "its log lacks entries that it had, so it was put back from a copy"


@dataclass
class Replay:
    """What the tables of a ledger must hold, by the entries of its log so far.

    A process keeps one for each ledger: it reads each entry once, and compares what the ledger
    holds now with what it remembers. So a change behind a running process is noticed, at a cost
    that does not grow with the log.
    """

    entries: int = 0
    head: str = FIRST
    ledger: str = ""
    anchor: str = ""
    frozen: str = ""
    budgets: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, list[Limit]] = field(default_factory=dict)  # of each data set, so far
    classes: dict[tuple[str, str], Any] = field(default_factory=dict)
    charges: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    spent: dict[str, rules.Spent] = field(default_factory=dict)  # by data set
    archives: dict[str, int] = field(default_factory=dict)  # digest to the last charge in it
    # What one of two people agreed to, by data set and `what_is_decided`.
    agreed: dict[tuple[str, str], list[Mapping[str, Any]]] = field(default_factory=dict)
    looked_at: int = 0  # the number of the charge that was checked last while others were made
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)

    def catch_up(self, records: Tables, seen: Callable[[LogEntry], Any] = lambda _: None) -> None:
        """Read the entries since the last time, or raise if they do not continue it.

        ``seen`` is called with each of them, once it is checked.
        """
        if self.entries and records.head(self.entries) != (self.entries, self.head):
            raise LostEntriesError(
                f"The ledger was put back from a copy while it was in use. {_ADVICE}"
            )
        with _readable():
            for entry in checked_chain(records.log(self.entries), self.entries, self.head):
                self._add(entry, entry.facts)
                self.entries, self.head = entry.number, entry.digest
                seen(entry)
        if self.ledger != records.about().name:
            raise _differs("the log is that of another ledger")

    def _add(self, entry: LogEntry, facts: Mapping[str, Any]) -> None:
        if entry.kind in (Kind.BUDGET, Kind.RAISED):
            limit = entry.number, entry.time, budgets_from(facts["budgets"])
            self.limits.setdefault(facts["dataset"], []).append(limit)
        match entry.kind:
            case Kind.OPENED:
                self.ledger, self.anchor = facts["ledger"], facts["anchor"]
            case Kind.BUDGET:
                self.budgets[facts["dataset"]] = facts["budgets"]
                self.spent[facts["dataset"]] = {Unit(unit): Tally() for unit in facts["budgets"]}
            case Kind.CLASSES:
                self.classes[facts["dataset"], facts["label"]] = facts["classes"]
            case Kind.RAISED:
                self.budgets[facts["dataset"]] = facts["budgets"]
            case Kind.FROZEN:
                self.frozen = facts["reason"]
            case Kind.RECOVERED:
                self.frozen, self.anchor = "", facts["anchor"]
            case Kind.MINTED:
                self.tokens[facts["token"]] = {**facts, "revoked": False}
            case Kind.REVOKED:
                self.tokens.setdefault(facts["token"], {})["revoked"] = True
            case Kind.DEBIT:
                charge = {name: facts[name] for name in ("parameters", "claim")}
                charge |= {"number": len(self.charges) + 1, "spent": seal_of(facts["spent"])}
                charge |= {"opened": entry.number, "state": "debited"}
                charge |= {"closed": None, "release": None}
                name = facts["dataset"], facts["request"]
                if self.charges.setdefault(name, charge) is not charge:
                    raise _differs(f"request {facts['request']!r} was charged twice")
                self.add_costs(rules.costs_of(facts["dataset"], facts["spent"]))
            case Kind.FINISH | Kind.BURNT:
                name = facts["dataset"], facts["request"]
                charge = self.charges.get(name, {"state": "missing"})
                if charge["state"] != "debited":
                    raise _differs(f"request {facts['request']!r} ended, and was not open")
                state = "finished" if entry.kind == Kind.FINISH else "burnt"
                charge |= {"state": state, "closed": entry.number, "release": facts.get("release")}
            case Kind.DECISION:
                about = facts["dataset"], what_is_decided(facts)
                if facts["decision"] == "agreed":
                    self.agreed.setdefault(about, []).append(facts)
                else:  # granted or refused: what comes again is agreed to anew
                    self.agreed.pop(about, None)
            case Kind.ARCHIVED:
                self.archives[facts["file"]] = facts["charges"]

    def add_costs(self, costs: Mapping[str, rules.Cost]) -> None:
        """Add what one more charge, the newest, cost each data set."""
        for name, cost in costs.items():
            _add_cost(self.spent[name], cost)

    def check(self, records: Tables, datasets: Sequence[str] | None = None) -> None:
        """Raise if a table is not what the log says.

        With data sets: if something that a charge of these rests on is not. That is budgets and
        classes of these data sets, and the ledger itself. What earlier charges cost is not read
        there, because `spent` is what the log says; a few of them are looked at each time.
        """
        with _readable():
            about = records.about()
            if name_for(about.key) != self.ledger:
                raise _differs("the ledger's key")
            if about.anchor.kind != self.anchor:
                raise _differs("what its anchor is")
            if about.frozen != self.frozen:
                raise _differs("whether it is frozen")
            if datasets is None and records.datasets() != sorted(self.budgets):
                raise _differs("the data sets")
            for name in self.budgets if datasets is None else datasets:
                if records.budgets(name) != budgets_from(self.budgets.get(name, {})):
                    raise _differs("a budget")
                classes = {(name, label): [*c] for label, c in records.classes(name).items()}
                if classes != {key: c for key, c in self.classes.items() if key[0] == name}:
                    raise _differs("the declared classes")
            if datasets is not None:  # all charges have their turn, at a cost that does not grow
                expected = min(_CHECKED_AT_ONCE, len(self.charges) - self.looked_at)
                some = list(records.charges(self.looked_at, _CHECKED_AT_ONCE))
                for charge in some:
                    self.check_charge(charge)
                if len(some) != expected:
                    raise _differs("a charge is missing, or one too many")
                self.looked_at += expected
                if self.looked_at == len(self.charges):
                    self.looked_at = 0
                return
            tokens = {
                t.id: {**token_facts(t), "revoked": t.revoked is not None} for t in records.tokens()
            }
            if tokens != self.tokens:
                raise _differs("a token")
            found = 0
            for charge in records.charges():
                self.check_charge(charge, records)
                found += 1
            if found < len(self.charges):
                raise _differs("a charge is missing")

    def check_charge(self, charge: Charge, records: Tables | None = None) -> bytes | None:
        """Raise if a charge is not the one that the log names.

        With the tables, its bytes are compared too and returned, or None if they were archived.
        """
        stored = {
            "number": charge.number,
            "spent": seal_of(json.loads(charge.spent)),
            "parameters": digest_of_bytes(charge.public.encode()),
            "claim": digest_of_bytes(charge.token.encode()),
            "opened": charge.opened,
            "state": charge.state,
            "closed": charge.closed,
            "release": charge.release,
        }
        data = None if records is None else records.output(charge.number)
        digest = charge.release if data is None else digest_of_bytes(data)
        gone = records is not None and data is None and charge.release is not None
        if (
            charge.seal != seal_of(charge.number, dict(charge.fingerprints), charge.time)
            or stored != self.charges.get((charge.dataset, charge.request))
            or digest != charge.release
            or (gone and charge.number > max(self.archives.values(), default=0))
        ):
            raise _differs(f"request {charge.request!r} of data set {charge.dataset!r}")
        return data


def checked_log(records: Tables) -> list[LogEntry]:
    """Return the audit log, or raise where it is broken or the tables do not hold what it says.

    Nothing here is secret: an owner, or whoever can write the ledger, could write both anew. Only
    a checkpoint in other hands shows that (`check_continues`).
    """
    replay, entries = Replay(), list[LogEntry]()
    replay.catch_up(records, entries.append)
    replay.check(records)
    return entries


@contextmanager
def _readable() -> Iterator[None]:
    """Say of a row that makes no sense that the ledger was altered."""
    try:
        yield
    except AlteredLedgerError:
        raise
    except (LedgerError, ValueError, TypeError, KeyError):
        raise _differs("a row that cannot be read") from None


def _differs(what: str) -> AlteredLedgerError:
    return AlteredLedgerError(
        f"The ledger and its log disagree: {what}. The ledger was altered. Do not release from it;"
        " see `suffice ledger recover`."
    )


def check_continues(entries: Sequence[LogEntry], checkpoint: Checkpoint) -> None:
    """Raise unless the log, which was checked, continues the one that a checkpoint is of.

    It is a `LostEntriesError` if the log has fewer entries or others, because the ledger was put
    back from a copy or rewritten; a `LedgerError` if the checkpoint is one of another ledger.
    """
    if entries[0].facts["ledger"] != checkpoint.ledger:
        raise LedgerError(
            f"This checkpoint belongs to another ledger ({checkpoint.ledger}). Use one of this"
            f" ledger ({entries[0].facts['ledger']})."
        )
    if checkpoint.entries > len(entries):
        raise LostEntriesError(
            f"The ledger's log has {len(entries)} entries, and the checkpoint of {checkpoint.time}"
            f" counts {checkpoint.entries}. The ledger was put back from a copy. {_ADVICE}"
        )
    if entries[checkpoint.entries - 1].digest != checkpoint.head:
        advice = _ADVICE
        for entry in entries:  # is there a recovery after this very checkpoint?
            if entry.kind == Kind.RECOVERED and entry.facts.get("head") == checkpoint.head:
                advice = f"It was recovered at {entry.time}. Compare it with a newer checkpoint."
                break
        raise LostEntriesError(
            f"The ledger's log is not the one that was signed at {checkpoint.time}: entry"
            f" {checkpoint.entries} is another. The ledger was put back from a copy and used, or"
            f" rewritten. {advice}"
        )


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
    anchor = records.about().anchor
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
    return records.close_charge(dataset, request.name, "", data)
