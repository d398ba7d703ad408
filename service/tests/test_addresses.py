"""Inner addresses for many devices that come at once."""

from __future__ import annotations

import asyncio
import datetime
import uuid

import pytest
from culvert_db import Device, Gateway
from culvert_proto import Reason
from culvert_service.sessions import repository
from sqlalchemy import select

from .conftest import World, free_port, refused
from .switch import Switch
from .test_changes import change
from .test_drain import proven

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


async def test_what_a_revoked_device_had_is_given_away_when_nothing_else_is_left(
    world: World, switch: Switch
) -> None:
    await change(world, "/gateways/gw-berlin", pool="10.99.1.0/30")
    opened: list[str] = []
    for device in (devices := [await proven(world) for _ in range(3)])[:2]:
        opened.append((await device.open()).tunnel.inner_address)
    assert (await refused(devices[2].open())).reason is Reason.POOL_EXHAUSTED
    await world.rest("POST", f"/devices/{devices[0].id}/revoke")
    assert (await devices[2].open()).tunnel.inner_address == opened[0]
    assert (await refused((await proven(world)).open())).reason is Reason.POOL_EXHAUSTED
