"""Sign-in of owners and officers at their organisation's provider (OpenID Connect, code flow).

A person is an issuer and a subject, as the settings name them: never an e-mail address, nor another
claim that the provider lets people edit. State, nonce and PKCE verifier are in a short cookie of
their own. It is SameSite=Lax, because the session's (Strict) does not come back from another site.

Every check that a sign-in fails has its own fixed sentence in the log. The reader is told that it
failed, and nothing else.
"""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar
from urllib.parse import urlencode

import httpx
from fastapi import Request, Response
from joserfc import jwk, jwt
from joserfc.errors import ExpiredTokenError, InvalidKeyIdError, JoseError

from suffice.errors import ParameterError
from suffice.service.problems import Problem
from suffice.service.settings import Person, Settings, SignIn, check_secure

_COOKIE = "suffice_sign_in"
# Of these alone the provider has a private half; with others, whoever reads its keys could sign.
ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")


class SignInRefused(Exception):  # noqa: N818  # no error of the service
    """A sign-in that failed; the text, a fixed sentence, is for the log."""


class SingleSignOn:
    """Sends readers to the provider, and checks what they bring back."""

    seconds: ClassVar[int] = 600  # from the first page of the provider to the last
    fresh: ClassVar[float] = 3600.0  # seconds for which the provider's addresses are believed

    def __init__(self, settings: Settings) -> None:
        self.settings: SignIn | None = settings.sign_in
        self._server = settings.server
        self._about: tuple[float, Mapping[str, Any]] = (-self.fresh, {})
        self._keys: jwk.KeySet | None = None

    @property
    def provider(self) -> SignIn:
        """The settings of the provider; without them there is nothing here."""
        if self.settings is None:
            raise Problem(HTTPStatus.NOT_FOUND, "The service has no sign-in at a provider.")
        return self.settings

    async def address(self, response: Response) -> str:
        """Return the provider's address for one reader; the response gets the reader's cookie."""
        about, provider = await self.about(), self.provider
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        response.set_cookie(
            _COOKIE,
            f"{state}.{nonce}.{verifier}",
            max_age=self.seconds,
            path=f"{self._server.prefix}/sign-in",
            secure=self._server.has_tls,
            httponly=True,
            samesite="lax",
        )
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
        asked = {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": self.way_back,
            "scope": "openid",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge.rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        return f"{about['authorization_endpoint']}?{urlencode(asked)}"

    @property
    def way_back(self) -> str:
        """Where the provider sends readers."""
        return f"{self.provider.address}/sign-in/back"

    async def person(self, request: Request, response: Response) -> Person:
        """Return who comes back from the provider, or raise; the response forgets the cookie."""
        response.delete_cookie(_COOKIE, path=f"{self._server.prefix}/sign-in")
        kept = request.cookies.get(_COOKIE, "").split(".")
        given = request.query_params
        if len(kept) != 3:  # state, nonce, verifier
            raise SignInRefused("It did not begin in this browser, or took too long.")
        state, nonce, verifier = kept
        if not hmac.compare_digest(given.get("state", "").encode(), state.encode()):
            raise SignInRefused("Its state is not the one that began here.")
        if given.get("iss", self.provider.issuer) != self.provider.issuer:
            raise SignInRefused("Another provider sent the reader back.")
        if "code" not in given:
            raise SignInRefused("The provider did not let the reader in.")
        token = await self.identity(given["code"], verifier)
        return self.named(await self.claims(token), nonce)

    async def identity(self, code: str, verifier: str) -> str:
        """Return the identity token for a code, which a provider gives once."""
        provider = self.provider
        asked = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.way_back,
            "client_id": provider.client_id,
            "code_verifier": verifier,
        }
        about = await self.about()
        secret = provider.secret()
        login = None if secret is None else httpx.BasicAuth(provider.client_id, secret)
        given = await self.fetched("POST", about["token_endpoint"], data=asked, auth=login)
        token = given.get("id_token")
        if not isinstance(token, str):
            raise SignInRefused("The provider did not accept the code.")
        return token

    async def claims(self, token: str) -> Mapping[str, Any]:
        """Return what an identity token says, if a key that the provider has now signed it."""
        for known in (True, False):  # keys are rotated: an unknown one is looked for once more
            try:
                if self._keys is None or not known:
                    about = await self.about()
                    keys: Any = await self.fetched("GET", about["jwks_uri"])
                    self._keys = jwk.KeySet.import_key_set(keys)
                return jwt.decode(token, self._keys, algorithms=ASYMMETRIC).claims
            except InvalidKeyIdError:
                continue
            except (JoseError, ValueError, TypeError, KeyError):
                raise SignInRefused(
                    "Its token is not signed with a key of the provider, in a way that is allowed."
                ) from None
        raise SignInRefused("Its token is signed with a key that the provider does not name.")

    def named(self, claims: Mapping[str, Any], nonce: str) -> Person:
        """Return the person whom checked claims are about, if the settings name one."""
        provider, now = self.provider, int(time.time())
        if claims.get("iss") != provider.issuer:
            raise SignInRefused("Its token is another issuer's.")
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if provider.client_id not in audiences:
            raise SignInRefused("Its token is for another audience.")
        given_to = claims.get("azp", None if len(audiences) > 1 else provider.client_id)
        if given_to != provider.client_id:
            raise SignInRefused("Its token was given to another client.")
        try:
            jwt.JWTClaimsRegistry(now=now, exp={"essential": True}).validate(dict(claims))
        except ExpiredTokenError:
            raise SignInRefused("Its token has expired.") from None
        except JoseError:
            raise SignInRefused("Its token does not say for how long it is good.") from None
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise SignInRefused("Its token has another nonce than the one that began here.")
        for person in provider.people:
            if (person.issuer, person.subject) == (claims["iss"], claims.get("sub")):
                return person
        raise SignInRefused("The settings do not name this person.")

    async def about(self) -> Mapping[str, Any]:
        """Return the provider's addresses, from itself and over TLS."""
        when, about = self._about
        if time.monotonic() - when > self.fresh:
            issuer = self.provider.issuer
            place = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
            about = await self.fetched("GET", place)
            if about.get("issuer") != issuer:
                raise SignInRefused("The provider says that it is another issuer.")
            try:
                for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                    check_secure(f"The provider's {name}", str(about.get(name)))
            except ParameterError:
                raise SignInRefused("The provider has an address without TLS.") from None
            # A key that the provider took back must not be believed for longer.
            self._about, self._keys = (time.monotonic(), about), None
        return about

    async def fetched(self, method: str, place: str, **what: Any) -> dict[str, Any]:
        """Return the JSON object at an address of the provider; {} if it refuses."""
        try:
            async with httpx.AsyncClient(timeout=10, follow_redirects=False) as client:
                answer = await client.request(method, place, **what)
                given = answer.json() if answer.status_code == HTTPStatus.OK else {}
        except (httpx.HTTPError, ValueError):
            raise SignInRefused("The provider does not answer, or not as it should.") from None
        return given if isinstance(given, dict) else {}
