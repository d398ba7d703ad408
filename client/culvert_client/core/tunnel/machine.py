"""The life of one tunnel: opened by a demand, renewed before its limits, closed when idle (RFC 9061 appendix D.2).

            Demand            TunnelOpened              Installed
   Closed ─────────► Opening ─────────────► Installing ──────────► Up ◄────────────────────┐
     ▲                  │ Failed                │ Failed           │ soft limit           │ drain over:
     ├──────────────────┘                       │                  ▼                      │ old pair removed
     │ Closed                                   │              Renewing ◄──┐ Failed:      │
     │                                          │                  │ ───────┘ backoff     │
   Closing ◄────────────────────────────────────┘                  │ Renewed              │
     ▲  │ Failed: backoff                                          ▼                      │
     │  └──────►                                               Switching  old and new     │
     │                                                             │      inbound,        │
     │ CloseRequested, idle, hard limit                            ▼      new outbound    │
     └──────────────── Installing, Up … Draining              Activating ──────► Draining ┘
                                                                       Activated
   ClosedByController leads from every state with keys to Closed at once, GatewayMoved from Up … Draining to Moving
   (moving.py).

The gateway decrypts with the new pair since it answered RenewSa, and encrypts with it only after ActivateSa. So this side
installs both halves of the new pair in one step and keeps the old inbound SA until the drain is over: no packet is lost.

Every command that has an answer carries a call number, and the answer brings it back: an answer to a call that the machine
no longer waits for is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from culvert_proto import CulvertError, Reason

from culvert_client.core.grant import Sa, Sas
from culvert_client.core.tunnel import moving
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
    Event,
    Failed,
    GatewayMoved,
    Install,
    Installed,
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
from culvert_client.core.tunnel.transitions import (
    TRANSIENT,
    Calls,
    Handler,
    Transition,
    ask_to_close,
    ask_to_open,
    backoff,
    due,
    refuse,
)

# Refusals after which the controller holds nothing of the tunnel any more.
_GONE = frozenset({Reason.TUNNEL_UNKNOWN, Reason.SA_LOST})


class IllegalEventError(Exception):
    """The event has no meaning in the state: a fault of the caller, never of a peer."""


class Machine:
    """One tunnel. `calls` numbers the calls and is shared by all machines, so that no answer finds the wrong one."""

    def __init__(self, calls: Iterator[int], state: State | None = None) -> None:
        self.state: State = state if state is not None else Closed()
        self._calls = calls

    def handle(self, event: Event, now: float) -> list[Command]:
        """Raises IllegalEventError. Events that come too late for the state are dropped without a trace."""
        awaited = getattr(self.state, "call", None)
        if (
            isinstance(event, TunnelOpened | Installed | Renewed | Activated | CloseDone | Failed)
            and event.call != awaited
        ):
            return []
        handler = _TABLE.get((type(self.state), type(event)))
        if handler is None:
            raise IllegalEventError(f"{type(event).__name__} in {type(self.state).__name__}")
        self.state, commands = handler(self.state, event, now, self._calls.__next__)
        return commands

    @property
    def carried(self) -> Carried | None:
        """The tunnel with its keys, from its installation until it is closed."""
        return self.state.carried if isinstance(self.state, Keyed) else None

    @property
    def is_up(self) -> bool:
        """Whether packets can flow."""
        return isinstance(self.state, Up | Renewing | Switching | Activating | Draining | Moving)

    def desired(self) -> Sas | None:
        """What the datapath must hold for this tunnel."""
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
        """When Tick is due."""
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


def _stay(state: State, _event: Event, _now: float, _calls: Calls) -> Transition:
    return state, []


def _renew(carried: Carried, attempt: int, calls: Calls) -> Transition:
    call = calls()
    command = RenewSa(call, carried.tunnel.tunnel_id, carried.pair.generation)
    return Renewing(replace(carried, expiring=False), call, attempt), [command]


def _activate(carried: Carried, old: Sa, attempt: int, calls: Calls) -> Transition:
    call = calls()
    command = ActivateSa(call, carried.tunnel.tunnel_id, carried.pair.generation)
    return Activating(carried, old, call, attempt), [command]


def _demand_when_closed(_state: Closed, event: Demand, _now: float, calls: Calls) -> Transition:
    return ask_to_open(frozenset({event.query}), calls)


def _demand_waits(state: Opening | Installing, event: Demand, _now: float, _calls: Calls) -> Transition:
    return replace(state, waiting=state.waiting | {event.query}), []


def _demand_when_closing(state: Closing, event: Demand, _now: float, calls: Calls) -> Transition:
    state = replace(state, waiting=state.waiting | {event.query})
    return (state, []) if state.call is not None else _close_now(state, calls)


def _demand_met(state: Keyed, event: Demand, now: float, _calls: Calls) -> Transition:
    # The asker is about to use the address, perhaps through another name's tunnel to the same server.
    return replace(state, carried=replace(state.carried, active_at=now)), [Release(frozenset({event.query}))]


def _opened(state: Opening, event: TunnelOpened, now: float, calls: Calls) -> Transition:
    tunnel_id = event.tunnel.tunnel_id
    for loss in state.lost:
        if loss.ends(tunnel_id, event.pair.generation):
            return Closed(), refuse(state.waiting, loss.error)
    if state.cancelled is not None:
        return ask_to_close(tunnel_id, state.cancelled, calls, state.waiting)
    call = calls()
    carried = Carried(event.tunnel, event.pair, since=now, pair_since=now, active_at=now)
    return Installing(call, carried, state.waiting), [Install(call)]


def _open_failed(state: Opening, event: Failed, _now: float, _calls: Calls) -> Transition:
    return Closed(), refuse(state.waiting, event.error)


def _cancel(state: Opening, event: CloseRequested, _now: float, _calls: Calls) -> Transition:
    cancelled = replace(state, waiting=frozenset(), cancelled=event.reason)
    return cancelled, refuse(state.waiting, CulvertError(event.reason))


def _lost_early(state: Opening, event: ClosedByController, _now: float, _calls: Calls) -> Transition:
    return replace(state, lost=(*state.lost, event)), []


def _installed(state: Installing, _event: Installed, now: float, _calls: Calls) -> Transition:
    commands: list[Command] = [Release(state.waiting)] if state.waiting else []
    return Up(replace(state.carried, since=now, active_at=now)), commands


def _install_failed(state: Installing, event: Failed, _now: float, calls: Calls) -> Transition:
    closing, commands = ask_to_close(state.carried.tunnel.tunnel_id, Reason.CLOSED_BY_USER, calls)
    return closing, [*commands, *refuse(state.waiting, event.error)]


def _close_keyed(state: Keyed, event: CloseRequested, _now: float, calls: Calls) -> Transition:
    closing, commands = ask_to_close(state.carried.tunnel.tunnel_id, event.reason, calls)
    waiting = state.waiting if isinstance(state, Installing) else frozenset[int]()
    return closing, [*commands, *refuse(waiting, CulvertError(event.reason))]


def _lost(state: Keyed | Closing, event: ClosedByController, now: float, calls: Calls) -> Transition:
    if isinstance(state, Closing):
        # A tunnel that has newer keys is there, and has yet to be closed.
        over = event.tunnel_id == state.tunnel_id and not event.last_generation
        return _close_done(state, event, now, calls) if over else (state, [])
    if not event.ends(state.carried.tunnel.tunnel_id, state.carried.pair.generation):
        return state, []
    return Closed(), refuse(state.waiting, event.error) if isinstance(state, Installing) else []


def _counted(state: Keyed, event: Counted, now: float, calls: Calls) -> Transition:
    it = state.carried
    state = replace(state, carried=it.counted(event.usage, now))
    if state.carried.spent():
        return ask_to_close(it.tunnel.tunnel_id, Reason.CLOSED_IDLE, calls)
    return state, []


def _soft_limit(state: Keyed, event: SoftLimit, _now: float, calls: Calls) -> Transition:
    if event.generation != state.carried.pair.generation:
        return state, []
    if isinstance(state, Up):
        return _renew(state.carried, 0, calls)
    if isinstance(state, Activating | Draining):
        return replace(state, carried=replace(state.carried, expiring=True)), []
    return state, []


def _tick(state: Keyed, event: Tick | ControllerBack, now: float, calls: Calls) -> Transition:
    it = state.carried
    if due(it.hard_at(), now) or due(it.idle_at(), now):
        return ask_to_close(it.tunnel.tunnel_id, Reason.CLOSED_IDLE, calls)
    back = isinstance(event, ControllerBack)
    match state:
        case Up() if due(it.soft_at(), now):
            return _renew(it, 0, calls)
        case Renewing(retry_at=at) if at is not None and (back or at <= now):
            return _renew(it, state.attempt + 1, calls)
        case Activating(retry_at=at) if at is not None and (back or at <= now):
            return _activate(it, state.old, state.attempt + 1, calls)
        case Draining(until=until) if until <= now:
            return _renew(it, 0, calls) if it.expiring else (Up(it), [])
        case _:
            return state, []


def _renewed(state: Renewing, event: Renewed, now: float, calls: Calls) -> Transition:
    if event.pair.generation <= state.carried.pair.generation:
        return replace(state, call=None, retry_at=now + backoff(state.attempt)), []
    call = calls()
    return Switching(call, state.carried, event.pair, state.attempt), [Install(call)]


def _switched(state: Switching, _event: Installed, now: float, calls: Calls) -> Transition:
    old = state.carried.pair.inbound
    carried = replace(state.carried, pair=state.next, pair_since=now, base=state.carried.usage)
    return _activate(carried, old, 0, calls)


def _switch_failed(state: Switching, _event: Failed, now: float, _calls: Calls) -> Transition:
    return Renewing(state.carried, None, state.attempt, now + backoff(state.attempt)), []


def _call_failed(state: Renewing | Activating, event: Failed, now: float, calls: Calls) -> Transition:
    if event.error.reason in _GONE:
        return Closed(), []
    if event.error.reason is Reason.GENERATION_STALE:
        return ask_to_close(state.carried.tunnel.tunnel_id, Reason.CLOSED_IDLE, calls)
    return replace(state, call=None, retry_at=now + backoff(state.attempt)), []


def _activated(state: Activating, _event: Activated, now: float, _calls: Calls) -> Transition:
    return Draining(state.carried, state.old, now + state.carried.pair.drain), []


def _close_is_meant(state: Closing, event: CloseRequested, _now: float, _calls: Calls) -> Transition:
    return replace(state, waiting=frozenset()), refuse(state.waiting, CulvertError(event.reason))


def _close_done(state: Closing, _event: Event, _now: float, calls: Calls) -> Transition:
    return ask_to_open(state.waiting, calls) if state.waiting else (Closed(), [])


def _close_failed(state: Closing, event: Failed, now: float, calls: Calls) -> Transition:
    if event.error.reason not in TRANSIENT:
        return _close_done(state, event, now, calls)
    later = replace(state, waiting=frozenset(), call=None, retry_at=now + backoff(state.attempt))
    return later, refuse(state.waiting, event.error)


def _close_again(state: Closing, event: Tick | ControllerBack, now: float, calls: Calls) -> Transition:
    if state.retry_at is None or not (isinstance(event, ControllerBack) or state.retry_at <= now):
        return state, []
    return _close_now(state, calls)


def _close_now(state: Closing, calls: Calls) -> Transition:
    call = calls()
    again = replace(state, call=call, attempt=state.attempt + 1, retry_at=None)
    return again, [CloseTunnel(call, state.tunnel_id, state.reason)]


_TABLE: dict[tuple[type[State], type[Event]], Handler] = {
    (Closed, Demand): _demand_when_closed,
    (Opening, Demand): _demand_waits,
    (Opening, TunnelOpened): _opened,
    (Opening, Failed): _open_failed,
    (Opening, CloseRequested): _cancel,
    (Opening, ClosedByController): _lost_early,
    (Installing, Demand): _demand_waits,
    (Installing, Installed): _installed,
    (Installing, Failed): _install_failed,
    (Installing, CloseRequested): _close_keyed,
    (Installing, ClosedByController): _lost,
    (Renewing, Renewed): _renewed,
    (Renewing, Failed): _call_failed,
    (Switching, Installed): _switched,
    (Switching, Failed): _switch_failed,
    (Activating, Activated): _activated,
    (Activating, Failed): _call_failed,
    (Closing, Demand): _demand_when_closing,
    (Closing, CloseDone): _close_done,
    (Closing, Failed): _close_failed,
    (Closing, ClosedByController): _lost,
    (Closing, CloseRequested): _close_is_meant,
    (Closing, Tick): _close_again,
    (Closing, ControllerBack): _close_again,
}
for _state in (Up, Renewing, Switching, Activating, Draining):
    _TABLE.update(
        {
            (_state, Demand): _demand_met,
            (_state, SoftLimit): _soft_limit,
            (_state, Counted): _counted,
            (_state, Tick): _tick,
            (_state, ControllerBack): _tick,
            (_state, CloseRequested): _close_keyed,
            (_state, ClosedByController): _lost,
            (_state, GatewayMoved): moving.gateway_moved,
        }
    )
_TABLE.update({(Moving, event): handler for event, handler in moving.HANDLERS.items()})
# These can reach any state; where they mean nothing they change nothing.
for _state in (Closed, Opening, Installing, Closing):
    for _event in (
        SoftLimit,
        Counted,
        ClosedByController,
        CloseRequested,
        ControllerBack,
        Tick,
        GatewayMoved,
    ):
        _TABLE.setdefault((_state, _event), _stay)
