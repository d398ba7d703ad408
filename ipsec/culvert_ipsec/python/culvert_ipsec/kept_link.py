"""The tunnel device's addresses and routes, brought from what was left last time to what is wanted now."""

from __future__ import annotations

from culvert_ipsec.datapath import DatapathError
from culvert_ipsec.link import KernelLink, remove_rules_and_walls
from culvert_ipsec.link_plan import AddRule, AddWall, Link, Network, ReplaceRoute, steps
from culvert_ipsec.rtnetlink import RouteSocket


class KeptLink:
    """Every method may raise OSError and DatapathError."""

    def __init__(self, tun_name: str) -> None:
        self._tun_name = tun_name
        self._netlink: RouteSocket | None = None
        self._wanted: Link | None = None
        self._known: Link | None = None
        self._others: frozenset[Network] = frozenset()

    def bring_to(self, link: Link) -> None:
        device = KernelLink(self._opened(), self._tun_name)
        self._wanted = link = link.of(device.families())
        known, self._known = self._known, None
        if known is not None:
            try:
                _take(device, known, link.spared(self._others))
            except (OSError, DatapathError):
                known = None
        if known is None:
            self._others = device.networks_of_others()
            _take(device, device.observe(), link.spared(self._others))
        self._known = link.spared(self._others)

    def repair(self) -> bool:
        """Put back what other programs have changed since `bring_to`, and make room for the networks of other devices.

        Returns whether a rule or a route had been removed.
        """
        if (link := self._wanted) is None:
            return False
        device = KernelLink(self._opened(), self._tun_name)
        self._known, self._others = None, device.networks_of_others()
        desired = link.spared(self._others)
        taken = _take(device, device.observe(), desired)
        self._known = desired
        return taken

    def close(self) -> None:
        """Take away what outlives the device."""
        try:
            with self._opened() as netlink:
                remove_rules_and_walls(netlink)
        finally:
            self._netlink = None

    def _opened(self) -> RouteSocket:
        if self._netlink is None:
            self._netlink = RouteSocket()
        return self._netlink


def _take(device: KernelLink, observed: Link, desired: Link) -> bool:
    """Whether a rule or a route was missing."""
    missing = False
    for step in steps(observed, desired):
        device.take(step)
        missing = missing or isinstance(step, AddRule | AddWall | ReplaceRoute)
    return missing
