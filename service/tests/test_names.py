"""A name in all its spellings is one name, over REST and from devices."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from .conftest import World
from .console_page import BUILT, administrator, chromium_running, console
from .switch import Switch

pytestmark = pytest.mark.slow

NAME = "xn--bcher-kva.corp.example"
SPELLINGS = ("bücher.corp.example", "BÜCHER.Corp.Example.", "bu\u0308cher.corp.example", NAME, NAME.upper())


def resource(name: str, fqdn: str) -> dict[str, Any]:
    return {
        "name": name,
        "fqdn": fqdn,
        "address": "10.20.0.10",
        "gateways": ["gw-berlin"],
        "users": ["alice"],
        "owner": "bob@corp.example",
    }


async def test_all_spellings_of_a_name_are_a_single_resource(world: World, switch: Switch) -> None:
    await world.rest("POST", "/resources", resource("books", "BÜCHER.Corp.Example."))
    assert (await world.rest("GET", "/resources/books"))["fqdn"] == NAME
    for spelling in SPELLINGS:
        answer = await world.admin.post("/api/v1/resources", json=resource("again", spelling))
        assert (answer.status_code, answer.json()["reason"]) == (409, "ALREADY_EXISTS"), answer.text
        assert answer.json()["errors"][0]["pointer"] == "/fqdn"
    device = await world.enrol()
    await device.prove()
    [tunnel] = {(await device.open(spelling)).tunnel.tunnel_id for spelling in SPELLINGS}
    for spelling in SPELLINGS:
        query = {"user": "alice", "name": spelling}
        answer = await world.admin.get("/api/v1/access", params=query)
        assert [(one["verdict"], one["device_id"]) for one in answer.json()] == [("permit", device.id)]
    [line, *_] = await world.rest("GET", "/audit?action=tunnel.open&limit=5")
    assert (line["object"], line["details"]["name"]) == (f"tunnel/{tunnel}", NAME)


@pytest.mark.parametrize(
    ("fqdn", "why"),
    [
        ("😀.corp.example", "the character “😀” (U+1F600) cannot stand in a name"),
        (f"{'ü' * 60}.corp.example", "each part between dots at most 63"),
        ("a..corp.example", "a part between dots is empty"),
        ("אb.corp.example", "a part of a name mixes letters that are written from the right with others"),
        ("xn--bcher.corp.example", "a part that begins with xn-- is not the encoding of a valid name"),
    ],
)
async def test_an_invalid_name_is_refused_with_the_cause(
    world: World, switch: Switch, fqdn: str, why: str
) -> None:
    answer = await world.admin.post("/api/v1/resources", json=resource("books", fqdn))
    told = answer.json()
    assert (answer.status_code, told["reason"], told["errors"][0]["pointer"]) == (
        422,
        "REQUEST_INVALID",
        "/fqdn",
    )
    assert why in told["detail"]
    assert told["remedy"]
    traced = await world.admin.get("/api/v1/access", params={"user": "alice", "name": fqdn})
    assert (traced.status_code, traced.json()["reason"]) == (422, "REQUEST_INVALID")
    assert why in traced.json()["detail"]


async def test_all_spellings_of_an_origin_are_a_single_zone(world: World) -> None:
    zone = {"name": "books", "origin": "BÜCHER.Example.", "server": "ns.BÜCHER.example.", "key": "k"}
    made = await world.rest("POST", "/dns/zones", zone)
    assert (made["origin"], made["server"]) == ("xn--bcher-kva.example", "ns.xn--bcher-kva.example")
    for spelling in ("bücher.example", "xn--bcher-kva.example."):
        answer = await world.admin.post(
            "/api/v1/dns/zones", json=zone | {"name": "again", "origin": spelling}
        )
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (409, "/origin")
    answer = await world.admin.post("/api/v1/dns/zones", json=zone | {"name": "star", "origin": "*.example"})
    assert answer.status_code == 422
    # The zone's names are managed in each spelling.
    await world.add_gateway("gw-berlin", 1)
    await world.rest("POST", "/resources", resource("books", "Wiki.bücher.example"))
    assert (await world.rest("GET", "/resources/books"))["fqdn"] == "wiki.xn--bcher-kva.example"


async def test_a_name_is_found_and_shown_as_people_write_it(world: World) -> None:
    await world.add_gateway("gw-berlin", 1)
    alike = "xn--e1awd7f.corp.example"
    await world.rest("POST", "/resources", resource("books", "Bücher.corp.example"))
    await world.rest("POST", "/resources", resource("alike", alike))
    await world.rest("POST", "/resources", resource("wiki", "Wiki.corp.example."))
    shown = {row["name"]: row["display_name"] for row in await world.rest("GET", "/resources")}
    assert shown == {
        "books": "bücher.corp.example",
        "alike": f"еріс.corp.example ({alike})",
        "wiki": "wiki.corp.example",
    }
    for path, found in (("/resources", "books"), ("/policies", "alice to books")):
        for typed in ("büch", "BÜCHER.Corp.Example.", "bu\u0308cher", "xn--bcher", "XN--BCHER-KVA.corp"):
            answer = await world.admin.get(f"/api/v1{path}", params={"q": typed})
            assert [row["name"] for row in answer.json()] == [found], (path, typed)
    renamed = resource("books", "Käse.corp.example")
    await world.rest("PUT", "/resources/books", renamed)
    for typed, names in (("büch", []), ("KÄS", ["books"])):
        answer = await world.admin.get("/api/v1/resources", params={"q": typed})
        assert [row["name"] for row in answer.json()] == names
    answer = await world.admin.post("/api/v1/resources", json=renamed | {"name": "again"})
    assert answer.json()["detail"] == "A resource that people open as käse.corp.example exists already."
    [line] = await world.rest("GET", "/audit?action=resource.replace")
    assert line["names"] == {"xn--kse-qla.corp.example": "käse.corp.example"}


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


@pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build")
async def test_the_console_finds_and_shows_a_name_as_people_write_it(world: World, running: Browser) -> None:
    await world.add_gateway("gw-berlin", 1)
    zone = {"name": "corp", "origin": "Bücher.corp.example", "server": "192.0.2.53", "key": "k"}
    await world.rest("POST", "/dns/zones", zone)
    await world.rest("POST", "/resources", resource("wiki", "wiki.corp.example"))
    await world.rest("POST", "/resources", resource("alike", "xn--e1awd7f.corp.example"))
    await world.rest("POST", "/resources", resource("books", "BÜCHER.Corp.Example."))
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("resources")
        await shown.sign_in(olga)
        table = page.get_by_role("table", name="Resources")
        await expect(table).to_contain_text("еріс.corp.example (xn--e1awd7f.corp.example)")
        await shown.picture("names-all")
        for typed in ("büch", "BÜCHER.Corp.Example.", "xn--bcher"):
            await page.get_by_label("Search resources").fill(typed)
            await expect(table.get_by_role("row")).to_have_count(2)
            await expect(table).to_contain_text("bücher.corp.example")
        await shown.picture("names-found")
        await page.get_by_role("link", name="bücher.corp.example").click()
        await expect(page.get_by_role("heading", name="bücher.corp.example")).to_be_visible()
        await expect(page.locator("input[value='bücher.corp.example']")).to_be_visible()
        await shown.picture("names-one")
        await shown.open("dns")
        await expect(page.get_by_role("region", name="Zone corp")).to_contain_text("bücher.corp.example")
