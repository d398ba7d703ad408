"""People and their devices in the console: invited, approved, cut off."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from culvert_lab.console import NARROW
from culvert_proto.invitation_link import parse_invitation
from playwright.async_api import Browser, expect

from .conftest import Device, World, make_csr, next_event, refused
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


async def test_a_person_from_the_invitation_to_the_revocation(
    world: World, running: Browser, switch: Switch
) -> None:
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("people")
        await shown.sign_in(olga)
        await page.get_by_role("button", name="Add a person").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("textbox", name="Display name").fill("Bjørn Ødegård")
        await dialog.get_by_role("textbox", name="E-mail").fill("bob@corp.example")
        await expect(dialog.get_by_role("textbox", name="Login name")).to_have_value("bob")
        await dialog.get_by_role("textbox", name="Login name").fill("Bjørn Ødegård")
        await dialog.get_by_role("button", name="Add and invite").click()
        await expect(dialog.get_by_text("Must have 1 to 63 lower-case letters")).to_be_visible()
        await shown.picture("people-add")
        await dialog.get_by_role("textbox", name="Login name").fill("bob")
        await dialog.get_by_role("button", name="Add and invite").click()
        link = await dialog.get_by_role("textbox", name="Invitation").input_value()
        # The controller's certificate is of its own CA, which the browser does not know.
        line = dialog.get_by_role("textbox", name="Line for a terminal")
        await expect(line).to_have_value(f"culvert enroll '{link}'")
        await expect(dialog.get_by_text("Waiting for the computer to enrol")).to_be_visible()
        await expect(dialog.get_by_role("alert")).to_contain_text("Bjørn Ødegård can open nothing yet")
        async with page.context.expect_page() as opening:
            await dialog.get_by_role("link", name="Add a policy for Bjørn Ødegård").click()
        form = await opening.value
        await expect(
            form.get_by_role("combobox", name="Person").or_(form.get_by_text("bob"))
        ).not_to_have_count(0)
        assert form.url.endswith("/policies/new?user=bob")
        await form.close()
        await shown.picture("people-invite")
        await dialog.get_by_role("button", name="Done").click()
        await expect(page.get_by_role("table", name="People")).to_contain_text("bob@corp.example")
        await shown.picture("people")
        await world.rest("POST", "/users", {"name": "carol", "email": "carol@corp.example"})
        await world.invite("carol")
        await page.get_by_text("Invitations", exact=True).click()
        invitations = page.get_by_role("table", name="Invitations")
        await expect(invitations).to_contain_text("olga")
        await page.get_by_role("button", name="Withdraw the invitation of carol").click()
        await shown.picture("invitations-withdraw")
        await dialog.get_by_role("button", name="Withdraw").click()
        await expect(page.get_by_text("The invitation of carol is withdrawn")).to_be_visible()
        await expect(invitations).not_to_contain_text("carol")
        await expect(invitations).to_contain_text("bob")

        await page.get_by_role("link", name="Devices").click()
        await expect(page.get_by_role("heading", name="No devices yet")).to_be_visible()
        device = await enrolled(world, parse_invitation(link).token)
        # The device appears without a reload; approval gives it the resources that need an approved device.
        devices = page.get_by_role("table", name="Devices")
        await expect(devices).to_contain_text("Bjørn Ødegård")
        await expect(devices).to_contain_text("needs no approval")
        await shown.picture("devices-unneeded")
        strict = {"name": "strict", "user": "bob", "resources": ["wiki"]}
        await world.rest("POST", "/policies", strict | {"conditions": {"device_approved": True}})
        await expect(devices).to_contain_text("Opens only what needs no approval")
        await page.get_by_role("combobox", name="State").click()
        await page.get_by_role("option", name="waits for approval").click()
        await page.get_by_role("checkbox", name="Choose laptop of bob").check()
        await shown.picture("devices-choose")
        await page.get_by_role("button", name="Approve 1 device").click()
        # The filter goes with the last one that waited: the row stays.
        await expect(devices).to_contain_text("approved")
        await world.rest("POST", "/policies", {"name": "bob", "user": "bob", "resources": ["wiki"]})
        await device.prove()
        await device.open()
        other = await world.enrol()
        await other.prove()
        await other.open()
        await refused(other.open("git.corp.example"))
        await page.get_by_role("button", name="More about laptop of alice").click()
        await shown.picture("device-menu")
        await page.get_by_role("menuitem", name="New authenticator").click()
        await expect(dialog).to_contain_text("Of 1 open tunnel, closes those that need a code")
        await dialog.get_by_role("button", name="Replace it").click()
        await expect(dialog.get_by_role("img", name="QR code for an authenticator")).to_be_visible()
        await shown.picture("devices-authenticator")
        await dialog.get_by_role("button", name="Done").click()
        await page.reload()
        # Why the last denial was.
        await expect(page.get_by_role("table", name="Devices")).to_contain_text("git.corp.example")
        await shown.picture("devices")
        await page.get_by_role("button", name="More about laptop of bob").click()
        await page.get_by_role("menuitem", name="Revoke").click()
        await expect(dialog).to_contain_text("Closes 1 tunnel")
        await shown.picture("devices-revoke")
        await dialog.get_by_role("button", name="Revoke").click()
        await expect(page.get_by_text("laptop is revoked, 1 tunnel closed")).to_be_visible()
        await expect(page.get_by_role("table", name="Devices")).to_contain_text("revoked")
        assert await world.rest("GET", "/tunnels") == []


async def test_the_dialog_of_an_invitation_follows_its_computer(
    world: World, running: Browser, switch: Switch
) -> None:
    # Another computer of hers, with a tunnel, is not the invited one.
    other = await world.enrol()
    await other.prove()
    await other.open()
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page, dialog = shown.page, shown.page.get_by_role("dialog")
        await shown.open("people/of/alice")
        await shown.sign_in(olga)
        await page.get_by_role("button", name="Invite a computer").click()
        await dialog.get_by_role("button", name="Make a link").click()
        link = await dialog.get_by_role("textbox", name="Invitation").input_value()
        steps = dialog.get_by_role("listitem")
        await expect(steps).to_have_text(
            ["Waiting for the computer to enrol", "alice has not opened a page yet"]
        )
        await expect(steps.get_by_role("img", name="to do")).to_have_count(2)
        # She reaches a resource.
        await expect(dialog.get_by_role("alert")).to_have_count(0)
        device = await enrolled(world, parse_invitation(link).token)
        await expect(steps.first).to_have_text("laptop is enrolled")
        # The link has been used up.
        await expect(dialog.get_by_role("textbox", name="Invitation")).to_have_count(0)
        await shown.picture("invite-enrolled")
        await device.prove()
        opened = await device.open()
        await expect(steps.last).to_have_text("alice has opened wiki.corp.example")
        await device.close(opened.tunnel.tunnel_id)
        await expect(steps.get_by_role("img", name="done")).to_have_count(2)
        await page.set_viewport_size(NARROW)
        await shown.picture("narrow-invite-opened")
        await dialog.get_by_role("button", name="Done").click()
        await expect(dialog).to_have_count(0)


async def test_a_device_is_seen_to_come_and_go_without_a_reload(
    world: World, running: Browser, switch: Switch
) -> None:
    device = await world.enrol()
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("people/of/alice")
        await shown.sign_in(olga)
        devices = page.get_by_role("table", name="Devices")
        await expect(devices).to_contain_text("never")
        events = device.watch()
        await next_event(events, "profile")
        await expect(devices).to_contain_text("online")
        await page.get_by_role("link", name="Devices").click()
        await expect(devices).to_contain_text("online")
        await device.channel.close()
        await expect(devices).not_to_contain_text("online")
        await events.aclose()


async def test_the_page_of_a_person_shows_access_and_ends_it(
    world: World, running: Browser, switch: Switch
) -> None:
    bob = {"name": "bob", "display_name": "דוד בן־גוריון", "email": "bob@corp.example"}
    await world.rest("POST", "/users", bob)
    await world.rest("POST", "/groups", {"name": "writers", "members": ["alice", "bob"]})
    conditions = {"device_approved": True, "code_max_age_seconds": 3600}
    writing = {"name": "writing", "group": "writers", "resources": ["wiki"], "conditions": conditions}
    await world.rest("POST", "/policies", writing)
    await world.rest("POST", "/policies", {"name": "david", "user": "bob", "resources": ["wiki"]})
    device = await world.enrol("bob")
    await device.prove()
    await device.open()
    denied = await refused(device.open("git.corp.example"))
    other = await world.enrol("bob")
    needed = await refused(other.open())
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page, dialog = shown.page, shown.page.get_by_role("dialog")
        await shown.open("people")
        await shown.sign_in(olga)
        # The reason alone does not say the name.
        without_code = f"wiki.corp.example: {needed.message}"
        await expect(page.get_by_role("table", name="People")).to_contain_text(without_code)
        await page.get_by_role("link", name=bob["display_name"]).click()
        await expect(page.get_by_role("heading", name=bob["display_name"])).to_be_visible()
        reached = page.get_by_role("table", name="Resources that this person reaches")
        await expect(reached).to_contain_text(
            "for the group writers · code at most 1 h old · approved device"
        )
        await expect(reached).to_contain_text("david · for this person")
        denials = page.get_by_role("region", name="Last denials")
        await expect(denials).to_contain_text(without_code)
        await expect(denials).to_contain_text(denied.message)
        await expect(denials).not_to_contain_text(f"git.corp.example: {denied.message}")
        await shown.picture("person")
        await page.get_by_role("button", name="Change name or address").click()
        await dialog.get_by_role("textbox", name="Display name").fill("bob\u202ebob")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog.get_by_text("turns the direction of text")).to_be_visible()
        await dialog.get_by_role("textbox", name="Display name").fill("David")
        await dialog.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("heading", name="David", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Delete").click()
        for line in (
            "Closes 1 tunnel",
            "Revokes 2 computers: laptop, laptop",
            "Leaves 1 group: writers",
            "david",
        ):
            await expect(dialog).to_contain_text(line)
        await shown.picture("person-delete")
        await dialog.get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("table", name="People")).not_to_contain_text("David")
        # Back with groups and policies; the computer has to be enrolled anew.
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("David is there again")).to_be_visible()
        use = await world.rest("GET", "/users/bob/use")
        assert use == {
            "tunnels": 0,
            "devices": [],
            "invitations": 0,
            "groups": ["writers"],
            "policies_deleted": ["david"],
            "breaks": [],
        }
    async with console(world, running, narrow=True) as shown:
        await shown.open("people/of/bob")
        await shown.sign_in(olga)
        await expect(shown.page.get_by_role("heading", name="David", exact=True)).to_be_visible()
        await shown.picture("person-narrow")


async def enrolled(world: World, token: str) -> Device:
    key, csr = make_csr()
    body = {"token": token, "device_name": "laptop", "csr_pem": csr}
    answer = await world.anyone.post("/api/v1/enrolments", json=body)
    assert answer.status_code == 201, answer.text
    device = Device(key, answer.json())
    world.devices.append(device)
    return device
