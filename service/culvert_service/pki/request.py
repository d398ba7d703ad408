"""A device's certificate signing request (RFC 2986): its public key, and the proof that the device has the private one."""

from __future__ import annotations

import hashlib

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

_SIZE_MAX = 8192


def public_key(csr_pem: str) -> ec.EllipticCurvePublicKey:
    """The P-256 key of a PEM request. Raises CulvertError CSR_INVALID."""
    if len(csr_pem) > _SIZE_MAX:
        raise CulvertError(
            Reason.CSR_INVALID, why=Phrase("it is longer than {number} bytes", number=_SIZE_MAX)
        )
    try:
        request = x509.load_pem_x509_csr(csr_pem.encode())
        key = request.public_key()
        signed = request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CulvertError(
            Reason.CSR_INVALID, why=Phrase("it is not a PEM request that can be read")
        ) from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise CulvertError(Reason.CSR_INVALID, why=Phrase("its key is not on the curve P-256"))
    if not signed:
        raise CulvertError(Reason.CSR_INVALID, why=Phrase("its signature is wrong"))
    return key


def key_hash(key: ec.EllipticCurvePublicKey) -> bytes:
    """SHA-256 of its SubjectPublicKeyInfo (RFC 5280, section 4.1.2.7)."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(serialization.Encoding.DER, form)).digest()
