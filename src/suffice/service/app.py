"""The application: routes, pages, problems, the headers of every response, and its workers.

The server process is one uvicorn, on loopback or with TLS. It stops gracefully, and its logs hold
no values.
"""

import json
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI, Response
from starlette.concurrency import run_in_threadpool

from suffice._version import __version__
from suffice.errors import ParameterError, ServiceError
from suffice.plain_text import escaped
from suffice.service.api import HealthDocument, api_router, json_response, returns
from suffice.service.limits import Connection, Guard
from suffice.service.pages import install_pages
from suffice.service.problems import install_problems
from suffice.service.settings import Settings
from suffice.service.workers import Service


def make_app(settings: Settings) -> FastAPI:
    """Return the application; its workers run from start-up to shut-down."""
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.workers.open()
        yield
        await run_in_threadpool(service.workers.close)

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

    @app.get(f"{settings.server.prefix}/health", responses=returns(HealthDocument))
    def health() -> Response:
        """Say that the service is up, and which version it is."""
        return json_response(HealthDocument("ok", __version__))

    app.include_router(api_router(service), prefix=f"{settings.server.prefix}/v1")
    install_pages(app, service)
    return app


_GRACE_SECONDS = 30
_LOG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "suffice.service.app.LogLine"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {
        "uvicorn.error": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        "suffice.service": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
    },
}


class LogLine(logging.Formatter):
    """Writes a record as one line of JSON; of an error its type alone, because texts may quote."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        message = record.getMessage()
        if message.startswith("Traceback"):  # an application that cannot begin or end sends text
            message = "The service failed while it began or ended."
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="seconds"),
            "level": record.levelname.lower(),
            "message": escaped(message.strip()),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        return json.dumps(line)


def run_server(settings: Settings, *, port: int | None = None, tell: Callable[[str], None]) -> None:
    """Serve until the process is told to stop; then finish the proposals in hand, and return.

    No access log is written: addresses and times of requests are nobody's business. A port
    replaces that of the settings. ``tell`` gets the address of the pages once the service is up.
    """
    where = settings.server if port is None else replace(settings.server, port=port)
    Connection.make_room()
    config = uvicorn.Config(
        make_app(settings),
        host=where.host,
        port=where.port,
        ssl_certfile=where.certificate,
        ssl_keyfile=where.certificate_key,
        http=Connection,
        ws="none",
        proxy_headers=where.behind_proxy,
        forwarded_allow_ips=where.proxies,
        access_log=False,
        server_header=False,
        date_header=True,
        log_config=_LOG,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    try:
        config.load()
    except OSError:  # of the file system, or of TLS
        raise ParameterError(
            "The service cannot use its certificate. Check certificate and certificate_key in the"
            " settings."
        ) from None
    server = _Announced(config, where.prefix, tell)
    with exits_on_signals():
        try:
            server.run()
        except SystemExit as end:  # uvicorn raises it when it cannot begin, and sends signals again
            if not server.started and end.code:
                raise ServiceError(
                    f"The service cannot listen on {where.host}, port {where.port}. The line above"
                    " says why. Choose another port with --port."
                ) from None


@contextmanager
def exits_on_signals() -> Iterator[None]:
    """Make Ctrl-C and SIGTERM raise SystemExit(0), so that whoever stops can tidy up first."""

    def leave(*_: object) -> None:
        raise SystemExit(0)

    before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Announced(uvicorn.Server):
    """A server that says where it listens."""

    def __init__(self, config: uvicorn.Config, prefix: str, tell: Callable[[str], None]) -> None:
        super().__init__(config)
        self._prefix, self._tell = prefix, tell

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self.force_exit:  # what is cut off now is no error
            logging.getLogger("uvicorn.error").disabled = True

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for socket in server.sockets:
                host, port = socket.getsockname()[:2]
                scheme = "https" if self.config.is_ssl else "http"
                name = f"[{host}]" if ":" in host else host
                self._tell(f"{scheme}://{name}:{port}{self._prefix}")
