"""This computer's uplinks (devices with a default route), its networks on all devices, and their changes
(rtnetlink(7)).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress

from culvert_ipsec.link_plan import MAIN_TABLE
from culvert_ipsec.rtnetlink import UNICAST, Device, Route, RouteSocket

from culvert_client.core.claims import LocalNetwork
from culvert_client.platform.interfaces import Uplinks

# The longest prefix of a default route: 0, or 1 for its two halves.
_DEFAULT = 1
# Kinds of devices between this computer and its own containers and virtual machines.
_JOINING = frozenset({"veth", "tun", "dummy"})
# linux/rtnetlink.h: links; IPv4 addresses, routes and rules; IPv6 addresses, routes and rules.
_GROUPS = 0x1 | 0x10 | 0x40 | 0x80 | 0x100 | 0x400 | 0x40000

_log = logging.getLogger("culvert_client.moves")


def uplinks() -> Uplinks:
    """As Networks."""
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
    """As Networks."""
    with suppress(OSError), RouteSocket() as netlink:
        devices = {it.index: it for it in netlink.devices()}
        routes = [it for version in (4, 6) for it in netlink.routes(version, None) if it.kind == UNICAST]
        foreign = {it.device for it in routes if it.prefix.prefixlen <= _DEFAULT} | netlink.find_leased()
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


@contextmanager
def changes() -> Generator[_Changes]:
    """As Networks."""
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE
    ) as events:
        events.bind((0, _GROUPS))
        found = _Changes(events)
        try:
            yield found
        finally:
            asyncio.get_running_loop().remove_reader(events)


class _Changes:
    """Conforms to NetworkChanges."""

    def __init__(self, events: socket.socket) -> None:
        self._events, self._happened = events, asyncio.Event()
        self._listen()

    @property
    def is_set(self) -> bool:
        return self._happened.is_set()

    async def wait(self) -> None:
        await self._happened.wait()

    def take(self) -> None:
        self._happened.clear()
        self._drain()
        self._listen()

    def _listen(self) -> None:
        asyncio.get_running_loop().add_reader(self._events, self._on_event)

    def _on_event(self) -> None:
        # Leave further events of the same change unread until `take`: reading them would delay a tunnel's set-up.
        asyncio.get_running_loop().remove_reader(self._events)
        self._happened.set()

    def _drain(self) -> None:
        while True:
            try:
                self._events.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError as error:
                # Events were lost, which does not matter: any event counts as a change.
                _log.debug("network changes: %s", error)


def _is_own(
    route: Route, device: Device, devices: Mapping[int, Device], foreign: Collection[int | None]
) -> bool:
    """Whether this computer itself created the network: no outside network has a part in its device or its addresses.

    A default route with several next hops does not show their devices: then no network counts as own.
    """
    if route.gateway is not None or None in foreign or device.index in foreign:
        return False
    return device.kind in ("veth", "dummy", "bridge") and _leads_nowhere(device, devices, set())


def _leads_nowhere(device: Device, devices: Mapping[int, Device], seen: set[int]) -> bool:
    """Whether no frame can leave this computer through the device, its ports, and the devices joined to these."""
    if device.index in seen:
        return True
    seen.add(device.index)
    if device.kind == "bridge":
        ports = [it for it in devices.values() if it.master == device.index]
        return all(_leads_nowhere(it, devices, seen) for it in ports)
    # Virtual machines use virtio-net headers. A TUN without them belongs to a VPN, whose network is foreign.
    if device.kind not in _JOINING or (device.kind == "tun" and not device.vnet_header):
        return False
    joined = [devices.get(it) for it in (device.master, device.peer if device.peer_is_here else None) if it]
    return all(it is not None and _leads_nowhere(it, devices, seen) for it in joined)
