"""Policies and groups in the console: what a change would do, that it does that, and its undoing."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from culvert_lab.console import NARROW, WIDE
from playwright.async_api import Browser, Page, expect
from sqlalchemy import text

from .conftest import World, next_event, until
from .console_page import BUILT, administrator, chromium_running, console
from .switch import Switch
from .test_console import HOSTILE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


async def choose(page: Page, field: str, option: str) -> None:
    await page.get_by_role("combobox", name=field, exact=True).click()
    await page.get_by_role("option", name=option, exact=True).click()


@pytest.fixture
async def people(world: World, switch: Switch) -> None:
    """Alice has a tunnel to the wiki by a policy of her own; bob and carol reach nothing."""
    for name in ("bob", "carol"):
        await world.rest("POST", "/users", {"name": name, "email": f"{name}@corp.example"})
    await world.rest("POST", "/groups", {"name": "writers", "members": ["alice", "bob"]})
    await world.rest("DELETE", "/policies/alice%20to%20wiki")


async def test_a_policy_from_its_effect_to_its_end_and_back(
    world: World, running: Browser, people: None
) -> None:
    for version in ("12", "13"):
        await next_event((await world.enrol()).watch({"os_id": "debian", "os_version": version}), "profile")
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        effect = page.get_by_role("region", name="Effect of this change")
        sources = page.get_by_role("combobox", name="Only from these addresses")
        await shown.open("policies")
        await shown.sign_in(olga)
        await expect(page.get_by_role("heading", name="No policies yet")).to_be_visible()
        await shown.picture("policies-none")
        await page.get_by_role("link", name="Add a policy").first.click()
        name = page.get_by_role("textbox", name="Name", exact=True)
        # An empty field that has to be filled is not behind the fixed header.
        await page.get_by_role("button", name="Add it").click()
        await expect(name).to_be_focused()
        place = await name.bounding_box()
        header = await page.get_by_role("banner").bounding_box()
        assert place
        assert header
        assert place["y"] >= header["height"]
        await choose(page, "Group", "writers")
        await choose(page, "May reach", "wiki")
        await page.keyboard.press("Escape")
        await expect(name).to_have_value("writers to wiki")
        await name.fill("Writers reach the wiki")
        await choose(page, "May reach", "wiki")
        await choose(page, "May reach", "wiki")
        await page.keyboard.press("Escape")
        await expect(name).to_have_value("Writers reach the wiki")
        await expect(effect).to_contain_text("2 people get access: alice, bob")
        await page.get_by_label("Code at most this old").fill("30")
        await page.get_by_role("button", name="Set hours").click()
        for day in ("Sat", "Sun"):
            await page.get_by_text(day, exact=True).click()
        await page.get_by_label("From 1").fill("00:00")
        await page.get_by_label("To 1").fill("00:00")
        await sources.fill("10.0.0.0/33")
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name="Add it").click()
        # The message stands at the field with the error.
        await expect(page.get_by_text("Must be a prefix such as 203.0.113.0/24")).to_be_visible()
        await expect(sources).to_have_attribute("aria-invalid", "true")
        computer = page.get_by_role("group", name="Facts about the computer")
        await computer.get_by_role("button", name="Ask for a fact").click()
        # Those that devices report stand first, and others can be asked for too.
        await computer.get_by_role("combobox", name="Fact 1").click()
        facts = page.get_by_role("option")
        await expect(facts.nth(1)).to_contain_text("distributionos_id · 2 devices")
        await page.get_by_role("option", name="disk_encryption").click()
        chosen = computer.get_by_role("combobox", name="Fact 1")
        await expect(chosen).to_have_value("disk encryption")
        await computer.get_by_role("combobox", name="Values 1").fill("on")
        await page.keyboard.press("Enter")
        await computer.get_by_role("button", name="Another fact").click()
        await computer.get_by_role("combobox", name="Fact 2").click()
        await page.get_by_role("option", name="os_id").click()
        await computer.get_by_role("combobox", name="Values 2").click()
        await expect(facts).to_have_text(["debian2 devices"])
        await facts.click()
        await page.keyboard.press("Escape")
        await computer.get_by_role("button", name="Remove fact 2").click()
        await computer.get_by_role("button", name="Another fact").click()
        await computer.get_by_role("combobox", name="Fact 2").click()
        await page.get_by_role("option", name="os_version").click()
        await choose(page, "How 2", "is at least version")
        await computer.get_by_role("combobox", name="Version 2").fill("twelve")
        await page.get_by_role("button", name="Add it").click()
        field = computer.get_by_label("Version 2", exact=True)
        await expect(field).to_have_attribute("aria-invalid", "true")
        await expect(computer.get_by_text("Must be a version, such as 12 or 6.1")).to_be_visible()
        await shown.picture("policy-fault")
        await page.set_viewport_size(NARROW)
        await computer.scroll_into_view_if_needed()
        await shown.picture("narrow-policy-posture")
        await page.set_viewport_size(WIDE)
        await computer.get_by_role("combobox", name="Version 2").fill("12")
        await computer.get_by_role("button", name="Remove fact 1").click()
        await sources.press("Backspace")
        await sources.fill("127.0.0.0/8")
        await page.keyboard.press("Enter")
        await shown.picture("policy-new")
        await page.get_by_role("button", name="Add it").click()
        table = page.get_by_role("table", name="Policies")
        await expect(table).to_contain_text(
            "code at most 30 min old; Mon–Sun 00:00–00:00 (UTC); from 127.0.0.0/8; operating system version 12 or later"
        )
        made = await world.rest("GET", "/policies/Writers%20reach%20the%20wiki")
        assert made["conditions"]["code_max_age_seconds"] == 1800
        assert made["conditions"]["sources"] == ["127.0.0.0/8"]
        [asked] = made["conditions"]["posture"]
        assert asked == {"fact": "os_version", "one_of": [], "at_least": "12"}

        device = await world.enrol()
        await device.prove()
        # An empty stream still tells what the computer is.
        await next_event(device.watch({"os_version": "12"}), "profile")
        await device.open()
        await table.get_by_role("link", name="Writers reach the wiki").click()
        await page.get_by_role("switch", name="In force").click()
        await expect(effect).to_contain_text("2 people lose access: alice, bob")
        await expect(effect).to_contain_text("Closes 1 tunnel")
        await shown.picture("policy-effect")
        # Another administrator saves first.
        await world.rest("PUT", "/policies/Writers%20reach%20the%20wiki", changed(made))
        await page.get_by_role("button", name="Save").click()
        both = page.get_by_role("dialog")
        await expect(both).to_contain_text("Current version")
        await shown.picture("policy-conflict")
        await both.get_by_role("button", name="Keep theirs").click()
        await expect(page.get_by_label("Code at most this old")).to_have_value("10 min")
        assert len(await world.rest("GET", "/tunnels")) == 1

        await page.get_by_role("button", name="Delete").click()
        await expect(both).to_contain_text("2 people lose access")
        await expect(both).to_contain_text("Closes 1 tunnel")
        await shown.picture("policy-delete")
        before = await world.rest("GET", "/policies/Writers%20reach%20the%20wiki")
        await both.get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("Writers reach the wiki is deleted, 1 tunnel closed")).to_be_visible()
        assert await world.rest("GET", "/policies") == []
        await shown.picture("policy-undo")
        await page.get_by_role("button", name="Undo").click()
        await expect(table.get_by_role("link", name="Writers reach the wiki")).to_be_visible()
        again = await world.rest("GET", "/policies/Writers%20reach%20the%20wiki")
        new = {"created_at": None, "usage": None}
        assert again | new == before | new


def changed(policy: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in policy.items() if name != "created_at"}
    return rest | {"conditions": rest["conditions"] | {"code_max_age_seconds": 600}}


async def test_the_access_check_leads_to_a_policy_with_its_fields_filled(
    world: World, running: Browser, people: None
) -> None:
    await world.enrol("bob")
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("access?user=bob&name=wiki.corp.example")
        await shown.sign_in(olga)
        await page.get_by_role("link", name="Add a policy for bob").click()
        await expect(page.get_by_role("textbox", name="Name", exact=True)).to_have_value("bob to wiki")
        effect = page.get_by_role("region", name="Effect of this change")
        await expect(effect).to_contain_text("1 person gets access: bob")
        await shown.picture("policy-new-filled")
        # The effect needs no name.
        await page.get_by_role("textbox", name="Name", exact=True).fill("")
        await expect(effect).to_contain_text("1 person gets access: bob")
        await page.get_by_role("textbox", name="Name", exact=True).fill("bob reads")
        await page.get_by_role("button", name="Add it").click()
        await expect(page.get_by_text("bob reads is in force")).to_be_visible()
        # Back at the check, which is done anew.
        answer = page.get_by_role("region", name="Answer to laptop")
        await expect(answer).to_contain_text("Policy “bob reads” is for this person and this resource.")
        await shown.open("policies/of/bob%20reads")
        await page.get_by_label("Only from a device that an administrator has approved").click()
        await expect(effect).to_contain_text("The same people may reach it, where the conditions are met")
        await shown.open("policies/new?user=bob&resource=wiki")
        await world.rest("DELETE", "/policies/bob%20reads")
        await page.get_by_label("Only from a device that an administrator has approved").click()
        await expect(effect).to_contain_text(
            "1 person gets access once a device of theirs meets the conditions: bob"
        )
        await expect(effect.get_by_role("link", name="Show the devices")).to_have_attribute(
            "href", "/console/devices?user=bob"
        )
        await shown.picture("policy-waiting")
        await page.set_viewport_size(NARROW)
        await effect.scroll_into_view_if_needed()
        await shown.picture("narrow-policy-waiting")
        await page.set_viewport_size(WIDE)
        await shown.open("access?user=bob&name=new.corp.example")
        await page.get_by_role("link", name="Add a resource with this name").click()
        await expect(page.get_by_role("textbox", name="Name that people open")).to_have_value(
            "new.corp.example"
        )
        await expect(page.get_by_role("textbox", name="Short name")).to_have_value("new")


async def test_a_policy_that_nobody_uses_is_offered_for_deletion(
    world: World, running: Browser, people: None
) -> None:
    for name in ("Writers read the wiki", "Last year's audit"):
        await world.rest("POST", "/policies", {"name": name, "group": "writers", "resources": ["wiki"]})
    year_ago = "UPDATE policies SET created_at = now() - interval '1 year' WHERE name LIKE 'Last%'"
    async with world.database.begin() as session:
        await session.execute(text(year_ago))
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("")
        await shown.sign_in(olga)
        await page.get_by_role("link", name="1 policy that nobody has used for 90 days").click()
        table = page.get_by_role("table", name="Policies")
        rows = table.get_by_role("row")
        await expect(rows).to_have_count(2)
        await expect(rows.nth(1)).to_contain_text("Last year's audit")
        await expect(rows.nth(1)).to_contain_text("not since")
        await shown.picture("policies-unused")
        await page.set_viewport_size(NARROW)
        await shown.picture("narrow-policies-unused")
        await page.set_viewport_size(WIDE)
        await page.get_by_text("Not used for 90 days").click()
        await expect(rows).to_have_count(3)
        await expect(table).to_contain_text("not used yet")
        # Only the unused one is offered.
        await expect(table.get_by_role("button", name="Delete")).to_have_count(1)
        await shown.picture("policies-used")
        await table.get_by_role("button", name="Delete Last year's audit").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("No open tunnels will be closed")
        await dialog.get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("Last year's audit is deleted")).to_be_visible()
        await expect(dialog).to_be_hidden()
        await expect(rows).to_have_count(2)
        await page.get_by_role("link", name="Overview").click()
        await expect(page.get_by_role("region", name="Needs you")).to_contain_text("Nothing: no device waits")


async def test_a_changed_resource_shows_what_it_cuts_before_it_is_saved(
    world: World, running: Browser, switch: Switch
) -> None:
    await world.rest("POST", "/users", {"name": "bob", "email": "bob@corp.example"})
    zone = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
    await world.rest("POST", "/dns/zones", zone)
    device = await world.enrol()
    await device.prove()
    await device.open()
    async with administrator(world, "adam", "admin") as adam, console(world, running) as shown:
        page = shown.page
        effect = page.get_by_role("region", name="Effect of this change")
        await shown.open("resources/of/wiki")
        await shown.sign_in(adam)
        await expect(page.get_by_text("1 open tunnel")).to_be_visible()
        await expect(effect).to_have_count(0)
        await page.get_by_label("Owner").fill("carol@corp.example")
        await expect(effect).to_contain_text("No open tunnels will be closed")
        await page.get_by_label("Address or prefix 1").fill("10.20.0.300")
        await expect(effect).to_contain_text("correct the fields above first")
        await page.get_by_label("Address or prefix 1").fill("10.20.0.0/24")
        await expect(effect).to_contain_text("Withdraw A and TXT for wiki.corp.example from corp.example")
        await expect(effect).to_contain_text("Closes 1 tunnel")
        await page.get_by_label("Address or prefix 1").fill("10.20.0.10")
        await page.get_by_label("Name that people open").fill("w.corp.example")
        await page.get_by_role("combobox", name="People").press("Backspace")
        await choose(page, "People", "bob")
        await page.keyboard.press("Escape")
        for line in (
            "Publish A and TXT for w.corp.example in corp.example",
            "Withdraw A and TXT for wiki.corp.example from corp.example",
            "1 person gets access: bob",
            "1 person loses access: alice",
            "Closes 1 tunnel",
        ):
            await expect(effect).to_contain_text(line)
        await effect.scroll_into_view_if_needed()
        await shown.picture("resource-effect")
        await page.set_viewport_size(NARROW)
        await effect.scroll_into_view_if_needed()
        await shown.picture("narrow-resource-effect")
        await page.set_viewport_size(WIDE)
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("w.corp.example is saved")).to_be_visible()
        await expect(page.get_by_text("No tunnel is open")).to_be_visible()
        await expect(effect).to_have_count(0)


async def test_the_gateways_of_a_resource_have_weights_and_its_keys_have_limits(
    world: World, running: Browser, switch: Switch
) -> None:
    await world.add_gateway("gw-paris", 9, 2)
    async with administrator(world, "adam", "admin") as adam, console(world, running) as shown:
        page = shown.page
        await shown.open("resources/of/wiki")
        await shown.sign_in(adam)
        weights = page.get_by_role("button", name="Weights of the gateways")
        await expect(page.get_by_label("Owner")).to_have_value("bob@corp.example")
        # One gateway needs no weight.
        await expect(weights).to_have_count(0)
        await choose(page, "Gateways", "gw-paris")
        await page.keyboard.press("Escape")
        await weights.click()
        await page.get_by_role("switch", name="Spread devices over the gateways by weight").click()
        await page.get_by_role("textbox", name="Weight of gw-berlin").fill("3")
        await page.get_by_role("textbox", name="Weight of gw-paris").fill("2000")
        await page.get_by_role("button", name="Encryption, new keys and idle time").click()
        limits = page.get_by_role("group", name="New keys after")
        await expect(limits.get_by_role("textbox", name="Bytes")).to_have_value("68,719,476,736")
        await limits.get_by_role("textbox", name="Seconds").fill("600")
        await limits.scroll_into_view_if_needed()
        await shown.picture("resource-seldom")
        await page.set_viewport_size(NARROW)
        await limits.scroll_into_view_if_needed()
        await shown.picture("narrow-resource-seldom")
        await page.set_viewport_size(WIDE)
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("wiki.corp.example is saved")).to_be_visible()
        saved = await world.rest("GET", "/resources/wiki")
        # The field keeps to the largest weight.
        assert saved["weights"] == {"gw-berlin": 3, "gw-paris": 1000}
        assert saved["rekey"] == {"soft_packets": 0, "soft_bytes": 2**36, "soft_seconds": 600}
        # The fold is still open.
        await page.get_by_role("switch", name="Spread devices over the gateways by weight").click()
        await page.get_by_role("button", name="Save").click()
        await until(lambda: world.rest("GET", "/resources/wiki"), lambda found: found["weights"] == {})


async def test_a_renamed_group_is_deleted_with_its_policies_and_restored(
    world: World, running: Browser, people: None
) -> None:
    await world.rest("POST", "/policies", {"name": "w", "group": "writers", "resources": ["wiki"]})
    async with administrator(world, "adam", "admin") as adam, console(world, running) as shown:
        page = shown.page
        await shown.open("groups")
        await shown.sign_in(adam)
        await expect(page.get_by_role("table", name="Groups")).to_contain_text("alice, bob")
        await shown.picture("groups")
        await page.get_by_role("link", name="writers").click()
        await page.get_by_role("textbox", name="Name", exact=True).fill("Authors")
        await choose(page, "Members", "carol")
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("textbox", name="Name", exact=True)).to_have_attribute(
            "aria-invalid", "true"
        )
        await page.get_by_role("textbox", name="Name", exact=True).fill("authors")
        effect = page.get_by_role("region", name="Effect of this change")
        await expect(effect).to_contain_text("1 person gets access: carol")
        await shown.picture("group")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("heading", name="authors")).to_be_visible()
        assert (await world.rest("GET", "/groups/authors"))["members"] == ["alice", "bob", "carol"]
        await page.get_by_role("button", name="Delete").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("3 people lose access")
        await expect(dialog).to_contain_text("Deletes its policies: w")
        await shown.picture("group-delete")
        await dialog.get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("heading", name="No groups yet")).to_be_visible()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("link", name="authors")).to_be_visible()
        await expect(page.get_by_text("authors is there again")).to_be_visible()
        (policy,) = await world.rest("GET", "/policies")
        assert (policy["name"], policy["group"], policy["resources"]) == ("w", "authors", ["wiki"])


async def test_undo_restores_a_resource_with_its_policies(
    world: World, running: Browser, people: None
) -> None:
    await world.add_resource("git", ["gw-berlin"], address="10.20.0.10", users=[])
    for policy in (
        {"name": "both", "group": "writers", "resources": ["git", "wiki"]},
        {
            "name": "wiki only",
            "user": "carol",
            "resources": ["wiki"],
            "conditions": {"device_approved": True},
        },
    ):
        await world.rest("POST", "/policies", policy)
    before = [one | {"created_at": 0, "usage": None} for one in await world.rest("GET", "/policies")]
    wiki = await world.rest("GET", "/resources/wiki")
    async with administrator(world, "adam", "admin") as adam, console(world, running) as shown:
        page = shown.page
        await shown.open("resources/of/wiki")
        await shown.sign_in(adam)
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("wiki.corp.example is deleted")).to_be_visible()
        assert [one["resources"] for one in await world.rest("GET", "/policies")] == [["git"]]
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("wiki.corp.example is published again")).to_be_visible()
    assert [one | {"created_at": 0, "usage": None} for one in await world.rest("GET", "/policies")] == before
    assert await world.rest("GET", "/resources/wiki") | {"created_at": 0} == wiki | {"created_at": 0}


async def test_an_auditor_sees_policies_and_groups_and_may_change_none(
    world: World, running: Browser, people: None
) -> None:
    # A policy's name is refused with a character that turns text; older rows are isolated on the page.
    hostile = HOSTILE.replace("/", "|").replace("\u202e", "")[:151]
    await world.rest("POST", "/policies", {"name": hostile, "group": "writers", "resources": ["wiki"]})
    async with administrator(world, "arno", "auditor") as arno, console(world, running, narrow=True) as shown:
        page = shown.page
        await shown.open("policies")
        await shown.sign_in(arno)
        link = page.get_by_role("table", name="Policies").get_by_role("link")
        await expect(link).to_contain_text("<img src=x onerror=alert(1)>")
        await expect(page.get_by_role("link", name="Add a policy")).to_have_count(0)
        await shown.picture("narrow-policies-hostile")
        await link.click()
        await expect(page.get_by_role("textbox", name="Name", exact=True)).to_be_disabled()
        for name in ("Delete", "Save"):
            await expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
        await shown.picture("narrow-policy-hostile")
        await shown.open("groups/of/writers")
        await expect(page.get_by_role("textbox", name="Name", exact=True)).to_be_disabled()
        await expect(page.get_by_role("button", name="Delete")).to_have_count(0)


async def test_an_assertion_is_added_refuses_a_change_and_is_deleted(
    world: World, running: Browser, people: None
) -> None:
    await world.rest("POST", "/policies", {"name": "w", "group": "writers", "resources": ["wiki"]})
    async with administrator(world, "adam", "admin") as adam, console(world, running) as shown:
        page = shown.page
        await shown.open("assertions")
        await shown.sign_in(adam)
        await expect(page.get_by_role("heading", name="No assertions yet")).to_be_visible()
        await page.get_by_role("button", name="Add an assertion").first.click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_text("One person").click()
        await choose(page, "Person", "bob")
        await dialog.get_by_text("can reach", exact=True).click()
        await dialog.get_by_role("combobox", name="Name").fill("wiki.corp.example")
        await dialog.get_by_role("button", name="Add it").click()
        await expect(page.get_by_text("The assertion is added, and holds")).to_be_visible()
        table = page.get_by_role("table", name="Assertions")
        await expect(table).to_contain_text("bob can reach wiki.corp.example")
        await shown.picture("assertions")
        await shown.open("groups/of/writers")
        await page.get_by_role("combobox", name="Members").press("Backspace")
        effect = page.get_by_role("region", name="Effect of this change")
        await expect(effect.get_by_role("alert")).to_contain_text("bob can reach wiki.corp.example")
        await expect(page.get_by_role("button", name="Save")).to_be_disabled()
        await shown.picture("assertion-broken")
        # Without the assertion, the same change may be saved.
        number = (await world.rest("GET", "/assertions"))[0]["id"]
        await world.rest("DELETE", f"/assertions/{number}")
        await expect(page.get_by_role("button", name="Save")).to_be_enabled()
        asserted = {"user": "bob", "name": "wiki.corp.example", "reaches": True}
        await world.rest("POST", "/assertions", asserted)
        await expect(page.get_by_role("button", name="Save")).to_be_disabled()
        for place in ("policies/of/w", "resources/of/wiki", "people/of/bob"):
            await shown.open(place)
            await page.get_by_role("button", name="Delete").click()
            await expect(dialog.get_by_role("alert")).to_contain_text("bob can reach wiki.corp.example")
            await expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
        await dialog.get_by_role("link", name="Show the assertions").click()
        await page.get_by_role("button", name="Delete: bob can reach wiki.corp.example").click()
        await dialog.get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("heading", name="No assertions yet")).to_be_visible()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("The assertion is there again")).to_be_visible()
        await expect(table).to_contain_text("bob can reach wiki.corp.example")
