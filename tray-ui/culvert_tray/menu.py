"""The menu as comparable data: a pure function of the view, which tray menu and window render.

Heading     status in words
Label…      person, end of the code, the last denial with its remedy; warnings about this computer
Action      Enrol this computer… | Enter code now… | Public networks wait for your answer…
─
Submenu…    each tunnel, at most eight: Open · Copy address · Details… · Close
Action      All tunnels…, if there are more
Submenu     Recent and favourites: those without a tunnel · All resources…
─
Submenu     Gateway: Automatic · each, or those at hand of many · All gateways…
Submenu     Pause Culvert: how long | Action  Resume now
─
Action      Open Culvert…
Submenu     Help: Run diagnostics · Save a report… · Documentation · Add an organisation…
Action      Quit the tray
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from textwrap import wrap

from culvert_proto import CulvertError, Reason, local_pb2
from culvert_proto.dns_name import is_wildcard, make_readable
from culvert_proto.owner import owner_of
from culvert_proto.phrases import duration
from culvert_proto.screens.organisations import code_is_unknown, is_enrolled, split_status
from culvert_proto.screens.units import clock, round_trip

from culvert_tray.commands import (
    AnswerClaims,
    CloseTunnel,
    Command,
    CopyText,
    Enrol,
    EnterCode,
    OpenPage,
    Page,
    Pause,
    Quit,
    Resume,
    RunDiagnostics,
    SaveReport,
    SelectGateway,
    SetFavourite,
    ShowDetails,
    ShowDocumentation,
    ShowWindow,
    StartDaemon,
    WriteMail,
)
from culvert_tray.details import heard
from culvert_tray.icon import IconKind, icon_kind
from culvert_tray.pause import PauseLength
from culvert_tray.preferences import Preferences, at_hand
from culvert_tray.translation import later, plural, tr
from culvert_tray.view import (
    Down,
    Status,
    Tunnel,
    View,
    code_asked_for,
    code_ends_soon,
    code_needed,
    find_denial,
    gateways_of,
    is_redacted,
    is_up,
    next_code_end,
    status_of,
    with_organisation,
)

# Longer lists are in the window, which has a search.
MOST_INLINE = 8

_OPENS_NOTHING = (
    local_pb2.STATE_UNSPECIFIED,
    local_pb2.STATE_NOT_ENROLLED,
    local_pb2.STATE_NEEDS_CODE,
    local_pb2.STATE_OFFLINE,
    local_pb2.STATE_PAUSED,
    local_pb2.STATE_BLOCKED,
)


# The texts of an unusable organisation among several.
_OUT_OF_USE = {
    local_pb2.STATE_OFFLINE: later("Offline — controller cannot be reached"),
    local_pb2.STATE_NOT_ENROLLED: later("This computer is not enrolled"),
    local_pb2.STATE_BLOCKED: later("Blocked — no tunnel can be opened"),
}


# Their remedies change the daemon's settings or the system's files.
_FOR_ADMINISTRATORS = (Reason.TUN_NAME_TAKEN, Reason.DNS_WATCH_FAILED, Reason.DNS_SERVERS_FORGOTTEN)

_LINE = 80
"""Our tunable: characters in a line of the tray's menu."""


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    icon: IconKind


@dataclass(frozen=True, slots=True)
class Label:
    text: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault, and the person's remedy. `page`: the address of the reason's page, or empty. `cure`: the remedy's act."""

    text: str
    remedy: str
    page: str = ""
    cure: Action | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """`checked`: None if it is not checkable."""

    text: str
    command: Command
    checked: bool | None = None
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Submenu:
    text: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Separator:
    pass


Entry = Heading | Label | Trouble | Action | Submenu | Separator
Menu = tuple[Entry, ...]


def menu(view: View, now: float, preferences: Preferences = Preferences()) -> Menu:  # noqa: B008  immutable
    """`now`: Unix seconds."""
    sections: list[Menu] = [head(view, now)]
    if not isinstance(view, Down):
        sections += [(*_tunnels(view), *_resources(view, now, preferences)), controls(view)]
    help_entries: Menu = (
        Action(tr("Run diagnostics"), RunDiagnostics()),
        Action(tr("Save a report…"), SaveReport()),
        *about_entries(status_of(view)),
    )
    last = (Action(tr("Open Culvert…"), ShowWindow()), Submenu(tr("Help"), help_entries))
    sections.append((*last, Action(tr("Quit the tray (tunnels stay up)"), Quit())))
    entries: list[Entry] = []
    for section in filter(None, sections):
        entries += [Separator(), *section] if entries else section
    return tuple(entries)


def about_entries(status: Status) -> tuple[Action, ...]:
    """The acts that the menu's help and the window's last page have in common."""
    documentation = Action(tr("Documentation"), ShowDocumentation())
    if not is_enrolled(status) or is_redacted(status):
        return (documentation,)
    return (documentation, Action(tr("Add an organisation…"), Enrol()))


def head(view: View, now: float) -> Menu:
    """The status, and the person's remedy for a fault."""
    heading = Heading(_headline(view, now), icon_kind(view, now))
    if isinstance(view, Down):
        told = (Label(view.remedy),) if view.remedy else ()
        start = (Action(tr("Start Culvert"), StartDaemon()),) if view.stopped else ()
        return (heading, *told, *start)
    persons = (entry for of, part in split_status(view) for entry in _person(part, of, now))
    warnings = map(CulvertError.from_proto, view.warnings)
    return (heading, *persons, *(trouble(it, controller=view.controller) for it in warnings))


def shorten(text: str, most: int = _LINE) -> str:
    """The text with at most so many characters: its middle is left out."""
    kept = most - 1
    return text if len(text) <= most else f"{text[: kept - kept // 2]}…{text[-(kept // 2) :]}"


def fold(entries: Menu) -> Menu:
    """The menu with short lines, because it is as wide as its longest: long labels become several entries."""
    labels = (
        part
        for it in entries
        for part in (
            (Label(f"⚠ {it.text}"), Label(it.remedy), *filter(None, (it.cure,)))
            if isinstance(it, Trouble)
            else (it,)
        )
    )
    return tuple(
        line
        for it in labels
        for line in (
            map(Label, wrap(it.text, _LINE, break_on_hyphens=False))
            if isinstance(it, Label)
            else (it if isinstance(it, Separator) else replace(it, text=shorten(it.text)),)
        )
    )


def controls(view: Status) -> Menu:
    return (*_gateways(view), *_pause(view))


def _headline(view: View, now: float) -> str:
    if isinstance(view, Down):
        return view.message
    up = sum(is_up(tunnel) for tunnel in view.tunnels)
    tunnels = plural("%n tunnel up", "%n tunnels up", up)
    match view.state:
        case local_pb2.STATE_NOT_ENROLLED:
            return tr("This computer is not enrolled")
        case local_pb2.STATE_OFFLINE:
            reason = view.last_error.reason
            offline = (
                tr("Offline — controller cannot be reached")
                if reason in (0, Reason.CONTROLLER_UNREACHABLE)
                else tr("Offline — not connected to the controller")
            )
            return f"{offline}, {tunnels}" if up else offline
        case local_pb2.STATE_CONNECTING:
            opening = [
                make_readable(t.fqdn) for t in view.tunnels if t.state == local_pb2.TUNNEL_STATE_OPENING
            ]
            return tr("Connecting to {name}…", name=opening[0]) if len(opening) == 1 else tr("Connecting…")
        case local_pb2.STATE_UNSPECIFIED:
            return tr("Starting…")
        case local_pb2.STATE_BLOCKED:
            return tr("Blocked — no tunnel can be opened")
        case local_pb2.STATE_PAUSED:
            until = view.paused_until
            return tr("Paused until {time}", time=clock(until, now)) if until else tr("Paused")
        case local_pb2.STATE_GATEWAY_SILENT:
            gateways = gateways_of(view, local_pb2.TUNNEL_STATE_SILENT)
            if len(gateways) == 1:
                return tr("{gateway} does not answer", gateway=gateways[0])
            return tr("The gateways do not answer")
        case local_pb2.STATE_PATH_NARROW:
            gateways = gateways_of(view, local_pb2.TUNNEL_STATE_NARROW)
            if len(gateways) == 1:
                return tr("Only small packets reach {gateway}", gateway=gateways[0])
            return tr("Only small packets reach the gateways")
        case local_pb2.STATE_CONNECTED if is_redacted(view):
            return tr("Connected")
        case state if state == local_pb2.STATE_NEEDS_CODE or code_needed(view, now):
            needed = tr("A code is needed")
            return f"{needed} — {tunnels}" if up else needed
        case _ if code_asked_for(view, now):
            return next_code_end(view, now).text(now)
        case _ if (denial := find_denial(view, now)) is not None:
            name = denial.fields.get("name")
            return tr("{name} was denied", name=make_readable(str(name))) if name else tr("Access was denied")
        case _:
            return f"{tr('Connected')} — {tunnels}" if up else tr("Ready — no tunnel up")


def _person(status: Status, organisation: str, now: float) -> Menu:
    entries: list[Entry] = []
    if organisation and status.state in _OUT_OF_USE:
        entries.append(Label(with_organisation(tr(_OUT_OF_USE[status.state]), organisation)))
    if not is_enrolled(status):
        if status.state in (local_pb2.STATE_NOT_ENROLLED, local_pb2.STATE_BLOCKED):
            entries.append(Action(tr("Enrol this computer…"), Enrol()))
    elif is_redacted(status):
        if status.state != local_pb2.STATE_OFFLINE:
            entries.append(
                Label(with_organisation(tr("Another user has enrolled this computer"), organisation))
            )
    else:
        left = status.code_valid_until - now
        if code_is_unknown(status):
            code = tr("code not known while offline")
        elif left <= 0 or code_needed(status, now):
            code = tr("no valid code")
        else:
            code = tr("code valid for {duration}", duration=duration(left))
        signed_in = tr("Signed in as {user} · {code}", user=status.user, code=code)
        entries.append(Label(with_organisation(signed_in, organisation)))
        # Only with a controller, which must check the code.
        if code_ends_soon(status, now) and status.state not in (
            local_pb2.STATE_OFFLINE,
            local_pb2.STATE_PAUSED,
        ):
            entries.append(
                Action(with_organisation(tr("Enter code now…"), organisation), EnterCode(organisation))
            )
    if status.awaiting_prefixes:
        waiting = with_organisation(tr("Public networks wait for your answer…"), organisation)
        entries.append(Action(waiting, AnswerClaims(organisation)))
    if status.HasField("last_error") and not _repeats_error(status):
        told = trouble(CulvertError.from_proto(status.last_error), organisation, status.controller)
        offered = [it.command for it in entries if isinstance(it, Action)]
        is_offered = told.cure is not None and told.cure.command in offered
        entries.append(replace(told, cure=None) if is_offered else told)
    return tuple(entries)


def trouble(error: CulvertError, organisation: str = "", controller: str = "") -> Trouble:
    page = f"{controller.rstrip('/')}{error.page}" if controller.startswith("https://") else ""
    return Trouble(make_readable(error.message), error.remedy, page, _cure(error, organisation))


def _cure(error: CulvertError, organisation: str) -> Action | None:
    match error.reason:
        case Reason.NOT_ENROLLED:
            return Action(tr("Enrol this computer…"), Enrol())
        case Reason.CODE_NEEDED | Reason.CODE_EXPIRED | Reason.CODE_TOO_OLD | Reason.CERTIFICATE_EXPIRED:
            return Action(tr("Enter a code"), EnterCode(organisation))
        case Reason.CONSENT_NEEDED:
            return Action(tr("Public networks wait for your answer…"), AnswerClaims(organisation))
        case Reason.PAUSED:
            return Action(tr("Resume now"), Resume())
        case reason if error.shell or reason in _FOR_ADMINISTRATORS:
            return copy_for_administrator(error.message, error.remedy, error.shell)
        case _ if owner := owner_of(error):
            subject = tr("Access to {name}", name=make_readable(str(error.fields.get("name", ""))))
            return Action(tr("Ask {owner}", owner=owner), WriteMail(owner, subject))
        case _:
            return None


def copy_for_administrator(*texts: str) -> Action:
    return Action(tr("Copy for your administrator"), CopyText(" ".join(filter(None, texts))))


def _repeats_error(status: Status) -> bool:
    """Whether the state's text already has the error's content."""
    repeated = {
        local_pb2.STATE_NEEDS_CODE: (Reason.CODE_NEEDED, Reason.CODE_EXPIRED),
        local_pb2.STATE_NOT_ENROLLED: (Reason.NOT_ENROLLED,),
        local_pb2.STATE_OFFLINE: (Reason.CONTROLLER_UNREACHABLE,),
        local_pb2.STATE_PAUSED: (Reason.PAUSED,),
    }
    return status.last_error.reason in repeated.get(status.state, ())


def _tunnels(status: Status) -> Menu:
    inline = tuple(map(_tunnel, status.tunnels[:MOST_INLINE]))
    every = Action(tr("All tunnels…"), ShowWindow(Page.TUNNELS))
    return (*inline, every) if len(status.tunnels) > MOST_INLINE else inline


def _tunnel(tunnel: Tunnel) -> Submenu:
    words = {
        local_pb2.TUNNEL_STATE_OPENING: tr("opening…"),
        local_pb2.TUNNEL_STATE_CLOSING: tr("closing…"),
        local_pb2.TUNNEL_STATE_SILENT: tr("does not answer"),
        local_pb2.TUNNEL_STATE_NARROW: tr("small packets only"),
    }
    texts = (make_readable(tunnel.fqdn), tunnel.organisation, tunnel.gateway, words.get(tunnel.state, ""))
    return Submenu(" · ".join(filter(None, texts)), tunnel_entries(tunnel))


def tunnel_entries(tunnel: Tunnel) -> Menu:
    entries: list[Entry] = []
    if is_up(tunnel):
        if tunnel.page:
            entries.append(Action(tr("Open in the browser"), OpenPage(tunnel.fqdn)))
        address = address_of(tunnel)
        if address:
            entries.append(Action(tr("Copy address {address}", address=address), CopyText(address)))
    if tunnel.tunnel_id:
        entries.append(Action(tr("Details…"), ShowDetails(tunnel.tunnel_id, tunnel.organisation)))
    if tunnel.state != local_pb2.TUNNEL_STATE_CLOSING:
        entries.append(Action(tr("Close"), CloseTunnel(tunnel.fqdn)))
    return tuple(entries)


def resource_entries(resource: local_pb2.Resource, status: Status, *, favourite: bool) -> Menu:
    """The acts on a resource of the window's list."""
    tunnel = next((it for it in status.tunnels if it.fqdn == resource.fqdn), None)
    entries: list[Entry] = []
    if tunnel is None or not is_up(tunnel):
        if not is_wildcard(resource.fqdn):
            entries.append(Action(tr("Open in the browser"), OpenPage(resource.fqdn)))
        if resource.addresses:
            address = resource.addresses[0].split("/")[0]
            entries.append(Action(tr("Copy address {address}", address=address), CopyText(address)))
    if tunnel is not None:
        entries += tunnel_entries(tunnel)
    kept = tr("Remove from favourites") if favourite else tr("Add to favourites")
    return (
        *entries,
        *((Separator(),) if entries else ()),
        Action(kept, SetFavourite(resource.fqdn, not favourite)),
    )


def proof(status: Status, now: float) -> str:
    """The evidence for the state: gateways, since when, and the newest packet. `now`: Unix seconds."""
    up = [it for it in status.tunnels if is_up(it)]
    if not up:
        ready = (
            status.state == local_pb2.STATE_READY
            and not is_redacted(status)
            and not status.HasField("last_error")
        )
        return tr("A tunnel opens by itself when you use a name of your organisation.") if ready else ""
    newest = max(up, key=lambda it: it.heard_ms)
    since = clock(min(it.since_ms for it in up) / 1e3, now)
    gateways = ", ".join(sorted({it.gateway for it in up}))
    told = tr("Through {gateways} since {time}", gateways=gateways, time=since)
    last = tr("last packet {ago}", ago=heard(newest, now)) if newest.heard_ms else ""
    return " · ".join(filter(None, (told, last)))


def address_of(tunnel: Tunnel) -> str:
    """The resource's address: a prefix with one host."""
    hosts = [
        prefix.rsplit("/", 1)[0]
        for prefix in tunnel.remote_prefixes
        if prefix.endswith("/128" if ":" in prefix else "/32") or "/" not in prefix
    ]
    return hosts[0] if hosts else ""


def _resources(status: Status, now: float, preferences: Preferences) -> Menu:
    opening = [
        it for _of, it in split_status(status) if it.state not in _OPENS_NOTHING and not code_needed(it, now)
    ]
    whose = {
        resource.fqdn: resource.organisation
        for it in opening
        for resource in it.resources
        if not is_wildcard(resource.fqdn)
    }
    if not whose:
        return ()
    names = sorted(whose.keys() - {tunnel.fqdn for tunnel in status.tunnels})
    used = at_hand(preferences, names, MOST_INLINE)
    offered: list[Entry] = [
        Action(with_organisation(tr("Open {name}", name=make_readable(name)), whose[name]), OpenPage(name))
        for name in used or names[:MOST_INLINE]
    ]
    every = Action(tr("All resources…"), ShowWindow(Page.RESOURCES))
    return (Submenu(tr("Recent and favourites") if used else tr("Resources"), (*offered, every)),)


def gateway_menus(status: Status) -> tuple[Submenu, ...]:
    """The choice of a gateway for each organisation."""
    return tuple(entry for of, part in split_status(status) for entry in _gateways_of(part, of))


def _gateways(status: Status) -> Menu:
    choices = gateway_menus(status)
    return (Submenu(tr("Gateways"), choices),) if len(choices) > 1 else choices


def _gateways_of(status: Status, organisation: str) -> tuple[Submenu, ...]:
    if not is_enrolled(status) or not status.gateways:
        return ()
    pinned = status.selected_gateway
    each = [
        Action(
            f"{gateway.name} {_away(gateway)}".rstrip(),
            SelectGateway(gateway.name, organisation),
            checked=gateway.name == pinned,
            enabled=gateway.online or gateway.name == pinned,
        )
        for gateway in _at_hand(status)
    ]
    automatic = Action(tr("Automatic"), SelectGateway("", organisation), checked=not pinned)
    every = (Action(tr("All gateways…"), ShowWindow(Page.GATEWAYS)),) if has_many_gateways(status) else ()
    chosen = tr("Gateway · {name}", name=pinned or tr("automatic"))
    return (Submenu(with_organisation(chosen, organisation), (automatic, *each, *every)),)


def has_many_gateways(status: Status) -> bool:
    """Whether an organisation has more gateways than the menu lists."""
    return any(len(part.gateways) > MOST_INLINE for _of, part in split_status(status))


def _at_hand(status: Status) -> list[local_pb2.Gateway]:
    """The chosen gateway, those in use and the nearest, in the order of their names."""
    used = {tunnel.gateway for tunnel in status.tunnels}

    def distance(gateway: local_pb2.Gateway) -> tuple[bool, bool, bool, bool, int]:
        chosen = gateway.name == status.selected_gateway
        unmeasured = not gateway.rtt_us
        return not chosen, gateway.name not in used, not gateway.online, unmeasured, gateway.rtt_us

    return sorted(sorted(status.gateways, key=distance)[:MOST_INLINE], key=lambda it: it.name)


def _away(gateway: local_pb2.Gateway) -> str:
    if not gateway.online:
        return tr("— offline")
    trip = round_trip(gateway)
    return f"· {trip}" if trip else ""


def _pause(status: Status) -> Menu:
    if not is_enrolled(status) or is_redacted(status):
        return ()
    if status.state == local_pb2.STATE_PAUSED:
        return (Action(tr("Resume now"), Resume()),)
    return (Submenu(tr("Pause Culvert"), tuple(Action(tr(it.value), Pause(it)) for it in PauseLength)),)
