"""Renewal of an expired certificate, for a device that was off for too long (culvert_proto/late_renewal.py).

challenge ─► certificate ─► its key's signature ─► request ─► the device's last one, not revoked ─► not too late ─► code
 └──────── refusals of a stranger, by address ────────────┘    └──────── refusals of the device, by certificate ────────┘

The fingerprint in the database proves that the certificate is ours, also after its CA was deleted.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_db import ActorKind, Database
from culvert_proto import CulvertError, Reason
from culvert_proto.late_renewal import statement
from culvert_proto.phrases import Phrase

from culvert_service.audit.log import Actor, Line
from culvert_service.audit.refusals import Refusals
from culvert_service.audit.transaction import begin
from culvert_service.identity import repository
from culvert_service.identity.authenticators import Authenticators, CodeProof
from culvert_service.identity.denials import Denials
from culvert_service.identity.renewal import Renewal, RenewedCertificate
from culvert_service.identity.schemas import RenewalChallengeOut, RenewalIn, RenewalOut
from culvert_service.identity.service import check_device
from culvert_service.pki import request

_log = logging.getLogger(__name__)

_ACTION = "device.renew-late"
_CHALLENGE_LIFE = datetime.timedelta(minutes=2)
_NONCE, _MOMENT = 16, 8


@dataclass(frozen=True, slots=True)
class Challenge:
    digest: bytes
    expires_at: datetime.datetime


class Challenges:
    """Challenges that need no storage: `key`, which every controller of the database has, authenticates them."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def make(self, expires_at: datetime.datetime) -> str:
        moment = round(expires_at.timestamp()).to_bytes(_MOMENT, "big")
        said = secrets.token_bytes(_NONCE) + moment
        return base64.urlsafe_b64encode(said + self._tag(said)).decode()

    def read(self, text: str, now: datetime.datetime) -> Challenge:
        """Raises CulvertError REQUEST_INVALID for a challenge that is not ours or has expired."""
        try:
            whole = base64.b64decode(text, altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            raise _invalid(Phrase("the challenge is not this controller's")) from None
        said, tag = whole[: _NONCE + _MOMENT], whole[_NONCE + _MOMENT :]
        if not hmac.compare_digest(tag, self._tag(said)):
            raise _invalid(Phrase("the challenge is not this controller's"))
        expires_at = datetime.datetime.fromtimestamp(int.from_bytes(said[_NONCE:], "big"), datetime.UTC)
        if expires_at <= now:
            raise _invalid(Phrase("the challenge is over"))
        return Challenge(hashlib.sha256(whole).digest(), expires_at)

    def _tag(self, said: bytes) -> bytes:
        return hmac.digest(self._key, said, "sha256")


@dataclass(frozen=True, slots=True)
class _Proven:
    """A proof that needed no database: the key of the certificate with this fingerprint has signed the request."""

    fingerprint: bytes
    challenge: Challenge
    next_key: ec.EllipticCurvePublicKey


class LateRenewal:
    """`bound`: for how long after its expiry a certificate can be renewed."""

    def __init__(
        self,
        database: Database,
        renewal: Renewal,
        authenticators: Authenticators,
        denials: Denials,
        refusals: Refusals,
        challenges: Challenges,
        bound: datetime.timedelta,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._database = database
        self._renewal = renewal
        self._authenticators = authenticators
        self._denials = denials
        self._refusals = refusals
        self._challenges = challenges
        self._bound = bound
        self._now = now

    def challenge(self) -> RenewalChallengeOut:
        expires_at = self._now() + _CHALLENGE_LIFE
        return RenewalChallengeOut(challenge=self._challenges.make(expires_at), expires_at=expires_at)

    async def renew(self, by: Actor, asked: RenewalIn) -> RenewalOut:
        """Raises CulvertError REQUEST_INVALID, CSR_INVALID, CERTIFICATE_UNKNOWN, DEVICE_REVOKED, RENEWAL_TOO_LATE,
        CODE_NEEDED, or as a code is refused.
        """
        by = by.with_name(ActorKind.DEVICE, by.name)
        try:
            proven = self._verify(asked)
            async with self._database() as session:
                if await repository.device_by_fingerprint(session, proven.fingerprint) is None:
                    raise CulvertError(Reason.CERTIFICATE_UNKNOWN)
        except CulvertError as error:
            await self._refusals.of_stranger(by, Line(_ACTION, "device/unknown"), error)
            raise
        by = by.with_name(ActorKind.DEVICE, f"sha256:{proven.fingerprint.hex()}")
        async with self._denials.log_refusals(by, proven.fingerprint, _ACTION):
            made = await self._renew(by, proven, asked.code.get_secret_value())
        # Raised after the commit, because a wrong guess must be counted and logged.
        if isinstance(made, CulvertError):
            raise made
        renewed, proof = made
        return RenewalOut(
            certificate_pem=renewed.certificate_pem,
            ca_pem=renewed.ca_pem,
            code_valid_until=proof.until,
            recovery_codes_left=proof.recovery_codes_left,
        )

    def _verify(self, asked: RenewalIn) -> _Proven:
        challenge = self._challenges.read(asked.challenge, self._now())
        try:
            certificate = x509.load_pem_x509_certificate(asked.certificate_pem.encode())
            key = certificate.public_key()
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise _invalid(Phrase("certificate_pem is no certificate")) from None
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
            raise _invalid(Phrase("certificate_pem is no device's certificate"))
        signed = statement(asked.challenge, asked.certificate_pem, asked.csr_pem)
        try:
            signature = base64.b64decode(asked.signature, validate=True)
            key.verify(signature, signed, ec.ECDSA(hashes.SHA256()))
        except (ValueError, binascii.Error, InvalidSignature):
            raise _invalid(Phrase("the signature is not by the certificate's key")) from None
        return _Proven(certificate.fingerprint(hashes.SHA256()), challenge, request.public_key(asked.csr_pem))

    async def _renew(
        self, by: Actor, proven: _Proven, code: str
    ) -> tuple[RenewedCertificate, CodeProof] | CulvertError:
        now, fingerprint = self._now(), proven.fingerprint
        async with begin(self._database, by) as transaction:
            # A device that shows its next certificate has received it, as in a handshake.
            await repository.take_next_certificate(transaction.session, fingerprint)
            device = check_device(await repository.device_to_renew(transaction.session, fingerprint))
            ended_at = device.expires_at(fingerprint)
            if ended_at <= now and ended_at + self._bound <= now:
                raise CulvertError(Reason.RENEWAL_TOO_LATE, days=self._bound.days)
            if not code:
                raise CulvertError(Reason.CODE_NEEDED)
            used = proven.challenge
            if not await repository.use_challenge(transaction.session, used.digest, used.expires_at, now):
                raise _invalid(Phrase("the challenge has been used"))
            judged = await self._authenticators.judge(transaction, fingerprint, device, code, _ACTION)
            if isinstance(judged, CulvertError):
                return judged
            renewed = self._renewal.issue(transaction, device, proven.next_key)
        _log.info("expired certificate renewed", extra={"device": str(device.id)})
        return renewed, judged


def _invalid(why: str) -> CulvertError:
    return CulvertError(Reason.REQUEST_INVALID, why=why)
