"""How long a connection may keep the service waiting, and how many may be open.

uvicorn waits for ever for the rest of a request's head, and for a reader who does not read. Whoever
opens connections and says nothing would keep everybody else out.
"""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection"]

_MOST = 2000  # connections
_SPARE_FILES = 200  # for databases, tables and workers
_HEAD_SECONDS = 10.0  # for a request's head, and between two requests
_READING_SECONDS = 60.0  # in which a reader of a response must take something


class Connection(H11Protocol):
    """A connection that ends when its other side keeps the service waiting.

    A connection without a complete head after ten seconds ends, and so does one whose other side
    reads nothing for a minute. When too many are open, the one that has waited longest for its
    request gives way.

    Attributes
    ----------
    most : int
        How many may be open.
    """

    most: ClassVar[int] = _MOST
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
