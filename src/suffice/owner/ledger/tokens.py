"""Who may use a ledger over the network: bearer tokens with a role, a scope and an end.

A token reads ``suffice_ID_SECRET``. The id names it in lists and logs. The secret has 256 bits, and
the ledger stores its SHA-256: whoever reads the ledger cannot act as the holder. The audit log says
which tokens were made and revoked (`store.Tables`).
"""

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

from suffice.errors import ParameterError
from suffice.privacy.randomness import private_words
from suffice.strict_json import is_digest

Moment = Annotated[str, ("format", "date-time")]
_SECRET_WORDS = 4  # of 64 bits
_ID_DIGITS = 12
_MOST_LETTERS = 200  # letters of a token that is looked at at all
_LONGEST_DAYS = 3660
SIGNED_IN = "signed in: "  # begins the holder of a token that a sign-in at a provider made
_TEXT = re.compile(r"suffice_(?P<id>[0-9A-Za-z]+)_(?P<secret>[0-9A-Za-z_-]+)", re.ASCII)


class Role(StrEnum):
    """What the holder of a token may do: the roles that some route of the service knows."""

    OWNER = "owner"
    OFFICER = "officer"
    LEARNER = "learner"
    ORGANISER = "organiser"  # of surveys; it sees no data set
    PARTY = "party"  # of one round, which is all that it covers


@dataclass(frozen=True)
class TokenRecord:
    """A token, without its secret; of its use the day alone."""

    id: str
    role: Role
    scope: tuple[str, ...]
    holder: str
    made: Moment
    expires: Moment
    revoked: Moment | None
    used: Annotated[str, ("format", "date")] | None


@dataclass(frozen=True)
class Token:
    """A token as the ledger stores it."""

    id: str
    hash: str  # the SHA-256 of its secret
    role: Role
    scope: tuple[str, ...]  # the data sets that it is good for, empty for all; or one round
    holder: str  # for whom it was made, in the owner's words
    made: datetime  # UTC
    expires: datetime
    revoked: datetime | None = None
    used: datetime | None = None  # to the day

    def is_good(self, now: datetime) -> bool:
        """Say whether the token may be used now."""
        return self.revoked is None and self.made <= now < self.expires

    @property
    def state(self) -> str:
        """Whether the token is good, expired or revoked, in one word."""
        if self.revoked is not None:
            return "revoked"
        return "good" if self.is_good(utc_now()) else "expired"

    def record(self) -> TokenRecord:
        """Return all but the hash, as owners and officers are shown it."""
        return TokenRecord(
            id=self.id,
            role=self.role,
            scope=self.scope,
            holder=self.holder,
            made=self.made.isoformat(),
            expires=self.expires.isoformat(),
            revoked=None if self.revoked is None else self.revoked.isoformat(),
            used=None if self.used is None else self.used.date().isoformat(),
        )

    def covers(self, dataset: str) -> bool:
        """Say whether the token is good for a data set."""
        return not self.scope or dataset in self.scope

    def opens_with(self, secret: str) -> bool:
        """Say whether this is the token's secret, in a time that does not depend on the answer."""
        return hmac.compare_digest(self.hash, secret_hash(secret))


def utc_now() -> datetime:
    """Return the time, UTC, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


def secret_hash(secret: str) -> str:
    """Return the SHA-256 of a secret in hexadecimal digits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def mint(
    role: Role | str, *, scope: tuple[str, ...] = (), holder: str = "", days: int = 90
) -> tuple[Token, str]:
    """Return a new token, and the text that its holder gets: it cannot be shown again.

    Examples
    --------
    >>> token, text = mint("learner", scope=("diagnosis",), holder="Ada", days=30)
    >>> token.role.value, token.covers("diagnosis"), token.covers("smoker")
    ('learner', True, False)
    >>> identity, secret = parse(text)
    >>> identity == token.id, token.opens_with(secret), token.opens_with("another")
    (True, True, False)
    """
    if role not in {*Role}:
        raise ParameterError(f"A token's role must be one of {', '.join(Role)}.")
    if not 1 <= days <= _LONGEST_DAYS:
        raise ParameterError(f"A token must be good for 1 to {_LONGEST_DAYS} days.")
    if len(holder) > _MOST_LETTERS or not holder.isprintable():
        raise ParameterError(
            f"The holder of a token must be one printable line of at most {_MOST_LETTERS} letters."
        )
    if holder.startswith(SIGNED_IN):
        raise ParameterError("Who signs in at the provider needs no token. Name another holder.")
    if not all(0 < len(name) <= _MOST_LETTERS and name.isprintable() for name in scope):
        raise ParameterError("The scope of a token must be names of data sets.")
    names_round = len(scope) == 1 and is_digest(scope[0])
    if names_round != (role == Role.PARTY):
        raise ParameterError(
            "A party's token is for one round: `suffice round open` makes it. No other token is for"
            " a round."
        )
    identity = private_words(1).tobytes().hex()[:_ID_DIGITS]
    secret = private_words(_SECRET_WORDS).tobytes().hex()
    now = utc_now()
    expires = now + timedelta(days=days)
    token = Token(identity, secret_hash(secret), Role(role), scope, holder, now, expires)
    return token, f"suffice_{identity}_{secret}"


def parse(text: str) -> tuple[str, str] | None:
    """Return id and secret of a token's text, or None if it is none."""
    match = _TEXT.fullmatch(text) if len(text) <= _MOST_LETTERS else None
    return None if match is None else (match["id"], match["secret"])
