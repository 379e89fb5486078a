"""A real browser for the tests of pages, and pictures of what it shows, for people."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PHONE = {"width": 375, "height": 760}
_PICTURES = os.environ.get("SUFFICE_PICTURES")  # a folder: what the pages look like
_OPTIONS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update"]

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="There is no Chromium on this machine.")


@contextmanager
def open_browser() -> Iterator[Any]:
    """Yield a browser that ends with the block."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed.")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=_OPTIONS)
        yield launched
        launched.close()


def signed_in(browser, url: str, token: str, **options):
    """Return a page of somebody who signed in with a token."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(60_000)
    page.goto(f"{url}/")
    assert page.url == f"{url}/login"
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{url}/")
    return page


def fits_sideways(page) -> bool:
    """Say whether a page can be read without scrolling sideways."""
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def take_picture(page, name: str) -> None:
    """Store what a page looks like, if there is a folder for pictures."""
    if _PICTURES:
        page.screenshot(path=Path(_PICTURES) / f"{name}.png", full_page=True)
