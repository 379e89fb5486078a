"""Whether a ledger is what its audit log says, and whether the log continues a checkpoint."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from suffice.errors import LedgerError
from suffice.owner.ledger.chain import Kind, LogEntry, checked_chain, digest_of_bytes
from suffice.owner.ledger.checkpoint import Checkpoint
from suffice.owner.ledger.rows import Charge
from suffice.owner.ledger.store import Records
from suffice.owner.ledger.token_tables import token_facts

__all__ = ["LostEntriesError", "check_continues", "checked_log"]


class LostEntriesError(LedgerError):
    """The log lacks entries that a checkpoint counts: the ledger was put back from a copy."""


@dataclass
class _Replayed:
    """What the tables of a ledger must hold, by its log."""

    budgets: dict[str, Any] = field(default_factory=dict)
    classes: dict[tuple[str, str], Any] = field(default_factory=dict)
    charges: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, entry: LogEntry) -> None:
        facts = entry.facts
        if entry.kind == Kind.BUDGET:
            self.budgets[facts["dataset"]] = facts["budgets"]
        elif entry.kind == Kind.CLASSES:
            self.classes[facts["dataset"], facts["label"]] = facts["classes"]
        elif entry.kind == Kind.DEBIT:
            charge = {"spent": facts["spent"], "parameters": facts["parameters"]}
            charge |= {"opened": entry.number, "state": "debited", "closed": None, "release": None}
            if self.charges.setdefault(_name(facts), charge) is not charge:
                raise _differs(f"request {facts['request']!r} was charged twice")
        elif entry.kind in {Kind.FINISH, Kind.BURNT}:
            charge = self.charges.get(_name(facts), {"state": "missing"})
            if charge["state"] != "debited":
                raise _differs(f"request {facts['request']!r} ended, and was not open")
            state = "finished" if entry.kind == Kind.FINISH else "burnt"
            charge |= {"state": state, "closed": entry.number, "release": facts.get("release")}
        elif entry.kind == Kind.MINTED:
            self.tokens[facts["token"]] = {**facts, "revoked": False}
        elif entry.kind == Kind.REVOKED:
            self.tokens.setdefault(facts["token"], {})["revoked"] = True


def checked_log(records: Records) -> list[LogEntry]:
    """Return the audit log, or raise where it is broken or the tables do not hold what it says.

    Nothing here is secret: an owner, or whoever can write the ledger, could write both anew. Only
    a checkpoint in other hands shows that (`check_continues`).
    """
    entries = list(checked_chain(records.log()))
    replayed = _Replayed()
    for entry in entries:
        replayed.add(entry)
    if not entries or entries[0].facts.get("ledger") != records.name():
        raise _differs("the log is that of another ledger")
    _compare_budgets(records, replayed)
    _compare_tokens(records, replayed)
    digests = records.release_digests()
    stored = {
        (charge.dataset, charge.request): _as_logged(charge, digests.get(charge.number))
        for charge in records.charges()
    }
    if stored != replayed.charges:
        names = sorted(stored.keys() | replayed.charges.keys())
        different = next(n for n in names if stored.get(n) != replayed.charges.get(n))
        raise _differs(f"request {different[1]!r} of data set {different[0]!r}")
    return entries


def _compare_budgets(records: Records, replayed: _Replayed) -> None:
    budgets = {
        name: {str(u): [repr(b.epsilon), repr(b.delta)] for u, b in records.budgets(name).items()}
        for name in records.datasets()
    }
    classes = {
        (name, label): [*declared]
        for name in records.datasets()
        for label, declared in records.classes(name).items()
    }
    if budgets != replayed.budgets:
        raise _differs("a budget")
    if classes != replayed.classes:
        raise _differs("the declared classes")


def _compare_tokens(records: Records, replayed: _Replayed) -> None:
    tokens = {t.id: {**token_facts(t), "revoked": t.revoked is not None} for t in records.tokens()}
    if tokens != replayed.tokens:
        raise _differs("a token")


def _as_logged(charge: Charge, release: str | None) -> dict[str, Any]:
    """Return a stored charge as the log describes it."""
    parameters = digest_of_bytes(json.dumps(dict(charge.parameters)).encode())
    return {
        "spent": json.loads(charge.spent),
        "parameters": parameters,
        "opened": charge.opened,
        "state": charge.state,
        "closed": charge.closed,
        "release": release,
    }


def _name(facts: Mapping[str, Any]) -> tuple[str, str]:
    return facts["dataset"], facts["request"]


def _differs(what: str) -> LedgerError:
    return LedgerError(
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
