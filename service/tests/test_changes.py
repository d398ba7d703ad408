"""Gateways and resources changed in their place: what fits goes on, what does not is closed, nothing keeps old entries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
from culvert_lab.free_port import free_port
from culvert_proto import Reason, agent_pb2
from culvert_proto.contract import Suite
from culvert_service.gateways.schemas import GatewayIn
from culvert_service.resources.schemas import ResourceIn
from culvert_service.tunnels.inner_addresses import assign_address
from culvert_service.tunnels.pool import Inner
from sqlalchemy import text

from .conftest import Device, World, next_event, refused, until
from .switch import Switch
from .test_versions import etag, refusal

WIKI, GIT = "wiki.corp.example", "git.corp.example"
NEIGHBOURS = {"10.20.0.10": "02:00:00:00:02:10", "10.20.0.11": "02:00:00:00:02:11"}


def test_addresses_belong_to_the_pools_that_give_them() -> None:
    assert Inner("10.99.1.1").belongs("10.99.1.0/24", None)
    assert not Inner("10.99.1.1").belongs("10.99.2.0/24", None)
    assert not Inner("10.99.1.0").belongs("10.99.1.0/24", None)
    assert not Inner("10.99.1.127").belongs("10.99.1.0/25", None)
    assert not Inner("10.99.1.1").belongs("10.99.1.0/24", "fd00::/64")
    assert Inner("10.99.1.1", "fd00::1").belongs("10.99.1.0/24", "fd00::/64")
    assert not Inner("10.99.1.1", "fd00::1").belongs("10.99.1.0/24", None)


@pytest.fixture
async def device(world: World, switch: Switch) -> Device:
    device = await world.enrol()
    await device.prove()
    return device


async def put(world: World, path: str, **changes: object) -> httpx.Response:
    """PUT the row as it is, with these changes."""
    shown = await world.rest("GET", path)
    fields = (GatewayIn if path.startswith("/gateways") else ResourceIn).model_fields
    body = {name: value for name, value in shown.items() if name in fields} | changes
    return await world.admin.put(f"/api/v1{path}", json=body, headers={"If-Match": await etag(world, path)})


async def change(world: World, path: str, **changes: object) -> dict[str, Any]:
    answer = await put(world, path, **changes)
    assert answer.status_code == 200, answer.text
    if path.startswith("/gateways"):
        await world.online(path.rpartition("/")[2])
    return answer.json()


async def lan(world: World, **changes: object) -> dict[str, Any]:
    return (await world.rest("GET", "/gateways/gw-berlin"))["lan"] | changes


async def tunnels(world: World) -> list[str]:
    return [tunnel["fqdn"] for tunnel in await world.rest("GET", "/tunnels")]


async def tables(world: World) -> list[str]:
    """The table of each entry that tunnels have on gw-berlin."""
    found = (await world.rest("GET", "/gateways/gw-berlin/entries"))["entries"]
    return [one["table"] for one in found if one["table"].startswith(("sad", "spd"))]


async def told_outdated(events: AsyncGenerator[agent_pb2.WatchResponse], tunnel_id: str, what: str) -> None:
    closed = (await next_event(events, "tunnel_closed")).tunnel_closed
    assert (closed.tunnel_id, closed.why.reason) == (tunnel_id, int(Reason.TUNNEL_OUTDATED))
    assert what in closed.why.message


@pytest.mark.slow
async def test_a_gateway_gets_a_neighbour_and_keeps_its_tunnels(
    world: World, switch: Switch, device: Device
) -> None:
    opened = await device.open()
    before = await world.rest("GET", "/gateways/gw-berlin")
    await change(world, "/gateways/gw-berlin", lan=await lan(world, neighbours=NEIGHBOURS))
    await world.add_resource("git", ["gw-berlin"], address="10.20.0.11")
    await device.open(GIT)
    assert await tunnels(world) == [WIKI, GIT]
    await device.renew(opened.tunnel.tunnel_id, 1)
    after = await world.rest("GET", "/gateways/gw-berlin")
    assert after["drift"] == before["drift"]
    [line] = await world.rest("GET", "/audit?action=gateway.replace")
    assert (line["object"], line["details"]["suite"]) == ("gateway/gw-berlin", "aes-gcm-256")


@pytest.mark.slow
async def test_a_gateway_change_under_a_tunnel_ends_it_and_it_opens_anew(
    world: World, switch: Switch, device: Device
) -> None:
    events = device.watch()
    for changes in ({"address": "198.51.100.7"}, {"pool": "10.98.0.0/24"}, {"suite": "aes-gcm-128"}):
        opened = (await device.open()).tunnel
        await change(world, "/gateways/gw-berlin", **changes)
        await told_outdated(events, opened.tunnel_id, "the gateway gw-berlin")
        assert (await tunnels(world), await tables(world)) == ([], []), changes
    again = await device.open()
    assert (again.tunnel.outer_address, again.tunnel.inner_address) == ("198.51.100.7", "10.98.0.1")
    assert len(again.sas.inbound.key) == 20


@pytest.mark.slow
async def test_an_invalid_change_of_a_gateway_is_refused(world: World, switch: Switch) -> None:
    path, spare = "/gateways/gw-berlin", free_port()
    await world.add_gateway("gw-paris", spare, 2)
    cases: list[tuple[dict[str, object], tuple[int, str]]] = [
        ({"name": "gw-rome"}, (422, "REQUEST_INVALID")),
        ({"lan": await lan(world, neighbours={})}, (422, "REQUEST_INVALID")),
        ({"suite": Suite.NULL_HMAC_SHA_256_128.value}, (422, "SUITE_LEGACY")),
    ]
    taken: list[tuple[str, str]] = [("address", "198.51.100.2"), ("p4runtime", f"127.0.0.1:{spare}")]
    seen = await etag(world, path)
    for changes, answer in cases:
        assert refusal(await put(world, path, **changes)) == answer, changes
    for field, value in taken:
        answered = await put(world, path, **{field: value})
        assert refusal(answered) == (409, "ALREADY_EXISTS")
        assert [fault["pointer"] for fault in answered.json()["errors"]] == [f"/{field}"]
    assert await etag(world, path) == seen
    reserved = await world.admin.post(
        "/api/v1/gateway-enrolments", json={"gateway": "gw-paris", "pool": "10.98.0.0/24"}
    )
    assert [fault["pointer"] for fault in reserved.json()["errors"]] == ["/gateway"]
    assert (
        refusal(await put(world, "/gateways/gw-berlin", lan=await lan(world, neighbours={}))) == cases[1][1]
    )
    assert (await world.admin.put(f"/api/v1{path}", json={})).status_code == 422


@pytest.mark.slow
async def test_devices_can_reach_each_gateway_without_a_tunnel(world: World, switch: Switch) -> None:
    """They refuse a profile with a gateway inside of the protected prefixes."""
    path, protected = "/gateways/gw-berlin", "10.20.0.7"
    assert refusal(await put(world, path, public_address=protected)) == (422, "REQUEST_INVALID")
    answer = await put(world, path, address=protected)
    assert answer.json()["errors"][0]["pointer"] == "/address"
    await change(world, path, address=protected, public_address="203.0.113.7")
    with pytest.raises(AssertionError, match="protected prefixes"):
        await world.add_gateway("gw-paris", free_port(), 2, address=protected)


@pytest.mark.slow
async def test_a_gateway_is_deleted_when_nothing_uses_it(
    world: World, switch: Switch, device: Device
) -> None:
    await device.open()
    answer = await world.admin.delete("/api/v1/gateways/gw-berlin")
    assert refusal(answer) == (409, "GATEWAY_IN_USE")
    assert "it serves wiki and 1 of its tunnels are open" in answer.json()["detail"]
    await world.rest("DELETE", "/resources/wiki")
    stale = await world.admin.delete("/api/v1/gateways/gw-berlin", headers={"If-Match": '"0"'})
    assert refusal(stale) == (412, "VERSION_STALE")
    await world.rest("DELETE", "/gateways/gw-berlin")
    assert await world.rest("GET", "/gateways") == []
    assert (await refused(device.open())).reason is Reason.NAME_UNKNOWN
    assert refusal(await world.admin.get("/api/v1/gateways/gw-berlin")) == (404, "NOT_FOUND")
    # The same switch may be another gateway.
    await world.add_gateway("gw-berlin", free_port())


@pytest.mark.slow
async def test_a_resources_new_values_close_its_tunnels(world: World, switch: Switch, device: Device) -> None:
    events, name = device.watch(), WIKI
    for changes in (
        {"targets": [{"prefix": "10.20.0.10", "protocol": "tcp", "ports": [443]}]},
        {"suite": "aes-gcm-128"},
        {"rekey": {"soft_seconds": 60}},
        {"fqdn": "handbook.corp.example"},
    ):
        opened = (await device.open(name)).tunnel
        name = (await change(world, "/resources/wiki", **changes))["fqdn"]
        await told_outdated(events, opened.tunnel_id, "the resource wiki")
        assert (await tunnels(world), await tables(world)) == ([], []), changes
    await device.open(name)
    assert await tables(world) == ["sad_in", "sad_out", "spd_in", "spd_out", "spd_out"]


@pytest.mark.slow
async def test_an_unrelated_change_of_a_resource_keeps_its_tunnels(
    world: World, switch: Switch, device: Device
) -> None:
    await world.rest("POST", "/users", {"name": "bob", "email": "bob@corp.example"})
    await device.open()
    kept = await change(
        world, "/resources/wiki", owner="carol@corp.example", idle_seconds=600, users=["alice", "bob"]
    )
    assert (kept["owner"], kept["users"], await tunnels(world)) == (
        "carol@corp.example",
        ["alice", "bob"],
        [WIKI],
    )
    bobs = await world.enrol("bob")
    await bobs.prove()
    await bobs.open()
    await change(world, "/resources/wiki", users=["bob"])
    assert (await refused(device.open())).reason is Reason.NO_POLICY
    assert [one["user"] for one in await world.rest("GET", "/tunnels")] == ["bob"]
    assert [one["name"] for one in await world.rest("GET", "/policies")] == ["bob to wiki"]
    assert refusal(await put(world, "/resources/wiki", name="handbook")) == (422, "REQUEST_INVALID")
    assert refusal(await put(world, "/resources/wiki", address="10.20.9.9")) == (422, "REQUEST_INVALID")
    assert refusal(await put(world, "/resources/wiki", fqdn="wiki.example.net")) == (422, "REQUEST_INVALID")


@pytest.mark.slow
async def test_an_opening_that_has_read_what_was_before_begins_anew(
    world: World, switch: Switch, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(*arguments: Any) -> Any:
        told.set()
        await go_on.wait()
        return await assign_address(*arguments)

    # Between its look at the resource and its tunnel.
    monkeypatch.setattr("culvert_service.tunnels.opening.assign_address", slowly)
    opening = asyncio.create_task(device.open())
    await told.wait()
    try:
        await change(world, "/resources/wiki", suite="aes-gcm-128")
    finally:
        go_on.set()
    assert len((await opening).sas.inbound.key) == 20
    assert await tables(world) == ["sad_in", "sad_out", "spd_in", "spd_out", "spd_out"]


@pytest.mark.slow
async def test_a_change_reaches_devices_at_once(world: World, switch: Switch, device: Device) -> None:
    events = device.watch()
    await next_event(events, "profile")
    async with world.database() as session:
        before = await session.scalar(text("SELECT version FROM policy_version"))
    await change(world, "/resources/wiki", fqdn="handbook.corp.example")
    await until(
        lambda: next_event(events, "profile"),
        lambda event: [it.fqdn for it in event.profile.resources] == ["handbook.corp.example"],
    )
    async with world.database() as session:
        assert (await session.scalar(text("SELECT version FROM policy_version")) or 0) > (before or 0)
