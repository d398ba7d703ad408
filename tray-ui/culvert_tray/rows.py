"""The lists of the window as data: pure functions of the view and of what the person searches for."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from culvert_proto import local_pb2
from culvert_proto.activity import said

from culvert_tray.details import STATES, size
from culvert_tray.preferences import Preferences
from culvert_tray.view import Status, duration


@dataclass(frozen=True, slots=True)
class Row:
    """`key` tells which one it is, also when the others have moved."""

    key: str
    cells: tuple[str, ...]


RESOURCE_COLUMNS = ("", "Resource", "Name", "Addresses", "Open through")
TUNNEL_COLUMNS = ("Name", "Gateway", "State", "Your address", "Received", "Sent", "Open for")
ACTIVITY_COLUMNS = ("When", "What")


def resource_rows(status: Status, typed: str, preferences: Preferences) -> tuple[Row, ...]:
    """Favourites first. Each word that is typed has to be somewhere in a row."""
    words = typed.casefold().split()
    gateways = {tunnel.fqdn: tunnel.gateway or "opening…" for tunnel in status.tunnels}
    rows = [
        Row(
            it.fqdn,
            (
                "★" if it.fqdn in preferences.favourites else "",
                it.name,
                it.fqdn,
                ", ".join(it.addresses),
                gateways.get(it.fqdn, ""),
            ),
        )
        for it in status.resources
    ]
    found = (row for row in rows if all(word in " ".join(row.cells).casefold() for word in words))
    return tuple(sorted(found, key=lambda row: (row.cells[0] == "", row.cells[2])))


def tunnel_rows(status: Status, now: float) -> tuple[Row, ...]:
    """`now` in Unix seconds."""
    return tuple(
        Row(
            it.fqdn,
            (
                it.fqdn,
                it.gateway,
                STATES.get(it.state, "unknown"),
                it.inner_address,
                size(it.bytes_in),
                size(it.bytes_out),
                duration(now - it.since_ms / 1e3) if it.since_ms else "",
            ),
        )
        for it in status.tunnels
    )


def activity_rows(activities: Iterable[local_pb2.Activity], now: float) -> tuple[Row, ...]:
    """Newest first."""
    return tuple(
        Row(str(it.number), (_when(it.at_ms / 1e3, now), said(it))) for it in reversed(list(activities))
    )


def _when(at: float, now: float) -> str:
    then = time.localtime(at)
    return time.strftime("%H:%M:%S" if then[:3] == time.localtime(now)[:3] else "%d %b %H:%M:%S", then)
