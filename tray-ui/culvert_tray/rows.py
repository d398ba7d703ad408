"""The lists of the window as data: pure functions of the view and the search text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from culvert_proto import local_pb2
from culvert_proto.dns_name import WILDCARD, is_wildcard, make_readable, normalise_search
from culvert_proto.phrases import duration
from culvert_proto.screens.activity import describe
from culvert_proto.screens.organisations import split_status
from culvert_proto.screens.units import clock, health, round_trip, size

from culvert_tray.details import heard, state
from culvert_tray.preferences import Preferences
from culvert_tray.style import Tone
from culvert_tray.translation import plural, tr
from culvert_tray.view import Status, is_up

_ADDRESSES = 2
"""Our tunable: the addresses of a resource that its row shows."""

_TUNNEL_TONES = {
    local_pb2.TUNNEL_STATE_UP: Tone.GOOD,
    local_pb2.TUNNEL_STATE_REKEYING: Tone.GOOD,
    local_pb2.TUNNEL_STATE_SILENT: Tone.ATTENTION,
    local_pb2.TUNNEL_STATE_NARROW: Tone.ATTENTION,
}
_MARKS = {Tone.GOOD: "✓", Tone.ATTENTION: "!", Tone.BAD: "×", Tone.QUIET: "·"}
_ACTIVITY_TONES = {
    local_pb2.ACTIVITY_KIND_TUNNEL_UP: (Tone.GOOD, "✓"),
    local_pb2.ACTIVITY_KIND_TUNNEL_CLOSED: (Tone.QUIET, "–"),
    local_pb2.ACTIVITY_KIND_FAILED_OVER: (Tone.ATTENTION, "→"),
    local_pb2.ACTIVITY_KIND_DENIED: (Tone.BAD, "×"),
    local_pb2.ACTIVITY_KIND_CODE_PROVEN: (Tone.GOOD, "✓"),
    local_pb2.ACTIVITY_KIND_PAUSED: (Tone.QUIET, "‖"),
    local_pb2.ACTIVITY_KIND_RESUMED: (Tone.QUIET, "›"),
    local_pb2.ACTIVITY_KIND_CONTROLLER_LOST: (Tone.BAD, "×"),
    local_pb2.ACTIVITY_KIND_CONTROLLER_BACK: (Tone.GOOD, "✓"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """`key`: identifies the row independently of its position. `mark`: in its tile. `button`: empty without one. `unseen`:
    what else a search finds it by. `found_by`: what alone a search finds it by, if not empty."""

    key: str
    title: str
    note: str = ""
    state: str = ""
    mark: str = "·"
    tone: Tone = Tone.QUIET
    button: str = ""
    favourite: bool = False
    unseen: str = ""
    found_by: str = ""

    @property
    def spoken(self) -> str:
        """The text for a screen reader."""
        starred = tr("favourite") if self.favourite else ""
        return ", ".join(filter(None, (self.title, self.state, self.note, starred)))

    @property
    def searched(self) -> str:
        return self.found_by or f"{self.spoken} {self.unseen}"


def search(rows: Iterable[Row], typed: str) -> tuple[Row, ...]:
    """The rows that contain each typed word."""
    words = normalise_search(typed).casefold().split()
    return tuple(row for row in rows if all(word in row.searched.casefold() for word in words))


def resource_rows(status: Status, preferences: Preferences) -> tuple[Row, ...]:
    """Favourites first."""
    tunnels = {tunnel.fqdn: tunnel for tunnel in status.tunnels}
    rows = [
        Row(
            it.fqdn,
            name := make_readable(it.fqdn),
            " · ".join(filter(None, (_unlike(it.name, name), _reached(it), it.organisation))),
            _open_through(tunnels.get(it.fqdn)),
            name[:1].upper(),
            _tone(tunnels.get(it.fqdn)),
            tr("Open") if _may_have_page(it, tunnels.get(it.fqdn)) else "",
            it.fqdn in preferences.favourites,
            " ".join((it.fqdn, it.name, *it.addresses)),
        )
        for it in status.resources
    ]
    return tuple(sorted(rows, key=lambda row: (not row.favourite, row.title)))


def _may_have_page(resource: local_pb2.Resource, tunnel: local_pb2.Tunnel | None) -> bool:
    """The controller tells the permitted ports with the tunnel."""
    if tunnel is not None and is_up(tunnel):
        return bool(tunnel.page)
    return not is_wildcard(resource.fqdn)


def _unlike(name: str, fqdn: str) -> str:
    """The resource's name, if the DNS name does not begin with it."""
    return "" if fqdn.split(".", 1)[0] == name else name


def _reached(resource: local_pb2.Resource) -> str:
    """The addresses of a name, or the names of a wildcard."""
    if is_wildcard(resource.fqdn):
        return tr("every name below {suffix}", suffix=make_readable(resource.fqdn.removeprefix(WILDCARD)))
    return _short(resource.addresses)


def _short(addresses: Iterable[str]) -> str:
    shown = [it.removesuffix("/32").removesuffix("/128") for it in addresses]
    more = len(shown) - _ADDRESSES
    return ", ".join(shown[:_ADDRESSES]) + (tr(" and {count} more", count=more) if more > 0 else "")


def _tone(tunnel: local_pb2.Tunnel | None) -> Tone:
    return Tone.QUIET if tunnel is None else _TUNNEL_TONES.get(tunnel.state, Tone.QUIET)


def _open_through(tunnel: local_pb2.Tunnel | None) -> str:
    if tunnel is None:
        return ""
    if tunnel.state == local_pb2.TUNNEL_STATE_SILENT:
        return tr("{gateway} does not answer", gateway=tunnel.gateway)
    if tunnel.state == local_pb2.TUNNEL_STATE_NARROW:
        return tr("Only small packets reach {gateway}", gateway=tunnel.gateway)
    return tr("through {gateway}", gateway=tunnel.gateway) if tunnel.gateway else tr("opening…")


def tunnel_rows(status: Status, now: float) -> tuple[Row, ...]:
    """`now` in Unix seconds."""
    trips = {(it.name, it.organisation): round_trip(it) for it in status.gateways}
    return tuple(
        Row(
            it.fqdn,
            make_readable(it.fqdn),
            _health(it, now),
            _through(it, trips.get((it.gateway, it.organisation), "")),
            _MARKS[_tone(it)],
            _tone(it),
            tr("Close"),
            unseen=" ".join((it.fqdn, it.resource, it.inner_address, *it.remote_prefixes)),
        )
        for it in status.tunnels
    )


def _through(tunnel: local_pb2.Tunnel, trip: str) -> str:
    if not is_up(tunnel) and tunnel.state != local_pb2.TUNNEL_STATE_CLOSING:
        return _open_through(tunnel)
    return " · ".join(filter(None, (tunnel.gateway, trip))) if is_up(tunnel) else state(tunnel)


def _health(tunnel: local_pb2.Tunnel, now: float) -> str:
    last = tr("last packet {ago}", ago=heard(tunnel, now)) if tunnel.heard_ms else ""
    if not is_up(tunnel):
        return " · ".join(filter(None, (last, tunnel.organisation)))
    traffic = tr(
        "{received} received, {sent} sent", received=size(tunnel.bytes_in), sent=size(tunnel.bytes_out)
    )
    open_for = tr("open for {duration}", duration=duration(now - tunnel.since_ms / 1e3))
    return " · ".join(filter(None, (health(tunnel, now), open_for, last, traffic, tunnel.organisation)))


def gateway_rows(status: Status) -> tuple[Row, ...]:
    """Each organisation has the automatic choice, then gateways that are online, then the others; by name."""
    return tuple(
        row
        for of, part in split_status(status)
        for row in (
            _automatic(part, of),
            *(
                _gateway(it, part, of)
                for it in sorted(part.gateways, key=lambda it: (not it.online, it.name))
            ),
        )
    )


def gateway_key(gateway: str, organisation: str) -> str:
    """`gateway`: empty for the automatic choice. A gateway's name has no space."""
    return f"{gateway} {organisation}"


def _automatic(status: Status, organisation: str) -> Row:
    title, note = tr("Automatic"), tr("Culvert chooses a gateway for each tunnel.")
    chosen = not status.selected_gateway
    return Row(
        gateway_key("", organisation),
        title,
        " · ".join(filter(None, (note, organisation))),
        tr("chosen") if chosen else "",
        _MARKS[Tone.GOOD] if chosen else title[:1],
        Tone.GOOD if chosen else Tone.QUIET,
        "" if chosen else tr("Choose"),
    )


def _gateway(gateway: local_pb2.Gateway, status: Status, organisation: str) -> Row:
    chosen = gateway.name == status.selected_gateway
    count = sum(it.gateway == gateway.name and is_up(it) for it in status.tunnels)
    used = plural("%n tunnel up", "%n tunnels up", count) if count else ""
    trip = round_trip(gateway) if gateway.online else tr("offline")
    return Row(
        gateway_key(gateway.name, organisation),
        gateway.name,
        " · ".join(filter(None, (gateway.address, used, organisation))),
        " · ".join(filter(None, (tr("chosen") if chosen else "", trip))),
        _MARKS[Tone.GOOD] if chosen else gateway.name[:1].upper(),
        Tone.GOOD if chosen else Tone.QUIET,
        tr("Choose") if gateway.online and not chosen else "",
        found_by=f"{gateway.name} {gateway.address} {organisation}",
    )


def activity_rows(activities: Iterable[local_pb2.Activity], now: float) -> tuple[Row, ...]:
    """Newest first."""
    return tuple(_activity(one, now) for one in reversed(list(activities)))


def _activity(one: local_pb2.Activity, now: float) -> Row:
    tone, mark = _ACTIVITY_TONES.get(one.kind, (Tone.QUIET, "·"))
    happened = describe(one)
    # The first sentence is the event; what follows says why, and what to do.
    event, _, why = happened.partition(". ")
    event = f"{event}." if why else event
    at = clock(one.at_ms / 1e3, now, seconds=True)
    return Row(str(one.number), event, why, at, mark, tone, unseen=one.fqdn)
