"""Lost updates: an answer has its row's version as ETag, and a change must name the current one."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from culvert_lab.free_port import free_port

from .conftest import World
from .switch import Switch
from .test_tunnels import tunnel_entries

pytestmark = pytest.mark.slow

ZONE = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
POLICY: dict[str, Any] = {"name": "writers", "group": "writers", "resources": ["wiki"]}


async def ask(world: World, verb: str, path: str, body: object = None, seen: str = "") -> httpx.Response:
    headers = {"If-Match": seen} if seen else {}
    return await world.admin.request(verb, f"/api/v1{path}", json=body, headers=headers)


async def etag(world: World, path: str) -> str:
    return (await ask(world, "GET", path)).headers["etag"]


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["reason"]


async def test_a_change_needs_the_current_etag(world: World, switch: Switch) -> None:
    await world.rest("POST", "/groups", {"name": "writers"})
    await world.rest("POST", "/policies", POLICY)
    await world.rest("POST", "/dns/zones", ZONE)
    changes: list[tuple[str, str, Any]] = [
        ("/users/alice", "", {"email": "a@corp.example"}),
        ("/groups/writers", "/members", ["alice"]),
        ("/policies/writers", "", POLICY | {"enabled": False}),
        ("/dns/zones/corp", "", {"server": "192.0.2.54", "key": "k"}),
    ]
    for path, part, body in changes:
        seen = await etag(world, path)
        assert refusal(await ask(world, "PUT", path + part, body)) == (428, "VERSION_NEEDED"), path
        changed = await ask(world, "PUT", path + part, body, seen)
        assert changed.status_code == 200, changed.text
        assert changed.headers["etag"] == await etag(world, path) != seen
        for verb in ("PUT", "DELETE"):
            stale = await ask(world, verb, path + (part if verb == "PUT" else ""), body, seen)
            assert refusal(stale) == (412, "VERSION_STALE"), path
            assert stale.headers["etag"] == changed.headers["etag"]
    for path, _, _ in reversed(changes):
        assert (await ask(world, "DELETE", path, seen=await etag(world, path))).is_success, path


async def test_each_address_of_a_gateway_counts(world: World, switch: Switch) -> None:
    path = "/gateways/gw-berlin"
    for change in ({"public_address": "203.0.113.7"}, {"address": "10.0.0.4"}):
        seen = await etag(world, path)
        await world.rest("PUT", path, await world.rest("GET", path) | change)
        assert await etag(world, path) != seen, change


async def test_a_part_that_changes_changes_the_whole(world: World, switch: Switch) -> None:
    await world.rest("POST", "/groups", {"name": "writers"})
    await world.rest("POST", "/policies", POLICY)
    await world.rest("POST", "/dns/zones", ZONE | {"resources": ["wiki"]})
    seen = {
        path: await etag(world, path) for path in ("/groups/writers", "/policies/writers", "/dns/zones/corp")
    }
    await world.rest("PUT", "/groups/writers/members/alice")
    stale = await ask(world, "DELETE", "/groups/writers/members/alice", seen=seen["/groups/writers"])
    assert refusal(stale) == (412, "VERSION_STALE")
    gateway = await etag(world, "/gateways/gw-berlin")
    resource = {"name": "git", "fqdn": "git.corp.example", "address": "10.20.0.10", "owner": "bob"}
    await world.rest("POST", "/resources", resource | {"gateways": ["gw-berlin"]})
    await world.rest("PUT", "/policies/writers", POLICY | {"resources": ["wiki", "git"]})
    await world.rest("DELETE", "/resources/wiki")
    for path, before in seen.items():
        assert await etag(world, path) != before, path
    assert await etag(world, "/gateways/gw-berlin") == gateway


async def test_a_judgement_of_a_device_needs_its_etag_which_a_watch_keeps(world: World) -> None:
    device = await world.enrol()
    path = f"/devices/{device.id}"
    seen = await etag(world, path)
    watching = device.watch({"disk": "encrypted"})
    await anext(watching)
    assert await etag(world, path) == seen
    await watching.aclose()
    approved = await ask(world, "POST", f"{path}/approve", seen=seen)
    assert (approved.status_code, approved.json()["state"]) == (200, "approved")
    for verb in ("unapprove", "revoke"):
        assert refusal(await ask(world, "POST", f"{path}/{verb}", seen=seen)) == (412, "VERSION_STALE")
    assert (await world.rest("GET", path))["state"] == "approved"
    last = await etag(world, path)
    assert last == approved.headers["etag"]
    assert (await ask(world, "POST", f"{path}/revoke", seen=last)).status_code == 200


async def test_deleting_a_person_deletes_devices_tunnels_and_policies(world: World, switch: Switch) -> None:
    device = await world.enrol()
    await device.prove()
    await device.open()
    watching = device.watch()
    await anext(watching)
    shown = await world.rest("GET", "/users/alice")
    assert (shown["devices"], shown["last_seen_at"] is not None) == (1, True)
    assert await world.rest("DELETE", "/users/alice") == {"tunnels_closed": 1}
    for path in ("/tunnels", "/devices", "/policies", "/users"):
        assert await world.rest("GET", path) == [], path
    assert await tunnel_entries(world) == 0
    assert refusal(await ask(world, "GET", "/users/alice")) == (404, "NOT_FOUND")


# For each path, changes of read-only fields, which a PUT refuses.
READ_ONLY: dict[str, dict[str, object]] = {
    "/users/alice": {"name": "bob", "created_at": "2020-01-01T00:00:00Z"},
    "/gateways/gw-berlin": {"draining_since": "2020-01-01T00:00:00Z", "legacy": True},
    "/resources/wiki": {"created_at": None, "display_name": "wiki"},
    "/groups/writers": {"created_at": "yesterday"},
    "/policies/writers": {"created_at": {"now": True}},
    "/dns/zones/corp": {"origin": "other.example", "instance": "other", "display_name": [], "retiring": True},
    "/site-tunnels/two": {"name": "three", "created_at": "2020-01-01T00:00:00Z"},
}


# Fields that the controller measures: they may change between two answers.
MEASURED = ("state", "reason", "keeper", "checked_at", "lag_seconds", "drift", "reconciled_at", "usage")


async def test_a_get_body_can_be_put_back(world: World, switch: Switch) -> None:
    await world.rest("POST", "/groups", {"name": "writers", "members": ["alice"]})
    await world.rest("POST", "/policies", POLICY)
    await world.rest("POST", "/dns/zones", ZONE)
    lan: dict[str, object] = {
        "port": 2,
        "mac": "02:00:00:00:02:01",
        "address": "10.21.0.1",
        "prefix": "10.21.0.0/16",
        "neighbours": {"10.21.0.10": "02:00:00:00:02:11"},
    }
    await world.add_gateway("gw-paris", free_port(), 2, lan=lan)
    ends = [
        {"gateway": "gw-berlin", "resources": ["wiki"]},
        {"gateway": "gw-paris", "targets": [{"prefix": "10.21.0.10/32"}]},
    ]
    await world.rest("POST", "/site-tunnels", {"name": "two", "owner": "bob@corp.example", "ends": ends})
    assert READ_ONLY.keys() == {await _example(world, path) for path in await _shown_and_put(world)}
    for path, fields in READ_ONLY.items():
        found = await ask(world, "GET", path)
        refused = [
            await ask(world, "PUT", path, found.json() | {name: value}, found.headers["etag"])
            for name, value in fields.items()
        ]
        told = [(it.json()["reason"], [one["pointer"] for one in it.json()["errors"]]) for it in refused]
        assert told == [("REQUEST_INVALID", [f"/{name}"]) for name in fields], path
        later = await ask(world, "GET", path)
        assert later.headers["etag"] == found.headers["etag"], path
        changed = await ask(world, "PUT", path, later.json(), later.headers["etag"])
        assert changed.status_code == 200, changed.text
        for name in later.json().keys() - fields.keys():
            if name in MEASURED:
                continue
            assert changed.json()[name] == later.json()[name], (path, name)
        unknown = await ask(world, "PUT", path, later.json() | {"colour": "red"}, "*")
        assert [one["pointer"] for one in unknown.json()["errors"]] == ["/colour"]
        stale = await ask(world, "PUT", path, found.json() | fields, '"0"')
        assert refusal(stale) == (412, "VERSION_STALE")


async def _shown_and_put(world: World) -> list[str]:
    """Paths of the API that have a GET and a PUT."""
    paths = (await world.anyone.get("/openapi.json")).json()["paths"]
    return [path for path, verbs in paths.items() if {"get", "put"} <= verbs.keys()]


async def _example(world: World, path: str) -> str:
    """The path of READ_ONLY that is an example of this one with its parameter."""
    before, _, _ = path.removeprefix("/api/v1").partition("{")
    return next(one for one in READ_ONLY if one.startswith(before) and "/" not in one.removeprefix(before))
