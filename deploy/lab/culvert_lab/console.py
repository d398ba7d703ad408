"""The admin console in Chromium, as a test has it: what is seen, pictured in both themes, and no fault on the way."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    ViewportSize,
    async_playwright,
    expect,
)
from pyotp.totp import TOTP

from culvert_lab.browser import FLAGS, OWN_BROWSERS, chromium

_ROOT = Path(__file__).resolve().parents[3]
SCREENS = _ROOT / "build/screens"
BUILT = _ROOT / "service/console/dist/index.html"
AXE = _ROOT / "service/console/node_modules/axe-core/axe.min.js"
WIDE, NARROW = ViewportSize(width=1280, height=800), ViewportSize(width=375, height=740)
# 3840 × 2160 points of a screen that shows each at its own size.
LARGEST = ViewportSize(width=3840, height=2160)
# The browser's messages about an answer that a test has asked for, and about a server that the test has stopped.
_EXPECTED = ("Failed to load resource", "net::ERR_")
# Colours that are on their way to the other theme are neither.
SETTLED = """async () => {
  const moving = () => document.getAnimations().filter(it => it instanceof CSSTransition && it.playState !== 'finished');
  for (let found = moving(); found.length > 0; found = moving()) {
    found.forEach(it => it.finish());
    await new Promise(requestAnimationFrame);
  }
}"""
# A dialog gets its name a moment after it has opened.
NAMED = """() => [...document.querySelectorAll('[role=dialog]')].every(one =>
  one.ariaLabel || document.getElementById(one.getAttribute('aria-labelledby'))?.textContent)"""
# Parts above the page, which stay in their place on the screen.
ABOVE = ":is([role=dialog], [role=menu], [role=listbox], .mantine-Burger-burger[data-opened]):visible"
# Texts that their boxes, or boxes around these, cut; a name in full is in the title. Typed values scroll.
CUT = """() => {
  const pen = document.createElement('canvas').getContext('2d'), range = document.createRange();
  const cut = one => {
    const style = getComputedStyle(one), shown = one.checkVisibility({visibilityProperty: true, opacityProperty: true});
    if (!shown || one.closest('[title], [aria-hidden=true]')) return false;
    if (one.matches('input')) {
      pen.font = style.font;
      const room = one.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      return one.value === '' && pen.measureText(one.placeholder).width > room + 1;
    }
    const text = [...one.childNodes].some(it => it.nodeType === Node.TEXT_NODE && it.textContent.trim());
    if (!text) return false;
    if (style.overflowX !== 'visible') return one.clientWidth > 1 && one.scrollWidth > one.clientWidth + 1;
    let box = one;
    while (box && getComputedStyle(box).overflowX === 'visible') box = box.parentElement;
    // A box that scrolls cuts nothing.
    if (!box || box === document.body || !['hidden', 'clip'].includes(getComputedStyle(box).overflowX)) return false;
    range.selectNodeContents(one);
    const [outer, inner] = [box.getBoundingClientRect(), range.getBoundingClientRect()];
    return outer.width > 1 && (inner.right > outer.right + 1 || inner.left < outer.left - 1);
  };
  return [...document.querySelectorAll('body *')].filter(cut).map(it => it.placeholder || it.textContent);
}"""
# Words, and parts of names, that two lines share although one has room for them. Links and keys to copy break anywhere.
BROKEN = r"""() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange(), broken = [];
  while (texts.nextNode()) {
    const {data, parentElement: parent} = texts.currentNode;
    if (!parent.checkVisibility({visibilityProperty: true}) || parent.closest('pre, code, script, style')) continue;
    for (const part of data.matchAll(/[\p{L}\p{N}_]{2,}/gu)) {
      range.setStart(texts.currentNode, part.index);
      range.setEnd(texts.currentNode, part.index + part[0].length);
      const lines = [...range.getClientRects()];
      if (new Set(lines.map(it => Math.round(it.top))).size < 2) continue;
      let box = parent;
      while (getComputedStyle(box).display === 'inline') box = box.parentElement;
      const {paddingLeft, paddingRight} = getComputedStyle(box);
      const room = box.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
      if (lines.reduce((sum, it) => sum + it.width, 0) <= room) broken.push(`${part[0]} of ${data}`);
    }
  }
  return broken;
}"""
# Texts of disabled controls, which axe leaves out, with a contrast below 4.5:1 (WCAG 2.2, 1.4.3; docs/design.md).
FAINT = """() => {
  const pen = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = colour => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
    return {rgb: [red, green, blue], alpha: alpha / 255};
  };
  const over = (above, below, share) => above.map((it, place) => it * share + below[place] * (1 - share));
  const opacity = one => Number(getComputedStyle(one).opacity);
  const ground = one => {
    if (one === null) return [255, 255, 255];
    const below = ground(one.parentElement), {rgb, alpha} = rgba(getComputedStyle(one).backgroundColor);
    return over(over(rgb, below, alpha), below, opacity(one));
  };
  const light = rgb => {
    const linear = it => it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4;
    const [red, green, blue] = rgb.map(it => linear(it / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = one => {
    const behind = ground(one);
    let text = rgba(getComputedStyle(one).color).rgb;
    for (let it = one; it !== null; it = it.parentElement) text = over(text, ground(it.parentElement), opacity(it));
    const [less, more] = [light(behind), light(text)].sort((a, b) => a - b);
    return (more + 0.05) / (less + 0.05);
  };
  const texts = one => [...one.childNodes].filter(it => it.nodeType === Node.TEXT_NODE).map(it => it.data);
  const said = one => one.value || texts(one).join('').trim();
  return [...document.querySelectorAll(':disabled, :disabled *, [data-disabled], [data-disabled] *')]
    // A button's label is hidden while it waits for an answer.
    .filter(one => one.closest('[data-loading]') === null)
    .filter(one => one.checkVisibility({visibilityProperty: true, opacityProperty: true}) && said(one))
    .map(one => ({text: said(one), contrast: contrast(one)}))
    .filter(one => one.contrast < 4.5)
    .map(one => `${one.text} ${one.contrast.toFixed(1)}:1`);
}"""
# Long enough for a busy computer; a step that must be quick has a limit of its own.
_PATIENCE_MS = 20_000
expect.set_options(timeout=_PATIENCE_MS)


class Console:
    """A page of the console. `faults`: what no page may do, whatever is shown in it."""

    def __init__(self, page: Page, url: str, others: Sequence[str] = ()) -> None:
        """`others`: hosts that it may lead to."""
        self.page = page
        self.url = url
        self._hosts = {urlsplit(url).netloc, *others}
        self.faults: list[str] = []
        page.set_default_timeout(_PATIENCE_MS)
        page.on("console", self._says)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", self._asks)

    async def open(self, path: str = "") -> None:
        await self.page.goto(f"{self.url}/console/{path}")

    async def sign_in_as(self, name: str, code: str, password: str) -> None:
        await self.page.get_by_role("textbox", name="Name").fill(name)
        await self.page.locator("input[type=password]").fill(password)
        await self.page.get_by_role("textbox", name="Code").fill(code)
        await self.page.get_by_role("button", name="Sign in").click()

    async def become_owner(self, link: str, name: str, password: str) -> None:
        """By the controller's first link, as far as the overview."""
        await self.open(link.removeprefix("/console/"))
        await self.page.get_by_label("Name").fill(name)
        await self.page.locator("input[type=password]").fill(password)
        await self.page.get_by_role("button", name="Continue").click()
        secret = await self.page.locator("[data-secret]").inner_text()
        await self.page.get_by_label("A code that it shows").fill(TOTP(secret).now())
        await self.page.get_by_role("button", name="Sign in").click()
        await self.page.get_by_role("link", name="I have saved them").click()
        await expect(self.page.get_by_role("heading", name="Overview")).to_be_visible()

    async def picture(self, name: str) -> None:
        """In both themes, each of which has to be readable by everybody (axe). No text may be cut."""
        SCREENS.mkdir(parents=True, exist_ok=True)
        await self.page.wait_for_function(NAMED)
        for scheme in ("light", "dark"):
            await self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            await self.page.wait_for_function(
                "wanted => document.documentElement.dataset.mantineColorScheme === wanted", arg=scheme
            )
            await self.page.evaluate(SETTLED)
            self.faults += [
                f"{name} {scheme}: {fault}" for fault in await self._axe(only_colours=scheme == "dark")
            ]
            self.faults += [f"{name} {scheme}: cut: {text}" for text in await self.page.evaluate(CUT)]
            self.faults += [f"{name} {scheme}: broken: {text}" for text in await self.page.evaluate(BROKEN)]
            self.faults += [f"{name} {scheme}: faint: {text}" for text in await self.page.evaluate(FAINT)]
            # On a phone most of a page is below the screen.
            whole = self.page.viewport_size == NARROW and not await self.page.locator(ABOVE).count()
            if whole:
                await self.page.evaluate("scrollTo(0, 0)")
            path = SCREENS / f"console-{name}-{scheme}.png"
            await self.page.screenshot(path=path, animations="disabled", full_page=whole)
        await self.page.emulate_media(color_scheme="light")

    async def _axe(self, *, only_colours: bool) -> list[str]:
        """The themes differ in their colours alone. A page behind a dialog has been seen without it."""
        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(AXE.read_text())
        asked: dict[str, object] = {"resultTypes": ["violations"], "preload": False}
        if only_colours:
            asked["runOnly"] = ["color-contrast"]
        found = await self.page.evaluate(
            """asked => {
              const dialogs = [...document.querySelectorAll('[role=dialog]')].filter(it => it.checkVisibility());
              return axe.run(dialogs.at(-1) ?? document, asked);
            }""",
            asked,
        )
        return [
            f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
            for one in found["violations"]
            for node in one["nodes"]
        ]

    def _says(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_EXPECTED):
            self.faults.append(message.text)

    def _asks(self, request: Request) -> None:
        if not request.url.startswith("data:") and urlsplit(request.url).netloc not in self._hosts:
            self.faults.append(f"another host is asked: {request.url}")


@asynccontextmanager
async def chromium_running() -> AsyncGenerator[Browser]:
    os.environ.setdefault("PLAYWRIGHT_BROWSERS_PATH", str(OWN_BROWSERS))
    async with async_playwright() as playwright:
        # With Playwright's ignore_https_errors alone, each new connection fails and is made again, and Chromium bounds such
        # repetitions (ERR_TOO_MANY_RETRIES, puppeteer 4692).
        args = [*FLAGS, "--ignore-certificate-errors"]
        running = await playwright.chromium.launch(executable_path=chromium(), args=args)
        try:
            yield running
        finally:
            await running.close()


async def person(
    running: Browser, viewport: ViewportSize = WIDE, *, locale: str = "en-GB", user_agent: str | None = None
) -> BrowserContext:
    """A browser that is not signed in; the controller's certificate is of its own CA."""
    return await running.new_context(
        ignore_https_errors=True, viewport=viewport, locale=locale, timezone_id="UTC", user_agent=user_agent
    )
