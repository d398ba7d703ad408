"""Renewal of this device's certificate with a key that is made for it.

at half of its lifetime       RenewCertificate, automatically
after its expiry              POST /renewals, signed by the expired certificate's key, with a code of the person
later than the bound          only by a new enrolment
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import logging
import random
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from culvert_proto import CulvertError, Reason
from culvert_proto.backoff import Backoff
from culvert_proto.late_renewal import statement

from culvert_client.controller.agent import CALL_TIMEOUT, Agent
from culvert_client.controller.enrolment import request_pem
from culvert_client.controller.handshake import is_out_of_date, out_of_date
from culvert_client.controller.https import TIMEOUT, HttpsConnection, context_from_ca, post
from culvert_client.state_dir import Identity, key_pem

log = logging.getLogger("culvertd")

# Our tunables. A random share of the lifetime, added to the half, so that devices do not renew at the same time.
SPREAD = 0.1
RETRY = Backoff(30.0, 3600.0)
# The longest wait for the next try, as a share of the time that the certificate still has; and the shortest such wait.
RETRY_SHARE, RETRY_SOONEST = 0.1, 1.0
# The least time after a renewal: by a clock that is weeks ahead, the new certificate seems due at once.
REST = 3600.0
# The interval of checks of the clock, which may jump, and stands still while the computer sleeps.
LOOK_AGAIN = 60.0

_RENEWALS = "/api/v1/renewals"
# Refusals that neither another code nor another try changes.
_FINAL = frozenset({Reason.RENEWAL_TOO_LATE, Reason.DEVICE_REVOKED, Reason.CERTIFICATE_UNKNOWN})


def retry_after(failures: int, left: float) -> float:
    """Seconds until the next try. `left`: seconds until the certificate ends; after its end, a code has to renew it.

    A certificate that ends before the next try would cost the person a code, though the controller is back.
    """
    pause = RETRY.after(failures)
    return min(pause, max(left * RETRY_SHARE, RETRY_SOONEST)) if left > 0 else pause


def renew_at(certificate_pem: bytes, spread: float) -> datetime.datetime:
    """When to renew. `spread`: 0 to SPREAD, a share of the lifetime. Raises ValueError if it is no certificate."""
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_before_utc + life * (0.5 + spread)


async def keep_renewed(
    agent: Agent, identity: Identity, take: Callable[[Identity], None], rest: float = 0.0
) -> None:
    """Wait for the renewal's time, repeat the request until it succeeds, and pass the identity to `take`, which reconnects.

    `rest`: seconds to wait first.
    """
    await asyncio.sleep(rest)
    ends = x509.load_pem_x509_certificate(identity.certificate_pem).not_valid_after_utc
    due = renew_at(identity.certificate_pem, random.uniform(0, SPREAD))  # noqa: S311 (spreads load, hides nothing)
    failures = 0
    while True:
        while (left := (due - datetime.datetime.now(datetime.UTC)).total_seconds()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left, LOOK_AGAIN))
        try:
            take(await renew(agent, identity))
        except (CulvertError, OSError) as error:
            log.warning("the certificate was not renewed: %s", error)
            failures += 1
            left = (ends - datetime.datetime.now(datetime.UTC)).total_seconds()
            await asyncio.sleep(retry_after(failures, left))
        else:
            log.info("the certificate is renewed")
            await agent.close(CALL_TIMEOUT)
            return


async def renew(agent: Agent, identity: Identity) -> Identity:
    """Raises CulvertError; then the old identity stays valid."""
    key = ec.generate_private_key(ec.SECP256R1())
    answer = await agent.renew_certificate(request_pem(key, identity.device_id))
    return _next(identity, key, answer.certificate_pem, answer.ca_pem)


@dataclass(frozen=True, slots=True)
class LateRenewal:
    """`recovery_codes_left`: set if a recovery code was used."""

    identity: Identity
    code_valid_until: int
    recovery_codes_left: int | None


async def renew_late(identity: Identity, code: str, reach: Callable[[str], str]) -> LateRenewal:
    """Renew an expired certificate. `reach`: a host's address on this network (nat64_reach.py).

    Raises CulvertError; then the old identity stays valid. Without a code, CODE_NEEDED means that a code can renew it.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    challenge = _text(await _post(identity, f"{_RENEWALS}/challenge", None, reach), "challenge")
    said = {
        "challenge": challenge,
        "certificate_pem": identity.certificate_pem.decode(),
        "csr_pem": request_pem(key, identity.device_id),
    }
    current = load_pem_private_key(identity.key_pem, password=None)
    if not isinstance(current, ec.EllipticCurvePrivateKey):
        raise CulvertError(Reason.INTERNAL)
    signature = current.sign(statement(**said), ec.ECDSA(hashes.SHA256()))
    body = said | {"signature": base64.b64encode(signature).decode(), "code": code}
    answer = await _post(identity, _RENEWALS, body, reach)
    left = answer.get("recovery_codes_left")
    try:
        until = datetime.datetime.fromisoformat(_text(answer, "code_valid_until"))
    except ValueError:
        raise CulvertError(Reason.INTERNAL) from None
    renewed = _next(identity, key, _text(answer, "certificate_pem"), _text(answer, "ca_pem"))
    return LateRenewal(renewed, round(until.timestamp()), left if isinstance(left, int) else None)


async def why_not_late(identity: Identity, reach: Callable[[str], str]) -> CulvertError | None:
    """The controller's reason why no code can renew the certificate. None if a code can, or without an answer."""
    try:
        await renew_late(identity, "", reach)
    except CulvertError as error:
        if error.reason in _FINAL:
            return error
        # An old controller without late renewal.
        return CulvertError(Reason.RENEWAL_TOO_LATE, days=0) if error.reason is Reason.NOT_FOUND else None
    return None


async def _post(
    identity: Identity, path: str, body: dict[str, str] | None, reach: Callable[[str], str]
) -> dict[str, Any]:
    address = urlsplit(identity.controller)
    host = address.hostname or ""
    connection = HttpsConnection(host, address.port, reach(host), context_from_ca(identity.ca_pem), TIMEOUT)
    try:
        return await post(identity.controller, connection, path, body)
    except ssl.SSLCertVerificationError as error:
        if is_out_of_date(error):
            raise await out_of_date(
                identity.controller, identity.controller, identity.ca_pem, reach
            ) from None
        raise CulvertError(Reason.CONTROLLER_CA_UNKNOWN, controller=identity.controller) from None


def _text(answer: dict[str, Any], name: str) -> str:
    value = answer.get(name)
    if not isinstance(value, str):
        raise CulvertError(Reason.INTERNAL)
    return value


def _next(identity: Identity, key: ec.EllipticCurvePrivateKey, certificate_pem: str, ca_pem: str) -> Identity:
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem.encode())
        trusted = x509.load_pem_x509_certificates(ca_pem.encode())
    except ValueError:
        raise CulvertError(Reason.INTERNAL) from None
    if certificate.public_key() != key.public_key() or not trusted:
        raise CulvertError(Reason.INTERNAL)
    return replace(
        identity, certificate_pem=certificate_pem.encode(), ca_pem=ca_pem.encode(), key_pem=key_pem(key)
    )
