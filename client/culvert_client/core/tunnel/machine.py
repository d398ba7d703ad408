"""The life of one tunnel: opened by a demand, renewed before its limits, closed when idle (RFC 9061 appendix D.2).

            Demand            TunnelOpened              Installed
   Closed ─────────► Opening ─────────────► Installing ──────────► Up ◄────────────────────┐
     ▲                                          ▲                  │ SoftLimit, Tick       │ Tick, drain over:
     │ CloseDone                                │                  ▼                       │ old pair removed
   Closing ◄── CloseRequested, idle,            │              Renewing ◄─┐ Failed:        │
               hard limit                       │                  │ ─────┘ backoff        │
                              TunnelOpened,     │                  ▼ Renewed               │
                              through the next  │              Switching                   │
                              gateway           │                  ▼ Installed             │
                                                │              Activating ─────────► Draining
                                             Moving ◄── GatewayMoved         Activated

`TABLE` has all transitions; the diagram in client/README.md is drawn from it.

The gateway decrypts with the new pair from its answer to RenewSa on, and encrypts with it only after ActivateSa. So this
side installs the whole new pair in one step and keeps the old inbound SA until the drain is over: no packet is lost.
A tunnel moves when its gateway goes or hears nothing: its name is opened again, while the present tunnel stays.

Every command with an answer has a call number, which the answer repeats. Answers to calls that the machine no longer
waits for are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from culvert_proto import CulvertError, Reason
from culvert_proto.backoff import Backoff

from culvert_client.core.faults import AWAY
from culvert_client.core.grant import Sa, Sas, TunnelId, Usage
from culvert_client.core.tunnel.events import (
    Activated,
    ActivateSa,
    ClosedByController,
    CloseDone,
    CloseRequested,
    CloseTunnel,
    Command,
    ControllerBack,
    Counted,
    Demand,
    Demander,
    Event,
    Failed,
    GatewayMoved,
    Install,
    Installed,
    OpenTunnel,
    Refuse,
    Release,
    Renewed,
    RenewSa,
    SoftLimit,
    Tick,
    TunnelOpened,
)  # fmt: skip
from culvert_client.core.tunnel.states import (
    Activating,
    Carried,
    Closed,
    Closing,
    Draining,
    Installing,
    Keyed,
    Moving,
    Opening,
    Renewing,
    State,
    Switching,
    Up,
)  # fmt: skip

# Our tunable, in seconds.
RETRY = Backoff(0.5, 30.0)

# Faults after which the same call may succeed later.
_TRANSIENT = AWAY | frozenset(
    {
        Reason.CONTROLLER_INVALID,
        Reason.DATABASE_DOWN,
        Reason.DATABASE_BUSY,
        Reason.TIMEOUT,
        Reason.RATE_LIMITED,
        Reason.INTERNAL,
    }
)
# Refusals after which the controller no longer has the tunnel.
_GONE = frozenset({Reason.TUNNEL_UNKNOWN, Reason.SA_LOST})

Next = tuple[State, list[Command]]
Calls = Callable[[], int]
"""Numbers a call."""


class IllegalEventError(Exception):
    """The table has no transition for the event in this state: a fault of the caller, never of a peer."""


class Machine:
    """A tunnel. `calls`: gives call numbers; shared by all machines, so that each answer has one receiver."""

    def __init__(self, calls: Iterator[int], state: State | None = None) -> None:
        self.state: State = state if state is not None else Closed()
        self._calls = calls

    def handle(self, event: Event, now: float) -> list[Command]:
        """Handle an event. Late answers are dropped. Raises IllegalEventError."""
        awaited = getattr(self.state, "call", None)
        if (
            isinstance(event, TunnelOpened | Installed | Renewed | Activated | CloseDone | Failed)
            and event.call != awaited
        ):
            return []
        transition = _TRANSITIONS.get((type(self.state), type(event)))
        if transition is None:
            raise IllegalEventError(f"{type(event).__name__} in {type(self.state).__name__}")
        self.state, commands = transition.handle(self.state, event, now, self._calls.__next__)
        return commands

    @property
    def carried(self) -> Carried | None:
        """The tunnel with its keys, from its installation to its end."""
        return self.state.carried if isinstance(self.state, Keyed) else None

    @property
    def is_up(self) -> bool:
        """Whether packets can flow."""
        return isinstance(self.state, UP)

    def desired(self) -> Sas | None:
        """The desired state of the datapath for this tunnel."""
        match self.state:
            case Installing(carried=it) | Up(carried=it) | Renewing(carried=it):
                return Sas(it.tunnel, (it.pair.inbound,), it.pair.outbound)
            case Switching(carried=it, next=new):
                return Sas(it.tunnel, (it.pair.inbound, new.inbound), new.outbound)
            case Activating(carried=it, old=old) | Draining(carried=it, old=old):
                return Sas(it.tunnel, (old, it.pair.inbound), it.pair.outbound)
            case Moving(carried=it, old=old):
                return Sas(it.tunnel, (old, it.pair.inbound) if old else (it.pair.inbound,), it.pair.outbound)
            case _:
                return None

    def deadline(self) -> float | None:
        """When the next Tick is due."""
        times: list[float | None] = []
        match self.state:
            case Up(carried=it):
                times = [it.soft_at(), it.hard_at(), it.idle_at()]
            case (
                Renewing(carried=it, retry_at=at)
                | Activating(carried=it, retry_at=at)
                | Draining(carried=it, until=at)
            ):
                times = [at, it.hard_at(), it.idle_at()]
            case Moving(carried=it, retry_at=at) if at is not None:
                times = [at, it.hard_at(), it.idle_at()]
            case Closing(retry_at=at):
                times = [at]
            case _:
                pass
        return min((at for at in times if at is not None), default=None)


# ── transitions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _stay(state: State, _event: Event, _now: float, _calls: Calls) -> Next:
    return state, []


def _renew(carried: Carried, attempt: int, calls: Calls) -> Next:
    call = calls()
    command = RenewSa(call, carried.tunnel.tunnel_id, carried.pair.generation)
    return Renewing(replace(carried, expiring=False), call, attempt), [command]


def _activate(carried: Carried, old: Sa, attempt: int, calls: Calls) -> Next:
    call = calls()
    command = ActivateSa(call, carried.tunnel.tunnel_id, carried.pair.generation)
    return Activating(carried, old, call, attempt), [command]


def _demand_when_closed(_state: Closed, event: Demand, _now: float, calls: Calls) -> Next:
    return _ask_to_open(frozenset({event.demander}), calls)


def _demand_waits(state: Opening | Installing | Moving, event: Demand, _now: float, _calls: Calls) -> Next:
    return replace(state, waiting=state.waiting | {event.demander}), []


def _demand_when_closing(state: Closing, event: Demand, _now: float, calls: Calls) -> Next:
    state = replace(state, waiting=state.waiting | {event.demander})
    return (state, []) if state.call is not None else _close_now(state, calls)


def _demand_met(state: Keyed, event: Demand, now: float, _calls: Calls) -> Next:
    # Count the demand as use: its packets may go through another name's tunnel to the same address.
    return replace(state, carried=replace(state.carried, active_at=now)), [
        Release(frozenset({event.demander}))
    ]


def _on_opened(state: Opening, event: TunnelOpened, now: float, calls: Calls) -> Next:
    if (loss := _loss(state, event)) is not None:
        return Closed(), _refuse(state.waiting, loss.error)
    if state.cancelled is not None:
        return _ask_to_close(event.tunnel.tunnel_id, state.cancelled, calls, state.waiting)
    call = calls()
    carried = Carried(event.tunnel, event.pair, since=now, pair_since=now, active_at=now)
    return Installing(call, carried, state.waiting), [Install(call)]


def _open_failed(state: Opening, event: Failed, _now: float, calls: Calls) -> Next:
    refused = _refuse(state.waiting, event.error)
    if state.moved is None or state.cancelled is None:
        return Closed(), refused
    closing, commands = _ask_to_close(state.moved, state.cancelled, calls)
    return closing, [*commands, *refused]


def _cancel(state: Opening, event: CloseRequested, _now: float, _calls: Calls) -> Next:
    cancelled = replace(state, waiting=frozenset(), cancelled=event.reason)
    return cancelled, _refuse(state.waiting, CulvertError(event.reason))


def _on_early_loss(state: Opening | Moving, event: ClosedByController, _now: float, _calls: Calls) -> Next:
    return replace(state, lost=(*state.lost, event)), []


def _on_installed(state: Installing, _event: Installed, now: float, _calls: Calls) -> Next:
    commands: list[Command] = [Release(state.waiting)] if state.waiting else []
    return Up(replace(state.carried, since=now, active_at=now)), commands


def _install_failed(state: Installing, event: Failed, _now: float, calls: Calls) -> Next:
    closing, commands = _ask_to_close(state.carried.tunnel.tunnel_id, event.error.reason, calls)
    return closing, [*commands, *_refuse(state.waiting, event.error)]


def _close_keyed(state: Keyed, event: CloseRequested, _now: float, calls: Calls) -> Next:
    closing, commands = _ask_to_close(state.carried.tunnel.tunnel_id, event.reason, calls)
    waiting = state.waiting if isinstance(state, Installing) else frozenset[Demander]()
    return closing, [*commands, *_refuse(waiting, CulvertError(event.reason))]


def _on_loss(state: Keyed | Closing, event: ClosedByController, now: float, calls: Calls) -> Next:
    if isinstance(state, Closing):
        # With newer keys the tunnel still exists, and must be closed.
        over = event.tunnel_id == state.tunnel_id and not event.last_generation
        return _close_done(state, event, now, calls) if over else (state, [])
    if not event.ends(state.carried.tunnel.tunnel_id, state.carried.pair.generation):
        return state, []
    return Closed(), _refuse(state.waiting, event.error) if isinstance(state, Installing) else []


def _on_counted(state: Keyed, event: Counted, now: float, calls: Calls) -> Next:
    it = state.carried
    state = replace(state, carried=it.take_counters(event.usage, now))
    if state.carried.has_reached_hard_limit():
        return _ask_to_close(it.tunnel.tunnel_id, Reason.CLOSED_IDLE, calls)
    return state, []


def _soft_limit_in_use(state: Up, event: SoftLimit, _now: float, calls: Calls) -> Next:
    return (
        _renew(state.carried, 0, calls) if event.generation == state.carried.pair.generation else (state, [])
    )


def _soft_limit_while_draining(
    state: Activating | Draining, event: SoftLimit, _now: float, _calls: Calls
) -> Next:
    if not state.carried.is_meant_by(event):
        return state, []
    return replace(state, carried=replace(state.carried, expiring=True)), []


def _tick(state: Keyed, event: Tick | ControllerBack, now: float, calls: Calls) -> Next:
    it = state.carried
    if _due(it.hard_at(), now) or _due(it.idle_at(), now):
        return _ask_to_close(it.tunnel.tunnel_id, Reason.CLOSED_IDLE, calls)
    back = isinstance(event, ControllerBack)
    match state:
        case Up() if _due(it.soft_at(), now):
            return _renew(it, 0, calls)
        case Renewing(retry_at=at) if at is not None and (back or at <= now):
            return _renew(it, state.attempt + 1, calls)
        case Activating(retry_at=at) if at is not None and (back or at <= now):
            return _activate(it, state.old, state.attempt + 1, calls)
        case Draining(until=until) if until <= now:
            return _renew(it, 0, calls) if it.expiring else (Up(it), [])
        case _:
            return state, []


def _on_renewed(state: Renewing, event: Renewed, now: float, calls: Calls) -> Next:
    if event.pair.generation <= state.carried.pair.generation:
        return replace(state, call=None, retry_at=now + RETRY.after(state.attempt + 1)), []
    call = calls()
    return Switching(call, state.carried, event.pair, state.attempt), [Install(call)]


def _on_switched(state: Switching, _event: Installed, now: float, calls: Calls) -> Next:
    old = state.carried.pair.inbound
    carried = replace(state.carried, pair=state.next, pair_since=now, base=state.carried.usage)
    return _activate(carried, old, 0, calls)


def _switch_failed(state: Switching, _event: Failed, now: float, _calls: Calls) -> Next:
    return Renewing(state.carried, None, state.attempt, now + RETRY.after(state.attempt + 1)), []


def _call_failed(state: Renewing | Activating, event: Failed, now: float, calls: Calls) -> Next:
    if event.error.reason in _GONE:
        return Closed(), []
    if event.error.reason is Reason.GENERATION_STALE:
        return _ask_to_close(state.carried.tunnel.tunnel_id, Reason.CLOSED_IDLE, calls)
    return replace(state, call=None, retry_at=now + RETRY.after(state.attempt + 1)), []


def _on_activated(state: Activating, _event: Activated, now: float, _calls: Calls) -> Next:
    return Draining(state.carried, state.old, now + state.carried.pair.drain), []


def _close_without_reopening(state: Closing, event: CloseRequested, _now: float, _calls: Calls) -> Next:
    return replace(state, waiting=frozenset()), _refuse(state.waiting, CulvertError(event.reason))


def _close_done(state: Closing, _event: Event, _now: float, calls: Calls) -> Next:
    return _ask_to_open(state.waiting, calls) if state.waiting else (Closed(), [])


def _close_failed(state: Closing, event: Failed, now: float, calls: Calls) -> Next:
    if event.error.reason not in _TRANSIENT:
        return _close_done(state, event, now, calls)
    later = replace(state, waiting=frozenset(), call=None, retry_at=now + RETRY.after(state.attempt + 1))
    return later, _refuse(state.waiting, event.error)


def _close_again(state: Closing, event: Tick | ControllerBack, now: float, calls: Calls) -> Next:
    if state.retry_at is None or not (isinstance(event, ControllerBack) or state.retry_at <= now):
        return state, []
    return _close_now(state, calls)


def _close_now(state: Closing, calls: Calls) -> Next:
    call = calls()
    again = replace(state, call=call, attempt=state.attempt + 1, retry_at=None)
    return again, [CloseTunnel(call, state.tunnel_id, state.reason)]


# A move: OpenTunnel is called again, and the present tunnel stays until the answer is installed.


def _move(
    state: Up | Renewing | Switching | Activating | Draining, event: GatewayMoved, _now: float, calls: Calls
) -> Next:
    if event.tunnel_id != state.carried.tunnel.tunnel_id:
        return state, []
    call = calls()
    # Drop a pair that is not activated: the gateway does not encrypt with it yet.
    old = state.old if isinstance(state, Activating | Draining) else None
    return Moving(state.carried, old, frozenset(), call, 0), [OpenTunnel(call)]


def _move_opened(state: Moving, event: TunnelOpened, now: float, calls: Calls) -> Next:
    if (loss := _loss(state, event)) is not None:
        return Closed(), _refuse(state.waiting, loss.error)
    # The datapath keeps the counters of a tunnel that only gets new keys.
    same = event.tunnel.tunnel_id == state.carried.tunnel.tunnel_id
    usage = state.carried.usage if same else Usage()
    carried = Carried(event.tunnel, event.pair, now, now, now, usage, usage)
    call = calls()
    return Installing(call, carried, state.waiting), [Install(call)]


def _move_failed(state: Moving, event: Failed, now: float, _calls: Calls) -> Next:
    if event.error.reason in _TRANSIENT:
        return replace(state, call=None, retry_at=now + RETRY.after(state.attempt + 1)), []
    return Up(state.carried), [Release(state.waiting)] if state.waiting else []


def _move_tick(state: Moving, event: Tick | ControllerBack, now: float, calls: Calls) -> Next:
    it = state.carried
    if state.retry_at is None:
        return state, []
    if _due(it.hard_at(), now) or _due(it.idle_at(), now):
        return _move_close(state, CloseRequested(Reason.CLOSED_IDLE), now, calls)
    if isinstance(event, Tick) and state.retry_at > now:
        return state, []
    call = calls()
    again = replace(state, call=call, attempt=state.attempt + 1, retry_at=None, lost=())
    return again, [OpenTunnel(call)]


def _move_close(state: Moving, event: CloseRequested, _now: float, calls: Calls) -> Next:
    refused = _refuse(state.waiting, CulvertError(event.reason))
    if state.call is not None:
        # The answer tells the tunnel to close.
        moved = state.carried.tunnel.tunnel_id
        return Opening(state.call, frozenset(), event.reason, moved, state.lost), refused
    closing, commands = _ask_to_close(state.carried.tunnel.tunnel_id, event.reason, calls)
    return closing, [*commands, *refused]


def _move_lost(state: Moving, event: ClosedByController, now: float, calls: Calls) -> Next:
    ends = event.ends(state.carried.tunnel.tunnel_id, state.carried.pair.generation)
    if state.call is None:
        return (Closed(), _refuse(state.waiting, event.error)) if ends else (state, [])
    # The event may be about the tunnel in the coming answer.
    if ends:
        return Opening(state.call, state.waiting, lost=(*state.lost, event)), []
    return _on_early_loss(state, event, now, calls)


def _move_counted(state: Moving, event: Counted, now: float, _calls: Calls) -> Next:
    return replace(state, carried=state.carried.take_counters(event.usage, now)), []


# Parts of several transitions.


def _loss(state: Opening | Moving, event: TunnelOpened) -> ClosedByController | None:
    """The controller's earlier word that the opened tunnel is closed."""
    ended = (it for it in state.lost if it.ends(event.tunnel.tunnel_id, event.pair.generation))
    return next(ended, None)


def _due(at: float | None, now: float) -> bool:
    return at is not None and at <= now


def _ask_to_open(waiting: frozenset[Demander], calls: Calls) -> Next:
    call = calls()
    return Opening(call, waiting), [OpenTunnel(call)]


def _ask_to_close(
    tunnel_id: TunnelId, reason: Reason, calls: Calls, waiting: frozenset[Demander] = frozenset()
) -> Next:
    call = calls()
    return Closing(tunnel_id, reason, waiting, call, 0), [CloseTunnel(call, tunnel_id, reason)]


def _refuse(waiting: frozenset[Demander], error: CulvertError) -> list[Command]:
    return [Refuse(waiting, error)] if waiting else []


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────────────────

Handler = Callable[[Any, Any, float, Calls], Next]


@dataclass(frozen=True, slots=True)
class Transition:
    """In each of `states`, each of `events` is handled by `handle`, and leads to one of `leads_to` or to the same state."""

    states: tuple[type[State], ...]
    events: tuple[type[Event], ...]
    handle: Handler
    leads_to: tuple[type[State], ...] = ()


IN_USE = (Up, Renewing, Switching, Activating, Draining)
"""Packets flow through the gateway that granted the tunnel."""
UP = (*IN_USE, Moving)
"""Packets flow, through the gateway before while the tunnel moves."""
_WITHOUT_USE = (Closed, Opening, Installing, Closing)

TABLE = (
    Transition((Closed,), (Demand,), _demand_when_closed, (Opening,)),
    Transition((Opening, Installing, Moving), (Demand,), _demand_waits),
    Transition(IN_USE, (Demand,), _demand_met),
    Transition((Closing,), (Demand,), _demand_when_closing),

    Transition((Opening,), (TunnelOpened,), _on_opened, (Installing, Closing, Closed)),
    Transition((Opening,), (Failed,), _open_failed, (Closing, Closed)),
    Transition((Opening,), (CloseRequested,), _cancel),
    Transition((Opening,), (ClosedByController,), _on_early_loss),
    Transition((Installing,), (Installed,), _on_installed, (Up,)),
    Transition((Installing,), (Failed,), _install_failed, (Closing,)),

    Transition((Up,), (SoftLimit,), _soft_limit_in_use, (Renewing,)),
    Transition((Up,), (Tick, ControllerBack), _tick, (Renewing, Closing)),
    Transition((Renewing,), (Renewed,), _on_renewed, (Switching,)),
    Transition((Renewing,), (Failed,), _call_failed, (Closing, Closed)),
    Transition((Switching,), (Installed,), _on_switched, (Activating,)),
    Transition((Switching,), (Failed,), _switch_failed, (Renewing,)),
    Transition((Activating,), (Activated,), _on_activated, (Draining,)),
    Transition((Activating,), (Failed,), _call_failed, (Closing, Closed)),
    Transition((Activating, Draining), (SoftLimit,), _soft_limit_while_draining),
    Transition((Renewing, Switching, Activating), (Tick, ControllerBack), _tick, (Closing,)),
    Transition((Draining,), (Tick, ControllerBack), _tick, (Up, Renewing, Closing)),
    Transition(IN_USE, (Counted,), _on_counted, (Closing,)),

    Transition(IN_USE, (GatewayMoved,), _move, (Moving,)),
    Transition((Moving,), (TunnelOpened,), _move_opened, (Installing, Closed)),
    Transition((Moving,), (Failed,), _move_failed, (Up,)),
    Transition((Moving,), (Tick, ControllerBack), _move_tick, (Closing,)),
    Transition((Moving,), (CloseRequested,), _move_close, (Opening, Closing)),
    Transition((Moving,), (ClosedByController,), _move_lost, (Opening, Closed)),
    Transition((Moving,), (Counted,), _move_counted),

    Transition((Installing, *IN_USE), (CloseRequested,), _close_keyed, (Closing,)),
    Transition((Installing, *IN_USE), (ClosedByController,), _on_loss, (Closed,)),
    Transition((Closing,), (CloseRequested,), _close_without_reopening),
    Transition((Closing,), (CloseDone,), _close_done, (Opening, Closed)),
    Transition((Closing,), (Failed,), _close_failed, (Opening, Closed)),
    Transition((Closing,), (ClosedByController,), _on_loss, (Opening, Closed)),
    Transition((Closing,), (Tick, ControllerBack), _close_again),

    # Events that may arrive in any state, and have no effect here.
    Transition((Closed,), (CloseRequested, ClosedByController), _stay),
    Transition((Closed, Opening, Installing), (Tick, ControllerBack), _stay),
    Transition((Renewing, Switching, Moving, *_WITHOUT_USE), (SoftLimit,), _stay),
    Transition((Moving, *_WITHOUT_USE), (GatewayMoved,), _stay),
    Transition(_WITHOUT_USE, (Counted,), _stay),
)  # fmt: skip

_TRANSITIONS = {(state, event): row for row in TABLE for state in row.states for event in row.events}
