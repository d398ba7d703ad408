"""The numbers by which a gateway knows an SA. Drawn at random; whether they are free is for the database to say."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import NewType

Spi = NewType("Spi", int)
SaId = NewType("SaId", int)
Slot = NewType("Slot", int)
Endpoint = NewType("Endpoint", int)
Tag = NewType("Tag", int)

# RFC 4303 section 2.1: 0 to 255 are reserved.
SPI_MIN = 256
# SAS in p4/gateway/metadata.p4: slots of one direction.
SLOTS = 65536
# The register of endpoints in p4/gateway.
ENDPOINTS = 65536


@dataclass(frozen=True, slots=True)
class SaNumbers:
    """One SA as the gateway's tables name it."""

    spi: Spi
    slot: Slot
    sa_id: SaId


def draw() -> SaNumbers:
    return SaNumbers(
        draw_spi(),
        Slot(secrets.randbelow(SLOTS)),
        SaId(1 + secrets.randbelow(2**32 - 1)),
    )


def draw_spi() -> Spi:
    return Spi(SPI_MIN + secrets.randbelow(2**32 - SPI_MIN))


def draw_tag() -> Tag:
    """0 would fix the peer."""
    return Tag(1 + secrets.randbelow(2**32 - 1))
