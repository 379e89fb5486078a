"""The records of the service: tokens, sessions, and proposals with what became of them.

They are in the database of the ledger, for all servers that share it. Budgets, charges and released
bytes are the ledger's own. A proposal that is lost loses no privacy: sent again, it gets the bytes
that the ledger holds.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

from suffice.errors import ParameterError
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.log import Kind
from suffice.owner.ledger.store import Claim, Tables
from suffice.owner.ledger.tokens import Token, utc_now
from suffice.protocol.messages import Answer, Proposal
from suffice.service.settings import Limits

_PROPOSAL = "SELECT dataset, digest, body, received, state, answer, release FROM proposals"


class State(StrEnum):
    """What became of a proposal."""

    RECEIVED = "received"
    WAITING = "waiting"
    APPROVED = "approved"
    ANSWERED = "answered"


@dataclass(frozen=True)
class StoredProposal:
    """A proposal that arrived, and what became of it; its bytes are parsed once, when needed."""

    dataset: str  # that it was sent to
    digest: str
    body: bytes  # the proposal, canonical
    received: datetime  # UTC
    state: State
    answer: bytes | None = None
    release: bytes | None = None

    @cached_property
    def proposal(self) -> Proposal:
        """What it asks for."""
        return Proposal.load(self.body)

    @cached_property
    def parsed_answer(self) -> Answer | None:
        """What was answered, if anything was."""
        return None if self.answer is None else Answer.load(self.answer)


class ServiceRecords:
    """Keeps tokens, sessions and proposals in the database of a ledger, for several servers."""

    def __init__(self, ledger: Ledger) -> None:
        self._store = ledger.store

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
                records.db.execute(
                    "INSERT INTO proposals VALUES (?, ?, ?, ?, ?, 'received', NULL, NULL)", row
                )
            statement = "INSERT INTO senders VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
            records.db.execute(statement, (dataset, digest, token))
            return True

    def has_sent(self, token: str, dataset: str, digest: str) -> bool:
        """Say whether a token sent a proposal."""
        query = "SELECT 1 FROM senders WHERE token = ? AND dataset = ? AND digest = ?"
        with self._store.reading() as records:
            return records.db.execute(query, (token, dataset, digest)).fetchone() is not None

    def senders(self, dataset: str, digest: str) -> list[str]:
        """Return the holders of the tokens that sent a proposal."""
        query = (
            "SELECT holder, id FROM senders JOIN tokens ON token = id WHERE dataset = ? AND"
            " digest = ? ORDER BY minted"
        )
        with self._store.reading() as records:
            rows = records.db.execute(query, (dataset, digest)).fetchall()
        return [f"{holder} ({identity})" for holder, identity in rows]

    def proposal(self, dataset: str, digest: str) -> StoredProposal | None:
        """Return a proposal that arrived, or None."""
        with self._store.reading() as records:
            return _stored(records, dataset, digest)

    def proposals(self, dataset: str) -> list[StoredProposal]:
        """Return every proposal of a data set, oldest first."""
        with self._store.reading() as records:
            rows = records.db.execute(f"{_PROPOSAL} WHERE dataset = ? ORDER BY number", (dataset,))
            return [_stored_of(row) for row in rows]

    def page(
        self, dataset: str, sender: str | None, *, after: str | None = None, most: int
    ) -> list[StoredProposal]:
        """Return at most ``most`` proposals of a data set, oldest first, without their releases.

        With a sender, the id of a token, only what it sent. The list begins after the proposal
        whose digest is ``after``.
        """
        query = (
            "WITH visible AS (SELECT * FROM proposals AS p WHERE p.dataset = ? AND (? = '' OR"
            " EXISTS (SELECT 1 FROM senders AS s WHERE s.dataset = p.dataset AND s.digest ="
            " p.digest AND s.token = ?))) SELECT dataset, digest, body, received, state, answer,"
            " NULL FROM visible WHERE number > coalesce((SELECT number FROM visible WHERE digest"
            " = ?), 0) ORDER BY number LIMIT ?"
        )
        values = (dataset, sender or "", sender or "", after or "", most)
        with self._store.reading() as records:
            return [_stored_of(row) for row in records.db.execute(query, values)]

    def next_to_work_on(self, dataset: str) -> StoredProposal | None:
        """Return the oldest proposal that a worker has to look at, or None."""
        query = (
            f"{_PROPOSAL} WHERE dataset = ? AND state IN ('received', 'approved') ORDER BY number"
            " LIMIT 1"
        )
        with self._store.reading() as records:
            row = records.db.execute(query, (dataset,)).fetchone()
        return None if row is None else _stored_of(row)

    def move(self, proposal: StoredProposal, state: State) -> bool:
        """Move a proposal on, if it is still where the caller saw it; say whether it was."""
        statement = "UPDATE proposals SET state = ? WHERE dataset = ? AND digest = ? AND state = ?"
        row = (str(state), proposal.dataset, proposal.digest, str(proposal.state))
        with self._store.writing() as records:
            return bool(records.db.execute(statement, row).rowcount == 1)

    def answer(
        self,
        proposal: StoredProposal,
        answer: bytes,
        release: bytes | None,
        entry: tuple[Kind, Mapping[str, Any]] | None = None,
    ) -> bool:
        """Answer a proposal, if it is still where the caller saw it; say whether it was.

        ``entry``, of the audit log, is written in the same transaction.
        """
        statement = (
            "UPDATE proposals SET state = 'answered', answer = ?, release = ? WHERE dataset = ?"
            " AND digest = ? AND state = ?"
        )
        row = (answer, release, proposal.dataset, proposal.digest, str(proposal.state))
        with self._store.writing() as records:
            stored = bool(records.db.execute(statement, row).rowcount == 1)
            if stored and entry is not None:
                kind, facts = entry
                records.append(kind, {"dataset": proposal.dataset, **facts}, once=True)
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


def _lease_holder(records: Tables, dataset: str) -> str:
    """Return the name of the lock of the server that holds the lease, or held it; "" for none."""
    row = records.db.execute("SELECT holder FROM leases WHERE dataset = ?", (dataset,)).fetchone()
    return "" if row is None else str(row[0])


def _has_room(records: Tables, dataset: str, token: str, limits: Limits) -> bool:
    """Say whether a token may file one more proposal."""
    open_ones = "SELECT count(*) FROM proposals AS p WHERE p.dataset = ? AND p.state <> 'answered'"
    own = "SELECT count(*) FROM senders AS s WHERE s.token = ?"
    own_open = (
        "SELECT count(*) FROM senders AS s JOIN proposals AS p ON s.dataset = p.dataset AND"
        " s.digest = p.digest WHERE s.token = ? AND p.state <> 'answered'"
    )
    counts = ((open_ones, dataset), (own, token), (own_open, token))
    most = (limits.waiting_proposals, limits.proposals_of_one_token, limits.waiting_of_one_token)
    stored = [records.db.execute(query, (value,)).fetchone()[0] for query, value in counts]
    return all(count < limit for count, limit in zip(stored, most, strict=True))


def _stored(records: Tables, dataset: str, digest: str) -> StoredProposal | None:
    query = f"{_PROPOSAL} WHERE dataset = ? AND digest = ?"
    row = records.db.execute(query, (dataset, digest)).fetchone()
    return None if row is None else _stored_of(row)


def _stored_of(row: tuple[str, str, bytes, str, str, bytes | None, bytes | None]) -> StoredProposal:
    dataset, digest, body, received, state, answer, release = row
    time = datetime.fromisoformat(received)
    return StoredProposal(dataset, digest, body, time, State(state), answer, release)
