"""Whether the tray starts with the session (Desktop Application Autostart Specification).

The package has an entry for all persons. A person's entry with the same name and `Hidden=true` turns it off.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PyQt6.QtCore import QStandardPaths

_ENTRY = "autostart/culvert-tray.desktop"
_HIDDEN = "[Desktop Entry]\nType=Application\nName=Culvert\nHidden=true\n"
# GNOME's tools turn an entry off with the second of these.
_OFF = ("Hidden=true", "X-GNOME-Autostart-enabled=false")


def autostart_entries() -> list[Path]:
    """The places of an entry: the person's first."""
    location = QStandardPaths.StandardLocation.GenericConfigLocation
    return [Path(it) / _ENTRY for it in QStandardPaths.standardLocations(location)]


def is_autostarted(entries: Sequence[Path]) -> bool | None:
    """None: there is no entry of the package, so this cannot be chosen."""
    own, *others = entries
    if not any(it.is_file() for it in others):
        return None
    try:
        lines = own.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return True
    return not any(it in _OFF for it in (line.replace(" ", "") for line in lines))


def set_autostart(entries: Sequence[Path], *, wanted: bool) -> None:
    """Raises OSError."""
    own = entries[0]
    if wanted:
        own.unlink(missing_ok=True)
    else:
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(_HIDDEN, "utf-8")
