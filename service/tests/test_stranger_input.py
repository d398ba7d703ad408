"""No input of a stranger causes an internal error, at any path that needs no account."""

from __future__ import annotations

import base64
import datetime
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from culvert_service.admins.webauthn_party import Party, challenge_of, id_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import World, make_csr
from .test_openapi import asked_without_limits, check

# Unknown pages of it are answered with a page.
DOCUMENTATION = "/docs/{f}"
slow = pytest.mark.slow

DEEP = 10_000
NESTED = b"[" * DEEP + b"]" * DEEP


def b64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


# Hostile CBOR (RFC 8949): nested arrays, nested tags, an array of 2**63 items, a text without end, half a float.
CBOR = (
    b"\x81" * DEEP + b"\x00",
    b"\xc1" * DEEP + b"\x00",
    b"\x9b" + b"\x7f" + b"\xff" * 7,
    b"\xbb" + b"\xff" * 8,
    b"\x5b\x00\x00\x00\xff\xff\xff\xff\xff",
    b"\x7f",
    b"\xf9\x7c",
    b"\xa1\x80\x80",
    # A number where a map belongs, and a map with a name twice.
    b"\x1a\x00\x01\x86\x9f",
    b"\xa2\x63fmt\x00\x63fmt\x01",
    b"\xd8\x1c" * 100 + b"\x80",
    b"\xfb\x7f\xf0\x00\x00\x00\x00\x00\x00",
    b"",
)
TEXTS = (
    "",
    "\0",
    "\x7f\x1b[2J",
    "\u202e",
    "\U0001f512" * 100,
    "e\u0301" * 2000,
    "x" * 40_000,
    "-----BEGIN CERTIFICATE REQUEST-----\n",
    "../../etc/passwd",
    "'; DROP TABLE users; --",
    "9" * 4000,
    *(b64(one) for one in (NESTED, b"null", b'{"challenge": 1}', b'{"challenge": "\xff"}', *CBOR)),
    b64(b'{"challenge":' + NESTED + b"}"),
)
OTHERS: tuple[Any, ...] = (
    None,
    True,
    0,
    -(10**18),
    10**19,
    1e300,
    -0.0,
    [None],
    [0] * 1000,
    {"": {"": {"": None}}},
    dict.fromkeys(map(str, range(1000))),
)


def credential(client: object, data: object = "", other: object = "") -> dict[str, Any]:
    response = {
        "clientDataJSON": client,
        "authenticatorData": data,
        "attestationObject": data,
        "signature": other,
        "userHandle": other,
        "transports": other,
    }
    return {"id": other, "rawId": other, "type": other, "response": response, "clientExtensionResults": other}


def pems() -> list[str]:
    """Signing requests and other content; with right and wrong signatures."""
    key, csr = make_csr()
    name = x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now).not_valid_after(now).sign(key, hashes.SHA256())
    )  # fmt: skip
    request = x509.CertificateSigningRequestBuilder().subject_name(name)
    strong = rsa.generate_private_key(65537, 2048)
    others = (
        request.sign(strong, hashes.SHA256()),
        request.sign(ed25519.Ed25519PrivateKey.generate(), None),
        request.sign(ec.generate_private_key(ec.SECP384R1()), hashes.SHA256()),
    )
    der = base64.b64decode("".join(csr.splitlines()[1:-1]))
    broken = [
        der[:-1],
        der + b"\0",
        der[:60],
        b"\x30" * 3000,
        b"\x30\x84\xff\xff\xff\xff",
        b"\x30\x80" * 2000,
    ]
    broken += [der[:at] + bytes([der[at] ^ 0x80]) + der[at + 1 :] for at in range(0, len(der), 5)]
    pem = serialization.Encoding.PEM
    return [
        *(one.public_bytes(pem).decode() for one in (certificate, *others)),
        *(
            f"-----BEGIN CERTIFICATE REQUEST-----\n{base64.b64encode(one).decode()}\n-----END CERTIFICATE REQUEST-----\n"
            for one in broken
        ),
        csr * 2,
        csr.replace("REQUEST", "REQUEST "),
        csr.replace("\n", "\0\n"),
        csr.replace("-----BEGIN", "Proc-Type: 4,ENCRYPTED\nDEK-Info: x\n-----BEGIN"),
    ]


def sendable(text: str) -> bytes:
    """The text as a header value: bytes that a client cannot send become 0xFF."""
    return bytes(one if one > 0x20 and one != 0x7F else 0xFF for one in text.encode()) or b"x"


@pytest.fixture
async def world(tmp_path: Path, database_url: str) -> AsyncGenerator[World]:
    async with asked_without_limits(tmp_path, database_url) as world:
        yield world


async def reference(world: World) -> dict[str, Any]:
    return (await world.anyone.get("/openapi.json")).json()


async def open_to_strangers(world: World) -> list[tuple[str, str, dict[str, Any]]]:
    """Each operation that needs no account: method, path and its description in the API reference."""
    paths: dict[str, dict[str, dict[str, Any]]] = (await reference(world))["paths"]
    found = [
        (method.upper(), path, operation)
        for path, methods in paths.items()
        for method, operation in methods.items()
        if "security" not in operation
    ]
    assert {"/api/v1/enrolments", "/api/v1/session/passkey", "/api/v1/oidc/callback"} <= {
        path for _, path, _ in found
    }
    return found


def shaped(schema: dict[str, Any], schemas: dict[str, Any], depth: int = 0) -> Any:
    """A value that fits the reference's schema, or nearly fits it."""
    if "$ref" in schema:
        return shaped(schemas[schema["$ref"].rsplit("/", 1)[1]], schemas, depth)
    if "anyOf" in schema:
        return shaped(schema["anyOf"][0], schemas, depth)
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if schema.get("type") == "object":
        return {name: shaped(one, schemas, depth + 1) for name, one in schema.get("properties", {}).items()}
    if schema.get("type") == "array":
        return [shaped(schema["items"], schemas, depth + 1)]
    return {"integer": 1, "number": 1.0, "boolean": True}.get(cast("str", schema.get("type")), "a" * 16)


def body_of(operation: dict[str, Any], document: dict[str, Any]) -> dict[str, Any] | None:
    if "requestBody" not in operation:
        return None
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    return cast("dict[str, Any]", shaped(schema, document["components"]["schemas"]))


@slow
@pytest.mark.timeout(300)
async def test_no_value_in_a_body_is_a_fault(world: World) -> None:
    document = await reference(world)
    for method, path, operation in await open_to_strangers(world):
        body = body_of(operation, document)
        for field in body or ():
            values = [*TEXTS, *OTHERS]
            values += pems() if field == "csr_pem" else ()
            values += [credential(one) for one in TEXTS] if field == "credential" else ()
            for value in values:
                answer = await world.anyone.request(method, path, json=(body or {}) | {field: value})
                check(answer, (method, path, field, str(value)[:80]))


@slow
@pytest.mark.long
@pytest.mark.timeout(300)
async def test_no_query_path_or_header_is_a_fault(world: World) -> None:
    document = await reference(world)
    sealed = (await world.anyone.post("/api/v1/session/passkey/options")).json()["challenge"]
    texts = (
        "",
        "\0",
        "\u202e",
        "9" * 4000,
        "x" * 3000,
        b64(NESTED)[:3000],
        b64(b"null"),
        sealed,
        "00" * 64,
        "%ff",
    )
    # All headers of a group are sent together: none of them keeps the controller from reading another.
    groups = (
        ("If-Match", "If-None-Match", "If-Modified-Since", "If-Range", "Range", "Idempotency-Key", "Last-Event-ID",
         "X-CSRF-Token", "Accept", "Accept-Encoding", "Accept-Language", "User-Agent", "Origin", "Referer",
         "X-Forwarded-For", "Forwarded"),
        ("Authorization",),
        ("Content-Type",),
        ("Content-Encoding",),
        ("Host",),
    )  # fmt: skip
    cookies = ("__Host-culvert", "__Host-culvert-known", "__Host-culvert-oidc", "__Host-culvert-oidc-refused")

    def look(answer: httpx.Response, what: tuple[object, ...]) -> None:
        if what[0] == DOCUMENTATION and answer.status_code == 404:
            assert answer.headers["content-type"].startswith("text/html"), what
        else:
            check(answer, what)

    pages = ("/", "/docs", "/docs/api/assets/swagger-ui.css", DOCUMENTATION, "/console/{f}", "/apt/{f}")
    static: list[tuple[str, str, dict[str, Any]]] = [("GET", path, {}) for path in pages]
    for method, path, operation in [*await open_to_strangers(world), *static]:
        body = body_of(operation, document)
        parameters = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"} | {"x"}
        for text in texts:
            filled = "/".join(
                quote(text[:2000], safe="") if part.startswith("{") else part for part in path.split("/")
            )
            query = dict.fromkeys(parameters, text)
            look(await world.anyone.request(method, filled, params=query, json=body), (path, text[:40]))
            for names in groups:
                odd = [(name.encode(), sendable(text)) for name in names]
                answer = await world.anyone.request(method, filled, json=body, headers=odd)
                # The server itself refuses an invalid Host header.
                if answer.status_code != 400:
                    look(answer, (path, names, text[:40]))
            jar = "; ".join(f"{name}={quote(text[:1000])}" for name in cookies)
            odd = [(b"Cookie", jar.encode()), (b"X-CSRF-Token", b"x"), (b"Accept", b"text/html")]
            look(await world.anyone.request(method, filled, json=body, headers=odd), (path, text[:40]))


@slow
async def test_nested_client_data_that_answers_a_real_challenge_is_refused(world: World) -> None:
    options = (await world.anyone.post("/api/v1/session/passkey/options")).json()
    for inner in (NESTED, b'"\\ud800"', b"9" * 5000):
        said = (
            b'{"type": "webauthn.get", "challenge": "'
            + options["challenge"].encode()
            + b'", "x": '
            + inner
            + b"}"
        )
        for data in map(b64, CBOR):
            asked = {"credential": credential(b64(said), data)}
            answer = await world.anyone.post("/api/v1/session/passkey", json=asked)
            assert (answer.status_code, answer.json()["reason"]) in ((401, "PASSKEY_REFUSED"),)


@given(
    st.sampled_from([*TEXTS, *OTHERS]) | st.binary(max_size=64).map(b64),
    st.sampled_from([b64(one) for one in CBOR]) | st.binary(max_size=200).map(b64),
    st.sampled_from([*TEXTS, *OTHERS]),
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_client_data_and_no_cbor_is_a_fault(client: object, data: object, other: object) -> None:
    sent = credential(client, data, other)
    assert isinstance(challenge_of(sent), bytes)
    assert isinstance(id_of(sent), bytes)
    party = Party("https://culvert.corp.example")
    assert party.verify_registration(sent, b"c" * 32) is None
    assert party.verify_signature(sent, b"c" * 32, b"key", 0) is None
