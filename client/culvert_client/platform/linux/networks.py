"""This computer's links to the world, which a default route leads to, and its networks on all devices (rtnetlink(7))."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface

from culvert_ipsec.link_plan import MAIN_TABLE
from culvert_ipsec.rtnetlink import UNICAST, Device, Route, RouteSocket

from culvert_client.core.claims import LocalNetwork

# A default route, or one of the two halves that stand for it.
_DEFAULT = 1
# Devices that join this computer to its own containers and virtual machines: a pair of ends, a virtual machine's end, none.
_JOINING = frozenset({"veth", "tun", "dummy"})


@dataclass(frozen=True, slots=True)
class Uplinks:
    """`routes`: IP version, index of the device, gateway. `addresses`: index of the device, and one of its own."""

    routes: frozenset[tuple[int, int | None, IPv4Address | IPv6Address | None]] = frozenset()
    addresses: frozenset[tuple[int, IPv4Interface | IPv6Interface]] = frozenset()


def uplinks() -> Uplinks:
    """Blocks. Empty without a network, and where the kernel does not say."""
    with suppress(OSError), RouteSocket() as netlink:
        routes = frozenset(
            (version, route.device, route.gateway)
            for version in (4, 6)
            for route in netlink.routes(version, MAIN_TABLE)
            if route.prefix.prefixlen == 0
        )
        devices = {device for _, device, _ in routes}
        return Uplinks(routes, frozenset(it for it in netlink.addresses() if it[0] in devices))
    return Uplinks()


def local_networks(ours: Collection[str]) -> frozenset[LocalNetwork]:
    """Blocks. `ours` are Culvert's devices, which do not count. Empty where the kernel does not say."""
    with suppress(OSError), RouteSocket() as netlink:
        devices = {it.index: it for it in netlink.devices()}
        routes = [it for version in (4, 6) for it in netlink.routes(version, None) if it.kind == UNICAST]
        foreign = {it.device for it in routes if it.prefix.prefixlen <= _DEFAULT} | netlink.leased()
        return frozenset(
            LocalNetwork(
                it.prefix, device.name, device.index, it.source, _is_own(it, device, devices, foreign)
            )
            for it in routes
            if it.table == MAIN_TABLE
            and it.prefix.prefixlen > _DEFAULT
            and not it.prefix.is_link_local
            and (device := devices.get(it.device or 0)) is not None
            and device.up
            and device.name not in ours
        )
    return frozenset()


def _is_own(
    route: Route, device: Device, devices: Mapping[int, Device], foreign: Collection[int | None]
) -> bool:
    """Whether this computer itself made the network: nothing from outside has a part in its device or its addresses.

    Where a default route has several ways, the kernel does not say over which devices, and none counts as own.
    """
    if route.gateway is not None or None in foreign or device.index in foreign:
        return False
    return device.kind in ("veth", "dummy", "bridge") and _leads_nowhere(device, devices, set())


def _leads_nowhere(device: Device, devices: Mapping[int, Device], seen: set[int]) -> bool:
    """Whether no frame gets out of this computer over the device, its ports, and what these are joined to."""
    if device.index in seen:
        return True
    seen.add(device.index)
    if device.kind == "bridge":
        ports = [it for it in devices.values() if it.master == device.index]
        return all(_leads_nowhere(it, devices, seen) for it in ports)
    # A virtual machine's program asks for virtio-net headers. That of a VPN does not, and what it carries is foreign.
    if device.kind not in _JOINING or (device.kind == "tun" and not device.vnet_header):
        return False
    joined = [devices.get(it) for it in (device.master, device.peer if device.peer_is_here else None) if it]
    return all(it is not None and _leads_nowhere(it, devices, seen) for it in joined)
