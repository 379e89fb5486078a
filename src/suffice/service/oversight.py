"""The audit log as owners and officers are shown it: which entries, whether it is whole, in words.

A token that covers some data sets shows their entries alone, and no hashes: the hash of an entry
depends on all entries before it, also on those of other data sets.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from http import HTTPStatus
from itertools import islice
from typing import Any, Literal, SupportsBytes

from suffice import strict_json
from suffice.errors import LedgerError
from suffice.owner.ledger.ledger import LostEntriesError, Snapshot, check_continues
from suffice.owner.ledger.log import (
    KINDS,
    Checkpoint,
    Kind,
    LogEntry,
    checked_chain,
    signed_checkpoint,
    utc_now,
)
from suffice.owner.ledger.rules import (
    OTHER,
    STATES,
    Balance,
    Charge,
    Entry,
    costs_of,
    stated_epsilon,
)
from suffice.owner.ledger.store import ROWS_AT_ONCE
from suffice.owner.ledger.tokens import Token
from suffice.plain_text import listed, name, quoted
from suffice.privacy.accounting import event_from_json
from suffice.privacy.guarantee import Guarantee, guarantee_sentences, lists
from suffice.protocol.export import (
    BudgetRecord,
    ChargeRecord,
    CostRecord,
    ProposalRecord,
    ServedRecord,
    finite,
    signed_export,
)
from suffice.releases.release import Signature
from suffice.releases.signing import fingerprint, signing_key
from suffice.service.problems import Problem, archived
from suffice.service.records import LOST, ListedProposal, StoredProposal, some_proposals
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
    """The end of an audit log that was checked up to there."""

    ledger: str = ""
    count: int = 0  # entries; 0 if it is broken
    head: str = ""  # the hash of the last entry, which depends on all of them
    problem: str = ""  # what is wrong with log or ledger
    frozen: str = ""  # why nothing can be charged until the ledger is recovered
    anchor: str = "none"  # what keeps the end of the log outside the ledger: file, command or none

    def alarms(self) -> list[str]:
        """Return what is wrong, in sentences."""
        frozen = f"The ledger is frozen: {self.frozen}. Nothing is charged until it is recovered."
        return [self.problem] * bool(self.problem) + [frozen] * bool(self.frozen)

    def words(self) -> list[str]:
        """Return what was checked and is right, in sentences."""
        if self.problem:
            return []
        return [
            f"The log is whole: {self.count:,} entries, each of which continues the last.",
            "Every budget, charge, token and stored release agreed with it at the server's start.",
            "Since then each new entry was checked. Use suffice ledger verify to check all again.",
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


def shown_time(text: str) -> str:
    """Return a time as all pages write it."""
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M} UTC"


def compare(
    log: CheckedLog, entries: Sequence[LogEntry], checkpoint: Checkpoint, key_id: str
) -> Comparison:
    """Return whether a log, with these entries, continues an older checkpoint.

    The checkpoint's signature is good for its own key; ``key_id`` is the service's.
    """
    verdict: Literal["agrees", "lost", "altered", "another-ledger"] = "agrees"
    later = log.count - checkpoint.entries
    words: tuple[str, ...] = (
        "The ledger still contains this checkpoint.",
        f"Its {checkpoint.entries:,} entries, signed {shown_time(checkpoint.time)}, are unchanged.",
        f"Entries that came later: {later:,}. About those, this checkpoint says nothing.",
    )
    if log.problem:
        verdict, words = "altered", (log.problem,)
    else:
        try:
            check_continues(entries, checkpoint)
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
        entries=log.count or None,
        head=log.head or None,
        frozen=log.frozen or None,
        checkpoint_key=checkpoint.key_id,
        service_key=key_id,
    )


# --- which entries


def visible_entries(entries: Iterable[LogEntry], token: Token) -> Iterator[LogEntry]:
    """Yield the entries that a token shows; all of them, unless it covers some data sets only."""
    if not token.scope:
        return iter(entries)
    reduced = (_reduced(entry, set(token.scope)) for entry in entries)
    return (entry for entry in reduced if entry is not None)


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
        return STEPS["countered"].words
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
        case Kind.BUDGET | Kind.RAISED:
            words = f"Budget: {_budgets(facts)}."
        case Kind.CLASSES:
            column = name(facts["label"] or "any")
            words = f"Classes of column {column}: {listed(facts['classes'])}."
        case Kind.DEBIT:
            of = f" {_request(facts)}." if "request" in facts else ""
            words = f"Charged: {_cost(facts['spent'])}.{of}"
        case Kind.FINISH:
            words = f"{_request(facts)}. SHA-256 {facts['release'][:16]}..."
        case Kind.BURNT:
            words = f"{_request(facts)}: charged, output lost."
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
        case Kind.DECISION if "budgets" in facts:
            decision, reason = name(facts["decision"]), quoted(facts["reason"])
            words = f"Budget: {_budgets(facts)}: {decision} by {quoted(facts['by'])}: {reason}."
        case Kind.DECISION:
            by = quoted(facts["by"])
            words = f"Proposal {facts['proposal'][:23]}... {name(facts['decision'])} by {by}."
        case Kind.REVOKED:
            words = f"Token {name(facts['token'])}."
        case Kind.ARCHIVED:
            words = (
                f"{facts['releases']:,} releases and {facts['proposals']:,} proposals are in a file"
                f" with SHA-256 {facts['file'][:16]}..., signed with key {name(facts['key'])}."
            )
        case Kind.FROZEN:
            words = f"{quoted(facts['reason'])}. Nothing can be charged."
        case Kind.RECOVERED:
            words = (
                f"Compared with {name(facts['compared'])} ({facts['entries']:,} entries):"
                f" {facts['entries_lost']:,} lost, {facts['releases_charged']:,} releases charged."
            )
    return words


def _request(facts: Mapping[str, Any]) -> str:
    """Return the name of a request; that of a proposal is a digest, and shortened."""
    text = str(facts["request"])
    is_digest = text.startswith("proposal ") and len(text) == len("proposal ") + 32
    return f"Request {name(text[:21])}..." if is_digest else f"Request {name(text)}"


def _budgets(facts: Mapping[str, Any]) -> str:
    return ", ".join(
        f"epsilon {float(epsilon):g} per {unit} at delta {float(delta):g}"
        for unit, (epsilon, delta) in facts["budgets"].items()
    )


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


_STATES: Mapping[str, str] = {
    "received": "waiting for the service",
    "waiting": "waiting for the owner",
    "approved": "approved, not released yet",
    LOST: STATES["burnt"],
}
_ORDER = ("waiting", "received", "approved", "granted", "countered", "refused", LOST, "archived")


@dataclass(frozen=True)
class Step:
    """What a state of a proposal is called on pages, and what comes next for whoever reads it."""

    words: str
    owner: str
    officer: str
    learner: str
    in_work: bool = False  # pages about it move on by themselves

    @classmethod
    def of(cls, words: str, everybody: str, *, in_work: bool = False) -> "Step":
        """Return a step that is the same for everybody."""
        return cls(words, everybody, everybody, everybody, in_work)


_MOVES_ON = "This page moves on by itself."
_UNCHARGED = "Nothing was charged."
STEPS: Mapping[str, Step] = {
    "received": Step.of(
        "in the queue", f"The service compares it with the policy. {_MOVES_ON}", in_work=True
    ),
    "waiting": Step(
        "waiting for the owner",
        "You decide below. Nothing is charged before that.",
        "The owner has to decide. Nothing is charged before that.",
        "The owner decides about it. Nothing is charged before that. Come back later, or keep this"
        " page: it moves on by itself.",
    ),
    "approved": Step.of(
        "being made", f"The budget is charged, and the release is made. {_MOVES_ON}", in_work=True
    ),
    "granted": Step(
        "granted",
        "The release is made and charged. Whoever proposed can fetch it.",
        "The release is made and charged. Whoever proposed can fetch it.",
        "The release is made. Download it, and train on it as below.",
    ),
    "countered": Step(
        "other terms offered",
        f"The policy allows less. {_UNCHARGED} The learner can propose what is offered.",
        f"The policy allows less. {_UNCHARGED} The learner can propose what is offered.",
        f"The policy allows less. {_UNCHARGED} You can propose what is offered.",
    ),
    "refused": Step(
        "refused",
        f"{_UNCHARGED} The learner is told the reason.",
        f"{_UNCHARGED} The learner is told the reason.",
        f"{_UNCHARGED} The reason is below. You can send another proposal.",
    ),
    LOST: Step(
        STATES["burnt"],
        "The charge stays, so that nothing is drawn twice. The learner can propose again, with"
        " another purpose. That is charged too.",
        "The charge stays, so that nothing is drawn twice. A new proposal is charged too.",
        "The charge stays, so that nothing is drawn twice. Propose again, with another purpose."
        " That is charged too.",
    ),
}
# What each kind of release is called on pages, and what of it becomes public.
KIND_TEXTS: Mapping[str, tuple[str, str]] = {
    "mean-operator": (
        "noisy averages of the columns by class",
        "One number per feature: its average, plus for one class and minus for the other, noisy.",
    ),
    "proportions": (
        "noisy class proportions of bags",
        "The proportion of each class in each bag of rows, with noise.",
    ),
    "bags": (
        "a random bag for each row",
        "A bag for each row, drawn at random: most often that of its class.",
    ),
    "moments": (
        "noisy means and products of the columns",
        "The means of the columns, of their products in pairs, and by class, with noise.",
    ),
    "rados": (
        "noisy sums over random subsets of records",
        "Sums of records over secret random subsets, with noise.",
    ),
    "responses": (
        "records whose cells are changed at random",
        "Every record, with each of its cells changed at random.",
    ),
}


def guarantee_lines(guarantee: Guarantee) -> list[str]:
    """Return what a guarantee says, and what it takes for public and assumes."""
    public = [str(text) for text in guarantee.public]
    return [*guarantee_sentences(guarantee), *lists(public, guarantee.assumptions)]


@dataclass(frozen=True)
class ProposalView:
    """A proposal, and what became of it, as pages show it."""

    number: int
    state: str  # a state of the records, the name of an answer, or "lost"
    record: ProposalRecord  # what the export says of it

    @property
    def guarantees(self) -> list[list[str]]:
        """What each guarantee of its release says and assumes."""
        return [
            [*stated.sentences, *lists(stated.public, stated.assumes)]
            for stated in self.record.guarantees
        ]

    @property
    def step(self) -> Step:
        """What its state is called, and what comes next."""
        return STEPS[self.state]


@lru_cache(maxsize=ROWS_AT_ONCE)  # of a proposal that is answered it stays the same
def proposal_record_of(text: str) -> ProposalRecord:
    """Return what the export says of a proposal, of its text."""
    return strict_json.read(ProposalRecord, json.loads(text), "record")


def _view(listed: ListedProposal) -> ProposalView:
    state = _STATES.get(listed.state, listed.state)
    shown = replace(proposal_record_of(listed.record), senders=listed.senders, state=state)
    return ProposalView(listed.number, listed.state, shown)


@dataclass(frozen=True)
class DatasetView:
    """A data set with its budgets, and its last proposals and charges, as pages show it."""

    name: str
    served: ServedRecord | None
    budgets: tuple[BudgetRecord, ...]
    numbers: Mapping[str, int]  # of proposals by state
    waiting: list[ProposalView]  # for the owner, newest first, as many as a page shows
    proposals: list[ProposalView]  # all others, newest first, as many as a page shows
    charges: list[ChargeRecord]  # newest first, as many as a page shows

    @property
    def counts(self) -> list[tuple[int, str]]:
        """How many proposals are in each state, in words, as far as there are any."""
        return [
            (self.numbers[s], STEPS[s].words if s in STEPS else s)
            for s in _ORDER
            if self.numbers.get(s)
        ]

    @property
    def older(self) -> int:
        """How many proposals a page does not show."""
        shown = len(self.waiting) + len(self.proposals) + self.numbers.get("archived", 0)
        return sum(self.numbers.values()) - shown


_SEVERAL = "a release of several data sets"


def charge_record(entry: Entry, dataset: str) -> ChargeRecord:
    """Return what a charge, which may be of several data sets, cost this one by itself."""
    own = entry.dataset == dataset
    costs = entry.charges if own else entry.also[dataset]
    time = datetime.fromtimestamp(entry.time, UTC).replace(microsecond=0)
    return ChargeRecord(
        number=entry.number,
        time=time.isoformat(),
        request=entry.request if own else _SEVERAL,
        state=STATES.get(entry.state, entry.state),
        cost=tuple(
            CostRecord(str(unit), finite(stated_epsilon(event, entry.stated_delta)))
            for unit, event in costs
        ),
        delta=entry.stated_delta,
    )


def budget_record(balance: Balance) -> BudgetRecord:
    """Return what one budget of a data set allows, and what is spent of it."""
    return BudgetRecord(
        unit=str(balance.unit),
        epsilon=balance.budget.epsilon,
        delta=balance.budget.delta,
        spent=finite(balance.spent),
        left=balance.left,
        charges=balance.debits,
    )


_quoted_json = json.encoder.encode_basestring  # of a text, as RFC 8785 wants it


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
        public = signing_key(self._service.settings.key).public_key().public_bytes_raw()
        return fingerprint(Signature(public, b""))

    def names(self, token: Token) -> dict[str, bool]:
        """Return the data sets with a budget that a token covers, and whether a proposal waits.

        Those of the settings come first.
        """
        waits = self._service.records.datasets()
        names = dict.fromkeys([*self._service.settings.datasets, *waits])
        return {name: waits[name] for name in names if name in waits and token.covers(name)}

    def datasets(self, token: Token, most: int, names: Iterable[str]) -> list[DatasetView]:
        """Return data sets, those that a token covers, with at most so many rows of each list."""
        return [
            DatasetView(
                name=dataset,
                served=self._served(dataset),
                budgets=tuple(map(budget_record, self._service.ledger.balances(dataset))),
                numbers=self._service.records.counts(dataset),
                waiting=self.proposals(dataset, most, waiting=True),
                proposals=self.proposals(dataset, most, waiting=False),
                charges=[
                    charge_record(entry, dataset)
                    for entry in self._service.ledger.history_of(dataset, most)
                ],
            )
            for dataset in names
            if token.covers(dataset)
        ]

    def _served(self, dataset: str) -> ServedRecord | None:
        stated = self._service.settings.datasets.get(dataset)
        if stated is None:
            return None
        largest = self._service.largest_epsilon(dataset)
        return ServedRecord(stated.label, stated.grants, stated.policy, largest, stated.sheet)

    def proposals(self, dataset: str, most: int, **which: Any) -> list[ProposalView]:
        """Return the last proposals of a data set, as `ServiceRecords.newest` selects them."""
        return [_view(row) for row in self._service.records.newest(dataset, most, **which)]

    def proposal(self, stored: StoredProposal) -> ProposalView:
        """Return one proposal, or raise if it was archived."""
        row = self._service.records.one(stored.dataset, stored.digest)
        if row is None:
            raise archived()
        return _view(row)

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
            with ledger.snapshot() as now:
                return CheckedLog(now.name, now.entries, now.head, frozen=frozen, anchor=anchor)
        except LedgerError as error:
            problem = _ALTERED if token.scope else str(error)
            return CheckedLog(problem=problem, frozen=frozen, anchor=anchor)

    def whole_log(self, token: Token) -> CheckedLog:
        """Return the end of the audit log, or raise if it is broken."""
        log = self.log(token)
        if log.problem:
            raise Problem(HTTPStatus.CONFLICT, log.problem)
        return log

    def entries(self, token: Token, before: int | None, most: int) -> list[LogEntry]:
        """Return the last entries that a token shows before the one of a number, newest first."""
        shown: list[LogEntry] = []
        number = 2**62 if before is None else before
        while len(shown) < most and number > 1:
            with self._service.ledger.store.reading() as records:
                older = records.log_before(number, ROWS_AT_ONCE if token.scope else most)
            shown += visible_entries(older, token)
            number = older[-1].number if older else 0
        return shown[:most]

    def entries_about(
        self, token: Token, dataset: str, after: int, most: int
    ) -> list["EntryRecord"]:
        """Return the entries about a data set, and about the ledger, after the one of a number."""
        with self._service.ledger.store.reading() as records:
            own = (entry for entry in records.log(after) if concerns(entry, dataset))
            return [
                entry_record(shown)
                for entry in islice(own, most)
                for shown in visible_entries([entry], token)
            ]

    def compare(self, token: Token, checkpoint: Checkpoint) -> Comparison:
        """Return whether the log continues an older checkpoint; all of it is read and checked."""
        ledger, entries = self._service.ledger, list[LogEntry]()
        try:
            entries = ledger.log()
            log = CheckedLog(count=len(entries), head=entries[-1].digest, frozen=ledger.frozen)
        except LedgerError as error:
            log = CheckedLog(problem=_ALTERED if token.scope else str(error), frozen=ledger.frozen)
        return compare(log, entries, checkpoint, self.key_id)

    def checkpoint(self, token: Token) -> Checkpoint:
        """Return the head of the log, signed with the service's key."""
        log = self.whole_log(token)
        key = self._service.settings.key
        return signed_checkpoint(log.ledger, log.count, log.head, utc_now(), key)

    def export(self, token: Token) -> tuple[list[SupportsBytes], int, str]:
        """Return the pieces of everything that a token shows, signed, their length and a name.

        Everything is read at one moment, whoever charges meanwhile.
        """
        settings, ledger = self._service.settings, self._service.ledger
        served = {name: self._served(name) for name in self.names(token)}
        facts: dict[str, Any] = {"anchor": ledger.anchor.kind, "scope": token.scope}
        facts |= {"organisation": settings.organisation, "time": utc_now()}
        facts["tokens"] = [shown.record() for shown in self.tokens(token)]
        kept = self._service.kept
        try:
            with kept.lock, ledger.snapshot() as now:
                kept.begin(now.records, now.entries, now.head)
                facts |= {"ledger": now.name, "entries": now.entries, "head": now.head}
                facts["frozen"] = now.frozen
                names = dict.fromkeys([*served, *(balance.dataset for balance in now.balances)])
                covered = filter(token.covers, names)
                pieces: dict[str, Iterable[SupportsBytes]] = {
                    "datasets": joined_array(self.pieces(now, n, served.get(n)) for n in covered),
                    "log": kept.array(("log", token.scope), partial(self.entries_run, now, token)),
                }
                pieces |= {n: [_canonical(value)] for n, value in facts.items()}
                signed, size = signed_export(pieces, settings.key)
        except LedgerError as error:
            raise Problem(HTTPStatus.CONFLICT, _ALTERED if token.scope else str(error)) from None
        return signed, size, f"{facts['time'][:10]}-{facts['entries']}.export.json"

    def entries_run(self, now: Snapshot, token: Token, after: int) -> tuple[list[str], int, bool]:
        """Return a run of the log as `KeptPieces.array` takes it; it continues what is before."""
        entries = islice(now.records.log(after), ROWS_AT_ONCE)
        checked = list(checked_chain(entries, after, now.records.head(after)[1]))
        texts = list(map(entry_text, visible_entries(checked, token)))
        return texts, after + len(checked), len(checked) == ROWS_AT_ONCE

    def pieces(
        self, now: Snapshot, dataset: str, served: ServedRecord | None
    ) -> Iterator[SupportsBytes]:
        """Yield the pieces of what an export says of one data set."""
        budgets = [budget_record(balance) for balance in now.balances if balance.dataset == dataset]
        shown, array = self._service.ledger.state_shown, self._service.kept.array

        def charges(after: int) -> tuple[list[str], int, bool]:
            some = list(now.records.charges(after, ROWS_AT_ONCE, dataset=dataset))
            texts = [charge_text(charge, shown(charge), dataset) for charge in some]
            ended = len(some) == ROWS_AT_ONCE and all(charge.closed for charge in some)
            return texts, some[-1].number if some else after, ended

        def proposals(after: int) -> tuple[list[str], int, bool]:
            where = "p.number > ? ORDER BY p.number LIMIT ?"
            some = some_proposals(now.records, dataset, where, (after, ROWS_AT_ONCE))
            answered = len(some) == ROWS_AT_ONCE and all(row.is_answered for row in some)
            return list(map(proposal_text, some)), some[-1].number if some else after, answered

        yield b'{"budgets":' + _canonical(budgets) + b',"charges":'
        yield from array(("charges", dataset), charges)
        yield b',"name":' + _canonical(dataset) + b',"proposals":'
        yield from array(("proposals", dataset), proposals)
        yield b',"served":' + _canonical(served) + b"}"


def _canonical(value: Any) -> bytes:
    return strict_json.canonical(strict_json.plain(value))


def joined_array(items: Iterable[Iterable[SupportsBytes]]) -> Iterator[SupportsBytes]:
    """Yield the pieces of a JSON array, of the pieces of its items."""
    mark = b"["
    for item in items:
        yield mark
        yield from item
        mark = b","
    yield b"[]" if mark == b"[" else b"]"


def entry_text(entry: LogEntry) -> str:
    """Return an entry of the log as an export holds it, canonical."""
    return (
        f'{{"digest":"{entry.digest}","kind":"{entry.kind}","number":{entry.number},"text":'
        f'{_quoted_json(entry.text)},"time":"{entry.time}"}}'
    )


def charge_text(charge: Charge, state: str, dataset: str) -> str:
    """Return a charge as an export holds it, canonical: what `ChargeRecord` says."""
    delta = float(charge.parameters.get("delta") or 0.0)
    time = datetime.fromtimestamp(charge.time, UTC).replace(microsecond=0).isoformat()
    request = charge.request if charge.dataset == dataset else _SEVERAL
    return (
        f'{{{cost_text(charge.spent, charge.dataset, dataset, delta)},"number":{charge.number},'
        f'"request":{_quoted_json(request)},"state":{_quoted_json(STATES.get(state, state))},'
        f'"time":"{time}"}}'
    )


@lru_cache(maxsize=ROWS_AT_ONCE)  # charges that are alike cost the same
def cost_text(spent: str, home: str, dataset: str, delta: float) -> str:
    """Return what a charge cost a data set, as members of a JSON object."""
    costs = costs_of(home, json.loads(spent))[dataset]
    records = [CostRecord(str(unit), finite(stated_epsilon(e, delta))) for unit, e in costs]
    return _canonical({"cost": records, "delta": delta})[1:-1].decode()


def proposal_text(row: ListedProposal) -> str:
    """Return a proposal as an export holds it, canonical: its record, with senders and state."""
    senders = ",".join(map(_quoted_json, row.senders))
    state = _quoted_json(_STATES.get(row.state, row.state))
    return row.record.replace('"senders":[],"state":""', f'"senders":[{senders}],"state":{state}')
