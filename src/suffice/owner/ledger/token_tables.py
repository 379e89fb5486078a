"""The statements by which a ledger's tokens are read and written, each change with its entry."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from suffice.errors import LedgerError
from suffice.owner.ledger.chain import Kind, digest_of_bytes
from suffice.owner.ledger.log_tables import LogTables
from suffice.owner.ledger.tokens import Role, Token

__all__ = ["TokenTables", "token_facts"]

_STORED = "SELECT id, hash, role, scope, holder, made, expires, revoked, used FROM tokens"


@dataclass(frozen=True)
class TokenTables(LogTables):
    """The tokens as one connection sees them."""

    def add_token(self, token: Token) -> None:
        """Write down a new token, and that it was made."""
        entry = self.append(Kind.MINTED, token_facts(token))
        scope = json.dumps(token.scope)
        times = (token.made.isoformat(), token.expires.isoformat())
        row = (token.id, token.hash, str(token.role), scope, token.holder, *times, entry)
        self.db.execute("INSERT INTO tokens VALUES (?,?,?,?,?,?,?,NULL,NULL,?,NULL)", row)

    def tokens(self) -> list[Token]:
        """Return every token, oldest first."""
        return [_token(row) for row in self.db.execute(f"{_STORED} ORDER BY minted")]

    def token(self, identity: str) -> Token | None:
        """Return the token of this id, or None; strangers may name anything."""
        if not (identity.isascii() and identity.isalnum()):
            return None
        row = self.db.execute(f"{_STORED} WHERE id = ?", (identity,)).fetchone()
        return None if row is None else _token(row)

    def revoke_token(self, identity: str, time: datetime) -> bool:
        """End a token, and write that down, unless it was revoked before; say whether it exists."""
        token = self.token(identity)
        if token is not None and token.revoked is None:
            entry = self.append(Kind.REVOKED, {"token": identity})
            row = (time.isoformat(), entry, identity)
            self.db.execute("UPDATE tokens SET revoked = ?, ended = ? WHERE id = ?", row)
        return token is not None

    def use_token(self, identity: str, day: datetime) -> None:
        """Write down the day of a token's last use; the log says nothing about it."""
        self.db.execute("UPDATE tokens SET used = ? WHERE id = ?", (day.isoformat(), identity))


def token_facts(token: Token) -> dict[str, Any]:
    """Return what the log says about a new token.

    Logs are shown and exported. They hold a digest of the stored hash, and not the hash itself.
    """
    return {
        "token": token.id,
        "digest": digest_of_bytes(token.hash.encode()),
        "role": str(token.role),
        "scope": list(token.scope),
        "holder": token.holder,
        "made": token.made.isoformat(),
        "expires": token.expires.isoformat(),
    }


def _token(row: Sequence[Any]) -> Token:
    identity, digest, role, scope, holder, *times = row
    try:
        made, expires = map(datetime.fromisoformat, times[:2])
        revoked, used = (None if t is None else datetime.fromisoformat(t) for t in times[2:])
        scope = tuple(json.loads(scope))
        return Token(identity, digest, Role(role), scope, holder, made, expires, revoked, used)
    except (ValueError, TypeError):
        raise LedgerError(
            f"Token {identity!r} is damaged, or a newer version of suffice made it."
        ) from None
