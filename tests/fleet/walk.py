"""A person's way along docs/quick-start.md: each command as it stands there, each form of the console.

name server ─► controller ─► console ─► gateway ─► console ─► laptop
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass, field

from culvert_lab import laptop, parts
from culvert_lab import topology as net
from culvert_lab.console import Console
from culvert_lab.topology import Site
from playwright.async_api import expect
from releases import Release

from . import machines, quick_start
from .machines import PUBLIC_NAME, Fleet
from .quick_start import QuickStart
from .terminal import Terminal

NAME_SERVER, CONTROLLER, GATEWAY = "Before: the name server", "The controller", "The gateway"
FIRST_NAME, LAPTOP = "The first name", "A laptop"
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


def prepare_name_server(walk: Walk) -> None:
    walk.type(NAME_SERVER, "tsig-keygen", Site.DNS).end()
    walk.fleet[Site.DNS].write(
        "/etc/bind/named.conf.local", walk.text.take(NAME_SERVER, "include").encode() + b"\n"
    )
    walk.did(NAME_SERVER, "files")
    walk.type(NAME_SERVER, "rndc", Site.DNS).end()
    walk.finish(NAME_SERVER)


def set_up_controller(walk: Walk) -> str:
    """The link for the first administrator."""
    walk.type(CONTROLLER, "apt install", Site.CONTROLLER).end()
    setup = walk.type(CONTROLLER, "culvert-controller setup", Site.CONTROLLER)
    for question, words in (
        ("ublic name", PUBLIC_NAME),
        ("ones", net.ZONE),
        ("refixes", net.PROTECTED_PREFIX),
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


async def add_zone(walk: Walk, shown: Console) -> None:
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


async def join_gateway(walk: Walk, shown: Console) -> None:
    page = shown.page
    await shown.open("gateways/join")
    await page.get_by_role("textbox", name="Name").fill(parts.GATEWAY)
    await page.get_by_role("textbox", name="Address pool").fill(POOL)
    await page.get_by_role("button", name="Make the link").click()
    walk.did(GATEWAY, "forms")
    offered = await page.get_by_label("Command", exact=True).inner_text()
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


async def publish_first_name(walk: Walk, shown: Console) -> str:
    """The invitation's link."""
    page = shown.page
    await page.get_by_role("navigation").get_by_role("link", name="People", exact=True).click()
    await page.get_by_role("button", name="Add a person").first.click()
    await page.get_by_role("textbox", name="Login name").fill("alice")
    await page.get_by_role("textbox", name="E-mail").fill(f"alice@{net.ZONE}")
    await page.get_by_role("button", name="Add and invite").click()
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


def enrol(walk: Walk, invitation: str) -> None:
    walk.type(LAPTOP, "apt install", Site.LAPTOP).end()
    enrol = walk.type(LAPTOP, "culvert enroll", Site.LAPTOP, LINK=invitation)
    walk.answer(LAPTOP, enrol, "Enrol this computer?", "yes")
    enrol.wait_for("\nCode")
    walk.answer(LAPTOP, enrol, "\nCode", laptop.code_of(re.findall(r"otpauth://\S+", enrol.text)[-1]))
    enrol.end()
