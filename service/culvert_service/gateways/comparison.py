"""A gateway's desired and observed entries side by side. Pure.

A set-up in progress looks like drift for a moment: only differences that two readings share are drift.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from culvert_service.gateways.diff import Plan
from culvert_service.gateways.entry import Entry, EntryKey, Kind


class EntryStanding(StrEnum):
    # The word of the REST API stays: consoles and scripts of earlier versions take any other one for drift.
    AS_DESIRED = "held"
    # Desired, but not at the gateway.
    MISSING = "missing"
    # Belongs to no desired tunnel.
    FOREIGN = "foreign"
    # At the gateway with another action or other parameters.
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Compared:
    """An observed entry, or the desired one if it is missing. `desired`: what a changed entry should be."""

    entry: Entry
    standing: EntryStanding = EntryStanding.AS_DESIRED
    desired: Entry | None = None


def compare(observed: Sequence[Entry], plan: Plan, agreed: Collection[object]) -> list[Compared]:
    """`plan` turns `observed` into the desired entries; `agreed`: the subjects that an earlier plan had too."""
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
            # The tunnel's remaining entries are not foreign while its loss is unconfirmed.
            foreign -= {item.key for item in vital}
    return [
        *_compare_unchanged(observed, foreign, changed),
        *(Compared(item, EntryStanding.MISSING) for item in missing),
    ]


def _compare_unchanged(
    observed: Iterable[Entry], foreign: Collection[EntryKey], changed: dict[EntryKey, Entry]
) -> Iterable[Compared]:
    for item in observed:
        if item.key in foreign:
            yield Compared(item, EntryStanding.FOREIGN)
        elif (desired := changed.get(item.key)) is not None:
            yield Compared(item, EntryStanding.CHANGED, desired)
        else:
            yield Compared(item)
