"""Who is calling: a request's token becomes a `Caller`, or the request ends here."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from fastapi import Request

from suffice.owner.ledger.tokens import Role, Token, parse, utc_now
from suffice.transport.http.desk import Desk, Filed
from suffice.transport.http.limits import RequestRate, address_of
from suffice.transport.http.problems import Problem, not_found
from suffice.transport.http.settings import ServedData, Settings

__all__ = ["Caller", "Door"]


@dataclass(frozen=True)
class Caller:
    """The holder of a good token.

    Attributes
    ----------
    token : Token
        The token.
    """

    token: Token

    def check_whole_house(self) -> None:
        """Raise unless the token covers every data set: tokens are for all of them."""
        if self.token.scope:
            raise Problem(HTTPStatus.FORBIDDEN, "Your token does not cover every data set.")

    @property
    def sees_all(self) -> bool:
        """Whether the caller sees what others proposed."""
        return self.token.role in (Role.OWNER, Role.OFFICER)


class Door:
    """Checks tokens, roles, scopes and rates, in one place for every route.

    Parameters
    ----------
    settings
        What is served, and how much may be asked for.
    desk
        Where tokens are kept.
    """

    def __init__(self, settings: Settings, desk: Desk) -> None:
        self._settings, self._desk = settings, desk
        self._rate = RequestRate(settings.limits.requests_per_minute)
        self._strangers = RequestRate(settings.limits.requests_per_minute)

    def opens_for(self, *roles: Role) -> Callable[[Request], Caller]:
        """Return a dependency that lets the holders of tokens with one of these roles in."""

        def check(request: Request) -> Caller:
            caller = self._caller(request)
            if caller.token.role not in roles:
                raise Problem(HTTPStatus.FORBIDDEN, "Your token does not allow this.")
            return caller

        return check

    def served(self, caller: Caller, dataset: str) -> ServedData:
        """Return a data set that the caller may see, or raise as if there were none."""
        served = self._settings.datasets.get(dataset)
        if served is None or not caller.token.covers(dataset):
            raise not_found()
        return served

    def may_see(self, caller: Caller, proposal: Filed) -> bool:
        """Say whether the caller may see a proposal: its own, or all."""
        return caller.sees_all or self._desk.has_sent(
            caller.token.id, proposal.dataset, proposal.digest
        )

    def _caller(self, request: Request) -> Caller:
        values = request.headers.getlist("authorization")
        scheme, _, text = (values[0] if len(values) == 1 else "").partition(" ")
        parts = parse(text.strip()) if scheme.lower() == "bearer" else None
        token = None if parts is None else self._desk.token(parts[0])
        if parts is None or token is None or not token.opens_with(parts[1]):
            self._strangers.check(address_of(request))
            raise _unknown()
        self._rate.check(token.id)
        if not token.is_good(utc_now()):
            raise _unknown()
        self._desk.note_use(token)
        return Caller(token)


def _unknown() -> Problem:
    return Problem(
        HTTPStatus.UNAUTHORIZED,
        "Send a token that is good, as `Authorization: Bearer TOKEN`. Ask the owner for one.",
        {"WWW-Authenticate": "Bearer"},
    )
