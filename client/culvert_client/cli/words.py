"""The daemon's status in words and tables. Colour on a terminal, plain text when piped."""

from __future__ import annotations

import time

from culvert_proto import local_pb2
from culvert_proto.shown import clock, round_trip
from rich.console import Console
from rich.table import Table

from culvert_client.cli.diagnosis import Verdict

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

_STATES: dict[local_pb2.State.ValueType, tuple[str, str]] = {
    local_pb2.STATE_NOT_ENROLLED: ("Not enrolled", "yellow"),
    local_pb2.STATE_READY: ("Ready", "green"),
    local_pb2.STATE_CONNECTING: ("Connecting", "cyan"),
    local_pb2.STATE_CONNECTED: ("Connected", "green"),
    local_pb2.STATE_NEEDS_CODE: ("A code is needed", "yellow"),
    local_pb2.STATE_OFFLINE: ("The controller cannot be reached", "red"),
    local_pb2.STATE_PAUSED: ("Paused", "yellow"),
}
_TUNNEL_STATES: dict[local_pb2.TunnelState.ValueType, str] = {
    local_pb2.TUNNEL_STATE_OPENING: "opening",
    local_pb2.TUNNEL_STATE_UP: "up",
    local_pb2.TUNNEL_STATE_REKEYING: "up, new keys",
    local_pb2.TUNNEL_STATE_CLOSING: "closing",
}
_DATAPATHS = {"kernel": "the kernel's IPsec", "userspace": "Culvert's own IPsec"}


def say_error(what: str, remedy: str) -> None:
    err.print(what, style="red", markup=False)
    if remedy:
        err.print(remedy, markup=False)


def say_status(status: local_pb2.Status) -> None:
    text, colour = _STATES.get(status.state, ("Unknown", "red"))
    out.print(f"● {text}", style=colour)
    if status.paused_until:
        out.print(
            f"Until {clock(status.paused_until, time.time())} no tunnel is opened. Before that: culvert resume"
        )
    if status.user:
        out.print(f"Signed in as {status.user} on {status.device_name}; {_code(status)}", markup=False)
    elif status.state != local_pb2.STATE_NOT_ENROLLED:
        out.print("Another user enrolled this computer; only that user and root see more.")
    if status.controller:
        out.print(f"Controller {status.controller}", markup=False)
    if status.datapath:
        out.print(f"Packets go through {_DATAPATHS.get(status.datapath, status.datapath)}", markup=False)
    near = [f"{it.name} {trip}" for it in status.gateways if (trip := round_trip(it))]
    if near:
        out.print(f"Round trips: {', '.join(near)}", markup=False)
    if status.selected_gateway:
        out.print(f"Gateway {status.selected_gateway} (chosen by you)", markup=False)
    if status.tunnels:
        say_tunnels(status)
    opened = next((click for click in status.clicks if not click.HasField("error")), None)
    if opened is not None:
        _say_click(opened)
    if status.HasField("last_error"):
        say_error(status.last_error.message, status.last_error.remedy)


def say_tunnels(status: local_pb2.Status) -> None:
    table = _table("NAME", "GATEWAY", "STATE", "ADDRESS", "IN", "OUT", "DROPPED")
    for tunnel in status.tunnels:
        table.add_row(
            tunnel.fqdn,
            tunnel.gateway,
            _TUNNEL_STATES.get(tunnel.state, "unknown"),
            tunnel.inner_address,
            _bytes(tunnel.bytes_in),
            _bytes(tunnel.bytes_out),
            ", ".join(f"{count} {cause}" for cause, count in sorted(tunnel.drops.items()) if count) or "-",
        )
    out.print(table)


def say_resources(status: local_pb2.Status) -> None:
    if not status.resources:
        out.print("No resource is known. Your administrator can give you access to some.")
        return
    table = _table("RESOURCE", "NAME", "ADDRESSES")
    for resource in status.resources:
        table.add_row(resource.name, resource.fqdn, ", ".join(resource.addresses))
    out.print(table)


def say_gateways(status: local_pb2.Status) -> None:
    if not status.gateways:
        out.print("No gateway is known.")
        return
    table = _table("GATEWAY", "ADDRESS", "STATE", "ROUND TRIP", "CHOSEN")
    for gateway in status.gateways:
        chosen = "by you" if gateway.name == status.selected_gateway else ""
        state = "online" if gateway.online else "offline"
        table.add_row(gateway.name, gateway.address, state, round_trip(gateway) or "-", chosen)
    out.print(table)


def say_verdicts(verdicts: list[Verdict]) -> None:
    for verdict in verdicts:
        mark, colour = ("✓", "green") if verdict.good else ("✗", "red")
        out.print(f"{mark} {verdict.hop}: {verdict.what}", style=colour, markup=False)
        if verdict.remedy:
            out.print(f"  {verdict.remedy}", markup=False)


def _say_click(click: local_pb2.Click) -> None:
    steps = " → ".join(f"{step.name} {step.at_us / 1e3:.1f}" for step in click.steps)
    out.print(f"Last opened {click.fqdn}, ms: {steps}", markup=False)


def _code(status: local_pb2.Status) -> str:
    left = status.code_valid_until - int(time.time())
    return f"code valid for {left // 3600} h {left % 3600 // 60} min" if left > 0 else "no valid code"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
