"""Verify that a ledger is what its audit log says, and recover one restored from a copy."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from suffice.errors import LedgerError
from suffice.owner.ledger.anchors import LOST, anchor_of
from suffice.owner.ledger.log import (
    FIRST,
    AlteredLedgerError,
    Checkpoint,
    Kind,
    LogEntry,
    checked_chain,
    digest_of_bytes,
)
from suffice.owner.ledger.rules import Charge, Request, seal_of
from suffice.owner.ledger.store import Tables, anchor_kind, budgets_as_logged, name_for, token_facts
from suffice.release.codec import encode
from suffice.release.release import Release

__all__ = ["LostEntriesError", "Replay", "check_continues", "checked_log", "recover"]


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
    classes: dict[tuple[str, str], Any] = field(default_factory=dict)
    charges: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)

    def catch_up(self, records: Tables) -> list[LogEntry]:
        """Read and return the entries since the last time, or raise if they do not continue it."""
        if self.entries and records.digest_at(self.entries) != self.head:
            raise LostEntriesError(
                f"The ledger was put back from a copy while it was in use. {_ADVICE}"
            )
        with _readable():
            new = list(checked_chain(records.log(self.entries), self.entries, self.head))
            for entry in new:
                self._add(entry)
                self.entries, self.head = entry.number, entry.digest
        if self.ledger != records.name():
            raise _differs("the log is that of another ledger")
        return new

    def _add(self, entry: LogEntry) -> None:
        facts = entry.facts
        if entry.kind == Kind.OPENED:
            self.ledger, self.anchor = facts["ledger"], facts["anchor"]
        elif entry.kind == Kind.BUDGET:
            self.budgets[facts["dataset"]] = facts["budgets"]
        elif entry.kind == Kind.CLASSES:
            self.classes[facts["dataset"], facts["label"]] = facts["classes"]
        elif entry.kind == Kind.FROZEN:
            self.frozen = facts["reason"]
        elif entry.kind == Kind.RECOVERED:
            self.frozen, self.anchor = "", facts["anchor"]
        elif entry.kind == Kind.MINTED:
            self.tokens[facts["token"]] = {**facts, "revoked": False}
        elif entry.kind == Kind.REVOKED:
            self.tokens.setdefault(facts["token"], {})["revoked"] = True
        elif entry.kind in {Kind.DEBIT, Kind.FINISH, Kind.BURNT}:
            self._add_to_charges(entry, facts)

    def _add_to_charges(self, entry: LogEntry, facts: Mapping[str, Any]) -> None:
        if entry.kind == Kind.DEBIT:
            charge = {name: facts[name] for name in ("spent", "parameters", "claim")}
            charge |= {"opened": entry.number, "state": "debited", "closed": None, "release": None}
            if self.charges.setdefault(_name(facts), charge) is not charge:
                raise _differs(f"request {facts['request']!r} was charged twice")
        else:
            charge = self.charges.get(_name(facts), {"state": "missing"})
            if charge["state"] != "debited":
                raise _differs(f"request {facts['request']!r} ended, and was not open")
            state = "finished" if entry.kind == Kind.FINISH else "burnt"
            charge |= {"state": state, "closed": entry.number, "release": facts.get("release")}

    def check_basis(self, records: Tables, datasets: Sequence[str]) -> None:
        """Raise if something that a charge of these data sets rests on is not what the log says."""
        with _readable():
            self._check_ledger(records)
            for name in datasets:
                self._check_dataset(records, name)
            spent = {name: json.loads(text) for name, text in records.spent_by_request().items()}
            self._compare_charges(spent, {name: c["spent"] for name, c in self.charges.items()})

    def check_charge(self, charge: Charge) -> None:
        """Raise if a charge, or its bytes, are not those that the log names."""
        release = None if charge.data is None else digest_of_bytes(charge.data)
        name = (charge.dataset, charge.request)
        self._compare_charges({name: _as_logged(charge, release)}, {name: self.charges.get(name)})

    def check_all(self, records: Tables) -> None:
        """Raise if a table is not what the log says."""
        with _readable():
            self._check_tables(records)

    def _check_tables(self, records: Tables) -> None:
        self._check_ledger(records)
        if records.datasets() != sorted(self.budgets):
            raise _differs("the data sets")
        for name in self.budgets:
            self._check_dataset(records, name)
        tokens = {
            t.id: {**token_facts(t), "revoked": t.revoked is not None} for t in records.tokens()
        }
        if tokens != self.tokens:
            raise _differs("a token")
        digests = records.release_digests()
        charges = {
            (charge.dataset, charge.request): _as_logged(charge, digests.get(charge.number))
            for charge in records.charges()
        }
        self._compare_charges(charges, self.charges)

    def _check_ledger(self, records: Tables) -> None:
        if name_for(records.secret()) != self.ledger:
            raise _differs("the ledger's key")
        if anchor_kind(records.anchor()) != self.anchor:
            raise _differs("what its anchor is")
        if records.frozen() != self.frozen:
            raise _differs("whether it is frozen")

    def _check_dataset(self, records: Tables, name: str) -> None:
        if budgets_as_logged(records.budgets(name)) != self.budgets.get(name, {}):
            raise _differs("a budget")
        classes = {(name, label): [*c] for label, c in records.classes(name).items()}
        if classes != {key: c for key, c in self.classes.items() if key[0] == name}:
            raise _differs("the declared classes")

    @staticmethod
    def _compare_charges(
        stored: Mapping[tuple[str, str], Any], logged: Mapping[tuple[str, str], Any]
    ) -> None:
        if stored != logged:
            names = sorted(stored.keys() | logged.keys())
            different = next(n for n in names if stored.get(n) != logged.get(n))
            raise _differs(f"request {different[1]!r} of data set {different[0]!r}")


def checked_log(records: Tables) -> list[LogEntry]:
    """Return the audit log, or raise where it is broken or the tables do not hold what it says.

    Nothing here is secret: an owner, or whoever can write the ledger, could write both anew. Only
    a checkpoint in other hands shows that (`check_continues`).
    """
    replay = Replay()
    entries = replay.catch_up(records)
    replay.check_all(records)
    return entries


def _as_logged(charge: Charge, release: str | None) -> dict[str, Any]:
    """Return a stored charge as the log describes it."""
    if charge.seal != seal_of(charge.number, dict(charge.fingerprints), charge.time):
        raise _differs(f"request {charge.request!r} of data set {charge.dataset!r}")
    parameters = digest_of_bytes(json.dumps(dict(charge.parameters)).encode())
    return {
        "spent": json.loads(charge.spent),
        "parameters": parameters,
        "claim": digest_of_bytes(charge.token.encode()),
        "opened": charge.opened,
        "state": charge.state,
        "closed": charge.closed,
        "release": release,
    }


def _name(facts: Mapping[str, Any]) -> tuple[str, str]:
    return facts["dataset"], facts["request"]


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

    Raises
    ------
    LostEntriesError
        If it has fewer entries, or others: the ledger was put back from a copy, or rewritten.
    LedgerError
        If the checkpoint is one of another ledger.
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
        raise LostEntriesError(
            f"The ledger's log is not the one that was signed at {checkpoint.time}: entry"
            f" {checkpoint.entries} is another. The ledger was put back from a copy and used, or"
            f" rewritten. {_recovered(entries, checkpoint)}"
        )


_ADVICE = "Budget may be spent twice. Use `suffice ledger recover` before any release."


def _recovered(entries: Sequence[LogEntry], checkpoint: Checkpoint) -> str:
    """Return what the log says of a recovery after this very checkpoint, or what to do."""
    for entry in entries:
        if entry.kind == Kind.RECOVERED and entry.facts.get("head") == checkpoint.head:
            return f"It was recovered at {entry.time}. Compare it with a newer checkpoint."
    return _ADVICE


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
