"""What we ask of finsy, and what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import cast

import finsy
from finsy import P4DigestList
from finsy.proto import p4r

# Entries that are looked at in one go.
_PORTION = 500


async def read(switch: finsy.Switch, wanted: Sequence[p4r.Entity]) -> AsyncGenerator[Sequence[p4r.Entity]]:
    """What matches, in portions; between two of them others have their turn."""
    client = switch._p4client
    assert client is not None
    request = p4r.ReadRequest(device_id=switch.device_id, entities=wanted)
    async for reply in client.request_iter(request):
        for first in range(0, len(reply.entities), _PORTION):
            yield reply.entities[first : first + _PORTION]
            await asyncio.sleep(0)


def digest_values(message: P4DigestList) -> list[dict[str, int]]:
    return [dict(cast("Mapping[str, int]", item)) for item in message]


def refusal(error: finsy.P4ClientError) -> str:
    """Why a gateway refused, in its own words, without the entry."""
    details = [f"{fault.canonical_code.name}: {fault.message}" for fault in error.details.values()]
    return "; ".join(details[:3]) or f"{error.code.name}: {error.message}"


def is_down(error: finsy.P4ClientError) -> bool:
    return error.code in {
        finsy.GRPCStatusCode.UNAVAILABLE,
        finsy.GRPCStatusCode.DEADLINE_EXCEEDED,
        finsy.GRPCStatusCode.CANCELLED,
    }


def already_exists_only(error: finsy.P4ClientError) -> bool:
    codes = {fault.canonical_code for fault in error.details.values()} or {error.code}
    return codes == {finsy.GRPCStatusCode.ALREADY_EXISTS}
