"""The console says why: the tracer's answer is the decision itself, and the log has what was refused."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from urllib.parse import quote

import pytest
from culvert_lab.console import NARROW, WIDE
from playwright.async_api import Browser, expect
from sqlalchemy import text

from .conftest import World, refused
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


async def test_the_access_check_shows_the_decision(world: World, running: Browser, switch: Switch) -> None:
    await world.add_resource("git", ["gw-berlin"], address="10.20.0.10", users=[])
    await world.rest("POST", "/users", {"name": "bob", "email": "bob@corp.example"})
    await world.rest("POST", "/groups", {"name": "readers", "members": ["bob"]})
    await world.rest("POST", "/policies", {"name": "reading", "group": "readers", "resources": ["wiki"]})
    device = await world.enrol()
    await device.prove()
    denied = await refused(device.open("git.corp.example"))
    async with administrator(world, "arno", "auditor") as arno, console(world, running) as shown:
        page = shown.page
        await shown.open("access")
        await shown.sign_in(arno)
        await page.get_by_role("combobox", name="Person").fill("bob@")
        await page.get_by_role("option", name="bob").click()
        name = page.get_by_role("combobox", name="Name")
        await name.fill("git_!.corp.example")
        await page.get_by_role("button", name="Check").click()
        await expect(name).to_have_accessible_description(re.compile("cannot stand in a name"))
        await expect(page.get_by_role("alert")).to_have_count(0)
        await shown.picture("why-fault")
        # The host of a pasted address is the name.
        await name.fill("https://git.corp.example:8443/wiki?page=1")
        await page.get_by_role("button", name="Check").click()
        await expect(name).to_have_value("git.corp.example")
        without = page.get_by_role("alert")
        await expect(without).to_contain_text("No policy lets bob reach this name either")
        await page.get_by_role("combobox", name="Name").fill("Wiki.corp.example.")
        await page.get_by_role("button", name="Check").click()
        await expect(without).to_contain_text("these policies decide about wiki.corp.example:")
        await expect(without).to_contain_text("for the group readers")
        await shown.picture("why-without-device")
        # A display name that two people have, and then one that is hers alone.
        people = [("jm", "jm@corp.example"), ("juergen", "j@corp.example")]
        for name, email in people:
            body = {"name": name, "display_name": "Jürgen Müller", "email": email}
            await world.rest("POST", "/users", body)
        person = page.get_by_role("combobox", name="Person")
        await person.fill("Jürgen Müller")
        await expect(page.get_by_role("option", name="Jürgen Müller (juergen)")).to_be_visible()
        await shown.picture("why-suggested")
        await page.get_by_role("button", name="Check").click()
        await expect(page.get_by_text("Several people have this name: jm or juergen.")).to_be_visible()
        alice = {"email": "alice@corp.example", "display_name": "Alice Ångström"}
        await world.rest("PUT", "/users/alice", alice)
        await person.fill("alice ångström")
        await page.get_by_role("combobox", name="Name").fill("git.corp.example")
        await page.get_by_role("button", name="Check").click()
        await expect(person).to_have_value("alice")
        await world.rest("PUT", "/users/alice", {"email": alice["email"]})
        answer = page.get_by_role("region", name="Answer to laptop")
        await expect(answer).to_contain_text(denied.message)
        # The administrator's remedy, and not the person's.
        await expect(answer).not_to_contain_text(denied.remedy)
        await expect(answer.get_by_role("link", name="Add a policy for alice")).to_be_visible()
        await shown.picture("why-not")
        await page.get_by_role("combobox", name="Name").fill("wiki")
        await page.get_by_role("button", name="Check").click()
        await expect(answer).to_contain_text("yes, through gw-berlin")
        await expect(answer).to_contain_text("wiki.corp.example is the name of a resource.")
        await expect(answer).to_contain_text("A code is valid, for which policy “alice to wiki” asks.")
        await shown.picture("why")
        switch.silent = True
        await expect(answer).to_contain_text("gw-berlin cannot be reached")
        switch.silent = False
        await expect(answer).to_contain_text("yes, through gw-berlin")
        await device.open()

        # The answer follows a change that another administrator makes.
        await world.rest("DELETE", f"/policies/{quote('alice to wiki')}")
        remedy = answer.get_by_role("link", name="Add alice to the group readers, which may reach it")
        await expect(remedy).to_be_visible()
        await shown.picture("why-group")
        await page.set_viewport_size(NARROW)
        await shown.picture("narrow-why-group")
        await page.set_viewport_size(WIDE)
        await remedy.click()
        await expect(page.get_by_role("heading", name="readers")).to_be_visible()

        await page.get_by_role("link", name="Activity").click()
        log = page.get_by_role("table", name="Activity")
        await expect(log).to_contain_text("laptop of alice opened wiki.corp.example through gw-berlin")
        await expect(page.get_by_role("status", name="The log's chains")).to_contain_text("unchanged")
        await shown.picture("activity")
        await page.get_by_role("combobox", name="Outcome").click()
        await page.get_by_role("option", name="denied").click()
        await expect(log).to_contain_text(denied.message)
        assert "outcome=denied" in page.url
        await shown.picture("activity-denied")
        await log.get_by_role("link", name="Check access").click()
        await expect(page.get_by_text("As of ")).to_be_visible()
        # The remedy is for now.
        await expect(answer.get_by_role("link", name="Add a policy for alice")).to_be_visible()
        await page.go_back()
        policy = {"name": "alice to git", "user": "alice", "resources": ["git"]}
        await world.rest("POST", "/policies", policy)
        await log.get_by_role("link", name="Check access").click()
        await expect(page.get_by_text("As of ")).to_be_visible()
        await expect(answer).to_contain_text(denied.message)
        await expect(answer).to_contain_text("Now: yes, through gw-berlin")
        await expect(answer.get_by_role("link", name="Add a policy for alice")).to_have_count(0)
        await shown.picture("why-then")
        await page.get_by_role("link", name="Check for now").click()
        await expect(answer).to_contain_text("yes, through gw-berlin")
        await expect(page.get_by_label("Time")).to_have_value("")
        await page.go_back()
        await expect(answer).to_contain_text(denied.message)
        await expect(page.get_by_label("Time")).not_to_have_value("")
        await page.go_back()
        # A line that is written now shows by itself.
        await refused(device.open("nobody.corp.example"))
        await expect(log.get_by_text("denied", exact=True)).to_have_count(2)
        async with page.expect_download() as taken:
            await page.get_by_role("link", name="Export").click()
        exported = (await (await taken.value).path()).read_text().splitlines()
        assert len(exported) == 2
        await page.get_by_role("combobox", name="Act", exact=True).fill("signed in")
        await page.get_by_role("option", name="administrator: signed in").click()
        await expect(page.get_by_role("heading", name="No matching lines")).to_be_visible()
        await page.get_by_role("button", name="Show all").click()
        await page.get_by_role("combobox", name="Person").fill("ali")
        await page.get_by_role("option", name="alice").click()
        await expect(log).to_contain_text("laptop of alice opened wiki.corp.example")
        await expect(log).not_to_contain_text("signed in")
        await page.get_by_label("Until this day").fill("2020-01-01")
        await expect(page.get_by_label("Until this day")).to_have_accessible_description("Wed, 1 Jan 2020")
        await expect(page.get_by_role("heading", name="No matching lines")).to_be_visible()
        await page.get_by_label("Until this day").fill("2120-01-01")
        await expect(log).to_contain_text("laptop of alice opened wiki.corp.example")
        await page.get_by_role("textbox", name="Actor").fill("nobody")
        await expect(page.get_by_role("heading", name="No matching lines")).to_be_visible()
    async with console(world, running, narrow=True) as shown:
        await shown.open("activity?outcome=denied")
        await shown.sign_in(arno)
        # The time stands below the act where the screen has no room for its column.
        await expect(shown.page.get_by_role("cell").get_by_text("ago").first).to_be_visible()
        await shown.picture("activity-narrow")


async def test_the_access_check_decides_about_a_past_time(
    world: World, running: Browser, switch: Switch
) -> None:
    device = await world.enrol()
    await device.prove()
    async with administrator(world, "arno", "auditor") as arno, console(world, running) as shown:
        page, answer = shown.page, shown.page.get_by_role("region", name="Answer to laptop")
        async with world.database() as session:
            then = (await session.execute(text("SELECT clock_timestamp()"))).scalar_one()
        await world.rest("DELETE", f"/policies/{quote('alice to wiki')}")
        await shown.open(f"access?user=alice&name=wiki.corp.example&at={quote(f'{then:%FT%T.%fZ}')}")
        await shown.sign_in(arno)
        await expect(answer).to_contain_text("yes, through gw-berlin")
        await expect(page.get_by_text("As of ")).to_be_visible()
        await shown.picture("why-past")
        time = page.get_by_label("Time")
        chosen = r"^\d+ \w+ \d{4}, \d\d:\d\d\. Kept since \d"
        await expect(time).to_have_accessible_description(re.compile(chosen))
        await time.fill("")
        await expect(time).to_have_accessible_description(re.compile(r"^Empty: now\. Kept since \d"))
        await page.get_by_role("button", name="Check").click()
        await expect(answer).to_contain_text("No policy lets alice reach wiki.corp.example")
        await time.fill("2020-01-01T10:00")
        await page.get_by_role("button", name="Check").click()
        await expect(time).to_have_accessible_description(
            re.compile("The controller can decide about times since")
        )


async def test_the_access_check_turns_a_policy_on(world: World, running: Browser, switch: Switch) -> None:
    await world.enrol()
    policy = {"name": "alice to wiki", "user": "alice", "resources": ["wiki"]}
    await world.rest("PUT", f"/policies/{quote('alice to wiki')}", policy | {"enabled": False})
    async with administrator(world, "ada", "admin") as ada, console(world, running) as shown:
        page, answer = shown.page, shown.page.get_by_role("region", name="Answer to laptop")
        await shown.open("access?user=alice&name=wiki.corp.example")
        await shown.sign_in(ada)
        await answer.get_by_role("button", name="Turn on the policy “alice to wiki”").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("1 person gets access: alice")
        await shown.picture("why-turn-on")
        await dialog.get_by_role("button", name="Turn on").click()
        await expect(answer).not_to_contain_text("is turned off")
        await page.get_by_role("link", name="Activity").click()
        log = page.get_by_role("table", name="Activity")
        await expect(log).to_contain_text("ada turned policy “alice to wiki” on")
