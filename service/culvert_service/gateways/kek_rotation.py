"""Rotation of a gateway's key-encryption key (KEK), from the bundle with the next KEK to the end of the previous KEK.

 settled ─── a bundle is given ────────────► waiting     new keys are wrapped under the present KEK
 waiting ─── the gateway has the next KEK ─► rekeying    the next KEK is now the present KEK
 rekeying ── every SA has fresh keys, and the gateway has forgotten the previous KEK ─► settled

The gateway's row holds the state, and the gateway's own tables show which SAs still have old keys, so another controller
can continue. Fresh keys are made before the old keys end (tunnels/lifecycle.py, site_tunnels/keys.py): no packet is lost.
A stolen previous KEK, with a copy of the tables, does not open keys that are wrapped afterwards.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from culvert_db import Database, Gateway, clock
from culvert_proto import CulvertError, Reason
from culvert_proto.contract import Suite
from culvert_proto.phrases import Phrase
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.log import CONTROLLER, Line
from culvert_service.audit.transaction import begin
from culvert_service.gateways import repository
from culvert_service.gateways.config import config_of
from culvert_service.gateways.entry import Entry
from culvert_service.gateways.fleet import Fleet
from culvert_service.gateways.key_wrap import KeyWrap
from culvert_service.gateways.link import Link
from culvert_service.pki.master_key import MasterKey
from culvert_service.tasks import Periodic

_log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
# The most SAs whose renewal one round asks for, and the time after which the renewal of an SA is asked for again.
BATCH = 200
AGAIN_SECONDS = 5.0
# A tunnel whose device has not renewed within this time of the first request is closed. It opens again with fresh keys.
PATIENCE_SECONDS = 300.0
# Within this time, a write with a key under the previous KEK has ended: the wait for the write lock and WRITE_SECONDS.
SETTLE_SECONDS = 5.0


class Sas(Protocol):
    async def soft_limit(self, link: Link, sa_id: int) -> None:
        """Renew an SA."""
        ...

    async def close_sas(self, link: Link, sa_ids: Collection[int], why: CulvertError) -> None:
        """Close the tunnels of devices that use these SAs."""
        ...


@dataclass(frozen=True, slots=True)
class _Asked:
    """When the renewal of an SA was first and last asked for, on the monotonic clock."""

    first: float
    last: float


class KekRotation:
    def __init__(
        self,
        database: Database,
        fleet: Fleet,
        master_key: MasterKey,
        sas: Sas,
        lease_seconds: float,
    ) -> None:
        self._database = database
        self._fleet = fleet
        self._master_key = master_key
        self._sas = sas
        # Another controller wraps keys for this gateway when it has the other end of a tunnel between gateways. It reads
        # the new KEK from the row within a lease.
        self._settle_seconds = max(SETTLE_SECONDS, 2 * lease_seconds)
        # By gateway, and there by SA.
        self._asked: dict[int, dict[int, _Asked]] = {}
        self._rounds = Periodic("key-encryption keys", self._round, LOOK_SECONDS)

    async def start(self) -> None:
        self._rounds.start()

    async def stop(self) -> None:
        await self._rounds.stop()

    async def check(self, link: Link) -> None:
        """Check the KEK of a gateway that has just connected, before anything is written to it.

        Raises CulvertError GATEWAY_DOWN, or GATEWAY_KEY_UNKNOWN when the gateway has none of the KEKs that we know.
        """
        known = await link.keks()
        following = link.config.next_key_wrap
        if known is None:
            # A switch that cannot report KEKs reads its KEK only at its start, and then has no entries.
            if following is not None and not await link.observe():
                await self._promote(link, following)
            return
        if following is not None and following.fingerprint in known:
            await self._promote(link, following)
        elif link.config.key_wrap.fingerprint not in known:
            raise CulvertError(Reason.GATEWAY_KEY_UNKNOWN, gateway=link.name)

    async def _round(self) -> None:
        rotating = [link for link in self._fleet if link.online and _rotates(link)]
        for outcome in await asyncio.gather(*map(self._go_on, rotating), return_exceptions=True):
            if isinstance(outcome, CulvertError):
                _log.info("a key-encryption key waits", extra={"why": outcome.message})
            elif outcome is not None:
                raise outcome

    async def _go_on(self, link: Link) -> None:
        following = link.config.next_key_wrap
        if following is not None and following.fingerprint in (await link.keks() or ()):
            await self._promote(link, following)
        elif link.config.rekeying_since is not None:
            await self._rekey(link)
        elif moving := await link.sas_to_move():
            await self._renew_some(link, moving)

    async def _promote(self, link: Link, following: KeyWrap) -> None:
        """Make the next KEK the present one. The gateway can then open keys wrapped under either KEK."""
        async with begin(self._database, CONTROLLER) as transaction:
            row = await self._lock(transaction.session, link)
            now = config_of(row, self._master_key).next_key_wrap if row is not None else None
            if row is None or now is None or now.fingerprint != following.fingerprint:
                return
            assert row.next_kek_ciphertext is not None
            row.kek_ciphertext, row.next_kek_ciphertext = row.next_kek_ciphertext, None
            row.certificate_expires_at = row.next_certificate_expires_at or row.certificate_expires_at
            row.next_certificate_expires_at = None
            row.rekeying_since = await clock(transaction.session)
            transaction.audit(Line("gateway.kek", f"gateway/{link.name}", {"state": "rekeying"}))
            await repository.notify_controllers(transaction.session)
            changed = config_of(row, self._master_key)
        link.take_keys(changed)
        _log.info("gateway has its next key-encryption key", extra={"gateway": link.name})

    async def _rekey(self, link: Link) -> None:
        left = await self._find_left(link) | await link.sas_to_move()
        link.sas_to_rekey = len(left)
        if left:
            await self._renew_some(link, left)
        elif time.monotonic() - link.rekeyed_at >= self._settle_seconds:
            await self._finish(link)

    async def _find_left(self, link: Link) -> set[int]:
        """The ids of the SAs whose keys are not wrapped under the present KEK."""
        found = await link.sas()
        return await asyncio.to_thread(_find_wrapped_otherwise, found, link.config.key_wrap)

    async def _renew_some(self, link: Link, left: Collection[int]) -> None:
        now = time.monotonic()
        known = self._asked.get(link.config.id, {})
        asked = self._asked[link.config.id] = {sa: known[sa] for sa in left if sa in known}
        late = {sa for sa, at in asked.items() if now - at.first >= PATIENCE_SECONDS}
        if late:
            why = CulvertError(
                Reason.TUNNEL_OUTDATED, what=Phrase("the gateway {gateway}", gateway=link.name)
            )
            await self._sas.close_sas(link, late, why)
        for sa in _due(left, asked, now):
            asked[sa] = _Asked(asked[sa].first if sa in asked else now, now)
            await self._sas.soft_limit(link, sa)

    async def _finish(self, link: Link) -> None:
        """Have the gateway forget all other KEKs: no controller wraps under them any more, and no entry needs them."""
        present = link.config.key_wrap.fingerprint
        others = [one for one in await link.keks() or () if one != present]
        if others:
            await link.forget_keks(others)
        async with begin(self._database, CONTROLLER) as transaction:
            row = await self._lock(transaction.session, link)
            if row is None or row.rekeying_since is None:
                return
            if config_of(row, self._master_key).key_wrap.fingerprint != present:
                return
            row.rekeying_since = None
            changed = config_of(row, self._master_key)
            transaction.audit(Line("gateway.kek", f"gateway/{link.name}", {"state": "settled"}))
            await repository.notify_controllers(transaction.session)
        link.take_keys(changed)
        link.sas_to_rekey = None
        self._asked.pop(link.config.id, None)
        _log.info("the previous key-encryption key is forgotten", extra={"gateway": link.name})

    async def _lock(self, session: AsyncSession, link: Link) -> Gateway | None:
        row = await repository.lock(session, link.name)
        return row if row is not None and row.id == link.config.id else None


def _rotates(link: Link) -> bool:
    return (
        link.config.next_key_wrap is not None
        or link.config.rekeying_since is not None
        or any(host.draining for host in link.config.hosts)
    )


def _due(left: Collection[int], asked: Mapping[int, _Asked], now: float) -> Sequence[int]:
    """The SAs that were asked for least recently: SAs that no device renews must not delay the others."""
    last = {sa: asked[sa].last if sa in asked else -math.inf for sa in left}
    due = [sa for sa, at in last.items() if now - at >= AGAIN_SECONDS]
    return heapq.nsmallest(BATCH, due, key=lambda sa: (last[sa], sa))


def _find_wrapped_otherwise(found: Sequence[Entry], wrap: KeyWrap) -> set[int]:
    return {
        _sa_id(one)
        for one in found
        if one.wrapped_key is None or not wrap.opens(one.wrapped_key, _suite(one))
    }


def _sa_id(sa: Entry) -> int:
    """The SA's id: an action parameter in sad_in, a match field in sad_out."""
    value = (dict(sa.params) | dict(sa.match))["sa_id"]
    assert isinstance(value, int)
    return value


def _suite(sa: Entry) -> Suite:
    return Suite.numbered(dict(sa.params)["suite"])
