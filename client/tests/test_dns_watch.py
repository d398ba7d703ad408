"""DNS as it passes by: what is read from packets, whose answers are believed, and real interfaces."""

from __future__ import annotations

import asyncio
import fcntl
import multiprocessing
import socket
import struct
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import dns.asyncquery
import dns.message
import pytest
from culvert_client.config import DnsMode, Endpoint
from culvert_client.core.client_events import AnswerSeen, Event, NameSeen
from culvert_client.core.dns_watch import DnsWatch
from culvert_client.platform.linux.sniffer import Sniffer, take_dns_alone
from culvert_lab import netns
from culvert_proto import local_pb2
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment

from .controller import CODE
from .granted import WIKI, WIKI_ADDRESS
from .name_server import from_records, name_server, respond
from .running import running
from .test_daemon import Lab

# linux/if_tun.h
TUNSETIFF, IFF_TUN_NO_PI = 0x400454CA, 0x1001

HERE, SERVER = "192.0.2.1", "192.0.2.53"
QUERY = dns.message.make_query(WIKI.title(), "A").to_wire()
ANSWER = respond(QUERY, {(WIKI, "A"): [str(WIKI_ADDRESS)]})
SEEN, ANSWERED = NameSeen(WIKI), AnswerSeen(WIKI, frozenset({WIKI_ADDRESS}))


def asking(message: bytes = QUERY, port: int = 40000, **fields: Any) -> bytes:
    return bytes(IP(src=HERE, dst=SERVER, **fields) / UDP(sport=port, dport=53) / message)


def answering(message: bytes = ANSWER, port: int = 40000, server: str = SERVER) -> bytes:
    return bytes(IP(src=server, dst=HERE) / UDP(sport=53, dport=port) / message)


def test_a_query_that_leaves_is_seen_and_its_answer_believed_once() -> None:
    watch = DnsWatch()
    assert watch.take_packet(asking(), leaves=True) == SEEN
    assert watch.take_packet(answering(), leaves=False) == ANSWERED
    assert watch.take_packet(answering(), leaves=False) is None


def test_ipv6_and_header_options_are_read() -> None:
    datagram = UDP(sport=40000, dport=53) / QUERY
    assert DnsWatch().take_packet(bytes(IPv6(src="fd00::1", dst="fd00::53") / datagram), leaves=True) == SEEN
    assert DnsWatch().take_packet(asking(options=[b"\x94\x04\0\0"]), leaves=True) == SEEN


@pytest.mark.parametrize(
    "forged",
    [
        answering(server="192.0.2.66"),
        answering(port=40001),
        answering(b"\0\0" + ANSWER[2:]),
        answering(respond(dns.message.make_query("liar.corp.example", "A").to_wire(), {})),
        answering(QUERY),
    ],
    ids=["server", "port", "id", "name", "query"],
)
def test_a_forged_answer_is_not_believed(forged: bytes) -> None:
    watch = DnsWatch()
    watch.take_packet(asking(), leaves=True)
    assert watch.take_packet(forged, leaves=False) is None
    assert watch.take_packet(answering(), leaves=False) == ANSWERED


@pytest.mark.parametrize(
    "packet",
    [
        asking(dns.message.make_query(WIKI, "TXT").to_wire()),
        asking(dns.message.make_query(WIKI, "A", "CH").to_wire()),
        asking(ANSWER),
        asking(frag=1),
        bytes(IPv6(dst="fd00::53") / IPv6ExtHdrFragment() / UDP(dport=53) / QUERY),
        bytes(IP(dst=SERVER) / UDP(dport=5353) / QUERY),
        b"\x40" + asking()[1:],
    ],
    ids=["TXT", "class", "answer", "fragment", "fragment6", "port", "header"],
)
def test_packets_without_an_address_query_are_ignored(packet: bytes) -> None:
    assert DnsWatch().take_packet(packet, leaves=True) is None


def test_a_query_that_only_arrives_opens_nothing() -> None:
    assert DnsWatch().take_packet(asking(), leaves=False) is None


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_handled(junk: bytes, leaves: bool) -> None:
    for packet in (junk, b"\x45" + junk, b"\x60" + junk, asking(junk), answering(junk)):
        DnsWatch().take_packet(packet, leaves=leaves)


@given(st.integers(0, len(asking())), st.integers(0, len(asking()) - 1), st.integers(0, 255))
def test_no_change_of_a_packet_breaks_it(length: int, at: int, value: int) -> None:
    changed = bytearray(asking())
    changed[at] = value
    DnsWatch().take_packet(bytes(changed[:length]), leaves=True)


@pytest.mark.parametrize(
    ("packet", "passes"),
    [
        (asking(), True),
        (answering(), True),
        (asking(options=[b"\x94\x04\0\0"]), True),
        (bytes(IPv6(dst="fd00::53") / UDP(sport=40000, dport=53) / QUERY), True),
        (bytes(IPv6(src="fd00::53") / UDP(sport=53, dport=40000) / ANSWER), True),
        (bytes(IP(dst=SERVER) / UDP(sport=40000, dport=5353) / QUERY), False),
        (bytes(IPv6(dst="fd00::53") / UDP(sport=40000, dport=5353) / QUERY), False),
        (bytes(IP(dst=SERVER) / TCP(dport=53)), False),
        (bytes(IPv6(dst="fd00::53") / TCP(dport=53)), False),
        (asking(frag=1), False),
        (b"\0\x01" + asking()[2:], False),
        (asking()[:20], False),
        (b"\x45", False),
    ],
    ids=[
        "query",
        "answer",
        "options",
        "query6",
        "answer6",
        "port",
        "port6",
        "TCP",
        "TCP6",
        "fragment",
        "ARP",
        "cut",
        "byte",
    ],
)
def test_the_kernel_passes_dns_alone(packet: bytes, passes: bool) -> None:
    # A filter of a Unix socket sees a message from its first byte on, as that of a packet socket sees a packet.
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        take_dns_alone(there)
        there.setblocking(False)
        # A Unix socket tells its sender that the filter dropped a message.
        with suppress(OSError):
            here.send(packet)
        if passes:
            assert there.recv(4096) == packet
        else:
            with pytest.raises(BlockingIOError):
                there.recv(4096)


def test_the_client_does_not_load_scapy() -> None:
    modules = "culvert_client.daemon, culvert_client.platform.linux.sniffer"
    check = f"import sys, {modules}; sys.exit('scapy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


@pytest.mark.slow
def test_queries_on_any_interface_are_seen_also_on_one_that_comes_later() -> None:
    with ThreadPoolExecutor(1, initializer=netns.leave) as apart:
        seen = apart.submit(asyncio.run, _watched()).result()
    assert seen.count(NameSeen("lo.corp.example")) == 1
    assert AnswerSeen("lo.corp.example", frozenset({ip_address("10.20.0.7")})) in seen
    assert seen.count(NameSeen("tun.corp.example")) == 1


@pytest.mark.slow
def test_a_watching_daemon_opens_tunnels_for_names_that_others_answer(tmp_path: Path) -> None:
    # gRPC connects in threads that it has begun, which stay in the network of the process.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, fresh, initializer=netns.leave) as apart:
        apart.submit(_open, tmp_path).result()


def _open(directory: Path) -> None:
    asyncio.run(_opened(Lab(directory)))


async def _opened(lab: Lab) -> None:
    _ip("link", "set", "lo", "up")
    async with (
        name_server(from_records({(WIKI, "A"): [str(WIKI_ADDRESS)]}), port=53) as (upstream, _),
        lab.serving() as controller,
        running(lab.directory, upstream, DnsMode.WATCH) as daemon,
    ):
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        answer = await dns.asyncquery.udp(dns.message.make_query(WIKI, "A"), "127.0.0.1", timeout=3)
        assert str(WIKI_ADDRESS) in str(answer)
        await daemon.until(lambda status: status.state == local_pb2.STATE_CONNECTED)
        assert controller.open == {"t1": 1}


async def _watched() -> list[Event]:
    seen: list[Event] = []
    _ip("link", "set", "lo", "up")
    sniffer = Sniffer(seen.append, None)
    await sniffer.open(Endpoint("127.0.0.1", 53))
    try:
        async with name_server(from_records({("lo.corp.example", "A"): ["10.20.0.7"]}), port=53):
            await _ask("lo.corp.example", "127.0.0.1", seen)
        with _tun("late"):
            _ip("route", "add", SERVER, "dev", "late")
            await _ask("tun.corp.example", SERVER, seen)
    finally:
        await sniffer.close()
    return seen


async def _ask(name: str, server: str, seen: list[Event]) -> None:
    """Until something new is seen: an interface is found when it has been looked for."""
    loop, before = asyncio.get_running_loop(), len(seen)
    transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=(server, 53))
    async with asyncio.timeout(30):
        while len(seen) == before:
            transport.sendto(dns.message.make_query(name, "A").to_wire())
            await asyncio.sleep(0.2)
    transport.close()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextmanager
def _tun(name: str) -> Generator[None]:
    with Path("/dev/net/tun").open("rb+", buffering=0) as device:
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN_NO_PI))
        _ip("link", "set", name, "up")
        yield
