"""IPv6 inside of tunnels: from a pool of its own, beside IPv4, over IPv4.

device's ESP ─── wan ─[ sluice ]─ lan ─── 10.20.0.10, 2001:db8:20::10, 2001:db8:20::11
"""

from __future__ import annotations

import asyncio
import socket
import struct
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import pytest
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason
from culvert_service.gateways.schemas import GatewayIn
from culvert_service.resources.target import Target, selectors
from culvert_service.tunnels.pool import find_free_address
from culvert_service.tunnels.roaming import Peer
from pydantic import ValidationError

from .conftest import World, serving
from .gateway_process import needs_root, sluice, unpack
from .sealed import esp, opened
from .switch import Switch
from .test_site import GATEWAY
from .wire import Wires, checksum, frame, next_udp, udp

LAN: dict[str, Any] = {
    "port": 2,
    "mac": "02:00:00:00:02:01",
    "address": "10.20.0.1",
    "prefix": 16,
    "address6": "2001:db8:20::1",
    "prefix6": 64,
    "neighbours": {
        "10.20.0.10": "02:00:00:00:02:10",
        "2001:db8:20::10": "02:00:00:00:02:10",
        "2001:db8:20::11": "02:00:00:00:02:11",
    },
}
POOL6 = "2001:db8:99::/64"
WIKI6 = {"prefix": "2001:db8:20::10", "protocol": "udp", "ports": [80]}
TARGETS = [{"prefix": "10.20.0.10"}, WIKI6]


def udp6(src: Peer, dst: Peer, payload: bytes) -> bytes:
    body = struct.pack("!HHHH", src.port, dst.port, 8 + len(payload), 0) + payload
    ends = IPv6Address(src.address).packed + IPv6Address(dst.address).packed
    pseudo = ends + struct.pack("!II", len(body), 17)
    body = body[:6] + struct.pack("!H", checksum(pseudo + body + b"\0" * (len(body) % 2))) + body[8:]
    return struct.pack("!IHBB", 6 << 28, len(body), 17, 64) + ends + body


def test_a_pool_of_either_family_gives_its_lowest_free_address() -> None:
    # RFC 4291 section 2.6.1: the first address is the routers' anycast address.
    assert find_free_address(POOL6, []) == "2001:db8:99::1"
    assert find_free_address(POOL6, ["2001:db8:99::1", "2001:db8:99::3"]) == "2001:db8:99::2"
    assert find_free_address("2001:db8:99::/126", [f"2001:db8:99::{n}" for n in (1, 2, 3)]) is None


@pytest.mark.parametrize(
    "pool6",
    ["10.99.0.0/24", "2001:db8::1/64", "2001:db8::/127", "2001:db8::%1/64", "::/0", "::ffff:10.99.0.0/120"],
)
def test_an_invalid_pool_is_refused(pool6: str) -> None:
    with pytest.raises(ValidationError):
        GatewayIn.model_validate(GATEWAY | {"pool6": pool6})


def test_icmp_is_that_of_the_family() -> None:
    rows = [Target(prefix=prefix, protocol="icmp").row() for prefix in ("10.20.0.10", "2001:db8:20::10")]
    assert [selector.protocol for selector in selectors(rows)] == [1, 58]
    for prefix in ("::ffff:10.20.0.10", "2001:db8:20::10%1"):
        with pytest.raises(ValidationError, match="IPv4 is written as IPv4"):
            Target(prefix=prefix)


@pytest.mark.slow
async def test_a_resource_needs_gateways_that_give_addresses_of_its_family(world: World) -> None:
    await world.add_gateway("gw-berlin", free_port(), lan=LAN)
    body = {"name": "wiki", "fqdn": "wiki.corp.example", "gateways": ["gw-berlin"], "owner": "bob"}
    answer = await world.admin.post("/api/v1/resources", json=body | {"targets": TARGETS})
    assert (answer.status_code, "no IPv6 addresses" in answer.json()["detail"]) == (422, True)


@pytest.mark.slow
async def test_a_device_gets_one_address_of_each_family_or_none(world: World) -> None:
    port = free_port()
    shown = await world.add_gateway("gw-berlin", port, lan=LAN, pool6="2001:db8:99::/126")
    assert shown["pool6"] == "2001:db8:99::/126"
    devices = [await world.enrol() for _ in range(4)]
    for device in devices:
        await device.prove()
    async with serving(world, Switch(), "gw-berlin", port):
        await world.online("gw-berlin")
        await world.add_resource("wiki", ["gw-berlin"], targets=TARGETS)
        answers = await asyncio.gather(*(device.open() for device in devices), return_exceptions=True)
    failed = [answer for answer in answers if isinstance(answer, CulvertError)]
    assert [error.reason for error in failed] == [Reason.POOL_EXHAUSTED]
    given = [answer.tunnel for answer in answers if not isinstance(answer, BaseException)]
    assert {tunnel.inner_address6 for tunnel in given} == {f"2001:db8:99::{n}" for n in (1, 2, 3)}
    assert len({tunnel.inner_address for tunnel in given}) == 3
    tunnels = await world.rest("GET", "/tunnels")
    assert {it["inner_address6"] for it in tunnels} == {tunnel.inner_address6 for tunnel in given}


@pytest.mark.slow
@needs_root
async def test_both_families_go_through_one_tunnel(world: World, wires: Wires, tmp_path: Path) -> None:
    port = free_port()
    await world.add_gateway("gw-berlin", port, lan=LAN, pool6=POOL6)
    await world.add_resource("wiki", ["gw-berlin"], targets=TARGETS)
    unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
    device = await world.enrol()
    await device.prove()
    lan6 = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x86DD))
    lan6.bind((wires.far[1], 0))
    lan6.setblocking(False)
    with lan6:
        async with sluice(tmp_path / "gateway", wires.names, port):
            await world.online("gw-berlin")
            answer = await device.open()
            tunnel, sas = answer.tunnel, answer.sas
            assert (tunnel.inner_address, tunnel.inner_address6) == ("10.99.1.1", "2001:db8:99::1")
            assert list(tunnel.remote_prefixes) == ["10.20.0.10/32", "2001:db8:20::10/128"]
            here, here6 = Peer("10.99.1.1", 40000), Peer("2001:db8:99::1", 40000)
            wiki, wiki6 = Peer("10.20.0.10", 80), Peer("2001:db8:20::10", 80)
            strange = [
                udp6(here6, Peer(wiki6.address, 81), b"must not pass"),
                udp6(here6, Peer("2001:db8:20::11", 80), b"must not pass"),
                udp6(Peer("2001:db8:99::2", 1), wiki6, b"must not pass"),
                udp6(Peer("::ffff:10.99.1.1", 1), wiki6, b"must not pass"),
            ]
            packets = [*strange, udp6(here6, wiki6, b"asks"), udp(here, wiki, b"asks")]
            for number, packet in enumerate(packets, start=1):
                outer = udp(
                    Peer("203.0.113.10", 4500), Peer("198.51.100.1", 4500), esp(sas.outbound, number, packet)
                )
                await wires.send(wires.wan, frame("02:00:00:00:01:01", outer))
            assert (await next_payload6(lan6))[8:] == b"asks"
            assert await next_udp(wires.lan) == (wiki, b"asks")
            await wires.send(lan6, frame(LAN["mac"], udp6(Peer(wiki6.address, 81), here6, b"must not pass")))
            await wires.send(lan6, frame(LAN["mac"], udp6(wiki6, here6, b"says")))
            _, packet = await next_udp(wires.wan)
            assert opened(sas.inbound, packet)[40:][8:] == b"says"


async def next_payload6(end: socket.socket) -> bytes:
    """The next UDP packet over IPv6, without its IP header."""
    async with asyncio.timeout(20):
        while True:
            packet = (await asyncio.get_running_loop().sock_recv(end, 4096))[14:]
            if packet[6] == 17:
                return packet[40:]
