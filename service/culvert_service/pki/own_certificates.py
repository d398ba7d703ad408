"""This controller's own certificates: for the server of both APIs, and for the client of its gateways.

 every 5 s: have the CAs been replaced? is a third of the lifetime left? ─┬► new certificates ─► their users
            was the clock ahead when they were issued?                   ─┘

Open connections keep their certificate; only new connections use the new one.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Sequence

from culvert_service.pki.authority import Authority, PrivateKey
from culvert_service.pki.issuance import BACKDATE
from culvert_service.tasks import Periodic

_log = logging.getLogger(__name__)

_LOOK_EVERY_SECONDS = 5.0
# The share of a certificate's lifetime after which it is renewed.
_RENEWED_AFTER = 2 / 3


class OwnCertificates:
    """`server` has the `names`. Peers that know only previous CAs can verify both certificates with `chain`."""

    def __init__(
        self,
        infrastructure: Authority,
        devices: Authority,
        gateways: Authority,
        names: Sequence[str],
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._infrastructure = infrastructure
        self._devices = devices
        self._gateways = gateways
        self._names = names
        self._now = now
        self._told: list[Callable[[], None]] = []
        self._looks = Periodic("certificates", self._round, _LOOK_EVERY_SECONDS)
        self._issue()

    def _issue(self) -> None:
        self.server = self._infrastructure.issue_server("Culvert controller", self._names)
        self.client = self._infrastructure.issue_p4runtime_client()
        began = self._now()
        ends = min(self.server.certificate.expires_at, self.client.certificate.expires_at)
        self._good_from, self._renew_at = began - BACKDATE, began + (ends - began) * _RENEWED_AFTER

    def chain(self, own: PrivateKey) -> bytes:
        """PEM: the certificate, the cross-certificates of previous CAs, and the CA, whose hash invitations contain."""
        return own.certificate.pem + self._infrastructure.crossed_pem + self._infrastructure.pem

    @property
    def devices_pem(self) -> bytes:
        """The CAs that may have issued a device's certificate."""
        return self._devices.trusted_pem

    @property
    def gateways_pem(self) -> bytes:
        """The CAs that may have signed a gateway's certificate.

        The infrastructure CA is among them, because it signed gateways' certificates before the gateway CA existed. The
        certificate's name still distinguishes gateways from controllers.
        """
        return self._gateways.trusted_pem + self._infrastructure.trusted_pem

    @property
    def dialling_pem(self) -> bytes:
        """The CAs that may have signed the certificate of a gateway that connects itself: only those for gateways."""
        return self._gateways.trusted_pem

    def tell(self, hear: Callable[[], None]) -> None:
        """`hear` is called after each change of the certificates or CAs."""
        self._told.append(hear)

    def look(self) -> None:
        """Renew if needed. Raises OSError or ValueError if the state directory is unreadable; the old certificates stay."""
        replaced = [
            authority.refresh() for authority in (self._infrastructure, self._devices, self._gateways)
        ]
        if not any(replaced) and self._good_from <= self._now() < self._renew_at:
            return
        self._issue()
        _log.info("certificates reissued", extra={"until": self.server.certificate.expires_at.isoformat()})
        for hear in self._told:
            hear()

    async def start(self) -> None:
        self._looks.start()

    async def stop(self) -> None:
        await self._looks.stop()

    async def _round(self) -> None:
        self.look()
