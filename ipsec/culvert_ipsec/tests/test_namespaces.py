"""Two datapaths with a wire between them: the packets that come through, those that do not, and a listener's view."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address

import pytest
from culvert_ipsec import (
    ClosedTunnel,
    DatapathError,
    InboundSa,
    Limits,
    OutboundSa,
    Selector,
    Userspace,
    end_lost,
)
from culvert_ipsec.esp import Outbound
from scapy.layers.inet import IP, UDP

from .conftest import End, entered, sa_key
from .reference_esp import SUITES

pytestmark = pytest.mark.slow

ALL_FRAMES = 3
# RFC 3168 section 5.
ECT_0, CE = 0b10, 0b11


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def udp_socket(end: End, address: str, port: int = 0) -> socket.socket:
    with entered(end.namespace):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
    sock.bind((address, port))
    sock.settimeout(5)
    return sock


def wiretap(end: End) -> socket.socket:
    with entered(end.namespace):
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_FRAMES))
        tap.bind(("wire", ALL_FRAMES))
    tap.setblocking(False)
    return tap


def heard(tap: socket.socket, ethertype: int = 0x0800) -> list[bytes]:
    """Packets of a family on the wire so far."""
    packets: list[bytes] = []
    while True:
        try:
            frame = tap.recv(65536)
        except BlockingIOError:
            return packets
        if frame[12:14] == ethertype.to_bytes(2):
            packets.append(frame[14:])


def esp_payload(packet: bytes) -> bytes:
    return bytes(IP(packet)[UDP].payload)


def test_ping_and_tcp_come_through_and_the_wire_shows_esp_only(ends: tuple[End, End]) -> None:
    a, b = ends
    tap = wiretap(b)
    with entered(a.namespace):
        pinger = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    pinger.settimeout(5)
    echo = struct.pack("!BBHHH", 8, 0, 0xF7FF - 1, 1, 0)
    pinger.sendto(echo, (b.inner, 0))
    reply, (source, _) = pinger.recvfrom(100)
    assert (source, reply[20]) == (b.inner, 0)

    with entered(b.namespace):
        listener = socket.create_server((b.inner, 8080))
    sent = bytes(range(256)) * 40_000
    received = bytearray()

    def serve() -> None:
        connection, peer = listener.accept()
        assert peer[0] == a.inner
        while data := connection.recv(1 << 20):
            received.extend(data)

    server = threading.Thread(target=serve)
    server.start()
    with entered(a.namespace):
        connection = socket.create_connection((b.inner, 8080))
    connection.sendall(sent)
    connection.close()
    server.join(30)
    assert received == sent

    on_wire = heard(tap)
    assert on_wire
    for packet in on_wire:
        assert (packet[9], packet[20:24]) == (socket.IPPROTO_UDP, struct.pack("!HH", 4500, 4500))
    counters = b.datapath.counters()
    assert sum(counters.drops.values()) == 0
    flow = counters.tunnels["t1"].inbound
    assert flow.bytes > len(sent)
    assert flow.last is not None
    assert 0 <= time.monotonic() - flow.last < 30


def test_a_session_goes_on_when_its_closed_tunnel_opens_again(ends: tuple[End, End]) -> None:
    a, b = ends
    a.state = replace(a.state, inner_addresses=frozenset(), blocked=frozenset({"10.20.0.0/16"}))
    a.apply()
    with entered(b.namespace):
        listener = socket.create_server((b.inner, 8080))
    with entered(a.namespace):
        session = socket.create_connection((b.inner, 8080), timeout=30)
    far, _ = listener.accept()
    far.settimeout(30)
    opened, tap = a.state, wiretap(a)
    closed = ClosedTunnel((a.inner,), opened.tunnels[0].remote_prefixes)
    with entered(a.namespace):
        a.datapath.apply(replace(opened, tunnels=(), closed=(closed,)))
        a.datapath.repair()
    a.datapath.trap.take()
    session.sendall(b"after the close")
    # A connection that begins now has the tunnel's address, too, and so can go through it.
    with entered(a.namespace):
        fresh = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    fresh.connect_ex((b.inner, 8080))
    assert select.select([a.datapath.trap], [], [], 5)[0]
    assert a.datapath.trap.take() == {ip_address(b.inner)}
    assert heard(tap) == []
    with entered(a.namespace):
        a.datapath.apply(opened)
    assert far.recv(100) == b"after the close"
    assert select.select([], [fresh], [], 30)[1]
    assert fresh.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    assert fresh.getsockname()[0] == a.inner


def test_tunnels_open_after_another_network_takes_a_kept_address(
    ends: tuple[End, End],
) -> None:
    a, b = ends
    opened = replace(a.state, blocked=frozenset({"10.20.0.0/16"}))
    lan = ["ip", "-n", a.namespace, "link", "add", "lan", "type", "veth", "peer", "lan2"]
    subprocess.run(lan, check=True)

    def given(address: str) -> None:
        ip = ["ip", "-n", a.namespace]
        subprocess.run([*ip, "address", "replace", address, "dev", "lan"], check=True)
        subprocess.run([*ip, "link", "set", "lan", "up"], check=True)

    def devices(address: str) -> str:
        listing = ["ip", "-n", a.namespace, "route", "show", "table", "local", address]
        return subprocess.run(listing, capture_output=True, text=True, check=True).stdout

    # DHCP gives the address that the closed tunnel keeps, and a network in which one lies.
    given("10.99.7.7/24")
    given("10.99.8.1/24")
    closed = tuple(ClosedTunnel((it,), ("10.20.7.0/24",)) for it in ("10.99.7.7", "10.99.8.9"))
    a.state = replace(opened, closed=closed)
    a.apply()
    assert "tun0" not in devices("10.99.7.7")
    assert not devices("10.99.8.9")
    sink, source = udp_socket(b, b.inner, 9000), udp_socket(a, a.inner)
    source.sendto(b"carried", (b.inner, 9000))
    assert sink.recv(100) == b"carried"
    tap = wiretap(b)
    with entered(a.namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as blocked:
        blocked.sendto(b"secret", ("10.20.7.1", 9))
    eventually(lambda: a.datapath.counters().no_policy == 1)
    assert heard(tap) == []
    # Once the network is left, sessions find their address again.
    subprocess.run(["ip", "-n", a.namespace, "link", "del", "lan"], check=True)
    with entered(a.namespace):
        a.datapath.repair()
    assert "tun0" in devices("10.99.7.7")
    assert "tun0" in devices("10.99.8.9")


def test_only_sockets_with_another_address_than_the_tunnels_end_at_once(
    ends: tuple[End, End],
) -> None:
    a, b = ends
    opened = replace(a.state, blocked=frozenset({"10.20.0.0/16"}), inner_addresses=frozenset())
    with entered(a.namespace):
        a.datapath.apply(replace(opened, tunnels=()))

    def connected(family: int, kind: int, host: str, device: str = "") -> socket.socket:
        with entered(a.namespace):
            made = socket.socket(family, kind | socket.SOCK_NONBLOCK)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        made.connect_ex((host, 8080))
        return made

    v4, v6, tcp, udp = socket.AF_INET, socket.AF_INET6, socket.SOCK_STREAM, socket.SOCK_DGRAM
    kinds = [(v4, tcp), (v6, tcp), (v4, udp), (v6, udp)]
    host = {v4: b.inner, v6: f"::ffff:{b.inner}"}
    before = [connected(family, kind, host[family]) for family, kind in kinds]
    elsewhere = [
        connected(v4, udp, "10.20.7.1"),
        connected(v4, udp, b.outer),
        connected(v4, udp, b.inner, "wire"),
    ]
    with entered(a.namespace):
        a.datapath.apply(opened)
    after = [connected(family, kind, host[family]) for family, kind in kinds]
    with entered(a.namespace):
        assert end_lost(opened.tunnels, "tun0") == len(before)
        assert end_lost(opened.tunnels, "tun0") == 0

    def error(of: socket.socket) -> int:
        return of.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    assert [error(it) for it in before] == [errno.ECONNABORTED] * len(before)
    # The peer has no server: what is refused has come through the tunnel.
    assert {error(it) for it in (*after, *elsewhere)} <= {0, errno.ECONNREFUSED}


SIXES = {"a": "fd00:99::2", "b": "fd00:20::10"}


def test_both_families_go_through_one_tunnel_and_one_of_them_can_leave(ends: tuple[End, End]) -> None:
    a, b = ends
    only_ipv4 = [end.state for end in ends]
    for end, peer in ((a, b), (b, a)):
        own, theirs = SIXES[end.namespace[-1]], SIXES[peer.namespace[-1]]
        tunnel = end.state.tunnels[0]
        both = replace(tunnel, inner_address6=own, remote_prefixes=(*tunnel.remote_prefixes, f"{theirs}/128"))
        end.state = replace(end.state, inner_addresses=frozenset({end.inner, own}), tunnels=(both,))
        end.apply()
        end.apply()
    for there in (b.inner, SIXES["b"]):
        subprocess.run(["ip", "netns", "exec", a.namespace, "ping", "-c1", "-W5", there], check=True)
    assert a.datapath.counters().tunnels["t1"].outbound.packets >= 2
    for end, state in zip(ends, only_ipv4, strict=True):
        end.state = state
        end.apply()
        shown = subprocess.run(
            ["ip", "-n", end.namespace, "-6", "route", "show", "table", "all"], capture_output=True
        )
        assert b"fd00:" not in shown.stdout
    subprocess.run(["ip", "netns", "exec", a.namespace, "ping", "-c1", "-W5", b.inner], check=True)


def test_a_tunnel_goes_on_over_ipv6_with_the_sas_that_it_has(ends: tuple[End, End]) -> None:
    a, b = ends
    ping = ["ip", "netns", "exec", a.namespace, "ping", "-c1", "-W5", b.inner]
    subprocess.run(ping, check=True)
    outer = {"a": "fd00:1::1", "b": "fd00:1::2"}
    for end in ends:
        add = [
            "ip",
            "-n",
            end.namespace,
            "address",
            "add",
            f"{outer[end.namespace[-1]]}/64",
            "dev",
            "wire",
            "nodad",
        ]
        subprocess.run(add, check=True)
    tap = wiretap(b)
    for end, peer in ((a, b), (b, a)):
        moved = replace(end.state.tunnels[0], outer_address=outer[peer.namespace[-1]])
        # The outer IPv6 header is 20 bytes longer.
        end.state = replace(end.state, mtu=end.state.mtu - 20, tunnels=(moved,))
        end.apply()
    subprocess.run([*ping, "-Q", hex(ECT_0)], check=True)
    with entered(b.namespace):
        listener = socket.create_server((b.inner, 8080))
    with entered(a.namespace), socket.create_connection((b.inner, 8080)) as sender:
        receiver, _ = listener.accept()
        threading.Thread(target=sender.sendall, args=(bytes(1 << 20),)).start()
        assert len(receiver.recv(1 << 20, socket.MSG_WAITALL)) == 1 << 20
    # Neighbours are found with ICMPv6, some of it behind hop-by-hop options.
    others = (socket.IPPROTO_ICMPV6, socket.IPPROTO_HOPOPTS)
    packets = [it for it in heard(tap, 0x86DD) if it[6] not in others]
    assert {(it[6], it[40:44]) for it in packets} == {(socket.IPPROTO_UDP, struct.pack("!HH", 4500, 4500))}
    assert {(it[0] << 4 | it[1] >> 4) & 0xFF for it in packets} >= {0, ECT_0}
    assert sum(b.datapath.counters().drops.values()) == 0


def test_only_what_the_selectors_name_is_sent(ends: tuple[End, End]) -> None:
    a, b = ends
    narrow = replace(
        a.state.tunnels[0], selectors=(Selector(f"{b.inner}/32", socket.IPPROTO_UDP, (9000, 9001)),)
    )
    a.state = replace(a.state, tunnels=(narrow,))
    a.apply()
    source, sinks = udp_socket(a, a.inner), [udp_socket(b, b.inner, port) for port in (8999, 9000, 9001)]
    for sink in sinks:
        source.sendto(b"asks", sink.getsockname())
    for sink in sinks[1:]:
        assert sink.recv(100) == b"asks"
        sink.sendto(b"says", source.getsockname())
        assert source.recv(100) == b"says"
    sinks[0].sendto(b"unasked", source.getsockname())
    eventually(lambda: a.datapath.counters().drops["selector"] == 1)
    assert a.datapath.counters().no_policy == 1
    for sock in (source, *sinks):
        sock.close()


@pytest.mark.parametrize("esn", [True, False])
def test_every_suite_carries_a_tunnel(ends: tuple[End, End], esn: bool) -> None:
    a, b = ends
    sink = udp_socket(b, b.inner, 9000)
    for number, suite in enumerate(SUITES):
        spi, key = 0x3000 + number, sa_key(10 + number, suite)
        b.apply(inbound=(InboundSa(spi, key, suite=suite, esn=esn),))
        a.apply(outbound=OutboundSa(spi, key, suite=suite, esn=esn))
        udp_socket(a, a.inner).sendto(suite.encode(), (b.inner, 9000))
        assert sink.recv(100) == suite.encode()


def test_a_legacy_suite_must_be_allowed(ends: tuple[End, End]) -> None:
    a, _ = ends
    suite = "null-hmac-sha256-128"
    with entered(a.namespace):
        strict = Userspace.create("tun1", 4501)
    outbound = OutboundSa(0x3000, sa_key(10, suite), suite=suite)
    tunnel = replace(a.state.tunnels[0], outbound=outbound)
    with pytest.raises(DatapathError, match="legacy suite"), entered(a.namespace):
        strict.apply(replace(a.state, tun_name="tun1", udp_port=4501, tunnels=(tunnel,)))
    with entered(a.namespace):
        strict.close()


def test_dscp_and_ecn_cross_the_tunnel_and_congestion_comes_back_in(ends: tuple[End, End]) -> None:
    a, b = ends
    tap = wiretap(b)
    sink = udp_socket(b, b.inner, 9000)
    sink.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    sender = udp_socket(a, a.inner)
    marked = 46 << 2 | ECT_0
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, marked)
    sender.sendto(b"marked", (b.inner, 9000))
    assert sink.recvmsg(100, 100)[1] == [(socket.IPPROTO_IP, socket.IP_TOS, bytes([marked]))]
    assert heard(tap)[0][1] == marked

    congested = udp_socket(a, a.outer)
    congested.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, CE)
    insider = Outbound(0x2001, "aes-gcm-256", sa_key(2), after=100)
    for tos in (0, ECT_0):
        inner = IP(src=a.inner, dst=b.inner, tos=tos) / UDP(dport=9000) / bytes([tos])
        congested.sendto(insider.seal(bytes(inner)), (b.outer, 4500))
    data, ancillary, _, _ = sink.recvmsg(100, 100)
    assert (data, ancillary) == (bytes([ECT_0]), [(socket.IPPROTO_IP, socket.IP_TOS, bytes([CE]))])
    assert b.datapath.counters().drops["ecn"] == 1


def test_replays_forgeries_and_strangers_are_dropped_and_counted(ends: tuple[End, End]) -> None:
    a, b = ends
    tap = wiretap(b)
    sink = udp_socket(b, b.inner, 9000)
    udp_socket(a, a.inner).sendto(b"genuine", (b.inner, 9000))
    assert sink.recv(100) == b"genuine"
    genuine = esp_payload(heard(tap)[0])

    attacker = udp_socket(a, a.outer)
    target = (b.outer, 4500)
    stray = bytes(IP(src="10.99.0.3", dst=b.inner) / UDP(dport=9000) / b"stray")
    elsewhere = bytes(IP(src=a.inner, dst="10.20.0.11") / UDP(dport=9000) / b"elsewhere")
    insider = Outbound(0x2001, "aes-gcm-256", sa_key(2), after=100)
    damaged = bytearray(insider.seal(stray))
    damaged[-1] ^= 1
    for datagram in (
        genuine, genuine, bytes(damaged), insider.seal(stray), insider.seal(elsewhere),
        b"\0\0\x30\0" + bytes(40), b"\0\0\0\0IKE", b"\xff", b"\0\0\x20\x01short",
    ):  # fmt: skip
        attacker.sendto(datagram, target)
    eventually(lambda: b.datapath.counters().drops["malformed"] == 1)
    counters = b.datapath.counters()
    assert {cause: count for cause, count in counters.drops.items() if count} == {
        "replay": 2, "icv": 1, "selector": 2, "unknown_spi": 1, "malformed": 1,
    }  # fmt: skip
    assert (counters.non_esp, counters.keepalives_in) == (1, 1)
    assert counters.tunnels["t1"].inbound.packets == 1
    sink.settimeout(0.1)
    with pytest.raises(TimeoutError):
        sink.recv(100)


def test_rekeys_during_a_transfer_lose_nothing(ends: tuple[End, End]) -> None:
    a, b = ends
    # Until the neighbour has answered, the kernel keeps some packets and drops all others.
    subprocess.run(["ip", "netns", "exec", a.namespace, "ping", "-c1", "-W5", b.inner], check=True)
    sink, source = udp_socket(b, b.inner, 9000), udp_socket(a, a.inner)
    total = 20_000

    def send() -> None:
        for number in range(total):
            source.sendto(number.to_bytes(4) + bytes(1000), (b.inner, 9000))
            if number % 16 == 0:
                time.sleep(0.001)

    received: list[int] = []

    def receive() -> None:
        while len(received) < total:
            received.append(int.from_bytes(sink.recv(2000)[:4]))

    sender, receiver = threading.Thread(target=send), threading.Thread(target=receive)
    receiver.start()
    sender.start()
    generation = 1
    while sender.is_alive():
        old, generation = generation, generation + 1
        to_a = [InboundSa(0x1000 + number, sa_key(2 * number - 1)) for number in (old, generation)]
        to_b = [InboundSa(0x2000 + number, sa_key(2 * number)) for number in (old, generation)]
        b.apply(inbound=tuple(to_b))
        a.apply(inbound=tuple(to_a))
        a.apply(outbound=OutboundSa(to_b[1].spi, to_b[1].key))
        b.apply(outbound=OutboundSa(to_a[1].spi, to_a[1].key))
        time.sleep(0.05)
        a.apply(inbound=(to_a[1],))
        b.apply(inbound=(to_b[1],))
    sender.join()
    assert generation > 10
    receiver.join()
    assert received == list(range(total))
    for end in ends:
        assert sum(end.datapath.counters().drops.values()) == 0


def test_a_soft_limit_reaches_a_selector_once(ends: tuple[End, End]) -> None:
    a, b = ends
    a.apply(outbound=OutboundSa(0x2002, sa_key(8), soft=Limits(packets=5), hard=Limits(packets=300)))
    source = udp_socket(a, a.inner)
    for _ in range(400):
        source.sendto(b"x", (b.inner, 9000))
    eventually(lambda: a.datapath.counters().drops["hard_limit"] == 100)
    assert select.select([a.datapath], [], [], 5)[0]
    told = a.datapath.take_soft_limits()
    assert [(one.tunnel_id, one.spi, one.inbound) for one in told] == [("t1", 0x2002, False)]
    assert a.datapath.take_soft_limits() == []
    assert not select.select([a.datapath], [], [], 0)[0]
    eventually(lambda: b.datapath.counters().drops["unknown_spi"] == 300)


def test_what_is_blocked_never_leaves_in_clear(ends: tuple[End, End]) -> None:
    a, b = ends
    with entered(a.namespace):
        a.datapath.apply(replace(a.state, tunnels=(), blocked=frozenset({"10.20.0.0/16"})))
    tap = wiretap(b)
    with entered(a.namespace):
        source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    source.sendto(b"secret", (b.inner, 9000))
    source.sendto(b"secret", ("10.20.77.1", 9000))
    eventually(lambda: a.datapath.counters().no_policy == 2)
    assert heard(tap) == []


def test_applying_again_changes_nothing_and_close_leaves_nothing(ends: tuple[End, End]) -> None:
    a, b = ends
    source, sink = udp_socket(a, a.inner), udp_socket(b, b.inner, 9000)
    for number in range(50):
        a.apply()
        source.sendto(bytes([number]), (b.inner, 9000))
        assert sink.recv(10) == bytes([number])
    a.close()
    a.close()
    with pytest.raises(DatapathError):
        a.datapath.counters()
    with entered(a.namespace):
        names = [name for _, name in socket.if_nameindex()]
        a.datapath = Userspace.create("tun0", 4500)
        a.datapath.apply(a.state)
    assert "tun0" not in names


def test_no_address_appears_on_an_interface(ends: tuple[End, End]) -> None:
    """A browser breaks off what it loads when one does: Chromium's ERR_NETWORK_CHANGED."""
    a, b = ends
    for end in ends:
        shown = subprocess.run(
            ["ip", "-n", end.namespace, "-br", "address", "show", "dev", "tun0"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert end.inner not in shown
    with entered(a.namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((b.inner, 9))
        assert probe.getsockname()[0] == a.inner


def test_what_is_blocked_stays_blocked_when_the_datapath_is_gone(ends: tuple[End, End]) -> None:
    a, _ = ends
    a.state = replace(a.state, blocked=frozenset({"10.30.0.0/16"}))
    a.apply()
    subprocess.run(["ip", "-n", a.namespace, "route", "add", "default", "via", "192.0.2.2"], check=True)
    subprocess.run(["ip", "-n", a.namespace, "link", "del", "tun0"], check=True)
    with entered(a.namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        with pytest.raises(OSError, match="Invalid argument"):
            probe.connect(("10.30.0.1", 9))
        probe.connect(("10.40.0.1", 9))
        with contextlib.suppress(DatapathError):
            a.datapath.close()
        probe.connect(("10.30.0.1", 9))


def test_what_others_change_is_put_back(ends: tuple[End, End]) -> None:
    a, b = ends

    def route() -> str:
        command = ["ip", "-n", a.namespace, "route", "get", b.inner]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    before = route()
    assert "dev tun0" in before
    subprocess.run(["ip", "-n", a.namespace, "route", "flush", "table", "4500"], check=True)
    assert "dev tun0" not in route()
    with entered(a.namespace):
        a.datapath.repair()
    assert route() == before


def test_a_refusal_says_what_to_do(ends: tuple[End, End]) -> None:
    a, _ = ends
    with entered(a.namespace):
        with pytest.raises(DatapathError, match="4500 is taken by another program"):
            Userspace.create("tun1", 4500)
        with pytest.raises(DatapathError, match="tun0 belongs to another program"):
            Userspace.create("tun0", 4501)
        with pytest.raises(DatapathError, match="could not be opened"):
            Userspace.create("a name too long for Linux", 4501)
        tunnel = replace(a.state.tunnels[0], outbound=OutboundSa(0x2001, b"\x42" * 35))
        with pytest.raises(DatapathError, match="aes-gcm-256 needs key material of 36 bytes") as refused:
            a.datapath.apply(replace(a.state, tunnels=(tunnel,)))
        assert "4242" not in str(refused.value)
        assert "BBBB" not in str(refused.value)
