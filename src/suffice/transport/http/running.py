"""The server process: one uvicorn, loopback or TLS, a graceful stop, and logs without values."""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import uvicorn

from suffice.plain_text import escaped
from suffice.transport.http.app import make_app
from suffice.transport.http.connections import Connection
from suffice.transport.http.settings import Settings

__all__ = ["LogLine", "run_server"]

_GRACE_SECONDS = 30
_LOG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "suffice.transport.http.running.LogLine"}},
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
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="seconds"),
            "level": record.levelname.lower(),
            "message": escaped(record.getMessage()),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        return json.dumps(line)


def run_server(settings: Settings, *, port: int | None = None, tell: Callable[[str], None]) -> None:
    """Serve until the process is told to stop; then finish the proposals in hand.

    No access log is written: addresses and times of requests are nobody's business.

    Parameters
    ----------
    settings
        What is served, and where.
    port
        The port, instead of that in the settings.
    tell
        Gets the address once the service is up.
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
    _Announced(config, tell).run()


class _Announced(uvicorn.Server):
    """A server that says where it listens."""

    def __init__(self, config: uvicorn.Config, tell: Callable[[str], None]) -> None:
        super().__init__(config)
        self._tell = tell

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for socket in server.sockets:
                host, port = socket.getsockname()[:2]
                scheme = "https" if self.config.is_ssl else "http"
                self._tell(f"Serving on {scheme}://{host}:{port}. Stop with Ctrl-C.")
