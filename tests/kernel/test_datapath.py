"""The client's kernel datapath, with sluice as its gateway."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address

import pytest
from culvert_ipsec import DatapathError, Limits, Selector, SoftLimit
from culvert_ipsec.xfrm_values import Replay, SaName
from linux_esp.controller import Controller
from linux_esp.entries import GATEWAY, INNER, OFFICE, PEER, PEER_MAC, WAN, WAN_MAC, Pair, entry, prefix
from linux_esp.laptop import DEVICE, GCM, MTU, NUMBERS, PORT, PREFIXES, Laptop
from linux_esp.site import Site, waited
from linux_esp.suites import SUITES
from linux_esp.traffic import Exchange, echo_over_tcp, ping
from linux_esp.xfrm import ip
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6EchoReply, ICMPv6PacketTooBig, IPv6
from scapy.layers.l2 import Ether

pytestmark = pytest.mark.slow

ALL_FRAMES = 3
MOVED = "192.0.2.3"
FOREIGN = "src 10.77.0.0/16 dst 10.78.0.0/16 dir out"


@pytest.fixture
def laptop(site: Site, controller: Controller) -> Iterator[Laptop]:
    with site.without_inner_addresses():
        made = Laptop(site, controller, NUMBERS)
        yield made
        made.close()


@pytest.mark.parametrize("pair", [*map(Pair, SUITES), Pair(GCM, outer=6)], ids=str)
def test_traffic_passes_both_ways_with_every_suite_and_over_ipv6(
    site: Site, laptop: Laptop, pair: Pair
) -> None:
    laptop.open(pair)
    for version in (4, 6):
        assert ping("peer", OFFICE[version]) == 3
        assert ping("office", INNER[version]) == 3
        echo_over_tcp(site.peer, site.office, INNER[version], OFFICE[version], 1 << 18)
    counters = laptop.counters()
    (tunnel,) = counters.tunnels.values()
    assert tunnel.inbound.bytes > 1 << 19
    assert tunnel.outbound.bytes > 1 << 19
    assert tunnel.outbound.last is not None
    assert sum(counters.drops.values()) == 0


def test_a_rekey_each_half_second_loses_no_packet(site: Site, laptop: Laptop) -> None:
    laptop.open(Pair(GCM))
    with Exchange(site.peer, site.office, INNER[4], OFFICE[4]) as exchange:
        for _ in range(6):
            time.sleep(0.5)
            laptop.rekey()
        time.sleep(0.3)
    assert exchange.sent > 200
    assert exchange.answered == set(range(exchange.sent))
    (tunnel,) = laptop.counters().tunnels.values()
    # The count covers all generations.
    assert tunnel.outbound.packets >= exchange.sent
    assert ip(["xfrm state"], "peer").count("proto esp") == 2


def test_the_kernel_reports_a_soft_limit_and_keeps_a_hard_limits_counts(laptop: Laptop) -> None:
    laptop.open(Pair(GCM), soft=Limits(packets=4), hard=Limits(packets=8))
    assert laptop.pair is not None
    assert ping("peer", OFFICE[4]) == 3
    assert laptop.soft_limits(seconds=0) == []
    assert ping("peer", OFFICE[4]) == 3
    assert laptop.soft_limits() == [SoftLimit(f"t{laptop.pair.tunnel}", laptop.pair.spi_in, inbound=False)]
    assert ping("peer", OFFICE[4], count=4) == 2
    (tunnel,) = laptop.counters().tunnels.values()
    assert (tunnel.inbound.packets, tunnel.outbound.packets) == (8, 8)
    laptop.rekey()
    assert ping("peer", OFFICE[4]) == 3
    (tunnel,) = laptop.counters().tunnels.values()
    assert (tunnel.inbound.packets, tunnel.outbound.packets) == (11, 11)


def test_an_address_of_this_computer_is_left_to_it(site: Site, laptop: Laptop) -> None:
    def routes() -> list[str]:
        return [line for line in ip(["route show table all"], "peer").split("\n") if DEVICE not in line]

    before = routes()
    for own in PEER.values():
        assert any(line.startswith(f"local {own} ") for line in before)
        with pytest.raises(DatapathError, match=f"{own} is this computer's own"):
            laptop.apply(replace(laptop.state, inner_addresses=frozenset({own})))
    assert routes() == before


def test_a_blocked_prefix_leaves_by_no_route(site: Site, laptop: Laptop) -> None:
    assert laptop.pair is None
    laptop.block()
    with site.gateway.call(_wiretap, "wan") as tap:
        for version in (4, 6):
            assert ping("peer", OFFICE[version], count=1) == 0
            with site.peer.call(_datagrams_by, "eth0", version) as sender:
                sender.sendto(b"in clear", (OFFICE[version], 9))
        assert not _to_office(tap)
        laptop.open(Pair(GCM))
        assert ping("peer", OFFICE[4]) == 3
        assert not _to_office(tap)
    laptop.block()
    assert ping("peer", OFFICE[4], count=1) == 0


def test_each_packet_to_a_blocked_prefix_is_told_until_a_tunnel_is_open(site: Site, laptop: Laptop) -> None:
    laptop.block()
    trap = laptop.path.trap
    for far in (*OFFICE.values(), *OFFICE.values()):
        with site.peer.call(_datagrams_by, "eth0", ip_address(far).version) as sender:
            sender.sendto(b"knock", (far, 9))
            sender.sendto(b"knock", (far, 9))
        assert waited(lambda: bool(select.select([trap], [], [], 0)[0]))
        assert trap.take() == {ip_address(far)}
    laptop.open(Pair(GCM))
    assert ping("peer", OFFICE[4]) == 3
    assert not trap.take()


def test_only_what_the_selectors_name_passes(site: Site, laptop: Laptop) -> None:
    laptop.open(Pair(GCM))
    (tunnel,) = laptop.state.tunnels
    with site.office.call(socket.create_server, (OFFICE[4], 0)) as listener:
        port = listener.getsockname()[1]
        chosen = (Selector(PREFIXES[0], socket.IPPROTO_TCP, (port - 3, port)),)
        laptop.apply(replace(laptop.state, tunnels=(replace(tunnel, selectors=chosen),)))
        assert ping("peer", OFFICE[4], count=1) == 0
        site.peer.call(socket.create_connection, (OFFICE[4], port), 20.0).close()
    assert laptop.counters().no_policy > 0


@pytest.mark.parametrize("version", [4, 6])
def test_a_datagram_in_fragments_passes_where_its_ports_do(site: Site, laptop: Laptop, version: int) -> None:
    """Later fragments have no ports (RFC 4301 section 7.4). Linux seals what this computer sends over IPv4 before it cuts
    it, and no gateway takes ESP in fragments."""
    laptop.open(Pair(GCM))
    (tunnel,) = laptop.state.tunnels
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    with (
        site.office.call(socket.socket, family, socket.SOCK_DGRAM) as office,
        site.peer.call(socket.socket, family, socket.SOCK_DGRAM) as peer,
    ):
        office.bind((OFFICE[version], 0))
        peer.bind((INNER[version], 0))
        for end in (office, peer):
            end.settimeout(2.0)
        port = office.getsockname()[1]
        chosen = (Selector(PREFIXES[version == 6], socket.IPPROTO_UDP, (port, port)),)
        laptop.apply(replace(laptop.state, tunnels=(replace(tunnel, selectors=chosen),)))
        assert _passes(peer, office, OFFICE[version], port) == (version == 6)
        assert _passes(office, peer, *peer.getsockname()[:2])
        before = laptop.counters().no_policy
        with contextlib.suppress(OSError):
            peer.sendto(bytes(3000), (OFFICE[version], port ^ 1))
        assert laptop.counters().no_policy > before
    # The office has learnt this way's MTU, which the next test does not expect.
    flush = ["ip", "-n", "office", f"-{version}", "route", "flush", "cache"]
    subprocess.run(flush, check=True)


@pytest.mark.parametrize("outer", [4, 6])
@pytest.mark.parametrize("quoted", ["udp", "echo"])
def test_no_forged_message_makes_packets_shorter(site: Site, laptop: Laptop, outer: int, quoted: str) -> None:
    laptop.open(Pair(GCM, outer=outer))
    longest = {4: MTU - 20 - 8, 6: MTU - 40 - 8}
    for version in (4, 6):
        assert ping("peer", OFFICE[version], payload=longest[version]) == 3
    with site.gateway.call(_wiretap, "wan") as wire:
        wire.send(_too_long(outer, quoted))
    try:
        if quoted == "echo":
            # Programs believe it.
            assert waited(lambda: " mtu " in ip([f"route get {GATEWAY[outer]}"], "peer"))
        for version in (4, 6):
            assert ping("peer", OFFICE[version], payload=longest[version]) == 3
    finally:
        # The kernel would believe it for ten minutes, in the tests behind this one too.
        for version in (4, 6):
            subprocess.run(["ip", "-n", "peer", f"-{version}", "route", "flush", "cache"], check=True)
    assert " mtu " not in ip([f"route get {GATEWAY[outer]}"], "peer")


def test_a_crash_leaves_everything_blocked_and_the_next_start_no_old_key(site: Site, laptop: Laptop) -> None:
    ip([f"xfrm policy add {FOREIGN} priority 2000 action block"], "peer")
    try:
        laptop.open(Pair(GCM))
        laptop.crash()
        with site.gateway.call(_wiretap, "wan") as tap:
            assert ping("peer", OFFICE[4], count=1) == 0
            assert not _to_office(tap)
        laptop.start()
        assert ip(["xfrm state"], "peer") == ""
        assert ping("peer", OFFICE[4], count=1) == 0
        laptop.rekey()
        assert ping("peer", OFFICE[4]) == 3
        laptop.close()
        assert ip(["xfrm state"], "peer") == ""
        left = ip(["xfrm policy"], "peer").split("\n")
        assert [line for line in left if line.startswith("src")] == [
            "src 10.77.0.0/16 dst 10.78.0.0/16 uid 0"
        ]
        assert not any(table in ip(["rule"], "peer") for table in ("4500", "4501"))
    finally:
        ip([f"xfrm policy delete {FOREIGN}"], "peer")


def test_flushed_policies_are_restored_and_sas_renewed(site: Site, laptop: Laptop) -> None:
    laptop.open(Pair(GCM))
    ip(["xfrm policy flush"], "peer")
    site.peer.call(laptop.path.repair)
    assert ping("peer", OFFICE[4]) == 3
    ip(["xfrm state flush"], "peer")
    laptop.counters()
    assert {limit.inbound for limit in laptop.soft_limits()} == {True, False}
    laptop.rekey()
    assert ping("peer", OFFICE[4]) == 3


def test_a_key_whose_sa_others_removed_is_not_used_again(site: Site, laptop: Laptop) -> None:
    """Nor when a packet came afterwards, for which the kernel notes under the same SPI that it has asked for an SA."""
    laptop.open(Pair(GCM))
    opened = laptop.state
    assert ping("peer", OFFICE[4]) == 3
    ip(["xfrm state flush"], "peer")
    assert ping("peer", OFFICE[4]) == 0
    laptop.block()
    laptop.apply(opened)
    assert "aead" not in ip(["xfrm state"], "peer")
    laptop.rekey()
    assert ping("peer", OFFICE[4]) == 3


def test_a_key_that_comes_back_goes_on_after_its_numbers(site: Site, laptop: Laptop) -> None:
    laptop.open(Pair(GCM))
    opened = laptop.state
    assert ping("peer", OFFICE[4]) == 3
    laptop.block()
    laptop.apply(opened)
    # The gateway would refuse as replayed what began at 1 again.
    assert ping("peer", OFFICE[4]) == 3
    shown = ip(["xfrm state"], "peer")
    assert "oseq 0x100006" in shown


def test_the_tunnel_follows_to_another_address_and_back(
    site: Site, controller: Controller, laptop: Laptop
) -> None:
    laptop.open(Pair(GCM))
    assert ping("peer", OFFICE[4]) == 3
    way = entry("route", {"dst": str(prefix(MOVED))}, "via", nexthop_id=WAN)
    controller.insert([way])
    ip([f"address add {MOVED}/24 dev eth0"], "peer")
    try:
        for own in (MOVED, PEER[4]):
            ip([f"route replace 192.0.2.0/24 dev eth0 src {own}"], "peer")
            site.peer.call(laptop.path.follow)
            assert f"src {own} dst {GATEWAY[4]}" in ip(["xfrm state"], "peer")
            assert ping("peer", OFFICE[4]) == 3
    finally:
        ip([f"address delete {MOVED}/24 dev eth0"], "peer")
        controller.delete([way])


def test_a_packet_that_meets_no_sa_does_not_keep_the_next_one_out(
    site: Site, laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A move replaces the outbound SA. For a packet in between the kernel notes that it has asked for one."""
    laptop.open(Pair(GCM))
    assert ping("peer", OFFICE[4]) == 3
    remove = laptop.path._xfrm.remove_sa

    def remove_and_send(name: SaName) -> None:
        remove(name)
        assert ping("peer", OFFICE[4]) == 0

    monkeypatch.setattr(laptop.path._xfrm, "remove_sa", remove_and_send)
    ip([f"address add {MOVED}/24 dev eth0", f"route replace 192.0.2.0/24 dev eth0 src {MOVED}"], "peer")
    try:
        site.peer.call(laptop.path.follow)
        assert f"src {MOVED} dst {GATEWAY[4]}" in ip(["xfrm state"], "peer")
        # An SA that is there keeps its place.
        with pytest.raises(FileExistsError):
            laptop.path._xfrm.add_sa(next(iter(laptop.path._known.sas.values())), Replay())
    finally:
        ip(
            [f"route replace 192.0.2.0/24 dev eth0 src {PEER[4]}", f"address delete {MOVED}/24 dev eth0"],
            "peer",
        )


@pytest.mark.parametrize("outer", [4, 6])
def test_the_way_through_a_nat_is_kept_open(site: Site, laptop: Laptop, outer: int) -> None:
    laptop.open(Pair(GCM, outer=outer))
    with site.gateway.call(_wiretap, "wan") as tap:
        site.peer.call(laptop.path.keep_alive)
        keepalive = struct.pack("!HHH", PORT, 4500, 9)
        at = {4: 42, 6: 62}[outer]
        assert waited(lambda: any(keepalive in frame and frame[at] == 0xFF for frame in _heard(tap)))
    assert laptop.counters().keepalives_out == 1


def _too_long(outer: int, quoted: str) -> bytes:
    """The frame of an ICMP message that anybody can send, about a packet of this computer to its gateway."""
    ends = {"src": PEER[outer], "dst": GATEWAY[outer]}
    if outer == 4:
        about = UDP(sport=PORT, dport=4500) if quoted == "udp" else ICMP(type="echo-reply")
        packet = (
            IP(src="192.0.2.77", dst=PEER[4])
            / ICMP(type=3, code=4, nexthopmtu=600)
            / IP(**ends, flags="DF", len=1400)
        )
    else:
        about = UDP(sport=PORT, dport=4500) if quoted == "udp" else ICMPv6EchoReply()
        packet = (
            IPv6(src="2001:db8::77", dst=PEER[6]) / ICMPv6PacketTooBig(mtu=1280) / IPv6(**ends, plen=1400)
        )
    return bytes(Ether(src=WAN_MAC, dst=PEER_MAC) / packet / about / bytes(64))


def _wiretap(name: str) -> socket.socket:
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_FRAMES))
    tap.bind((name, ALL_FRAMES))
    tap.setblocking(False)
    return tap


def _heard(tap: socket.socket) -> list[bytes]:
    frames: list[bytes] = []
    while True:
        try:
            frames.append(tap.recv(65536))
        except BlockingIOError:
            return frames


def _to_office(tap: socket.socket) -> list[bytes]:
    """Packets that show the office's address to the wire."""
    ends = [socket.inet_aton(OFFICE[4]), socket.inet_pton(socket.AF_INET6, OFFICE[6])]
    return [frame for frame in _heard(tap) if frame[30:34] == ends[0] or frame[38:54] == ends[1]]


def _passes(sender: socket.socket, receiver: socket.socket, to: str, port: int) -> bool:
    """Whether a datagram of 3,000 bytes arrives. The first ones may teach the sender the way's MTU."""
    for number in range(3):
        sent = bytes([number]) * 3000
        with contextlib.suppress(OSError):
            sender.sendto(sent, (to, port))
        with contextlib.suppress(TimeoutError):
            while (received := receiver.recv(4096)) != sent:
                assert len(received) == 3000
            return True
    return False


def _datagrams_by(device: str, version: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    return opened
