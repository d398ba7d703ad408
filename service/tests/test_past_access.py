"""The access check as of a past time gives the answer that the present check gave then."""

from __future__ import annotations

import datetime
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from culvert_db import HistoryBegin, PastVersion
from culvert_service.audit.retention import Retention
from culvert_service.decision.repository import history_begin
from long_log import cut_key
from sqlalchemy import func, select, text

from .conftest import Device, World, next_event
from .switch import Switch

pytestmark = pytest.mark.slow

OWN = quote("alice to wiki")
ASKED = "/access?user=alice&name=wiki.corp.example"


@pytest.fixture
async def device(world: World, switch: Switch) -> Device:
    device = await world.enrol()
    await device.prove()
    events = device.watch({"os_version": "12"})
    await next_event(events, "profile")
    await events.aclose()
    return device


async def now_of(world: World) -> datetime.datetime:
    """By the database's clock."""
    async with world.database() as session:
        return (await session.execute(text("SELECT clock_timestamp()"))).scalar_one()


async def ask(world: World, at: datetime.datetime | None) -> httpx.Response:
    at_time = f"&at={quote(at.isoformat())}" if at else ""
    return await world.admin.get(f"/api/v1{ASKED}{at_time}")


async def answer(world: World, at: datetime.datetime | None = None) -> list[dict[str, Any]]:
    found = await ask(world, at)
    assert found.status_code == 200, found.text
    return list(found.json())


async def versions(world: World) -> int:
    async with world.database() as session:
        return await session.scalar(select(func.count()).select_from(PastVersion)) or 0


async def test_each_change_leaves_the_answer_of_before(world: World, device: Device) -> None:
    wiki = await world.rest("GET", "/resources/wiki")
    asked_wiki = {name: value for name, value in wiki.items() if name != "created_at"}
    group = {"name": "writers", "members": ["alice"]}
    policy = {"name": "w", "group": "writers", "resources": ["wiki"]}
    approved = {"conditions": {"posture": [{"fact": "os_version", "at_least": "13"}]}}
    steps: list[tuple[str, str, Any]] = [
        (
            "PUT",
            f"/policies/{OWN}",
            {"name": "off", "enabled": False, "user": "alice", "resources": ["wiki"]},
        ),
        ("POST", "/groups", group),
        ("POST", "/policies", policy),
        ("PUT", "/policies/w", policy | approved),
        ("PUT", "/policies/w", policy),
        ("DELETE", "/groups/writers/members/alice", None),
        ("PUT", "/groups/writers/members/alice", None),
        ("DELETE", "/groups/writers", None),
        ("POST", "/groups", group),
        ("POST", "/policies", policy),
        ("POST", "/gateways/gw-berlin/drain?anyway=true", None),
        ("POST", "/gateways/gw-berlin/undrain", None),
        ("PUT", "/resources/wiki", asked_wiki | {"owner": "carol@corp.example"}),
        ("DELETE", "/resources/wiki", None),
        ("POST", f"/devices/{device.id}/revoke", None),
    ]
    seen: list[tuple[datetime.datetime, list[dict[str, Any]]]] = []
    for method, path, body in [*steps, ("DELETE", "/users/alice", None)]:
        seen.append((await now_of(world), await answer(world)))
        before = await versions(world)
        await world.rest(method, path, body)
        assert await versions(world) > before, path
    verdicts = {(found[0]["verdict"], found[0]["reason"]) for _, found in seen}
    assert {"permit"} < {verdict for verdict, _ in verdicts}
    assert {"NO_POLICY", "POSTURE_NOT_MET", "GATEWAY_DRAINING", "NAME_UNKNOWN", "DEVICE_REVOKED"} <= {
        reason for _, reason in verdicts
    }
    assert (await ask(world, None)).status_code == 404
    for at, found in seen:
        assert await answer(world, at) == found, at


async def test_a_code_is_valid_at_its_time_and_not_before(world: World, switch: Switch) -> None:
    device = await world.enrol()
    before = await now_of(world)
    await device.prove()
    [then] = await answer(world, before)
    assert (then["reason"], (await answer(world))[0]["verdict"]) == ("CODE_NEEDED", "permit")


async def test_times_outside_of_the_history_are_refused(world: World, device: Device) -> None:
    async with world.database() as session:
        begin = await history_begin(session)
    assert datetime.datetime.fromisoformat((await world.rest("GET", "/access/history"))["since"]) == begin
    early = await ask(world, begin - datetime.timedelta(seconds=1))
    assert (early.status_code, early.json()["reason"]) == (410, "HISTORY_NOT_KEPT")
    assert f"{begin:%Y-%m-%d %H:%M} UTC" in early.json()["detail"]
    assert (await ask(world, begin)).json()["reason"] == "NOT_FOUND"
    late = await ask(world, await now_of(world) + datetime.timedelta(minutes=1))
    assert (late.status_code, late.json()["reason"]) == (422, "REQUEST_INVALID")


async def test_a_device_that_only_watches_leaves_no_version(world: World, device: Device) -> None:
    before = await versions(world)
    events = device.watch({"os_version": "12"})
    await next_event(events, "profile")
    async with world.database.begin() as session:
        await session.execute(text("UPDATE devices SET last_seen_at = now(), watched_until = now()"))
        await session.execute(text("UPDATE gateway_health SET since = now(), online = online"))
    await events.aclose()
    assert await versions(world) == before


async def test_a_transaction_that_ends_late_is_seen_as_of_its_beginning(world: World, device: Device) -> None:
    """Two transactions that wait for each other's row leave its versions in the order of their writes."""
    async with world.database() as first, world.database() as second:
        await first.execute(text("SELECT now()"))
        await second.execute(text("SELECT now()"))
        await second.execute(text("UPDATE users SET name = 'b' WHERE name = 'alice'"))
        await second.commit()
        await first.execute(text("UPDATE users SET name = 'alice' WHERE name = 'b'"))
        await first.commit()
    assert (await answer(world))[0]["verdict"] == "permit"
    async with world.database() as session:
        names = (
            await session.scalars(
                select(PastVersion.version["name"].astext)
                .where(PastVersion.relation == "users", PastVersion.version.is_not(None))
                .order_by(PastVersion.id)
            )
        ).all()
    assert names == ["alice", "b"]


async def test_old_versions_go_with_the_audit_log(world: World, device: Device) -> None:
    kept = await now_of(world)
    await world.rest("PUT", "/users/alice", {"name": "alice", "email": "a@corp.example"})
    await world.rest("DELETE", f"/policies/{OWN}")
    month = datetime.timedelta(days=30)
    await Retention(world.database, cut_key(world.settings), lambda: kept + month, month, None).round()
    assert (await answer(world, kept))[0]["verdict"] == "permit"
    assert (await ask(world, kept - datetime.timedelta(seconds=1))).json()["reason"] == "HISTORY_NOT_KEPT"
    async with world.database() as session:
        assert await session.scalar(select(func.count()).where(PastVersion.until < kept)) == 0
        assert await session.scalar(select(HistoryBegin.begins_at)) == kept
