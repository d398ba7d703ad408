"""Each command of docs/quick-start.md, as it stands there, on machines under their own systemd: the first page opens.

name server ─► controller ─► console ─► gateway ─► console ─► laptop ─► page        minutes, steps ─► build/fleet.json
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
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
from .machines import PUBLIC_NAME, Fleet
from .quick_start import QuickStart
from .terminal import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1200)]

BUILD = parts.ROOT / "build"
FIGURES = BUILD / "fleet.json"
NAME_SERVER, CONTROLLER, GATEWAY = "Before: the name server", "The controller", "The gateway"
FIRST_NAME, LAPTOP = "The first name", "A laptop"
# An organisation has prepared its name server before it begins.
STEPS = (CONTROLLER, GATEWAY, FIRST_NAME, LAPTOP)
PURGED = {
    Site.LAPTOP: ("culvert-client", "culvert-tray"),
    Site.GATEWAY: ("culvert-gateway",),
    Site.CONTROLLER: ("culvert-controller",),
}
PASSWORD = "correct horse battery"
POOL = "10.99.0.0/24"
ONLINE_MS = 60_000


@dataclass(slots=True)
class Walk:
    """A person's way along the page. `done`: what the person did, by section: commands, answers, forms."""

    release: Release
    text: QuickStart
    fleet: Fleet
    began: float = field(default_factory=time.monotonic)
    done: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    arrived: dict[str, float] = field(default_factory=dict[str, float])

    def type(self, section: str, start: str, at: Site, **known: str) -> Terminal:
        """The section's next command that starts so, at a machine. `known`: words of the text that stand for others."""
        command = self.text.take(section, start)
        for word, meant in known.items():
            assert word in command
            command = command.replace(word, meant)
        self.did(section, "commands")
        return self.fleet[at].type(command)

    def answer(self, section: str, terminal: Terminal, question: str, words: str) -> None:
        terminal.answer(question, words)
        self.did(section, "answers")

    def did(self, section: str, what: str) -> None:
        self.done.setdefault(section, Counter())[what] += 1

    def finish(self, section: str) -> None:
        self.arrived[section] = round(time.monotonic() - self.began, 1)

    def say(self) -> None:
        for section, seconds in self.arrived.items():
            did = ", ".join(f"{count} {what}" for what, count in self.done[section].items())
            print(f"{self.release.tag}  {seconds:7.1f} s  {section}: {did}")


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
    _prepare_name_server(walk)
    link = _set_up_controller(walk)
    async with AsyncExitStack() as stack:
        monkeypatch.setenv("CULVERT_CHROMIUM", str(fleet.make_browser(Site.INTERNET)))
        context = await person(await stack.enter_async_context(chromium_running()))
        url = f"https://{PUBLIC_NAME}:{net.REST_PORT}"
        assert link.startswith(f"{url}/console/setup#token=")
        shown = Console(await context.new_page(), url)
        await shown.become_owner(link.removeprefix(url), "ada", PASSWORD)
        walk.did(CONTROLLER, "forms")
        await _add_zone(walk, shown)
        walk.finish(CONTROLLER)
        await _join_gateway(walk, shown)
        # From here on: `join` has asked the office's router from an address of the pool, and its answers went astray.
        watch = await capture.start(lab, lab.work / "fleet.pcapng")
        invitation = await _publish_first_name(walk, shown)
        monkeypatch.setenv("CULVERT_CHROMIUM", str(fleet.make_browser(Site.LAPTOP)))
        at_laptop = await person(await stack.enter_async_context(chromium_running()))
        page = await at_laptop.new_page()
        await page.goto(invitation)
        await expect(page.get_by_text("This invitation is for alice")).to_be_visible()
        # Chromium has no program for culvert:// here.
        await page.evaluate("addEventListener('click', event => event.preventDefault())")
        await page.get_by_role("link", name="Enrol this computer").click()
        _enrol(walk, invitation)
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
    _write_figures(walk)


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


def _prepare_name_server(walk: Walk) -> None:
    walk.type(NAME_SERVER, "tsig-keygen", Site.DNS).end()
    walk.fleet[Site.DNS].write(
        "/etc/bind/named.conf.local", walk.text.take(NAME_SERVER, "include").encode() + b"\n"
    )
    walk.did(NAME_SERVER, "files")
    walk.type(NAME_SERVER, "rndc", Site.DNS).end()
    walk.finish(NAME_SERVER)


def _set_up_controller(walk: Walk) -> str:
    """The link for the first administrator."""
    walk.type(CONTROLLER, "apt install", Site.CONTROLLER).end()
    setup = walk.type(CONTROLLER, "culvert-controller setup", Site.CONTROLLER)
    for question, words in (
        ("ublic name", PUBLIC_NAME),
        ("ones", net.ZONE),
        ("atabase", ""),
        ("Go on?", "y"),
    ):
        walk.answer(CONTROLLER, setup, question, words)
    said = setup.end()
    link = re.search(r"https://\S+#token=\S+", said)
    assert link is not None, said
    walk.fleet[Site.CONTROLLER].write("/srv/culvert.key", walk.fleet[Site.DNS].read("/etc/bind/culvert.key"))
    walk.type(CONTROLLER, "install", Site.CONTROLLER).end()
    return link[0]


async def _add_zone(walk: Walk, shown: Console) -> None:
    page = shown.page
    await page.get_by_role("navigation").get_by_role("link", name="DNS", exact=True).click()
    await page.get_by_role("button", name="Add a zone").first.click()
    for label, words in (
        ("Zone", net.ZONE),
        ("Short name", "corp"),
        ("Name server", net.DNS_ADDRESS),
        ("TSIG key", "culvert"),
    ):
        await page.get_by_role("textbox", name=label, exact=True).fill(words)
    await page.get_by_role("button", name="Add it").click()
    await expect(page.get_by_text(f"{net.ZONE} is added")).to_be_visible()
    walk.did(CONTROLLER, "forms")


async def _join_gateway(walk: Walk, shown: Console) -> None:
    page = shown.page
    await shown.open("gateways/join")
    await page.get_by_role("textbox", name="Name").fill(parts.GATEWAY)
    await page.get_by_role("textbox", name="Addresses of devices").fill(POOL)
    await page.get_by_role("button", name="Make the link").click()
    walk.did(GATEWAY, "forms")
    offered = await page.get_by_label("Command").inner_text()
    command, _, link = offered.removesuffix("'").partition("'")
    assert "behind a port-forward" in quick_start.PAGE.read_text()
    # The page in the console waits for the same line, to which the text adds an option for a computer behind a router.
    public = f"'{link}' --public-address {net.GATEWAY_ADDRESS}"
    join = walk.type(GATEWAY, f"{command}'LINK'", Site.GATEWAY, **{"'LINK'": public})
    walk.answer(GATEWAY, join, "Go on?", "y")
    route = re.search(r"\(on Linux: (ip route add [0-9./]+ via [0-9.]+)\)", join.end())
    assert route is not None, join.text
    machines.run_in_office(*route[1].split())
    walk.did(GATEWAY, "routes")
    assert f"The gateway {parts.GATEWAY} is online." in join.text
    await expect(page.get_by_role("status").get_by_text("online", exact=True)).to_be_visible(
        timeout=ONLINE_MS
    )
    walk.finish(GATEWAY)


async def _publish_first_name(walk: Walk, shown: Console) -> str:
    """The invitation's link."""
    page = shown.page
    await page.get_by_role("navigation").get_by_role("link", name="People", exact=True).click()
    await page.get_by_role("button", name="Add a person").first.click()
    await page.get_by_role("textbox", name="Name").fill("alice")
    await page.get_by_role("textbox", name="E-mail").fill(f"alice@{net.ZONE}")
    await page.get_by_role("button", name="Add and invite").click()
    await page.get_by_role("button", name="Make a link").click()
    link = await page.get_by_role("textbox", name="Invitation").input_value()
    await page.get_by_role("button", name="Done").click()
    walk.did(FIRST_NAME, "forms")
    await page.get_by_role("navigation").get_by_role("link", name="Resources", exact=True).click()
    await page.get_by_role("link", name="Add a resource").first.click()
    await page.get_by_role("textbox", name="Name that people open").fill(net.WIKI_NAME)
    await page.get_by_role("textbox", name="Address or prefix 1").fill(net.WIKI_ADDRESS)
    for label, choice in (("Gateways", parts.GATEWAY), ("People", "alice")):
        await page.get_by_label(re.compile(f"^{label}")).first.click()
        await page.get_by_role("option", name=choice).click()
        await page.keyboard.press("Escape")
    await page.get_by_role("textbox", name="Owner").fill(f"bob@{net.ZONE}")
    await page.get_by_role("button", name="Preview").click()
    await page.get_by_role("button", name="Publish it").click()
    await expect(page.get_by_text("is published")).to_be_visible()
    walk.did(FIRST_NAME, "forms")
    walk.finish(FIRST_NAME)
    return link


def _enrol(walk: Walk, invitation: str) -> None:
    walk.type(LAPTOP, "apt install", Site.LAPTOP).end()
    enrol = walk.type(LAPTOP, "culvert enroll", Site.LAPTOP, LINK=invitation)
    enrol.wait_for("\nCode")
    walk.answer(LAPTOP, enrol, "\nCode", laptop.code_of(re.findall(r"otpauth://\S+", enrol.text)[-1]))
    enrol.end()


def _write_figures(walk: Walk) -> None:
    """Beside the figures of other tests; over several releases, the slowest counts."""
    there: dict[str, Any] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    minutes = round(walk.arrived[LAPTOP] / 60, 2)
    runs: dict[str, Any] = there.get("quick_start", {}) | {
        walk.release.tag: {
            "minutes": minutes,
            "seconds_at_the_end_of": walk.arrived,
            "done": {section: dict(done) for section, done in walk.done.items()},
        }
    }
    there |= {
        "quick_start": runs,
        "minutes_to_first_page": max(run["minutes"] for run in runs.values()),
        "human_steps": len([step for step in STEPS if step in walk.done]),
    }
    FIGURES.write_text(json.dumps(there, indent=2) + "\n")
