"""The admin console in a real Chromium, at a whole controller."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

import pytest
from culvert_lab.free_port import free_port
from culvert_service.operation.commands import init
from playwright.async_api import Browser, Route, expect
from pyotp.totp import TOTP

from .conftest import World, refused
from .console_page import BUILT, SCREENS, administrator, chromium_running, console
from .switch import Switch
from .test_admins import PASSWORD

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build"),
]
# Markup, a script that runs the other way, and a name that is long.
HOSTILE = "<img src=x onerror=alert(1)> \u202egnp.exe " + "x" * 200


@pytest.fixture
async def running() -> AsyncGenerator[Browser]:
    async with chromium_running() as running:
        yield running


async def test_the_first_owner_comes_in_by_the_link(
    world: World, running: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    await init(world.settings)
    await init(world.settings)
    replaced, link = re.findall(r"https://\S+/console/(setup#token=\S+)", capsys.readouterr().out)
    async with console(world, running) as shown:
        page = shown.page
        await shown.open(replaced)
        await expect(page.get_by_text("culvert-controller init")).to_be_visible()
        await expect(page.get_by_role("textbox")).to_have_count(0)
        await shown.picture("setup-replaced")
        await page.get_by_role("link", name="sign in").click()
        await expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
        await page.goto("about:blank")
        await shown.open(link)
        await expect(page.get_by_text("Its role is Owner: everything.")).to_be_visible()
        name = page.get_by_label("Name")
        await expect(name).to_be_focused()
        password = page.locator("input[type=password]")
        await password.fill("short")
        await name.fill("-ada")
        await expect(name).to_have_accessible_description(re.compile("begins with a letter or a digit"))
        await page.get_by_role("button", name="Continue").click()
        await expect(name).to_have_accessible_description(
            "Must have 1 to 63 lower-case letters from a to z, digits, dots, hyphens and underscores, "
            "and begin with a letter or a digit"
        )
        # All faults are named at once, in the page's language.
        await expect(page.get_by_text("Must have at least 12 characters")).to_be_visible()
        await shown.picture("setup-name-refused")
        await name.fill("ada")
        await password.fill(PASSWORD)
        await shown.picture("setup")
        await page.get_by_role("button", name="Continue").click()
        secret = await page.locator("[data-secret]").inner_text()
        await shown.picture("setup-code")
        # Without a code, which only a scanned secret gives, there is no way on.
        code = page.get_by_label("A code that it shows")
        await expect(code).to_be_focused()
        await code.fill("000000")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text("Check that your authenticator’s clock is right")).to_be_visible()
        await shown.picture("setup-code-refused")
        await code.fill(TOTP(secret).now())
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("link", name="I have saved them").click()
        await expect(page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Signed in as ada").click()
        await page.get_by_role("menuitem", name="Sign out").click()
        await expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
        await shown.picture("sign-in")
        await shown.sign_in_as("ada", "000000")
        await expect(page.get_by_role("alert")).to_be_visible()
        await shown.picture("sign-in-refused")


async def test_the_reference_runs_under_a_policy_without_exceptions(world: World, running: Browser) -> None:
    async with console(world, running) as shown:
        page = shown.page
        answer = await page.goto(f"{shown.url}/docs/api")
        assert answer
        assert "unsafe" not in answer.headers["content-security-policy"]
        await expect(page.get_by_role("heading", name="Culvert controller")).to_be_visible()
        await page.locator("#operations-enrolment-enrol_api_v1_enrolments_post").click()
        await expect(page.get_by_text("Try it out").first).to_be_visible()
        await page.screenshot(path=SCREENS / "reference.png")


async def test_a_resource_from_its_preview_to_its_end(world: World, running: Browser, switch: Switch) -> None:
    zone = {"name": "corp", "origin": "corp.example", "server": "192.0.2.53", "key": "k"}
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("resources/new")
        await shown.sign_in(olga)
        name = page.get_by_label("Name that people open")
        await expect(name).to_have_accessible_description(re.compile("Zone: corp.example"))
        protocol = page.get_by_role("combobox", name="Protocol 1").or_(page.get_by_label("Protocol 1")).first
        await expect(protocol).to_have_value("All protocols")
        await expect(page.get_by_text("Protocol", exact=True)).to_be_visible()
        await name.fill("git")
        await page.get_by_label("Short name").focus()
        await expect(name).to_have_value("git.corp.example")
        await expect(page.get_by_label("Short name")).to_have_value("git")
        await page.get_by_label("Address or prefix 1").fill("10.20.0.300")
        # The only gateway is chosen already.
        await expect(page.locator("form").get_by_text("gw-berlin", exact=True)).to_be_visible()
        await page.get_by_label("Owner").fill("bob@corp.example")
        await page.get_by_role("button", name="Preview").click()
        await expect(page.get_by_text("Must be an address or a prefix such as")).to_be_visible()
        await shown.picture("resource-fault")
        await page.get_by_label("Address or prefix 1").fill("10.20.0.77")
        await page.get_by_role("button", name="Preview").click()
        await expect(page.get_by_text(re.compile("^gw-berlin knows no server at 10.20.0.77"))).to_be_visible()
        await shown.picture("resource-no-neighbour")
        async with page.context.expect_page() as opened:
            await page.get_by_role("link", name="Neighbours and routes of gw-berlin").click()
        tab = await opened.value
        await expect(tab.get_by_label("Neighbours")).to_be_focused()
        await tab.close()
        await page.get_by_label("Address or prefix 1").fill("10.20.0.10")
        await name.fill("git.other.example")
        await page.get_by_role("button", name="Preview").click()
        await expect(page.get_by_text("git.other.example is in none of the zones")).to_be_visible()
        await expect(page.get_by_role("link", name="add a zone")).to_have_attribute("href", "/console/dns")
        await shown.picture("resource-outside")
        await name.fill("git.corp.example")
        await page.get_by_role("button", name="Preview").click()
        await expect(page.get_by_role("button", name="Add it")).to_be_visible()
        await expect(page.get_by_role("link", name="To the zones")).to_have_attribute("href", "/console/dns")
        await shown.picture("resource-preview-without-zone")
        await world.rest("POST", "/dns/zones", zone)
        await page.get_by_label("Address or prefix 1").fill("10.20.0.10/32")
        await page.get_by_role("button", name="Preview").click()
        effect = page.get_by_role("region", name="Effect of this change")
        await expect(effect).to_contain_text("Publish A and TXT for git.corp.example in corp.example")
        await expect(effect).to_contain_text("No person gets access yet")
        await shown.picture("resource-preview")
        await page.get_by_role("button", name="Publish it").click()
        await expect(page.get_by_role("heading", name="git.corp.example")).to_be_visible()
        await shown.picture("resource-without-access")
        await page.get_by_role("link", name="Add a policy").click()
        await expect(page.get_by_role("form", name="Policy")).to_contain_text("May reach *git")
        await page.go_back()

        # Another administrator saves first.
        await page.get_by_label("Owner").fill("carol@corp.example")
        made = await world.rest("GET", "/resources/git")
        del made["created_at"], made["display_name"]
        await world.rest("PUT", "/resources/git", made | {"owner": "dave@corp.example"})
        await page.get_by_role("button", name="Save").click()
        both = page.get_by_role("dialog")
        await expect(both).to_contain_text("dave@corp.example")
        await expect(both).to_contain_text("carol@corp.example")
        await shown.picture("resource-conflict")
        await both.get_by_role("button", name="Save mine").click()
        await expect(page.get_by_text("git.corp.example is saved")).to_be_visible()
        assert (await world.rest("GET", "/resources/git"))["owner"] == "carol@corp.example"

        device = await world.enrol()
        await device.prove()
        await device.open()
        await shown.open("resources")
        await page.get_by_role("link", name="wiki.corp.example").click()
        await expect(page.get_by_text("1 open tunnel")).to_be_visible()
        await shown.picture("resource")
        await page.get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("dialog")).to_contain_text("Closes 1 tunnel")
        await shown.picture("resource-delete")
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("wiki.corp.example is deleted, 1 tunnel closed")).to_be_visible()
        await expect(page.get_by_role("link", name="git.corp.example")).to_be_visible()
        await expect(page.get_by_role("link", name="wiki.corp.example")).to_have_count(0)


async def test_a_resource_before_the_first_gateway(world: World, running: Browser) -> None:
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("resources/new")
        await shown.sign_in(olga)
        name = page.get_by_label("Name that people open")
        await name.fill("https://hr.corp.example:8443/start?now")
        await expect(page.get_by_label("Short name")).to_have_value("hr")
        await page.get_by_label("Address or prefix 1").fill("10.20.0.10:443")
        await expect(name).to_have_value("hr.corp.example")
        await shown.picture("resource-no-gateway")
        # All faults are named at once.
        await page.get_by_label("Owner").fill("bob@corp.example")
        await page.get_by_role("button", name="Preview").click()
        await expect(page.get_by_text("Choose at least one")).to_be_visible()
        await expect(
            page.get_by_text("protocol (TCP or UDP) and ports have their own fields")
        ).to_be_visible()
        await shown.picture("resource-address-with-port")
        async with page.context.expect_page() as opened:
            await page.get_by_role("link", name="add a gateway").click()
        tab = await opened.value
        await expect(tab.get_by_role("form", name="Gateway")).to_be_visible()
        await tab.close()
        await world.add_gateway("gw-berlin", free_port())
        # A single gateway is chosen by itself.
        await expect(page.locator("form").get_by_text("gw-berlin", exact=True)).to_be_visible()
        await expect(page.get_by_role("link", name="add a gateway")).to_have_count(0)
        await expect(name).to_have_value("hr.corp.example")
        await expect(page.get_by_text("Choose at least one")).to_have_count(0)


async def test_a_list_is_searched_by_the_controller_and_the_url_has_the_search(
    world: World, running: Browser, switch: Switch
) -> None:
    for number in range(120):
        await world.add_resource(f"app-{number:03}", ["gw-berlin"], address="10.20.0.10")
    await world.add_resource("hostile", ["gw-berlin"], address="10.20.0.10", owner=HOSTILE)
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("resources")
        await shown.sign_in(olga)
        table = page.get_by_role("table", name="Resources")
        await expect(table.get_by_role("link", name="app-000.corp.example")).to_be_visible()
        # The list holds the rows in sight, and loads the next page on scrolling.
        assert await table.get_by_role("row").count() < 60
        await shown.picture("resources")
        await page.keyboard.press("End")
        await expect(table).to_have_attribute("aria-rowcount", "122")
        await page.keyboard.press("End")
        await expect(table.get_by_role("link", name="wiki.corp.example")).to_be_visible()
        await page.keyboard.press("/")
        await page.keyboard.type("hostile")
        await expect(table.get_by_role("row")).to_have_count(2)
        await expect(table).to_contain_text("<img src=x onerror=alert(1)>")
        assert "q=hostile" in page.url
        await shown.picture("resources-hostile")
        await page.reload()
        await expect(table.get_by_role("row")).to_have_count(2)
        await page.get_by_label("Search resources").fill("nothing like it")
        await expect(page.get_by_role("heading", name="No matching resources")).to_be_visible()
        await shown.picture("resources-none")
        await page.get_by_role("button", name="Show all").click()
        await expect(table.get_by_role("link", name="app-000.corp.example")).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("heading", name="Resources", exact=True)).to_be_visible()
        # Before there is a field to type in.
        await page.keyboard.press("Control+k")
        await page.keyboard.type("app-07")
        await expect(page.get_by_role("textbox", name="Search or jump to")).to_have_value("app-07")
        await expect(page.locator("[data-action]", has_text="app-072.corp.example")).to_be_visible()
        await shown.picture("commands")
        await page.locator("[data-action]", has_text="app-072.corp.example").click()
        await expect(page.get_by_role("heading", name="app-072.corp.example")).to_be_visible()
        await page.go_back()
        await expect(page.get_by_role("heading", name="Resources", exact=True)).to_be_visible()


async def test_the_overview_and_the_lists_live(world: World, running: Browser, switch: Switch) -> None:
    device = await world.enrol()
    await device.prove()
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open()
        await shown.sign_in_as("olga", "000000", "no password of hers")
        await expect(page.get_by_role("alert")).to_be_visible()
        await shown.open()
        await shown.sign_in(olga)
        tunnels = page.get_by_role("table", name="Tunnels")
        await expect(page.get_by_text("1 of 1")).to_be_visible()
        await expect(tunnels).to_have_count(0)
        opened = await device.open()
        await expect(tunnels).to_contain_text("wiki.corp.example", timeout=1500)
        day = page.get_by_role("region", name="Last 24 hours")
        await expect(day).to_contain_text("1 tunnel opened", timeout=1500)
        await shown.picture("overview")
        for of, title in (("alice", "alice"), ("gw-berlin", "gw-berlin"), ("wiki.corp.example",) * 2):
            await page.get_by_role("group", name="1 tunnel between").get_by_role("link", name=of).click()
            await expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
            if of == "gw-berlin":
                heads = page.get_by_role("table", name="Tunnels").get_by_role("columnheader")
                await expect(heads.filter(has_text="Name")).to_have_count(1)
                await expect(heads.filter(has_text="Gateway")).to_have_count(0)
                await shown.picture("gateway-tunnel")
            await page.go_back()
        name = tunnels.get_by_role("columnheader", name="Name")
        await expect(name).to_have_attribute("aria-sort", "none")
        await name.get_by_role("button").click()
        await expect(name).to_have_attribute("aria-sort", "ascending")
        await refused(device.open("git.corp.example"))
        # At most each five seconds.
        await expect(day).to_contain_text("1 denied", timeout=7_000)
        await page.get_by_role("link", name="1 denial today").click()
        log = page.get_by_role("table", name="Activity")
        await expect(log).to_contain_text("was denied git.corp.example")
        await expect(log.get_by_text("denied", exact=True)).to_have_count(1)
        await page.go_back()
        await device.close(opened.tunnel.tunnel_id)
        await expect(tunnels).to_have_count(0, timeout=1500)
        await page.get_by_role("link", name="Resources").click()
        await expect(page.get_by_role("link", name="wiki.corp.example")).to_be_visible()
        await world.add_resource("git", ["gw-berlin"], address="10.20.0.10")
        await expect(page.get_by_role("link", name="git.corp.example")).to_be_visible()


async def test_the_palette_finds_things_of_each_kind_and_starts_acts(
    world: World, running: Browser, switch: Switch
) -> None:
    device = await world.enrol()
    await device.prove()
    await world.rest("POST", "/groups", {"name": "writers", "members": ["alice"]})
    await world.rest("POST", "/policies", {"name": "Read it", "group": "writers", "resources": ["wiki"]})
    await world.rest("POST", "/assertions", {"user": "alice", "name": "wiki.corp.example", "reaches": True})
    await world.rest("POST", "/tokens", {"name": "prometheus", "scopes": ["metrics:read"], "days": 9})
    await world.rest("POST", "/users", {"name": "zoe", "email": "zoe@corp.example"})
    await world.rest("POST", "/invitations", {"user": "zoe"})
    zone = {"name": "lab", "origin": "lab.example", "server": "192.0.2.53", "key": "k"}
    await world.rest("POST", "/dns/zones", zone)
    await joined_sites(world)
    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("no/such/page")
        await shown.sign_in(olga)
        # A wrong address keeps the navigation.
        await expect(page.get_by_role("heading", name="There is nothing at this address")).to_be_visible()
        await expect(page.get_by_role("navigation", name="Main")).to_be_visible()
        await shown.picture("not-found")
        for typed, found in (
            ("wiki", "wiki.corp.example"),
            ("gw-ber", "gw-berlin"),
            ("alice", "alice"),
            ("lapt", "laptop"),
            ("writ", "writers"),
            ("read", "Read it"),
            ("rome", "paris-rome"),
            ("lab.ex", "lab.example"),
            ("zoe", "Invitation of zoe"),
            ("alice can", "alice can reach wiki.corp.example"),
            ("olg", "olga"),
            ("prom", "prometheus"),
        ):
            await page.keyboard.press("Control+k")
            await page.get_by_role("textbox", name="Search or jump to").fill(typed)
            await expect(page.locator("[data-action]", has_text=found).first).to_be_visible()
            await shown.picture(f"commands-{found.split()[0]}")
            await page.keyboard.press("Escape")
        for act, kind, title in (
            ("Add a resource", "heading", "Add a resource"),
            ("Add a gateway", "heading", "Add a gateway"),
            ("Invite a person", "dialog", "Invite a person"),
            ("Add a person", "dialog", "Add a person"),
            ("Add a group", "heading", "Add a group"),
            ("Add a policy", "heading", "Add a policy"),
            ("Add a site tunnel", "heading", "Add a site tunnel"),
            ("Add a zone", "dialog", "Add a zone"),
            ("Add an assertion", "dialog", "Add an assertion"),
            ("Invite an administrator", "dialog", "Invite an administrator"),
            ("Make a token", "dialog", "Make a token"),
        ):
            await page.keyboard.press("Control+k")
            await page.get_by_role("textbox", name="Search or jump to").fill(act)
            await page.locator("[data-action]", has_text=act).first.click()
            opened = page.get_by_role("dialog" if kind == "dialog" else "heading", name=title, exact=True)
            await expect(opened).to_be_visible()
            if act == "Invite a person":
                await opened.get_by_role("combobox", name="Person").click()
                await page.get_by_role("option", name="zoe").click()
                await shown.picture("invite-chosen")
                await opened.get_by_role("button", name="Make a link").click()
                opened = page.get_by_role("dialog", name="Invite a computer of zoe")
                await expect(opened.get_by_role("textbox", name="Invitation")).to_be_visible()
                await opened.get_by_role("button", name="Done").click()
            elif kind == "dialog":
                await opened.get_by_role("button", name="Cancel").click()
            if kind == "dialog":
                await expect(opened).to_have_count(0)
                assert "dialog=" not in page.url


async def joined_sites(world: World) -> None:
    sites = {"gw-paris": 9, "gw-rome": 10}
    for name, number in sites.items():
        lan = {
            "port": 2,
            "mac": "02:00:00:00:02:01",
            "prefix": f"10.{number}.0.0/24",
            "address": f"10.{number}.0.1",
            "neighbours": {f"10.{number}.0.10": "02:00:00:00:02:10"},
        }
        await world.add_gateway(name, number, number, lan=lan)
    ends = [
        {"gateway": name, "targets": [{"prefix": f"10.{number}.0.0/24"}]} for name, number in sites.items()
    ]
    await world.rest(
        "POST", "/site-tunnels", {"name": "paris-rome", "ends": ends, "owner": "bob@corp.example"}
    )


async def test_a_view_that_the_network_lost_is_asked_for_again(world: World, running: Browser) -> None:
    lost = set[str]()

    async def once_lost(asked: Route) -> None:
        if asked.request.url in lost:
            await asked.continue_()
        else:
            lost.add(asked.request.url)
            await asked.abort("internetdisconnected")

    async with administrator(world, "olga", "owner") as olga, console(world, running) as shown:
        page = shown.page
        await shown.open("resources")
        await shown.sign_in(olga)
        await page.evaluate("window.same = true")
        await page.route("**/assets/**", once_lost)
        await page.get_by_role("link", name="DNS").click()
        await expect(page.get_by_role("heading", name="DNS", exact=True)).to_be_visible()
        assert any(re.search(r"/DnsPage-[^/]*\.js$", url) for url in lost)
        assert await page.evaluate("window.same"), "the page was loaded again"


async def test_an_auditor_sees_no_button_that_would_be_refused(
    world: World, running: Browser, switch: Switch
) -> None:
    async with administrator(world, "arno", "auditor") as arno, console(world, running, narrow=True) as shown:
        page = shown.page
        await shown.open("resources")
        await shown.sign_in(arno)
        await page.get_by_role("link", name="wiki.corp.example").wait_for()
        await shown.picture("narrow-resources")
        await expect(page.get_by_role("link", name="Add a resource")).to_have_count(0)
        await page.get_by_role("link", name="wiki.corp.example").click()
        await expect(page.get_by_label("Owner")).to_be_disabled()
        for name in ("Delete", "Save"):
            await expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
        await shown.picture("narrow-resource")
        await page.get_by_role("button", name="Navigation").click()
        await page.get_by_role("link", name="Overview").click()
        await expect(page.get_by_text("1 of 1")).to_be_visible()
        # A name breaks between its parts alone, and a pointer reaches it in full.
        parts = page.get_by_role("group", name="0 tunnels").get_by_title("wiki.corp.example")
        await expect(parts).to_have_text(["wiki.", "corp.", "example"])
        assert await parts.evaluate_all(
            "all => all.every(it => it.getClientRects().length === 1 && it.scrollWidth <= it.clientWidth)"
        )
        await parts.last.hover()
        await parts.last.scroll_into_view_if_needed()
        await shown.picture("narrow-overview")
