"""axe-core over every page, for owners and officers, light and dark, on a desk and on a phone.

The walk takes the GET routes of the application itself, so a new page is looked at without being
named here. axe comes from PyPI with its script. It runs beside the page's own scripts through the
browser's debugger, so the strict Content-Security-Policy of the pages stays as it is.
"""

import re
import time
from contextlib import contextmanager

import httpx
import pytest
from browsing import PHONE, fits_sideways, needs_browser, open_browser, signed_in
from fastapi.routing import APIRoute
from served import make_clinic, running

from suffice.service.app import make_app
from suffice.service.settings import Settings

SIZES = {"desk": {"width": 1280, "height": 900}, "phone": PHONE}
LOOKS = {
    ("light", "desk"): (),
    ("dark", "phone"): (),
    ("dark", "desk"): ("color-contrast",),  # all that can change
    ("light", "phone"): ("color-contrast",),
}  # which rules of axe; none for all
WIDTHS = (320, 375, 768, 980, 1100)  # the first: WCAG 2.1, 1.4.10
GRAVE = ("serious", "critical")
LONGEST_SECONDS = 120  # a guard against hanging, not a measurement
LONG = "with a long purpose " * 8 + "that goes on without a space".replace(" ", "-and-") * 5
PURPOSES = {
    "granted": ("diagnosis", 0.1),
    "countered": ("diagnosis", 9.0),
    "waiting": ("smoker", 0.1),
    "refused": ("smoker", 0.2),
}

pytestmark = needs_browser


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    return make_clinic(tmp_path_factory.mktemp("accessibility") / "clinic")


@pytest.fixture(scope="module")
def url(clinic):
    with running(clinic) as (address, _):
        yield address


@pytest.fixture(scope="module")
def digests(clinic, url):
    """Return data set and digest of a proposal in every state."""
    sent = {
        purpose: (dataset, clinic.proposal(f"{purpose}, {LONG}", epsilon))
        for purpose, (dataset, epsilon) in PURPOSES.items()
    }
    with httpx.Client(base_url=f"{url}/v1/datasets", timeout=60) as client:
        client.headers["Authorization"] = f"Bearer {clinic.tokens['owner']}"

        def state(dataset: str, digest: str) -> str:
            listed = client.get(f"/{dataset}/proposals").raise_for_status().json()
            return next(row["state"] for row in listed if row["proposal"] == digest)

        for dataset, proposal in sent.values():
            for role in ("owner", "learner"):
                by = {"Authorization": f"Bearer {clinic.tokens[role]}"}
                place = f"/{dataset}/proposals"
                client.post(place, content=proposal.encode(), headers=by).raise_for_status()
        for purpose, (dataset, proposal) in sent.items():
            expected = "waiting" if purpose == "refused" else purpose
            end = time.monotonic() + LONGEST_SECONDS
            while state(dataset, proposal.digest) != expected:
                assert time.monotonic() < end, purpose
                time.sleep(0.1)
        dataset, proposal = sent["refused"]
        refusal = {"grant": False, "reason": "ask again next year, " * 10}
        client.post(
            f"/{dataset}/proposals/{proposal.digest}/decision", json=refusal
        ).raise_for_status()
    return [(dataset, proposal.digest) for dataset, proposal in sent.values()]


@pytest.fixture(scope="module")
def browser():
    with open_browser() as launched:
        yield launched


def paths_of(routes, prefix: str = "") -> set[str]:
    """Return the paths of all GET routes; a router that was included holds its own routes."""
    paths = set()
    for route in routes:
        if isinstance(route, APIRoute) and "GET" in route.methods:
            paths.add(prefix + route.path)
        elif (router := getattr(route, "original_router", None)) is not None:
            paths |= paths_of(router.routes, prefix + route.include_context.prefix)
    return paths


def page_routes(clinic) -> list[str]:
    """Return the paths of all GET routes that are no part of the API."""
    app = make_app(Settings.load(clinic.folder))
    return sorted(paths_of(app.routes) - app.openapi()["paths"].keys())


def addresses(path: str, digests) -> set[str]:
    """Return a route with every data set and proposal filled in; an unknown field is an error."""
    filled = set()
    for dataset, digest in digests:
        values = {"dataset": dataset, "digest": digest, "name": "suffice.css"}
        filled.add(re.sub(r"\{(\w+)(:\w+)?\}", lambda field, v=values: v[field[1]], path))
    return filled


@contextmanager
def session(url: str, token: str):
    with httpx.Client(base_url=url, timeout=60) as client:
        assert client.post("/login", data={"token": token}).status_code == 303
        yield client


def html_pages(client, paths) -> list[str]:
    """Return the paths that are a page for this reader, and no style sheet or download."""
    responses = {path: client.get(path) for path in sorted(paths)}
    return [
        path
        for path, response in responses.items()
        if response.is_success and response.headers["content-type"].startswith("text/html")
    ]


def grave_findings(page, *rules: str) -> list[str]:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed."
    ).Axe()
    only = {"runOnly": list(rules)} if rules else {}
    findings = axe.run(page, options={"resultTypes": ["violations"], **only}).response["violations"]
    return [
        f"{finding['id']}: {node['target']} {node['failureSummary']}"
        for finding in findings
        if finding["impact"] in GRAVE
        for node in finding["nodes"]
    ]


def check(page, place: str) -> list[str]:
    """Return everything that is wrong with the page that is open, in every look of it."""
    wrong = []
    for (scheme, name), rules in LOOKS.items():
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(SIZES[name])
        findings = grave_findings(page, *rules)
        wrong += [f"{place}, {name}, {scheme}: {text}" for text in findings]
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        if not fits_sideways(page):
            wrong.append(f"{place} scrolls sideways at {width} pixels")
    return wrong


def stay(route) -> None:
    """Let a page come without its order to load itself again, so that axe can finish."""
    response = route.fetch()
    route.fulfill(response=response, headers=response.headers | {"refresh": "600"})


def test_the_walk_reaches_every_route(clinic, url, digests):
    paths = page_routes(clinic)
    assert {"/", "/login", "/tokens", "/data/{dataset}/{digest}"} <= set(paths)
    with session(url, clinic.tokens["owner"]) as client:
        for path in paths:
            if path.startswith("/sign-in"):  # a way to a provider, and no page of this clinic
                continue
            if path.endswith("columns.json"):  # its data sets have no sheet
                continue
            assert any(client.get(place).is_success for place in addresses(path, digests)), path


@pytest.mark.parametrize("role", ["owner", "officer", "learner"])
def test_every_page_is_usable_by_everybody(clinic, url, digests, browser, role):
    page = signed_in(browser, url, clinic.tokens[role])
    places = [place for path in page_routes(clinic) for place in addresses(path, digests)]
    with session(url, clinic.tokens[role]) as client:
        paths = html_pages(client, places)
    assert len(paths) >= (6 if role == "learner" else 8)
    wrong = []
    page.route(re.compile(r"/ask/|/data/"), stay)
    for path in paths:
        page.goto(f"{url}{path}")
        wrong += check(page, path)
    assert not wrong, "\n".join(wrong)


def test_pages_that_answer_a_form_are_usable_by_everybody(clinic, url, browser):
    stranger = browser.new_context(base_url=url).new_page()
    stranger.goto("/login")
    stranger.get_by_label("Token").fill("nonsense")
    stranger.get_by_role("button", name="Sign in").click()
    stranger.get_by_role("alert").wait_for()
    wrong = check(stranger, "a refused token")
    owner = signed_in(browser, url, clinic.tokens["owner"])
    for epsilon in ("2", "0.5"):  # what a raise would mean, and one that is none
        owner.goto(f"{url}/data/smoker/budget?epsilon={epsilon}")
        wrong += check(owner, f"a budget of {epsilon}")
    owner.goto(f"{url}/tokens")
    owner.get_by_label("Holder").fill("Ada")
    owner.get_by_role("button", name="Make the token").click()
    owner.get_by_role("status").wait_for()
    wrong += check(owner, "a new token")
    with session(url, clinic.tokens["officer"]) as client:
        checkpoint = client.get("/log/checkpoint").raise_for_status().text
    for text, role in ((checkpoint, "status"), ("nonsense", "alert")):
        owner.goto(f"{url}/log")
        owner.get_by_label("paste its seven lines").fill(text)
        owner.get_by_role("button", name="Compare").click()
        owner.get_by_role(role).wait_for()
        wrong += check(owner, f"a comparison with {text[:8]}")
    assert not wrong, "\n".join(wrong)


def test_axe_notices_what_is_wrong(url, browser):
    page = browser.new_context(base_url=url).new_page()
    page.goto("/login")
    page.evaluate("document.querySelector('label').remove()")
    assert any(text.startswith("label") for text in grave_findings(page))
    page.set_viewport_size(PHONE)
    assert fits_sideways(page)
    page.evaluate("document.querySelector('main').style.width = '900px'")
    assert not fits_sideways(page)
