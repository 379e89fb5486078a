"""The pages for owners and officers: rendered here, usable without scripts, from no other site."""

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool

from suffice.errors import ParameterError, UsageError
from suffice.owner.ledger.rows import Balance
from suffice.owner.ledger.tokens import Role, mint, utc_now
from suffice.plain_text import escaped
from suffice.privacy.words import lists, sentences
from suffice.release.codec import decode
from suffice.transport.http.access import Caller
from suffice.transport.http.desk import Filed
from suffice.transport.http.problems import Problem, not_found
from suffice.transport.http.service import Digest, Name, Service
from suffice.transport.http.sessions import Session, Sessions, SignInNeeded, read_form
from suffice.transport.http.settings import ServedData
from suffice.transport.messages import Answer, Proposal

__all__ = ["install_pages"]

_FOLDER = Path(__file__).parent / "pages"
_STATIC = {"suffice.css": "text/css", "local-time.js": "text/javascript"}
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)


@dataclass(frozen=True)
class _Row:
    """A proposal as a page shows it."""

    filed: Filed
    proposal: Proposal
    answer: Answer | None
    senders: list[str]
    guarantees: list[list[str]]

    @property
    def state(self) -> str:
        return self.filed.state if self.answer is None else self.answer.name

    @property
    def reasons(self) -> tuple[str, ...]:
        return () if self.answer is None else getattr(self.answer, "reasons", ())


@dataclass(frozen=True)
class _Data:
    """A data set as a page shows it."""

    name: str
    served: ServedData
    balances: list[Balance]
    largest_epsilon: float
    proposals: list[_Row]


def install_pages(app: FastAPI, service: Service) -> None:
    """Add the pages to an application."""
    prefix = service.settings.server.prefix
    pages = _Pages(service)
    app.include_router(pages.public_router(), prefix=prefix, include_in_schema=False)
    app.include_router(pages.router(), prefix=prefix, include_in_schema=False)

    async def sign_in(request: Request, _: Exception) -> Response:
        del request
        return RedirectResponse(f"{prefix}/login", HTTPStatus.SEE_OTHER)

    app.add_exception_handler(SignInNeeded, sign_in)


class _Pages:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._prefix = service.settings.server.prefix
        self._sessions = Sessions(service.settings, service.desk)
        self._templates = Environment(
            loader=FileSystemLoader(_FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {"plain": _plain, "down": _rounded_down, "number": "{:g}".format}

    def _page(
        self, name: str, session: Session | None, status: int = HTTPStatus.OK, **values: Any
    ) -> HTMLResponse:
        common = {
            "organisation": self._service.settings.organisation,
            "prefix": self._prefix,
            "session": session,
            "problem": values.pop("problem", None),
        }
        text = self._templates.get_template(name).render(**common, **values)
        return HTMLResponse(text, status, {"Content-Security-Policy": _POLICY})

    def _to(self, path: str) -> RedirectResponse:
        return RedirectResponse(f"{self._prefix}{path}", HTTPStatus.SEE_OTHER)

    # --- for everybody

    def public_router(self) -> APIRouter:
        """Return the routes that need no session."""
        router = APIRouter()

        @router.get("/static/{name}")
        def static(name: str) -> Response:
            if name not in _STATIC:
                raise not_found()
            return Response((_FOLDER / "static" / name).read_bytes(), media_type=_STATIC[name])

        @router.get("/login")
        def login() -> Response:
            return self._page("login.html", None)

        @router.post("/login")
        async def sign_in(request: Request) -> Response:
            fields = await read_form(request)
            response = self._to("/")
            begin = self._sessions.begin
            if await run_in_threadpool(begin, request, fields.get("token", ""), response):
                return response
            problem = "This token does not open these pages. Ask the owner for another one."
            return self._page("login.html", None, HTTPStatus.FORBIDDEN, problem=problem)

        return router

    # --- for owners and officers

    def router(self) -> APIRouter:
        """Return the routes of those who signed in."""
        router = APIRouter()
        reader = Annotated[Session, Depends(self._sessions.find)]

        @router.get("/")
        def overview(session: reader) -> Response:
            return self._page("overview.html", session, datasets=self._datasets(session))

        @router.get("/report")
        def report(session: reader) -> Response:
            datasets = self._datasets(session)
            return self._page("report.html", session, datasets=datasets, now=utc_now())

        @router.post("/logout")
        async def logout(request: Request, session: reader) -> Response:
            await self._sessions.form(request, session)
            response = self._to("/login")
            await run_in_threadpool(self._sessions.end, session, response)
            return response

        self._add_proposal_pages(router, reader)
        self._add_token_pages(router, reader)
        return router

    def _add_proposal_pages(self, router: APIRouter, reader: Any) -> None:
        place = "/data/{dataset}/{digest}"

        @router.get(place)
        def proposal(dataset: Name, digest: Digest, session: reader) -> Response:
            return self._proposal_page(session, dataset, digest)

        @router.get(f"{place}/release")
        def release(dataset: Name, digest: Digest, session: reader) -> Response:
            filed = self._service.filed(Caller(session.token), dataset, digest)
            if filed.release is None:
                raise not_found()
            return Response(filed.release, media_type="application/octet-stream")

        @router.post(place)
        async def decision(
            request: Request, dataset: Name, digest: Digest, session: reader
        ) -> Response:
            fields = await self._sessions.form(request, session)
            _check_owner(session)
            return await run_in_threadpool(self._decide, session, dataset, digest, fields)

    def _decide(
        self, session: Session, dataset: str, digest: str, fields: dict[str, str]
    ) -> Response:
        filed = self._service.filed(Caller(session.token), dataset, digest)
        refused = fields.get("decision") == "refuse"
        choice = {"grant": False, "reason": fields.get("reason", "")} if refused else None
        if fields.get("decision") == "grant":
            choice = {"grant": True}
        try:
            self._service.decide(filed, choice)
        except UsageError as error:
            return self._proposal_page(session, dataset, digest, str(error))
        except Problem as problem:
            return self._proposal_page(session, dataset, digest, problem.detail)
        return self._to(f"/data/{dataset}/{digest}")

    def _proposal_page(
        self, session: Session, dataset: str, digest: str, problem: str | None = None
    ) -> Response:
        filed = self._service.filed(Caller(session.token), dataset, digest)
        row = self._row(filed)
        left = [f"{_rounded_down(b.left)} per {b.unit}" for b in self._service.balance(dataset)]
        return self._page(
            "proposal.html",
            session,
            HTTPStatus.OK if problem is None else HTTPStatus.CONFLICT,
            dataset=dataset,
            row=row,
            senders=row.senders,
            guarantees=row.guarantees,
            budget=f"Left of the budget: epsilon {', '.join(left)}.",
            problem=problem,
        )

    def _add_token_pages(self, router: APIRouter, reader: Any) -> None:
        desk = self._service.desk

        @router.get("/tokens")
        def tokens(session: reader) -> Response:
            _check_owner(session)
            Caller(session.token).check_whole_house()
            return self._token_page(session)

        @router.post("/tokens")
        async def new(request: Request, session: reader) -> Response:
            fields = await self._sessions.form(request, session)
            _check_owner(session)
            Caller(session.token).check_whole_house()
            return await run_in_threadpool(self._make_token, session, fields)

        @router.post("/tokens/{identity}/revoke")
        async def revoke(request: Request, identity: Name, session: reader) -> Response:
            await self._sessions.form(request, session)
            _check_owner(session)
            Caller(session.token).check_whole_house()
            await run_in_threadpool(desk.revoke_token, identity)
            return self._to("/tokens")

    def _make_token(self, session: Session, fields: dict[str, str]) -> Response:
        role, scope, days = fields.get("role", ""), fields.get("scope", ""), fields.get("days", "")
        try:
            if role not in {*Role} or not days.isdecimal():
                raise ParameterError("A token needs a role and a number of days.")
            token, text = mint(
                role,
                scope=(scope,) if scope else (),
                holder=fields.get("holder", ""),
                days=int(days[:9]),
            )
        except UsageError as error:
            return self._token_page(session, problem=str(error))
        self._service.desk.add_token(token)
        return self._token_page(session, text=text)

    def _token_page(
        self, session: Session, text: str | None = None, problem: str | None = None
    ) -> Response:
        status = HTTPStatus.OK if problem is None else HTTPStatus.BAD_REQUEST
        return self._page(
            "tokens.html",
            session,
            status,
            tokens=self._service.desk.tokens(),
            names=list(self._service.settings.datasets),
            text=text,
            problem=problem,
        )

    # --- what pages show

    def _datasets(self, session: Session) -> list[_Data]:
        covered = {
            name: served
            for name, served in self._service.settings.datasets.items()
            if session.token.covers(name)
        }
        return [
            _Data(
                name,
                served,
                self._service.balance(name),
                self._service.ledger.largest_epsilon(name, unit="label"),
                [self._row(filed) for filed in reversed(self._service.desk.proposals(name))],
            )
            for name, served in covered.items()
        ]

    def _row(self, filed: Filed) -> _Row:
        guarantees = () if filed.release is None else decode(filed.release).guarantees
        return _Row(
            filed,
            Proposal.load(filed.body),
            None if filed.answer is None else Answer.load(filed.answer),
            self._service.desk.senders(filed.dataset, filed.digest),
            [[*sentences(guarantee), *lists(guarantee)] for guarantee in guarantees],
        )


def _check_owner(session: Session) -> None:
    if session.token.role is not Role.OWNER:
        raise Problem(HTTPStatus.FORBIDDEN, "Only an owner may do this.")


def _plain(text: object) -> str:
    """Return text from strangers so that it can steer no reader; the template escapes its HTML."""
    return escaped(str(text))


def _rounded_down(value: float) -> str:
    """Return what is left with four digits, never more than there is."""
    if not math.isfinite(value) or value <= 0:
        return "0"
    return f"{float(Context(prec=4, rounding=ROUND_FLOOR).create_decimal_from_float(value)):g}"
