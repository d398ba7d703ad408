"""Super-frames through two datapaths: what is cut and merged on the way, and what must stay apart."""

from __future__ import annotations

import random
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from culvert_ipsec import Offloads
from culvert_ipsec.esp import Outbound
from scapy.layers.inet import IP, TCP

from .conftest import End, entered, sa_key

pytestmark = pytest.mark.slow

ALL_FRAMES = 3
UDP_SEGMENT = 103
ALL, NONE = Offloads(True, True, True, True), Offloads(False, False, False, False)
ECT_0, CE = 0b10, 0b11
INNER_MTU, WIRE_MTU = 1438, 1500


def tap(end: End, device: str) -> socket.socket:
    """Hears what passes the device, in both directions."""
    with entered(end.namespace):
        listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_FRAMES))
        listener.bind((device, ALL_FRAMES))
    listener.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    listener.setblocking(False)
    return listener


def heard(listener: socket.socket) -> list[bytes]:
    packets: list[bytes] = []
    while True:
        try:
            packets.append(listener.recv(1 << 17))
        except BlockingIOError:
            return packets


def transfer(source: End, sink: End, size: int, address: str | None = None) -> tuple[bytes, bytes]:
    """The bytes sent over a TCP connection inside the tunnel, and the bytes that arrived."""
    sent = random.Random(1).randbytes(size)  # noqa: S311 - any bytes but regular ones
    address = address or sink.inner
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with entered(sink.namespace):
        listener = socket.create_server((address, 0), family=family)
    listener.settimeout(20)
    received = bytearray()

    def serve() -> None:
        connection, _ = listener.accept()
        connection.settimeout(20)
        while data := connection.recv(1 << 20):
            received.extend(data)

    server = threading.Thread(target=serve)
    server.start()
    with entered(source.namespace):
        connection = socket.create_connection((address, listener.getsockname()[1]), timeout=20)
    connection.sendall(sent)
    connection.close()
    server.join(30)
    return sent, bytes(received)


def drops(ends: Sequence[End]) -> list[dict[str, int]]:
    return [{cause: n for cause, n in end.datapath.counters().drops.items() if n} for end in ends]


def test_bytes_come_through_as_super_frames_on_every_leg(ends: tuple[End, End]) -> None:
    a, b = ends
    taps = [tap(a, "tun0"), tap(b, "wire"), tap(b, "tun0")]
    sent, received = transfer(a, b, 8 << 20)
    assert received == sent
    longest = [max(len(packet) for packet in heard(listener)) for listener in taps]
    assert all(length > 10 * WIRE_MTU for length in longest), longest
    # A super-frame that TCP sends leaves as one.
    assert longest[1] > longest[0]
    for source, sink in ((a, b), (b, a)):
        sent, received = transfer(source, sink, 4 << 20)
        assert received == sent
    assert [end.datapath.offloads() for end in ends] == [ALL, ALL]
    assert drops(ends) == [{}, {}]
    # Each packet is counted, not each super-frame.
    flow = b.datapath.counters().tunnels["t1"].inbound
    assert flow.packets >= (12 << 20) / INNER_MTU


def test_ipv6_super_frames_come_through(ends: tuple[End, End]) -> None:
    a, b = ends
    sixes = {a.namespace: "fd00:99::2", b.namespace: "fd00:20::10"}
    for end, peer in ((a, b), (b, a)):
        # An IPv6 route takes no preferred source that is only in the local table.
        address = ["address", "add", sixes[end.namespace], "dev", "tun0", "nodad"]
        subprocess.run(["ip", "-n", end.namespace, *address], check=True)
        tunnel = replace(
            end.state.tunnels[0],
            inner_address=sixes[end.namespace],
            remote_prefixes=(f"{sixes[peer.namespace]}/128",),
        )
        end.state = replace(end.state, inner_addresses=frozenset({sixes[end.namespace]}), tunnels=(tunnel,))
        end.apply()
    listener = tap(b, "tun0")
    sent, received = transfer(a, b, 8 << 20, sixes[b.namespace])
    assert received == sent
    assert max(len(packet) for packet in heard(listener)) > 10 * INNER_MTU
    assert drops(ends) == [{}, {}]


@pytest.mark.parametrize("ends", [(True, False), (False, True), (False, False)], indirect=True)
def test_an_end_without_offloads_carries_the_same_bytes(ends: tuple[End, End]) -> None:
    a, b = ends
    plain = b if a.offloads else a
    listener = tap(plain, "tun0")
    for source, sink in ((a, b), (b, a)):
        sent, received = transfer(source, sink, 4 << 20)
        assert received == sent
    assert [end.datapath.offloads() for end in ends] == [ALL if end.offloads else NONE for end in ends]
    assert max(len(packet) for packet in heard(listener)) <= INNER_MTU
    assert drops(ends) == [{}, {}]


def test_packets_too_long_for_the_route_are_dropped_and_trains_go_on(ends: tuple[End, End]) -> None:
    a, b = ends
    subprocess.run(["ip", "-n", a.namespace, "link", "set", "wire", "mtu", "1400"], check=True)
    with entered(a.namespace):
        source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    length = INNER_MTU - 28
    source.setsockopt(socket.SOL_UDP, UDP_SEGMENT, length)
    source.sendto(bytes(10 * length), (b.inner, 9000))
    while drops(ends) != [{"send_failed": 10}, {}]:
        time.sleep(0.01)
    a.state = replace(a.state, tunnels=(replace(a.state.tunnels[0], mtu=1300),))
    a.apply()
    listener = tap(b, "wire")
    sent, received = transfer(a, b, 4 << 20)
    assert received == sent
    assert max(len(packet) for packet in heard(listener)) > 10 * WIRE_MTU
    assert [end.datapath.offloads() for end in ends] == [ALL, ALL]
    assert drops(ends) == [{"send_failed": 10}, {}]


def test_datagrams_that_a_program_sends_in_one_call_arrive_each(ends: tuple[End, End]) -> None:
    a, b = ends
    with entered(b.namespace):
        sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind((b.inner, 9000))
    sink.settimeout(5)
    with entered(a.namespace):
        source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    source.setsockopt(socket.SOL_UDP, UDP_SEGMENT, 1000)
    payload = bytes(range(256)) * 80
    source.sendto(payload, (b.inner, 9000))
    arrived = [sink.recv(2000) for _ in range(-(-len(payload) // 1000))]
    assert [len(datagram) for datagram in arrived] == [1000] * 20 + [480]
    assert b"".join(arrived) == payload


def test_congestion_marks_the_packet_that_met_it_and_no_other(ends: tuple[End, End]) -> None:
    a, b = ends
    insider = Outbound(0x2001, "aes-gcm-256", sa_key(2), after=100)
    numbers = range(6)
    inner = [
        IP(src=a.inner, dst=b.inner, tos=ECT_0, id=number, flags="DF")
        / TCP(sport=1, dport=9, seq=1000 + 500 * number, ack=1, flags="A")
        / bytes(500)
        for number in numbers
    ]
    datagrams = [insider.seal(bytes(packet)) for packet in inner]
    listener = tap(b, "tun0")
    with entered(a.namespace):
        network = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for tos, several in ((ECT_0, datagrams[:3]), (CE, datagrams[3:4]), (ECT_0, datagrams[4:])):
        network.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        network.setsockopt(socket.SOL_UDP, UDP_SEGMENT, len(several[0]) if len(several) > 1 else 0)
        network.sendto(b"".join(several), (b.outer, 4500))
    expected = [(ECT_0, 1500), (CE, 500), (ECT_0, 1000)]
    frames: list[tuple[int, int]] = []
    while len(frames) < len(expected):
        frames += [
            (packet[1], len(packet) - 40)
            for packet in heard(listener)
            if packet[12:16] == socket.inet_aton(a.inner)
        ]
    assert frames == expected


def test_a_wire_without_offloads_carries_single_packets(ends: tuple[End, End]) -> None:
    a, b = ends
    off = ["tso", "off", "gso", "off", "gro", "off", "sg", "off", "tx", "off", "rx", "off"]
    for end in ends:
        command = ["ip", "netns", "exec", end.namespace, "ethtool", "-K", "wire", *off]
        subprocess.run(command, check=True, capture_output=True)
    listener = tap(b, "wire")
    sent, received = transfer(a, b, 4 << 20)
    assert received == sent
    assert max(len(packet) for packet in heard(listener)) <= WIRE_MTU + 14
    assert drops(ends) == [{}, {}]
