"""The activity that a person can read: the newest entries, made from the client's events and their results."""

from __future__ import annotations

import enum
import itertools
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from culvert_proto import CulvertError, Reason, local_pb2

from culvert_client.core.client import Client
from culvert_client.core.client_events import (
    CallEnded,
    CodeProven,
    Command,
    ControllerLost,
    Enrolled,
    Event,
    Fail,
    KeepPause,
    Left,
    ProfileReceived,
    Settle,
)
from culvert_client.core.tunnel import events as tunnel
from culvert_client.core.tunnel.states import Closing

# Our tunables.
KEPT = 500
SAME_DENIAL = 10.0
"""Seconds. A browser queries A, AAAA and HTTPS, and repeats: equal denials within this time give one entry."""

# Reasons of states whose texts have no fields.
_PLAIN = (Reason.CLOSED_BY_USER, Reason.CLOSED_IDLE, Reason.DAEMON_STOPPED)


class ActivityKind(enum.IntEnum):
    TUNNEL_UP = local_pb2.ACTIVITY_KIND_TUNNEL_UP
    TUNNEL_CLOSED = local_pb2.ACTIVITY_KIND_TUNNEL_CLOSED
    FAILED_OVER = local_pb2.ACTIVITY_KIND_FAILED_OVER
    DENIED = local_pb2.ACTIVITY_KIND_DENIED
    CODE_PROVEN = local_pb2.ACTIVITY_KIND_CODE_PROVEN
    PAUSED = local_pb2.ACTIVITY_KIND_PAUSED
    RESUMED = local_pb2.ACTIVITY_KIND_RESUMED
    CONTROLLER_LOST = local_pb2.ACTIVITY_KIND_CONTROLLER_LOST
    CONTROLLER_BACK = local_pb2.ACTIVITY_KIND_CONTROLLER_BACK


@dataclass(frozen=True, slots=True)
class Entry:
    """`at`: Unix seconds; `gateway_before`: set after a failover; `organisation`: the organisation's number."""

    number: int
    at: float
    kind: ActivityKind
    organisation: int
    fqdn: str = ""
    gateway: str = ""
    gateway_before: str = ""
    error: CulvertError | None = None

    def to_proto(self, organisation: str = "") -> local_pb2.Activity:
        """`organisation`: its name if there are several organisations."""
        return local_pb2.Activity(
            number=self.number,
            at_ms=round(self.at * 1e3),
            kind=local_pb2.ActivityKind.ValueType(self.kind),
            fqdn=self.fqdn,
            gateway=self.gateway,
            gateway_before=self.gateway_before,
            error=self.error.to_proto() if self.error else None,
            organisation=organisation,
        )


class Log:
    """The entries of all organisations. `paused`: whether the last entry about a pause began one."""

    def __init__(self) -> None:
        self.paused = False
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._numbers = itertools.count(1)

    def after(self, number: int) -> list[Entry]:
        """The entries after the one with this number, oldest first; 0 for all that are kept."""
        return [entry for entry in self._entries if entry.number > number]

    def add(self, at: float, kind: ActivityKind, organisation: int, fields: Mapping[str, Any]) -> None:
        self._entries.append(Entry(next(self._numbers), at, kind, organisation, **fields))

    def forget(self, organisation: int) -> None:
        kept = [entry for entry in self._entries if entry.organisation != organisation]
        self._entries.clear()
        self._entries.extend(kept)


class Activity:
    """An organisation's activity. `observe` is called with each handled event and its commands."""

    def __init__(self, log: Log, organisation: int) -> None:
        self._log, self._organisation = log, organisation
        self._up: dict[str, str] = {}
        self._connected: bool | None = None

    def observe(self, client: Client, event: Event, commands: Iterable[Command], unix_now: float) -> None:
        def note(kind: ActivityKind, **fields: str | CulvertError | None) -> None:
            self._log.add(unix_now, kind, self._organisation, fields)

        match event:
            case ProfileReceived() if self._connected is not True:
                if self._connected is False:
                    note(ActivityKind.CONTROLLER_BACK)
                self._connected = True
            case ControllerLost(error) if self._connected is not False:
                note(ActivityKind.CONTROLLER_LOST, error=error)
                self._connected = False
            case CodeProven():
                note(ActivityKind.CODE_PROVEN)
            case _:
                pass
        for command in commands:
            match command:
                # A pause concerns all organisations: note it once.
                case KeepPause(until) if (until != 0) != self._log.paused:
                    self._log.paused = until != 0
                    note(ActivityKind.PAUSED if until else ActivityKind.RESUMED)
                case Fail(fqdn=fqdn, error=error) | Settle(fqdn=fqdn, error=error) if error is not None:
                    if not self._has_reported(fqdn, error, unix_now):
                        note(ActivityKind.DENIED, fqdn=fqdn, error=error)
                case _:
                    pass
        up = {
            name: it.carried.tunnel.gateway
            for name, it in client.machines.items()
            if it.carried and it.is_up and not client.is_unproven(name) and not client.is_silent(name)
        }
        for name, gateway in up.items():
            before = self._up.get(name)
            if before is None:
                note(ActivityKind.TUNNEL_UP, fqdn=name, gateway=gateway)
            elif before != gateway:
                note(ActivityKind.FAILED_OVER, fqdn=name, gateway=gateway, gateway_before=before)
            self._up[name] = gateway
        # A tunnel that moves is not closed.
        for name in [name for name in self._up if not (it := client.machines.get(name)) or not it.carried]:
            note(
                ActivityKind.TUNNEL_CLOSED,
                fqdn=name,
                gateway=self._up.pop(name),
                error=_why(client, name, event),
            )

        if isinstance(event, Enrolled | Left):
            # Another person must not read the former person's activity.
            self._log.forget(self._organisation)

    def _has_reported(self, fqdn: str, error: CulvertError, now: float) -> bool:
        return any(
            entry.kind is ActivityKind.DENIED and entry.fqdn == fqdn and entry.error is not None
            and str(entry.error) == str(error) and now - entry.at < SAME_DENIAL
            for entry in self._log.after(0)
        )  # fmt: skip


def _why(client: Client, name: str, event: Event) -> CulvertError:
    match event:
        case (
            tunnel.ClosedByController(error=error)
            | ControllerLost(error)
            | CallEnded(event=tunnel.Failed(error=error))
        ):
            return error
        case _:
            machine = client.machines.get(name)
            state = machine.state if machine is not None else None
            if isinstance(state, Closing) and state.reason in _PLAIN:
                return CulvertError(state.reason)
            return CulvertError(Reason.CLOSED_BY_USER)
