"""Blocking without a datapath: before one is open, and after one was killed."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_network

from culvert_ipsec.datapath import DatapathError
from culvert_ipsec.kernel import remove_leftovers
from culvert_ipsec.link import keep_walls, remove_rules_and_walls
from culvert_ipsec.rtnetlink import RouteSocket


def block(prefixes: Iterable[str]) -> None:
    """Block these prefixes and no others; needs neither the device nor the port. The next `apply` starts from it.

    Needs CAP_NET_ADMIN. Raises DatapathError.
    """
    try:
        with RouteSocket() as netlink:
            keep_walls(netlink, map(ip_network, prefixes))
    except OSError as error:
        raise DatapathError(f"The system refused the routes that block: {error}.") from error


def clean_up() -> None:
    """Unblock what a datapath that is gone keeps blocked. A second call does nothing. Raises DatapathError."""
    try:
        with RouteSocket() as netlink:
            remove_rules_and_walls(netlink)
        remove_leftovers()
    except OSError as error:
        raise DatapathError(f"The system kept something of the tunnels': {error}.") from error
