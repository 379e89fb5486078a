"""The records of the service: tokens, sessions, and proposals with what became of them.

They are in the database of the ledger, for all servers that share it. Budgets, charges and released
bytes are the ledger's own. A proposal that is lost loses no privacy: sent again, it gets the bytes
that the ledger holds.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from itertools import count
from tempfile import TemporaryFile
from typing import Any, NamedTuple, SupportsBytes

from suffice import strict_json
from suffice.errors import ParameterError
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.log import FIRST, Kind
from suffice.owner.ledger.store import Claim, Tables
from suffice.owner.ledger.tokens import Token, utc_now
from suffice.protocol.export import proposal_record
from suffice.protocol.messages import Answer, Proposal
from suffice.releases.codec import decode
from suffice.releases.file import split, with_signature
from suffice.service.settings import Limits

_PROPOSAL = "SELECT dataset, digest, body, received, state, answer, signature FROM proposals"
_WAITING = "AND p.state = 'waiting' AND p.verdict = ''"  # which an index finds
_OWN = (
    " AND EXISTS (SELECT 1 FROM senders AS s WHERE s.dataset = p.dataset AND s.digest ="
    " p.digest AND s.token = ?)"
)
LOST = "lost"  # charged, and its output was lost


class State(StrEnum):
    """What became of a proposal."""

    RECEIVED = "received"
    WAITING = "waiting"
    APPROVED = "approved"
    ANSWERED = "answered"
    ARCHIVED = "archived"


@dataclass(frozen=True)
class StoredProposal:
    """A proposal that arrived, and what became of it; its bytes are parsed once, when needed."""

    dataset: str  # that it was sent to
    digest: str
    body: bytes  # the proposal, canonical
    received: datetime  # UTC
    state: State
    answer: bytes | None = None
    signature: bytes | None = None  # of its release, whose bytes the ledger has

    @cached_property
    def proposal(self) -> Proposal:
        """What it asks for."""
        return Proposal.load(self.body)

    @cached_property
    def parsed_answer(self) -> Answer | None:
        """What was answered, if anything was."""
        return None if self.answer is None else Answer.load(self.answer)


@dataclass(frozen=True)
class ListedProposal:
    """A proposal as lists show it: no release is read for it."""

    number: int  # in the order of their arrival
    digest: str
    received: str
    state: str  # a state of the records, or the name of the answer, or `LOST`
    record: str  # what the export says of it, canonical, without senders and state
    senders: tuple[str, ...]
    is_answered: bool  # so that only its senders can change


@dataclass(frozen=True)
class _OpenFile:
    """An open file without a name; it ends when nobody reads it any more."""

    number: int

    def __del__(self) -> None:
        os.close(self.number)


class KeptPiece(NamedTuple):
    """A piece of an export in a file, which is read anew each time."""

    file: _OpenFile
    offset: int
    size: int

    def __bytes__(self) -> bytes:
        """Return its bytes."""
        return os.pread(self.file.number, self.size, self.offset)


class KeptPieces:
    """What exports say and what no longer changes, made once, in a file without a name.

    Entries of the log, charges that ended and proposals with an answer stay what they are. They are
    kept in runs of a thousand, by what they are about and the number of the row before. All are
    forgotten where the log does not continue the one that they were made of, where somebody was
    added to the senders of an old proposal, and where proposals were archived.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held by who makes an export: snapshots follow each other
        self._about: tuple[Any, ...] = ()
        self._end = (0, FIRST)

    def begin(self, records: Tables, entries: int, head: str) -> None:
        """Forget what is not so in a snapshot, whose log was checked and ends there."""
        query = (
            "SELECT (SELECT count(*) FROM senders) - (SELECT count(*) FROM proposals), (SELECT"
            " count(*) FROM log WHERE kind = 'archived')"
        )
        about = tuple(records.db.execute(query).fetchone())
        if about != self._about or records.head(self._end[0]) != self._end:
            self._size, self._runs = 0, dict[tuple[object, ...], tuple[SupportsBytes, int]]()
            self._file: _OpenFile | None = None
        self._about, self._end = about, (entries, head)

    def array(
        self, about: tuple[object, ...], run: Callable[[int], tuple[list[str], int, bool]]
    ) -> Iterator[SupportsBytes]:
        """Yield the pieces of a JSON array.

        ``run`` returns the texts of the rows after a number, the number of the last of them, and
        whether this is a whole run of rows that no longer change.
        """
        after, mark = 0, b"["
        while True:
            piece, last = self._runs.get((*about, after), (b"", after))
            if last == after:
                texts, last, is_final = run(after)
                if last == after:
                    break
                piece = ",".join(texts).encode()
                if is_final:
                    piece = self.keep(piece)
                    self._runs[(*about, after)] = piece, last
            if piece:
                yield mark
                yield piece
                mark = b","
            after = last
        yield b"[]" if mark == b"[" else b"]"

    def keep(self, piece: bytes) -> SupportsBytes:
        """Return a piece that is in the file; as it is, where the file cannot be written."""
        if not piece:
            return piece
        try:
            if self._file is None:
                with TemporaryFile() as made:
                    self._file = _OpenFile(os.dup(made.fileno()))
            if os.pwrite(self._file.number, piece, self._size) < len(piece):
                return piece
        except OSError:
            return piece
        kept = KeptPiece(self._file, self._size, len(piece))
        self._size += len(piece)
        return kept


class ServiceRecords:
    """Keeps tokens, sessions and proposals in the database of a ledger, for several servers."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._store = ledger, ledger.store
        self._turns: Counter[tuple[str, str]] = Counter()  # the last of each token, by data set
        self._numbers = count(1)  # of turns
        self._open: set[str] = set()  # data sets that have a budget

    # --- tokens

    def add_token(self, token: Token) -> None:
        """Write a new token down, in the audit log too."""
        with self._store.writing() as records:
            records.add_token(token)

    def token(self, identity: str) -> Token | None:
        """Return the token of this id, or None."""
        with self._store.reading() as records:
            return records.token(identity)

    def tokens(self) -> list[Token]:
        """Return every token, oldest first; none of them holds its secret."""
        with self._store.reading() as records:
            return records.tokens()

    def revoke_token(self, identity: str) -> None:
        """Make a token useless from now on, at every server."""
        with self._store.writing() as records:
            exists = records.revoke_token(identity, utc_now())
        if not exists:
            raise ParameterError("There is no token of this id. `suffice token list` shows them.")

    def note_use(self, token: Token) -> None:
        """Write down the day on which a token was used last; the hour is nobody's business."""
        today = utc_now().replace(hour=0, minute=0, second=0)
        if token.used == today:
            return
        with self._store.writing() as records:
            records.use_token(token.id, today)

    # --- sessions

    def add_session(self, digest: str, token: str, csrf: str, expires: datetime) -> None:
        """Write a new session down, and forget those that have ended."""
        with self._store.writing() as records:
            records.db.execute("DELETE FROM sessions WHERE expires < ?", (utc_now().isoformat(),))
            row = (digest, token, csrf, expires.isoformat())
            records.db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?)", row)

    def session(self, digest: str) -> tuple[str, str, str, datetime] | None:
        """Return hash, token, CSRF token and end of a session, or None."""
        query = "SELECT hash, token, csrf, expires FROM sessions WHERE hash = ?"
        with self._store.reading() as records:
            row = records.db.execute(query, (digest,)).fetchone()
        return None if row is None else (row[0], row[1], row[2], datetime.fromisoformat(row[3]))

    def end_session(self, digest: str) -> None:
        """Forget a session."""
        with self._store.writing() as records:
            records.db.execute("DELETE FROM sessions WHERE hash = ?", (digest,))

    # --- proposals

    def datasets(self) -> dict[str, bool]:
        """Return every data set that has a budget, and whether a proposal waits for its owner."""
        query = (
            "SELECT d.name, EXISTS (SELECT 1 FROM proposals AS p WHERE p.dataset = d.name"  # noqa: S608  # our own words
            f" {_WAITING}) FROM datasets AS d ORDER BY d.name"
        )
        with self._store.reading() as records:
            return {name: bool(waits) for name, waits in records.db.execute(query)}

    def is_open(self, dataset: str) -> bool:
        """Say whether the ledger has a budget of a data set, which it then keeps."""
        if dataset not in self._open:
            with self._store.reading() as records:
                self._open.update(records.datasets())
        return dataset in self._open

    def add_proposal(
        self, dataset: str, digest: str, body: bytes, token: str, limits: Limits
    ) -> bool:
        """Store a proposal, unless it is there already; say whether there is room for it.

        ``token`` is the id of the token that sends it.
        """
        with self._store.writing() as records:
            if _stored(records, dataset, digest) is None:
                if not _has_room(records, dataset, token, limits):
                    return False
                (last,) = records.db.execute("SELECT max(number) FROM proposals").fetchone()
                row = ((last or 0) + 1, dataset, digest, body, utc_now().isoformat())
                statement = (
                    "INSERT INTO proposals VALUES (?, ?, ?, ?, ?, 'received', '', NULL, NULL, NULL)"
                )
                records.db.execute(statement, row)
            statement = "INSERT INTO senders VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
            records.db.execute(statement, (dataset, digest, token))
            return True

    def has_sent(self, token: str, dataset: str, digest: str) -> bool:
        """Say whether a token sent a proposal."""
        query = "SELECT 1 FROM senders WHERE token = ? AND dataset = ? AND digest = ?"
        with self._store.reading() as records:
            return records.db.execute(query, (token, dataset, digest)).fetchone() is not None

    def proposal(self, dataset: str, digest: str) -> StoredProposal | None:
        """Return a proposal that arrived, or None; an archived one as its archive has it.

        Where the archive is not at hand, its state says so.
        """
        with self._store.reading() as records:
            stored = _stored(records, dataset, digest)
            if stored is None or stored.state is not State.ARCHIVED:
                return stored
            query = "SELECT number FROM proposals WHERE dataset = ? AND digest = ?"
            (number,) = records.db.execute(query, (dataset, digest)).fetchone()
        names = ("proposal.json", "answer.json", "signature")
        kept = (self._ledger.archived(f"proposals/{number}/{name}") for name in names)
        body, answer, signature = kept
        if body is None or answer is None:
            return stored
        return replace(stored, body=body, state=State.ANSWERED, answer=answer, signature=signature)

    def release(self, stored: StoredProposal) -> bytes | None:
        """Return the release that a proposal was granted, signed as the answer names it, or None.

        Its bytes are the ledger's. The records hold the signature alone.
        """
        if stored.signature is None:
            return None
        data = self.output(stored.dataset, stored.proposal.request)
        return None if data is None else with_signature(data, stored.signature)

    def output(self, dataset: str, request: str) -> bytes | None:
        """Return the release of a request as the ledger or its archive holds it, or None."""
        with self._store.reading() as records:
            charge = records.charge(dataset, request)
            data = None if charge is None else records.output(charge.number)
        if data is None and charge is not None:
            data = self._ledger.archived(f"releases/{charge.number}.suffice", charge.release)
        return data

    def page(
        self, dataset: str, sender: str | None, *, after: str | None = None, most: int
    ) -> list[ListedProposal]:
        """Return at most ``most`` proposals of a data set, oldest first.

        With a sender, the id of a token, only what it sent. The list begins after the proposal
        whose digest is ``after``.
        """
        own = "" if sender is None else _OWN
        values = () if sender is None else (sender,)
        place = f"SELECT number FROM proposals AS p WHERE dataset = ? AND digest = ?{own}"  # noqa: S608  # our own words
        with self._store.reading() as records:
            row = records.db.execute(place, (dataset, after or "", *values)).fetchone()
            first = 0 if row is None else row[0]
            where = f"p.number > ?{own} ORDER BY p.number LIMIT ?"
            return some_proposals(records, dataset, where, (first, *values, most))

    def newest(
        self,
        dataset: str,
        most: int,
        *,
        before: int | None = None,
        waiting: bool | None = None,
        sender: str | None = None,
    ) -> list[ListedProposal]:
        """Return the last proposals of a data set, newest first, or those before a number.

        With ``waiting``, only those that wait for the owner, or only the others. With a sender, the
        id of a token, only what it sent.
        """
        which = {None: "", True: _WAITING, False: "AND p.state <> 'waiting'"}
        own = "" if sender is None else _OWN
        where = f"p.number < ? {which[waiting]}{own} ORDER BY p.number DESC LIMIT ?"
        values = (2**62 if before is None else before, *([] if sender is None else [sender]), most)
        with self._store.reading() as records:
            return some_proposals(records, dataset, where, values)

    def one(self, dataset: str, digest: str) -> ListedProposal | None:
        """Return one proposal as lists show it; None if there is none, or it is archived."""
        with self._store.reading() as records:
            return next(iter(some_proposals(records, dataset, "p.digest = ?", (digest,))), None)

    def counts(self, dataset: str) -> dict[str, int]:
        """Return how many proposals of a data set are in each state."""
        query = (
            "SELECT state, verdict, count(*) FROM proposals WHERE dataset = ? GROUP BY state,"
            " verdict"
        )
        counts: dict[str, int] = {}
        with self._store.reading() as records:
            for state, verdict, count in records.db.execute(query, (dataset,)):
                name = _shown_state(state, verdict)
                counts[name] = counts.get(name, 0) + count
        return counts

    def next_to_work_on(self, dataset: str) -> StoredProposal | None:
        """Return the proposal that a worker has to look at next, or None.

        Tokens take turns: it is the oldest one of the token whose last turn is longest ago. So
        nobody who sends many keeps others waiting. The order depends on who sent what and when.
        """
        query = (
            "SELECT s.token, min(p.number) FROM proposals AS p JOIN senders AS s ON s.dataset ="
            " p.dataset AND s.digest = p.digest WHERE p.dataset = ? AND p.state IN ('received',"
            " 'approved') GROUP BY s.token"
        )
        with self._store.reading() as records:
            heads = records.db.execute(query, (dataset,)).fetchall()
            if not heads:
                return None
            turns = ((self._turns[dataset, token], number) for token, number in heads)
            row = records.db.execute(f"{_PROPOSAL} WHERE number = ?", min(turns)[1:]).fetchone()
        return _stored_of(row)

    def end_turn(self, proposal: StoredProposal) -> None:
        """Let those who sent a proposal wait for all others who wait."""
        query = "SELECT token FROM senders WHERE dataset = ? AND digest = ?"
        with self._store.reading() as records:
            senders = [*records.db.execute(query, (proposal.dataset, proposal.digest))]
        turn = next(self._numbers)
        for (token,) in senders:
            self._turns[proposal.dataset, token] = turn

    def move(self, proposal: StoredProposal, state: State, by: Token | None = None) -> bool:
        """Move a proposal on, if it is still where the caller saw it; say whether it was.

        Who decided so, if anybody did, is in the audit log of the same transaction.
        """
        statement = "UPDATE proposals SET state = ? WHERE dataset = ? AND digest = ? AND state = ?"
        row = (str(state), proposal.dataset, proposal.digest, str(proposal.state))
        with self._store.writing() as records:
            moved = bool(records.db.execute(statement, row).rowcount == 1)
            if moved and by is not None:
                records.append(Kind.DECISION, _decision(proposal, "granted", by))
        return moved

    def agreed(self, dataset: str, digest: str) -> list[str]:
        """Return who agreed to a proposal so far, as the audit log names them."""
        return self._ledger.agreed(dataset, digest)

    def agree(self, proposal: StoredProposal, by: Token, identity: str) -> bool:
        """Note that one of two people agrees; approve if the other one did; say what was new.

        ``identity`` is how every holder ends that is this person. Both are in the audit log.
        """
        statement = (
            "UPDATE proposals SET state = 'approved' WHERE dataset = ? AND digest = ? AND state ="
            " 'waiting'"
        )
        query = "SELECT state FROM proposals WHERE dataset = ? AND digest = ?"
        place = (proposal.dataset, proposal.digest)
        with self._store.writing() as records:
            (state,) = records.db.execute(query, place).fetchone()
            earlier = self._ledger.agreed(*place, records)
            if state != State.WAITING or any(holder.endswith(identity) for holder in earlier):
                return False
            records.append(
                Kind.DECISION, _decision(proposal, "granted" if earlier else "agreed", by)
            )
            if earlier:
                records.db.execute(statement, place)
        return True

    def answer(
        self,
        proposal: StoredProposal,
        answer: bytes,
        release: bytes | None,
        entry: tuple[Kind, Mapping[str, Any]] | None = None,
        by: Token | None = None,
    ) -> bool:
        """Answer a proposal, if it is still where the caller saw it; say whether it was.

        ``entry``, of the audit log, is written in the same transaction, and who refused.
        """
        statement = (
            "UPDATE proposals SET state = 'answered', verdict = ?, answer = ?, signature = ?,"
            " record = ? WHERE dataset = ?"
            " AND digest = ? AND state = ?"
        )
        parsed = Answer.load(answer)
        guarantees = () if release is None else decode(release).guarantees
        record = proposal_record(proposal.proposal, proposal.received, parsed, guarantees)
        text = strict_json.canonical(strict_json.plain(record)).decode()
        signature = None if release is None else split(release)[2]
        place = (proposal.dataset, proposal.digest, str(proposal.state))
        with self._store.writing() as records:
            charge = records.charge(proposal.dataset, proposal.proposal.request)
            lost = charge is not None and charge.state != "finished"
            verdict = LOST if lost else parsed.name
            row = (verdict, answer, signature, text, *place)
            stored = bool(records.db.execute(statement, row).rowcount == 1)
            if stored and entry is not None:
                kind, facts = entry
                records.append(kind, {"dataset": proposal.dataset, **facts}, once=True)
            if stored and by is not None:
                records.append(Kind.DECISION, _decision(proposal, "refused", by))
        return stored

    # --- leases

    @contextmanager
    def lease(self, dataset: str) -> Iterator[bool]:
        """Lease a data set to work on, until the block ends; say whether it was free.

        One server at a time works on a data set, so that proposals are answered in the order in
        which they arrived. The lease of a server that died, or lost the database, is free again.
        """
        claim = self._take_lease(dataset)
        try:
            yield claim is not None
        finally:
            if claim is not None:
                claim.release()

    def _take_lease(self, dataset: str) -> Claim | None:
        with self._store.reading() as records:
            before = _lease_holder(records, dataset)
        if before and self._store.held(before):
            return None
        claim = self._store.claim()
        try:
            with self._store.writing(claim) as records:
                free = _lease_holder(records, dataset) == before  # or another server was faster
                if free:
                    records.db.execute("DELETE FROM leases WHERE dataset = ?", (dataset,))
                    records.db.execute("INSERT INTO leases VALUES (?, ?)", (dataset, claim.token))
        except BaseException:
            claim.release()
            raise
        if not free:
            claim.release()
            return None
        return claim


def _decision(proposal: StoredProposal, decision: str, by: Token) -> dict[str, Any]:
    """Return what the log says of an owner's decision: whose it was, and as whom they signed in."""
    about = {"dataset": proposal.dataset, "proposal": proposal.digest, "decision": decision}
    return {**about, "token": by.id, "by": by.holder}


def _lease_holder(records: Tables, dataset: str) -> str:
    """Return the name of the lock of the server that holds the lease, or held it; "" for none."""
    row = records.db.execute("SELECT holder FROM leases WHERE dataset = ?", (dataset,)).fetchone()
    return "" if row is None else str(row[0])


def _has_room(records: Tables, dataset: str, token: str, limits: Limits) -> bool:
    """Say whether a token may file one more proposal."""
    is_open = "p.state NOT IN ('answered', 'archived')"
    open_ones = f"SELECT count(*) FROM proposals AS p WHERE p.dataset = ? AND {is_open}"  # noqa: S608  # our own words
    own = "SELECT count(*) FROM senders AS s WHERE s.token = ?"
    both = "senders AS s JOIN proposals AS p ON s.dataset = p.dataset AND s.digest = p.digest"
    own_open = f"SELECT count(*) FROM {both} WHERE s.token = ? AND {is_open}"  # noqa: S608  # our own words
    counts = ((open_ones, dataset), (own, token), (own_open, token))
    most = (limits.waiting_proposals, limits.proposals_of_one_token, limits.waiting_of_one_token)
    stored = [records.db.execute(query, (value,)).fetchone()[0] for query, value in counts]
    return all(count < limit for count, limit in zip(stored, most, strict=True))


def some_proposals(
    records: Tables, dataset: str, where: str, values: Sequence[Any]
) -> list[ListedProposal]:
    """Return the proposals of a data set that a condition selects, in its order, with senders."""
    query = (
        "SELECT p.number, p.digest, p.received, p.state, p.verdict, p.record, CASE WHEN p.record IS"
        " NULL THEN p.body END FROM proposals AS p WHERE p.dataset = ? AND p.state <> 'archived'"
    )
    rows = records.db.execute(f"{query} AND {where}", (dataset, *values)).fetchall()
    numbers = [row[0] for row in rows] or [0]
    sent = (
        "SELECT p.number, t.holder, t.id FROM proposals AS p CROSS JOIN senders AS s CROSS JOIN"
        " tokens AS t WHERE s.dataset = p.dataset AND s.digest = p.digest AND t.id = s.token AND"
        " p.dataset = ? AND p.number >= ? AND p.number <= ? ORDER BY t.minted"
    )
    senders: dict[int, tuple[str, ...]] = {}
    for number, holder, identity in records.db.execute(sent, (dataset, min(numbers), max(numbers))):
        senders[number] = (*senders.get(number, ()), f"{holder} ({identity})")
    found = []
    for number, digest, received, state, verdict, record, body in rows:
        shown = _shown_state(state, verdict)
        if record is None:  # it has no answer yet
            proposal = Proposal.load(body)
            charge = records.charge(dataset, proposal.request)
            shown = LOST if charge is not None and charge.state == "burnt" else shown
            open_one = proposal_record(proposal, datetime.fromisoformat(received))
            text = strict_json.canonical(strict_json.plain(open_one)).decode()
        else:
            text = record
        whom, is_answered = senders.get(number, ()), state == State.ANSWERED
        found.append(ListedProposal(number, digest, received, shown, text, whom, is_answered))
    return found


def _shown_state(state: str, verdict: str) -> str:
    return verdict if state == State.ANSWERED else state


def _stored(records: Tables, dataset: str, digest: str) -> StoredProposal | None:
    query = f"{_PROPOSAL} WHERE dataset = ? AND digest = ?"
    row = records.db.execute(query, (dataset, digest)).fetchone()
    return None if row is None else _stored_of(row)


def _stored_of(row: tuple[str, str, bytes, str, str, bytes | None, bytes | None]) -> StoredProposal:
    dataset, digest, body, received, state, answer, signature = row
    time = datetime.fromisoformat(received)
    return StoredProposal(dataset, digest, body, time, State(state), answer, signature)
