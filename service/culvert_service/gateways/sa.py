"""The numbers by which a gateway knows an SA. Drawn at random; whether they are free is for the database to say."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import NewType

from culvert_proto.contract import FIRST_SPI, SAS

Spi = NewType("Spi", int)
SaId = NewType("SaId", int)
Slot = NewType("Slot", int)
Endpoint = NewType("Endpoint", int)
Tag = NewType("Tag", int)


@dataclass(frozen=True, slots=True)
class SaNumbers:
    """An SA as the gateway's tables name it."""

    spi: Spi
    slot: Slot
    sa_id: SaId


def draw() -> SaNumbers:
    return SaNumbers(
        draw_spi(),
        Slot(secrets.randbelow(SAS)),
        SaId(1 + secrets.randbelow(2**32 - 1)),
    )


def draw_spi() -> Spi:
    return Spi(FIRST_SPI + secrets.randbelow(2**32 - FIRST_SPI))


def draw_tag() -> Tag:
    """0 would fix the peer."""
    return Tag(1 + secrets.randbelow(2**32 - 1))
