"""Prints the daemon's status as texts and tables: coloured on a terminal, plain in a pipe."""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Iterable, Sequence
from typing import Any

from culvert_proto import CulvertError, Reason, local_pb2
from culvert_proto.dns_name import make_readable
from culvert_proto.phrases import duration
from culvert_proto.screens.activity import describe
from culvert_proto.screens.opening import Opening, last_opening
from culvert_proto.screens.opening import Verdict as HopVerdict
from culvert_proto.screens.organisations import code_is_unknown, is_enrolled, split_status
from culvert_proto.screens.units import clock, drops, health, round_trip, size
from culvert_proto.shown_text import make_plain
from rich.cells import cell_len, set_cell_size
from rich.console import Console

from culvert_client.cli.diagnosis import name_datapath
from culvert_client.cli.language import _
from culvert_client.cli.verdict import Verdict

# A command in a sentence, to be copied as a whole.
_COMMAND = re.compile(
    r"(?:sudo )?\b(?:culvert|systemctl|journalctl|timedatectl|modprobe|chattr|ss) .+?(?=[.,;:)](?:\s|$)|[“”\"]|$)"
)

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:ms|s|min|h|d|[kMG]?B)\b)")


class PlainConsole(Console):
    """Prints texts of others without characters that would command the terminal or turn the text around. On a terminal, a
    line ends between two words."""

    def print(self, *objects: Any, hang: int = 0, **settings: Any) -> None:
        """`hang`: how far the further lines of a long text are indented."""
        super().print(*(self._fit(it, hang) if isinstance(it, str) else it for it in objects), **settings)

    def _fit(self, text: str, hang: int) -> str:
        text = make_plain(text)
        if not self.is_terminal or cell_len(text) <= self.width:
            return text
        bound = _BEFORE_UNIT.sub("\0", _COMMAND.sub(lambda found: found[0].replace(" ", "\0"), text))
        indent = " " * (len(text) - len(text.lstrip(" ")) + hang)
        lines = textwrap.wrap(
            bound, self.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        return "\n".join(lines).replace("\0", " ")


out = PlainConsole(highlight=False, soft_wrap=True)
err = PlainConsole(stderr=True, highlight=False, soft_wrap=True)

_STATES: dict[local_pb2.State.ValueType, tuple[str, str]] = {
    local_pb2.STATE_NOT_ENROLLED: (_("Not enrolled"), "yellow"),
    local_pb2.STATE_READY: (_("Ready"), "green"),
    local_pb2.STATE_CONNECTING: (_("Connecting"), "cyan"),
    local_pb2.STATE_CONNECTED: (_("Connected"), "green"),
    local_pb2.STATE_NEEDS_CODE: (_("A code is needed"), "yellow"),
    local_pb2.STATE_OFFLINE: (_("The controller cannot be reached"), "red"),
    local_pb2.STATE_PAUSED: (_("Paused"), "yellow"),
    local_pb2.STATE_GATEWAY_SILENT: (_("The gateway does not answer"), "red"),
    local_pb2.STATE_PATH_NARROW: (_("Only small packets reach the gateway"), "red"),
    local_pb2.STATE_BLOCKED: (_("Blocked: no tunnel can be opened"), "red"),
}
# Seconds before the end of a code from which the next one is asked for; the tray's, too.
_CODE_AHEAD = 30 * 60
# 0: the daemon gives other users no reason.
_UNREACHED = frozenset({0, Reason.CONTROLLER_UNREACHABLE})
_ACTIVITY_COLOURS = {
    local_pb2.ACTIVITY_KIND_TUNNEL_UP: "green",
    local_pb2.ACTIVITY_KIND_DENIED: "red",
    local_pb2.ACTIVITY_KIND_FAILED_OVER: "yellow",
    local_pb2.ACTIVITY_KIND_CONTROLLER_LOST: "red",
}


def say_error(what: str, remedy: str, shell: str = "", page: str = "") -> None:
    """`shell`: the remedy's command. `page`: the address of a page with more. Each may be empty."""
    err.print(make_readable(what), style="red", markup=False)
    if remedy:
        err.print(with_shell(remedy, shell), markup=False)
    if page:
        err.print(_("More: {address}").format(address=page), markup=False, soft_wrap=True)


def with_shell(remedy: str, shell: str) -> str:
    return " ".join(filter(None, (remedy, shell)))


def page_of(error: CulvertError, controller: str) -> str:
    """The address of the reason's page at this controller; empty without a controller."""
    return f"{controller.rstrip('/')}{error.page}" if controller else ""


def say_status(status: local_pb2.Status) -> None:
    for organisation, part in split_status(status):
        if organisation:
            out.print(organisation, style="bold", markup=False)
        _say_one(part)
    for warning in map(CulvertError.from_proto, status.warnings):
        out.print(f"! {make_readable(warning.message)}", style="yellow", markup=False, hang=2)
        out.print(f"  {with_shell(warning.remedy, warning.shell)}", markup=False)


def _say_one(status: local_pb2.Status) -> None:
    text, colour = _STATES.get(status.state, (_("Unknown"), "red"))
    if status.state == local_pb2.STATE_OFFLINE and status.last_error.reason not in _UNREACHED:
        text = _("Not connected to the controller")
    out.print(f"● {text}", style=colour)
    if status.state == local_pb2.STATE_NOT_ENROLLED:
        out.print(_("Next, with the link of your invitation: culvert enroll 'LINK'"))
    if status.paused_until:
        told = _("Until {time} no tunnel is opened. Before that: culvert resume")
        out.print(told.format(time=clock(status.paused_until, time.time())))
    if status.user:
        told = _("Signed in as {user} on {device}; {code}")
        out.print(told.format(user=status.user, device=status.device_name, code=_code(status)), markup=False)
    elif is_enrolled(status):
        out.print(_("Another user enrolled this computer. Only that user and root see more."))
    if status.controller:
        out.print(_("Controller {name}").format(name=status.controller), markup=False)
    if status.datapath and status.state != local_pb2.STATE_NOT_ENROLLED:
        told = _("Packets go through {way}")
        out.print(told.format(way=name_datapath(status.datapath)), markup=False)
    near = [f"{it.name} {trip}" for it in status.gateways if (trip := round_trip(it))]
    if near:
        out.print(_("Round trips: {gateways}").format(gateways=", ".join(near)), markup=False)
    if status.selected_gateway:
        told = _("Gateway {gateway} (chosen by you)")
        out.print(told.format(gateway=status.selected_gateway), markup=False)
    if status.awaiting_prefixes:
        say_awaiting(status.awaiting_prefixes)
        out.print(_("Until you agree, Culvert does not carry them: culvert agree"))
    if status.declined_prefixes:
        told = _("Declined: {prefixes}. You can still agree later.")
        out.print(told.format(prefixes=", ".join(status.declined_prefixes)), markup=False)
    if status.tunnels:
        say_tunnels(status)
    if (opened := last_opening(status)) is not None:
        _say_opening(opened)
    if status.HasField("last_error"):
        error = CulvertError.from_proto(status.last_error)
        when = f" ({_ago(time.time() - status.last_error_at)})" if status.last_error_at else ""
        say_error(error.message + when, error.remedy, error.shell, page_of(error, status.controller))


def say_carried(enrolled: local_pb2.EnrollResponse) -> None:
    if enrolled.zones:
        told = _("Names that may need a tunnel: those under {zones}")
        out.print(told.format(zones=", ".join(map(make_readable, enrolled.zones))), markup=False)
    if enrolled.prefixes:
        told = _("Networks that tunnels alone may reach: {prefixes}")
        out.print(told.format(prefixes=", ".join(enrolled.prefixes)), markup=False)
    if enrolled.awaiting_prefixes:
        say_awaiting(enrolled.awaiting_prefixes)
        out.print(_("Until you agree, Culvert does not carry them: culvert agree"))


def say_awaiting(prefixes: Iterable[str]) -> None:
    out.print(
        _(
            "The organisation asks to carry your traffic to these public networks, and would see where it goes:"
        )
    )
    for prefix in prefixes:
        out.print(f"  {prefix}", markup=False)


def say_tunnels(status: local_pb2.Status) -> None:
    columns = (
        _("NAME"),
        _("GATEWAY"),
        _("STATE"),
        _("LAST PACKET"),
        _("ADDRESS"),
        _("IN"),
        _("OUT"),
        _("DROPPED"),
    )
    rows = [
        (
            make_readable(tunnel.fqdn),
            tunnel.gateway,
            health(tunnel, time.time()),
            _heard(tunnel, time.time()),
            tunnel.inner_address,
            size(tunnel.bytes_in),
            size(tunnel.bytes_out),
            drops(tunnel.drops) or "-",
        )
        for tunnel in status.tunnels
    ]
    _say_table(columns, rows)


def say_resources(status: local_pb2.Status) -> None:
    if not status.resources:
        out.print(_("You have no access to a resource yet. Ask your administrator."))
        return
    columns = (_("RESOURCE"), _("NAME"), _("ADDRESSES"), *_whose(status.resources))
    rows = [
        (it.name, make_readable(it.fqdn), ", ".join(it.addresses), *filter(None, [it.organisation]))
        for it in status.resources
    ]
    _say_table(columns, rows)


def say_gateways(status: local_pb2.Status) -> None:
    if not status.gateways:
        out.print(_("No gateway is known."))
        return
    columns = (_("GATEWAY"), _("ADDRESS"), _("STATE"), _("ROUND TRIP"), _("CHOSEN"))
    rows: list[tuple[str, ...]] = []
    for _of, part in split_status(status):
        for gateway in part.gateways:
            chosen = _("by you") if gateway.name == part.selected_gateway else ""
            if not chosen and any(tunnel.gateway == gateway.name for tunnel in part.tunnels):
                chosen = _("automatically")
            state = _("online") if gateway.online else _("offline")
            whose = filter(None, [gateway.organisation])
            rows.append((gateway.name, gateway.address, state, round_trip(gateway) or "-", chosen, *whose))
    _say_table((*columns, *_whose(status.gateways)), rows)


def say_verdicts(verdicts: list[tuple[str, Verdict]]) -> None:
    for organisation, verdict in verdicts:
        mark, colour = ("✓", "green") if verdict.good else ("✗", "red")
        out.print(
            f"{mark} {title(organisation, verdict)}: {make_readable(verdict.what)}",
            style=colour,
            markup=False,
            hang=2,
        )
        if verdict.remedy:
            out.print(f"  {with_shell(verdict.remedy, verdict.shell)}", markup=False)


def title(organisation: str, verdict: Verdict) -> str:
    """`organisation`: empty if there is only one."""
    return f"{organisation}: {_(verdict.hop)}" if organisation else _(verdict.hop)


def say_activity(activity: local_pb2.Activity) -> None:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(activity.at_ms / 1e3))
    colour = _ACTIVITY_COLOURS.get(activity.kind)
    out.print(f"{at}  {describe(activity)}", style=colour, markup=False, hang=2)


def say_recovery_codes(left: int) -> None:
    if left:
        out.print(_.plural("{n} recovery code is left.", "{n} recovery codes are left.", left))
    else:
        out.print(_("That was the last recovery code: ask your administrator for a new authenticator."))


def _say_opening(opening: Opening) -> None:
    """The times that were measured, and what they mean; the reason of a failure follows as the last error."""
    times = " · ".join(f"{it.name} {it.text}" for it in opening.parts if it.verdict is not HopVerdict.UNKNOWN)
    failed = opening.total is None
    told = _("Last asked for {name}: {times}") if failed else _("Last opened {name}: {times}")
    out.print(told.format(name=make_readable(opening.fqdn), times=times), markup=False, hang=2)
    if not failed:
        out.print(f"  {opening.conclusion}", markup=False)


def _code(status: local_pb2.Status) -> str:
    if code_is_unknown(status):
        return _("code not known while offline")
    left = status.code_valid_until - int(time.time())
    if left <= 0:
        return _("no valid code")
    if left <= _CODE_AHEAD:
        return _("code valid for {time}; the next one: culvert code").format(time=duration(left))
    return _("code valid for {time}").format(time=duration(left))


def _whose(ones: Iterable[local_pb2.Resource | local_pb2.Gateway]) -> list[str]:
    """The additional column if there are several organisations."""
    return [_("ORGANISATION")] if any(it.organisation for it in ones) else []


def _say_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table without truncating cells; if the terminal is too narrow, print each row as a list."""
    widths = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
    if out.is_terminal and sum(widths) + 2 * (len(widths) - 1) > out.width:
        widest = max(map(cell_len, columns))
        for first, *rest in rows:
            out.print(first, style="bold", markup=False)
            for column, cell in zip(columns[1:], rest, strict=True):
                if cell:
                    out.print(f"  {set_cell_size(column, widest)}  {cell}", markup=False)
        return
    for row in (columns, *rows):
        line = "  ".join(map(set_cell_size, row, widths)).rstrip()
        out.print(line, style="bold" if row is columns else None, markup=False)


def _heard(tunnel: local_pb2.Tunnel, now: float) -> str:
    """The time since the last inbound packet. `now`: Unix seconds."""
    if not tunnel.heard_ms:
        return _("none yet")
    return _ago(now - tunnel.heard_ms / 1e3)


def _ago(time_since: float) -> str:
    return _("{time} ago").format(time=duration(time_since))
