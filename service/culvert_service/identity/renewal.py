"""Renewal: a device gets its next certificate with its present one. The old one ends when the device shows the next.

one certificate ── RenewCertificate ──► both are valid ── Watch with the next ──► only the next is valid
                                          so a lost answer locks no device out
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec
from culvert_db import ActorKind, Database, Device

from culvert_service.audit.line import Detail
from culvert_service.audit.log import Actor, Line
from culvert_service.audit.transaction import Transaction, begin
from culvert_service.identity import repository
from culvert_service.identity.denials import Denials
from culvert_service.identity.service import check_certificate
from culvert_service.pki import request
from culvert_service.pki.authority import Authority

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RenewedCertificate:
    certificate_pem: str
    ca_pem: str


class Renewal:
    def __init__(
        self,
        database: Database,
        infrastructure: Authority,
        devices: Authority,
        denials: Denials,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._database = database
        self._infrastructure = infrastructure
        self._devices = devices
        self._denials = denials
        self._now = now

    async def renew(self, by: Actor, fingerprint: bytes, csr_pem: str) -> RenewedCertificate:
        """Raises CulvertError as `check_certificate`, or CSR_INVALID."""
        async with self._denials.log_refusals(by, fingerprint, "device.renew"):
            return await self._renew(by, fingerprint, csr_pem)

    async def _renew(self, by: Actor, fingerprint: bytes, csr_pem: str) -> RenewedCertificate:
        public_key = request.public_key(csr_pem)
        async with begin(self._database, by) as transaction:
            # If the caller shows its next certificate, that one takes effect; a next one that was never shown is replaced.
            await repository.take_next_certificate(transaction.session, fingerprint)
            found = await repository.device_to_renew(transaction.session, fingerprint)
            device = check_certificate(found, fingerprint, self._now())
            renewed = self.issue(transaction, device, public_key)
        _log.info("certificate renewed", extra={"device": str(device.id)})
        return renewed

    def issue(
        self, transaction: Transaction, device: Device, public_key: ec.EllipticCurvePublicKey
    ) -> RenewedCertificate:
        """Issue the next certificate of a device that this transaction has locked."""
        issued = self._devices.issue_device(public_key, str(device.id))
        device.next_fingerprint, device.next_serial = issued.fingerprint, issued.serial
        device.next_expires_at = issued.expires_at
        told: dict[str, Detail] = {"serial": issued.serial, "expires": issued.expires_at.date().isoformat()}
        actor = transaction.actor.with_name(ActorKind.DEVICE, device.id)
        transaction.audit(Line("device.renew", f"device/{device.id}", told, actor=actor))
        return RenewedCertificate(issued.pem.decode(), self._infrastructure.pem.decode())
