"""Each operation of the REST API that a person needs has its place in the console."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from culvert_service.operation.commands import openapi

SOURCES = Path(__file__).parents[1] / "console"
_METHODS = ("get", "post", "put", "delete")
_CALL = re.compile(r"""\bapi\.(GET|POST|PUT|DELETE)\(\s*"([^"]+)\"""")
_ADDRESS = re.compile(r"/api/v1[^\s\"'`?$)]*")

# Operations of programs, and of computers that are no browser.
OF_PROGRAMS = {
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/api/v1/ca"),
    ("get", "/api/v1/metrics"),
    ("get", "/api/v1/oidc/callback"),
    ("post", "/api/v1/enrolments"),
    ("post", "/api/v1/renewals"),
    ("post", "/api/v1/renewals/challenge"),
    ("post", "/api/v1/gateway-joins"),
    ("post", "/api/v1/gateway-joins/check"),
    ("post", "/api/v1/gateway-leaves"),
    ("post", "/api/v1/gateway-renewals"),
    ("post", "/api/v1/gateway-reports"),
    ("post", "/api/v1/gateway-states"),
}
# The console does the same by another operation.
BY_ANOTHER = {
    ("get", "/api/v1/tunnels"): "the live view of tunnels",
    ("get", "/api/v1/devices/{device_id}"): "the list of devices",
    ("get", "/api/v1/session/sessions"): "the account's page",
    ("post", "/api/v1/enrolments/invitation"): "the page of an invitation, by fetch",
    ("put", "/api/v1/groups/{name}/members"): "the form of a group",
    ("delete", "/api/v1/groups/{name}/members/{user}"): "the form of a group",
}


async def test_the_console_does_whatever_the_rest_api_can(capsys: pytest.CaptureFixture[str]) -> None:
    await openapi()
    paths = json.loads(capsys.readouterr().out)["paths"]
    offered = {(method, path) for path, verbs in paths.items() for method in verbs if method in _METHODS}
    used = _used()
    unused = offered - used - OF_PROGRAMS - BY_ANOTHER.keys()
    assert not unused, f"the console has no place for {sorted(unused)}"
    # A place that was made since is not excused any more.
    assert not (used & BY_ANOTHER.keys())
    assert OF_PROGRAMS | BY_ANOTHER.keys() <= offered


async def test_each_field_of_a_request_has_a_place_in_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    await openapi()
    document = json.loads(capsys.readouterr().out)
    asked = {
        field
        for path, verbs in document["paths"].items()
        for method, operation in verbs.items()
        if (method, path) not in OF_PROGRAMS and "requestBody" in operation
        for field in _fields(document["components"]["schemas"], operation["requestBody"])
    }
    words = {word for text in _sources() for word in re.findall(r"\w+", text)}
    assert "legacy_suites" in asked
    assert not asked - words, "the console has no place for these fields"


def _fields(schemas: dict[str, Any], part: Any, seen: frozenset[str] = frozenset()) -> set[str]:
    """The names of the properties of a schema, and of the schemas that it refers to."""
    if isinstance(part, list):
        return {field for one in cast("list[Any]", part) for field in _fields(schemas, one, seen)}
    if not isinstance(part, dict):
        return set()
    fields = cast("dict[str, Any]", part)
    found = {field for one in fields.values() for field in _fields(schemas, one, seen)}
    name = str(fields.get("$ref", "")).rpartition("/")[2]
    if name and name not in seen:
        found |= _fields(schemas, schemas[name], seen | {name})
    return found | set(fields.get("properties", ()))


def _sources() -> Iterator[str]:
    for file in (*SOURCES.glob("src/**/*.ts*"), *SOURCES.glob("public/*.js")):
        if file.name != "schema.ts" and ".test." not in file.name:
            yield file.read_text()


def _used() -> set[tuple[str, str]]:
    """The calls, and the addresses of links and streams, which are read."""
    used: set[tuple[str, str]] = set()
    for text in _sources():
        used |= {(method.lower(), path) for method, path in _CALL.findall(text)}
        used |= {("get", path) for path in _ADDRESS.findall(text)}
    return used
