"""A gateway's desired entries beside its actual ones. Pure.

A set-up that is under way looks like drift for a moment: what two looks agree about is drift.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from culvert_service.gateways.diff import Plan
from culvert_service.gateways.entry import Entry, EntryKey, Kind


class Standing(StrEnum):
    HELD = "held"
    # Should be there.
    MISSING = "missing"
    # Belongs to no desired tunnel.
    FOREIGN = "foreign"
    # Is there with other contents.
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Compared:
    """An entry as it is, or as it should be where it is missing. `desired` is what one that was changed should be."""

    entry: Entry
    standing: Standing = Standing.HELD
    desired: Entry | None = None


def compared(observed: Sequence[Entry], plan: Plan, agreed: Collection[object]) -> list[Compared]:
    """`plan` makes of `observed` what is desired; `agreed` are those of its subjects that an earlier look had too."""
    there = {item.key for item in observed}
    foreign: set[EntryKey] = set()
    changed: dict[EntryKey, Entry] = {}
    missing: list[Entry] = []
    for update in plan.updates:
        if update.entry.key not in agreed:
            continue
        match update.kind:
            case Kind.DELETE:
                foreign.add(update.entry.key)
            case Kind.MODIFY:
                changed[update.entry.key] = update.entry
            case Kind.INSERT:
                missing.append(update.entry)
    for tunnel in plan.lost:
        if (tunnel.tunnel_id, tunnel.generation) in agreed:
            vital, _ = tunnel.entries()
            missing += [item for item in vital if item.key not in there]
            # The entries that are left of it are wanted as long as the SA is not lost.
            foreign -= {item.key for item in vital}
    return [*_standing(observed, foreign, changed), *(Compared(item, Standing.MISSING) for item in missing)]


def _standing(
    observed: Iterable[Entry], foreign: Collection[EntryKey], changed: dict[EntryKey, Entry]
) -> Iterable[Compared]:
    for item in observed:
        if item.key in foreign:
            yield Compared(item, Standing.FOREIGN)
        elif (desired := changed.get(item.key)) is not None:
            yield Compared(item, Standing.CHANGED, desired)
        else:
            yield Compared(item)
