"""The tray beside the real daemon, on a real desktop: what it shows is what is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
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
    socket = office.lab.run_directory(Site.LAPTOP) / "culvert/culvertd.sock"
    await asyncio.to_thread(_look, tmp_path, socket)


async def test_a_pause_closes_the_tunnel_and_keeps_its_name_blocked_until_it_ends(office: Office) -> None:
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


def _look(directory: Path, socket: Path) -> None:
    SCREENS.mkdir(parents=True, exist_ok=True)
    with Desktop(directory) as desktop:
        tray = subprocess.Popen(
            [sys.executable, "-m", "culvert_tray.app", "--socket", str(socket)], env=desktop.env
        )
        try:
            desktop.wait_for_tray_icon()
            desktop.click_tray(3)
            wait_until(lambda: len(desktop.menus("culvert-tray")) == 1, "no menu")
            desktop.screenshot(SCREENS / "tray-with-daemon.png")
            desktop.key("Escape")
            desktop.click_tray(1)
            bus = AccessibilityBus(desktop.env["DBUS_SESSION_BUS_ADDRESS"], "e2e")

            def named() -> str:
                return "\n".join(node.name for node in bus.nodes("culvert-tray") if node.showing)

            wait_until(lambda: net.WIKI_NAME in named(), "the window does not show the tunnel")
            desktop.screenshot(SCREENS / "window-with-daemon.png")
            assert "alice" in named()
            assert parts.GATEWAY in named()
        finally:
            tray.terminate()
            assert tray.wait(10) == 0
