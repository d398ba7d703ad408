"""Two gateways behind NATs, with one address of their own: devices and the other gateway send to the public one.

device         ┌─ 203.0.113.1 NAT 10.0.0.1 ── 10.0.0.4 gw-berlin ── host-a
203.0.113.10 ──┤
               └─ 203.0.113.2 NAT 10.0.0.1 ── 10.0.0.4 gw-paris ─── host-b
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from culvert_lab import netns
from culvert_service.tunnels.roaming import Peer

from . import two_sites
from .conftest import World, profile_that, until
from .gateway_process import needs_root
from .sealed import esp, opened
from .two_sites import BERLIN, NUMBERS, PARIS, Sites, described
from .wire import ip, udp

pytestmark = [pytest.mark.slow, needs_root]

OWN = dict.fromkeys(NUMBERS, "10.0.0.4")
PUBLIC = {BERLIN: "203.0.113.1", PARIS: "203.0.113.2"}
DEVICE = "203.0.113.10"
_RULES = """
add table ip nat
add chain ip nat in {{ type nat hook prerouting priority -100; }}
add rule ip nat in iifname outer udp dport 4500 dnat to 10.0.0.4
add chain ip nat out {{ type nat hook postrouting priority 100; }}
add rule ip nat out oifname outer snat to {public}
"""


async def _run(*command: str, says: str = "") -> None:
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
    await process.communicate(says.encode())
    assert process.returncode == 0, command


@asynccontextmanager
async def nats(sites: Sites) -> AsyncGenerator[None]:
    """A NAT before each gateway, in place of the wire between the two."""
    number = os.getpid() % 10**6
    spaces, bridge = {name: f"cvnat{which}-{number}" for name, which in NUMBERS.items()}, f"cvi{number}"
    await ip("link", "delete", sites.wires[BERLIN][0])
    await ip("link", "add", bridge, "type", "bridge")
    await ip("address", "add", f"{DEVICE}/24", "dev", bridge)
    await ip("link", "set", bridge, "up")
    try:
        for name, space in spaces.items():
            which, wan = NUMBERS[name], sites.wires[name][0]
            # The next hop of two_sites.register.
            mac = f"02:00:00:00:01:0{3 - which}"
            netns.create(space)
            await ip("link", "add", wan, "type", "veth", "peer", "name", "inner", "netns", space)
            await ip(
                "link", "add", f"cvo{which}{number}", "type", "veth", "peer", "name", "outer", "netns", space
            )
            await ip("link", "set", f"cvo{which}{number}", "master", bridge, "up")
            await ip("link", "set", wan, "up")
            inside = ("-n", space)
            await ip(*inside, "link", "set", "inner", "address", mac, "up")
            await ip(*inside, "link", "set", "outer", "up")
            await ip(*inside, "address", "add", "10.0.0.1/24", "dev", "inner")
            await ip(*inside, "address", "add", f"{PUBLIC[name]}/24", "dev", "outer")
            there = ("ip", "netns", "exec", space)
            await _run(*there, "sysctl", "-qw", "net.ipv4.ip_forward=1")
            await _run(*there, "nft", "-f", "-", says=_RULES.format(public=PUBLIC[name]))
        yield
    finally:
        for space in spaces.values():
            netns.delete(space)
        await ip("link", "delete", bridge)


async def test_devices_and_gateways_send_to_the_public_address(world: World, tmp_path: Path) -> None:
    async with two_sites.laid(tmp_path) as sites, nats(sites):
        await two_sites.register(world, tmp_path, sites, address=OWN, public_address=PUBLIC)
        await world.add_resource("wiki", [BERLIN], address=two_sites.host(BERLIN))
        async with sites.running(BERLIN, PARIS):
            await world.online(BERLIN)
            await world.rest("POST", "/site-tunnels", described())
            await until(
                lambda: world.rest("GET", "/site-tunnels/berlin-paris"), lambda it: it["state"] == "up"
            )
            assert await sites.ping(BERLIN)
            assert await sites.ping(PARIS)

            device = await world.enrol()
            await device.prove()
            profile = await profile_that(device.watch(), lambda it: bool(it.gateways))
            assert {it.name: it.address for it in profile.gateways} == PUBLIC
            granted = await device.open()
            assert granted.tunnel.outer_address == granted.tunnel.gateway.address == PUBLIC[BERLIN]
            await _reach_the_host(sites, granted)


async def _reach_the_host(sites: Sites, granted: Any) -> None:
    """One question of the device, and the host's answer, both through the NAT."""
    inner, host = Peer(granted.tunnel.inner_address, 40000), Peer(two_sites.host(BERLIN), 7)
    loop = asyncio.get_running_loop()
    inside = netns.Inside(sites.spaces[BERLIN])
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outer,
        inside.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM) as server,
    ):
        outer.bind((DEVICE, 0))
        server.bind((host.address, host.port))
        for end in (outer, server):
            end.setblocking(False)
        async with asyncio.timeout(20):
            packet = esp(granted.sas.outbound, 1, udp(inner, host, b"question"))
            await loop.sock_sendto(outer, packet, (granted.tunnel.outer_address, granted.tunnel.outer_port))
            question, asker = await loop.sock_recvfrom(server, 100)
            await loop.sock_sendto(server, b"answer", asker)
            sealed, sender = await loop.sock_recvfrom(outer, 2000)
    assert (question, sender) == (b"question", (PUBLIC[BERLIN], 4500))
    assert opened(granted.sas.inbound, sealed).endswith(b"answer")
