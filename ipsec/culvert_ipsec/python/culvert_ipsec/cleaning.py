"""What outlives a datapath that was killed, taken away."""

from __future__ import annotations

from culvert_ipsec.datapath import DatapathError
from culvert_ipsec.kernel import remove_leftovers
from culvert_ipsec.link import remove_rules_and_walls
from culvert_ipsec.rtnetlink import RouteSocket


def clean_up() -> None:
    """Unblock what a datapath that is gone keeps blocked. A second call does nothing. Raises DatapathError."""
    try:
        with RouteSocket() as netlink:
            remove_rules_and_walls(netlink)
        remove_leftovers()
    except OSError as error:
        raise DatapathError(f"The system kept something of the tunnels': {error}.") from error
