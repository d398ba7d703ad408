"""Tunnels: opened, renewed, activated, drained, closed. The rules are in lifecycle.py; this carries them out."""

from __future__ import annotations

import asyncio
import datetime
import logging
import uuid
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from culvert_db import ActorKind, Database, InSession, SecurityAssociation, Tunnel, TunnelState
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy import ColumnElement, and_, or_, select, tuple_

from culvert_service.audit.log import CONTROLLER, Actor
from culvert_service.audit.transaction import DirectTransaction, Transaction, begin, direct
from culvert_service.database import clock
from culvert_service.gateways.diff import DesiredTunnel
from culvert_service.gateways.entry import Update, modifies
from culvert_service.gateways.fleet import Elsewhere, Fleet
from culvert_service.gateways.link import Link
from culvert_service.gateways.remote import Remote
from culvert_service.gateways.sa import Endpoint
from culvert_service.gateways.tunnel_entries import install_pair, policy_entries, remove_pair
from culvert_service.identity import repository as identity
from culvert_service.identity.denials import Denials, DeviceCaller
from culvert_service.identity.service import admitted
from culvert_service.metrics.instruments import Instruments
from culvert_service.rest.page import Page
from culvert_service.tunnels import hot_queries, repository
from culvert_service.tunnels.closing import Finish, tell_closed
from culvert_service.tunnels.enforcement import Enforcement
from culvert_service.tunnels.failover import Failover
from culvert_service.tunnels.grant import GrantedPair, PairKeys, Renewed, Timeline
from culvert_service.tunnels.lifecycle import Activate, Drained, Renew, advance
from culvert_service.tunnels.liveness import Liveness
from culvert_service.tunnels.opening import Now, Opened, Opening, OpenRequest
from culvert_service.tunnels.programming import NoTurn, allocate_pair, in_turn, program_and_commit
from culvert_service.tunnels.record import TunnelRecord
from culvert_service.tunnels.refit import Refit
from culvert_service.tunnels.repository import Due
from culvert_service.tunnels.restoring import Restoring
from culvert_service.tunnels.roaming import Peer, Roaming
from culvert_service.tunnels.schemas import TunnelOut
from culvert_service.watch.hub import Hub, SaExpiring, TunnelClosed
from culvert_service.watch.pushes import Pushes

_log = logging.getLogger(__name__)

# Set-ups and renewals that are under way. More would not end sooner; but each would take so long that a gateway which
# answers at once seems not to.
_AT_ONCE = 16

_Result = TypeVar("_Result")


class Tunnels:
    def __init__(
        self,
        database: Database,
        fleet: Fleet,
        remote: Remote,
        hub: Hub,
        pushes: Pushes,
        denials: Denials,
        instruments: Instruments,
        now: Now,
        *,
        drain: datetime.timedelta,
        approval: bool,
    ) -> None:
        """`drain`: how long the pair before stays good for inbound packets after an activation. `approval`: no policy lets
        in a device that no administrator has approved."""
        self.drain = drain
        self._database = database
        self._fleet = fleet
        self._remote = remote
        self._hub = hub
        self._pushes = pushes
        self._denials = denials
        self._instruments = instruments
        self._now = now
        self._restoring = Restoring(database, hub, pushes, self._close_lost, self._spawn_restoring)
        self._opening = Opening(
            database, fleet, self._restoring, instruments, now, drain=drain, approval=approval
        )
        self.enforcement = Enforcement(database, hub, self._close_due, now, approval=approval)
        self.refit = Refit(self._close_held, now)
        self._failover = Failover(database, fleet, hub)
        self._liveness = Liveness(database, fleet, pushes, self.close)
        self.traffic = self._liveness.traffic
        self._roaming = Roaming(database, self._spawn)
        self._in_flight: dict[OpenRequest, asyncio.Task[Opened | Elsewhere]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def start(self) -> None:
        await self._opening.warm_up()
        await self.enforcement.start()
        self._failover.start()
        self._liveness.start()

    async def open(self, request: OpenRequest) -> Opened | Elsewhere:
        """Idempotent for a device and a name; equal requests at once share one answer.

        Elsewhere, here and below: another controller has the gateway, and is to be asked. Raises CulvertError.
        """
        task = self._in_flight.get(request)
        if task is None:
            task = self._in_flight[request] = self._spawn(self._open(request))
            task.add_done_callback(lambda _: self._in_flight.pop(request, None))
        # A caller that hangs up does not stop a set-up half-way, nor take it from another caller.
        return await asyncio.shield(task)

    async def renew(self, caller: DeviceCaller, tunnel_id: uuid.UUID, generation: int) -> Renewed | Elsewhere:
        """The next pair, for which the gateway is ready. Raises CulvertError TUNNEL_UNKNOWN, GENERATION_STALE, …"""
        renewing = partial(self._renew, caller, tunnel_id, generation)
        return await asyncio.shield(self._spawn(self._telling(caller, "tunnel.renew", tunnel_id, renewing)))

    async def activate(self, caller: DeviceCaller, tunnel_id: uuid.UUID, generation: int) -> Elsewhere | None:
        """Moves the gateway's outbound traffic; the pair before drains. Idempotent."""
        activating = partial(self._activate, caller, tunnel_id, generation)
        return await asyncio.shield(
            self._spawn(self._telling(caller, "tunnel.activate", tunnel_id, activating))
        )

    async def set_path_mtu(self, caller: DeviceCaller, tunnel_id: uuid.UUID, mtu: int) -> Elsewhere | None:
        """The gateway's policies hold to it. Idempotent."""
        setting = partial(self._set_path_mtu, caller, tunnel_id, mtu)
        return await asyncio.shield(self._spawn(self._telling(caller, "tunnel.path_mtu", tunnel_id, setting)))

    async def close_by_device(self, caller: DeviceCaller, tunnel_id: uuid.UUID, why: CulvertError) -> None:
        """A tunnel that is closed already is fine; another device's is TUNNEL_UNKNOWN."""
        async with begin(self._database, caller.actor) as transaction:
            found = await identity.device_by_fingerprint(transaction.session, caller.fingerprint)
            device = admitted(found, caller.fingerprint, self._now())
            record = await hot_queries.locked(transaction, tunnel_id)
            if record is not None and record.device_id != device.id:
                raise CulvertError(Reason.TUNNEL_UNKNOWN)
            taken = await repository.take(transaction, Tunnel.id == tunnel_id)
            actor = caller.actor.known_as(ActorKind.DEVICE, device.id)
            tell_closed(transaction, taken, lambda _: why, actor)
        await asyncio.shield(self._spawn(self._clear(taken)))

    async def close(self, by: Actor, why: CulvertError, *which: ColumnElement[bool]) -> int:
        """Closes the tunnels that match, and tells their devices why. How many."""
        async with begin(self._database, by) as transaction:
            finish = await self.close_within(transaction, lambda _: why, *which)
        return await finish()

    async def close_within(
        self,
        transaction: Transaction,
        why: Callable[[TunnelRecord], CulvertError],
        *which: ColumnElement[bool],
    ) -> Finish:
        """The same inside a transaction; call what it returns after the commit."""
        return await self._close_taken(transaction, await repository.take(transaction, *which), why)

    async def _close_held(
        self, transaction: Transaction, held: Sequence[TunnelRecord], why: CulvertError
    ) -> Finish:
        """The same of tunnels that the transaction has locked, as they were then."""
        await repository.delete(transaction.session, [record.id for record in held])
        return await self._close_taken(transaction, held, lambda _: why)

    async def _close_taken(
        self,
        transaction: Transaction,
        taken: Sequence[TunnelRecord],
        why: Callable[[TunnelRecord], CulvertError],
    ) -> Finish:
        tell_closed(transaction, taken, why, None)
        told = [(record.device_id, TunnelClosed(record.id, why(record))) for record in taken]
        await self._pushes.tell(transaction.session, told)

        async def finish() -> int:
            for device_id, closed in told:
                _log.info(
                    "tunnel closes", extra={"tunnel": str(closed.tunnel_id), "why": closed.why.reason.name}
                )
                self._hub.tell(device_id, closed)
            # Not its outcome: a link that ends cancels what waits for it, and the reconciler does the rest.
            await asyncio.wait([self._spawn(self._clear(taken))])
            return len(taken)

        return finish

    async def close_of_device(self, by: Actor, device_id: uuid.UUID) -> int:
        """For a revocation."""
        why = CulvertError(Reason.CLOSED_BY_ADMIN, why=Phrase("the device was revoked"))
        return await self.close(by, why, Tunnel.device_id == device_id)

    async def close_of_devices(self, transaction: Transaction, devices: Collection[uuid.UUID]) -> Finish:
        """For a person's deletion, in its transaction."""
        why = CulvertError(Reason.CLOSED_BY_ADMIN, why=Phrase("the person was deleted"))
        return await self.close_within(transaction, lambda _: why, Tunnel.device_id.in_(devices))

    async def close_sas(self, link: Link, sas: Collection[int], why: CulvertError) -> int:
        """Close the tunnels that now use these SAs of the gateway. Tunnels that only drain these SAs stay."""
        of_tunnel = (
            select(SecurityAssociation.id)
            .where(SecurityAssociation.tunnel_id == Tunnel.id)
            .where(SecurityAssociation.generation == Tunnel.generation)
            .where(SecurityAssociation.gateway_id == link.config.id, SecurityAssociation.sa_id.in_(sas))
        )
        return await self.close(CONTROLLER, why, of_tunnel.exists())

    async def close_to_resource(self, transaction: Transaction, resource_id: int) -> Finish:
        """For a resource's deletion, in its transaction."""
        why = CulvertError(Reason.CLOSED_BY_ADMIN, why=Phrase("the resource was withdrawn"))
        return await self.close_within(transaction, lambda _: why, Tunnel.resource_id == resource_id)

    async def list(self, page: Page) -> list[TunnelOut]:
        async with self._database() as session:
            found = await repository.listed(session, page.by(datetime.datetime, uuid.UUID))
        shown = page.cut(found, lambda one: (one.tunnel.opened_at, one.tunnel.id))
        return [TunnelOut.of(listed) for listed in shown]

    async def desired(self, database: Database, gateway_id: int) -> AsyncGenerator[Sequence[DesiredTunnel]]:
        """For the reconciler. A tunnel whose device has not renewed its keys in their whole life is closed."""
        async with database.begin() as session:
            now = await clock(session)
            await repository.forget_drained(session, gateway_id)

        async def read(after: Endpoint | None) -> repository.Portion | None:
            async with database() as session:
                return await repository.on_gateway(session, gateway_id, after)

        reading = asyncio.create_task(read(None))
        try:
            while portion := await reading:
                # Postgres is at work on the next one meanwhile.
                reading = asyncio.create_task(read(portion.last))
                # Beside, because a thousand take longer than whoever opens a tunnel meanwhile should wait.
                found = await asyncio.to_thread(portion.records)
                over = [it for it in found if it.ends_at is not None and it.ends_at <= now]
                if over:
                    which = or_(*(_as_it_was(record.id, record.generations.current) for record in over))
                    # Beside: whoever reconciles has the gateway to itself.
                    self._spawn(self.close(CONTROLLER, CulvertError(Reason.CLOSED_IDLE), which))
                yield [record.desired() for record in found]
        finally:
            reading.cancel()

    async def lost(self, link: Link, tunnels: Sequence[DesiredTunnel]) -> None:
        """For the reconciler: these SAs are gone from the gateway."""
        await self._restoring.restore(link, tunnels)

    async def soft_limit(self, link: Link, sa_id: int) -> None:
        """Asks the device to renew."""
        async with self._database() as session:
            record = await repository.by_sa(session, link.config.id, sa_id)
        if record is None:
            return
        current = record.pairs[record.generations.current]
        if sa_id in (current.to_gateway.sa_id, current.to_device.sa_id):
            expiring = SaExpiring(record.id, record.generations.current)
            await self._pushes.tell_elsewhere(record.device_id, expiring)

    def moved(self, link: Link, sa_id: int, peer_address: str, peer_port: int) -> None:
        """For a gateway's digest: it has authenticated a packet from there."""
        self._roaming.moved(link, sa_id, Peer(peer_address, peer_port))

    async def stop(self) -> None:
        """Lets what is under way finish; what drains is finished by the next start's reconciliation."""
        await self._liveness.stop()
        await self._failover.stop()
        await self.enforcement.stop()
        for task in self._tasks:
            if task.get_name().startswith(("drain", "restore")):
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _open(self, request: OpenRequest) -> Opened | Elsewhere:
        timeline = Timeline()
        async with (
            self._turns,
            self._denials.telling(
                request.caller.actor,
                request.caller.fingerprint,
                "tunnel.open",
                f"name/{request.fqdn}",
                {"asked": request.asked},
            ),
        ):
            opened = await self._opening.open(request, timeline)
        if isinstance(opened, Elsewhere):
            return opened
        tunnel = opened.tunnel
        _log.info(
            "tunnel opened",
            extra={
                "tunnel": str(tunnel.id),
                "fqdn": tunnel.fqdn,
                "gateway": tunnel.gateway,
                "generation": tunnel.pair.generation,
                "decided_us": opened.timeline.decided_us,
                "programmed_us": opened.timeline.programmed_us,
            },
        )
        if opened.draining is not None:
            self._drain_later(tunnel.id, tunnel.gateway, opened.draining)
        if opened.leftovers:
            self._spawn(self._remove(tunnel.gateway, [opened.leftovers]))
        if (replaced := opened.replaced) is not None and replaced.gateway == tunnel.gateway:
            self._spawn(self._clear([replaced]))
        elif replaced is not None:
            self._instruments.failovers.labels(replaced.gateway).inc()
            self._spawn(self._leave(replaced), name=f"drain {replaced.id}")
        return opened

    async def _telling(
        self,
        caller: DeviceCaller,
        action: str,
        tunnel_id: uuid.UUID,
        work: Callable[[], Awaitable[_Result | NoTurn]],
    ) -> _Result:
        denials = self._denials.telling(caller.actor, caller.fingerprint, action, f"tunnel/{tunnel_id}")
        async with self._turns, denials:
            return await in_turn(work)

    async def _renew(
        self, caller: DeviceCaller, tunnel_id: uuid.UUID, generation: int
    ) -> Renewed | Elsewhere | NoTurn:
        timeline = Timeline()
        async with direct(self._database, caller.actor) as transaction:
            record = await self._own(transaction, caller.fingerprint, tunnel_id)
            step = advance(record.generations, Renew(generation))
            assert step.install is not None
            link = self._find_online(record.gateway)
            if isinstance(link, Elsewhere):
                return link
            tag = record.pairs[record.generations.current].tag
            pair = await allocate_pair(
                transaction, record.id, record.device_id, link, step.install, tag, renewing=True
            )
            await hot_queries.delete_generations(transaction, record.id, step.remove)
            keys = PairKeys.new(record.path.suite)
            install = install_pair(record.path, pair, keys.wrapped(link.config.key_wrap))
            if none := await program_and_commit(transaction, link, [install], timeline.programmed):
                return none
        leftovers = [
            update for gone in step.remove for update in remove_pair(record.path, record.pairs[gone])
        ]
        if leftovers:
            await link.remove([leftovers])
        self._instruments.rekeys.labels("device").inc()
        _log.info(
            "tunnel renewed",
            extra={
                "tunnel": str(tunnel_id),
                "generation": pair.generation,
                "programmed_us": timeline.programmed_us,
            },
        )
        return Renewed(GrantedPair.of(pair, keys, record.path), timeline)

    async def _activate(
        self, caller: DeviceCaller, tunnel_id: uuid.UUID, generation: int
    ) -> Elsewhere | NoTurn | None:
        async with direct(self._database, caller.actor) as transaction:
            record = await self._own(transaction, caller.fingerprint, tunnel_id)
            step = advance(record.generations, Activate(generation))
            if step.switch is None or step.drain is None:
                return None
            link = self._find_online(record.gateway)
            if isinstance(link, Elsewhere):
                return link
            sa_id = record.pairs[step.switch].to_device.sa_id
            switch = modifies(policy_entries(record.path, sa_id), record.policy())
            await hot_queries.drain_generation(transaction, record.id, step.drain, self.drain)
            await hot_queries.update_tunnel(
                transaction, record.id, state=TunnelState.UP, generation=step.generations.current
            )
            if none := await program_and_commit(transaction, link, [switch]):
                return none
        self._drain_later(tunnel_id, link.name, step.drain)
        _log.info("tunnel switched", extra={"tunnel": str(tunnel_id), "generation": generation})
        return None

    async def _set_path_mtu(
        self, caller: DeviceCaller, tunnel_id: uuid.UUID, mtu: int
    ) -> Elsewhere | NoTurn | None:
        async with direct(self._database, caller.actor) as transaction:
            record = await self._own(transaction, caller.fingerprint, tunnel_id)
            path = replace(record.path, path_mtu=mtu)
            if path == record.path:
                return None
            link = self._find_online(record.gateway)
            if isinstance(link, Elsewhere):
                return link
            sa_id = record.pairs[record.generations.current].to_device.sa_id
            policy = policy_entries(path, sa_id)
            changes = [*record.refitted(path), *modifies(policy, record.policy())]
            await hot_queries.update_tunnel(transaction, record.id, path_mtu=mtu)
            batches = [changes] if policy != record.policy() else []
            if none := await program_and_commit(transaction, link, batches):
                return none
        _log.info("tunnel refitted", extra={"tunnel": str(tunnel_id), "inner_mtu": path.inner_mtu})
        return None

    async def _drain(self, tunnel_id: uuid.UUID, gateway: str, generation: int) -> None:
        await asyncio.sleep(self.drain.total_seconds())
        async with self._database.begin() as session:
            statements = InSession(session)
            record = await hot_queries.locked(statements, tunnel_id)
            if record is None or generation not in record.generations.draining:
                self._forgotten(gateway)
                return
            gone = advance(record.generations, Drained(generation)).remove
            await hot_queries.delete_generations(statements, tunnel_id, gone)
        removal = [update for one in gone for update in remove_pair(record.path, record.pairs[one])]
        await self._remove(gateway, [removal])

    async def _leave(self, tunnel: TunnelRecord) -> None:
        await asyncio.sleep(self.drain.total_seconds())
        async with self._database.begin() as session:
            left = await repository.take(InSession(session), Tunnel.id == tunnel.id)
        if not left:
            self._forgotten(tunnel.gateway)
        await self._clear(left)

    def _forgotten(self, gateway: str) -> None:
        """Reconciles soon: another reconciliation removed the rows before this one, but not the entries."""
        if link := self._fleet.get(gateway):
            link.reconcile_soon()

    async def _close_lost(self, link: Link, tunnels: Sequence[tuple[uuid.UUID, int]]) -> None:
        why = CulvertError(Reason.SA_LOST, gateway=link.name)
        await self.close(CONTROLLER, why, tuple_(Tunnel.id, Tunnel.generation).in_(tunnels))

    async def _close_due(self, denied: Sequence[tuple[Due, CulvertError]]) -> int:
        why = {tunnel.id: error for tunnel, error in denied}
        which = or_(*(tunnel.as_it_was() for tunnel, _ in denied))
        # The first to look closes the tunnels: the call that ended a permission, or a sweep of any controller.
        async with begin(self._database, CONTROLLER) as transaction:
            finish = await self.close_within(transaction, lambda record: why[record.id], which)
        return await finish()

    async def _own(
        self, transaction: DirectTransaction, fingerprint: bytes, tunnel_id: uuid.UUID
    ) -> TunnelRecord:
        found = await hot_queries.owned(transaction, fingerprint, tunnel_id)
        device = found[0] if found else await identity.held(transaction, fingerprint)
        admitted(device, fingerprint, self._now())
        if found is None or found[1].leaving:
            raise CulvertError(Reason.TUNNEL_UNKNOWN)
        return found[1]

    def _find_online(self, gateway: str) -> Link | Elsewhere:
        """Raises CulvertError GATEWAY_DOWN."""
        link = self._fleet.find(gateway)
        if isinstance(link, Elsewhere):
            return link
        if link is None or not link.online:
            raise CulvertError(Reason.GATEWAY_DOWN, gateway=gateway)
        return link

    async def _clear(self, records: Sequence[TunnelRecord]) -> None:
        """Takes closed tunnels off their gateways; the reconciler does what cannot be done now."""
        elsewhere: defaultdict[str, list[list[Update]]] = defaultdict(list)
        for record in records:
            _log.info("tunnel closed", extra={"tunnel": str(record.id), "gateway": record.gateway})
            if self._fleet.get(record.gateway) is None:
                elsewhere[record.gateway] += record.removal()
            else:
                await self._remove(record.gateway, record.removal())
        for gateway, batches in elsewhere.items():
            await self._remove(gateway, batches)

    async def _remove(self, gateway: str, batches: Sequence[Sequence[Update]]) -> None:
        if link := self._fleet.get(gateway):
            await link.remove(batches)
        else:
            await self._remote.remove(gateway, batches)

    def _spawn_restoring(self, work: Coroutine[Any, Any, None]) -> None:
        self._spawn(work, name="restore")

    def _drain_later(self, tunnel_id: uuid.UUID, gateway: str, generation: int) -> None:
        self._spawn(self._drain(tunnel_id, gateway, generation), name=f"drain {tunnel_id}")

    def _spawn(self, work: Coroutine[Any, Any, _Result], *, name: str | None = None) -> asyncio.Task[_Result]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, CulvertError):
            _log.error("a tunnel's task failed", exc_info=error, extra={"task": task.get_name()})


def _as_it_was(tunnel_id: uuid.UUID, generation: int) -> ColumnElement[bool]:
    """A tunnel that was opened anew in the meantime has another generation, and stays."""
    return and_(Tunnel.id == tunnel_id, Tunnel.generation == generation)
