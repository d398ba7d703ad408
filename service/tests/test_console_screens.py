"""Each page of the console on the smallest and the largest screen."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from culvert_lab.console import LARGEST, NARROW
from playwright.async_api import Browser, expect

from .conftest import World
from .console_page import BUILT, administrator, chromium_running, console

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


async def test_each_page_on_the_smallest_and_the_largest_screen(world: World, running: Browser) -> None:
    zone = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
    await world.rest("POST", "/dns/zones", zone)
    await world.add_gateway("gw-berlin", 9)
    await world.add_wiki(["gw-berlin"])
    await world.enrol()
    async with administrator(world, "olga", "owner") as olga:
        for size, view in (("narrow", NARROW), ("4k", LARGEST)):
            async with console(world, running, viewport=view) as shown:
                await shown.open()
                await shown.sign_in(olga)
                await expect(shown.page.get_by_role("heading", name="Overview")).to_be_visible()
                for place, heading in {
                    "": "Overview",
                    "resources": "Resources",
                    "gateways": "Gateways",
                    "gateways/of/gw-berlin": "gw-berlin",
                    "people": "People",
                    "devices": "Devices",
                    "dns": "DNS",
                    "activity": "Activity",
                }.items():
                    await shown.open(place)
                    await expect(shown.page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
                    await shown.page.wait_for_load_state("load")
                    fits = await shown.page.evaluate(
                        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
                    )
                    assert fits, f"{place} is wider than the screen"
                    await shown.picture(f"{size}-{heading.lower()}")
