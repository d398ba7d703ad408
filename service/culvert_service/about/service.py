"""An administrator's view of this controller, without secrets."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from culvert_service.about.schemas import CertificateOut, ControllerOut
from culvert_service.config import Settings
from culvert_service.dns.managed import ManagedZones
from culvert_service.oidc.service import Oidc
from culvert_service.pki.authority import Authority
from culvert_service.pki.own_certificates import OwnCertificates
from culvert_service.pki.public_certificate import PublicCertificate, PublicCertificates
from culvert_service.rest.problem import to_problem


class About:
    def __init__(
        self,
        settings: Settings,
        managed_zones: ManagedZones,
        own: OwnCertificates,
        public: PublicCertificates | None,
        authorities: dict[str, Authority],
        oidc: Oidc,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._settings = settings
        self._oidc = oidc
        self._managed_zones = managed_zones
        self._own = own
        self._public = public
        self._authorities = authorities
        self._now = now
        self._started_at = now()

    def now(self, language: str) -> ControllerOut:
        settings = self._settings
        return ControllerOut(
            name=settings.controller_name,
            version=version("culvert-service"),
            started_at=self._started_at,
            now=self._now(),
            rest_url=settings.rest_url,
            agent_address=settings.agent_address,
            database="embedded" if settings.database_url is None else "external",
            managed_zones=list(self._managed_zones.names),
            protected_prefixes=list(settings.protected_prefixes),
            device_approval=settings.device_approval,
            late_renewal_days=settings.late_renewal_days,
            oidc_issuer=settings.oidc_issuer,
            oidc_fault=to_problem(fault, language=language) if (fault := self._oidc.fault) else None,
            certificates=list(self._certificates()),
            # A public_enrolment_url stands for a proxy that ends TLS with a certificate of its own.
            own_certificate=settings.public_enrolment_url is None
            and (self._public is None or self._public.current is None),
            public_certificate_fault=(self._public.fault or None) if self._public is not None else None,
        )

    def _certificates(self) -> Iterator[CertificateOut]:
        for name, authority in self._authorities.items():
            current, *earlier = x509.load_pem_x509_certificates(authority.trusted_pem)
            yield _ca_out(name, "ca", current)
            yield from (_ca_out(name, "earlier-ca", one) for one in earlier)
        for kind, own in (("server", self._own.server), ("client", self._own.client)):
            yield CertificateOut(
                name=kind,
                kind="server" if kind == "server" else "client",
                fingerprint=own.certificate.fingerprint.hex(),
                expires_at=own.certificate.expires_at,
            )
        if self._public is not None and self._public.current is not None:
            yield _public_out(self._public.current)


def _public_out(found: PublicCertificate) -> CertificateOut:
    return CertificateOut(
        name="public", kind="server", fingerprint=found.fingerprint.hex(), expires_at=found.expires_at
    )


def _ca_out(name: str, kind: Literal["ca", "earlier-ca"], found: x509.Certificate) -> CertificateOut:
    fingerprint = found.fingerprint(hashes.SHA256()).hex()
    return CertificateOut(name=name, kind=kind, fingerprint=fingerprint, expires_at=found.not_valid_after_utc)
