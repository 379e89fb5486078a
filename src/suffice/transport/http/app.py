"""The application: routes, pages, problems, the headers of every response, and its workers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from suffice._version import __version__
from suffice.transport.http.api import api_router
from suffice.transport.http.documents import HealthDocument
from suffice.transport.http.guard import Guard
from suffice.transport.http.problems import install_problems
from suffice.transport.http.service import Service
from suffice.transport.http.settings import Settings
from suffice.transport.http.views import install_pages

__all__ = ["make_app"]


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
        redirect_slashes=False,  # it would send readers to whatever host their request names
        openapi_url=f"{settings.server.prefix}/openapi.json",
        lifespan=lifespan,
    )
    install_problems(app)
    app.add_middleware(Guard, tls=settings.server.has_tls)

    @app.get(f"{settings.server.prefix}/health", response_model=HealthDocument)
    def health() -> dict[str, str]:
        """Say that the service is up, and which version it is."""
        return {"status": "ok", "version": __version__}

    app.include_router(api_router(service), prefix=f"{settings.server.prefix}/v1")
    install_pages(app, service)
    return app
