"""The common part of opening, renewing and activating a tunnel.

numbers and keys of a pair ─► the gateway's entries ─► commit ─► the answer to the device

A transaction waits at most 1 s for a gateway's answer, and never for the gateway's write lock: the reconciliation that
holds the lock reads the database, and a pooler may offer only two connections, so waiting could deadlock.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from culvert_db import Statements, why_away
from culvert_proto import CulvertError, Reason
from culvert_proto.contract import Suite
from culvert_proto.phrases import Phrase
from culvert_proto.sa import Limits

from culvert_service.gateways.entry import Update
from culvert_service.gateways.key_wrap import KeyWrap, new_sa_key
from culvert_service.gateways.link import HostLostError, Link
from culvert_service.gateways.sa import Spi, Tag
from culvert_service.gateways.tunnel_entries import Pair, Path, WrappedKeys
from culvert_service.tunnels import hot_queries
from culvert_service.tunnels.record import TunnelRecord

# Reconciliations are seconds apart: a change that meets this many in a row is refused.
_TURNS = 5

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class NoTurn:
    """A reconciliation holds the gateway's write lock, or a crypto host was lost. Roll the transaction back, wait, and
    repeat it.
    """

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
        transaction, tunnel_id, device_id, link.config.id, generation, tag, link.place(), renewing=renewing
    )
    if pair is None:
        raise CulvertError(Reason.GATEWAY_REFUSED, gateway=link.name, why=Phrase("it has no free SA numbers"))
    return pair


async def program_and_commit(
    transaction: Statements,
    link: Link,
    batches: Sequence[Sequence[Update]],
    timeline: Timeline | None = None,
    *,
    changes: TunnelRecord | None = None,
) -> NoTurn | None:
    """Write the gateway and commit: both have the change, or neither. `changes`: the tunnel, which must be at the gateway.

    Returns NoTurn when nothing is written and nothing is committed. Raises CulvertError (SA_LOST when the gateway came back
    without the tunnel's SAs), or the database's error.
    """
    if not link.guard.free:
        return NoTurn(link)
    async with link.lock_for_writing():
        if changes is not None and changes.is_lost_at(link):
            raise CulvertError(Reason.SA_LOST, gateway=link.name)
        try:
            await link.apply(batches)
        except HostLostError:
            return NoTurn(link)
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


@dataclass(frozen=True, slots=True)
class PairKeys:
    """Fresh keys of one SA pair. They exist only until the answer is sent, and `repr` omits them."""

    to_gateway: bytes = field(repr=False)
    to_device: bytes = field(repr=False)

    @classmethod
    def new(cls, suite: Suite) -> PairKeys:
        return cls(new_sa_key(suite), new_sa_key(suite))

    def wrap_with(self, wrap: KeyWrap) -> WrappedKeys:
        return WrappedKeys(wrap.wrap(self.to_gateway), wrap.wrap(self.to_device))


@dataclass(frozen=True, slots=True)
class GrantedPair:
    generation: int
    to_gateway: Spi
    to_device: Spi
    keys: PairKeys
    suite: Suite
    soft: Limits

    @classmethod
    def of(cls, pair: Pair, keys: PairKeys, path: Path) -> GrantedPair:
        return cls(pair.generation, pair.to_gateway.spi, pair.to_device.spi, keys, path.suite, path.soft)


@dataclass(frozen=True, slots=True)
class Renewed:
    pair: GrantedPair
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class GrantedTunnel:
    id: uuid.UUID
    resource: str
    fqdn: str
    idle_seconds: int
    gateway: str
    path: Path
    pair: GrantedPair


class Timeline:
    """The time of a request at each step: microseconds from its arrival."""

    def __init__(self) -> None:
        self._arrived = time.perf_counter()
        self.decided_us = 0
        self.programmed_us = 0

    def note_decided(self) -> None:
        self.decided_us = self._elapsed()

    def note_programmed(self) -> None:
        self.programmed_us = self._elapsed()

    def _elapsed(self) -> int:
        return round((time.perf_counter() - self._arrived) * 1e6)
