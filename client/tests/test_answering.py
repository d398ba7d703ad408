"""A tunnel whose gateway does not answer: never shown as open, and open again by itself."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

import pytest
from culvert_client import answering
from culvert_client.answering import Answering
from culvert_client.cli import words
from culvert_client.core.client_events import (
    Call,
    CallEnded,
    GatewaysAsked,
    Measured,
    Moved,
    OpenRequested,
    PathsMeasured,
    ProfileReceived,
    Settle,
)
from culvert_client.core.grant import Probe, TunnelId, Usage
from culvert_client.core.tunnel import events as on
from culvert_client.core.tunnel.events import RequestId
from culvert_client.core.tunnel.states import ANSWER_DUE
from culvert_client.ping import PATIENCE
from culvert_proto import CulvertError, Reason, agent_pb2, local_pb2

from .controller import CODE
from .granted import PROFILE, WIKI, WIKI_ADDRESS, pair, tunnel
from .test_daemon import Lab, refused
from .world import EPOCH, World

BERLIN = frozenset({"gw-berlin"})
NONE = frozenset[str]()


def opened() -> World:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    return world


def counted(world: World, packets_in: int, packets_out: int, *, sent_last: bool = False) -> None:
    usage = Usage(packets_in, packets_out, sent_last=sent_last)
    world.post(Measured({TunnelId("t1"): usage}, {}, {}))


def shown(world: World) -> tuple[int, int, int]:
    status = world.status()
    return status.state, status.tunnels[0].state, status.last_error.reason


UP = (local_pb2.STATE_CONNECTED, local_pb2.TUNNEL_STATE_UP, 0)
NARROW = (local_pb2.STATE_PATH_NARROW, local_pb2.TUNNEL_STATE_NARROW, Reason.PATH_NARROW)
SILENT = (local_pb2.STATE_GATEWAY_SILENT, local_pb2.TUNNEL_STATE_SILENT, Reason.GATEWAY_SILENT)


def test_a_gateway_is_doubtful_while_an_answer_is_overdue() -> None:
    world = opened()
    assert world.client.doubtful_gateways(world.now) == NONE
    counted(world, 0, 1)
    assert world.client.doubtful_gateways(world.now) == NONE
    world.now += ANSWER_DUE
    counted(world, 0, 2)
    assert world.client.doubtful_gateways(world.now) == BERLIN
    counted(world, 1, 3)
    assert world.client.doubtful_gateways(world.now) == NONE


def test_a_packet_sent_after_the_last_answer_needs_an_answer() -> None:
    world = opened()
    for number, sent_last in enumerate((True, False, True), start=1):
        counted(world, number, number, sent_last=sent_last)
        world.now += ANSWER_DUE
        counted(world, number, number, sent_last=sent_last)
        assert world.client.doubtful_gateways(world.now) == (BERLIN if sent_last else NONE)


def test_a_gateway_offline_at_the_controller_is_in_doubt_until_probed() -> None:
    world = opened()
    away = replace(PROFILE.gateways[0], online=False)
    world.post(ProfileReceived(replace(PROFILE, gateways=(away,))))
    assert world.client.doubtful_gateways(world.now) == BERLIN
    assert shown(world) == UP


@pytest.mark.parametrize("how", ["a ping", "a packet", "another network"])
def test_a_silent_gateway_is_shown_until_it_answers(how: str) -> None:
    world = opened()
    counted(world, 5, 5)
    heard_at = world.now
    world.now += 3
    world.post(GatewaysAsked(NONE, BERLIN))
    assert shown(world) == SILENT
    assert world.status().tunnels[0].heard_ms == round((EPOCH + heard_at) * 1e3)
    world.now += 1
    counted(world, 5, 9)
    assert shown(world) == SILENT
    world.post(OpenRequested(RequestId(7), "wiki"))
    [settle] = world.take(Settle)
    assert settle.error is not None
    assert settle.error.reason is Reason.GATEWAY_SILENT
    world.now += 1
    match how:
        case "a ping":
            world.post(GatewaysAsked(BERLIN, NONE))
        case "a packet":
            counted(world, 6, 9)
        case _:
            world.post(Moved())
    assert shown(world) == UP


def test_a_path_for_small_packets_alone_is_never_shown_as_open(capsys: pytest.CaptureFixture[str]) -> None:
    world, outer = opened(), tunnel().outer_address
    up = shown(world)
    world.post(PathsMeasured({outer: 1280}, frozenset({outer})))
    assert shown(world) == NARROW
    words.say_status(world.status())
    said = capsys.readouterr()
    assert "● Only small packets reach the gateway" in said.out
    assert "only small packets pass" in said.out
    assert "does not answer" not in said.out + said.err
    world.post(OpenRequested(RequestId(7), "wiki"))
    [settle] = world.take(Settle)
    assert settle.error is not None
    assert settle.error.reason is Reason.PATH_NARROW
    world.post(GatewaysAsked(NONE, BERLIN))
    assert shown(world) == SILENT
    world.post(GatewaysAsked(BERLIN, NONE))
    assert shown(world) == NARROW
    world.post(PathsMeasured({outer: 1400}, frozenset()))
    assert shown(world) == up


def test_a_tunnel_takes_no_longer_packets_than_its_path() -> None:
    world, outer = opened(), tunnel().outer_address
    for path, inner in ((1280, 1218), (1400, 1338), (1500, 1438), (9000, 1438)):
        world.post(PathsMeasured({outer: path}, frozenset()))
        client = world.client
        desired = client._desired.of(client.machines, client.profile, client.gateway, client.path_mtus)  # pyright: ignore[reportPrivateUsage]
        assert [it.tunnel.mtu for it in desired.tunnels] == [inner]


def test_a_new_tunnel_is_not_silent_from_the_old_ones_verdict() -> None:
    world = opened()
    world.post(GatewaysAsked(NONE, BERLIN))
    world.post(on.ClosedByController(TunnelId("t1"), CulvertError(Reason.SA_LOST, gateway="gw-berlin")))
    world.ask(2, WIKI_ADDRESS)
    world.open()
    assert shown(world) == UP


def probed() -> World:
    """A new tunnel of a gateway that answers probes."""
    world = World()
    open_probed(world, 1, WIKI, "t1")
    return world


def open_probed(world: World, query: int, fqdn: str, tunnel_id: str) -> None:
    world.ask(query, WIKI_ADDRESS, fqdn=fqdn)
    [call] = world.take(Call)
    probe = Probe(WIKI_ADDRESS, ip_address("10.20.0.1"))
    granted = replace(tunnel(tunnel_id, fqdn, idle=300.0), probe=probe)
    world.post(CallEnded(fqdn, on.TunnelOpened(call.command.call, granted, pair(query))))
    world.settle_datapath()


OPENING = (local_pb2.STATE_CONNECTING, local_pb2.TUNNEL_STATE_OPENING, 0)
BLOCKED = (local_pb2.STATE_GATEWAY_SILENT, local_pb2.TUNNEL_STATE_SILENT, Reason.TUNNEL_BLOCKED)


def test_a_tunnel_is_not_up_before_a_packet_has_come_through_it() -> None:
    world = probed()
    assert world.verdicts() == {1: None}, "nobody waits for that"
    assert shown(world) == OPENING
    assert world.client.doubtful_gateways(world.now) == BERLIN
    counted(world, 0, 1)
    assert shown(world) == OPENING
    counted(world, 1, 1)
    assert shown(world) == UP
    world.now += 1000
    assert world.client.doubtful_gateways(world.now) == NONE, "it is idle"


def test_a_tunnel_whose_packets_another_one_carries_is_proven_by_that_one() -> None:
    world = probed()
    counted(world, 1, 1)
    world.now += 1
    open_probed(world, 2, "git.corp.example", "t2")
    assert [it.state for it in world.status().tunnels] == [OPENING[1], UP[1]]
    world.now += 1
    # Both reach the same address, and the first tunnel has the higher precedence.
    counted(world, 2, 2)
    assert [it.state for it in world.status().tunnels] == [UP[1], UP[1]]
    assert world.client.doubtful_gateways(world.now) == NONE


def test_a_gateway_that_answers_pings_alone_is_told_from_one_that_is_gone() -> None:
    world = probed()
    world.post(GatewaysAsked(NONE, BERLIN, pinged=BERLIN))
    assert shown(world) == BLOCKED
    assert world.status().last_error.fields["port"] == "4500"
    world.post(GatewaysAsked(NONE, BERLIN))
    assert shown(world) == SILENT
    world.now += 1
    counted(world, 1, 1)
    assert shown(world) == UP


@pytest.mark.parametrize("comes", [True, False])
async def test_a_packet_that_comes_during_the_pings_ends_the_silence(
    comes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a port that is blocked no longer; the stale verdict would last until the next probe."""
    world, packets_in = probed(), 0

    class Tunnels:
        async def probe(self, targets: object) -> None:
            pass

        async def measure(self) -> None:
            world.now += PATIENCE
            counted(world, packets_in, 4)

    async def ping(_sockets: object, asked: set[object]) -> set[object]:
        nonlocal packets_in
        packets_in = int(comes)
        return asked

    def post(asked: GatewaysAsked) -> None:
        world.post(replace(asked, pinged=BERLIN))

    monkeypatch.setattr(answering, "ping", ping)
    monkeypatch.setattr(answering, "LOOK_FIRST", 0)
    asking = Answering(
        world.client, cast("Any", None), Tunnels(), post, lambda: world.now, str, cast("Any", None)
    )
    await asking.ask(BERLIN, through=False)
    assert shown(world) == (UP if comes else BLOCKED)


def test_unanswered_probes_do_not_keep_a_tunnel_open() -> None:
    world = probed()
    counted(world, 1, 1)
    world.post(GatewaysAsked(NONE, BERLIN))
    for packets_out in range(2, 200):
        world.now += 2
        counted(world, 1, packets_out)
        world.post(on.Tick())
    [call] = world.take(Call)
    assert isinstance(call.command, on.CloseTunnel)
    assert call.command.reason is Reason.CLOSED_IDLE


def test_only_the_tunnel_that_carries_packets_becomes_silent() -> None:
    world = opened()
    world.ask(2, WIKI_ADDRESS, fqdn="git.corp.example")
    [call] = world.take(Call)
    other = replace(tunnel("t2", "git.corp.example"), gateway="gw-paris")
    world.post(CallEnded("git.corp.example", on.TunnelOpened(call.command.call, other, pair(2))))
    world.settle_datapath()
    world.post(GatewaysAsked(NONE, BERLIN))
    states = {it.fqdn: it.state for it in world.status().tunnels}
    assert states == {WIKI: local_pb2.TUNNEL_STATE_SILENT, "git.corp.example": local_pb2.TUNNEL_STATE_UP}
    assert world.status().state == local_pb2.STATE_CONNECTED


@contextmanager
def gone(address: str) -> Generator[None]:
    """For the block, this address of the loopback interface answers no ping."""
    subprocess.run(["ip", "address", "delete", f"{address}/32", "dev", "lo"], check=True)
    subprocess.run(["ip", "route", "add", "blackhole", f"{address}/32"], check=True)
    try:
        yield
    finally:
        subprocess.run(["ip", "route", "delete", "blackhole", f"{address}/32"], check=True)
        subprocess.run(["ip", "address", "replace", f"{address}/32", "dev", "lo"], check=True)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="raw sockets need root")
@pytest.mark.parametrize("tells", [True, False])
async def test_an_open_tunnel_of_a_lost_gateway_is_refused_and_comes_back(
    tmp_path: Path, gateway_address: str, tells: bool
) -> None:
    """`tells`: the controller says that the gateway is offline, or has not noticed."""
    lab = Lab(tmp_path)
    gateway = lab.controller.profile.gateways[0]
    gateway.address = lab.controller.outer_address = gateway_address
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        await daemon.until(lambda it: it.state == local_pb2.STATE_READY)
        async with asyncio.timeout(30):
            while not any(it.rtt_us for it in (await daemon.status()).gateways):  # noqa: ASYNC110  nothing tells of it
                await asyncio.sleep(0.05)
        wiki = local_pb2.OpenTunnelRequest(name="wiki")
        await daemon.local.OpenTunnel(wiki)
        await daemon.until(lambda it: it.state == local_pb2.STATE_CONNECTED)
        with gone(gateway_address):
            if tells:
                gateway.online = False
                controller.tell(agent_pb2.WatchResponse(profile=controller.profile))
                # Without anybody's asking.
                await daemon.until(lambda it: it.state == local_pb2.STATE_GATEWAY_SILENT)
            error = await refused(daemon.local.OpenTunnel(wiki))
            assert error.reason is Reason.GATEWAY_SILENT
            assert error.fields["gateway"] == "gw-berlin"
            status = await daemon.status()
            assert status.state == local_pb2.STATE_GATEWAY_SILENT
            assert status.last_error.reason == Reason.GATEWAY_SILENT
        back = await daemon.until(lambda it: it.state == local_pb2.STATE_CONNECTED)
        assert not back.HasField("last_error")
        await daemon.local.OpenTunnel(wiki)


@pytest.mark.skipif(os.geteuid() != 0, reason="raw sockets need root")
async def test_a_gateway_in_doubt_keeps_no_other_one_waiting(
    tmp_path: Path, gateway_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first one is in doubt from then on, and is not asked again in this test.
    monkeypatch.setattr(answering, "EVERY", 3600.0)
    lab, git = Lab(tmp_path), "git.corp.example"
    profile = lab.controller.profile
    berlin, paris = (
        profile.gateways[0],
        profile.gateways.add(name="gw-paris", address=gateway_address, online=True),
    )
    berlin.address = lab.controller.outer_address = gateway_address
    profile.resources.add(name="git", fqdn=git, addresses=["10.20.0.11"])
    lab.controller.prefixes_of[git] = ["10.20.0.11/32"]
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        await daemon.local.OpenTunnel(local_pb2.OpenTunnelRequest(name="wiki"))
        berlin.online = False
        controller.tell(agent_pb2.WatchResponse(profile=profile))
        await daemon.until(lambda it: not it.gateways[0].online)
        # The controller gives tunnels the first gateway in its list.
        told = agent_pb2.Profile()
        told.CopyFrom(profile)
        berlin.name, berlin.online = paris.name, True
        await daemon.local.OpenTunnel(local_pb2.OpenTunnelRequest(name="git"))
        with gone(gateway_address):
            told.gateways[1].online = False
            controller.tell(agent_pb2.WatchResponse(profile=told))
            silent = await daemon.until(
                lambda it: (
                    [one.state for one in it.tunnels if one.fqdn == git] == [local_pb2.TUNNEL_STATE_SILENT]
                )
            )
        assert {one.fqdn: one.gateway for one in silent.tunnels} == {WIKI: "gw-berlin", git: "gw-paris"}
