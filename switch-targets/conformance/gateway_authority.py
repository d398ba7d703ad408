"""A certificate authority for tests."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVER = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH


class Authority:
    """Writes `NAME.pem` and `NAME.key` into a folder, and its own certificate as `ca.pem`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{folder.name} CA")])
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        certificate = builder.sign(self._key, hashes.SHA256())
        self.certificate = folder / "ca.pem"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        dns_name: str,
        usage: x509.ObjectIdentifier | None,
        *,
        valid_days: int = 1,
        more_names: Sequence[str] = (),
    ) -> tuple[Path, Path]:
        """A certificate for 127.0.0.1 and `dns_name`; without `usage` it says nothing about its use."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = [
            *(x509.DNSName(it) for it in (*more_names, dns_name)),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        ]
        builder = self._builder(subject, key.public_key(), valid_days)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        paths[1].write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
        return paths

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, valid_days: int = 1
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=2))
        return builder.not_valid_after(now + datetime.timedelta(days=valid_days))
