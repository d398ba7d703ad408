"""The page that an invitation's link opens, in Chromium: for whom it is, how to go on, and why it may not work."""

from __future__ import annotations

import datetime
import hashlib
import json
import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from culvert_db import Invitation
from culvert_lab import console as lab
from culvert_lab.console import NARROW, WIDE
from culvert_proto.invitation_link import parse_invitation
from playwright.async_api import Browser, Page, ViewportSize, expect
from sqlalchemy import update

from .conftest import World, make_csr
from .console_page import BUILT, Console, chromium_running
from .test_admins import signed_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]

PHONE = "Mozilla/5.0 (Linux; Android 16; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0 Mobile Safari/537.36"
# Chromium has no program for culvert:// here, and reports that as an error.
STAYS = "addEventListener('click', event => event.target.closest('a')?.protocol === 'culvert:' && event.preventDefault())"


KEY = "A93241A6F8284672697AC07AC4B3889AE2978210"
SYSTEMS = {"bookworm": "Debian 12", "trixie": "Debian 13", "noble": "Ubuntu 24.04"}


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


@asynccontextmanager
async def opened(
    world: World,
    running: Browser,
    link: str,
    viewport: ViewportSize = WIDE,
    locale: str = "en-GB",
    user_agent: str | None = None,
) -> AsyncGenerator[Console]:
    context = await lab.person(running, viewport, locale=locale, user_agent=user_agent)
    shown = Console(await context.new_page(), world.settings.rest_url)
    try:
        await shown.page.add_init_script(STAYS)
        await shown.page.goto(link)
        yield shown
    finally:
        await context.close()
    assert not shown.faults, shown.faults


async def link_for(world: World) -> str:
    return str((await world.rest("POST", "/invitations", {"user": "alice"}))["link"])


async def enrol(world: World, link: str) -> None:
    body = {"token": parse_invitation(link).token, "device_name": "alices-laptop", "csr_pem": make_csr()[1]}
    assert (await world.anyone.post("/api/v1/enrolments", json=body)).status_code == 201


async def test_a_person_enrols_from_the_page_and_sees_it_happen(world: World, running: Browser) -> None:
    link = await link_for(world)
    async with opened(world, running, link) as shown:
        page = shown.page
        await expect(page.get_by_role("heading", name="Enrol your computer")).to_be_visible()
        await expect(page.get_by_text("This invitation is for alice")).to_be_visible()
        await shown.picture("invitation")
        button = page.get_by_role("link", name="Enrol this computer")
        href = await button.get_attribute("href")
        assert href is not None
        assert parse_invitation(href) == parse_invitation(link)
        # The terminal's way stands there at once, as does the installation's where the controller has no packages.
        command = page.get_by_text("culvert enroll 'https://")
        # As a shell splits the line.
        assert parse_invitation(shlex.split(await command.inner_text())[-1]) == parse_invitation(link)
        await expect(page.get_by_text("Ask your administrator for the packages")).to_be_visible()
        await expect(
            page.get_by_text("sudo apt install ./culvert-client_*.deb ./culvert-tray_")
        ).to_be_visible()
        await expect(page.get_by_role("button", name="Copy the command")).to_have_count(2)
        # A language that the browser does not ask for; the steps stay as they are.
        await page.get_by_role("button", name="Deutsch").click()
        await expect(page.get_by_role("heading", name="Computer registrieren", exact=True)).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("heading", name="Computer registrieren", exact=True)).to_be_visible()
        await page.get_by_role("button", name="English").click()
        assert await page.evaluate("document.documentElement.lang") == "en"
        await button.click()
        await enrol(world, link)
        await expect(page.get_by_role("heading", name="alices-laptop is enrolled")).to_be_visible()
        await shown.picture("invitation-enrolled")
    async with opened(world, running, link) as shown:
        await expect(shown.page.get_by_text("It enrolled alices-laptop on")).to_be_visible()
        await shown.picture("invitation-used")


def add_repository(world: World) -> None:
    """As the package culvert-repository has it, as far as pages show it."""
    folder = world.settings.apt_repository
    folder.mkdir()
    (folder / "culvert-archive-keyring.pgp").write_bytes(b"keys")
    about = {
        "version": "0.1.0+612",
        "date": 0,
        "architecture": "amd64",
        "fingerprint": KEY,
        "systems": SYSTEMS,
        "gateway": True,
    }
    (folder / "repository.json").write_text(json.dumps(about))


async def test_the_page_shows_the_line_that_installs_the_client(world: World, running: Browser) -> None:
    add_repository(world)
    link = await link_for(world)
    asked = {"token": parse_invitation(link).token}
    install = (await world.anyone.post("/api/v1/enrolments/invitation", json=asked)).json()["install"]
    async with opened(world, running, link) as shown:
        await expect(shown.page.get_by_text("on Debian 12, Debian 13 or Ubuntu 24.04:")).to_be_visible()
        await expect(shown.page.get_by_text("A932 41A6 F828")).to_be_visible()
        assert await shown.page.get_by_text("wget").inner_text() == install["command"]
        await shown.picture("invitation-install")
    async with opened(world, running, link, NARROW, locale="de-DE") as shown:
        await expect(shown.page.get_by_text("unter Debian 12, Debian 13 oder Ubuntu 24.04")).to_be_visible()
        await _check_width(shown.page)
        await shown.picture("invitation-install-narrow-de")


async def test_the_page_speaks_german_and_fits_a_phone(world: World, running: Browser) -> None:
    async with signed_in(world, "olga", "owner") as olga:
        link = str((await olga.ask("POST", "/invitations", {"user": "alice"})).json()["link"])
    async with opened(world, running, link, locale="de-AT") as shown:
        await shown.page.get_by_role("link", name="Diesen Computer registrieren").click()
        assert await shown.page.evaluate("document.documentElement.lang") == "de"
        # The person who made the invitation.
        await expect(shown.page.get_by_text("Ubuntu 24.04 bei olga anfordern.")).to_be_visible()
        await shown.picture("invitation-de")
    async with opened(world, running, link, NARROW) as shown:
        await shown.page.get_by_role("link", name="Enrol this computer").click()
        await _check_width(shown.page)
        await shown.picture("invitation-narrow")
    async with opened(world, running, link, NARROW, user_agent=PHONE) as shown:
        await expect(shown.page.get_by_text("Culvert does not run on phones")).to_be_visible()
        await expect(shown.page.get_by_role("img", name="QR code")).to_be_visible()
        await _check_width(shown.page)
        await shown.picture("invitation-phone")


async def test_an_invitation_that_does_not_work_says_why(world: World, running: Browser) -> None:
    link = await link_for(world)
    expired = await link_for(world)
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
    async with world.database.begin() as session:
        token_hash = hashlib.sha256(parse_invitation(expired).token.encode()).digest()
        which = update(Invitation).where(Invitation.token_hash == token_hash)
        await session.execute(which.values(expires_at=past))
    cases = {
        "cut": (link[:-1], "A part of the link is missing"),
        "unknown": (link.replace("#", "#x"), "This invitation is not valid"),
        "expired": (expired, "This invitation has expired"),
    }
    for name, (bad, title) in cases.items():
        async with opened(world, running, bad) as shown:
            await expect(shown.page.get_by_role("heading", name=title, exact=True)).to_be_visible()
            await shown.picture(f"invitation-{name}")


async def test_the_token_stays_out_of_the_requests_for_the_page(world: World, running: Browser) -> None:
    link = await link_for(world)
    token = parse_invitation(link).token
    asked: list[tuple[str, dict[str, str]]] = []
    context = await lab.person(running)
    page = await context.new_page()
    page.on("request", lambda request: asked.append((request.url.partition("#")[0], request.headers)))
    await page.goto(link)
    await expect(page.get_by_text("This invitation is for alice")).to_be_visible()
    await context.close()
    assert len(asked) > 3
    assert token not in str(asked)


async def _check_width(page: Page) -> None:
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
