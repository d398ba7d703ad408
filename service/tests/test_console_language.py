"""The console in German: chosen by the browser, switched by the person, and remembered."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from culvert_lab.console import NARROW
from playwright.async_api import Browser, expect

from .conftest import World
from .console_page import BUILT, administrator, chromium_running, console
from .test_admins import PASSWORD

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


async def test_the_browser_chooses_and_the_person_decides(world: World, running: Browser) -> None:
    async with (
        administrator(world, "olga", "owner") as olga,
        console(world, running, locale="de-AT") as shown,
    ):
        page, html = shown.page, shown.page.locator("html")
        await shown.open("groups")
        await expect(page.get_by_role("heading", name="Anmelden", exact=True)).to_be_visible()
        await expect(html).to_have_attribute("lang", "de-AT")
        await shown.picture("sign-in-de")
        await page.get_by_role("button", name="English").click()
        await expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
        await expect(html).to_have_attribute("lang", "en")
        await shown.sign_in(olga)
        await expect(page.get_by_role("heading", name="Groups", exact=True)).to_be_visible()
        await page.reload()
        await page.get_by_role("button", name="Signed in as olga").click()
        await page.get_by_role("menuitem", name="Deutsch").click()
        await page.get_by_role("button", name="Angemeldet als olga").click()
        await expect(page.get_by_role("menuitem", name="Abmelden")).to_be_visible()
        await expect(page.get_by_text("Leitung, angemeldet bis")).to_be_visible()
        await shown.picture("account-menu-de")
        await page.keyboard.press("Escape")
        await shown.open("settings?part=administrators")
        await expect(page.get_by_role("combobox", name="Rolle von olga")).to_have_value("Leitung")
        await expect(page.get_by_text("Prüfung: nur Lesezugriff.")).to_be_visible()
        await shown.picture("administrators-de")
        await page.set_viewport_size(NARROW)
        await shown.picture("narrow-administrators-de")


async def test_a_switch_keeps_what_was_typed_and_what_is_shown_once(world: World, running: Browser) -> None:
    token = (await world.rest("POST", "/admins/invitations", {"role": "auditor"}))["token"]
    async with console(world, running) as shown:
        page = shown.page
        await shown.open(f"setup#token={token}")
        await page.get_by_role("textbox", name="Name").fill("ada")
        await page.locator("input[autocomplete=new-password]").fill(PASSWORD)
        await page.get_by_role("button", name="Deutsch").click()
        await expect(page.get_by_role("textbox", name="Name")).to_have_value("ada")
        await page.get_by_role("button", name="Weiter").click()
        secret = await page.locator("[data-secret]").inner_text()
        await page.get_by_role("button", name="English").click()
        await expect(page.get_by_role("heading", name="Scan this with your authenticator")).to_be_visible()
        await expect(page.locator("[data-secret]")).to_have_text(secret)


@pytest.mark.parametrize(
    ("locale", "heading"), [("fr-FR", "Sign in"), ("de", "Anmelden"), ("DE-CH", "Anmelden")]
)
async def test_another_language_is_answered_in_english(
    world: World, running: Browser, locale: str, heading: str
) -> None:
    async with console(world, running, locale=locale) as shown:
        await shown.open()
        await expect(shown.page.get_by_role("heading", name=heading, exact=True)).to_be_visible()


async def test_a_page_without_its_catalogue_is_in_english(world: World, running: Browser) -> None:
    async with console(world, running, locale="de-DE") as shown:
        await shown.page.route("**/assets/de-*.js", lambda route: route.abort())
        await shown.open()
        await expect(shown.page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
        await expect(shown.page.locator("html")).to_have_attribute("lang", "en")
