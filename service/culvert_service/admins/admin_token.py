"""The owner's token for automation: one for a controller, in state_dir/admin-token, mode 0600."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from culvert_service import private_files

# The actor in the audit log; no API token may have this name.
NAME = "admin-token"
_TOKEN_BYTES = 32


class AdminToken:
    def __init__(self, token: str) -> None:
        self._digest = _digest(token)

    @classmethod
    def load(cls, state_dir: Path) -> AdminToken:
        """Makes the token at the first start. Raises OSError."""
        made = private_files.read_or_make(
            state_dir / "admin-token", lambda: secrets.token_urlsafe(_TOKEN_BYTES).encode() + b"\n"
        )
        return cls(made.decode().strip())

    def matches(self, token: str) -> bool:
        """Takes the same time for any wrong token."""
        return hmac.compare_digest(_digest(token), self._digest)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
