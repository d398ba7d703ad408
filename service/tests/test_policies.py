"""Groups and policies over REST, what they do to tunnels that are up, and the tracer beside real openings."""

from __future__ import annotations

import asyncio
import datetime
import random
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import culvert_db
import pytest
from culvert_db import Tunnel
from culvert_proto import CulvertError, Reason
from culvert_service.gateways import mapped
from culvert_service.tunnels import enforcement
from sqlalchemy import select, text, update

from .conftest import Device, World, refused, running, settings_in, until
from .switch import Switch
from .test_roaming import seals
from .test_tunnels import next_event, tunnel_entries, tunnels

pytestmark = pytest.mark.slow

OWN = quote("alice to wiki")
# The only permitted minute is three days ahead.
FAR_DAY = f"{datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3):%a}".lower()
NEVER = {"hours": {"zone": "UTC", "windows": [{"days": [FAR_DAY], "opens": "00:00", "closes": "00:01"}]}}


def policy(**fields: Any) -> dict[str, Any]:
    return {"name": "people of the wiki", "group": "writers", "resources": ["wiki"]} | fields


@pytest.fixture
async def device(world: World, switch: Switch) -> Device:
    device = await world.enrol()
    await device.prove()
    return device


@pytest.fixture
async def writers(world: World, device: Device) -> None:
    """Alice reaches the wiki as a member of a group, and in no other way."""
    await world.rest("POST", "/groups", {"name": "writers", "members": ["alice"]})
    await world.rest("POST", "/policies", policy())
    await world.rest("DELETE", f"/policies/{OWN}")


async def problem(world: World, method: str, path: str, body: object = None) -> tuple[int, str]:
    answer = await world.admin.request(method, f"/api/v1{path}", json=body, headers={"If-Match": "*"})
    return answer.status_code, answer.json()["reason"]


async def test_a_policy_reads_back_as_written(world: World, device: Device) -> None:
    await world.rest("POST", "/groups", {"name": "writers"})
    alone: dict[str, object] = {"count": 1, "first": ["alice"], "display_names": {}}
    assert (await world.rest("PUT", "/groups/writers/members/alice"))["members"] == alone
    assert (await world.rest("PUT", "/groups/writers/members/alice"))["members"] == alone
    conditions = NEVER | {
        "code_max_age_seconds": 600,
        "device_approved": True,
        "sources": ["10.0.0.0/8"],
        "posture": [{"fact": "os_id", "one_of": ["debian"], "at_least": None}],
    }
    made = await world.rest("POST", "/policies", policy(conditions=conditions))
    assert made["conditions"] == conditions
    path = f"/policies/{quote(made['name'])}"
    assert await world.rest("GET", path) == made
    changed = await world.rest("PUT", path, policy(name="writers", enabled=False))
    assert (changed["name"], changed["enabled"], changed["conditions"]["sources"]) == ("writers", False, [])
    assert [one["name"] for one in await world.rest("GET", "/policies")] == ["alice to wiki", "writers"]
    await world.rest("DELETE", "/groups/writers")
    assert [one["name"] for one in await world.rest("GET", "/policies")] == ["alice to wiki"]
    await world.rest("DELETE", "/resources/wiki")
    assert await world.rest("GET", "/policies") == []


async def test_an_invalid_policy_is_refused(world: World, device: Device) -> None:
    await world.rest("POST", "/groups", {"name": "writers"})
    await world.rest("POST", "/policies", policy())
    for body, refusal in [
        (policy(), (409, "ALREADY_EXISTS")),
        (policy(name="b", group="readers"), (404, "NOT_FOUND")),
        (policy(name="b", user="alice"), (422, "REQUEST_INVALID")),
        (policy(name="b", group=None), (422, "REQUEST_INVALID")),
        (policy(name="b", resources=["git"]), (404, "NOT_FOUND")),
        (policy(name="b", resources=[]), (422, "REQUEST_INVALID")),
        (policy(name="a/b"), (422, "REQUEST_INVALID")),
        (policy(name="b", conditions={"sources": ["10.0.0.1/8"]}), (422, "REQUEST_INVALID")),
        (policy(name="b", conditions={"moon": "full"}), (422, "REQUEST_INVALID")),
        (policy(name="b", conditions={"code_max_age_seconds": 8 * 3600 + 1}), (422, "REQUEST_INVALID")),
    ]:
        assert await problem(world, "POST", "/policies", body) == refusal, body
    assert await problem(world, "PUT", f"/policies/{OWN}", policy()) == (409, "ALREADY_EXISTS")
    assert await problem(world, "POST", "/groups", {"name": "writers"}) == (409, "ALREADY_EXISTS")
    assert await problem(world, "POST", "/groups", {"name": "b", "members": ["bob"]}) == (404, "NOT_FOUND")
    assert await problem(world, "DELETE", "/groups/readers") == (404, "NOT_FOUND")
    assert await problem(world, "GET", "/access?user=bob&name=wiki.corp.example") == (404, "NOT_FOUND")


async def test_a_groups_policy_permits_only_members(world: World, device: Device, writers: None) -> None:
    await world.rest("POST", "/users", {"name": "eve", "email": "eve@corp.example"})
    eve = await world.enrol("eve")
    await eve.prove()
    await device.open()
    assert (await refused(eve.open())).reason is Reason.NO_POLICY
    events = eve.watch()
    assert list((await next_event(events, "profile")).profile.resources) == []
    await events.aclose()
    traced = await world.rest("GET", "/access?user=eve&name=wiki.corp.example")
    assert [found["reason"] for found in traced] == ["NO_POLICY"]


async def test_a_short_name_stands_for_the_one_resource_that_begins_with_it(
    world: World, device: Device
) -> None:
    async def named(name: str) -> tuple[str, str | None]:
        (found,) = await world.rest("GET", f"/access?user=alice&name={name}")
        return found["steps"][1]["subject"], found["resource"]

    assert await named("Wiki") == ("wiki.corp.example", "wiki")
    assert await named("wik") == ("wik", None)
    at = quote(datetime.datetime.now(datetime.UTC).isoformat())
    await world.add_resource("other", ["gw-berlin"], fqdn="wiki.lab.corp.example", address="10.20.0.10")
    answer = await world.admin.get("/api/v1/access?user=alice&name=wiki")
    assert answer.status_code == 422
    assert "several resources: wiki.corp.example, wiki.lab.corp.example" in answer.json()["detail"]
    # There was one.
    assert (await named(f"wiki&at={at}"))[1] == "wiki"


@pytest.fixture
def busy_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep often closes a tunnel before a call's own check. A test names this fixture before `world`."""
    monkeypatch.setattr(enforcement, "_SWEEP_SECONDS", 0.0)


async def test_a_group_opens_what_its_policies_say(
    busy_sweep: None, world: World, device: Device, writers: None
) -> None:
    for _ in range(10):
        await device.open()
        assert await world.rest("DELETE", "/groups/writers/members/alice") == {"tunnels_closed": 1}
        assert (await refused(device.open())).reason is Reason.NO_POLICY
        await world.rest("PUT", "/groups/writers/members/alice")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("PUT", "/policies/people%20of%20the%20wiki", policy(enabled=False)), Reason.NO_POLICY),
        (("PUT", "/policies/people%20of%20the%20wiki", policy(conditions=NEVER)), Reason.OUTSIDE_HOURS),
        (
            ("PUT", "/policies/people%20of%20the%20wiki", policy(conditions={"sources": ["192.0.2.0/24"]})),
            Reason.SOURCE_NOT_ALLOWED,
        ),
        (
            ("PUT", "/policies/people%20of%20the%20wiki", policy(conditions={"device_approved": True})),
            Reason.DEVICE_NOT_APPROVED,
        ),
        (("DELETE", "/policies/people%20of%20the%20wiki", None), Reason.NO_POLICY),
        (("DELETE", "/groups/writers/members/alice", None), Reason.NO_POLICY),
        (("DELETE", "/groups/writers", None), Reason.NO_POLICY),
    ],
)
async def test_a_change_closes_the_tunnel_and_gives_the_reason(
    world: World, device: Device, writers: None, change: tuple[str, str, object], reason: Reason
) -> None:
    tunnel_id = (await device.open()).tunnel.tunnel_id
    events = device.watch()
    await next_event(events, "profile")
    await world.rest(*change)
    closed = (await next_event(events, "tunnel_closed")).tunnel_closed
    assert (closed.tunnel_id, closed.why.reason) == (tunnel_id, reason)
    assert closed.why.remedy
    assert (await tunnels(world), await tunnel_entries(world)) == ([], 0)
    assert (await refused(device.open())).reason is reason
    await events.aclose()


async def test_a_tunnel_stays_while_another_policy_permits_it(world: World, device: Device) -> None:
    await world.rest("POST", "/groups", {"name": "writers", "members": ["alice"]})
    await world.rest("POST", "/policies", policy())
    tunnel_id = (await device.open()).tunnel.tunnel_id
    assert await world.rest("DELETE", f"/policies/{OWN}") == {"tunnels_closed": 0}
    assert [one["id"] for one in await tunnels(world)] == [tunnel_id]


async def test_a_tunnel_ends_with_its_code_unless_there_is_a_newer_one(world: World, device: Device) -> None:
    tunnel_id = (await device.open()).tunnel.tunnel_id
    events = device.watch()
    now = datetime.datetime.now(datetime.UTC)
    async with world.database.begin() as session:
        await session.execute(update(Tunnel).values(permitted_until=now))
    await until(lambda: permitted_until(world), lambda found: found > now)
    async with world.database.begin() as session:
        await session.execute(update(culvert_db.Device).values(code_valid_until=now))
        await session.execute(update(Tunnel).values(permitted_until=now))
    closed = (await next_event(events, "tunnel_closed")).tunnel_closed
    assert (closed.tunnel_id, closed.why.reason) == (tunnel_id, Reason.CODE_EXPIRED)
    await events.aclose()


async def permitted_until(world: World) -> datetime.datetime:
    async with world.database() as session:
        return (await session.scalars(select(Tunnel.permitted_until))).one()


async def test_a_device_is_told_when_the_codes_age_ends_its_tunnel(world: World, device: Device) -> None:
    assert (await device.open()).tunnel.code_until == 0
    body = policy(name="alice to wiki", group=None, user="alice", conditions={"code_max_age_seconds": 600})
    await world.rest("PUT", f"/policies/{OWN}", body)
    told = (await device.open()).tunnel
    assert told.code_seconds == 600
    assert 0 < told.code_until - time.time() <= 600


async def test_a_device_opens_tunnels_only_while_it_is_approved(world: World, device: Device) -> None:
    body = policy(name="alice to wiki", group=None, user="alice", conditions={"device_approved": True})
    await world.rest("PUT", f"/policies/{OWN}", body)
    assert (await world.rest("GET", f"/devices/{device.id}"))["state"] == "pending"
    assert (await refused(device.open())).reason is Reason.DEVICE_NOT_APPROVED
    assert (await world.rest("POST", f"/devices/{device.id}/approve"))["state"] == "approved"
    await device.open()
    events = device.watch()
    assert (await world.rest("POST", f"/devices/{device.id}/unapprove"))["state"] == "pending"
    closed = (await next_event(events, "tunnel_closed")).tunnel_closed
    assert closed.why.reason == Reason.DEVICE_NOT_APPROVED
    await events.aclose()
    await world.rest("POST", f"/devices/{device.id}/revoke")
    assert await problem(world, "POST", f"/devices/{device.id}/approve") == (403, "DEVICE_REVOKED")


async def test_a_tunnel_that_moves_out_of_the_allowed_prefixes_is_closed(
    world: World, device: Device, switch: Switch
) -> None:
    body = policy(name="alice to wiki", group=None, user="alice", conditions={"sources": ["127.0.0.0/8"]})
    await world.rest("PUT", f"/policies/{OWN}", body)
    tunnel_id = (await device.open()).tunnel.tunnel_id
    events = device.watch()
    (seal,) = await seals(world)
    switch.digest("moved_t", seal["sa_id"], mapped.number("127.0.0.9"), 4500, 0)
    await until(lambda: tunnels(world), lambda found: found[0]["peer_address"] == "127.0.0.9")
    await asyncio.sleep(1)
    assert [one["id"] for one in await tunnels(world)] == [tunnel_id]
    switch.digest("moved_t", seal["sa_id"], mapped.number("203.0.113.77"), 4500, 0)
    closed = (await next_event(events, "tunnel_closed")).tunnel_closed
    assert (closed.tunnel_id, closed.why.reason) == (tunnel_id, Reason.SOURCE_NOT_ALLOWED)
    assert "203.0.113.77" in closed.why.message
    await events.aclose()


async def test_a_change_is_enforced_if_its_controller_died_after_the_commit(
    world: World, device: Device
) -> None:
    await device.open()
    async with world.database.begin() as session:
        await session.execute(update(culvert_db.Policy).values(enabled=False))
    await until(lambda: tunnels(world), lambda found: found == [])
    await until(lambda: tunnel_entries(world), lambda count: count == 0)


async def verdict(device: Device) -> Reason | None:
    try:
        await device.open()
    except CulvertError as error:
        return error.reason
    return None


async def test_tracer_and_opening_agree(world: World, device: Device) -> None:
    draw = random.Random(7)  # noqa: S311
    await world.rest("POST", "/groups", {"name": "writers", "members": ["alice"]})
    await world.rest("DELETE", f"/policies/{OWN}")
    seen: set[Reason | None] = set()
    always = {
        "zone": "UTC",
        "windows": [
            {"days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"], "opens": "00:00", "closes": "00:00"}
        ],
    }
    for _ in range(40):
        names: list[str] = []
        for number in range(draw.randrange(3)):
            conditions = draw.choice(
                [
                    {},
                    {"device_approved": True},
                    {"sources": [draw.choice(["127.0.0.0/8", "192.0.2.0/24"])]},
                    {"hours": draw.choice([always, NEVER["hours"]])},
                    {"code_max_age_seconds": draw.choice([60, 28800])},
                ]
            )
            names.append(f"p{number}")
            enabled = draw.random() < 0.8
            await world.rest(
                "POST", "/policies", policy(name=names[-1], conditions=conditions, enabled=enabled)
            )
        await world.rest("POST", f"/devices/{device.id}/{draw.choice(['approve', 'unapprove'])}")
        ago = datetime.timedelta(minutes=draw.choice([0, 30, 500]))
        now = datetime.datetime.now(datetime.UTC)
        async with world.database.begin() as session:
            proven = {
                "code_proven_at": now - ago,
                "code_valid_until": now - ago + datetime.timedelta(hours=8),
            }
            await session.execute(update(culvert_db.Device).values(proven))
        path = f"/access?user=alice&device={device.id}&name=Wiki.corp.example.&address=127.0.0.1"
        [trace] = await world.rest("GET", path)
        found = await verdict(device)
        assert (trace["verdict"] == "permit", trace["reason"]) == (
            found is None,
            found.name if found else None,
        )
        assert trace["steps"]
        seen.add(found)
        for name in names:
            await world.rest("DELETE", f"/policies/{name}")
    assert len(seen) > 4, seen


async def test_a_device_is_shown_as_it_was_last_seen(world: World, device: Device) -> None:
    events = device.watch(posture={"os": "Debian 13"})
    await next_event(events, "profile")
    found = await world.rest("GET", f"/devices/{device.id}")
    assert (found["online"], found["last_seen_address"], found["client_version"]) == (
        True,
        "127.0.0.1",
        "test",
    )
    assert found["posture"] == {"os": "Debian 13"}
    assert found["last_seen_at"] is not None
    for posture in ({str(n): "" for n in range(33)}, {"os": "x" * 257}, {"x" * 65: ""}, {"os": "\0"}):
        assert (await refused(anext(device.watch(posture=posture)))).reason is Reason.REQUEST_INVALID
    await device.channel.close()
    await until(lambda: world.rest("GET", f"/devices/{device.id}"), lambda found: not found["online"])


async def test_device_approval_can_be_required_of_every_device(tmp_path: Path, database_url: str) -> None:
    settings = settings_in(tmp_path, database_url=database_url, device_approval=True)
    async with running(settings) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        await world.add_gateway("gw-berlin", 1)
        await world.add_wiki(["gw-berlin"])
        device = await world.enrol()
        await device.prove()
        assert (await refused(device.open())).reason is Reason.DEVICE_NOT_APPROVED
        await world.rest("POST", f"/devices/{device.id}/approve")
        assert (await refused(device.open())).reason is Reason.GATEWAY_DOWN
        [trace] = await world.rest("GET", "/access?user=alice&name=wiki.corp.example")
        assert [(step["check"], step["holds"]) for step in trace["steps"]] == [
            ("device", True),
            ("name", True),
            ("policy", True),
            ("approval", True),
            ("code", True),
            ("gateway", False),
        ]


async def test_a_group_may_have_more_people_than_a_request_names(world: World, device: Device) -> None:
    many = 10_050
    add_people = """
        WITH people AS (
            INSERT INTO users (name, email)
            SELECT 'p' || i, 'p' || i || '@corp.example' FROM generate_series(1, :many) AS i RETURNING id
        )
        INSERT INTO group_members SELECT groups.id, people.id FROM groups, people WHERE groups.name = 'everyone'
    """
    await world.rest("POST", "/groups", {"name": "everyone"})
    async with world.database.begin() as session:
        await session.execute(text(add_people), {"many": many})
    added = await world.rest("PUT", "/groups/everyone/members/alice")
    assert (added["members"]["count"], added["members"]["first"][:2]) == (many + 1, ["alice", "p1"])
    assert [group["members"] for group in await world.rest("GET", "/groups")] == [added["members"]]
    assert len((await world.rest("GET", "/groups/everyone"))["members"]) == many + 1
    everyone = {"name": "everyone to the wiki", "group": "everyone", "resources": ["wiki"]}
    gain = (await world.rest("POST", "/policies/preview", everyone))["gain"]
    # Alice has a policy of her own.
    assert (gain["count"], gain["first"][0]) == (many, "p1")
    members = [f"p{number}" for number in range(1, 10_002)]
    body = {"name": "everyone", "members": members}
    assert await problem(world, "PUT", "/groups/everyone", body) == (422, "REQUEST_INVALID")
