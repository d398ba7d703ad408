"""Truncated, oversized, lying and random frames on each port: each is accounted for, nothing leaks, the switch lives.

Frames are made from good ones. Every frame that is sent is dropped and counted once, or answered out of its own port (a
bent ping is still a ping), or sealed: what goes out is looked at.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Iterator

import finsy as fy
import pytest
from esp_peer import Association
from gateway_entries import FAMILIES, LAN, LAN_MAC, V4, V6, WAN_MAC, policy
from gateway_rig import Gateway, ip_header, new_tunnel, to_server
from gateway_wires import Wire
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.inet6 import IPv6ExtHdrFragment as Fragment
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SEED = 4303
CHUNK = 50  # frames under way at once: fewer than any target queues for one port
SHORTEST = 14  # a frame of less the kernel does not send
ERRORS = {4: {3, 11}, 6: {2, 3}}


async def accounted(gateway: Gateway, wire: Wire, frames: Iterable[bytes]) -> list[tuple[Wire, Packet]]:
    """Sends all, and waits until each is dropped and counted or has come out. Returns what came out.

    An ICMP error comes with a drop of its own, and so counts for nothing."""
    sent = 0
    before = sum((await gateway.drops()).values())
    out: list[tuple[Wire, Packet]] = []
    pending = [frame for frame in frames if not withheld(frame)]
    while pending:
        chunk, pending = pending[:CHUNK], pending[CHUNK:]
        for frame in chunk:
            wire.send(frame)
        sent += len(chunk)
        deadline = time.monotonic() + 5
        while True:
            for each in (gateway.wan, gateway.lan, gateway.lan2):
                out += [(each, frame) for frame in each.drain(0)]
            passed = sum(not is_error(frame) for _, frame in out)
            drops = sum((await gateway.drops()).values()) - before
            if drops + passed == sent:
                break
            assert time.monotonic() < deadline, (sent, drops, passed, await gateway.drops())
            await asyncio.sleep(0.005)
    return out


def withheld(frame: bytes) -> bool:
    """The kernel itself drops a frame that ends inside its VLAN tag, before any switch sees it."""
    return frame[12:14] in (b"\x81\x00", b"\x88\xa8") and len(frame) < 20


def is_error(frame: Packet) -> bool:
    if IP in frame and frame[IP].proto == 1:
        return bytes(frame[IP])[20] in ERRORS[4]
    return IPv6 in frame and frame[IPv6].nh == 58 and bytes(frame[IPv6])[40] in ERRORS[6]


def seeds_for_wan(gateway: Gateway) -> list[bytes]:
    made: list[Packet] = []
    for number, outer in enumerate(FAMILIES):
        for port in (40123, 0):
            tunnel = gateway_tunnels[outer.version, port]
            made.append(gateway.seal(tunnel, to_server(V4, bytes(40)), 1, port=port))
        bare = ip_header(outer, outer.router, outer.gateway)
        ping = ICMP() if number == 0 else ICMPv6EchoRequest()
        made += [gateway.on_wan(bare / ping / Raw(bytes(20)))]
        made += [gateway.on_wan(ip_header(outer, outer.elsewhere, outer.server) / UDP() / Raw(bytes(20)))]
    made.append(gateway.on_wan(ARP(op=1, psrc=V4.router, pdst=V4.gateway)))
    asks = IPv6(src=V6.router, dst=V6.gateway, hlim=255) / ICMPv6ND_NS(tgt=V6.gateway)
    made.append(gateway.on_wan(asks / ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:01:02")))
    made.append(
        gateway.on_wan(IPv6(src=V6.elsewhere, dst=V6.gateway) / Fragment(m=1) / UDP() / Raw(bytes(40)))
    )
    tagged = (
        Ether(src="02:00:00:00:01:02", dst=WAN_MAC)
        / Dot1Q(vlan=0)
        / IP(src=V4.router, dst=V4.gateway)
        / ICMP()
    )
    made.append(tagged)
    return [bytes(it) for it in made]


gateway_tunnels = {
    (outer.version, port): new_tunnel(
        outer=outer,
        peer_port=port,
        number=10 + 2 * index + bool(port),
        spi_in=0x5000 + 2 * index + bool(port),
    )
    for index, outer in enumerate(FAMILIES)
    for port in (40123, 0)
}


def seeds_for_lan(gateway: Gateway) -> list[bytes]:
    made: list[Packet] = []
    options = [("NOP", None), ("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 2)), ("WScale", 7)]
    for family in FAMILIES:
        bare = ip_header(family, family.server, family.inner)
        made += [
            gateway.on_lan(bare / TCP(flags="S", options=options)),
            gateway.on_lan(bare / UDP() / Raw(bytes(50))),
        ]
        made.append(
            gateway.on_lan(ip_header(family, family.server, family.inner, ttl=1) / UDP() / Raw(bytes(50)))
        )
    made.append(
        gateway.on_lan(IPv6(src=V6.server, dst=V6.inner) / Fragment(m=1) / TCP(flags="S") / Raw(bytes(40)))
    )
    made.append(gateway.on_lan(ARP(op=1, psrc=V4.server, pdst=V4.lan)))
    return [bytes(it) for it in made]


def truncated(seeds: list[bytes]) -> Iterator[bytes]:
    for seed in seeds:
        for length in range(SHORTEST, len(seed)):
            yield seed[:length]


def bent(seeds: list[bytes], count: int, keep: int = 12, most: int = 1514) -> Iterator[bytes]:
    """Up to eight bytes changed behind the first `keep`, cut or made longer, to `most` bytes."""
    dice = random.Random(SEED)  # noqa: S311
    for _ in range(count):
        frame = bytearray(dice.choice(seeds))
        for _ in range(dice.randint(1, 8)):
            frame[dice.randrange(keep, len(frame))] = dice.choice(
                (0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256))
            )
        if dice.random() < 0.3:
            del frame[dice.randrange(SHORTEST, len(frame) + 1) :]
        elif dice.random() < 0.2:
            frame += dice.randbytes(dice.randrange(most - len(frame)))
        yield bytes(frame)


def noise(count: int, mac: str) -> Iterator[bytes]:
    """Random bytes, half of them behind a header that says they are for us and IP."""
    dice = random.Random(SEED)  # noqa: S311
    to_us = bytes.fromhex(mac.replace(":", "")) + bytes.fromhex("020000000102")
    for _ in range(count):
        frame = dice.randbytes(dice.randrange(SHORTEST, 1514))
        if dice.random() < 0.5:
            ethertype = dice.choice((b"\x08\x00", b"\x86\xdd", b"\x08\x06", b"\x81\x00\x00\x00\x08\x00"))
            version = dice.choice((b"\x45", b"\x46", b"\x60", b""))
            frame = (to_us + ethertype + version + frame)[: max(SHORTEST, min(1514, len(frame)))]
        yield frame


async def lives(gateway: Gateway) -> None:
    tunnel = new_tunnel(number=99, spi_in=0x9191)
    await gateway.insert(tunnel.entries())
    await gateway.opens(tunnel, 1)
    await gateway.seals(tunnel)


async def test_on_the_wan(gateway: Gateway) -> None:
    """ESP among the seeds has been received before, so that whatever is left whole of it is a replay."""
    for tunnel in gateway_tunnels.values():
        fresh = tunnel.but(key_in=new_tunnel().key_in)
        gateway_tunnels[tunnel.outer.version, tunnel.peer_port] = fresh
        await gateway.insert(fresh.sad_in())
        gateway.wan.send(gateway.seal(fresh, to_server(V4, bytes(40)), 1))
    seeds = seeds_for_wan(gateway)
    await asyncio.sleep(0.1)
    assert gateway.lan.receive(0.1) is None
    frames = [*truncated(seeds), *bent(seeds, 3000), *noise(1500, WAN_MAC)]
    out = await accounted(gateway, gateway.wan, frames)
    for wire, frame in out:
        assert wire is gateway.wan
        assert frame.src == WAN_MAC
        assert answers(frame), frame
    await lives(gateway)


def answers(frame: Packet) -> bool:
    """ARP replies, neighbor advertisements and echo replies."""
    if ARP in frame:
        return frame[ARP].op == 2
    if IP in frame:
        return frame[IP].proto == 1 and bytes(frame[IP])[20] == 0
    return frame[IPv6].nh == 58 and bytes(frame[IPv6])[40] in (129, 136)


async def test_on_the_lan(gateway: Gateway) -> None:
    """Packets that the policy protects are sealed; no clear packet leaves."""
    tunnel = new_tunnel(inner_mtu=1400)
    protect = policy(LAN, fy.Action("protect", sa_id=tunnel.sa_out, inner_mtu=1400), priority=1)
    await gateway.insert(tunnel.sad_out(), protect)
    seeds = seeds_for_lan(gateway)
    frames = [*truncated(seeds), *bent(seeds, 3000), *noise(1500, LAN_MAC)]
    out = await accounted(gateway, gateway.lan, frames)
    sealed = [frame for wire, frame in out if wire is gateway.wan]
    assert len(sealed) > 100
    for frame in sealed:
        assert (frame[UDP].sport, frame[UDP].dport) == (4500, tunnel.peer_port)
    assert all(is_error(frame) or answers(frame) for wire, frame in out if wire is gateway.lan)
    await gateway.switch.delete([protect])
    await lives(gateway)


async def test_out_of_the_tunnel(gateway: Gateway) -> None:
    """Bent packets that the peer has sealed itself: they reach the server as they should, or not at all."""
    tunnel = new_tunnel()
    permit = fy.P4TableEntry(
        "spd_in", match=fy.Match(sa_id=tunnel.sa_in), priority=1, action=fy.Action("permit", inner_mtu=1400)
    )
    await gateway.insert(tunnel.sad_in(), permit)
    # An error about a tunnel's packet that no policy takes back would be counted too.
    [source] = [
        it for it in gateway.site.entries() if it.table_id == "icmp_source" and it["interface_id"] == 0
    ]
    await gateway.switch.delete([source])
    seeds = [bytes(it) for family in FAMILIES for it in (to_server(family, bytes(40)),)]
    seeds += [
        bytes(ip_header(it, it.inner, it.server) / TCP(flags="S", options=[("MSS", 1460)])) for it in FAMILIES
    ]
    peer = Association(tunnel.suite, tunnel.key_in, tunnel.spi_in)
    frames = [
        bytes(gateway.esp(tunnel, peer.seal_bytes(inner, 4 if inner[0] >> 4 == 4 else 41, sequence)))
        for sequence, inner in enumerate(bent(seeds, 600, keep=0, most=1400), start=1)
        if inner
    ]
    out = await accounted(gateway, gateway.wan, frames)
    assert {wire for wire, _ in out} <= {gateway.lan}
    for _, frame in out:
        assert (frame[IP].dst if IP in frame else frame[IPv6].dst) not in (V4.elsewhere, V6.elsewhere)
    await lives(gateway)
