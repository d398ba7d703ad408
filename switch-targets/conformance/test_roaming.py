"""A peer that moves: its newest authenticated packet tells where its answers go, and nothing else does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import pytest
from gateway_entries import V4, V6, Family, Tunnel, ip
from gateway_rig import QUIET, Drop, Gateway, new_tunnel, open_frame, seal, to_server
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Place:
    address: str
    port: int


HOME = Place(V4.peer, 40123)


def roaming(**changes: object) -> Tunnel:
    return new_tunnel(**{"endpoint": 77, "tag": 5, **changes})


def goes_to(frame: Packet) -> Place:
    header = frame[IP] if IP in frame else frame[IPv6]
    return Place(header.dst, frame[UDP].dport if UDP in frame and frame[UDP].sport == 4500 else 0)


def ipv6_entry(tunnel: Tunnel) -> Tunnel:
    """The same SA at the gateway's IPv6 address."""
    return tunnel.but(outer=V6)


async def test_a_fixed_peer_stays(gateway: Gateway) -> None:
    """Tag 0."""
    tunnel = new_tunnel()
    await gateway.insert(tunnel.entries())
    await gateway.opens(tunnel, 1, source=V4.elsewhere, port=555)
    assert goes_to(await gateway.seals(tunnel)) == HOME


@pytest.mark.parametrize(
    "place",
    [Place(V4.elsewhere, 40123), Place(V4.peer, 555), Place(V4.elsewhere, 555), Place(V4.elsewhere, 0)],
    ids=["address", "port", "both", "to-esp"],
)
async def test_moves_with_a_newest_packet(gateway: Gateway, place: Place) -> None:
    tunnel = roaming()
    await gateway.insert(tunnel.entries())
    await gateway.opens(tunnel, 1)
    assert goes_to(await gateway.seals(tunnel)) == HOME
    await gateway.opens(tunnel, 2, source=place.address, port=place.port)
    left = await gateway.seals(tunnel)
    assert goes_to(left) == place
    assert left[IP].src == V4.gateway
    assert bytes(open_frame(tunnel, left)[UDP].payload) == b"answer"
    await gateway.opens(tunnel, 3)
    assert goes_to(await gateway.seals(tunnel)) == HOME


@pytest.mark.parametrize("port", [555, 0], ids=["nat-t", "esp"])
async def test_moves_between_versions(gateway: Gateway, port: int) -> None:
    tunnel = roaming()
    await gateway.insert(tunnel.entries(), ipv6_entry(tunnel).sad_in())
    await gateway.opens(ipv6_entry(tunnel), 1, source=V6.elsewhere, port=port)
    left = await gateway.seals(tunnel)
    assert goes_to(left) == Place(V6.elsewhere, port)
    assert left[IPv6].src == V6.gateway
    if port:
        assert (left[UDP].sport, left[UDP].chksum != 0) == (4500, True)
    assert bytes(open_frame(tunnel, left)[UDP].payload) == b"answer"
    await gateway.opens(tunnel, 2)
    assert goes_to(await gateway.seals(tunnel)) == HOME


async def test_what_is_not_newest_does_not_move(gateway: Gateway) -> None:
    tunnel = roaming(esn=False)
    await gateway.insert(tunnel.entries())
    await gateway.opens(tunnel, 2000)
    late = to_server(V4, b"late")
    gateway.wan.send(gateway.seal(tunnel, late, 1999, source=V4.elsewhere))
    assert gateway.lan.receive() is not None, "in the window: it is opened"
    assert goes_to(await gateway.seals(tunnel)) == HOME

    forged = bytearray(seal(tunnel, late, 2001))
    forged[-1] ^= 1
    for esp, cause in [
        (seal(tunnel, late, 2000), Drop.REPLAY),
        (seal(tunnel, late, 900), Drop.REPLAY),
        (bytes(forged), Drop.ICV),
    ]:
        async with gateway.expect_drops(cause):
            gateway.wan.send(gateway.esp(tunnel, esp, source=V4.elsewhere))
        assert goes_to(await gateway.seals(tunnel)) == HOME


async def test_both_generations_share_where_the_peer_is(gateway: Gateway) -> None:
    old = roaming()
    new = roaming(number=2, spi_in=0x1002, spi_out=0x2003)
    await gateway.insert(old.entries(), new.sad_in(), new.spd_in(), new.sad_out())
    await gateway.opens(new, 1, source=V4.elsewhere, port=555)
    assert goes_to(await gateway.seals(old)) == Place(V4.elsewhere, 555)


async def test_the_next_tenant_of_an_endpoint_starts_at_its_own(gateway: Gateway) -> None:
    first = roaming()
    await gateway.insert(first.entries())
    await gateway.opens(first, 1, source=V4.elsewhere)
    await gateway.switch.delete(first.entries())
    second = roaming(tag=6)
    await gateway.insert(second.entries())
    assert goes_to(await gateway.seals(second)) == HOME


@pytest.mark.parametrize("outer", [V4, V6], ids=["v4", "v6"])
async def test_the_controller_is_told_until_it_has_acted(gateway: Gateway, outer: Family) -> None:
    tunnel = roaming(outer=outer)
    await gateway.insert(tunnel.entries())
    async with gateway.digests("moved_t") as moved:
        await gateway.opens(tunnel, 1)
        await gateway.seals(tunnel)
        await asyncio.sleep(QUIET)
        assert moved.empty(), "it is where its entry says"

        await gateway.opens(tunnel, 2, source=outer.elsewhere, port=555)
        said = {"sa_id": tunnel.sa_out, "peer": ip(outer.elsewhere), "port": 555, "local": ip(outer.gateway)}
        await gateway.seals(tunnel)
        assert await asyncio.wait_for(moved.get(), 2) == said
        for _ in range(255):
            await gateway.seals(tunnel)
        await asyncio.sleep(QUIET)
        assert moved.empty()
        await gateway.seals(tunnel)
        assert await asyncio.wait_for(moved.get(), 2) == said, (
            "repeated with the 256th packet after the first"
        )

        await gateway.opens(tunnel, 3, source=outer.elsewhere, port=556)
        await gateway.seals(tunnel)
        assert (await asyncio.wait_for(moved.get(), 2))["port"] == 556, "a change is told at once"

        acted = tunnel.but(outer=replace(outer, peer=outer.elsewhere), peer_port=556)
        await gateway.switch.modify([acted.sad_out()])
        for _ in range(257):
            await gateway.seals(tunnel)
        await asyncio.sleep(QUIET)
        assert moved.empty()


async def test_a_restless_peer_is_told_of_but_not_without_end(gateway: Gateway) -> None:
    """Packets from ever new addresses do not flood the controller with digests; the last address counts."""
    tunnel = roaming()
    await gateway.insert(tunnel.entries())
    async with gateway.digests("moved_t") as moved:
        for number in range(1, 61):
            await gateway.opens(tunnel, number, port=1000 + number)
            await gateway.seals(tunnel)
        await asyncio.sleep(1.2)
        assert goes_to(await gateway.seals(tunnel)).port == 1060
        told = 1
        while (await asyncio.wait_for(moved.get(), 2))["port"] != 1060:
            told += 1
        assert 4 <= told <= 12
