"""Brings the TUN device's addresses and routes to the wanted state.

`KeptLink` remembers the last applied state. `link_plan.py` computes the steps from it. `KernelLink` reads the kernel's
state and takes single steps.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path

from culvert_ipsec.datapath import DatapathError, DeviceGoneError
from culvert_ipsec.link_plan import (
    MAIN_TABLE,
    ROUTE_TABLE,
    RULE_PRIORITY,
    AddAddress,
    AddOnLink,
    Address,
    AddRule,
    AddWall,
    Link,
    Network,
    OnLinkRoute,
    RemoveAddress,
    RemoveOnLink,
    RemoveRoute,
    RemoveWall,
    ReplaceRoute,
    SetLink,
    Step,
    Wall,
    steps,
    walls_of,
)
from culvert_ipsec.outer_routes import remove_outer_routes
from culvert_ipsec.rtnetlink import BLACKHOLE, LOCAL, LOCAL_TABLE, UNICAST, Route, RouteSocket, Rule

_VERSIONS = (4, 6)
# Higher than the metric of the device's route, which is preferred while it exists.
_WALL_METRIC = 4500
# The limits of one message to the network, in bytes and packets (UDP over IPv4, udp(7)); the bytes that ESP adds.
_MESSAGE, _MESSAGE_PACKETS, _ESP_OVERHEAD = 65507, 64, 40
_IPV6 = Path("/proc/sys/net/ipv6/conf")


class KeptLink:
    """Every method may raise OSError and DatapathError. The device must exist before this object."""

    def __init__(self, tun_name: str) -> None:
        self._tun_name = tun_name
        self._index = socket.if_nametoindex(tun_name)
        self._netlink: RouteSocket | None = None
        self._wanted: Link | None = None
        self._known: Link | None = None
        self._others: frozenset[Network] = frozenset()

    def bring_to(self, link: Link) -> None:
        self._bring_to(link)

    def repair(self) -> bool:
        """Restore what other programs have changed since `bring_to`, and give up addresses in other devices' networks.

        Returns whether a setting of the device, a rule or a blocking route was missing.
        """
        if (link := self._wanted) is None:
            return False
        self._known = None
        return self._bring_to(link)

    def _bring_to(self, link: Link) -> bool:
        device = KernelLink(self._open(), self._tun_name)
        if device.index != self._index:
            # Another program's device has the name now.
            raise gone_error(self._tun_name)
        self._wanted = link = link.of(families())
        known, self._known = self._known, None
        changed = False
        if known is not None:
            try:
                _take(device, known, link.without_kept_in(self._others))
            except (OSError, DatapathError):
                known = None
        if known is None:
            self._others = device.networks_of_others()
            changed = _take(device, device.observe(), link.without_kept_in(self._others))
        self._known = link.without_kept_in(self._others)
        return changed

    def port(self) -> int | None:
        """The netlink port from which the changes are made."""
        return None if self._netlink is None else self._netlink.port

    def close(self, *, unblock: bool) -> None:
        """With `unblock`, also remove the rules and routes that outlive the device."""
        try:
            with self._open() as netlink:
                if unblock:
                    remove_rules_and_walls(netlink)
        finally:
            self._netlink = None

    def _open(self) -> RouteSocket:
        if self._netlink is None:
            self._netlink = RouteSocket()
        return self._netlink


class KernelLink:
    """A device, found by its name (else DatapathError). Every method may raise OSError, `take` also DatapathError."""

    def __init__(self, netlink: RouteSocket, name: str) -> None:
        self._netlink = netlink
        self._name = name
        try:
            self._index = socket.if_nametoindex(name)
        except OSError:
            raise gone_error(name) from None

    @property
    def index(self) -> int:
        return self._index

    def observe(self) -> Link:
        device, routes = self._netlink.device(self._index), self._routes()
        return Link(
            mtu=device.mtu,
            up=device.up,
            addresses=frozenset(self._addresses()),
            routes={prefix: route.source for prefix, route in routes.items()},
            mtus={prefix: route.mtu for prefix, route in routes.items() if route.mtu is not None},
            rules=_rules(self._netlink),
            walls=_walls(self._netlink),
            on_link=frozenset(it for it in _on_link(self._netlink) if it.device != self._index),
        )

    def networks_of_others(self) -> frozenset[Network]:
        """The networks of the addresses on this computer's other devices."""
        return frozenset(it.network for index, it in self._netlink.addresses() if index != self._index)

    def take(self, step: Step) -> None:
        match step:
            case SetLink(mtu):
                self._prepare_ipv6()
                self._netlink.bring_up(self._index, mtu=mtu, segments=_segments(mtu))
            case AddAddress(address):
                self._add_address(address)
            case RemoveAddress(address) if address.version == 6:
                self._netlink.remove_address(self._index, address)
            case RemoveAddress(address):
                self._netlink.remove_route(self._local_route(address))
            case AddRule(version):
                self._netlink.add_rule(_rule(version))
            case ReplaceRoute(prefix, source, mtu):
                self._netlink.replace_route(
                    Route(prefix, ROUTE_TABLE, device=self._index, source=source, mtu=mtu)
                )
            case RemoveRoute(prefix):
                self._netlink.remove_route(Route(prefix, ROUTE_TABLE, device=self._index))
            case AddOnLink(route):
                # If the route's device has been removed meanwhile, only this network is blocked.
                with suppress(OSError):
                    self._netlink.replace_route(_route_on_link(route))
            case RemoveOnLink(route):
                _remove_on_link(self._netlink, route)
            case AddWall(wall):
                _build(self._netlink, wall)
            case RemoveWall(wall):
                self._netlink.remove_route(_route(wall))

    def _add_address(self, address: Address) -> None:
        if address.version == 6:
            # The kernel itself would allow the same address on two devices.
            if any(index != self._index and own == address for index, own in self._local(6)):
                raise DatapathError(_taken_text(address))
            # An IPv6 route's preferred source must be on a device; an entry in the local table is not enough.
            self._netlink.put_address(self._index, address)
            return
        try:
            self._netlink.add_route(self._local_route(address))
        except FileExistsError:
            if (self._index, address) not in self._local(4):
                raise DatapathError(_taken_text(address)) from None
            raise

    def _addresses(self) -> set[Address]:
        return {
            address
            for version in _VERSIONS
            for index, address in self._local(version)
            if index == self._index
        }

    def _local(self, version: int) -> Iterator[tuple[int | None, Address]]:
        """The addresses of this computer, each with the index of its device."""
        for route in self._netlink.routes(version, LOCAL_TABLE):
            if route.kind == LOCAL:
                yield route.device, route.prefix.network_address

    def _routes(self) -> dict[Network, Route]:
        return {
            route.prefix: route
            for version in _VERSIONS
            for route in self._netlink.routes(version, ROUTE_TABLE)
            if route.device == self._index and route.kind != BLACKHOLE
        }

    def _local_route(self, address: Address) -> Route:
        """The route that makes an IPv4 address the host's own without putting it on the device.

        Browsers watch the devices' addresses and abort their requests when one changes (Chromium's ERR_NETWORK_CHANGED),
        also the request for which the tunnel is opened. They do not watch the local table.
        """
        return Route(ip_network(address), LOCAL_TABLE, LOCAL, self._index)

    def _prepare_ipv6(self) -> None:
        disabled = _IPV6 / self._name / "disable_ipv6"
        # There is no such file without IPv6.
        with suppress(FileNotFoundError):
            switched_off = disabled.read_text().strip() != "0"
            # No link-local address: else the kernel sends router solicitations into the tunnel.
            self._netlink.generate_no_address(self._index)
            if switched_off:
                # The tunnel may carry IPv6 although it is disabled on the host's other devices.
                _enable_ipv6(disabled)


def _enable_ipv6(disabled: Path) -> None:
    """In a container the file may be read-only. Then tunnels carry IPv4, and one of IPv6 is refused with its address."""
    try:
        disabled.write_text("0")
    except OSError as error:
        if error.errno != errno.EROFS:
            raise


def _segments(mtu: int) -> int:
    """The number of segments that fit into one message."""
    return min(_MESSAGE_PACKETS, _MESSAGE // (mtu + _ESP_OVERHEAD))


def _taken_text(address: Address) -> str:
    return (
        f"The address {address} is this computer's own, so no tunnel can have it. Have the administrator choose another "
        "pool for the gateway."
    )


def gone_error(name: str) -> DeviceGoneError:
    return DeviceGoneError(f"The device {name} is gone: another program removed or renamed it.")


def families() -> frozenset[int]:
    """The IP versions that the kernel knows."""
    return frozenset({4, 6}) if _IPV6.exists() else frozenset({4})


def keep_walls(netlink: RouteSocket, prefixes: Iterable[Network]) -> None:
    """Make walls for these prefixes only, and the rules that lead to them; the device need not exist.

    Raises OSError.
    """
    known = families()
    wanted = walls_of(it for it in prefixes if it.version in known)
    there = _walls(netlink)
    for wall in wanted - there:
        _build(netlink, wall)
    for version in {it.prefix.version for it in wanted} - _rules(netlink):
        netlink.add_rule(_rule(version))
    for wall in there - wanted:
        netlink.remove_route(_route(wall))


def remove_rules_and_walls(netlink: RouteSocket) -> None:
    """Remove the rules and routes that outlive the device. Raises OSError."""
    for wall in _walls(netlink):
        netlink.remove_route(_route(wall))
    for route in _on_link(netlink):
        _remove_on_link(netlink, route)
    remove_outer_routes(netlink)
    for version in _rules(netlink):
        # Another program may have removed it already.
        with suppress(FileNotFoundError):
            netlink.remove_rule(_rule(version))


def _rules(netlink: RouteSocket) -> frozenset[int]:
    return frozenset(version for version in _VERSIONS if _rule(version) in netlink.rules(version))


def _walls(netlink: RouteSocket) -> frozenset[Wall]:
    return frozenset(
        Wall(route.prefix, route.table)
        for version in _VERSIONS
        for route in netlink.routes(version, None)
        if route.kind == BLACKHOLE
        and (route.table == ROUTE_TABLE or (route.table == MAIN_TABLE and route.metric == _WALL_METRIC))
    )


def _on_link(netlink: RouteSocket) -> frozenset[OnLinkRoute]:
    """All our routes over a device, also those over the TUN device."""
    return frozenset(
        OnLinkRoute(route.prefix, route.device, route.source)
        for version in _VERSIONS
        for route in netlink.routes(version, ROUTE_TABLE)
        if route.kind == UNICAST and route.device is not None
    )


def _route_on_link(route: OnLinkRoute) -> Route:
    return Route(route.prefix, ROUTE_TABLE, device=route.device, source=route.source)


def _remove_on_link(netlink: RouteSocket, route: OnLinkRoute) -> None:
    try:
        netlink.remove_route(_route_on_link(route))
    except OSError as error:
        # The kernel has removed it with its device.
        if error.errno not in (errno.ESRCH, errno.ENODEV):
            raise


def _build(netlink: RouteSocket, wall: Wall) -> None:
    if wall.table == ROUTE_TABLE:
        netlink.replace_route(_route(wall))
        return
    # If another program has a route with this prefix and metric, keep that.
    with suppress(FileExistsError):
        netlink.add_route(_route(wall))


def _route(wall: Wall) -> Route:
    return Route(wall.prefix, wall.table, BLACKHOLE, metric=_WALL_METRIC)


def _rule(version: int) -> Rule:
    return Rule(version, RULE_PRIORITY, ROUTE_TABLE)


def _take(device: KernelLink, observed: Link, desired: Link) -> bool:
    """Take the steps; return whether a setting of the device, a rule or a blocking route was missing."""
    changed = False
    for step in steps(observed, desired):
        device.take(step)
        changed |= isinstance(step, SetLink | AddWall | AddRule | ReplaceRoute)
    return changed
