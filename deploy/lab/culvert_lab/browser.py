"""Opens a page in headless Chromium and says what happened when: `python -m culvert_lab.browser URL [PNG]`.

click ── navigation ── DNS ── connect ── request ── first byte ── load ── screenshot
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, sync_playwright

from culvert_lab.visit import Visit

# These keep Chromium to the page: no background traffic in the capture, no GPU, no sandbox (it runs as root).
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--dns-prefetch-disable",
    "--metrics-recording-only",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
    "--disable-features=OptimizationHints,MediaRouter,DialMediaRouteProvider,Translate,NetworkTimeServiceQuerying",
)
# The place of Playwright's own browser, for systems that package none.
OWN_BROWSERS = Path(__file__).resolve().parents[3] / "build/browsers"
CANDIDATES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
VIEW_WIDTH, VIEW_HEIGHT = 1280, 800

# Wall-clock milliseconds since the epoch; 0 where the browser did not get so far.
TIMINGS = """() => {
  const [entry] = performance.getEntriesByType("navigation"), at = v => v ? performance.timeOrigin + v : 0;
  return {
    start: performance.timeOrigin, dns_start: at(entry.domainLookupStart), dns_end: at(entry.domainLookupEnd),
    connect_start: at(entry.connectStart), connect_end: at(entry.connectEnd), request: at(entry.requestStart),
    first_byte: at(entry.responseStart), response_end: at(entry.responseEnd), load: at(entry.loadEventEnd),
  };
}"""


def visit(url: str, picture: str | None, seconds: float) -> Visit:
    """Open the page, wait for its load event, take a picture. A page that does not open is a Visit with `error`."""
    os.environ.setdefault("PLAYWRIGHT_BROWSERS_PATH", str(OWN_BROWSERS))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), headless=True, args=list(FLAGS), timeout=60_000
        )
        try:
            page = browser.new_page(viewport={"width": VIEW_WIDTH, "height": VIEW_HEIGHT})
            clicked = time.time() * 1000
            try:
                response = page.goto(url, timeout=seconds * 1000, wait_until="load")
                # loadEventEnd is written after the handlers of the load event have run.
                page.wait_for_function("performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
                # The browser may ask for the name before it calls the navigation begun: the click is the goto.
                timings: dict[str, Any] = {"click": clicked} | page.evaluate(TIMINGS)
                if picture:
                    page.screenshot(path=picture)
                return Visit(
                    url, response.status if response else 0, page.title(), page.inner_text("body"), timings
                )
            except Error as error:
                return Visit(url, error=error.message.splitlines()[0])
        finally:
            browser.close()


def chromium() -> str | None:
    """Path of the browser: $CULVERT_CHROMIUM, or the first that is installed; None for Playwright's own.

    Raises FileNotFoundError.
    """
    if OWN_BROWSERS.exists():
        return None
    named = os.environ.get("CULVERT_CHROMIUM")
    for candidate in (named,) if named else CANDIDATES:
        if found := shutil.which(candidate):
            return found
    raise FileNotFoundError("no Chromium; on Debian: apt-get install chromium, or set CULVERT_CHROMIUM")


def main() -> None:
    parser = argparse.ArgumentParser(prog="culvert_lab.browser", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("picture", nargs="?")
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    found = visit(options.url, options.picture, options.seconds)
    print(json.dumps(asdict(found)))
    sys.exit(1 if found.error else 0)


if __name__ == "__main__":
    main()
