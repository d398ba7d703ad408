"""Each command of docs/quick-start.md, as it stands there, on machines under their own systemd: the first page opens.

name server ─► controller ─► console ─► gateway ─► console ─► laptop ─► page ─► upgrades ─► reboots ─► purge
                                                                       figures of each ─► build/fleet.json
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from culvert_lab import capture, laptop, parts
from culvert_lab import topology as net
from culvert_lab.console import Console, chromium_running, person
from culvert_lab.topology import Site
from debian import TESTED, find_difference
from playwright.async_api import expect
from releases import Release

from . import machines, quick_start
from .machines import NEWS_ADDRESS, PUBLIC_NAME
from .next_version import make_next
from .traffic import Clicks, Echo, click
from .walk import (
    CONTROLLER,
    FIRST_NAME,
    GATEWAY,
    LAPTOP,
    Walk,
    add_zone,
    enrol,
    join_gateway,
    prepare_name_server,
    publish_first_name,
    set_up_controller,
)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1200)]

BUILD = parts.ROOT / "build"
FIGURES = BUILD / "fleet.json"
# An organisation has prepared its name server before it begins.
STEPS = (CONTROLLER, GATEWAY, FIRST_NAME, LAPTOP)
PURGED = {
    Site.LAPTOP: ("culvert-client", "culvert-tray"),
    Site.GATEWAY: ("culvert-gateway",),
    Site.CONTROLLER: ("culvert-controller",),
}
PASSWORD = "correct horse battery"
# A name of the intranet, whose tunnel the person closes after each page.
NEWS = f"news.{net.ZONE}"
# A person waits no longer for a page.
PATIENCE = 60.0
# Seconds without a page while the only controller is replaced, and without a packet while the laptop's daemon is.
INTERRUPTION = 30.0
ADD_NEWS = f"""
import asyncio
from pathlib import Path
from culvert_service import config
from culvert_service.operation.rest_client import call
body = {{"name": "news", "fqdn": "{NEWS}", "address": "{NEWS_ADDRESS}", "gateways": ["{parts.GATEWAY}"],
        "users": ["alice"], "owner": "bob@{net.ZONE}"}}
asyncio.run(call(config.load(Path("/etc/culvert/controller.toml")), "POST", "/resources", body))
"""


@pytest_asyncio.fixture(params=TESTED, ids=lambda it: it.tag, scope="module", loop_scope="module")
async def walk(request: pytest.FixtureRequest) -> AsyncGenerator[Walk]:
    release: Release = request.param
    async with machines.raised(release, BUILD / f"fleet-{release.tag}") as fleet:
        walk = Walk(release, quick_start.read(), fleet)
        try:
            yield walk
        finally:
            machines.keep_logs(fleet, BUILD / "fleet-logs" / release.tag)


async def test_the_first_page_opens(walk: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, lab = walk.fleet, walk.fleet.lab
    walk.began = time.monotonic()
    prepare_name_server(walk)
    link = set_up_controller(walk)
    async with AsyncExitStack() as stack:
        monkeypatch.setenv("CULVERT_CHROMIUM", str(fleet.make_browser(Site.INTERNET)))
        context = await person(await stack.enter_async_context(chromium_running()))
        url = f"https://{PUBLIC_NAME}:{net.REST_PORT}"
        assert link.startswith(f"{url}/console/setup#token=")
        shown = Console(await context.new_page(), url)
        await shown.become_owner(link.removeprefix(url), "ada", PASSWORD)
        walk.did(CONTROLLER, "forms")
        await add_zone(walk, shown)
        walk.finish(CONTROLLER)
        await join_gateway(walk, shown)
        # From here on: `join` has asked the office's router from an address of the pool, and its answers went astray.
        watch = await capture.start(lab, lab.work / "fleet.pcapng")
        invitation = await publish_first_name(walk, shown)
        monkeypatch.setenv("CULVERT_CHROMIUM", str(fleet.make_browser(Site.LAPTOP)))
        at_laptop = await person(await stack.enter_async_context(chromium_running()))
        page = await at_laptop.new_page()
        await page.goto(invitation)
        await expect(page.get_by_text("This invitation is for alice")).to_be_visible()
        # Chromium has no program for culvert:// here.
        await page.evaluate("addEventListener('click', event => event.preventDefault())")
        await page.get_by_role("link", name="Enrol this computer").click()
        enrol(walk, invitation)
        await expect(page.get_by_role("heading", name="laptop is enrolled")).to_be_visible()
        await shown.page.get_by_role("navigation").get_by_role("link", name="Devices", exact=True).click()
        await expect(shown.page.get_by_text("laptop", exact=True)).to_be_visible()

        resolver = fleet[Site.LAPTOP].read("/etc/resolv.conf")
        (lab.work / Site.LAPTOP.short / "etc/resolv.conf").write_bytes(resolver)
        found = await laptop.open_page(lab, f"http://{net.WIKI_NAME}/", BUILD / "fleet.png")
        assert net.MARKER in found.text, found
        walk.finish(LAPTOP)
        assert not shown.faults, shown.faults
    seen = await watch.stop()
    assert seen.esp > 0
    assert not seen.cleartext, seen.cleartext_samples
    walk.say()
    quick_start_figures = {
        "minutes": round(walk.arrived[LAPTOP] / 60, 2),
        "seconds_at_the_end_of": walk.arrived,
        "done": {section: dict(done) for section, done in walk.done.items()},
    }
    _write_figures("quick_start", walk, quick_start_figures)


async def test_upgrades_lose_no_packet_and_no_tunnel(walk: Walk, tmp_path: Path) -> None:
    """Each machine to the next version, and back, while a tunnel carries packets and a person opens pages."""
    fleet, lab = walk.fleet, walk.fleet.lab
    at_laptop, figures = fleet[Site.LAPTOP], dict[str, Any]()
    after = {site: [make_next(it, tmp_path) for it in fleet[site].packages] for site in PURGED}
    _add_news(walk)
    watch = await capture.start(lab, lab.work / "upgrades.pcapng")
    for site in (Site.GATEWAY, Site.CONTROLLER, Site.LAPTOP):
        machine = fleet[site]
        for way, packages in (("upgrade", after[site]), ("downgrade", machine.packages)):
            at_laptop.debian.run("culvert", "open", net.WIKI_NAME)
            with (
                Echo(lab.inside(Site.LAPTOP), net.WIKI_ADDRESS) as echo,
                Clicks(at_laptop, NEWS, net.MARKER) as clicks,
            ):
                clicks.after(5)
                began = time.monotonic()
                machine.install(packages)
                took = time.monotonic() - began
                clicks.after(5)
            figures[f"{site.short}_{way}"] = {
                "seconds": round(took, 1),
                "packets": echo.sent,
                "lost": echo.lost,
                "interruption_s": round(echo.interruption, 2),
                "clicks": clicks.made,
                "failed_clicks": len(clicks.failed),
                "outage_s": round(clicks.outage, 2),
                "longest_click_s": round(clicks.longest, 2),
            }
            print(walk.release.tag, site.short, way, figures[f"{site.short}_{way}"])
            print(*clicks.failed, sep="\n")
            for package, file in zip(PURGED[site], packages, strict=True):
                asked = ("dpkg-query", "--show", "--showformat=${Version}", package)
                assert machine.debian.run(*asked) == file.name.split("_")[1]
    _write_figures("upgrades", walk, figures)
    seen = await watch.stop()
    assert not seen.cleartext, seen.cleartext_samples
    for change, found in figures.items():
        site = Site(f"culvert-{change.partition('_')[0]}")
        assert found["lost"] == 0 or site is Site.LAPTOP, change
        assert found["failed_clicks"] == 0 or site is not Site.GATEWAY, change
        assert max(found["interruption_s"], found["outage_s"]) < INTERRUPTION, change


async def test_machines_come_back_by_themselves_after_a_reboot(walk: Walk) -> None:
    """One after the other, shut down as a person does; then a power cut takes all of them at once."""
    figures: dict[str, Any] = {}
    for sites in ((Site.CONTROLLER,), (Site.GATEWAY,), (Site.LAPTOP,), tuple(PURGED)):
        affected = [walk.fleet[it] for it in sites]
        for machine in affected:
            machine.switch_off(cleanly=len(sites) == 1)
        began = time.monotonic()
        for machine in affected:
            machine.boot()
        while fault := click(walk.fleet[Site.LAPTOP], NEWS, net.MARKER):
            assert time.monotonic() - began < PATIENCE, fault
        figures["_".join(it.short for it in sites)] = round(time.monotonic() - began, 1)
        for machine in affected:
            # The release's own units know of no container, as systemd-modules-load.
            failed = ("systemctl", "list-units", "--failed", "--plain", "--no-legend", "culvert*", "sluice*")
            assert machine.debian.run(*failed) == ""
    print(walk.release.tag, figures)
    _write_figures("seconds_from_boot_to_page", walk, figures)
    # Leases of before the power cut have to end.
    doctor = "until culvert-controller doctor; do sleep 1; done"
    walk.fleet[Site.CONTROLLER].debian.run("timeout", "60", "sh", "-c", doctor)


async def test_the_commands_for_afterwards_work_and_nothing_is_left(walk: Walk) -> None:
    for command, said in (
        ("journalctl", "ready"),
        ("culvert-controller doctor", "ok"),
        ("culvert-controller setup", "Nothing differs"),
        ("culvert-controller setup", "Changed."),
        ("culvert-controller backup", ""),
        ("culvert-controller init", "There is an owner"),
    ):
        shown = walk.type(CONTROLLER, command, Site.CONTROLLER).end()
        assert said in shown, shown
    for command, said in (("status", "online since"), ("doctor", "")):
        shown = walk.type(GATEWAY, f"culvert-gateway {command}", Site.GATEWAY).end()
        assert said in shown, shown
    leave = walk.type(GATEWAY, "culvert-gateway leave", Site.GATEWAY)
    leave.answer("?", "y")
    leave.end()
    assert walk.text.left == [], "nobody runs these"
    for site, packages in PURGED.items():
        machine = walk.fleet[site].debian
        machine.run("apt-get", "purge", "-y", "-q", *packages)
        machine.run("rm", "-f", "/srv/culvert.key")
        assert find_difference(walk.fleet[site].bare, machine.files()) == {}


def _add_news(walk: Walk) -> None:
    controller = walk.fleet[Site.CONTROLLER].debian
    controller.run("/usr/lib/culvert-controller/bin/python", "-I", "-c", ADD_NEWS)
    began = time.monotonic()
    while fault := click(walk.fleet[Site.LAPTOP], NEWS, net.MARKER):
        assert time.monotonic() - began < PATIENCE, fault


def _write_figures(name: str, walk: Walk, figures: dict[str, Any]) -> None:
    """By release, beside the figures of other tests; over several releases, the slowest counts."""
    there: dict[str, Any] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    there[name] = there.get(name, {}) | {walk.release.tag: figures}
    if name == "quick_start":
        runs = there[name].values()
        there["minutes_to_first_page"] = max(it["minutes"] for it in runs)
        there["human_steps"] = len([step for step in STEPS if step in walk.done])
    FIGURES.write_text(json.dumps(there, indent=2) + "\n")
