"""Ways into the console beside password and code: a passkey of Chromium's own authenticator, a provider that serves."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import anyio
import pytest
from culvert_lab.free_port import free_port
from playwright.async_api import Browser, expect
from pyotp.totp import TOTP

from .conftest import World, running, settings_in
from .console_page import BUILT, Console, administrator, chromium_running, console
from .oidc_server import CLIENT, SECRET
from .test_admins import PASSWORD
from .test_oidc import issuer
from .test_proofs import grows_old

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]
_ = issuer
# The server of the style sheets of the provider's pages.
STYLES = "cdn.jsdelivr.net"


@pytest.fixture
async def chrome() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


@pytest.fixture
async def world(tmp_path: Path, database_url: str, issuer: str) -> AsyncGenerator[World]:
    """Reached by a name, without which a browser has no passkeys."""
    (tmp_path / "secret").write_text(SECRET)
    port = free_port()
    fields = {
        "rest_listen": f"127.0.0.1:{port}",
        "public_rest_url": f"https://localhost:{port}",
        "oidc_issuer": issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret_file": tmp_path / "secret",
    }
    async with running(settings_in(tmp_path, database_url=database_url, **fields)) as world:
        yield world


async def authenticator(shown: Console) -> None:
    """A computer's own, whose user has just shown themselves."""
    session = cast("Any", await shown.page.context.new_cdp_session(shown.page))
    await session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
    }
    made = await session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    assert made["authenticatorId"]


async def test_a_passkey_is_added_signs_in_and_is_removed(world: World, chrome: Browser) -> None:
    async with administrator(world, "olga", "owner") as olga, console(world, chrome) as shown:
        page, dialog = shown.page, shown.page.get_by_role("dialog")
        await authenticator(shown)
        await shown.open("settings")
        await shown.sign_in(olga)
        await page.get_by_role("button", name="Add a passkey").click()
        await dialog.get_by_label("Name").fill("<b>my laptop</b>")
        await dialog.get_by_role("button", name="Continue").click()
        await expect(page.get_by_role("table", name="Passkeys")).to_contain_text("<b>my laptop</b>")
        await shown.picture("settings-passkey")
        # The same authenticator has one already.
        await page.get_by_role("button", name="Add a passkey").click()
        await dialog.get_by_label("Name").fill("again")
        await dialog.get_by_role("button", name="Continue").click()
        await expect(dialog).to_contain_text("No passkey was made")
        await dialog.get_by_role("button", name="Cancel").click()

        await page.get_by_role("button", name="Signed in as olga").click()
        await page.get_by_role("menuitem", name="Sign out").click()
        await shown.picture("sign-in-ways")
        await page.get_by_role("button", name="Use a passkey").click()
        await expect(page.get_by_role("table", name="Passkeys")).to_contain_text("my laptop")
        (line,) = await world.rest("GET", "/audit?action=admin.sign-in&outcome=done&limit=1")
        assert (line["actor"], line["details"]) == ("olga", {"passkey": "<b>my laptop</b>"})

        # A change asks for a proof, which the same passkey gives.
        await grows_old(world)
        await page.get_by_role("button", name="Change password").click()
        await expect(dialog.get_by_role("checkbox", name="<b>my laptop</b>")).not_to_be_checked()
        await shown.picture("settings-kept-passkeys")
        await dialog.get_by_role("button", name="Cancel").click()
        await page.get_by_role("tab", name="API tokens").click()
        await page.get_by_role("button", name="Make a token").click()
        await dialog.get_by_role("textbox", name="Name").fill("ci")
        await dialog.get_by_role("combobox", name="Scopes").or_(dialog.get_by_label("Scopes")).first.click()
        await page.get_by_role("option", name="users:read").click()
        await page.keyboard.press("Escape")
        await dialog.get_by_role("button", name="Make the token").click()
        proof = page.get_by_role("dialog", name="Confirm your identity")
        await proof.get_by_role("button", name="Use a passkey").click()
        await expect(dialog.get_by_role("textbox", name="Token")).to_be_visible()
        await dialog.get_by_role("button", name="Done").click()
        await page.get_by_role("tab", name="Your account").click()
        await expect(page.get_by_role("table", name="Made by you")).to_contain_text("API token ci")
        await shown.picture("settings-account-whole")

        await page.get_by_role("button", name="Remove <b>my laptop</b>").click()
        await dialog.get_by_role("button", name="Remove").click()
        await expect(page.get_by_role("table", name="Passkeys")).to_have_count(0)
        await page.get_by_role("button", name="Signed in as olga").click()
        await page.get_by_role("menuitem", name="Sign out").click()
        await page.get_by_role("button", name="Use a passkey").click()
        await expect(page.get_by_role("alert", name="The passkey is not known here")).to_be_visible()
        await expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
        await shown.picture("sign-in-passkey-refused")


@pytest.mark.parametrize(("locale", "narrow"), [("en-GB", False), ("de-DE", True)])
async def test_a_new_account_gets_its_recovery_codes_once(
    world: World, chrome: Browser, locale: str, narrow: bool
) -> None:
    token = (await world.rest("POST", "/admins/invitations", {"role": "owner"}))["token"]
    suffix = "-de" if narrow else ""
    async with console(world, chrome, locale=locale, narrow=narrow) as shown:
        page = shown.page
        await shown.open(f"setup#token={token}")
        # A reload before the first sign-in begins again.
        secret = ""
        for begins in range(2):
            if begins:
                await page.reload()
            await page.locator("input[autocomplete=username]").fill("ada")
            await page.locator("input[autocomplete=new-password]").fill(PASSWORD)
            await page.locator("button[type=submit]").click()
            secret = await page.locator("[data-secret]").inner_text()
        if narrow:
            # The authenticator is on this phone, which cannot scan its own screen.
            opens = page.get_by_role("link", name="In der Authenticator-App öffnen")
            await expect(opens).to_have_attribute("href", re.compile(rf"^otpauth://totp/.*secret={secret}"))
        await page.get_by_role("button", name="Kopieren" if narrow else "Copy").click()
        await expect(page.get_by_role("button", name="Kopiert" if narrow else "Copied")).to_be_visible()
        await shown.picture(f"setup-secret{suffix}")
        await page.locator("input[autocomplete=one-time-code]").fill(TOTP(secret).now())
        await page.locator("button[type=submit]").click()
        codes = page.locator("[data-codes] code")
        await expect(codes).to_have_count(10)
        assert "token" not in page.url
        await shown.picture(f"setup-codes{suffix}")
        first, *_ = texts = await codes.all_inner_texts()
        async with page.expect_download() as downloading:
            await page.get_by_role("button", name="Herunterladen" if narrow else "Download").click()
        kept = await anyio.Path(await (await downloading.value).path()).read_text()
        assert kept.splitlines()[2:] == texts
        assert "ada" in kept
        # The paper has the codes and whose they are, and nothing else.
        await page.emulate_media(media="print")
        await expect(page.locator(".printed > p")).to_contain_text("ada")
        await expect(page.get_by_role("button")).to_have_count(0)
        await page.emulate_media(media="screen")
        if narrow:
            return
        await page.get_by_role("link", name="I have saved them").click()
        await page.get_by_role("button", name="Signed in as ada").click()
        await page.get_by_role("menuitem", name="Sign out").click()
        await shown.sign_in_as("ada", first)
        await expect(page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
        await shown.open("settings")
        await expect(page.get_by_text("9 are left")).to_be_visible()


async def test_an_account_is_made_and_signed_in_to_at_the_provider(
    world: World, chrome: Browser, issuer: str
) -> None:
    token = (await world.rest("POST", "/admins/invitations", {"role": "auditor"}))["token"]
    host = urlsplit(issuer).netloc
    async with console(world, chrome, others=[host, STYLES]) as shown:
        page = shown.page
        await shown.open(f"setup#token={token}")
        await page.get_by_role("textbox", name="Name").fill("ada")
        await shown.picture("setup-ways")
        await page.get_by_role("button", name=f"Continue at {host}").click()
        await page.locator("input[name=sub]").fill("ada")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Signed in as ada").click()
        await page.get_by_role("menuitem", name="Your account").click()
        await expect(page.get_by_role("region", name="Sessions").get_by_role("row")).to_have_count(1)
        # An account without a password has no button to change it.
        await expect(page.get_by_role("button", name="Change password")).to_have_count(0)
        await page.get_by_role("button", name="Signed in as ada").click()
        await page.get_by_role("menuitem", name="Sign out").click()
        await page.get_by_role("button", name=f"Continue at {host}").click()
        await page.locator("input[name=sub]").fill("ada")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Signed in as ada")).to_be_visible()
    async with console(world, chrome, others=[host, STYLES]) as shown:
        page = shown.page
        await shown.open()
        await page.get_by_role("button", name=f"Continue at {host}").click()
        await page.locator("input[name=sub]").fill("mallory")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert").filter(has_text="No account here")).to_be_visible()
        await shown.picture("sign-in-unknown")
