"""Lists and changes devices, their addresses, routes and rules (rtnetlink(7))."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv6Address,
    IPv6Interface,
    ip_address,
    ip_interface,
    ip_network,
)
from typing import Any, cast

from culvert_ipsec.link_plan import Address, Network
from culvert_ipsec.netlink import HEADER_LENGTH, NetlinkSocket
from culvert_ipsec.netlink_messages import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    fibmsg,
    ifaddrmsg,
    ifinfmsg,
    nlmsg,
    rtmsg,
    rtnl,
)

FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
# linux/rtnetlink.h: RT_TABLE_*, RTN_*, RT_SCOPE_*.
LOCAL_TABLE = 255
UNICAST, LOCAL, BLACKHOLE = 1, 2, 6
_SCOPES = {LOCAL: 254}
# RTPROT_KERNEL: each time systemd-networkd sets up a device, it removes the routes and rules of every other protocol that
# it did not make itself (networkd.conf(5), ManageForeignRoutes= and ManageForeignRoutingPolicyRules=).
_KEPT_BY_OTHERS, _OF_ANY_PROTOCOL = 2, 0
# linux/if.h, linux/if_addr.h, linux/fib_rules.h
_IFF_UP, _IFA_F_NODAD, _IFA_F_PERMANENT, _TO_TABLE = 0x1, 0x02, 0x80, 1
# linux/if_link.h
_IN6_ADDR_GEN_MODE_NONE = 1

Interface = IPv4Interface | IPv6Interface


@dataclass(frozen=True, slots=True)
class Device:
    """`kind` names the driver of a device that software made ("bridge", "veth"; ip-link(8)); it is empty for hardware,
    and for some others. `master` is the index of the bridge or bond that it is a port of. `peer` is the index of the device
    that it is joined to or built on, `peer_is_here` whether that one is in this network namespace. `vnet_header`: the
    program behind a tap device takes packets with virtio-net headers (IFF_VNET_HDR)."""

    mtu: int
    up: bool
    index: int = 0
    name: str = ""
    kind: str = ""
    master: int | None = None
    peer: int | None = None
    peer_is_here: bool = True
    vnet_header: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """`device` is the device's index; None for a route with several next hops and for a blackhole."""

    prefix: Network
    table: int
    kind: int = UNICAST
    device: int | None = None
    gateway: Address | None = None
    source: Address | None = None
    metric: int | None = None
    mtu: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of this `priority`: look up all of a family's packets, or those with `mark`, in `table`."""

    version: int
    priority: int
    table: int
    mark: int | None = None


class RouteSocket(NetlinkSocket):
    """Every method may raise OSError with the kernel's reason."""

    def __init__(self) -> None:
        super().__init__(socket.NETLINK_ROUTE)

    def device(self, index: int) -> Device:
        (data,) = self.request(rtnl.RTM_GETLINK, _payload(ifinfmsg, {"index": index}))
        return _device(_read(ifinfmsg, data))

    def devices(self) -> list[Device]:
        return [
            _device(_read(ifinfmsg, data)) for data in self.dump(rtnl.RTM_GETLINK, _payload(ifinfmsg, {}))
        ]

    def bring_up(self, index: int, *, mtu: int | None = None, segments: int | None = None) -> None:
        """`segments` is the maximum number of segments in a super-frame."""
        fields = {"index": index, "flags": _IFF_UP, "change": _IFF_UP}
        attributes = {"IFLA_MTU": mtu, "IFLA_GSO_MAX_SEGS": segments}
        self.request(rtnl.RTM_NEWLINK, _payload(ifinfmsg, fields, attributes))

    def generate_no_address(self, index: int) -> None:
        """The device gets no link-local IPv6 address (addr_gen_mode of ip-link(8))."""
        mode = ("IFLA_INET6_ADDR_GEN_MODE", _IN6_ADDR_GEN_MODE_NONE)
        family = ("AF_INET6", {"attrs": [mode]})
        fields = {"index": index}
        self.request(rtnl.RTM_NEWLINK, _payload(ifinfmsg, fields, {"IFLA_AF_SPEC": {"attrs": [family]}}))

    def addresses(self) -> list[tuple[int, Interface]]:
        """Addresses, each with the index of its device."""
        return [
            (read["index"], ip_interface((own, read["prefixlen"])))
            for version in FAMILIES
            for read in self._dump(ifaddrmsg, rtnl.RTM_GETADDR, version)
            # On a point-to-point link, IFA_ADDRESS is the peer's address.
            if (own := read.get_attr("IFA_LOCAL") or read.get_attr("IFA_ADDRESS"))
        ]

    def find_leased(self) -> frozenset[int]:
        """The indices of devices with an address of limited lifetime, from DHCP or a router advertisement."""
        return frozenset(
            read["index"]
            for version in FAMILIES
            for read in self._dump(ifaddrmsg, rtnl.RTM_GETADDR, version)
            if not (read.get_attr("IFA_FLAGS") or read["flags"]) & _IFA_F_PERMANENT
        )

    def put_address(self, index: int, address: Address) -> None:
        """Add the single address, without its network; it is usable at once."""
        self.request(rtnl.RTM_NEWADDR, _address(index, address), NLM_F_CREATE | NLM_F_REPLACE)

    def remove_address(self, index: int, address: Address) -> None:
        self.request(rtnl.RTM_DELADDR, _address(index, address))

    def routes(self, version: int, table: int | None) -> list[Route]:
        """The routes of one table, or of all tables with None."""
        reads = self._dump(rtmsg, rtnl.RTM_GETROUTE, version)
        return [
            _route(version, its, read)
            for read in reads
            if (its := read.get_attr("RTA_TABLE")) == table or table is None
        ]

    def way_to(self, address: Address) -> Route | None:
        """A route with the device and next hop towards this address; None if `Route` cannot express it."""
        fields = {"family": FAMILIES[address.version], "dst_len": address.max_prefixlen}
        (data,) = self.request(rtnl.RTM_GETROUTE, _payload(rtmsg, fields, {"RTA_DST": str(address)}))
        read = _read(rtmsg, data)
        found = _route(address.version, read.get_attr("RTA_TABLE"), read)
        # RTA_VIA is a next hop of the other family.
        return found if found.kind == UNICAST and read.get_attr("RTA_VIA") is None else None

    def add_route(self, route: Route) -> None:
        """Raises OSError(EEXIST) if a route with its prefix and metric exists."""
        self.request(rtnl.RTM_NEWROUTE, _route_payload(route, _KEPT_BY_OTHERS), NLM_F_CREATE | NLM_F_EXCL)

    def replace_route(self, route: Route) -> None:
        self.request(rtnl.RTM_NEWROUTE, _route_payload(route, _KEPT_BY_OTHERS), NLM_F_CREATE | NLM_F_REPLACE)

    def remove_route(self, route: Route) -> None:
        """Remove a route; fields that are None in `route` may have any value."""
        self.request(rtnl.RTM_DELROUTE, _route_payload(route, _OF_ANY_PROTOCOL))

    def rules(self, version: int) -> list[Rule]:
        reads = self._dump(fibmsg, rtnl.RTM_GETRULE, version)
        return [
            Rule(
                version,
                read.get_attr("FRA_PRIORITY") or 0,
                read.get_attr("FRA_TABLE"),
                read.get_attr("FRA_FWMARK"),
            )
            for read in reads
        ]

    def add_rule(self, rule: Rule) -> None:
        """Raises OSError(EEXIST) if the rule exists."""
        self.request(rtnl.RTM_NEWRULE, _rule_payload(rule, _KEPT_BY_OTHERS), NLM_F_CREATE | NLM_F_EXCL)

    def remove_rule(self, rule: Rule) -> None:
        self.request(rtnl.RTM_DELRULE, _rule_payload(rule, _OF_ANY_PROTOCOL))

    def _dump(self, message: type[nlmsg], kind: int, version: int) -> list[Any]:
        """The entries of an IP version; empty if the kernel does not support it."""
        family = FAMILIES[version]
        try:
            found = [_read(message, data) for data in self.dump(kind, _payload(message, {"family": family}))]
        except OSError as error:
            if error.errno != errno.EAFNOSUPPORT:
                raise
            return []
        # Some dumps return all families.
        return [read for read in found if read["family"] == family]


def _device(read: Any) -> Device:
    made_by = read.get_attr("IFLA_LINKINFO")
    kind = (made_by and made_by.get_attr("IFLA_INFO_KIND")) or ""
    details = made_by.get_attr("IFLA_INFO_DATA") if kind == "tun" else None
    return Device(
        read.get_attr("IFLA_MTU"),
        bool(read["flags"] & _IFF_UP),
        read["index"],
        read.get_attr("IFLA_IFNAME") or "",
        kind,
        read.get_attr("IFLA_MASTER"),
        read.get_attr("IFLA_LINK") or None,
        read.get_attr("IFLA_LINK_NETNSID") is None,
        bool(details and details.get_attr("IFLA_TUN_VNET_HDR")),
    )


def _address(index: int, address: Address) -> bytes:
    fields = {"family": FAMILIES[address.version], "prefixlen": address.max_prefixlen, "index": index}
    both = {"IFA_LOCAL": str(address), "IFA_ADDRESS": str(address), "IFA_FLAGS": _IFA_F_NODAD}
    return _payload(ifaddrmsg, fields, both)


def _route(version: int, table: int, read: Any) -> Route:
    def address(name: str) -> Address | None:
        found = read.get_attr(name)
        return None if found is None else ip_address(found)

    metrics = read.get_attr("RTA_METRICS")
    every = IPv4Address(0) if version == 4 else IPv6Address(0)
    return Route(
        prefix=ip_network((address("RTA_DST") or every, read["dst_len"])),
        table=table,
        kind=read["type"],
        device=read.get_attr("RTA_OIF"),
        gateway=address("RTA_GATEWAY"),
        source=address("RTA_PREFSRC"),
        metric=read.get_attr("RTA_PRIORITY"),
        mtu=metrics and metrics.get_attr("RTAX_MTU"),
    )


def _route_payload(route: Route, protocol: int) -> bytes:
    fields = {
        "family": FAMILIES[route.prefix.version],
        "dst_len": route.prefix.prefixlen,
        "proto": protocol,
        "type": route.kind,
        "scope": _SCOPES.get(route.kind, 0),
    }
    attributes = {
        "RTA_TABLE": route.table,
        "RTA_DST": str(route.prefix.network_address),
        "RTA_OIF": route.device,
        "RTA_GATEWAY": route.gateway and str(route.gateway),
        "RTA_PREFSRC": route.source and str(route.source),
        "RTA_PRIORITY": route.metric,
        "RTA_METRICS": route.mtu and {"attrs": [("RTAX_MTU", route.mtu)]},
    }
    return _payload(rtmsg, fields, attributes)


def _rule_payload(rule: Rule, protocol: int) -> bytes:
    fields = {"family": FAMILIES[rule.version], "action": _TO_TABLE}
    attributes = {
        "FRA_PRIORITY": rule.priority,
        "FRA_TABLE": rule.table,
        "FRA_PROTOCOL": protocol,
        "FRA_FWMARK": rule.mark,
    }
    return _payload(fibmsg, fields, attributes)


def _payload(
    message: type[nlmsg], fields: dict[str, int], attributes: Mapping[str, object] | None = None
) -> bytes:
    made = cast(Any, message)()
    made.update(fields)
    made["attrs"] = [(name, value) for name, value in (attributes or {}).items() if value is not None]
    made.encode()
    return bytes(made.data)[HEADER_LENGTH:]


def _read(message: type[nlmsg], data: bytes) -> Any:
    read = cast(Any, message)(data)
    read.decode()
    return read
