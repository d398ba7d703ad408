"""What the person is told without asking: pure, from one view to the next.

A tunnel is announced the first time that its resource comes up, then never again. A refusal is told once until it
changes or is got past. What was so before the tray started is not news, except that a code or an answer is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from culvert_proto import CulvertError, Reason, local_pb2
from culvert_proto.organisations import parts

from culvert_tray.commands import AnswerClaims, Command, EnterCode
from culvert_tray.preferences import NoticeKind
from culvert_tray.translation import plural, tr
from culvert_tray.view import Down, Status, View, code_ends_soon, code_needed, duration, is_up, named


@dataclass(frozen=True, slots=True)
class Notice:
    """`command` is what a click on it does; `kind` is None for the answer to a click, which is always told."""

    title: str
    text: str
    warning: bool = False
    command: Command | None = None
    kind: NoticeKind | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """`refusals` are the texts last told; `codes` what was last told of each organisation's code that is not valid;
    `claims` the organisations and public networks that were last told as waiting."""

    started: bool = False
    announced: frozenset[str] = frozenset()
    gateways: frozenset[tuple[str, str]] = frozenset()
    refusals: frozenset[str] = frozenset()
    codes: frozenset[tuple[str, str]] = frozenset()
    claims: frozenset[tuple[str, str]] = frozenset()


def observe(memory: Memory, view: View, now: float) -> tuple[Memory, tuple[Notice, ...]]:
    """`now` in Unix seconds."""
    if isinstance(view, Down) or view.state == local_pb2.STATE_UNSPECIFIED:
        return memory, ()
    up = {tunnel.fqdn: tunnel.gateway for tunnel in view.tunnels if is_up(tunnel)}
    notices = [
        Notice(
            tr("{name} is open", name=name),
            tr("Through {gateway}, end to end encrypted to the gateway.", gateway=up[name]),
            kind=NoticeKind.OPENED,
        )
        for name in sorted(up.keys() - memory.announced)
        if memory.started
    ]
    notices += [
        Notice(
            tr("{name} goes through {gateway} now", name=name, gateway=up[name]),
            tr("{gateway} went out of service.", gateway=before),
            kind=NoticeKind.FAILED_OVER,
        )
        for name, before in sorted(memory.gateways)
        if up.get(name, before) != before
    ]
    codes = {(of, state) for of, part in parts(view) if (state := _code(part, now)) != "valid"}
    wanted = {of for of, _state in codes - memory.codes}
    notices += [_ask_for_code(part, of, now) for of, part in parts(view) if of in wanted]
    claims = {(of, prefix) for of, part in parts(view) for prefix in part.awaiting_prefixes}
    asking = {of for of, _prefix in claims - memory.claims}
    notices += [_ask_about_claims(part, of) for of, part in parts(view) if of in asking]
    errors = {
        str(error): (of, error)
        for of, part in parts(view)
        if part.HasField("last_error") and (error := CulvertError.from_proto(part.last_error))
    }
    for text, (of, error) in errors.items():
        if memory.started and text not in memory.refusals and not _has_own_notice(error):
            notices.append(replace(refused(error, of), kind=NoticeKind.DENIED))
    gateways = frozenset(up.items()) | {
        it for it in memory.gateways if it[0] in {t.fqdn for t in view.tunnels} - up.keys()
    }
    told_now = Memory(
        True, memory.announced | up.keys(), gateways, frozenset(errors), frozenset(codes), frozenset(claims)
    )
    return told_now, tuple(notices)


def told(memory: Memory, error: CulvertError) -> Memory:
    """The person has been shown this refusal as the answer to a click: the status will repeat it."""
    return replace(memory, refusals=memory.refusals | {str(error)})


def refused(error: CulvertError, organisation: str = "") -> Notice:
    return Notice(named(error.message, organisation), error.remedy, warning=True)


def recovery_codes(left: int) -> Notice:
    """One was used up: `left` is how many there are still."""
    if left == 0:
        text = tr("Ask your administrator for a new authenticator.")
        return Notice(tr("That was the last recovery code"), text, warning=True)
    text = tr("Each works once, as a code. A new authenticator from your administrator brings new ones.")
    return Notice(plural("%n recovery code is left", "%n recovery codes are left", left), text)


def _has_own_notice(error: CulvertError) -> bool:
    return error.reason in (Reason.CODE_NEEDED, Reason.CERTIFICATE_EXPIRED)


def _code(status: Status, now: float) -> str:
    if _expired(status) is not None:
        return "expired"
    if code_needed(status, now):
        return "needed"
    return "ending" if code_ends_soon(status, now) else "valid"


def _ask_for_code(status: Status, organisation: str, now: float) -> Notice:
    text = tr("Type the six digits that your authenticator shows.")
    command, kind = EnterCode(organisation), NoticeKind.CODE
    if (expired := _expired(status)) is not None:
        title = named(expired.message, organisation)
        return Notice(title, expired.remedy, warning=True, command=command, kind=kind)
    if code_needed(status, now):
        title = named(tr("A code is needed"), organisation)
        return Notice(title, text, warning=True, command=command, kind=kind)
    left = duration(status.code_valid_until - now)
    title = named(tr("Your code ends in {duration}", duration=left), organisation)
    return Notice(title, text, command=command, kind=kind)


def _expired(status: Status) -> CulvertError | None:
    """A code is needed because the certificate has expired."""
    if status.state != local_pb2.STATE_NEEDS_CODE or not status.HasField("last_error"):
        return None
    error = CulvertError.from_proto(status.last_error)
    return error if error.reason is Reason.CERTIFICATE_EXPIRED else None


def _ask_about_claims(status: Status, organisation: str) -> Notice:
    title = named(tr("Public networks wait for your answer"), organisation)
    return Notice(
        title, ", ".join(status.awaiting_prefixes), warning=True, command=AnswerClaims(organisation)
    )
