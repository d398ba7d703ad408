"""The lines of a tunnel's details, a pure function of the status."""

from __future__ import annotations

from culvert_proto import local_pb2

from culvert_tray.view import Status, duration

STATES = {
    local_pb2.TUNNEL_STATE_OPENING: "opening",
    local_pb2.TUNNEL_STATE_UP: "up",
    local_pb2.TUNNEL_STATE_REKEYING: "up, changing keys",
    local_pb2.TUNNEL_STATE_CLOSING: "closing",
}


def details(status: Status, tunnel_id: str, now: float) -> tuple[tuple[str, str], ...]:
    """(label, value) pairs; empty when the tunnel is gone. `now` in Unix seconds."""
    found = [tunnel for tunnel in status.tunnels if tunnel.tunnel_id == tunnel_id]
    if not found:
        return ()
    t = found[0]
    drops = ", ".join(f"{cause} {count}" for cause, count in sorted(t.drops.items()) if count)
    return (
        ("Resource", t.fqdn),
        ("State", STATES.get(t.state, "unknown")),
        ("Gateway", t.gateway),
        ("Your address", t.inner_address),
        ("Reaches", ", ".join(t.remote_prefixes)),
        ("Open for", duration(now - t.since_ms / 1000)),
        ("Received", f"{size(t.bytes_in)} in {t.packets_in} packets"),
        ("Sent", f"{size(t.bytes_out)} in {t.packets_out} packets"),
        ("Dropped", drops or "none"),
        ("Key generation", str(t.generation)),
    )


def size(octets: int) -> str:
    """Powers of 1000, as network people count."""
    amount = float(octets)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{octets} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
