"""Packets that a filter tells of, run as bpf(4) says; and of a real device, those that find no tunnel."""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from culvert_ipsec import ClosedTunnel
from culvert_ipsec.packet_trap import Address, Instruction, Network, PacketTrap, filter_of, flow_of
from hypothesis import given
from hypothesis import strategies as st

from .conftest import End, entered

OUTGOING, TO_US = 4, 0

v4 = st.integers(0, 32).flatmap(
    lambda length: st.integers(0, (1 << 32) - 1).map(
        lambda raw: ip_network((raw, length), strict=False) if raw >> 24 else ip_network("10.0.0.0/8")
    )
)
v6 = st.integers(0, 128).flatmap(
    lambda length: st.integers(0, (1 << 128) - 1).map(
        lambda raw: ip_network((IPv6Address(raw), length), strict=False)
    )
)
networks = st.one_of(v4, v6)


def packet_to(address: Address) -> bytes:
    header = bytearray(40)
    header[0] = address.version << 4
    start = 16 if address.version == 4 else 24
    header[start : start + len(address.packed)] = address.packed
    return bytes(header)


def takes(program: Sequence[Instruction], packet: bytes, packet_type: int = OUTGOING) -> bool:
    at, value = 0, 0
    while True:
        code, if_true, if_false, k = program[at]
        at += 1
        match code:
            case 0x30 if k == 0xFFFFF004:
                value = packet_type
            case 0x30 | 0x20:
                size = 1 if code == 0x30 else 4
                if k + size > len(packet):
                    return False
                value = int.from_bytes(packet[k : k + size])
            case 0x54:
                value &= k
            case 0x74:
                value >>= k
            case 0x05:
                at += k
            case 0x15:
                at += if_true if value == k else if_false
            case _:
                assert code == 0x06
                return k > 0


@given(st.lists(networks, max_size=6), st.data())
def test_what_a_tunnel_carries_is_left_to_it_and_all_else_is_told(
    prefixes: list[Network], data: st.DataObject
) -> None:
    inside = [network.network_address for network in prefixes] + [
        network.broadcast_address for network in prefixes
    ]
    anywhere = st.one_of(
        st.integers(0, (1 << 32) - 1).map(IPv4Address), st.integers(0, (1 << 128) - 1).map(IPv6Address)
    )
    address = data.draw(st.one_of(st.sampled_from(inside), anywhere) if inside else anywhere)
    carried = any(address in network for network in prefixes)
    program = list(filter_of(prefixes))
    assert takes(program, packet_to(address)) is not carried
    assert not takes(program, packet_to(address), TO_US)
    flow = flow_of(packet_to(address))
    assert flow is not None
    assert flow.destination == address


def test_a_filter_stays_one_that_the_kernel_takes() -> None:
    many = [ip_network((IPv6Address((0xFD20 << 112) + number), 128)) for number in range(1000)]
    program = list(filter_of(many))
    assert len(program) < 2100
    assert not takes(program, packet_to(many[0].network_address))
    assert takes(program, packet_to(many[-1].network_address))


@pytest.mark.parametrize("junk", [b"", b"\x45", bytes(40), b"\x60" + bytes(20), b"\xf0" + bytes(39)])
def test_what_is_no_packet_is_of_no_flow(junk: bytes) -> None:
    assert flow_of(junk) is None


@pytest.mark.slow
def test_only_packets_without_a_tunnel_are_told_and_only_once(
    ends: tuple[End, End],
) -> None:
    a, b = ends
    a.state = replace(a.state, blocked=frozenset({"10.20.0.0/16"}))
    a.apply()
    trap = a.datapath.trap
    with entered(a.namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        a.datapath.repair()
        trap.take()
        for _ in range(3):
            sender.sendto(b"carried", (b.inner, 9))
        assert trap.take() == frozenset()
        for _ in range(3):
            sender.sendto(b"knock", ("10.20.7.7", 9))
        assert select.select([trap], [], [], 5)[0]
        assert trap.take() == {ip_address("10.20.7.7")}
        a.state = replace(a.state, tunnels=())
        a.datapath.apply(a.state)
        a.datapath.repair()
        sender.sendto(b"knock", (b.inner, 9))
        assert trap.take() == {ip_address(b.inner)}


@pytest.mark.slow
def test_the_first_packet_of_a_flow_is_sent_when_its_tunnel_opens(ends: tuple[End, End]) -> None:
    a, b = ends
    there = b.inner, 9000
    sink, carried = _udp(b, there), a.state
    closed = replace(carried, tunnels=(), blocked=frozenset({"10.20.0.0/16"}))
    # The third flow leaves from an address that the tunnel does not carry.
    flows = [_udp(a, (a.inner, 0)), _udp(a, (a.inner, 0)), _udp(a, (a.outer, 0))]
    for _ in range(2):
        with entered(a.namespace):
            a.datapath.apply(
                replace(closed, closed=(ClosedTunnel((a.inner,), carried.tunnels[0].remote_prefixes),))
            )
            a.datapath.repair()
        for number, flow in enumerate(flows):
            for text in (b"first", b"second"):
                flow.sendto(text + bytes([number]), there)
        with entered(a.namespace):
            a.datapath.apply(carried)
        flows[0].sendto(b"later", there)
        assert {sink.recv(100), sink.recv(100)} == {b"first\0", b"first\1"}
        assert sink.recv(100) == b"later"


@pytest.mark.slow
def test_held_packets_expire_and_a_flood_is_held_in_part(ends: tuple[End, End]) -> None:
    a, b = ends
    there, now = (b.inner, 9000), 0.0
    sink, closed = _udp(b, there), ClosedTunnel((a.inner,), a.state.tunnels[0].remote_prefixes)
    with entered(a.namespace):
        a.datapath.trap.close()
        trap = a.datapath.trap = PacketTrap("tun0", lambda: now)
        a.datapath.apply(replace(a.state, tunnels=(), blocked=frozenset({"10.20.0.0/16"}), closed=(closed,)))
        old, *flows = [_udp(a, (a.inner, 0)) for _ in range(101)]
        old.sendto(b"old", there)
        trap.take()
        now += 3.0
        for at in range(0, 100, 20):
            for flow in flows[at : at + 20]:
                flow.sendto(b"new", there)
            trap.take()
        a.datapath.apply(a.state)
        old.sendto(b"end", there)
    assert list(iter(lambda: sink.recv(100), b"end")) == [b"new"] * 64


def _udp(end: End, address: tuple[str, int]) -> socket.socket:
    with entered(end.namespace):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.settimeout(20)
    made.bind(address)
    return made
