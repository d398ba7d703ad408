"""`map_appears_ms`, `map_goes_ms`: from a tunnel's keys at the device, and from its end there, to the console's overview.

Chromium has the page open; the moment is that of its document, on this machine's clock.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from statistics import median

from culvert_lab import laptop, parts
from culvert_lab import topology as net
from culvert_lab.console import Console, chromium_running, person
from culvert_lab.expose import relay
from culvert_lab.office import Office, opened
from culvert_lab.topology import Site
from figures import Figure
from playwright.async_api import Page

NAMES = ("map_appears_ms", "map_goes_ms")
TIMES = 15
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


async def measure() -> list[Figure]:
    """Medians. Raises RuntimeError when a tunnel does not open or close."""
    async with opened() as office, _overview(office) as page:
        runs = [await _once(office, page) for _ in range(TIMES + 1)]
    # The first finds the page still loading what it needs.
    appears, goes = zip(*runs[1:], strict=True)
    return [
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


async def _said(office: Office, command: str) -> None:
    done = await office.culvert(command, net.WIKI_NAME)
    if done.code:
        raise RuntimeError(done.stderr)


@asynccontextmanager
async def _overview(office: Office) -> AsyncGenerator[Page]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    async with relay(office.lab.inside(Site.CONTROLLER), port), chromium_running() as chromium:
        context = await person(chromium)
        shown = Console(await context.new_page(), f"https://127.0.0.1:{port}")
        await shown.become_owner(await parts.first_owner(office.lab), "ada", _PASSWORD)
        yield shown.page
        await context.close()
