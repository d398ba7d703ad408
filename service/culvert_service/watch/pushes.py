"""What a device is told, whichever controller its stream is at, and when it is away.

 change ── one transaction ──► pushes ── NOTIFY, or the look of every second ──► each other controller ──► its streams
    └── after the commit ──► streams of this controller            └── a stream that begins ──► what was missed

An id is drawn before its transaction commits, so a lower one may appear after a higher: a look goes back a little, and
leaves out what was found before. To be told twice, or late, does no harm: what has ended names its tunnel, and its keys.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from culvert_db import PUSHES_CHANNEL, Database, Push, PushKind
from culvert_proto import CulvertError, agent_pb2, error_pb2
from sqlalchemy import func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.controllers.identity import ControllerId
from culvert_service.periodic import Periodic
from culvert_service.watch.hub import End, Event, Hub, Message, ProfileChanged

_LOOK_SECONDS = 1.0
_CLEAN_EVERY_LOOKS = 60
# Half a minute is longer than any transaction that tells something.
_SETTLED = text("SELECT max(id) FROM pushes WHERE at < now() - interval '30 seconds'")
_NEWS = text("""
SELECT id, device_id, kind, body FROM pushes
WHERE id > :low AND holder <> :holder AND id <> ALL (CAST(:seen AS bigint[])) ORDER BY id
""")
# A device that is away for longer finds out by itself: its packets are not answered, or its keys are over.
_CLEAN = text("DELETE FROM pushes WHERE at < now() - interval '1 hour'")


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

    async def start(self) -> None:
        async with self._database() as session:
            self._low = await session.scalar(_SETTLED) or 0
        self.looking.start()

    async def stop(self) -> None:
        await self.looking.stop()

    def hear(self, _payload: str | None) -> None:
        """For the listener."""
        self.looking.wake()

    async def tell(self, session: AsyncSession, told: Sequence[tuple[uuid.UUID, Event | End]]) -> None:
        """In the transaction of what is told. After its commit, the hub is told by the caller."""
        if not told:
            return
        rows = [{"device_id": device, "holder": self._me.holder} | _row(event) for device, event in told]
        await session.execute(insert(Push), rows)
        if not all(self._hub.watches(device) for device, _ in told):
            await session.execute(select(func.pg_notify(PUSHES_CHANNEL, "")))

    async def tell_elsewhere(self, device_id: uuid.UUID, event: Event) -> None:
        """What needs no telling when the device has its stream here, or none at all."""
        if self._hub.watches(device_id):
            self._hub.tell(device_id, event)
        else:
            async with self._database.begin() as session:
                await self.tell(session, [(device_id, event)])

    async def missed(self, device_id: uuid.UUID) -> list[Message]:
        """What a stream that begins has to hear: which tunnels have been closed. The gateway repeats the rest."""
        query = select(Push.body).where(Push.device_id == device_id, Push.kind == PushKind.EVENT)
        async with self._database() as session:
            found = [_message(body) for body in await session.scalars(query.order_by(Push.id))]
        return [message for message in found if message.response.HasField("tunnel_closed")]

    async def _look(self) -> None:
        asked = {"low": self._low, "holder": self._me.holder, "seen": list(self._seen)}
        async with self._database() as session:
            low = await session.scalar(_SETTLED)
            news = (await session.execute(_NEWS, asked)).all()
        for number, device_id, kind, body in news:
            self._seen.add(number)
            self._hub.tell(device_id, _event(PushKind(kind), body))
        if low is not None and low > self._low:
            self._low = low
            self._seen = {number for number in self._seen if number > low}
        self._looks += 1
        if self._looks % _CLEAN_EVERY_LOOKS == 0:
            await self._clean()

    async def _clean(self) -> None:
        async with self._database.begin() as session:
            await session.execute(_CLEAN)


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
