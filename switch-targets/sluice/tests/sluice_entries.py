"""Table entries for tests that are about tables, not about packets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import finsy as fy
from gateway_entries import Site, Tunnel

TUNNEL = Tunnel(bytes(range(36)), bytes(range(36, 72)))


async def read(switch: fy.Switch, *asked: Any) -> list[Any]:
    """The entities that the switch answers."""
    answers = cast(AsyncIterator[Any], switch.read(asked))
    return [entity async for entity in answers]


def site() -> list[fy.P4TableEntry]:
    return Site().entries()


def ports() -> list[fy.P4TableEntry]:
    return site()[:2]


def tunnel() -> list[fy.P4TableEntry]:
    return TUNNEL.entries()
