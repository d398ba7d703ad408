"""Desired and observed entries → what to write. Pure.

An SA that is gone from the gateway cannot be made again, because its key is kept nowhere: its tunnel is lost, and what is
left of it is not wanted any more. One that is there with another peer is modified, with the wrapped key that is there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from culvert_service.gateways.entry import Entry, EntryKey, Kind, Update
from culvert_service.gateways.tunnel_entries import same_sa

_SAD = ("sad_in", "sad_out")
# Entries that let packets in or out go first, entries that they refer to after that.
_DELETE_ORDER = (
    *("spd_out", "sad_out", "spd_in", "sad_in"),
    *("port_role", "own_address", "icmp_source", "route", "ecmp_member", "nexthop"),
)


@dataclass(frozen=True, slots=True)
class DesiredTunnel:
    """`sas` are the keys of the SAs in use, none of which may be missing. `entries` makes what the tunnel should have: the
    entries of generations in use, and those of a draining pair, which may be missing without harm. `source` is for
    whoever desires it.
    """

    tunnel_id: uuid.UUID
    generation: int
    sas: tuple[EntryKey, ...]
    entries: Callable[[], tuple[Sequence[Entry], Sequence[Entry]]] = field(compare=False, repr=False)
    source: object = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        tunnel_id: uuid.UUID,
        generation: int,
        vital: Sequence[Entry],
        draining: Sequence[Entry] = (),
        source: object = None,
    ) -> DesiredTunnel:
        """A tunnel of entries that are made already."""
        sas = tuple(item.key for item in vital if item.table in _SAD)
        return cls(tunnel_id, generation, sas, lambda: (vital, draining), source)


@dataclass(frozen=True, slots=True)
class Plan:
    """Tunnels that are lost, and writes in the order in which they are to be made."""

    lost: tuple[DesiredTunnel, ...]
    updates: tuple[Update, ...]

    def subjects(self) -> frozenset[object]:
        """The subjects of the changes: tunnels by id and generation, entries by key."""
        lost = ((tunnel.tunnel_id, tunnel.generation) for tunnel in self.lost)
        return frozenset((*lost, *(update.entry.key for update in self.updates)))


class Sieve:
    """Lets through what `plan` has to see. Of a hundred thousand entries that are as they should be, nothing is kept."""

    def __init__(self, static: Iterable[Entry], observed: dict[EntryKey, int]) -> None:
        """`observed`: each entry's hash by its key. It is used up: what stays in it is in doubt."""
        self.entries = observed
        self.static = [item for item in static if not self._passes([item])]
        self.tunnels: list[DesiredTunnel] = []

    def add(self, tunnels: Iterable[DesiredTunnel]) -> None:
        for tunnel in tunnels:
            if not all(key in self.entries for key in tunnel.sas) or not self._passes(*tunnel.entries()):
                self.tunnels.append(tunnel)

    def _passes(self, wanted: Sequence[Entry], optional: Sequence[Entry] = ()) -> bool:
        keyed = [(item.key, hash(item)) for item in wanted]
        spare = [(key, hash(item)) for item in optional if (key := item.key) in self.entries]
        if any(self.entries.get(key) != value for key, value in (*keyed, *spare)):
            return False
        for key, _ in (*keyed, *spare):
            self.entries.pop(key, None)
        return True


def plan(static: Sequence[Entry], tunnels: Iterable[DesiredTunnel], observed: Iterable[Entry]) -> Plan:
    """Plan the changes after which the gateway holds `static` and those of `tunnels` that it still has the SAs of."""
    there = {item.key: item for item in observed}
    unknown = dict(there)
    # A gateway has a hundred thousand entries: none that is right is kept twice.
    differing: dict[EntryKey, Entry] = {}

    def want(items: Iterable[Entry]) -> None:
        for item in items:
            key = item.key
            unknown.pop(key, None)
            if there.get(key) == item:
                differing.pop(key, None)
            else:
                differing[key] = item

    lost: list[DesiredTunnel] = []
    want(static)
    for tunnel in tunnels:
        if not all(key in there for key in tunnel.sas):
            lost.append(tunnel)
            continue
        vital, draining = tunnel.entries()
        if all(_is_there(item, there) for item in vital if item.table in _SAD):
            want(vital)
            want(item for item in draining if _is_there(item, there))
        else:
            lost.append(tunnel)
    return Plan(tuple(lost), tuple(_updates(unknown.values(), differing, there)))


def _is_there(item: Entry, there: dict[EntryKey, Entry]) -> bool:
    found = there.get(item.key)
    return found is not None and (found == item or (item.table in _SAD and same_sa(found, item)))


def _updates(
    unknown: Iterable[Entry], differing: dict[EntryKey, Entry], there: dict[EntryKey, Entry]
) -> Iterable[Update]:
    for item in sorted(unknown, key=lambda item: _rank(item.table)):
        yield Update(Kind.DELETE, item)
    for key, item in differing.items():
        found = there.get(key)
        if found is None:
            yield Update(Kind.INSERT, item)
        else:
            yield Update(Kind.MODIFY, item.with_key_of(found), found)


def _rank(table: str) -> int:
    return _DELETE_ORDER.index(table) if table in _DELETE_ORDER else len(_DELETE_ORDER)
