"""This controller as REST says it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from culvert_service.rest.problem import Problem


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
    # The server's own.
    now: datetime
    rest_url: str
    agent_address: str
    database: Literal["embedded", "external"]
    managed_zones: list[str]
    protected_prefixes: list[str]
    # Every policy asks for an approved device.
    device_approval: bool
    # For how long after its end a certificate is renewed by its key and a code; 0: never.
    late_renewal_days: int
    oidc_issuer: str | None
    # Why the last sign-in that asked the provider did not succeed, until one does.
    oidc_fault: Problem | None
    certificates: list[CertificateOut]
