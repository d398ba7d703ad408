"""The access tracer: runs the decision of OpenTunnel without opening a tunnel, and returns every step.

A decision about the past reads the rows as they were then. The settings, the code and its time zones are today's.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Sequence

from culvert_db import Database
from culvert_proto import CulvertError, Reason, dns_name
from culvert_proto.phrases import Phrase
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.decision import facts
from culvert_service.decision.conditions import Check, Denial
from culvert_service.decision.decision import AccessStep, Decision, GatewayFact, Permit, decide
from culvert_service.decision.repository import history_begin
from culvert_service.gateways.fleet import Fleet
from culvert_service.policies import repository
from culvert_service.policies.repository import Traced
from culvert_service.policies.schemas import StepOut, TraceOut
from culvert_service.rest.field import FieldError


class Tracer:
    """`approval` as for the openings."""

    def __init__(
        self,
        database: Database,
        fleet: Fleet,
        now: Callable[[], datetime.datetime],
        *,
        approval: bool,
    ) -> None:
        self._database = database
        self._fleet = fleet
        self._now = now
        self._approval = approval

    async def trace(
        self,
        user: str,
        name: str,
        device_id: uuid.UUID | None,
        address: str | None,
        gateway: str,
        language: str,
        at: datetime.datetime | None = None,
    ) -> list[TraceOut]:
        """The decision for each device of the person, now or at `at`. `address` None: the device's last address.
        `language`: of the sentences. Raises CulvertError NOT_FOUND, REQUEST_INVALID or HISTORY_NOT_KEPT.
        """
        fqdn = _parse_name(name)
        async with self._database() as session:
            if at is not None:
                await self._check_time(session, at)
            if await repository.user_at(session, user, at) is None:
                raise FieldError("/user", Reason.NOT_FOUND, what=Phrase("The user {name}", name=user))
            if "." not in fqdn:
                fqdn = await self._complete(session, fqdn, at)
            found = await repository.read_traced(session, user, fqdn, device_id, at)
            serving = await repository.gateways_of(session, fqdn, at)
        if device_id is not None and not found:
            raise CulvertError(
                Reason.NOT_FOUND, what=Phrase("The device {name} of {user}", name=device_id, user=user)
            )
        gateways = [
            GatewayFact(
                it.gateway.name,
                self._fleet.is_online(it.gateway.name) if at is None else online,
                it.gateway.draining_since is not None,
                it.weight,
            )
            for it, online in serving
        ]
        now = at or self._now()
        return [self._one(traced, fqdn, address, gateways, gateway, language, now) for traced in found]

    async def begin(self) -> datetime.datetime:
        """The earliest time about which `trace` can decide."""
        async with self._database() as session:
            return await history_begin(session)

    async def _check_time(self, session: AsyncSession, at: datetime.datetime) -> None:
        if at > self._now():
            raise FieldError("/at", Reason.REQUEST_INVALID, why=Phrase("at: must not be in the future"))
        if at < (begin := await history_begin(session)):
            since = begin.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
            raise FieldError("/at", Reason.HISTORY_NOT_KEPT, since=since)

    async def _complete(self, session: AsyncSession, label: str, at: datetime.datetime | None) -> str:
        """The name of the one resource that begins with this label; the label, if none does.

        Raises CulvertError REQUEST_INVALID if several do.
        """
        names = await repository.names_beginning(session, label, at)
        if len(names) < 2 or label in names:
            return label if label in names or not names else names[0]
        listed = ", ".join(map(dns_name.make_readable, names))
        why = Phrase("{name} is short for several resources: {names}", name=label, names=listed)
        raise FieldError("/name", Reason.REQUEST_INVALID, why=why)

    def _one(
        self,
        traced: Traced,
        fqdn: str,
        address: str | None,
        gateways: Sequence[GatewayFact],
        pinned: str,
        language: str,
        now: datetime.datetime,
    ) -> TraceOut:
        device, resource = traced.device, traced.resource
        source = address or device.last_seen_address
        decision = decide(
            facts.asker(device, device.user, source),
            fqdn,
            facts.target(resource, traced.policies, approval=self._approval) if resource else None,
            gateways,
            pinned,
            now,
        )
        return _out(device.id, device.name, source, resource and resource.name, decision, language)


def _parse_name(name: str) -> str:
    try:
        return dns_name.parse(name)
    except dns_name.NameInvalidError as error:
        raise FieldError("/name", Reason.REQUEST_INVALID, why=Phrase("name: {why}", why=error)) from None


def _out(
    device_id: uuid.UUID,
    device: str,
    address: str | None,
    resource: str | None,
    decision: Decision,
    language: str,
) -> TraceOut:
    permit = decision.verdict if isinstance(decision.verdict, Permit) else None
    error = decision.verdict.error() if isinstance(decision.verdict, Denial) else None
    message, remedy = error.localise(language) if error else (None, None)
    return TraceOut(
        device_id=device_id,
        device=device,
        address=address,
        resource=resource,
        verdict="permit" if permit else "deny",
        gateways=list(permit.gateways) if permit else [],
        permitted_until=permit.until if permit else None,
        reason=error.reason.name if error else None,
        message=dns_name.make_readable(message) if message else None,
        remedy=remedy,
        steps=[_step(step, language) for step in decision.steps],
    )


def _step(step: AccessStep, language: str) -> StepOut:
    error = step.denial.error() if step.denial else None
    message = dns_name.make_readable(error.localise(language)[0]) if error else None
    if step.check is Check.POLICY and error is not None and step.subject:
        message = Phrase("The policy {name} is turned off.", name=step.subject).localise(language)
    return StepOut(
        check=step.check,
        subject=dns_name.make_readable(step.subject),
        holds=error is None,
        reason=error.reason.name if error else None,
        message=message,
        until=step.until,
        weight=step.weight,
    )
