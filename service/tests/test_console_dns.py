"""Zones and records in the console, with what stands in their way."""

from __future__ import annotations

import datetime
from collections.abc import AsyncGenerator

import pytest
from culvert_db import DnsLease, DnsRecord, DnsState, DnsZone
from culvert_lab.console import NARROW, WIDE
from culvert_proto import CulvertError, Reason
from playwright.async_api import Browser, expect
from sqlalchemy import select

from .conftest import World
from .console_page import BUILT, administrator, chromium_running, console
from .switch import Switch

BOOKS = "xn--bcher-kva.dev.corp.example"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


async def test_a_record_and_why_it_is_not_live(world: World, running: Browser) -> None:
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("dns")
        await shown.sign_in(olga)
        await expect(page.get_by_role("heading", name="No name server yet for corp.example")).to_be_visible()
        await shown.picture("dns-no-server")
        await page.get_by_role("button", name="Add the name server").click()
        dialog = page.get_by_role("dialog", name="Add a zone")
        # A managed zone is there to begin with.
        await expect(dialog.get_by_role("textbox", name="Zone", exact=True)).to_have_value("corp.example")
        await expect(dialog.get_by_role("textbox", name="Short name")).to_have_value("corp")
        server = dialog.get_by_role("textbox", name="Name server", exact=True)
        await expect(server).to_be_focused()
        await server.fill("-")
        await dialog.get_by_role("textbox", name="TSIG key", exact=True).fill("k")
        seldom = dialog.get_by_role("button", name="Port, time to live, view and instance")
        instance = dialog.get_by_role("textbox", name="Instance")
        await seldom.click()
        await instance.fill("two words")
        await seldom.click()
        await expect(instance).to_be_hidden()
        await dialog.get_by_role("button", name="Add it").click()
        # A fault is not folded away.
        await expect(instance).to_be_visible()
        await expect(dialog.get_by_text("Each part of a name begins and ends with")).to_be_visible()
        await shown.picture("dns-zone")
        await dialog.get_by_role("textbox", name="Name server").fill("192.0.2.53")
        await instance.fill("default")
        await expect(instance).to_be_hidden()
        await shown.picture("dns-zone-folded")
        await dialog.get_by_role("button", name="Add it").click()
        await expect(page.get_by_text("corp.example is added")).to_be_visible()
        # The rows that dns-updater would write.
        async with world.database.begin() as session:
            for name, state in (("wiki", DnsState.LIVE), ("git", DnsState.FOREIGN)):
                record = DnsRecord(name=f"{name}.corp.example", zone="corp", type="A", state=state)
                if state is DnsState.FOREIGN:
                    foreign = {"name": "git.corp.example", "zone": "corp.example", "types": "A"}
                    why = CulvertError(Reason.DNS_RECORD_FOREIGN, **foreign)
                    record.reason, record.message, record.remedy = why.reason.name, why.message, why.remedy
                    record.wanted, record.found = ["10.20.0.11"], ["192.0.2.9", "10.20.0.11"]
                session.add(record)
            old = DnsRecord(name="mail.corp.example", zone="corp", type="A", state=DnsState.PENDING)
            old.wanted, old.found = ["10.20.0.26", "10.20.0.27"], ["10.20.0.25", "10.20.0.27"]
            lost = DnsRecord(name="nas.corp.example", zone="corp", type="TXT", state=DnsState.UNREACHABLE)
            why = CulvertError(Reason.DNS_UPDATE_UNREACHABLE, server="192.0.2.53", why="timeout")
            lost.reason, lost.message, lost.remedy = why.reason.name, why.message, why.remedy
            lost.wanted = ['"ipsec-tunneling:yes"']
            below = DnsRecord(name=BOOKS, zone="corp", type="A", state=DnsState.OCCLUDED)
            cut = {"name": BOOKS, "zone": "corp.example", "cut": "dev.corp.example", "why": "delegated"}
            why = CulvertError(Reason.DNS_NAME_OCCLUDED, **cut)
            below.reason, below.message, below.remedy = why.reason.name, why.message, why.remedy
            below.wanted, below.found = ["10.20.0.28"], []
            session.add_all([old, lost, below])
        records = page.get_by_role("table", name="Records")
        await expect(records.get_by_role("row")).to_have_count(6)
        books = records.get_by_role("row").filter(has_text="bücher.dev.corp.example")
        await expect(books).to_contain_text("IPv4 address (A) in the zone corp.example")
        await expect(books.get_by_text(BOOKS, exact=True)).to_be_visible()
        await expect(books).to_contain_text(
            f"bücher.dev.corp.example ({BOOKS}) is not served from corp.example"
        )
        await expect(books).to_contain_text("Leave the records of dev.corp.example as they are.")
        await expect(books.get_by_role("listitem")).to_have_count(0)
        await expect(records).to_contain_text(
            "git.corp.example has records in corp.example that Culvert does not own: A. Delete these in the zone"
        )
        mail = records.get_by_role("row").filter(has_text="mail.corp.example")
        await expect(mail.get_by_role("listitem")).to_have_text(
            ["10.20.0.25 will be removed", "10.20.0.26 is missing", "10.20.0.27 is correct"]
        )
        await shown.picture("dns")
        await page.set_viewport_size(NARROW)
        await shown.picture("narrow-dns-values")
        await page.set_viewport_size(WIDE)
        await page.get_by_text("live", exact=True).first.click()
        await expect(records.get_by_role("row")).to_have_count(2)
        assert "state=live" in page.url
        await expect(page.get_by_text("The name server answers with these records.")).to_be_visible()
        await page.get_by_role("button", name="Check and retry now").click()
        await expect(
            page.get_by_text("corp.example is not checked: no DNS updater has reported")
        ).to_be_visible()
        await expect(page.get_by_text("systemctl enable --now culvert-dns-updater")).to_be_visible()
        await shown.picture("dns-without-updater")
        async with world.database.begin() as session:
            zone = await session.scalar(select(DnsZone).where(DnsZone.name == "corp"))
            assert zone is not None
            until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=5)
            session.add(DnsLease(zone_id=zone.id, holder="host", epoch=1, ends_at=until))
        await expect(page.get_by_text("no DNS updater serves this zone")).to_have_count(0)
        await page.get_by_role("button", name="Check and retry now").click()
        await expect(page.get_by_text("corp.example is being checked")).to_be_visible()


async def test_a_zone_is_changed_and_deleted_beside_a_resource_that_it_publishes(
    world: World, running: Browser, switch: Switch
) -> None:
    zone = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
    await world.rest("POST", "/dns/zones", zone)
    device = await world.enrol()
    await device.prove()
    await device.open()
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page, dialog = shown.page, shown.page.get_by_role("dialog")
        await shown.open("resources/of/wiki")
        await shown.sign_in(olga)
        await expect(page.get_by_role("table", name="People with access")).to_contain_text("alice")
        await expect(page.get_by_role("table", name="People with access")).to_contain_text("for this person")
        await shown.picture("resource-access")
        await page.get_by_role("button", name="Close the tunnel of laptop to wiki.corp.example").click()
        await expect(page.get_by_text("No tunnel is open")).to_be_visible()
        assert await world.rest("GET", "/tunnels") == []

        await page.get_by_role("link", name="DNS", exact=True).click()
        await page.get_by_role("button", name="More about corp.example").click()
        await shown.picture("zone-menu")
        await page.get_by_role("menuitem", name="Change").click()
        await dialog.get_by_role("textbox", name="TSIG key").fill("not a key")
        await dialog.get_by_role("button", name="Save").click()
        await expect(dialog.get_by_text("Must have 1 to 63 letters, digits, hyphens")).to_be_visible()
        await dialog.get_by_role("textbox", name="TSIG key").fill("newer")
        await dialog.get_by_role("textbox", name="TTL").fill("300")
        await shown.picture("dns-zone-change")
        await dialog.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("corp.example is saved")).to_be_visible()
        changed = await world.rest("GET", "/dns/zones/corp")
        assert (changed["key"], changed["ttl"], changed["resources"]) == ("newer", 300, None)

        await page.get_by_role("button", name="More about corp.example").click()
        await page.get_by_role("menuitem", name="Delete").click()
        await dialog.get_by_role("button", name="Delete").click()
        await expect(
            page.get_by_text("corp.example is deleted once its records are withdrawn")
        ).to_be_visible()
        assert (await world.rest("GET", "/dns/zones/corp"))["retiring"]
        await shown.picture("dns-zone-undo")
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("corp.example is there again")).to_be_visible()
        again = await world.rest("GET", "/dns/zones/corp")
        assert (again["retiring"], again["key"], again["ttl"]) == (False, "newer", 300)

        await page.get_by_role("button", name="More about corp.example").click()
        await page.get_by_role("menuitem", name="Delete").click()
        await dialog.get_by_role("checkbox", name="The name server is gone").check()
        await shown.picture("dns-zone-delete")
        await dialog.get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("heading", name="No name server yet for corp.example")).to_be_visible()


async def test_managed_zones_are_sorted_by_what_is_shown(world: World, running: Browser) -> None:
    names = {"a": "zoo.example", "b": "xn--bcher-kva.example", "c": "anna.example"}
    for name, origin in names.items():
        zone = {"name": name, "origin": origin, "server": "192.0.2.53", "key": "k"}
        await world.rest("POST", "/dns/zones", zone)
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        await shown.open("dns")
        await shown.sign_in(olga)
        managed = shown.page.get_by_role("region", name="Managed zones")
        await expect(managed.get_by_role("switch").first).to_be_visible()
        listed = await managed.locator("label .name").all_inner_texts()
        assert [it for it in listed if not it.startswith("corp.")] == [
            "anna.example",
            "bücher.example",
            "zoo.example",
        ]
        await shown.picture("dns-managed")
        many = [f"z{number:03}" for number in range(100)]
        async with world.database.begin() as session:
            session.add_all(
                DnsZone(name=name, origin=f"{name}.example", server="192.0.2.53", port=53, key="k", ttl=60)
                for name in many
            )
        await shown.page.reload()
        # The rest of a long list is fetched when it is asked for.
        await expect(managed.get_by_role("switch")).to_have_count(100)
        await managed.get_by_role("button", name="Show more").click()
        await expect(managed.get_by_role("switch")).to_have_count(104)
        await expect(managed.locator("label .name").last).to_have_text("zoo.example")
        await expect(managed.get_by_role("button", name="Show more")).to_have_count(0)
