"""REST schemas of administrators, their sessions and API tokens."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

from culvert_db import Role
from culvert_proto import typed_text
from culvert_proto.contract import PASSKEY_NAME_MAX, TOKEN_DAYS_MAX
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from culvert_service.admins.permission import SCOPES

_Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
_Password = Annotated[SecretStr, Field(min_length=12, max_length=1024)]
# A code of an authenticator, or a recovery code.
_Code = Annotated[SecretStr, Field(max_length=32)]


def _scope(value: str) -> str:
    if value not in SCOPES:
        raise ValueError(f"must be one of {', '.join(SCOPES)}")
    return value


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AdminInvitationIn(_In):
    role: Role


class AdminInvitationOut(BaseModel):
    """The token makes one account, and replaces it until its first sign-in. It is shown here and kept nowhere."""

    token: str
    # The page that makes the account, at the controller's public URL.
    link: str
    expires_at: datetime


class SetupIn(_In):
    token: SecretStr
    name: _Name
    password: _Password


class SetupShowIn(_In):
    token: SecretStr


class SetupShowOut(BaseModel):
    """The role of the invitation's account."""

    role: Literal["owner", "admin", "auditor"]


class SetupOut(BaseModel):
    """Shown once: the URI for the authenticator's QR code, and codes that replace one of the authenticator's each."""

    totp_uri: str
    recovery_codes: list[str]


class SignInIn(_In):
    name: _Name
    password: Annotated[SecretStr, Field(max_length=1024)]
    code: _Code


class ProofIn(_In):
    """Password and code, asked for again before a change to the account."""

    password: Annotated[SecretStr, Field(max_length=1024)]
    code: _Code


# The passkeys that stay valid because the person has named them.
_KeptPasskeys = Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=20)]


class PasswordIn(ProofIn):
    """`keep_passkeys` lists ids of passkeys. All other passkeys end with the old password."""

    new_password: _Password
    keep_passkeys: _KeptPasskeys = []


class NewAuthenticatorOut(BaseModel):
    """`pending` goes back with the first code of the new authenticator. Both are shown once."""

    totp_uri: str
    pending: str


class NewAuthenticatorIn(_In):
    """`keep_passkeys` lists ids of passkeys. All other passkeys end with the old authenticator."""

    keep_passkeys: _KeptPasskeys = []
    pending: Annotated[SecretStr, Field(max_length=4096)]
    code: _Code


class RecoveryCodesOut(BaseModel):
    # Each once. They are shown here and kept nowhere.
    codes: list[str]


class SignedInOut(BaseModel):
    """Writes with the session's cookie carry `csrf_token` in the header X-CSRF-Token."""

    name: str
    role: Literal["owner", "admin", "auditor"]
    csrf_token: str
    expires_at: datetime
    # Until then, security settings can be changed without another proof.
    proven_until: datetime
    # False for an administrator who signs in by OpenID Connect; they have no code either.
    has_password: bool


class NoticeOut(BaseModel):
    """An act that changed who can sign in, or wrong codes. The fields are as in the audit log."""

    id: int
    at: datetime
    actor: str
    source: str | None
    action: str
    object: str
    details: dict[str, str | int]


class SessionOut(BaseModel):
    """A session of the account. `current`: the session of this request."""

    id: str
    current: bool
    created_at: datetime
    expires_at: datetime
    # To the minute.
    last_used_at: datetime
    # Address and user agent of the sign-in.
    source: str | None
    user_agent: str | None


class PasskeyIn(_In):
    """`credential` is the JSON of what navigator.credentials.create gave."""

    name: Annotated[
        str, Field(pattern=rf"^[^\x00-\x1f\x7f]{{1,{PASSKEY_NAME_MAX}}}$"), AfterValidator(typed_text.check)
    ]
    credential: dict[str, Any]


class PasskeySignInIn(_In):
    """`credential` is the JSON of what navigator.credentials.get gave."""

    credential: dict[str, Any]


class PasskeyOut(BaseModel):
    id: str
    name: str
    created_at: datetime
    last_used_at: datetime | None


class AdminOut(BaseModel):
    """`confirmed_at` is the first sign-in."""

    name: str
    role: Literal["owner", "admin", "auditor"]
    created_at: datetime
    confirmed_at: datetime | None


class RoleIn(_In):
    """When an owner gets a lesser role, the API tokens that the owner made end, unless `keep_tokens`."""

    role: Role
    keep_tokens: bool = False


class ApiTokenIn(_In):
    name: _Name
    scopes: Annotated[
        list[Annotated[str, AfterValidator(_scope)]], Field(min_length=1, max_length=len(SCOPES))
    ]
    days: Annotated[int, Field(ge=1, le=TOKEN_DAYS_MAX)] = 90


class ApiTokenOut(BaseModel):
    id: uuid.UUID
    name: str
    scopes: list[str]
    expires_at: datetime
    created_by: str
    created_at: datetime


class NewApiTokenOut(ApiTokenOut):
    # Shown here and kept nowhere.
    token: str


class IdentityOut(BaseModel):
    """An account at an OpenID Connect provider with which the administrator can sign in."""

    id: str
    issuer: str
    subject: str
    created_at: datetime


class OpenAdminInvitationOut(BaseModel):
    """An unused invitation. `created_by` is null for an invitation of `culvert-controller init`."""

    id: str
    role: Literal["owner", "admin", "auditor"]
    created_by: str | None
    created_at: datetime
    expires_at: datetime


class CredentialsOut(BaseModel):
    """The account's credentials, and the API tokens and open invitations that the account has made."""

    has_password: bool
    # Unused codes.
    recovery_codes: int
    passkeys: list[PasskeyOut]
    identities: list[IdentityOut]
    sessions: list[SessionOut]
    tokens: list[ApiTokenOut]
    invitations: list[OpenAdminInvitationOut]
