"""The access tracer: runs the decision of OpenTunnel without opening a tunnel, and returns every step."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Sequence

from culvert_db import Database, Gateway, ResourceGateway
from culvert_proto import CulvertError, Reason, dns_name
from culvert_proto.phrases import Phrase

from culvert_service.decision import facts
from culvert_service.decision.conditions import Check, Denial
from culvert_service.decision.decision import AccessStep, Decision, GatewayFact, Permit, decide
from culvert_service.gateways.fleet import Fleet
from culvert_service.policies import repository
from culvert_service.policies.repository import Traced
from culvert_service.policies.schemas import StepOut, TraceOut


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
    ) -> list[TraceOut]:
        """The decision for each device of the person. `address` None: the device's last address. Raises CulvertError
        NOT_FOUND or REQUEST_INVALID. `language`: of the sentences.
        """
        fqdn = _parse_name(name)
        async with self._database() as session:
            if await repository.user(session, user) is None:
                raise CulvertError(Reason.NOT_FOUND, what=Phrase("The user {name}", name=user))
            found = await repository.read_traced(session, user, fqdn, device_id)
            serving = await repository.gateways_of(session, fqdn)
        if device_id is not None and not found:
            raise CulvertError(Reason.NOT_FOUND, what=f"The device {device_id} of {user}")
        return [self._one(traced, fqdn, address, serving, gateway, language) for traced in found]

    def _one(
        self,
        traced: Traced,
        fqdn: str,
        address: str | None,
        serving: Sequence[ResourceGateway],
        pinned: str,
        language: str,
    ) -> TraceOut:
        device, resource = traced.device, traced.resource
        source = address or device.last_seen_address
        decision = decide(
            facts.asker(device, device.user, source),
            fqdn,
            facts.target(resource, traced.policies, approval=self._approval) if resource else None,
            [self._fact(it.gateway, it.weight) for it in serving],
            pinned,
            self._now(),
        )
        return _out(device.id, device.name, source, decision, language)

    def _fact(self, gateway: Gateway, weight: int | None) -> GatewayFact:
        online = self._fleet.is_online(gateway.name)
        return GatewayFact(gateway.name, online, gateway.draining_since is not None, weight)


def _parse_name(name: str) -> str:
    try:
        return dns_name.parse(name)
    except dns_name.NameInvalidError as error:
        raise CulvertError(Reason.REQUEST_INVALID, why=f"name: {error}") from None


def _out(
    device_id: uuid.UUID, device: str, address: str | None, decision: Decision, language: str
) -> TraceOut:
    permit = decision.verdict if isinstance(decision.verdict, Permit) else None
    error = decision.verdict.error() if isinstance(decision.verdict, Denial) else None
    message, remedy = error.localise(language) if error else (None, None)
    return TraceOut(
        device_id=device_id,
        device=device,
        address=address,
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
