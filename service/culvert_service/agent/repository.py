"""SQL about the profiles of many devices."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from culvert_db import Address, Database, Device, Gateway, Resource, User
from culvert_db.text import by_code_point
from sqlalchemy import ARRAY, BigInteger, LargeBinary, Uuid, any_, cast, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from culvert_service.decision.repository import list_reachable
from culvert_service.tunnels.pool import Inner
from culvert_service.tunnels.repository import list_serving

# The columns for a profile and for the check of its certificate.
_COLUMNS = (
    Device.id,
    Device.user_id,
    Device.name,
    Device.state,
    Device.fingerprint,
    Device.certificate_expires_at,
    Device.next_fingerprint,
    Device.next_expires_at,
    Device.code_valid_until,
)


@dataclass(frozen=True, slots=True)
class Facts:
    """`devices`: by the fingerprint of each of their certificates. `reachable`: ids of resources, by person.
    `resources`: in the order of their names. `serving`: names and weights of gateways in order, by resource.
    `inner`: inner addresses by gateway, by device.
    """

    devices: Mapping[bytes, Device]
    reachable: Mapping[int, frozenset[int]]
    resources: Sequence[Resource]
    serving: Mapping[int, Sequence[tuple[str, int | None]]]
    inner: Mapping[uuid.UUID, Mapping[str, Inner]]


async def read_facts(database: Database, fingerprints: Collection[bytes]) -> Facts:
    async with database() as session:
        # One snapshot for all statements: with several, a policy that changes both its people and its resources between
        # two of them would show its new resources to its former people.
        await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        devices = await _list_devices(session, fingerprints)
        reachable = await list_reachable(session, {it.user_id for it in devices})
        ids = frozenset[int]().union(*reachable.values())
        serving: defaultdict[int, list[tuple[str, int | None]]] = defaultdict(list)
        for resource_id, name, weight in await list_serving(session, ids):
            serving[resource_id].append((name, weight))
        return Facts(
            {shown: it for it in devices for shown in (it.fingerprint, it.next_fingerprint) if shown},
            reachable,
            await _list_resources(session, ids),
            serving,
            await _list_addresses(session, [it.id for it in devices]),
        )


async def _list_devices(session: AsyncSession, fingerprints: Collection[bytes]) -> list[Device]:
    shown = cast(list(fingerprints), ARRAY(LargeBinary))
    query = select(*_COLUMNS, User.name.label("person")).join(User, User.id == Device.user_id)
    query = query.where(or_(Device.fingerprint == any_(shown), Device.next_fingerprint == any_(shown)))
    found: list[Device] = []
    for row in await session.execute(query):
        values = dict(row._mapping)
        person = values.pop("person")
        found.append(Device(**values, user=User(id=values["user_id"], name=person)))
    return found


async def _list_resources(session: AsyncSession, ids: Collection[int]) -> Sequence[Resource]:
    query = select(Resource).where(Resource.id == any_(cast(list(ids), ARRAY(BigInteger))))
    return (await session.scalars(query.order_by(by_code_point(Resource.fqdn)))).all()


async def _list_addresses(
    session: AsyncSession, devices: Collection[uuid.UUID]
) -> Mapping[uuid.UUID, Mapping[str, Inner]]:
    query = (
        select(Address.device_id, Gateway.name, Address.address, Address.address6)
        .join(Gateway, Gateway.id == Address.gateway_id)
        .where(Address.device_id == any_(cast(list(devices), ARRAY(Uuid))))
    )
    found: defaultdict[uuid.UUID, dict[str, Inner]] = defaultdict(dict)
    for device_id, gateway, address, address6 in await session.execute(query):
        found[device_id][gateway] = Inner(address, address6)
    return found
