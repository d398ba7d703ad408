"""Preferences as JSON in the person's configuration directory. An unreadable file counts as absent."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from culvert_proto.language import LANGUAGES
from PyQt6.QtCore import QStandardPaths

from culvert_tray.preferences import MOST_ANNOUNCED, MOST_RECENT, NoticeKind, Preferences


def preferences_path() -> Path:
    location = QStandardPaths.StandardLocation.GenericConfigLocation
    return Path(QStandardPaths.writableLocation(location)) / "culvert" / "tray.json"


def read_preferences(path: Path) -> Preferences:
    try:
        stored: dict[str, Any] = json.loads(path.read_text())
        known = {kind.value: kind for kind in NoticeKind}
        muted = {known[name] for name in stored["muted"] if name in known}
        if "announced" not in stored and NoticeKind.CODE in muted:
            # The release before has one switch for both.
            muted.add(NoticeKind.CODE_ENDS)
        return Preferences(
            favourites=frozenset(map(str, stored["favourites"])),
            recent=tuple(map(str, stored["recent"]))[:MOST_RECENT],
            muted=frozenset(muted),
            # A file of the release before has recent names alone.
            announced=tuple(map(str, stored.get("announced", stored["recent"])))[:MOST_ANNOUNCED],
            closing_told=bool(stored.get("closing_told")),
            language=language if (language := stored.get("language")) in LANGUAGES else "",
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Preferences()


def write_preferences(path: Path, preferences: Preferences) -> None:
    stored = {
        "favourites": sorted(preferences.favourites),
        "recent": list(preferences.recent),
        "announced": list(preferences.announced),
        "muted": sorted(kind.value for kind in preferences.muted),
        "closing_told": preferences.closing_told,
        "language": preferences.language,
    }
    # If the disk cannot be written, preferences last until the tray ends.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(stored, indent=2))
        fresh.replace(path)
