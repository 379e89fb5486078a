"""The routes under /v1, and the shapes of what they take and return, as /openapi.json states them.

Shapes are dataclasses: `strict_json` reads requests by them, writes answers, and describes both.

What a learner sees never depends on a private value. Answers are made in `suffice.service.workers`;
a handler reads the records and the ledger, and never a table. Log, checkpoint, comparison and
export are for owners and officers. A token that covers some data sets shows those alone.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated, Any, Literal, SupportsBytes

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from suffice import strict_json
from suffice.errors import ParameterError
from suffice.owner.ledger.log import Checkpoint
from suffice.owner.ledger.store import ROWS_AT_ONCE
from suffice.owner.ledger.tokens import Moment, Role, Token, TokenRecord, mint
from suffice.owner.policy import Policy
from suffice.protocol.export import BudgetRecord
from suffice.protocol.messages import MOST_BYTES, Countered, Granted, Proposal, Refused
from suffice.releases.file import CHUNK_BYTES
from suffice.service.auth import check_covers_all, sees_all
from suffice.service.limits import read_body, read_json
from suffice.service.oversight import (
    Accounts,
    Comparison,
    EntryRecord,
    budget_record,
)
from suffice.service.problems import archived, not_found, problem_responses
from suffice.service.records import LOST, State, StoredProposal
from suffice.service.workers import (
    After,
    AfterEntry,
    Approval,
    Digest,
    Identity,
    Name,
    Rejection,
    Service,
    read_decision,
)
from suffice.tables.data_sheet import DataSheet

_Responses = dict[int | str, dict[str, Any]]
FAILURES = problem_responses(
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
FAILURES_OF_BODIES = problem_responses(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)


@dataclass(frozen=True)
class HealthDocument:
    """That the service is up."""

    status: Literal["ok"]
    version: str


@dataclass(frozen=True)
class DataDocument:
    """A data set, and what a learner needs to know before it proposes."""

    name: str
    organisation: str
    label: str
    classes: tuple[str | int, ...]
    grants: Literal["by-hand", "automatic"]
    policy: Policy
    largest_epsilon: float
    sheet: DataSheet | None


@dataclass(frozen=True)
class ProposalStatus:
    """A proposal that arrived, and what became of it."""

    dataset: str
    proposal: strict_json.Digest
    received: Moment
    state: Literal["received", "waiting", "approved", "granted", "countered", "refused"]
    purpose: str


@dataclass(frozen=True)
class NewToken(TokenRecord):
    """A new token, with the text that its holder gets."""

    token: str


@dataclass(frozen=True)
class TokenRequest:
    """A token that an owner asks for."""

    role: Role
    scope: tuple[str, ...] = ()
    holder: Annotated[str, ("maxLength", 200)] = ""
    days: Annotated[int, ("minimum", 1), ("maximum", 3660)] = 90


def returns(schema: Any, status: HTTPStatus = HTTPStatus.OK) -> _Responses:
    """Return what the OpenAPI document says about an answer in JSON.

    ``schema`` is an annotation for `strict_json.schema`, such as a dataclass, or a schema itself.
    """
    described = schema if isinstance(schema, dict) else strict_json.schema(schema)
    content = {"application/json": {"schema": described}}
    return {int(status): {"description": status.phrase, "content": content}}


def json_response(
    value: Any, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> JSONResponse:
    """Return a value of one of the shapes as a response."""
    return JSONResponse(strict_json.plain(value), status, headers)


def _body(schema: dict[str, Any], media_type: str = "application/json") -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema}}}}


_ANSWER = returns({"anyOf": [kind.schema() for kind in (Granted, Countered, Refused)]})
_WAITING = returns(ProposalStatus, HTTPStatus.ACCEPTED)
_WAITING[202]["description"] = "There is no answer yet."
_WAITING[202]["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "required": True}}
_LONGEST_CHECKPOINT = 4096  # characters, of up to four bytes each
_TEXT: dict[str, Any] = {"content": {"text/plain": {"schema": {"type": "string"}}}}
_CHECKPOINT_BODY = _body({"type": "string", "maxLength": _LONGEST_CHECKPOINT}, "text/plain")
_ALTERED = problem_responses(HTTPStatus.CONFLICT)  # the ledger and its log do not agree


def _oversight_routes(router: APIRouter, service: Service) -> None:
    """Add the routes for owners and officers."""
    accounts = Accounts(service)
    overseer = service.authenticator.requires(Role.OWNER, Role.OFFICER)

    entries_shown = returns(tuple[EntryRecord, ...])

    @router.get("/datasets/{dataset}/log", responses={**entries_shown, **_ALTERED})
    def log(
        dataset: Name, caller: Annotated[Token, Depends(overseer)], after: AfterEntry = 0
    ) -> Response:
        """List the entries of the audit log about a data set, and about the ledger as a whole.

        At most 1,000, oldest first. To see more, name the last number of the list as "after".
        """
        service.authenticator.served(caller, dataset)
        accounts.whole_log(caller)
        return json_response(accounts.entries_about(caller, dataset, after, ROWS_AT_ONCE))

    @router.get("/log/checkpoint", responses={200: _TEXT, **_ALTERED}, response_class=Response)
    def checkpoint(caller: Annotated[Token, Depends(overseer)]) -> Response:
        """Return the signed head of the audit log, as `suffice ledger checkpoint` writes it."""
        text = accounts.checkpoint(caller).to_text()
        return Response(text, media_type="text/plain")

    @router.post(
        "/log/verify",
        responses={**returns(Comparison), **FAILURES_OF_BODIES},
        openapi_extra=_CHECKPOINT_BODY,
    )
    async def verify(request: Request, caller: Annotated[Token, Depends(overseer)]) -> Response:
        """Say whether the ledger still contains an older checkpoint, whose text is the body."""
        body = await read_body(request, 4 * _LONGEST_CHECKPOINT)
        older = checkpoint_of(body.decode("ascii", "replace"))

        def compared() -> Comparison:
            return accounts.compare(caller, older)

        return json_response(await run_in_threadpool(compared))

    @router.get(
        "/export", responses={**returns({"type": "object"}), **_ALTERED}, response_class=Response
    )
    def export(caller: Annotated[Token, Depends(overseer)]) -> Response:
        """Return everything that your token shows as one signed document."""
        return export_response(*accounts.export(caller))


def export_response(pieces: Sequence[SupportsBytes], size: int, name: str) -> Response:
    """Return an export, chunk by chunk, as its reader takes them."""

    def chunks() -> Iterator[bytes]:
        some, length = list[bytes](), 0
        for piece in pieces:
            some.append(bytes(piece))
            length += len(some[-1])
            if length >= CHUNK_BYTES:
                yield b"".join(some)
                some, length = [], 0
        yield b"".join(some)

    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Length": str(size),
    }
    return StreamingResponse(chunks(), media_type="application/json", headers=headers)


def release_response(service: Service, stored: StoredProposal) -> Response:
    """Return the bytes of the release that a proposal was granted."""
    data = service.records.release(stored)
    if data is None:
        raise archived() if stored.state is State.ARCHIVED else not_found()
    return Response(data, media_type="application/octet-stream")


def checkpoint_of(text: str) -> Checkpoint:
    """Return the checkpoint in a text that was sent or pasted; blanks around it do not matter."""
    return Checkpoint.from_text(text.replace("\r\n", "\n").strip())


_MOST_SMALL_BYTES = 10_000
_MOST_OTHER_BYTES = 2**16  # of a proposal, beside the names of its features
_MOST_LISTED = 100
_RETRY = {"Retry-After": "1"}
_BYTES = {"type": "string", "format": "binary"}
# Only for /openapi.json: `Authenticator` reads the token, and answers with a problem document.
BEARER = Depends(HTTPBearer(auto_error=False, description="A token that the owner made."))


def api_router(service: Service) -> APIRouter:
    """Return every route under /v1."""
    router = APIRouter(responses=FAILURES, dependencies=[BEARER])
    for add in (_proposal_routes, _data_routes, _token_routes, _oversight_routes):
        add(router, service)
    return router


class Direct(APIRoute):
    """Gives its function the request and the parts of its path, and checks nothing before.

    What FastAPI checks takes as long as all the rest of an answer.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)
            return
        response = await self.endpoint(Request(scope, receive, send), **scope["path_params"])
        await response(scope, receive, send)


def _data_routes(router: APIRouter, service: Service) -> None:
    anyone = service.authenticator.requires(Role.OWNER, Role.OFFICER, Role.LEARNER)

    @router.get("/datasets", responses=returns(tuple[DataDocument, ...]))
    def datasets(caller: Annotated[Token, Depends(anyone)]) -> Response:
        """List the data sets that your token covers."""
        documents = []
        for name, served in service.settings.datasets.items():
            if caller.covers(name) and service.records.is_open(name):
                documents.append(
                    DataDocument(
                        name=name,
                        organisation=service.settings.organisation,
                        label=served.label,
                        classes=service.classes(name),
                        grants=served.grants,
                        policy=replace(served.policy, classes=None),
                        largest_epsilon=service.largest_epsilon(name),
                        sheet=served.sheet,
                    )
                )
        return json_response(documents)

    @router.get("/datasets/{dataset}/balance", responses=returns(tuple[BudgetRecord, ...]))
    def balance(dataset: Name, caller: Annotated[Token, Depends(anyone)]) -> Response:
        """Show what is left of each budget of a data set."""
        service.authenticator.served(caller, dataset)
        return json_response([budget_record(b) for b in service.ledger.balances(dataset)])


def _proposal_routes(router: APIRouter, service: Service) -> None:
    owner = service.authenticator.requires(Role.OWNER)
    anyone = service.authenticator.requires(Role.OWNER, Role.OFFICER, Role.LEARNER)
    askers = service.authenticator.requires(Role.LEARNER, Role.OWNER)
    direct = APIRouter(route_class=Direct)

    @direct.get("/datasets/{dataset}/proposals/{digest}", responses={**_ANSWER, **_WAITING})
    async def answer(request: Request, dataset: Name, digest: Digest) -> Response:
        """Return the answer to a proposal, or 202 while there is none."""

        def found() -> Response:
            return _answer_response(service.proposal(anyone(request), dataset, digest))

        return await run_in_threadpool(found)

    router.include_router(direct)

    @router.post(
        "/datasets/{dataset}/proposals",
        status_code=202,
        responses={**_WAITING, **FAILURES_OF_BODIES, **_ANSWER},
        openapi_extra=_body(Proposal.schema()),
    )
    async def propose(
        dataset: Name, request: Request, caller: Annotated[Token, Depends(askers)]
    ) -> Response:
        """Send a proposal, the file that `suffice propose` writes. The same one is stored once."""
        served = await run_in_threadpool(service.authenticator.served, caller, dataset)
        names = sum(len(name) for name in served.columns)
        # A larger proposal names features that are not granted.
        body = await read_json(request, min(MOST_BYTES, _MOST_OTHER_BYTES + 8 * names))

        def stored() -> Response:
            return _answer_response(service.receive(caller, dataset, Proposal.load(body)))

        return await run_in_threadpool(stored)

    @router.get("/datasets/{dataset}/proposals", responses=returns(tuple[ProposalStatus, ...]))
    def proposals(
        dataset: Name, caller: Annotated[Token, Depends(anyone)], after: After = None
    ) -> Response:
        """List the proposals that you may see, oldest first: at most 100, after one that you name.

        To see more, ask again and name the last digest of the list as "after".
        """
        service.authenticator.served(caller, dataset)
        sender = None if sees_all(caller) else caller.id
        listed = service.records.page(dataset, sender, after=after, most=_MOST_LISTED)
        states = {LOST: "refused"}
        return json_response(
            [
                ProposalStatus(
                    dataset=dataset,
                    proposal=row.digest,
                    received=row.received,
                    state=states.get(row.state, row.state),  # type: ignore[arg-type]  # one of these
                    purpose=json.loads(row.record)["purpose"],
                )
                for row in listed
            ]
        )

    @router.get(
        "/datasets/{dataset}/proposals/{digest}/release",
        responses={200: {"content": {"application/octet-stream": {"schema": _BYTES}}}},
        response_class=Response,
    )
    def release(
        dataset: Name, digest: Digest, caller: Annotated[Token, Depends(anyone)]
    ) -> Response:
        """Return the bytes of the release that a proposal was granted."""
        return release_response(service, service.proposal(caller, dataset, digest))

    @router.post(
        "/datasets/{dataset}/proposals/{digest}/decision",
        responses={**_ANSWER, **_WAITING, **FAILURES_OF_BODIES},
        openapi_extra=_body(strict_json.schema(Approval | Rejection)),
    )
    async def decision(
        dataset: Name, digest: Digest, request: Request, caller: Annotated[Token, Depends(owner)]
    ) -> Response:
        """Grant a waiting proposal ({"grant": true}), or refuse it with a "reason"."""
        body = strict_json.parse(await read_json(request, _MOST_SMALL_BYTES))
        choice = read_decision(body)

        def decided() -> Response:
            service.decide(service.proposal(caller, dataset, digest), choice, caller)
            return _answer_response(service.proposal(caller, dataset, digest))

        return await run_in_threadpool(decided)


def _answer_response(proposal: StoredProposal) -> Response:
    if proposal.state is State.ARCHIVED:
        raise archived()
    if proposal.answer is not None:
        return Response(proposal.answer, media_type="application/json")
    return json_response(_status(proposal), HTTPStatus.ACCEPTED, _RETRY)


def _status(stored: StoredProposal) -> ProposalStatus:
    """Return what became of a proposal."""
    answer = stored.parsed_answer
    return ProposalStatus(
        dataset=stored.dataset,
        proposal=stored.digest,
        received=stored.received.isoformat(),
        state=str(stored.state) if answer is None else answer.name,  # type: ignore[arg-type]  # one of these
        purpose=stored.proposal.purpose,
    )


def _token_routes(router: APIRouter, service: Service) -> None:
    owner = service.authenticator.requires(Role.OWNER)

    @router.get("/tokens", responses=returns(tuple[TokenRecord, ...]))
    def tokens(caller: Annotated[Token, Depends(owner)]) -> Response:
        """List all tokens, without their secrets."""
        check_covers_all(caller)
        return json_response([token.record() for token in service.records.tokens()])

    @router.post(
        "/tokens",
        status_code=201,
        responses={**returns(NewToken, HTTPStatus.CREATED), **FAILURES_OF_BODIES},
        openapi_extra=_body(strict_json.schema(TokenRequest, defaults=True)),
    )
    async def new(request: Request, caller: Annotated[Token, Depends(owner)]) -> JSONResponse:
        """Make a token: {"role": "learner", "scope": [...], "holder": TEXT, "days": 90}."""
        check_covers_all(caller)
        body = strict_json.parse(await read_json(request, _MOST_SMALL_BYTES))
        asked = strict_json.read(TokenRequest, body, "token", defaults=True, error=ParameterError)
        if not {*asked.scope} <= service.settings.datasets.keys():
            raise ParameterError("The scope of a token must be data sets that are served.")
        token, text = mint(asked.role, scope=asked.scope, holder=asked.holder, days=asked.days)
        await run_in_threadpool(service.records.add_token, token)
        return json_response(NewToken(**vars(token.record()), token=text), HTTPStatus.CREATED)

    @router.delete("/tokens/{identity}", status_code=204, response_class=Response)
    def revoke(identity: Identity, caller: Annotated[Token, Depends(owner)]) -> Response:
        """Revoke a token. It is useless from now on."""
        check_covers_all(caller)
        if service.records.token(identity) is None:
            raise not_found()
        service.records.revoke_token(identity)
        return Response(status_code=HTTPStatus.NO_CONTENT)
