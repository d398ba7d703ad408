"""The admin console beside real parts: Chromium, controller, Postgres, BIND, the switch and a laptop with its daemon.

invite ─► enrol ─► approve ─► open ─► seen on the map ─► a gateway dies: moved ─► revoke: cut
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest
import pytest_asyncio
from culvert_lab import laptop, parts, spare
from culvert_lab import topology as net
from culvert_lab.console import BUILT, Console, chromium_running, person
from culvert_lab.demo import Joined, join
from culvert_lab.expose import relay
from culvert_lab.free_port import free_port
from culvert_lab.lab import Lab
from culvert_lab.process import Finished, Running
from culvert_lab.progress import Progress
from culvert_lab.topology import Site
from playwright.async_api import BrowserContext, Locator, expect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(240),
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]

PASSWORD = "correct horse battery"
PERSON = "carol"
LAPTOP = "carols-laptop"
GIT = f"git.{net.ZONE}"
REFUSED = 3
# Bytes a second, for as long as somebody looks.
RATE, LONG = 200_000, 200_000 * 60


@dataclass(slots=True)
class Scene:
    """The lab without an enrolled laptop, and an owner at the console."""

    lab: Lab
    joined: Joined
    url: str
    browser: BrowserContext
    shown: Console
    gateways: dict[str, Running] = field(default_factory=dict[str, Running])

    async def tab(self) -> Console:
        """Another tab of the same browser."""
        return Console(await self.browser.new_page(), self.url)

    async def culvert(self, *argv: str, stdin: str = "") -> Finished:
        """The command line on the laptop."""
        program = str(parts.PROGRAMS / "culvert")
        return await self.lab.run(Site.LAPTOP, [program, *argv], stdin=stdin, seconds=30.0)

    def node(self, text: str) -> Locator:
        return self.shown.page.locator(".react-flow__node", has_text=text)

    async def goes_to(self, place: str) -> None:
        await self.shown.page.get_by_role("navigation").get_by_role("link", name=place, exact=True).click()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncGenerator[Scene]:
    async with AsyncExitStack() as stack:
        lab = await stack.enter_async_context(Lab(parts.ROOT / "build/lab"))
        joined = await join(lab, Progress())
        await laptop.start_daemon(lab)
        port = free_port()
        await stack.enter_async_context(relay(lab.inside(Site.CONTROLLER), port))
        browser = await person(await stack.enter_async_context(chromium_running()))
        shown = Console(await browser.new_page(), f"https://127.0.0.1:{port}")
        await shown.become_owner(await parts.first_owner(lab), "ada", PASSWORD)
        gateways = {parts.GATEWAY: joined.gateway, spare.NAME: await spare.start(lab, joined.admin)}
        yield Scene(lab, joined, shown.url, browser, shown, gateways)
        await browser.close()


async def test_from_an_invitation_to_an_open_page(scene: Scene) -> None:
    page, admin = scene.shown.page, scene.joined.admin
    await scene.goes_to("People")
    await page.get_by_role("button", name="Add a person").click()
    await page.get_by_role("textbox", name="Login name").fill(PERSON)
    await page.get_by_role("textbox", name="E-mail").fill(f"{PERSON}@{net.ZONE}")
    await page.get_by_role("button", name="Add and invite").click()
    link = await page.get_by_role("textbox", name="Invitation").input_value()
    await page.get_by_role("button", name="Done").click()

    await parts.create_resource(admin, name="git", fqdn=GIT, users=[], gateways=list(scene.gateways))
    conditions = {"device_approved": True}
    policy: dict[str, object] = {
        "name": "Developers",
        "user": PERSON,
        "resources": ["git"],
        "conditions": conditions,
    }
    await admin.post("/policies", policy)
    await parts.wait_published(scene.lab, scene.joined.bind, GIT)

    await scene.goes_to("Devices")
    uri = await laptop.enrol(scene.lab, link, LAPTOP)
    await laptop.prove_code(scene.lab, uri)
    devices = page.get_by_role("table", name="Devices")
    await expect(devices.get_by_text("waits for approval", exact=True)).to_be_visible()
    refused = await scene.culvert("open", GIT)
    assert refused.code == REFUSED
    assert await _traced(scene) in refused.stderr

    await page.get_by_role("button", name=f"Approve {LAPTOP}").click()
    await expect(devices.get_by_text("approved", exact=True)).to_be_visible()
    await scene.shown.open()
    await expect(page.get_by_text("2 of 2")).to_be_visible()
    fetched = await scene.lab.run(Site.LAPTOP, ["curl", "-sS", "--max-time", "10", f"http://{GIT}/"])
    assert net.MARKER in fetched.stdout, fetched.stderr
    await expect(scene.node(PERSON)).to_be_visible()
    await expect(page.get_by_role("table", name="Tunnels")).to_contain_text(GIT)
    opened = await scene.culvert("open", GIT)
    assert opened.code == 0, opened.stderr
    assert parts.GATEWAY in await _traced(scene)


async def _traced(scene: Scene) -> str:
    """The tracer's answer, asked for in a tab of its own, without the device's name."""
    asking = await scene.tab()
    await asking.open(f"access?user={PERSON}&name={GIT}")
    answer = asking.page.get_by_role("region", name=f"Answer to {LAPTOP}")
    await expect(answer).to_be_visible(timeout=30_000)
    said = await answer.get_by_text(re.compile(f"^{LAPTOP}: ")).inner_text()
    await asking.page.close()
    return said.removeprefix(f"{LAPTOP}: ")


async def test_the_map_shows_rate_and_age_and_what_moved_when_a_gateway_dies(scene: Scene) -> None:
    page = scene.shown.page
    await scene.shown.open()
    url = f"http://{GIT}/download?bytes={LONG}&rate={RATE}"
    loading = asyncio.create_task(laptop.download(scene.lab, url))
    lines = page.locator(".react-flow__edge-text")
    await expect(lines.filter(has_text=re.compile(r"bit/s · \d+ (s|min)$"))).to_have_count(1)
    await scene.shown.picture("map-live")

    scene.gateways[parts.GATEWAY].kill()
    gone = page.get_by_role("status").filter(has_text=f"{parts.GATEWAY} is offline")
    await expect(gone).to_contain_text(f"1 tunnel moved to {spare.NAME}", timeout=20_000)
    await expect(scene.node(parts.GATEWAY)).to_contain_text(f"moved to {spare.NAME}")
    await expect(page.get_by_text("1 of 2")).to_be_visible()
    await expect(page.get_by_role("table", name="Tunnels")).to_contain_text(f"from {parts.GATEWAY}")
    await scene.shown.picture("map-gateway-gone")

    scene.gateways[parts.GATEWAY] = await parts.start_gateway(scene.lab, "gateway-again")
    await expect(page.get_by_text("2 of 2")).to_be_visible(timeout=20_000)
    await expect(gone).to_have_count(0)
    # The connection ended when its source address was removed.
    loading.cancel()
    await asyncio.gather(loading, return_exceptions=True)


async def test_two_tabs_live_while_the_controller_restarts(scene: Scene) -> None:
    page = scene.shown.page
    await scene.goes_to("Gateways")
    await expect(page.get_by_role("table", name="Gateways")).to_contain_text(spare.NAME)
    await page.go_back()
    await expect(page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
    await page.reload()
    await expect(page.get_by_text("2 of 2")).to_be_visible()
    others = [await scene.tab() for _ in range(3)]
    for other in others:
        await other.open()
        await expect(other.page.get_by_text("2 of 2")).to_be_visible()
    both = [scene.shown.page, *(other.page for other in others)]

    await scene.joined.controller.program.stop()
    for each in both:
        await expect(each.get_by_text("The connection to the controller is lost")).to_be_visible()
    await scene.shown.picture("connection-lost")
    await parts.start_controller(scene.lab)
    for each in both:
        await expect(each.get_by_text("Connected to the controller again")).to_be_visible(timeout=30_000)
        await expect(each.get_by_text("The connection to the controller is lost")).to_have_count(0)
    await expect(page.get_by_text("2 of 2")).to_be_visible(timeout=20_000)
    for other in others:
        assert not other.faults
        await other.page.close()


async def test_a_revoked_device_is_cut(scene: Scene) -> None:
    page = scene.shown.page
    opened = await scene.culvert("open", GIT)
    assert opened.code == 0, opened.stderr
    watching = await scene.tab()
    await watching.open()
    await expect(watching.page.locator(".react-flow__node", has_text=PERSON)).to_be_visible()
    await scene.goes_to("Devices")
    await page.get_by_role("button", name=f"More about {LAPTOP}").click()
    await page.get_by_role("menuitem", name="Revoke").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Closes 1 tunnel")
    await scene.shown.picture("revoke")
    await dialog.get_by_role("button", name="Revoke").click()
    await expect(watching.page.locator(".react-flow__node", has_text=PERSON)).to_have_count(0)
    await expect(watching.page.get_by_role("table", name="Tunnels")).to_have_count(0)
    argv = ["curl", "-sS", "--max-time", "3", f"http://{net.WIKI_ADDRESS}/"]
    assert (await scene.lab.run(Site.LAPTOP, argv)).code != 0
    refused = await scene.culvert("open", GIT)
    assert refused.code == REFUSED
    assert "revoked" in refused.stderr
    assert not scene.shown.faults, scene.shown.faults
    assert not watching.faults, watching.faults
