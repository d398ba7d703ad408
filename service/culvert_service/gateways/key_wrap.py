"""SA keys and how they cross P4Runtime: wrapped under the gateway's key-encryption key (RFC 5649, DESIGN D2)."""

from __future__ import annotations

import os

from cryptography.hazmat.primitives.keywrap import aes_key_wrap_with_padding

# RFC 4106 section 8.1: 32 bytes of key, 4 bytes of salt.
KEY_BYTES = 36
KEK_BYTES = 32


def new_sa_key() -> bytes:
    return os.urandom(KEY_BYTES)


def new_kek() -> bytes:
    return os.urandom(KEK_BYTES)


class KeyWrap:
    """One gateway's key-encryption key."""

    def __init__(self, kek: bytes) -> None:
        self._kek = kek

    def wrap(self, key: bytes) -> bytes:
        """48 bytes for a key of 36."""
        return aes_key_wrap_with_padding(self._kek, key)

    def __repr__(self) -> str:
        return "KeyWrap()"
