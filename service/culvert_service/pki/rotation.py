"""CA rotation: a new CA replaces the previous one, which stays trusted for a while.

device-ca.key                      the issuing CA: key and certificate
device-ca.until-2026-12-06.pem     a previous CA: its certificate alone, trusted to the end of that day (UTC)
infrastructure-ca.crossed.pem      the cross-certificates by each previous CA for the next one: newest first

A rotation deletes the previous CA's key, so that it can issue no more certificates.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from culvert_service import private_files

# Makes the cross-certificate from the previous and the new CA, both with their keys. PEM.
Certify = Callable[[bytes, bytes], bytes]

_UNTIL = re.compile(r"\.until-(\d{4}-\d{2}-\d{2})\.pem$")


def rotate(
    state_dir: Path, name: str, fresh: bytes, until: datetime.date, certify: Certify | None = None
) -> None:
    """`fresh`: key and certificate of the new CA, PEM. After a crash in between, the old CA still issues.

    `certify` makes the old CA's certificate for the new one, for peers that know only the old one.
    """
    current = state_dir / f"{name}-ca.key"
    certificate = x509.load_pem_x509_certificate(current.read_bytes())
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    trusted = state_dir / f"{name}-ca.until-{until.isoformat()}.pem"
    # There may be several rotations on one day.
    already = trusted.read_bytes() if trusted.exists() else b""
    private_files.write(trusted, already + pem)
    if certify is not None:
        chain = certify(current.read_bytes(), fresh) + read_cross_certificates(state_dir, name)
        private_files.write(state_dir / f"{name}-ca.crossed.pem", chain)
    private_files.write(current, fresh)


def read_cross_certificates(state_dir: Path, name: str) -> bytes:
    """The cross-certificates from this CA back to previous CAs that are still trusted, PEM."""
    file = state_dir / f"{name}-ca.crossed.pem"
    if not file.exists():
        return b""
    now = datetime.datetime.now(datetime.UTC)
    good = [
        one for one in x509.load_pem_x509_certificates(file.read_bytes()) if now < one.not_valid_after_utc
    ]
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in good)


def earlier(state_dir: Path, name: str) -> bytes:
    """The certificates of previous CAs whose day has not passed, PEM."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    found: list[bytes] = []
    for file in sorted(state_dir.glob(f"{name}-ca.until-*.pem")):
        match = _UNTIL.search(file.name)
        if match is not None and match[1] >= today:
            found.append(file.read_bytes())
    return b"".join(found)
