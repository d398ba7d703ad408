"""Certificates of one authority: gateway (a server), controller and stranger (clients)."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

USES = {
    "gateway": ExtendedKeyUsageOID.SERVER_AUTH,
    "controller": ExtendedKeyUsageOID.CLIENT_AUTH,
    "stranger": ExtendedKeyUsageOID.CLIENT_AUTH,
}


def make_pki(folder: Path) -> Path:
    """Writes ca.pem, and NAME.pem and NAME.key for each name."""
    authority = ec.generate_private_key(ec.SECP256R1())
    root = _builder("authority", authority).add_extension(x509.BasicConstraints(True, None), critical=True)
    _write(folder / "ca.pem", root.sign(authority, hashes.SHA256()))
    for name, use in USES.items():
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = _builder(name, key).add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        leaf = leaf.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        _write(folder / f"{name}.pem", leaf.sign(authority, hashes.SHA256()))
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        (folder / f"{name}.key").write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
    return folder


def _builder(name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    named, issuer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, it)]) for it in (name, "authority"))
    builder = x509.CertificateBuilder().subject_name(named).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1))


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
