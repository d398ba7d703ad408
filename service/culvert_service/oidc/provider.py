"""The provider: the address for the browser, and the subject of its answer (OpenID Connect Core, section 3.1; RFC 7636).

Reads only the fields that a sign-in needs, because providers fill others in ways that no specification has.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast
from urllib.parse import quote, urlsplit

from authlib.common.errors import AuthlibBaseError
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri  # pyright: ignore[reportUnknownVariableType]
from authlib.oauth2.rfc7636 import create_s256_code_challenge  # pyright: ignore[reportUnknownVariableType]
from authlib.oidc.core import CodeIDToken
from authlib.oidc.discovery import get_well_known_url
from cryptography.exceptions import UnsupportedAlgorithm
from culvert_proto import Reason
from culvert_proto.phrases import Phrase
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import JWKRegistry, Key
from joserfc.jws import JWSRegistry, extract_compact
from pydantic import BaseModel, BeforeValidator, ValidationError

from culvert_service.config import EmailVerifiedBy
from culvert_service.oidc.calls import ProviderAnswer, ProviderCalls, ProviderError

# Only signatures with a private key: no HMAC with a shared secret, and not "none".
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LEEWAY_SECONDS = 60
# The most keys tried for a token that names no key.
_KEYS_MAX = 20
# OpenID Connect Core, sections 2 and 3.1.3.6.
_TOKEN_CLAIMS = ("iss", "sub", "aud", "exp", "iat", "nbf", "nonce", "azp", "at_hash")
# Methods of client authentication (OpenID Connect Core, section 9), in the order of trying.
_BASIC, _POST = "client_secret_basic", "client_secret_post"


@dataclass(frozen=True, slots=True)
class Subject:
    """`name`: the provider never gives it to another person. `email`: only a verified one."""

    issuer: str
    name: str
    email: str | None


def _methods(value: object) -> object:
    return value or (_BASIC, _POST)


class _Metadata(BaseModel):
    """OpenID Connect Discovery, section 3."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: Annotated[tuple[str, ...], BeforeValidator(_methods)] = (
        _BASIC,
        _POST,
    )

    @property
    def endpoints(self) -> tuple[str, ...]:
        return (
            self.authorization_endpoint,
            self.token_endpoint,
            self.jwks_uri,
            *filter(None, [self.userinfo_endpoint]),
        )


@dataclass(frozen=True, slots=True)
class Provider:
    calls: ProviderCalls
    client_id: str
    client_secret: str
    redirect_uri: str
    email_verified_by: EmailVerifiedBy = "email_verified"

    @property
    def issuer(self) -> str:
        return self.calls.issuer

    async def check(self) -> None:
        """Read the documents that each sign-in needs. Raises ProviderError."""
        await self._keys(await self._metadata())

    async def authorization_url(self, state: str, nonce: str, verifier: str) -> str:
        """Raises ProviderError."""
        asked: dict[str, Any] = {
            "redirect_uri": self.redirect_uri,
            "scope": "openid email",
            "state": state,
            "nonce": nonce,
            "code_challenge": create_s256_code_challenge(verifier),
            "code_challenge_method": "S256",
        }
        endpoint = (await self._metadata()).authorization_endpoint
        return cast("str", prepare_grant_uri(endpoint, self.client_id, "code", **asked))

    async def subject(
        self, code: str, nonce: str, verifier: str, now: datetime.datetime, *, with_email: bool
    ) -> Subject:
        """Raises ProviderError."""
        metadata = await self._metadata()
        token = await self._token(metadata, code, verifier)
        access_token = token.get("access_token")
        claims = self._claims(token.get("id_token"), await self._keys(metadata), nonce, access_token, now)
        name = str(claims["sub"])
        email = self._verified_email(claims)
        unsaid = not email and (claims.get("email") is None or claims.get("email_verified") is None)
        if with_email and unsaid and metadata.userinfo_endpoint and isinstance(access_token, str):
            bearer = {"Authorization": f"Bearer {access_token}"}
            told = await self.calls.object("GET", metadata.userinfo_endpoint, headers=bearer)
            # Section 5.3.2 requires this check: the answer may be about another subject.
            if told.get("sub") != name:
                raise self.calls.refusal_error(
                    Phrase("its userinfo is about another account"), f"sub {told.get('sub')!r}"
                )
            email = self._verified_email(told)
        return Subject(self.issuer, name, email)

    async def _metadata(self) -> _Metadata:
        document = await self.calls.object("GET", get_well_known_url(self.issuer, external=True))
        lacks = Phrase("its discovery document lacks what a sign-in needs")
        try:
            found = _Metadata.model_validate(document)
        except ValidationError as error:
            places = ", ".join(str(fault["loc"][0]) for fault in error.errors())
            raise self.calls.refusal_error(lacks, places) from None
        if found.issuer != self.issuer:
            detail = f"the discovery document has the issuer {found.issuer}"
            fields = {"issuer": self.issuer, "found": found.issuer[:200]}
            raise ProviderError(Reason.OIDC_ISSUER_DIFFERS, detail, **fields)
        # A test provider on this computer may have no TLS.
        if urlsplit(self.issuer).scheme == "https":
            for endpoint in found.endpoints:
                if urlsplit(endpoint).scheme != "https":
                    raise self.calls.refusal_error(lacks, f"not https: {endpoint}")
        return found

    async def _token(self, metadata: _Metadata, code: str, verifier: str) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": verifier,
        }
        # RFC 6749 section 2.3.1 URL-encodes both before they are joined; authlib does not.
        basic = (quote(self.client_id, safe=""), quote(self.client_secret, safe=""))
        posted = {"client_id": self.client_id, "client_secret": self.client_secret}
        ways: dict[str, dict[str, Any]] = {
            _BASIC: {"data": form, "auth": basic},
            _POST: {"data": form | posted},
        }
        answer: ProviderAnswer | None = None
        # Some providers announce both methods but accept only one for this client; a failed try does not use the code up.
        for way in (way for way in ways if way in metadata.token_endpoint_auth_methods_supported):
            answer = await self.calls.ask("POST", metadata.token_endpoint, **ways[way])
            if not _refuses_client(answer):
                break
        if answer is None:
            supported = " ".join(metadata.token_endpoint_auth_methods_supported)
            raise self.calls.refusal_error(Phrase("it takes no client secret"), supported)
        detail = f"{answer.status} {answer.content.get('error')}: {answer.content.get('error_description')}"
        if _refuses_client(answer):
            raise ProviderError(Reason.OIDC_CLIENT_REFUSED, detail, issuer=self.issuer)
        if not answer.is_success:
            raise self.calls.refusal_error(
                Phrase("it answers with HTTP status {number}", number=answer.status), detail
            )
        return answer.content

    async def _keys(self, metadata: _Metadata) -> list[Key]:
        found = (await self.calls.object("GET", metadata.jwks_uri)).get("keys")
        shown = cast("list[object]", found) if isinstance(found, list) else []
        keys = [key for data in shown if (key := _key(data))]
        if not keys:
            raise self.calls.refusal_error(Phrase("it shows no key that Culvert can use"), metadata.jwks_uri)
        return keys

    def _claims(
        self, id_token: object, keys: Sequence[Key], nonce: str, access_token: object, now: datetime.datetime
    ) -> dict[str, Any]:
        # RFC 7516 section 9: an encrypted token has five parts.
        if str(id_token).count(".") == 4:
            raise self.calls.refusal_error(Phrase("its token is encrypted"))
        why = Phrase("its token does not verify")
        try:
            found = _decode(str(id_token), keys)
            if _is_of_another_time(found.claims, now):
                why = Phrase("its token is of another time: its clock or the controller's is wrong")
            options: Any = {
                "iss": {"essential": True, "value": self.issuer},
                "aud": {"essential": True, "value": self.client_id},
                "sub": {"essential": True},
            }
            params = {"nonce": nonce, "client_id": self.client_id, "access_token": access_token}
            checked = {name: found.claims[name] for name in _TOKEN_CLAIMS if name in found.claims}
            claims: Any = CodeIDToken(cast("Any", checked), cast("Any", found.header), options, params)
            claims.validate(now=int(now.timestamp()), leeway=_LEEWAY_SECONDS)
        except (JoseError, AuthlibBaseError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise self.calls.refusal_error(why, str(error)) from None
        return found.claims

    def _verified_email(self, claims: dict[str, Any]) -> str | None:
        email, vouched = claims.get("email"), claims.get("email_verified")
        # An explicit email_verified = false counts, whatever the setting.
        if vouched is None:
            by = self.email_verified_by
            vouched = True if by == "provider" else claims.get(by)
        return email if isinstance(email, str) and _is_true(vouched) else None


def _decode(id_token: str, keys: Sequence[Key]) -> jwt.Token:
    """Raises JoseError."""
    registry = JWSRegistry(algorithms=list(_ALGORITHMS), strict_check_header=False)
    kid = extract_compact(id_token.encode(), registry=registry).headers().get("kid")
    # Some providers name no keys, neither in the key set nor in tokens.
    named = [key for key in keys if kid is not None and key.kid == kid]
    fault: JoseError = InvalidKeyIdError(f"no key for {kid!r}")
    for key in (named or [key for key in keys if kid is None or key.kid is None])[:_KEYS_MAX]:
        try:
            return jwt.decode(id_token, key, registry=registry)
        except JoseError as error:
            fault = error
    raise fault


def _is_of_another_time(claims: dict[str, Any], now: datetime.datetime) -> bool:
    at, (issued, begins, ends) = now.timestamp(), (claims.get(name) for name in ("iat", "nbf", "exp"))
    early = any(isinstance(it, int | float) and it > at + _LEEWAY_SECONDS for it in (issued, begins))
    return early or (isinstance(ends, int | float) and ends < at - _LEEWAY_SECONDS)


def _is_true(value: object) -> bool:
    """Cognito and JumpCloud send the text "true"; of Entra's xms_edov, 1 and "1" have been seen."""
    return str(value).lower() in ("true", "1")


def _refuses_client(answer: ProviderAnswer) -> bool:
    """RFC 6749 section 5.2. Keycloak says unauthorized_client, and Auth0 access_denied, for a wrong secret."""
    return answer.status == 401 or answer.content.get("error") in ("invalid_client", "unauthorized_client")


def _key(data: object) -> Key | None:
    """None for a key that cannot be used, such as one on an unknown curve."""
    try:
        key = JWKRegistry.import_key(cast("Any", data))
    except (JoseError, UnsupportedAlgorithm, ValueError, TypeError, KeyError, AttributeError):
        return None
    return None if key.get("use") == "enc" else key
