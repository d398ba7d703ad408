"""The day on which a policy was last used, and the policies that nobody uses."""

from __future__ import annotations

import datetime
from typing import Any
from urllib.parse import quote

import pytest
from culvert_db import create_engine
from culvert_service.decision import uses
from culvert_service.decision.uses import PolicyUses
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import async_sessionmaker

from .conftest import World, refused, until
from .switch import Switch

pytestmark = pytest.mark.slow

OWN = "alice to wiki"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uses, "_WRITE_SECONDS", 0.05)


async def usage(world: World, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (await world.rest("GET", f"/policies/{quote(name)}"))["usage"]
    return found


async def is_used_today(world: World, name: str) -> None:
    await until(lambda: usage(world, name), lambda found: found["last_used_on"] == str(today()))


def today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


async def unused(world: World) -> list[str]:
    listed = await world.rest("GET", "/policies?unused=true")
    assert all(one["usage"]["is_unused"] for one in listed)
    return [one["name"] for one in listed]


async def alter(world: World, statement: str) -> None:
    async with world.database.begin() as session:
        await session.execute(text(statement))


async def test_each_policy_that_permits_a_tunnel_is_used(world: World, switch: Switch) -> None:
    device = await world.enrol()
    await world.rest("POST", "/groups", {"name": "writers", "members": ["alice"]})
    both = {"name": "writers", "group": "writers", "resources": ["wiki"]}
    await world.rest("POST", "/policies", both)
    await world.rest("POST", "/policies", both | {"name": "strict", "conditions": {"device_approved": True}})
    await world.rest("POST", "/policies", both | {"name": "off", "enabled": False})
    await refused(device.open())
    assert (await usage(world, OWN))["last_used_on"] is None
    await device.prove()
    await device.open()
    await is_used_today(world, OWN)
    await is_used_today(world, "writers")
    for name in ("strict", "off"):
        assert (await usage(world, name))["last_used_on"] is None
    assert [one["name"] for one in await world.rest("GET", "/policies?sort=-last_used")][2:] == [
        "strict",
        "off",
    ]
    # A tunnel that stays open uses the policies that permit it again.
    await alter(world, "UPDATE policy_uses SET last_used_on = last_used_on - 1")
    changed = both | {"name": "strict"}
    await world.rest("PUT", "/policies/strict", changed)
    await is_used_today(world, "strict")
    assert (await usage(world, OWN))["last_used_on"] == str(today() - datetime.timedelta(days=1))


async def test_only_what_nobody_has_used_for_90_days_is_unused(world: World, switch: Switch) -> None:
    device = await world.enrol()
    await device.prove()
    await device.open()
    await is_used_today(world, OWN)
    await world.rest("POST", "/users", {"name": "bob", "email": "bob@corp.example"})
    spare = {"name": "spare", "user": "bob", "resources": ["wiki"]}
    await world.rest("POST", "/policies", spare)
    assert await unused(world) == []
    await alter(world, "UPDATE policies SET created_at = now() - interval '91 days'")
    assert await unused(world) == ["spare"]
    # The count of uses began with an upgrade, a week ago.
    await alter(
        world,
        "INSERT INTO policy_uses SELECT id, now() - interval '7 days' FROM policies WHERE name = 'spare'",
    )
    assert await unused(world) == []
    await alter(
        world,
        "UPDATE policy_uses SET counted_from = now() - interval '91 days', last_used_on = last_used_on - 89",
    )
    assert await unused(world) == ["spare"]
    await alter(world, "UPDATE policy_uses SET last_used_on = last_used_on - 2")
    assert await unused(world) == [OWN, "spare"]
    # A policy that was changed is as young as a new one.
    await world.rest("PUT", "/policies/spare", spare)
    assert await unused(world) == [OWN]
    await world.rest("DELETE", f"/policies/{quote(OWN)}")
    assert await unused(world) == []


async def test_uses_are_written_once_a_day(database_url: str) -> None:
    """A thousand tunnels of a policy cost the database one statement, and a policy that is gone costs no fault."""
    written: list[str] = []
    now = datetime.datetime(2026, 11, 28, 23, 59, tzinfo=datetime.UTC)
    engine = create_engine(database_url)
    policies = PolicyUses(async_sessionmaker(engine), lambda: now)

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        if "policy_uses" in statement:
            written.append(statement)

    event.listen(engine.sync_engine, "before_cursor_execute", note)
    for _ in range(1000):
        policies.note([OWN, "gone"])
        await policies.write()
    assert len(written) == 1
    now += datetime.timedelta(minutes=1)
    policies.note([OWN])
    await policies.write()
    assert len(written) == 2
    await engine.dispose()
