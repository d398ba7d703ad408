"""The TUN device in the kernel: read it, and take one step. `link_plan.py` says which steps."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, cast

from pyroute2 import IPRoute, NetlinkError

from culvert_ipsec.datapath import DatapathError
from culvert_ipsec.link_plan import (
    ROUTE_TABLE,
    RULE_PRIORITY,
    AddAddress,
    Address,
    AddRule,
    AddWall,
    Link,
    Network,
    RemoveAddress,
    RemoveRoute,
    RemoveWall,
    ReplaceRoute,
    SetLink,
    Step,
)

_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_EVERYTHING = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}  # noqa: S104 - prefixes, not sockets
# rtnetlink(7): RT_TABLE_LOCAL, RTN_LOCAL, RT_SCOPE_HOST, RTN_BLACKHOLE.
_LOCAL_TABLE, _LOCAL_TYPE, _HOST_SCOPE, _BLACKHOLE_TYPE = 255, 2, 254, 6
# The worse one, so that the device carries the prefix while it is there.
_WALL_METRIC = 4500
# What one message to the network has room for, in bytes and packets (UDP over IPv4, udp(7)); what ESP adds to a packet.
_MESSAGE, _MESSAGE_PACKETS, _ESP_OVERHEAD = 65507, 64, 40
_IPV6 = Path("/proc/sys/net/ipv6/conf")
_VERSIONS = {family: version for version, family in _FAMILIES.items()}


class KernelLink:
    """One device, found by its name (else DatapathError). Every method may raise NetlinkError, `take` DatapathError."""

    def __init__(self, netlink: IPRoute, name: str) -> None:
        # pyroute2's methods are made at run time.
        self._netlink = cast(Any, netlink)
        self._name = name
        try:
            self._index = socket.if_nametoindex(name)
        except OSError:
            raise DatapathError(
                f"The device {name} is gone: another program removed or renamed it."
            ) from None

    def families(self) -> frozenset[int]:
        """The IP versions that the kernel knows."""
        return frozenset({4, 6}) if _IPV6.exists() else frozenset({4})

    def observe(self) -> Link:
        link = self._netlink.get_links(self._index)[0]
        return Link(
            mtu=link.get("mtu"),
            up=link["state"] == "up",
            addresses=frozenset(self._addresses()),
            routes=self._routes(),
            rules=_rules(self._netlink),
            walls=_walls(self._netlink),
        )

    def take(self, step: Step) -> None:
        match step:
            case SetLink(mtu):
                self._prepare_ipv6()
                self._netlink.link("set", index=self._index, mtu=mtu, gso_max_segs=_segments(mtu), state="up")
            case AddAddress(address):
                self._add_address(address)
            case RemoveAddress(address) if address.version == 6:
                self._netlink.addr("del", **self._on_the_device(address))
            case RemoveAddress(address):
                self._netlink.route("del", **self._local_route(address))
            case AddRule(version):
                self._netlink.rule("add", **_rule(version))
            case ReplaceRoute(prefix, source):
                preferred = {} if source is None else {"prefsrc": str(source)}
                self._netlink.route("replace", **self._route(prefix), **preferred)
            case RemoveRoute(prefix):
                self._netlink.route("del", **self._route(prefix))
            case AddWall(prefix):
                self._netlink.route("replace", **_wall(prefix))
            case RemoveWall(prefix):
                self._netlink.route("del", **_wall(prefix))

    def _add_address(self, address: Address) -> None:
        if address.version == 6:
            # The kernel lets two devices have it.
            if any(index != self._index and own == address for index, own in self._local(6)):
                raise DatapathError(_taken(address))
            self._netlink.addr("replace", **self._on_the_device(address))
            return
        try:
            self._netlink.route("add", **self._local_route(address))
        except NetlinkError as error:
            if error.code == errno.EEXIST and (self._index, address) not in self._local(4):
                raise DatapathError(_taken(address)) from None
            raise

    def _addresses(self) -> set[Address]:
        return {
            address
            for version in _FAMILIES
            for index, address in self._local(version)
            if index == self._index
        }

    def _local(self, version: int) -> Iterator[tuple[int, Address]]:
        """The addresses of this computer, each with the index of its device."""
        for route in self._netlink.get_routes(family=_FAMILIES[version], table=_LOCAL_TABLE):
            if route["type"] == _LOCAL_TYPE:
                yield route.get("oif"), ip_address(route.get("dst"))

    def _routes(self) -> dict[Network, Address | None]:
        routes: dict[Network, Address | None] = {}
        for family in _FAMILIES.values():
            for route in self._netlink.get_routes(family=family, table=ROUTE_TABLE):
                if route.get("oif") != self._index or route["type"] == _BLACKHOLE_TYPE:
                    continue
                prefix = ip_network(f"{route.get('dst') or _EVERYTHING[family]}/{route['dst_len']}")
                source = route.get("prefsrc")
                routes[prefix] = ip_address(source) if source else None
        return routes

    def _route(self, prefix: Network) -> dict[str, Any]:
        return {
            "dst": str(prefix),
            "family": _FAMILIES[prefix.version],
            "oif": self._index,
            "table": ROUTE_TABLE,
        }

    def _local_route(self, address: Address) -> dict[str, Any]:
        """Makes an IPv4 address the host's own without putting it on the device.

        Browsers watch for addresses that come and go, and break off what they load when one does (Chromium's
        ERR_NETWORK_CHANGED): the very page for which the tunnel is opened. Nobody watches the local table.
        """
        return {
            "dst": f"{address}/{address.max_prefixlen}",
            "family": _FAMILIES[address.version],
            "oif": self._index,
            "table": _LOCAL_TABLE,
            "type": _LOCAL_TYPE,
            "scope": _HOST_SCOPE,
        }

    def _on_the_device(self, address: Address) -> dict[str, Any]:
        """An IPv6 route takes no preferred source that is in the local table alone."""
        return {"index": self._index, "family": socket.AF_INET6, "address": str(address), "prefixlen": 128}

    def _prepare_ipv6(self) -> None:
        conf = _IPV6 / self._name
        # Without IPv6 there are no such files.
        with suppress(FileNotFoundError):
            # No link-local address: else the kernel sends router solicitations into the tunnel.
            (conf / "addr_gen_mode").write_text("1")
            # A host that uses no IPv6 elsewhere still has it inside.
            (conf / "disable_ipv6").write_text("0")


def _segments(mtu: int) -> int:
    """Of a super-frame that fits into one message: what it leaves over would be a message of its own."""
    return min(_MESSAGE_PACKETS, _MESSAGE // (mtu + _ESP_OVERHEAD))


def _taken(address: Address) -> str:
    return (
        f"The address {address} is this computer's own, so no tunnel can have it. Have the administrator choose another "
        "pool for the gateway."
    )


def remove_rules_and_walls(netlink: IPRoute) -> None:
    """Take away what outlives the device."""
    for prefix in _walls(cast(Any, netlink)):
        cast(Any, netlink).route("del", **_wall(prefix))
    for version in _rules(cast(Any, netlink)):
        try:
            cast(Any, netlink).rule("del", **_rule(version))
        except NetlinkError as error:
            if error.code != errno.ENOENT:
                raise


def _rules(netlink: Any) -> frozenset[int]:
    return frozenset(
        _VERSIONS[rule["family"]]
        for family in _FAMILIES.values()
        for rule in netlink.get_rules(family=family)
        if rule.get("priority") == RULE_PRIORITY and rule.get("table") == ROUTE_TABLE
    )


def _walls(netlink: Any) -> frozenset[Network]:
    return frozenset(
        ip_network(f"{route.get('dst') or _EVERYTHING[family]}/{route['dst_len']}")
        for family in _FAMILIES.values()
        for route in netlink.get_routes(family=family, table=ROUTE_TABLE)
        if route["type"] == _BLACKHOLE_TYPE
    )


def _wall(prefix: Network) -> dict[str, Any]:
    return {
        "dst": str(prefix),
        "family": _FAMILIES[prefix.version],
        "table": ROUTE_TABLE,
        "type": _BLACKHOLE_TYPE,
        "priority": _WALL_METRIC,
    }


def _rule(version: int) -> dict[str, int]:
    return {"family": _FAMILIES[version], "priority": RULE_PRIORITY, "table": ROUTE_TABLE}
