"""Each page of the console on the smallest and the largest screen."""

from __future__ import annotations

import datetime
import hashlib
import os
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from urllib.parse import urljoin

import pytest
from culvert_db import Device, DeviceState, DnsRecord, DnsState, Invitation
from culvert_lab.console import LARGEST, NARROW
from culvert_proto.invitation_link import parse_invitation
from playwright.async_api import Browser, Locator, Page, ViewportSize, expect
from sqlalchemy import update

from .conftest import World, make_csr
from .console_page import BUILT, Console, administrator, chromium_running, console
from .console_states import (
    ANNEGRET,
    EMPTY,
    FILLED,
    INVITATION,
    SIGNED_OUT,
    Age,
    Choose,
    Click,
    Code,
    Fill,
    Into,
    Keys,
    Meanwhile,
    Open,
    Press,
    See,
    State,
    Step,
    Words,
    say,
)
from .test_admins import browser
from .test_changes import change
from .test_console import joined_sites
from .test_console_settings import code_of
from .test_proofs import grows_old

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


# Each page with its heading.
PAGES = {
    "": "Overview",
    "resources": "Resources",
    "resources/new": "Add a resource",
    "resources/of/wiki": "wiki.corp.example",
    "gateways": "Gateways",
    "gateways/join": "Add a gateway",
    "gateways/new": "Add a gateway",
    "gateways/of/gw-berlin": "gw-berlin",
    "site-tunnels": "Site tunnels",
    "site-tunnels/new": "Add a site tunnel",
    "people": "People",
    "people/of/alice": "alice",
    "invitations": "Invitations",
    "devices": "Devices",
    "policies": "Policies",
    "policies/new": "Add a policy",
    "groups": "Groups",
    "groups/new": "Add a group",
    "assertions": "Assertions",
    "dns": "DNS",
    "access?user=alice&name=wiki.corp.example": "Access check",
    "activity": "Activity",
    "settings": "Settings",
    "settings?part=administrators": "Settings",
    "settings?part=tokens": "Settings",
    "settings?part=controller": "Settings",
    "nothing": "There is nothing at this address",
}
SIZES = {"narrow": NARROW, "laptop": ViewportSize(width=1366, height=768), "4k": LARGEST}
# The page, its tabs and its lists: a list has fewer columns on a small screen.
TOO_WIDE = """() => {
  const lists = [...document.querySelectorAll('table[aria-rowcount]')].map(it => it.parentElement);
  const tabs = document.querySelectorAll('[role=tablist]');
  const above = [...document.querySelectorAll('[role=dialog], [role=menu], [role=listbox]')];
  const wide = [document.documentElement, ...lists, ...tabs, ...above].filter(it => it.scrollWidth > it.clientWidth + 1);
  const outside = above.map(it => [it, it.getBoundingClientRect()])
    .filter(([it, {left, right}]) => it.checkVisibility() && (left < 0 || right > innerWidth)).map(([it]) => it);
  return [...wide, ...outside].map(it => it.tagName + ' ' + (it.ariaLabel ?? it.firstElementChild?.ariaLabel ?? ''));
}"""
# The height of a screen that shows the whole of a dialog, which takes 90 % of it at most.
HEIGHT = """() => Math.ceil(Math.max(0,
  ...[...document.querySelectorAll('[role=dialog]')].map(it => it.scrollHeight / 0.9)))"""
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
    suffix = "-de" if locale == "de-DE" else ""
    async with (
        administrator(world, "olga", "owner") as olga,
        console(world, running, locale="en-GB") as shown,
    ):
        await shown.open()
        await shown.sign_in(olga)
        await expect(shown.page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
        await shown.page.evaluate("kept => localStorage.setItem('culvert-language', kept)", locale[:2])
        await shown.page.set_viewport_size(SIZES[size])
        for place, heading in PAGES.items():
            await shown.open(place)
            name = say(heading, locale[:2])
            await expect(shown.page.get_by_role("heading", name=name, exact=True).first).to_be_visible()
            await shown.page.wait_for_load_state("load")
            await expect(
                shown.page.get_by_role("status").filter(has=shown.page.locator("[aria-hidden]"))
            ).to_have_count(0)
            for wide in await shown.page.evaluate(TOO_WIDE):
                shown.faults.append(f"{size} {place}: {wide} scrolls sideways")
            name = "".join(it if it.isalnum() else "-" for it in place) or "overview"
            await shown.picture(f"{size}-{name}{suffix}")


@dataclass
class Visit:
    """An administrator on the way through the states. `links`: those that the test makes."""

    world: World
    shown: Console
    language: str
    links: dict[str, str]
    # The secret of the authenticator with which the administrator signs in.
    secret: str = ""

    async def reach(self, it: State) -> None:
        page = self.shown.page
        if it.lost:
            await page.route(it.lost, lambda call: call.abort("internetdisconnected"))
        if it.silent:
            # As a proxy says it.
            await page.route(it.silent, lambda call: call.fulfill(status=502))
        part: Page | Locator = page
        if it.at is None:
            dialogs = page.get_by_role("dialog")
            part = dialogs.last if await dialogs.count() else page
        else:
            place = urljoin(f"{self.shown.url}/console/", it.at.format(**self.links))
            if "#" in page.url + place:
                # Another fragment alone would not load the page again.
                await page.goto("about:blank")
            await page.goto(place)
        for step in it.steps:
            part = await self.take(step, part)

    async def take(self, step: Step, part: Page | Locator) -> Page | Locator:
        """Gives the part of the page in which the next step is."""
        page = self.shown.page
        match step:
            case Press(is_narrow=True) if page.viewport_size != NARROW:
                pass
            case Press(name, role):
                within = page if role in ("option", "menuitem") else part
                await within.get_by_role(role, name=self.say(name), exact=True).first.click()
            case Click(words):
                await part.get_by_text(self.say(words), exact=True).first.click()
            case Fill(label, value):
                await self.field(part, label).fill(value)
            case Code(label):
                shown = page.locator("[data-secret]")
                self.secret = self.secret or await shown.inner_text()
                await self.field(part, label).fill(await code_of(self.world, self.secret))
            case Open(label):
                await self.field(part, label).click()
            case Choose(label, option):
                await self.field(part, label).click()
                await page.get_by_role("option", name=self.say(option), exact=True).click()
            case Keys(keys):
                await page.keyboard.press(keys)
            case Into(title):
                part = page.get_by_role("dialog", name=self.say(title), exact=True)
                await expect(part).to_be_visible()
            case See(words, css):
                seen = page.locator(css) if css else page.get_by_text(self.say(words), exact=True)
                await expect(seen.filter(visible=True).first).to_be_visible()
            case Meanwhile(path, fields):
                await change(self.world, path, **fields)
            case Age():
                await grows_old(self.world)
        return part

    def say(self, words: Words) -> str:
        return say(words, self.language)

    def field(self, part: Page | Locator, label: Words) -> Locator:
        # A field that has to be filled in has an asterisk after its label.
        labelled = part.get_by_label(re.compile(rf"^{re.escape(self.say(label))}( \*)?$"))
        return labelled.and_(part.locator("input, textarea")).filter(visible=True).first


async def make_links(world: World) -> dict[str, str]:
    """Links of invitations in each state."""
    invited = [str((await world.rest("POST", "/invitations", {"user": "alice"}))["link"]) for _ in range(3)]
    fresh, used, expired = invited
    body = {"token": parse_invitation(used).token, "device_name": "laptop", "csr_pem": make_csr()[1]}
    assert (await world.anyone.post("/api/v1/enrolments", json=body)).status_code == 201
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    async with world.database.begin() as session:
        token_hash = hashlib.sha256(parse_invitation(expired).token.encode()).digest()
        which = update(Invitation).where(Invitation.token_hash == token_hash)
        await session.execute(which.values(expires_at=past))
    return {
        "open": fresh,
        "used": used,
        "expired": expired,
        "unknown": fresh.replace("#", "#x"),
        "cut": fresh[:-1],
    }


async def fill(world: World) -> None:
    """Some things of each kind, which need each other."""
    await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
    for name, shown in (("bob", None), ("annegret", ANNEGRET)):
        person = {"name": name, "email": f"{name}@corp.example", "display_name": shown}
        await world.rest("POST", "/users", person)
    zone = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
    await world.rest("POST", "/dns/zones", zone)
    await world.add_gateway("gw-berlin", 8)
    await joined_sites(world)
    await world.add_wiki(["gw-berlin"], users=[])
    await world.add_resource("web", ["gw-paris"], address="10.9.0.10", users=[])
    ends = [
        {"gateway": "gw-berlin", "targets": [{"prefix": "10.20.0.0/24"}]},
        {"gateway": "gw-paris", "resources": ["web"]},
    ]
    tunnel = {"name": "berlin-paris", "ends": ends, "owner": "bob@corp.example"}
    await world.rest("POST", "/site-tunnels", tunnel)
    await world.rest("POST", "/groups", {"name": "writers", "members": ["annegret", "bob"]})
    approved = {"device_approved": True}
    for policy in (
        {"name": "alice reads", "user": "alice", "resources": ["wiki"]},
        {"name": "spare", "group": "writers", "resources": ["wiki"], "conditions": approved},
    ):
        await world.rest("POST", "/policies", policy)
    await world.rest("POST", "/assertions", {"user": "alice", "name": "wiki.corp.example", "reaches": True})
    await world.rest("POST", "/invitations", {"user": "annegret"})
    await world.rest("POST", "/tokens", {"name": "backup", "scopes": ["read"], "days": 9})
    for user in ("alice", "bob", "bob"):
        await world.enrol(user)
    async with world.database.begin() as session:
        session.add_all(
            DnsRecord(name=f"{name}.corp.example", zone="corp", type="A", state=found)
            for name, found in (("wiki", DnsState.LIVE), ("git", DnsState.PENDING))
        )


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("locale", "size"), ALL if "CULVERT_ALL_SCREENS" in os.environ else HARDEST)
async def test_each_state_in_each_size(world: World, running: Browser, locale: str, size: str) -> None:
    """Each dialog, menu and fault, at a controller on which they are found one after the other."""
    token = (await world.rest("POST", "/admins/invitations", {"role": "owner"}))["token"]
    links = await make_links(world) | {"setup": f"{world.settings.rest_url}/console/setup#token={token}"}
    suffix = "-de" if locale == "de-DE" else ""
    async with console(world, running, viewport=SIZES[size], locale=locale) as shown:
        visit = Visit(world, shown, locale[:2], links)

        async def see(states: tuple[State, ...]) -> None:
            for it in states:
                if it.is_narrow and size != "narrow":
                    continue
                await visit.reach(it)
                for wide in await shown.page.evaluate(TOO_WIDE):
                    shown.faults.append(f"{size} {it.name}: {wide} scrolls sideways")
                if size == "narrow":
                    height = max(NARROW["height"], await shown.page.evaluate(HEIGHT))
                    await shown.page.set_viewport_size({"width": NARROW["width"], "height": height})
                await shown.picture(f"state-{size}-{it.name}{suffix}")
                await shown.page.set_viewport_size(SIZES[size])
                if it.lost or it.silent:
                    await shown.page.unroute_all()
                    shown.faults = [fault for fault in shown.faults if "imported module" not in fault]

        await see(INVITATION)
        await world.rest("DELETE", "/users/alice")
        await see(SIGNED_OUT)
        await see(EMPTY)
        async with browser(world, "otto") as otto:
            token = (await world.rest("POST", "/admins/invitations", {"role": "auditor"}))["token"]
            assert (await otto.set_up(token)).status_code == 201
        await fill(world)
        await see(FILLED)


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
        for place, heading in PAGES.items():
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
        pages.append("devices?state=pending")
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
