"""Renewal of this device's certificate: at half of its life, with a key that is made for it (DESIGN D14)."""

from __future__ import annotations

import asyncio
import datetime
import logging
import random
from collections.abc import Callable
from dataclasses import replace

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_proto import CulvertError, Reason

from culvert_client.controller.agent import CALL_TIMEOUT, Agent
from culvert_client.controller.enrolment import key_pem, request_pem
from culvert_client.state_dir import Identity

log = logging.getLogger("culvertd")

# Our tunables. Devices that were enrolled together do not come back together: after half, up to a tenth of the life more.
SPREAD = 0.1
RETRY_FIRST = 30.0
RETRY_CAP = 3600.0
# After a renewal: by a clock that is weeks ahead, what is new is due already.
REST = 3600.0
# The clock may jump, and stands still while the computer sleeps.
LOOK_AGAIN = 60.0


def renew_at(certificate_pem: bytes, spread: float) -> datetime.datetime:
    """`spread`: from 0 to SPREAD, of the certificate's life. Raises ValueError when it is no certificate."""
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_before_utc + life * (0.5 + spread)


async def keep_renewed(
    agent: Agent, identity: Identity, take: Callable[[Identity], None], rest: float = 0.0
) -> None:
    """Waits until it is time, asks until there is an answer, and hands it on: whoever takes it connects anew.

    `rest`: seconds in which nothing is asked for.
    """
    await asyncio.sleep(rest)
    due = renew_at(identity.certificate_pem, random.uniform(0, SPREAD))  # noqa: S311 (spreads load, hides nothing)
    pause = RETRY_FIRST
    while True:
        while (left := (due - datetime.datetime.now(datetime.UTC)).total_seconds()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left, LOOK_AGAIN))
        try:
            take(await renew(agent, identity))
        except (CulvertError, OSError) as error:
            log.warning("the certificate was not renewed: %s", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_CAP)
        else:
            log.info("the certificate is renewed")
            await agent.close(CALL_TIMEOUT)
            return


async def renew(agent: Agent, identity: Identity) -> Identity:
    """Raises CulvertError; then the identity is as good as before."""
    key = ec.generate_private_key(ec.SECP256R1())
    answer = await agent.renew_certificate(request_pem(key, identity.device_id))
    try:
        certificate = x509.load_pem_x509_certificate(answer.certificate_pem.encode())
        trusted = x509.load_pem_x509_certificates(answer.ca_pem.encode())
    except ValueError:
        raise CulvertError(Reason.INTERNAL) from None
    if certificate.public_key() != key.public_key() or not trusted:
        raise CulvertError(Reason.INTERNAL)
    return replace(
        identity,
        certificate_pem=answer.certificate_pem.encode(),
        ca_pem=answer.ca_pem.encode(),
        key_pem=key_pem(key),
    )
