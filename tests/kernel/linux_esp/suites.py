"""Every suite, as Linux calls it and as we do.

Linux's key material stands in the order of ours: the cipher's key with its salt or nonce, then the integrity key.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Suite:
    """`integrity_key` is 0 for an AEAD. Lengths in bytes, the ICV's in bits."""

    name: str
    linux_cipher: str
    cipher_key: int
    linux_integrity: str = ""
    integrity_key: int = 0
    icv_bits: int = 128

    def __str__(self) -> str:
        return self.name

    @property
    def key_length(self) -> int:
        return self.cipher_key + self.integrity_key

    def key(self, number: int) -> bytes:
        """A fixed key, another one for each number: the gateway takes up where a known key's numbers ended."""
        return hashlib.shake_128(number.to_bytes(8)).digest(self.key_length)

    def algorithm(self, key: bytes) -> str:
        """The algorithm part of `ip xfrm state add`."""
        cipher, integrity = key[: self.cipher_key], key[self.cipher_key :]
        if not self.integrity_key:
            return f"aead {self.linux_cipher} 0x{cipher.hex()} {self.icv_bits}"
        shown = f"0x{cipher.hex()}" if cipher else "''"
        return (
            f"enc {self.linux_cipher} {shown} "
            f"auth-trunc {self.linux_integrity} 0x{integrity.hex()} {self.icv_bits}"
        )


SUITES = (
    Suite("aes-gcm-256", "rfc4106(gcm(aes))", 36),
    Suite("aes-gcm-128", "rfc4106(gcm(aes))", 20),
    Suite("chacha20-poly1305", "rfc7539esp(chacha20,poly1305)", 36),
    Suite("null-hmac-sha256-128", "ecb(cipher_null)", 0, "hmac(sha256)", 32),
    Suite("aes-ctr-hmac-md5-96", "rfc3686(ctr(aes))", 20, "hmac(md5)", 16, 96),
    Suite("aes-cbc-hmac-sha1-96", "cbc(aes)", 16, "hmac(sha1)", 20, 96),
    Suite("aes-cbc-hmac-sha256-128", "cbc(aes)", 32, "hmac(sha256)", 32),
)
