"""What holds for every request, whatever its route: headers of the response, and no bare failure.

The application answers inside this guard. Also a failure that nobody expected gets the headers that
keep responses out of caches, frames and other sites, and a problem document that tells nothing.
"""

import logging
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from suffice.transport.http.problems import problem_response

__all__ = ["Guard"]

LOGGER = logging.getLogger("suffice.service")
_SECURE = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # with none, browsers hide the origin of forms
    "X-Content-Type-Options": "nosniff",
}
_TLS = {"Strict-Transport-Security": "max-age=31536000"}


class Guard:
    """Adds the headers of every response, and answers what the application does not.

    Parameters
    ----------
    app
        The application.
    tls
        Whether readers reach the service over TLS, its own or that of a proxy.
    """

    def __init__(self, app: ASGIApp, *, tls: bool) -> None:
        self._app = app
        self._headers = {**_SECURE, **_TLS} if tls else _SECURE

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_secured(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            if _has_two_lengths(Headers(scope=scope)):
                detail = "A request has a length or is chunked, not both."
                refusal = problem_response(HTTPStatus.BAD_REQUEST, detail, {"Connection": "close"})
                await refusal(scope, receive, send_secured)
            else:
                await self._app(scope, receive, send_secured)
        except ClientDisconnect:
            return
        except Exception as error:
            if started:
                raise
            LOGGER.error("A request failed: %s.", type(error).__name__)  # noqa: TRY400  # its text may quote
            failure = problem_response(
                HTTPStatus.INTERNAL_SERVER_ERROR, "The service failed. Tell the owner."
            )
            await failure(scope, receive, send_secured)


def _has_two_lengths(headers: Headers) -> bool:
    """Say whether a proxy and this server could disagree about where the request ends."""
    return "transfer-encoding" in headers and "content-length" in headers
