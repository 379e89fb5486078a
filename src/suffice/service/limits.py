"""Limit what one caller may ask for: requests in a minute, bytes in a body, open connections."""

import asyncio
import secrets
import threading
import time
from asyncio import timeout
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from http import HTTPStatus
from ipaddress import ip_address, ip_network
from math import ceil
from typing import ClassVar

from fastapi import Request
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from suffice.service.operation import COUNTS, LOGGER, REQUEST
from suffice.service.problems import Problem, problem_response

_MINUTE = 60.0
_MOST_CALLERS = 10_000
_BODY_SECONDS = 30.0
_LONGEST_ADDRESS = 100
_LONGEST_LENGTH = 20  # digits
_CLOSE = {"Connection": "close"}  # what is left of the body is not read


class RequestRate:
    """Lets each caller make a number of requests in a minute, evenly or all at once.

    A caller has a bucket of ``per_minute`` requests, which fills again at that rate. Only the last
    ten thousand callers have one: a caller who was forgotten starts with a full bucket. The clock,
    in seconds, is for tests.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._size, self._clock = float(per_minute), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, caller: str) -> None:
        """Take one request out of a caller's bucket, or raise if it is empty.

        The problem (429) states the seconds after which there is room again.
        """
        now = self._clock()
        with self._lock:
            level, then = self._buckets.pop(caller, (self._size, now))
            level = min(self._size, level + (now - then) * self._size / _MINUTE)
            allowed = level >= 1
            self._buckets[caller] = (level - 1 if allowed else level, now)
            if len(self._buckets) > _MOST_CALLERS:
                self._buckets.popitem(last=False)
        if not allowed:
            seconds = ceil((1 - level) * _MINUTE / self._size)
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "There were too many requests. Try again later.",
                {"Retry-After": str(seconds)},
            )


def address_of(request: Request) -> str:
    """Return whom to count a request without a token for: an address, or the network around it.

    One customer has a whole network of IPv6 addresses (a /64), and could use a new one each time.
    """
    text = request.client.host if request.client else ""
    try:
        address = ip_address(text)
    except ValueError:
        return text[:_LONGEST_ADDRESS]
    if address.version == 4:
        return str(address)
    mapped = address.ipv4_mapped
    return str(ip_network((address.packed, 64), strict=False) if mapped is None else mapped)


async def read_json(request: Request, most: int) -> bytes:
    """Return the body of a request that says that it is JSON, or says nothing."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0]
    if kind.strip().lower() != "application/json":
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send JSON, as application/json.")
    return await read_body(request, most)


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request; give up as soon as it is too large, or too slow."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send the body as it is, uncompressed.")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length[:_LONGEST_LENGTH]) > most:
        raise _too_large(most)
    chunks, size = list[bytes](), 0
    try:
        async with timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise _too_large(most)
                chunks.append(chunk)
    except TimeoutError:
        raise Problem(
            HTTPStatus.REQUEST_TIMEOUT, "The body took too long. Send it again.", _CLOSE
        ) from None
    return b"".join(chunks)


def _too_large(most: int) -> Problem:
    detail = f"A body may have at most {most} bytes here."
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail, _CLOSE)


_HEAVY = frozenset({"/", "/report", "/print", "/log", "/export", "/v1/export", "/v1/log/verify"})


class HeavyPages:
    """Lets a few pages that read much be made at a time, and fewer for one caller.

    Whoever waits for longer than two seconds is told to come again. So threads stay free for
    everybody else, and one officer does not keep the owner out.
    """

    at_once: ClassVar[int] = 8  # of the 40 threads that answer requests
    of_one: ClassVar[int] = 2  # session or token
    patience: ClassVar[int] = 2  # seconds

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._made: Counter[str] = Counter()  # by caller
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def turn(self, path: str, headers: Headers) -> AsyncIterator[bool]:
        """Wait for a turn if a page is heavy; say whether there was one."""
        place = path.removeprefix(self._prefix)
        if place not in _HEAVY and not place.endswith(("/log", "/log/checkpoint")):
            yield True
            return
        caller = headers.get("authorization") or headers.get("cookie", "")

        def is_free() -> bool:
            all_of_them = sum(self._made.values())
            return all_of_them < self.at_once and self._made[caller] < self.of_one

        try:
            async with timeout(self.patience), self._changed:
                await self._changed.wait_for(is_free)
                self._made[caller] += 1
        except TimeoutError:
            yield False
            return
        try:
            yield True
        finally:
            async with self._changed:
                self._made[caller] -= 1
                self._made += Counter()  # forgets who has none
                self._changed.notify_all()


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

    The application answers inside this guard. Also a failure that nobody expected gets the headers
    that keep responses out of caches, frames and other sites, and a problem document that tells
    nothing. ``tls`` says whether readers reach the service over TLS, its own or that of a proxy.
    """

    def __init__(self, app: ASGIApp, *, tls: bool, prefix: str = "") -> None:
        self._app = app
        headers = {**_SECURE, **_TLS} if tls else _SECURE
        self._headers = [(n.lower().encode(), text.encode()) for n, text in headers.items()]
        self._heavy = HeavyPages(prefix)
        self._people = (f"{prefix}/surveys/", f"{prefix}/v1/surveys/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0
        request = secrets.token_hex(8)  # says nothing but which lines of the log belong together
        REQUEST.set(request)

        async def send_secured(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name for name, _ in message["headers"]}
                own = [pair for pair in self._headers if pair[0] not in given]
                message["headers"] = [*message["headers"], *own]
                if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                    message["headers"].append(
                        (b"x-request-id", request.encode())
                    )  # for a word with whoever reads the log
            await send(message)

        # Nothing is counted of people: counts of two moments would say when somebody answered.
        counted = not scope["path"].startswith(self._people)
        try:
            with COUNTS.timed("suffice_request_seconds") if counted else nullcontext():
                await self.answer(scope, receive, send_secured)
        except ClientDisconnect:
            return
        except Exception as error:
            if status:
                raise
            LOGGER.error("A request failed: %s.", type(error).__name__)  # its text may quote
            failure = problem_response(
                HTTPStatus.INTERNAL_SERVER_ERROR, "The service failed. Tell the owner."
            )
            await failure(scope, receive, send_secured)
        finally:
            if counted:
                COUNTS.add("suffice_requests_total", status=str(status))

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer, when its turn has come."""
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy and this server could disagree about where the request ends.
            detail = "A request has a length or is chunked, not both."
            refusal = problem_response(HTTPStatus.BAD_REQUEST, detail, {"Connection": "close"})
            await refusal(scope, receive, send)
            return
        async with self._heavy.turn(scope["path"], headers) as has_turn:
            if has_turn:
                await self._app(scope, receive, send)
                return
        LOGGER.warning("A page that reads much found no turn.")
        busy = problem_response(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "Too many pages that read much are being made. Try again in a moment.",
            {"Retry-After": str(HeavyPages.patience)},
        )
        await busy(scope, receive, send)


_MOST = 2000  # connections
_SPARE_FILES = 200  # for databases, tables and workers
_HEAD_SECONDS = 10.0  # for a request's head, and between two requests
_READING_SECONDS = 60.0  # in which a reader of a response must take something


class Connection(H11Protocol):
    """A connection that ends when its other side keeps the service waiting.

    uvicorn waits for ever for the rest of a request's head, and for a reader who does not read.
    Whoever opens connections and says nothing would keep everybody else out.

    A connection without a complete head after ten seconds ends, and so does one whose other side
    reads nothing for a minute. When too many are open, the one that has waited longest for its
    request gives way.
    """

    most: ClassVar[int] = _MOST  # that may be open
    _head_timer: asyncio.TimerHandle | None = None
    _reading_timer: asyncio.TimerHandle | None = None
    _opened = 0.0

    @classmethod
    def make_room(cls) -> None:
        """Let this process open as many files as it needs; where it cannot, allow fewer."""
        try:
            import resource
        except ImportError:  # on Windows
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST + _SPARE_FILES
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        cls.most = max(1, wanted - _SPARE_FILES)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._opened = self.loop.time()
        self._wait()
        if len(self.connections) > self.most:
            idle = [c for c in self.connections if isinstance(c, Connection) and c.waits]
            min(idle, key=Connection.opened, default=self).transport.abort()

    def opened(self) -> float:
        """Return when the connection began, on the clock of the loop."""
        return self._opened

    @property
    def waits(self) -> bool:
        """Whether the other side has not sent a whole request."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    def data_received(self, data: bytes) -> None:
        """Read on. For a body, `limits.read_body` sets the time."""
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait()

    def pause_writing(self) -> None:
        """Wait for the reader of a response."""
        super().pause_writing()
        self._reading_timer = self.loop.call_later(_READING_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Write on."""
        super().resume_writing()
        if self._reading_timer is not None:
            self._reading_timer.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection and its timers."""
        for timer in (self._head_timer, self._reading_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        """Set the time by which a head must be complete, unless a request is being answered."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        elif not answering and self._head_timer is None:
            self._head_timer = self.loop.call_later(_HEAD_SECONDS, self.transport.abort)
