"""Permitted addresses under a resource's name, as an administrator says it and as the gateway lets it pass.

device's ESP ─── wan ─[ sluice ]─ lan ─── 10.20.0.10, 10.20.0.11
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from culvert_db.published import hosts
from culvert_lab.free_port import free_port
from culvert_proto import agent_pb2
from culvert_service.gateways import mapped
from culvert_service.gateways.selector import Selector
from culvert_service.resources.schemas import ResourceIn
from culvert_service.resources.target import Target, selectors
from culvert_service.tunnels.roaming import Peer
from pydantic import ValidationError

from .conftest import Device, World
from .gateway_process import needs_root, sluice, unpack
from .sealed import esp, opened
from .switch import Switch
from .wire import Wires, frame, next_udp, udp

LAN: dict[str, Any] = {"port": 2, "mac": "02:00:00:00:02:01", "address": "10.20.0.1", "prefix": 16}
RESOURCE: dict[str, Any] = {"name": "wiki", "fqdn": "wiki.corp.example", "gateways": ["gw"], "owner": "bob"}


def test_a_target_is_spelled_in_one_way() -> None:
    target = Target.model_validate(
        {"prefix": "10.20.0.10", "protocol": "tcp", "ports": [443, "8000-8100", "9-9"]}
    )
    assert (target.prefix, target.ports) == ("10.20.0.10/32", ["443", "8000-8100", "9"])
    assert str(target) == "10.20.0.10/32:tcp/443,8000-8100,9"
    short = ResourceIn.model_validate(RESOURCE | {"address": "10.20.0.10"})
    assert short.targets == [Target(prefix="10.20.0.10")]
    assert str(short.targets[0]) == "10.20.0.10/32"
    assert short.targets[0].row() == {"prefix": "10.20.0.10/32"}


@pytest.mark.parametrize(
    "target",
    [
        {"prefix": "10.20.0.10/16"},
        {"prefix": "wiki"},
        {"prefix": "10.20.0.10", "ports": [443]},
        {"prefix": "10.20.0.10", "protocol": "icmp", "ports": [1]},
        {"prefix": "10.20.0.10", "protocol": "gre"},
        {"prefix": "10.20.0.10", "protocol": "tcp", "ports": [0]},
        {"prefix": "10.20.0.10", "protocol": "tcp", "ports": ["9-8"]},
        {"prefix": "10.20.0.10", "protocol": "tcp", "ports": ["65536"]},
        {"prefix": "10.20.0.10", "protocol": "tcp", "ports": ["٤٤٣"]},
    ],
)
def test_an_invalid_target_is_refused(target: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ResourceIn.model_validate(RESOURCE | {"targets": [target]})


def test_a_resource_has_targets_and_not_too_many() -> None:
    many = {"prefix": "10.20.0.10", "protocol": "tcp", "ports": list(range(1, 17))}
    assert len(ResourceIn.model_validate(RESOURCE | {"targets": [many] * 4}).targets) == 4
    for targets in ([], [many] * 5):
        with pytest.raises(ValidationError):
            ResourceIn.model_validate(RESOURCE | {"targets": targets})
    with pytest.raises(ValidationError):
        ResourceIn.model_validate(RESOURCE | {"address": "10.20.0.10", "targets": [many]})


def test_targets_become_selectors_once_each_and_name_their_hosts() -> None:
    rows = [
        {"prefix": "10.20.0.10/32", "protocol": "tcp", "ports": ["443", "8000-8100"]},
        {"prefix": "10.20.0.10/32", "protocol": "tcp", "ports": ["443"]},
        {"prefix": "10.20.8.0/24"},
    ]
    assert selectors(rows) == (
        Selector("10.20.0.10/32", 6, (443, 443)),
        Selector("10.20.0.10/32", 6, (8000, 8100)),
        Selector("10.20.8.0/24"),
    )
    assert list(map(str, hosts(rows))) == ["10.20.0.10"]


def test_a_selector_leaves_out_what_does_not_matter() -> None:
    near = (mapped.number("10.99.0.1"), mapped.HOST_MASK)
    lan = (mapped.number("10.20.0.0"), mapped.HOST_MASK - 0xFFFF)
    assert Selector("10.20.0.0/16").towards("10.99.0.1") == {"src": near, "dst": lan}
    narrow = Selector("10.20.0.0/16", 17, (53, 53))
    assert narrow.back_to("10.99.0.1") == {"src": lan, "dst": near, "protocol": (17, 0xFF), "sport": (53, 53)}


TARGETS = [
    {"prefix": "10.20.0.10", "protocol": "udp", "ports": [53, "8000-8100"]},
    {"prefix": "10.20.0.8/29", "protocol": "udp", "ports": [80]},
]


async def tables(world: World) -> list[str]:
    found = (await world.rest("GET", "/gateways/gw-berlin/entries"))["entries"]
    of_tunnels = ("sad_in", "spd_in", "spd_out", "sad_out")
    return sorted(entry["table"] for entry in found if entry["table"] in of_tunnels)


@pytest.mark.slow
async def test_each_selector_has_its_entries_through_a_tunnels_life(world: World, switch: Switch) -> None:
    await world.add_resource("dns", ["gw-berlin"], targets=TARGETS)
    device = await world.enrol()
    await device.prove()
    first = await device.open("dns.corp.example")
    assert list(first.tunnel.remote_prefixes) == ["10.20.0.10/32", "10.20.0.8/29"]
    told = [(it.prefix, it.protocol, it.first_port, it.last_port) for it in first.tunnel.selectors]
    host, lan = "10.20.0.10/32", "10.20.0.8/29"
    assert told == [(host, 17, 53, 53), (host, 17, 8000, 8100), (lan, 17, 80, 80)]
    pair, policy = ["sad_in", "sad_out", *["spd_in"] * 3], ["spd_out"] * 4
    assert await tables(world) == sorted(pair + policy)
    renewed = await device.renew(first.tunnel.tunnel_id, 1)
    await device.activate(first.tunnel.tunnel_id, renewed.generation)
    assert await tables(world) == sorted(pair * 2 + policy)
    await device.open("dns.corp.example")
    assert await tables(world) == sorted(pair * 3 + policy)
    await device.close(first.tunnel.tunnel_id)
    assert await tables(world) == []


@pytest.mark.slow
@needs_root
async def test_only_packets_of_the_targets_pass_either_way(
    world: World, wires: Wires, tmp_path: Path
) -> None:
    port = free_port()
    neighbours = {f"10.20.0.{n}": f"02:00:00:00:02:{n}" for n in (10, 11, 20)}
    await world.add_gateway("gw-berlin", port, lan=LAN | {"neighbours": neighbours})
    await world.add_resource("wiki", ["gw-berlin"], targets=TARGETS)
    async with through(world, wires, tmp_path, port) as device:
        inner = Peer("10.99.1.1", 40000)
        sas = (await device.open()).sas
        tries = [
            *[(Peer("10.20.0.10", port), True) for port in (53, 8000, 8100, 80)],
            *[(Peer("10.20.0.10", port), False) for port in (52, 7999, 8101, 443)],
            *[(Peer("10.20.0.11", 80), True), (Peer("10.20.0.11", 53), False)],
            *[(Peer("10.20.0.20", port), False) for port in (53, 80)],
        ]
        for number, (there, passes) in enumerate(tries, start=1):
            if not passes:
                await out(wires, sas, number, udp(inner, there, b"must not pass"))
                await wires.send(wires.lan, frame(LAN["mac"], udp(there, inner, b"must not pass")))
        for number, (there, passes) in enumerate(tries, start=1):
            if passes:
                await out(wires, sas, number, udp(inner, there, b"asks"))
                assert await next_udp(wires.lan) == (there, b"asks")
                await wires.send(wires.lan, frame(LAN["mac"], udp(there, inner, b"says")))
                _, packet = await next_udp(wires.wan)
                assert opened(sas.inbound, packet)[28:] == b"says"


@pytest.mark.slow
@needs_root
async def test_the_narrowest_of_overlapping_targets_carries_the_answer(
    world: World, wires: Wires, tmp_path: Path
) -> None:
    port = free_port()
    neighbours = {f"10.20.0.{n}": f"02:00:00:00:02:{n}" for n in (10, 20, 40)}
    await world.add_gateway("gw-berlin", port, lan=LAN | {"neighbours": neighbours})
    nested = {10: "10.20.0.8/29", 20: "10.20.0.0/27", 40: "10.20.0.0/26"}
    for host, prefix in nested.items():
        await world.add_resource(f"net{host}", ["gw-berlin"], targets=[{"prefix": prefix}])
    async with through(world, wires, tmp_path, port) as device:
        inner = Peer("10.99.1.1", 40000)
        # In either order, since later tunnels could simply win or lose.
        for order in (sorted(nested), sorted(nested, reverse=True)):
            sas = {host: (await device.open(f"net{host}.corp.example")).sas for host in order}
            for host in nested:
                await out(wires, sas[host], 1, udp(inner, Peer(f"10.20.0.{host}", 53), b"asks"))
                assert await next_udp(wires.lan) == (Peer(f"10.20.0.{host}", 53), b"asks")
                answer = udp(Peer(f"10.20.0.{host}", 53), inner, b"says")
                await wires.send(wires.lan, frame(LAN["mac"], answer))
                _, packet = await next_udp(wires.wan)
                assert opened(sas[host].inbound, packet)[28:] == b"says"


@pytest.mark.slow
@needs_root
async def test_a_network_behind_a_router_is_reached_through_it(
    world: World, wires: Wires, tmp_path: Path
) -> None:
    port, router = free_port(), "02:00:00:00:02:fe"
    lan = LAN | {"neighbours": {"10.20.0.254": router}, "routes": {"10.30.0.0/16": "10.20.0.254"}}
    await world.add_gateway("gw-berlin", port, lan=lan)
    await world.add_resource("wiki", ["gw-berlin"], targets=[{"prefix": "10.30.8.0/24"}])
    strange = {"name": "far", "fqdn": "far.corp.example", "gateways": ["gw-berlin"], "owner": "bob"}
    answer = await world.admin.post("/api/v1/resources", json=strange | {"address": "10.31.0.1"})
    assert answer.status_code == 422
    async with through(world, wires, tmp_path, port) as device:
        inner, there = Peer("10.99.1.1", 40000), Peer("10.30.8.5", 80)
        sas = (await device.open()).sas
        await out(wires, sas, 1, udp(inner, Peer("10.30.9.5", 80), b"must not pass"))
        await out(wires, sas, 2, udp(inner, there, b"asks"))
        async with asyncio.timeout(20):
            received = await asyncio.get_running_loop().sock_recv(wires.lan, 4096)
        assert (received[:6].hex(":"), received[42:46]) == (router, b"asks")
        await wires.send(wires.lan, frame(LAN["mac"], udp(there, inner, b"says")))
        _, packet = await next_udp(wires.wan)
        assert opened(sas.inbound, packet)[28:] == b"says"


@asynccontextmanager
async def through(world: World, wires: Wires, tmp_path: Path, port: int) -> AsyncGenerator[Device]:
    """A device that may open tunnels, with the gateway on its wires."""
    unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
    device = await world.enrol()
    await device.prove()
    async with sluice(tmp_path / "gateway", wires.names, port):
        await world.online("gw-berlin")
        yield device


async def out(wires: Wires, sas: agent_pb2.SaPair, number: int, inner: bytes) -> None:
    packet = esp(sas.outbound, number, inner)
    datagram = udp(Peer("203.0.113.10", 4500), Peer("198.51.100.1", 4500), packet)
    await wires.send(wires.wan, frame("02:00:00:00:01:01", datagram))
