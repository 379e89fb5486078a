"""What a request gets when it fails: a problem document (RFC 9457).

A problem never contains what a table holds. What is not there and what the token may not see look
alike.
"""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from suffice.errors import LedgerError, ReleaseError, StorageError, SufficeError, UsageError

__all__ = ["MEDIA_TYPE", "Problem", "install_problems", "not_found", "problem_responses"]

MEDIA_TYPE = "application/problem+json"
_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


class Problem(Exception):  # noqa: N818  # the word of RFC 9457
    """A request that fails.

    Parameters
    ----------
    status : HTTPStatus
        The status of the response.
    detail : str
        What is wrong, and what to do about it, in a sentence for the caller.
    headers : dict, optional
        Further headers of the response.
    """

    def __init__(
        self, status: HTTPStatus, detail: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers


def not_found() -> Problem:
    """Return the one problem of everything that a token does not show."""
    return Problem(HTTPStatus.NOT_FOUND, "There is nothing here that your token shows.")


def _response(status: int, detail: str, headers: Any = None) -> JSONResponse:
    document = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "detail": detail,
    }
    return JSONResponse(document, int(status), headers, MEDIA_TYPE)


def _of_problem(_: Request, problem: Exception) -> JSONResponse:
    if not isinstance(problem, Problem):
        return _of_surprise(_, problem)
    return _response(problem.status, problem.detail, problem.headers)


def _of_starlette(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        return _of_surprise(_, error)
    return _response(error.status_code, HTTPStatus(error.status_code).description, error.headers)


def _of_validation(_: Request, error: Exception) -> JSONResponse:
    del error  # it quotes what was sent
    return _response(
        HTTPStatus.UNPROCESSABLE_ENTITY, "A part of the request is not what /openapi.json says."
    )


def _of_library(_: Request, error: Exception) -> JSONResponse:
    """Return the sentence of an error about what the caller sent; nothing about anything else."""
    if isinstance(error, UsageError | ReleaseError):
        return _response(error.http_status, str(error))
    if isinstance(error, LedgerError | StorageError):
        detail = "The service cannot use its records now. Try again later."
        return _response(HTTPStatus.SERVICE_UNAVAILABLE, detail, {"Retry-After": "10"})
    return _of_surprise(_, error)


def _of_surprise(_: Request, error: Exception) -> JSONResponse:
    del error  # the server's log names its type; nobody else learns more
    return _response(HTTPStatus.INTERNAL_SERVER_ERROR, "The service failed. Tell the owner.")


def install_problems(app: FastAPI) -> None:
    """Make every failure of an application a problem document."""
    app.add_exception_handler(Problem, _of_problem)
    app.add_exception_handler(HTTPException, _of_starlette)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(SufficeError, _of_library)
    app.add_exception_handler(Exception, _of_surprise)


def problem_responses(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """Return what the OpenAPI document says about these failures."""
    content = {MEDIA_TYPE: {"schema": _SCHEMA}}
    return {int(s): {"description": s.phrase, "content": content} for s in statuses}
