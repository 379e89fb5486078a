"""How a page is made: templates, the words and numbers in them, and the headers of the response."""

import math
from collections.abc import Mapping
from datetime import datetime
from decimal import ROUND_FLOOR, Context
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from suffice.owner.ledger.words import policy_lines
from suffice.plain_text import escaped
from suffice.transport.http.log_views import kind_words
from suffice.transport.http.sessions import Session
from suffice.transport.http.settings import Settings

__all__ = ["STATIC", "Renderer", "rounded_down", "static_file"]

_FOLDER = Path(__file__).parent / "pages"
STATIC: Mapping[str, str] = {
    "suffice.css": "text/css",
    "local-time.js": "text/javascript",
    "checkpoint-file.js": "text/javascript",
}
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)


class Renderer:
    """Makes the pages of one service.

    Parameters
    ----------
    settings
        The name of the organisation, and the path below which the pages are.
    """

    def __init__(self, settings: Settings) -> None:
        self._organisation, self._prefix = settings.organisation, settings.server.prefix
        self._templates = Environment(
            loader=FileSystemLoader(_FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "plain": _plain,
            "down": rounded_down,
            "number": "{:g}".format,
            "moment_of": datetime.fromisoformat,
            "policy_lines": policy_lines,
            "kind_words": kind_words,
        }

    def page(
        self, name: str, session: Session | None, status: int = HTTPStatus.OK, **values: Any
    ) -> HTMLResponse:
        """Return a page.

        Parameters
        ----------
        name
            The template.
        session
            Who reads it; None before signing in.
        status
            The status of the response.
        **values
            What the template shows; ``problem`` is a sentence above everything else.
        """
        common = {
            "organisation": self._organisation,
            "prefix": self._prefix,
            "session": session,
            "problem": values.pop("problem", None),
            "for_print": values.pop("for_print", False),
        }
        text = self._templates.get_template(name).render(**common, **values)
        return HTMLResponse(text, status, {"Content-Security-Policy": _POLICY})

    def to(self, path: str) -> RedirectResponse:
        """Return a response that sends the reader to another page."""
        return RedirectResponse(f"{self._prefix}{path}", HTTPStatus.SEE_OTHER)


def static_file(name: str) -> bytes:
    """Return the bytes of one of `STATIC`."""
    return (_FOLDER / "static" / name).read_bytes()


def rounded_down(value: float) -> str:
    """Return what is left with four digits, never more than there is.

    Examples
    --------
    >>> rounded_down(0.99999), rounded_down(-1.0)
    ('0.9999', '0')
    """
    if not math.isfinite(value) or value <= 0:
        return "0"
    return f"{float(Context(prec=4, rounding=ROUND_FLOOR).create_decimal_from_float(value)):g}"


def _plain(text: object) -> str:
    """Return text from strangers so that it can steer no reader; the template escapes its HTML."""
    return escaped(str(text))
