"""What a request gets when it fails: a problem document (RFC 9457).

A problem never contains what a table holds. What is not there and what the token may not see look
alike.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from suffice import strict_json
from suffice.errors import LedgerError, ReleaseError, StorageError, SufficeError, UsageError
from suffice.service.operation import LOGGER, REFUSALS, failure_of

MEDIA_TYPE = "application/problem+json"
_METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
_HEADERS: dict[int, str] = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}


@dataclass(frozen=True)
class ProblemDocument:
    """What a request gets when it fails (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


class Problem(Exception):  # noqa: N818  # the word of RFC 9457
    """A request that fails; the detail tells the caller what is wrong, and what to do about it."""

    def __init__(
        self, status: HTTPStatus, detail: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers


def not_found() -> Problem:
    """Return the one problem of everything that a token does not show."""
    return Problem(HTTPStatus.NOT_FOUND, "There is nothing here that your token shows.")


def problem_response(status: int, detail: str, headers: Any = None) -> JSONResponse:
    """Return the response that describes a failure."""
    document = ProblemDocument("about:blank", HTTPStatus(status).phrase, int(status), detail)
    return JSONResponse(strict_json.plain(document), int(status), headers, MEDIA_TYPE)


# Each handler gets the errors of one class alone, as `install_problems` says.
async def _of_problem(_: Request, problem: Any) -> JSONResponse:
    REFUSALS.note(problem.detail)  # a fixed sentence
    return problem_response(problem.status, problem.detail, problem.headers)


async def _of_starlette(request: Request, error: Any) -> JSONResponse:
    status = HTTPStatus(error.status_code)
    REFUSALS.note(f"{status.description}.")
    headers = error.headers
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        # Every method of the path: the framework names those of one route alone.
        routes = request.app.router.routes
        scopes = [{**request.scope, "method": method} for method in _METHODS]
        allowed = [
            scope["method"]
            for scope in scopes
            if any(route.matches(scope)[0] is Match.FULL for route in routes)
        ]
        headers = {"Allow": ", ".join(allowed)}
    return problem_response(status, status.description, headers)


async def _of_validation(_: Request, error: Exception) -> JSONResponse:
    del error  # it quotes what was sent
    detail = "A part of the request is not what /openapi.json says."
    REFUSALS.note(detail)
    return problem_response(HTTPStatus.UNPROCESSABLE_ENTITY, detail)


async def of_library(_: Request, error: Exception) -> JSONResponse:
    """Return the sentence of an error about what the caller sent; nothing about anything else."""
    if isinstance(error, UsageError | ReleaseError):
        REFUSALS.note(f"It is a {type(error).__name__}.")  # whose text may quote what was sent
        return problem_response(error.http_status, str(error))
    if isinstance(error, LedgerError | StorageError):
        LOGGER.error(failure_of(error))
        detail = "The service cannot use its records now. Try again later."
        return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, detail, {"Retry-After": "2"})
    raise error  # `guard` answers what nobody expected


def archived() -> Problem:
    """Return the answer about a proposal whose body, answer and release are in an archive."""
    return Problem(
        HTTPStatus.GONE,
        "This proposal was answered long ago, and is archived. Nothing is drawn for it again. Ask"
        " the owner for the archive.",
    )


def install_problems(app: FastAPI) -> None:
    """Make every failure of an application a problem document."""
    app.add_exception_handler(Problem, _of_problem)
    app.add_exception_handler(HTTPException, _of_starlette)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(SufficeError, of_library)


def problem_responses(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """Return what the OpenAPI document says about these failures."""
    content = {MEDIA_TYPE: {"schema": strict_json.schema(ProblemDocument)}}
    described: dict[int | str, dict[str, Any]] = {
        int(s): {"description": s.phrase, "content": content} for s in statuses
    }
    for status, name in _HEADERS.items():
        if status in described:
            described[status]["headers"] = {name: {"schema": {"type": "string"}, "required": True}}
    return described
