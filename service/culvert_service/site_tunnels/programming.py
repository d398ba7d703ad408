"""Programs one end of a site tunnel: directly if this controller owns the gateway, otherwise by a call to its owner.

A call carries numbers and keys; the owner builds the entries from the rows.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Collection, Sequence
from typing import Any

from culvert_db import Database, SiteTunnel
from culvert_proto import CulvertError, Reason

from culvert_service.controllers.calls import Calls, NoAnswerError, Serve
from culvert_service.gateways.entry import Entry, Update, inserts, modifies
from culvert_service.gateways.fleet import Fleet
from culvert_service.gateways.link import Link
from culvert_service.gateways.remote import Remote
from culvert_service.gateways.tunnel_entries import WrappedKeys, install_pair
from culvert_service.site_tunnels import repository
from culvert_service.site_tunnels.record import SiteTunnelRecord, TunnelEnd

_log = logging.getLogger(__name__)

_INSTALL, _SWITCH, _PERMIT = "site-tunnel.install", "site-tunnel.switch", "site-tunnel.permit"


class Programming:
    def __init__(self, database: Database, fleet: Fleet, calls: Calls, remote: Remote) -> None:
        self._database = database
        self._fleet = fleet
        self._calls = calls
        self._remote = remote

    def serving(self) -> dict[str, Serve]:
        return {_INSTALL: self._serve_install, _SWITCH: self._serve_switch, _PERMIT: self._serve_permit}

    async def install(
        self, record: SiteTunnelRecord, end: TunnelEnd, generation: int, to_open: bytes, to_seal: bytes
    ) -> None:
        """Install a pair, with which no gateway encrypts yet. Raises CulvertError, as `switch`."""
        standing = self._fleet.find_standing(end.gateway)
        if standing is None:
            raise CulvertError(Reason.GATEWAY_DOWN, gateway=end.gateway)
        wrap = standing.config.wrap_at(end.pairs[generation][1].crypto_port).wrap
        keys = WrappedKeys(wrap(to_open), wrap(to_seal))
        if link := self._fleet.get(end.gateway):
            await _install(link, end, generation, keys)
        else:
            wrapped = [keys.to_gateway.hex(), keys.to_device.hex()]
            _, pair = end.pairs[generation]
            asked = {"generation": generation, "spi": pair.to_gateway.spi, "keys": wrapped}
            await self._ask(_INSTALL, record, end, asked)

    async def switch(self, record: SiteTunnelRecord, end: TunnelEnd) -> None:
        """Encrypt the LAN's packets with the current generation."""
        if link := self._fleet.get(end.gateway):
            await _put(link, end.policy(record.keys.current))
        else:
            await self._ask(_SWITCH, record, end, {"generation": record.keys.current})

    async def follow(self, record: SiteTunnelRecord) -> None:
        """Apply a change of the tunnel's packets. Both ends admit new packets before one of them sends them, and packets
        that are in the old and the new set always have their entries. Raises nothing.
        """
        current = record.keys.current
        if not record.keys.lost and all(current in end.pairs for end in record.ends):
            for step in (self._permit, self.switch):
                done = await asyncio.gather(
                    *(step(record, end) for end in record.ends), return_exceptions=True
                )
                if failed := [str(outcome) for outcome in done if outcome is not None]:
                    _log.warning(
                        "reconcilers do the rest", extra={"site_tunnel": record.name, "why": failed[0]}
                    )
                    break
        await self.reconcile(record)

    async def remove(self, record: SiteTunnelRecord, generations: Collection[int]) -> bool:
        """Remove generations. False when the reconcilers must remove the rest."""
        return all([await self._remove(end.gateway, [end.removal(generations)]) for end in record.ends])

    async def clear(self, record: SiteTunnelRecord) -> None:
        """Remove the whole tunnel: first the outbound policies at both ends, then the SAs. Raises nothing."""
        batches = [record.removal(end) for end in record.ends]
        for turn in (0, 1):
            for end, of_it in zip(record.ends, batches, strict=True):
                await self._remove(end.gateway, [of_it[turn]])

    async def reconcile(self, record: SiteTunnelRecord) -> None:
        """Start early reconciliations at both gateways."""
        for end in record.ends:
            if link := self._fleet.get(end.gateway):
                link.reconcile_soon()
            else:
                await self._remote.reconcile(end.gateway)

    async def _permit(self, record: SiteTunnelRecord, end: TunnelEnd) -> None:
        """Admit the packets that the peer may send."""
        if link := self._fleet.get(end.gateway):
            await _put(link, end.permits(record.keys.current))
        else:
            await self._ask(_PERMIT, record, end, {"generation": record.keys.current})

    async def _remove(self, gateway: str, batches: list[list[Update]]) -> bool:
        if link := self._fleet.get(gateway):
            return await link.remove(batches)
        return await self._remote.remove(gateway, batches)

    async def _ask(
        self, method: str, record: SiteTunnelRecord, end: TunnelEnd, asked: dict[str, Any]
    ) -> None:
        standing = self._fleet.find_standing(end.gateway)
        if standing is None or not standing.holder:
            raise CulvertError(Reason.GATEWAY_DOWN, gateway=end.gateway)
        body = json.dumps(asked | {"tunnel": str(record.id), "gateway": end.gateway}).encode()
        try:
            await self._calls.ask(standing.holder, method, body)
        except NoAnswerError:
            raise CulvertError(Reason.GATEWAY_DOWN, gateway=end.gateway) from None

    async def _serve_install(self, body: bytes) -> bytes:
        asked = json.loads(body)
        link, record, end = await self._find(asked)
        generation, numbered = asked["generation"], end.pairs.get(asked["generation"])
        # A late or repeated call may name a generation that was deleted, or has other numbers now.
        spi = numbered and numbered[1].to_gateway.spi
        if spi != asked["spi"] or generation <= record.keys.current:
            raise CulvertError(Reason.GENERATION_STALE, current=record.keys.current, asked=generation)
        to_open, to_seal = (bytes.fromhex(key) for key in asked["keys"])
        await _install(link, end, generation, WrappedKeys(to_open, to_seal))
        return b""

    async def _serve_switch(self, body: bytes) -> bytes:
        link, record, end = await self._find_current(json.loads(body))
        await _put(link, end.policy(record.keys.current))
        return b""

    async def _serve_permit(self, body: bytes) -> bytes:
        link, record, end = await self._find_current(json.loads(body))
        await _put(link, end.permits(record.keys.current))
        return b""

    async def _find_current(self, asked: dict[str, Any]) -> tuple[Link, SiteTunnelRecord, TunnelEnd]:
        """As `_find`. Raises CulvertError GENERATION_STALE when another generation is current."""
        link, record, end = await self._find(asked)
        if asked["generation"] != record.keys.current:
            raise CulvertError(
                Reason.GENERATION_STALE, current=record.keys.current, asked=asked["generation"]
            )
        return link, record, end

    async def _find(self, asked: dict[str, Any]) -> tuple[Link, SiteTunnelRecord, TunnelEnd]:
        link = self._fleet.get(asked["gateway"])
        if link is None:
            raise CulvertError(Reason.GATEWAY_DOWN, gateway=asked["gateway"])
        async with self._database() as session:
            found = await repository.records(session, SiteTunnel.id == uuid.UUID(asked["tunnel"]))
        if not found:
            raise CulvertError(Reason.TUNNEL_UNKNOWN)
        return link, found[0], found[0].end(asked["gateway"])


async def _install(link: Link, end: TunnelEnd, generation: int, keys: WrappedKeys) -> None:
    async with link.lock_for_writing():
        await link.apply([install_pair(*end.pairs[generation], keys)])


async def _put(link: Link, wanted: Sequence[Entry]) -> None:
    """Write the entries that are missing or differ."""
    async with link.lock_for_writing():
        there = {entry.key: entry for entry in await link.read_stored(wanted)}
        new = [entry for entry in wanted if entry.key not in there]
        moved = [entry for entry in wanted if entry.key in there and there[entry.key] != entry]
        await link.apply([inserts(*new), modifies(moved, [there[entry.key] for entry in moved])])
