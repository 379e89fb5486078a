"""The pages for those who oversee a service: the report, its printed form, the log, the export."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from suffice.errors import ReleaseError
from suffice.owner.ledger.tokens import utc_now
from suffice.transport.http.accounts import Accounts
from suffice.transport.http.log_views import Comparison, compare, entry_words, visible_entries
from suffice.transport.http.oversight import checkpoint_of
from suffice.transport.http.rendering import Renderer
from suffice.transport.http.sessions import Session, Sessions

__all__ = ["OversightPages"]

_ENTRIES = 100  # of the log on one page
_LARGEST_NUMBER = 10**15


class OversightPages:
    """Adds the pages to a router.

    Parameters
    ----------
    accounts
        What there is to show.
    renderer
        How it is shown.
    sessions
        Who reads it.
    """

    def __init__(self, accounts: Accounts, renderer: Renderer, sessions: Sessions) -> None:
        self._accounts, self._renderer, self._sessions = accounts, renderer, sessions

    def add_to(self, router: APIRouter, reader: Any) -> None:
        """Add the pages; ``reader`` is the annotation of a session."""

        @router.get("/report")
        def report(session: reader) -> Response:
            return self._report(session, for_print=False)

        @router.get("/print")
        def printed(session: reader) -> Response:
            return self._report(session, for_print=True)

        @router.get("/log")
        def log(
            session: reader,
            before: Annotated[int | None, Query(ge=1, le=_LARGEST_NUMBER)] = None,
        ) -> Response:
            return self._log(session, before)

        @router.post("/log")
        async def comparison(request: Request, session: reader) -> Response:
            fields = await self._sessions.form(request, session)
            return await run_in_threadpool(self._compare, session, fields.get("checkpoint", ""))

        @router.get("/log/checkpoint")
        def checkpoint(session: reader) -> Response:
            signed = self._accounts.checkpoint(session.token)
            name = f"{signed.time[:10]}-{signed.entries}.checkpoint"
            return _download(signed.to_text().encode(), "text/plain", name)

        @router.get("/export")
        def export(session: reader) -> Response:
            signed = self._accounts.export(session.token)
            name = f"{signed.content['time'][:10]}-{signed.content['entries']}.export.json"
            return _download(signed.encode(), "application/json", name)

    def _report(self, session: Session, *, for_print: bool) -> Response:
        token = session.token
        return self._renderer.page(
            "report.html",
            session,
            for_print=for_print,
            datasets=self._accounts.datasets(token),
            tokens=self._accounts.tokens(token),
            log=self._accounts.log(token),
            key_id=self._accounts.key_id,
            now=utc_now(),
        )

    def _compare(self, session: Session, text: str) -> Response:
        if not text.strip():
            return self._log(session, None, problem="Paste the seven lines of a checkpoint.")
        try:
            older = checkpoint_of(text)
        except ReleaseError as error:
            return self._log(session, None, problem=str(error), pasted=text)
        log = self._accounts.log(session.token)
        return self._log(session, None, comparison=compare(log, older, self._accounts.key_id))

    def _log(
        self,
        session: Session,
        before: int | None,
        *,
        comparison: Comparison | None = None,
        problem: str | None = None,
        pasted: str = "",
    ) -> Response:
        log = self._accounts.log(session.token)
        visible = visible_entries(log.entries, session.token)
        older = [entry for entry in visible if before is None or entry.number < before]
        shown = older[-_ENTRIES:][::-1]
        rows = [(entry, entry_words(entry)) for entry in shown]
        return self._renderer.page(
            "log.html",
            session,
            HTTPStatus.OK if problem is None else HTTPStatus.BAD_REQUEST,
            log=log,
            rows=rows,
            count=len(visible),
            next_page=shown[-1].number if len(older) > len(shown) else None,
            comparison=comparison,
            key_id=self._accounts.key_id,
            pasted=pasted,
            problem=problem,
        )


def _download(data: bytes, media_type: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type=media_type, headers=headers)
