"""Settings in the console: one's own account, administrators, API tokens, and what the controller is."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from culvert_db import Admin
from playwright.async_api import Browser, Locator, Page, expect
from pyotp.totp import TOTP
from sqlalchemy import update

from .conftest import World
from .console_page import BUILT, administrator, chromium_running, console
from .test_admins import PASSWORD, browser, signed_in
from .test_proofs import grows_old

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]
NEW_PASSWORD = "incorrect horse battery"


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


async def prove(dialog: Locator, code: str) -> None:
    await dialog.locator("input[autocomplete=current-password]").fill(PASSWORD)
    await dialog.get_by_role("textbox", name="Code").fill(code)


async def code_of(world: World, secret: str) -> str:
    """A code that is accepted, also after other codes in the same 30 seconds."""
    async with world.database.begin() as session:
        await session.execute(update(Admin).values(last_used_step=0))
    return TOTP(secret).now()


async def part(page: Page, name: str) -> None:
    await page.get_by_role("tab", name=name).click()


async def test_an_administrator_changes_their_own_account(world: World, running: Browser) -> None:
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        # Somewhere else too.
        assert (await olga.sign_in()).status_code == 200
        proof = {"password": PASSWORD, "code": olga.code()}
        first = (await olga.ask("POST", "/session/recovery-codes", proof)).json()["codes"]
        page, dialog = shown.page, shown.page.get_by_role("dialog")
        await shown.open("settings")
        await shown.sign_in_as("olga", first[0])
        await expect(page.get_by_role("region", name="Sessions").get_by_role("row")).to_have_count(2)
        await shown.picture("settings-account")
        await page.get_by_role("button", name="Sign out session 2").click()
        await expect(page.get_by_role("region", name="Sessions").get_by_role("row")).to_have_count(1)
        assert (await olga.client.get("/api/v1/session")).status_code == 401

        await page.get_by_role("button", name="Make new codes").click()
        await prove(dialog, "000000")
        await dialog.get_by_role("button", name="Make new codes").click()
        # The form has no name.
        await expect(dialog.get_by_role("alert")).to_contain_text("Wrong password or code")
        await expect(dialog.get_by_role("alert")).not_to_contain_text("name")
        await shown.picture("settings-codes-refused")
        await prove(dialog, first[1])
        await dialog.get_by_role("button", name="Make new codes").click()
        await expect(dialog.locator("[data-codes] code")).to_have_count(10)
        codes = await dialog.locator("[data-codes] code").all_inner_texts()
        assert len(set(codes)) == 10
        await dialog.get_by_role("button", name="I have saved them").click()

        await expect(page.get_by_role("region", name="Recovery codes")).to_contain_text("10 are left")
        # Each stands in for a code once.
        await page.get_by_role("button", name="Set up a new authenticator").click()
        await prove(dialog, codes[0])
        await dialog.get_by_role("button", name="Continue").click()
        secret = await dialog.locator("[data-secret]").inner_text()
        await shown.picture("settings-authenticator")
        await dialog.get_by_role("textbox", name="A code that it shows").fill(TOTP(secret).now())
        await dialog.get_by_role("button", name="Use this authenticator").click()
        await expect(dialog).to_have_count(0)

        # The recovery codes ended with the old authenticator.
        await expect(page.get_by_role("region", name="Recovery codes")).to_contain_text("You have none")
        await page.get_by_role("region", name="Sessions").scroll_into_view_if_needed()
        await shown.picture("settings-sessions")
        await page.get_by_role("button", name="Change password").click()
        await prove(dialog, await code_of(world, secret))
        await dialog.get_by_label("New password").fill("short")
        await dialog.get_by_role("button", name="Change password").click()
        await expect(dialog.get_by_text("Must have at least 12 characters")).to_be_visible()
        await shown.picture("settings-password")
        await dialog.get_by_label("New password").fill(NEW_PASSWORD)
        await dialog.get_by_role("button", name="Change password").click()
        await expect(page.get_by_text("Your password is changed")).to_be_visible()
        assert (await olga.sign_in(NEW_PASSWORD, codes[1])).status_code == 401
        assert (await olga.sign_in(PASSWORD, await code_of(world, secret))).status_code == 401
        assert (await olga.sign_in(NEW_PASSWORD, await code_of(world, secret))).status_code == 200
        # The page has gone on under the session's new cookie.
        await page.get_by_role("button", name="Sign out session 1").click()
        await expect(page.get_by_role("region", name="Sessions").get_by_role("row")).to_have_count(1)


async def test_an_owner_invites_promotes_and_deletes_administrators(world: World, running: Browser) -> None:
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page, dialog = shown.page, shown.page.get_by_role("dialog")
        await shown.open("settings?part=administrators")
        await shown.sign_in(olga)
        await page.get_by_role("button", name="Invite an administrator").click()
        await dialog.get_by_label("Auditor").check()
        await dialog.get_by_role("button", name="Make a link").click()
        link = await dialog.get_by_role("textbox", name="Invitation").input_value()
        await shown.picture("settings-invite")
        await dialog.get_by_role("button", name="Done").click()
        async with browser(world, "adam") as adam:
            assert (await adam.set_up(link.split("token=")[1])).status_code == 201
            assert (await adam.sign_in()).status_code == 200
            table = page.get_by_role("table", name="Administrators")
            await expect(table).to_contain_text("adam")
            await (
                page.get_by_role("combobox", name="Role of adam")
                .or_(page.get_by_label("Role of adam"))
                .first.click()
            )
            await page.get_by_role("option", name="Admin", exact=True).click()
            await expect(dialog).to_contain_text("From Auditor to Admin")
            await shown.picture("settings-administrators")
            await dialog.get_by_role("button", name="Change the role").click()
            await expect(page.get_by_text("The role of adam is Admin now")).to_be_visible()
            assert (await adam.client.get("/api/v1/session")).json()["role"] == "admin"
            await page.get_by_role("button", name="Delete adam").click()
            await dialog.get_by_role("button", name="Delete").click()
            await expect(table).not_to_contain_text("adam")
            assert (await adam.client.get("/api/v1/session")).status_code == 401
        # There is always an owner.
        await page.get_by_role("button", name="Delete olga").click()
        await dialog.get_by_role("button", name="Delete").click()
        await expect(dialog.get_by_role("alert")).to_be_visible()
        await shown.picture("settings-last-owner")


async def test_owners_are_told_what_others_do_until_they_dismiss_it(world: World, running: Browser) -> None:
    async with (
        administrator(world, "olga", "owner") as olga,
        signed_in(world, "bob", "owner") as bob,
        console(world, running) as shown,
    ):
        page, dialog = shown.page, shown.page.get_by_role("dialog")
        await shown.open("settings?part=administrators")
        await shown.sign_in(olga)
        notices = page.get_by_role("status").filter(has_text="Access to this controller")
        await expect(page.get_by_role("table", name="Administrators")).to_contain_text("bob")
        await expect(notices).to_have_count(0)
        asked: list[tuple[str, str, object]] = [
            ("POST", "/tokens", {"name": "ci", "scopes": ["read"]}),
            ("POST", "/admins/invitations", {"role": "owner"}),
            ("POST", "/session/recovery-codes", {"password": PASSWORD, "code": bob.code()}),
        ]
        for method, path, body in asked:
            assert (await bob.ask(method, path, body)).is_success
        await expect(notices).to_contain_text("bob made new recovery codes, from 127.0.0.1.")
        await expect(notices).to_contain_text("bob invited somebody as Owner, from 127.0.0.1.")
        await expect(notices).to_contain_text("bob made the API token ci (read), from 127.0.0.1.")
        await shown.picture("settings-notices")
        await notices.get_by_role("button", name="Dismiss").click()
        await expect(notices).to_have_count(0)

        invitations = page.get_by_role("table", name="Open invitations")
        await expect(invitations).to_contain_text("by bob")
        await page.get_by_role("button", name="Withdraw invitation 1").click()
        await expect(invitations).to_have_count(0)
        await page.get_by_role("button", name="Delete bob").click()
        await expect(dialog).to_contain_text("These API tokens that bob made end too: ci")
        await shown.picture("settings-delete-owner")
        await dialog.get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("table", name="Administrators")).not_to_contain_text("bob")
        assert await world.rest("GET", "/tokens") == []


async def test_a_token_is_shown_once_and_does_what_its_scopes_say(world: World, running: Browser) -> None:
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page, dialog = shown.page, shown.page.get_by_role("dialog")
        await shown.open("settings?part=tokens")
        await shown.sign_in(olga)
        await expect(page.get_by_role("heading", name="No tokens")).to_be_visible()
        await page.get_by_role("button", name="Make a token").click()
        await dialog.get_by_role("textbox", name="Name").fill("No Name")
        await dialog.get_by_role("combobox", name="Scopes").or_(dialog.get_by_label("Scopes")).first.click()
        await page.get_by_role("option", name="users:read").click()
        await page.keyboard.press("Escape")
        await dialog.get_by_role("button", name="Make the token").click()
        await expect(dialog.get_by_text("Must have 1 to 63 lower-case letters")).to_be_visible()
        await shown.picture("settings-token-fault")
        await dialog.get_by_role("textbox", name="Name").fill("ci")
        await dialog.get_by_role("button", name="Make the token").click()
        token = await dialog.get_by_role("textbox", name="Token").input_value()
        await shown.picture("settings-token")
        bearer = {"Authorization": f"Bearer {token}"}
        assert (await world.anyone.get("/api/v1/users", headers=bearer)).status_code == 200
        assert (await world.anyone.get("/api/v1/policies", headers=bearer)).status_code == 403
        await dialog.get_by_role("button", name="Done").click()
        await expect(page.get_by_role("table", name="API tokens")).to_contain_text("users:read")
        assert token not in await page.content()
        await shown.picture("settings-tokens")
        await page.get_by_role("button", name="Revoke ci").click()
        await dialog.get_by_role("button", name="Revoke").click()
        await expect(page.get_by_role("heading", name="No tokens")).to_be_visible()
        assert (await world.anyone.get("/api/v1/users", headers=bearer)).status_code == 401


async def test_a_proof_is_asked_for_and_the_call_is_repeated(world: World, running: Browser) -> None:
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page, dialog = shown.page, shown.page.get_by_role("dialog")
        await shown.open("settings?part=tokens")
        await shown.sign_in(olga)
        await expect(page.get_by_role("heading", name="No tokens")).to_be_visible()
        await grows_old(world)
        await page.get_by_role("button", name="Make a token").click()
        await dialog.get_by_role("textbox", name="Name").fill("ci")
        await dialog.get_by_role("combobox", name="Scopes").or_(dialog.get_by_label("Scopes")).first.click()
        await page.get_by_role("option", name="users:read").click()
        await page.keyboard.press("Escape")
        await dialog.get_by_role("button", name="Make the token").click()
        asked = page.get_by_role("dialog", name="Confirm your identity")
        await prove(asked, "000000")
        await asked.get_by_role("button", name="Continue").click()
        await expect(asked.get_by_role("alert")).to_be_visible()
        await shown.picture("settings-proof")
        # After a cancelled proof, the form keeps its values.
        await asked.get_by_role("button", name="Cancel").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("needs a proof")
        await dialog.get_by_role("button", name="Make the token").click()
        await prove(asked, olga.code())
        await asked.get_by_role("button", name="Continue").click()
        await expect(dialog.get_by_role("textbox", name="Token")).to_be_visible()
        await dialog.get_by_role("button", name="Done").click()
        # The page goes on under the session's new cookie.
        await page.get_by_role("button", name="Revoke ci").click()
        await dialog.get_by_role("button", name="Revoke").click()
        await expect(page.get_by_role("heading", name="No tokens")).to_be_visible()


async def test_an_auditor_sees_the_controller_and_the_administrators(world: World, running: Browser) -> None:
    async with administrator(world, "arno", "auditor") as arno, console(world, running, narrow=True) as shown:
        page = shown.page
        await shown.open("settings?part=controller")
        await shown.sign_in(arno)
        facts = await world.rest("GET", "/controller")
        await expect(page.get_by_role("table", name="This controller")).to_contain_text(facts["version"])
        late = page.get_by_role("row", name="Expired certificates")
        await expect(late).to_contain_text("can be renewed with a code for 30 days")
        await late.scroll_into_view_if_needed()
        await shown.picture("narrow-settings-expired-certificates")
        certificates = page.get_by_role("table", name="Certificates")
        assert [one["kind"] for one in facts["certificates"]] == ["ca", "ca", "ca", "server", "client"]
        await expect(certificates.get_by_role("row")).to_have_count(5)
        await shown.picture("narrow-settings-controller")
        for name, hidden in (
            ("Administrators", "Invite an administrator"),
            ("API tokens", "Make a token"),
        ):
            await part(page, name)
            await expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
            await expect(page.get_by_role("button", name=hidden)).to_have_count(0)
        await part(page, "Your account")
        await expect(page.get_by_role("button", name="Change password")).to_be_visible()
        await shown.picture("narrow-settings-account")
        assert "part=account" in page.url
