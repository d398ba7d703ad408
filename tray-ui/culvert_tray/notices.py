"""Notices for the person, computed from successive views. Pure.

A tunnel is announced only the first time that its resource is up. The state at the tray's start gives no notices, except
warnings and requests for a code or an answer.

A refusal gives one notice until it ends. The same name refused anew gives another only after a time without refusals, which
grows: programs try again by themselves, a person does so later. Of many names, as of a restored browser, a few are shown,
and then that there are more. The answer to a click in tray or window is always shown.

A notice is removed when its cause ends. A notice that answers a click is removed at the next click.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from culvert_proto import CulvertError, Reason, local_pb2
from culvert_proto.dns_name import make_readable
from culvert_proto.screens.organisations import split_status

from culvert_tray.commands import AnswerClaims, Command, CopyText, EnterCode, Page, ShowWindow, WriteMail
from culvert_tray.menu import Action, copy_for_administrator, trouble
from culvert_tray.preferences import NoticeKind
from culvert_tray.translation import plural, tr
from culvert_tray.view import (
    Down,
    Status,
    Tunnel,
    View,
    code_asked_for,
    code_ends_now,
    code_needed,
    is_up,
    next_code_end,
    status_of,
    with_organisation,
)

# Our tunable, in seconds: a state that ends and returns within this time gives one notice.
FLAPPING = 300.0
# Our tunables, in seconds and a factor: the time without the same refusal before its second notice, and its growth.
QUIET, GROWTH = 120.0, 4.0
# Our tunable, in seconds.
_FORGOTTEN = 3600.0
# Our tunables: the refusals that are shown in so many seconds.
MOST, BURST = 3, 60.0
_COME_AND_GO = (local_pb2.STATE_OFFLINE, local_pb2.STATE_GATEWAY_SILENT, local_pb2.STATE_PATH_NARROW)


@dataclass(frozen=True, slots=True)
class TunnelUp:
    fqdn: str
    gateway: str


@dataclass(frozen=True, slots=True)
class CodeWanted:
    """`state`: as of `_code`."""

    organisation: str
    state: str


@dataclass(frozen=True, slots=True)
class ClaimsWait:
    organisation: str
    prefixes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """`what`: the refusal without numbers, such as remaining seconds."""

    what: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A refusal that was shown. `at`: its last time, Unix seconds. `quiet`: seconds without it before the next notice."""

    refusal: Refused
    at: float
    quiet: float = QUIET


@dataclass(frozen=True, slots=True)
class DaemonDown:
    pass


Cause = TunnelUp | CodeWanted | ClaimsWait | Refused | DaemonDown


@dataclass(frozen=True, slots=True)
class Notice:
    """`command`: executed at a click on the notice. `cure`: a button beside it in the window. `kind`: None for the answer
    to a click, which is always shown. `cause`: None if only the next click ends it."""

    title: str
    text: str
    warning: bool = False
    command: Command | None = None
    kind: NoticeKind | None = None
    cause: Cause | None = None
    cure: Action | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """The state after the last notices. `refusals`, `warnings`: those shown; `codes`: the last notice about each invalid
    code; `claims`: the organisations and public networks shown as waiting; `flapping`: by refusal, the time of its notice
    in Unix seconds; `recent`: the times of the last refusals' notices."""

    started: bool = False
    announced: frozenset[str] = frozenset()
    gateways: frozenset[tuple[str, str]] = frozenset()
    refusals: frozenset[Repeated] = frozenset()
    codes: frozenset[tuple[str, str]] = frozenset()
    claims: frozenset[tuple[str, str]] = frozenset()
    flapping: frozenset[tuple[Refused, float]] = frozenset()
    warnings: frozenset[Refused] = frozenset()
    recent: tuple[float, ...] = ()


def observe(memory: Memory, view: View, now: float) -> tuple[Memory, tuple[Notice, ...]]:
    """`now` in Unix seconds."""
    if isinstance(view, Down) or view.state == local_pb2.STATE_UNSPECIFIED:
        return memory, ()
    up = {tunnel.fqdn: tunnel.gateway for tunnel in view.tunnels if is_up(tunnel)}
    notices = [
        Notice(
            tr("{name} is open", name=make_readable(name)),
            tr("Through {gateway}, encrypted from this computer to the gateway.", gateway=up[name]),
            kind=NoticeKind.OPENED,
            cause=TunnelUp(name, up[name]),
        )
        for name in sorted(up.keys() - memory.announced)
        if memory.started
    ]
    notices += [
        Notice(
            tr("{name} goes through {gateway} now", name=make_readable(name), gateway=up[name]),
            tr("{gateway} went out of service.", gateway=before),
            kind=NoticeKind.FAILED_OVER,
            cause=TunnelUp(name, up[name]),
        )
        for name, before in sorted(memory.gateways)
        if up.get(name, before) != before
    ]
    codes = {(of, state) for of, part in split_status(view) if (state := _code(part, now)) != "valid"}
    wanted = {of for of, _state in codes - memory.codes}
    notices += [_ask_for_code(part, of, now) for of, part in split_status(view) if of in wanted]
    claims = {(of, prefix) for of, part in split_status(view) for prefix in part.awaiting_prefixes}
    asking = {of for of, _prefix in claims - memory.claims}
    notices += [_ask_about_claims(part, of) for of, part in split_status(view) if of in asking]
    errors = {
        _cause(error): (of, part, error)
        for of, part in split_status(view)
        if part.HasField("last_error") and (error := CulvertError.from_proto(part.last_error))
    }
    flapping = {cause: at for cause, at in memory.flapping if now - at < FLAPPING}
    # Another refusal may take the place of one that goes on; without any, all have ended.
    refusals = {
        it.refusal: it
        for it in memory.refusals
        if it.refusal in errors or (errors and now - it.at < _FORGOTTEN)
    }
    recent = [it for it in memory.recent if now - it < BURST]
    for cause, (of, part, error) in errors.items():
        refusals[cause], is_new = _meet(refusals.get(cause), cause, part.last_error_at)
        if memory.started and is_new and cause not in flapping and not _has_own_notice(error):
            if part.state in _COME_AND_GO:
                flapping[cause] = now
            else:
                recent.append(now)
            if part.state in _COME_AND_GO or len(recent) <= MOST:
                notices.append(replace(refusal_notice(error, of), kind=NoticeKind.DENIED))
            elif len(recent) == MOST + 1:
                notices.append(_more_refusals(cause))
    warnings = {_cause(it): it for it in map(CulvertError.from_proto, view.warnings)}
    notices += [refusal_notice(it) for cause, it in warnings.items() if cause not in memory.warnings]
    gateways = frozenset(up.items()) | {
        it for it in memory.gateways if it[0] in {t.fqdn for t in view.tunnels} - up.keys()
    }
    told_now = Memory(
        True,
        memory.announced | up.keys(),
        gateways,
        frozenset(refusals.values()),
        frozenset(codes),
        frozenset(claims),
        frozenset(flapping.items()),
        frozenset(warnings),
        tuple(recent[-MOST - 1 :]),
    )
    return told_now, tuple(notices)


def holds(cause: Cause, view: View, now: float) -> bool:
    """Whether the cause continues. `now`: Unix seconds. Without the daemon, only its absence is certain."""
    if isinstance(view, Down) or isinstance(cause, DaemonDown):
        return isinstance(view, Down) and isinstance(cause, DaemonDown)
    match cause:
        case TunnelUp(fqdn, gateway):
            return any(is_up(it) and (it.fqdn, it.gateway) == (fqdn, gateway) for it in view.tunnels)
        case CodeWanted(organisation, state):
            return any(of == organisation and _code(part, now) == state for of, part in split_status(view))
        case ClaimsWait(organisation, prefixes):
            waiting = {of: tuple(part.awaiting_prefixes) for of, part in split_status(view)}
            return waiting.get(organisation) == prefixes
        case Refused():
            errors = [part.last_error for _, part in split_status(view) if part.HasField("last_error")]
            errors += view.warnings
            return any(_cause(CulvertError.from_proto(it)) == cause for it in errors)


def note_refusal(memory: Memory, error: CulvertError, now: float) -> Memory:
    """Note a refusal that was shown as the answer to a click, because the status will repeat it. `now`: Unix seconds."""
    cause = _cause(error)
    others = {it for it in memory.refusals if it.refusal != cause}
    return replace(memory, refusals=frozenset(others | {Repeated(cause, now)}))


def refusal_notice(error: CulvertError, organisation: str = "") -> Notice:
    told = trouble(error, organisation)
    # A text is copied, or a mail begun, in the window, which says what the button does.
    acts = told.cure is not None and not isinstance(told.cure.command, CopyText | WriteMail)
    return Notice(
        with_organisation(told.text, organisation),
        told.remedy,
        warning=True,
        command=told.cure.command if told.cure is not None and acts else None,
        cause=_cause(error),
        cure=told.cure,
    )


def _more_refusals(cause: Refused) -> Notice:
    text = tr("The page “Activity” of the window lists them, with their reasons.")
    command, kind = ShowWindow(Page.ACTIVITY), NoticeKind.DENIED
    return Notice(tr("More was denied"), text, warning=True, command=command, kind=kind, cause=cause)


def answer(error: CulvertError, view: View) -> Notice:
    """A notice for the answer to a click, which ends at the next click."""
    told = replace(refusal_notice(error), cause=None)
    if isinstance(told.command, EnterCode | AnswerClaims) and len(status_of(view).organisations) > 1:
        # The answer does not name the one among several; the window's head does.
        return replace(told, command=None, cure=None)
    return told


def wrong_code(error: CulvertError, view: View, organisation: str, now: float) -> Notice:
    """The notice of a wrong code, with a field for another try while a code is needed."""
    states = (
        []
        if isinstance(view, Down)
        else [_code(part, now) for of, part in split_status(view) if of == organisation]
    )
    cause = CodeWanted(organisation, next(iter(states), "valid"))
    return replace(refusal_notice(error, organisation), command=EnterCode(organisation), cause=cause)


def down(view: Down) -> Notice:
    return Notice(view.message, view.remedy, warning=True, cause=DaemonDown())


def not_started(said: str) -> Notice:
    """The answer to a click that has not started the daemon. `said`: the cause, and commands from the second line on."""
    title, remedy = tr("Culvert could not be started"), tr("Your administrator can start it.")
    text = " ".join(filter(None, (said.partition("\n")[0], remedy)))
    return Notice(title, text, warning=True, cure=copy_for_administrator(f"{title}.", said))


def without_page(tunnel: Tunnel) -> Notice:
    """The answer to a click on the page of a tunnel that carries no port of the web."""
    text = tr(
        "Its tunnel is open, but neither port 80 nor port 443 is permitted. A browser finds no page there."
    )
    return Notice(tr("{name} has no web page", name=make_readable(tunnel.fqdn)), text)


def window_closed() -> Notice:
    """The notice of the first closed window on a desktop without a tray."""
    text = tr(
        "Notifications continue. Start Culvert again to see its window. To quit, press Ctrl+Q in the window, or use its "
        "page “About”."
    )
    return Notice(tr("Culvert keeps running"), text)


def recovery_codes(left: int) -> Notice:
    """The notice of a used recovery code. `left`: the number of codes left."""
    if left == 0:
        text = tr("Ask your administrator for a new authenticator.")
        return Notice(tr("That was the last recovery code"), text, warning=True)
    text = tr("Each works once, as a code. A new authenticator from your administrator brings new ones.")
    return Notice(plural("%n recovery code is left", "%n recovery codes are left", left), text)


def _meet(before: Repeated | None, cause: Refused, at: float) -> tuple[Repeated, bool]:
    """The refusal's new state, and whether it gives a notice. `at`: Unix seconds."""
    if before is None:
        return Repeated(cause, at), True
    if at - before.at < before.quiet:
        return replace(before, at=max(at, before.at)), False
    return Repeated(cause, at, before.quiet * GROWTH), True


def _cause(error: CulvertError) -> Refused:
    fields = (f"{name} {value}" for name, value in sorted(error.fields.items()) if not _is_number(value))
    return Refused((error.reason.name, *fields))


def _is_number(value: object) -> bool:
    """Whether it is a number, also with units of time: '5 h 12 min'."""
    return all(part.replace(".", "", 1).isdigit() or part in ("d", "h", "min") for part in str(value).split())


def _has_own_notice(error: CulvertError) -> bool:
    return error.reason in (Reason.CODE_NEEDED, Reason.CODE_EXPIRED, Reason.CERTIFICATE_EXPIRED)


def _code(status: Status, now: float) -> str:
    if _find_expiry(status) is not None:
        return "expired"
    if code_needed(status, now):
        return "needed"
    if not code_asked_for(status, now):
        return "valid"
    return "last call" if code_ends_now(status, now) else "ending"


def _ask_for_code(status: Status, organisation: str, now: float) -> Notice:
    text = tr("Type the six digits that your authenticator shows.")
    command, kind = EnterCode(organisation), NoticeKind.CODE
    if (expired := _find_expiry(status)) is not None:
        title = with_organisation(expired.message, organisation)
        cause = _cause(expired)
        return Notice(title, expired.remedy, warning=True, command=command, kind=kind, cause=cause)
    if code_needed(status, now):
        title = with_organisation(tr("A code is needed"), organisation)
        cause = CodeWanted(organisation, "needed")
        return Notice(title, text, warning=True, command=command, kind=kind, cause=cause)
    end = next_code_end(status, now)
    title = with_organisation(end.text(now), organisation)
    state = _code(status, now)
    if state == "last call" and status.tunnels and not end.fqdn:
        text = tr("Open tunnels close then. Type the six digits that your authenticator shows.")
    cause, kind = CodeWanted(organisation, state), NoticeKind.CODE_ENDS
    return Notice(title, text, warning=state == "last call", command=command, kind=kind, cause=cause)


def _find_expiry(status: Status) -> CulvertError | None:
    """The error if a code is needed because the certificate has expired."""
    if status.state != local_pb2.STATE_NEEDS_CODE or not status.HasField("last_error"):
        return None
    error = CulvertError.from_proto(status.last_error)
    return error if error.reason is Reason.CERTIFICATE_EXPIRED else None


def _ask_about_claims(status: Status, organisation: str) -> Notice:
    title = with_organisation(tr("Public networks wait for your answer"), organisation)
    return Notice(
        title,
        ", ".join(status.awaiting_prefixes),
        warning=True,
        command=AnswerClaims(organisation),
        cause=ClaimsWait(organisation, tuple(status.awaiting_prefixes)),
    )
