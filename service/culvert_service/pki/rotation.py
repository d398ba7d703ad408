"""A new CA in the place of one that goes on being trusted for a while.

device-ca.key                      the CA that issues: key and certificate
device-ca.until-2026-12-06.pem     one before it: its certificate alone, trusted to the end of that day (UTC)
infrastructure-ca.crossed.pem      the CA's key certified by the one before, and so on: newest first

The key of the CA before is gone with the rotation: nothing more can be issued under it.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from culvert_service import private_files

# The CA before and the new one, both with their keys, to what the first says of the second. PEM.
Certify = Callable[[bytes, bytes], bytes]

_UNTIL = re.compile(r"\.until-(\d{4}-\d{2}-\d{2})\.pem$")


def rotate(
    state_dir: Path, name: str, fresh: bytes, until: datetime.date, certify: Certify | None = None
) -> None:
    """`fresh`: key and certificate of the new CA, PEM. After a crash in between, the old CA still issues.

    `certify` has the old CA speak for the new one, to peers that know the old one alone.
    """
    current = state_dir / f"{name}-ca.key"
    certificate = x509.load_pem_x509_certificate(current.read_bytes())
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    trusted = state_dir / f"{name}-ca.until-{until.isoformat()}.pem"
    # Two rotations on one day.
    already = trusted.read_bytes() if trusted.exists() else b""
    private_files.write(trusted, already + pem)
    if certify is not None:
        chain = certify(current.read_bytes(), fresh) + crossed(state_dir, name)
        private_files.write(state_dir / f"{name}-ca.crossed.pem", chain)
    private_files.write(current, fresh)


def crossed(state_dir: Path, name: str) -> bytes:
    """From this CA back to those before it, as long as they are good, PEM."""
    file = state_dir / f"{name}-ca.crossed.pem"
    if not file.exists():
        return b""
    now = datetime.datetime.now(datetime.UTC)
    good = [
        one for one in x509.load_pem_x509_certificates(file.read_bytes()) if now < one.not_valid_after_utc
    ]
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in good)


def earlier(state_dir: Path, name: str) -> bytes:
    """Certificates of the CAs before this one whose day has not passed, PEM."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    found: list[bytes] = []
    for file in sorted(state_dir.glob(f"{name}-ca.until-*.pem")):
        match = _UNTIL.search(file.name)
        if match is not None and match[1] >= today:
            found.append(file.read_bytes())
    return b"".join(found)
