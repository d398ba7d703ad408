"""The tray looks the same on each desktop, which chooses between light and dark, and the scale."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from PyQt6.QtCore import QLibraryInfo
from PyQt6.QtGui import QImage

from . import statuses
from .canned_daemon import CannedDaemon
from .conftest import Start
from .desktop import Desktop, Shade, wait_until

pytestmark = pytest.mark.slow

SCREENS = Path(__file__).parents[2] / "build" / "screens"

# A person's choices on a desktop: another font, other colours, another style, other icons.
SETTINGS = {
    ".config/kdeglobals": """[General]
ColorScheme=Pink
font=DejaVu Serif,16,-1,5,50,0,0,0,0,0
menuFont=DejaVu Serif,18,-1,5,50,0,0,0,0,0
[KDE]
widgetStyle=Windows
SingleClick=false
[Icons]
Theme=Odd
[Colors:Window]
BackgroundNormal=255,200,200
ForegroundNormal=10,10,10
[Colors:View]
BackgroundNormal=255,240,240
ForegroundNormal=0,0,0
[Colors:Button]
BackgroundNormal=200,255,200
ForegroundNormal=10,10,10
[Colors:Selection]
BackgroundNormal=255,0,0
""",
    ".config/gtk-3.0/settings.ini": """[Settings]
gtk-font-name=DejaVu Serif 18
gtk-theme-name=HighContrast
gtk-icon-theme-name=Odd
""",
    ".config/qt6ct/qt6ct.conf": """[Appearance]
style=Windows
icon_theme=Odd
[Fonts]
general="DejaVu Serif,18,-1,5,50,0,0,0,0,0"
""",
    ".local/share/icons/Odd/index.theme": """[Icon Theme]
Name=Odd
Directories=16
[16]
Size=16
""",
}
ICONS = (
    "edit-clear",
    "edit-copy",
    "edit-cut",
    "edit-delete",
    "edit-paste",
    "edit-redo",
    "edit-select-all",
    "edit-undo",
)
GNOME = {"XDG_CURRENT_DESKTOP": "ubuntu:GNOME", "DESKTOP_SESSION": "ubuntu"}
KDE = {
    "XDG_CURRENT_DESKTOP": "KDE",
    "DESKTOP_SESSION": "plasma",
    "KDE_FULL_SESSION": "true",
    "KDE_SESSION_VERSION": "6",
}
XFCE = {"XDG_CURRENT_DESKTOP": "XFCE", "DESKTOP_SESSION": "xfce"}
ACTUAL_SIZE = {
    "gnome": GNOME,
    "gnome-adwaita": GNOME | {"QT_QPA_PLATFORMTHEME": "gtk3", "QT_STYLE_OVERRIDE": "adwaita"},
    "kde": KDE,
    "kde-kvantum": KDE | {"QT_QPA_PLATFORMTHEME": "kde", "QT_STYLE_OVERRIDE": "kvantum"},
    "xfce": XFCE,
    "xfce-qt6ct": XFCE | {"QT_QPA_PLATFORMTHEME": "qt6ct", "QT_STYLE_OVERRIDE": "windows"},
}
DOUBLE_SIZE = {
    "gnome-2": GNOME | {"QT_SCALE_FACTOR": "2"},
    "kde-2": KDE | {"QT_AUTO_SCREEN_SCALE_FACTOR": "0", "QT_SCREEN_SCALE_FACTORS": "screen=2;"},
    "xfce-2": XFCE | {"QT_FONT_DPI": "192"},
}
DOUBLE_BY_RESOURCE = {"gnome-dpi": GNOME | {"GDK_SCALE": "2"}, "kde-dpi": KDE}


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


def _draw(desktop: Desktop, folder: Path, environment: dict[str, str]) -> dict[str, QImage]:
    """The pictures, by name."""
    home = folder / "home"
    home.mkdir(parents=True)
    if "XDG_CURRENT_DESKTOP" in environment:
        for path, text in SETTINGS.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
        icon = QImage(16, 16, QImage.Format.Format_RGB32)
        icon.fill(0xFF0000)
        icons = home / ".local/share/icons/Odd/16"
        icons.mkdir()
        assert all(icon.save(str(icons / f"{name}.png")) for name in ICONS)
    subprocess.run(
        [sys.executable, "-m", "tests.pictures", str(folder / "pictures")],
        cwd=Path(__file__).parents[1],
        env=desktop.env | {"HOME": str(home), "XDG_DATA_HOME": str(home / ".local/share")} | environment,
        check=True,
        timeout=100,
    )
    return {it.stem: QImage(str(it)) for it in (folder / "pictures").iterdir()}


def _draw_all(
    desktop: Desktop, folder: Path, environments: dict[str, dict[str, str]]
) -> dict[str, dict[str, QImage]]:
    """By desktop."""
    with ThreadPoolExecutor(4) as pool:
        drawn = {it: pool.submit(_draw, desktop, folder / it, of) for it, of in environments.items()}
    return {it: of.result() for it, of in drawn.items()}


def test_each_desktop_shows_the_same_at_100_and_200_percent(tmp_path: Path) -> None:
    # A busy window manager moves, resizes and activates windows while their pictures are made.
    with Desktop(tmp_path / "desktop", width=2800, height=1800, panel=None, managed=False) as desktop:
        desktop.run("xdotool", "mousemove", "2799", "1799")
        plain: dict[str, dict[str, str]] = {"bare": {}, "bare-2": {"QT_SCALE_FACTOR": "2"}}
        drawn = _draw_all(desktop, tmp_path, plain | ACTUAL_SIZE | DOUBLE_SIZE)
        resources = ("-f", "RESOURCE_MANAGER", "8s", "-set", "RESOURCE_MANAGER", "Xft.dpi:\t192\n")
        desktop.run("xprop", "-root", *resources)
        drawn |= _draw_all(desktop, tmp_path, DOUBLE_BY_RESOURCE)
    assert len(drawn["bare"]) > 12
    for name, pictures in drawn.items():
        expected = drawn["bare" if name in ("bare", *ACTUAL_SIZE) else "bare-2"]
        assert pictures.keys() == expected.keys()
        unlike = [picture for picture, image in pictures.items() if image != expected[picture]]
        assert not unlike, (name, unlike)
    for picture, image in drawn["bare-2"].items():
        image.save(str(SCREENS / f"desktops-200-{picture.replace(' ', '-')}.png"))


def test_plug_ins_of_another_qt_are_left_alone(
    tmp_path: Path, canned: CannedDaemon, start_tray: Start
) -> None:
    canned.show(statuses.connected(now=time.time()))
    folder = tmp_path / "plugins/platforms"
    folder.mkdir(parents=True)
    # Away from its libraries it does not load, as one of another version.
    ours = Path(QLibraryInfo.path(QLibraryInfo.LibraryPath.PluginsPath))
    shutil.copy(ours / "platforms/libqxcb.so", folder)
    with Desktop(tmp_path / "desktop", panel=None) as desktop:
        tray = start_tray(desktop, "--window", QT_PLUGIN_PATH=str(folder.parent))
        wait_until(lambda: desktop.has_keyboard("Culvert") or tray.poll() is not None, "no window")
        assert tray.poll() is None
        tray.terminate()
        tray.wait(10)
