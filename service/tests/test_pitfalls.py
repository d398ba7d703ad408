"""The published prototype's defects that a controller can have: none is here."""

from __future__ import annotations

import pytest
from culvert_db import Database, SecurityAssociation
from finsy.proto import p4r
from sqlalchemy import func, select

from .conftest import Device, World, refused, until
from .switch import Switch

pytestmark = pytest.mark.slow

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE


@pytest.fixture
async def device(world: World, switch: Switch) -> Device:
    device = await world.enrol()
    await device.prove()
    return device


def written(switch: Switch, since: int) -> list[tuple[int, str]]:
    """The update of each entry, in order: its type and table."""
    names = {switch.table(name): name for name in ("sad_in", "spd_in", "sad_out", "spd_out")}
    updates = [update for write in switch.writes[since:] for update in write.updates]
    return [(update.type, names[update.entity.table_entry.table_id]) for update in updates]


async def numbers(database: Database) -> int:
    async with database() as session:
        return await session.scalar(select(func.count()).select_from(SecurityAssociation)) or 0


async def test_pitfall_08_decryption_comes_before_encryption(device: Device, switch: Switch) -> None:
    """At the opening; at a rekey, which deletes the old pair at its end; and in reverse at the close."""
    began = len(switch.writes)
    opened = await device.open()
    assert written(switch, began) == [
        (INSERT, table) for table in ("sad_in", "spd_in", "sad_out", "spd_out", "spd_out")
    ]
    began = len(switch.writes)
    await device.renew(opened.tunnel.tunnel_id, 1)
    await device.activate(opened.tunnel.tunnel_id, 2)
    made = [*((INSERT, table) for table in ("sad_in", "spd_in", "sad_out")), *[(MODIFY, "spd_out")] * 2]
    assert written(switch, began) == made

    async def since() -> list[tuple[int, str]]:
        return written(switch, began)[len(made) :]

    old = [(DELETE, table) for table in ("sad_out", "spd_in", "sad_in")]
    await until(since, lambda found: len(found) == len(old))
    assert await since() == old
    began = len(switch.writes)
    await device.close(opened.tunnel.tunnel_id)
    assert written(switch, began) == [*[(DELETE, "spd_out")] * 2, *old]


async def test_pitfall_09_numbers_are_unique_and_come_back(world: World, device: Device) -> None:
    """Under constraints of the database, which has them free again when a tunnel is closed."""
    seen: set[int] = set()
    for _ in range(20):
        opened = await device.open()
        spi = opened.sas.outbound.spi
        assert spi > 255
        assert spi not in seen
        seen.add(spi)
        assert await numbers(world.database) == 2
        await device.close(opened.tunnel.tunnel_id)
        assert await numbers(world.database) == 0


async def test_pitfall_10_a_device_is_where_its_connection_comes_from(world: World, device: Device) -> None:
    """A device gives a UDP port, never an address, and cannot act on another device's tunnel."""
    opened = await device.open()
    [tunnel] = await world.rest("GET", "/tunnels")
    assert tunnel["peer_address"] == "127.0.0.1"
    thief = await world.enrol()
    assert (await refused(thief.close(opened.tunnel.tunnel_id))).reason.name == "TUNNEL_UNKNOWN"
