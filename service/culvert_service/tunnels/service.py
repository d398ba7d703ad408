"""Tunnels: open, renew, activate, drain, close. lifecycle.py has the rules; this file executes them."""

from __future__ import annotations

import asyncio
import datetime
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from culvert_db import ActorKind, Database, TunnelState, clock
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

from culvert_service.audit.log import CONTROLLER, Actor, Line
from culvert_service.audit.transaction import DirectTransaction, Transaction, begin, direct
from culvert_service.decision.uses import PolicyUses
from culvert_service.gateways.diff import DesiredTunnel
from culvert_service.gateways.entry import modifies
from culvert_service.gateways.fleet import Elsewhere, Fleet
from culvert_service.gateways.link import Link
from culvert_service.gateways.remote import Remote
from culvert_service.gateways.sa import Endpoint
from culvert_service.gateways.tunnel_entries import install_pair, policy_entries, remove_pair
from culvert_service.identity import repository as identity
from culvert_service.identity.denials import Denials, DeviceCaller
from culvert_service.identity.service import Now, check_certificate
from culvert_service.metrics.instruments import Instruments
from culvert_service.rest.page import Page
from culvert_service.tasks import Background
from culvert_service.tunnels import hot_queries, repository
from culvert_service.tunnels.closing import ClosedTunnels, Closing, Draining
from culvert_service.tunnels.enforcement import Enforcement
from culvert_service.tunnels.failover import Failover
from culvert_service.tunnels.lifecycle import Activate, Renew, advance
from culvert_service.tunnels.liveness import Liveness
from culvert_service.tunnels.opening import Opened, Opening, OpenRequest
from culvert_service.tunnels.programming import (
    GrantedPair,
    NoTurn,
    PairKeys,
    Renewed,
    Timeline,
    allocate_pair,
    program_and_commit,
    repeat_in_turn,
)
from culvert_service.tunnels.record import TunnelRecord
from culvert_service.tunnels.refit import Refit
from culvert_service.tunnels.restoring import Restoring
from culvert_service.tunnels.roaming import Peer, Roaming
from culvert_service.tunnels.schemas import TunnelOut
from culvert_service.watch.hub import Hub, SaExpiring
from culvert_service.watch.pushes import Pushes

_log = logging.getLogger(__name__)

# Concurrent set-ups and renewals. More would not finish sooner, but each would take so long that a gateway which answers
# at once seems silent.
_AT_ONCE = 16
# A device waits this long for an answer (CALL_TIMEOUT of the client).
_COPIES_SECONDS = 10.0

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
        """`drain`: how long the gateway still decrypts with the old pair after an activation. `approval`: policies apply
        only to devices that an administrator has approved."""
        self.drain = drain
        self._database = database
        self._fleet = fleet
        self._pushes = pushes
        self._denials = denials
        self._instruments = instruments
        self._now = now
        self._background = Background()
        self._closing = Closing(database, fleet, remote, hub, pushes, self._background)
        self._draining = Draining(database, fleet, self._closing, self._background, drain)
        self._restoring = Restoring(database, hub, pushes, self._closing, self._background)
        self._uses = PolicyUses(database, now)
        self._opening = Opening(
            database, fleet, self._restoring, instruments, self._uses, now, drain=drain, approval=approval
        )
        self.enforcement = Enforcement(database, hub, self._closing, self._uses, now, approval=approval)
        self.refit = Refit(self._closing, now)
        self._failover = Failover(database, fleet, hub)
        self._liveness = Liveness(database, fleet, pushes, self._closing)
        self.traffic = self._liveness.traffic
        self._roaming = Roaming(database, self._background)
        self._in_flight: dict[OpenRequest, asyncio.Task[Opened | Elsewhere]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def start(self) -> None:
        await self._opening.warm_up()
        self._uses.start()
        await self.enforcement.start()
        self._failover.start()
        self._liveness.start()

    async def open(self, request: OpenRequest) -> Opened | Elsewhere:
        """Idempotent for a device and a name; equal requests at once share one answer, copies of one request also later.

        Returns Elsewhere, as the methods below, when another controller owns the gateway and must be asked instead.
        Raises CulvertError.
        """
        task = self._in_flight.get(request)
        if task is None or (task.done() and not await self._stands(task.result())):
            task = self._in_flight[request] = self._background.start(self._open(request))
            task.add_done_callback(partial(self._keep_for_copies, request))
        # A caller that disconnects cancels neither a started set-up nor the one that another caller shares.
        return await asyncio.shield(task)

    def _keep_for_copies(self, request: OpenRequest, done: asyncio.Task[Opened | Elsewhere]) -> None:
        """Keep the answer while the device may take that to another copy of the request: fresh keys for the copy would
        end those of the answer that it has taken."""
        opened = not done.cancelled() and done.exception() is None and isinstance(done.result(), Opened)
        seconds = _COPIES_SECONDS if opened and request.attempt else 0.0
        asyncio.get_running_loop().call_later(seconds, self._forget, request, done)

    def _forget(self, request: OpenRequest, done: asyncio.Task[Opened | Elsewhere]) -> None:
        if self._in_flight.get(request) is done:
            del self._in_flight[request]

    async def _stands(self, opened: Opened | Elsewhere) -> bool:
        """Whether the answer's keys are still the tunnel's."""
        if isinstance(opened, Elsewhere):
            return False
        async with direct(self._database, CONTROLLER) as transaction:
            record = await hot_queries.lock(transaction, opened.tunnel.id)
        return record is not None and record.generations.current == opened.tunnel.pair.generation

    async def renew(self, caller: DeviceCaller, tunnel_id: uuid.UUID, generation: int) -> Renewed | Elsewhere:
        """Return the next pair, installed at the gateway. Raises CulvertError TUNNEL_UNKNOWN, GENERATION_STALE, …"""
        renewing = partial(self._renew, caller, tunnel_id, generation)
        return await self._run(caller, "tunnel.renew", tunnel_id, renewing)

    async def activate(self, caller: DeviceCaller, tunnel_id: uuid.UUID, generation: int) -> Elsewhere | None:
        """Move the gateway's outbound traffic to this generation; the old pair drains. Idempotent."""
        activating = partial(self._activate, caller, tunnel_id, generation)
        return await self._run(caller, "tunnel.activate", tunnel_id, activating)

    async def set_path_mtu(self, caller: DeviceCaller, tunnel_id: uuid.UUID, mtu: int) -> Elsewhere | None:
        """Set the path MTU in the tunnel's row and the gateway's policies. Idempotent."""
        setting = partial(self._set_path_mtu, caller, tunnel_id, mtu)
        return await self._run(caller, "tunnel.path_mtu", tunnel_id, setting)

    async def close_by_device(self, caller: DeviceCaller, tunnel_id: uuid.UUID, reason: Reason) -> None:
        """`reason`: as in CloseTunnelRequest. The audit log has a refusal by the device as a refusal of the name, too.

        A tunnel that is already closed is no error. Raises CulvertError TUNNEL_UNKNOWN for another device's tunnel.
        """
        async with begin(self._database, caller.actor) as transaction:
            found = await identity.device_by_fingerprint(transaction.session, caller.fingerprint)
            device = check_certificate(found, caller.fingerprint, self._now())
            record = await hot_queries.lock(transaction, tunnel_id)
            if record is None:
                return
            if record.device_id != device.id:
                raise CulvertError(Reason.TUNNEL_UNKNOWN)
            actor = caller.actor.with_name(ActorKind.DEVICE, device.id)
            why = _explain_close(reason, record)
            if reason not in (Reason.CLOSED_BY_USER, Reason.CLOSED_IDLE, Reason.DAEMON_STOPPED):
                refusal = Line("tunnel.open", f"name/{record.fqdn}", {"user": device.user.name}, actor=actor)
                if (line := self._denials.line(caller.fingerprint, refusal, why)) is not None:
                    transaction.audit(line)
            taken = await self._closing.take(transaction, why, repository.has_id(tunnel_id), actor)
        await asyncio.shield(self._background.start(self._closing.clear(taken)))

    async def close(self, by: Actor, why: CulvertError, tunnel_id: uuid.UUID) -> bool:
        """Close the tunnel, and tell its device why. False when there is no such tunnel."""
        return await self._closing.close(by, why, repository.has_id(tunnel_id)) > 0

    async def close_of_device(self, by: Actor, device_id: uuid.UUID) -> int:
        """Close a revoked device's tunnels."""
        why = CulvertError(Reason.CLOSED_BY_ADMIN, why=Phrase("the device was revoked"))
        return await self._closing.close(by, why, repository.is_of_devices([device_id]))

    async def close_of_devices(
        self, transaction: Transaction, devices: Collection[uuid.UUID]
    ) -> ClosedTunnels:
        """Close the tunnels of a person's devices, in the transaction that deletes the person."""
        why = CulvertError(Reason.CLOSED_BY_ADMIN, why=Phrase("the person was deleted"))
        return await self._closing.close_within(transaction, why, repository.is_of_devices(devices))

    async def close_sas(self, link: Link, sas: Collection[int], why: CulvertError) -> int:
        """Close the tunnels that now use these SAs of the gateway. Tunnels that only drain these SAs stay."""
        return await self._closing.close(CONTROLLER, why, repository.uses_sas(link.config.id, sas))

    async def close_to_resource(self, transaction: Transaction, resource_id: int) -> ClosedTunnels:
        """Close the tunnels to a resource, in the transaction that deletes it."""
        why = CulvertError(Reason.CLOSED_BY_ADMIN, why=Phrase("the resource was withdrawn"))
        return await self._closing.close_within(transaction, why, repository.leads_to(resource_id))

    async def list_page(self, page: Page) -> list[TunnelOut]:
        async with self._database() as session:
            found = await repository.list_page(session, page.by(datetime.datetime, uuid.UUID))
        shown = page.cut(found, lambda one: (one.tunnel.opened_at, one.tunnel.id))
        return [TunnelOut.of(listed) for listed in shown]

    async def read_desired(
        self, database: Database, gateway_id: int
    ) -> AsyncGenerator[Sequence[DesiredTunnel]]:
        """For the reconciler. Closes tunnels whose keys have passed their hard limit in time without a renewal."""
        async with database.begin() as session:
            now = await clock(session)
            await repository.forget_drained(session, gateway_id)

        async def read(after: Endpoint | None) -> repository.Portion | None:
            async with database() as session:
                return await repository.read_portion(session, gateway_id, after)

        reading = asyncio.create_task(read(None))
        try:
            while portion := await reading:
                # Meanwhile Postgres reads the next portion.
                reading = asyncio.create_task(read(portion.last))
                # In a thread, because parsing a thousand records would delay an OpenTunnel.
                found = await asyncio.to_thread(portion.records)
                over = [it for it in found if it.ends_at is not None and it.ends_at <= now]
                if over:
                    which = repository.is_at_generation([(it.id, it.generations.current) for it in over])
                    # In a task of its own: the reconciliation holds the gateway's write lock.
                    idle = CulvertError(Reason.CLOSED_IDLE)
                    self._background.start(self._closing.close(CONTROLLER, idle, which))
                yield [record.desired() for record in found]
        finally:
            reading.cancel()

    async def restore_lost(self, link: Link, tunnels: Sequence[DesiredTunnel]) -> None:
        """Restore tunnels whose SAs the reconciler misses at the gateway."""
        await self._restoring.restore(link, tunnels)

    async def soft_limit(self, link: Link, sa_id: int) -> None:
        """Ask the device to renew."""
        async with self._database() as session:
            record = await repository.find_by_sa(session, link.config.id, sa_id)
        if record is None:
            return
        current = record.pairs[record.generations.current]
        if sa_id in (current.to_gateway.sa_id, current.to_device.sa_id):
            expiring = SaExpiring(record.id, record.generations.current)
            await self._pushes.tell_elsewhere(record.device_id, expiring)

    def record_roaming(self, link: Link, sa_id: int, peer_address: str, peer_port: int) -> None:
        """Record a move that a gateway's digest reports: it authenticated a packet from this endpoint."""
        self._roaming.record_move(link, sa_id, Peer(peer_address, peer_port))

    async def stop(self) -> None:
        """Let running calls finish. The reconciliation after the next start ends what still drains."""
        await self._liveness.stop()
        await self._failover.stop()
        await self.enforcement.stop()
        await self._background.stop()
        await self._uses.stop()

    async def _open(self, request: OpenRequest) -> Opened | Elsewhere:
        timeline = Timeline()
        async with (
            self._turns,
            self._denials.log_refusals(
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
            self._draining.end_later(tunnel.id, tunnel.gateway, opened.draining)
        if opened.leftovers:
            self._background.start(self._closing.remove(tunnel.gateway, [opened.leftovers]))
        if (replaced := opened.replaced) is not None and replaced.gateway == tunnel.gateway:
            self._background.start(self._closing.clear([replaced]))
        elif replaced is not None:
            self._instruments.failovers.labels(replaced.gateway).inc()
            self._draining.close_later(replaced)
        return opened

    async def _run(
        self,
        caller: DeviceCaller,
        action: str,
        tunnel_id: uuid.UUID,
        work: Callable[[], Awaitable[_Result | NoTurn]],
    ) -> _Result:
        """Run a device's change of its tunnel to its end, even if the device disconnects."""

        async def run() -> _Result:
            denials = self._denials.log_refusals(
                caller.actor, caller.fingerprint, action, f"tunnel/{tunnel_id}"
            )
            async with self._turns, denials:
                return await repeat_in_turn(work)

        return await asyncio.shield(self._background.start(run()))

    async def _renew(
        self, caller: DeviceCaller, tunnel_id: uuid.UUID, generation: int
    ) -> Renewed | Elsewhere | NoTurn:
        timeline = Timeline()
        async with direct(self._database, caller.actor) as transaction:
            record = await self._lock_own(transaction, caller.fingerprint, tunnel_id)
            self._restoring.check_not_lost(record)
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
            install = install_pair(record.path, pair, keys.wrap_with(link.config.wrap_at(pair.crypto_port)))
            if none := await program_and_commit(transaction, link, [install], timeline, changes=record):
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
            record = await self._lock_own(transaction, caller.fingerprint, tunnel_id)
            self._restoring.check_not_lost(record)
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
            if none := await program_and_commit(transaction, link, [switch], changes=record):
                return none
        self._draining.end_later(tunnel_id, link.name, step.drain)
        _log.info("tunnel switched", extra={"tunnel": str(tunnel_id), "generation": generation})
        return None

    async def _set_path_mtu(
        self, caller: DeviceCaller, tunnel_id: uuid.UUID, mtu: int
    ) -> Elsewhere | NoTurn | None:
        async with direct(self._database, caller.actor) as transaction:
            record = await self._lock_own(transaction, caller.fingerprint, tunnel_id)
            path = replace(record.path, path_mtu=mtu)
            if path == record.path:
                return None
            link = self._find_online(record.gateway)
            if isinstance(link, Elsewhere):
                return link
            sa_id = record.pairs[record.generations.current].to_device.sa_id
            policy = policy_entries(path, sa_id)
            changes = [*record.build_refit(path), *modifies(policy, record.policy())]
            await hot_queries.update_tunnel(transaction, record.id, path_mtu=mtu)
            batches = [changes] if policy != record.policy() else []
            if none := await program_and_commit(transaction, link, batches, changes=record):
                return none
        _log.info("tunnel refitted", extra={"tunnel": str(tunnel_id), "inner_mtu": path.inner_mtu})
        return None

    async def _lock_own(
        self, transaction: DirectTransaction, fingerprint: bytes, tunnel_id: uuid.UUID
    ) -> TunnelRecord:
        found = await hot_queries.lock_owned(transaction, fingerprint, tunnel_id)
        device = found[0] if found else await identity.lock_device(transaction, fingerprint)
        check_certificate(device, fingerprint, self._now())
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


def _explain_close(reason: Reason, record: TunnelRecord) -> CulvertError:
    prefixes = ", ".join(record.path.remote_prefixes)
    match reason:
        case Reason.ADDRESS_COLLISION:
            return CulvertError(reason, prefix=prefixes, what=Phrase("a network that the device is in"))
        case Reason.CONSENT_NEEDED:
            return CulvertError(reason, prefixes=prefixes)
        case Reason.DATAPATH_FAILED:
            return CulvertError(reason, why=Phrase("the log of its daemon has the cause"))
        case _:
            return CulvertError(reason)
