"""Changes the tunnel device's addresses and routes from the last applied state to the wanted one."""

from __future__ import annotations

import socket

from culvert_ipsec.datapath import DatapathError
from culvert_ipsec.link import KernelLink, families, gone_error, remove_rules_and_walls
from culvert_ipsec.link_plan import AddRule, AddWall, Link, Network, ReplaceRoute, SetLink, steps
from culvert_ipsec.rtnetlink import RouteSocket


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


def _take(device: KernelLink, observed: Link, desired: Link) -> bool:
    """Take the steps; return whether a setting of the device, a rule or a blocking route was missing."""
    changed = False
    for step in steps(observed, desired):
        device.take(step)
        changed |= isinstance(step, SetLink | AddWall | AddRule | ReplaceRoute)
    return changed
