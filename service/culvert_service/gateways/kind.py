"""The kind of a gateway's switch, and the features that depend on it."""

from __future__ import annotations

import enum


class GatewayKind(enum.Enum):
    """The values are the names in the REST API."""

    SLUICE = "sluice"
    BMV2 = "bmv2"
    TOFINO_CPU = "tofino-cpu"
    CRYPTO_HOST = "crypto-host"

    @property
    def has_engine(self) -> bool:
        """Whether the switch opens and seals ESP itself; a switching chip has crypto hosts for it."""
        return self in (GatewayKind.SLUICE, GatewayKind.BMV2)

    @property
    def keeps_roles(self) -> bool:
        """Whether the switch honours P4Runtime roles (section 5.2). bmv2 knows only the default role."""
        return self is not GatewayKind.BMV2

    @property
    def reconciles(self) -> bool:
        """Whether RECONCILE_AND_COMMIT is safe. When it fails, bmv2 takes no program until it is restarted."""
        return self is not GatewayKind.BMV2
