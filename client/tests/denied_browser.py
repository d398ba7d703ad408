"""Chromium meets a denied name, in namespaces of its own. Prints JSON, which test_denied_browser.py reads."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

from culvert_client.config import Endpoint
from culvert_lab.console import SCREENS, chromium_running, person
from culvert_proto import CulvertError, Reason, local_pb2
from playwright.async_api import Browser, Page, ViewportSize

from .controller import CODE
from .name_server import from_records, name_server
from .running import Running, running
from .test_daemon import RECORDS, WIKI, Lab

GIT = "git.corp.example"
WIDE, NARROW = ViewportSize(width=1366, height=768), ViewportSize(width=320, height=640)
EVIL = f"""<!doctype html><title>evil</title><script>
const body = new URLSearchParams({{code: "{CODE}", token: "x", to: "/"}});
const blind = fetch("http://{WIKI}/.culvert/code", {{method: "POST", mode: "no-cors", body}});
const read = fetch("http://{WIKI}/").then(it => it.text());
Promise.allSettled([blind, read]).then(it => document.title = JSON.stringify(it.map(one => one.status)));
</script>"""


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def set_up(directory: Path) -> None:
    """The server's address on this computer, and its resolver at the stub."""
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "address", "add", "10.20.0.10/32", "dev", "lo")
    resolv = directory / "resolv.conf"
    resolv.write_text("nameserver 127.0.0.1\n")
    _run("mount", "--bind", str(resolv), "/etc/resolv.conf")


async def serve(host: str, port: int, page: str, asked: list[str]) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ")[1]
        asked.append(line)
        body = page.format(path=line).encode() if "{path}" in page else page.encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, host, port)


async def shoot(browser: Browser, name: str, refused: str) -> None:
    schemes: list[Literal["light", "dark"]] = ["light", "dark"]
    for scheme in schemes:
        for locale in ("en-GB", "de-DE"):
            for viewport in (WIDE, NARROW):
                context = await browser.new_context(
                    locale=locale,
                    color_scheme=scheme,
                    viewport=viewport,
                    device_scale_factor=2,
                )
                page = await context.new_page()
                await page.goto(f"http://{refused}/")
                wide = await page.evaluate("document.documentElement.scrollWidth")
                assert wide <= viewport["width"], (name, viewport, wide)
                shown = f"denial-{name}-{locale[:2]}-{scheme}-{viewport['width']}.png"
                await page.screenshot(path=SCREENS / shown)
                await context.close()


async def enter(page: Page, code: str) -> None:
    await page.fill("#code", code)
    await page.click("button")
    await page.wait_for_load_state()


async def watch(daemon: Running, lab: Lab) -> dict[str, object]:
    seen: dict[str, object] = {}
    visits: list[str] = []
    site = await serve("10.20.0.10", 80, "<h1>the wiki: {path}</h1>", visits)
    evil = await serve("127.0.0.1", 8000, EVIL, [])
    SCREENS.mkdir(parents=True, exist_ok=True)
    async with site, evil, chromium_running() as browser:
        await shoot(browser, "code", WIKI)
        page = await (await person(browser)).new_page()
        await page.goto("http://127.0.0.1:8000/")
        await page.wait_for_function("document.title.startsWith('[')")
        seen["evil"] = json.loads(await page.title())
        seen["code after evil"] = lab.controller.profile.code_valid_until
        await page.goto(f"http://{WIKI}/guide?part=2")
        seen["heading"] = await page.inner_text("h1")
        await enter(page, "000000")
        seen["wrong"] = await page.inner_text("#wrong")
        await page.screenshot(path=SCREENS / "denial-wrong.png")
        await enter(page, f"{CODE[:3]} {CODE[3:]}")
        seen["opened"] = await page.inner_text("h1")
        seen["address"] = page.url
        seen["visits"] = list(visits)
        await page.goto(f"http://{WIKI}/next")
        seen["next"] = await page.inner_text("h1")
        # As a browser that has kept the address of before.
        reader, writer = await asyncio.open_connection("127.67.85.76", 80)
        writer.write(f"GET /kept HTTP/1.1\r\nHost: {WIKI}\r\n\r\n".encode())
        seen["kept"] = (await reader.read()).decode()
        writer.close()
        lab.controller.refusals[GIT] = CulvertError(
            Reason.NO_POLICY, user="alice", name=GIT, owner="bob@corp.example"
        )
        await shoot(browser, "policy", GIT)
        await page.goto(f"http://{GIT}/")
        seen["refused"] = await page.inner_text("h1")
        seen["links"] = await page.eval_on_selector_all("a", "them => them.map(it => it.href)")
    return seen


async def main(directory: Path) -> dict[str, object]:
    lab = Lab(directory)
    lab.controller.profile.denial_page_zones.append("corp.example")
    async with (
        lab.serving(),
        name_server(from_records(RECORDS)) as (upstream, _),
        running(
            directory,
            upstream,
            dns_listen=Endpoint("127.0.0.1", 53),
            denial_page=Endpoint("127.67.85.76", 80),
        ) as daemon,
    ):
        await lab.enroll(daemon)
        await daemon.until(lambda status: status.state == local_pb2.STATE_NEEDS_CODE)
        began = time.monotonic()
        return await watch(daemon, lab) | {"seconds": time.monotonic() - began}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        set_up(Path(made))
        json.dump(asyncio.run(main(Path(made))), sys.stdout)
