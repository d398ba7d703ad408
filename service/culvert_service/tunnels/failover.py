"""Failover: asks devices to open their tunnels again, so that the decision picks another gateway.

 links ─► Outages: gone gateways ──► their tunnels that another gateway serves ─► Watch ─► OpenTunnel, as at any time
 rows ──► draining gateways ───────┤
          tunnels refit.py marks ──┘

The reconciler deletes a tunnel's entries at a gone gateway when that gateway comes back. At a gateway that works, the
old entries drain beside the new tunnel. A device that does not watch or does not call is asked again as long as its
tunnel exists, so a lost message does no harm.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from culvert_db import Database
from culvert_proto import CulvertError, Reason

from culvert_service.gateways.fleet import Fleet, Standing
from culvert_service.tasks import Periodic
from culvert_service.tunnels import repository
from culvert_service.tunnels.record import Stranded
from culvert_service.watch.hub import GatewayMoved, Hub

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.25
_SWEEP_SECONDS = 2.0
# A device that has not called after this time is asked again.
_PATIENCE_SECONDS = 5.0
# At most this many working tunnels are moved in one sweep.
_WORKING_AT_ONCE = 200
# Our tunables, in seconds after the last answer. A link that comes back earlier moves no tunnel.
GONE_SECONDS = 2.0
# The same for another controller's gateway, since its owner last reported it online: the owner has waited already.
TOLD_SECONDS = 0.5
# A gateway that this controller never reached may still carry its tunnels.
UNKNOWN_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class GatewayContact:
    """Whether a gateway answers, and the time of its last answer (None: never). `ours`: this controller owns it."""

    alive: bool
    answered_at: float | None
    ours: bool = True


class Outages:
    """Decides which gateways are gone, after a wait for links that have just broken and for gateways never reached.

    Pure; times are monotonic, in seconds.
    """

    def __init__(self) -> None:
        self._unknown_since: dict[str, float] = {}

    def find_gone(self, gateways: Mapping[str, GatewayContact], now: float) -> frozenset[str]:
        unknown = (name for name, seen in gateways.items() if seen.answered_at is None)
        self._unknown_since = {name: self._unknown_since.get(name, now) for name in unknown}
        return frozenset(
            name for name, seen in gateways.items() if not seen.alive and self._is_over(name, seen, now)
        )

    def _is_over(self, name: str, seen: GatewayContact, now: float) -> bool:
        if seen.answered_at is None:
            return now - self._unknown_since[name] >= UNKNOWN_SECONDS
        return now - seen.answered_at >= (GONE_SECONDS if seen.ours else TOLD_SECONDS)


class Failover:
    def __init__(self, database: Database, fleet: Fleet, hub: Hub) -> None:
        self._database = database
        self._fleet = fleet
        self._hub = hub
        self._outages = Outages()
        # For other controllers' gateways: the epoch in which they were last online, and the time.
        self._told: dict[str, tuple[int, float]] = {}
        self._gone: frozenset[str] = frozenset()
        self._drains: frozenset[str] = frozenset()
        self._swept = 0.0
        self._asked: dict[uuid.UUID, float] = {}
        self._looks = Periodic("failover", self._look, _LOOK_SECONDS)

    def start(self) -> None:
        self._looks.start()

    async def stop(self) -> None:
        await self._looks.stop()

    async def _look(self) -> None:
        now = time.monotonic()
        gone = self._outages.find_gone(
            {standing.config.name: self._describe(standing, now) for standing in self._fleet.standings()}, now
        )
        if gone - self._gone:
            _log.warning("gateways are gone", extra={"gateways": sorted(gone)})
        drains = frozenset(one.config.name for one in self._fleet.standings() if one.draining)
        news = (gone | drains) - self._gone - self._drains
        due = bool(news) or now - self._swept >= _SWEEP_SECONDS
        self._gone, self._drains = gone, drains
        if due:
            self._swept = now
            await self._sweep(now)

    def _describe(self, standing: Standing, now: float) -> GatewayContact:
        name = standing.config.name
        if (link := self._fleet.get(name)) is not None:
            return GatewayContact(link.alive, link.answered_at)
        if standing.online:
            self._told[name] = (standing.epoch, now)
        # A gateway without an owner, or one that its new owner has not reached yet, may still work.
        epoch, at = self._told.get(name, (0, 0.0))
        return GatewayContact(
            standing.online, at if standing.holder and epoch == standing.epoch else None, ours=False
        )

    async def _sweep(self, now: float) -> None:
        standings = self._fleet.standings()
        usable = [one.config.name for one in standings if one.online and not one.draining]
        async with self._database() as session:
            stranded = await repository.list_stranded(session, self._gone, self._drains, usable)
        self._asked = {one.id: self._asked[one.id] for one in stranded if one.id in self._asked}
        # First the devices that were never asked, then those that did not answer.
        waiting = sorted(stranded, key=lambda one: self._asked.get(one.id, 0.0))
        asked, working = 0, 0
        for one in waiting:
            if now - self._asked.get(one.id, -_PATIENCE_SECONDS) < _PATIENCE_SECONDS:
                continue
            works = one.gateway not in self._gone
            if not self._hub.watches(one.device_id) or (works and working == _WORKING_AT_ONCE):
                continue
            why = CulvertError(self._find_cause(one), name=one.fqdn, gateway=one.gateway)
            self._hub.send(one.device_id, GatewayMoved(one.id, why))
            self._asked[one.id] = now
            asked, working = asked + 1, working + works
        if asked:
            gateways = sorted({one.gateway for one in stranded})
            _log.info("devices are asked to move", extra={"tunnels": asked, "gateways": gateways})

    def _find_cause(self, tunnel: Stranded) -> Reason:
        if tunnel.gateway in self._gone:
            return Reason.GATEWAY_DOWN
        return Reason.GATEWAY_DRAINING if tunnel.gateway in self._drains else Reason.GATEWAY_REPLACED
