"""Pages of lists: every row once, in order, whatever changes meanwhile; a cursor of one's own making is refused."""

from __future__ import annotations

import base64
import datetime
import json
from typing import Any

import pytest
from culvert_db import Admin, Device, DnsRecord, DnsState, Role
from sqlalchemy import select

from .conftest import World
from .switch import Switch

pytestmark = pytest.mark.slow


# The lists of one thing, with the name of one that has rows.
OF_ONE = {"/api/v1/users/{name}/access": "alice", "/api/v1/resources/{name}/access": "wiki"}


async def lists(world: World) -> list[str]:
    """Every path that answers with an array of objects which can be many."""
    paths: dict[str, Any] = (await world.anyone.get("/openapi.json")).json()["paths"]
    found: list[str] = []
    for path, methods in paths.items():
        answer = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        schema = answer.get("application/json", {}).get("schema", {})
        if schema.get("type") == "array" and "$ref" in schema["items"]:
            found.append(path)
    # The answer about one person's devices, the keys and sessions of who is signed in, charts' points, and what comes
    # whole: the assertions, the reported facts and a gateway's crypto hosts, of which there are bounds.
    session = ("/api/v1/session/passkeys", "/api/v1/session/sessions", "/api/v1/session/notices")
    charts = ("/api/v1/audit/hours", "/api/v1/gateways/{name}/samples")
    whole = ("/api/v1/assertions", "/api/v1/devices/facts", "/api/v1/gateways/{gateway}/crypto-hosts")
    for path in ("/api/v1/access", *session, *charts, *whole):
        found.remove(path)
    return [path.format(name=OF_ONE[path]) if path in OF_ONE else path for path in found]


async def walked(world: World, path: str, limit: int) -> list[Any]:
    url, seen = f"{path}{'&' if '?' in path else '?'}limit={limit}", list[Any]()
    while url:
        answer = await world.admin.get(url)
        assert answer.status_code == 200, answer.text
        assert len(answer.json()) <= limit
        seen += answer.json()
        url = answer.links.get("next", {}).get("url", "")
    return seen


def place(row: dict[str, Any]) -> list[Any]:
    """The fields that identify a row while pages are read."""
    return [row.get(field) for field in ("id", "name", "zone", "type", "chain", "seq", "resource", "user")]


async def test_pages_of_every_list_hold_each_row_once_in_order(world: World, switch: Switch) -> None:
    for name in ("bob", "carol"):
        await world.rest("POST", "/users", {"name": name, "email": "x@corp.example"})
        await world.rest("POST", "/groups", {"name": name})
        policy = {"name": name, "group": name, "resources": ["wiki"]}
        await world.rest("POST", "/policies", policy)
        await world.rest("POST", "/tokens", {"name": name, "scopes": ["read"]})
        zone = {"name": name, "origin": f"{name}.example", "server": "192.0.2.53", "key": "k"}
        await world.rest("POST", "/dns/zones", zone)
    async with world.database.begin() as session:
        session.add_all(
            DnsRecord(name="a", zone="bob", type=kind, state=DnsState.LIVE) for kind in ("A", "TXT")
        )
    for _ in range(2):
        device = await world.enrol()
        await device.prove()
        await device.open()
    many = 0
    for path in await lists(world):
        whole = [place(row) for row in (await world.admin.get(path)).json()]
        many += len(whole) > 1
        assert [place(row) for row in await walked(world, path, 1)] == whole, path
    assert many >= 8


async def test_a_row_that_goes_away_does_not_hide_its_neighbours(world: World) -> None:
    for name in ("bob", "carol", "dave"):
        await world.rest("POST", "/groups", {"name": name})
    first = await world.admin.get("/api/v1/groups?limit=1")
    await world.rest("DELETE", "/groups/bob")
    await world.rest("POST", "/groups", {"name": "alice"})
    second = await world.admin.get(first.links["next"]["url"])
    assert [group["name"] for group in second.json()] == ["carol"]


async def test_no_list_takes_a_cursor_of_ones_own_making(world: World) -> None:
    await world.add_gateway("gw-berlin", 9)
    await world.add_wiki(["gw-berlin"])
    far = "0001-01-01T00:00:00+23:59"
    made: list[Any] = [
        [],
        ["x"],
        ["x\0"],
        [1],
        [2**70],
        ["x", "y"],
        [far, "x"],
        [far, 1, 1],
        {"x": 1},
        "x",
        1,
    ]
    made += [["2026-01-01", 0, 0], ["\ud800"], ["x", "y", "z", "0"], [True], ["2026-01-01T00:00:00Z", "x"]]
    cursors = [base64.urlsafe_b64encode(json.dumps(one).encode()).decode() for one in made]
    for path in await lists(world):
        refusals = 0
        for cursor in ("nonsense", "%00", "ü", *cursors):
            answer = await world.admin.get(f"{path}?cursor={cursor}")
            assert answer.status_code in (200, 422), (path, cursor)
            refusals += answer.status_code == 422
        assert refusals >= len(cursors), path


async def orders(world: World) -> dict[str, list[str]]:
    """The sort orders of each list that has any."""
    paths: dict[str, Any] = (await world.anyone.get("/openapi.json")).json()["paths"]
    found: dict[str, list[str]] = {}
    for path, methods in paths.items():
        for parameter in methods.get("get", {}).get("parameters", []):
            if parameter["name"] == "sort":
                found[path.format(name=OF_ONE.get(path))] = parameter["schema"]["enum"]
    return found


async def test_each_order_has_each_row_once_over_its_pages_and_both_ways(
    world: World, switch: Switch
) -> None:
    """People, devices, … with equal values, so that the pages end between them."""
    for number, name in ((20, "gw-paris"), (60, "gw-tokyo")):
        lan = {
            "port": 2,
            "mac": "02:00:00:00:02:01",
            "address": f"10.{number}.0.1",
            "prefix": f"10.{number}.0.0/16",
            "neighbours": {f"10.{number}.0.{host}": f"02:00:00:00:02:{host}" for host in (10, 11, 12)},
        }
        await world.add_gateway(name, number, number, lan=lan)
    for number, name in enumerate(("bob", "carol", "dave")):
        await world.rest("POST", "/users", {"name": name, "email": "x@corp.example", "display_name": "Émile"})
        await world.rest("POST", "/invitations", {"user": name})
        await world.rest("POST", "/groups", {"name": name, "members": ["alice"]})
        await world.rest("POST", "/tokens", {"name": name, "scopes": ["read"]})
        await world.add_resource(name, ["gw-paris"], address="10.20.0.10", owner="Zoe")
        for user in ("alice", name):
            policy = {"name": f"{user} reaches {name}", "user": user, "resources": ["wiki", name]}
            await world.rest("POST", "/policies", policy)
        ends = [
            {"gateway": "gw-paris", "targets": [{"prefix": f"10.20.0.1{number}/32"}]},
            {"gateway": "gw-tokyo", "targets": [{"prefix": f"10.60.0.1{number}/32"}]},
        ]
        await world.rest("POST", "/site-tunnels", {"name": name, "ends": ends, "owner": "Zoe"})
        await world.enrol()
    async with world.database.begin() as session:
        for name in ("olga", "oskar", "otto"):
            session.add(Admin(name=name, role=Role.AUDITOR))
    sorted_lists = await orders(world)
    assert len(sorted_lists) >= 9
    for path, names in sorted_lists.items():
        # The controller's own lines go on.
        which = "&action=user.create" if path == "/api/v1/audit" else ""
        for sort in names:
            rows = [place(row) for row in await walked(world, f"{path}?sort={sort}{which}", 1)]
            whole = [place(row) for row in (await world.admin.get(f"{path}?sort={sort}{which}")).json()]
            assert len(rows) >= 3, path
            assert rows == whole, (path, sort)
            assert len({json.dumps(row, default=str) for row in rows}) == len(rows), (path, sort)
            back = sort.removeprefix("-") if sort.startswith("-") else f"-{sort}"
            assert back in names, (path, sort)
            reverse = [place(row) for row in (await world.admin.get(f"{path}?sort={back}{which}")).json()]
            assert reverse == whole[::-1], (path, sort)


async def test_names_are_sorted_as_people_read_them(world: World) -> None:
    """By the name that screens show, whatever the case of its letters."""
    for name, shown in (("zz1", "bea"), ("aa1", "Chris"), ("mm1", None), ("nn1", "Ärla"), ("nn2", "ärlb")):
        named = {"name": name, "email": f"{name}@corp.example", "display_name": shown}
        await world.rest("POST", "/users", named)
    people = await walked(world, "/api/v1/users?sort=display_name", 2)
    shown = [row["display_name"] or row["name"] for row in people]
    assert shown == ["alice", "bea", "Chris", "mm1", "Ärla", "ärlb"]
    backwards = await walked(world, "/api/v1/users?sort=-display_name", 2)
    assert backwards == people[::-1]


async def test_rows_without_a_time_come_before_all_others(world: World) -> None:
    for _ in range(3):
        await world.enrol()
    seen = datetime.datetime(2026, 1, 31, 9, tzinfo=datetime.UTC)
    async with world.database.begin() as session:
        one = (await session.scalars(select(Device).limit(1))).one()
        one.name, one.last_seen_at, one.code_valid_until = "a-tablet", seen, seen
    for sort, at in (
        ("name", 0),
        ("-name", 2),
        ("last_seen", 2),
        ("-last_seen", 0),
        ("code", 2),
        ("-code", 0),
    ):
        rows = await walked(world, f"/api/v1/devices?sort={sort}", 1)
        assert rows[at]["name"] == "a-tablet", sort
    (alice,) = await walked(world, "/api/v1/users?sort=-last_seen", 1)
    assert (alice["devices"], alice["last_seen_at"]) == (3, "2026-01-31T09:00:00Z")


@pytest.mark.parametrize("sort", ["", "fqdn", "-fqdn", "owner", "-owner", "created", "-created"])
async def test_resources_in_each_order(world: World, sort: str) -> None:
    await world.add_gateway("gw-berlin", 9)
    for name, owner in (("wiki", "bob"), ("git", "zoe"), ("mail", "bob")):
        await world.add_resource(name, ["gw-berlin"], address="10.20.0.10", owner=owner)
    rows: list[dict[str, Any]] = []
    url = f"/api/v1/resources?limit=1{sort and f'&sort={sort}'}"
    while url:
        answer = await world.admin.get(url)
        rows += answer.json()
        url = answer.links.get("next", {}).get("url", "")
    assert len({row["name"] for row in rows}) == len(rows) == 3
    by = sort.removeprefix("-") or "fqdn"
    of = "created_at" if by == "created" else by
    assert [row[of] for row in rows] == sorted((row[of] for row in rows), reverse=sort.startswith("-"))
