"""Site tunnels: an administrator describes them, the controller keys them, and both gateways' desired states have them."""

from __future__ import annotations

import asyncio
import datetime
import uuid
from collections.abc import Sequence

from culvert_db import (
    SITE_TUNNELS_CHANNEL,
    Database,
    Gateway,
    Resource,
    SiteTunnel,
    SiteTunnelResource,
    SiteTunnelState,
    clock,
)
from culvert_proto import CulvertError, Reason
from culvert_proto.contract import Suite
from culvert_proto.phrases import Phrase
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.line import Detail
from culvert_service.audit.log import CONTROLLER, Actor, Line
from culvert_service.audit.transaction import begin
from culvert_service.controllers.calls import Calls
from culvert_service.gateways.diff import DesiredTunnel
from culvert_service.gateways.fleet import Fleet
from culvert_service.gateways.link import Link
from culvert_service.gateways.remote import Remote
from culvert_service.metrics.instruments import Instruments
from culvert_service.resources.schemas import Rekey
from culvert_service.resources.target import Target
from culvert_service.rest.field import FieldError
from culvert_service.rest.page import Page, Sort
from culvert_service.rest.version import MayMatch
from culvert_service.site_tunnels import fit, repository
from culvert_service.site_tunnels.fit import describe
from culvert_service.site_tunnels.following import Following
from culvert_service.site_tunnels.keying import Keying
from culvert_service.site_tunnels.programming import Programming
from culvert_service.site_tunnels.record import (
    SiteTunnelRecord,
    parse,
    resources_of,
    targets_of,
    wanted_limits,
    wanted_suite,
)
from culvert_service.site_tunnels.schemas import EndOut, SiteTunnelChange, SiteTunnelIn, SiteTunnelOut


class SiteTunnels:
    channel = SITE_TUNNELS_CHANNEL

    def __init__(
        self,
        database: Database,
        fleet: Fleet,
        calls: Calls,
        remote: Remote,
        instruments: Instruments,
        *,
        drain: datetime.timedelta,
    ) -> None:
        """`drain`: as of Tunnels."""
        self._database = database
        self._fleet = fleet
        self._programming = Programming(database, fleet, calls, remote)
        self._keying = Keying(database, fleet, self._programming, instruments, drain)
        self.following = Following(self._programming)
        self.hear = self._keying.look_soon
        self.serving = self._programming.serving
        self.start = self._keying.start
        self.stop = self._keying.stop

    async def create(self, by: Actor, asked: SiteTunnelIn) -> tuple[SiteTunnelOut, int]:
        """The tunnel and its version. Raises CulvertError NOT_FOUND, SUITE_LEGACY, REQUEST_INVALID or ALREADY_EXISTS."""
        try:
            async with begin(self._database, by) as transaction:
                session = transaction.session
                row = await _row(session, asked)
                session.add(row)
                await session.flush()
                transaction.audit(Line("site-tunnel.create", _object(asked.name), _describe_change(asked)))
                await repository.tell(session)
        except IntegrityError:
            what = Phrase("A tunnel between gateways named {name}", name=asked.name)
            raise FieldError("/name", Reason.ALREADY_EXISTS, what=what) from None
        return await self.get(asked.name)

    async def list(self, page: Page, q: str | None, sort: str) -> list[SiteTunnelOut]:
        """The tunnels with `q` in their names, or in those of a gateway or a resource."""
        order = Sort(page, repository.ORDERS, sort, repository.BY_NAME)
        which = () if q is None else (repository.names_contain(q),)
        async with self._database() as session:
            return [self._out(row) for row in await repository.rows(session, order, *which)]

    async def get(self, name: str) -> tuple[SiteTunnelOut, int]:
        """The tunnel and its version. Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            found = await repository.rows(session, None, SiteTunnel.name == name)
        if not found:
            raise _unknown(name)
        return self._out(found[0]), found[0].version

    async def change(
        self, by: Actor, name: str, asked: SiteTunnelChange, seen: MayMatch
    ) -> tuple[SiteTunnelOut, int]:
        """Change the tunnel without interrupting packets that it still carries; keys stay unless the suite changes. Returns
        the tunnel and its version.

        Raises CulvertError NOT_FOUND, VERSION_NEEDED, VERSION_STALE, SUITE_LEGACY, REQUEST_INVALID or ALREADY_EXISTS.
        """
        async with begin(self._database, by) as transaction:
            session = transaction.session
            resources = await _resources(session, asked)
            row = await repository.lock_tunnel(session, SiteTunnel.name == name)
            if row is None:
                raise _unknown(name)
            seen.check(describe(name), row.version)
            if [end.gateway for end in asked.ends] != [row.a.name, row.b.name]:
                why = Phrase(
                    "{name} stays between {a} and {b}; close it to make another",
                    name=name,
                    a=row.a.name,
                    b=row.b.name,
                )
                raise CulvertError(Reason.REQUEST_INVALID, why=why)
            await repository.gateways_locked(session, [row.a.name, row.b.name])
            _describe(row, asked, resources)
            await fit.check(session, row)
            await session.flush()
            transaction.audit(Line("site-tunnel.change", _object(name), _describe_change(asked)))
            await repository.tell(session)
            # Read again for the new version.
            [row] = await repository.rows(session, None, SiteTunnel.id == row.id)
            record = parse(row, await clock(session))
        await self._programming.follow(record)
        return await self.get(name)

    async def delete(self, by: Actor, name: str, seen: MayMatch) -> None:
        """Raises CulvertError NOT_FOUND or VERSION_STALE."""
        async with begin(self._database, by) as transaction:
            session = transaction.session
            row = await repository.lock_tunnel(session, SiteTunnel.name == name)
            if row is None:
                raise _unknown(name)
            seen.check(describe(name), row.version)
            record = parse(row, await clock(session))
            await session.delete(row)
            transaction.audit(Line("site-tunnel.delete", _object(name)))
            await repository.tell(session)
        # A cancelled call does not stop the removal half-way; the reconcilers remove the rest after a crash.
        await asyncio.shield(asyncio.create_task(self._programming.clear(record)))

    async def read_desired(self, database: Database, gateway_id: int) -> Sequence[DesiredTunnel]:
        """The gateway's desired site tunnels, for the reconciler."""
        async with database() as session:
            found = await repository.at_gateway(session, gateway_id)
        return [
            record.desired(end) for record in found for end in record.ends if end.gateway_id == gateway_id
        ]

    async def restore_lost(self, link: Link, lost: Sequence[DesiredTunnel]) -> list[DesiredTunnel]:
        """For the reconciler: replace the keys of lost site tunnels. Returns the lost tunnels of other kinds."""
        why = CulvertError(Reason.SA_LOST, gateway=link.name)
        for record in (one.source for one in lost):
            if isinstance(record, SiteTunnelRecord):
                await self._lose(record, why)
        return [one for one in lost if not isinstance(one.source, SiteTunnelRecord)]

    async def soft_limit(self, link: Link, sa_id: int) -> None:
        """Notify the controller that keys the tunnel."""
        async with self._database.begin() as session:
            if found := await repository.of_sa(session, link.config.id, sa_id):
                tunnel_id, generation = found
                await repository.tell(session, f"{tunnel_id} {generation}")

    async def _lose(self, record: SiteTunnelRecord, why: CulvertError) -> None:
        async with begin(self._database, CONTROLLER) as transaction:
            if await repository.lose(transaction.session, record.id, record.keys.current, why.message):
                transaction.audit(Line("site-tunnel.down", _object(record.name), why=why))
                await repository.tell(transaction.session)

    def _out(self, row: SiteTunnel) -> SiteTunnelOut:
        made = [sa.made_at for sa in row.sas if sa.generation == row.generation]
        suite, limits = wanted_suite(row), wanted_limits(row)
        effective = Rekey(soft_packets=limits.packets, soft_bytes=limits.bytes, soft_seconds=limits.seconds)
        return SiteTunnelOut(
            name=row.name,
            ends=[self._end_out(row, gateway) for gateway in (row.a, row.b)],
            owner=row.owner,
            suite=Suite(row.suite) if row.suite else None,
            rekey=None if row.soft_seconds is None else effective,
            effective_suite=suite,
            effective_rekey=effective,
            legacy=suite.legacy,
            state=row.state.value,
            reason=row.problem if row.state is SiteTunnelState.UP else self._why_not(row),
            generation=row.generation,
            keyed_at=min(made, default=None),
            created_at=row.created_at,
        )

    def _end_out(self, row: SiteTunnel, gateway: Gateway) -> EndOut:
        targets, profiles = targets_of(row, gateway)
        return EndOut(
            gateway=gateway.name,
            targets=[Target.model_validate(target) for target in targets],
            resources=resources_of(row, gateway),
            profiles=[Target.model_validate(target) for target in profiles],
            address=gateway.public_address or gateway.address,
            online=self._fleet.is_online(gateway.name),
        )

    def _why_not(self, row: SiteTunnel) -> str:
        for gateway in (row.a, row.b):
            if not self._fleet.is_online(gateway.name):
                return CulvertError(Reason.GATEWAY_DOWN, gateway=gateway.name).message
        return row.problem or Phrase("Its keys are being made.")


async def _row(session: AsyncSession, asked: SiteTunnelIn) -> SiteTunnel:
    resources = await _resources(session, asked)
    gateways = await repository.gateways_locked(session, [end.gateway for end in asked.ends])
    a, b = (_find(gateways, end.gateway, at) for at, end in enumerate(asked.ends))
    row = SiteTunnel(
        id=uuid.uuid4(), name=asked.name, a=a, b=b, a_gateway_id=a.id, b_gateway_id=b.id, carried=[]
    )
    _describe(row, asked, resources)
    await fit.check(session, row)
    return row


async def _resources(session: AsyncSession, asked: SiteTunnelChange) -> dict[str, Resource]:
    """Raises CulvertError NOT_FOUND."""
    found = await repository.resources_kept(session, [it for end in asked.ends for it in end.resources])
    for at, end in enumerate(asked.ends):
        for place, name in enumerate(end.resources):
            if name not in found:
                pointer = f"/ends/{at}/resources/{place}"
                raise FieldError(pointer, Reason.NOT_FOUND, what=Phrase("The resource {name}", name=name))
    return found


def _describe(row: SiteTunnel, asked: SiteTunnelChange, resources: dict[str, Resource]) -> None:
    row.a_targets, row.b_targets = ([target.row() for target in end.targets] for end in asked.ends)
    there = {one.resource_id: one for one in row.carried}
    row.carried = [
        _assign_gateway(there.get(resources[name].id), resources[name], gateway)
        for end, gateway in zip(asked.ends, (row.a, row.b), strict=True)
        for name in dict.fromkeys(end.resources)
    ]
    row.owner = asked.owner
    row.suite = asked.suite and asked.suite.value
    row.soft_packets = asked.rekey and asked.rekey.soft_packets
    row.soft_bytes = asked.rekey and asked.rekey.soft_bytes
    row.soft_seconds = asked.rekey and asked.rekey.soft_seconds


def _assign_gateway(
    before: SiteTunnelResource | None, resource: Resource, gateway: Gateway
) -> SiteTunnelResource:
    one = before or SiteTunnelResource(resource=resource, resource_id=resource.id)
    one.gateway_id = gateway.id
    return one


def _find(gateways: dict[str, Gateway], name: str, at: int) -> Gateway:
    if name not in gateways:
        raise FieldError(
            f"/ends/{at}/gateway", Reason.NOT_FOUND, what=Phrase("The gateway {name}", name=name)
        )
    return gateways[name]


def _describe_change(asked: SiteTunnelChange) -> dict[str, Detail]:
    ends = {end.gateway: " ".join((*end.resources, *map(str, end.targets))) for end in asked.ends}
    suite: dict[str, Detail] = {"suite": asked.suite.value} if asked.suite else {}
    return {**ends, "owner": asked.owner, **suite}


def _object(name: str) -> str:
    return f"site-tunnel/{name}"


def _unknown(name: str) -> CulvertError:
    return CulvertError(Reason.NOT_FOUND, what=describe(name))
