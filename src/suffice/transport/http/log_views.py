"""The audit log as owners and officers are shown it: which entries, whether it is whole, in words.

A token that covers some data sets shows their entries alone, and no hashes: the hash of an entry
depends on all entries before it, also on those of other data sets.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from suffice.errors import LedgerError
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.chain import Kind, LogEntry
from suffice.owner.ledger.checkpoint import Checkpoint
from suffice.owner.ledger.rows import OTHER, stated_epsilon
from suffice.owner.ledger.tokens import Token
from suffice.owner.ledger.verification import LostEntriesError, check_continues
from suffice.owner.ledger.words import KINDS
from suffice.plain_text import listed, name, quoted
from suffice.privacy.accounting import event_from_json

__all__ = [
    "CheckedLog",
    "Comparison",
    "compare",
    "concerns",
    "entry_json",
    "entry_words",
    "kind_words",
    "read_log",
    "visible_entries",
]

_OF_THE_LEDGER = {Kind.OPENED, Kind.FROZEN, Kind.RECOVERED}
_ALTERED = (
    "The ledger and its log do not agree, or the log is broken. The ledger was altered. Do not"
    " release from it, and ask the owner."
)


_ANCHORS = {
    "file": "An anchor in another file notices a ledger that was put back without it.",
    "command": "A program keeps an anchor, which notices a ledger that was put back.",
    "none": "The ledger has no anchor: only your checkpoints notice that it was put back.",
}


@dataclass(frozen=True)
class CheckedLog:
    """An audit log that was read and checked.

    Attributes
    ----------
    entries : list of LogEntry
        The entries, oldest first; none if the log is broken.
    problem : str
        What is wrong with log or ledger; empty if nothing is.
    frozen : str
        Why nothing can be charged until the ledger is recovered; empty if it can.
    anchor : str
        What keeps the end of the log outside the ledger: file, command or none.
    """

    entries: list[LogEntry] = field(default_factory=list)
    problem: str = ""
    frozen: str = ""
    anchor: str = "none"

    @property
    def head(self) -> str:
        """The hash of the last entry, which depends on all of them; empty if the log is broken."""
        return self.entries[-1].digest if self.entries else ""

    def alarms(self) -> list[str]:
        """Return what is wrong, in sentences."""
        frozen = f"The ledger is frozen: {self.frozen}. Nothing is charged until it is recovered."
        return [self.problem] * bool(self.problem) + [frozen] * bool(self.frozen)

    def words(self) -> list[str]:
        """Return what was checked and is right, in sentences."""
        if self.problem:
            return []
        return [
            f"The log is whole: {len(self.entries):,} entries, each of which continues the last.",
            "Every budget, charge, token and stored release agrees with the log.",
            _ANCHORS[self.anchor],
        ]


def read_log(ledger: Ledger, token: Token) -> CheckedLog:
    """Return the audit log after checking it; a log that is broken is a result, and no error.

    A reader of some data sets is not told which part of the ledger was altered.
    """
    frozen, anchor = ledger.frozen, ledger.anchor.kind
    try:
        return CheckedLog(ledger.log(), frozen=frozen, anchor=anchor)
    except LedgerError as error:
        problem = _ALTERED if token.scope else str(error)
        return CheckedLog(problem=problem, frozen=frozen, anchor=anchor)


@dataclass(frozen=True)
class Comparison:
    """What became of an older checkpoint.

    Attributes
    ----------
    verdict : str
        agrees, lost (entries are missing or others), altered (the log is broken), or
        another-ledger.
    words : list of str
        The same in sentences.
    """

    verdict: str
    words: list[str]

    @property
    def agrees(self) -> bool:
        """Whether the ledger still contains the checkpoint."""
        return self.verdict == "agrees"


def compare(log: CheckedLog, checkpoint: Checkpoint, key_id: str) -> Comparison:
    """Return whether a log continues an older checkpoint.

    Parameters
    ----------
    log
        The log, as it is now.
    checkpoint
        An older head of it, with a signature that is good for its own key.
    key_id
        The short name of the service's key.
    """
    other_key = (
        f"This checkpoint is signed with key {checkpoint.key_id}. The service signs with key"
        f" {key_id} now. Believe the result only if you know the older key."
    )
    first = [] if checkpoint.key_id == key_id else [other_key]
    if log.problem:
        return Comparison("altered", [*first, log.problem])
    try:
        check_continues(log.entries, checkpoint)
    except LostEntriesError as error:
        return Comparison("lost", [*first, str(error)])
    except LedgerError as error:
        return Comparison("another-ledger", [*first, str(error)])
    kept = f"Its {checkpoint.entries:,} entries were signed at {checkpoint.time}, and none differs."
    later = len(log.entries) - checkpoint.entries
    rest = f"Entries that came later: {later:,}. About those, this checkpoint says nothing."
    return Comparison("agrees", [*first, "The ledger still contains this checkpoint.", kept, rest])


# --- which entries


def visible_entries(entries: Sequence[LogEntry], token: Token) -> list[LogEntry]:
    """Return the entries that a token shows; all of them, unless it covers some data sets only."""
    if not token.scope:
        return list(entries)
    reduced = (_reduced(entry, set(token.scope)) for entry in entries)
    return [entry for entry in reduced if entry is not None]


def concerns(entry: LogEntry, dataset: str) -> bool:
    """Say whether an entry is about a data set, or about the ledger as a whole."""
    return entry.kind in _OF_THE_LEDGER or dataset in _datasets(entry.facts)


def _datasets(facts: Mapping[str, Any]) -> set[str]:
    """Return every data set that an entry names."""
    names = {facts["dataset"]} if "dataset" in facts else set()
    return names | {line[OTHER] for line in facts.get("spent", ()) if OTHER in line}


def _reduced(entry: LogEntry, scope: set[str]) -> LogEntry | None:
    """Return an entry without its hash and without what is about other data sets, or None."""
    if entry.kind in _OF_THE_LEDGER:
        return replace(entry, digest="")
    facts = entry.facts
    named = _datasets(facts)
    if not named & scope:
        return None
    if named <= scope:
        return replace(entry, digest="")
    home = facts.get("dataset", "")
    own = facts if home in scope else {"dataset": min(named & scope)}
    shown = {key: value for key, value in own.items() if key not in ("reason", "spent")}
    lines = [{**line, OTHER: line.get(OTHER, home)} for line in facts.get("spent", ())]
    shown["spent"] = [line for line in lines if line[OTHER] in scope]
    return replace(entry, text=json.dumps(shown, sort_keys=True), digest="")


def entry_json(entry: LogEntry) -> dict[str, Any]:
    """Return an entry for programs, as `suffice ledger log --json` prints it."""
    facts = json.loads(entry.text, parse_constant=lambda _: None)
    return {
        "number": entry.number,
        "time": entry.time,
        "kind": entry.kind,
        "digest": entry.digest or None,
        "facts": facts,
    }


# --- in words


def kind_words(entry: LogEntry) -> str:
    """Return what an entry records, in one or two words."""
    if entry.kind == Kind.REFUSAL and entry.facts.get("answer") == "countered":
        return "countered"
    return KINDS.get(entry.kind, entry.kind)


def entry_words(entry: LogEntry) -> str:
    """Return what an entry says, in one line for people; texts of strangers are in quotes."""
    facts = entry.facts
    writer = _WRITERS.get(Kind(entry.kind)) if entry.kind in {*Kind} else None
    try:
        return _other_words(facts) if writer is None else writer(facts)
    except (KeyError, TypeError, ValueError, AttributeError):  # an entry of another version
        return _other_words(facts)


def _budget_words(facts: Mapping[str, Any]) -> str:
    budgets = [
        f"epsilon {float(epsilon):g} per {unit} at delta {float(delta):g}"
        for unit, (epsilon, delta) in facts["budgets"].items()
    ]
    return f"Budget: {', '.join(budgets)}."


def _charge_words(facts: Mapping[str, Any]) -> str:
    request = facts.get("request")
    of = "" if request is None else f" Request {name(request)}."
    return f"Charged: {_cost(facts['spent'])}.{of}"


def _cost(lines: Sequence[Mapping[str, Any]]) -> str:
    costs = []
    for line in lines:
        epsilon = stated_epsilon(event_from_json(line["event"]), 0.0)
        cost = f"epsilon {epsilon:.4g}" if epsilon < float("inf") else "noise that needs a delta"
        other = f" of {name(line[OTHER])}" if OTHER in line else ""
        costs.append(f"{cost} per {line['unit']}{other}")
    return ", ".join(costs)


def _grant_words(facts: Mapping[str, Any]) -> str:
    return f"{_asked(facts)} Release {facts['release'][:23]}..."


def _refusal_words(facts: Mapping[str, Any]) -> str:
    if "answer" not in facts:
        reason = quoted(facts["reason"]) if "reason" in facts else "the budget does not allow it"
        return f"{_cost(facts['spent'])}: {reason}."
    reasons = "; ".join(quoted(reason) for reason in facts["reasons"][:8])
    return f"{_asked(facts)} Reasons: {reasons}."


def _asked(facts: Mapping[str, Any]) -> str:
    purpose = quoted(facts["purpose"]) if facts["purpose"] else "no purpose stated"
    delta = f", delta {facts['delta']:g}" if facts["delta"] else ""
    return f"Epsilon {facts['epsilon']:g}{delta}, purpose: {purpose}."


_WRITERS: Mapping[Kind, Callable[[Mapping[str, Any]], str]] = {
    Kind.OPENED: lambda facts: f"Ledger {name(facts['ledger'])}.",
    Kind.BUDGET: _budget_words,
    Kind.CLASSES: lambda facts: (
        f"Classes of column {name(facts['label'] or 'any')}: {listed(facts['classes'])}."
    ),
    Kind.DEBIT: _charge_words,
    Kind.FINISH: lambda facts: (
        f"Request {name(facts['request'])}. SHA-256 {facts['release'][:16]}..."
    ),
    Kind.BURNT: lambda facts: f"Request {name(facts['request'])}: charged, output lost.",
    Kind.GRANT: _grant_words,
    Kind.REFUSAL: _refusal_words,
    Kind.MINTED: lambda facts: (
        f"Token {name(facts['token'])} for {quoted(facts['holder'])}: {name(facts['role'])} of"
        f" {listed(facts['scope']) or 'all data sets'}, until {facts['expires'][:10]}."
    ),
    Kind.REVOKED: lambda facts: f"Token {name(facts['token'])}.",
    Kind.FROZEN: lambda facts: f"{quoted(facts['reason'])}. Nothing can be charged.",
    Kind.RECOVERED: lambda facts: (
        f"Compared with {name(facts['compared'])} ({facts['entries']:,} entries):"
        f" {facts['entries_lost']:,} lost, {facts['releases_charged']:,} releases charged."
    ),
}


def _other_words(facts: Mapping[str, Any]) -> str:
    """Return the facts of an entry that this version has no sentence for."""
    return "; ".join(f"{name(key)}: {name(value)}" for key, value in facts.items())
