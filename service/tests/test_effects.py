"""Preview a resource before it exists, list its dependents before it is deleted, and search lists."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import World
from .switch import Switch

pytestmark = pytest.mark.slow

GIT: dict[str, Any] = {
    "name": "git",
    "fqdn": "git.dev.corp.example",
    "targets": [{"prefix": "10.20.0.10"}],
    "gateways": ["gw-berlin"],
    "users": ["alice"],
    "owner": "bob@corp.example",
}
LAN = {
    "port": 2,
    "mac": "02:00:00:00:02:01",
    "address": "10.20.0.1",
    "prefix": "10.20.0.0/16",
    "neighbours": {"10.20.0.10": "02:00:00:00:02:10", "10.20.0.20": "02:00:00:00:02:20"},
}
ZONE = {"server": "192.0.2.53", "key": "k"}


async def refused(world: World, body: dict[str, Any]) -> dict[str, Any]:
    answer = await world.admin.post("/api/v1/resources/preview", json=body)
    assert answer.is_error, answer.text
    return answer.json()


async def test_a_preview_says_what_is_published_and_does_nothing(world: World, switch: Switch) -> None:
    for name, origin, more in (
        ("corp", "corp.example", {}),
        ("dev-inside", "dev.corp.example", {"view": "inside"}),
        ("dev-outside", "dev.corp.example", {"view": "outside"}),
        ("dev-few", "dev.corp.example", {"view": "few", "resources": ["wiki"]}),
    ):
        await world.rest("POST", "/dns/zones", {"name": name, "origin": origin, **ZONE, **more})
    said = await world.rest("POST", "/resources/preview", GIT)
    assert [(record["zone"], record["types"]) for record in said["records"]] == [
        ("dev-inside", ["A", "TXT"]),
        ("dev-outside", ["A", "TXT"]),
    ]
    assert said["gain"] == {"count": 1, "first": ["alice"], "display_names": {}}
    assert (said["withdrawn"], said["tunnels_closed"]) == ([], 0)
    assert (await world.rest("POST", "/resources/preview", GIT | {"fqdn": "*.dev.corp.example"}))[
        "records"
    ] == []
    # dns-updater publishes no name whose owner's name is too long.
    long = ".".join(["x" * 63] * 3 + ["y" * 36, "dev.corp.example"])
    assert (await world.rest("POST", "/resources/preview", GIT | {"fqdn": long}))["records"] == []
    assert [one["name"] for one in await world.rest("GET", "/resources")] == ["wiki"]
    # And it can still be made.
    await world.rest("POST", "/resources", GIT)


async def previewed(world: World, change: dict[str, Any]) -> dict[str, Any]:
    """The preview of a change of the wiki."""
    now: dict[str, Any] = await world.rest("GET", "/resources/wiki")
    body = {field: value for field, value in now.items() if field not in ("created_at", "display_name")}
    return await world.rest("POST", "/resources/preview?replaces=wiki", body | change)


async def test_the_preview_of_a_change_shows_what_it_cuts(world: World, switch: Switch) -> None:
    await world.rest("POST", "/users", {"name": "bob", "email": "bob@corp.example"})
    await world.add_gateway("gw-paris", 9, 2, lan=LAN)
    for name, more in (("all", {}), ("few", {"view": "few", "resources": ["wiki"]})):
        await world.rest("POST", "/dns/zones", {"name": name, "origin": "corp.example", **ZONE, **more})
    alone = {"user": "alice", "name": "wiki.corp.example", "reaches": True}
    await world.rest("POST", "/assertions", alone)
    device = await world.enrol()
    await device.prove()
    await device.open()
    before = await world.rest("GET", "/resources/wiki")
    nobody: dict[str, Any] = {"count": 0, "first": [], "display_names": {}}
    same: dict[str, Any] = {
        "records": [],
        "withdrawn": [],
        "gain": nobody,
        "lose": nobody,
        "tunnels_closed": 0,
        "tunnels_moved": 0,
        "breaks": [],
    }
    assert await previewed(world, {"owner": "carol"}) == same
    # Another suite needs new keys, and no other record.
    assert await previewed(world, {"suite": "chacha20-poly1305"}) == same | {"tunnels_closed": 1}
    assert await previewed(world, {"gateways": ["gw-paris"]}) == same | {"tunnels_moved": 1}
    people = await previewed(world, {"users": ["bob"], "gateways": ["gw-paris"]})
    assert people["gain"] == nobody | {"count": 1, "first": ["bob"]}
    assert people["lose"] == nobody | {"count": 1, "first": ["alice"]}
    assert (people["tunnels_closed"], people["tunnels_moved"]) == (1, 0)
    assert [it["name"] for it in people["breaks"]] == ["wiki.corp.example"]

    def records(*types: str, name: str = "wiki.corp.example") -> list[dict[str, Any]]:
        shown = {"origin": "corp.example", "types": list(types), "display_name": name}
        return [{"zone": zone, **shown} for zone in ("all", "few")]

    elsewhere = {"gateways": ["gw-paris"], "targets": [{"prefix": "10.20.0.20"}]}
    assert await previewed(world, elsewhere) == same | {"records": records("A", "TXT"), "tunnels_closed": 1}
    network = await previewed(world, {"targets": [{"prefix": "10.20.0.0/24"}]})
    assert network == same | {"withdrawn": records("A", "TXT"), "tunnels_closed": 1}
    renamed = await previewed(world, {"fqdn": "w.corp.example", "users": []})
    assert renamed["records"] == records("A", "TXT", name="w.corp.example")
    assert renamed["withdrawn"] == records("A", "TXT")
    assert renamed["tunnels_closed"] == 1
    # Nothing has changed, and the change does what its preview shows.
    assert await world.rest("GET", "/resources/wiki") == before
    assert len(await world.rest("GET", "/tunnels")) == 1
    sent = {field: value for field, value in before.items() if field not in ("created_at", "display_name")}
    await world.rest("PUT", "/resources/wiki", sent | {"suite": "chacha20-poly1305"})
    assert await world.rest("GET", "/tunnels") == []


async def test_the_preview_of_a_change_is_refused_as_the_change(world: World, switch: Switch) -> None:
    now = await world.rest("GET", "/resources/wiki")
    body = {field: value for field, value in now.items() if field not in ("created_at", "display_name")}
    for change, status, pointer in (
        ({"gateways": ["gw-rome"]}, 404, "/gateways/0"),
        ({"users": ["alice", "nobody"]}, 404, "/users/1"),
        ({"fqdn": "wiki.elsewhere.example"}, 422, "/fqdn"),
    ):
        answer = await world.admin.post("/api/v1/resources/preview?replaces=wiki", json=body | change)
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (status, pointer)
    answer = await world.admin.post("/api/v1/resources/preview?replaces=git", json=body | {"name": "git"})
    assert answer.status_code == 404


async def test_a_preview_is_refused_for_what_creating_would_be(world: World, switch: Switch) -> None:
    assert (await refused(world, GIT | {"name": "wiki"}))["reason"] == "ALREADY_EXISTS"
    assert (await refused(world, GIT | {"gateways": ["gw-rome"]}))["reason"] == "NOT_FOUND"
    assert (await refused(world, GIT | {"users": ["nobody"]}))["reason"] == "NOT_FOUND"
    assert (await refused(world, GIT | {"fqdn": "git.elsewhere.example"}))["reason"] == "REQUEST_INVALID"


async def test_an_address_that_no_gateway_serves_is_refused_with_what_it_lacks(
    world: World, switch: Switch
) -> None:
    for prefix, english, german in (
        (
            "10.20.0.77",
            "gw-berlin knows no server at 10.20.0.77 of git: add it",
            "gw-berlin kennt keinen Server unter 10.20.0.77",
        ),
        (
            "10.77.0.1",
            "10.77.0.1 of git is neither in the LAN of gw-berlin (10.20.0.0/16) nor",
            "10.77.0.1 von git liegt weder im LAN von gw-berlin (10.20.0.0/16)",
        ),
        (
            "fd20::77",
            "gw-berlin gives devices no IPv6 addresses",
            "gw-berlin gibt Geräten keine IPv6-Adressen",
        ),
    ):
        body = GIT | {"targets": [{"prefix": prefix}]}
        for language, said in (("en", english), ("de", german)):
            world.admin.headers["Accept-Language"] = language
            told = await refused(world, body)
            assert said in told["detail"]
            [fault] = told["errors"]
            assert fault["pointer"] == "/targets/0/prefix"
            assert fault["detail"].startswith(said)


async def test_a_fault_of_the_body_says_where_it_is(world: World, switch: Switch) -> None:
    body = GIT | {"targets": [{"prefix": "10.20.0.10"}, {"prefix": "10.20.0.300"}], "name": "No Name"}
    errors = (await refused(world, body))["errors"]
    assert {error["pointer"] for error in errors} == {"/targets/1/prefix", "/name"}
    assert all(error["detail"] for error in errors)
    # An error in the query has no pointer into the body.
    answer = await world.admin.get("/api/v1/resources", params={"limit": 0})
    assert (answer.status_code, answer.json()["errors"]) == (422, [])


async def test_a_resources_dependents_are_counted(world: World, switch: Switch) -> None:
    await world.rest("POST", "/users", {"name": "bob", "email": "bob@corp.example"})
    await world.rest("POST", "/users", {"name": "carol", "email": "carol@corp.example"})
    await world.rest("POST", "/groups", {"name": "writers", "members": ["alice", "bob"]})
    await world.rest("POST", "/resources", GIT | {"users": list[str]()})
    await world.rest("POST", "/policies", {"name": "both", "group": "writers", "resources": ["wiki", "git"]})
    off = {"name": "off", "user": "carol", "resources": ["wiki"], "enabled": False}
    await world.rest("POST", "/policies", off)
    device = await world.enrol()
    await device.prove()
    await device.open()
    found = await world.rest("GET", "/resources/wiki/use")
    assert found == {
        "tunnels": 1,
        "people": 2,
        "policies_deleted": ["alice to wiki", "off"],
        "site_tunnels": [],
        "breaks": [],
    }
    assert await world.rest("GET", "/resources/git/use") == {
        "tunnels": 0,
        "people": 2,
        "policies_deleted": [],
        "site_tunnels": [],
        "breaks": [],
    }
    assert (await world.rest("DELETE", "/resources/wiki"))["tunnels_closed"] == found["tunnels"]
    assert [one["name"] for one in await world.rest("GET", "/policies")] == ["both"]
    assert (await world.admin.get("/api/v1/resources/wiki/use")).status_code == 404


async def test_people_and_devices_are_found_by_a_part_of_their_texts(world: World) -> None:
    await world.rest("POST", "/users", {"name": "bob", "email": "robert@corp.example"})
    await world.enrol("alice")
    await world.enrol("bob")
    assert [one["name"] for one in await world.rest("GET", "/users?q=ROBERT")] == ["bob"]
    assert [one["user"] for one in await world.rest("GET", "/devices?q=ali")] == ["alice"]
    assert len(await world.rest("GET", "/devices?q=LAP")) == 2


async def test_resources_are_found_by_a_part_of_their_texts(world: World, switch: Switch) -> None:
    await world.rest("POST", "/resources", GIT | {"owner": "100%@corp.example"})

    async def found(**query: str) -> list[str]:
        answer = await world.admin.get("/api/v1/resources", params=query)
        assert answer.status_code == 200, answer.text
        return [one["name"] for one in answer.json()]

    assert await found(q="DEV.corp") == ["git"]
    assert await found(q="wik") == ["wiki"]
    # SQL's wildcards are taken literally.
    assert await found(q="0%@") == ["git"]
    assert await found(q="_iki") == []
    assert await found(gateway="gw-berlin") == ["git", "wiki"]
    assert await found(gateway="gw-rome") == []
    assert await found(gateway="gw-berlin", q="git") == ["git"]
