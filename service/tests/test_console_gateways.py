"""Gateways in the console, as they are: online, drained, gone."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import re
import tarfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography.hazmat.primitives import serialization
from culvert_db import GatewayEnrolment
from culvert_lab.console import NARROW, WIDE
from culvert_lab.free_port import free_port
from finsy.proto import p4r_grpc
from playwright.async_api import Browser, expect
from sqlalchemy import update

from . import log_watch
from .conftest import World, serving
from .console_page import BUILT, administrator, chromium_running, console
from .switch import Switch
from .test_invitation_page import add_repository
from .test_joining import Computer, join

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


async def knock(switch: Switch) -> None:
    for count in itertools.count(40, 90):
        switch.drops = {8: count, 7: 3 * count}
        await asyncio.sleep(5)


async def test_a_drained_and_deleted_gateway_leaves_the_list_live(world: World, running: Browser) -> None:
    port = free_port()
    await world.add_gateway("gw-berlin", port)
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("gateways")
        await shown.sign_in(olga)
        table = page.get_by_role("table", name="Gateways")
        await expect(table).to_contain_text("offline")
        switch = Switch()
        async with serving(world, switch, "gw-berlin", port):
            await expect(table).to_contain_text("online")
            await world.add_wiki(["gw-berlin"])
            device = await world.enrol()
            await device.prove()
            await device.open()
            await shown.picture("gateways")
            await page.get_by_role("link", name="gw-berlin").click()
            await expect(page.get_by_role("table", name="Tunnels")).to_contain_text("wiki.corp.example")
            tables = page.get_by_role("region", name="Tables")
            await expect(tables).to_contain_text("5 of tunnels")
            await expect(tables).to_contain_text("no differences")
            await tables.get_by_role("button", name="sad_in").click()
            await expect(page.get_by_role("region", name="Entries of")).to_contain_text("spi")
            # Another program deletes a route, and unknown senders' packets are dropped.
            del switch.entries[next(key for key in switch.entries if key[0] == switch.table("route"))]
            await tables.get_by_role("button", name="Read again").click()
            await expect(tables).to_contain_text("1 difference")
            await tables.get_by_text("differences", exact=True).click()
            await tables.get_by_role("button", name="route").click()
            await expect(page.get_by_role("region", name="Entries of route")).to_contain_text("missing")
            drops = page.get_by_role("region", name="Dropped packets")
            knocking = asyncio.create_task(knock(switch))
            await expect(drops.get_by_text("replayed").first).to_be_visible(timeout=60_000)
            knocking.cancel()
            await expect(drops.get_by_text("failed authentication").first).to_be_visible()
            await shown.picture("gateway")
            await page.get_by_role("link", name="Change").click()
            await expect(page.get_by_text("1 tunnel is open through it. If it does not fit")).to_be_visible()
            await shown.picture("gateway-change-open")
            await page.go_back()
            await page.get_by_role("button", name="Drain", exact=True).click()
            dialog = page.get_by_role("dialog")
            await expect(dialog).to_contain_text("No other gateway serves wiki")
            await shown.picture("gateway-drain")
            await dialog.get_by_role("button", name="anyway").click()
            await expect(page.get_by_text("draining", exact=True)).to_be_visible()
            await page.get_by_role("button", name="Use it again").click()
            await expect(page.get_by_text("online", exact=True)).to_be_visible()
        await expect(page.get_by_text("offline", exact=True)).to_be_visible()
        await shown.picture("gateway-offline")


async def test_a_gateway_is_added_and_handed_what_it_needs(
    world: World, running: Browser, tmp_path: Path
) -> None:
    port = free_port()
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("gateways")
        await shown.sign_in(olga)
        await page.get_by_role("link", name="Add a gateway").click()
        await page.get_by_role("link", name="describe the gateway by hand").click()
        connection = page.get_by_role("combobox", name="Connection")
        await expect(connection).to_have_value("The gateway connects to the controller (recommended)")
        await expect(page.get_by_role("textbox", name="P4Runtime", exact=True)).to_have_count(0)
        await connection.click()
        await page.get_by_role("option", name="The controller connects to the gateway").click()
        for label, value in {
            "Name": "gw-berlin",
            "Address": "10.0.0.4",
            "Public address": "198.51.100.2",
            "P4Runtime": f"127.0.0.1:{port}",
            "Address pool": "10.99.0.0/24",
            "WAN MAC": "02-00-00-00-AB-01",
            "Router": "02:00:00:00:01:zz",
            "LAN MAC": "0200.0000.0201",
            "LAN address": "10.20.0.1",
            "LAN prefix": "10.20.0.0/16",
            "Neighbours": "10.20.0.10 02:00:00:00:02:10",
        }.items():
            await page.get_by_role("textbox", name=label, exact=True).fill(value)
        await page.get_by_role("button", name="Add it").click()
        await expect(page.get_by_text("Must be a MAC address")).to_be_visible()
        await shown.picture("gateway-new")
        await page.get_by_role("textbox", name="Router").fill("02:00:00:00:01:02")
        await page.get_by_role("button", name="Add it").click()
        dialog = page.get_by_role("dialog", name="Bundle of gw-berlin")
        async with page.expect_download() as started:
            await dialog.get_by_role("button", name="Download").click()
        with tarfile.open(await (await started.value).path()) as archive:
            archive.extractall(tmp_path, filter="data")
        assert {it.name for it in (tmp_path / "gw-berlin").iterdir()} == {
            *("controller-ca.pem", "gateway.pem", "gateway.key", "kek.bin")
        }
        await shown.picture("gateway-bundle")
        await dialog.get_by_role("button", name="Done").click()
        await expect(page.get_by_role("heading", name="gw-berlin")).to_be_visible()
        await expect(page.get_by_text("of the newest bundle")).to_be_visible()
        await expect(page.get_by_text("198.51.100.2", exact=True)).to_be_visible()
        await shown.picture("gateway-behind-nat")
        await page.get_by_role("button", name="Make a bundle").click()
        await expect(page.get_by_text("gw-berlin has had a bundle before")).to_be_visible()
        await shown.picture("gateway-next-bundle")
        async with page.expect_download():
            await dialog.get_by_role("button", name="Download").click()
        await expect(dialog.get_by_role("button", name="Download")).to_have_count(0)
        await dialog.get_by_role("button", name="Done").click()
        await expect(page.get_by_text("the new bundle is not installed yet")).to_be_visible()
        await shown.picture("gateway-keys-waiting")
        found = (await world.rest("GET", "/gateways/gw-berlin"))["lan"]["neighbours"]
        assert found == {"10.20.0.10": "02:00:00:00:02:10"}

        await page.get_by_role("link", name="Change").click()
        await page.get_by_role("textbox", name="Router").fill("198.51.100.1")
        neighbours = page.get_by_role("textbox", name="Neighbours")
        await expect(neighbours).to_have_value("10.20.0.10 02:00:00:00:02:10")
        await neighbours.fill("10.20.0.10\n10.21.0.9")
        await page.get_by_role("button", name="Save").click()
        await expect(neighbours).to_have_accessible_description(re.compile("10.21.0.9: not in the LAN"))
        await shown.picture("gateway-change")
        await neighbours.fill("10.20.0.10\n10.20.0.254")
        await page.get_by_role("textbox", name="Routes").fill("10.30.0.0/16 10.20.0.254")
        await page.get_by_role("button", name="VLANs, MTUs, legacy suites").click()
        await page.get_by_role("textbox", name="VLAN of the LAN port").fill("20")
        await page.get_by_role("textbox", name="MTU of the WAN port").fill("1400")
        await page.get_by_role("textbox", name="Device of P4Runtime").fill("3")
        await page.get_by_role("combobox", name="Allowed legacy suites").click()
        await page.get_by_role("option", name="aes-cbc-hmac-sha1-96").click()
        await page.keyboard.press("Escape")
        await shown.picture("gateway-seldom")
        await page.set_viewport_size(NARROW)
        await shown.picture("narrow-gateway-seldom")
        await page.set_viewport_size(WIDE)
        await page.get_by_role("combobox", name="Encryption").click()
        await expect(page.get_by_role("option", name="aes-cbc-hmac-sha1-96")).to_have_count(1)
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("gw-berlin is saved")).to_be_visible()
        changed = await world.rest("GET", "/gateways/gw-berlin")
        assert changed["wan"]["next_hop"] == "198.51.100.1"
        assert (changed["wan"]["mac"], changed["lan"]["mac"]) == ("02:00:00:00:ab:01", "02:00:00:00:02:01")
        assert changed["lan"]["routes"] == {"10.30.0.0/16": "10.20.0.254"}
        assert (changed["lan"]["vlan"], changed["wan"]["mtu"], changed["device_id"]) == (20, 1400, 3)
        assert changed["legacy_suites"] == ["aes-cbc-hmac-sha1-96"]
        assert changed["lan"]["neighbours"] == {"10.20.0.10": None, "10.20.0.254": None}
        # A gateway in use is not deleted, and the refusal names its use.
        await world.add_wiki(["gw-berlin"])
        await page.get_by_role("button", name="Delete").click()
        dialog = page.get_by_role("dialog", name="Delete gw-berlin?")
        await dialog.get_by_role("button", name="Delete").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("wiki")
        await shown.picture("gateway-delete")
        await world.rest("DELETE", "/resources/wiki")
        await dialog.get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("heading", name="No gateway yet")).to_be_visible()


async def test_a_gateway_is_added_with_one_line_and_seen_to_come_online(
    world: World, running: Browser
) -> None:
    port, switch = free_port(), Switch()
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("gateways")
        await shown.sign_in(olga)
        await page.get_by_role("link", name="Add a gateway").click()
        await page.get_by_role("textbox", name="Name").fill("gw-berlin")
        pool = page.get_by_role("textbox", name="Address pool")
        suggested = (await world.rest("GET", "/gateway-enrolments/free-pools"))["pool"]
        await expect(pool).to_have_value(suggested)
        await expect(page.get_by_text("Suggested: a private prefix")).to_be_visible()
        await shown.picture("gateway-join-form")
        await world.add_gateway("gw-paris", free_port(), 2)
        await pool.fill("10.99.2.0/25")
        await expect(page.get_by_text("Suggested: a private prefix")).to_have_count(0)
        await page.get_by_role("button", name="Make the link").click()
        await expect(pool).to_have_accessible_description(
            re.compile(
                "The address pool 10.99.2.0/25 of the gateway gw-berlin overlaps the address pool 10.99.2.0/24 of"
            )
        )
        await pool.fill("10.99.1.0/24")
        await page.get_by_role("button", name="Make the link").click()
        await expect(page.get_by_role("heading", name="Add gw-berlin (10.99.1.0/24)")).to_be_visible()
        command = page.get_by_label("Command", exact=True)
        await expect(page.get_by_label("Command that copies the package")).to_have_text(
            "scp culvert-gateway_*~deb12_*.deb USER@ADDRESS:"
        )
        await page.get_by_text("Ubuntu 24.04", exact=True).click()
        await expect(page.get_by_label("Command that copies the package")).to_have_text(
            "scp culvert-gateway_*~ubuntu24.04_*.deb USER@ADDRESS:"
        )
        await expect(page.get_by_text("lies beside the controller’s package")).to_be_visible()
        await expect(command).to_contain_text(
            "apt install ./culvert-gateway_*.deb && culvert-gateway join 'https://"
        )
        await expect(page.get_by_text("needs a route for 10.99.1.0/24")).to_be_visible()
        await expect(page.get_by_text("for 60 more minutes")).to_be_visible()
        await shown.picture("gateway-join-waiting")
        await page.get_by_role("button", name="Behind a port-forward").click()
        await page.get_by_label("Public address").fill("203.0.113.700")
        await expect(page.get_by_text("Must be an IPv4 address")).to_be_visible()
        await page.get_by_label("Public address").fill("203.0.113.7")
        await page.get_by_label("Shared interface").fill("eth0")
        await page.get_by_text("Nobody can add a route").click()
        await expect(command).to_contain_text(
            "join --public-address 203.0.113.7 --beside eth0 --masquerade 'https://"
        )
        await shown.picture("gateway-join-placed")
        token = (await command.inner_text()).partition("#")[2].partition(".")[0]
        log_watch.met(token)
        computer = Computer(port)
        answer = await join(world, token, computer)
        await expect(page.get_by_text("gw-berlin has joined")).to_be_visible()
        await expect(page.get_by_text("Not yet: ")).to_be_visible()
        await shown.picture("gateway-join-joined")
        async with joined_switch(switch, computer, answer, port):
            await expect(page.get_by_role("status").get_by_text("online")).to_be_visible()
            await expect(page.get_by_text("The controller has written its tables")).to_be_visible()
            await shown.picture("gateway-join-online")
            await page.get_by_role("link", name="To gw-berlin").click()
            await expect(page.get_by_role("heading", name="gw-berlin")).to_be_visible()


async def test_a_repository_gives_the_line_that_installs_the_package(world: World, running: Browser) -> None:
    add_repository(world)
    async with administrator(world, "olga", "owner") as olga, console(world, running, narrow=True) as shown:
        page = shown.page
        await shown.open("gateways/join")
        await shown.sign_in(olga)
        await expect(page.get_by_role("textbox", name="Address pool")).to_be_visible()
        await page.evaluate("localStorage.setItem('culvert-language', 'de')")
        await shown.open("gateways/join")
        await page.get_by_role("textbox", name="Name").fill("gw-berlin")
        await page.get_by_role("button", name="Link erzeugen").click()
        install = page.get_by_label("Befehl, der das Paket installiert")
        await expect(install).to_contain_text(
            "dpkg --install culvert-archive.deb && apt update && apt install culvert-gateway"
        )
        await expect(page.get_by_text("mit Debian 12, Debian 13 oder Ubuntu 24.04")).to_be_visible()
        await expect(page.get_by_text("A932 41A6 F828")).to_be_visible()
        await expect(page.get_by_label("Befehl", exact=True)).to_contain_text(
            "culvert-gateway join 'https://"
        )
        await expect(page.get_by_label("Befehl", exact=True)).not_to_contain_text("apt")
        await shown.picture("gateway-join-repository-narrow-de")
        await page.set_viewport_size({"width": 1366, "height": 768})
        await shown.picture("gateway-join-repository-de")


async def test_an_expired_line_is_replaced_by_a_new_one(world: World, running: Browser) -> None:
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("gateways")
        await shown.sign_in(olga)
        await page.get_by_role("link", name="Add a gateway").click()
        await page.get_by_role("textbox", name="Name").fill("gw-berlin")
        await page.get_by_role("textbox", name="Address pool").fill("10.99.1.0/24")
        await page.get_by_role("button", name="Make the link").click()
        first = await page.get_by_label("Command", exact=True).inner_text()
        async with world.database.begin() as session:
            past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
            await session.execute(update(GatewayEnrolment).values(expires_at=past))
        await expect(page.get_by_text("The link has expired")).to_be_visible()
        await shown.picture("gateway-join-expired")
        await page.get_by_role("button", name="Make a new link").click()
        await expect(page.get_by_label("Command", exact=True)).not_to_have_text(first)
        await expect(page.get_by_text("more minutes")).to_be_visible()


async def test_a_link_that_is_left_behind_is_listed_and_withdrawn(world: World, running: Browser) -> None:
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("gateways")
        await shown.sign_in(olga)
        await page.get_by_role("link", name="Add a gateway").click()
        await page.get_by_role("textbox", name="Name").fill("gw-berlin")
        await page.get_by_role("textbox", name="Address pool").fill("10.99.1.0/24")
        await page.get_by_role("button", name="Make the link").click()
        command = page.get_by_label("Command", exact=True)
        made = await command.inner_text()
        # The page alone has the link, and keeps it in another language.
        await page.get_by_role("button", name="Signed in as olga").click()
        await page.get_by_role("menuitem", name="Deutsch").click()
        await expect(page.get_by_label("Befehl", exact=True)).to_have_text(made)
        await expect(page.get_by_role("button", name="Link zurückziehen")).to_be_visible()
        await expect(page.get_by_role("link", name="Richtlinien")).to_be_visible()
        await shown.picture("gateway-join-switched-de")
        await page.get_by_role("button", name="Angemeldet als olga").click()
        await page.get_by_role("menuitem", name="English").click()
        await expect(command).to_have_text(made)
        await page.get_by_role("link", name="To the gateways").click()
        links = page.get_by_role("region", name="Links to join")
        await expect(links.get_by_role("link", name="make the link again")).to_be_visible()
        await expect(links).to_contain_text("A computer may join as gw-berlin until")
        await shown.picture("gateways-links")
        await links.get_by_role("button", name="Withdraw the link for gw-berlin").click()
        await expect(links).to_be_hidden()
        assert await world.rest("GET", "/gateway-enrolments") == []


@asynccontextmanager
async def joined_switch(
    switch: Switch, computer: Computer, answer: dict[str, Any], port: int
) -> AsyncGenerator[None]:
    """The switch with the certificate that the computer has joined with."""
    pem = computer.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    p4r_grpc.add_P4RuntimeServicer_to_server(switch, server)
    credentials = grpc.ssl_server_credentials(
        [(pem, answer["certificate_pem"].encode())], answer["ca_pem"].encode(), require_client_auth=True
    )
    server.add_secure_port(f"127.0.0.1:{port}", credentials)
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)
