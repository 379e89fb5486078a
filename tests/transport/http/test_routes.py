"""Every route for every role, bodies that are none, and what the OpenAPI document says."""

from datetime import timedelta

import httpx
import numpy as np
import pytest
from served import make_clinic, running

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
OPEN = {("GET", "/health"), ("GET", "/ready")}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    made = make_clinic(tmp_path_factory.mktemp("routes") / "clinic")
    settings = made.folder / "suffice.toml"
    settings.write_text(f'rounds = "clinic.rounds"\n{settings.read_text()}')
    return made


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


def check_malformed(clinic, client, count: int) -> None:
    headers = {"Authorization": f"Bearer {clinic.tokens['owner']}"}
    places = ("/v1/datasets/diagnosis/proposals", "/v1/tokens", "/v1/log/verify")
    for k, body in enumerate(malformed_bodies(count)):
        response = client.post(places[k % 3], content=body, headers=headers)
        assert 400 <= response.status_code < 500, body[:100]
        assert len(response.content) < 1000


def test_bodies_that_are_none_are_the_callers_fault(clinic, client):
    check_malformed(clinic, client, 300)


@pytest.mark.audit
def test_ten_thousand_bodies_that_are_none(clinic, client):
    check_malformed(clinic, client, 10_000)


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
