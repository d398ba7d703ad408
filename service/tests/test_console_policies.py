"""Policies and groups in the console: what a change would do, that it does that, and its undoing."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from culvert_lab.console import NARROW, WIDE
from playwright.async_api import Browser, Page, expect

from .conftest import World, next_event
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
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        effect = page.get_by_role("region", name="Effect of this change")
        sources = page.get_by_role("combobox", name="Only from these addresses")
        await shown.open("policies")
        await shown.sign_in(olga)
        await expect(page.get_by_role("heading", name="No policies yet")).to_be_visible()
        await shown.picture("policies-none")
        await page.get_by_role("link", name="Add a policy").first.click()
        await page.get_by_role("textbox", name="Name", exact=True).fill("Writers reach the wiki")
        await choose(page, "Group", "writers")
        await choose(page, "May reach", "wiki")
        await page.keyboard.press("Escape")
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
        await computer.get_by_role("combobox", name="Fact 1").fill("Disk Encryption")
        await page.keyboard.press("Escape")
        await computer.get_by_role("combobox", name="Values 1").fill("on")
        await page.keyboard.press("Enter")
        await computer.get_by_role("button", name="Another fact").click()
        await computer.get_by_role("combobox", name="Fact 2").fill("os_version")
        await page.keyboard.press("Escape")
        await choose(page, "How 2", "is at least version")
        await computer.get_by_role("textbox", name="Version 2").fill("twelve")
        await page.get_by_role("button", name="Add it").click()
        for label in ("Fact 1", "Version 2"):
            field = computer.get_by_label(label, exact=True)
            await expect(field).to_have_attribute("aria-invalid", "true")
        await expect(computer.get_by_text("Must be a fact's name")).to_be_visible()
        await expect(computer.get_by_text("Must be a version, such as 12 or 6.1")).to_be_visible()
        await shown.picture("policy-fault")
        await page.set_viewport_size(NARROW)
        await computer.scroll_into_view_if_needed()
        await shown.picture("narrow-policy-posture")
        await page.set_viewport_size(WIDE)
        await computer.get_by_role("combobox", name="Fact 1").fill("disk_encryption")
        await computer.get_by_role("textbox", name="Version 2").fill("12")
        await computer.get_by_role("button", name="Remove fact 1").click()
        await sources.press("Backspace")
        await sources.fill("127.0.0.0/8")
        await page.keyboard.press("Enter")
        await shown.picture("policy-new")
        await page.get_by_role("button", name="Add it").click()
        table = page.get_by_role("table", name="Policies")
        await expect(table).to_contain_text(
            "code at most 30 min old; Mon–Sun 00:00–00:00 (UTC); from 127.0.0.0/8; os_version 12 or later"
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
        assert again | {"created_at": 0} == before | {"created_at": 0}


def changed(policy: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in policy.items() if name != "created_at"}
    return rest | {"conditions": rest["conditions"] | {"code_max_age_seconds": 600}}


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
    before = [one | {"created_at": 0} for one in await world.rest("GET", "/policies")]
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
    assert [one | {"created_at": 0} for one in await world.rest("GET", "/policies")] == before
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
