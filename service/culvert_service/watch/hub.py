"""The watching devices of one controller, and their queued events. No I/O: agent/ serves the streams."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass

from culvert_proto import CulvertError, agent_pb2

# A stream with this many unsent events ends. The device gets the profile again when it comes back.
_BACKLOG = 256


@dataclass(frozen=True, slots=True)
class ProfileChanged:
    pass


@dataclass(frozen=True, slots=True)
class TunnelClosed:
    """`last_generation`: the last lost generation of a tunnel that stays with newer keys; 0: the tunnel is closed."""

    tunnel_id: uuid.UUID
    why: CulvertError
    last_generation: int = 0

    def message(self) -> agent_pb2.WatchResponse:
        closed = agent_pb2.TunnelClosed(
            tunnel_id=str(self.tunnel_id), why=self.why.to_proto(), last_generation=self.last_generation
        )
        return agent_pb2.WatchResponse(tunnel_closed=closed)


@dataclass(frozen=True, slots=True)
class GatewayMoved:
    """Tells the device to open this tunnel's name again."""

    tunnel_id: uuid.UUID
    why: CulvertError

    def message(self) -> agent_pb2.WatchResponse:
        moved = agent_pb2.GatewayMoved(tunnel_id=str(self.tunnel_id), why=self.why.to_proto())
        return agent_pb2.WatchResponse(gateway_moved=moved)


@dataclass(frozen=True, slots=True)
class SaExpiring:
    tunnel_id: uuid.UUID
    generation: int

    def message(self) -> agent_pb2.WatchResponse:
        expiring = agent_pb2.SaExpiring(tunnel_id=str(self.tunnel_id), generation=self.generation)
        return agent_pb2.WatchResponse(sa_expiring=expiring)


@dataclass(frozen=True, slots=True)
class Message:
    """An event that a controller has stored in serialised form."""

    response: agent_pb2.WatchResponse

    def message(self) -> agent_pb2.WatchResponse:
        return self.response


Event = ProfileChanged | TunnelClosed | GatewayMoved | SaExpiring | Message


@dataclass(frozen=True, slots=True)
class End:
    """The end of the stream, with an error if the device may no longer watch."""

    error: CulvertError | None


class Watcher:
    """A device's stream of events; starts with ProfileChanged."""

    # An asyncio.Queue would take 3 KiB for each of thousands.
    __slots__ = ("_events", "_profile_waits", "_told")

    def __init__(self) -> None:
        self._events: list[Event | End] = []
        self._told: asyncio.Future[None] | None = None
        self._profile_waits = False
        self.send(ProfileChanged())

    async def next(self) -> Event | None:
        """None when a newer stream has taken over. Raises CulvertError when the device may not watch any more."""
        while not self._events:
            self._told = asyncio.get_running_loop().create_future()
            await self._told
        event = self._events.pop(0)
        if isinstance(event, End):
            if event.error is not None:
                raise event.error
            return None
        if isinstance(event, ProfileChanged):
            self._profile_waits = False
        return event

    def send(self, event: Event) -> None:
        if isinstance(event, ProfileChanged):
            # A queued event covers all changes until it is sent, because the profile is built then.
            if self._profile_waits:
                return
            self._profile_waits = True
        self._put(End(None) if len(self._events) >= _BACKLOG else event)

    def end(self, error: CulvertError | None) -> None:
        self._put(End(error))

    def _put(self, event: Event | End) -> None:
        self._events.append(event)
        if self._told is not None and not self._told.done():
            self._told.set_result(None)


class Hub:
    """All watchers of this controller. pushes.py has the events for other controllers' streams and for offline devices."""

    def __init__(self) -> None:
        self._watchers: dict[uuid.UUID, Watcher] = {}

    def __len__(self) -> int:
        return len(self._watchers)

    def open(self, device_id: uuid.UUID) -> Watcher:
        """Open a device's stream, and end an older one of the same device."""
        if older := self._watchers.get(device_id):
            older.end(None)
        watcher = self._watchers[device_id] = Watcher()
        return watcher

    def watches(self, device_id: uuid.UUID) -> bool:
        return device_id in self._watchers

    def close(self, device_id: uuid.UUID, watcher: Watcher) -> None:
        if self._watchers.get(device_id) is watcher:
            del self._watchers[device_id]

    def send(self, device_id: uuid.UUID, event: Event | End) -> None:
        """Send an event to the device's stream, if it has one here."""
        watcher = self._watchers.get(device_id)
        if watcher is None:
            return
        if isinstance(event, End):
            del self._watchers[device_id]
            watcher.end(event.error)
        else:
            watcher.send(event)

    def profiles_changed(self) -> None:
        for watcher in self._watchers.values():
            watcher.send(ProfileChanged())

    def end_all(self) -> None:
        """End all streams, at the end of the process."""
        for watcher in self._watchers.values():
            watcher.end(None)
