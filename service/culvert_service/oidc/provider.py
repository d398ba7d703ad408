"""The provider: where to send the browser, and whom its answer is about (OpenID Connect Core, section 3.1; RFC 7636)."""

from __future__ import annotations

import base64
import datetime
import hashlib
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

import httpx
from authlib.common.errors import AuthlibBaseError
from authlib.oidc.core import CodeIDToken
from authlib.oidc.discovery import OpenIDProviderMetadata, get_well_known_url
from culvert_proto import CulvertError, Reason
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

# Signatures of a key that only the provider has: never a secret that both know, never none.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LEEWAY_SECONDS = 60
_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Subject:
    """`name` never becomes another's at this provider; `email` is one that it has verified."""

    issuer: str
    name: str
    email: str | None


@dataclass(frozen=True, slots=True)
class Provider:
    issuer: str
    client_id: str
    client_secret: str
    redirect_uri: str

    async def authorization_url(self, state: str, nonce: str, verifier: str) -> str:
        """Raises CulvertError OIDC_REFUSED."""
        endpoint = str((await self._metadata())["authorization_endpoint"])
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": "openid email",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(asked)}"

    async def subject(self, code: str, nonce: str, verifier: str, now: datetime.datetime) -> Subject:
        """Raises CulvertError OIDC_REFUSED."""
        metadata = await self._metadata()
        token = await self._token(metadata["token_endpoint"], code, verifier)
        keys = await self._json("GET", metadata["jwks_uri"])
        try:
            found = jwt.decode(
                token["id_token"],
                KeySet.import_key_set(cast("Any", keys)),
                registry=JWSRegistry(algorithms=list(_ALGORITHMS), strict_check_header=False),
            )
            options: Any = {
                "iss": {"essential": True, "value": self.issuer},
                "aud": {"essential": True, "value": self.client_id},
            }
            params = {"nonce": nonce, "client_id": self.client_id, "access_token": token.get("access_token")}
            claims: Any = CodeIDToken(cast("Any", found.claims), cast("Any", found.header), options, params)
            claims.validate(now=int(now.timestamp()), leeway=_LEEWAY_SECONDS)
        except (JoseError, AuthlibBaseError, ValueError, TypeError, KeyError, RecursionError):
            raise self._refused("its token does not verify") from None
        return Subject(self.issuer, str(claims["sub"]), _verified_email(claims))

    async def _metadata(self) -> dict[str, Any]:
        found = OpenIDProviderMetadata(
            await self._json("GET", get_well_known_url(self.issuer, external=True))
        )
        try:
            found.validate()
        # A provider for tests on this computer has no TLS, which the check asks of each address.
        except ValueError:
            if urlsplit(self.issuer).scheme == "https":
                raise self._refused("its discovery document is not valid") from None
        if found.get("issuer") != self.issuer:
            raise self._refused("its discovery document is another issuer's")
        return found

    async def _token(self, endpoint: str, code: str, verifier: str) -> dict[str, Any]:
        # RFC 6749 section 2.3.1 encodes both before they are joined.
        credentials = (quote(self.client_id, safe=""), quote(self.client_secret, safe=""))
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": verifier,
        }
        return await self._json("POST", endpoint, data=form, auth=credentials)

    async def _json(self, method: str, url: str, **sent: Any) -> dict[str, Any]:
        try:
            async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, follow_redirects=False) as client:
                answer = await client.request(method, url, **sent)
            if answer.is_success and isinstance(found := answer.json(), dict):
                return cast("dict[str, Any]", found)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
            raise self._refused("it does not answer") from None
        raise self._refused("it did not accept the question")

    def _refused(self, why: str) -> CulvertError:
        return CulvertError(Reason.OIDC_REFUSED, issuer=self.issuer, why=why)


def _verified_email(claims: dict[str, Any]) -> str | None:
    email = claims.get("email")
    return email if isinstance(email, str) and claims.get("email_verified") is True else None
