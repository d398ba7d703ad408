"""The suites as Linux names them. Keys are in the order of ours: the cipher's, its salt or nonce, the integrity key."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from culvert_ipsec.datapath import DatapathError
from culvert_ipsec.xfrm_values import Algorithms


@dataclass(frozen=True, slots=True)
class Suite:
    """Lengths in bytes, the ICV's in bits."""

    cipher: str
    cipher_key: int
    integrity: str = ""
    integrity_key: int = 0
    icv_bits: int = 128
    legacy: bool = False


SUITES = {
    "aes-gcm-256": Suite("rfc4106(gcm(aes))", 36),
    "aes-gcm-128": Suite("rfc4106(gcm(aes))", 20),
    "chacha20-poly1305": Suite("rfc7539esp(chacha20,poly1305)", 36),
    "null-hmac-sha256-128": Suite("ecb(cipher_null)", 0, "hmac(sha256)", 32, legacy=True),
    "aes-ctr-hmac-md5-96": Suite("rfc3686(ctr(aes))", 20, "hmac(md5)", 16, 96, legacy=True),
    "aes-cbc-hmac-sha1-96": Suite("cbc(aes)", 16, "hmac(sha1)", 20, 96, legacy=True),
    "aes-cbc-hmac-sha256-128": Suite("cbc(aes)", 32, "hmac(sha256)", 32, legacy=True),
}


def allowed(names: Collection[str]) -> frozenset[str]:
    """The suites that may be used when these legacy ones are allowed. Raises DatapathError."""
    if unknown := set(names) - SUITES.keys():
        raise DatapathError(f"The allowed suites are not known: {', '.join(sorted(unknown))}.")
    return frozenset(name for name, suite in SUITES.items() if not suite.legacy or name in names)


def algorithms(name: str, key: bytes, usable: Collection[str]) -> Algorithms:
    """Raises DatapathError for a suite that is not usable, or a key of another length."""
    suite = SUITES.get(name)
    if suite is None or name not in usable:
        raise DatapathError(f"The tunnels cannot be installed: the suite {name!r} is not allowed here.")
    if len(key) != suite.cipher_key + suite.integrity_key:
        raise DatapathError(f"The tunnels cannot be installed: a key of {name} has another length.")
    cipher, integrity = key[: suite.cipher_key], key[suite.cipher_key :]
    return Algorithms(suite.cipher, cipher, suite.icv_bits, suite.integrity, integrity)
