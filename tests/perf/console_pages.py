"""The admin console in Chromium, beside the lab's controller.

`console_interactive_ms`, `console_german_ms`: from nothing in the cache to the overview, its main thread idle; the German
texts are a file of their own.
`map_appears_ms`, `map_goes_ms`: from a tunnel's keys at the device, and from its end there, to the overview that is open;
the moment is that of its document, on this machine's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from statistics import median

from culvert_lab import laptop, parts
from culvert_lab import topology as net
from culvert_lab.console import Console, chromium_running, person
from culvert_lab.expose import relay
from culvert_lab.free_port import free_port
from culvert_lab.office import Office, open_office
from culvert_lab.topology import Site
from figures import Figure
from playwright.async_api import Page

NAMES = ("console_interactive_ms", "console_german_ms", "map_appears_ms", "map_goes_ms")
TIMES = 15
LOADS = 7
_PASSWORD = "correct horse battery"
# Settles with the Unix time in milliseconds at which the table names it, or no longer does.
_SEEN = """([name, there]) => new Promise(settle => {
  const look = () => {
    const table = document.querySelector('[aria-label="Tunnels"]')
    if ((table?.textContent ?? "").includes(name) !== there) return
    watch.disconnect()
    settle(performance.timeOrigin + performance.now())
  }
  const watch = new MutationObserver(look)
  watch.observe(document.body, {subtree: true, childList: true, characterData: true})
  look()
})"""
_IDLE = """() => document.querySelector('.react-flow__node')
  && new Promise(settle => requestIdleCallback(() => settle(performance.now())))"""


async def measure() -> list[Figure]:
    """Medians. Raises RuntimeError when a tunnel does not open or close."""
    async with open_office() as office, _overview(office) as shown:
        runs = [await _once(office, shown.page) for _ in range(TIMES + 1)]
        loads = [await _load(shown, "en-GB") for _ in range(LOADS + 1)]
        german = [await _load(shown, "de-DE") for _ in range(LOADS + 1)]
    # The first ones find programs and files that are not in memory yet.
    appears, goes = zip(*runs[1:], strict=True)
    return [
        Figure("console_interactive_ms", median(loads[1:]), f"ms (at most {max(loads[1:]):.0f})"),
        Figure("console_german_ms", median(german[1:]), f"ms (at most {max(german[1:]):.0f})"),
        Figure("map_appears_ms", median(appears), f"ms (at most {max(appears):.0f})"),
        Figure("map_goes_ms", median(goes), f"ms (at most {max(goes):.0f})"),
    ]


async def _once(office: Office, page: Page) -> tuple[float, float]:
    seen = asyncio.create_task(page.evaluate(_SEEN, [net.WIKI_NAME, True]))
    await _said(office, "open")
    click = next(it for it in (await laptop.status(office.lab)).clicks if it.fqdn == net.WIKI_NAME)
    keys = next(step.at_us for step in click.steps if step.name == "sas_in") + click.started_us
    appeared = await seen - keys / 1e3
    gone = asyncio.create_task(page.evaluate(_SEEN, [net.WIKI_NAME, False]))
    began = await page.evaluate("performance.timeOrigin + performance.now()")
    await _said(office, "close")
    return appeared, await gone - began


async def _load(shown: Console, locale: str) -> float:
    browser = shown.page.context.browser
    assert browser is not None
    context = await browser.new_context(
        ignore_https_errors=True, locale=locale, storage_state=await shown.page.context.storage_state()
    )
    page = await context.new_page()
    await page.goto(f"{shown.url}/console/")
    assert (await page.evaluate("document.documentElement.lang")).startswith(locale[:2])
    idle = await (await page.wait_for_function(_IDLE)).json_value()
    await context.close()
    return float(idle)


async def _said(office: Office, command: str) -> None:
    done = await office.culvert(command, net.WIKI_NAME)
    if done.code:
        raise RuntimeError(done.stderr)


@asynccontextmanager
async def _overview(office: Office) -> AsyncGenerator[Console]:
    port = free_port()
    async with relay(office.lab.inside(Site.CONTROLLER), port), chromium_running() as chromium:
        context = await person(chromium)
        shown = Console(await context.new_page(), f"https://127.0.0.1:{port}")
        await shown.become_owner(await parts.first_owner(office.lab), "ada", _PASSWORD)
        yield shown
        await context.close()
