"""The life of a device's identity: enrolment → code → revocation."""

from __future__ import annotations

import datetime
import logging
import uuid
from collections.abc import Callable, Mapping

from culvert_db import ActorKind, Database, Device, DeviceState
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.naming import last_denials
from culvert_service.audit.refusals import Refusals
from culvert_service.audit.schemas import DeniedOut
from culvert_service.audit.transaction import Transaction, begin
from culvert_service.decision.posture import FACT
from culvert_service.identity import invitations, repository
from culvert_service.identity.authenticator import issue
from culvert_service.identity.repository import Sought
from culvert_service.identity.schemas import (
    DeviceOut,
    EnrolmentIn,
    EnrolmentOut,
    FactOut,
    FactValueOut,
    RevokedOut,
)
from culvert_service.identity.tunnels import DeviceTunnels, Permissions
from culvert_service.pki import request
from culvert_service.pki.authority import Authority
from culvert_service.pki.master_key import MasterKey
from culvert_service.rest.page import Page, Sort
from culvert_service.rest.version import MayMatch
from culvert_service.watch.hub import End, Hub
from culvert_service.watch.presence import Presence
from culvert_service.watch.pushes import Pushes

_log = logging.getLogger(__name__)

# The limits of a device's report (proto/culvert/agent/v1); lengths in characters.
_POSTURE_FACTS, _POSTURE_NAME, _POSTURE_VALUE = 32, 64, 256
_VERSION_LENGTH = 40
# Facts in a list, and values of each.
_FACTS_SHOWN = 50

Now = Callable[[], datetime.datetime]


class Identity:
    def __init__(
        self,
        database: Database,
        refusals: Refusals,
        infrastructure: Authority,
        devices: Authority,
        master_key: MasterKey,
        hub: Hub,
        pushes: Pushes,
        presence: Presence,
        *,
        agent_address: str,
        approval: bool,
        now: Now,
    ) -> None:
        """`approval`: all policies ask for an approved device."""
        self._database = database
        self._refusals = refusals
        self._infrastructure = infrastructure
        self._devices = devices
        self._master_key = master_key
        self._hub = hub
        self._pushes = pushes
        self._presence = presence
        self._agent_address = agent_address
        self._approval = approval
        self._now = now

    async def enrol(self, by: Actor, asked: EnrolmentIn) -> EnrolmentOut:
        """Enrol a device. After a lost answer it may repeat the call with the same key, and gets a new authenticator.

        Raises CulvertError CSR_INVALID (the invitation stays good) or INVITATION_INVALID.
        """
        device_id = uuid.uuid4()
        try:
            return await self._enrol(by, asked, device_id)
        except CulvertError as error:
            line = Line(
                "device.enrol", f"device/{asked.device_name}", actor=_to_invitation_actor(by, "unknown")
            )
            await self._refusals.of_stranger(by, line, error)
            raise

    async def _enrol(self, by: Actor, asked: EnrolmentIn, device_id: uuid.UUID) -> EnrolmentOut:
        public_key = request.public_key(asked.csr_pem)
        key_hash = request.key_hash(public_key)
        token, now = asked.token.get_secret_value(), self._now()
        async with begin(self._database, by) as transaction:
            session = transaction.session
            user = await invitations.use(session, token, now)
            again = None if user else await invitations.find_recent_enrolment(session, token, key_hash, now)
            if user is None and again is None:
                raise CulvertError(Reason.INVITATION_INVALID)
            issued = self._devices.issue_device(public_key, str(again.id if again else device_id))
            if again is not None:
                device = again
                # Delete the secrets of the lost answer.
                await repository.forget_authenticator(session, device.id)
                device.next_fingerprint = device.next_serial = device.next_expires_at = None
            else:
                device = Device(id=device_id, user=user)
            device.name = asked.device_name
            device.fingerprint, device.certificate_serial = issued.fingerprint, issued.serial
            device.certificate_expires_at = issued.expires_at
            session.add(device)
            await session.flush()
            if again is None:
                # Not for a repeated enrolment: a request that waits for the device may have locked the invitation's row.
                await invitations.note_enrolled(session, token, device, key_hash)
            made = issue(session, self._master_key, device)
            named: dict[str, Detail] = {"name": device.name, "user": device.user.name}
            if again is not None:
                named["again"] = True
            actor = _to_invitation_actor(by, device.user.name)
            transaction.audit(Line("device.enrol", f"device/{device.id}", named, actor=actor))
        _log.info("device enrolled", extra={"device": str(device.id), "user": device.user.name})
        return EnrolmentOut(
            device_id=device.id,
            user=device.user.name,
            certificate_pem=issued.pem.decode(),
            ca_pem=self._infrastructure.pem.decode(),
            agent_address=self._agent_address,
            totp_uri=made.totp_uri,
            recovery_codes=made.recovery_codes,
        )

    async def devices(self, page: Page, sought: Sought, sort: str) -> list[DeviceOut]:
        order = Sort(page, repository.DEVICE_ORDERS, sort, repository.BY_ID)
        async with self._database() as session:
            shown = await repository.devices(session, order, sought, always=self._approval)
            ids = [device.id for device in shown]
            needed = await repository.find_approval_needed(session, ids, always=self._approval)
            denied = await last_denials(session, ids)
        return [
            self._device_out(device, approval_needed=device.id in needed, denied=denied.get(str(device.id)))
            for device in shown
        ]

    async def facts(self) -> list[FactOut]:
        """The facts that a policy can ask for."""
        async with self._database() as session:
            found = await repository.list_facts(session, FACT, _FACTS_SHOWN)
        return [
            FactOut(
                fact=name,
                devices=fact.devices,
                values=[FactValueOut(value=value, devices=number) for value, number in fact.values.items()],
            )
            for name, fact in found.items()
        ]

    async def device(self, device_id: uuid.UUID) -> tuple[DeviceOut, int]:
        """The device and its version. Raises CulvertError NOT_FOUND."""
        async with self._database() as session:
            device = await repository.device(session, device_id)
            needed = await repository.find_approval_needed(session, [device_id], always=self._approval)
        if device is None:
            raise CulvertError(Reason.NOT_FOUND, what=Phrase("The device {name}", name=device_id))
        return self._device_out(device, approval_needed=device_id in needed), device.version

    async def approve(self, by: Actor, device_id: uuid.UUID, seen: MayMatch) -> tuple[DeviceOut, int]:
        """Raises CulvertError NOT_FOUND, VERSION_STALE or DEVICE_REVOKED."""
        return await self._judge(by, device_id, DeviceState.APPROVED, seen)

    async def unapprove(
        self, by: Actor, device_id: uuid.UUID, permissions: Permissions, seen: MayMatch
    ) -> tuple[DeviceOut, int]:
        """Withdraw the approval and close the tunnels that need it. Raises as `approve`."""
        found = await self._judge(by, device_id, DeviceState.PENDING, seen)
        await permissions.enforce()
        return found

    async def _judge(
        self, by: Actor, device_id: uuid.UUID, state: DeviceState, seen: MayMatch
    ) -> tuple[DeviceOut, int]:
        async with begin(self._database, by) as transaction:
            await _check_version(transaction.session, device_id, seen)
            changed = await repository.judge(transaction.session, device_id, state)
            if changed:
                action = "device.approve" if state is DeviceState.APPROVED else "device.unapprove"
                transaction.audit(Line(action, f"device/{device_id}"))
        found = await self.device(device_id)
        if not changed:
            raise CulvertError(Reason.DEVICE_REVOKED, device=found[0].name)
        _log.info("device judged", extra={"device": str(device_id), "state": state.value})
        return found

    async def revoke(
        self, by: Actor, device_id: uuid.UUID, tunnels: DeviceTunnels, seen: MayMatch
    ) -> RevokedOut:
        """Revoke a device. Returns after its tunnels are closed and its Watch has ended; its later calls are refused."""
        async with begin(self._database, by) as transaction:
            await _check_version(transaction.session, device_id, seen)
            end = await self._revoke(transaction, device_id, "device.revoke")
        self._hub.send(device_id, end)
        closed = await tunnels.close_of_device(by, device_id)
        _log.info("device revoked", extra={"device": str(device_id), "tunnels_closed": closed})
        return RevokedOut(tunnels_closed=closed)

    async def leave(self, by: Actor, fingerprint: bytes, tunnels: DeviceTunnels) -> None:
        """Revoke the device with this certificate at its own request. Raises CulvertError as `check_certificate`."""
        async with begin(self._database, by) as transaction:
            found = await repository.device_by_fingerprint(transaction.session, fingerprint)
            device = check_certificate(found, fingerprint, self._now())
            by = by.with_name(ActorKind.DEVICE, device.id)
            end = await self._revoke(transaction, device.id, "device.leave", by)
        self._hub.send(device.id, end)
        closed = await tunnels.close_of_device(by, device.id)
        _log.info("device left", extra={"device": str(device.id), "tunnels_closed": closed})

    async def _revoke(
        self, transaction: Transaction, device_id: uuid.UUID, action: str, actor: Actor | None = None
    ) -> End:
        """Returns what its Watch must be told after the commit. `actor`: if not the transaction's."""
        session = transaction.session
        device = await repository.revoke(session, device_id, self._now())
        if device is None:
            raise CulvertError(Reason.NOT_FOUND, what=Phrase("The device {name}", name=device_id))
        transaction.audit(Line(action, f"device/{device_id}", {"name": device.name}, actor=actor))
        end = End(CulvertError(Reason.DEVICE_REVOKED, device=device.name))
        await self._pushes.send(session, [(device_id, end)])
        await repository.tell_revocations(session)
        return end

    async def record_watch(
        self, fingerprint: bytes, address: str, client_version: str, posture: Mapping[str, str]
    ) -> Device:
        """Record a device that begins to watch. Raises CulvertError as `check_device`, or REQUEST_INVALID."""
        if len(posture) > _POSTURE_FACTS or any(
            not 0 < len(name) <= _POSTURE_NAME or len(value) > _POSTURE_VALUE
            for name, value in posture.items()
        ):
            raise CulvertError(
                Reason.REQUEST_INVALID, why=Phrase("posture has too many facts, or too long ones")
            )
        if not all(map(str.isprintable, (client_version, *posture.keys(), *posture.values()))):
            raise CulvertError(
                Reason.REQUEST_INVALID, why=Phrase("the device's report contains unprintable characters")
            )
        now = self._now()
        async with self._database.begin() as session:
            await repository.take_next_certificate(session, fingerprint)
            found = await repository.device_by_fingerprint(session, fingerprint)
            device = check_certificate(found, fingerprint, now)
            device.last_seen_at, device.last_seen_address = now, address
            self._presence.began(device)
            said = client_version[:_VERSION_LENGTH], dict(posture)
            if said != (device.client_version, device.posture):
                device.client_version, device.posture = said
                await repository.doubt_tunnels(session, device.id)
        return device

    def _device_out(
        self, device: Device, *, approval_needed: bool, denied: DeniedOut | None = None
    ) -> DeviceOut:
        return DeviceOut(
            id=device.id,
            name=device.name,
            user=device.user.name,
            user_display_name=device.user.display_name,
            state=device.state.value,
            approval_needed=approval_needed,
            online=self._presence.online(device),
            last_seen_at=device.last_seen_at,
            last_seen_address=device.last_seen_address,
            client_version=device.client_version,
            posture=device.posture,
            certificate_expires_at=device.certificate_expires_at,
            code_valid_until=device.code_valid_until,
            last_denied=denied,
            created_at=device.created_at,
            revoked_at=device.revoked_at,
        )


def check_certificate(device: Device | None, fingerprint: bytes, now: datetime.datetime) -> Device:
    """The device that shows this certificate. Raises CulvertError CERTIFICATE_UNKNOWN, DEVICE_REVOKED or
    CERTIFICATE_EXPIRED.

    Also checks the expiry: a certificate may expire while its connection is open.
    """
    device = check_device(device)
    if device.expires_at(fingerprint) <= now:
        raise CulvertError(Reason.CERTIFICATE_EXPIRED)
    return device


def check_device(device: Device | None) -> Device:
    """Raises CulvertError CERTIFICATE_UNKNOWN or DEVICE_REVOKED."""
    if device is None:
        raise CulvertError(Reason.CERTIFICATE_UNKNOWN)
    if device.state is DeviceState.REVOKED:
        raise CulvertError(Reason.DEVICE_REVOKED, device=device.name)
    return device


async def _check_version(session: AsyncSession, device_id: uuid.UUID, seen: MayMatch) -> None:
    """Raises CulvertError NOT_FOUND or VERSION_STALE."""
    version = await repository.lock_version(session, device_id)
    if version is None:
        raise CulvertError(Reason.NOT_FOUND, what=Phrase("The device {name}", name=device_id))
    seen.check(Phrase("The device {name}", name=device_id), version)


def _to_invitation_actor(by: Actor, user: str) -> Actor:
    """The actor of a call with this person's invitation and no certificate."""
    return by.with_name(ActorKind.INVITATION, user)
