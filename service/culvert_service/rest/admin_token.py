"""The admin's bearer token: one for a controller, in state_dir/admin-token, mode 0600."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Annotated

from culvert_db import ActorKind
from culvert_proto import CulvertError, Reason
from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from culvert_service import private_files
from culvert_service.audit.log import Actor, acting
from culvert_service.rest.source import source

_TOKEN_BYTES = 32
_BEARER = HTTPBearer(
    auto_error=False, description="The content of admin-token in the controller's state directory"
)


class AdminToken:
    def __init__(self, token: str) -> None:
        self._digest = _digest(token)

    @classmethod
    def load(cls, state_dir: Path) -> AdminToken:
        """Made at the first time."""
        made = private_files.read_or_make(
            state_dir / "admin-token", lambda: secrets.token_urlsafe(_TOKEN_BYTES).encode() + b"\n"
        )
        return cls(made.decode().strip())

    async def __call__(
        self, request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]
    ) -> None:
        """A FastAPI dependency. Raises CulvertError ADMIN_TOKEN_INVALID. Takes the same time for any wrong token."""
        shown = _digest(credentials.credentials if credentials else "")
        if not hmac.compare_digest(shown, self._digest):
            raise CulvertError(Reason.ADMIN_TOKEN_INVALID)
        acting.set(Actor(ActorKind.TOKEN, "admin-token", source(request)))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
