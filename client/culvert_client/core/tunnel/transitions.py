"""What the transitions of a tunnel are made of; `machine.py` and `moving.py` say which there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from culvert_proto import CulvertError, Reason

from culvert_client.core.faults import AWAY
from culvert_client.core.grant import TunnelId
from culvert_client.core.tunnel.events import CloseTunnel, Command, OpenTunnel, Refuse
from culvert_client.core.tunnel.states import Closing, Opening, State

# Our tunables, in seconds.
RETRY_FIRST = 0.5
RETRY_CAP = 30.0

# Faults after which the same call may succeed later.
TRANSIENT = AWAY | frozenset(
    {
        Reason.CONTROLLER_INVALID,
        Reason.DATABASE_DOWN,
        Reason.TIMEOUT,
        Reason.RATE_LIMITED,
        Reason.INTERNAL,
    }
)

Transition = tuple[State, list[Command]]
# Numbers a call.
Calls = Callable[[], int]
Handler = Callable[[Any, Any, float, Calls], Transition]


def due(at: float | None, now: float) -> bool:
    return at is not None and at <= now


def backoff(attempt: int) -> float:
    return min(RETRY_FIRST * 2.0 ** min(attempt, 16), RETRY_CAP)


def ask_to_open(waiting: frozenset[int], calls: Calls) -> Transition:
    call = calls()
    return Opening(call, waiting), [OpenTunnel(call)]


def ask_to_close(
    tunnel_id: TunnelId, reason: Reason, calls: Calls, waiting: frozenset[int] = frozenset()
) -> Transition:
    call = calls()
    return Closing(tunnel_id, reason, waiting, call, 0), [CloseTunnel(call, tunnel_id, reason)]


def refuse(waiting: frozenset[int], error: CulvertError) -> list[Command]:
    return [Refuse(waiting, error)] if waiting else []
