"""A name or address that another row has is refused with its field, at every path that could write it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from sqlalchemy import text

from .conftest import World, until
from .test_rest import GATEWAY, WIKI

pytestmark = pytest.mark.slow

LAN = GATEWAY["lan"] | {"neighbours": {"10.20.0.10": "02:00:00:00:02:10"}}
BERLIN = GATEWAY | {"lan": LAN, "address6": "2001:db8::1"}
PARIS = BERLIN | {
    "name": "gw-paris",
    "address": "198.51.100.3",
    "address6": "2001:db8::2",
    "p4runtime": "127.0.0.1:9560",
    "pool": "10.98.0.0/24",
    "lan": LAN | {"address": "10.21.0.1", "neighbours": {"10.21.0.10": "02:00:00:00:02:10"}},
}
# No tunnel between gateways ends here, so the address can be changed.
ROME = PARIS | {
    "name": "gw-rome",
    "address": "198.51.100.4",
    "address6": None,
    "p4runtime": "127.0.0.1:9561",
    "lan": LAN | {"address": "10.22.0.1", "neighbours": {"10.22.0.10": "02:00:00:00:02:10"}},
}
MILAN = PARIS | {
    "name": "gw-milan",
    "address": "198.51.100.5",
    "address6": None,
    "p4runtime": "127.0.0.1:9562",
}
INSIDE = {"address": "10.0.0.4", "address6": "fd00::4"}
GIT = WIKI | {"name": "git", "fqdn": "git.corp.example", "users": []}
READERS, WRITERS = {"name": "readers", "members": ["alice"]}, {"name": "writers", "members": ["alice", "bob"]}
READING = {"name": "reading", "group": "readers", "resources": ["wiki"]}
WRITING = {"name": "writing", "group": "writers", "resources": ["git"]}
ONE = {"name": "one", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
TOKEN = {"name": "ci", "scopes": ["read"]}
ASSERTED = {"group": "readers", "name": "wiki.corp.example", "reaches": True}
BETWEEN: dict[str, Any] = {
    "name": "between",
    "ends": [
        {"gateway": "gw-berlin", "targets": [{"prefix": "10.20.0.0/16"}]},
        {"gateway": "gw-paris", "targets": [{"prefix": "10.21.0.0/16"}]},
    ],
    "owner": "bob@corp.example",
}
AT_ROME = {"gateway": "gw-rome", "targets": [{"prefix": "10.22.0.0/16"}]}
CRYPTO_HOSTS = "/gateways/gw-berlin/crypto-hosts"
CRYPTO_HOST = {
    "name": "crypto-1",
    "p4runtime": "127.0.0.1:9570",
    "port": 4,
    "mac": "02:00:00:00:04:01",
    "host_mac": "02:00:00:00:04:02",
}
MADE = {
    "/users": ({"name": "alice", "email": "a@corp.example"}, {"name": "bob", "email": "b@corp.example"}),
    "/groups": (READERS, WRITERS),
    "/gateways": (BERLIN, PARIS, ROME),
    "/resources": (WIKI, GIT),
    "/policies": (READING, WRITING, {"name": "alice to git", "group": "readers", "resources": ["git"]}),
    "/dns/zones": (ONE,),
    "/assertions": (ASSERTED,),
    "/tokens": (TOKEN,),
    "/site-tunnels": (BETWEEN,),
    CRYPTO_HOSTS: (CRYPTO_HOST,),
}
# Method, path, body, and the field with the taken value.
TAKEN: list[tuple[str, str, dict[str, Any], str]] = [
    ("POST", "/users", {"name": "alice", "email": "x@corp.example"}, "/name"),
    ("POST", "/groups", READERS, "/name"),
    ("PUT", "/groups/writers", WRITERS | {"name": "readers"}, "/name"),
    ("PUT", "/groups/writers", {"name": "readers", "members": []}, "/name"),
    ("POST", "/groups/preview", READERS, "/name"),
    ("POST", "/groups/preview?replaces=writers", WRITERS | {"name": "readers"}, "/name"),
    ("POST", "/policies", READING, "/name"),
    ("PUT", "/policies/writing", WRITING | {"name": "reading"}, "/name"),
    ("POST", "/policies/preview", READING, "/name"),
    ("POST", "/policies/preview?replaces=writing", WRITING | {"name": "reading"}, "/name"),
    (
        "POST",
        "/gateways",
        ROME | {"name": "gw-berlin", "p4runtime": "h:1", "address": "198.51.100.9"},
        "/name",
    ),
    *(
        write
        for field in ("address", "address6", "p4runtime")
        for write in (
            ("PUT", "/gateways/gw-rome", ROME | {field: BERLIN[field]}, f"/{field}"),
            ("POST", "/gateways", MILAN | {field: BERLIN[field]}, f"/{field}"),
        )
    ),
    # Devices would send to the other gateway.
    *(
        write
        for own in ("address", "address6")
        for write in (
            ("PUT", "/gateways/gw-rome", ROME | INSIDE | {f"public_{own}": BERLIN[own]}, f"/public_{own}"),
            ("POST", "/gateways", MILAN | INSIDE | {f"public_{own}": BERLIN[own]}, f"/public_{own}"),
        )
    ),
    ("POST", "/resources", WIKI | {"fqdn": "x.corp.example", "users": []}, "/name"),
    ("POST", "/resources", WIKI | {"name": "x", "users": []}, "/fqdn"),
    ("PUT", "/resources/git", GIT | {"fqdn": WIKI["fqdn"]}, "/fqdn"),
    ("PUT", "/resources/git", GIT | {"users": ["alice"]}, ""),
    ("POST", "/resources/preview", WIKI | {"fqdn": "x.corp.example", "users": []}, "/name"),
    ("POST", "/resources/preview?replaces=git", GIT | {"fqdn": WIKI["fqdn"]}, "/fqdn"),
    ("POST", "/assertions", ASSERTED | {"reaches": False}, "/name"),
    ("POST", "/dns/zones", ONE | {"origin": "other.example"}, "/name"),
    ("POST", "/dns/zones", ONE | {"name": "two"}, "/origin"),
    ("POST", "/tokens", TOKEN, "/name"),
    ("POST", "/tokens", TOKEN | {"name": "admin-token"}, "/name"),
    ("POST", CRYPTO_HOSTS, CRYPTO_HOST | {"port": 5, "p4runtime": "h:1"}, "/name"),
    ("POST", CRYPTO_HOSTS, CRYPTO_HOST | {"name": "gw-paris", "port": 5, "p4runtime": "h:1"}, "/name"),
    ("POST", CRYPTO_HOSTS, CRYPTO_HOST | {"name": "crypto-2", "p4runtime": "h:1"}, "/port"),
    ("POST", CRYPTO_HOSTS, CRYPTO_HOST | {"name": "crypto-2", "port": 5}, "/p4runtime"),
    ("POST", "/gateways", MILAN | {"name": "crypto-1"}, "/name"),
    ("POST", "/site-tunnels", BETWEEN | {"ends": [BETWEEN["ends"][0], AT_ROME]}, "/name"),
]
# Writes that cannot take a value of another row.
FREE = {
    # The name is in the path and does not change, or there is no name.
    ("PUT", "/users/{name}"),
    ("PUT", "/groups/{name}/members"),
    ("PUT", "/dns/zones/{name}"),
    ("PUT", "/dns/managed-zones/{name}"),
    ("PUT", "/site-tunnels/{name}"),
    ("PUT", "/admins/{name}/role"),
    # Each call makes a new row without a chosen name.
    ("POST", "/invitations"),
    ("POST", "/admins/invitations"),
    # A new link for a gateway's name replaces the earlier one.
    ("POST", "/gateway-enrolments"),
}


async def test_a_taken_name_is_refused_with_its_field_and_nothing_changes(world: World) -> None:
    # The fixture has made alice.
    for path, bodies in MADE.items():
        for body in bodies[1:] if path == "/users" else bodies:
            await world.rest("POST", path, body)
    before = {path: await world.rest("GET", path) for path in MADE}
    for method, path, body, pointer in TAKEN:
        answer = await world.admin.request(method, f"/api/v1{path}", json=body, headers={"If-Match": "*"})
        said = answer.json()
        assert (answer.status_code, said.get("reason")) == (409, "ALREADY_EXISTS"), (method, path, body, said)
        assert [fault["pointer"] for fault in said["errors"]] == ([pointer] if pointer else []), (
            method,
            path,
        )
    after = {path: await world.rest("GET", path) for path in MADE}
    assert _lasting(after) == _lasting(before)


def _lasting(found: dict[str, Any]) -> dict[str, Any]:
    """The rows without the fields that change by themselves."""
    moving = ("lag_seconds", "reason", "message", "remedy", "state", "owner", "epoch")
    return {
        path: [{key: row[key] for key in row if key not in moving} for row in rows]
        for path, rows in found.items()
    }


async def test_every_write_of_the_reference_is_tried_or_has_no_rival(world: World) -> None:
    paths: dict[str, dict[str, Any]] = (await world.anyone.get("/openapi.json")).json()["paths"]
    writes = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, methods in paths.items()
        for method, operation in methods.items()
        # Calls about the caller's own account take no token.
        if "requestBody" in operation and {"HTTPBearer": []} in operation.get("security", ())
    }
    tried = {
        (method, re.sub(r"/[^/]+$", "/{name}", path) if method == "PUT" else path.partition("?")[0])
        for method, path, _, _ in TAKEN
    }
    tried |= {("POST", "/gateways/{gateway}/crypto-hosts") for _, path, _, _ in TAKEN if path == CRYPTO_HOSTS}
    assert writes - tried - FREE == set()


async def test_only_one_of_two_concurrent_writes_succeeds(world: World) -> None:
    for path, bodies in MADE.items():
        for body in bodies[1:] if path == "/users" else bodies:
            both = await asyncio.gather(*(world.admin.post(f"/api/v1{path}", json=body) for _ in range(2)))
            made, refused = sorted(both, key=lambda answer: answer.status_code)
            assert (made.status_code, refused.status_code) == (201, 409), (path, body, refused.text)
            assert refused.json()["reason"] == "ALREADY_EXISTS"


async def test_naming_a_row_that_is_deleted_meanwhile_is_a_refusal(world: World) -> None:
    await world.rest("POST", "/users", {"name": "bob", "email": "b@corp.example"})
    await world.rest("POST", "/groups", {"name": "writers", "members": []})
    async with world.database() as session:
        # A transaction that names bob now waits for this deletion, and then finds no bob.
        await session.execute(text("DELETE FROM users WHERE name = 'bob'"))
        slow = asyncio.create_task(world.admin.put("/api/v1/groups/writers/members/bob"))
        async with world.database() as other:
            waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
            await until(lambda: other.scalar(waits), bool)
        await session.commit()
    answer = await slow
    assert (answer.status_code, answer.json()["reason"]) == (404, "NOT_FOUND")
