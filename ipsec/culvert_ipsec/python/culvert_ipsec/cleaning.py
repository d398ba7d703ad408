"""What outlives a datapath that was killed, taken away."""

from __future__ import annotations

from pyroute2 import IPRoute, NetlinkError

from culvert_ipsec.datapath import DatapathError
from culvert_ipsec.kernel import remove_leftovers
from culvert_ipsec.link import remove_rules_and_walls


def clean_up() -> None:
    """Unblock what a datapath that is gone keeps blocked. A second call does nothing. Raises DatapathError."""
    try:
        with IPRoute() as netlink:
            remove_rules_and_walls(netlink)
        remove_leftovers()
    except (OSError, NetlinkError) as error:
        raise DatapathError(f"The system kept something of the tunnels': {error}.") from error
