"""The statement that a device signs to renew an expired certificate, since mutual TLS refuses that certificate.

device ── POST /renewals/challenge ─────────────────────────────────────► controller
       ◄─ challenge: the controller's own, for two minutes, for one use ──
       ── POST /renewals: challenge, expired certificate, request, code ─► the certificate's key has signed `statement`
       ◄─ the next certificate ───────────────────────────────────────────
"""

from __future__ import annotations

import hashlib

# No TLS signature (RFC 8446 section 4.4.3) and no DER begins with it: a signature of one kind is none of another.
_CONTEXT = b"culvert late renewal 1\0"


def statement(challenge: str, certificate_pem: str, csr_pem: str) -> bytes:
    """Signed with ECDSA on P-256 and SHA-256. The arguments are texts exactly as the request carries them."""
    parts = (challenge, certificate_pem, csr_pem)
    return _CONTEXT + b"".join(hashlib.sha256(part.encode()).digest() for part in parts)
