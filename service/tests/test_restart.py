"""The controller stops and starts again under traffic: the gateway carries every packet, as if nothing had happened.

device's ESP ─── wan ─[ sluice ]─ lan ─── 10.20.0.10
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from culvert_lab.free_port import free_port
from culvert_proto import agent_pb2, agent_pb2_grpc
from culvert_service.tunnels.roaming import Peer

from .conftest import World, running, settings_in, until
from .gateway_process import needs_root, sluice, unpack
from .sealed import esp
from .wire import Wires, frame, next_udp, udp

pytestmark = [
    pytest.mark.slow,
    needs_root,
]

DEVICE, GATEWAY = Peer("203.0.113.10", 4500), Peer("198.51.100.1", 4500)
INNER, WIKI = Peer("10.99.1.1", 40000), Peer("10.20.0.10", 80)
WAN, LAN = "02:00:00:00:01:01", "02:00:00:00:02:01"


async def exchange(wires: Wires, sas: agent_pb2.SaPair, enough: asyncio.Event) -> int:
    """Question and answer, one after the other; how many. Fails at the first that is lost."""
    for number in itertools.count(1):
        asks = number.to_bytes(4)
        packet = esp(sas.outbound, number, udp(INNER, WIKI, asks))
        await wires.send(wires.wan, frame(WAN, udp(DEVICE, GATEWAY, packet)))
        assert (await next_udp(wires.lan))[1] == asks
        await wires.send(wires.lan, frame(LAN, udp(WIKI, INNER, b"says")))
        where, sealed = await next_udp(wires.wan)
        assert (where, int.from_bytes(sealed[4:8])) == (DEVICE, number)
        if enough.is_set():
            return number
        await asyncio.sleep(0.005)
    raise AssertionError("there are always more numbers")


async def entries_of(world: World) -> list[dict[str, Any]]:
    """Without what counts packets."""
    found = await world.rest("GET", "/gateways/gw-berlin/entries")
    return [entry | {"packets": None, "bytes": None} for entry in found["entries"]]


async def test_no_packet_is_lost_while_the_controller_is_replaced(
    wires: Wires, tmp_path: Path, database_url: str
) -> None:
    settings, port, enough = settings_in(tmp_path, database_url=database_url), free_port(), asyncio.Event()
    async with running(settings) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        await world.add_gateway("gw-berlin", port)
        await world.add_wiki(["gw-berlin"])
        unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
        # Stays up when this controller ends.
        gateway = sluice(tmp_path / "gateway", wires.names, port)
        await gateway.__aenter__()
        await world.online("gw-berlin")
        device = await world.enrol()
        await device.prove()
        opened = await device.open()
        traffic = asyncio.create_task(exchange(wires, opened.sas, enough))
        # The device's calls come from another address than its packets.
        await until(
            lambda: world.rest("GET", "/tunnels"), lambda found: found[0]["peer_address"] == DEVICE.address
        )
        entries = await entries_of(world)
    try:
        async with running(settings) as world:
            await world.online("gw-berlin")
            assert await entries_of(world) == entries
            [tunnel] = await world.rest("GET", "/tunnels")
            assert tunnel["id"] == opened.tunnel.tunnel_id
            enough.set()
            assert await traffic > 10
            async with grpc.aio.secure_channel(settings.agent_address, device.credentials) as channel:
                device.stub = agent_pb2_grpc.AgentServiceStub(channel)
                renewed = await device.renew(opened.tunnel.tunnel_id, opened.sas.generation)
                assert renewed.generation == opened.sas.generation + 1
    finally:
        traffic.cancel()
        await gateway.__aexit__(None, None, None)
