"""Leaves of PyQt6's wheel what the tray loads: a fifth of it.

Kept are the modules and plug-ins named here, and of Qt's own libraries those that they are linked with.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from environment import find_linked

MODULES = ("QtCore", "QtDBus", "QtGui", "QtNetwork", "QtPrintSupport", "QtSvg", "QtWidgets", "sip")
PLUGINS = (
    "iconengines/*",
    "imageformats/libqsvg.so",
    "platforminputcontexts/*",
    "platforms/libqoffscreen.so",
    "platforms/libqwayland.so",
    "platforms/libqxcb.so",
    "platformthemes/*",
    "printsupport/*",
    "wayland-decoration-client/*",
    "wayland-graphics-integration-client/libqt-plugin-wayland-egl.so",
    "wayland-shell-integration/libxdg-shell.so",
    "wayland-shell-integration/libqt-shell.so",
    "xcbglintegrations/*",
)
LANGUAGES = ("de", "en")


def prune(site_packages: Path) -> None:
    """Raises CalledProcessError where a library cannot be read."""
    pyqt = site_packages / "PyQt6"
    qt = pyqt / "Qt6"
    for entry in pyqt.iterdir():
        if entry.name.partition(".")[0] not in (*MODULES, "__init__", "py", "Qt6"):
            _remove(entry)
    for entry in qt.iterdir():
        if entry.name not in ("lib", "plugins", "translations"):
            _remove(entry)
    for translation in (qt / "translations").iterdir():
        if not re.fullmatch(rf"qt(base)?_({'|'.join(LANGUAGES)})\.qm", translation.name):
            translation.unlink()
    plugins = {plugin for pattern in PLUGINS for plugin in (qt / "plugins").glob(pattern)}
    for plugin in (it for it in (qt / "plugins").rglob("*") if it.is_file() and it not in plugins):
        plugin.unlink()
    for directory in [it for it in (qt / "plugins").iterdir() if not any(it.iterdir())]:
        directory.rmdir()
    linked = find_linked([*pyqt.glob("*.so"), *plugins], qt / "lib")
    for library in (qt / "lib").iterdir():
        if library.name not in linked:
            library.unlink()


def _remove(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry)
    else:
        entry.unlink()
