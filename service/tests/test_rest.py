"""The REST API's frame: the token, problems, the reference page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from culvert_lab.free_port import free_port

from .conftest import World

pytestmark = pytest.mark.slow

GATEWAY: dict[str, Any] = {
    "name": "gw-berlin",
    "address": "198.51.100.2",
    "p4runtime": "127.0.0.1:9559",
    "pool": "10.99.0.0/24",
    "wan": {"port": 1, "mac": "02:00:00:00:01:01", "next_hop_mac": "02:00:00:00:01:02"},
    "lan": {"port": 2, "mac": "02:00:00:00:02:01", "address": "10.20.0.1", "prefix": 16},
}
WIKI = {
    "name": "wiki",
    "fqdn": "wiki.corp.example",
    "address": "10.20.0.10",
    "gateways": ["gw-berlin"],
    "users": ["alice"],
    "owner": "bob@corp.example",
}


async def problem(world: World, method: str, path: str, body: object = None) -> tuple[int, str, str]:
    answer = await world.admin.request(method, path, json=body)
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert set(found) == {"type", "title", "status", "detail", "reason", "remedy", "errors", "fields"}
    return answer.status_code, found["reason"], found["detail"]


async def test_every_route_asks_for_the_admin_token_except_public_ones(world: World) -> None:
    paths = (await world.anyone.get("/openapi.json")).json()["paths"]
    by_themselves = ("/api/v1/session/", "/api/v1/oidc")
    open_to_all = {
        "/healthz",
        "/readyz",
        "/api/v1/ca",
        "/api/v1/enrolments",
        "/api/v1/enrolments/invitation",
        "/api/v1/renewals",
        "/api/v1/renewals/challenge",
        "/api/v1/setup",
        "/api/v1/setup/invitation",
        "/api/v1/session",
        "/api/v1/gateway-joins",
        "/api/v1/gateway-joins/check",
        "/api/v1/gateway-renewals",
        "/api/v1/gateway-leaves",
        "/api/v1/gateway-states",
        "/api/v1/gateway-reports",
    }
    for path, methods in paths.items():
        for method in methods:
            answer = await world.anyone.request(method, path.replace("{device_id}", "x"))
            left_open = path in open_to_all or path.startswith(by_themselves)
            assert left_open or answer.status_code == 401, path
    wrong = await world.anyone.get("/api/v1/users", headers={"Authorization": "Bearer wrong"})
    assert (wrong.status_code, wrong.json()["reason"]) == (401, "ADMIN_TOKEN_INVALID")


async def test_the_reference_page_needs_no_internet(world: World) -> None:
    page = (await world.anyone.get("/docs/api")).text
    references = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert references
    for reference in references:
        assert reference.startswith("/")
        assert (await world.anyone.get(reference)).status_code == 200
    assert "https://" not in page


async def test_bad_input_is_a_problem_that_names_the_field(world: World) -> None:
    status, reason, detail = await problem(world, "POST", "/api/v1/gateways", GATEWAY | {"address": "here"})
    assert (status, reason) == (422, "REQUEST_INVALID")
    assert "address" in detail
    answer = await world.admin.post("/api/v1/gateways", json=GATEWAY | {"address": "here"})
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/address"]
    body = {"token": ["a-token"], "device_name": "x", "csr_pem": ""}
    assert "a-token" not in (await problem(world, "POST", "/api/v1/enrolments", body))[2]
    assert (await problem(world, "GET", "/api/v1/nowhere"))[:2] == (404, "NOT_FOUND")
    assert (await problem(world, "GET", "/api/v1/gateways/gw-rome"))[:2] == (404, "NOT_FOUND")
    assert (await problem(world, "DELETE", "/api/v1/tunnels/7a0f0e6a-5b7e-4d0c-9a52-2f6c5a3c2d11"))[0] == 404


async def test_creating_an_existing_row_is_refused(world: World) -> None:
    alice = {"name": "alice", "email": "alice@corp.example"}
    assert (await problem(world, "POST", "/api/v1/users", alice))[:2] == (409, "ALREADY_EXISTS")
    gateway = GATEWAY | {"p4runtime": f"127.0.0.1:{free_port()}"}
    await world.rest("POST", "/gateways", gateway)
    assert (await problem(world, "POST", "/api/v1/gateways", gateway))[:2] == (409, "ALREADY_EXISTS")


async def test_a_resource_is_checked_against_zones_gateways_and_people(world: World) -> None:
    lan = GATEWAY["lan"] | {"neighbours": {"10.20.0.10": "02:00:00:00:02:10"}}
    await world.rest("POST", "/gateways", GATEWAY | {"lan": lan, "p4runtime": f"127.0.0.1:{free_port()}"})
    changes: list[tuple[dict[str, Any], str, str]] = [
        ({"fqdn": "wiki.other.example"}, "REQUEST_INVALID", "managed zones"),
        ({"address": "10.20.0.11"}, "REQUEST_INVALID", "neighbour"),
        ({"gateways": ["gw-rome"]}, "NOT_FOUND", "gw-rome"),
        ({"users": ["mallory"]}, "NOT_FOUND", "mallory"),
        ({"gateways": []}, "REQUEST_INVALID", "gateways"),
    ]
    for change, reason, word in changes:
        _, found, detail = await problem(world, "POST", "/api/v1/resources", WIKI | change)
        assert (found, word in detail) == (reason, True), detail
    assert await world.rest("GET", "/resources") == []
    made = await world.rest("POST", "/resources", WIKI | {"fqdn": "Wiki.Corp.Example."})
    assert made["fqdn"] == "wiki.corp.example"
    assert made["users"] == ["alice"]


async def test_a_gateway_that_is_not_there_is_offline_for_a_reason(world: World) -> None:
    await world.rest("POST", "/gateways", GATEWAY | {"p4runtime": f"127.0.0.1:{free_port()}"})
    found = await world.rest("GET", "/gateways/gw-berlin")
    assert found["state"] == "offline"
    assert found["reason"]
    assert (await problem(world, "GET", "/api/v1/gateways/gw-berlin/entries"))[:2] == (503, "GATEWAY_DOWN")
