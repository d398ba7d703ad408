"""Events for devices whose streams are at other controllers, and for offline devices.

 change ── one transaction ──► pushes ── NOTIFY, or the poll of every second ──► each other controller ──► its streams
    └── after the commit ──► streams of this controller            └── a new stream ──► the missed events

An id is drawn before its transaction commits, so a lower id may appear after a higher one: each poll starts 30 s back, and
skips pushes that it has seen. A late or repeated event does no harm, because it names its tunnel and generation.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from culvert_db import PUSHES_CHANNEL, Database, PushKind
from culvert_proto import CulvertError, agent_pb2, error_pb2
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.batches import Batches
from culvert_service.controllers.identity import ControllerId
from culvert_service.tasks import Periodic
from culvert_service.watch import repository
from culvert_service.watch.hub import End, Event, Hub, Message, ProfileChanged

_LOOK_SECONDS = 1.0
_CLEAN_EVERY_LOOKS = 60
# New streams whose events one statement reads.
_STREAMS_AT_ONCE = 64


class Pushes:
    channel = PUSHES_CHANNEL

    def __init__(self, database: Database, hub: Hub, me: ControllerId) -> None:
        self._database = database
        self._hub = hub
        self._me = me
        self._low = 0
        self._seen: set[int] = set()
        self._looks = 0
        self.looking = Periodic("pushes", self._look, _LOOK_SECONDS)
        self._missed = Batches("missed events", self._read_events, most=_STREAMS_AT_ONCE)

    async def start(self) -> None:
        async with self._database() as session:
            self._low = await repository.read_settled(session) or 0
        self.looking.start()

    async def stop(self) -> None:
        await self.looking.stop()
        await self._missed.stop()

    def hear(self, _payload: str | None) -> None:
        """Called by the database listener."""
        self.looking.wake()

    async def send(self, session: AsyncSession, events: Sequence[tuple[uuid.UUID, Event | End]]) -> None:
        """Store events in the transaction of the change. After its commit, the caller tells the hub."""
        if not events:
            return
        rows = [{"device_id": device, "holder": self._me.holder} | _row(event) for device, event in events]
        await repository.add_pushes(session, rows)
        if not all(self._hub.watches(device) for device, _ in events):
            await repository.tell_controllers(session)

    async def tell_elsewhere(self, device_id: uuid.UUID, event: Event) -> None:
        """Send an event to the device's stream here, or else to the other controllers."""
        if self._hub.watches(device_id):
            self._hub.send(device_id, event)
        else:
            async with self._database.begin() as session:
                await self.send(session, [(device_id, event)])

    async def read_missed(self, device_id: uuid.UUID) -> list[Message]:
        """The first messages of a new stream: closed tunnels. Other events are not stored, because gateways repeat them."""
        found = map(_message, (await self._missed.ask(device_id)).get(device_id, ()))
        return [message for message in found if message.response.HasField("tunnel_closed")]

    async def _read_events(self, devices: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[bytes]]:
        async with self._database() as session:
            return await repository.events(session, devices)

    async def _look(self) -> None:
        async with self._database() as session:
            low = await repository.read_settled(session)
            news = await repository.news(session, self._low, self._me.holder, self._seen)
        for number, device_id, kind, body in news:
            self._seen.add(number)
            self._hub.send(device_id, _event(PushKind(kind), body))
        if low is not None and low > self._low:
            self._low = low
            self._seen = {number for number in self._seen if number > low}
        self._looks += 1
        if self._looks % _CLEAN_EVERY_LOOKS == 0:
            await self._clean()

    async def _clean(self) -> None:
        async with self._database.begin() as session:
            await repository.clean_pushes(session)


def _row(event: Event | End) -> dict[str, object]:
    match event:
        case ProfileChanged():
            return {"kind": PushKind.PROFILE, "body": b""}
        case End(error):
            return {"kind": PushKind.END, "body": error.to_proto().SerializeToString() if error else b""}
        case _:
            return {"kind": PushKind.EVENT, "body": event.message().SerializeToString()}


def _event(kind: PushKind, body: bytes) -> Event | End:
    match kind:
        case PushKind.PROFILE:
            return ProfileChanged()
        case PushKind.END:
            return End(CulvertError.from_proto(error_pb2.Error.FromString(body)) if body else None)
        case PushKind.EVENT:
            return _message(body)


def _message(body: bytes) -> Message:
    return Message(agent_pb2.WatchResponse.FromString(body))
