"""The key-encryption key (KEK) that a gateway and the controller agree on, each from its own half (docs/decisions, 63).

    KEK = HKDF-SHA-256(ikm = X25519(own private key, peer's public key), salt = token,
                       info = LABEL ‖ gateway's public key ‖ controller's public key)

Both public keys are 32 bytes (RFC 7748); the token is the 20 bytes of the link; `‖` joins bytes. The KEK has 32 bytes.
`switch-targets/gateway/src/agreement.rs` is the other half; tests/vectors/gateway_kek.json has the same values for both.
"""

from __future__ import annotations

import base64
import binascii
import secrets

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from culvert_proto import CulvertError, Reason
from culvert_proto.contract import KEK_LEN
from culvert_proto.phrases import Phrase

LABEL = b"culvert gateway key-encryption key 1\0"
TOKEN_LEN = 20


def new_token() -> bytes:
    return secrets.token_bytes(TOKEN_LEN)


def write_token(token: bytes) -> str:
    """32 characters: base32 (RFC 4648 section 6), in lower case."""
    return base64.b32encode(token).decode().lower()


def read_token(text: str) -> bytes | None:
    """None for a text that is no token: an altered link."""
    try:
        token = base64.b32decode(text.upper())
    except (ValueError, binascii.Error):
        return None
    return token if len(token) == TOKEN_LEN else None


def agree(own: X25519PrivateKey, gateway_key: bytes, token: bytes) -> bytes:
    """The KEK, at the controller. Raises CulvertError REQUEST_INVALID for a key that gives every peer the same secret."""
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(gateway_key))
    except ValueError:
        # RFC 7748 section 6.1: a point of small order.
        raise CulvertError(
            Reason.REQUEST_INVALID, why=Phrase("agreement_key is no X25519 public key")
        ) from None
    info = LABEL + gateway_key + own.public_key().public_bytes_raw()
    return HKDF(hashes.SHA256(), KEK_LEN, salt=token, info=info).derive(shared)
