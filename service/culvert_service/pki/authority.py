"""Two certificate authorities (docs/decisions, 3), P-256.

infrastructure CA ──► the controller's server certificate, each gateway's server certificate,
                      the controller's P4Runtime client certificate
device CA         ──► device client certificates, and nothing else
  earlier ones        trusted until the last certificate that they have issued is over
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from culvert_service import private_files
from culvert_service.pki import rotation

CA_LIFETIME = datetime.timedelta(days=3650)
SERVER_LIFETIME = datetime.timedelta(days=397)
DEVICE_LIFETIME = datetime.timedelta(days=14)
# dNSName that a gateway demands of its P4Runtime client.
P4RUNTIME_CLIENT_NAME = "culvert-controller"
# A peer's clock may be this much behind.
_BACKDATE = datetime.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate; `fingerprint` is the SHA-256 of its DER."""

    pem: bytes
    fingerprint: bytes
    serial: str
    expires_at: datetime.datetime


class PrivateKey:
    """A P-256 key with its certificate. It never prints itself."""

    def __init__(self, key_pem: bytes, certificate: Issued) -> None:
        self.key_pem = key_pem
        self.certificate = certificate

    def __repr__(self) -> str:
        return f"PrivateKey(serial={self.certificate.serial})"


class Authority:
    """One CA. Its key stays in this object and in one file of mode 0600."""

    def __init__(self, pem: bytes, earlier: bytes = b"") -> None:
        """`earlier`: certificates of CAs that it has taken the place of, PEM."""
        key = serialization.load_pem_private_key(pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError("a CA key is a P-256 key")
        self._key = key
        self._certificate = x509.load_pem_x509_certificate(pem)
        self._earlier = earlier

    @classmethod
    def load(cls, state_dir: Path, name: str) -> Authority:
        """From state_dir/NAME-ca.key, made at the first time; NAME-ca.pem is the certificate alone."""
        pem = private_files.read_or_make(state_dir / f"{name}-ca.key", lambda: make_authority(name))
        authority = cls(pem, rotation.earlier(state_dir, name))
        private_files.write(state_dir / f"{name}-ca.pem", authority.pem)
        return authority

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def trusted_pem(self) -> bytes:
        """Its certificate, and those of the CAs before it that have not ended."""
        return self.pem + self._earlier

    @property
    def fingerprint(self) -> bytes:
        return self._certificate.fingerprint(hashes.SHA256())

    @property
    def expires_at(self) -> datetime.datetime:
        return self._certificate.not_valid_after_utc

    def issue_server(self, common_name: str, names: Sequence[str]) -> PrivateKey:
        """serverAuth, for DNS names and IP addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.SERVER_AUTH
        return _private_key(key, self._sign(key.public_key(), common_name, names, usage, SERVER_LIFETIME))

    def issue_p4runtime_client(self) -> PrivateKey:
        """clientAuth under the one name that gateways accept."""
        key = ec.generate_private_key(ec.SECP256R1())
        name, usage = P4RUNTIME_CLIENT_NAME, ExtendedKeyUsageOID.CLIENT_AUTH
        return _private_key(key, self._sign(key.public_key(), name, [name], usage, SERVER_LIFETIME))

    def issue_device(self, public_key: ec.EllipticCurvePublicKey, device_id: str) -> Issued:
        """clientAuth, 14 days."""
        return self._sign(public_key, device_id, [], ExtendedKeyUsageOID.CLIENT_AUTH, DEVICE_LIFETIME)

    def _sign(
        self,
        public_key: ec.EllipticCurvePublicKey,
        common_name: str,
        names: Sequence[str],
        usage: x509.ObjectIdentifier,
        lifetime: datetime.timedelta,
    ) -> Issued:
        issuer = self._certificate
        builder = (
            _builder(public_key, common_name, issuer.subject, lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if names:
            alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
            builder = builder.add_extension(alternatives, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Issued(
            certificate.public_bytes(serialization.Encoding.PEM),
            certificate.fingerprint(hashes.SHA256()),
            f"{certificate.serial_number:x}",
            certificate.not_valid_after_utc,
        )


def make_authority(name: str) -> bytes:
    """Key and certificate, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(f"Culvert {name} CA")
    certificate = (
        _builder(key.public_key(), f"Culvert {name} CA", subject, CA_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _key_pem(key) + certificate.public_bytes(serialization.Encoding.PEM)


def _builder(
    public_key: ec.EllipticCurvePublicKey, common_name: str, issuer: x509.Name, lifetime: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(common_name))
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _private_key(key: ec.EllipticCurvePrivateKey, certificate: Issued) -> PrivateKey:
    return PrivateKey(_key_pem(key), certificate)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
