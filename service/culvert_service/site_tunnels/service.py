"""Tunnels between gateways: wanted by an administrator, keyed by the controller, part of both gateways' desired states."""

from __future__ import annotations

import asyncio
import ipaddress
import uuid
from collections.abc import Iterable, Sequence

from culvert_db import SITE_TUNNELS_CHANNEL, Gateway, Sessions, SiteTunnel, SiteTunnelState
from culvert_proto import CulvertError, Reason
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit import log as audit
from culvert_service.audit.line import Detail
from culvert_service.audit.log import Line
from culvert_service.controllers.calls import Calls
from culvert_service.database import clock
from culvert_service.gateways.diff import DesiredTunnel
from culvert_service.gateways.fleet import Fleet
from culvert_service.gateways.link import Link
from culvert_service.gateways.record import site_of
from culvert_service.gateways.remote import Remote
from culvert_service.gateways.suite import Suite, check_allowed
from culvert_service.metrics.instruments import Instruments
from culvert_service.resources.schemas import Rekey
from culvert_service.resources.target import Target
from culvert_service.rest.page import Page
from culvert_service.rest.version import MayMatch
from culvert_service.site_tunnels import repository
from culvert_service.site_tunnels.hands import Hands
from culvert_service.site_tunnels.keying import Keying
from culvert_service.site_tunnels.record import SiteTunnelRecord, overlap, parse, side_of
from culvert_service.site_tunnels.schemas import EndIn, EndOut, SiteTunnelChange, SiteTunnelIn, SiteTunnelOut


class SiteTunnels:
    channel = SITE_TUNNELS_CHANNEL

    def __init__(
        self, sessions: Sessions, fleet: Fleet, calls: Calls, remote: Remote, instruments: Instruments
    ) -> None:
        self._sessions = sessions
        self._fleet = fleet
        self._hands = Hands(sessions, fleet, calls, remote)
        self._keying = Keying(sessions, fleet, self._hands, instruments)
        self.hear = self._keying.look_soon
        self.serving = self._hands.serving
        self.start = self._keying.start
        self.stop = self._keying.stop

    async def create(self, asked: SiteTunnelIn) -> tuple[SiteTunnelOut, int]:
        """With its version. Raises CulvertError NOT_FOUND, SUITE_LEGACY, REQUEST_INVALID or ALREADY_EXISTS."""
        try:
            async with self._sessions.begin() as session:
                row = await _row(session, asked)
                session.add(row)
                await session.flush()
                told = _described(asked) | {"suite": asked.suite.value}
                audit.tell(session, Line("site-tunnel.create", _object(asked.name), told))
                await repository.tell(session)
        except IntegrityError:
            raise CulvertError(
                Reason.ALREADY_EXISTS, what=f"A tunnel between gateways named {asked.name}"
            ) from None
        return await self.get(asked.name)

    async def list(self, page: Page) -> list[SiteTunnelOut]:
        async with self._sessions() as session:
            found = await repository.rows(session, page.by(str))
            return [self._out(row) for row in page.cut(found, lambda row: (row.name,))]

    async def get(self, name: str) -> tuple[SiteTunnelOut, int]:
        """With its version. Raises CulvertError NOT_FOUND."""
        async with self._sessions() as session:
            found = await repository.rows(session, None, SiteTunnel.name == name)
        if not found:
            raise _unknown(name)
        return self._out(found[0]), found[0].version

    async def change(self, name: str, asked: SiteTunnelChange, seen: MayMatch) -> tuple[SiteTunnelOut, int]:
        """Its keys go on, and what it carries before and after. With its version.

        Raises CulvertError NOT_FOUND, VERSION_NEEDED, VERSION_STALE, REQUEST_INVALID or ALREADY_EXISTS.
        """
        async with self._sessions.begin() as session:
            row = await repository.locked(session, SiteTunnel.name == name)
            if row is None:
                raise _unknown(name)
            seen.check(_what(name), row.version)
            if [end.gateway for end in asked.ends] != [row.a.name, row.b.name]:
                why = f"{name} stays between {row.a.name} and {row.b.name}; close it to make another"
                raise CulvertError(Reason.REQUEST_INVALID, why=why)
            await repository.gateways_locked(session, [row.a.name, row.b.name])
            await _describe(session, row, asked)
            record = parse(row, await clock(session))
            audit.tell(session, Line("site-tunnel.change", _object(name), _described(asked)))
        await self._hands.reconcile(record)
        return await self.get(name)

    async def delete(self, name: str, seen: MayMatch) -> None:
        """Raises CulvertError NOT_FOUND or VERSION_STALE."""
        async with self._sessions.begin() as session:
            row = await repository.locked(session, SiteTunnel.name == name)
            if row is None:
                raise _unknown(name)
            seen.check(_what(name), row.version)
            record = parse(row, await clock(session))
            await session.delete(row)
            audit.tell(session, Line("site-tunnel.delete", _object(name)))
            await repository.tell(session)
        # Whoever hangs up does not stop it half-way; what a dying process leaves is the reconcilers'.
        await asyncio.shield(asyncio.create_task(self._hands.clear(record)))

    async def desired(self, gateway_id: int) -> Sequence[DesiredTunnel]:
        """For the reconciler."""
        async with self._sessions() as session:
            found = await repository.at_gateway(session, gateway_id)
        return [
            record.desired(end) for record in found for end in record.ends if end.gateway_id == gateway_id
        ]

    async def lost(self, link: Link, lost: Sequence[DesiredTunnel]) -> list[DesiredTunnel]:
        """For the reconciler: what a gateway has not got any more is made anew. Returns what is not ours."""
        why = CulvertError(Reason.SA_LOST, gateway=link.name)
        for record in (one.source for one in lost):
            if isinstance(record, SiteTunnelRecord):
                await self._lose(record, why)
        return [one for one in lost if not isinstance(one.source, SiteTunnelRecord)]

    async def soft_limit(self, link: Link, sa_id: int) -> None:
        """Tells whoever keeps the keys."""
        async with self._sessions.begin() as session:
            if found := await repository.of_sa(session, link.config.id, sa_id):
                tunnel_id, generation = found
                await repository.tell(session, f"{tunnel_id} {generation}")

    async def _lose(self, record: SiteTunnelRecord, why: CulvertError) -> None:
        with audit.controller_acts():
            async with self._sessions.begin() as session:
                if await repository.lose(session, record.id, record.keys.current, why.message):
                    audit.tell(session, Line("site-tunnel.down", _object(record.name), why=why))
                    await repository.tell(session)

    def _out(self, row: SiteTunnel) -> SiteTunnelOut:
        made = [sa.made_at for sa in row.sas if sa.generation == row.generation]
        return SiteTunnelOut(
            name=row.name,
            ends=[self._end_out(row.a, row.a_targets), self._end_out(row.b, row.b_targets)],
            owner=row.owner,
            suite=Suite(row.suite),
            legacy=Suite(row.suite).legacy,
            rekey=Rekey(
                soft_packets=row.soft_packets, soft_bytes=row.soft_bytes, soft_seconds=row.soft_seconds
            ),
            state=row.state.value,
            reason=row.problem if row.state is SiteTunnelState.UP else self._why_not(row),
            generation=row.generation,
            keyed_at=min(made, default=None),
            created_at=row.created_at,
        )

    def _end_out(self, gateway: Gateway, targets: Iterable[object]) -> EndOut:
        return EndOut(
            gateway=gateway.name,
            targets=[Target.model_validate(target) for target in targets],
            address=gateway.address,
            online=self._fleet.is_online(gateway.name),
        )

    def _why_not(self, row: SiteTunnel) -> str:
        for gateway in (row.a, row.b):
            if not self._fleet.is_online(gateway.name):
                return CulvertError(Reason.GATEWAY_DOWN, gateway=gateway.name).message
        return row.problem or "Its keys are being made."


async def _row(session: AsyncSession, asked: SiteTunnelIn) -> SiteTunnel:
    gateways = await repository.gateways_locked(session, [end.gateway for end in asked.ends])
    a, b = (_found(gateways, end.gateway) for end in asked.ends)
    row = SiteTunnel(
        id=uuid.uuid4(),
        name=asked.name,
        a=a,
        b=b,
        a_gateway_id=a.id,
        b_gateway_id=b.id,
        suite=asked.suite.value,
    )
    for gateway in (a, b):
        permitted = [Suite(name) for name in gateway.legacy_suites]
        check_allowed(asked.suite, permitted, f"the gateway {gateway.name}")
    await _describe(session, row, asked)
    return row


async def _describe(session: AsyncSession, row: SiteTunnel, asked: SiteTunnelChange) -> None:
    """Raises CulvertError REQUEST_INVALID or ALREADY_EXISTS."""
    one, other = asked.ends
    for gateway, near, far in ((row.a, one, other), (row.b, other, one)):
        _check_place(gateway, near, far)
    row.a_targets, row.b_targets = ([target.row() for target in end.targets] for end in asked.ends)
    row.owner = asked.owner
    row.soft_packets = asked.rekey.soft_packets
    row.soft_bytes = asked.rekey.soft_bytes
    row.soft_seconds = asked.rekey.soft_seconds
    await _check_alone(session, row)


def _check_place(gateway: Gateway, near: EndIn, far: EndIn) -> None:
    """Raises CulvertError REQUEST_INVALID when what is near is not, or what is far is."""
    site = site_of(gateway)
    if strange := [it.prefix for it in near.targets if not site.reaches(it.prefix)]:
        why = f"{gateway.name} has no neighbour in {strange[0]} on its LAN, and no router to it"
        raise CulvertError(Reason.REQUEST_INVALID, why=why)
    for target in far.targets:
        network = ipaddress.ip_network(target.prefix)
        if inside := [it for it in site.inside() if it.version == network.version and it.overlaps(network)]:
            why = f"{network} is behind {far.gateway}, but {inside[0]} is {gateway.name}'s own"
            raise CulvertError(Reason.REQUEST_INVALID, why=why)


async def _check_alone(session: AsyncSession, row: SiteTunnel) -> None:
    """A packet has one tunnel. Raises CulvertError ALREADY_EXISTS."""
    with session.no_autoflush:
        others = await repository.neighbours(session, row)
    for other in others:
        for gateway in {row.a, row.b} & {other.a, other.b}:
            ours, theirs = side_of(row, gateway).flows, side_of(other, gateway).flows
            if any(overlap(one, another) for one in ours for another in theirs):
                what = f"{_what(other.name)}, which carries some of the same packets at {gateway.name},"
                raise CulvertError(Reason.ALREADY_EXISTS, what=what)


def _found(gateways: dict[str, Gateway], name: str) -> Gateway:
    if name not in gateways:
        raise CulvertError(Reason.NOT_FOUND, what=f"The gateway {name}")
    return gateways[name]


def _described(asked: SiteTunnelChange) -> dict[str, Detail]:
    ends = {end.gateway: " ".join(map(str, end.targets)) for end in asked.ends}
    return {**ends, "owner": asked.owner}


def _what(name: str) -> str:
    return f"The tunnel between gateways {name}"


def _object(name: str) -> str:
    return f"site-tunnel/{name}"


def _unknown(name: str) -> CulvertError:
    return CulvertError(Reason.NOT_FOUND, what=_what(name))
