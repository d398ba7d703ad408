"""Desired and observed entries → updates to write. Pure.

A missing SA cannot be written again, because its key is not stored: its tunnel is lost, and the tunnel's other entries
are deleted. An SA with another peer is modified, with the wrapped key that the gateway holds.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from culvert_service.gateways.entry import Entry, EntryKey, Kind, Update
from culvert_service.gateways.tunnel_entries import SA_TABLES, same_sa

# First the entries that admit packets, then the entries that they refer to.
_DELETE_ORDER = (
    *("spd_out", "sad_out", "crypto_out", "host_out", "spd_in", "sad_in", "crypto_in", "host_in"),
    *("port_role", "crypto_port", "front", "own_address", "icmp_source", "route", "ecmp_member", "nexthop"),
)


@dataclass(frozen=True, slots=True)
class DesiredTunnel:
    """`sas`: the keys of the SAs in use; if one is missing, the tunnel is lost. `entries` builds the desired entries: those
    of generations in use, and those of a draining pair, which may be missing. `source`: opaque, for the caller that
    desires the tunnel.
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
        """A tunnel whose entries are already built."""
        sas = tuple(item.key for item in vital if item.table in SA_TABLES)
        return cls(tunnel_id, generation, sas, lambda: (vital, draining), source)


@dataclass(frozen=True, slots=True)
class Plan:
    """Lost tunnels, and updates in the order of writing."""

    lost: tuple[DesiredTunnel, ...]
    updates: tuple[Update, ...]

    def subjects(self) -> frozenset[object]:
        """The subjects of the changes: tunnels by id and generation, entries by key."""
        lost = ((tunnel.tunnel_id, tunnel.generation) for tunnel in self.lost)
        return frozenset((*lost, *(update.entry.key for update in self.updates)))


class Sieve:
    """Selects the tunnels and entries that `plan` must compare, so that 100,000 correct entries need not be stored."""

    def __init__(self, static: Iterable[Entry], observed: dict[EntryKey, int]) -> None:
        """`observed`: each entry's hash by its key. `add` removes the correct entries; the rest must be read again."""
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
    # A gateway may hold 100,000 entries: correct ones are not stored twice.
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
        if all(_is_there(item, there) for item in vital if item.table in SA_TABLES):
            want(vital)
            want(item for item in draining if _is_there(item, there))
        else:
            lost.append(tunnel)
    return Plan(tuple(lost), tuple(_updates(unknown.values(), differing, there)))


def _is_there(item: Entry, there: dict[EntryKey, Entry]) -> bool:
    found = there.get(item.key)
    return found is not None and (found == item or (item.table in SA_TABLES and same_sa(found, item)))


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
