"""Makes the machine's namespaces and links equal to the topology. Nothing is made in the machine's own namespace."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Protocol, cast

from pyroute2 import IPRoute

from culvert_lab import netns
from culvert_lab.netns import NETNS_DIR, Inside
from culvert_lab.topology import BRIDGES, ROUTERS, ROUTES, WIRES, End, Site

LOOPBACK_INDEX = 1
SIOCETHTOOL = 0x8946
# linux/ethtool.h: STSO, SGSO, SGRO, SSG, STXCSUM, SRXCSUM. TSO needs SG, which needs TX checksums: so in this order.
OFFLOADS = (0x1F, 0x24, 0x2C, 0x19, 0x17, 0x15)


class _Netlink(Protocol):
    """The part of pyroute2's IPRoute that is used here."""

    def link(self, command: str, **kwargs: object) -> Any: ...
    def addr(self, command: str, **kwargs: object) -> Any: ...
    def route(self, command: str, **kwargs: object) -> Any: ...
    def link_lookup(self, **kwargs: object) -> list[int]: ...
    def close(self) -> None: ...


def exists() -> list[Site]:
    """Sites whose namespace is there now."""
    return [site for site in Site if (NETNS_DIR / site.value).exists()]


def remove() -> None:
    """Delete every namespace of the lab, and with them their links. Those that are not there are no error."""
    for site in exists():
        netns.delete(site.value)


def apply(*, offloads: bool) -> None:
    """Build the whole topology; `remove` comes first when `exists` is not empty. Without `offloads`, every frame on a wire
    is finished and no longer than the MTU. Raises OSError, NetlinkError."""
    with ExitStack() as stack:
        hosts: dict[Site, _Host] = {}
        for site in Site:
            netns.create(site.value)
            hosts[site] = stack.enter_context(closing(_Host(site)))
        for bridge in BRIDGES:
            hosts[bridge.site].add_bridge(bridge.name, bridge.address)
        for wire in WIRES:
            hosts[wire.a.site].add_wire(wire.a, wire.b)
            for end in (wire.a, wire.b):
                hosts[end.site].settle(end)
                if not offloads:
                    hosts[end.site].switch_offloads_off(end)
        for route in ROUTES:
            hosts[route.site].route_by_default(route.via)
        for site in ROUTERS:
            hosts[site].sysctl("net.ipv4.ip_forward", "1")


class _Host:
    """A namespace while it is being set up."""

    def __init__(self, site: Site) -> None:
        self._inside = Inside(site.value)
        self._netlink: _Netlink = self._inside.call(lambda: cast(_Netlink, IPRoute()))
        self._link("set", index=LOOPBACK_INDEX, state="up")

    def close(self) -> None:
        self._inside.call(self._netlink.close)
        self._inside.close()

    def add_bridge(self, name: str, address: str) -> None:
        self._link("add", ifname=name, kind="bridge")
        self._address(name, address)

    def add_wire(self, own: End, other: End) -> None:
        with (NETNS_DIR / other.site.value).open("rb") as namespace:
            peer = {"ifname": other.name, "net_ns_fd": namespace.fileno()} | _mac(other)
            self._link("add", ifname=own.name, kind="veth", peer=peer, **_mac(own))

    def settle(self, end: End) -> None:
        # A port of a switch or of the bridge is no host: the kernel must not speak IPv6 on it by itself.
        if end.address is None:
            self.sysctl(f"net.ipv6.conf.{end.name}.disable_ipv6", "1")
        if end.bridge:
            self._link("set", index=self._index(end.name), master=self._index(end.bridge))
        self._address(end.name, end.address)

    def switch_offloads_off(self, end: End) -> None:
        self._inside.call(_offloads_off, end.name)

    def route_by_default(self, via: str) -> None:
        self._inside.call(self._netlink.route, "add", dst="default", gateway=via)

    def sysctl(self, key: str, value: str) -> None:
        self._inside.call(_set, Path("/proc/sys", *key.split(".")), value)

    def _address(self, name: str, address: str | None) -> None:
        index = self._index(name)
        if address:
            ip, length = address.split("/")
            self._inside.call(self._netlink.addr, "add", index=index, address=ip, prefixlen=int(length))
        self._link("set", index=index, state="up")

    def _index(self, name: str) -> int:
        return self._inside.call(self._netlink.link_lookup, ifname=name)[0]

    def _link(self, command: str, **fields: object) -> None:
        self._inside.call(self._netlink.link, command, **fields)


def _mac(end: End) -> dict[str, str]:
    return {"address": end.mac} if end.mac else {}


def _set(path: Path, value: str) -> None:
    # /proc/sys/net shows the namespace of the thread that asks. A kernel without IPv6 has nothing to be silenced.
    if path.exists() or "ipv6" not in path.parts:
        path.write_text(value)


def _offloads_off(name: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in OFFLOADS:
            value = array.array("B", struct.pack("=II", command, 0))
            request = struct.pack("16sP", name.encode(), value.buffer_info()[0])
            fcntl.ioctl(control, SIOCETHTOOL, request + bytes(40 - len(request)))
