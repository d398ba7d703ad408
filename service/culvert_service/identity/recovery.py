"""Recovery codes, for a person whose authenticator is lost. Each works once; only hashes are stored. Pure."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets

COUNT = 10
# 80 bits: too many to guess from a hash, even without salt and stretching.
_BYTES = 10
_SHAPE = re.compile(r"^[a-z2-7]{16}$")


def new_codes() -> list[str]:
    """Codes in the form in which they are shown: `abcd-efgh-ijkl-mnop`."""
    return [_new_code() for _ in range(COUNT)]


def hash_of(code: str) -> bytes | None:
    """SHA-256 of a recovery code, ignoring case, hyphens and spaces; None for any other text."""
    plain = code.replace("-", "").replace(" ", "").lower()
    return hashlib.sha256(plain.encode()).digest() if _SHAPE.match(plain) else None


def _new_code() -> str:
    plain = base64.b32encode(secrets.token_bytes(_BYTES)).decode().lower()
    return "-".join(plain[at : at + 4] for at in range(0, len(plain), 4))
