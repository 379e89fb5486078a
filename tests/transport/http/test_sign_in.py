"""Sign-in at a provider: a small one of this test's own, and every way in which it must fail."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
from joserfc import jwk, jwt
from served import make_clinic

from suffice.errors import ParameterError
from suffice.owner.ledger.log import Kind
from suffice.owner.ledger.tokens import mint
from suffice.service.app import make_app
from suffice.service.settings import Settings
from suffice.service.sign_in import SingleSignOn

CLIENT = "suffice-clinic"
PREFIX = "/suffice"
PUBLIC = f"https://clinic.example{PREFIX}"  # where readers reach the service, through a proxy


class Provider:
    """A provider of OpenID Connect on loopback; a test may make it lie."""

    def __init__(self) -> None:
        self.keys = [jwk.RSAKey.generate_key(2048, {"kid": "first"})]
        self.codes: dict[str, dict] = {}
        self.claims: dict = {"sub": "ada-1", "email": "ada@clinic.example"}
        self.sign = self.signed  # how an identity token is made of its claims
        self.issuer = self.redirection = ""
        self.asked: list[str] = []

    def signed(self, claims: dict) -> str:
        key = self.keys[-1]
        return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)

    def published(self) -> dict:
        return {"keys": [key.as_dict(private=False) for key in self.keys]}

    def about(self) -> dict:
        places = {"authorization_endpoint": "authorize", "token_endpoint": "token",
                  "jwks_uri": "keys"}  # fmt: skip
        return {"issuer": self.issuer, **{n: f"{self.issuer}/{p}" for n, p in places.items()}}

    def let_in(self, address: str) -> tuple[str, str]:
        """Be the browser at the provider: return code and state for an address of the service."""
        parts = urlsplit(address)
        assert address.startswith(f"{self.issuer}/authorize?")
        asked = dict(parse_qsl(parts.query))
        assert asked["code_challenge_method"] == "S256"
        assert asked["redirect_uri"] == f"{PUBLIC}/sign-in/back"
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return code, asked["state"]

    def exchange(self, form: dict) -> dict | None:
        asked = self.codes.pop(form["code"], None)  # good once
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != challenge:
            return None
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "exp": now + 300, "iat": now,
                  "nonce": asked["nonce"], **self.claims}  # fmt: skip
        said = {name: value for name, value in claims.items() if value is not None}
        return {"id_token": self.sign(said), "token_type": "Bearer"}


@contextmanager
def running_provider() -> Iterator[Provider]:
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def answer(self, value: dict | None) -> None:
            body = json.dumps(value or {"error": "invalid_grant"}).encode()
            self.send_response(200 if value is not None else 400)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            provider.asked.append(self.path)
            self.answer(provider.published() if self.path == "/keys" else provider.about())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            if provider.redirection:
                self.send_response(307)
                self.send_header("location", provider.redirection)
                self.send_header("content-length", "0")
                self.end_headers()
                return
            self.answer(provider.exchange(dict(parse_qsl(body))))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.issuer = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield provider
        server.shutdown()


@pytest.fixture
def provider():
    with running_provider() as running:
        yield running


def clinic_with(tmp_path, provider, people=(("ada-1", "owner"), ("eve-1", "officer"))):
    clinic = make_clinic(tmp_path / "clinic")
    path = clinic.folder / "suffice.toml"
    named = "".join(
        f'[[sign_in.people]]\nissuer = "{provider.issuer}"\nsubject = "{subject}"\n'
        f'name = "{subject.split("-")[0]}"\nrole = "{role}"\n'
        for subject, role in people
    )
    proxy = f'port = 0\nbehind_proxy = true\nprefix = "{PREFIX}"\n'
    text = path.read_text().replace("port = 0\n", proxy, 1)
    text += (
        f'[sign_in]\nissuer = "{provider.issuer}"\nclient_id = "{CLIENT}"\naddress = "{PUBLIC}"\n'
    )
    path.write_text(text + named)
    return clinic


class Browser:
    """A reader in front of the application, which keeps cookies as a browser does."""

    def __init__(self, clinic) -> None:
        self.cookies: dict[str, str] = {}
        self.app = make_app(Settings.load(clinic.folder))

    def ask(self, method: str, path: str, **options) -> httpx.Response:
        import asyncio

        async def answer() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://inside") as client:
                cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
                headers = {"Cookie": cookie} if cookie else {}
                return await client.request(method, PREFIX + path, headers=headers, **options)

        response = asyncio.run(answer())
        for line in response.headers.get_list("set-cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            if value in ("", '""'):
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        return response

    def begin(self) -> str:
        response = self.ask("GET", "/sign-in")
        assert response.status_code == 303
        return response.headers["location"]

    def back(self, code: str, state: str, **also: str) -> httpx.Response:
        return self.ask("GET", f"/sign-in/back?{urlencode({'code': code, 'state': state, **also})}")

    def sign_in(self, provider: Provider) -> httpx.Response:
        return self.back(*provider.let_in(self.begin()))

    @property
    def is_in(self) -> bool:
        return self.ask("GET", "/").status_code == 200


def test_a_named_person_signs_in_and_decides_under_that_name(tmp_path, provider):
    clinic = clinic_with(tmp_path, provider)
    reader = Browser(clinic)
    assert not reader.is_in
    assert f"{PREFIX}/sign-in" in reader.ask("GET", "/login").text
    address = reader.begin()
    cookie = reader.ask("GET", "/sign-in").headers["set-cookie"]
    for words in ("SameSite=lax", "HttpOnly", "Secure", f"Path={PREFIX}/sign-in", "Max-Age=600"):
        assert words in cookie
    del address
    landed = reader.sign_in(provider)
    assert landed.status_code == 200  # a redirection from another site would lose a strict cookie
    assert "SameSite=strict" in landed.headers["set-cookie"]
    assert reader.is_in
    proposal = clinic.proposal()
    clinic.records.add_proposal("smoker", proposal.digest, proposal.encode(),
                                clinic.tokens["learner"].split("_")[1],
                                Settings.load(clinic.folder).limits)  # fmt: skip
    from suffice.service.records import State

    clinic.records.move(clinic.records.proposal("smoker", proposal.digest), State.WAITING)
    page = reader.ask("GET", f"/data/smoker/{proposal.digest}").text
    csrf = page.split('name="csrf" value="')[1].split('"')[0]
    done = reader.ask("POST", f"/data/smoker/{proposal.digest}",
                      data={"csrf": csrf, "decision": "grant"})  # fmt: skip
    assert done.status_code == 303
    (entry,) = [e for e in clinic.ledger.verify() if e.kind == Kind.DECISION]
    assert entry.facts["decision"] == "granted"
    assert entry.facts["by"] == f"signed in: ada, ada-1 of {provider.issuer}"


def refusal(reader: Browser, provider: Provider, caplog) -> str:
    """Return why a sign-in failed, as the log says it; the reader is told nothing of it."""
    caplog.clear()
    caplog.set_level("INFO", "suffice.service")
    response = reader.sign_in(provider)
    return refused(reader, response, caplog)


def refused(reader: Browser, response: httpx.Response, caplog) -> str:
    assert response.status_code == 403, response.text
    assert not reader.is_in
    (line,) = [r.getMessage() for r in caplog.records if "A sign-in failed" in r.getMessage()]
    reason = line.removeprefix("A request was refused: A sign-in failed. ")
    assert reason not in response.text
    return reason


def none_signed(_: Provider):
    def sign(claims: dict) -> str:
        def part(value: dict) -> str:
            return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

        return f"{part({'alg': 'none'})}.{part(claims)}."

    return sign


def hmac_with_the_public_key(provider: Provider):
    import hmac

    def sign(claims: dict) -> str:
        def part(value: bytes) -> str:
            return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

        head = {"alg": "HS256", "kid": "first"}
        said = f"{part(json.dumps(head).encode())}.{part(json.dumps(claims).encode())}"
        secret = provider.keys[0].as_pem(private=False)
        return f"{said}.{part(hmac.digest(secret, said.encode(), 'sha256'))}"

    return sign


def another_key(_: Provider):
    key = jwk.RSAKey.generate_key(2048, {"kid": "first"})
    return lambda claims: jwt.encode({"alg": "RS256", "kid": "first"}, claims, key)


def a_shared_key(provider: Provider):
    """Publish a key that has no private half, and sign with it."""
    key = jwk.OctKey.generate_key(256, {"kid": "shared"})
    provider.published = lambda: {"keys": [key.as_dict()]}
    return lambda claims: jwt.encode({"alg": "HS256", "kid": "shared"}, claims, key)


NOT_SIGNED = "Its token is not signed with a key of the provider, in a way that is allowed."


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": int(time.time()) - 1}, "Its token has expired."),
        ({"exp": None}, "Its token does not say for how long it is good."),
        ({"iss": "https://other.example"}, "Its token is another issuer's."),
        ({"aud": "another client"}, "Its token is for another audience."),
        ({"aud": [CLIENT, "b"], "azp": "b"}, "Its token was given to another client."),
        ({"aud": [CLIENT, "b"]}, "Its token was given to another client."),
        ({"azp": "b"}, "Its token was given to another client."),
        ({"nonce": "another"}, "Its token has another nonce than the one that began here."),
        ({"sub": "mallory-1"}, "The settings do not name this person."),
    ],
    ids=[
        "expired",
        "no end",
        "issuer",
        "audience",
        "azp",
        "no azp",
        "other azp",
        "nonce",
        "same e-mail, other subject",
    ],
)
def test_a_token_that_is_not_ours_is_refused(tmp_path, provider, caplog, claims, reason):
    clinic = clinic_with(tmp_path, provider)
    provider.claims |= claims
    assert refusal(Browser(clinic), provider, caplog) == reason


@pytest.mark.parametrize("sign", [none_signed, hmac_with_the_public_key, another_key, a_shared_key])
def test_a_token_that_the_provider_did_not_sign_is_refused(tmp_path, provider, caplog, sign):
    clinic = clinic_with(tmp_path, provider)
    provider.sign = sign(provider)
    assert refusal(Browser(clinic), provider, caplog) == NOT_SIGNED


def test_a_code_is_good_once_and_for_the_browser_that_began(tmp_path, provider, caplog):
    clinic = clinic_with(tmp_path, provider)
    caplog.set_level("INFO", "suffice.service")
    first = Browser(clinic)
    code, state = provider.let_in(first.begin())
    kept = dict(first.cookies)
    assert first.back(code, state).status_code == 200
    again = Browser(clinic)
    again.cookies = kept
    assert (
        refused(again, again.back(code, state), caplog) == "The provider did not accept the code."
    )
    caplog.clear()
    twice = Browser(clinic)
    code, state = provider.let_in(twice.begin())
    asked = provider.codes[code]
    assert twice.back(code, state).status_code == 200
    provider.codes[code] = asked  # a provider that takes a code twice
    twice.cookies.pop("suffice_session")
    reason = refused(twice, twice.back(code, state), caplog)
    assert reason == "It did not begin in this browser, or took too long."
    caplog.clear()
    stolen, victim = Browser(clinic), Browser(clinic)
    code, state = provider.let_in(stolen.begin())
    victim.begin()
    reason = refused(victim, victim.back(code, state), caplog)
    assert reason == "Its state is not the one that began here."
    caplog.clear()
    nobody = Browser(clinic)
    reason = refused(nobody, nobody.back(code, state), caplog)
    assert reason == "It did not begin in this browser, or took too long."
    caplog.clear()
    mixed = Browser(clinic)
    code, state = provider.let_in(mixed.begin())
    reason = refused(mixed, mixed.back(code, state, iss="https://other.example"), caplog)
    assert reason == "Another provider sent the reader back."


def test_rotated_keys_are_followed_and_old_ones_forgotten(tmp_path, provider, caplog):
    clinic = clinic_with(tmp_path, provider)
    reader = Browser(clinic)
    assert reader.sign_in(provider).status_code == 200
    old = provider.keys[0]
    provider.keys = [jwk.ECKey.generate_key("P-256", {"kid": "second"})]
    provider.sign = lambda claims: jwt.encode(
        {"alg": "ES256", "kid": "second"}, claims, provider.keys[0]
    )
    reader.cookies.clear()
    assert reader.sign_in(provider).status_code == 200
    assert reader.is_in
    reader.cookies.clear()
    provider.sign = lambda claims: jwt.encode({"alg": "RS256", "kid": "first"}, claims, old)
    reason = "Its token is signed with a key that the provider does not name."
    assert refusal(reader, provider, caplog) == reason


def test_a_key_that_the_provider_took_back_is_believed_for_an_hour_at_most(
    tmp_path, provider, caplog, monkeypatch
):
    clinic = clinic_with(tmp_path, provider)
    reader = Browser(clinic)
    assert reader.sign_in(provider).status_code == 200
    reader.cookies.clear()
    stolen = provider.keys[0]
    provider.keys = [jwk.RSAKey.generate_key(2048, {"kid": "second"})]
    provider.sign = lambda claims: jwt.encode({"alg": "RS256", "kid": "first"}, claims, stolen)
    monkeypatch.setattr(SingleSignOn, "fresh", 0.0)  # the hour is over
    reason = "Its token is signed with a key that the provider does not name."
    assert refusal(reader, provider, caplog) == reason


def test_a_session_ends_when_its_person_is_removed_or_gets_another_role(tmp_path, provider):
    clinic = clinic_with(tmp_path, provider)
    reader = Browser(clinic)
    reader.sign_in(provider)
    assert reader.is_in
    path = clinic.folder / "suffice.toml"
    text = path.read_text()
    for other in (
        text.replace("ada-1", "ada-2"),
        text.replace('role = "owner"', 'role = "officer"'),
    ):
        path.write_text(other)
        reader.app = make_app(Settings.load(clinic.folder))  # as SIGHUP does
        assert not reader.is_in
    path.write_text(text)
    reader.app = make_app(Settings.load(clinic.folder))
    assert reader.is_in


def test_a_session_ends_with_the_working_day(tmp_path, provider, monkeypatch):
    from datetime import timedelta

    from suffice.service import auth

    clinic = clinic_with(tmp_path, provider)
    reader = Browser(clinic)
    reader.sign_in(provider)
    now = auth.utc_now
    for hours, is_in in ((7.9, True), (8.1, False)):
        monkeypatch.setattr(auth, "utc_now", lambda h=hours: now() + timedelta(hours=h))
        assert reader.is_in == is_in


def test_whoever_the_provider_does_not_let_in_is_refused(tmp_path, provider, caplog):
    clinic = clinic_with(tmp_path, provider)
    reader = Browser(clinic)
    _, state = provider.let_in(reader.begin())
    caplog.set_level("INFO", "suffice.service")
    back = reader.ask("GET", f"/sign-in/back?state={state}&error=access_denied")
    assert refused(reader, back, caplog) == "The provider did not let the reader in."


def test_a_redirection_of_the_provider_is_not_followed(tmp_path, provider, caplog):
    """Code and verifier are for the address that the provider named, over TLS."""
    clinic = clinic_with(tmp_path, provider)
    with running_provider() as other:
        other.codes, other.keys, other.claims = provider.codes, provider.keys, provider.claims
        other.issuer, elsewhere = provider.issuer, f"{other.issuer}/token"
        provider.redirection = elsewhere
        reason = refusal(Browser(clinic), provider, caplog)
    assert reason == "The provider did not accept the code."


def test_nobody_makes_a_token_that_looks_like_a_person(provider):
    with pytest.raises(ParameterError, match="Who signs in at the provider"):
        mint("owner", holder=f"signed in: ada, ada-1 of {provider.issuer}")


def test_a_provider_that_lies_or_is_away_lets_nobody_in(tmp_path, provider, caplog):
    clinic = clinic_with(tmp_path, provider)
    caplog.set_level("INFO", "suffice.service")
    issuer = provider.issuer
    for lie, reason in (
        ({"issuer": "https://other.example"}, "The provider says that it is another issuer."),
        ({"token_endpoint": "http://other.example"}, "The provider has an address without TLS."),
    ):
        caplog.clear()
        provider.about = lambda lie=lie: {**Provider.about(provider), **lie}
        reader = Browser(clinic)
        assert refused(reader, reader.ask("GET", "/sign-in"), caplog) == reason
    assert issuer == provider.issuer


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('address = "https:', 'address = "http:', "must begin with https://"),
        ('role = "owner"', 'role = "learner"', "owner, officer or organiser"),
        ('subject = "ada-1"', 'subject = ""', "subject"),
    ],
)
def test_settings_of_a_sign_in_that_are_wrong_are_told(tmp_path, provider, old, new, words):
    clinic = clinic_with(tmp_path, provider)
    path = clinic.folder / "suffice.toml"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ParameterError, match=words):
        Settings.load(clinic.folder)
