"""Attacks on a real server: the OWASP API Security Top Ten of 2023, and what browsers allow.

docs/service.md lists the attacks; the names of the tests there are checked here.
"""

import gzip
import json
import re
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import numpy as np
import pytest
from served import Clinic, make_clinic, running

from suffice.owner.ledger.tokens import Role, mint
from suffice.protocol.messages import Answer, Refused
from suffice.service import limits as service_limits
from suffice.service.app import make_app
from suffice.service.limits import address_of
from suffice.service.settings import Limits, Settings

PAGE = Path(__file__).parents[3] / "docs" / "service.md"
PROPOSALS = "/v1/datasets/{}/proposals"
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # unused, and slow to make for every request
NOBODYS = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def clinic(tmp_path_factory) -> Clinic:
    return make_clinic(tmp_path_factory.mktemp("attacks") / "clinic")


@pytest.fixture(scope="module")
def server(clinic):
    with running(clinic) as (url, process):
        yield url, process.pid


@pytest.fixture(scope="module")
def url(server) -> str:
    return server[0]


def get(url: str, **options) -> httpx.Response:
    return httpx.get(url, verify=PLAIN, timeout=60, **options)


def post(url: str, **options) -> httpx.Response:
    return httpx.post(url, verify=PLAIN, timeout=60, **options)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def raw(url: str, data: bytes, *, until_closed: bool = True) -> bytes:
    """Return what a server says to these bytes, byte by byte."""
    host, port = url.removeprefix("http://").split(":")
    said = b""
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        try:
            connection.sendall(data)
            while chunk := connection.recv(2**16):
                said += chunk
                if not until_closed and b"\r\n\r\n" in said:
                    break
        except ConnectionResetError:  # it had seen enough
            pass
    return said


def without_date(response: httpx.Response) -> tuple[int, bytes, list[tuple[str, str]]]:
    headers = [(name, value) for name, value in response.headers.items() if name != "date"]
    return response.status_code, response.content, headers


# --- API1: the objects of others


@pytest.mark.parametrize("part", ["", "/release"])
def test_what_is_not_yours_and_what_is_not_there_are_the_same_bytes(clinic, url, part):
    proposal = clinic.proposal("of the first learner")
    place = PROPOSALS.format("smoker")
    sent = post(
        f"{url}{place}", content=proposal.encode(), headers=bearer(clinic.tokens["learner"])
    )
    assert sent.status_code in (200, 202)
    for token in (clinic.new_token("learner"), clinic.new_token("learner", ("diagnosis",))):
        theirs, none, nowhere = (
            get(f"{url}{path}{part}", headers=bearer(token))
            for path in (
                f"{place}/{proposal.digest}",
                f"{place}/{NOBODYS}",
                f"{PROPOSALS.format('nothing')}/{proposal.digest}",
            )
        )
        assert theirs.status_code == 404
        assert without_date(theirs) == without_date(none) == without_date(nowhere)


def test_an_owner_of_one_data_set_decides_on_no_other(clinic, url):
    proposal = clinic.proposal("for the other owner")
    place = f"{url}{PROPOSALS.format('smoker')}"
    post(place, content=proposal.encode(), headers=bearer(clinic.tokens["learner"]))
    other = bearer(clinic.new_token("owner", ("diagnosis",)))
    decision = post(
        f"{place}/{proposal.digest}/decision", content=b'{"grant": true}', headers=other
    )
    assert decision.status_code == 404
    assert clinic.records.proposal("smoker", proposal.digest).state in ("received", "waiting")


# --- API2: authentication


def test_only_one_good_bearer_header_opens(clinic, url):
    good = clinic.tokens["learner"]
    identity, secret = good.split("_", 2)[1:]
    head = "GET /v1/datasets HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    lines = {
        f"Authorization: Bearer {good}\r\n": 200,
        f"authorization: bearer   {good}  \r\n": 200,
        f"Authorization: Bearer {good}\r\nAuthorization: Bearer {good}\r\n": 401,
        f"Authorization: Bearer bad\r\nAuthorization: Bearer {good}\r\n": 401,
        f"Authorization: Bearer {good}, Bearer {good}\r\n": 401,
        f"Authorization: Basic {good}\r\n": 401,
        f"Authorization: {good}\r\n": 401,
        f"Authorization: Bearer {good.upper()}\r\n": 401,
        f"Authorization: Bearer suffice_{identity}_{secret[:-1]}\r\n": 401,
        f"Authorization: Bearer suffice_{identity}_{secret}x\r\n": 401,
        f"Authorization: Bearer suffice_{'0' * 12}_{secret}\r\n": 401,
        f"Authorization: Bearer suffice_{identity}' OR '1'='1_{secret}\r\n": 401,
        f"Authorization: Bearer {'x' * 5000}\r\n": 401,
        "Authorization: Bearer \u00e9\r\n": 401,
        "Authorization:\r\n": 401,
        f"Cookie: suffice_session={good}\r\n": 401,
        f"X-Authorization: Bearer {good}\r\n": 401,
    }
    for line, status in lines.items():
        answer = raw(url, f"{head}{line}\r\n".encode("latin-1"))
        assert int(answer.split()[1]) == status, line
    for query in (f"token={good}", f"access_token={good}", f"Authorization=Bearer%20{good}"):
        assert get(f"{url}/v1/datasets?{query}").status_code == 401


def test_every_bad_token_gets_the_same_bytes(clinic, url):
    """Whether a token exists, has expired or was revoked is nobody's business."""
    revoked, expired = clinic.new_token("owner"), mint("owner")
    clinic.records.revoke_token(revoked.split("_")[1])
    clinic.records.add_token(replace(expired[0], expires=expired[0].made - timedelta(days=1)))
    unknown = mint("owner")[1]
    wrong = clinic.tokens["owner"][:-4] + "AAAA"
    answers = [
        without_date(get(f"{url}/v1/datasets", headers=bearer(token)))
        for token in (revoked, expired[1], unknown, wrong, "nonsense")
    ]
    assert answers[0][0] == 401
    assert all(answer == answers[0] for answer in answers)


def test_a_secret_is_compared_in_constant_time(monkeypatch):
    """Timing cannot be tested; that no other comparison is used can."""
    from suffice.owner.ledger import tokens

    token, text = mint("learner")
    compared: list[tuple[str, str]] = []
    monkeypatch.setattr(
        tokens.hmac, "compare_digest", lambda a, b: (compared.append((a, b)), a == b)[1]
    )
    assert token.opens_with(text.split("_", 2)[2])
    assert not token.opens_with("x")
    assert len(compared) == 2
    assert {len(side) for pair in compared for side in pair} == {64}


# --- API3: properties of objects


@pytest.mark.parametrize(
    "wish",
    [
        {"role": "learner", "id": "mine"},
        {"role": "learner", "hash": "0" * 64},
        {"role": "learner", "expires": "2999-01-01T00:00:00+00:00"},
        {"role": "learner", "revoked": None},
        {"role": "root"},
        {"role": ["owner"]},
        {"role": "learner", "days": 10**9},
        {"role": "learner", "days": True},
        {"role": "learner", "days": 1.0},
        {"role": "learner", "scope": "diagnosis"},
        {"role": "learner", "scope": ["nothing"]},
        {"role": "learner", "scope": ["\ud800"]},
        {"role": "learner", "scope": ["diagnosis", 7]},
        {"role": "learner", "holder": "a\nb"},
        {"role": "learner", "holder": "\ud800"},
        {"role": "learner", "holder": "x" * 201},
    ],
    ids=json.dumps,
)
def test_a_token_has_what_its_form_says_and_nothing_else(clinic, url, wish):
    owner, before = bearer(clinic.tokens["owner"]), len(clinic.records.tokens())
    body = json.dumps(wish).encode()
    assert post(f"{url}/v1/tokens", content=body, headers=owner).status_code == 400
    assert len(clinic.records.tokens()) == before
    assert get(f"{url}/v1/tokens", headers=owner).status_code == 200


def test_a_decision_and_a_proposal_have_no_other_fields(clinic, url):
    proposal = clinic.proposal("with more fields")
    place, owner = f"{url}{PROPOSALS.format('smoker')}", bearer(clinic.tokens["owner"])
    body = {**proposal.to_json(), "approved": True}
    assert post(place, content=json.dumps(body), headers=owner).status_code == 422
    post(place, content=proposal.encode(), headers=owner)
    for choice in (
        b'{"grant": true, "epsilon": 9}', b'{"grant": 1}', b'{"grant": "true"}', b"true", b"[]",
        b'{"grant": false}', b'{"grant": false, "reason": "\\ud800"}',
        b'{"grant": true, "grant": false}',
    ):  # fmt: skip
        response = post(f"{place}/{proposal.digest}/decision", content=choice, headers=owner)
        assert response.status_code in (400, 422), choice


def test_no_answer_shows_a_secret_or_a_hash(clinic, url):
    owner = bearer(clinic.tokens["owner"])
    seen = b"".join(
        get(f"{url}{path}", headers=owner).content
        for path in ("/v1/tokens", "/v1/datasets", PROPOSALS.format("smoker"), "/openapi.json")
    )
    for token in clinic.records.tokens():
        assert token.hash.encode() not in seen
    for text in clinic.tokens.values():
        assert text.split("_", 2)[2].encode() not in seen


# --- API4: resources


def test_a_body_is_refused_before_it_is_read(clinic, url):
    token = clinic.tokens["owner"]
    head = (
        "POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n"
        f"Authorization: Bearer {token}\r\n\r\n"
    )
    answer = raw(url, head.encode())  # nothing of the body is sent, and none is waited for
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in answer.lower()


def test_a_stranger_is_refused_before_the_body_is_read(url):
    head = b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n"
    assert raw(url, head, until_closed=False).startswith(b"HTTP/1.1 401")


def test_compressed_bodies_and_other_types_are_refused(clinic, url):
    owner, place = bearer(clinic.tokens["owner"]), f"{url}/v1/tokens"
    bomb = gzip.compress(b" " * 2**22)
    for headers in ({"content-encoding": "gzip"}, {"content-type": "text/xml"}):
        response = post(place, content=bomb, headers={**owner, **headers})
        assert response.status_code == 415
    assert post(place, content=bomb, headers=owner).status_code == 422


def test_heads_and_paths_have_a_size(url):
    bomb = b"".join(b"a%d: %s\r\n" % (k, b"x" * 900) for k in range(2000))
    for data in (
        b"GET /health HTTP/1.1\r\nHost: x\r\n" + bomb + b"\r\n",
        b"GET /" + b"x" * 2_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00" * 1000 + b"\r\n\r\n",
    ):
        answer = raw(url, data)
        assert answer[:12] in (b"HTTP/1.1 400", b""), answer[:100]
    assert get(f"{url}/health").status_code == 200


def test_two_lengths_are_refused(clinic, url):
    smuggled = (
        "POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n"
        f"Authorization: Bearer {clinic.tokens['owner']}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
    )
    answer = raw(url, smuggled.encode())
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"not both" in answer


def test_a_websocket_is_not_opened(url):
    asked = (
        b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert raw(url, asked, until_closed=False).startswith(b"HTTP/1.1 200")


class Patience:
    """Servers that wait for a fraction of a second, in this process."""

    @staticmethod
    @contextmanager
    def server(app, **times: float):
        import asyncio

        import uvicorn

        class Impatient(service_limits.Connection):
            pass

        loop_ready = threading.Event()
        config = uvicorn.Config(
            app, port=0, http=Impatient, ws="none", log_level="critical", lifespan="off"
        )
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None

        async def serve() -> None:
            task = asyncio.ensure_future(server.serve())
            while not server.started and not task.done():  # noqa: ASYNC110  # uvicorn has no event
                await asyncio.sleep(0.01)
            loop_ready.set()
            await task

        before = {name: getattr(service_limits, name) for name in times}
        for name, value in times.items():
            setattr(service_limits, name, value)
        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        try:
            assert loop_ready.wait(60)
            port = server.servers[0].sockets[0].getsockname()[1]
            yield f"http://127.0.0.1:{port}", Impatient
        finally:
            server.should_exit = True
            thread.join(60)
            for name, value in before.items():
                setattr(service_limits, name, value)


async def small_app(scope, receive, send) -> None:
    """Read the whole body, then say so; /large says a lot."""
    while (await receive()).get("more_body"):
        pass
    body = b"x" * 2**26 if scope["path"] == "/large" else b"ok"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize(
    "words",
    [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n"],
    ids=["silence", "half a head", "half a second head"],
)
def test_whoever_does_not_finish_a_head_is_hung_up_on(words):
    with Patience.server(small_app, _HEAD_SECONDS=0.3) as (url, _):
        answer = raw(url, words)  # returns because the server ends the connection
        assert answer.count(b"HTTP/1.1 200") == words.count(b"\r\n\r\n")


def test_whoever_does_not_read_is_hung_up_on():
    with Patience.server(small_app, _READING_SECONDS=0.3) as (url, _):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            time.sleep(2)  # and nothing is read
            size = 0
            with suppress(ConnectionResetError):
                while chunk := connection.recv(2**16):
                    size += len(chunk)
        assert size < 2**26


def test_idle_connections_give_way_to_new_ones():
    with Patience.server(small_app) as (url, kind):
        kind.most = 20
        host, port = url.removeprefix("http://").split(":")
        idle = [socket.create_connection((host, int(port)), timeout=60) for _ in range(60)]
        try:
            assert get(url).content == b"ok"
            assert idle[0].recv(1) == b""
        except ConnectionResetError:
            pass
        finally:
            for connection in idle:
                connection.close()


def test_a_slow_body_is_not_waited_for(clinic, monkeypatch):
    """The application gives a body thirty seconds; here it gives a fraction of one."""
    import asyncio

    from suffice.service import limits as service_limits

    monkeypatch.setattr(service_limits, "_BODY_SECONDS", 0.2)
    app = make_app(Settings.load(clinic.folder))
    sent: list[dict] = []

    async def receive() -> dict:
        await asyncio.sleep(0.15)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def send(message: dict) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
        "scheme": "http", "path": "/v1/tokens", "raw_path": b"/v1/tokens", "query_string": b"",
        "root_path": "", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        "headers": [(b"authorization", f"Bearer {clinic.tokens['owner']}".encode())],
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 408
    assert json.loads(sent[1]["body"])["status"] == 408


def test_a_large_proposal_is_refused_by_its_size(clinic, url):
    """A list of features that the policy does not grant would cost the service a second."""
    learner = bearer(clinic.tokens["learner"])
    many = replace(clinic.proposal(), features=tuple(f"f{k}" for k in range(50_000)))
    place = f"{url}{PROPOSALS.format('diagnosis')}"
    assert post(place, content=many.encode(), headers=learner).status_code == 413
    some = replace(clinic.proposal(), features=tuple(f"f{k}" for k in range(5000)))
    assert post(place, content=some.encode(), headers=learner).status_code in (200, 202)


def test_requests_have_a_rate_for_tokens_addresses_and_pages(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    text = (clinic.folder / "suffice.toml").read_text()
    slow = text.replace("requests_per_minute = 100000", "requests_per_minute = 5")
    (clinic.folder / "suffice.toml").write_text(slow)
    learner = bearer(clinic.tokens["learner"])
    with running(clinic) as (url, _):
        spoofed = [{"X-Forwarded-For": f"10.0.0.{k}"} for k in range(12)]
        for send in (
            lambda k: get(f"{url}/v1/datasets", headers={**learner, **spoofed[k]}),
            lambda k: get(f"{url}/v1/datasets", headers=spoofed[k]),
            lambda k: post(f"{url}/login", data={"token": "x"}, headers=spoofed[k]),
        ):
            responses = [send(k) for k in range(12)]
            assert responses[-1].status_code == 429 or responses[-2].status_code == 429
            refused = [r for r in responses if r.status_code == 429]
            assert all(int(r.headers["retry-after"]) >= 1 for r in refused)
        # Pages share the limit of forms, which is used up.
        codes = {get(f"{url}/", headers=spoofed[k]).status_code for k in range(3)}
        assert 429 in codes
        # A token's limit is its own: others are not kept out by strangers.
        officer = bearer(clinic.tokens["officer"])
        assert get(f"{url}/v1/datasets", headers=officer).status_code == 200
        assert get(f"{url}/health").status_code == 200


@pytest.mark.parametrize(
    ("behind_proxy", "proxies", "expected"),
    [
        (False, "127.0.0.1", "127.0.0.1"),
        (True, "127.0.0.1,::1", "203.0.113.9"),
        (True, "10.0.0.2", "127.0.0.1"),
    ],
)
def test_an_address_is_believed_from_the_proxy_alone(
    clinic, monkeypatch, behind_proxy, proxies, expected
):
    """The last address that the proxy added counts, whatever the caller wrote before it."""
    import asyncio

    import uvicorn

    from suffice.service import app as runs

    configs: list[uvicorn.Config] = []
    monkeypatch.setattr(runs._Announced, "run", lambda self: configs.append(self.config))
    settings = Settings.load(clinic.folder)
    server = replace(settings.server, behind_proxy=behind_proxy, proxies=proxies)
    runs.run_server(replace(settings, server=server), tell=lambda _: None)
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # what uvicorn would believe by itself
    (config,) = configs
    addresses: list[str] = []

    async def app(scope, receive, send) -> None:
        del receive, send
        from fastapi import Request

        addresses.append(address_of(Request(scope)))

    config.app = app
    config.loaded = False
    config.load()
    scope = {
        "type": "http", "client": ("127.0.0.1", 5),
        "headers": [(b"x-forwarded-for", b"198.51.100.1, 203.0.113.9")],
    }  # fmt: skip
    asyncio.run(config.loaded_app(scope, None, None))
    assert addresses == [expected]


def test_a_network_of_addresses_is_one_caller():
    def counted(host: str | None) -> str:
        from fastapi import Request

        return address_of(
            Request({"type": "http", "client": None if host is None else (host, 1), "headers": []})
        )

    assert counted("2001:db8::1") == counted("2001:db8::ffff:ffff") == "2001:db8::/64"
    assert counted("2001:db8:0:1::1") != counted("2001:db8::1")
    assert counted("::ffff:192.0.2.1") == counted("192.0.2.1") == "192.0.2.1"
    assert counted(None) == ""
    assert len(counted("x" * 10_000)) == 100


def test_one_token_fills_no_waiting_room(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    greedy, modest = (clinic.new_token("learner").split("_")[1] for _ in range(2))
    service_limits = Limits(waiting_of_one_token=3, proposals_of_one_token=5, waiting_proposals=6)
    good = clinic.proposal()
    several = [replace(good, purpose=f"study {k}") for k in range(8)]

    def is_filed(proposal, token: str) -> bool:
        return clinic.records.add_proposal(
            "smoker", proposal.digest, proposal.encode(), token, service_limits
        )

    assert [is_filed(p, greedy) for p in several[:5]] == [True, True, True, False, False]
    assert is_filed(several[0], greedy)  # it is there already
    assert is_filed(several[3], modest)
    for proposal in several[:3]:
        stored = clinic.records.proposal("smoker", proposal.digest)
        assert clinic.records.answer(stored, Refused(proposal.digest, ("no",)).encode(), None)
    assert [is_filed(p, greedy) for p in several[4:]] == [True, True, False, False]
    assert [is_filed(p, modest) for p in several[6:]] == [True, True]


def test_lists_come_in_pieces(clinic, url):
    """A page of a list does not grow with what was filed, and shows nobody else's."""
    learner, other = clinic.new_token("learner"), clinic.new_token("learner")
    service_limits = Settings.load(clinic.folder).limits
    good = clinic.proposal()
    mine = [replace(good, purpose=f"piece {k}") for k in range(130)]
    for proposal in mine:
        body = proposal.encode()
        clinic.records.add_proposal("smoker", proposal.digest, body, learner.split("_")[1], replace(
            service_limits, waiting_of_one_token=1000, waiting_proposals=5000))  # fmt: skip
    theirs = replace(good, purpose="not theirs")
    clinic.records.add_proposal(
        "smoker", theirs.digest, theirs.encode(), other.split("_")[1], service_limits
    )
    place = f"{url}{PROPOSALS.format('smoker')}"
    first = get(place, headers=bearer(learner)).json()
    assert [line["proposal"] for line in first] == [p.digest for p in mine[:100]]
    rest = get(place, params={"after": first[-1]["proposal"]}, headers=bearer(learner)).json()
    assert [line["proposal"] for line in rest] == [p.digest for p in mine[100:]]
    # A digest that the caller does not see is none: the list begins at its beginning.
    unseen = get(place, params={"after": theirs.digest}, headers=bearer(learner)).json()
    assert [line["proposal"] for line in unseen] == [p.digest for p in mine[:100]]
    assert get(place, params={"after": "x"}, headers=bearer(learner)).status_code == 422
    assert len(get(place, headers=bearer(clinic.tokens["officer"])).json()) == 100


# --- API5: functions are in test_routes.py (every route for every role)
# --- API8: configuration


def test_every_response_has_the_headers_even_failures(clinic, url):
    owner = bearer(clinic.tokens["owner"])
    responses = [
        get(f"{url}/health"),
        get(f"{url}/v1/datasets", headers=owner),
        get(f"{url}/v1/datasets"),
        get(f"{url}/nowhere"),
        httpx.put(f"{url}/health", verify=PLAIN),
        post(f"{url}/v1/tokens", content=b"x", headers=owner),
        get(f"{url}/login"),
    ]
    for response in responses:
        headers = response.headers
        assert headers["cache-control"] == "no-store"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in headers
        assert not [name for name in headers if name.startswith("access-control-")]


def test_another_site_may_not_read(clinic, url):
    headers = {**bearer(clinic.tokens["owner"]), "Origin": "https://evil.example"}
    preflight = {**headers, "Access-Control-Request-Method": "GET"}
    assert httpx.options(f"{url}/v1/datasets", headers=preflight).status_code == 405
    response = get(f"{url}/v1/datasets", headers=headers)
    assert "access-control-allow-origin" not in response.headers


def test_no_redirection_goes_where_a_request_says(clinic, url):
    """A slash too many was once answered with an address made from the Host header."""
    hostile = {**bearer(clinic.tokens["owner"]), "Host": "evil.example", "X-Forwarded-Host": "evil"}
    for path in ("/v1/datasets/", "//evil.example/", "/login/", "/v1//datasets", "/\\evil.example"):
        response = get(f"{url}{path}", headers=hostile)
        assert response.status_code == 404
        assert "location" not in response.headers
    assert get(f"{url}/", headers=hostile).headers["location"] == "/login"


@pytest.mark.parametrize("tls", [True, False])
def test_tls_is_for_ever_and_cookies_stay_on_it(clinic, tls):
    import asyncio

    settings = Settings.load(clinic.folder)
    app = make_app(replace(settings, server=replace(settings.server, behind_proxy=tls)))

    async def asked() -> tuple[httpx.Response, httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://clinic") as client:
            form = {"token": clinic.tokens["owner"]}
            return await client.get("/health"), await client.post("/login", data=form)

    health, login = asyncio.run(asked())
    assert ("strict-transport-security" in health.headers) == tls
    cookie = login.headers["set-cookie"].lower()
    assert ("secure" in cookie) == tls
    assert {"httponly", "samesite=strict", "path=/"} <= set(cookie.split("; "))


def test_a_failure_that_nobody_expected_tells_nothing(clinic, monkeypatch):
    import asyncio

    app = make_app(Settings.load(clinic.folder))
    from suffice.service.records import ServiceRecords

    def fail(*_):
        raise RuntimeError("the secret of row 7")

    monkeypatch.setattr(ServiceRecords, "token", fail)

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://clinic") as client:
            return await client.get("/v1/datasets", headers=bearer(clinic.tokens["owner"]))

    response = asyncio.run(asked())
    assert response.status_code == 500
    assert "row 7" not in response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"


# --- API9: inventory


def test_no_route_is_missing_from_the_document_or_the_pages(clinic):
    """Whatever answers without being listed here would be found by somebody else."""
    app = make_app(Settings.load(clinic.folder))
    assert app.docs_url is None
    assert app.redoc_url is None
    listed = set(app.openapi()["paths"])
    paths = paths_of(app.router)
    assert {path for path in paths if path.startswith("/v1")} == listed - {"/health", "/ready"}
    assert paths >= {"/health", "/ready", "/openapi.json", "/login", "/v1/tokens"}
    assert not {path for path in paths if "docs" in path}
    assert app.openapi()["info"]["version"]


def paths_of(router, prefix: str = "") -> set[str]:
    """Return the path of every route, also of routers inside routers."""
    paths: set[str] = set()
    for route in router.routes:
        if inner := getattr(route, "original_router", None):
            paths |= paths_of(inner, prefix + route.include_context.prefix)
        else:
            paths.add(prefix + route.path)
    return paths


# --- browsers: sessions and forms


@contextmanager
def signed_in(clinic: Clinic, url: str, role: str = "owner"):
    with httpx.Client(base_url=url, timeout=60) as client:
        assert client.post("/login", data={"token": clinic.tokens[role]}).status_code == 303
        yield client


def test_a_form_from_another_site_is_refused(clinic, url):
    host = url.removeprefix("http://")
    good = [
        {}, {"Origin": url}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
    ]  # fmt: skip
    bad = [
        {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": f"http://{host}.evil.example"},
        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
        {"Origin": url, "Sec-Fetch-Site": "cross-site"},
    ]  # fmt: skip
    form = {"token": clinic.tokens["owner"]}
    for headers in good:
        assert post(f"{url}/login", data=form, headers=headers).status_code == 303, headers
    for headers in bad:
        response = post(f"{url}/login", data=form, headers=headers)
        assert response.status_code == 403, headers
        assert "set-cookie" not in response.headers


def test_a_session_begins_with_a_new_secret_and_ends_with_its_token(clinic, url):
    token = clinic.new_token("owner")
    with httpx.Client(base_url=url, timeout=60) as client:
        client.cookies.set("suffice_session", "chosen-by-somebody-else")
        first = client.post("/login", data={"token": token}).cookies["suffice_session"]
        second = client.post("/login", data={"token": token}).cookies["suffice_session"]
        assert len({first, second, "chosen-by-somebody-else"}) == 3
        assert len(first) >= 43
    cookie = {"suffice_session": second}
    assert get(f"{url}/tokens", cookies=cookie).status_code == 200
    clinic.records.revoke_token(token.split("_")[1])
    assert get(f"{url}/tokens", cookies=cookie).status_code == 303


def test_one_session_does_not_open_the_forms_of_another(clinic, url):
    def csrf_of(client: httpx.Client) -> str:
        return client.get("/tokens").text.split('name="csrf" value="')[1].split('"')[0]

    with signed_in(clinic, url) as first, signed_in(clinic, url) as second:
        stolen = {"csrf": csrf_of(first), "holder": "Eve", "role": "owner", "days": "9"}
        assert second.post("/tokens", data=stolen).status_code == 403
        assert first.post("/tokens", data={**stolen, "scope": "nothing"}).status_code == 400
        for csrf in ("", "\udcff".encode("utf-8", "surrogatepass"), "é", "x" * 5000):
            body = {**stolen, "csrf": csrf}
            assert first.post("/tokens", data=body).status_code == 403
        many = "&".join(f"a{k}=1" for k in range(500))
        assert first.post("/tokens", content=many.encode()).status_code == 400
        assert first.post("/tokens", content=b"x" * 20_000).status_code == 413


def test_a_page_shows_no_token_in_its_address(clinic, url):
    with signed_in(clinic, url) as owner:
        for path in ("/", "/tokens", "/report"):
            page = owner.get(path).text
            assert not re.search(r'(href|action|src)="[^"]*suffice_[0-9a-f]{12}_', page)


# --- bodies that are none


def altered_proposals(clinic: Clinic, count: int):
    """Yield bodies that are no proposal: real ones with bytes, values and depths changed."""
    rng = np.random.default_rng(11)
    whole = clinic.proposal("altered").encode()
    values = [
        "null", "true", "-1", "1e308", "1e999", "NaN", "-0.5", "9" * 400, "[]", "{}", "0.1e",
        '"' + "x" * 3000 + '"', "[" * 500 + "]" * 500, '{"a":' * 500 + "1" + "}" * 500,
        '"\\ud800"', '"\\u0000"', "9007199254740993", '{"count": 1}', '"sha256:' + "0" * 64 + '"',
    ]  # fmt: skip
    fields = re.findall(rb'"(\w+)":', whole)
    for k in range(count):
        match k % 5:
            case 0:  # some bytes are others
                data = bytearray(whole)
                for place in rng.integers(0, len(data), int(rng.integers(1, 6))):
                    data[place] ^= int(rng.integers(1, 256))
                yield bytes(data)
            case 1:  # it ends early, or goes on
                cut = int(rng.integers(0, len(whole)))
                yield whole[:cut] if rng.random() < 0.5 else whole + whole[cut:]
            case 2:  # a field has another value
                name = fields[int(rng.integers(len(fields)))]
                value = values[int(rng.integers(len(values)))].encode()
                yield re.sub(
                    rb'("%b":)("[^"]*"|[^,{}\[\]]+|\[[^]]*\]|\{[^}]*\})' % name,
                    lambda found, value=value: found[1] + value,
                    whole,
                    count=1,
                )
            case 3:  # noise
                yield rng.integers(0, 256, int(rng.integers(0, 3000))).astype(np.uint8).tobytes()
            case _:  # deep and wide
                depth = int(rng.integers(1, 30_000))
                yield (b"[", b'{"a":', b'[{"":', b"-", b'"\\u')[int(rng.integers(5))] * depth


def resident_kilobytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


MOST_GROWTH = 40_000  # kilobytes; keeping the bodies of the large test would take more than this


def check_altered(clinic: Clinic, server: tuple[str, int], count: int) -> None:
    url, pid = server
    owner, whole = bearer(clinic.tokens["owner"]), clinic.proposal("altered").encode()
    places = [
        PROPOSALS.format("diagnosis"),
        "/v1/tokens",
        f"{PROPOSALS.format('smoker')}/{NOBODYS}/decision",
    ]
    measurable = Path(f"/proc/{pid}/status").exists()
    before = 0
    with httpx.Client(base_url=url, timeout=60, headers=owner) as client:
        for k, body in enumerate(altered_proposals(clinic, count)):
            if k == count // 5 and measurable:  # everything has been used once
                before = resident_kilobytes(pid)
            response = client.post(places[k % 3 if k % 7 == 0 else 0], content=body)
            if body == whole:
                continue  # what was changed was changed into itself
            assert 400 <= response.status_code < 500, body[:200]
            assert len(response.content) < 1000
            assert response.headers["content-type"] == "application/problem+json"
    if measurable:
        assert resident_kilobytes(pid) - before < MOST_GROWTH


def test_altered_bodies_are_the_callers_fault_and_memory_stays(clinic, server):
    check_altered(clinic, server, 500)


@pytest.mark.audit
def test_ten_thousand_altered_bodies(clinic, server):
    check_altered(clinic, server, 10_000)


def test_a_wild_proposal_that_is_whole_gets_an_answer(clinic, url):
    """What is well-formed reaches the worker, and no value in it may stop that."""
    good = clinic.proposal("wild")
    wild = [
        replace(good, rows=replace(good.rows, count=2**53 - 1)),
        replace(good, features=("age", "age' OR 1=1 --", "\u202e")),
        replace(good, features=("diagnosis",)),
        replace(good, classes=tuple(range(500))),
        replace(good, map="rff:999999999"),
        replace(good, kind="everything"),
        replace(good, pipeline="sha256:" + "1" * 64),
        replace(good, terms=replace(good.terms, epsilon=5e-324)),
        replace(good, terms=replace(good.terms, mechanism="nonsense")),
        replace(good, missing="zero"),
        replace(good, purpose="<script>alert(1)</script>" * 30),
    ]
    learner = bearer(clinic.tokens["learner"])
    place = f"{url}{PROPOSALS.format('diagnosis')}"
    with httpx.Client(timeout=60, headers=learner) as client:
        for proposal in wild:
            assert client.post(place, content=proposal.encode()).status_code in (200, 202)
        for proposal in wild:
            for _ in range(600):
                response = client.get(f"{place}/{proposal.digest}")
                if response.status_code == 200:
                    break
                time.sleep(0.1)
            answer = Answer.load(response.content)
            assert answer.proposal == proposal.digest
            assert answer.name in ("refused", "countered", "granted")


# --- the page


def test_the_page_names_tests_that_exist():
    page = PAGE.read_text()
    rows = re.findall(r"^\| API(\d+)", page, flags=re.MULTILINE)
    assert rows == [str(k) for k in range(1, 11)]
    part = page.split("## Known attacks")[1].split("\n## ")[0]
    names = set(re.findall(r"`(test_\w+)`", part))
    assert len(names) >= 10
    folder = Path(__file__).parent
    sources = "".join(path.read_text() for path in folder.glob("test_*.py"))
    missing = {name for name in names if f"def {name}(" not in sources}
    assert not {name for name in missing if not (folder / f"{name}.py").exists()}


def test_roles_are_five():
    """A new role needs a line in the tables of this folder."""
    assert set(Role) == {"owner", "officer", "learner", "organiser", "party"}
