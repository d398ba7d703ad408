"""The lists of the window as data: pure functions of the view and the search text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from culvert_proto import local_pb2
from culvert_proto.dns_name import make_readable, normalise_search
from culvert_proto.screens.activity import describe
from culvert_proto.screens.units import clock, size

from culvert_tray.details import state
from culvert_tray.preferences import Preferences
from culvert_tray.translation import later, tr
from culvert_tray.view import Status, duration


@dataclass(frozen=True, slots=True)
class Row:
    """`key`: identifies the row independently of its position."""

    key: str
    cells: tuple[str, ...]


# The last column, if there are several organisations.
WHOSE = later("Organisation")

RESOURCE_COLUMNS = ("", later("Resource"), later("Name"), later("Addresses"), later("Open through"), WHOSE)
TUNNEL_COLUMNS = (
    later("Name"), later("Gateway"), later("State"), later("Your address"),
    later("Received"), later("Sent"), later("Open for"), WHOSE,
)  # fmt: skip
ACTIVITY_COLUMNS = (later("When"), later("Event"))


def resource_rows(status: Status, typed: str, preferences: Preferences) -> tuple[Row, ...]:
    """Favourites first. A row must contain each typed word."""
    words = normalise_search(typed).casefold().split()
    gateways = {tunnel.fqdn: _open_through(tunnel) for tunnel in status.tunnels}
    rows = [
        Row(
            it.fqdn,
            (
                "★" if it.fqdn in preferences.favourites else "",
                it.name,
                make_readable(it.fqdn),
                ", ".join(it.addresses),
                gateways.get(it.fqdn, ""),
                *filter(None, [it.organisation]),
            ),
        )
        for it in status.resources
    ]
    found = (row for row in rows if all(word in " ".join((*row.cells, row.key)).casefold() for word in words))
    return tuple(sorted(found, key=lambda row: (row.cells[0] == "", row.cells[2])))


def _open_through(tunnel: local_pb2.Tunnel) -> str:
    if tunnel.state == local_pb2.TUNNEL_STATE_SILENT:
        return tr("{gateway} does not answer", gateway=tunnel.gateway)
    if tunnel.state == local_pb2.TUNNEL_STATE_NARROW:
        return tr("Only small packets reach {gateway}", gateway=tunnel.gateway)
    return tunnel.gateway or tr("opening…")


def tunnel_rows(status: Status, now: float) -> tuple[Row, ...]:
    """`now` in Unix seconds."""
    return tuple(
        Row(
            it.fqdn,
            (
                make_readable(it.fqdn),
                it.gateway,
                state(it),
                it.inner_address,
                size(it.bytes_in),
                size(it.bytes_out),
                duration(now - it.since_ms / 1e3) if it.since_ms else "",
                *filter(None, [it.organisation]),
            ),
        )
        for it in status.tunnels
    )


def activity_rows(activities: Iterable[local_pb2.Activity], now: float) -> tuple[Row, ...]:
    """Newest first."""
    return tuple(
        Row(str(it.number), (clock(it.at_ms / 1e3, now, seconds=True), describe(it)))
        for it in reversed(list(activities))
    )
