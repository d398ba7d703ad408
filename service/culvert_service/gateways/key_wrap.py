"""SA keys and how they cross P4Runtime: wrapped under the gateway's key-encryption key (RFC 5649, DESIGN D2)."""

from __future__ import annotations

import os

from cryptography.hazmat.primitives.keywrap import aes_key_wrap_with_padding

from culvert_service.gateways.suite import Suite

KEK_BYTES = 32


def new_sa_key(suite: Suite) -> bytes:
    return os.urandom(suite.shape.key)


def new_kek() -> bytes:
    return os.urandom(KEK_BYTES)


class KeyWrap:
    """One gateway's key-encryption key."""

    def __init__(self, kek: bytes) -> None:
        self._kek = kek

    def wrap(self, key: bytes) -> bytes:
        """8 bytes more than the key, rounded up to a multiple of 8."""
        return aes_key_wrap_with_padding(self._kek, key)

    def __repr__(self) -> str:
        return "KeyWrap()"
