"""Blocks prefixes without a datapath: before one is open, and after its process was killed."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_network

from culvert_ipsec.datapath import DatapathError
from culvert_ipsec.kernel import remove_leftovers
from culvert_ipsec.link import keep_walls, remove_rules_and_walls
from culvert_ipsec.rtnetlink import RouteSocket


def block(prefixes: Iterable[str]) -> None:
    """Block these prefixes only; needs neither the device nor the port. The next `apply` replaces them.

    Needs CAP_NET_ADMIN. Raises DatapathError.
    """
    try:
        with RouteSocket() as netlink:
            keep_walls(netlink, map(ip_network, prefixes))
    except OSError as error:
        raise DatapathError(f"The system refused the routes that block: {error}.") from error


def clean_up() -> None:
    """Unblock the prefixes that an ended datapath left blocked. A second call does nothing. Raises DatapathError."""
    try:
        with RouteSocket() as netlink:
            remove_rules_and_walls(netlink)
        remove_leftovers()
    except OSError as error:
        raise DatapathError(f"The system kept something of the tunnels': {error}.") from error
