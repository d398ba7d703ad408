"""Order gateways for a device by weight: weighted rendezvous hashing. Pure.

Each device orders the gateways by a number of its own for each, so that it always comes to the same one; over many
devices each gateway is first for its share of the weights (Schindelhauer and Schomaker, Weighted Distributed Hash Tables,
2005, the logarithmic method). Where a gateway comes or goes, only devices move that it wins or loses.
"""

from __future__ import annotations

import hashlib
import math
import uuid

_BITS = 64


def score(device: uuid.UUID, gateway: str, weight: int) -> float:
    """The highest is first. Weight 0: only where no other can be used."""
    drawn = int.from_bytes(hashlib.sha256(device.bytes + gateway.encode()).digest()[: _BITS // 8])
    return -weight / math.log((drawn + 0.5) / 2**_BITS)
