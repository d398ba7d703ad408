"""Changes of a registered gateway: replace its settings, drain it, delete it once nothing uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from culvert_db import Database, Gateway, clock
from culvert_proto import CulvertError, Reason
from culvert_proto.contract import Suite
from culvert_proto.phrases import Phrase
from culvert_proto.sa import check_allowed
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.transaction import AfterCommit, Transaction, begin
from culvert_service.gateways import repository
from culvert_service.gateways.neighbours import Neighbour, stored_macs
from culvert_service.gateways.ownership import Ownership
from culvert_service.gateways.record import check_serves
from culvert_service.gateways.schemas import GatewayIn
from culvert_service.gateways.service import already_exists, audit_details, check_reachable, columns
from culvert_service.identity.tunnels import LockedTunnels
from culvert_service.rest.version import MayMatch


class GatewayRefit(Protocol):
    async def lock_at_gateway(self, transaction: Transaction, gateway: Gateway) -> LockedTunnels:
        """Lock the tunnels of the locked gateway, before it changes."""
        ...


class CheckFit(Protocol):
    async def __call__(self, session: AsyncSession, gateway: Gateway) -> None:
        """Raises CulvertError GATEWAY_IN_USE when a tunnel to another gateway does not fit the changed one."""
        ...


class Changes:
    def __init__(
        self,
        database: Database,
        ownership: Ownership,
        refit: GatewayRefit,
        check_fit: CheckFit,
        protected_prefixes: Sequence[str],
    ) -> None:
        self._database = database
        self._ownership = ownership
        self._refit = refit
        self._check_fit = check_fit
        self._protected_prefixes = protected_prefixes

    async def replace(self, by: Actor, name: str, asked: GatewayIn, seen: MayMatch) -> None:
        """Raises CulvertError NOT_FOUND, VERSION_NEEDED, VERSION_STALE, REQUEST_INVALID, SUITE_LEGACY, ALREADY_EXISTS or
        GATEWAY_IN_USE.
        """
        if asked.name != name:
            why = Phrase("a gateway keeps its name, which its certificate and its keys are made for")
            raise CulvertError(Reason.REQUEST_INVALID, why=why)
        check_reachable(asked, self._protected_prefixes)
        try:
            async with begin(self._database, by) as transaction:
                gateway = await _lock(transaction.session, name, seen)
                closed = await self.replace_in(transaction, gateway, asked)
                transaction.audit(Line("gateway.replace", f"gateway/{name}", audit_details(asked)))
                await repository.notify_controllers(transaction.session)
        except IntegrityError as error:
            raise already_exists(asked, error) from None
        await closed.finish()
        await self._ownership.look()

    async def replace_in(
        self,
        transaction: Transaction,
        gateway: Gateway,
        asked: GatewayIn,
        found: Mapping[Neighbour, str] = MappingProxyType({}),
    ) -> AfterCommit:
        """Replace the settings of the locked gateway. `found`: MAC addresses of neighbours that it has just found.

        Raises CulvertError SUITE_LEGACY, REQUEST_INVALID or GATEWAY_IN_USE; IntegrityError for an address that another
        gateway has.
        """
        check_allowed(asked.suite, asked.legacy_suites, Phrase("the gateway {gateway}", gateway=asked.name))
        session, before = transaction.session, stored_macs(gateway)
        fields = columns(asked, {**found, **before})
        await _check_resources(session, gateway.id, Gateway(name=gateway.name, **fields))
        await _check_site_tunnels(session, gateway, fields)
        tunnels = await self._refit.lock_at_gateway(transaction, gateway)
        for field, value in fields.items():
            setattr(gateway, field, value)
        await session.flush()
        await repository.keep_neighbours(session, gateway, found)
        closed = await tunnels.close_unfit()
        await self._check_fit(session, gateway)
        return closed

    async def delete(self, by: Actor, name: str, seen: MayMatch) -> None:
        """Delete a gateway that no tunnel uses. Its static entries stay on the switch. Raises CulvertError NOT_FOUND,
        VERSION_STALE or GATEWAY_IN_USE.
        """
        try:
            async with begin(self._database, by) as transaction:
                session = transaction.session
                gateway = await _lock(session, name, seen)
                if uses := await repository.uses(session, gateway.id):
                    raise CulvertError(Reason.GATEWAY_IN_USE, gateway=name, why=uses)
                await session.delete(gateway)
                await session.flush()
                transaction.audit(Line("gateway.delete", f"gateway/{name}"))
                await repository.notify_controllers(session)
        except IntegrityError:
            why = Phrase("a resource or a tunnel came while it was to be deleted")
            raise CulvertError(Reason.GATEWAY_IN_USE, gateway=name, why=why) from None
        await self._ownership.look()

    async def drain(self, by: Actor, name: str, seen: MayMatch, *, anyway: bool) -> None:
        """Start a drain: after the commit no tunnel opens through the gateway.

        Raises CulvertError NOT_FOUND, VERSION_STALE or, unless `anyway`, GATEWAY_NEEDED.
        """
        async with begin(self._database, by) as transaction:
            gateway = await _lock(transaction.session, name, seen)
            load = (await repository.loads(transaction.session, [gateway.id]))[gateway.id]
            if gateway.draining_since is not None:
                return
            if load.stays and not anyway:
                raise CulvertError(Reason.GATEWAY_NEEDED, gateway=name, what=load.stays)
            gateway.draining_since = await clock(transaction.session)
            told: dict[str, Detail] = {"tunnels": load.tunnels, "stays": load.stays}
            transaction.audit(Line("gateway.drain", f"gateway/{name}", told))
            await repository.notify_controllers(transaction.session)
        await self._ownership.look()

    async def undrain(self, by: Actor, name: str, seen: MayMatch) -> None:
        """End a drain. Tunnels that have moved away stay there. Raises CulvertError NOT_FOUND or VERSION_STALE."""
        async with begin(self._database, by) as transaction:
            gateway = await _lock(transaction.session, name, seen)
            if gateway.draining_since is None:
                return
            gateway.draining_since = None
            transaction.audit(Line("gateway.undrain", f"gateway/{name}"))
            await repository.notify_controllers(transaction.session)
        await self._ownership.look()


async def _lock(session: AsyncSession, name: str, seen: MayMatch) -> Gateway:
    gateway = await repository.lock(session, name)
    if gateway is None:
        raise CulvertError(Reason.NOT_FOUND, what=Phrase("The gateway {name}", name=name))
    seen.check(Phrase("The gateway {name}", name=name), gateway.version)
    return gateway


async def _check_resources(session: AsyncSession, gateway_id: int, changed: Gateway) -> None:
    for resource in await repository.resources_through(session, gateway_id):
        suite = Suite(resource.suite) if resource.suite else None
        check_serves(changed, resource.name, [target["prefix"] for target in resource.targets], suite)


async def _check_site_tunnels(session: AsyncSession, gateway: Gateway, fields: Mapping[str, Any]) -> None:
    """Refuse changes of addresses and LAN while a site tunnel uses them: both ends have them in their entries."""
    if all(getattr(gateway, name) == fields[name] for name in ("address", "public_address", "wan", "lan")):
        return
    if ends := await repository.site_tunnels_of(session, gateway.id):
        why = Phrase("it is an end of {tunnels}", tunnels=", ".join(ends))
        raise CulvertError(Reason.GATEWAY_IN_USE, gateway=gateway.name, why=why)
