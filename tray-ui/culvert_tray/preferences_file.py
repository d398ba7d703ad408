"""Preferences as JSON in the person's configuration directory. An unreadable file counts as absent."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from PyQt6.QtCore import QStandardPaths

from culvert_tray.preferences import MOST_RECENT, NoticeKind, Preferences


def preferences_path() -> Path:
    location = QStandardPaths.StandardLocation.GenericConfigLocation
    return Path(QStandardPaths.writableLocation(location)) / "culvert" / "tray.json"


def read_preferences(path: Path) -> Preferences:
    try:
        stored: dict[str, Any] = json.loads(path.read_text())
        known = {kind.value: kind for kind in NoticeKind}
        return Preferences(
            favourites=frozenset(map(str, stored["favourites"])),
            recent=tuple(map(str, stored["recent"]))[:MOST_RECENT],
            muted=frozenset(known[name] for name in stored["muted"] if name in known),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Preferences()


def write_preferences(path: Path, preferences: Preferences) -> None:
    stored = {
        "favourites": sorted(preferences.favourites),
        "recent": list(preferences.recent),
        "muted": sorted(kind.value for kind in preferences.muted),
    }
    # If the disk cannot be written, preferences last until the tray ends.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(stored, indent=2))
        fresh.replace(path)
