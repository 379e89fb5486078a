"""A round of parties over a network: one signed file, and the store of what parties sent.

The file says what all agreed on: the public rows by their hash, classes, enrolled names, statistic,
promise, closing time, and the address that takes contributions. What the store answers a party
follows from the round, from the header of what it sent, and from its own earlier try; never from
votes, and never from another party. No time is stored. Contributions are durable before they are
acknowledged, count once, and are deleted once they are released.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from suffice import strict_json
from suffice.errors import CorruptFileError, ParameterError, ReleaseError, UnsupportedFileError
from suffice.owner.answers import StoreApart
from suffice.owner.parties.contribution import PartForm, PartyContribution, check_name
from suffice.owner.parties.ensemble import METHODS, PrivateEnsemble
from suffice.owner.parties.gathering import Enrolled
from suffice.releases.file import MOST_BYTES, read_bounded
from suffice.releases.release import Signature
from suffice.releases.signing import check_signature, check_signer, sign_message
from suffice.tables.columns import check_classes

LATE = "it came after the closing time"
ANOTHER_NAME = "it names another party than your token does"


@dataclass(frozen=True)
class RoundTerms:
    """What parties and aggregator agree on for one round: public to all of them.

    Attributes
    ----------
    title : str
        What the round is for, in words.
    address : str
        The address of the service that takes contributions.
    closes : str
        When the round closes: a time with its zone, to the second.
    enrolled : tuple of str
        The names of the enrolled parties, sorted.
    method : str
        What is released (`PrivateEnsemble`).
    epsilon, delta : float
        What the release promises each party.
    lam : float
        Weight of the penalty.
    samples : int or None
        The public number of records of each party, for class sums.
    part : PartForm
        What the header of every contribution says.
    """

    title: str
    address: str
    closes: str
    enrolled: tuple[str, ...]
    method: Literal["operator", "class-sums", "vote-table", "soft", "majority-model", "average"]
    epsilon: float
    delta: float
    lam: float
    samples: int | None
    part: PartForm
    version: int = 1

    @property
    def ensemble(self) -> PrivateEnsemble:
        """The release that the round ends with."""
        return PrivateEnsemble(
            self.epsilon,
            self.delta,
            self.method,
            self.part.classes,
            lam=self.lam,
            samples=self.samples,
        )

    def check(self) -> None:
        """Raise a ParameterError unless a round can be held on these terms."""
        check_name(self.title)
        if Enrolled.of(self.enrolled).names != self.enrolled:
            raise ParameterError("The enrolled parties of a round must be sorted by name.")
        check_classes(self.part.classes)
        closing_time(self.closes)
        statistic = METHODS[self.ensemble.released_method]
        if self.part.statistic != statistic or min(self.part.shape) < 1:
            raise ParameterError(f"A round of method {self.method} needs {statistic} of parties.")


@dataclass(frozen=True)
class SignedRound:
    """A round's file, whose signature was checked for its own key."""

    terms: RoundTerms
    data: bytes  # the file, byte by byte
    signature: Signature

    @cached_property
    def id(self) -> str:
        """What names the round: the SHA-256 of its file."""
        return "sha256:" + hashlib.sha256(self.data).hexdigest()

    @cached_property
    def most_bytes(self) -> int:
        """How much is read of what a party sends: twice what its shape allows.

        So a contribution to another round, which may be larger, is told what is wrong with it.
        """
        return 2 * self.terms.part.most_bytes(self.terms.enrolled)

    def is_over(self, now: datetime) -> bool:
        """Say whether the closing time has come."""
        return now >= closing_time(self.terms.closes)

    def misfit(self, party: str, data: bytes) -> str | None:
        """Return why these bytes are no contribution of a party to this round, or None.

        Damage, the header and the round decide; the numbers below the header are not looked at.
        """
        if len(data) > self.most_bytes:
            return self.too_large
        try:
            part = PartyContribution.load(data)
        except ReleaseError as error:
            return str(error)
        if part.party != party:
            return ANOTHER_NAME
        form = self.terms.part
        return form.misfit(part) or form.shape_misfit(part)

    @property
    def too_large(self) -> str:
        """The reason for a contribution that is larger than any of this round."""
        return f"it is larger than {self.most_bytes} bytes, which no contribution to this round is"


def closing_time(text: str) -> datetime:
    """Return a time with its zone, as UTC.

    Examples
    --------
    >>> closing_time("2030-01-01T12:00+01:00").isoformat()
    '2030-01-01T11:00:00+00:00'
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ParameterError(
            "A closing time must be a time with its zone, for example 2030-01-31T12:00Z."
        )
    return time.astimezone(UTC)


def sign_round(terms: RoundTerms, private_key: str | Path) -> SignedRound:
    """Return a round, signed by the aggregator.

    Raises
    ------
    ParameterError
        If a round cannot be held on these terms.
    SignatureError
        If the file holds no private key.
    """
    terms.check()
    signature = sign_message(private_key, lambda key: _signed(terms, key))
    content = {**_content(terms, signature.key), "signature": signature.value.hex()}
    return SignedRound(terms, strict_json.canonical(content), signature)


def read_round(data: bytes, key: str | Path | None = None) -> SignedRound:
    """Return the round in these bytes, after checking all of it.

    With the file of the aggregator's public key, the round must be signed by it.

    Raises
    ------
    CorruptFileError
        If this is no round, or a round cannot be held on its terms.
    SignatureError
        If it was altered, or is signed with another key.
    """
    content = strict_json.parse_canonical(data)
    names = {"suffice", "round", "key", "signature"}
    if not isinstance(content, dict) or content.keys() != names or content["suffice"] != "round":
        raise CorruptFileError("This is not a round. Use a file that suffice round new wrote.")
    stated = content["round"]
    if not isinstance(stated, dict) or stated.get("version") != RoundTerms.version:
        raise UnsupportedFileError(
            "This round was written by another version of suffice. Ask the aggregator which."
        )
    terms = strict_json.read(RoundTerms, stated, "round")
    try:
        signature = Signature(*(bytes.fromhex(content[name]) for name in ("key", "signature")))
        terms.check()
    except (ParameterError, TypeError, ValueError) as error:
        raise CorruptFileError(f"This round is not valid. {error}") from None
    check_signature(signature, _signed(terms, signature.key))
    if key is not None:
        check_signer(signature, key, "round")
    return SignedRound(terms, data, signature)


def load_round(path: str | Path, key: str | Path | None = None) -> SignedRound:
    """Return the round in a file, as `read_round` checks it."""
    return read_round(read_bounded(Path(path), MOST_BYTES), key)


def _content(terms: RoundTerms, key: bytes) -> dict[str, Any]:
    return {"suffice": "round", "round": strict_json.plain(terms), "key": key.hex()}


def _signed(terms: RoundTerms, key: bytes) -> bytes:
    return strict_json.canonical(_content(terms, key))


class Delivery(StrEnum):
    """What became of a contribution that was sent."""

    STORED = "stored"
    AGAIN = "again"  # the same bytes came before
    OTHER = "other"  # other bytes came before, and stay until the party withdraws them
    REJECTED = "rejected"  # it does not fit the round
    CLOSED = "closed"


class Standing(NamedTuple):
    """What is known of one party: for itself and for the aggregator, and without a time."""

    state: Literal["missing", "stored", "rejected"]
    reason: str = ""  # of a rejection


class RoundStore(StoreApart):
    """The rounds of a service and what parties sent: exact and private, in a place of its own."""

    tables: ClassVar = (
        """CREATE TABLE IF NOT EXISTS rounds (
            id TEXT PRIMARY KEY,
            body BLOB NOT NULL,
            state TEXT NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE IF NOT EXISTS parts (
            round TEXT NOT NULL,
            party TEXT NOT NULL,
            part BLOB NOT NULL,
            state TEXT NOT NULL,
            reason TEXT NOT NULL,
            PRIMARY KEY (round, party)
        ) WITHOUT ROWID""",
    )
    keys: ClassVar = {"parts": "round, party"}

    def open(self, made: SignedRound) -> None:
        """Take contributions to a round from now on."""
        with self._writing() as db:
            db.execute("INSERT INTO rounds VALUES (?, ?, ?)", (made.id, made.data, "open"))

    def round(self, identity: str) -> tuple[SignedRound, str] | None:
        """Return a round, and whether it is open, closed or released; None if there is none."""
        with self._writing() as db:
            query = "SELECT body, state FROM rounds WHERE id = ?"
            row = db.execute(query, (identity,)).fetchone()
        return None if row is None else (read_round(bytes(row[0])), row[1])

    def rounds(self) -> list[str]:
        """Return the ids of all rounds, sorted."""
        with self._writing() as db:
            return [row[0] for row in db.execute("SELECT id FROM rounds ORDER BY id").fetchall()]

    def take(
        self, made: SignedRound, party: str, data: bytes | None, now: datetime
    ) -> tuple[Delivery, str]:
        """Store what a party sent, durably, and say what became of it and why.

        None stands for a body that was too large to be read. A contribution that was stored is
        never overwritten. A rejection is remembered, so that party and aggregator can read why.
        """
        reason = made.too_large if data is None else made.misfit(party, data)
        with self._writing() as db:
            state = self._state(db, made.id)
            if state == "released":
                return Delivery.CLOSED, LATE
            query = "SELECT state, part FROM parts WHERE round = ? AND party = ?"
            row = db.execute(query, (made.id, party)).fetchone()
            if row is not None and row[0] == "stored":
                same = data is not None and bytes(row[1]) == data
                return (Delivery.AGAIN if same else Delivery.OTHER), ""
            outcome = Delivery.REJECTED if reason else Delivery.STORED
            if state != "open" or made.is_over(now):
                outcome, reason = Delivery.CLOSED, LATE
            db.execute("DELETE FROM parts WHERE round = ? AND party = ?", (made.id, party))
            stored = (data or b"") if outcome is Delivery.STORED else b""
            standing = "stored" if outcome is Delivery.STORED else "rejected"
            values = (made.id, party, stored, standing, reason or "")
            db.execute("INSERT INTO parts VALUES (?, ?, ?, ?, ?)", values)
        return outcome, reason or ""

    def withdraw(self, made: SignedRound, party: str, now: datetime) -> bool:
        """Delete what a party sent, while the round takes contributions; say whether it does."""
        with self._writing() as db:
            if self._state(db, made.id) != "open" or made.is_over(now):
                return False
            db.execute("DELETE FROM parts WHERE round = ? AND party = ?", (made.id, party))
        return True

    def standings(self, made: SignedRound) -> dict[str, Standing]:
        """Return what is known of every enrolled party: for the aggregator."""
        with self._writing() as db:
            query = "SELECT party, state, reason FROM parts WHERE round = ?"
            rows = db.execute(query, (made.id,)).fetchall()
        found = {party: Standing(state, reason) for party, state, reason in rows}
        return {party: found.get(party, Standing("missing")) for party in made.terms.enrolled}

    def close(self, made: SignedRound, now: datetime) -> list[bytes]:
        """End a round; return what parties sent, in the order of their names.

        A round closes once its time has come, or once all parties have sent. A round that was
        closed and not released returns the same again; one that was released is an error.
        """
        query = "SELECT part FROM parts WHERE round = ? AND state = 'stored' ORDER BY party"
        with self._writing() as db:
            state = self._state(db, made.id)
            rows = db.execute(query, (made.id,)).fetchall()
            if state is None:
                raise ParameterError("This round was never opened here.")
            if state == "released":
                raise ParameterError("This round was closed and released. A round closes once.")
            complete = len(rows) == len(made.terms.enrolled)
            if state == "open" and not complete and not made.is_over(now):
                raise ParameterError(
                    f"This round is open until {made.terms.closes}, and parties are missing. Close"
                    " it then, or once all have sent."
                )
            db.execute("UPDATE rounds SET state = 'closed' WHERE id = ?", (made.id,))
        return [bytes(row[0]) for row in rows]

    def forget(self, made: SignedRound) -> None:
        """Delete the contributions to a round that was released; who sent one stays known."""
        with self._writing() as db:
            db.execute("UPDATE parts SET part = ? WHERE round = ?", (b"", made.id))
            db.execute("UPDATE rounds SET state = 'released' WHERE id = ?", (made.id,))
        self._rewrite()

    @staticmethod
    def _state(db: Any, identity: str) -> str | None:
        row = db.execute("SELECT state FROM rounds WHERE id = ?", (identity,)).fetchone()
        return None if row is None else row[0]


def enrolled_names(enrolled: Sequence[str] | int) -> tuple[str, ...]:
    """Return the names of the parties of a round, sorted; a number alone is not enough."""
    names = Enrolled.of(enrolled).names
    if names is None:
        raise ParameterError(
            "Each party of a round has a token, so the parties must be enrolled by name:"
            " --enrolled FILE with a name on each line."
        )
    return names
