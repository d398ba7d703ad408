"""A tunnel whose gateway goes, or hears nothing: its name is opened again while the tunnel that is there stays.

            GatewayMoved              TunnelOpened
Up … Draining ──────► Moving ───────────────────────► Installing, with what was answered
                      │ │ ▲ └─ closed meanwhile ────► Opening, Closing, Closed
Up ◄── refused: the ──┘ └─┘ Failed, may pass: backoff
       controller asks again
"""

from __future__ import annotations

from dataclasses import replace

from culvert_proto import CulvertError, Reason

from culvert_client.core.grant import Usage
from culvert_client.core.tunnel.events import (
    ClosedByController,
    CloseRequested,
    ControllerBack,
    Counted,
    Demand,
    Event,
    Failed,
    GatewayMoved,
    Install,
    OpenTunnel,
    Release,
    SoftLimit,
    Tick,
    TunnelOpened,
)
from culvert_client.core.tunnel.states import (
    Activating,
    Carried,
    Closed,
    Draining,
    Installing,
    Moving,
    Opening,
    Renewing,
    Switching,
    Up,
)
from culvert_client.core.tunnel.transitions import (
    TRANSIENT,
    Calls,
    Handler,
    Transition,
    ask_to_close,
    backoff,
    due,
    refuse,
)


def gateway_moved(
    state: Up | Renewing | Switching | Activating | Draining, event: GatewayMoved, _now: float, calls: Calls
) -> Transition:
    if event.tunnel_id != state.carried.tunnel.tunnel_id:
        return state, []
    call = calls()
    # A pair that is not activated is given up: the gateway does not send with it yet.
    old = state.old if isinstance(state, Activating | Draining) else None
    return Moving(state.carried, old, frozenset(), call, 0), [OpenTunnel(call)]


def _opened(state: Moving, event: TunnelOpened, now: float, calls: Calls) -> Transition:
    # Of a tunnel that only has new keys the datapath goes on counting.
    same = event.tunnel.tunnel_id == state.carried.tunnel.tunnel_id
    usage = state.carried.usage if same else Usage()
    carried = Carried(event.tunnel, event.pair, now, now, now, usage, usage)
    call = calls()
    return Installing(call, carried, state.waiting), [Install(call)]


def _failed(state: Moving, event: Failed, now: float, _calls: Calls) -> Transition:
    if event.error.reason in TRANSIENT:
        return replace(state, call=None, retry_at=now + backoff(state.attempt)), []
    return Up(state.carried), [Release(state.waiting)] if state.waiting else []


def _tick(state: Moving, event: Tick | ControllerBack, now: float, calls: Calls) -> Transition:
    it = state.carried
    if state.retry_at is None:
        return state, []
    if due(it.hard_at(), now) or due(it.idle_at(), now):
        return _close(state, CloseRequested(Reason.CLOSED_IDLE), now, calls)
    if isinstance(event, Tick) and state.retry_at > now:
        return state, []
    call = calls()
    return replace(state, call=call, attempt=state.attempt + 1, retry_at=None), [OpenTunnel(call)]


def _close(state: Moving, event: CloseRequested, _now: float, calls: Calls) -> Transition:
    refused = refuse(state.waiting, CulvertError(event.reason))
    if state.call is not None:
        # Its answer says what there is to close.
        return Opening(state.call, frozenset(), cancelled=event.reason), refused
    closing, commands = ask_to_close(state.carried.tunnel.tunnel_id, event.reason, calls)
    return closing, [*commands, *refused]


def _lost(state: Moving, event: ClosedByController, _now: float, _calls: Calls) -> Transition:
    it = state.carried
    ends = event.ends(it.tunnel.tunnel_id, it.pair.generation)
    if state.call is not None and (ends or event.tunnel_id != it.tunnel.tunnel_id):
        # It may be about what the answer will name.
        return Opening(state.call, state.waiting, lost=(event,)), []
    if not ends:
        return state, []
    return Closed(), refuse(state.waiting, event.error)


def _demand(state: Moving, event: Demand, _now: float, _calls: Calls) -> Transition:
    return replace(state, waiting=state.waiting | {event.query}), []


def _counted(state: Moving, event: Counted, now: float, _calls: Calls) -> Transition:
    return replace(state, carried=state.carried.counted(event.usage, now)), []


def _stay(state: Moving, _event: Event, _now: float, _calls: Calls) -> Transition:
    return state, []


HANDLERS: dict[type[Event], Handler] = {
    TunnelOpened: _opened,
    Failed: _failed,
    Tick: _tick,
    ControllerBack: _tick,
    CloseRequested: _close,
    ClosedByController: _lost,
    Demand: _demand,
    Counted: _counted,
    SoftLimit: _stay,
    GatewayMoved: _stay,
}
