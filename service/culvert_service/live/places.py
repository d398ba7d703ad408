"""The progress of a stream of several views, as the one text that an event's id may be. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def spelled(places: Mapping[str, str]) -> str:
    """No view's own place has a `;` or a `=`."""
    return ";".join(f"{view}={place}" for view, place in places.items())


def parsed(seen: str | None) -> dict[str, str]:
    """By view; each view judges for itself whether it knows its place."""
    parts = (part.partition("=") for part in (seen or "").split(";"))
    return {view: place for view, _, place in parts if place}
