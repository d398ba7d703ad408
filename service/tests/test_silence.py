"""Idle tunnels and silent devices are found by counters: the pure rule, then real gateways."""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path

import pytest
from culvert_lab.free_port import free_port
from culvert_proto import Reason
from culvert_service.tasks import Pace
from culvert_service.tunnels import silence
from culvert_service.tunnels.roaming import Peer
from culvert_service.tunnels.silence import ANSWER, IDLE_MARGIN, SILENCE, Carried, Counts, Silence, Verdicts

from .agreement import agreed
from .conftest import World, serving, until
from .gateway_process import Start, gateways, needs_root, unpack
from .sealed import esp
from .switch import Switch
from .wire import Wires, frame, next_udp, udp

TUNNEL, DEVICE = uuid.UUID(int=1), uuid.UUID(int=2)
IDLE = 100
# SA 1 to the gateway, SA 2 to the device.
CARRIED = {sa: Carried(TUNNEL, DEVICE, 1, IDLE) for sa in (1, 2)}
QUIET, ASK = Verdicts(), Verdicts(ask=frozenset({TUNNEL}))
CLOSE_IDLE, CLOSE_SILENT = Verdicts(idle=frozenset({TUNNEL})), Verdicts(silent=frozenset({TUNNEL}))


def counts(heard: int, sent: int) -> Counts:
    return Counts({1: heard}, {2: sent})


def test_only_a_tunnel_without_packets_becomes_idle() -> None:
    watched = Silence()
    assert watched.look(counts(5, 5), CARRIED, 0.0) == QUIET
    assert watched.look(counts(6, 5), CARRIED, 90.0) == QUIET
    assert watched.look(counts(6, 5), CARRIED, 90.0 + IDLE + IDLE_MARGIN - 1) == QUIET
    assert watched.look(counts(6, 5), CARRIED, 90.0 + IDLE + IDLE_MARGIN) == CLOSE_IDLE


def test_a_silent_device_is_asked_and_then_its_tunnel_is_closed() -> None:
    watched = Silence()
    watched.look(counts(5, 5), CARRIED, 0.0)
    assert watched.look(counts(5, 6), CARRIED, 1.0) == QUIET
    assert watched.look(counts(5, 7), CARRIED, SILENCE) == QUIET
    assert watched.look(counts(5, 8), CARRIED, 1.0 + SILENCE) == ASK
    assert watched.look(counts(5, 9), CARRIED, 2.0 + SILENCE) == QUIET
    assert watched.look(counts(5, 9), CARRIED, 1.0 + SILENCE + ANSWER) == CLOSE_SILENT


@pytest.mark.parametrize("late", [1.0, SILENCE - 1])
def test_a_device_that_is_heard_in_time_lives(late: float) -> None:
    watched = Silence()
    watched.look(counts(0, 0), CARRIED, 0.0)
    watched.look(counts(0, 1), CARRIED, 1.0)
    assert watched.look(counts(1, 1), CARRIED, 1.0 + late) == QUIET
    assert watched.look(counts(1, 1), CARRIED, 50.0) == QUIET


def test_a_device_that_only_listens_is_asked_less_and_less_often() -> None:
    watched, carried = Silence(), dict(CARRIED)
    asked: list[float] = []
    watched.look(Counts({1: 0}, {2: 0}), carried, 0.0)
    for now in range(1, 400):
        newest = max(carried)
        heard, sealed = {1: 0, newest - 1: 0}, {newest: now}
        found = watched.look(Counts(heard, sealed), carried, float(now))
        assert not found.silent
        if found.ask:
            # The device opens the tunnel again: a new SA pair.
            asked.append(now)
            carried |= {sa: Carried(TUNNEL, DEVICE, len(asked) + 1, IDLE) for sa in (newest + 1, newest + 2)}
    waits = [later - earlier for earlier, later in zip([0.0, *asked], asked, strict=False)]
    assert len(asked) == 3
    assert waits == sorted(waits)
    assert waits[1] > 1.8 * waits[0]


def test_unknown_counters_count_for_nothing_and_gone_tunnels_are_removed() -> None:
    watched = Silence()
    assert watched.look(counts(5, 5), {}, 0.0) == QUIET
    assert watched.look(counts(5, 5), CARRIED, 1000.0) == QUIET
    assert watched.look(Counts({}, {}), {}, 1001.0) == QUIET
    assert watched.look(counts(5, 5), CARRIED, 2000.0) == QUIET


async def tunnels(world: World) -> list[dict[str, object]]:
    return list(await world.rest("GET", "/tunnels"))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds are short here."""
    monkeypatch.setattr(silence, "IDLE_MARGIN", 0.0)
    monkeypatch.setattr(silence, "SILENCE", 1.0)
    monkeypatch.setattr(silence, "ANSWER", 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
async def test_a_silent_device_that_does_not_call_loses_its_tunnel(world: World, switch: Switch) -> None:
    device = await world.enrol()
    await device.prove()
    opened = await device.open()
    events, kinds = device.watch(), list[str]()
    async for event in events:
        kinds.append(str(event.WhichOneof("event")))
        if event.HasField("gateway_moved"):
            assert event.gateway_moved.tunnel_id == opened.tunnel.tunnel_id
            assert event.gateway_moved.why.reason == int(Reason.PEER_SILENT)
        elif event.HasField("tunnel_closed"):
            assert event.tunnel_closed.why.reason == int(Reason.PEER_SILENT)
            break
        switch.hit("sad_out")
    assert kinds[-2:] == ["gateway_moved", "tunnel_closed"]
    assert await tunnels(world) == []
    (line,) = await world.rest("GET", "/audit?action=tunnel.close")
    assert (line["actor_kind"], line["reason"]) == ("system", "PEER_SILENT")


def test_looks_take_their_share_of_the_time_and_a_stall_is_no_look() -> None:
    pace = Pace(20)
    assert [pace.rest_after(took) for took in (0.1, 0.1, 8.0, 0.1, 0.5, 0.5)] == [0, 2, 2, 2, 2, 10]


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
async def test_a_gateway_that_hangs_does_not_pause_the_idle_close_of_others(
    world: World, switch: Switch
) -> None:
    other, port = Switch(), free_port()
    await world.add_gateway("gw-paris", port, 2)
    async with serving(world, other, "gw-paris", port):
        await world.online("gw-paris")
        device = await world.enrol()
        await device.prove()
        await world.add_resource("git", ["gw-berlin"], address="10.20.0.10", idle_seconds=3)
        await device.open("git.corp.example")
        other.silent = True
        await world.online("gw-paris", wanted="offline")
        other.silent = False
        await until(lambda: tunnels(world), lambda open_ones: open_ones == [], 20)


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
@needs_root
@pytest.mark.parametrize("start", gateways())
async def test_only_authenticated_packets_keep_a_tunnel_open(
    world: World, wires: Wires, tmp_path: Path, start: Start
) -> None:
    port = free_port()
    await world.add_gateway("gw-berlin", port)
    await world.add_wiki(["gw-berlin"], idle_seconds=2)
    unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
    here, gateway = Peer("203.0.113.10", 4500), Peer("198.51.100.1", 4500)
    inner, wiki = Peer("10.99.1.1", 40000), Peer("10.20.0.10", 80)
    async with start(tmp_path / "gateway", wires.names, port):
        await world.online("gw-berlin")
        device = await world.enrol()
        await device.prove()
        sas = (await device.open()).sas
        for number in range(1, 13):
            packet = esp(sas.outbound, number, udp(inner, wiki, b"asks"))
            await wires.send(wires.wan, frame("02:00:00:00:01:01", udp(here, gateway, packet)))
            assert (await next_udp(wires.lan))[1] == b"asks"
            await asyncio.sleep(0.4)
            assert len(await tunnels(world)) == 1
        began = time.monotonic()
        for number in range(13, 100):
            packet = esp(sas.outbound, number, udp(inner, wiki, b"asks"))
            forged = packet[:-1] + bytes([packet[-1] ^ 1])
            await wires.send(wires.wan, frame("02:00:00:00:01:01", udp(here, gateway, forged)))
            await asyncio.sleep(0.2)
            if not await tunnels(world):
                break
        assert time.monotonic() - began >= 1.5
        entries = lambda: world.rest("GET", "/gateways/gw-berlin/entries")  # noqa: E731
        await until(entries, lambda found: found["tunnel_entries"] == 0)
    (line,) = await world.rest("GET", "/audit?action=tunnel.close")
    assert line["reason"] == "CLOSED_IDLE"


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
@needs_root
@pytest.mark.parametrize("start", gateways())
async def test_a_peer_whose_counters_stand_still_while_it_is_sent_to_is_dead(
    world: World, wires: Wires, tmp_path: Path, start: Start
) -> None:
    port = free_port()
    await world.add_gateway("gw-berlin", port)
    await world.add_wiki(["gw-berlin"])
    unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
    inner, wiki = Peer("10.99.1.1", 40000), Peer("10.20.0.10", 80)
    async with start(tmp_path / "gateway", wires.names, port):
        await world.online("gw-berlin")
        device = await world.enrol()
        await device.prove()
        opened = await device.open()
        events, kinds = device.watch(), list[str]()

        async def send() -> None:
            while True:
                await wires.send(wires.lan, frame("02:00:00:00:02:01", udp(wiki, inner, b"says")))
                await asyncio.sleep(0.1)

        sending = asyncio.create_task(send())
        async for event in events:
            kinds.append(str(event.WhichOneof("event")))
            if event.HasField("tunnel_closed"):
                closed = event.tunnel_closed
                assert (closed.tunnel_id, closed.why.reason) == (
                    opened.tunnel.tunnel_id,
                    int(Reason.PEER_SILENT),
                )
                break
        sending.cancel()
        assert kinds[-2:] == ["gateway_moved", "tunnel_closed"]
        await agreed(world, ())
