"""How much one caller may ask for: requests in a minute, and bytes in a body."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from math import ceil

from fastapi import Request

from suffice.transport.http.problems import Problem

__all__ = ["RequestRate", "read_body"]

_MINUTE = 60.0
_MOST_CALLERS = 10_000


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


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request; give up as soon as it is larger than ``most`` bytes.

    Raises
    ------
    Problem
        413 if it is larger.
    """
    chunks, size = list[bytes](), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most:
            raise Problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A body may have at most {most} bytes."
            )
        chunks.append(chunk)
    return b"".join(chunks)
