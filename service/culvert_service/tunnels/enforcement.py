"""Permissions that end: at their time, after a change of policies or facts, after a move of the device.

Every tunnel stores until when, and under which policy version, it was permitted. When the time has passed or the version
has changed, the function that decided about its opening decides again: the tunnel stays, or it is closed and its device
gets the cause. If a controller dies between a change and this check, the next controller finds the same tunnels.
"""

from __future__ import annotations

import asyncio
import datetime
import uuid
from collections.abc import Sequence

from culvert_db import Database
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.decision import facts
from culvert_service.decision.conditions import Denial
from culvert_service.decision.decision import GatewayFact, Permit, decide
from culvert_service.decision.uses import PolicyUses
from culvert_service.identity.service import Now
from culvert_service.tasks import Periodic
from culvert_service.tunnels import repository
from culvert_service.tunnels.closing import Closing
from culvert_service.tunnels.record import Due
from culvert_service.watch.hub import Hub

# A tunnel is closed at most this long after its permission has ended.
_SWEEP_SECONDS = 0.5
# Tunnels decided in one batch: the event loop does other work between two batches.
_BATCH = 200


class Enforcement:
    def __init__(
        self,
        database: Database,
        hub: Hub,
        closing: Closing,
        uses: PolicyUses,
        now: Now,
        *,
        approval: bool,
    ) -> None:
        self._database = database
        self._hub = hub
        self._closing = closing
        self._uses = uses
        self._now = now
        self._approval = approval
        self._one_at_a_time = asyncio.Lock()
        self._version = 0
        self.sweeps = Periodic("permissions", self.enforce, _SWEEP_SECONDS)

    async def start(self) -> None:
        """Decide about every tunnel again: settings that decide may have changed since the last start."""
        async with self._database.begin() as session:
            await repository.doubt_all(session)
        self.sweeps.start()

    async def stop(self) -> None:
        await self.sweeps.stop()

    async def enforce(self) -> None:
        """After a commit, close tunnels that are no longer permitted and announce new profiles."""
        async with self._one_at_a_time:
            await self._tell()
            while due := await self._list_due():
                await self._settle(due)

    async def enforce_on(self, tunnels: Sequence[uuid.UUID]) -> int:
        """Enforce; return how many of the tunnels, listed before the commit, are closed.

        The sweep of any controller can close them before this call does.
        """
        await self.enforce()
        async with self._database() as session:
            return len(tunnels) - await repository.count_open(session, tunnels)

    async def count_unpermitted(self, session: AsyncSession) -> int:
        """The number of tunnels that a commit of the transaction would close."""
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

    async def _settle(self, due: Sequence[Due]) -> None:
        permitted: list[tuple[Due, datetime.datetime]] = []
        denied: list[tuple[Due, CulvertError]] = []
        for tunnel in due:
            decided = self._decide(tunnel)
            if isinstance(decided, Permit):
                self._uses.note(decided.policies)
            match decided:
                case Permit(until=until) if tunnel.served:
                    permitted.append((tunnel, until))
                case Permit(until=until):
                    # The tunnel's time to move to another gateway ends then (refit.py).
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
        if denied:
            await self._closing.close_denied(denied)

    def _decide(self, tunnel: Due) -> Permit | Denial:
        # A gateway that does not answer ends no permission: failover.py moves the tunnel.
        return decide(
            facts.asker(tunnel.device, tunnel.device.user, tunnel.peer_address),
            tunnel.resource.fqdn,
            facts.target(tunnel.resource, tunnel.policies, approval=self._approval),
            [GatewayFact(tunnel.gateway, online=True)],
            "",
            self._now(),
        ).verdict
