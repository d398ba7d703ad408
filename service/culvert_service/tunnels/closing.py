"""Audit lines of tunnels that end, and the work that is left after the commit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from culvert_proto import CulvertError

from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.transaction import Transaction
from culvert_service.tunnels.record import TunnelRecord

# Work that is left after a commit; returns the number of closed tunnels.
Finish = Callable[[], Awaitable[int]]


def tell_closed(
    transaction: Transaction,
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
        line = Line("tunnel.close", f"tunnel/{record.id}", told, why(record), actor=actor)
        transaction.audit(line)
