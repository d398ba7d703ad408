"""The first steps in the console tick themselves as things really happen, and go when all have."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from culvert_db import DnsRecord, DnsState
from culvert_lab.free_port import free_port
from playwright.async_api import Browser, expect

from .conftest import World, serving
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


async def test_each_step_ticks_itself_and_the_way_is_gone_at_its_end(world: World, running: Browser) -> None:
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open()
        await shown.sign_in(olga)
        steps = page.get_by_role("region", name="First steps")
        done = steps.locator("[data-done=true]")
        await expect(steps).to_contain_text("0 of 7 done", timeout=15_000)
        # Each step that can be done now has its button, and the others name the steps that they need.
        await expect(steps.get_by_role("link")).to_have_text(["Add a gateway", "Add a zone", "Open People"])
        await expect(steps.get_by_text("Needs step")).to_have_text(
            [
                "Needs step 1 first",
                "Needs steps 2 and 3 first",
                "Needs step 3 first",
                "Needs steps 1, 3, 5 and 6 first",
            ]
        )
        await shown.picture("wizard")
        port = free_port()
        await world.add_gateway("gw-berlin", port)
        async with serving(world, Switch(), "gw-berlin", port):
            await expect(done).to_have_text(["A gateway is connected"])
            await expect(steps.get_by_role("link", name="Add a resource")).to_be_visible()
            await expect(steps.get_by_role("link", name="Add a zone")).to_be_visible()
            zone = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
            await world.rest("POST", "/dns/zones", zone)
            await expect(done).to_have_text(["A gateway is connected", "A zone is added"])
            await world.add_wiki(["gw-berlin"], users=[])
            await expect(done).to_have_count(3)
            # The row that dns-updater would write.
            async with world.database.begin() as session:
                session.add(DnsRecord(name="wiki.corp.example", zone="corp", type="A", state=DnsState.LIVE))
            await expect(done).to_have_count(4)
            await shown.picture("wizard-under-way")
            device = await world.enrol()
            await expect(done).to_have_count(5)
            await expect(steps.get_by_role("link", name="Open Resources")).to_be_visible()
            policy = {"name": "alice to wiki", "user": "alice", "resources": ["wiki"]}
            await world.rest("POST", "/policies", policy)
            await expect(done).to_have_count(6)
            await device.prove()
            await device.open()
            await expect(steps).to_contain_text("It works: the first tunnel is open")
            await shown.picture("wizard-finished")
            await page.reload()
            await expect(page.get_by_role("table", name="Tunnels")).to_be_visible()
            await expect(steps).to_have_count(0)


async def test_the_wizard_needs_write_access_and_can_be_dismissed(world: World, running: Browser) -> None:
    async with administrator(world, "arno", "auditor") as arno, console(world, running) as shown:
        await shown.open()
        await shown.sign_in(arno)
        await expect(shown.page.get_by_text("No gateway yet")).to_be_visible()
        await expect(shown.page.get_by_role("region", name="First steps")).to_have_count(0)
    async with administrator(world, "adam", "admin") as adam, console(world, running, narrow=True) as shown:
        page = shown.page
        await shown.open()
        await shown.sign_in(adam)
        await expect(page.get_by_role("region", name="First steps")).to_be_visible()
        await shown.picture("narrow-wizard")
        await page.get_by_role("button", name="Dismiss the first steps").click()
        await expect(page.get_by_role("region", name="First steps")).to_have_count(0)
        await page.reload()
        await expect(page.get_by_text("No gateway yet")).to_be_visible()
        await expect(page.get_by_role("region", name="First steps")).to_have_count(0)
