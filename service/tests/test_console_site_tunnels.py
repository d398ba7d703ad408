"""Tunnels between gateways in the console: made of resources, shown as the profiles are."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from culvert_lab.console import NARROW, WIDE
from culvert_lab.free_port import free_port
from playwright.async_api import Browser, expect

from . import two_sites
from .conftest import World, serving
from .console_page import BUILT, administrator, chromium_running, console
from .switch import Switch
from .test_changes import change
from .two_sites import BERLIN, NUMBERS, PARIS, Sites, host

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


async def test_two_sites_are_joined_by_a_resource(world: World, running: Browser, tmp_path: Path) -> None:
    ports = {name: free_port() for name in NUMBERS}
    await two_sites.register(world, tmp_path, Sites(tmp_path, ports, {}, {}))
    web = [{"prefix": host(PARIS), "protocol": "tcp", "ports": [443]}]
    await world.add_resource("web", [PARIS], targets=web, users=[])
    await world.add_resource("build", [BERLIN], address=host(BERLIN), users=[])
    async with (
        AsyncExitStack() as stack,
        administrator(world, "olga", "owner") as olga,
        console(world, running) as shown,
    ):
        for name, port in ports.items():
            await stack.enter_async_context(serving(world, Switch(), name, port))
            await world.online(name)
        page = shown.page
        await shown.open("gateways")
        await shown.sign_in(olga)
        await page.get_by_text("Site tunnels", exact=True).click()
        await expect(page.get_by_text("No site tunnel yet")).to_be_visible()
        await shown.picture("site-tunnels-empty")
        await page.get_by_role("link", name="Add a site tunnel").first.click()
        await page.get_by_role("textbox", name="Name").fill("berlin-paris")
        await page.get_by_role("textbox", name="Owner").fill("bob@corp.example")
        one, other = (
            page.get_by_role("group", name=name, exact=True) for name in ("One end", "The other end")
        )
        for end, gateway in ((one, BERLIN), (other, PARIS)):
            await end.get_by_role("combobox", name="Gateway").click()
            await page.get_by_role("option", name=gateway).click()
        await page.get_by_role("button", name="Add it").click()
        await expect(other.get_by_text("Choose a resource, or add an address")).to_be_visible()
        await other.get_by_role("combobox", name="Resources").click()
        # The list leaves out resources that only the other gateway serves.
        await expect(page.get_by_role("option", name="web")).to_be_visible()
        await expect(page.get_by_role("option", name="build")).to_be_hidden()
        await page.get_by_role("option", name="web").click()
        await page.keyboard.press("Escape")
        await one.get_by_role("button", name="Add an address").click()
        await one.get_by_role("textbox", name="Address or prefix 1").fill("10.1.0.999")
        await page.get_by_role("button", name="Add it").click()
        await expect(one.get_by_text("Must be an address or a prefix such as")).to_be_visible()
        await shown.picture("site-tunnel-new")
        await one.get_by_role("textbox", name="Address or prefix 1").fill("10.1.0.0/24")
        await page.get_by_role("button", name="Add it").click()
        await expect(page.get_by_text("up", exact=True)).to_be_visible()
        paris = page.get_by_role("region", name="Behind gw-paris")
        await expect(paris).to_contain_text("10.2.0.10 tcp 443")
        await change(world, "/resources/web", targets=[web[0] | {"ports": [8443]}])
        await expect(paris).to_contain_text("10.2.0.10 tcp 8443")
        await page.get_by_role("button", name="Encryption and new keys").click()
        await page.get_by_role("switch", name="Limits of its own for its keys").click()
        await page.get_by_role("textbox", name="Packets").fill("1000000")
        await shown.picture("site-tunnel")
        await page.set_viewport_size(NARROW)
        await shown.picture("narrow-site-tunnel")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("berlin-paris is saved")).to_be_visible()
        limited = await world.rest("GET", "/site-tunnels/berlin-paris")
        assert limited["rekey"] == {"soft_packets": 1_000_000, "soft_bytes": 2**36, "soft_seconds": 3600}
        await shown.open("site-tunnels")
        await expect(page.get_by_role("table", name="Site tunnels")).to_contain_text("berlin-paris")
        await shown.picture("narrow-site-tunnels")
        await page.set_viewport_size(WIDE)
        await shown.picture("site-tunnels")
        await shown.open("resources")
        rows = page.get_by_role("table", name="Resources").get_by_role("row")
        await expect(rows.nth(1)).to_contain_text("build.corp.example")
        await page.get_by_role("button", name="Name").click()
        await expect(rows.nth(1)).to_contain_text("web.corp.example")
        assert page.url.endswith("?sort=-fqdn")
        await shown.picture("resources-sorted")
        await shown.open("resources/of/web")
        await page.get_by_role("button", name="Delete").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("berlin-paris")
        await expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
        await shown.picture("resource-carried")
        await dialog.get_by_role("link", name="berlin-paris").click()
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("No site tunnel yet")).to_be_visible()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("table", name="Site tunnels")).to_contain_text("web")
