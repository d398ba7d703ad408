"""REST schemas of this controller."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from culvert_service.rest.problem import Problem
from culvert_service.rest.stored_text import StoredText


class CertificateOut(BaseModel):
    """`fingerprint` is the SHA-256 of its DER, in hexadecimal."""

    name: str
    kind: Literal["ca", "earlier-ca", "server", "client"]
    fingerprint: str
    expires_at: datetime


class ControllerOut(BaseModel):
    name: str
    version: str
    started_at: datetime
    # The server's clock.
    now: datetime
    rest_url: str
    agent_address: str
    database: Literal["embedded", "external"]
    managed_zones: list[str]
    protected_prefixes: list[str]
    # Whether every policy needs an approved device.
    device_approval: bool
    # Days after its expiry for which a certificate can be renewed with its key and a code; 0: never.
    late_renewal_days: int
    oidc_issuer: str | None
    # Why the last sign-in at the provider failed; null after a success.
    oidc_fault: Problem | None
    certificates: list[CertificateOut]
    # Whether browsers get the certificate of Culvert's CA, of which they warn.
    own_certificate: bool
    # Why the newest certificate of the public name is not used; null when it is, or when it is of Culvert's CA.
    public_certificate_fault: StoredText | None
