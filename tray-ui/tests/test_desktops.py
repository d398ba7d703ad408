"""The desktop chooses between light and dark, at the start and later."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from PyQt6.QtGui import QImage

from . import statuses
from .canned_daemon import CannedDaemon
from .conftest import Start
from .desktop import Desktop, Shade, wait_until

pytestmark = pytest.mark.slow

SCREENS = Path(__file__).parents[2] / "build" / "screens"


@contextmanager
def _portal(desktop: Desktop, shade: Shade) -> Generator[IO[str]]:
    """Each line that is written to it is the next shade."""
    program = str(Path(__file__).with_name("settings_portal.py"))
    with subprocess.Popen(
        [sys.executable, program, shade],
        env=desktop.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as portal:
        assert portal.stdin is not None
        assert portal.stdout is not None
        assert portal.stdout.readline() == "ready\n"
        yield portal.stdin


def _picture(desktop: Desktop, path: Path) -> QImage:
    desktop.screenshot(path)
    return QImage(str(path))


def test_a_dark_style_is_followed_while_the_tray_runs(
    tmp_path: Path, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.show(statuses.connected(now=time.time()))
    with (
        Desktop(tmp_path / "desktop", width=900, height=700, panel=None) as desktop,
        _portal(desktop, "light") as portal,
    ):
        tray = start_tray(desktop, "--window", XDG_CURRENT_DESKTOP="GNOME")
        wait_until(lambda: desktop.has_keyboard("Culvert"), "no window")
        for shade in ("dark", "light"):
            portal.write(f"{shade}\n")
            portal.flush()
            path = SCREENS / f"desktops-live-{shade}.png"
            wait_until(
                lambda path=path, dark=shade == "dark": (
                    (_picture(desktop, path).pixelColor(450, 672).lightness() < 60) is dark
                ),
                f"not {shade}",
            )
        tray.terminate()
        tray.wait(10)
