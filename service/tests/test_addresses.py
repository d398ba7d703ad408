"""Inner addresses for many devices that come at once."""

from __future__ import annotations

import asyncio
import datetime
import uuid

import pytest
from culvert_db import Device, Gateway
from culvert_service.sessions import repository
from sqlalchemy import select

from .conftest import World, free_port

pytestmark = pytest.mark.slow

DEVICES = 64


async def test_all_who_come_at_once_get_one(world: World) -> None:
    await world.add_gateway("gw-berlin", free_port())
    devices = [uuid.uuid4() for _ in range(DEVICES)]
    async with world.sessions.begin() as session:
        session.add_all(
            Device(
                id=one,
                user_id=1,
                name="laptop",
                fingerprint=one.bytes * 2,
                certificate_serial=one.hex,
                certificate_expires_at=datetime.datetime.now(datetime.UTC),
            )
            for one in devices
        )
    together = asyncio.Semaphore(16)

    async def come(device_id: uuid.UUID) -> str:
        async with together, world.sessions.begin() as session:
            gateway = (await session.scalars(select(Gateway))).one()
            return (await repository.assign_address(session, gateway, device_id)).address

    found = await asyncio.gather(*map(come, devices))
    assert len(set(found)) == DEVICES
