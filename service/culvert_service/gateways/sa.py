"""The numbers that identify an SA at a gateway, drawn at random. Database constraints ensure that they are unique."""

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
    """The numbers of an SA in the gateway's tables."""

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
    """Not 0, because tag 0 means a fixed peer."""
    return Tag(1 + secrets.randbelow(2**32 - 1))
