"""Who is calling: a request's header becomes a `Token`, a page's cookie a `Session`, or nothing.

A request without a good token, and a form that is not its session's own, end here.
"""

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from email.parser import BytesParser
from email.policy import HTTP
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request, Response

from suffice.owner.ledger.tokens import SIGNED_IN, Role, Token, mint, parse, secret_hash, utc_now
from suffice.service.limits import RequestRate, address_of, read_body
from suffice.service.operation import COUNTS, REFUSALS
from suffice.service.problems import Problem, not_found
from suffice.service.records import ServiceRecords, StoredProposal
from suffice.service.settings import Person, ServedData, Settings

_OVERSEERS = (Role.OWNER, Role.OFFICER)  # they see the pages, and what others proposed
_ASKERS = (*_OVERSEERS, Role.ORGANISER)  # they see the pages of surveys
_READERS = (*_ASKERS, Role.LEARNER)  # they have pages


def check_covers_all(token: Token) -> None:
    """Raise unless the token covers every data set: tokens are for all of them."""
    if token.scope:
        raise Problem(HTTPStatus.FORBIDDEN, "Your token does not cover every data set.")


def sees_all(token: Token) -> bool:
    """Say whether the holder of a token sees what others proposed."""
    return token.role in _OVERSEERS


class Authenticator:
    """Checks tokens, roles, scopes and rates, in one place for every route."""

    def __init__(self, settings: Settings, records: ServiceRecords) -> None:
        self._settings, self._records = settings, records
        self._rate = RequestRate(settings.limits.requests_per_minute)
        self._unauthenticated = RequestRate(settings.limits.requests_per_minute)

    def requires(self, *roles: Role) -> Callable[[Request], Token]:
        """Return a dependency that lets the holders of tokens with one of these roles in."""

        def check(request: Request) -> Token:
            values = request.headers.getlist("authorization")
            scheme, _, text = (values[0] if len(values) == 1 else "").partition(" ")
            token = _opened(self._records, text) if scheme.lower() == "bearer" else None
            if token is None:
                self._unauthenticated.check(address_of(request))
                raise _unknown()
            self._rate.check(token.id)
            if not token.is_good(utc_now()):
                raise _unknown()
            self._records.note_use(token)
            if token.role not in roles:
                raise Problem(HTTPStatus.FORBIDDEN, "Your token does not allow this.")
            return token

        return check

    def served(self, caller: Token, dataset: str) -> ServedData:
        """Return a data set that the caller may see, or raise as if there were none."""
        served = self._settings.datasets.get(dataset)
        if served is None or not caller.covers(dataset) or not self._records.is_open(dataset):
            raise not_found()
        return served

    def may_see(self, caller: Token, proposal: StoredProposal) -> bool:
        """Say whether the caller may see a proposal: its own, or all."""
        return sees_all(caller) or self._records.has_sent(
            caller.id, proposal.dataset, proposal.digest
        )


def _opened(records: ServiceRecords, text: str) -> Token | None:
    """Return the token of this text, None if there is none or this is not its secret."""
    parts = parse(text.strip())
    token = None if parts is None else records.token(parts[0])
    return token if parts is not None and token is not None and token.opens_with(parts[1]) else None


def _unknown() -> Problem:
    return Problem(
        HTTPStatus.UNAUTHORIZED,
        "Send a token that is good, as `Authorization: Bearer TOKEN`. Ask the owner for one.",
        {"WWW-Authenticate": "Bearer"},
    )


_COOKIE = "suffice_session"
_HOURS = 8
_BYTES = 32
_MOST_FORM_BYTES = 10_000


class SignInNeeded(Exception):  # noqa: N818  # no error: the reader is sent to the sign-in page
    """A page was asked for without a session."""


@dataclass(frozen=True)
class Session:
    """A reader who signed in."""

    hash: str  # of the cookie
    token: Token  # that began it: a session ends with its token
    csrf: str  # what every form of the session must send back
    expires: datetime  # UTC


class Sessions:
    """Begins, finds and ends sessions.

    A session's cookie is HttpOnly and SameSite=Strict, and lasts for a working day. Its hash is
    stored. Every form holds the session's CSRF token, and a browser that says that a form came from
    another site is not believed. Behind a proxy, which may rewrite it, the Host header is not used.
    """

    def __init__(self, settings: Settings, records: ServiceRecords) -> None:
        self._records, self._server = records, settings.server
        self._people = () if settings.sign_in is None else settings.sign_in.people
        self._rate = RequestRate(settings.limits.requests_per_minute)
        self._unauthenticated = RequestRate(settings.limits.requests_per_minute)

    def begin(self, request: Request, text: str, response: Response) -> bool:
        """Begin a session, as a cookie of the response, if the token is good; say whether it is."""
        token = _opened(self._records, text)
        if token is None or not token.is_good(utc_now()) or token.role not in _READERS:
            # A good token is never counted: others at the same address lock nobody out.
            COUNTS.add("suffice_failed_sign_ins_total")
            REFUSALS.note("A sign-in failed.")
            self._unauthenticated.check(address_of(request))
            return False
        self.begin_with(token, response)
        return True

    def begin_for(self, person: Person, response: Response) -> None:
        """Begin the session of a person who signed in at the provider.

        It rests on a token that nobody is shown. The audit log says who it is for, and that is who
        decides.
        """
        token, _ = mint(person.role, scope=person.scope, days=1)
        expires = token.made + timedelta(hours=_HOURS)
        token = replace(token, holder=person.holder, expires=expires)
        self._records.add_token(token)
        self.begin_with(token, response)

    def begin_with(self, token: Token, response: Response) -> None:
        """Begin the session of a good token, as a cookie of the response."""
        secret = secrets.token_urlsafe(_BYTES)
        expires = utc_now() + timedelta(hours=_HOURS)
        csrf = secrets.token_urlsafe(_BYTES)
        self._records.add_session(secret_hash(secret), token.id, csrf, expires)
        self._records.note_use(token)
        response.set_cookie(
            _COOKIE,
            secret,
            max_age=_HOURS * 3600,
            path=self._server.prefix or "/",
            secure=self._server.has_tls,
            httponly=True,
            samesite="strict",
        )

    def find(self, request: Request) -> Session:
        """Return the session of an owner or officer: what a page shows unless it says otherwise."""
        session = self.find_anybody(request)
        if not sees_all(session.token):
            raise Problem(HTTPStatus.FORBIDDEN, "This page is for owners and officers.")
        return session

    def find_asker(self, request: Request) -> Session:
        """Return the session of whoever may see the pages of surveys, which no scope names."""
        session = self.find_anybody(request)
        if session.token.role not in _ASKERS:
            raise Problem(HTTPStatus.FORBIDDEN, "This page is for organisers of surveys.")
        check_covers_all(session.token)
        return session

    def find_organiser(self, request: Request) -> Session:
        """Return the session of whoever may open and close surveys."""
        session = self.find_asker(request)
        if session.token.role is Role.OFFICER:
            raise Problem(HTTPStatus.FORBIDDEN, "Officers read, and change nothing.")
        return session

    def find_anybody(self, request: Request) -> Session:
        """Return the session of a request; one whose token has ended has ended too."""
        row = self._records.session(secret_hash(request.cookies.get(_COOKIE, "")))
        if row is None:
            self._unauthenticated.check(address_of(request))
            raise SignInNeeded
        digest, identity, csrf, expires = row
        token, now = self._records.token(identity), utc_now()
        if token is None or not token.is_good(now) or now >= expires or not self.names(token):
            self._unauthenticated.check(address_of(request))
            raise SignInNeeded
        self._rate.check(token.id)
        return Session(digest, token, csrf, expires)

    def names(self, token: Token) -> bool:
        """Say whether the settings still name the person who signed in with a token, if one did."""
        known = {(p.holder, p.role, p.scope) for p in self._people}
        is_person = token.holder.startswith(SIGNED_IN)
        return not is_person or (token.holder, token.role, token.scope) in known

    def end(self, session: Session, response: Response) -> None:
        """End a session."""
        self._records.end_session(session.hash)
        response.delete_cookie(_COOKIE, path=self._server.prefix or "/")

    async def form(
        self, request: Request, session: Session, *, most: int = _MOST_FORM_BYTES
    ) -> dict[str, str]:
        """Return the fields of a form that this session was shown; text alone, files included."""
        fields = await self.read_form(request, most)
        if not hmac.compare_digest(fields.get("csrf", "").encode(), session.csrf.encode()):
            raise Problem(
                HTTPStatus.FORBIDDEN, "This form is not from your session. Load the page again."
            )
        return fields

    async def read_form(self, request: Request, most: int = _MOST_FORM_BYTES) -> dict[str, str]:
        """Return the fields of a form from this site, of at most so many bytes."""
        if not self._is_from_here(request):
            raise Problem(HTTPStatus.FORBIDDEN, "This form was sent from another site.")
        body = await read_body(request, most)
        kind = request.headers.get("content-type", "")
        try:
            if kind.startswith("multipart/form-data"):
                return multipart_fields(kind, body)
            return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20))
        except ValueError:
            raise Problem(HTTPStatus.BAD_REQUEST, "This is not a form.") from None

    def _is_from_here(self, request: Request) -> bool:
        """Say whether a form may come from this site, as far as the browser says.

        A browser that does not send Sec-Fetch-Site sends Origin. Behind a proxy that cannot be
        compared with anything, because a proxy may rewrite the name of the host.
        """
        headers = request.headers
        if sender := headers.get("sec-fetch-site"):
            return sender in ("same-origin", "none")
        origin = headers.get("origin")
        if origin is None or self._server.behind_proxy:
            return True
        return origin.partition("://")[2] == headers.get("host")


def multipart_fields(kind: str, body: bytes) -> dict[str, str]:
    """Return the fields of a form that may hold a file; raise ValueError if it is none."""
    message = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
    parts: Any = message.get_payload()
    if message.defects or not isinstance(parts, list) or len(parts) > 100:
        raise ValueError
    fields: dict[str, str] = {}
    for part in parts:
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if part.is_multipart() or not isinstance(name, str) or not isinstance(content, bytes):
            raise ValueError
        fields[name] = content.decode("utf-8-sig")
    return fields
