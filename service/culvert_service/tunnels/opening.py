"""OpenTunnel: decide, allocate, program the gateway, commit; or change nothing.

One transaction spans all steps. The gateway is written before the commit, so that every tunnel in the database works.
A failed commit removes the gateway's entries again.
"""

from __future__ import annotations

import datetime
import logging
import uuid
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from asyncpg.exceptions import IntegrityConstraintViolationError
from culvert_db import ActorKind, Database, Device, Tunnel, TunnelState
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

from culvert_service.audit.line import Detail
from culvert_service.audit.log import CONTROLLER, Line
from culvert_service.audit.transaction import DirectTransaction, direct
from culvert_service.decision import facts as decision_facts
from culvert_service.decision.conditions import Denial
from culvert_service.decision.decision import GatewayFact, Permit, decide
from culvert_service.decision.nearness import Distance
from culvert_service.decision.uses import PolicyUses
from culvert_service.gateways.entry import Update, inserts, modifies
from culvert_service.gateways.fleet import Elsewhere, Fleet
from culvert_service.gateways.link import Link
from culvert_service.gateways.sa import draw_tag
from culvert_service.gateways.tunnel_entries import Path, install_pair, policy_entries, remove_pair
from culvert_service.identity.denials import DeviceCaller
from culvert_service.identity.service import Now, check_certificate
from culvert_service.metrics.instruments import Instruments
from culvert_service.tunnels import hot_queries
from culvert_service.tunnels.hot_queries import Inserted, OpenFacts, ServingGateway, read_open_facts
from culvert_service.tunnels.inner_addresses import assign_address
from culvert_service.tunnels.lifecycle import Reopen, advance
from culvert_service.tunnels.programming import (
    GrantedPair,
    GrantedTunnel,
    NoTurn,
    PairKeys,
    Timeline,
    allocate_pair,
    program_and_commit,
)
from culvert_service.tunnels.record import TunnelRecord, TunnelShape, build_path
from culvert_service.tunnels.restoring import Restored, Restoring

_log = logging.getLogger(__name__)

_RACES = 5
# OpenTunnel waits this long for a gateway that may be online soon. An owner reaches a gateway in a third of a second; a
# gateway that connects itself tries each few seconds while its controller is away. A resolver asks again after 5 s.
_COMING_SECONDS = 3.0
_NO_GATEWAY = (Reason.GATEWAY_DOWN, Reason.GATEWAY_DRAINING)


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """Two equal requests at the same time share one answer; distances and aliases do not count for equality.
    `attempt`: as in agent.proto. `path_mtus`: as of Tunnel, by gateway. `without`: gateways that have been tried already.
    `asked`: the alias of `fqdn` that a program asked for; it has no effect on the decision.
    """

    caller: DeviceCaller
    fqdn: str
    pinned: str
    peer_port: int
    attempt: bytes = b""
    without: frozenset[str] = frozenset()
    distances: Mapping[str, Distance] = field(default_factory=dict[str, Distance], compare=False)
    path_mtus: Mapping[str, int] = field(default_factory=dict[str, int], compare=False)
    asked: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Opened:
    """The answer, and the work after it: the draining generation, the replaced tunnel, entries left on a gateway."""

    tunnel: GrantedTunnel
    timeline: Timeline
    draining: int | None = None
    replaced: TunnelRecord | None = None
    leftovers: tuple[Update, ...] = ()
    permit: Permit | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    """A tunnel that is in the transaction, but not on the gateway yet."""

    tunnel: GrantedTunnel
    batches: Sequence[Sequence[Update]]
    draining: int | None = None
    replaced: TunnelRecord | None = None
    leftovers: tuple[Update, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class _Wait:
    """These gateways could serve as soon as their owners have connected to them."""

    gateways: Sequence[str]


@dataclass(frozen=True, slots=True)
class _NextGateway:
    """The write to the gateway `failed` had no effect."""

    failed: str
    why: CulvertError


class _Retry:
    """Another request opened the same tunnel first, or its resource, gateway or owner changed."""


class Opening:
    def __init__(
        self,
        database: Database,
        fleet: Fleet,
        restoring: Restoring,
        instruments: Instruments,
        uses: PolicyUses,
        now: Now,
        *,
        drain: datetime.timedelta,
        approval: bool,
    ) -> None:
        """`drain` and `approval` are those of Tunnels."""
        self._database = database
        self._drain = drain
        self._fleet = fleet
        self._restoring = restoring
        self._instruments = instruments
        self._uses = uses
        self._now = now
        self._approval = approval

    async def warm_up(self) -> None:
        """Compile the statements and open a connection, so that the first click need not wait for them."""
        async with direct(self._database, CONTROLLER) as transaction:
            await read_open_facts(transaction, b"", "")

    async def open(self, request: OpenRequest, timeline: Timeline) -> Opened | Elsewhere:
        """Tries the gateways in order. Raises CulvertError. An error or Elsewhere leaves no entries or rows."""
        failed = set(request.without)
        races = 0
        while True:
            try:
                outcome = await self._attempt(request, timeline, failed)
            except IntegrityConstraintViolationError:
                # Only the resource's row can vanish here: the transaction has locked the other rows.
                raise CulvertError(Reason.NAME_UNKNOWN, name=request.fqdn) from None
            match outcome:
                case Opened() | Elsewhere():
                    return outcome
                case _Wait(gateways):
                    await self._fleet.wait(gateways, _COMING_SECONDS)
                    failed.update(filter(self._fleet.is_coming, gateways))
                case _NextGateway(gateway, why):
                    failed.add(gateway)
                    _log.warning("trying the next gateway", extra={"fqdn": request.fqdn, "why": why.message})
                case NoTurn():
                    races += 1
                    if not await self._has_turn(outcome) or races == _RACES:
                        failed.add(outcome.link.name)
                case _Retry():
                    races += 1
                    if races == _RACES:
                        raise CulvertError(Reason.TIMEOUT, what=Phrase("Opening {name}", name=request.fqdn))

    async def _has_turn(self, none: NoTurn) -> bool:
        try:
            await none.wait()
        except CulvertError:
            # Try again if the gateway has a new owner since.
            return self._fleet.get(none.link.name) is not none.link
        return True

    async def _attempt(
        self, request: OpenRequest, timeline: Timeline, failed: Set[str]
    ) -> Opened | Elsewhere | _Wait | _NextGateway | NoTurn | _Retry:
        """One attempt in one transaction, which is rolled back unless it opens the tunnel. Raises CulvertError."""
        async with direct(self._database, request.caller.actor) as transaction:
            facts = await read_open_facts(transaction, request.caller.fingerprint, request.fqdn)
            device = check_certificate(facts.device, request.caller.fingerprint, self._now())
            permit = self._decide(request, facts, device, failed)
            if isinstance(permit, _Wait):
                return permit
            timeline.note_decided()
            existing = await hot_queries.lock(transaction, facts.tunnel_id) if facts.tunnel_id else None
            stays = existing is not None and _can_stay(existing, permit, request.caller.address)
            # A lost tunnel is opened as a new one.
            lost = existing is not None and existing.is_lost_at(self._fleet.get(existing.gateway))
            if existing is not None and stays and not lost:
                link = self._fleet.find(existing.gateway)
                if link is None:
                    return _Retry()
                if isinstance(link, Elsewhere):
                    return link
                if restored := self._restoring.claim(existing, request.caller.address):
                    job = await self._hand_out(transaction, restored, permit.until, facts.version)
                else:
                    job = await self._reopen(
                        transaction, existing, link, request, permit.until, facts.version
                    )
            else:
                chosen = _find_named(facts.serving, permit.gateways[0])
                link = self._fleet.find(chosen.gateway.name)
                if link is None:
                    return _Retry()
                if isinstance(link, Elsewhere):
                    return link
                if existing is not None and existing.gateway != link.name:
                    # The device sends through the old gateway until it has this answer.
                    await hot_queries.start_leaving(transaction, existing.id, self._drain)
                elif existing is not None:
                    await hot_queries.delete_tunnel(transaction, existing.id)
                job = await self._insert(
                    transaction, facts, device, chosen, link, request, permit.until, existing
                )
            if isinstance(job, _Retry):
                return job
            details: dict[str, Detail] = {
                "name": request.fqdn,
                "user": device.user.name,
                "gateway": job.tunnel.gateway,
                "address": job.tunnel.path.inner_address,
            }
            if request.asked:
                details["asked"] = request.asked
            if job.tunnel.path.inner_address6 is not None:
                details["address6"] = job.tunnel.path.inner_address6
            if job.replaced is not None:
                details["replaces"] = str(job.replaced.id)
                if job.replaced.gateway != job.tunnel.gateway:
                    details["from"] = job.replaced.gateway
            actor = transaction.actor.with_name(ActorKind.DEVICE, device.id)
            transaction.audit(Line("tunnel.open", f"tunnel/{job.tunnel.id}", details, actor=actor))
            try:
                if none := await program_and_commit(transaction, link, job.batches, timeline):
                    return none
            except CulvertError as error:
                if error.reason is not Reason.GATEWAY_DOWN:
                    raise
                if self._fleet.get(link.name) is not link or self._fleet.is_coming(link.name):
                    # The gateway has a new owner or a new connection since the decision.
                    return _Retry()
                return _NextGateway(link.name, error)
        self._uses.note(permit.policies)
        return Opened(job.tunnel, timeline, job.draining, job.replaced, job.leftovers, permit)

    def _decide(
        self, request: OpenRequest, facts: OpenFacts, device: Device, failed: Set[str]
    ) -> Permit | _Wait:
        """Raises CulvertError for a denial."""
        resource = facts.resource
        decision = decide(
            decision_facts.asker(device, device.user, request.caller.address),
            request.fqdn,
            decision_facts.target(resource, facts.policies, approval=self._approval) if resource else None,
            [self._describe(one, failed, request.distances) for one in facts.serving],
            request.pinned,
            self._now(),
        )
        if isinstance(decision.verdict, Denial):
            reason = decision.verdict.reason
            if reason in _NO_GATEWAY and (coming := self._find_coming(facts.serving, failed)):
                return _Wait(coming)
            self._instruments.policy_denials.labels(decision.policy or "", reason.name).inc()
            raise decision.verdict.error()
        return decision.verdict

    def _find_coming(self, serving: Sequence[ServingGateway], failed: Set[str]) -> list[str]:
        able = (it.gateway.name for it in serving if it.gateway.draining_since is None)
        return [name for name in able if name not in failed and self._fleet.is_coming(name)]

    def _describe(
        self, serving: ServingGateway, failed: Set[str], distances: Mapping[str, Distance]
    ) -> GatewayFact:
        name = serving.gateway.name
        usable = name not in failed and self._fleet.is_online(name)
        draining = serving.gateway.draining_since is not None
        return GatewayFact(name, usable, draining, serving.weight, distances.get(name))

    async def _insert(
        self,
        transaction: DirectTransaction,
        facts: OpenFacts,
        device: Device,
        serving: ServingGateway,
        link: Link,
        request: OpenRequest,
        until: datetime.datetime,
        replaced: TunnelRecord | None,
    ) -> _Job | _Retry:
        resource, gateway = facts.resource, serving.gateway
        assert resource is not None
        inner = serving.inner or await assign_address(transaction, gateway, device.id)
        tunnel = Tunnel(
            id=uuid.uuid4(),
            device_id=device.id,
            resource_id=resource.id,
            gateway_id=gateway.id,
            state=TunnelState.UP,
            generation=1,
            peer_address=request.caller.address,
            peer_port=request.peer_port,
            permitted_until=until,
            policy_version=facts.version,
            path_mtu=request.path_mtus.get(gateway.name),
            moved_from=replaced.gateway if replaced and replaced.gateway != gateway.name else None,
        )
        match await hot_queries.insert_tunnel(transaction, tunnel, resource.version, gateway.version):
            case Inserted.EXISTS | Inserted.CHANGED:
                return _Retry()
            case Inserted.NO_ENDPOINT:
                raise CulvertError(
                    Reason.GATEWAY_REFUSED, gateway=gateway.name, why=Phrase("it has no free endpoints")
                )
            case Inserted.DONE:
                pass
        pair = await allocate_pair(transaction, tunnel.id, device.id, link, tunnel.generation, draw_tag())
        path = build_path(
            tunnel.id,
            tunnel.peer_address,
            tunnel.peer_port,
            tunnel.endpoint,
            TunnelShape.of(resource, gateway),
            inner,
            tunnel.path_mtu,
        )
        keys = PairKeys.new(path.suite)
        granted = GrantedTunnel(
            tunnel.id,
            resource.name,
            resource.fqdn,
            resource.idle_seconds,
            gateway.name,
            path,
            GrantedPair.of(pair, keys, path),
        )
        # One request: no device has the tunnel yet, so the order of its entries has no effect.
        install = [
            *install_pair(path, pair, keys.wrap_with(link.config.wrap_at(pair.crypto_port))),
            *inserts(*policy_entries(path, pair.to_device.sa_id)),
        ]
        return _Job(granted, [install], replaced=replaced)

    async def _hand_out(
        self,
        transaction: DirectTransaction,
        restored: Restored,
        permitted_until: datetime.datetime,
        policy_version: int,
    ) -> _Job:
        """Hand out the keys of a restored tunnel, whose entries the gateway already has."""
        tunnel = restored.record
        await hot_queries.update_tunnel(
            transaction,
            tunnel.id,
            permitted_until=permitted_until,
            policy_version=policy_version,
            led_away=False,
        )
        granted = _grant(tunnel, tunnel.path, GrantedPair.of(restored.pair, restored.keys, tunnel.path))
        return _Job(granted, [])

    async def _reopen(
        self,
        transaction: DirectTransaction,
        existing: TunnelRecord,
        link: Link,
        request: OpenRequest,
        permitted_until: datetime.datetime,
        policy_version: int,
    ) -> _Job:
        """Open the same tunnel with a fresh pair, for a device that has lost its keys or wants new ones."""
        step = advance(existing.generations, Reopen())
        assert step.install is not None
        assert step.drain is not None
        # A new tag: the address at which the gateway saw the old SAs' packets says nothing about the new pair's.
        pair = await allocate_pair(
            transaction, existing.id, existing.device_id, link, step.install, draw_tag()
        )
        path = replace(
            existing.path.with_peer(request.caller.address, request.peer_port),
            path_mtu=request.path_mtus.get(existing.gateway, existing.path.path_mtu),
        )
        await hot_queries.delete_generations(transaction, existing.id, step.remove)
        await hot_queries.drain_generation(transaction, existing.id, step.drain, self._drain)
        await hot_queries.update_tunnel(
            transaction,
            existing.id,
            generation=step.generations.current,
            state=TunnelState.UP,
            peer_address=request.caller.address,
            peer_port=request.peer_port,
            path_mtu=path.path_mtu,
            permitted_until=permitted_until,
            policy_version=policy_version,
            led_away=False,
        )
        keys = PairKeys.new(path.suite)
        switch = [
            *existing.build_refit(path, without=step.remove),
            *modifies(policy_entries(path, pair.to_device.sa_id), existing.policy()),
        ]
        granted = _grant(existing, path, GrantedPair.of(pair, keys, path))
        leftovers = [update for gone in step.remove for update in remove_pair(path, existing.pairs[gone])]
        batches = [install_pair(path, pair, keys.wrap_with(link.config.wrap_at(pair.crypto_port))), switch]
        return _Job(granted, batches, draining=step.drain, leftovers=tuple(leftovers))


def _grant(tunnel: TunnelRecord, path: Path, pair: GrantedPair) -> GrantedTunnel:
    return GrantedTunnel(
        tunnel.id,
        tunnel.resource,
        tunnel.fqdn,
        tunnel.idle_seconds,
        tunnel.gateway,
        path,
        pair,
    )


def _can_stay(tunnel: TunnelRecord, permit: Permit, peer: str) -> bool:
    """Whether the tunnel stays at its gateway: not if it is led away, or the gateway cannot carry it."""
    may = permit.gateways[:1] if tunnel.led_away else permit.gateways
    return tunnel.gateway in may and tunnel.faces(peer)


def _find_named(serving: Sequence[ServingGateway], name: str) -> ServingGateway:
    return next(one for one in serving if one.gateway.name == name)
