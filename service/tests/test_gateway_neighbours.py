"""The MAC addresses of a gateway's neighbours, inline: found at the join, and followed while the switch runs.

router, device 198.51.100.1 ──── wan 198.51.100.2 ┐
                                                   sluice        culvert-gateway watch: asks at both
wiki           10.20.0.10 ────── lan 10.20.0.1 ───┘
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from culvert_service.gateways.schemas import GatewayIn

from .conftest import World, until
from .gateway_process import needs_root
from .test_gateway_beside import SERVICE, Tunnel
from .test_gateway_joins import NAME, PROGRAM, ROUTER_MAC, WIKI_MAC, Computer, computer, link, reached
from .wire import ip

__all__ = ("computer", "reached")
pytestmark = [
    pytest.mark.slow,
    needs_root,
    pytest.mark.skipif(not PROGRAM.is_file(), reason="culvert-gateway is not built: cargo build --release"),
]


@asynccontextmanager
async def serving(address: str) -> AsyncGenerator[None]:
    """The wiki's service, in the test's namespace."""
    service = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVICE, address, stdout=PIPE)
    assert service.stdout is not None
    assert await service.stdout.readline() == b"ready\n"
    yield
    service.kill()
    await service.wait()


@asynccontextmanager
async def watched(computer: Computer) -> AsyncGenerator[None]:
    """The gateway's second unit runs."""
    watch = await asyncio.create_subprocess_exec(
        *("ip", "netns", "exec", computer.namespace, str(PROGRAM), "--root", str(computer.root)),
        *("--systemctl", str(computer.systemctl), "watch", NAME),
    )
    yield
    watch.kill()
    await watch.wait()


async def neighbours(world: World) -> dict[str, Any]:
    return {it["address"]: it for it in (await world.rest("GET", f"/gateways/{NAME}"))["neighbours"]}


async def packet_sockets(computer: Computer) -> int:
    """The number of packet sockets there."""
    process = await asyncio.create_subprocess_exec(
        *("ip", "netns", "exec", computer.namespace, "cat", "/proc/net/packet"),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    return len(said.splitlines()) - 1


async def test_neighbours_with_a_new_mac_address_are_followed_under_traffic(
    reached: World, computer: Computer
) -> None:
    code, said = await computer.run("join", await link(reached), "--yes")
    assert code == 0, said
    await reached.add_wiki([NAME])
    await ip("route", "add", "10.99.0.0/24", "via", "10.20.0.1")
    device = await reached.enrol()
    await device.prove()
    async with serving("10.20.0.10"), watched(computer):
        tunnel = Tunnel(await device.open(), "198.51.100.1")
        assert await tunnel.ask() == tunnel.inner.encode()
        epoch = (await reached.rest("GET", f"/gateways/{NAME}"))["epoch"]
        # The gateway's own MAC addresses do not change, so the neighbours need not ask for them.
        macs = {it["ifname"]: it["address"] for it in json.loads(await computer.ip("-json", "link"))}
        lost: dict[str, float] = {}

        async def move(wire: str, ours: str, mac: str, *, quiet: bool) -> float:
            """Seconds without an answer."""
            await ip("link", "set", f"j{wire}", "address", mac)
            if quiet:
                await ip("neighbour", "replace", ours, "lladdr", macs[wire], "dev", f"j{wire}")
            began = time.monotonic()
            while True:
                with suppress(TimeoutError):
                    if await tunnel.ask(seconds=0.05):
                        return time.monotonic() - began

        # The watch has begun to follow.
        await until(lambda: packet_sockets(computer), lambda found: found >= 4)
        await asyncio.sleep(1.5)
        for wire, ours in (("wan", "198.51.100.2"), ("lan", "10.20.0.1")):
            for number, quiet in ((1, True), (2, True), (3, False)):
                mac = f"02:00:00:00:{len(ours):02x}:{number:02x}"
                lost[f"{wire} {number}"] = await move(wire, ours, mac, quiet=quiet)
                await asyncio.sleep(1.5)
        print("seconds without an answer:", {key: round(it, 2) for key, it in lost.items()})
        assert max(lost.values()) < 5, lost
        assert min(lost.values()) > 0, lost
        after = await reached.rest("GET", f"/gateways/{NAME}")
        assert (after["state"], after["epoch"], after["drift"]["repaired"]) == ("online", epoch, 0)
        changes = [it for it in await reached.rest("GET", "/audit") if it["action"] == "gateway.neighbours"]
        assert len(changes) == 6
        tunnel.close()


async def test_a_neighbour_that_does_not_answer_is_said_and_found_again(
    reached: World, computer: Computer
) -> None:
    code, said = await computer.run("join", await link(reached), "--yes")
    assert code == 0, said
    shown = await reached.rest("GET", f"/gateways/{NAME}")
    body = {key: value for key, value in shown.items() if key in GatewayIn.model_fields}
    # Hosts that an administrator has added: one by IPv6, one that is not there.
    lan = {**body["lan"], "address6": "2001:db8:20::1", "prefix6": "2001:db8:20::/64"}
    lan["neighbours"] = {"10.20.0.10": None, "10.20.0.66": None, "2001:db8:20::10": None}
    await reached.rest("PUT", f"/gateways/{NAME}", {**body, "lan": lan})
    await ip("address", "add", "2001:db8:20::10/64", "dev", "jlan", "nodad")
    async with watched(computer):
        silent = "silent_since"
        found = await until(lambda: neighbours(reached), lambda it: it["10.20.0.66"][silent] is not None)
        assert found["10.20.0.66"]["mac"] is None
        found = await until(lambda: neighbours(reached), lambda it: it["2001:db8:20::10"]["mac"] is not None)
        assert found["2001:db8:20::10"] == {
            "side": "lan",
            "address": "2001:db8:20::10",
            "mac": WIKI_MAC,
            silent: None,
        }
        code, said = await computer.run("status")
        assert "neighbour    10.20.0.66 does not answer ARP" in said
        code, said = await computer.run("doctor")
        assert code == 1
        assert "FAIL  the MAC addresses of the neighbours are followed, and all of them answer" in said
        assert "10.20.0.66 does not answer ARP." in said

        # The router is silent, its last MAC address stays; then another one has its address.
        await ip("link", "set", "jwan", "arp", "off")
        found = await until(lambda: neighbours(reached), lambda it: it["198.51.100.1"][silent] is not None)
        assert found["198.51.100.1"]["mac"] == ROUTER_MAC
        code, said = await computer.run("doctor")
        assert "The next hop 198.51.100.1 does not answer ARP on wan." in said
        other = "02:00:00:00:07:07"
        await ip("link", "set", "jwan", "address", other, "arp", "on")
        found = await until(lambda: neighbours(reached), lambda it: it["198.51.100.1"][silent] is None)
        assert found["198.51.100.1"]["mac"] == other
        await reached.online(NAME)
        entries = (await reached.rest("GET", f"/gateways/{NAME}/entries"))["entries"]
        hops = [it["params"]["dst_mac"] for it in entries if it["table"] == "nexthop"]
        assert sorted(hops) == sorted(int(it.replace(":", ""), 16) for it in (other, WIKI_MAC, WIKI_MAC))
