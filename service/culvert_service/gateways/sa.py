"""An SA's numbers at a gateway, drawn at random, and its limits.

Database constraints ensure that the numbers are unique. A limit of 0 is no limit of that kind (RFC 4301 section 4.4.2.1).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import NewType

from culvert_proto.contract import FIRST_SPI, SAS
from culvert_proto.sa import Limits

# The least distance between soft and hard limit: the traffic of a fast link while a slow device rekeys.
_PACKETS = 2**20
_BYTES = 2**30
_SECONDS = 600

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


def compute_hard(soft: Limits) -> Limits:
    """The hard limits: twice the soft limit, or the soft limit plus the least distance if that is more."""
    return Limits(
        _beyond(soft.packets, _PACKETS), _beyond(soft.bytes, _BYTES), _beyond(soft.seconds, _SECONDS)
    )


def _beyond(soft: int, room: int) -> int:
    return soft + max(soft, room) if soft else 0
