"""The application: routes, pages, problems, the headers of every response, and its workers.

The server process is one uvicorn, on loopback or with TLS. It stops gracefully, reads its settings
and its certificate again on SIGHUP, and its logs hold no values. Counts and failures have another
address, where no token is asked: a learner's opens nothing there.
"""

import asyncio
import logging
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from http import HTTPStatus
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI, Response
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from suffice._version import __version__
from suffice.errors import ParameterError, ServiceError, SufficeError
from suffice.owner.answers import AnswerStore
from suffice.owner.parties.rounds import RoundStore
from suffice.service.api import HealthDocument, api_router, json_response, returns
from suffice.service.limits import Connection, Guard
from suffice.service.operation import LOGGER
from suffice.service.pages import install_pages
from suffice.service.planning import Planning
from suffice.service.problems import install_problems
from suffice.service.readiness import Readiness
from suffice.service.settings import Settings
from suffice.service.surveys import Door, delete_in_time, install_rounds, install_surveys
from suffice.service.workers import Service

_READY: dict[int | str, dict[str, Any]] = {
    200: {"description": "It can."},
    503: {"description": "It cannot. Whoever runs the service is told why."},
}


class Application(FastAPI):
    """All routes; the answers of people come in by a door of their own.

    A crowd answers at once, and to find a route takes longer than all the rest of an answer.
    """

    door: Door | None = None
    guarded: Guard  # the door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        posts = scope["type"] == "http" and scope["method"] == "POST"
        if posts and self.door is not None and scope["path"] in self.door.places:
            await self.guarded(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def make_app(settings: Settings) -> Application:
    """Return the application; its workers run from start-up to shut-down."""
    service, planning = Service(settings), Planning(settings)
    store = None if settings.answers is None else AnswerStore(settings.answers)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.workers.open()
        deleting = asyncio.create_task(delete_in_time(settings.ledger, store)) if store else None
        yield
        if deleting is not None:
            deleting.cancel()
        planning.close()
        await run_in_threadpool(service.workers.close)

    app = Application(
        title="suffice",
        version=__version__,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # it would send readers to whatever host their request names
        openapi_url=f"{settings.server.prefix}/openapi.json",
        lifespan=lifespan,
    )
    install_problems(app)
    guard: Any = {"tls": settings.server.has_tls, "prefix": settings.server.prefix}
    app.add_middleware(Guard, **guard)
    app.state.readiness = readiness = Readiness(service)

    @app.get(f"{settings.server.prefix}/health", responses=returns(HealthDocument))
    async def health() -> Response:
        """Say that the service is up, and which version it is."""
        return json_response(HealthDocument("ok", __version__))

    @app.get(f"{settings.server.prefix}/ready", responses=_READY, response_class=Response)
    async def ready() -> Response:
        """Say by the status alone whether the service can grant."""
        return Response(status_code=200 if (await readiness.report()).ready else 503)

    if store is not None:
        app.door = install_surveys(app, service, store)
        app.guarded = Guard(app.door, **guard)
    if settings.rounds is not None:
        install_rounds(app, service, RoundStore(settings.rounds))
    app.include_router(api_router(service), prefix=f"{settings.server.prefix}/v1")
    install_pages(app, service, planning)
    return app


class Reloadable:
    """The application that the settings describe now; they can be read again while it answers.

    Requests that have begun are answered by the application that got them, and workers finish the
    proposals in hand. Settings that are wrong change nothing.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings, self.app = settings, make_app(settings)
        self._lives = AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or begin and end with the server."""
        if scope["type"] != "lifespan":
            await self.app(scope, receive, send)
            return
        await receive()
        await self._lives.enter_async_context(self.app.router.lifespan_context(self.app))
        await send({"type": "lifespan.startup.complete"})
        try:
            await receive()
        finally:  # a second signal cancels the wait; lives that nobody ends would end in any order
            await self._lives.aclose()  # those of the settings as they are now
        await send({"type": "lifespan.shutdown.complete"})

    async def change(self, settings: Settings) -> None:
        """Go on with other settings; the workers of the old ones finish what they have in hand."""
        app = await run_in_threadpool(make_app, settings)
        old, self._lives = self._lives.pop_all(), AsyncExitStack()
        await self._lives.enter_async_context(app.router.lifespan_context(app))
        self.settings, self.app = settings, app
        await old.aclose()

    def for_operator(self) -> FastAPI:
        """Return the application of whoever runs the service: /ready with reasons, /metrics."""
        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

        @app.get("/ready")
        async def ready() -> Response:
            report = await self.app.state.readiness.report()
            return json_response(report, HTTPStatus(200 if report.ready else 503))

        @app.get("/metrics")
        async def metrics() -> Response:
            text = await self.app.state.readiness.metrics()
            return Response(text, media_type="text/plain; version=0.0.4")

        return app


_GRACE_SECONDS = 30


def run_server(
    settings: Settings,
    *,
    port: int | None = None,
    tell: Callable[[str], None],
    load: Callable[[], Settings] | None = None,
) -> None:
    """Serve until the process is told to stop; then finish the proposals in hand, and return.

    No access log is written: addresses and times of requests are nobody's business. A port
    replaces that of the settings. ``tell`` gets the address of the pages once the service is up.
    ``load`` reads the settings again, when the process gets SIGHUP.
    """
    where = settings.server if port is None else replace(settings.server, port=port)
    Connection.make_room()
    app = Reloadable(settings)
    config = uvicorn.Config(
        app,
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
        log_config={
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "line": {"()": "suffice.service.operation.LogLine", "form": settings.operation.log}
            },
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
            "loggers": {
                "uvicorn.error": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
                "suffice.service": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
            },
        },
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    try:
        config.load()
    except OSError:  # of the file system, or of TLS
        raise ParameterError(
            "The service cannot use its certificate. Check certificate and certificate_key in the"
            " settings."
        ) from None
    server = _Announced(config, app, tell, load)
    with exits_on_signals():
        try:
            server.run()
        except SystemExit as end:  # uvicorn raises it when it cannot begin, and sends signals again
            if not server.started and end.code:
                raise ServiceError(
                    f"The service cannot listen on {server.place[0]}, port {server.place[1]}. The"
                    " line above says why. Choose another port with --port."
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
    """A server that says where it listens, and reads its settings again on SIGHUP."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: Reloadable,
        tell: Callable[[str], None],
        load: Callable[[], Settings] | None,
    ) -> None:
        super().__init__(config)
        self._app, self._tell, self._load = app, tell, load
        self._for_operator: uvicorn.Server | None = None
        self._reloads: set[asyncio.Task[None]] = set()
        self.place = (config.host, config.port)  # that it is about to listen on

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self.force_exit:  # what is cut off now is no error
            logging.getLogger("uvicorn.error").disabled = True

    async def startup(self, sockets: Any = None) -> None:
        if self._load is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.begin_reload)
        operation = self._app.settings.operation
        if operation.port:
            config = uvicorn.Config(
                self._app.for_operator(),
                host=operation.host,
                port=operation.port,
                http=Connection,
                ws="none",
                lifespan="off",
                access_log=False,
                server_header=False,
                log_config=None,
                timeout_graceful_shutdown=1,
            )
            config.load()
            self.place = (operation.host, operation.port)
            self._for_operator = uvicorn.Server(config)
            self._for_operator.lifespan = config.lifespan_class(config)
            await self._for_operator.startup()
        self.place = (self.config.host, self.config.port)
        await super().startup(sockets)
        for server in self.servers:
            for socket in server.sockets:
                host, port = socket.getsockname()[:2]
                scheme = "https" if self.config.is_ssl else "http"
                name = f"[{host}]" if ":" in host else host
                self._tell(f"{scheme}://{name}:{port}{self._app.settings.server.prefix}")

    async def shutdown(self, sockets: Any = None) -> None:
        if self._for_operator is not None:
            await self._for_operator.shutdown()
        await super().shutdown(sockets)

    def begin_reload(self) -> None:
        """Read settings and certificate again, beside the requests in hand."""
        task = asyncio.get_running_loop().create_task(self.reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def reload(self) -> None:
        """Go on with the settings and the certificate as they are now, if they are good."""
        assert self._load is not None  # noqa: S101  # for the type checker
        try:
            settings = await run_in_threadpool(self._load)
            if (context := self.config.ssl) is not None and settings.server.certificate is not None:
                # Of a pair that is not one, nothing is used: a new connection would fail.
                ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                    settings.server.certificate, settings.server.certificate_key
                )
                context.load_cert_chain(
                    settings.server.certificate, settings.server.certificate_key
                )
            await self._app.change(settings)
        except (SufficeError, OSError) as error:
            LOGGER.error("The settings were not read again: %s", error)  # no traceback
        else:
            LOGGER.warning("The settings and the certificate were read again.")
