"""The certificate of the public name that browsers get, when it is not of the controller's own CA.

 files, or a certification authority ─► checked ─► the REST API's port
                                           └ a fault ─► the last good one stays, and administrators see why

Devices never trust it: they ask the same port for the certificate of the controller's CA (`culvert_proto.own_ca`).
"""

from __future__ import annotations

import datetime
import ipaddress
import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID

from culvert_service.tasks import Periodic

_log = logging.getLogger(__name__)

_LOOK_EVERY_SECONDS = 5.0
_FILE_MAX = 1 << 20


class CertificateFaultError(Exception):
    """A certificate that cannot be shown. The text says why and what to do."""


@dataclass(frozen=True, slots=True)
class PublicCertificate:
    """PEM of the chain, the certificate of the name first, and of the key."""

    chain: bytes
    key: bytes
    fingerprint: bytes
    begins_at: datetime.datetime
    expires_at: datetime.datetime

    def __repr__(self) -> str:
        return f"PublicCertificate(fingerprint={self.fingerprint.hex()})"


class PublicCertificates(Protocol):
    """The source of the certificate: the last good one, if any, and the fault of a newer one, or empty."""

    @property
    def current(self) -> PublicCertificate | None: ...

    @property
    def fault(self) -> str: ...

    @property
    def challenge(self) -> bytes | None:
        """PEM of the certificate and key for a certification authority that validates the name (RFC 8737)."""
        ...

    def tell(self, hear: Callable[[], None]) -> None:
        """`hear` is called after each change."""
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def check(chain: bytes, key: bytes, name: str, now: datetime.datetime) -> PublicCertificate:
    """`name`: the host of public_rest_url. Raises CertificateFaultError; no part of the key is in its text."""
    try:
        certificates = x509.load_pem_x509_certificates(chain)
    except ValueError:
        raise CertificateFaultError(
            "the certificate file holds no PEM certificate. Remedy: convert it, or name the right file"
        ) from None
    leaf = certificates[0]
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CertificateFaultError(
            "the key file holds no PEM private key without a password. Remedy: openssl pkey -in KEY -out NEW"
        ) from None
    if _spki(private.public_key()) != _spki(leaf.public_key()):
        other = next(
            (it for it in certificates if _spki(it.public_key()) == _spki(private.public_key())), None
        )
        remedy = (
            "put the certificate of the name first" if other else "name the key that the certificate is for"
        )
        raise CertificateFaultError(f"the key is not the first certificate's. Remedy: {remedy}")
    if leaf.not_valid_after_utc <= now:
        raise CertificateFaultError(
            f"the certificate ended at {leaf.not_valid_after_utc:%Y-%m-%d %H:%M} UTC. Remedy: renew it"
        )
    if leaf.not_valid_before_utc > now:
        raise CertificateFaultError(
            f"the certificate begins at {leaf.not_valid_before_utc:%Y-%m-%d %H:%M} UTC. Remedy: look at this host's clock"
        )
    names = _names(leaf)
    if not any(_fits(pattern, name) for pattern in names):
        raise CertificateFaultError(
            f"the certificate is for {', '.join(names) or 'no name'}, and browsers use {name}. Remedy: get one for {name}"
        )
    _check_use(leaf)
    for below, above in itertools.pairwise(certificates):
        try:
            below.verify_directly_issued_by(above)
        except (ValueError, TypeError, InvalidSignature):
            raise CertificateFaultError(
                f"in the chain, {_subject(above)} has not issued {_subject(below)}. Remedy: the certificate of the name "
                "first, then each one's issuer"
            ) from None
        if above.not_valid_after_utc <= now:
            raise CertificateFaultError(
                f"in the chain, {_subject(above)} has ended. Remedy: get the issuer's new chain"
            )
    fingerprint = leaf.fingerprint(hashes.SHA256())
    return PublicCertificate(chain, key, fingerprint, leaf.not_valid_before_utc, leaf.not_valid_after_utc)


class CertificateFiles:
    """Two files, read again when they change: no restart is needed after a renewal by another program."""

    def __init__(self, certificate: Path, key: Path, name: str, now: Callable[[], datetime.datetime]) -> None:
        self._files = certificate, key
        self._name = name
        self._now = now
        self._seen: tuple[bytes, bytes] | None = None
        self._told: list[Callable[[], None]] = []
        self._looks = Periodic("public certificate", self._round, _LOOK_EVERY_SECONDS)
        self.current: PublicCertificate | None = None
        self.fault = ""
        self.challenge: bytes | None = None
        self.look()

    def tell(self, hear: Callable[[], None]) -> None:
        """`hear` is called after each change."""
        self._told.append(hear)

    def look(self) -> None:
        """Read the files, and check them if they have changed. A fault is kept, and the last good certificate stays."""
        try:
            read = self._read()
            if read == self._seen:
                return
            found = check(*read, self._name, self._now())
        except (CertificateFaultError, OSError) as error:
            told = str(error) if isinstance(error, CertificateFaultError) else _system_words(error)
            # Two files are not replaced in one step: a key without its certificate is there for a moment.
            if told != self.fault:
                _log.error("the public certificate is not used: %s", told)
            self.fault = told
            return
        self._seen, self.fault, self.current = read, "", found
        _log.info("public certificate read", extra={"until": found.expires_at.isoformat()})
        for hear in self._told:
            hear()

    def _read(self) -> tuple[bytes, bytes]:
        certificate, key = (_content(file) for file in self._files)
        return certificate, key

    async def start(self) -> None:
        self._looks.start()

    async def stop(self) -> None:
        await self._looks.stop()

    async def _round(self) -> None:
        self.look()


def _content(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_FILE_MAX)


def _system_words(error: OSError) -> str:
    remedy = "the controller's user must be able to read it"
    return f"{error.filename}: {error.strerror}. Remedy: {remedy}"


def _spki(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _names(leaf: x509.Certificate) -> list[str]:
    try:
        alternative = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(it) for it in alternative.get_values_for_type(x509.IPAddress)]
    return [*alternative.get_values_for_type(x509.DNSName), *addresses]


def _fits(pattern: str, name: str) -> bool:
    """RFC 6125, section 6.4.3: a wildcard stands for one whole label."""
    pattern, name = pattern.lower().rstrip("."), name.lower().rstrip(".")
    try:
        return ipaddress.ip_address(pattern) == ipaddress.ip_address(name)
    except ValueError:
        pass
    if pattern.startswith("*."):
        return "." in name and name.partition(".")[2] == pattern[2:]
    return pattern == name


def _check_use(leaf: x509.Certificate) -> None:
    try:
        used = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if ExtendedKeyUsageOID.SERVER_AUTH not in used:
        raise CertificateFaultError(
            "the certificate is not for servers. Remedy: get one with the use serverAuth"
        )


def _subject(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string() or f"serial number {certificate.serial_number:x}"
