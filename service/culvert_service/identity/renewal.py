"""A device's next certificate (DESIGN D14): asked for with the one that it has; good at once, alone once it is shown.

has one ── RenewCertificate ──► has one, was given the next ── Watch with the next ──► has one
                                  either is good: an answer that was lost locks nobody out
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec
from culvert_db import Database, Device
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit import log as audit
from culvert_service.audit.line import Detail
from culvert_service.audit.log import Line
from culvert_service.identity import repository
from culvert_service.identity.denials import Denials
from culvert_service.identity.service import admitted
from culvert_service.pki import request
from culvert_service.pki.authority import Authority

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Renewed:
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

    async def renew(self, fingerprint: bytes, csr_pem: str) -> Renewed:
        """Raises CulvertError as `admitted`, or CSR_INVALID."""
        async with self._denials.telling(fingerprint, "device.renew"):
            return await self._renew(fingerprint, csr_pem)

    async def _renew(self, fingerprint: bytes, csr_pem: str) -> Renewed:
        public_key = request.public_key(csr_pem)
        async with self._database.begin() as session:
            # The caller's next certificate takes effect if it shows it; one that was never shown is replaced.
            await repository.take_next_certificate(session, fingerprint)
            found = await repository.device_to_renew(session, fingerprint)
            device = admitted(found, fingerprint, self._now())
            renewed = self.issue(session, device, public_key)
        _log.info("certificate renewed", extra={"device": str(device.id)})
        return renewed

    def issue(self, session: AsyncSession, device: Device, public_key: ec.EllipticCurvePublicKey) -> Renewed:
        """The next certificate of a device that this transaction holds."""
        issued = self._devices.issue_device(public_key, str(device.id))
        device.next_fingerprint, device.next_serial = issued.fingerprint, issued.serial
        device.next_expires_at = issued.expires_at
        told: dict[str, Detail] = {"serial": issued.serial, "expires": issued.expires_at.date().isoformat()}
        line = Line("device.renew", f"device/{device.id}", told, actor=audit.by_device(device.id))
        audit.tell(session, line)
        return Renewed(issued.pem.decode(), self._infrastructure.pem.decode())
