"""The audit log as owners and officers are shown it: which entries, whether it is whole, in words.

A token that covers some data sets shows their entries alone, and no hashes: the hash of an entry
depends on all entries before it, also on those of other data sets.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Literal

from suffice.errors import LedgerError
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.ledger import LostEntriesError, check_continues
from suffice.owner.ledger.log import KINDS, Checkpoint, Kind, LogEntry, signed_checkpoint, utc_now
from suffice.owner.ledger.rules import OTHER, STATES, Balance, Entry, stated_epsilon
from suffice.owner.ledger.tokens import Token
from suffice.owner.policy import Terms
from suffice.plain_text import listed, name, quoted
from suffice.privacy.accounting import event_from_json
from suffice.privacy.guarantee import Guarantee, guarantee_sentences, lists
from suffice.protocol.export import (
    BudgetRecord,
    ChargeRecord,
    CostRecord,
    DatasetRecord,
    Export,
    ExportContent,
    GuaranteeRecord,
    ProposalRecord,
    ServedRecord,
    sign_export,
)
from suffice.protocol.messages import Answer, Countered, Granted, Proposal
from suffice.release.codec import decode
from suffice.release.file import read_bounded
from suffice.release.signing import key_fingerprint
from suffice.service.problems import Problem
from suffice.service.records import StoredProposal
from suffice.service.settings import ServedData
from suffice.service.workers import Service

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
    """An audit log that was read and checked."""

    entries: list[LogEntry] = field(default_factory=list)  # oldest first; none if it is broken
    problem: str = ""  # what is wrong with log or ledger
    frozen: str = ""  # why nothing can be charged until the ledger is recovered
    anchor: str = "none"  # what keeps the end of the log outside the ledger: file, command or none

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

    It is lost where entries are missing or others, and altered where the log is broken.
    """

    verdict: Literal["agrees", "lost", "altered", "another-ledger"]
    words: list[str]  # the same in sentences

    @property
    def agrees(self) -> bool:
        """Whether the ledger still contains the checkpoint."""
        return self.verdict == "agrees"


def compare(log: CheckedLog, checkpoint: Checkpoint, key_id: str) -> Comparison:
    """Return whether a log, as it is now, continues an older checkpoint.

    The checkpoint's signature is good for its own key; ``key_id`` is the service's.
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


@dataclass(frozen=True)
class EntryRecord:
    """An entry of the audit log; a token for some data sets is shown no digest."""

    number: int
    time: str
    kind: str
    digest: str | None
    facts: Mapping[str, Any]


def entry_record(entry: LogEntry) -> EntryRecord:
    """Return an entry for programs, as `suffice ledger log --json` prints it."""
    facts = json.loads(entry.text, parse_constant=lambda _: None)
    return EntryRecord(entry.number, entry.time, entry.kind, entry.digest or None, facts)


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


_LOST = "lost"
_STATES: Mapping[str, str] = {
    "received": "waiting for the service",
    "waiting": "waiting for the owner",
    "approved": "approved, not released yet",
    _LOST: STATES["burnt"],
}
_ORDER = ("waiting", "received", "approved", "granted", "countered", "refused", _LOST)


@dataclass(frozen=True)
class ProposalView:
    """A proposal, and what became of it."""

    stored: StoredProposal
    senders: list[str]  # the holders of the tokens that sent it
    guarantees: tuple[Guarantee, ...]  # of its release, if there is one
    is_lost: bool  # it was charged, and its output was lost

    @property
    def proposal(self) -> Proposal:
        """What it asks for."""
        return self.stored.proposal

    @property
    def answer(self) -> Answer | None:
        """What was answered."""
        return self.stored.parsed_answer

    @property
    def state(self) -> str:
        """What became of it: a state of the records, the name of an answer, or "lost"."""
        if self.is_lost:
            return _LOST
        return str(self.stored.state) if self.answer is None else self.answer.name

    @property
    def state_words(self) -> str:
        """The state as people are shown it."""
        return _STATES.get(self.state, self.state)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it was not granted, if it was not."""
        return () if self.answer is None else getattr(self.answer, "reasons", ())

    @property
    def offer(self) -> Terms | None:
        """The terms that the owner would grant instead, if there are any."""
        return self.answer.terms if isinstance(self.answer, Countered) else None

    def guarantee_lines(self) -> list[list[str]]:
        """Return what each guarantee says, takes to be public, and assumes."""
        return [
            [*guarantee_sentences(guarantee), *lists(guarantee)] for guarantee in self.guarantees
        ]

    def record(self) -> ProposalRecord:
        """Return the proposal as the export holds it."""
        proposal, answer = self.proposal, self.answer
        return ProposalRecord(
            proposal=self.stored.digest,
            received=self.stored.received.isoformat(),
            senders=tuple(self.senders),
            purpose=proposal.purpose,
            kind=proposal.kind,
            terms=proposal.terms,
            rows=proposal.rows.count,
            features=proposal.features,
            classes=proposal.classes,
            state=self.state_words,
            reasons=self.reasons,
            offer=self.offer,
            release=answer.release if isinstance(answer, Granted) else None,
            guarantees=tuple(_guarantee_record(guarantee) for guarantee in self.guarantees),
        )


@dataclass(frozen=True)
class ChargeView:
    """One charge of a data set's budget."""

    entry: Entry  # of the ledger's history; it may be of several data sets
    dataset: str

    @property
    def time(self) -> datetime:
        """When it was charged, UTC."""
        return datetime.fromtimestamp(self.entry.time, UTC).replace(microsecond=0)

    @property
    def state_words(self) -> str:
        """What became of it: released, pending, or charged with its output lost."""
        return STATES.get(self.entry.state, self.entry.state)

    @property
    def cost(self) -> list[tuple[str, float]]:
        """Unit and epsilon of what it cost by itself, at the delta that its release states."""
        own = self.entry.dataset == self.dataset
        charges = self.entry.charges if own else self.entry.also[self.dataset]
        delta = self.entry.stated_delta
        return [(str(unit), stated_epsilon(event, delta)) for unit, event in charges]

    def record(self) -> ChargeRecord:
        """Return the charge as the export holds it."""
        own = self.entry.dataset == self.dataset
        return ChargeRecord(
            number=self.entry.number,
            time=self.time.isoformat(),
            request=self.entry.request if own else "a release of several data sets",
            state=self.state_words,
            cost=tuple(CostRecord(unit, _finite(epsilon)) for unit, epsilon in self.cost),
            delta=self.entry.stated_delta,
        )


@dataclass(frozen=True)
class DatasetView:
    """A data set with its budgets, proposals and charges."""

    name: str  # in the ledger
    served: ServedData | None  # None if the service does not serve it
    balances: list[Balance]
    largest_epsilon: float  # of a further release of labels; 0 if the data set is not served
    proposals: list[ProposalView]  # newest first
    charges: list[ChargeView]  # newest first, also of releases from the command line

    @property
    def counts(self) -> list[tuple[int, str]]:
        """How many proposals are in each state, in words, as far as there are any."""
        numbers = Counter(view.state for view in self.proposals)
        return [(numbers[s], _STATES.get(s, s)) for s in _ORDER if numbers[s]]

    @property
    def other_charges(self) -> list[ChargeView]:
        """Charges of releases that no proposal asked for."""
        requests = {view.proposal.request for view in self.proposals}
        return [c for c in self.charges if c.entry.request not in requests]

    def record(self) -> DatasetRecord:
        """Return the data set as the export holds it."""
        served = None
        if self.served is not None:
            stated = (self.served.label, self.served.grants, self.served.policy)
            served = ServedRecord(*stated, self.largest_epsilon)
        return DatasetRecord(
            name=self.name,
            served=served,
            budgets=tuple(budget_record(balance) for balance in self.balances),
            proposals=tuple(view.record() for view in reversed(self.proposals)),
            charges=tuple(view.record() for view in reversed(self.charges)),
        )


def _guarantee_record(guarantee: Guarantee) -> GuaranteeRecord:
    return GuaranteeRecord(
        unit=str(guarantee.unit),
        epsilon=None if guarantee.epsilon is None else _finite(guarantee.epsilon),
        delta=guarantee.delta,
        sentences=tuple(guarantee_sentences(guarantee)),
        public=tuple(str(text) for text in guarantee.public),
        assumes=tuple(str(assumption) for assumption in guarantee.assumptions),
    )


def budget_record(balance: Balance) -> BudgetRecord:
    """Return what one budget of a data set allows, and what is spent of it."""
    return BudgetRecord(
        unit=str(balance.unit),
        epsilon=balance.budget.epsilon,
        delta=balance.budget.delta,
        spent=_finite(balance.spent),
        left=balance.left,
        charges=balance.debits,
    )


def _finite(value: float) -> float | None:
    """Return a number that JSON can hold, None for an infinite one."""
    return value if math.isfinite(value) else None


_TRIES = 5  # to read log and balances while nobody charges
_MOST_KEY_BYTES = 2**16


class Accounts:
    """Gathers what the holder of a token may read.

    Everything is limited to the data sets that a token covers. Nothing here opens a table:
    proposals and tokens are in the records, budgets and charges in the ledger, and all are public
    or noisy.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def key_id(self) -> str:
        """The short name of the key that signs releases, checkpoints and exports."""
        data = read_bounded(self._service.settings.key, _MOST_KEY_BYTES)
        return key_fingerprint(data)[0]

    def datasets(self, token: Token) -> list[DatasetView]:
        """Return the data sets that a token covers: those that are served, then others."""
        ledger, served = self._service.ledger, self._service.settings.datasets
        balances, history = ledger.balances(), ledger.history()
        names = dict.fromkeys([*served, *(balance.dataset for balance in balances)])
        return [
            self._dataset(name, [b for b in balances if b.dataset == name], history)
            for name in names
            if token.covers(name)
        ]

    def _dataset(self, name: str, balances: list[Balance], history: Sequence[Entry]) -> DatasetView:
        served = self._service.settings.datasets.get(name)
        charges = [ChargeView(e, name) for e in history if name in (e.dataset, *e.also)]
        lost = {c.entry.request for c in charges if c.entry.state == "burnt"}
        stored = [] if served is None else self._service.records.proposals(name)
        return DatasetView(
            name,
            served,
            balances,
            0.0 if served is None else self._service.largest_epsilon(name),
            [self._view(proposal, lost) for proposal in reversed(stored)],
            charges[::-1],
        )

    def proposal(self, stored: StoredProposal) -> ProposalView:
        """Return one proposal."""
        history = self._service.ledger.history()
        own = [e for e in history if e.dataset == stored.dataset]
        return self._view(stored, {e.request for e in own if e.state == "burnt"})

    def _view(self, stored: StoredProposal, lost: set[str]) -> ProposalView:
        return ProposalView(
            stored,
            self._service.records.senders(stored.dataset, stored.digest),
            () if stored.release is None else tuple(decode(stored.release).guarantees),
            stored.proposal.request in lost,
        )

    def tokens(self, token: Token) -> list[Token]:
        """Return the tokens that are good for a data set that this one covers, without others."""
        tokens = self._service.records.tokens()
        if not token.scope:
            return tokens
        own = [t for t in tokens if any(t.covers(name) for name in token.scope)]
        return [replace(t, scope=tuple(n for n in t.scope if n in token.scope)) for t in own]

    def log(self, token: Token) -> CheckedLog:
        """Return the whole audit log after checking it; see `visible_entries` for what to show."""
        return read_log(self._service.ledger, token)

    def whole_log(self, token: Token) -> CheckedLog:
        """Return the audit log, or raise if it is broken."""
        log = self.log(token)
        if log.problem:
            raise Problem(HTTPStatus.CONFLICT, log.problem)
        return log

    def checkpoint(self, token: Token) -> Checkpoint:
        """Return the head of the log, signed with the service's key."""
        log = self.whole_log(token)
        name, key = str(log.entries[0].facts["ledger"]), self._service.settings.key
        return signed_checkpoint(name, len(log.entries), log.head, utc_now(), key)

    def export(self, token: Token) -> Export:
        """Return everything that a token shows, signed with the service's key.

        Balances and log are of the same moment: they are read again if somebody charged meanwhile.
        """
        for _ in range(_TRIES):
            log = self.whole_log(token)
            datasets = tuple(view.record() for view in self.datasets(token))
            tokens = tuple(shown.record() for shown in self.tokens(token))
            if self.whole_log(token).head == log.head:
                break
        else:
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "The ledger is in use. Try again later.",
                {"Retry-After": "10"},
            )
        content = ExportContent(
            organisation=self._service.settings.organisation,
            time=utc_now(),
            ledger=str(log.entries[0].facts["ledger"]),
            entries=len(log.entries),
            head=log.head,
            frozen=log.frozen,
            anchor=log.anchor,
            scope=token.scope,
            datasets=datasets,
            log=tuple(visible_entries(log.entries, token)),
            tokens=tokens,
        )
        return sign_export(content, self._service.settings.key)
