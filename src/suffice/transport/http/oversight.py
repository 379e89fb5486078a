"""The routes under /v1 for those who oversee a service: log, checkpoint, comparison and export.

They are for owners and officers. A token that covers some data sets shows those alone.
"""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from suffice.owner.ledger.checkpoint import Checkpoint
from suffice.owner.ledger.tokens import Role, Token
from suffice.transport.http.access import Caller
from suffice.transport.http.accounts import Accounts
from suffice.transport.http.documents import (
    FAILURES_OF_BODIES,
    ComparisonDocument,
    EntryDocument,
)
from suffice.transport.http.limits import read_body
from suffice.transport.http.log_views import compare, concerns, entry_json, visible_entries
from suffice.transport.http.problems import problem_responses
from suffice.transport.http.service import Name, Service

__all__ = ["checkpoint_of", "oversight_router"]

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
