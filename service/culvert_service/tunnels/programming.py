"""The common part of opening, renewing and activating: numbers and keys for a pair, then the gateway, then the commit.

A transaction waits at most 1 s for a gateway's answer, and never for the gateway's write lock: the reconciliation that
holds the lock reads the database, and a pooler may offer only two connections, so waiting could deadlock.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from culvert_db import Statements, why_away
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

from culvert_service.gateways.entry import Update
from culvert_service.gateways.link import Link
from culvert_service.gateways.sa import Tag
from culvert_service.gateways.tunnel_entries import Pair
from culvert_service.tunnels import hot_queries
from culvert_service.tunnels.grant import Timeline

# Reconciliations are seconds apart: a change that meets this many in a row is refused.
_TURNS = 5

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class NoTurn:
    """A reconciliation holds the gateway's write lock. The transaction must be rolled back before it waits for it."""

    link: Link

    async def wait(self) -> None:
        """Wait until the write lock was free once. Raises CulvertError GATEWAY_DOWN after the link's time limit."""
        async with self.link.lock_for_writing():
            pass


async def repeat_in_turn(attempt: Callable[[], Awaitable[_Result | NoTurn]]) -> _Result:
    """Repeat a transaction after each reconciliation that it meets. Raises CulvertError GATEWAY_DOWN after _TURNS."""
    gateway = ""
    for _ in range(_TURNS):
        outcome = await attempt()
        if not isinstance(outcome, NoTurn):
            return outcome
        await outcome.wait()
        gateway = outcome.link.name
    raise CulvertError(Reason.GATEWAY_DOWN, gateway=gateway)


async def allocate_pair(
    transaction: Statements,
    tunnel_id: uuid.UUID,
    device_id: uuid.UUID,
    link: Link,
    generation: int,
    tag: Tag,
    *,
    renewing: bool = False,
) -> Pair:
    """Raises CulvertError GATEWAY_REFUSED."""
    pair = await hot_queries.insert_pair(
        transaction, tunnel_id, device_id, link.config.id, generation, tag, renewing=renewing
    )
    if pair is None:
        raise CulvertError(Reason.GATEWAY_REFUSED, gateway=link.name, why=Phrase("it has no free SA numbers"))
    return pair


async def program_and_commit(
    transaction: Statements,
    link: Link,
    batches: Sequence[Sequence[Update]],
    timeline: Timeline | None = None,
) -> NoTurn | None:
    """Write the gateway and commit: either both have the change, or neither.

    Returns NoTurn when nothing is written and nothing is committed. Raises CulvertError, or the database's error.
    """
    if not link.guard.free:
        return NoTurn(link)
    async with link.lock_for_writing():
        await link.apply(batches)
        if timeline is not None:
            timeline.note_programmed()
        try:
            await transaction.commit()
        except BaseException as error:
            await link.undo(batches)
            if why_away(error) is not None:
                # The commit may have succeeded before the connection broke.
                link.reconcile_soon()
            raise
    return None
