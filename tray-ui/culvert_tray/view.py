"""The view: the daemon's status, or the cause of its absence; the input of the tray's pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from culvert_proto import CulvertError, local_pb2
from culvert_proto.dns_name import make_readable
from culvert_proto.screens.organisations import code_is_unknown, is_enrolled, split_status
from culvert_proto.screens.units import clock

from culvert_tray.translation import tr

State = local_pb2.State
Status = local_pb2.Status
Tunnel = local_pb2.Tunnel

# Our tunables, in seconds before the end of a code: when the person is asked for the next one, and when that is no longer
# postponed. The end itself is the controller's, and nothing here moves it.
EXPIRY_AHEAD = 30 * 60
LAST_CALL = 5 * 60

# Our tunable: a refusal is the heading for this long; its reason stays to be read below.
_DENIAL_SECONDS = 60.0
_OPENING = (local_pb2.STATE_READY, local_pb2.STATE_CONNECTED)

_CARRYING = (local_pb2.TUNNEL_STATE_UP, local_pb2.TUNNEL_STATE_REKEYING)


@dataclass(frozen=True, slots=True)
class Down:
    """The daemon does not answer. `stopped`: starting it helps."""

    message: str
    remedy: str
    stopped: bool = False


View = Status | Down


def starting() -> Down:
    return Down(tr("Asking the Culvert daemon…"), "")


def not_running() -> Down:
    return Down(
        tr("Culvert is not running"),
        tr("No tunnel opens until it runs. What tunnels protect stays blocked."),
        stopped=True,
    )


def status_of(view: View) -> Status:
    """The daemon's status; an empty one without the daemon."""
    return Status() if isinstance(view, Down) else view


def is_up(tunnel: Tunnel) -> bool:
    """Whether packets flow through the tunnel."""
    return tunnel.state in _CARRYING


def gateways_of(status: Status, state: local_pb2.TunnelState.ValueType) -> tuple[str, ...]:
    """The gateways of the tunnels in this state."""
    return tuple(sorted({it.gateway for it in status.tunnels if it.state == state}))


def find_denial(view: View, now: float) -> CulvertError | None:
    """The refusal that the person has just met, in an organisation that opens tunnels. `now`: Unix seconds."""
    if isinstance(view, Down):
        return None
    for _of, part in split_status(view):
        is_new = part.last_error_at == 0 or now - part.last_error_at < _DENIAL_SECONDS
        if part.state in _OPENING and part.HasField("last_error") and is_new:
            return CulvertError.from_proto(part.last_error)
    return None


def is_redacted(status: Status) -> bool:
    """Whether another user enrolled this computer, so that the daemon hides the names of people and resources."""
    return is_enrolled(status) and not status.user


def list_public(view: View, organisation: str, answered: bool | None = None) -> tuple[str, ...]:
    """The public networks with this answer of the person; None: those that await one."""
    for of, part in split_status(status_of(view)):
        if of == organisation:
            answers = {
                True: part.agreed_prefixes,
                False: part.declined_prefixes,
                None: part.awaiting_prefixes,
            }
            return tuple(answers[answered])
    return ()


def with_organisation(text: str, organisation: str) -> str:
    """The text with the organisation's name, if there are several."""
    return f"{text} · {organisation}" if organisation else text


def code_needed(status: Status, now: float) -> bool:
    """Whether no tunnel can be opened until this person enters a code. `now`: Unix seconds."""
    return code_ends_soon(status, now) and (
        status.state == local_pb2.STATE_NEEDS_CODE or status.code_valid_until <= now
    )


def code_asked_for(status: Status, now: float) -> bool:
    """Whether the person is asked for a code now: not during a call, until the last minutes."""
    return code_ends_soon(status, now) and (not status.code_postponed or code_ends_now(status, now))


def code_ends_now(status: Status, now: float) -> bool:
    end = next_code_end(status, now)
    return code_needed(status, now) or end.at - now <= min(LAST_CALL, end.ahead / 3)


@dataclass(frozen=True, slots=True)
class CodeEnd:
    """`at`: Unix seconds. `ahead`: seconds before it at which the person is asked. `fqdn`: of the tunnel that a policy
    closes then; empty where the code itself ends."""

    at: float
    ahead: float
    fqdn: str = ""

    def text(self, now: float) -> str:
        """With a time of day, so that it does not change each minute."""
        time = clock(self.at, now)
        if self.fqdn:
            return tr("{name} closes at {time} without a new code", name=make_readable(self.fqdn), time=time)
        return tr("Your code ends at {time}", time=time)


def next_code_end(status: Status, now: float) -> CodeEnd:
    """The end about which the person is asked first."""
    aged = (
        CodeEnd(it.code_until, min(EXPIRY_AHEAD, it.code_seconds / 4), it.fqdn)
        for it in status.tunnels
        if it.code_until > now
    )
    return min(
        (CodeEnd(status.code_valid_until, EXPIRY_AHEAD), *aged), key=lambda it: (it.at - it.ahead, it.fqdn)
    )


def code_ends_soon(status: Status, now: float) -> bool:
    if status.state == local_pb2.STATE_PAUSED or code_is_unknown(status):
        return False
    end = next_code_end(status, now)
    ends_soon = status.state == local_pb2.STATE_NEEDS_CODE or end.at - now <= end.ahead
    return is_enrolled(status) and not is_redacted(status) and ends_soon
