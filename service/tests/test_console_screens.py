"""Each page of the console on the smallest and the largest screen."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator

import pytest
from culvert_db import Device, DeviceState
from culvert_lab.console import LARGEST, NARROW
from playwright.async_api import Browser, ViewportSize, expect
from sqlalchemy import update

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


# Each page with its heading in English and in German.
PAGES = {
    "": ("Overview", "Übersicht"),
    "resources": ("Resources", "Ressourcen"),
    "resources/new": ("Add a resource", "Ressource hinzufügen"),
    "resources/of/wiki": ("wiki.corp.example", "wiki.corp.example"),
    "gateways": ("Gateways", "Gateways"),
    "gateways/join": ("Add a gateway", "Gateway hinzufügen"),
    "gateways/of/gw-berlin": ("gw-berlin", "gw-berlin"),
    "site-tunnels": ("Site tunnels", "Standorttunnel"),
    "site-tunnels/new": ("Add a site tunnel", "Standorttunnel hinzufügen"),
    "people": ("People", "Personen"),
    "invitations": ("Invitations", "Einladungen"),
    "devices": ("Devices", "Geräte"),
    "policies": ("Policies", "Richtlinien"),
    "policies/new": ("Add a policy", "Richtlinie hinzufügen"),
    "groups": ("Groups", "Gruppen"),
    "assertions": ("Assertions", "Zusicherungen"),
    "dns": ("DNS", "DNS"),
    "access?user=alice&name=wiki.corp.example": ("Access check", "Zugriffsprüfung"),
    "activity": ("Activity", "Verlauf"),
    "settings": ("Settings", "Einstellungen"),
    "settings?part=administrators": ("Settings", "Einstellungen"),
    "settings?part=tokens": ("Settings", "Einstellungen"),
    "settings?part=controller": ("Settings", "Einstellungen"),
    "nothing": ("There is nothing at this address", "Unter dieser Adresse gibt es nichts"),
}
SIZES = {"narrow": NARROW, "laptop": ViewportSize(width=1366, height=768), "4k": LARGEST}
# The page, and its lists: a list has fewer columns on a small screen.
TOO_WIDE = """() => {
  const lists = [...document.querySelectorAll('table[aria-rowcount]')].map(it => it.parentElement);
  const wide = [document.documentElement, ...lists].filter(it => it.scrollWidth > it.clientWidth + 1);
  return wide.map(it => it.tagName + ' ' + (it.firstElementChild?.ariaLabel ?? ''));
}"""
# Lines of text beyond 75 characters (docs/design.md), and lists in which the eye loses the row.
TOO_LONG = """() => {
  const long = [];
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode, owner = text.parentElement;
    if (text.data.length <= 75 || owner.closest('table, .mono') || !owner.checkVisibility()) continue;
    const range = document.createRange(), lines = new Map();
    for (let at = 0; at < text.data.length; at++) {
      range.setStart(text, at);
      range.setEnd(text, at + 1);
      const top = Math.round(range.getBoundingClientRect().top);
      lines.set(top, (lines.get(top) ?? '') + text.data[at]);
    }
    long.push(...[...lines.values()].map(line => line.trim()).filter(line => line.length > 75));
  }
  const wide = [...document.querySelectorAll('table')].filter(it => it.clientWidth > 1600);
  return [...long, ...wide.map(it => `the list ${it.ariaLabel} is ${it.clientWidth} wide`)];
}"""
LANGUAGES = ("en-GB", "de-DE")
# The hardest screens have the longest texts on the least room. `make screens` shows all.
HARDEST = (("de-DE", "narrow"),)
ALL = tuple((locale, size) for locale in LANGUAGES for size in SIZES)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("locale", "size"), ALL if "CULVERT_ALL_SCREENS" in os.environ else HARDEST)
async def test_each_page_in_each_size(world: World, running: Browser, locale: str, size: str) -> None:
    """No text is cut, and nothing scrolls sideways; German is longer than English."""
    zone = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
    await world.rest("POST", "/dns/zones", zone)
    await world.add_gateway("gw-berlin", 9)
    await world.add_wiki(["gw-berlin"])
    await world.enrol()
    language = LANGUAGES.index(locale)
    suffix = "-de" if language else ""
    async with (
        administrator(world, "olga", "owner") as olga,
        console(world, running, locale="en-GB") as shown,
    ):
        await shown.open()
        await shown.sign_in(olga)
        await expect(shown.page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
        await shown.page.evaluate("kept => localStorage.setItem('culvert-language', kept)", locale[:2])
        await shown.page.set_viewport_size(SIZES[size])
        for place, headings in PAGES.items():
            await shown.open(place)
            heading = shown.page.get_by_role("heading", name=headings[language], exact=True).first
            await expect(heading).to_be_visible()
            await shown.page.wait_for_load_state("load")
            await expect(
                shown.page.get_by_role("status").filter(has=shown.page.locator("[aria-hidden]"))
            ).to_have_count(0)
            for wide in await shown.page.evaluate(TOO_WIDE):
                shown.faults.append(f"{size} {place}: {wide} scrolls sideways")
            name = "".join(it if it.isalnum() else "-" for it in place) or "overview"
            await shown.picture(f"{size}-{name}{suffix}")


@pytest.mark.timeout(300)
async def test_lines_and_lists_end_on_the_largest_screen(world: World, running: Browser) -> None:
    zone = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
    await world.rest("POST", "/dns/zones", zone)
    await world.add_gateway("gw-berlin", 9)
    await world.add_wiki(["gw-berlin"])
    await world.enrol()
    found: dict[str, list[str]] = {}
    async with (
        administrator(world, "olga", "owner") as olga,
        console(world, running, viewport=LARGEST) as shown,
    ):
        await shown.open()
        await shown.sign_in(olga)
        await expect(shown.page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
        for place, (heading, _) in PAGES.items():
            await shown.open(place)
            await expect(shown.page.get_by_role("heading", name=heading, exact=True).first).to_be_visible()
            await expect(
                shown.page.get_by_role("status").filter(has=shown.page.locator("[aria-hidden]"))
            ).to_have_count(0)
            if far := await shown.page.evaluate(TOO_LONG):
                found[place] = far
    assert not found


async def test_an_open_list_of_choices_is_readable_by_everybody(world: World, running: Browser) -> None:
    await world.rest("POST", "/groups", {"name": "readers", "members": ["alice"]})
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        await shown.open()
        await shown.sign_in(olga)
        await expect(shown.page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
        # One that filters, one that scrolls, one of several values.
        for place, field in (("activity", "Person"), ("activity", "Reason"), ("policies/new", "Group")):
            await shown.open(place)
            await shown.page.get_by_role("combobox", name=field).click()
            if field == "Person":
                await shown.page.keyboard.type("al")
            await expect(shown.page.get_by_role("option").first).to_be_visible()
            await shown.picture(f"choices-{field.lower()}")


# A primary button in sight: the rows of a list have none either.
PRIMARY = """() => [...document.querySelectorAll('.mantine-Button-root[data-variant=filled]')]
  .filter(it => it.checkVisibility()).map(it => it.innerText)"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("filled", [True, False])
async def test_each_page_has_one_primary_button_at_most(world: World, running: Browser, filled: bool) -> None:
    pages = [place for place in PAGES if filled or "/of/" not in place]
    if filled:
        zone = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
        await world.rest("POST", "/dns/zones", zone)
        await world.add_gateway("gw-berlin", 9)
        await world.add_wiki(["gw-berlin"])
        await world.rest("POST", "/tokens", {"name": "backup", "scopes": ["read"]})
        for _ in range(2):
            await world.enrol()
        async with world.database.begin() as session:
            await session.execute(update(Device).values(state=DeviceState.PENDING))
        pages += ["people/of/alice", "devices?state=pending"]
    many: dict[str, list[str]] = {}
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open()
        await shown.sign_in(olga)
        for place in pages:
            await shown.open(place)
            await expect(page.get_by_role("heading").first).to_be_visible()
            loading = page.get_by_role("status").filter(has=page.locator("[aria-hidden]"))
            await expect(loading).to_have_count(0)
            primary = await page.evaluate(PRIMARY)
            if len(primary) > 1:
                many[place] = primary
    assert not many
