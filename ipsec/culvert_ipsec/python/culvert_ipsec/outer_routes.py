"""Routes to the gateways for ESP packets alone.

Anybody can forge an ICMP message "packet too big" that quotes an answer to a ping. The kernel stores its MTU with the route
of packets without a mark; ESP packets have a mark and use other routes.

```
 sealed packet ─ mark ─► rule ─► OUTER_TABLE: the gateway over the device and next hop of the way to it
 all others, and a sealed one without a route there ─────► the other tables
```
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_address, ip_network

from culvert_ipsec.link_plan import ROUTE_TABLE, RULE_PRIORITY, Network
from culvert_ipsec.rtnetlink import FAMILIES, Route, RouteSocket, Rule
from culvert_ipsec.xfrm_plan import SEALED_MARK

OUTER_TABLE = ROUTE_TABLE + 1


class OuterRoutes:
    """Every method may raise OSError if the kernel cannot be asked. A route that cannot be made is left out."""

    def __init__(self) -> None:
        self._known: dict[Network, Route] = {}

    def lead_to(self, outers: Iterable[str], *, anew: bool = False) -> None:
        """Set routes to these gateways only, over the present next hops. With `anew`, read first which routes exist."""
        with RouteSocket() as netlink:
            if anew:
                self._known = {it.prefix: it for version in FAMILIES for it in _routes(netlink, version)}
            wanted = dict(filter(None, (_way(netlink, it) for it in outers)))
            for version in {it.version for it in wanted} - _rules(netlink):
                netlink.add_rule(_rule(version))
            for prefix, route in wanted.items():
                if self._known.get(prefix) != route:
                    with suppress(OSError):
                        netlink.replace_route(route)
            for prefix in self._known.keys() - wanted.keys():
                _remove(netlink, self._known[prefix])
            self._known = wanted


def remove_outer_routes(netlink: RouteSocket) -> None:
    """Remove our routes, also those of an earlier process. Raises OSError."""
    for version in FAMILIES:
        for route in _routes(netlink, version):
            _remove(netlink, route)
    for version in _rules(netlink):
        with suppress(FileNotFoundError):
            netlink.remove_rule(_rule(version))


def _way(netlink: RouteSocket, outer: str) -> tuple[Network, Route] | None:
    prefix = ip_network(outer)
    try:
        way = netlink.way_to(ip_address(outer))
    except OSError:
        # There is no route now.
        return None
    return way and (prefix, Route(prefix, OUTER_TABLE, device=way.device, gateway=way.gateway))


def _routes(netlink: RouteSocket, version: int) -> list[Route]:
    """The routes without their metric, because the kernel adds one to IPv6 routes."""
    return [replace(it, metric=None) for it in netlink.routes(version, OUTER_TABLE)]


def _remove(netlink: RouteSocket, route: Route) -> None:
    # The kernel may have removed it with its device, or another program may have.
    with suppress(OSError):
        netlink.remove_route(route)


def _rules(netlink: RouteSocket) -> frozenset[int]:
    return frozenset(version for version in FAMILIES if _rule(version) in netlink.rules(version))


def _rule(version: int) -> Rule:
    return Rule(version, RULE_PRIORITY - 1, OUTER_TABLE, SEALED_MARK)
