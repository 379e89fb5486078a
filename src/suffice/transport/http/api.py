"""The routes under /v1: what each returns, and for whom.

What a learner sees never depends on a private value. Answers are made in `jobs`; a handler reads
the desk and the ledger, and never a table.
"""

from collections.abc import Container
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool

from suffice import strict_json
from suffice.errors import ParameterError
from suffice.owner.ledger.tokens import Role, Token, mint
from suffice.transport.http.access import Caller
from suffice.transport.http.desk import Filed
from suffice.transport.http.documents import (
    CHOICE_BODY,
    FAILURES,
    FAILURES_OF_BODIES,
    PROPOSAL_BODY,
    TOKEN_BODY,
    WAITING,
    AnswerDocument,
    BalanceDocument,
    DataDocument,
    FiledDocument,
    MintedDocument,
    TokenDocument,
)
from suffice.transport.http.limits import read_json
from suffice.transport.http.oversight import oversight_router
from suffice.transport.http.problems import Problem, not_found
from suffice.transport.http.service import After, Digest, Identity, Name, Service
from suffice.transport.http.settings import ServedData
from suffice.transport.messages import MOST_BYTES, Proposal

__all__ = ["api_router"]

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
        "policy": {**served.policy.to_json(), "classes": None},
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
        return [token.to_json() for token in service.desk.tokens()]

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
        return JSONResponse({**token.to_json(), "token": text}, HTTPStatus.CREATED)

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
