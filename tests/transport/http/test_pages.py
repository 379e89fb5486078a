"""The pages in a real browser: an owner grants a proposal, an officer reads the report."""

from contextlib import contextmanager

import httpx
import pytest
from browsing import PHONE, fits_sideways, needs_browser, open_browser, signed_in, take_picture
from served import make_clinic, running


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    return make_clinic(tmp_path_factory.mktemp("pages") / "clinic")


@pytest.fixture(scope="module")
def url(clinic):
    with running(clinic) as (address, _):
        yield address


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


def send(clinic, url, purpose: str) -> str:
    proposal = clinic.proposal(purpose)
    headers = {"Authorization": f"Bearer {clinic.tokens['learner']}"}
    place = f"{url}/v1/datasets/smoker/proposals"
    assert httpx.post(place, content=proposal.encode(), headers=headers).status_code == 202
    return proposal.digest


@needs_browser
def test_an_owner_grants_and_an_officer_reads(clinic, url, browser):
    hostile = "<script>alert(1)</script> compare wards"
    digests = [send(clinic, url, purpose) for purpose in (hostile, "second study")]
    owner = signed_in(browser, url, clinic.tokens["owner"])
    errors: list[str] = []
    owner.on("pageerror", lambda error: errors.append(str(error)))
    owner.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    for digest, button in zip(digests, ("Grant and charge", "Refuse"), strict=True):
        owner.goto(f"{url}/data/smoker/{digest}")
        for _ in range(200):
            if owner.get_by_role("button", name=button).count():
                break
            owner.wait_for_timeout(100)
            owner.reload()
        take_picture(owner, f"proposal-{button.split()[0].lower()}")
        if button == "Refuse":
            owner.get_by_label("Reason, for the learner").fill("ask next year")
        owner.get_by_role("button", name=button).click()
        owner.wait_for_load_state()
    for _ in range(200):
        owner.goto(f"{url}/data/smoker/{digests[0]}")
        if owner.get_by_text("What the release guarantees").count():
            break
        owner.wait_for_timeout(100)
    assert owner.get_by_text("Download the release").count() == 1
    take_picture(owner, "granted")
    owner.goto(f"{url}/")
    take_picture(owner, "overview")
    assert owner.get_by_text("0.9 is left").count() >= 1
    owner.goto(f"{url}/tokens")
    take_picture(owner, "tokens")
    assert errors == []
    officer = signed_in(browser, url, clinic.tokens["officer"], viewport=PHONE)
    officer.goto(f"{url}/report")
    take_picture(officer, "report-phone")
    assert officer.get_by_text("ask next year").count() == 1
    assert officer.get_by_text("<script>alert(1)</script> compare wards").count() == 1
    assert fits_sideways(officer)
    assert officer.get_by_role("link", name="Tokens").count() == 0
    assert officer.goto(f"{url}/tokens").status == 403
    assert clinic.charges("smoker") == 1


@needs_browser
def test_dark_pages(clinic, url, browser):
    page = signed_in(browser, url, clinic.tokens["owner"], color_scheme="dark")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(18, 22, 27)"
    take_picture(page, "overview-dark")


@contextmanager
def session_of(clinic, url, role: str):
    with httpx.Client(base_url=url, timeout=60) as client:
        response = client.post("/login", data={"token": clinic.tokens[role]})
        assert response.status_code == 303
        cookie = response.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        yield client


def test_a_form_needs_its_session(clinic, url):
    with session_of(clinic, url, "owner") as owner:
        page = owner.get("/tokens").text
        csrf = page.split('name="csrf" value="')[1].split('"')[0]
        form = {"holder": "Eve", "role": "learner", "days": "9", "scope": ""}
        assert owner.post("/tokens", data=form).status_code == 403
        assert owner.post("/tokens", data={**form, "csrf": "x" * 43}).status_code == 403
        other = {"sec-fetch-site": "cross-site"}
        good = {**form, "csrf": csrf}
        assert owner.post("/tokens", data=good, headers=other).status_code == 403
        before = len(clinic.records.tokens())
        response = owner.post("/tokens", data=good)
        assert response.status_code == 200
        assert "suffice_" in response.text
        assert len(clinic.records.tokens()) == before + 1
        bad = owner.post("/tokens", data={**good, "days": "0"})
        assert bad.status_code == 400
        assert "1 to 3660 days" in bad.text
        assert owner.post("/logout", data={"csrf": csrf}).status_code == 303
        assert owner.get("/").status_code == 303


def test_an_officer_changes_nothing(clinic, url):
    digest = send(clinic, url, "for the officer")
    with session_of(clinic, url, "officer") as officer:
        page = officer.get("/").text
        csrf = page.split('name="csrf" value="')[1].split('"')[0]
        place = f"/data/smoker/{digest}"
        form = {"csrf": csrf, "decision": "grant"}
        assert officer.get(place).status_code == 200
        assert officer.post(place, data=form).status_code == 403
        assert officer.post("/tokens", data={"csrf": csrf}).status_code == 403
        identity = clinic.tokens["learner"].split("_")[1]
        assert officer.post(f"/tokens/{identity}/revoke", data={"csrf": csrf}).status_code == 403


def test_pages_open_for_good_tokens_alone(clinic, url):
    for text in (clinic.tokens["party"], "nonsense", ""):
        response = httpx.post(f"{url}/login", data={"token": text})
        assert response.status_code == 403
        assert "set-cookie" not in response.headers
    pages = ("/", "/report", "/print", "/log", "/log/checkpoint", "/export", "/tokens")
    for path in (*pages, f"/data/smoker/sha256:{'0' * 64}"):
        response = httpx.get(f"{url}{path}")
        assert (response.status_code, response.headers["location"]) == (303, "/login")
        response = httpx.get(f"{url}{path}", cookies={"suffice_session": "guess"})
        assert response.status_code == 303


def test_pages_load_nothing_from_elsewhere(url):
    response = httpx.get(f"{url}/login")
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "://" not in response.text
    for name in ("suffice.css", "local-time.js", "checkpoint-file.js"):
        assert httpx.get(f"{url}/static/{name}").status_code == 200
    assert httpx.get(f"{url}/static/..%2Fviews.py").status_code == 404
