"""Makes the machine's namespaces and links equal to the topology. Nothing is made in the machine's own namespace."""

from __future__ import annotations

import array
import contextlib
import fcntl
import socket
import struct
from collections.abc import Generator
from pathlib import Path
from typing import Any, Protocol, cast

from pyroute2 import NetNS, netns

from culvert_lab.netns import NETNS_DIR, Inside
from culvert_lab.topology import BRIDGES, ROUTERS, ROUTES, WIRES, End, Site

SIOCETHTOOL = 0x8946
# linux/ethtool.h: ETHTOOL_SRXCSUM, STXCSUM, SSG, STSO, SGSO, SGRO. The order matters: TSO needs SG needs TX checksums.
OFFLOADS = (0x1F, 0x24, 0x2C, 0x19, 0x17, 0x15)


class _Netlink(Protocol):
    """The part of pyroute2's NetNS that is used here."""

    def link(self, command: str, **kwargs: object) -> Any: ...
    def addr(self, command: str, **kwargs: object) -> Any: ...
    def route(self, command: str, **kwargs: object) -> Any: ...
    def link_lookup(self, **kwargs: object) -> list[int]: ...


class _Namespaces(Protocol):
    """The part of pyroute2.netns that is used here."""

    def create(self, netns: str) -> None: ...
    def remove(self, netns: str) -> None: ...


_namespaces = cast(_Namespaces, netns)


@contextlib.contextmanager
def _netlink(site: Site) -> Generator[_Netlink]:
    with NetNS(site.value, flags=0) as netlink:
        yield cast(_Netlink, netlink)


def exists() -> list[Site]:
    """Sites whose namespace is there now."""
    return [site for site in Site if (NETNS_DIR / site.value).exists()]


def apply() -> None:
    """Build the whole topology; `remove` comes first when `exists` is not empty. Raises OSError, NetlinkError."""
    for site in Site:
        _namespaces.create(site.value)
        with _netlink(site) as netlink:
            netlink.link("set", index=1, state="up")
    for bridge in BRIDGES:
        with _netlink(bridge.site) as netlink:
            netlink.link("add", ifname=bridge.name, kind="bridge")
            _address(netlink, bridge.name, bridge.address)
    for wire in WIRES:
        with _netlink(wire.a.site) as netlink:
            peer = {"ifname": wire.b.name, "net_ns_fd": wire.b.site.value} | _mac(wire.b)
            netlink.link("add", ifname=wire.a.name, kind="veth", peer=peer, **_mac(wire.a))
        _settle(wire.a)
        _settle(wire.b)
    for route in ROUTES:
        with _netlink(route.site) as netlink:
            netlink.route("add", dst="default", gateway=route.via)
    for site in ROUTERS:
        _sysctl(site, "net.ipv4.ip_forward", "1")


def remove() -> None:
    """Delete every namespace of the lab, and with them their links. Those that are not there are no error."""
    for site in exists():
        with contextlib.suppress(FileNotFoundError):
            _namespaces.remove(site.value)


def _mac(end: End) -> dict[str, str]:
    return {"address": end.mac} if end.mac else {}


def _settle(end: End) -> None:
    # A port of a switch or of the bridge is no host: the kernel must not speak IPv6 on it by itself.
    if end.address is None:
        _sysctl(end.site, f"net.ipv6.conf.{end.name}.disable_ipv6", "1")
    with _netlink(end.site) as netlink:
        if end.bridge:
            index = _index(netlink, end.name)
            netlink.link("set", index=index, master=_index(netlink, end.bridge))
        _address(netlink, end.name, end.address)
    inside = Inside(end.site.value)
    try:
        inside.call(_offloads_off, end.name)
    finally:
        inside.close()


def _address(netlink: _Netlink, name: str, address: str | None) -> None:
    index = _index(netlink, name)
    if address:
        ip, length = address.split("/")
        netlink.addr("add", index=index, address=ip, prefixlen=int(length))
    netlink.link("set", index=index, state="up")


def _index(netlink: _Netlink, name: str) -> int:
    return netlink.link_lookup(ifname=name)[0]


def _sysctl(site: Site, key: str, value: str) -> None:
    inside = Inside(site.value)
    try:
        # /proc/sys/net shows the namespace of the thread that opens it.
        inside.call(Path("/proc/sys", *key.split(".")).write_text, value)
    except FileNotFoundError:
        if "ipv6" not in key:  # a kernel without IPv6 has nothing to be silenced
            raise
    finally:
        inside.close()


def _offloads_off(name: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in OFFLOADS:
            value = array.array("B", struct.pack("=II", command, 0))
            request = struct.pack("16sP", name.encode(), value.buffer_info()[0])
            fcntl.ioctl(control, SIOCETHTOOL, request + bytes(40 - len(request)))
