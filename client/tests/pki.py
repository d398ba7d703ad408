"""Certificates as the controller's CA would make them, for the tests."""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


@dataclass
class Authority:
    name: str
    # The lifetime of the certificates that this CA issues, and its begin relative to now.
    lifetime: datetime.timedelta = datetime.timedelta(days=1)
    begins: datetime.timedelta = datetime.timedelta(minutes=-1)

    def __post_init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)])
        builder = _builder(subject, subject, self.key.public_key(), datetime.timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.certificate = builder.sign(self.key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(_PEM)

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.certificate.public_bytes(serialization.Encoding.DER)).hexdigest()

    def sign(self, csr_pem: bytes) -> bytes:
        csr = x509.load_pem_x509_csr(csr_pem)
        return self._issue(csr.subject, csr.public_key()).public_bytes(_PEM)

    def issue(self, name: str, address: str = "127.0.0.1") -> tuple[bytes, bytes]:
        """A certificate for a server at that address, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._issue(subject, key.public_key(), address)
        pem = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return certificate.public_bytes(_PEM), pem

    def _issue(self, subject: x509.Name, public_key: object, address: str | None = None) -> x509.Certificate:
        assert isinstance(public_key, ec.EllipticCurvePublicKey)
        builder = _builder(subject, self.certificate.subject, public_key, self.lifetime, self.begins)
        if address is not None:
            names = [x509.IPAddress(ip_address(address))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256())


def write_chain(directory: Path, certificate: bytes, key: bytes, shown_ca: bytes) -> tuple[Path, Path]:
    """Files for a TLS server that shows `shown_ca` after its own certificate."""
    chain_file, key_file = directory / "chain.pem", directory / "server.key"
    chain_file.write_bytes(certificate + shown_ca)
    key_file.write_bytes(key)
    return chain_file, key_file


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    lifetime: datetime.timedelta,
    begins: datetime.timedelta = datetime.timedelta(minutes=-1),
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + lifetime)
    )
