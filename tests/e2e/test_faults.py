"""Things that break under a running Culvert: what was up stays up, what fails says why, and a retry works."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import time
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from culvert_lab import laptop, parts, spare
from culvert_lab import topology as net
from culvert_lab.office import Office, open_office
from culvert_lab.topology import Site
from culvert_proto import Reason, local_pb2

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

REFUSED = 3
# Seconds without packets after which a tunnel is closed, where a test takes longer than the wiki's would last.
PATIENT = 300
# With IPv6 inside, too.
SETTINGS = {"CULVERT_PROTECTED_PREFIXES": f"{net.PROTECTED_PREFIX},{spare.PREFIX6}"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office() -> AsyncGenerator[Office]:
    async with open_office(settings=SETTINGS) as office:
        yield office


async def test_tampered_and_replayed_esp_is_dropped_and_the_tunnel_lives_on(office: Office) -> None:
    assert (await office.fetch()).code == 0
    again = asyncio.create_task(office.lab.inside(Site.INTERNET).run(_send_again, 5))
    arriving = asyncio.create_task(office.lab.inside(Site.INTRANET).run(_arrivals, 3.0))
    await asyncio.sleep(0.2)
    for _ in range(3):
        assert (await office.fetch()).code == 0
    assert await again == 5
    assert (await office.fetch()).code == 0
    frames = await arriving
    assert len(frames) > 10
    # IPv4 gives each packet another identification, so equal frames are one packet that came through twice.
    assert len(set(frames)) == len(frames), "a replayed packet came through"
    [tunnel] = (await laptop.status(office.lab)).tunnels
    assert tunnel.state == local_pb2.TUNNEL_STATE_UP


async def test_a_gateway_that_is_down_is_named_and_comes_back(office: Office) -> None:
    assert (await office.fetch()).code == 0
    await office.joined.gateway.stop()
    # At once, also where the controller has not missed it yet.
    silent = await office.culvert("open", f"wiki.{net.ZONE}")
    assert (silent.code, "gw-berlin does not answer" in silent.stderr) == (REFUSED, True), silent.stderr
    found = await laptop.status(office.lab)
    assert found.state == local_pb2.STATE_GATEWAY_SILENT
    assert [it.state for it in found.tunnels] == [local_pb2.TUNNEL_STATE_SILENT]
    assert found.last_error.reason == Reason.GATEWAY_SILENT
    await office.joined.admin.until("/gateways/gw-berlin", lambda it: it["state"] == "offline", "Offline", 10)
    refused = await office.culvert("open", await office.add_resource("git"))
    assert refused.code == REFUSED
    assert "The gateway gw-berlin cannot be reached." in refused.stderr
    assert not [each for each in await office.joined.admin.get("/tunnels") if each["fqdn"].startswith("git.")]

    office.joined = dataclasses.replace(
        office.joined, gateway=await parts.start_gateway(office.lab, "gateway-again")
    )
    await parts.gateway_online(office.joined.admin)
    opened = await office.culvert("open", f"git.{net.ZONE}")
    assert opened.code == 0, opened.stderr
    # The wiki's tunnel lost its keys with the gateway; the next click opens it anew.
    assert (await office.fetch()).code == 0
    found = await laptop.status(office.lab)
    assert (found.state, found.last_error.reason) == (local_pb2.STATE_CONNECTED, 0)


# A policy routing rule of the router drops what it selects.
ESP_IN_UDP = ("to", net.GATEWAY_ADDRESS, "ipproto", "udp", "dport", str(net.ESP_PORT))
PINGS = ("to", net.GATEWAY_ADDRESS, "ipproto", "icmp")


@contextlib.asynccontextmanager
async def blocked(office: Office, site: Site, *traffic: str) -> AsyncGenerator[None]:
    """For the block, the site drops this traffic: the router what passes, a host what it would send."""
    rules = ["ip", "-6" if any(":" in it for it in traffic) else "-4", "rule"]
    assert (await office.lab.run(site, [*rules, "add", *traffic, "blackhole"])).code == 0
    try:
        yield
    finally:
        await office.lab.run(site, [*rules, "delete", *traffic, "blackhole"])


async def _shown(
    office: Office, fqdn: str, state: local_pb2.TunnelState.ValueType, why: int | None = None
) -> local_pb2.Status:
    """The status as soon as the name's tunnel is in this state, for this reason if one is given.

    A busy switch may answer a ping too late, which counts as another reason until the next one, 2 s later.
    """
    async with asyncio.timeout(60):
        while True:
            found = await laptop.status(office.lab)
            states = [it.state for it in found.tunnels if it.fqdn == fqdn]
            if states == [state] and why in (None, found.last_error.reason):
                return found


async def test_a_blocked_port_is_told_from_a_gateway_that_is_down(
    office: Office,
) -> None:
    fqdn = await office.add_resource("blocked", idle_seconds=PATIENT)
    async with blocked(office, Site.INTERNET, *ESP_IN_UDP):
        silent = await office.culvert("open", fqdn)
        assert silent.code == REFUSED, silent
        assert "does not answer through the tunnel" in silent.stderr
        assert f"block UDP port {net.ESP_PORT} to {net.GATEWAY_ADDRESS}" in silent.stderr
        found = await _shown(office, fqdn, local_pb2.TUNNEL_STATE_SILENT, Reason.TUNNEL_BLOCKED)
        assert found.state == local_pb2.STATE_GATEWAY_SILENT
        assert "The gateway does not answer" in (await office.culvert("status")).stdout
        assert f"{fqdn} is open" not in (await office.culvert("log")).stdout
    back = await _shown(office, fqdn, local_pb2.TUNNEL_STATE_UP, 0)
    assert back.state == local_pb2.STATE_CONNECTED
    assert f"{fqdn} is open" in (await office.culvert("log")).stdout
    assert (await office.culvert("open", fqdn)).code == 0
    # While it is in use.
    assert (await office.fetch(fqdn)).code == 0
    async with blocked(office, Site.INTERNET, *ESP_IN_UDP):
        # Longer than between two looks at the counters, of which one may cover the page before, too.
        assert (await office.fetch(fqdn, seconds=5)).code != 0
        await _shown(office, fqdn, local_pb2.TUNNEL_STATE_SILENT, Reason.TUNNEL_BLOCKED)
    await _shown(office, fqdn, local_pb2.TUNNEL_STATE_UP)
    assert (await office.fetch(fqdn)).code == 0


async def test_a_silent_server_is_no_silent_gateway_where_pings_are_blocked(
    office: Office,
) -> None:
    fqdn = await office.add_resource("dead", idle_seconds=PATIENT)
    async with blocked(office, Site.INTERNET, *PINGS), blocked(office, Site.INTRANET, "to", net.INNER_POOL):
        opened = await office.culvert("open", fqdn)
        assert opened.code == 0, opened.stderr
        assert (await office.fetch(fqdn, seconds=5)).code != 0
        assert (await office.culvert("open", fqdn)).code == 0
        await _shown(office, fqdn, local_pb2.TUNNEL_STATE_UP)


async def test_a_gateway_is_proven_by_probes_over_ipv6(office: Office) -> None:
    paris = await spare.start(office.lab, office.joined.admin)
    fqdn = await spare.six(office.joined.admin, idle_seconds=PATIENT)
    while fqdn not in {it.fqdn for it in (await laptop.status(office.lab)).resources}:  # noqa: ASYNC110  nothing tells of it
        await asyncio.sleep(0.1)
    to_paris = ("to", spare.ADDRESS, "ipproto")
    # Neither a ping nor a host behind the gateway is answered.
    async with (
        blocked(office, Site.INTERNET, *to_paris, "icmp"),
        blocked(office, Site.INTRANET, "to", spare.POOL6),
    ):
        opened = await office.culvert("open", fqdn)
        assert opened.code == 0, opened.stderr
        found = await _shown(office, fqdn, local_pb2.TUNNEL_STATE_UP)
        assert next(it for it in found.tunnels if it.fqdn == fqdn).heard_ms
    async with blocked(office, Site.INTERNET, *to_paris, "udp", "dport", str(net.ESP_PORT)):
        silent = await office.culvert("open", fqdn)
        assert silent.code == REFUSED, silent
        assert f"The gateway {spare.NAME} does not answer through the tunnel" in silent.stderr
    await _shown(office, fqdn, local_pb2.TUNNEL_STATE_UP)
    assert (await office.culvert("open", fqdn)).code == 0
    assert (await office.culvert("close", fqdn)).code == 0
    await paris.stop()


async def test_tunnels_outlive_the_controller_and_new_ones_say_why_they_wait(office: Office) -> None:
    assert (await office.fetch()).code == 0
    keeping = asyncio.create_task(_keep_open(office, 6.0))
    await office.joined.controller.program.stop()
    refused = await office.culvert("open", f"docs.{net.ZONE}")
    assert refused.code == REFUSED
    assert "cannot be reached" in refused.stderr
    found = await laptop.status(office.lab)
    assert found.state == local_pb2.STATE_OFFLINE
    assert found.last_error.reason == Reason.CONTROLLER_UNREACHABLE
    await keeping

    controller = await parts.start_controller(office.lab, SETTINGS)
    office.joined = dataclasses.replace(office.joined, controller=controller)
    await parts.gateway_online(controller.admin)
    opened = await office.culvert("open", await office.add_resource("docs"))
    assert opened.code == 0, opened.stderr


async def _keep_open(office: Office, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert (await office.fetch()).code == 0
        await asyncio.sleep(0.3)


def _arrivals(seconds: float) -> list[bytes]:
    """On the web server: the TCP frames that the gateway forwards."""
    frames: list[bytes] = []
    deadline = time.monotonic() + seconds
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)) as wire:
        wire.bind(("eth0", 0))
        wire.settimeout(0.2)
        while time.monotonic() < deadline:
            try:
                frame, address = wire.recvfrom(4096)
            except TimeoutError:
                continue
            if (
                address[2] != socket.PACKET_OUTGOING
                and frame[12:14] == b"\x08\x00"
                and frame[23] == socket.IPPROTO_TCP
            ):
                frames.append(frame)
    return frames


def _send_again(count: int) -> int:
    """On the router: each of the next ESP packets to the gateway goes out twice more, once as it was, once forged."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)) as wire:
        wire.bind(("gateway", 0))
        wire.settimeout(10.0)
        done = 0
        while done < count:
            frame, address = wire.recvfrom(4096)
            if (
                address[2] == socket.PACKET_OUTGOING
                and frame[23] == socket.IPPROTO_UDP
                and frame[36:38] == b"\x11\x94"
            ):
                wire.send(frame)
                wire.send(frame[:-1] + bytes([frame[-1] ^ 1]))
                done += 1
    return done
