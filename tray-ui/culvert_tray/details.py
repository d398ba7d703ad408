"""The lines of a tunnel's details, a pure function of the status."""

from __future__ import annotations

from culvert_proto import local_pb2
from culvert_proto.dns_name import make_readable
from culvert_proto.phrases import duration
from culvert_proto.screens.units import drops, size

from culvert_tray.translation import later, plural, tr
from culvert_tray.view import Status

STATES = {
    local_pb2.TUNNEL_STATE_OPENING: later("opening"),
    local_pb2.TUNNEL_STATE_UP: later("up"),
    local_pb2.TUNNEL_STATE_REKEYING: later("up, changing keys"),
    local_pb2.TUNNEL_STATE_CLOSING: later("closing"),
    local_pb2.TUNNEL_STATE_SILENT: later("the gateway does not answer"),
    local_pb2.TUNNEL_STATE_NARROW: later("only small packets pass"),
}


def details(
    status: Status, tunnel_id: str, now: float, organisation: str = ""
) -> tuple[tuple[str, str], ...]:
    """(label, value) pairs; empty if the tunnel is closed. `now`: Unix seconds."""
    wanted = (tunnel_id, organisation)
    found = [tunnel for tunnel in status.tunnels if (tunnel.tunnel_id, tunnel.organisation) == wanted]
    if not found:
        return ()
    t = found[0]
    return (
        (tr("Resource"), make_readable(t.fqdn)),
        *([(tr("Organisation"), t.organisation)] if t.organisation else []),
        (tr("State"), state(t)),
        (tr("Gateway"), t.gateway),
        (tr("Your address"), t.inner_address),
        (tr("Reaches"), ", ".join(t.remote_prefixes)),
        (tr("Open for"), duration(now - t.since_ms / 1000)),
        (tr("Last packet"), heard(t, now)),
        (tr("Received"), _traffic(t.bytes_in, t.packets_in)),
        (tr("Sent"), _traffic(t.bytes_out, t.packets_out)),
        (tr("Dropped"), drops(t.drops) or tr("none")),
        (tr("Key generation"), str(t.generation)),
    )


def heard(tunnel: local_pb2.Tunnel, now: float) -> str:
    """The time since the last inbound packet. `now`: Unix seconds."""
    if not tunnel.heard_ms:
        return tr("none yet")
    return tr("{duration} ago", duration=duration(now - tunnel.heard_ms / 1000))


def state(tunnel: local_pb2.Tunnel) -> str:
    return tr(STATES.get(tunnel.state, later("unknown")))


def _traffic(octets: int, packets: int) -> str:
    return plural("{size} in %n packet", "{size} in %n packets", packets, size=size(octets))
