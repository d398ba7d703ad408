"""The TUN device in the kernel: read it, and take one step. `link_plan.py` says which steps."""

from __future__ import annotations

import errno
import socket
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
    Link,
    Network,
    RemoveAddress,
    RemoveRoute,
    ReplaceRoute,
    SetLink,
    Step,
)

_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_VERSIONS = {family: version for version, family in _FAMILIES.items()}


class KernelLink:
    """One device, found by its name (else DatapathError). Every method may raise NetlinkError."""

    def __init__(self, netlink: IPRoute, name: str) -> None:
        # pyroute2's methods are made at run time.
        self._netlink = cast(Any, netlink)
        self._name = name
        found: list[int] = self._netlink.link_lookup(ifname=name)
        if not found:
            raise DatapathError(f"The device {name} is gone: another program removed or renamed it.")
        self._index = found[0]

    def observe(self) -> Link:
        link = self._netlink.get_links(self._index)[0]
        return Link(
            mtu=link.get("mtu"),
            up=link["state"] == "up",
            addresses=frozenset(self._addresses()),
            routes=self._routes(),
            rules=_rules(self._netlink),
        )

    def take(self, step: Step) -> None:
        match step:
            case SetLink(mtu):
                self._no_link_local_address()
                self._netlink.link("set", index=self._index, mtu=mtu, state="up")
            case AddAddress(address):
                self._netlink.addr("replace", index=self._index, **_host(address))
            case RemoveAddress(address):
                self._netlink.addr("del", index=self._index, **_host(address))
            case AddRule(version):
                self._netlink.rule("add", **_rule(version))
            case ReplaceRoute(prefix, source):
                preferred = {} if source is None else {"prefsrc": str(source)}
                self._netlink.route("replace", **self._route(prefix), **preferred)
            case RemoveRoute(prefix):
                self._netlink.route("del", **self._route(prefix))

    def _addresses(self) -> set[Address]:
        found = {ip_address(one.get("address")) for one in self._netlink.get_addr(index=self._index)}
        return {address for address in found if not address.is_link_local}

    def _routes(self) -> dict[Network, Address | None]:
        routes: dict[Network, Address | None] = {}
        for family in _FAMILIES.values():
            for route in self._netlink.get_routes(family=family, table=ROUTE_TABLE):
                if route.get("oif") != self._index:
                    continue
                everything = "0.0.0.0" if family == socket.AF_INET else "::"  # noqa: S104 — a prefix, not a socket
                prefix = ip_network(f"{route.get('dst') or everything}/{route['dst_len']}")
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

    def _no_link_local_address(self) -> None:
        # Else the kernel sends router solicitations into the tunnel. Without IPv6 there is no such file.
        with suppress(FileNotFoundError):
            Path(f"/proc/sys/net/ipv6/conf/{self._name}/addr_gen_mode").write_text("1")


def remove_rules(netlink: IPRoute) -> None:
    """Take away what outlives the device."""
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


def _rule(version: int) -> dict[str, int]:
    return {"family": _FAMILIES[version], "priority": RULE_PRIORITY, "table": ROUTE_TABLE}


def _host(address: Address) -> dict[str, Any]:
    return {"address": str(address), "prefixlen": address.max_prefixlen, "family": _FAMILIES[address.version]}
