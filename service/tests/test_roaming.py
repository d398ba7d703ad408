"""A device that moves: on a switch that says so as told, and on the real ones, which follow real ESP.

device's ESP, anywhere ─── wan ─[ sluice, bmv2 ]─ lan ─── 10.20.0.10
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from culvert_lab.free_port import free_port
from culvert_service.gateways import mapped
from culvert_service.tunnels.roaming import Newest, Peer

from .conftest import Device, World, until
from .gateway_process import Start, gateways, needs_root, unpack
from .sealed import esp
from .switch import Switch
from .wire import Wires, frame, next_udp, udp

HERE, THERE = Peer("203.0.113.10", 4500), Peer("203.0.113.77", 61000)


def test_the_newest_move_counts_and_a_single_one_is_written() -> None:
    newest, sa = Newest(), (1, 7)
    assert newest.hear(sa, HERE)
    assert newest.take(sa) == HERE
    assert not newest.hear(sa, HERE)
    assert not newest.hear(sa, THERE)
    assert newest.hear((1, 8), HERE)
    assert newest.take(sa) == THERE
    assert newest.take(sa) is None
    assert newest.hear(sa, HERE)


async def seals(world: World) -> list[dict[str, int]]:
    found = (await world.rest("GET", "/gateways/gw-berlin/entries"))["entries"]
    return [entry["match"] | entry["params"] for entry in found if entry["table"] == "sad_out"]


async def peers(world: World) -> list[Peer]:
    """As REST shows them, and as the gateway's entries say."""
    shown = [Peer(it["peer_address"], it["peer_port"]) for it in await world.rest("GET", "/tunnels")]
    return shown + [Peer(mapped.text(it["dst"]), it["dport"]) for it in await seals(world)]


def settled(peer: Peer) -> Callable[[list[Peer]], bool]:
    return lambda found: set(found) == {peer}


def wrapped_keys(switch: Switch) -> set[bytes]:
    """The longest parameter of each sad_out entry."""
    entries = [entry for entry in switch.entries.values() if entry.table_id == switch.table("sad_out")]
    return {max((param.value for param in entry.action.action.params), key=len) for entry in entries}


@pytest.fixture
async def device(world: World) -> Device:
    device = await world.enrol()
    await device.prove()
    return device


@pytest.mark.slow
async def test_a_move_reaches_every_generation_and_is_acknowledged(
    world: World, switch: Switch, device: Device
) -> None:
    opened = await device.open()
    await device.renew(opened.tunnel.tunnel_id, 1)
    keys = wrapped_keys(switch)
    assert len(keys) == 2
    switch.digest("moved_t", (await seals(world))[0]["sa_id"], mapped.number(THERE.address), THERE.port, 0)
    await until(lambda: peers(world), settled(THERE))
    assert switch.acknowledged == 1
    assert wrapped_keys(switch) == keys


@pytest.mark.slow
async def test_only_opening_again_moves_a_tunnel_not_renewal_nor_old_packets(
    world: World, switch: Switch, device: Device
) -> None:
    opened = await device.open()
    (before,) = await seals(world)
    switch.digest("moved_t", before["sa_id"], mapped.number(THERE.address), THERE.port, 0)
    await until(lambda: peers(world), settled(THERE))
    renewed = await device.renew(opened.tunnel.tunnel_id, 1)
    await device.activate(opened.tunnel.tunnel_id, renewed.generation)
    assert set(await peers(world)) == {THERE}
    await device.open()
    after = [seal for seal in await seals(world) if seal["tag"] != before["tag"]]
    assert [Peer(mapped.text(it["dst"]), it["dport"]) for it in after] == [Peer("127.0.0.1", 4500)]
    assert {it["endpoint"] for it in await seals(world)} == {before["endpoint"]}
    # The gateway saw this address under the keys of before.
    switch.digest("moved_t", before["sa_id"], mapped.number(HERE.address), HERE.port, 0)
    await asyncio.sleep(0.5)
    (shown,) = await world.rest("GET", "/tunnels")
    assert shown["peer_address"] == "127.0.0.1"


@pytest.mark.slow
async def test_a_storm_of_moves_costs_few_writes_and_the_last_one_wins(
    world: World, switch: Switch, device: Device
) -> None:
    await device.open()
    (seal,) = await seals(world)
    written = len(switch.writes)
    for port in range(5000, 5400):
        switch.digest("moved_t", seal["sa_id"], mapped.number(THERE.address), port, 0)
    await until(lambda: peers(world), settled(Peer(THERE.address, 5399)))
    moves = [
        update
        for write in switch.writes[written:]
        for update in write.updates
        if update.entity.table_entry.table_id == switch.table("sad_out")
    ]
    assert 1 <= len(moves) <= 3
    assert switch.acknowledged == 400


@pytest.mark.slow
async def test_a_move_that_could_not_be_written_is_made_when_it_is_told_again(
    world: World, switch: Switch, device: Device
) -> None:
    await device.open()
    (seal,) = await seals(world)
    switch.digest("moved_t", seal["sa_id"] ^ 1, mapped.number(THERE.address), THERE.port, 0)
    switch.silent = True
    switch.digest("moved_t", seal["sa_id"], mapped.number(THERE.address), THERE.port, 0)
    await world.online("gw-berlin", wanted="offline")
    switch.silent = False
    await world.online("gw-berlin")
    assert THERE not in await peers(world)
    switch.digest("moved_t", seal["sa_id"], mapped.number(THERE.address), THERE.port, 0)
    await until(lambda: peers(world), settled(THERE))


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("start", gateways())
async def test_gateway_and_controller_follow_authenticated_packets_alone(
    world: World, device: Device, wires: Wires, tmp_path: Path, start: Start
) -> None:
    port = free_port()
    await world.add_gateway("gw-berlin", port)
    await world.add_wiki(["gw-berlin"])
    unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
    gateway, wan, lan = Peer("198.51.100.1", 4500), "02:00:00:00:01:01", "02:00:00:00:02:01"
    inner, wiki = Peer("10.99.1.1", 40000), Peer("10.20.0.10", 80)
    async with start(tmp_path / "gateway", wires.names, port):
        await world.online("gw-berlin")
        sas = (await device.open()).sas

        async def to_wiki(number: int, source: Peer, *, forged: bool = False) -> None:
            packet = esp(sas.outbound, number, udp(inner, wiki, b"asks"))
            if forged:
                packet = packet[:-1] + bytes([packet[-1] ^ 1])
            await wires.send(wires.wan, frame(wan, udp(source, gateway, packet)))

        async def back(number: int) -> Peer:
            """The endpoint that the gateway sends the wiki's answer to; its ESP sequence numbers never start again."""
            await wires.send(wires.lan, frame(lan, udp(wiki, inner, b"says")))
            where, packet = await next_udp(wires.wan)
            assert int.from_bytes(packet[4:8]) == number
            return where

        await to_wiki(1, THERE)
        assert (await next_udp(wires.lan))[1] == b"asks"
        assert await back(1) == THERE
        await until(lambda: peers(world), settled(THERE))
        # Modified entries are the same SAs: keys, sequence numbers and replay window go on.
        assert await back(2) == THERE
        await to_wiki(1, HERE)
        await to_wiki(2, HERE, forged=True)
        await asyncio.sleep(0.2)
        assert await back(3) == THERE
        await to_wiki(3, HERE)
        assert (await next_udp(wires.lan))[1] == b"asks"
        assert await back(4) == HERE
        await until(lambda: peers(world), settled(HERE))
        assert await back(5) == HERE
