"""The relying party of WebAuthn: requests to authenticators, and checks of their answers. Pure.

https://www.w3.org/TR/webauthn-3/, sections 7.1 and 7.2. A passkey replaces password and code together, so each answer has
to show that the authenticator has verified its user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import webauthn
from webauthn.helpers import base64url_to_bytes, options_to_json_dict
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from culvert_service.rest import strict_json

# Most JSON values in a browser's client data: a browser may add members to the seven of section 5.8.1.
_CLIENT_DATA_MAX = 100
# The authenticator's JSON (section 5.1).
Credential = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Registered:
    credential_id: bytes
    public_key: bytes
    sign_count: int


@dataclass(frozen=True, slots=True)
class Party:
    """`origin` is what the browser shows, `id` its host."""

    origin: str

    @classmethod
    def at(cls, url: str) -> Party:
        parts = urlsplit(url)
        return cls(f"{parts.scheme}://{parts.netloc.removesuffix(':443')}")

    @property
    def id(self) -> str:
        return urlsplit(self.origin).hostname or ""

    def creation(self, challenge: bytes, user_id: bytes, user: str, known: Sequence[bytes]) -> dict[str, Any]:
        """Options for navigator.credentials.create. An authenticator that has a `known` credential makes no second one."""
        return options_to_json_dict(
            webauthn.generate_registration_options(
                rp_id=self.id,
                rp_name="Culvert",
                user_id=user_id,
                user_name=user,
                challenge=challenge,
                exclude_credentials=[PublicKeyCredentialDescriptor(id=one) for one in known],
                authenticator_selection=AuthenticatorSelectionCriteria(
                    resident_key=ResidentKeyRequirement.REQUIRED,
                    user_verification=UserVerificationRequirement.REQUIRED,
                ),
            )
        )

    def request(self, challenge: bytes) -> dict[str, Any]:
        """Options for navigator.credentials.get. They name no account: the authenticator offers its passkeys."""
        return options_to_json_dict(
            webauthn.generate_authentication_options(
                rp_id=self.id, challenge=challenge, user_verification=UserVerificationRequirement.REQUIRED
            )
        )

    def verify_registration(self, credential: Credential, challenge: bytes) -> Registered | None:
        """The new passkey; None if the answer is not valid."""
        try:
            found = webauthn.verify_registration_response(
                credential=credential,
                expected_challenge=challenge,
                expected_rp_id=self.id,
                expected_origin=self.origin,
                require_user_verification=True,
            )
        # Any failure of the parser means invalid input.
        except Exception:
            return None
        return Registered(found.credential_id, found.credential_public_key, found.sign_count)

    def verify_signature(
        self, credential: Credential, challenge: bytes, public_key: bytes, sign_count: int
    ) -> int | None:
        """The new signature count. None if the answer is not valid, or comes from a copy of the passkey."""
        try:
            return webauthn.verify_authentication_response(
                credential=credential,
                expected_challenge=challenge,
                expected_rp_id=self.id,
                expected_origin=self.origin,
                credential_public_key=public_key,
                credential_current_sign_count=sign_count,
                require_user_verification=True,
            ).new_sign_count
        except Exception:
            return None


def challenge_of(credential: Credential) -> bytes:
    """The challenge that the answer claims to answer; empty when it claims none."""
    try:
        # Section 5.8.1: JSON in UTF-8.
        said: Any = strict_json.parse(
            base64url_to_bytes(credential["response"]["clientDataJSON"]), _CLIENT_DATA_MAX
        )
        return base64url_to_bytes(said["challenge"])
    except (KeyError, TypeError, ValueError):
        return b""


def id_of(credential: Credential) -> bytes:
    """The credential's id; empty if it has none."""
    try:
        return base64url_to_bytes(credential["id"])
    except (KeyError, TypeError, ValueError):
        return b""
