"""The caller and its rate are checked before the body is read; the body's limits are checked before it is parsed."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from culvert_service.http import admission
from culvert_service.http.admission import LISTS, SMALL
from culvert_service.http.headers import is_name
from culvert_service.rest import strict_json
from culvert_service.rest.strict_json import DEPTH_MAX, NAMES_MAX, JsonError
from hypothesis import given
from hypothesis import strategies as st

from .conftest import PATIENCE_SECONDS, World, running, settings_in

slow = pytest.mark.slow

JSON = {"Content-Type": "application/json"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
    # UTF-8 cannot encode half of a surrogate pair.
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip
TOO_MUCH = {
    "nested": b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1),
    "nested without end": b"[" * 60_000,
    "nested objects": b'{"a":' * 5_000 + b"0" + b"}" * 5_000,
    "an integer of 5,000 digits": b"9" * 5_000,
    "a number beyond a float": b"1e999999",
    "NaN": b"NaN",
    "minus infinity": b"-Infinity",
    "half of a surrogate pair": rb'"\ud800"',
    "half of a surrogate pair in a name": rb'{"\udfff": 0}',
    "a name twice": b'{"name": "a", "name": "b"}',
    "a name twice, spelled otherwise": rb'{"name": "a", "n\u0061me": "b"}',
    "too many values": b"[" + b"0," * LISTS.values + b"0]",
    "too many empty ones": b"[" + b"{}," * LISTS.values + b"{}]",
    "too many names": json.dumps(dict.fromkeys(range(NAMES_MAX + 1))).encode(),
    "UTF-16": '{"name": "a"}'.encode("utf-16"),
    "UTF-32": '{"name": "a"}'.encode("utf-32"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "Latin-1": b'"\xff"',
    "a tab in a text": b'"\t"',
    "two values": b"{} {}",
    "a comma too many": b'{"name": "a",}',
}


@given(VALUES)
def test_valid_json_is_read_as_it_was_written(value: object) -> None:
    assert strict_json.parse(json.dumps(value).encode(), 1_000) == value
    assert strict_json.parse(json.dumps(value, ensure_ascii=False).encode(), 1_000) == value


@given(st.binary(max_size=200))
def test_invalid_json_is_refused_and_is_no_fault(content: bytes) -> None:
    with suppress(JsonError):
        strict_json.parse(content, 1_000)


@pytest.mark.parametrize("content", TOO_MUCH.values(), ids=TOO_MUCH)
def test_json_that_parsers_read_differently_is_refused(content: bytes) -> None:
    with pytest.raises(JsonError):
        strict_json.parse(content, SMALL.values)


def test_json_at_a_bound_is_read_and_json_beyond_it_is_refused() -> None:
    strict_json.parse(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX, SMALL.values)
    strict_json.parse(b"[" + b"0," * (SMALL.values - 2) + b"0]", SMALL.values)
    strict_json.parse(b"9" * 20, 1)
    strict_json.parse(json.dumps(dict.fromkeys(range(NAMES_MAX))).encode(), SMALL.values)


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("culvert.corp.example", True),
        ("culvert.corp.example:8443", True),
        ("CULVERT.corp.example.", True),
        ("localhost:8443", False),
        ("wiki.localhost", False),
        ("203.0.113.7", False),
        ("203.0.113.7:8443", False),
        ("[2001:db8::1]:8443", False),
        ("[2001:db8::1]", False),
        ("[v1.x]:1", False),
        ("", False),
        (":8443", False),
    ],
)
def test_hsts_is_sent_for_a_host_name_and_not_for_an_address(host: str, named: bool) -> None:
    assert is_name(host) is named


@asynccontextmanager
async def without_limits(directory: Path, database_url: str) -> AsyncGenerator[World]:
    limits = {"rest_calls_per_second": 1e6, "rest_strangers_calls_per_second": 1e6}
    async with running(settings_in(directory, database_url=database_url, **limits)) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        yield world


@pytest.fixture
async def world(tmp_path: Path, database_url: str) -> AsyncGenerator[World]:
    async with without_limits(tmp_path, database_url) as world:
        yield world


async def connected(world: World) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = world.settings.rest_listen.rsplit(":", 1)
    tls = ssl.create_default_context(cafile=str(world.settings.state_dir / "infrastructure-ca.pem"))
    return await asyncio.open_connection(host, int(port), ssl=tls)


async def answer_to(
    world: World, head: str, headers: dict[str, str], body: bytes = b""
) -> tuple[int, dict[str, Any]]:
    """The answer to a request whose body is missing, or shorter than announced."""
    reader, writer = await connected(world)
    sent = {"Host": world.settings.rest_listen} | headers
    writer.write("\r\n".join([head, *(f"{name}: {sent[name]}" for name in sent), "", ""]).encode() + body)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            status = int((await reader.readuntil(b"\r\n")).split()[1])
            fields = httpx.Headers()
            while line := (await reader.readuntil(b"\r\n")).strip():
                name, _, value = line.decode().partition(":")
                fields[name] = value.strip()
            content = await reader.readexactly(int(fields["content-length"]))
        assert fields["content-type"] == "application/problem+json"
        return status, json.loads(content)
    finally:
        writer.close()


def bearer(token: str) -> str:
    return f"Bearer {token}"


@slow
async def test_a_caller_is_authenticated_before_its_body_is_read(world: World) -> None:
    token = await world.rest("POST", "/tokens", {"name": "ci", "scopes": ["read"]})
    size = {"Content-Type": "application/json", "Content-Length": str(32 << 20)}
    for headers, refusal in (
        ({}, (401, "ADMIN_TOKEN_INVALID")),
        ({"Authorization": bearer("guess")}, (401, "ADMIN_TOKEN_INVALID")),
        ({"Cookie": "__Host-culvert=guess"}, (401, "SESSION_INVALID")),
        ({"Authorization": bearer(token["token"])}, (403, "NOT_PERMITTED")),
        ({"Authorization": bearer(token["token"]), "Idempotency-Key": "k"}, (403, "NOT_PERMITTED")),
    ):
        status, problem = await answer_to(world, "POST /api/v1/groups HTTP/1.1", size | headers)
        assert (status, problem["reason"]) == refusal


@slow
async def test_the_rate_limit_is_applied_before_the_body_is_read(tmp_path: Path, database_url: str) -> None:
    few = settings_in(tmp_path, database_url=database_url, rest_strangers_calls_per_second=0.2)
    async with running(few) as world:
        size = {"Content-Type": "application/json", "Content-Length": "30000"}
        for path in ("session", "setup", "enrolments", "session/passkey"):
            # The bucket has two calls; these use them up.
            waiting = [await connected(world) for _ in range(2)]
            for _, writer in waiting:
                writer.write(
                    f"POST /api/v1/{path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode()
                )
            for reader, writer in waiting:
                await reader.readuntil(b"\r\n")
                writer.close()
            status, problem = await answer_to(world, f"POST /api/v1/{path} HTTP/1.1", size)
            assert (status, problem["reason"]) == (429, "RATE_LIMITED")


async def operations(world: World) -> list[tuple[str, str, dict[str, Any]]]:
    """Each operation of the API reference: method, path with its parameters filled, and description."""
    paths: dict[str, dict[str, Any]] = (await world.anyone.get("/openapi.json")).json()["paths"]
    return [
        (method.upper(), path.replace("{", "").replace("}", ""), found)
        for path, methods in paths.items()
        for method, found in methods.items()
    ]


async def chunks(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b" " * (64 << 10)


@slow
async def test_a_body_over_its_paths_limit_is_refused_with_or_without_length(world: World) -> None:
    token = world.admin.headers["Authorization"]
    for method, path, operation in await operations(world):
        if "requestBody" not in operation:
            continue
        limit = (
            SMALL.octets if path.split("/")[3] not in ("groups", "policies", "resources") else LISTS.octets
        )
        limit = LISTS.octets if path.startswith("/api/v1/dns/zones") else limit
        sent = {"Content-Type": "application/json", "Authorization": token}
        for said in (limit + 1, 10**15):
            size = {"Content-Length": str(said)}
            status, problem = await answer_to(world, f"{method} {path} HTTP/1.1", sent | size)
            assert (status, problem["reason"]) == (413, "BODY_TOO_LARGE")
            assert problem["fields"] == {"limit": str(limit)}
        count = limit // (64 << 10) + 1
        answer = await world.admin.request(method, path, content=chunks(count), headers=JSON)
        assert (answer.status_code, answer.json()["reason"]) == (413, "BODY_TOO_LARGE"), path
        assert (
            await world.admin.request(method, path, content=chunks(count - 1), headers=JSON)
        ).status_code != 413


@slow
async def test_a_path_accepts_a_body_as_large_as_it_needs(world: World) -> None:
    names = [f"{number:063}" for number in range(10_000)]
    asked = {"name": "writers", "members": names}
    answer = await world.admin.post("/api/v1/groups", json=asked, headers={"Idempotency-Key": "k"})
    # The application has read the body: it refuses the first name, because there is no such user.
    assert (answer.status_code, answer.json()["fields"]) == (404, {"what": f"The user {names[0]}"})
    answer = await world.admin.post("/api/v1/groups", json={"name": "writers", "members": [*names, "x"]})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/members")


@slow
@pytest.mark.parametrize("path", ["/users", "/session", "/session/passkey", "/groups"])
async def test_json_beyond_the_bounds_is_a_typed_refusal(world: World, path: str) -> None:
    for what, content in TOO_MUCH.items():
        answer = await world.admin.post(f"/api/v1{path}", content=content, headers=JSON)
        assert (answer.status_code, answer.json()["reason"]) == (422, "REQUEST_INVALID"), what
        assert "the body cannot be used" in answer.json()["detail"], what


@slow
async def test_a_body_that_is_not_declared_as_plain_json_is_not_read(world: World) -> None:
    bob = b'{"name": "bob", "email": "bob@corp.example"}'
    for headers in (
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/json2"},
        JSON | {"Content-Encoding": "gzip"},
        JSON | {"Content-Encoding": "br, identity"},
    ):
        answer = await world.admin.post("/api/v1/users", content=bob, headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (415, "MEDIA_TYPE_UNSUPPORTED"), headers
    for headers in (
        {"Content-Type": "application/json; charset=utf-8"},
        {"Content-Type": "Application/JSON"},
    ):
        assert (await world.admin.post("/api/v1/users", content=b"{}", headers=headers)).status_code == 422
    answer = await world.admin.post("/api/v1/users", content=b"", headers=JSON)
    assert (answer.status_code, answer.json()["reason"]) == (422, "REQUEST_INVALID")


@slow
async def test_a_body_that_does_not_arrive_in_time_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "BODY_SECONDS", 1.0)
    head = "POST /api/v1/session HTTP/1.1"
    for sent in ({"Content-Length": "100"}, {"Transfer-Encoding": "chunked"}):
        status, problem = await answer_to(world, head, JSON | sent, b"2\r\n")
        assert (status, problem["reason"]) == (408, "BODY_LATE")


@slow
async def test_a_wrong_method_gets_405_and_the_allowed_methods(
    world: World,
) -> None:
    allowed: dict[str, set[str]] = {}
    for method, path, _ in await operations(world):
        allowed.setdefault(path, set()).add(method)
    for path, methods in {
        **allowed,
        "/": {"GET"},
        "/docs/": {"GET"},
        "/docs/api": {"GET"},
        "/docs/api/assets/swagger-ui.css": {"GET", "HEAD"},
        "/apt/dists/bookworm/InRelease": {"GET", "HEAD"},
    }.items():
        for method in {"TRACE", "PATCH", "OPTIONS", "PROPFIND", "GETT", "PUT", "POST"} - methods:
            answer = await world.admin.request(method, path)
            if answer.status_code != 405:
                # `/tokens/scopes` also matches the path of a token.
                assert method not in ("TRACE", "PROPFIND", "GETT"), (method, path, answer.status_code)
                continue
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["reason"] == "METHOD_NOT_ALLOWED"
            assert methods <= set(answer.headers["allow"].split(", ")), (method, path)
    answer = await world.anyone.request("TRACE", "/api/v1/users", headers={"X-Secret": "s"})
    assert (answer.status_code, "X-Secret" in answer.text) == (405, False)
    assert (await world.anyone.request("TRACE", "/nowhere")).status_code == 405
    assert (await world.anyone.get("/nowhere")).status_code == 404
    # There is no redirect to the path without the final slash.
    assert (await world.admin.get("/api/v1/users/")).status_code in (404, 422)


@slow
async def test_head_is_answered_like_get_without_content(world: World) -> None:
    for path in (
        "/api/v1/users",
        "/api/v1/ca",
        "/healthz",
        "/docs/",
        "/docs/api",
        "/openapi.json",
        "/nowhere",
        "/api/v1/events?view=dns",
    ):
        async with world.admin.stream("HEAD", path) as head, world.admin.stream("GET", path) as get:
            assert head.status_code == get.status_code, path
            assert head.headers.get("content-type") == get.headers.get("content-type"), path
            assert await head.aread() == b""
    assert (await world.anyone.head("/api/v1/users")).status_code == 401
    counted = (await world.admin.get("/api/v1/metrics")).text
    assert 'culvert_rest_calls_total{method="HEAD",route="/users",status="200"}' in counted
    for path in ("/api/v1/enrolments", "/api/v1/users"):
        answer = await world.admin.request("TRACE", path)
        allowed = answer.headers["allow"].split(", ")
        assert ("HEAD" in allowed) == ("GET" in allowed), path


@slow
async def test_every_answer_carries_the_browser_security_headers(world: World) -> None:
    named = {"Host": "culvert.corp.example:8443"}
    for path in (
        "/",
        "/docs/",
        "/docs/api",
        "/docs/api/assets/swagger-ui.css",
        "/openapi.json",
        "/healthz",
        "/api/v1/ca",
        "/api/v1/users",
        "/nowhere",
        "/console/x",
    ):
        answer = await world.anyone.get(path, headers=named)
        assert answer.headers["strict-transport-security"] == "max-age=31536000", path
        assert answer.headers["x-content-type-options"] == "nosniff", path
        assert answer.headers["referrer-policy"] == "no-referrer", path
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"], path
        assert "default-src 'none'" in answer.headers["content-security-policy"], path
        if path.startswith("/api/"):
            assert answer.headers["cache-control"] == "no-store", path
        assert "strict-transport-security" not in (await world.anyone.get(path)).headers, path
