"""Zones over REST: described, changed, retired; what dns-updater tells of them is shown."""

from __future__ import annotations

from typing import Any

import pytest
from culvert_db import DnsRecord, DnsState, DnsZone, DnsZoneStatus
from sqlalchemy import select

from .conftest import World, next_event, profile_that
from .switch import Switch

pytestmark = pytest.mark.slow

ZONE: dict[str, Any] = {"name": "corp", "origin": "Corp.Example.", "server": "192.0.2.53", "key": "corp"}
OUTSIDE: dict[str, Any] = ZONE | {"name": "outside", "view": "outside", "resources": []}


async def taken(world: World, body: object) -> list[dict[str, str]]:
    answer = await world.admin.post("/api/v1/dns/zones", json=body)
    assert (answer.status_code, answer.json()["reason"]) == (409, "ALREADY_EXISTS")
    return answer.json()["errors"]


async def refused(world: World, method: str, path: str, body: object = None) -> tuple[int, str]:
    answer = await world.admin.request(method, f"/api/v1{path}", json=body)
    return answer.status_code, answer.json()["reason"]


async def test_a_zone_is_made_changed_and_retired(world: World) -> None:
    made = await world.rest("POST", "/dns/zones", ZONE)
    assert (made["origin"], made["port"], made["ttl"], made["resources"]) == ("corp.example", 53, 60, None)
    assert (made["state"], made["keeper"], made["lag_seconds"] >= 0) == ("pending", None, True)
    [fault] = await taken(world, ZONE | {"origin": "other.example"})
    assert fault == {"pointer": "/name", "detail": "The zone corp exists already."}
    [fault] = await taken(world, ZONE | {"name": "again"})
    assert fault["pointer"] == "/origin"
    await world.rest("POST", "/dns/zones", OUTSIDE)
    assert [zone["name"] for zone in await world.rest("GET", "/dns/zones")] == ["corp", "outside"]

    changed = await world.rest(
        "PUT", "/dns/zones/corp", {"server": "ns.corp.example", "key": "k", "ttl": 300}
    )
    assert (changed["server"], changed["key"], changed["ttl"]) == ("ns.corp.example", "k", 300)
    await world.rest("POST", "/dns/zones/corp/check")
    await world.rest("DELETE", "/dns/zones/corp")
    assert (await world.rest("GET", "/dns/zones/corp"))["retiring"]
    # While its records are withdrawn, only the same zone can take its name.
    [fault] = await taken(world, ZONE | {"instance": "other"})
    assert fault["pointer"] == "/name"
    again = await world.rest("POST", "/dns/zones", ZONE | {"ttl": 30})
    assert (again["retiring"], again["ttl"]) == (False, 30)
    await world.rest("DELETE", "/dns/zones/corp?keep_records=true")
    assert await refused(world, "GET", "/dns/zones/corp") == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    "change",
    [
        {"key": "../master"},
        {"key": "/etc/passwd"},
        {"server": "a b"},
        {"port": 0},
        {"origin": "."},
        {"ttl": -1},
    ],
)
async def test_an_invalid_zone_is_refused(world: World, change: dict[str, Any]) -> None:
    assert await refused(world, "POST", "/dns/zones", ZONE | change) == (422, "REQUEST_INVALID")


async def test_a_view_publishes_the_resources_that_it_names(world: World, switch: Switch) -> None:
    assert await refused(world, "POST", "/dns/zones", ZONE | {"resources": ["nothing"]}) == (404, "NOT_FOUND")
    made = await world.rest("POST", "/dns/zones", ZONE | {"resources": ["wiki"]})
    assert made["resources"] == ["wiki"]
    await world.rest("DELETE", "/resources/wiki")
    assert (await world.rest("GET", "/dns/zones/corp"))["resources"] == []


async def test_a_zones_state_is_shown(world: World) -> None:
    await world.rest("POST", "/dns/zones", ZONE)
    async with world.database.begin() as session:
        number = await session.scalar(select(DnsZone.id))
        words = {"reason": "DNS_RECORD_FOREIGN", "message": "m", "remedy": "r"}
        session.add(DnsZoneStatus(zone_id=number, state=DnsState.FOREIGN, serial=7, failures=0, **words))
        session.add(DnsRecord(name="a", zone="corp", type="A", state=DnsState.LIVE))
        session.add(DnsRecord(name="b", zone="corp", type="A", state=DnsState.FOREIGN, **words))
    found = await world.rest("GET", "/dns/zones/corp")
    assert (found["state"], found["serial"], found["lag_seconds"]) == ("foreign", 7, 0)
    assert found["records"] == {"live": 1, "foreign": 1}
    assert [row["name"] for row in await world.rest("GET", "/dns?zone=corp&state=foreign")] == ["b"]


async def test_a_name_stands_beside_what_the_dns_has_for_it(world: World) -> None:
    encoded = "xn--bcher-kva.example"
    await world.rest("POST", "/dns/zones", ZONE | {"origin": "bücher.example"})
    async with world.database.begin() as session:
        words = {
            "reason": "DNS_RECORD_FOREIGN",
            "message": f"{encoded} has records.",
            "remedy": "Delete these.",
        }
        session.add(DnsRecord(name=encoded, zone="corp", type="A", state=DnsState.FOREIGN, **words))
    zone = await world.rest("GET", "/dns/zones/corp")
    assert (zone["origin"], zone["display_name"]) == (encoded, "bücher.example")
    [record] = await world.rest("GET", "/dns")
    assert (record["name"], record["display_name"]) == (encoded, "bücher.example")
    assert record["message"] == f"bücher.example ({encoded}) has records."


async def test_a_zone_that_culvert_keeps_is_one_that_devices_watch(world: World, switch: Switch) -> None:
    lab = {"name": "vm", "fqdn": "vm.lab.example", "address": "10.20.0.10", "gateways": ["gw-berlin"]}
    lab |= {"users": ["alice"], "owner": "bob@corp.example"}
    assert await refused(world, "POST", "/resources", lab) == (422, "REQUEST_INVALID")
    device = await world.enrol()
    await device.prove()
    events = device.watch()
    first = (await next_event(events, "profile")).profile
    assert (first.managed_zones, first.denial_page_zones) == (["corp.example"], ["corp.example"])
    for view in ("", "outside"):
        await world.rest(
            "POST", "/dns/zones", ZONE | {"name": f"lab{view}", "origin": "lab.example", "view": view}
        )
    profile = await profile_that(events, lambda found: "lab.example" in found.managed_zones)
    assert profile.managed_zones == ["corp.example", "lab.example"]
    await world.rest("POST", "/resources", lab)
    assert (await device.open("vm.lab.example")).tunnel.gateway.name == "gw-berlin"
    assert (await world.rest("GET", "/controller"))["managed_zones"] == ["corp.example", "lab.example"]
    for name in ("lab", "laboutside"):
        await world.rest("DELETE", f"/dns/zones/{name}")
    await profile_that(events, lambda found: "lab.example" not in found.managed_zones)


async def test_an_administrator_switches_a_zones_page_of_refusals(world: World) -> None:
    device = await world.enrol()
    await device.prove()
    events = device.watch()
    first = (await next_event(events, "profile")).profile
    assert first.denial_page_zones == ["corp.example"]
    await world.rest("POST", "/dns/zones", ZONE | {"name": "lab", "origin": "lab.example"})
    assert await world.rest("GET", "/dns/managed-zones") == [
        {"name": "corp.example", "display_name": "corp.example", "denial_page": True},
        {"name": "lab.example", "display_name": "lab.example", "denial_page": False},
    ]
    # The choice has precedence over the settings.
    for name, shown in (("lab.example", True), ("corp.example", False), ("corp.example", False)):
        chosen = await world.rest("PUT", f"/dns/managed-zones/{name}", {"denial_page": shown})
        assert chosen["denial_page"] is shown
    await profile_that(events, lambda found: list(found.denial_page_zones) == ["lab.example"])
    await world.rest("DELETE", "/dns/zones/lab")
    await profile_that(events, lambda found: not found.denial_page_zones)
    gone = {"denial_page": True}
    assert await refused(world, "PUT", "/dns/managed-zones/lab.example", gone) == (404, "NOT_FOUND")
    lines = await world.rest("GET", "/audit?object=zone/corp.example")
    assert {(line["action"], line["details"]["shown"]) for line in lines} == {("zone.denial-page", "no")}
