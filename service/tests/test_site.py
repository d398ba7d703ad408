"""A gateway's addresses and routes, as an administrator gives them, tried with Linux at both of its ports.

198.51.100.9, 2001:db8:1::9 ─── wan ─[ sluice ]─ lan ─── 10.20.0.10, 2001:db8:20::10
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from culvert_lab.free_port import free_port
from culvert_service.gateways.schemas import GatewayIn
from pydantic import ValidationError

from .conftest import World
from .gateway_process import needs_root, sluice, unpack
from .wire import Wires, ip

WAN = {
    "port": 1,
    "mac": "02:00:00:00:01:01",
    "next_hop_mac": ["02:00:00:00:01:02", "02:00:00:00:01:03"],
    "vlan": 7,
    "mtu": 1492,
}
LAN = {
    "port": 2,
    "mac": "02:00:00:00:02:01",
    "address": "10.20.0.1",
    "prefix": 16,
    "address6": "2001:DB8:20::1",
    "prefix6": 64,
    "neighbours": {"10.20.0.10": "02:00:00:00:02:10", "2001:db8:20::10": "02:00:00:00:02:10"},
}
GATEWAY: dict[str, Any] = {
    "name": "gw-berlin",
    "address": "198.51.100.1",
    "address6": "2001:db8:1::1",
    "p4runtime": "127.0.0.1:9559",
    "pool": "10.99.1.0/24",
    "wan": WAN,
    "lan": LAN,
}


def test_a_site_is_spelled_in_one_way() -> None:
    site = GatewayIn.model_validate(GATEWAY)
    assert (site.lan.prefix, site.lan.address6, site.lan.prefix6) == (
        *("10.20.0.0/16", "2001:db8:20::1", "2001:db8:20::/64"),
    )
    assert (site.wan.vlan, site.lan.vlan, site.wan.mtu, site.lan.mtu) == (7, 0, 1492, 1500)
    one_port = GATEWAY | {"lan": LAN | {"port": 1, "vlan": 8}}
    assert GatewayIn.model_validate(one_port).lan.vlan == 8


@pytest.mark.parametrize(
    "change",
    [
        {"address6": "::ffff:198.51.100.1"},
        {"address6": "198.51.100.1"},
        {"address": "2001:db8:1::1"},
        {"public_address": "2001:db8:1::1"},
        {"public_address": "127.0.0.1"},
        {"address6": None, "public_address6": "2001:db8:2::1"},
        {"public_address": "10.30.0.1", "lan": LAN | {"routes": {"10.30.0.1/32": "10.20.0.10"}}},
        {"pool": "2001:db8::/64"},
        {"wan": WAN | {"vlan": 4095}},
        {"wan": WAN | {"mtu": 1279}},
        {"wan": WAN | {"next_hop_mac": []}},
        {"wan": WAN | {"next_hop_mac": "somewhere"}},
        {"lan": LAN | {"mtu": 1279}},
        {"lan": LAN | {"prefix6": None}},
        {"lan": LAN | {"address": "10.30.0.1", "prefix": "10.20.0.0/16"}},
        {"lan": LAN | {"neighbours": {"2001:db8:21::10": "02:00:00:00:02:10"}}},
        {"lan": LAN | {"port": 1, "vlan": 7}},
        {"lan": LAN | {"routes": {"10.30.0.0/16": "10.20.0.99"}}},
        {"lan": LAN | {"routes": {"10.30.0.0/16": "2001:db8:20::10"}}},
        {"lan": LAN | {"routes": {"10.20.8.0/24": "10.20.0.10"}}},
        {"lan": LAN | {"routes": {"10.0.0.0/8": "10.20.0.10"}}},
        {"lan": LAN | {"routes": {"10.99.0.0/16": "10.20.0.10"}}},
        {"lan": LAN | {"routes": {"0.0.0.0/0": "10.20.0.10"}}},
        {"lan": LAN | {"routes": {"::/0": "2001:db8:20::10"}}},
        {"lan": LAN | {"routes": {"10.30.0.1/16": "10.20.0.10"}}},
    ],
)
def test_an_invalid_site_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        GatewayIn.model_validate(GATEWAY | change)


async def pings(netns: str, address: str) -> bool:
    process = await asyncio.create_subprocess_exec(
        *("ip", "netns", "exec", netns, "ping", "-c1", "-W2", address), stdout=asyncio.subprocess.DEVNULL
    )
    return await process.wait() == 0


@pytest.mark.slow
@needs_root
async def test_the_gateway_answers_for_its_own_addresses_alone(
    world: World, wires: Wires, tmp_path: Path
) -> None:
    port, netns = free_port(), f"cvn{os.getpid()}"
    await world.rest(
        "POST", "/gateways", GATEWAY | {"p4runtime": f"127.0.0.1:{port}", "wan": WAN | {"vlan": 0}}
    )
    unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
    wan, lan = wires.far
    await ip("netns", "add", netns)
    try:
        for name in wires.far:
            await ip("link", "set", name, "netns", netns)
        inside = ("-n", netns)
        for name in wires.far:
            await ip(*inside, "link", "set", name, "up")
        for name, address in ((wan, "198.51.100.9/24"), (lan, "10.20.0.10/16")):
            await ip(*inside, "address", "add", address, "dev", name)
        for name, address in ((wan, "2001:db8:1::9/64"), (lan, "2001:db8:20::10/64")):
            await ip(*inside, "address", "add", address, "dev", name, "nodad")
        async with sluice(tmp_path / "gateway", wires.names, port):
            await world.online("gw-berlin")
            for own in ("198.51.100.1", "2001:db8:1::1", "10.20.0.1", "2001:db8:20::1"):
                assert await pings(netns, own), own
            for other in ("198.51.100.2", "2001:db8:1::2", "10.20.0.2", "2001:db8:20::2"):
                assert not await pings(netns, other), other
    finally:
        await ip("netns", "delete", netns)
