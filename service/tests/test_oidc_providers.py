"""Sign-ins at providers as they are: each row answers in the shape of one, over HTTP."""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
from culvert_proto import CulvertError, Reason, language
from culvert_service.config import EmailVerifiedBy
from culvert_service.oidc.calls import ProviderCalls, ProviderError, trust
from culvert_service.oidc.provider import Provider, Subject
from culvert_service.pki.authority import Authority, make_authority
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from .oidc_server import CLIENT, KEY, SECRET, Json, Shape, serving

RSA = RSAKey.generate_key(2048, {"kid": "r"})
ED25519 = OKPKey.generate_key("Ed25519", {"kid": "e"})
MAX = "Max.Mustermann@corp.example"
VERIFIED = {"email": MAX, "email_verified": True}
NO_HEADERS: dict[str, str] = {}
BOTH = ["client_secret_post", "client_secret_basic"]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def rsa(*more: Json) -> dict[str, Any]:
    own = RSA.as_dict(private=False)
    return {"key": RSA, "header": {"alg": "RS256", "kid": "r", "typ": "JWT"}, "keys": [own, *more]}


def methods(*names: str) -> Json:
    return {"token_endpoint_auth_methods_supported": list(names)}


# Each provider's deviations from OpenID Connect, from its documentation and public bug reports.
PROVIDERS: dict[str, tuple[Shape, str | None]] = {
    "Google": (
        Shape(metadata=methods(*BOTH), claims=VERIFIED | {"azp": CLIENT, "hd": "corp.example"}, **rsa()),
        MAX,
    ),
    # Many organisations share a key and have issuers of their own; no claim says whether the address is the person's.
    "Entra ID": (
        Shape(
            "/11111111-2222-3333-4444-555555555555/v2.0",
            methods("client_secret_post", "private_key_jwt", "client_secret_basic")
            | {"subject_types_supported": ["pairwise"], "request_uri_parameter_supported": False},
            claims={"email": MAX, "oid": "o", "tid": "t", "ver": "2.0", "preferred_username": MAX},
            userinfo={"email": MAX},
            **rsa(
                {"kty": "RSA", "use": "sig", "kid": "x", "x5c": ["AA"], "issuer": "https://x/{tenantid}/v2.0"}
            ),
        ),
        None,
    ),
    # With an access token, the ID token is thin.
    "Okta": (
        Shape(
            "/oauth2/default",
            methods("client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt"),
            claims={"amr": ["pwd"], "auth_time": 1, "ver": 1, "idp": "i"},
            userinfo=VERIFIED,
            **rsa(),
        ),
        MAX,
    ),
    # Each client has one way to show its secret, whatever discovery says of all.
    "Auth0": (
        Shape(
            "/",
            methods("client_secret_basic", "client_secret_post", "private_key_jwt"),
            claims=VERIFIED | {"updated_at": "2026-01-01T00:00:00Z"},
            accepts=("client_secret_post",),
            refusal=(401, {"error": "access_denied", "error_description": "Unauthorized"}),
            **rsa(),
        ),
        MAX,
    ),
    "Keycloak": (
        Shape(
            "/realms/corp",
            methods("private_key_jwt", *BOTH, "tls_client_auth") | {"acr_values_supported": ["0", "1"]},
            claims=VERIFIED | {"azp": CLIENT, "acr": "1", "session_state": "s", "typ": "ID"},
            **rsa({"kty": "RSA", "use": "enc", "alg": "RSA-OAEP", "kid": "r", "n": "AQAB", "e": "AQAB"}),
        ),
        MAX,
    ),
    "GitLab": (
        Shape(
            metadata=methods("client_secret_basic", "client_secret_post"),
            claims=VERIFIED | {"sub_legacy": "f00", "groups_direct": [], "auth_time": 1},
            **rsa(),
        ),
        MAX,
    ),
    # Authentik's default mapping marks every address as not verified. With an EC key it has no RS256.
    "Authentik": (
        Shape(
            "/application/o/culvert/",
            methods(*BOTH) | {"id_token_signing_alg_values_supported": ["ES256"]},
            claims={"email": MAX, "email_verified": False, "acr": "goauthentik.io/providers/oauth2/default"},
        ),
        None,
    ),
    "Dex": (
        Shape(
            "/dex",
            methods("client_secret_basic", "client_secret_post"),
            claims=VERIFIED | {"federated_claims": {"connector_id": "ldap", "user_id": "u"}},
            **rsa(),
        ),
        MAX,
    ),
    "Zitadel": (
        Shape(
            metadata=methods("none", *BOTH, "private_key_jwt") | {"ui_locales_supported": ["zh_CN"]},
            claims={"aud": [CLIENT, "project"], "azp": CLIENT, "amr": ["pwd"], "client_id": CLIENT},
            userinfo=VERIFIED | {"locale": "de"},
            key=ED25519,
            header={"alg": "EdDSA", "kid": "e"},
            keys=[ED25519.as_dict(private=False)],
        ),
        MAX,
    ),
    # The ID token has a boolean and userinfo a text.
    "Cognito": (
        Shape(
            "/eu-central-1_abc",
            methods(*BOTH),
            claims={"cognito:username": "ada", "token_use": "id", "origin_jti": "o"},
            userinfo={"email": MAX, "email_verified": "true", "username": "ada"},
            **rsa(),
        ),
        MAX,
    ),
    "JumpCloud": (
        Shape(
            "/",
            methods("client_secret_basic", "client_secret_post", "none"),
            claims={"email": MAX, "email_verified": "true", "aud": [CLIENT], "rat": 1},
            **rsa(),
        ),
        MAX,
    ),
    # Keys in each way that it can sign, some of them of curves that Culvert does not know.
    "PingFederate": (
        Shape(
            metadata=methods("client_secret_post"),
            claims={"pi.sri": "s", "amr": "urn:pwd"},
            userinfo=VERIFIED,
            accepts=("client_secret_post",),
            **rsa(
                RSA.as_dict(private=False) | {"kid": "r_RS256", "alg": "RS256"},
                {"kty": "EC", "crv": "brainpoolP256r1", "x": "AA", "y": "AA", "kid": "bp"},
            ),
        ),
        MAX,
    ),
    # No word on how it takes a secret, which means Basic, and is not so.
    "Authgear": (
        Shape(metadata=methods(), claims=VERIFIED, accepts=("client_secret_post",), **rsa()),
        MAX,
    ),
}


def at(issuer: str, by: EmailVerifiedBy = "email_verified", ca: Path | None = None) -> Provider:
    return Provider(
        ProviderCalls(issuer, trust(ca)), CLIENT, SECRET, "https://c.example/api/v1/oidc/callback", by
    )


async def signed_in(provider: Provider) -> Subject:
    assert await provider.authorization_url("s", "n", "v" * 43)
    now = datetime.datetime.now(datetime.UTC)
    return await provider.subject("code", "n", "v" * 43, now, with_email=True)


async def refusal(provider: Provider) -> ProviderError:
    with pytest.raises(CulvertError) as caught:
        await signed_in(provider)
    assert isinstance(caught.value, ProviderError)
    assert SECRET not in f"{caught.value} {caught.value.detail}"
    return caught.value


@pytest.mark.parametrize("name", PROVIDERS)
async def test_people_sign_in_at_each_provider(name: str) -> None:
    shape, email = PROVIDERS[name]
    with serving(shape) as server:
        assert await signed_in(at(server.issuer)) == Subject(server.issuer, "ada", email)


@pytest.mark.parametrize(
    ("by", "claims", "counts"),
    [
        ("email_verified", {"email_verified": True}, True),
        ("email_verified", {"email_verified": "true"}, True),
        ("email_verified", {"email_verified": "True"}, True),
        ("email_verified", {"email_verified": "false"}, False),
        ("email_verified", {"email_verified": ["true"]}, False),
        ("email_verified", {"email_verified": None}, False),
        ("email_verified", {}, False),
        # In another organisation of Entra, anybody writes any address into this claim ("nOAuth").
        ("email_verified", {"xms_edov": True, "tid": "t"}, False),
        ("xms_edov", {"xms_edov": True}, True),
        ("xms_edov", {"xms_edov": "1"}, True),
        ("xms_edov", {"xms_edov": 1}, True),
        ("xms_edov", {"xms_edov": False}, False),
        ("xms_edov", {"xms_edov": "0"}, False),
        ("xms_edov", {}, False),
        ("xms_edov", {"xms_edov": True, "email_verified": False}, False),
        ("provider", {}, True),
        ("provider", {"email_verified": False}, False),
        ("provider", {"email_verified": "false"}, False),
    ],
)
async def test_an_address_counts_when(by: EmailVerifiedBy, claims: Json, counts: bool) -> None:
    with serving(Shape(claims={"email": MAX} | claims)) as server:
        assert (await signed_in(at(server.issuer, by))).email == (MAX if counts else None)


@pytest.mark.parametrize("claims", [{"emails": [MAX]}, {"email": [MAX]}, {"email": None}, {"upn": MAX}])
async def test_an_address_in_another_claim_is_ignored(claims: Json) -> None:
    with serving(Shape(claims=claims)) as server:
        assert (await signed_in(at(server.issuer, "provider"))).email is None


async def test_userinfo_of_another_subject_is_refused() -> None:
    with serving(Shape(userinfo=VERIFIED | {"sub": "mallory"})) as server:
        assert "another account" in str(await refusal(at(server.issuer)))


async def test_an_administrators_sign_in_does_not_need_userinfo() -> None:
    with serving(Shape(instead={"/userinfo": (500, NO_HEADERS, b"")})) as server:
        now = datetime.datetime.now(datetime.UTC)
        provider = at(server.issuer)
        found = await provider.subject("code", "n", "v" * 43, now, with_email=False)
        assert (found.name, found.email) == ("ada", None)
        assert "/userinfo" not in server.asked
        assert (await refusal(provider)).fields["why"] == "it answers with HTTP status 500"


UNUSABLE: dict[str, Any] = {
    "brainpool": {"kty": "EC", "crv": "brainpoolP256r1", "x": "AA", "y": "AA"},
    "short RSA": {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
    "RSA without n": {"kty": "RSA", "e": "AQAB"},
    "RSA, no base64": {"kty": "RSA", "n": "!", "e": "AQAB"},
    "off the curve": {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
    "post-quantum": {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA"},
    "unknown use": RSA.as_dict(private=False) | {"use": "tls"},
    "number as kid": RSA.as_dict(private=False) | {"kid": 7},
    "no type": {"kid": "1"},
    "list as type": {"kty": ["RSA"]},
    "no object": "key",
    # The same name for a key that encrypts.
    "encryption": ECKey.generate_key("P-256").as_dict(private=False) | {"kid": "1", "use": "enc"},
}


@pytest.mark.parametrize("name", UNUSABLE)
async def test_an_unusable_key_of_a_provider_is_ignored(name: str) -> None:
    with serving(Shape(keys=[UNUSABLE[name], KEY.as_dict(private=False)])) as server:
        assert (await signed_in(at(server.issuer))).name == "ada"
    with serving(Shape(keys=[UNUSABLE[name]])) as server:
        assert (await refusal(at(server.issuer))).fields["why"] == "it shows no key that Culvert can use"


def unnamed(*keys: Key) -> list[Json]:
    return [{name: it for name, it in key.as_dict(private=False).items() if name != "kid"} for key in keys]


OTHER = ECKey.generate_key("P-256", {"kid": "1"})
# Names of keys, or none, in the token and in the key set.
NAMES = {
    "none": Shape(claims=VERIFIED, header={"alg": "ES256"}, keys=unnamed(RSA, OTHER, KEY)),
    "none in the token": Shape(
        claims=VERIFIED,
        header={"alg": "ES256"},
        keys=[it.as_dict(private=False) for it in (RSA, KEY)],
    ),
    "none in the set": Shape(claims=VERIFIED, keys=unnamed(OTHER, KEY)),
    "one for two": Shape(claims=VERIFIED, keys=[it.as_dict(private=False) for it in (OTHER, KEY)]),
}


@pytest.mark.parametrize("name", NAMES)
async def test_the_key_of_a_token_is_found_with_any_key_ids(name: str) -> None:
    with serving(NAMES[name]) as server:
        assert (await signed_in(at(server.issuer))).name == "ada"
        server.shape.key = ECKey.generate_key("P-256", {"kid": "1"})
        assert (await refusal(at(server.issuer))).reason is Reason.OIDC_REFUSED


async def test_new_keys_of_a_provider_count_at_once() -> None:
    with serving(Shape(claims=VERIFIED, **rsa())) as server:
        provider = at(server.issuer)
        assert await signed_in(provider)
        server.shape = Shape(claims=VERIFIED)
        assert await signed_in(provider)


@pytest.mark.parametrize("claim", ["iat", "nbf", "exp"])
async def test_a_wrong_clock_is_named(claim: str) -> None:
    seconds = -300 if claim == "exp" else 300
    with serving(Shape(claims=VERIFIED | {claim: int(time.time()) + seconds})) as server:
        assert "its clock or the controller's is wrong" in (await refusal(at(server.issuer))).message


@pytest.mark.parametrize(
    ("supported", "accepts"),
    [
        (["client_secret_post"], "client_secret_post"),
        (["client_secret_basic"], "client_secret_basic"),
        (None, "client_secret_basic"),
        (None, "client_secret_post"),
        (BOTH, "client_secret_post"),
    ],
)
@pytest.mark.parametrize(
    "refused", [(401, {}), (400, {"error": "invalid_client"}), (400, {"error": "unauthorized_client"})]
)
async def test_the_secret_is_shown_as_the_provider_takes_it(
    supported: list[str] | None, accepts: str, refused: tuple[int, Json]
) -> None:
    metadata = {"token_endpoint_auth_methods_supported": supported}
    with serving(Shape(metadata=metadata, accepts=(accepts,), refusal=refused)) as server:
        assert (await signed_in(at(server.issuer))).name == "ada"


async def test_a_wrong_secret_and_a_spent_code_are_told_apart() -> None:
    with serving(Shape(accepts=())) as server:
        error = await refusal(at(server.issuer))
        assert (error.reason, error.detail) == (Reason.OIDC_CLIENT_REFUSED, "401 invalid_client: None")
    said = {"error": "invalid_grant", "error_description": "spent\n00:00 forged line"}
    with serving(Shape(accepts=(), refusal=(400, said))) as server:
        error = await refusal(at(server.issuer))
        assert error.fields["why"] == "it answers with HTTP status 400"
        assert error.detail == r"400 invalid_grant: spent\n00:00 forged line"
        assert server.asked.count("/token") == 1
    with serving(Shape(metadata=methods("private_key_jwt"))) as server:
        assert (await refusal(at(server.issuer))).fields["why"] == "it takes no client secret"


@pytest.mark.parametrize(
    ("configured", "shape", "found"),
    [
        ("", Shape("/"), "{origin}/"),
        ("/", Shape(""), "{origin}"),
        ("/common/v2.0", Shape("/common/v2.0", {"issuer": "https://x.example/{tenantid}/v2.0"}), None),
    ],
)
async def test_another_issuer_is_named(configured: str, shape: Shape, found: str | None) -> None:
    with serving(shape) as server:
        error = await refusal(at(server.origin + configured))
        assert error.reason is Reason.OIDC_ISSUER_DIFFERS
        expected = found.format(origin=server.origin) if found else "https://x.example/{tenantid}/v2.0"
        assert error.fields["found"] == expected


@pytest.mark.parametrize(
    ("path", "instead", "why"),
    [
        ("configuration", (200, NO_HEADERS, b"<html>"), "its answer is no JSON object"),
        ("configuration", (200, NO_HEADERS, b"[]"), "its answer is no JSON object"),
        (
            "configuration",
            (200, NO_HEADERS, b'{"issuer": 7}'),
            "its discovery document lacks what a sign-in needs",
        ),
        ("configuration", (404, NO_HEADERS, b""), "it answers with HTTP status 404"),
        ("configuration", (301, {"Location": "/"}, b""), "it answers with HTTP status 301"),
        ("/keys", (200, NO_HEADERS, b" " * (1 << 20) + b"{}"), "its answer is too long"),
        ("/token", (200, NO_HEADERS, b"[" * 100_000), "its token does not verify"),
        ("/token", (503, NO_HEADERS, b"busy"), "it answers with HTTP status 503"),
        ("/token", (200, NO_HEADERS, b'{"id_token": "a.b.c.d.e"}'), "its token is encrypted"),
        ("/token", (200, NO_HEADERS, b'{"id_token": 7}'), "its token does not verify"),
    ],
)
async def test_an_invalid_provider_answer_is_refused_with_the_cause(
    path: str, instead: tuple[int, dict[str, str], bytes], why: str
) -> None:
    with serving(Shape(instead={path: instead})) as server:
        error = await refusal(at(server.issuer))
        assert (error.reason, error.fields["why"]) == (Reason.OIDC_REFUSED, why)
    try:
        language.use(["de"])
        assert why not in str(CulvertError.from_proto(error.to_proto()))
    finally:
        language.use(["en"])


async def silent(tls: ssl.SSLContext | None = None) -> asyncio.Server:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    return await asyncio.start_server(say_nothing, "127.0.0.1", 0, ssl=tls)


async def saying(words: bytes) -> asyncio.Server:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(words)
        writer.close()

    return await asyncio.start_server(say, "127.0.0.1", 0)


def port_of(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


async def test_each_failure_to_reach_a_provider_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("culvert_service.oidc.calls._TIMEOUT_SECONDS", 100)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        refusing = closed.getsockname()[1]
        assert (await refusal(at("https://no-such.invalid"))).reason is Reason.OIDC_NAME_UNKNOWN
        assert (await refusal(at(f"https://localhost:{refusing}"))).reason is Reason.OIDC_CONNECTION_FAILED
        async with await silent() as mute, await saying(b"HTTP/1.1 403 No\r\n\r\n") as forbidding:
            for scheme in ("http", "https"):
                with monkeypatch.context() as patch:
                    patch.setattr("culvert_service.oidc.calls._TIMEOUT_SECONDS", 0.2)
                    error = await refusal(at(f"{scheme}://localhost:{port_of(mute)}"))
                assert error.reason is Reason.OIDC_TIMEOUT
            error = await refusal(at(f"https://localhost:{port_of(forbidding)}"))
            assert error.reason is Reason.OIDC_TLS_FAILED
            for port in (refusing, port_of(forbidding)):
                monkeypatch.setenv("HTTPS_PROXY", f"http://user:{SECRET}@localhost:{port}")
                error = await refusal(at("https://id.example"))
                assert error.reason is Reason.OIDC_PROXY_FAILED
                assert error.fields["proxy"] == f"localhost:{port}"
            monkeypatch.setenv("NO_PROXY", "no-such.invalid")
            assert (await refusal(at("https://no-such.invalid"))).reason is Reason.OIDC_NAME_UNKNOWN


@pytest.fixture
def authority(tmp_path: Path) -> tuple[Authority, Path]:
    authority = Authority(make_authority("infrastructure"))
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    return authority, tmp_path / "ca.pem"


def tls_of(authority: Authority, name: str, directory: Path) -> ssl.SSLContext:
    issued = authority.issue_server(name, [name])
    (directory / "chain.pem").write_bytes(issued.key_pem + issued.certificate.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "chain.pem")
    return context


async def test_a_provider_with_a_private_authority(
    authority: tuple[Authority, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca, file = authority
    with serving(Shape(), tls_of(ca, "localhost", tmp_path)) as server:
        error = await refusal(at(server.issuer))
        assert error.reason is Reason.OIDC_CERTIFICATE_UNTRUSTED
        assert error.fields["why"] == "it is from an authority that the controller does not know"
        assert (await signed_in(at(server.issuer, ca=file))).name == "ada"
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        assert (await signed_in(at(server.issuer))).name == "ada"
    with serving(Shape(), tls_of(ca, "id.example", tmp_path)) as server:
        assert (await refusal(at(server.issuer))).fields["why"] == "it is for another name"


async def test_endpoints_of_a_provider_with_tls_have_tls(
    authority: tuple[Authority, Path], tmp_path: Path
) -> None:
    ca, file = authority
    for endpoint in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"):
        with serving(Shape(), tls_of(ca, "localhost", tmp_path)) as server:
            server.shape.metadata[endpoint] = server.origin.replace("https", "http")
            error = await refusal(at(server.issuer, ca=file))
            assert error.fields["why"] == "its discovery document lacks what a sign-in needs"
