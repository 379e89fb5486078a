"""Every route for every role, bodies that are none, and what the OpenAPI document says."""

from datetime import timedelta

import httpx
import numpy as np
import pytest
from parties import clinic_of_all, part_of
from people import SURVEY, body_of, sheet_of
from served import running

from suffice.owner.ledger.tokens import Role, mint
from suffice.service.app import make_app
from suffice.service.settings import Settings

DIGEST = "sha256:" + "0" * 64
OWNER, OFFICER, LEARNER, ORGANISER, PARTY = Role  # the organiser has pages alone
# What each role may do at all; everything else is 403, and without a good token 401.
ALLOWED = {
    ("GET", "/v1/datasets"): {OWNER, OFFICER, LEARNER},
    ("GET", "/v1/datasets/{dataset}/balance"): {OWNER, OFFICER, LEARNER},
    ("POST", "/v1/datasets/{dataset}/proposals"): {OWNER, LEARNER},
    ("GET", "/v1/datasets/{dataset}/proposals"): {OWNER, OFFICER, LEARNER},
    ("GET", "/v1/datasets/{dataset}/proposals/{digest}"): {OWNER, OFFICER, LEARNER},
    ("GET", "/v1/datasets/{dataset}/proposals/{digest}/release"): {OWNER, OFFICER, LEARNER},
    ("POST", "/v1/datasets/{dataset}/proposals/{digest}/decision"): {OWNER},
    ("GET", "/v1/datasets/{dataset}/log"): {OWNER, OFFICER},
    ("GET", "/v1/log/checkpoint"): {OWNER, OFFICER},
    ("POST", "/v1/log/verify"): {OWNER, OFFICER},
    ("GET", "/v1/export"): {OWNER, OFFICER},
    ("GET", "/v1/tokens"): {OWNER},
    ("POST", "/v1/tokens"): {OWNER},
    ("DELETE", "/v1/tokens/{identity}"): {OWNER},
    ("GET", "/v1/rounds/{digest}/part"): {PARTY},
    ("PUT", "/v1/rounds/{digest}/part"): {PARTY},
    ("DELETE", "/v1/rounds/{digest}/part"): {PARTY},
    ("GET", "/v1/rounds/{digest}/parties"): {OWNER},
}
OPEN = {
    ("GET", "/health"),
    ("GET", "/ready"),
    ("GET", "/v1/surveys/{digest}"),
    ("POST", "/v1/surveys/{digest}/answers"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return clinic_of_all(tmp_path_factory.mktemp("routes") / "clinic")


@pytest.fixture(scope="module")
def clinic(whole):
    return whole.clinic


@pytest.fixture(scope="module")
def app(clinic):
    return make_app(Settings.load(clinic.folder))


@pytest.fixture(scope="module")
def client(clinic):
    with running(clinic) as (url, _), httpx.Client(base_url=url, timeout=60) as connected:
        yield connected


def routes_of(app) -> set[tuple[str, str]]:
    paths = app.openapi()["paths"]
    return {(method.upper(), path) for path, methods in paths.items() for method in methods}


def test_the_table_names_every_route(app):
    assert routes_of(app) == ALLOWED.keys() | OPEN


@pytest.mark.parametrize(("method", "path"), sorted(ALLOWED))
def test_each_role_may_do_what_the_table_says(clinic, client, method, path):
    place = path.format(dataset="diagnosis", digest=DIGEST, identity="nobody")
    for role in Role:
        headers = {"Authorization": f"Bearer {clinic.tokens[role]}"}
        response = client.request(method, place, headers=headers, content=b"{}")
        assert (response.status_code == 403) == (role not in ALLOWED[method, path]), role
        assert response.status_code not in (401, 500)


@pytest.mark.parametrize(("method", "path"), sorted(ALLOWED))
def test_nobody_does_anything_without_a_good_token(clinic, client, method, path):
    place = path.format(dataset="diagnosis", digest=DIGEST, identity="nobody")
    expired, text = mint("owner")
    clinic.records.add_token(
        type(expired)(**{**vars(expired), "expires": expired.made - timedelta(days=1)})
    )
    for value in (None, "Basic eDp5", "Bearer", "Bearer suffice_a_b", f"Bearer {text}"):
        headers = {} if value is None else {"Authorization": value}
        response = client.request(method, place, headers=headers, content=b"{}")
        assert response.status_code == 401
        assert response.headers["content-type"] == "application/problem+json"


def test_what_is_not_served_and_what_is_out_of_scope_look_alike(clinic, client):
    narrow = clinic.new_token("learner", ("smoker",))
    headers = {"Authorization": f"Bearer {narrow}"}
    bodies = {
        client.get(f"/v1/datasets/{name}/balance", headers=headers).content
        for name in ("diagnosis", "nothing")
    }
    assert len(bodies) == 1


def test_an_owner_of_one_data_set_makes_no_tokens(clinic, client):
    headers = {"Authorization": f"Bearer {clinic.new_token('owner', ('smoker',))}"}
    assert client.get("/v1/tokens", headers=headers).status_code == 403
    body = b'{"role": "owner"}'
    assert client.post("/v1/tokens", content=body, headers=headers).status_code == 403
    assert client.delete("/v1/tokens/nobody", headers=headers).status_code == 403


def malformed_bodies(count: int):
    """Yield bodies that are no proposal: noise, cut and altered proposals, deep and wide JSON."""
    rng = np.random.default_rng(5)
    yield from (b"", b"{}", b"[" * 100_000, b'{"a":' * 20_000, b"\xff\xfe", b"1e999", b"NaN")
    yield b'{"message": "proposal", "version": 1, "digest": "' + b"0" * 900_000 + b'"}'
    for k in range(count - 8):
        size = int(rng.integers(1, 2000))
        noise = rng.integers(0, 256, size).astype(np.uint8).tobytes()
        yield noise if k % 2 else b'{"message": "proposal", "version": 1, "x": "' + noise + b'"}'


def altered(rng: np.random.Generator, whole: bytes) -> bytes:
    """Return bytes that were right, with some of them changed, cut off or repeated."""
    data = bytearray(whole)
    for place in rng.integers(0, len(data), int(rng.integers(1, 6))):
        data[place] ^= int(rng.integers(1, 256))
    cut = int(rng.integers(1, len(data)))
    return bytes((data, data[:cut], data + data[cut:])[int(rng.integers(3))])


def check_malformed(whole, client, count: int) -> None:
    """Send bodies that are none to every door that takes one."""
    clinic, rng = whole.clinic, np.random.default_rng(6)
    headers = {"Authorization": f"Bearer {clinic.tokens['owner']}"}
    party = {"Authorization": f"Bearer {whole.tokens['north']}"}
    decision = f"/v1/datasets/smoker/proposals/{DIGEST}/decision"
    checkpoint = client.get("/v1/log/checkpoint", headers=headers).content
    answers, part = f"/v1/surveys/{SURVEY.id}/answers", f"/v1/rounds/{whole.made.id}/part"
    doors = [
        ("POST", "/v1/datasets/diagnosis/proposals", headers, clinic.proposal().encode()),
        ("POST", "/v1/tokens", headers, b'{"role": "owner", "scope": ["diagnosis"], "days": 3}'),
        ("POST", "/v1/log/verify", headers, checkpoint),
        ("POST", decision, headers, b'{"grant": false, "reason": "no"}'),
        ("POST", answers, {}, body_of("0" * 32, sheet_of())),
        ("PUT", part, party, part_of("north", 1)),
    ]  # fmt: skip
    for k, noise in enumerate(malformed_bodies(count)):
        method, place, sender, good = doors[k % len(doors)]
        body = altered(rng, good) if k % 12 >= 6 else noise
        response = client.request(method, place, content=body, headers=sender)
        # A bit of an answer or of a vote may be another one, as good.
        well = {200, 201, 409} if body is not noise and place in (answers, part) else set()
        assert 400 <= response.status_code < 500 or response.status_code in well, body[:100]
        assert len(response.content) < 1000


def check_malformed_forms(clinic, client, count: int) -> None:
    """Send forms that are none to every page that takes one, also of the reader's own session."""
    rng = np.random.default_rng(7)
    page = httpx.Client(base_url=client.base_url, timeout=60)
    assert page.post("/login", data={"token": clinic.tokens["owner"]}).status_code == 303
    csrf = page.get("/tokens").text.split('name="csrf" value="')[1].split('"')[0].encode()
    places = ("/login", "/ask/diagnosis", f"/data/smoker/{DIGEST}", "/tokens", "/log",
              "/tokens/nobody/revoke")  # fmt: skip
    names = b"token role scope holder days decision reason checkpoint rows kind epsilon".split()
    plain, mixed = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
    for k in range(count):
        fields = [(b"csrf", csrf)] * int(k % 3 > 0)
        for name in rng.permutation(names)[: int(rng.integers(0, 11))]:
            size = int(rng.integers(0, 200))
            fields.append((bytes(name), rng.integers(0, 256, size).astype(np.uint8).tobytes()))
        head = b'--b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
        body = b"".join(head % field for field in fields) + b"--b--\r\n"
        if k % 2:
            body = b"&".join(b"=".join(field) for field in fields)
        kind = {"Content-Type": (mixed, plain)[k % 2]}
        response = page.post(places[k % len(places)], content=body, headers=kind)
        assert response.status_code < 500, (places[k % len(places)], body[:200])
    page.close()


def test_bodies_that_are_none_are_the_callers_fault(whole, client):
    check_malformed(whole, client, 300)
    check_malformed_forms(whole.clinic, client, 120)


@pytest.mark.audit
def test_ten_thousand_bodies_that_are_none(whole, client):
    check_malformed(whole, client, 8_000)
    check_malformed_forms(whole.clinic, client, 2_000)


def test_a_body_that_is_too_large_is_not_read_to_its_end(clinic, client):
    headers = {"Authorization": f"Bearer {clinic.tokens['owner']}"}
    endless = (b" " * 2**16 for _ in range(40))
    response = client.post("/v1/datasets/diagnosis/proposals", content=endless, headers=headers)
    assert response.status_code == 413


def test_every_response_keeps_out_of_caches_and_frames(client):
    for path in ("/health", "/v1/datasets", "/nowhere"):
        headers = client.get(path).headers
        assert headers["cache-control"] == "no-store"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"


def test_one_token_has_so_many_requests_in_a_minute():
    from suffice.service.limits import RequestRate
    from suffice.service.problems import Problem

    now = [0.0]
    rate = RequestRate(60, clock=lambda: now[0])
    for _ in range(60):
        rate.check("a")
    rate.check("b")
    with pytest.raises(Problem) as caught:
        rate.check("a")
    assert caught.value.headers == {"Retry-After": "1"}
    now[0] = 1.0
    rate.check("a")
    with pytest.raises(Problem):
        rate.check("a")
