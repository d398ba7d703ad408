"""The tray beside the real daemon, on a real desktop: what it shows is what is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from accessible import AccessibilityBus
from culvert_lab import laptop, parts
from culvert_lab import topology as net
from culvert_lab.office import Office
from culvert_lab.topology import Site
from culvert_proto import local_pb2
from desktop import Desktop, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SCREENS = parts.ROOT / "build/screens"


async def test_the_tray_shows_the_tunnel_that_carries_the_page(office: Office, tmp_path: Path) -> None:
    assert (await office.fetch()).code == 0
    with _tray(tmp_path, office) as desktop:
        await asyncio.to_thread(_look, desktop)


async def test_a_pause_closes_the_tunnel_and_blocks_its_name_until_it_ends(office: Office) -> None:
    assert (await office.fetch()).code == 0
    assert (await office.culvert("pause", "15m")).code == 0
    assert await office.joined.admin.get("/tunnels") == []
    assert (await office.fetch(seconds=2)).code != 0
    assert (await laptop.status(office.lab)).state == local_pb2.STATE_PAUSED
    assert (await office.culvert("resume")).code == 0
    assert (await office.fetch()).code == 0
    told = (await office.culvert("log")).stdout
    assert told.count(f"{net.WIKI_NAME} is open through {parts.GATEWAY}.") >= 2
    assert "Culvert was paused." in told


async def test_the_round_trip_to_the_gateway_is_known(office: Office) -> None:
    async with asyncio.timeout(30):
        while not (gateway := (await laptop.status(office.lab)).gateways[0]).rtt_us:  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(0.1)
    assert gateway.rtt_us < 1_000_000


async def test_the_tray_names_a_gateway_that_does_not_answer_until_it_does(
    office: Office, tmp_path: Path
) -> None:
    fqdn = await office.add_resource("patient", idle_seconds=300)
    assert (await office.fetch(fqdn)).code == 0
    rule = ["to", net.GATEWAY_ADDRESS, "blackhole"]
    with _tray(tmp_path, office) as desktop:
        desktop.click_tray(1)

        async def shows(text: str) -> None:
            await asyncio.to_thread(wait_until, lambda: text in _named(desktop), f"{text!r} is not shown")

        await shows("Connected — ")
        assert (await office.lab.run(Site.INTERNET, ["ip", "rule", "add", *rule])).code == 0
        try:
            assert (await office.fetch(fqdn, seconds=5)).code != 0
            await shows(f"{parts.GATEWAY} does not answer")
            desktop.screenshot(SCREENS / "window-silent-with-daemon.png")
            assert "Connected" not in _named(desktop)
        finally:
            await office.lab.run(Site.INTERNET, ["ip", "rule", "delete", *rule])
        await shows("Connected — ")
        assert "does not answer" not in _named(desktop)
    assert (await office.fetch(fqdn)).code == 0


@contextmanager
def _tray(directory: Path, office: Office) -> Generator[Desktop]:
    """A desktop with a tray beside the laptop's daemon."""
    SCREENS.mkdir(parents=True, exist_ok=True)
    socket = office.lab.run_directory(Site.LAPTOP) / "culvert/culvertd.sock"
    with Desktop(directory) as desktop:
        tray = subprocess.Popen(
            [sys.executable, "-m", "culvert_tray.app", "--socket", str(socket)], env=desktop.env
        )
        try:
            desktop.wait_for_tray_icon()
            yield desktop
        finally:
            tray.terminate()
            assert tray.wait(10) == 0


def _named(desktop: Desktop) -> str:
    """Every text that the tray shows."""
    bus = AccessibilityBus(desktop.env["DBUS_SESSION_BUS_ADDRESS"], f"e2e-{time.monotonic_ns()}")
    return "\n".join(node.name for node in bus.nodes("Culvert") if node.showing)


def _look(desktop: Desktop) -> None:
    desktop.click_tray(3)
    wait_until(lambda: len(desktop.menus("Culvert")) == 1, "no menu")
    desktop.screenshot(SCREENS / "tray-with-daemon.png")
    desktop.key("Escape")
    desktop.click_tray(1)
    wait_until(lambda: net.WIKI_NAME in _named(desktop), "the window does not show the tunnel")
    desktop.screenshot(SCREENS / "window-with-daemon.png")
    assert "alice" in _named(desktop)
    assert parts.GATEWAY in _named(desktop)
