"""Gateways in the console, as they are: online, drained, gone."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser, expect

from .conftest import World, free_port, serving
from .console_page import BUILT, administrator, chromium_running, console
from .switch import Switch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


async def test_a_gateway_is_drained_and_goes_before_ones_eyes(world: World, running: Browser) -> None:
    port = free_port()
    await world.add_gateway("gw-berlin", port)
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("gateways")
        await shown.sign_in(olga)
        table = page.get_by_role("table", name="Gateways")
        await expect(table).to_contain_text("offline")
        async with serving(world, Switch(), "gw-berlin", port):
            await expect(table).to_contain_text("online")
            await world.add_wiki(["gw-berlin"])
            device = await world.enrol()
            await device.prove()
            await device.open()
            await shown.picture("gateways")
            await page.get_by_role("link", name="gw-berlin").click()
            await expect(page.get_by_role("table", name="Tunnels")).to_contain_text("wiki.corp.example")
            tables = page.get_by_role("region", name="Tables")
            await expect(tables).to_contain_text("4 of tunnels")
            await tables.get_by_role("button", name="sad_in").click()
            await expect(page.get_by_role("region", name="Entries of")).to_contain_text("spi")
            await shown.picture("gateway")
            await page.get_by_role("button", name="Drain", exact=True).click()
            dialog = page.get_by_role("dialog")
            await expect(dialog).to_contain_text("No other gateway serves wiki")
            await shown.picture("gateway-drain")
            await dialog.get_by_role("button", name="Drain anyway").click()
            await expect(page.get_by_text("draining", exact=True)).to_be_visible()
            await page.get_by_role("button", name="Use it again").click()
            await expect(page.get_by_text("online", exact=True)).to_be_visible()
        await expect(page.get_by_text("offline", exact=True)).to_be_visible()
        await shown.picture("gateway-offline")
