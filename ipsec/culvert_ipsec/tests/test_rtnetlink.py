"""Routes, rules and addresses in a network namespace's own kernel tables, put and read back; and the socket under them."""

from __future__ import annotations

import errno
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address, ip_interface, ip_network

import pytest
from culvert_ipsec.link_plan import MAIN_TABLE
from culvert_ipsec.netlink import messages, open_socket
from culvert_ipsec.rtnetlink import (
    BLACKHOLE,
    LOCAL,
    LOCAL_TABLE,
    Route,
    RouteSocket,
    Rule,
)

from .conftest import entered

OURS = 4500
LOOPBACK = 1


@pytest.fixture
def netlink() -> Iterator[RouteSocket]:
    """The socket of a namespace in which there is a device `wire`, up and alone."""
    name = f"culvert-test-{os.getpid()}-routes"
    ip = ["ip", "-n", name, "link"]
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run([*ip, "set", "lo", "up"], check=True)
        subprocess.run([*ip, "add", "wire", "type", "veth", "peer", "wire2"], check=True)
        with entered(name), RouteSocket() as opened:
            opened.bring_up(socket.if_nametoindex("wire"), mtu=1400)
            opened.bring_up(socket.if_nametoindex("wire2"))
            yield opened
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_this_computer_can_be_asked_by_everybody() -> None:
    with RouteSocket() as netlink:
        assert netlink.device(LOOPBACK).mtu > 1400
        assert (LOOPBACK, ip_interface("127.0.0.1/8")) in netlink.addresses()
        with pytest.raises(OSError, match="No such device") as refused:
            netlink.device(2**31 - 1)
        assert refused.value.errno == errno.ENODEV
        # A request after a refused one is answered as ever.
        assert netlink.device(LOOPBACK).up


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "prefix"),
    [("10.99.0.5", "10.20.0.0/16"), ("fd99::5", "fd20::/64"), ("10.99.0.5", "0.0.0.0/0")],
)
def test_routes_and_addresses_are_read_as_they_were_put(
    netlink: RouteSocket, address: str, prefix: str
) -> None:
    wire, own = socket.if_nametoindex("wire"), ip_address(address)
    seen = netlink.device(wire)
    assert (seen.mtu, seen.up, seen.index, seen.name, seen.kind) == (1400, True, wire, "wire", "veth")
    assert seen in netlink.devices()
    netlink.put_address(wire, own)
    netlink.put_address(wire, own)
    assert (wire, ip_interface(address)) in netlink.addresses()
    route = Route(ip_network(prefix), OURS, device=wire, source=own)
    wall = Route(ip_network(prefix), OURS, BLACKHOLE, metric=4500)
    for each in (route, wall, replace(route, source=None), route):
        netlink.replace_route(each)
    found = netlink.routes(own.version, OURS)
    assert {(it.prefix, it.kind, it.source) for it in found} == {
        (route.prefix, route.kind, own),
        (wall.prefix, BLACKHOLE, None),
    }
    with pytest.raises(FileExistsError):
        netlink.add_route(wall)
    netlink.remove_route(replace(route, source=None))
    assert [it.kind for it in netlink.routes(own.version, OURS)] == [BLACKHOLE]
    netlink.remove_route(wall)
    with pytest.raises(ProcessLookupError):
        netlink.remove_route(wall)
    netlink.remove_address(wire, own)
    assert (wire, ip_interface(address)) not in netlink.addresses()


@pytest.mark.slow
def test_an_address_can_be_the_computers_own_without_being_on_a_device(netlink: RouteSocket) -> None:
    wire = socket.if_nametoindex("wire")
    netlink.add_route(Route(ip_network("10.99.0.5"), LOCAL_TABLE, LOCAL, wire))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("10.99.0.5", 0))
    assert ip_network("10.99.0.5") in {it.prefix for it in netlink.routes(4, LOCAL_TABLE)}
    assert not [own for index, own in netlink.addresses() if index == wire and own.version == 4]


@pytest.mark.slow
@pytest.mark.parametrize("version", [4, 6])
def test_a_rule_is_there_once(netlink: RouteSocket, version: int) -> None:
    rule = Rule(version, 4500, OURS)
    netlink.add_rule(rule)
    with pytest.raises(FileExistsError):
        netlink.add_rule(rule)
    assert netlink.rules(version).count(rule) == 1
    netlink.remove_rule(rule)
    assert rule not in netlink.rules(version)
    with pytest.raises(FileNotFoundError):
        netlink.remove_rule(rule)


@pytest.mark.slow
def test_what_fills_many_datagrams_is_whole(netlink: RouteSocket) -> None:
    wire = socket.if_nametoindex("wire")
    prefixes = [ip_network((0x0A000000 + 256 * n, 24)) for n in range(3000)]
    for prefix in prefixes:
        netlink.add_route(Route(prefix, MAIN_TABLE, device=wire))
    assert {it.prefix for it in netlink.routes(4, MAIN_TABLE)} == set(prefixes)
    assert not netlink.routes(4, OURS)


@pytest.mark.slow
def test_nobody_but_the_kernel_is_heard() -> None:
    with open_socket(socket.NETLINK_ROUTE) as ours, open_socket(socket.NETLINK_ROUTE) as theirs:
        ours.settimeout(5)
        theirs.sendto(struct.pack("=IHHIIi", 20, 2, 0, 1, 0, 0), (ours.getsockname()[0], 0))
        assert not list(messages(ours))
