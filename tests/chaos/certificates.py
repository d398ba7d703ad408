"""Certificates of the project's own CAs that end soon, in place of those that are good for days or a year."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from culvert_client.state_dir import Identity, StateDir
from culvert_service.pki import issuance
from culvert_service.pki.authority import Authority, Issued

_ORGANISATION = "organisations/1"


def laptop_left(state: Path) -> float:
    """Seconds until the end of the laptop's certificate. `state`: culvertd's."""
    identity = StateDir(state / _ORGANISATION).identity()
    if identity is None:
        return 0.0
    ends = x509.load_pem_x509_certificate(identity.certificate_pem).not_valid_after_utc
    return (ends - datetime.now(UTC)).total_seconds()


def shorten_laptops(controller: Path, state: Path, seconds: float) -> str:
    """The laptop has a certificate that ends in that time. Returns the statement that makes it the device's.

    `controller`: the controllers' state.
    """
    directory = StateDir(state / _ORGANISATION)
    identity = directory.identity()
    assert identity is not None
    issued = _of_device(controller, identity, seconds)
    directory.keep_renewed(replace(identity, certificate_pem=issued.pem))
    columns = {
        "fingerprint": f"\\x{issued.fingerprint.hex()}",
        "certificate_serial": issued.serial,
        "certificate_expires_at": issued.expires_at.isoformat(),
    }
    changes = ", ".join(f"{name} = '{value}'" for name, value in columns.items())
    return f"UPDATE devices SET {changes} WHERE id = '{identity.device_id}'"  # noqa: S608


def _of_device(controller: Path, identity: Identity, seconds: float) -> Issued:
    short = replace(issuance.DEVICE, lifetime=timedelta(seconds=seconds))
    with patch.object(issuance, "DEVICE", short):
        return Authority.load(controller, "device").issue_device(
            _public(identity.key_pem), identity.device_id
        )


def _public(key_pem: bytes) -> ec.EllipticCurvePublicKey:
    key = load_pem_private_key(key_pem, password=None).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return key


@asynccontextmanager
async def gateways_ended(controller: Path, bundle: Path, name: str) -> AsyncGenerator[None]:
    """The gateway shows a certificate that has ended, as when nothing renews it."""
    file, key = bundle / "gateway.pem", _public((bundle / "gateway.key").read_bytes())
    usual = file.read_bytes()
    with patch.object(issuance, "GATEWAY", replace(issuance.GATEWAY, lifetime=timedelta(seconds=1))):
        ended = Authority.load(controller, "gateway").issue_gateway_certificate(key, name, ())
    await asyncio.sleep(2)
    file.write_bytes(ended.pem)
    try:
        yield
    finally:
        file.write_bytes(usual)
