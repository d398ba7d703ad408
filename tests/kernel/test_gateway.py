"""The gateway's tunnel, end to end, with Linux as the peer."""

from __future__ import annotations

import errno
import socket
import time

import pytest
from linux_esp.controller import Controller
from linux_esp.entries import INNER, OFFICE, Pair
from linux_esp.site import Site, waited
from linux_esp.suites import SUITES
from linux_esp.traffic import Exchange, echo_over_tcp, family, ping
from linux_esp.tunnel import Tunnels, from_gateway
from linux_esp.xfrm import Refused, refused

pytestmark = pytest.mark.slow

GCM = SUITES[0]
MEGABYTE = 1 << 20
EVERY_SHAPE = [Pair(GCM, outer, in_udp=in_udp) for outer in (4, 6) for in_udp in (False, True)]
EVERY_SUITE = [Pair(suite) for suite in SUITES[1:]] + [Pair(suite, esn=False) for suite in SUITES]
# RFC 4301 section 8: what the outer headers, ESP and its padding leave of an Ethernet's 1500 bytes.
INNER_MTU = {(4, False): 1446, (4, True): 1438, (6, False): 1426, (6, True): 1418}
IP_RECVTOS, IP_MTU, IP_MTU_DISCOVER, IP_PMTUDISC_DO = 13, 14, 10, 2
IPV6_MTU, IPV6_MTU_DISCOVER = 24, 23
CE = 3
REPLAY, ICV = 7, 8  # p4/gateway/metadata.p4


@pytest.mark.parametrize("inner", [4, 6], ids=["v4", "v6"])
@pytest.mark.parametrize("pair", EVERY_SHAPE, ids=str)
def test_ping_and_tcp_pass(site: Site, tunnels: Tunnels, pair: Pair, inner: int) -> None:
    mtu = INNER_MTU[pair.outer, pair.in_udp]
    with tunnels.opened(pair, mtu):
        assert ping("peer", OFFICE[inner]) == 3
        # The largest packet, unfragmented, there and back.
        assert ping("peer", OFFICE[inner], payload=mtu - (28 if inner == 4 else 48)) == 3
        assert ping("office", INNER[inner]) == 3
        echo_over_tcp(site.peer, site.office, INNER[inner], OFFICE[inner], MEGABYTE)


@pytest.mark.parametrize("pair", EVERY_SUITE, ids=str)
def test_every_suite_passes(site: Site, tunnels: Tunnels, pair: Pair) -> None:
    with tunnels.opened(pair, 1400):
        assert ping("peer", OFFICE[4]) == 3
        echo_over_tcp(site.peer, site.office, INNER[4], OFFICE[4], MEGABYTE // 4)


@pytest.mark.parametrize("inner", [4, 6], ids=["v4", "v6"])
def test_tcp_segments_are_cut_both_ways(site: Site, tunnels: Tunnels, inner: int) -> None:
    """Both hosts have links of 1500 bytes, and nobody has told them of 1300 but the gateway."""
    with tunnels.opened(Pair(GCM), 1300):
        segments = echo_over_tcp(site.peer, site.office, INNER[inner], OFFICE[inner], 1 << 16)
        largest = 1300 - (40 if inner == 4 else 60)
        timestamps = 12
        assert segments.client == segments.server == largest - timestamps
        segments = echo_over_tcp(site.office, site.peer, OFFICE[inner], INNER[inner], 1 << 16)
        assert segments.client == segments.server == largest - timestamps


@pytest.mark.parametrize("inner", [4, 6], ids=["v4", "v6"])
def test_a_packet_that_is_too_big_is_told(site: Site, tunnels: Tunnels, inner: int) -> None:
    with tunnels.opened(Pair(GCM), INNER_MTU[4, False]):
        sender = site.office.call(_datagrams, OFFICE[inner])
        receiver = site.peer.call(_datagrams, INNER[inner])
        with sender, receiver:
            sender.connect((INNER[inner], receiver.getsockname()[1]))
            sender.send(bytes(1500 - (28 if inner == 4 else 48)))
            assert waited(lambda: _path_mtu(sender) == INNER_MTU[4, False]), _path_mtu(sender)
            assert sender.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.EMSGSIZE
            fits = bytes(INNER_MTU[4, False] - (28 if inner == 4 else 48))
            sender.send(fits)
            assert receiver.recv(2048) == fits


@pytest.mark.parametrize("inner", [4, 6], ids=["v4", "v6"])
@pytest.mark.parametrize("pair", EVERY_SHAPE[::2], ids=str)
def test_congestion_on_the_way_reaches_the_receiver(
    site: Site, tunnels: Tunnels, pair: Pair, inner: int
) -> None:
    """RFC 6040: what a router on the way marks, the hosts see; what no host can understand is dropped."""
    with tunnels.opened(pair, 1400), site.marking(pair.outer):
        office, peer = site.office.call(_datagrams, OFFICE[inner]), site.peer.call(_datagrams, INNER[inner])
        with office, peer:
            for sender, receiver, to in ((peer, office, OFFICE[inner]), (office, peer, INNER[inner])):
                for tos, expected in ((0xB8 | 2, 0xB8 | CE), (1, CE), (CE, CE)):
                    _set_tos(sender, tos)
                    sender.sendto(b"marked", (to, receiver.getsockname()[1]))
                    assert _received_tos(receiver) == expected, (tos, to)
            _set_tos(peer, 0)
            peer.sendto(b"not capable", (OFFICE[inner], office.getsockname()[1]))
            office.settimeout(0.5)
            with pytest.raises(TimeoutError):
                office.recv(100)


def test_a_rekey_loses_no_packet(site: Site, tunnels: Tunnels) -> None:
    """Make before break (RFC 9061 D.2), five times under traffic in both directions."""
    with (
        tunnels.opened(Pair(GCM), 1400) as tunnel,
        Exchange(site.peer, site.office, INNER[4], OFFICE[4]) as exchange,
    ):
        for _ in range(5):
            time.sleep(0.3)
            before = tunnel.make()
            time.sleep(0.2)
            tunnel.breaks(before)
        time.sleep(0.3)
    assert exchange.sent > 200
    assert exchange.answered == set(range(exchange.sent))


def test_a_forged_packet_is_dropped_and_counted(site: Site, controller: Controller, tunnels: Tunnels) -> None:
    with tunnels.opened(Pair(GCM)):
        before = controller.drops()
        with site.damaging():
            assert ping("peer", OFFICE[4]) == 0
        assert controller.drops() == before | {ICV: before.get(ICV, 0) + 3}
        assert ping("peer", OFFICE[4]) == 3


@pytest.mark.parametrize("in_udp", [False, True], ids=["raw", "udp"])
def test_each_side_refuses_what_comes_twice(
    site: Site, controller: Controller, tunnels: Tunnels, in_udp: bool
) -> None:
    with tunnels.opened(Pair(GCM, in_udp=in_udp)) as tunnel:
        before = controller.drops().get(REPLAY, 0)
        with site.disturbing("duplicate 100%"):
            assert ping("peer", OFFICE[4], count=20) == 20
        assert controller.drops()[REPLAY] - before == 20
        assert refused(from_gateway(tunnel.pair), "peer") == Refused(0, 20, 0)


def test_order_does_not_matter(site: Site, controller: Controller, tunnels: Tunnels) -> None:
    with tunnels.opened(Pair(GCM), 1400) as tunnel:
        before = controller.drops()
        with (
            site.disturbing("delay 30ms reorder 50%"),
            Exchange(site.peer, site.office, INNER[4], OFFICE[4]) as exchange,
        ):
            time.sleep(1)
        assert exchange.answered == set(range(exchange.sent))
        assert controller.drops() == before
        assert refused(from_gateway(tunnel.pair), "peer") == Refused(0, 0, 0)


def _datagrams(address: str) -> socket.socket:
    opened = socket.socket(family(address), socket.SOCK_DGRAM)
    if opened.family == socket.AF_INET:
        opened.setsockopt(socket.IPPROTO_IP, IP_RECVTOS, 1)
        opened.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    else:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
        opened.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, IP_PMTUDISC_DO)
    opened.bind((address, 0))
    opened.settimeout(5)
    return opened


def _path_mtu(connected: socket.socket) -> int:
    if connected.family == socket.AF_INET:
        return connected.getsockopt(socket.IPPROTO_IP, IP_MTU)
    return connected.getsockopt(socket.IPPROTO_IPV6, IPV6_MTU)


def _set_tos(sender: socket.socket, tos: int) -> None:
    if sender.family == socket.AF_INET:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    else:
        sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, tos)


def _received_tos(receiver: socket.socket) -> int:
    _, ancillary, _, _ = receiver.recvmsg(2048, 64)
    (_, _, value), *_ = ancillary
    return value[0]
