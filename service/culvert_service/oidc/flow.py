"""The state of a sign-in at the provider between its start and its end, encrypted in a cookie. Pure."""

from __future__ import annotations

import datetime
import hmac
import secrets
from typing import Literal

from culvert_proto import CulvertError, Reason
from pydantic import BaseModel, ConfigDict, ValidationError

from culvert_service.pki.master_key import MasterKey, MasterKeyError

LIFETIME = datetime.timedelta(minutes=10)
_CONTEXT = "oidc flow"


class SignInFlow(BaseModel):
    """The sign-in's purpose, and values that the provider's answer must match. `token` and `name`: for `setup`."""

    model_config = ConfigDict(frozen=True)

    purpose: Literal["sign-in", "setup", "enrol"]
    token: str
    name: str
    state: str
    nonce: str
    verifier: str
    expires_at: datetime.datetime


def begin(
    purpose: Literal["sign-in", "setup", "enrol"], token: str, name: str, now: datetime.datetime
) -> SignInFlow:
    # RFC 7636 section 4.1: 43 to 128 characters.
    state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(3))
    return SignInFlow(
        purpose=purpose,
        token=token,
        name=name,
        state=state,
        nonce=nonce,
        verifier=verifier,
        expires_at=now + LIFETIME,
    )


def seal(flow: SignInFlow, key: MasterKey) -> str:
    return key.seal(flow.model_dump_json().encode(), _CONTEXT).hex()


def resume(cookie: str | None, state: str, key: MasterKey, now: datetime.datetime) -> SignInFlow:
    """Raises CulvertError OIDC_STALE for another browser's sign-in, an older one, or one that took too long."""
    try:
        flow = SignInFlow.model_validate_json(key.open(bytes.fromhex(cookie or ""), _CONTEXT))
    except (ValueError, ValidationError, MasterKeyError):
        raise CulvertError(Reason.OIDC_STALE) from None
    if flow.expires_at <= now or not hmac.compare_digest(flow.state.encode(), state.encode()):
        raise CulvertError(Reason.OIDC_STALE)
    return flow
