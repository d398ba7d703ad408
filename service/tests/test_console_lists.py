"""Ten thousand devices in the console: few rows in the page, sorted and searched by the controller."""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import AsyncGenerator

import pytest
from culvert_db import Device, User
from playwright.async_api import Browser, Locator, Page, expect
from sqlalchemy import insert, select

from .conftest import World, until
from .console_page import BUILT, administrator, chromium_running, console

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]
MANY = 10_000
# The rows in sight, some beyond either edge, the head, and two placeholders for the rest.
ROWS_MAX = 60


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


async def add_devices(world: World) -> None:
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
            for number in range(MANY)
        ]
        await session.execute(insert(Device), rows)


async def further(page: Page, table: Locator) -> int:
    """Goes to the end of what is there; the lowest number of a laptop in the page."""
    await page.keyboard.press("End")
    return min(int(number) for number in re.findall(r"laptop-(\d{5})", await table.inner_text()))


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
        await page.get_by_role("link", name="People").click()
        people = page.get_by_role("table", name="People")
        await expect(people).to_contain_text("alice")
        await world.rest("POST", "/users", {"name": "bert", "email": "bert@corp.example"})
        await expect(people).to_contain_text("bert")
