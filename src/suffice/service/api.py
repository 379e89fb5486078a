"""The shapes of what the routes under /v1 take and return, as /openapi.json states them."""

from collections.abc import Container
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, create_model
from starlette.concurrency import run_in_threadpool

from suffice import strict_json
from suffice.errors import ParameterError
from suffice.owner.ledger.log import Checkpoint
from suffice.owner.ledger.tokens import Role, Token, mint
from suffice.protocol.messages import MOST_BYTES, Proposal
from suffice.service.auth import Caller
from suffice.service.limits import read_body, read_json
from suffice.service.oversight import Accounts, compare, concerns, entry_json, visible_entries
from suffice.service.problems import Problem, not_found, problem_responses
from suffice.service.records import Filed
from suffice.service.settings import ServedData
from suffice.service.workers import After, Digest, Identity, Name, Service

__all__ = [
    "CHOICE_BODY",
    "FAILURES",
    "FAILURES_OF_BODIES",
    "PROPOSAL_BODY",
    "TOKEN_BODY",
    "WAITING",
    "AnswerDocument",
    "BalanceDocument",
    "ComparisonDocument",
    "DataDocument",
    "EntryDocument",
    "FiledDocument",
    "HealthDocument",
    "MintedDocument",
    "PolicyDocument",
    "RowsDocument",
    "TermsDocument",
    "TokenDocument",
    "api_router",
    "checkpoint_of",
    "oversight_router",
]


_DIGEST = "^sha256:[0-9a-f]{64}$"
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Day = Annotated[str, Field(json_schema_extra={"format": "date"})]
DigestText = Annotated[str, Field(pattern=_DIGEST)]
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


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


class HealthDocument(_Document):
    """That the service is up."""

    status: Literal["ok"]
    version: str


class PolicyDocument(_Document):
    """What an owner grants, request by request."""

    largest_epsilon: float
    largest_delta: float
    mechanisms: list[str]
    kinds: list[str]
    features: list[str]
    least_rows: int
    maps: bool
    most_coordinates: int
    classes: None


class DataDocument(_Document):
    """A data set, and what a learner needs to know before it proposes."""

    name: str
    organisation: str
    label: str
    classes: list[str | int]
    grants: Literal["by-hand", "automatic"]
    policy: PolicyDocument
    largest_epsilon: float


class BalanceDocument(_Document):
    """One budget of a data set."""

    unit: str
    epsilon: float
    delta: float
    spent: float
    left: float
    charges: int


class FiledDocument(_Document):
    """A proposal that arrived, and what became of it."""

    dataset: str
    proposal: DigestText
    received: Moment
    state: Literal["received", "waiting", "approved", "granted", "countered", "refused"]
    purpose: str


class TokenDocument(_Document):
    """A token, without its secret."""

    id: str
    role: Role
    scope: list[str]
    holder: str
    made: Moment
    expires: Moment
    revoked: Moment | None
    used: Day | None


class MintedDocument(TokenDocument):
    """A new token, with the text that its holder gets."""

    token: str


class EntryDocument(_Document):
    """An entry of the audit log; a token for some data sets is shown no digest."""

    number: int
    time: str
    kind: str
    digest: str | None
    facts: dict[str, Any]


class ComparisonDocument(_Document):
    """What became of an older checkpoint."""

    verdict: Literal["agrees", "lost", "altered", "another-ledger"]
    agrees: bool
    words: list[str]
    entries: int | None
    head: str | None
    frozen: str | None
    checkpoint_key: str
    service_key: str


class TermsDocument(_Document):
    """Epsilon, delta and mechanism."""

    epsilon: float
    delta: float
    mechanism: str


class RowsDocument(_Document):
    """The number of rows, and their hash."""

    count: int
    hash: str


def _answer(name: str, **fields: Any) -> type[BaseModel]:
    """Return the shape of a message of this name."""
    common: dict[str, Any] = {
        "message": (Literal[name], ...),
        "version": (Literal[1], ...),
        "digest": (DigestText, ...),
    }
    return create_model(f"{name.title()}Document", __base__=_Document, **common, **fields)


GrantedDocument = _answer("granted", proposal=(DigestText, ...), release=(DigestText, ...))
CounteredDocument = _answer(
    "countered", proposal=(DigestText, ...), terms=(TermsDocument, ...), reasons=(list[str], ...)
)
RefusedDocument = _answer("refused", proposal=(DigestText, ...), reasons=(list[str], ...))
AnswerDocument: Any = GrantedDocument | CounteredDocument | RefusedDocument
ProposalDocument = _answer(
    "proposal",
    kind=(str, ...),
    terms=(TermsDocument, ...),
    rows=(RowsDocument, ...),
    features=(list[str], ...),
    classes=(list[str | int | float | bool], ...),
    map=(str | None, ...),
    missing=(str, ...),
    pipeline=(DigestText | None, ...),
    purpose=(Annotated[str, Field(max_length=1000)], ...),
)
WAITING: dict[int | str, dict[str, Any]] = {
    202: {
        "model": FiledDocument,
        "description": "There is no answer yet.",
        "headers": {"Retry-After": {"schema": {"type": "integer"}, "required": True}},
    }
}


class _TokenWish(_Document):
    role: Role
    scope: list[str] = []
    holder: Annotated[str, Field(max_length=200)] = ""
    days: Annotated[int, Field(ge=1, le=3660)] = 90


class _Grant(_Document):
    grant: Literal[True]


class _Refusal(_Document):
    grant: Literal[False]
    reason: Annotated[str, Field(max_length=1000)]


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def _inlined(kind: type[BaseModel]) -> dict[str, Any]:
    """Return a JSON schema without references, which could not stand in the middle of another."""
    schema = kind.model_json_schema()
    parts = schema.pop("$defs", {})

    def resolve(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return resolve(parts[value["$ref"].rpartition("/")[2]])
            return {name: resolve(item) for name, item in value.items()}
        return [resolve(item) for item in value] if isinstance(value, list) else value

    return dict(resolve(schema))


PROPOSAL_BODY = _body(_inlined(ProposalDocument))
TOKEN_BODY = _body(_inlined(_TokenWish))
CHOICE_BODY = _body({"oneOf": [_inlined(_Grant), _inlined(_Refusal)]})


_LONGEST_CHECKPOINT = 4096  # characters, of up to four bytes each
_TEXT: dict[str, Any] = {"content": {"text/plain": {"schema": {"type": "string"}}}}
_LINES = {"schema": {"type": "string", "maxLength": _LONGEST_CHECKPOINT}}
_CHECKPOINT_BODY = {"requestBody": {"required": True, "content": {"text/plain": _LINES}}}
_ALTERED = problem_responses(HTTPStatus.CONFLICT)  # the ledger and its log do not agree
_OBJECT = {"schema": {"type": "object"}}
_EXPORT: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": _OBJECT}}}


def oversight_router(service: Service) -> APIRouter:
    """Return the routes for owners and officers."""
    router = APIRouter()
    accounts = Accounts(service)
    overseer = service.door.opens_for(Role.OWNER, Role.OFFICER)

    @router.get("/datasets/{dataset}/log", response_model=list[EntryDocument], responses=_ALTERED)
    def log(dataset: Name, caller: Annotated[Caller, Depends(overseer)]) -> list[dict[str, Any]]:
        """List the entries of the audit log about a data set, and about the ledger as a whole."""
        service.door.served(caller, dataset)
        entries = accounts.whole_log(caller.token).entries
        own = [entry for entry in entries if concerns(entry, dataset)]
        return [entry_json(entry) for entry in visible_entries(own, caller.token)]

    @router.get("/log/checkpoint", responses={200: _TEXT, **_ALTERED}, response_class=Response)
    def checkpoint(caller: Annotated[Caller, Depends(overseer)]) -> Response:
        """Return the signed head of the audit log, as `suffice ledger checkpoint` writes it."""
        text = accounts.checkpoint(caller.token).to_text()
        return Response(text, media_type="text/plain")

    @router.post(
        "/log/verify",
        response_model=ComparisonDocument,
        responses=FAILURES_OF_BODIES,
        openapi_extra=_CHECKPOINT_BODY,
    )
    async def verify(
        request: Request, caller: Annotated[Caller, Depends(overseer)]
    ) -> dict[str, Any]:
        """Say whether the ledger still contains an older checkpoint, whose text is the body."""
        body = await read_body(request, 4 * _LONGEST_CHECKPOINT)
        older = checkpoint_of(body.decode("ascii", "replace"))
        return await run_in_threadpool(_comparison_json, accounts, caller.token, older)

    @router.get("/export", responses={**_EXPORT, **_ALTERED}, response_class=Response)
    def export(caller: Annotated[Caller, Depends(overseer)]) -> Response:
        """Return everything that your token shows as one signed document."""
        return Response(accounts.export(caller.token).encode(), media_type="application/json")

    return router


def checkpoint_of(text: str) -> Checkpoint:
    """Return the checkpoint in a text that was sent or pasted; blanks around it do not matter.

    Raises
    ------
    CorruptFileError
        If it is no checkpoint.
    SignatureError
        If its signature does not belong to it.
    """
    return Checkpoint.from_text(text.replace("\r\n", "\n").strip())


def _comparison_json(accounts: Accounts, token: Token, older: Checkpoint) -> dict[str, Any]:
    log = accounts.log(token)
    comparison = compare(log, older, accounts.key_id)
    return {
        "verdict": comparison.verdict,
        "agrees": comparison.agrees,
        "words": comparison.words,
        "entries": len(log.entries) or None,
        "head": log.head or None,
        "frozen": log.frozen or None,
        "checkpoint_key": older.key_id,
        "service_key": accounts.key_id,
    }


_MOST_SMALL_BYTES = 10_000
_MOST_OTHER_BYTES = 2**16  # of a proposal, beside the names of its features
_MOST_LISTED = 100
_RETRY = {"Retry-After": "1"}
_BYTES = {"type": "string", "format": "binary"}
# Only for /openapi.json: `Door` reads the token itself, and answers with a problem document.
_BEARER = Depends(HTTPBearer(auto_error=False, description="A token that the owner made."))


def api_router(service: Service) -> APIRouter:
    """Return every route under /v1."""
    router = APIRouter()
    for routes in (_data_routes, _proposal_routes, _decision_routes, _token_routes):
        router.include_router(routes(service))
    router.include_router(oversight_router(service), responses=FAILURES, dependencies=[_BEARER])
    return router


def _data_routes(service: Service) -> APIRouter:
    router = APIRouter(responses=FAILURES, dependencies=[_BEARER])
    anyone = service.door.opens_for(*Role)

    @router.get("/datasets", response_model=list[DataDocument])
    def datasets(caller: Annotated[Caller, Depends(anyone)]) -> list[dict[str, Any]]:
        """List the data sets that your token covers."""
        visible = {n: d for n, d in service.settings.datasets.items() if caller.token.covers(n)}
        return [_data_json(service, name, served) for name, served in visible.items()]

    @router.get("/datasets/{dataset}/balance", response_model=list[BalanceDocument])
    def balance(dataset: Name, caller: Annotated[Caller, Depends(anyone)]) -> list[dict[str, Any]]:
        """Show what is left of each budget of a data set."""
        service.door.served(caller, dataset)
        return [
            {
                "unit": str(b.unit),
                "epsilon": b.budget.epsilon,
                "delta": b.budget.delta,
                "spent": b.spent,
                "left": b.left,
                "charges": b.debits,
            }
            for b in service.balance(dataset)
        ]

    return router


def _data_json(service: Service, name: str, served: ServedData) -> dict[str, Any]:
    """Return what a learner needs to know before it proposes."""
    classes = served.policy.classes or service.ledger.classes(name, served.label)
    return {
        "name": name,
        "organisation": service.settings.organisation,
        "label": served.label,
        "classes": list(classes or ()),
        "grants": served.grants,
        "policy": {**strict_json.plain(served.policy), "classes": None},
        "largest_epsilon": service.largest_epsilon(name),
    }


def _proposal_routes(service: Service) -> APIRouter:
    router = APIRouter(responses=FAILURES, dependencies=[_BEARER])
    anyone = service.door.opens_for(*Role)
    askers = service.door.opens_for(Role.LEARNER, Role.OWNER)

    @router.post(
        "/datasets/{dataset}/proposals",
        status_code=202,
        response_model=FiledDocument,
        responses={**WAITING, **FAILURES_OF_BODIES, 200: {"model": AnswerDocument}},
        openapi_extra=PROPOSAL_BODY,
    )
    async def propose(
        dataset: Name, request: Request, caller: Annotated[Caller, Depends(askers)]
    ) -> Response:
        """File a proposal, the file that `suffice propose` writes. The same one is filed once."""
        served = service.door.served(caller, dataset)
        body = await read_json(request, _most_bytes(served))
        return await run_in_threadpool(_file, service, caller, dataset, body)

    @router.get("/datasets/{dataset}/proposals", response_model=list[FiledDocument])
    def proposals(
        dataset: Name, caller: Annotated[Caller, Depends(anyone)], after: After = None
    ) -> list[dict[str, Any]]:
        """List the proposals that you may see, oldest first: at most 100, after one that you name.

        To see more, ask again and name the last digest of the list as "after".
        """
        service.door.served(caller, dataset)
        sender = None if caller.sees_all else caller.token.id
        listed = service.desk.page(dataset, sender, after=after, most=_MOST_LISTED)
        return [_filed_json(proposal) for proposal in listed]

    @router.get(
        "/datasets/{dataset}/proposals/{digest}", response_model=AnswerDocument, responses=WAITING
    )
    def answer(
        dataset: Name, digest: Digest, caller: Annotated[Caller, Depends(anyone)]
    ) -> Response:
        """Return the answer to a proposal, or 202 while there is none."""
        return _answer_response(service.filed(caller, dataset, digest))

    @router.get(
        "/datasets/{dataset}/proposals/{digest}/release",
        responses={200: {"content": {"application/octet-stream": {"schema": _BYTES}}}},
        response_class=Response,
    )
    def release(
        dataset: Name, digest: Digest, caller: Annotated[Caller, Depends(anyone)]
    ) -> Response:
        """Return the bytes of the release that a proposal was granted."""
        proposal = service.filed(caller, dataset, digest)
        if proposal.release is None:
            raise not_found()
        return Response(proposal.release, media_type="application/octet-stream")

    return router


def _most_bytes(served: ServedData) -> int:
    """Return how large a proposal may be: larger ones name features that are not granted."""
    names = sum(len(name) for name in served.policy.features or ())
    return min(MOST_BYTES, _MOST_OTHER_BYTES + 8 * names)


def _file(service: Service, caller: Caller, dataset: str, body: bytes) -> Response:
    """File a proposal and wake its worker; a second copy of it is the first one."""
    proposal = Proposal.load(body)
    limits, sender = service.settings.limits, caller.token.id
    if not service.desk.file(dataset, proposal.digest, proposal.encode(), sender, limits):
        raise Problem(
            HTTPStatus.TOO_MANY_REQUESTS,
            "Too many proposals wait for an answer, or your token has sent all that it may. Try"
            " again later, or ask the owner.",
            {"Retry-After": "10"},
        )
    service.workroom.ring(dataset)
    return _answer_response(service.filed(caller, dataset, proposal.digest))


def _decision_routes(service: Service) -> APIRouter:
    router = APIRouter(responses=FAILURES, dependencies=[_BEARER])
    owner = service.door.opens_for(Role.OWNER)

    @router.post(
        "/datasets/{dataset}/proposals/{digest}/decision",
        response_model=AnswerDocument,
        responses={**WAITING, **FAILURES_OF_BODIES},
        openapi_extra=CHOICE_BODY,
    )
    async def decision(
        dataset: Name, digest: Digest, request: Request, caller: Annotated[Caller, Depends(owner)]
    ) -> Response:
        """Grant a waiting proposal ({"grant": true}), or refuse it with a "reason"."""
        choice = strict_json.parse(await read_json(request, _MOST_SMALL_BYTES))
        return await run_in_threadpool(_decide, service, caller, dataset, digest, choice)

    return router


def _decide(
    service: Service, caller: Caller, dataset: str, digest: str, choice: object
) -> Response:
    service.decide(service.filed(caller, dataset, digest), choice)
    return _answer_response(service.filed(caller, dataset, digest))


def _answer_response(proposal: Filed) -> Response:
    if proposal.answer is not None:
        return Response(proposal.answer, media_type="application/json")
    return JSONResponse(_filed_json(proposal), HTTPStatus.ACCEPTED, _RETRY)


def _filed_json(proposal: Filed) -> dict[str, Any]:
    """Return what became of a proposal, in plain values."""
    answer = None if proposal.answer is None else strict_json.parse(proposal.answer)
    return {
        "dataset": proposal.dataset,
        "proposal": proposal.digest,
        "received": proposal.received.isoformat(),
        "state": str(proposal.state) if answer is None else answer["message"],
        "purpose": strict_json.parse(proposal.body)["purpose"],  # it was checked when it arrived
    }


def _token_routes(service: Service) -> APIRouter:
    router = APIRouter(responses=FAILURES, dependencies=[_BEARER])
    owner = service.door.opens_for(Role.OWNER)

    @router.get("/tokens", response_model=list[TokenDocument])
    def tokens(caller: Annotated[Caller, Depends(owner)]) -> list[dict[str, Any]]:
        """List all tokens, without their secrets."""
        caller.check_whole_house()
        return [strict_json.plain(token.record()) for token in service.desk.tokens()]

    @router.post(
        "/tokens",
        status_code=201,
        response_model=MintedDocument,
        responses=FAILURES_OF_BODIES,
        openapi_extra=TOKEN_BODY,
    )
    async def new(request: Request, caller: Annotated[Caller, Depends(owner)]) -> JSONResponse:
        """Make a token: {"role": "learner", "scope": [...], "holder": TEXT, "days": 90}."""
        caller.check_whole_house()
        wish = strict_json.parse(await read_json(request, _MOST_SMALL_BYTES))
        token, text = _minted(wish, service.settings.datasets)
        await run_in_threadpool(service.desk.add_token, token)
        return JSONResponse(
            {**strict_json.plain(token.record()), "token": text}, HTTPStatus.CREATED
        )

    @router.delete("/tokens/{identity}", status_code=204, response_class=Response)
    def revoke(identity: Identity, caller: Annotated[Caller, Depends(owner)]) -> Response:
        """Revoke a token. It is useless from now on."""
        caller.check_whole_house()
        if service.desk.token(identity) is None:
            raise not_found()
        service.desk.revoke_token(identity)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    return router


def _minted(wish: object, served: Container[str]) -> tuple[Token, str]:
    """Return the token that an owner asks for; a field or a data set that is none is an error."""
    defaults: dict[str, Any] = {"role": None, "scope": [], "holder": "", "days": 90}
    if isinstance(wish, dict) and wish.keys() <= defaults.keys():
        values = {**defaults, **wish}
        scope, days = values["scope"], values["days"]
        named = isinstance(scope, list) and all(
            isinstance(name, str) and name in served for name in scope
        )
        role = isinstance(values["role"], str) and values["role"] in {*Role}
        if role and named and isinstance(values["holder"], str) and type(days) is int:
            return mint(values["role"], scope=tuple(scope), holder=values["holder"], days=days)
    raise ParameterError(
        f"A token needs a role ({', '.join(Role)}), and may have scope (data sets that are served),"
        " holder and days."
    )
