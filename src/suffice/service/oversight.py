"""The audit log as owners and officers are shown it: which entries, whether it is whole, in words.

A token that covers some data sets shows their entries alone, and no hashes: the hash of an entry
depends on all entries before it, also on those of other data sets.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Literal

from suffice.errors import LedgerError
from suffice.owner.ledger.ledger import LostEntriesError, check_continues
from suffice.owner.ledger.log import KINDS, Checkpoint, Kind, LogEntry, signed_checkpoint, utc_now
from suffice.owner.ledger.rules import OTHER, STATES, Balance, Entry, stated_epsilon
from suffice.owner.ledger.tokens import Token
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
from suffice.protocol.messages import Countered, Granted
from suffice.release.codec import decode
from suffice.release.file import read_bounded
from suffice.release.signing import key_fingerprint
from suffice.service.problems import Problem
from suffice.service.records import StoredProposal
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


@dataclass(frozen=True)
class Comparison:
    """What became of an older checkpoint.

    It is lost where entries are missing or others, and altered where the log is broken.
    """

    verdict: Literal["agrees", "lost", "altered", "another-ledger"]
    agrees: bool
    words: tuple[str, ...]
    entries: int | None
    head: str | None
    frozen: str | None
    checkpoint_key: str
    service_key: str


def compare(log: CheckedLog, checkpoint: Checkpoint, key_id: str) -> Comparison:
    """Return whether a log, as it is now, continues an older checkpoint.

    The checkpoint's signature is good for its own key; ``key_id`` is the service's.
    """
    verdict: Literal["agrees", "lost", "altered", "another-ledger"] = "agrees"
    later = len(log.entries) - checkpoint.entries
    words: tuple[str, ...] = (
        "The ledger still contains this checkpoint.",
        f"Its {checkpoint.entries:,} entries were signed at {checkpoint.time}, and none differs.",
        f"Entries that came later: {later:,}. About those, this checkpoint says nothing.",
    )
    if log.problem:
        verdict, words = "altered", (log.problem,)
    else:
        try:
            check_continues(log.entries, checkpoint)
        except LostEntriesError as error:
            verdict, words = "lost", (str(error),)
        except LedgerError as error:
            verdict, words = "another-ledger", (str(error),)
    if checkpoint.key_id != key_id:
        other_key = (
            f"This checkpoint is signed with key {checkpoint.key_id}. The service signs with key"
            f" {key_id} now. Believe the result only if you know the older key."
        )
        words = (other_key, *words)
    return Comparison(
        verdict=verdict,
        agrees=verdict == "agrees",
        words=words,
        entries=len(log.entries) or None,
        head=log.head or None,
        frozen=log.frozen or None,
        checkpoint_key=checkpoint.key_id,
        service_key=key_id,
    )


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
    try:
        words = _known_words(entry.kind, entry.facts)
    except (KeyError, TypeError, ValueError, AttributeError):  # an entry of another version
        words = None
    if words is None:  # this version has no sentence for it
        return "; ".join(f"{name(key)}: {name(value)}" for key, value in entry.facts.items())
    return words


def _known_words(kind: str, facts: Mapping[str, Any]) -> str | None:
    words = None
    match kind:
        case Kind.OPENED:
            words = f"Ledger {name(facts['ledger'])}."
        case Kind.BUDGET:
            budgets = [
                f"epsilon {float(epsilon):g} per {unit} at delta {float(delta):g}"
                for unit, (epsilon, delta) in facts["budgets"].items()
            ]
            words = f"Budget: {', '.join(budgets)}."
        case Kind.CLASSES:
            column = name(facts["label"] or "any")
            words = f"Classes of column {column}: {listed(facts['classes'])}."
        case Kind.DEBIT:
            request = facts.get("request")
            of = "" if request is None else f" Request {name(request)}."
            words = f"Charged: {_cost(facts['spent'])}.{of}"
        case Kind.FINISH:
            words = f"Request {name(facts['request'])}. SHA-256 {facts['release'][:16]}..."
        case Kind.BURNT:
            words = f"Request {name(facts['request'])}: charged, output lost."
        case Kind.GRANT:
            words = f"{_asked(facts)} Release {facts['release'][:23]}..."
        case Kind.REFUSAL if "answer" in facts:
            reasons = "; ".join(quoted(reason) for reason in facts["reasons"][:8])
            words = f"{_asked(facts)} Reasons: {reasons}."
        case Kind.REFUSAL:
            known = "reason" in facts
            reason = quoted(facts["reason"]) if known else "the budget does not allow it"
            words = f"{_cost(facts['spent'])}: {reason}."
        case Kind.MINTED:
            words = (
                f"Token {name(facts['token'])} for {quoted(facts['holder'])}:"
                f" {name(facts['role'])} of {listed(facts['scope']) or 'all data sets'}, until"
                f" {facts['expires'][:10]}."
            )
        case Kind.REVOKED:
            words = f"Token {name(facts['token'])}."
        case Kind.FROZEN:
            words = f"{quoted(facts['reason'])}. Nothing can be charged."
        case Kind.RECOVERED:
            words = (
                f"Compared with {name(facts['compared'])} ({facts['entries']:,} entries):"
                f" {facts['entries_lost']:,} lost, {facts['releases_charged']:,} releases charged."
            )
    return words


def _cost(lines: Sequence[Mapping[str, Any]]) -> str:
    costs = []
    for line in lines:
        epsilon = stated_epsilon(event_from_json(line["event"]), 0.0)
        cost = f"epsilon {epsilon:.4g}" if epsilon < float("inf") else "noise that needs a delta"
        other = f" of {name(line[OTHER])}" if OTHER in line else ""
        costs.append(f"{cost} per {line['unit']}{other}")
    return ", ".join(costs)


def _asked(facts: Mapping[str, Any]) -> str:
    purpose = quoted(facts["purpose"]) if facts["purpose"] else "no purpose stated"
    delta = f", delta {facts['delta']:g}" if facts["delta"] else ""
    return f"Epsilon {facts['epsilon']:g}{delta}, purpose: {purpose}."


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
    """A proposal, and what became of it, as pages show it."""

    state: str  # a state of the records, the name of an answer, or "lost"
    record: ProposalRecord  # what the export says of it
    row_hash: str  # of its public rows
    guarantees: list[list[str]]  # what each guarantee of its release says and assumes


@dataclass(frozen=True)
class DatasetView:
    """A data set with its budgets, proposals and charges, as pages show it."""

    record: DatasetRecord  # what the export says of it; charges from the command line too
    proposals: list[ProposalView]  # newest first
    other_charges: list[ChargeRecord]  # of releases that no proposal asked for, newest first

    @property
    def counts(self) -> list[tuple[int, str]]:
        """How many proposals are in each state, in words, as far as there are any."""
        numbers = Counter(view.state for view in self.proposals)
        return [(numbers[s], _STATES.get(s, s)) for s in _ORDER if numbers[s]]


def _charge_record(entry: Entry, dataset: str) -> ChargeRecord:
    """Return what a charge, which may be of several data sets, cost this one by itself."""
    own = entry.dataset == dataset
    costs = entry.charges if own else entry.also[dataset]
    time = datetime.fromtimestamp(entry.time, UTC).replace(microsecond=0)
    return ChargeRecord(
        number=entry.number,
        time=time.isoformat(),
        request=entry.request if own else "a release of several data sets",
        state=STATES.get(entry.state, entry.state),
        cost=tuple(
            CostRecord(str(unit), _finite(stated_epsilon(event, entry.stated_delta)))
            for unit, event in costs
        ),
        delta=entry.stated_delta,
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
        served = self._service.settings.datasets
        balances, history = self._service.ledger.balances(), self._service.ledger.history()
        names = dict.fromkeys([*served, *(balance.dataset for balance in balances)])
        views = []
        for dataset in filter(token.covers, names):
            stated = served.get(dataset)
            stored = [] if stated is None else self._service.records.proposals(dataset)
            charged = [entry for entry in history if dataset in (entry.dataset, *entry.also)]
            lost = {entry.request for entry in charged if entry.state == "burnt"}
            proposals = [self._view(proposal, lost) for proposal in stored]
            asked = {proposal.proposal.request for proposal in stored}
            charges = [_charge_record(entry, dataset) for entry in charged]
            record = DatasetRecord(
                name=dataset,
                served=None
                if stated is None
                else ServedRecord(
                    stated.label,
                    stated.grants,
                    stated.policy,
                    self._service.largest_epsilon(dataset),
                ),
                budgets=tuple(budget_record(b) for b in balances if b.dataset == dataset),
                proposals=tuple(view.record for view in proposals),
                charges=tuple(charges),
            )
            pairs = zip(charged, charges, strict=True)
            others = [charge for entry, charge in pairs if entry.request not in asked]
            views.append(DatasetView(record, proposals[::-1], others[::-1]))
        return views

    def proposal(self, stored: StoredProposal) -> ProposalView:
        """Return one proposal."""
        history = self._service.ledger.history()
        own = [entry for entry in history if entry.dataset == stored.dataset]
        return self._view(stored, {entry.request for entry in own if entry.state == "burnt"})

    def _view(self, stored: StoredProposal, lost: set[str]) -> ProposalView:
        proposal, answer = stored.proposal, stored.parsed_answer
        state = str(stored.state) if answer is None else answer.name
        if proposal.request in lost:
            state = _LOST
        guarantees = () if stored.release is None else decode(stored.release).guarantees
        record = ProposalRecord(
            proposal=stored.digest,
            received=stored.received.isoformat(),
            senders=tuple(self._service.records.senders(stored.dataset, stored.digest)),
            purpose=proposal.purpose,
            kind=proposal.kind,
            terms=proposal.terms,
            rows=proposal.rows.count,
            features=proposal.features,
            classes=proposal.classes,
            state=_STATES.get(state, state),
            reasons=getattr(answer, "reasons", ()),
            offer=answer.terms if isinstance(answer, Countered) else None,
            release=answer.release if isinstance(answer, Granted) else None,
            guarantees=tuple(map(_guarantee_record, guarantees)),
        )
        lines = [[*guarantee_sentences(guarantee), *lists(guarantee)] for guarantee in guarantees]
        return ProposalView(state, record, proposal.rows.hash, lines)

    def tokens(self, token: Token) -> list[Token]:
        """Return the tokens that are good for a data set that this one covers, without others."""
        tokens = self._service.records.tokens()
        if not token.scope:
            return tokens
        own = [t for t in tokens if any(t.covers(name) for name in token.scope)]
        return [replace(t, scope=tuple(n for n in t.scope if n in token.scope)) for t in own]

    def log(self, token: Token) -> CheckedLog:
        """Return the audit log after checking it; a log that is broken is a result, and no error.

        A reader of some data sets is not told which part of the ledger was altered. What to show
        of the log, `visible_entries` says.
        """
        ledger = self._service.ledger
        frozen, anchor = ledger.frozen, ledger.anchor.kind
        try:
            return CheckedLog(ledger.log(), frozen=frozen, anchor=anchor)
        except LedgerError as error:
            problem = _ALTERED if token.scope else str(error)
            return CheckedLog(problem=problem, frozen=frozen, anchor=anchor)

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
            datasets = tuple(view.record for view in self.datasets(token))
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
