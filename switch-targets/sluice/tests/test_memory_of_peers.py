"""Memory is bounded whatever packets come."""

from __future__ import annotations

import asyncio
import os
import random
import time

import finsy as fy
import pytest
from gateway_entries import V4, V6
from gateway_rig import Gateway, new_tunnel, to_inner, to_server
from numbered_flow import open_wire
from resident import Resident
from scapy.layers.inet import ICMP, UDP
from scapy.layers.inet6 import ICMPv6ND_NS
from scapy.layers.l2 import ARP
from scapy.packet import Packet
from sluice_rig import Sluice

pytestmark = pytest.mark.slow

FRAMES, SECONDS = 1_000_000, 25
GROWTH = 96
"""MiB: 4,096 recorded paths of some 4 KB, two ports' frames that wait, digests, and what the allocator keeps."""


@pytest.fixture
def resident(sluice: Sluice) -> Resident:
    return Resident(sluice.process.pid)


def frames(gateway: Gateway) -> list[tuple[str, Packet]]:
    """A frame of each kind, by the wire that it comes on."""
    tunnel = new_tunnel()
    fragment = to_server(V4, bytes(600))
    fragment.setfieldval("flags", 1)
    return [
        ("lan", gateway.on_lan(to_inner(V4, UDP(sport=1, dport=2)))),
        ("lan", gateway.on_lan(to_inner(V6, UDP(sport=1, dport=2)))),
        ("lan", gateway.on_lan(ARP(op=1, pdst=V4.lan))),
        ("lan", gateway.on_lan(to_inner(V6, ICMPv6ND_NS(tgt=V6.lan)))),
        ("wan", gateway.seal(tunnel, to_server(V4, bytes(40)), 1)),
        ("wan", gateway.seal(tunnel, to_server(V4, bytes(40)), 1, port=0)),
        ("wan", gateway.on_wan(fragment)),
        ("wan", gateway.on_wan(to_server(V4, ICMP()))),
    ]


def flood(kinds: list[tuple[str, Packet]]) -> int:
    """Frames with random bits behind their Ethernet types. Returns how many were sent."""
    chance = random.Random(1)  # noqa: S311
    wires = {name: open_wire(name) for name, _ in kinds}
    made = [(wires[name], bytearray(bytes(frame))) for name, frame in kinds]
    end, sent = time.monotonic() + SECONDS, 0
    while sent < FRAMES and time.monotonic() < end:
        for wire, frame in made:
            # The addresses of IPv4 and IPv6, ports and SPIs are all within; headers stay well-formed most of the time.
            at = chance.randrange(26, min(len(frame), 54) - 4)
            frame[at : at + 4] = os.urandom(4)
            wire.send(frame)
        sent += len(made)
    for wire in wires.values():
        wire.close()
    return sent


class TestTheGateway:
    async def test_new_flows_without_end(self, wired: Gateway, resident: Resident) -> None:
        """ARP, neighbour solicitations, fragments, forged SPIs, each packet another flow; digests that nobody reads."""
        tunnel = new_tunnel()
        await wired.insert(tunnel.entries())
        await wired.switch.insert(
            [fy.P4DigestEntry("bad_spi_t", max_list_size=1, ack_timeout_ns=3600 * 10**9)]
        )
        with resident.growing_at_most(GROWTH):
            sent = await asyncio.to_thread(flood, frames(wired))
        assert sent > 100_000
        wired.wan.drain(0.01)
        wired.lan.drain(0.01)
        await wired.seals(tunnel)
