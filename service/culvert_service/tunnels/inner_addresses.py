"""A device's inner addresses at gateways: assigned when it opens a tunnel, or before.

With an address before its tunnel opens, the device's first packets already have the tunnel's source address, so their
connection continues in the tunnel.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Collection

from culvert_db import Database, Gateway, InSession, Statements
from culvert_proto import CulvertError, Reason
from sqlalchemy.exc import IntegrityError

from culvert_service.tunnels import hot_queries, repository
from culvert_service.tunnels.pool import Inner, find_address_after, find_free_address

# Addresses tried before an error is reported.
_TRIES = 16
# After each lost race, the search skips up to this many more addresses.
_SPREAD = 16


async def assign_address(transaction: Statements, gateway: Gateway, device_id: uuid.UUID) -> Inner:
    """The device's addresses in the gateway's pools. Raises CulvertError POOL_EXHAUSTED.

    Assigns above the highest taken address while there is room, in constant time; then searches the gaps.
    """
    released = False
    for lost in range(_TRIES):
        # After each lost race for an address, skip a random number of addresses, to avoid the next race.
        skip = secrets.randbelow(_SPREAD * lost + 1)
        mine, above = await _read_or_propose(transaction, gateway, device_id, skip)
        if mine is not None:
            return mine
        found = above or await _search_between(transaction, gateway, skip)
        if found is None:
            if released:
                break
            # Reuse addresses as late as possible, so that captures and logs stay unambiguous for long.
            await hot_queries.release_addresses(transaction, gateway.id)
            released = True
            continue
        # False: another request took the address first.
        if await hot_queries.insert_address(transaction, gateway.id, device_id, found):
            return found
    raise CulvertError(Reason.POOL_EXHAUSTED, gateway=gateway.name)


async def assign_early(transaction: Statements, gateway: Gateway, device_id: uuid.UUID) -> Inner | None:
    """As `assign_address`, from the lower half of the pools: the upper half is left for devices that open tunnels."""
    for lost in range(_TRIES):
        mine, above = await _read_or_propose(
            transaction, gateway, device_id, secrets.randbelow(_SPREAD * lost + 1)
        )
        if mine is not None:
            return mine
        if above is None or not above.leaves_half(gateway.pool, gateway.pool6):
            return None
        if await hot_queries.insert_address(transaction, gateway.id, device_id, above):
            return above
    return None


async def assign_early_at(
    database: Database, names: Collection[str], device_id: uuid.UUID
) -> dict[str, Inner]:
    """Assign the device addresses at these gateways, while their pools have room; none if it was deleted meanwhile."""
    found: dict[str, Inner] = {}
    try:
        async with database.begin() as session:
            for gateway in await repository.lock_gateways(session, names):
                inner = await assign_early(InSession(session), gateway, device_id)
                if inner is not None:
                    found[gateway.name] = inner
    except IntegrityError:
        return {}
    return found


async def _read_or_propose(
    transaction: Statements, gateway: Gateway, device_id: uuid.UUID, skip: int
) -> tuple[Inner | None, Inner | None]:
    """The device's addresses, and the addresses after the highest taken ones."""
    mine, highest, highest6 = await hot_queries.read_addresses(transaction, gateway.id, device_id)
    above = _combine(
        gateway,
        find_address_after(gateway.pool, highest, skip),
        find_address_after(gateway.pool6, highest6, skip) if gateway.pool6 else None,
    )
    return mine, above


async def _search_between(transaction: Statements, gateway: Gateway, skip: int) -> Inner | None:
    taken = await hot_queries.list_addresses(transaction, gateway.id)
    address = find_free_address(gateway.pool, [inner.address for inner in taken], skip)
    used6 = [inner.address6 for inner in taken if inner.address6]
    address6 = find_free_address(gateway.pool6, used6, skip) if gateway.pool6 else None
    return _combine(gateway, address, address6)


def _combine(gateway: Gateway, address: str | None, address6: str | None) -> Inner | None:
    if address is None or (gateway.pool6 and address6 is None):
        return None
    return Inner(address, address6)
