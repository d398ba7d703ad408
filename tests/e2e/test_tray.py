"""The tray beside the real daemon, on a real desktop: what it shows is what is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from accessible import AccessibilityBus
from culvert_lab import parts
from culvert_lab import topology as net
from culvert_lab.office import Office
from culvert_lab.topology import Site
from desktop import Desktop, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SCREENS = parts.ROOT / "build/screens"


async def test_the_tray_shows_the_tunnel_that_carries_the_page(office: Office, tmp_path: Path) -> None:
    assert (await office.fetch()).code == 0
    socket = office.lab.run_directory(Site.LAPTOP) / "culvert/culvertd.sock"
    await asyncio.to_thread(_look, tmp_path, socket)


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
