"""The person's settings of the tray and recent names, stored on this computer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from culvert_tray.view import Down, View, is_up

# Our tunables: names.
MOST_RECENT = 50
MOST_ANNOUNCED = 500


class NoticeKind(Enum):
    """The kinds of notices, each of which can be turned off."""

    OPENED = "opened"
    CODE = "code"
    CODE_ENDS = "code-ends"
    DENIED = "denied"
    FAILED_OVER = "failed-over"


@dataclass(frozen=True, slots=True)
class Preferences:
    """`recent`: names whose tunnels were up, the newest first, for the menu. `announced`: such names, which no notice says
    again to be open. `closing_told`: whether the person has read that a closed window does not end the program. `language`:
    empty for the desktop's. `autostart`: as of `is_autostarted`, whose files keep it."""

    favourites: frozenset[str] = frozenset()
    recent: tuple[str, ...] = ()
    muted: frozenset[NoticeKind] = frozenset()
    closing_told: bool = False
    announced: tuple[str, ...] = ()
    language: str = ""
    autostart: bool | None = None


def with_recent(preferences: Preferences, view: View) -> Preferences:
    """The preferences with open names as the most recent ones, and as announced."""
    if isinstance(view, Down):
        return preferences
    up = [tunnel.fqdn for tunnel in view.tunnels if is_up(tunnel)]
    recent = _in_front(up, preferences.recent)[:MOST_RECENT]
    announced = _in_front(up, preferences.announced)[:MOST_ANNOUNCED]
    if (recent, announced) == (preferences.recent, preferences.announced):
        return preferences
    return replace(preferences, recent=recent, announced=announced)


def _in_front(names: list[str], before: tuple[str, ...]) -> tuple[str, ...]:
    """The names that are new, those that are not, and the rest."""
    known = set(before)
    fresh = [name for name in names if name not in known]
    return (
        *fresh,
        *(name for name in before if name in names),
        *(name for name in before if name not in names),
    )


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
