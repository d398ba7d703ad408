"""The REST API answers any request with a result or a problem, never with a fault."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest
import requests
from culvert_lab.free_port import free_port
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from .conftest import World, running, settings_in
from .test_rest import GATEWAY, WIKI

pytestmark = pytest.mark.slow

# For each operation and mode: one is quick, 30 hunt.
EXAMPLES = int(os.environ.get("CULVERT_FUZZ_EXAMPLES", "1"))
ODD = ("a\0b", "\x7f", "..", "\U0001f512", "x" * 3000)
# Far ends of what a parser of times or numbers takes.
FAR = ("0001-01-01T00:00:00+23:59", "9223372036854775808", "NaN")
# The gateway is absent here, so this error is true.
TRUE_5XX = {(HTTPStatus.SERVICE_UNAVAILABLE, "GATEWAY_DOWN")}


@asynccontextmanager
async def asked_without_limits(directory: Path, database_url: str) -> AsyncGenerator[World]:
    limits = {"rest_calls_per_second": 1e6, "rest_strangers_calls_per_second": 1e6}
    async with running(settings_in(directory, database_url=database_url, **limits)) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        lan = GATEWAY["lan"] | {"neighbours": {"10.20.0.10": "02:00:00:00:02:10"}}
        await world.rest("POST", "/gateways", GATEWAY | {"lan": lan, "p4runtime": f"127.0.0.1:{free_port()}"})
        await world.rest("POST", "/resources", WIKI)
        await world.rest("POST", "/groups", {"name": "writers", "members": ["alice"]})
        yield world


@pytest.fixture
async def world(tmp_path: Path, database_url: str) -> AsyncGenerator[World]:
    async with asked_without_limits(tmp_path, database_url) as world:
        yield world


def check(answer: httpx.Response | requests.Response, what: object) -> None:
    if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        assert (answer.status_code, answer.json()["reason"]) in TRUE_5XX, (what, answer.text)
    elif answer.status_code >= HTTPStatus.BAD_REQUEST:
        assert answer.headers["content-type"] == "application/problem+json", what
        assert answer.json()["remedy"], what


async def operations(world: World) -> list[tuple[str, str, dict[str, Any]]]:
    paths: dict[str, dict[str, Any]] = (await world.anyone.get("/openapi.json")).json()["paths"]
    # A live view has no end.
    asked = {path: verbs for path, verbs in paths.items() if not path.endswith("/events")}
    return [(verb, path, found) for path, verbs in asked.items() for verb, found in verbs.items()]


async def test_the_document_says_in_which_media_type_refusals_come(world: World) -> None:
    document = (await world.anyone.get("/openapi.json")).json()
    refusals = [
        operation["responses"]["default"]["content"]
        for path, operations in document["paths"].items()
        # FastAPI writes the schema for the route that defines it, /ca, and shows its media type beside ours.
        if path.startswith("/api/v1/") and path != "/api/v1/ca"
        for operation in operations.values()
    ]
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    assert [it for it in refusals if it != problem] == []
    assert set(document["components"]["schemas"]["Problem"]["properties"]) >= {"reason", "detail", "remedy"}


async def test_no_text_in_a_path_or_a_query_is_a_fault(world: World) -> None:
    for verb, path, operation in await operations(world):
        for parameter in operation.get("parameters", []):
            for text in ODD if parameter["in"] == "path" else (*ODD, *FAR):
                filled = path.replace("{" + parameter["name"] + "}", quote(text, safe=""))
                query = {parameter["name"]: text} if parameter["in"] == "query" else {}
                if parameter["in"] != "header":
                    check(await world.admin.request(verb, filled, params=query), (verb, filled, query))


async def test_no_text_in_a_body_is_a_fault(world: World) -> None:
    zone = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
    bodies: dict[str, dict[str, Any]] = {
        "/users": {"name": "bob", "email": "bob@corp.example"},
        "/gateways": GATEWAY | {"name": "gw-rome", "address": "198.51.100.9", "p4runtime": "127.0.0.1:9"},
        "/resources": WIKI | {"name": "git", "fqdn": "git.corp.example"},
        "/groups": {"name": "readers", "members": ["alice"]},
        "/policies": {"name": "readers", "group": "writers", "resources": ["wiki"]},
        "/dns/zones": zone,
        "/tokens": {"name": "ci", "scopes": ["read"]},
        "/session": {"name": "ada", "password": "correct horse battery", "code": "123456"},
        "/setup": {"token": "t", "name": "ada", "password": "correct horse battery"},
        "/setup/invitation": {"token": "t"},
        "/enrolments": {"token": "t", "device_name": "laptop", "csr_pem": "x"},
    }
    for path, body in bodies.items():
        for field, value in body.items():
            for text in ODD:
                odd = body | {field: [text] if isinstance(value, list) else text}
                answer = await world.admin.post(f"/api/v1{path}", json=odd)
                check(answer, (path, field, text))
                if "\0" in text:
                    assert answer.status_code >= HTTPStatus.BAD_REQUEST, (path, field)


async def test_bodies_that_are_no_json_and_headers_that_are_odd(world: World) -> None:
    for content in (b"", b"\xff\xfe", b"[" * 100_000, b'{"name": "\\ud800"}', b"1e99999", b"NaN", b'"x"'):
        for verb, path, operation in await operations(world):
            if "requestBody" in operation:
                headers = {"Content-Type": "application/json"}
                answer = await world.admin.request(verb, path, content=content, headers=headers)
                check(answer, (verb, path, content[:20]))
    for name in ("If-Match", "Idempotency-Key", "Authorization", "Cookie", "X-CSRF-Token", "Last-Event-ID"):
        for value in ("", "x" * 2000, "\u00ff", '"1"', "Bearer", "Bearer \u00ff", "__Host-culvert=\u00ff"):
            for verb, path in (("POST", "/users"), ("GET", "/users"), ("DELETE", "/session")):
                sent = [(name.encode(), value.encode("latin-1"))]
                client = world.anyone if name in ("Authorization", "Cookie") else world.admin
                check(await client.request(verb, f"/api/v1{path}", headers=sent), (name, value))


@pytest.mark.timeout(600)
async def test_schemathesis_finds_no_fault(world: World) -> None:
    await asyncio.to_thread(_explore, world)


def _explore(world: World) -> None:
    # Its import takes seconds, which each run that only collects this file would spend.
    import schemathesis
    from schemathesis import GenerationMode

    schema: Any = cast("Any", schemathesis).openapi.from_dict(_reference(world))
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = world.admin.headers["Authorization"]
        session.verify = _ca(world)
        for found in schema.exclude(path_regex="/events$").get_all_operations():
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                _ask(found.ok(), mode, session, world.settings.rest_url)


def _ask(operation: Any, mode: Any, session: requests.Session, url: str) -> None:
    @settings(
        max_examples=EXAMPLES,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        case.headers.update(session.headers)
        sent = case.as_transport_kwargs(base_url=url)
        check(session.request(**sent, verify=session.verify, timeout=30, allow_redirects=False), case)

    # Some take nothing that could be wrong.
    with suppress(Unsatisfiable):
        ask()


def _reference(world: World) -> dict[str, Any]:
    return requests.get(f"{world.settings.rest_url}/openapi.json", verify=_ca(world), timeout=10).json()


def _ca(world: World) -> str:
    return str(world.settings.state_dir / "infrastructure-ca.pem")
