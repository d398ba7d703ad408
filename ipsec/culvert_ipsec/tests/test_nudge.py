"""A nudge comes out at the gateway whatever the tunnel carries, and would end there."""

from __future__ import annotations

import socket
import time
from dataclasses import replace

import pytest
from culvert_ipsec import Selector, nudge
from scapy.layers.inet import IP

from .conftest import End, entered

pytestmark = pytest.mark.slow

ALL_FRAMES = 3


@pytest.mark.parametrize(
    "selectors",
    [
        (),
        (Selector("10.20.0.10/32", socket.IPPROTO_TCP, (443, 444)),),
        (Selector("10.20.0.10/32", socket.IPPROTO_UDP, (5000, 5000)),),
        (Selector("10.20.0.10/32", socket.IPPROTO_ICMP),),
    ],
    ids=["all", "tcp", "udp", "icmp"],
)
def test_it_fits_the_tunnel_and_goes_no_further(
    ends: tuple[End, End], selectors: tuple[Selector, ...]
) -> None:
    a, b = ends
    [tunnel] = a.state.tunnels
    a.state = replace(a.state, tunnels=(replace(tunnel, selectors=selectors),))
    a.apply()
    with entered(b.namespace), socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM) as tap:
        tap.bind(("tun0", ALL_FRAMES))
        tap.settimeout(5)
        with entered(a.namespace):
            nudge(a.state.tunnels[0])
        deadline = time.monotonic() + 5
        while True:
            assert time.monotonic() < deadline
            packet = IP(tap.recv(200))
            if (packet.src, packet.dst) == (a.inner, b.inner):
                break
    assert packet.ttl == 1
    if selectors:
        assert packet.proto == selectors[0].protocol
    [counters] = a.datapath.counters().tunnels.values()
    assert counters.outbound.packets == 1
