"""Ten thousand devices in the console: few rows in the page, sorted and searched by the controller."""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import AsyncGenerator

import pytest
from culvert_db import Device, DnsRecord, DnsState, User
from playwright.async_api import Browser, Locator, Page, expect
from sqlalchemy import insert, select

from .conftest import World, refused, until
from .console_page import BUILT, administrator, chromium_running, console

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]
MANY = 10_000
# The API gives 500 rows at most.
WAITING = 520
# The rows in sight, some beyond either edge, the head, and two placeholders for the rest.
ROWS_MAX = 60


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


async def add_devices(world: World, many: int = MANY) -> None:
    async with world.database.begin() as session:
        alice = (await session.scalars(select(User.id))).one()
        now = datetime.datetime.now(datetime.UTC)
        rows = [
            {
                "id": uuid.uuid4(),
                "user_id": alice,
                "name": f"laptop-{number:05}",
                "fingerprint": number.to_bytes(32),
                "certificate_serial": f"{number:x}",
                "certificate_expires_at": now,
                "last_seen_at": now - datetime.timedelta(minutes=number) if number % 2 else None,
            }
            for number in range(many)
        ]
        await session.execute(insert(Device), rows)


async def further(page: Page, table: Locator) -> int:
    """Goes to the end of what is there; the lowest number of a laptop in the page."""
    await page.keyboard.press("End")
    return min(int(number) for number in re.findall(r"laptop-(\d{5})", await table.inner_text()))


@pytest.mark.long
async def test_a_page_of_ten_thousand_rows_renders_few(world: World, running: Browser) -> None:
    await add_devices(world)
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("devices")
        await shown.sign_in(olga)
        table = page.get_by_role("table", name="Devices")
        await page.get_by_role("button", name="Device", exact=True).click()
        await expect(page.get_by_role("columnheader", name="Device")).to_have_attribute(
            "aria-sort", "ascending"
        )
        await expect(table).to_contain_text("laptop-00000")
        await page.get_by_role("button", name="Device", exact=True).click()
        await expect(table).to_contain_text("laptop-09999")
        assert "sort=-name" in page.url
        for far in (MANY - 250, MANY - 550, MANY - 850):
            await until(lambda: further(shown.page, table), lambda lowest, far=far: lowest < far, seconds=30)
            assert await table.get_by_role("row").count() < ROWS_MAX
        await shown.picture("devices-many")
        await page.get_by_label("Search devices").fill("laptop-00042")
        await expect(table.get_by_role("row")).to_have_count(2)
        await page.reload()
        await expect(table.get_by_role("row")).to_have_count(2)
        await page.get_by_label("Clear the search").click()
        await page.get_by_role("button", name="Last seen").click()
        await page.get_by_role("button", name="Last seen").click()
        await expect(table.get_by_role("row").nth(1)).to_contain_text("laptop-00001")


async def test_all_devices_that_wait_are_approved_at_once(world: World, running: Browser) -> None:
    """More than a page of the list, and more than one answer of the API."""
    await world.add_gateway("gw-berlin", 9)
    await world.add_wiki(["gw-berlin"])
    strict = {"name": "strict", "user": "alice", "resources": ["wiki"]}
    await world.rest("POST", "/policies", strict | {"conditions": {"device_approved": True}})
    await add_devices(world, WAITING)
    refused_one = await world.enrol()
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page, dialog = shown.page, shown.page.get_by_role("dialog")
        await shown.open("devices?sort=name")
        await shown.sign_in(olga)
        table = page.get_by_role("table", name="Devices")
        await table.get_by_role("checkbox", name="Choose each shown device that waits").check()
        await expect(page.get_by_role("button", name="Approve 100 devices")).to_be_visible()
        await shown.picture("devices-choose-all")
        await table.get_by_role("checkbox", name="Choose laptop-00003 of alice").uncheck()
        await expect(page.get_by_role("button", name="Approve 99 devices")).to_be_visible()
        await page.get_by_role("button", name="Approve all that wait (more than 500)").click()
        await expect(dialog).to_contain_text(f"and {WAITING + 1 - 5} more")
        # One that is revoked meanwhile does not stop the others.
        await world.rest("POST", f"/devices/{refused_one.id}/revoke")
        await shown.picture("devices-approve-all")
        await dialog.get_by_role("button", name=f"Approve {WAITING + 1} devices").click()
        await expect(dialog.get_by_role("status")).to_contain_text(f"of {WAITING + 1} are approved")
        await expect(page.get_by_text(f"{WAITING} devices are approved")).to_be_visible(timeout=120_000)
        await expect(dialog).to_have_count(0)
        await expect(table.get_by_role("checkbox")).to_have_count(0)
        await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    assert await world.rest("GET", "/devices?state=pending") == []


async def test_a_list_follows_the_log_long_after_the_overview_was_shown(
    world: World, running: Browser
) -> None:
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("")
        await shown.sign_in(olga)
        live = page.get_by_text("Live", exact=True)
        await expect(live).to_be_visible()
        # Signed in already: what is asked for ahead is released after five seconds.
        await page.reload()
        await expect(live).to_be_visible()
        await page.wait_for_timeout(6_000)
        await page.get_by_role("link", name="People", exact=True).click()
        people = page.get_by_role("table", name="People")
        await expect(people).to_contain_text("alice")
        await world.rest("POST", "/users", {"name": "bert", "email": "bert@corp.example"})
        await expect(people).to_contain_text("bert")


# Each list with the columns by which it is sorted.
SORTED = {
    "people": ("Name", "Last seen", "Last denied", "Devices"),
    "invitations": ("For", "Sent by", "Sent", "Valid until"),
    "devices": ("Device", "State", "Last seen", "Last denied", "Code"),
    "resources": ("Name", "Owner"),
    "policies": ("Policy", "Group or person", "Last used"),
    "groups": ("Group", "Members"),
    "assertions": ("Assertion", "State"),
    "gateways": ("Name", "State", "Last checked", "Tunnels"),
    "dns": ("Name", "State", "Changed"),
    "activity": ("Time",),
    "settings?part=administrators": ("Name", "First sign-in", "Role"),
    "settings?part=tokens": ("Name", "Ends"),
}


async def test_each_list_is_sorted_by_its_columns_and_the_address_keeps_it(
    world: World, running: Browser
) -> None:
    """The browser's rows are those of the controller: the first row of one way is the last of the other."""
    zone = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
    await world.rest("POST", "/dns/zones", zone)
    for number, name in ((8, "gw-berlin"), (9, "gw-paris")):
        await world.add_gateway(name, number, number)
    for name, shown in (("bert", "zoe"), ("zora", "Anna")):
        person = {"name": name, "email": f"{name}@corp.example", "display_name": shown}
        await world.rest("POST", "/users", person)
        await world.rest("POST", "/invitations", {"user": name})
        await world.rest("POST", "/groups", {"name": name, "members": ["alice"] if name == "bert" else []})
        await world.add_resource(name, ["gw-berlin"], address="10.20.0.10", owner=f"{name}@corp.example")
        await world.rest("POST", "/policies", {"name": name, "user": name, "resources": [name]})
        await world.rest(
            "POST", "/tokens", {"name": name, "scopes": ["read"], "days": 9 if name > "c" else 5}
        )
        await world.enrol(name)
        await world.rest("POST", "/assertions", {"user": name, "name": "bert.corp.example", "reaches": True})
    async with world.database.begin() as session:
        session.add_all(
            DnsRecord(name=f"{name}.corp.example", zone="corp", type="A", state=state)
            for name, state in (("bert", DnsState.LIVE), ("zora", DnsState.PENDING))
        )
    async with (
        administrator(world, "olga", "owner") as olga,
        administrator(world, "otto", "auditor") as _,
        console(world, running) as shown,
    ):
        page = shown.page
        await shown.open()
        await shown.sign_in(olga)
        await expect(page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
        for place, columns in SORTED.items():
            await shown.open(place)
            table = page.locator("table[aria-rowcount]").first
            await expect(table).to_be_visible()
            headed = await table.locator("th[aria-sort]").all_inner_texts()
            assert tuple(headed) == columns, place
            for column in columns:
                head = table.get_by_role("columnheader", name=column, exact=True)
                if await head.get_attribute("aria-sort") != "ascending":
                    await head.get_by_role("button").click()
                await expect(head).to_have_attribute("aria-sort", "ascending")
                await head.get_by_role("button").click()
                await expect(head).to_have_attribute("aria-sort", "descending")
                assert "sort=-" in page.url, place
            await page.reload()
            await expect(table.locator("th[aria-sort=descending]")).to_have_text(columns[-1])
        await shown.open("people?sort=display_name")
        rows = page.get_by_role("table", name="People").locator("tbody tr")
        await expect(rows.first).to_contain_text("alice")
        await expect(rows.last).to_contain_text("zoe")
        await shown.picture("people-sorted")
        await shown.open("dns?sort=-changed")
        await expect(page.get_by_role("table", name="Records").locator("tbody tr")).to_have_count(2)
        await shown.picture("dns-sorted")


# Each list with its search field, a text of one row, and that row.
SEARCHED = {
    "gateways": ("Search gateways", "198.51.100.9", "gw-paris"),
    "assertions": ("Search assertions", "BERT can", "bert can reach"),
    "settings?part=administrators": ("Search administrators", "tt", "otto"),
    "settings?part=tokens": ("Search API tokens", "metrics", "prometheus"),
    "site-tunnels": ("Search site tunnels", "gw-rome", "berlin-rome"),
}


async def test_each_list_is_searched_with_the_key_and_the_address_keeps_it(
    world: World, running: Browser
) -> None:
    sites = {"gw-berlin": 8, "gw-paris": 9, "gw-rome": 10}
    for name, number in sites.items():
        lan = {
            "port": 2,
            "mac": "02:00:00:00:02:01",
            "prefix": f"10.{number}.0.0/24",
            "address": f"10.{number}.0.1",
            "neighbours": {f"10.{number}.0.10": "02:00:00:00:02:10"},
        }
        await world.add_gateway(name, number, number, lan=lan)
    await world.rest("POST", "/users", {"name": "bert", "email": "bert@corp.example"})
    for user in ("alice", "bert"):
        await world.rest("POST", "/assertions", {"user": user, "name": "x.corp.example", "reaches": True})
    for name, scope in (("backup", "read"), ("prometheus", "metrics:read")):
        await world.rest("POST", "/tokens", {"name": name, "scopes": [scope], "days": 9})
    for other in ("paris", "rome"):
        ends = [
            {"gateway": gateway, "targets": [{"prefix": f"10.{sites[gateway]}.0.0/24"}]}
            for gateway in ("gw-berlin", f"gw-{other}")
        ]
        tunnel = {"name": f"berlin-{other}", "ends": ends, "owner": "bob@corp.example"}
        await world.rest("POST", "/site-tunnels", tunnel)
    async with (
        administrator(world, "olga", "owner") as olga,
        administrator(world, "otto", "auditor") as _,
        console(world, running) as shown,
    ):
        page = shown.page
        await shown.open()
        await shown.sign_in(olga)
        await expect(page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
        for place, (label, text, row) in SEARCHED.items():
            await shown.open(place)
            rows = page.locator("table[aria-rowcount]").first.locator("tbody tr")
            await expect(rows.nth(1)).to_be_visible()
            await page.keyboard.press("/")
            await expect(page.get_by_label(label)).to_be_focused()
            await page.keyboard.type(text)
            await expect(rows).to_have_count(1)
            await expect(rows).to_contain_text(row)
            await page.reload()
            await expect(rows).to_have_count(1)
            await page.get_by_label(label).fill("nothing like it")
            await expect(page.get_by_role("heading", name="No matching")).to_be_visible()
            await shown.picture(f"searched-{re.split(r'[?=]', place)[-1]}")
            await page.get_by_role("button", name="Show all").click()
            await expect(rows.nth(1)).to_be_visible()


async def test_the_log_is_filtered_by_a_reason_that_is_chosen(world: World, running: Browser) -> None:
    await refused((await world.enrol()).open("wiki.corp.example"))
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("activity")
        await shown.sign_in(olga)
        await page.get_by_role("combobox", name="Reason").click()
        await page.get_by_role("option", name="unknown name").click()
        lines = page.get_by_role("table", name="Activity").locator("tbody tr")
        await expect(lines).to_have_count(1)
        await expect(lines).to_contain_text("wiki.corp.example")
        assert "reason=NAME_UNKNOWN" in page.url
        await shown.picture("activity-reason")
        # A part of a name is enough, and the address keeps it.
        await shown.open("activity")
        await page.get_by_role("textbox", name="Search people, devices").fill("iki.COR")
        await expect(page.get_by_text("laptop of alice was denied")).to_be_visible()
        await expect(lines).to_have_count(1)
        assert "q=iki.COR" in page.url
        await shown.picture("activity-search")
        await page.get_by_role("textbox", name="Search people, devices").fill("nobody")
        await expect(page.get_by_text("The search takes a part of a name")).to_be_visible()
        # A reason that the list lacks is shown as the log has it.
        await shown.open("activity?reason=RATE_LIMITED")
        await expect(page.get_by_role("combobox", name="Reason")).to_have_value("RATE_LIMITED")


async def test_a_deletion_leads_back_to_the_list_as_it_was_left(world: World, running: Browser) -> None:
    for name in ("bea", "bert", "bob"):
        await world.rest("POST", "/groups", {"name": name})
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        groups = page.get_by_role("table", name="Groups")
        await shown.open("groups?q=b&sort=-name")
        await shown.sign_in(olga)
        for name, left, detour in (("bert", ["bob", "bea"], False), ("bob", ["bea"], True)):
            await groups.get_by_role("link", name=name).click()
            await expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
            if detour:
                await page.get_by_role("link", name="Activity").click()
                await expect(page.get_by_role("heading", name="Activity", exact=True)).to_be_visible()
                await page.go_back()
                await page.reload()
                await page.get_by_role("link", name="People", exact=True).click()
                await page.get_by_text("Groups", exact=True).click()
                await page.get_by_label("Search groups").fill("b")
                await expect(page).to_have_url(re.compile("q=b"))
                await groups.get_by_role("button", name="Group").click()
                await groups.get_by_role("link", name=name).click()
                await page.get_by_role("link", name="Devices").click()
                await expect(page.get_by_role("heading", name="Devices", exact=True)).to_be_visible()
                await page.go_back()
            await page.get_by_role("button", name="Delete").click()
            await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
            await expect(groups.locator("tbody tr")).to_have_count(len(left))
            assert [row.split("\t")[0] for row in await groups.locator("tbody tr").all_inner_texts()] == left
            assert "q=b" in page.url
            assert "sort=-name" in page.url
            await expect(page.get_by_label("Search groups")).to_have_value("b")
