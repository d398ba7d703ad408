"""REST schemas of people, invitations and devices."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, ClassVar, Literal, Self

from culvert_proto import dns_name, typed_text
from culvert_proto.contract import EMAIL_MAX
from culvert_proto.phrases import Phrase
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from culvert_service.apt.service import Install
from culvert_service.audit.schemas import DeniedOut
from culvert_service.decision.assertions import AssertionOut

UserName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
# Names of people in an answer.
SHOWN = 20
DISPLAY_NAME_MAX = 100
DisplayName = Annotated[
    str, Field(min_length=1, max_length=DISPLAY_NAME_MAX), AfterValidator(typed_text.check)
]


def _device_name(name: str) -> str:
    """The computer's own name, which its person cannot correct here."""
    if plain := typed_text.strip(name):
        return plain
    raise ValueError(Phrase("must have a character that can be seen"))


def canonical_email(address: str) -> str:
    """The canonical spelling of an e-mail address: lower case, the domain as in the DNS (decision 42)."""
    local, _, domain = address.rpartition("@")
    return f"{local.lower()}@{dns_name.canonical(domain)}"


class UserChange(BaseModel):
    """The fields of a person that can be changed in place."""

    model_config = ConfigDict(extra="forbid")

    email: Annotated[
        str,
        Field(pattern=r"^[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+$", max_length=EMAIL_MAX),
        AfterValidator(canonical_email),
    ]
    # The person's name as people write it, in any script; null: the login name is shown.
    display_name: DisplayName | None = None


class UserIn(UserChange):
    """`name` is the login name, which stays."""

    name: UserName


class SomePeopleOut(BaseModel):
    """A count, and the first login names. `display_names`: of these people, if they have one, by login name."""

    count: int
    first: list[str]
    display_names: dict[UserName, str]

    @classmethod
    def of(cls, count: int, first: Sequence[str], named: Mapping[str, str]) -> Self:
        """`named`: display names by login name, perhaps of others too."""
        shown = {name: named[name] for name in first if name in named}
        return cls(count=count, first=list(first), display_names=shown)


class UserOut(BaseModel):
    observed: ClassVar = frozenset(("devices", "last_seen_at", "last_denied"))

    name: str
    display_name: str | None
    email: str
    # The number of devices that are not revoked, and the last time at which one of them began to watch.
    devices: int
    last_seen_at: datetime | None
    # The newest denial of the person's devices; only in lists.
    last_denied: DeniedOut | None = None
    created_at: datetime


class InvitationIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    user: UserName


class InvitationOut(BaseModel):
    """The link enrols one computer, once. It is shown here and kept nowhere."""

    link: str
    expires_at: datetime


class OpenInvitationOut(BaseModel):
    """An unused invitation, without its link."""

    id: int
    user: str
    user_display_name: str | None
    # The name in the audit log; null for invitations of an older release.
    invited_by: str | None
    created_at: datetime
    expires_at: datetime


class InvitationShowIn(BaseModel):
    """The token is the credential."""

    model_config = ConfigDict(extra="forbid")

    token: SecretStr


class InvitationShowOut(BaseModel):
    """For the page of an invitation: whom it is for, and whether it still enrols a computer."""

    user: str
    user_display_name: str | None
    expires_at: datetime
    expired: bool
    used_at: datetime | None
    # The name of the computer that it has enrolled; null before, and after the computer was removed.
    device: str | None
    # The administrator who made it; null for one of a program or of the identity provider, and without that account.
    invited_by: str | None
    # The laptop's way to the client's packages; null when this controller serves none.
    install: Install | None


class EnrolmentIn(BaseModel):
    """The token is the credential. `csr_pem` is a PKCS #10 request for a P-256 key that was made on the device."""

    model_config = ConfigDict(extra="forbid")

    token: SecretStr
    device_name: Annotated[
        str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$"), AfterValidator(_device_name)
    ]
    csr_pem: str


class EnrolmentOut(BaseModel):
    device_id: uuid.UUID
    user: str
    certificate_pem: str
    # The infrastructure CA, which signs the controller's certificate.
    ca_pem: str
    agent_address: str
    # For the authenticator's QR code; shown once.
    totp_uri: str
    # Each replaces a code once, if the authenticator is lost; shown once.
    recovery_codes: list[str]


class RenewalChallengeOut(BaseModel):
    """A challenge of this controller; it works once, until `expires_at`."""

    challenge: str
    expires_at: datetime


class RenewalIn(BaseModel):
    """By a device whose certificate has expired. The signature by that certificate's key proves the device, the code proves
    the person. Without a code the answer is CODE_NEEDED where a code would renew the certificate.
    """

    model_config = ConfigDict(extra="forbid")

    challenge: Annotated[str, Field(max_length=200)]
    certificate_pem: Annotated[str, Field(max_length=8192)]
    # A request for a fresh key, as of an enrolment.
    csr_pem: str
    # ECDSA with SHA-256 over culvert_proto.late_renewal.statement; DER, in base64.
    signature: Annotated[str, Field(max_length=200)]
    code: Annotated[SecretStr, Field(max_length=40)] = SecretStr("")


class RenewalOut(BaseModel):
    certificate_pem: str
    ca_pem: str
    code_valid_until: datetime
    # Only when a recovery code was used.
    recovery_codes_left: int | None


class DeviceOut(BaseModel):
    id: uuid.UUID
    name: str
    user: str
    user_display_name: str | None
    # Pending: not approved. It can open resources whose policies need no approval, unless the controller always needs it.
    state: Literal["pending", "approved", "revoked"]
    # Whether a pending device waits for the approval: an enabled policy for its person, or the controller, asks for it.
    approval_needed: bool
    # Whether it is connected to any controller. While it is, last_seen_at is updated each minute.
    online: bool
    last_seen_at: datetime | None
    last_seen_address: str | None
    client_version: str | None
    # The device's own report.
    posture: dict[str, str]
    certificate_expires_at: datetime
    code_valid_until: datetime | None
    # Only in lists.
    last_denied: DeniedOut | None = None
    created_at: datetime
    revoked_at: datetime | None


class FactValueOut(BaseModel):
    value: str
    devices: int


class FactOut(BaseModel):
    """A fact that `devices` report which are not revoked, and their 50 most frequent values."""

    fact: str
    devices: int
    values: list[FactValueOut]


class AuthenticatorOut(BaseModel):
    """A new authenticator, which only this answer shows: `totp_uri` for the QR code, and the recovery codes."""

    totp_uri: str
    recovery_codes: list[str]


class PersonUseOut(BaseModel):
    """A person's dependents: all of it is closed or deleted with the person, and the groups lose a member."""

    tunnels: int
    # Names of the devices that are not revoked.
    devices: list[str]
    invitations: int
    groups: list[str]
    # The policies for the person alone.
    policies_deleted: list[str]
    # The assertions for which the deletion would be refused.
    breaks: list[AssertionOut]


class RevokedOut(BaseModel):
    tunnels_closed: int
