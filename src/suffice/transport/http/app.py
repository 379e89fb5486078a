"""The application: routes, pages, problems, the headers of every response, and its workers."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from suffice._version import __version__
from suffice.transport.http.api import api_router
from suffice.transport.http.problems import install_problems
from suffice.transport.http.service import Service
from suffice.transport.http.settings import Settings
from suffice.transport.http.views import install_pages

__all__ = ["make_app"]

_SECURE = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def make_app(settings: Settings) -> FastAPI:
    """Return the application; its workers run from start-up to shut-down.

    Parameters
    ----------
    settings
        What is served.
    """
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.workroom.open()
        yield
        await run_in_threadpool(service.workroom.close)

    app = FastAPI(
        title="suffice",
        version=__version__,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        openapi_url=f"{settings.server.prefix}/openapi.json",
        lifespan=lifespan,
    )
    install_problems(app)
    app.middleware("http")(_secured)

    @app.get(f"{settings.server.prefix}/health")
    def health() -> dict[str, str]:
        """Say that the service is up, and which version it is."""
        return {"status": "ok", "version": __version__}

    app.include_router(api_router(service), prefix=f"{settings.server.prefix}/v1")
    install_pages(app, service)
    return app


async def _secured(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    """Add the headers that keep responses out of caches, frames and other sites."""
    response = await call_next(request)
    for name, value in _SECURE.items():
        response.headers.setdefault(name, value)
    return response
