"""What the log is told of tunnels that end or do not come about, and what is left to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from culvert_db import Sessions
from culvert_proto import CulvertError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit import log as audit
from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.identity import repository as identity
from culvert_service.sessions.record import TunnelRecord

# What is left to do after a commit; returns how many tunnels were closed.
Finish = Callable[[], Awaitable[int]]


def tell_closed(
    session: AsyncSession,
    taken: Sequence[TunnelRecord],
    why: Callable[[TunnelRecord], CulvertError],
    actor: Actor | None,
) -> None:
    for record in taken:
        told: dict[str, Detail] = {
            "device": str(record.device_id),
            "name": record.fqdn,
            "gateway": record.gateway,
        }
        audit.tell(session, Line("tunnel.close", f"tunnel/{record.id}", told, why(record), actor=actor))


async def tell_denied(sessions: Sessions, fingerprint: bytes, fqdn: str, why: CulvertError) -> None:
    async with sessions() as session:
        device = await identity.device_by_fingerprint(session, fingerprint)
    named: dict[str, Detail] = {"user": device.user.name} if device else {}
    # Who shows a certificate that is not known is known by it alone.
    actor = audit.by_device(device.id) if device else None
    await audit.denied(sessions, Line("tunnel.open", f"name/{fqdn}", named, actor=actor), why)
