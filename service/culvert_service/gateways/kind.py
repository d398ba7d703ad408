"""The kind of a gateway's switch, and its consequences."""

from __future__ import annotations

import enum


class GatewayKind(enum.Enum):
    """By the name that people type."""

    SLUICE = "sluice"
    BMV2 = "bmv2"
    TOFINO_CPU = "tofino-cpu"
    CRYPTO_HOST = "crypto-host"

    @property
    def keeps_roles(self) -> bool:
        """Whether a P4Runtime role (section 5.2) keeps others out. bmv2 has them all in the default one."""
        return self is not GatewayKind.BMV2

    @property
    def reconciles(self) -> bool:
        """Whether RECONCILE_AND_COMMIT is safe. When it fails, bmv2 takes no program until it is started anew."""
        return self is not GatewayKind.BMV2
