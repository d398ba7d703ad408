"""Permissions that end: by the clock, by a change of what they rest on, by a move of the device.

Every tunnel knows until when and under which count of policy changes it was permitted. What is past either is decided
anew by the same function as at its opening: it goes on, or it is closed and its device told why. A controller that dies
between a change and this leaves tunnels that the next one finds in the same way.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Sequence

from culvert_db import Database
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.decision import facts
from culvert_service.decision.conditions import Denial
from culvert_service.decision.decision import GatewayFact, Permit, decide
from culvert_service.identity.service import Now
from culvert_service.periodic import Periodic
from culvert_service.tunnels import repository
from culvert_service.tunnels.closing import Closing
from culvert_service.tunnels.record import Due
from culvert_service.watch.hub import Hub

# A permission that ends by the clock is over this much later, at most.
_SWEEP_SECONDS = 0.5
# Decided in one go: the event loop has other work between two goes.
_BATCH = 200


class Enforcement:
    def __init__(
        self,
        database: Database,
        hub: Hub,
        closing: Closing,
        now: Now,
        *,
        approval: bool,
    ) -> None:
        self._database = database
        self._hub = hub
        self._closing = closing
        self._now = now
        self._approval = approval
        self._one_at_a_time = asyncio.Lock()
        self._version = 0
        self.sweeps = Periodic("permissions", self.enforce, _SWEEP_SECONDS)

    async def start(self) -> None:
        """Every tunnel is decided anew: settings that count may have changed since the last start."""
        async with self._database.begin() as session:
            await repository.doubt_all(session)
        self.sweeps.start()

    async def stop(self) -> None:
        await self.sweeps.stop()

    async def enforce(self) -> int:
        """After a change is committed: closes what is not permitted any more, tells of new profiles. How many closed."""
        async with self._one_at_a_time:
            await self._tell()
            closed = 0
            while due := await self._list_due():
                closed += await self._settle(due)
            return closed

    async def count_unpermitted(self, session: AsyncSession) -> int:
        """The number of tunnels that would be closed, were the transaction committed as it stands."""
        due = await repository.list_due(session, self._now(), None)
        closed = 0
        for start in range(0, len(due), _BATCH):
            batch = due[start : start + _BATCH]
            closed += sum(isinstance(self._decide(tunnel), Denial) for tunnel in batch)
            await asyncio.sleep(0)
        return closed

    async def _tell(self) -> None:
        async with self._database() as session:
            version = await repository.read_policy_version(session)
        if version != self._version:
            self._version = version
            self._hub.profiles_changed()

    async def _list_due(self) -> list[Due]:
        async with self._database() as session:
            return await repository.list_due(session, self._now(), _BATCH)

    async def _settle(self, due: Sequence[Due]) -> int:
        permitted: list[tuple[Due, datetime.datetime]] = []
        denied: list[tuple[Due, CulvertError]] = []
        for tunnel in due:
            match self._decide(tunnel):
                case Permit(until=until) if tunnel.served:
                    permitted.append((tunnel, until))
                case Permit(until=until):
                    # Another gateway was to have it by then (refit.py).
                    until = min(until, tunnel.old_until)
                    if until > self._now():
                        permitted.append((tunnel, until))
                    else:
                        what = Phrase("the resource {name}", name=tunnel.resource.name)
                        denied.append((tunnel, CulvertError(Reason.TUNNEL_OUTDATED, what=what)))
                case Denial() as denial:
                    denied.append((tunnel, denial.error()))
        if permitted:
            async with self._database.begin() as session:
                await repository.permit(session, permitted)
        return await self._closing.close_denied(denied) if denied else 0

    def _decide(self, tunnel: Due) -> Permit | Denial:
        # Whether its gateway answers is not a matter of permission: the reconciler sees to that.
        return decide(
            facts.asker(tunnel.device, tunnel.device.user, tunnel.peer_address),
            tunnel.resource.fqdn,
            facts.target(tunnel.resource, tunnel.policies, approval=self._approval),
            [GatewayFact(tunnel.gateway, online=True)],
            "",
            self._now(),
        ).verdict
