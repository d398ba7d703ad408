"""What the person is told without asking: pure, from one view to the next.

A tunnel is announced the first time that its resource comes up, then never again. A refusal is told once until it
changes or is got past. What was so before the tray started is not news, except that a code is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from culvert_proto import CulvertError, Reason, local_pb2

from culvert_tray.commands import Command, EnterCode
from culvert_tray.preferences import NoticeKind
from culvert_tray.translation import plural, tr
from culvert_tray.view import Down, Status, View, code_ends_soon, code_needed, duration, is_up


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
    """`refusal` is the text last told; `code` the state of the code that was last told."""

    started: bool = False
    announced: frozenset[str] = frozenset()
    gateways: frozenset[tuple[str, str]] = frozenset()
    refusal: str = ""
    code: str = "valid"


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
    code = _code(view, now)
    if code != memory.code and code != "valid":
        notices.append(_ask_for_code(view, now))
    error = CulvertError.from_proto(view.last_error) if view.HasField("last_error") else None
    refusal = str(error) if error is not None else ""
    if error is not None and memory.started and refusal != memory.refusal and not _has_own_notice(error):
        notices.append(replace(refused(error), kind=NoticeKind.DENIED))
    gateways = frozenset(up.items()) | {
        it for it in memory.gateways if it[0] in {t.fqdn for t in view.tunnels} - up.keys()
    }
    return Memory(True, memory.announced | up.keys(), gateways, refusal, code), tuple(notices)


def told(memory: Memory, error: CulvertError) -> Memory:
    """The person has been shown this refusal as the answer to a click: the status will repeat it."""
    return replace(memory, refusal=str(error))


def refused(error: CulvertError) -> Notice:
    return Notice(error.message, error.remedy, warning=True)


def recovery_codes(left: int) -> Notice:
    """One was used up: `left` is how many there are still."""
    if left == 0:
        text = tr("Ask your administrator for a new authenticator.")
        return Notice(tr("That was the last recovery code"), text, warning=True)
    text = tr("Each works once, as a code. A new authenticator from your administrator brings new ones.")
    return Notice(plural("%n recovery code is left", "%n recovery codes are left", left), text)


def _has_own_notice(error: CulvertError) -> bool:
    return error.reason is Reason.CODE_NEEDED


def _code(status: Status, now: float) -> str:
    if code_needed(status, now):
        return "needed"
    return "ending" if code_ends_soon(status, now) else "valid"


def _ask_for_code(status: Status, now: float) -> Notice:
    text = tr("Type the six digits that your authenticator shows.")
    if code_needed(status, now):
        return Notice(tr("A code is needed"), text, warning=True, command=EnterCode(), kind=NoticeKind.CODE)
    left = duration(status.code_valid_until - now)
    return Notice(
        tr("Your code ends in {duration}", duration=left), text, command=EnterCode(), kind=NoticeKind.CODE
    )
