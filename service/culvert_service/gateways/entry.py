"""A P4Runtime table entry as a value: hashable and comparable. Comparison and `repr` leave out the wrapped key."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

# Exact: a number. Ternary: (value, mask). LPM: (value, prefix length).
MatchValue = int | tuple[int, int]
Match = tuple[tuple[str, MatchValue], ...]
Params = tuple[tuple[str, int], ...]
# Table, match, priority.
EntryKey = tuple[str, Match, int]


@dataclass(frozen=True, slots=True)
class Count:
    """The hits of an entry so far."""

    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Entry:
    """Fields sorted by name. The wrapped key is opaque: it is written, never compared (docs/decisions, 8).

    An entry that was read carries the switch's wrapped key, so that an SA can be modified although its key is not stored.
    """

    table: str
    match: Match
    action: str
    params: Params = ()
    priority: int = 0
    wrapped_key: bytes | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> EntryKey:
        """The entry's key, by which the switch tells entries apart (P4Runtime section 9.1)."""
        return self.table, self.match, self.priority

    def with_key_of(self, found: Entry) -> Entry:
        """The same entry, writable with the wrapped key that the switch has."""
        return replace(self, wrapped_key=found.wrapped_key)


def entry(
    table: str,
    match: dict[str, MatchValue],
    action: str,
    params: dict[str, int] | None = None,
    *,
    priority: int = 0,
    wrapped_key: bytes | None = None,
) -> Entry:
    return Entry(
        table,
        tuple(sorted(match.items())),
        action,
        tuple(sorted((params or {}).items())),
        priority,
        wrapped_key,
    )


class Kind(enum.Enum):
    INSERT = "insert"
    MODIFY = "modify"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Update:
    """A change of an entry. A MODIFY knows the former entry, so that it can be undone."""

    kind: Kind
    entry: Entry
    before: Entry | None = None

    def inverse(self) -> Update | None:
        """None for a DELETE: the deleted entry and its key are not stored."""
        match self.kind:
            case Kind.INSERT:
                return Update(Kind.DELETE, self.entry)
            case Kind.MODIFY if self.before is not None:
                return Update(Kind.MODIFY, self.before, self.entry)
            case _:
                return None


def inserts(*entries: Entry) -> list[Update]:
    return [Update(Kind.INSERT, item) for item in entries]


def modifies(entries: Sequence[Entry], before: Sequence[Entry]) -> list[Update]:
    """`entries` and `before` have the same keys in the same order."""
    return [Update(Kind.MODIFY, item, old) for item, old in zip(entries, before, strict=True)]


def deletes(*entries: Entry) -> list[Update]:
    return [Update(Kind.DELETE, item) for item in entries]


def differences(before: Iterable[Entry], after: Iterable[Entry]) -> list[Sequence[Update]]:
    """The batches of updates that lead from one set of entries to the other, in the order in which they are written."""
    old, new = ({item.key: item for item in entries} for entries in (before, after))
    changed = [item for key, item in new.items() if key in old and old[key] != item]
    batches = (
        deletes(*(item for key, item in old.items() if key not in new)),
        inserts(*(item for key, item in new.items() if key not in old)),
        modifies(changed, [old[item.key] for item in changed]),
    )
    return [batch for batch in batches if batch]
