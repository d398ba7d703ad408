"""Reports of joined gateways: the MAC addresses of their neighbours, and an address of their own that has changed."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

from culvert_db import Database, Gateway, clock
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from pydantic import ValidationError
from sqlalchemy.exc import IntegrityError

from culvert_service.admins.notices import tell_owners
from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.refusals import Refusals
from culvert_service.audit.transaction import AfterCommit, Transaction, begin
from culvert_service.gateways import repository as gateways
from culvert_service.gateways.changes import Changes
from culvert_service.gateways.neighbours import take_report
from culvert_service.gateways.ownership import Ownership
from culvert_service.gateways.service import already_exists, check_reachable, described
from culvert_service.joining.gateway_key import check_signature, lock_joined, to_actor
from culvert_service.joining.schemas import GatewayReportIn, GatewayReportOut
from culvert_service.pki import request

# The most that a report may be older or newer than our clock.
_FRESH_SECONDS = 300
# The most neighbours that a line of the audit log names.
_SHOWN = 8


class Reports:
    def __init__(
        self,
        database: Database,
        refusals: Refusals,
        ownership: Ownership,
        changes: Changes,
        *,
        protected_prefixes: Sequence[str],
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._database = database
        self._refusals = refusals
        self._ownership = ownership
        self._changes = changes
        self._protected_prefixes = protected_prefixes
        self._now = now

    async def take(self, by: Actor, asked: GatewayReportIn) -> GatewayReportOut:
        """Raises CulvertError CSR_INVALID, GATEWAY_NOT_JOINED or REQUEST_INVALID."""
        public_key = request.public_key(asked.csr_pem)
        now = self._now()
        try:
            check_signature(public_key, asked.signature, asked.statement())
            if abs(now.timestamp() - asked.at) > _FRESH_SECONDS:
                raise CulvertError(
                    Reason.REQUEST_INVALID,
                    why=Phrase(
                        "the gateway's clock differs from the controller's by more than {seconds} s",
                        seconds=_FRESH_SECONDS,
                    ),
                )
            async with begin(self._database, by) as transaction:
                gateway = await lock_joined(transaction.session, public_key, asked.gateway)
                await self._take_neighbours(transaction, gateway, asked)
                answer = _answer(gateway, now)
        except CulvertError as error:
            line = Line("gateway.report", f"gateway/{asked.gateway}", actor=to_actor(by, "unknown"))
            await self._refusals.of_stranger(by, line, error)
            raise
        if asked.address in (None, answer.address):
            return answer
        try:
            async with begin(self._database, by) as transaction:
                gateway = await lock_joined(transaction.session, public_key, asked.gateway)
                after = await self._take_address(transaction, gateway, asked.address)
                answer = _answer(gateway, now)
        except CulvertError as error:
            return answer.model_copy(update={"refused": f"{error.message} {error.remedy}"})
        await after.finish()
        await self._ownership.look()
        return answer

    async def _take_neighbours(
        self, transaction: Transaction, gateway: Gateway, asked: GatewayReportIn
    ) -> None:
        session = transaction.session
        rows = (await gateways.read_neighbours(session, [gateway.id])).get(gateway.id, [])
        report = {("wan", at): mac for at, mac in asked.wan.items()}
        report |= {("lan", at): mac for at, mac in asked.lan.items()}
        changed, moved = take_report(rows, report, await clock(session))
        if moved:
            details: dict[str, Detail] = {at: f"{before} to {after}" for at, before, after in moved[:_SHOWN]}
            details["count"] = len(moved)
            actor = to_actor(transaction.actor, gateway.name)
            transaction.audit(Line("gateway.neighbours", f"gateway/{gateway.name}", details, actor=actor))
        if changed:
            await session.flush()
            await gateways.notify_controllers(session)

    async def _take_address(
        self, transaction: Transaction, gateway: Gateway, address: str | None
    ) -> AfterCommit:
        """Raises CulvertError GATEWAY_IN_USE, ALREADY_EXISTS or REQUEST_INVALID."""
        before = gateway.address
        try:
            wanted = described(gateway, address=address)
        except ValidationError as error:
            raise CulvertError(Reason.REQUEST_INVALID, why=error.errors()[0]["msg"]) from None
        check_reachable(wanted, self._protected_prefixes)
        try:
            after = await self._changes.replace_in(transaction, gateway, wanted)
        except IntegrityError as error:
            raise already_exists(wanted, error) from None
        details: dict[str, Detail] = {"address": f"{before} to {address}"}
        actor = to_actor(transaction.actor, gateway.name)
        await tell_owners(
            transaction, Line("gateway.address", f"gateway/{gateway.name}", details, actor=actor)
        )
        await gateways.notify_controllers(transaction.session)
        return after


def _answer(gateway: Gateway, now: datetime.datetime) -> GatewayReportOut:
    return GatewayReportOut(
        wan=gateway.resolves.get("wan", []),
        lan=gateway.resolves.get("lan", []),
        address=gateway.address,
        address6=gateway.address6,
        lan_address=gateway.lan["address"],
        lan_address6=gateway.lan.get("address6"),
        refused="",
        now=now,
    )
