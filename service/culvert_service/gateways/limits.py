"""Soft and hard limits of an SA (RFC 4301 section 4.4.2.1). 0: no limit of that kind. Pure."""

from __future__ import annotations

from culvert_proto.sa import Limits

# The least distance between soft and hard limit: the traffic of a fast link while a slow device rekeys.
_PACKETS = 2**20
_BYTES = 2**30
_SECONDS = 600


def hard(soft: Limits) -> Limits:
    """Twice the soft limit, or the soft limit plus the least distance if that is more."""
    return Limits(
        _beyond(soft.packets, _PACKETS), _beyond(soft.bytes, _BYTES), _beyond(soft.seconds, _SECONDS)
    )


def _beyond(soft: int, room: int) -> int:
    return soft + max(soft, room) if soft else 0
