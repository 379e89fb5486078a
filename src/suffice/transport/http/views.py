"""The pages for owners and officers: rendered here, usable without scripts, from no other site."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from suffice.errors import ParameterError, UsageError
from suffice.owner.ledger.tokens import Role, mint
from suffice.transport.http.access import Caller
from suffice.transport.http.accounts import Accounts
from suffice.transport.http.oversight_pages import OversightPages
from suffice.transport.http.problems import Problem, not_found
from suffice.transport.http.rendering import STATIC, Renderer, rounded_down, static_file
from suffice.transport.http.service import Digest, Identity, Name, Service
from suffice.transport.http.sessions import Session, Sessions, SignInNeeded

__all__ = ["install_pages"]

_MOST_PROPOSALS = 100  # of one data set on the page of all data sets


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
        self._sessions = Sessions(service.settings, service.desk)
        self._renderer = Renderer(service.settings)
        self._accounts = Accounts(service)
        self._page, self._to = self._renderer.page, self._renderer.to

    # --- for everybody

    def public_router(self) -> APIRouter:
        """Return the routes that need no session."""
        router = APIRouter()

        @router.get("/static/{name}")
        def static(name: str) -> Response:
            if name not in STATIC:
                raise not_found()
            return Response(static_file(name), media_type=STATIC[name])

        @router.get("/login")
        def login() -> Response:
            return self._page("login.html", None)

        @router.post("/login")
        async def sign_in(request: Request) -> Response:
            fields = await self._sessions.read_form(request)
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
            datasets = self._accounts.datasets(session.token)
            return self._page("overview.html", session, datasets=datasets, most=_MOST_PROPOSALS)

        @router.post("/logout")
        async def logout(request: Request, session: reader) -> Response:
            await self._sessions.form(request, session)
            response = self._to("/login")
            await run_in_threadpool(self._sessions.end, session, response)
            return response

        self._add_proposal_pages(router, reader)
        self._add_token_pages(router, reader)
        OversightPages(self._accounts, self._renderer, self._sessions).add_to(router, reader)
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
        row = self._accounts.proposal(filed)
        left = [f"{rounded_down(b.left)} per {b.unit}" for b in self._service.balance(dataset)]
        return self._page(
            "proposal.html",
            session,
            HTTPStatus.OK if problem is None else HTTPStatus.CONFLICT,
            dataset=dataset,
            row=row,
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
        async def revoke(request: Request, identity: Identity, session: reader) -> Response:
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
            if scope and scope not in self._service.settings.datasets:
                raise ParameterError("This data set is not served. Choose another one.")
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


def _check_owner(session: Session) -> None:
    if session.token.role is not Role.OWNER:
        raise Problem(HTTPStatus.FORBIDDEN, "Only an owner may do this.")
