"""How much one caller may ask for: requests in a minute, and bytes in a body."""

import threading
import time
from asyncio import timeout
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from ipaddress import ip_address, ip_network
from math import ceil

from fastapi import Request

from suffice.transport.http.problems import Problem

__all__ = ["RequestRate", "address_of", "read_body", "read_json"]

_MINUTE = 60.0
_MOST_CALLERS = 10_000
_BODY_SECONDS = 30.0
_LONGEST_ADDRESS = 100
_LONGEST_LENGTH = 20  # digits
_CLOSE = {"Connection": "close"}  # what is left of the body is not read


class RequestRate:
    """Lets each caller make a number of requests in a minute, evenly or all at once.

    A caller has a bucket of ``per_minute`` requests, which fills again at that rate. Only the last
    ten thousand callers have one: a caller who was forgotten starts with a full bucket.

    Parameters
    ----------
    per_minute : int
        The size of a bucket.
    clock : callable
        Returns seconds; for tests.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._size, self._clock = float(per_minute), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, caller: str) -> None:
        """Take one request out of a caller's bucket, or raise if it is empty.

        Raises
        ------
        Problem
            429, with the seconds after which there is room again.
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
    """Return the body of a request that says that it is JSON, or says nothing.

    Raises
    ------
    Problem
        415 if it says something else, and what `read_body` raises.
    """
    kind = request.headers.get("content-type", "application/json").partition(";")[0]
    if kind.strip().lower() != "application/json":
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send JSON, as application/json.")
    return await read_body(request, most)


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request; give up as soon as it is too large, or too slow.

    Raises
    ------
    Problem
        413 if it has more than ``most`` bytes, 408 if it takes too long, 415 if it is compressed.
    """
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
