"""The positions of several views in one text, the event id of their common stream. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def spell(places: Mapping[str, str]) -> str:
    """A view's position contains neither `;` nor `=`."""
    return ";".join(f"{view}={place}" for view, place in places.items())


def parse(seen: str | None) -> dict[str, str]:
    """Positions by view. Each view checks its own."""
    parts = (part.partition("=") for part in (seen or "").split(";"))
    return {view: place for view, _, place in parts if place}
