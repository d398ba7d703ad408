"""Soft and hard limits of an SA (RFC 4301 section 4.4.2.1). 0 means none of that kind. Pure."""

from __future__ import annotations

from culvert_proto.sa import Limits

# Room between soft and hard at least: what a fast link carries while a slow device rekeys.
_PACKETS = 2**20
_BYTES = 2**30
_SECONDS = 600


def hard(soft: Limits) -> Limits:
    """Twice the soft limit, and never so close that a rekey cannot finish."""
    return Limits(
        _beyond(soft.packets, _PACKETS), _beyond(soft.bytes, _BYTES), _beyond(soft.seconds, _SECONDS)
    )


def _beyond(soft: int, room: int) -> int:
    return soft + max(soft, room) if soft else 0
