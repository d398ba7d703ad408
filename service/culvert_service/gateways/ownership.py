"""Ownership: decides which gateways this controller programs, and shares their standing among the controllers.

 every third of a lease, and at each notice of a change:
   raise epochs that are too low for their gateway ─► give one gateway away, if another controller has fewer ─► release
   gateways whose own connection is lost ─► renew own leases, and claim a share of the free gateways ─► report the state
   of the own gateways ─► read all gateways

A gateway that connects itself is claimed only by a controller that it is connected to. It may exceed the share when no
other controller could have it.

A controller that dies, or cannot reach the database, loses its gateways when their leases end. If it still writes, the
gateway refuses: the epoch is the election id, and the next owner's is higher.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from typing import Any

from asyncpg import InterfaceError, InternalClientError, PostgresError
from culvert_db import GATEWAYS_CHANNEL, Database, Gateway
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.controllers.identity import ControllerId
from culvert_service.gateways import repository
from culvert_service.gateways.config import GatewayConfig, config_of
from culvert_service.gateways.dialled import Dialled
from culvert_service.gateways.fleet import Fleet, Standing
from culvert_service.gateways.health import Report
from culvert_service.gateways.link import GatewayEvents, Link
from culvert_service.pki.master_key import MasterKey
from culvert_service.tasks import Periodic
from culvert_service.watch.hub import Hub

_log = logging.getLogger(__name__)


class Leases:
    """Releases this controller's leases at its end, after the links, so that others need not wait until they expire."""

    def __init__(self, database: Database, me: ControllerId) -> None:
        self._database = database
        self._me = me

    async def start(self) -> None:
        """`Ownership` claims the leases."""

    async def stop(self) -> None:
        with contextlib.suppress(
            SQLAlchemyError, PostgresError, InterfaceError, InternalClientError, OSError
        ):
            async with self._database.begin() as session:
                await repository.release_gateways(session, self._me.holder)


class Ownership:
    channel = GATEWAYS_CHANNEL

    def __init__(
        self,
        database: Database,
        fleet: Fleet,
        dialled: Dialled,
        events: GatewayEvents,
        me: ControllerId,
        master_key: MasterKey,
        hub: Hub,
        lease_seconds: float,
    ) -> None:
        self._database = database
        self._fleet = fleet
        self._dialled = dialled
        self._events = events
        self._me = me
        self._master_key = master_key
        self._hub = hub
        self._seconds = lease_seconds
        self._parsed: dict[int, tuple[tuple[dict[str, Any], Sequence[object]], GatewayConfig]] = {}
        self._higher_ids: dict[int, int] = {}
        self._reported: dict[int, Report] = {}
        # The gateways when `changed` was last called.
        self._gateways: dict[str, tuple[GatewayConfig, bool, bool]] = {}
        self._gives_again = 0.0
        # The beginning of the last look that reached the database.
        self._renewed_at: float | None = None
        self.looks = Periodic("ownership", self.look, lease_seconds / 3)
        self._one_at_a_time = asyncio.Lock()
        dialled.tell(self.looks.wake)

    async def start(self) -> None:
        """Returns with links to all owned gateways. Raises database errors."""
        await self.look()
        self.looks.start()

    async def stop(self) -> None:
        """Stop claiming gateways, before the links end."""
        await self.looks.stop()

    def hear(self, payload: str | None) -> None:
        """For the listener."""
        if payload is None:
            # With the notifications, calls to remove entries of closed tunnels may be lost.
            for link in self._fleet:
                link.reconcile_soon()
        self.looks.wake()

    def lost_to_election_id(self, link: Link, highest: int) -> None:
        """Raise the epoch above `highest`, which the gateway has seen, if this controller still has the lease."""
        self._higher_ids[link.config.id] = highest
        self.looks.wake()

    def report_state(self, link: Link) -> None:
        """Publish the state of a link that went online or offline, or repaired drift."""
        self._fleet.wake_waiting()
        self.looks.wake()
        self._tell_if_changed()

    async def look(self) -> None:
        """Renew the leases and update the links. Raises database errors; the links then stay as before."""
        async with self._one_at_a_time:
            # After an outage of the database all leases have ended: each owner renews its own before others may claim them.
            now = time.monotonic()
            free = self._renewed_at is None or now - self._renewed_at < self._seconds * 2 / 3
            async with self._database.begin() as session:
                for gateway_id, highest in self._higher_ids.items():
                    await repository.raise_epoch(session, gateway_id, self._me.holder, highest)
                await repository.renew_controller(session, self._me, self._seconds)
                connected, lost = self._dialled.connected(), self._dialled.lost()
                await repository.record_connections(session, self._me.holder, connected)
                await self._share(session)
                await repository.release_lost(session, self._me.holder, lost)
                leases = await repository.claim_gateways(
                    session, self._me, self._seconds, connected, lost, free=free
                )
            self._renewed_at = now
            self._higher_ids.clear()
            await self._report(leases)
            async with self._database() as session:
                seen = await repository.gateway_rows(session)
            self._dialled.register(
                {
                    it.gateway.name: int(it.gateway.created_at.timestamp())
                    for it in seen
                    if it.gateway.p4runtime_address is None
                }
            )
            await self._settle(leases, seen)
        self._tell_if_changed()

    async def _share(self, session: AsyncSession) -> None:
        # Give gateways away one at a time, with a pause.
        if time.monotonic() < self._gives_again:
            return
        given = await repository.give_gateway(session, self._me, self._seconds)
        if given is not None:
            self._gives_again = time.monotonic() + self._seconds
            _log.info("a gateway is given to a controller with fewer gateways", extra={"gateway": given})

    async def _report(self, leases: dict[int, int]) -> None:
        reports: dict[int, Report] = {}
        for link in self._fleet:
            if leases.get(link.config.id) == link.epoch:
                reports[link.config.id] = link.report()
        news = {key: report for key, report in reports.items() if self._reported.get(key) != report}
        if news:
            async with self._database.begin() as session:
                for gateway_id, report in sorted(news.items()):
                    await repository.record_health(
                        session, gateway_id, report, self._reported.get(gateway_id)
                    )
        self._reported = reports

    async def _settle(self, leases: dict[int, int], seen: list[repository.GatewayRow]) -> None:
        standings: dict[str, Standing] = {}
        for one in seen:
            config = self._config(one)
            draining = one.gateway.draining_since is not None
            standings[config.name] = Standing(
                config, one.owner, one.holder, one.epoch, one.online, one.reason, draining
            )
            if (epoch := leases.get(config.id)) is not None:
                self._fleet.own(config, epoch, self._events, self)
        # Publish the new owner before the link here ends.
        self._fleet.set_standings(standings)
        ours = {name for name, standing in standings.items() if standing.config.id in leases}
        for link in list(self._fleet):
            if link.name not in ours:
                standing = standings.get(link.name)
                why = (
                    "not registered any more"
                    if standing is None
                    else standing.reason or "another controller's"
                )
                _log.warning(
                    "this controller does not own the gateway", extra={"gateway": link.name, "why": why}
                )
                await self._fleet.leave(link.name)

    def _config(self, seen: repository.GatewayRow) -> GatewayConfig:
        gateway = seen.gateway
        columns = {column.key: getattr(gateway, column.key) for column in Gateway.__table__.columns}
        of_others = [(it.side, it.address, it.mac) for it in seen.neighbours]
        row = columns, [*of_others, *((it.id, it.version) for it in seen.hosts)]
        known = self._parsed.get(gateway.id)
        if known is None or known[0] != row:
            config = config_of(gateway, self._master_key, seen.neighbours, seen.hosts)
            known = self._parsed[gateway.id] = (row, config)
        return known[1]

    def _tell_if_changed(self) -> None:
        now = {it.config.name: (it.config, it.online, it.draining) for it in self._fleet.standings()}
        if now != self._gateways:
            self._gateways = now
            self._hub.profiles_changed()
