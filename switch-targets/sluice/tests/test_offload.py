"""Super-frames: two hosts whose interfaces have every offload on, and wires.p4 between them.

┌ hosts-left ┐     ┌── …-sluice ──┐     ┌ hosts-right ┐
│   eth0 ────┼─────┼ left   right ┼─────┼──── eth0    │      10.9.0.1, fd09::1 ── 10.9.0.2, fd09::2
└────────────┘     └──────────────┘     └─────────────┘
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from gateway_wires import PREFIX, Wire, connect, inside, namespaces, run
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw
from sluice_rig import SWITCH, Controller, Sluice

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
LEFT, RIGHT = f"{PREFIX}-left", f"{PREFIX}-right"
ADDRESSES = {"4": ("10.9.0.1", "10.9.0.2"), "6": ("fd09::1", "fd09::2")}
QUIET = 0.3

SOL_PACKET, PACKET_VNET_HDR, UDP_SEGMENT, SOL_UDP = 263, 15, 103, 17
NEEDS_CSUM, TCPV4, UDP_FRAGMENTS, TCPV6, UDP_L4 = 1, 1, 3, 4, 5


@pytest.fixture
def hosts(rig: None) -> Iterator[None]:
    with namespaces(LEFT, RIGHT, ipv6=True):
        for host, interface, number in ((LEFT, "left", 1), (RIGHT, "right", 2)):
            connect((SWITCH, interface), (host, "eth0"))
            for namespace, name in ((SWITCH, interface), (host, "eth0")):
                on = ("tx", "on", "rx", "on", "tso", "on", "gso", "on", "gro", "on")
                run("ip", "netns", "exec", namespace, "ethtool", "-K", name, *on)
            run("ip", "-n", host, "address", "add", f"10.9.0.{number}/24", "dev", "eth0")
            run("ip", "-n", host, "address", "add", f"fd09::{number}/64", "dev", "eth0", "nodad")
        yield
        # The interfaces of a namespace go some time after it.
        for interface in ("left", "right"):
            run("ip", "-n", SWITCH, "link", "delete", interface)


@pytest.fixture
def extra() -> list[str]:
    return []


@pytest.fixture
def ports() -> tuple[int, int]:
    """Ports of left and right: three together, as wires.p4 has it."""
    return 1, 2


@pytest.fixture
def sluice(
    hosts: None,
    program: Path,
    arguments: dict[str, str],
    ports: tuple[int, int],
    extra: list[str],
    tmp_path: Path,
) -> Iterator[Sluice]:
    left, right = ports
    words = [word for pair in arguments.items() for word in pair]
    words += ["--port", f"{left}=left", "--port", f"{right}=right", *extra]
    switch = Sluice(program, words, tmp_path / "sluice.log")
    yield switch
    assert switch.process.poll() is not None or switch.stop() == 0
    print(switch.log.read_text())


@pytest.fixture
async def forwarding(controller: Controller) -> AsyncIterator[None]:
    info, blob = PROGRAMS / "wires.p4info.txtpb", PROGRAMS / "wires.json"
    async with controller(p4info=info, p4blob=blob):
        yield


def counted(sluice: Sluice, port: int | None = None) -> dict[str, int]:
    """End the switch. Return its counts at a port, or those at none."""
    assert sluice.stop() == 0
    what = "data plane ended " if port is None else f"port closed port={port} "
    line = next(line for line in sluice.log.read_text().splitlines() if what in line)
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line)}


@dataclass(frozen=True)
class Vnet:
    """`struct virtio_net_hdr`."""

    flags: int = NEEDS_CSUM
    gso_type: int = TCPV4
    hdr_len: int = 54
    gso_size: int = 1000
    csum_start: int = 34
    csum_offset: int = 16

    def __bytes__(self) -> bytes:
        words = (self.hdr_len, self.gso_size, self.csum_start, self.csum_offset)
        return struct.pack("=BBHHHH", self.flags, self.gso_type, *words)


class Injector:
    """Sends super-frames as they are."""

    def __init__(self, namespace: str) -> None:
        self._socket = inside(namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        self._socket.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        self._socket.bind(("eth0", 0))

    def send(self, vnet: Vnet, frame: Packet | bytes) -> None:
        self._socket.send(bytes(vnet) + bytes(frame))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def injector(forwarding: None) -> Iterator[Injector]:
    injector = Injector(LEFT)
    yield injector
    injector.close()


@pytest.fixture
def right(forwarding: None) -> Iterator[Wire]:
    wire = Wire("eth0", RIGHT)
    yield wire
    wire.close()


def segment(payload: bytes, **fields: int) -> Packet:
    ethernet = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
    return (
        ethernet
        / IP(src="10.9.0.1", dst="192.0.2.9", id=7, flags="DF")
        / TCP(sport=1, dport=2, flags="PA", **fields)
        / Raw(payload)
    )


def datagrams(wire: Wire) -> list[Packet]:
    """Receive the tests' own frames."""
    return [frame for frame in wire.drain(QUIET) if IP in frame and frame[IP].dst == "192.0.2.9"]


def right_sums(frame: Packet) -> bool:
    """Whether the checksums are those that scapy would make."""
    fresh = frame.copy()
    del fresh[IP].chksum
    del fresh[IP].payload.chksum
    return bytes(Ether(bytes(fresh))) == bytes(frame)


@pytest.mark.parametrize(("family", "ports"), [("4", (1, 2)), ("6", (1, 2)), ("4", (0, 3)), ("4", (3, 0))])
async def test_a_stream_arrives_as_it_was_sent(
    forwarding: None, sluice: Sluice, family: str, ports: tuple[int, int]
) -> None:
    kind = socket.AF_INET if family == "4" else socket.AF_INET6
    near, far = ADDRESSES[family]
    data = os.urandom(1 << 20) * 64
    server = inside(RIGHT, lambda: socket.create_server((far, 5000), family=kind))
    received = hashlib.sha256()

    def serve() -> None:
        peer, _ = server.accept()
        with peer:
            while part := peer.recv(1 << 20):
                received.update(part)

    serving = threading.Thread(target=serve)
    serving.start()
    client = inside(LEFT, lambda: socket.create_connection((far, 5000), 5, (near, 0)))
    client.sendall(data)
    client.close()
    serving.join(20)
    server.close()
    assert received.digest() == hashlib.sha256(data).digest()
    left, right = (counted(sluice, port) for port in ports)
    assert left["received_super_frames"] > 500
    assert right["sent_super_frames"] > 500
    assert (left["oversize"], left["malformed"], right["too_long"]) == (0, 0, 0)
    # Hosts report their IPv6 multicast groups on their own, maybe before there is a program.
    gone = [port["sent"] + port["refused"] for port in (left, right)]
    assert left["received"] + right["received"] == sum(gone) + counted(sluice)["without_program"]


@pytest.mark.parametrize("family", ["4", "6"])
async def test_datagrams_keep_their_borders(forwarding: None, sluice: Sluice, family: str) -> None:
    kind = socket.AF_INET if family == "4" else socket.AF_INET6
    near, far = ADDRESSES[family]
    receiver = inside(RIGHT, lambda: socket.socket(kind, socket.SOCK_DGRAM))
    receiver.bind((far, 5000))
    receiver.settimeout(5)
    sender = inside(LEFT, lambda: socket.socket(kind, socket.SOCK_DGRAM))
    sender.bind((near, 0))
    sender.setsockopt(SOL_UDP, UDP_SEGMENT, 1200)
    sender.sendto(b"first", (far, 5000))
    assert receiver.recv(65535) == b"first"
    whole = os.urandom(20 * 1200 + 77)
    for _ in range(20):
        sender.sendto(whole, (far, 5000))
        for start in range(0, len(whole), 1200):
            assert receiver.recv(65535) == whole[start : start + 1200]
    sender.close()
    receiver.close()
    left, right = counted(sluice, 1), counted(sluice, 2)
    assert (left["received_super_frames"], right["sent_super_frames"]) == (20, 20)


async def test_a_super_frame_becomes_the_packets_that_it_stands_for(
    injector: Injector, sluice: Sluice
) -> None:
    # The receiver takes no super-frames, so the kernel splits what sluice has merged.
    off = ("tso", "off", "gso", "off", "tx", "off")
    run("ip", "netns", "exec", SWITCH, "ethtool", "-K", "right", *off)
    run("ip", "netns", "exec", RIGHT, "ethtool", "-K", "eth0", "gro", "off")
    right = Wire("eth0", RIGHT)
    payload = os.urandom(3500)
    whole = segment(payload, seq=0xFFFFFF00, ack=5, window=77)
    injector.send(Vnet(), whole)
    tagged = bytes(whole)[:12] + b"\x81\x00" + bytes(Dot1Q(vlan=9, type=0x800)) + bytes(whole)[14:]
    injector.send(Vnet(hdr_len=58, csum_start=38), tagged)
    found = datagrams(right)
    right.close()
    assert [len(frame[TCP].payload) for frame in found] == [1000, 1000, 1000, 500] * 2
    assert b"".join(bytes(frame[TCP].payload) for frame in found) == payload * 2
    assert [frame[IP].id for frame in found] == [7, 8, 9, 10] * 2
    assert [frame[TCP].seq for frame in found[:4]] == [0xFFFFFF00, 0x2E8, 0x6D0, 0xAB8]
    assert [str(frame[TCP].flags) for frame in found[:4]] == ["A", "A", "A", "PA"]
    assert [Dot1Q in frame for frame in found] == [False] * 4 + [True] * 4
    assert all(right_sums(frame) for frame in found)
    assert counted(sluice, 2)["sent_super_frames"] == 2


async def test_frames_that_lie_are_dropped_and_said(injector: Injector, right: Wire, sluice: Sluice) -> None:
    good, whole = Vnet(), segment(bytes(3000))
    short, wrong_length = bytes(whole)[:-7], segment(bytes(3000))
    wrong_length[IP].len = 100
    fragment = segment(bytes(3000))
    fragment[IP].flags = "MF"
    lies: list[tuple[Vnet, Packet | bytes]] = [
        (replace(good, gso_size=0), whole),
        (replace(good, gso_size=1), whole),
        (replace(good, hdr_len=9000), whole),
        (replace(good, csum_start=9000), whole),
        (replace(good, csum_start=35), whole),
        (replace(good, csum_offset=60000), whole),
        (replace(good, gso_type=TCPV6), whole),
        (replace(good, gso_type=UDP_L4), whole),
        (replace(good, gso_type=UDP_FRAGMENTS), whole),
        (replace(good, gso_type=77), whole),
        (good, short),
        (good, wrong_length),
        (good, fragment),
        (good, bytes(whole)[:12] + bytes(3000)),
        (replace(good, gso_type=0, csum_start=50), segment(b"")),
        (replace(good, gso_type=0, csum_offset=8), segment(b"")),
    ]
    for vnet, frame in lies:
        # The sending kernel sees through some of them.
        with contextlib.suppress(OSError):
            injector.send(vnet, frame)
    assert datagrams(right) == []
    injector.send(good, whole)
    assert datagrams(right) != []
    await sluice.says("not what its sender's offload says")
    left = counted(sluice, 1)
    assert left["malformed"] >= 4
    assert left["received_super_frames"] == 1


async def test_esp_in_udp_without_checksums_leaves_as_one(
    forwarding: None, right: Wire, sluice: Sluice
) -> None:
    left = Wire("eth0", LEFT)
    ethernet = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
    outer = ethernet / IP(src="10.9.0.1", dst="192.0.2.9", id=0, flags="DF")
    sent = [outer / UDP(sport=4500, dport=4500, chksum=0) / Raw(os.urandom(1300)) for _ in range(10)]
    with sluice.halted():  # they wait together
        for frame in sent:
            left.send(frame)
    found = datagrams(right)
    left.close()
    payload = b"".join(bytes(frame[UDP].payload) for frame in found)
    assert payload == b"".join(bytes(frame[UDP].payload) for frame in sent)
    assert counted(sluice, 2)["sent_super_frames"] == 1


@pytest.mark.parametrize("extra", [["--no-offload"]])
async def test_offloads_can_be_left_out(injector: Injector, right: Wire, sluice: Sluice) -> None:
    injector.send(Vnet(), segment(bytes(3000)))
    assert datagrams(right) == []
    injector.send(Vnet(flags=0, gso_type=0), segment(bytes(1000)))
    assert len(datagrams(right)) == 1
    await sluice.says("longer than the MTU")
    left = counted(sluice, 1)
    assert (left["oversize"], left["received_super_frames"]) == (1, 0)
