"""The key that a gateway has joined with: it proves the gateway in later calls."""

from __future__ import annotations

import base64
import binascii

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_db import ActorKind, Gateway
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.audit.log import Actor
from culvert_service.joining import repository
from culvert_service.pki import request


def check_signature(key: ec.EllipticCurvePublicKey, signature: str, statement: bytes) -> None:
    """`signature`: base64. Raises CulvertError REQUEST_INVALID."""
    try:
        key.verify(base64.b64decode(signature, validate=True), statement, ec.ECDSA(hashes.SHA256()))
    except (ValueError, binascii.Error, InvalidSignature):
        raise CulvertError(Reason.REQUEST_INVALID, why=Phrase("the signature is not the gateway's")) from None


async def lock_joined(
    session: AsyncSession, public_key: ec.EllipticCurvePublicKey, name: str | None = None
) -> Gateway:
    """Lock the gateway that has joined with this key. Raises CulvertError GATEWAY_NOT_JOINED, also for another `name`."""
    gateway = await repository.lock_joined(session, request.key_hash(public_key))
    if gateway is None or name not in (None, gateway.name):
        raise CulvertError(Reason.GATEWAY_NOT_JOINED)
    return gateway


def to_actor(by: Actor, gateway: str) -> Actor:
    """The actor of a call with this gateway's link or key."""
    return by.with_name(ActorKind.INVITATION, gateway)
