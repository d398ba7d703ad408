"""What a P4Runtime session is opened with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import finsy

from culvert_service.gateways.kind import Kind


@dataclass(frozen=True, slots=True)
class Program:
    """The compiled pipeline, and the P4Runtime role that it is written in; empty: the default one."""

    p4info: Path
    blob: Path
    role: str = ""

    def at(self, kind: Kind) -> Program:
        return self if kind.keeps_roles else replace(self, role="")


@dataclass(frozen=True, slots=True)
class Credentials:
    """mTLS: who a gateway must be signed by, and who we are."""

    ca_pem: bytes
    certificate_pem: bytes
    key_pem: bytes

    def at(self, gateway: str) -> finsy.GRPCCredentialsTLS:
        """A gateway is who its certificate names, wherever it is reached."""
        return finsy.GRPCCredentialsTLS(
            cacert=self.ca_pem,
            cert=self.certificate_pem,
            private_key=self.key_pem,
            target_name_override=gateway,
        )

    def __repr__(self) -> str:
        return "Credentials()"
