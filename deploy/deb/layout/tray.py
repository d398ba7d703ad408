"""culvert-tray: the tray icon, beside the client's modules and in its environment."""

from __future__ import annotations

from pathlib import Path

import environment
from qt import prune
from releases import ROOT, Release
from stage import FILES, Stage

from layout.client import PREFIX

NAME = "culvert-tray"
_PROGRAMS = {"culvert-tray": "culvert_tray.app:main"}
_PLACES = {
    FILES / "tray/org.culvert.Tray.desktop": "usr/share/applications/org.culvert.Tray.desktop",
    FILES / "tray/org.culvert.Tray.service": "usr/share/dbus-1/services/org.culvert.Tray.service",
    FILES / "tray/autostart.desktop": "etc/xdg/autostart/culvert-tray.desktop",
    ROOT / "tray-ui/culvert_tray/icons/mark.svg": "usr/share/icons/hicolor/scalable/apps/culvert.svg",
    FILES / "tray/lintian-overrides": f"usr/share/lintian/overrides/{NAME}",
}


def build(release: Release) -> Path:
    """The package's path. Raises CalledProcessError, LookupError, OSError."""
    stage = Stage(NAME, release)
    site_packages = environment.install(stage, PREFIX, ("tray-ui",), [])
    prune(site_packages)
    environment.compile_modules(stage, site_packages)
    environment.add_programs(stage, PREFIX, _PROGRAMS)
    stage.copy(_PLACES)
    stage.manuals(ROOT / "tray-ui/man")
    stage.documents(site_packages)
    # The theme is of use only with GTK's settings, and a printer only with CUPS.
    libraries = environment.find_libraries(site_packages)
    return stage.pack(
        stage.find_link_dependencies(libraries, optional=["libqgtk3.so", "libcupsprintersupport.so"])
    )
