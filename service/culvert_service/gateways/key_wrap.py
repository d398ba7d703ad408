"""SA keys, and their wrapping under the gateway's KEK for P4Runtime (RFC 5649)."""

from __future__ import annotations

import hmac
import os

from cryptography.hazmat.primitives.keywrap import (
    InvalidUnwrap,
    aes_key_unwrap_with_padding,
    aes_key_wrap_with_padding,
)
from culvert_proto.contract import KEK_LEN, Suite

# The message whose MAC is a KEK's fingerprint; the same text is in ipsec/esp/src/key.rs.
_FINGERPRINT_TEXT = b"culvert key-encryption key"


def new_sa_key(suite: Suite) -> bytes:
    return os.urandom(suite.key_material)


def new_kek() -> bytes:
    return os.urandom(KEK_LEN)


class KeyWrap:
    """A gateway's key-encryption key."""

    def __init__(self, kek: bytes) -> None:
        self._kek = kek

    def wrap(self, key: bytes) -> bytes:
        """8 bytes more than the key, rounded up to a multiple of 8."""
        return aes_key_wrap_with_padding(self._kek, key)

    def opens(self, wrapped: bytes, suite: Suite) -> bool:
        """Whether the key was wrapped under this KEK, by the integrity check of RFC 5649 section 3.

        `wrapped` is right-aligned after zeros, as in the tables of a gateway.
        """
        length = -(-suite.key_material // 8) * 8 + 8
        try:
            aes_key_unwrap_with_padding(self._kek, wrapped[-length:])
        except InvalidUnwrap:
            return False
        return True

    @property
    def fingerprint(self) -> bytes:
        """Identifies the KEK without revealing it: an HMAC-SHA-256 under the KEK. Gateways report the same value."""
        return hmac.digest(self._kek, _FINGERPRINT_TEXT, "sha256")

    def __repr__(self) -> str:
        return "KeyWrap()"
