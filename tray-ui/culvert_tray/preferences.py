"""The person's settings of the tray and recent names, stored on this computer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from culvert_tray.view import Down, View, is_up

MOST_RECENT = 50


class NoticeKind(Enum):
    """The kinds of notices, each of which can be turned off."""

    OPENED = "opened"
    CODE = "code"
    DENIED = "denied"
    FAILED_OVER = "failed-over"


@dataclass(frozen=True, slots=True)
class Preferences:
    """`recent`: names whose tunnels were up, the newest first."""

    favourites: frozenset[str] = frozenset()
    recent: tuple[str, ...] = ()
    muted: frozenset[NoticeKind] = frozenset()


def with_recent(preferences: Preferences, view: View) -> Preferences:
    """The preferences with open names as the most recent ones."""
    if isinstance(view, Down):
        return preferences
    up = [tunnel.fqdn for tunnel in view.tunnels if is_up(tunnel)]
    fresh = [name for name in up if name not in preferences.recent]
    known = [name for name in preferences.recent if name in up]
    rest = [name for name in preferences.recent if name not in up]
    recent = (*fresh, *known, *rest)[:MOST_RECENT]
    return preferences if recent == preferences.recent else replace(preferences, recent=recent)


def with_favourite(preferences: Preferences, fqdn: str, wanted: bool) -> Preferences:
    others = preferences.favourites - {fqdn}
    return replace(preferences, favourites=others | {fqdn} if wanted else others)


def with_notices(preferences: Preferences, kind: NoticeKind, wanted: bool) -> Preferences:
    others = preferences.muted - {kind}
    return replace(preferences, muted=others if wanted else others | {kind})


def at_hand(preferences: Preferences, names: Iterable[str], most: int) -> list[str]:
    """The `names` to offer first: favourites, then recent ones; at most `most`."""
    left = set(names)
    favourites = sorted(preferences.favourites & left)
    return [*favourites, *(it for it in preferences.recent if it in left and it not in favourites)][:most]
