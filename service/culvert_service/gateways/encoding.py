"""Converts entries, counters and digests to and from P4Runtime messages, by a program's P4Info. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from culvert_proto.contract import WRAPPED_KEY_LEN
from finsy.proto import p4i, p4r

from culvert_service.gateways.entry import Count, Entry, EntryKey, Kind, MatchValue, Update
from culvert_service.gateways.program import p4info_of

_TYPES = {
    Kind.INSERT: p4r.Update.INSERT,
    Kind.MODIFY: p4r.Update.MODIFY,
    Kind.DELETE: p4r.Update.DELETE,
}
_WRAPPED_KEY = "wrapped_key"
# Only ports have range matches.
_RANGE_MAX = 0xFFFF


@dataclass(frozen=True, slots=True)
class _Field:
    id: int
    name: str
    type: int
    bits: int


class _Table:
    def __init__(self, info: p4i.Table) -> None:
        self.id = info.preamble.id
        self.name = info.preamble.alias
        fields = [_Field(it.id, it.name, it.match_type, it.bitwidth) for it in info.match_fields]
        self.by_name = {field.name: field for field in fields}
        self.by_id = {field.id: field for field in fields}
        self.actions = {ref.id for ref in info.action_refs}


class _Action:
    def __init__(self, info: p4i.Action) -> None:
        self.id = info.preamble.id
        self.name = info.preamble.alias
        self.by_name = {param.name: param.id for param in info.params}
        self.by_id = {param.id: param.name for param in info.params}


class Encoding:
    def __init__(self, p4info: p4i.P4Info) -> None:
        tables = [_Table(info) for info in p4info.tables]
        actions = [_Action(info) for info in p4info.actions]
        self._by_name = {table.name: table for table in tables}
        self._by_id = {table.id: table for table in tables}
        self._actions = {action.id: action for action in actions}
        self._action_of = {
            (table.name, action.name): action
            for table in tables
            for action in actions
            if action.id in table.actions
        }
        self._arrays = {info.preamble.alias: info.preamble.id for info in p4info.counters}
        self._digests = {info.preamble.alias: info.preamble.id for info in p4info.digests}
        self._digest_fields = {
            info.preamble.id: [it.name for it in p4info.type_info.structs[info.type_spec.struct.name].members]
            for info in p4info.digests
        }

    @staticmethod
    @cache
    def of(p4info: Path) -> Encoding:
        return Encoding(p4info_of(p4info))

    def update(self, update: Update) -> p4r.Update:
        """Raises KeyError for names that are not in the program."""
        item = update.entry
        encoded = p4r.Update(type=_TYPES[update.kind])
        written = encoded.entity.table_entry
        self._put_key(written, item.key)
        if update.kind is not Kind.DELETE:
            self._put_action(written, item)
        return encoded

    def key(self, key: EntryKey) -> p4r.Entity:
        """The read request of one entry."""
        entity = p4r.Entity()
        self._put_key(entity.table_entry, key)
        return entity

    def table(self, name: str) -> p4r.Entity:
        """The read request of a whole table."""
        entity = p4r.Entity()
        entity.table_entry.table_id = self._by_name[name].id
        return entity

    def direct_counters(self, name: str) -> p4r.Entity:
        """The read request of a table's direct counters."""
        asked = p4r.TableEntry(table_id=self._by_name[name].id)
        return p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=asked))

    def array(self, name: str) -> p4r.Entity:
        """The read request of a counter array."""
        return p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=self._arrays[name]))

    def cell(self, name: str, index: int) -> p4r.Entity:
        """The read request of one counter of an array."""
        entity = self.array(name)
        entity.counter_entry.index.index = index
        return entity

    def digest(self, name: str) -> int:
        """The digest's id."""
        return self._digests[name]

    def digest_values(self, found: p4r.DigestList) -> list[dict[str, int]]:
        """The fields of each message in it, by name."""
        names = self._digest_fields[found.digest_id]
        return [
            {
                name: int.from_bytes(member.bitstring)
                for name, member in zip(names, data.struct.members, strict=True)
            }
            for data in found.data
        ]

    def entry(self, found: p4r.TableEntry) -> Entry | None:
        """Decode an entry; equal to the one that was written. None for a default action."""
        if found.is_default_action or found.action.WhichOneof("type") != "action":
            return None
        table = self._by_id[found.table_id]
        taken = found.action.action
        action = self._actions[taken.action_id]
        names = action.by_id
        params = {names[param.param_id]: int.from_bytes(param.value) for param in taken.params}
        wrapped = params.pop(_WRAPPED_KEY, None)
        fields = table.by_id
        match = [(fields[it.field_id].name, value) for it in found.match if (value := _value(it)) is not None]
        return Entry(
            table.name,
            tuple(sorted(match)),
            action.name,
            tuple(sorted(params.items())),
            found.priority,
            None if wrapped is None else wrapped.to_bytes(WRAPPED_KEY_LEN),
        )

    def decode_count(self, found: p4r.DirectCounterEntry) -> tuple[EntryKey, Count]:
        """An entry and its hits, from a read of direct counters."""
        entry, data = found.table_entry, found.data
        table = self._by_id[entry.table_id]
        fields = table.by_id
        match = [(fields[it.field_id].name, value) for it in entry.match if (value := _value(it)) is not None]
        return (table.name, tuple(sorted(match)), entry.priority), Count(data.packet_count, data.byte_count)

    def decode_sa_count(self, found: p4r.DirectCounterEntry) -> int | None:
        """An SA and its hits, from a read of the direct counters of a table with the match field `sa_id`."""
        entry = found.table_entry
        field = self._by_id[entry.table_id].by_name["sa_id"].id
        return next((int.from_bytes(it.exact.value) for it in entry.match if it.field_id == field), None)

    def _put_key(self, written: p4r.TableEntry, key: EntryKey) -> None:
        name, match, priority = key
        table = self._by_name[name]
        written.table_id, written.priority = table.id, priority
        for name, value in match:
            field = table.by_name[name]
            put = written.match.add()
            put.field_id = field.id
            _put_value(put, field, value)

    def _put_action(self, written: p4r.TableEntry, item: Entry) -> None:
        action = self._action_of[item.table, item.action]
        put = written.action.action
        put.action_id = action.id
        ids = action.by_name
        for name, value in item.params:
            param = put.params.add()
            param.param_id, param.value = ids[name], _bytes(value)
        if item.wrapped_key is not None:
            param = put.params.add()
            param.param_id, param.value = ids[_WRAPPED_KEY], item.wrapped_key.lstrip(b"\0") or b"\0"


def _put_value(put: p4r.FieldMatch, field: _Field, value: MatchValue) -> None:
    match field.type:
        case p4i.MatchField.TERNARY:
            number, mask = value if isinstance(value, tuple) else (value, 2**field.bits - 1)
            put.ternary.value, put.ternary.mask = _bytes(number & mask), _bytes(mask)
        case p4i.MatchField.LPM:
            number, length = value if isinstance(value, tuple) else (value, field.bits)
            put.lpm.value, put.lpm.prefix_len = _bytes(number), length
        case p4i.MatchField.RANGE:
            low, high = value if isinstance(value, tuple) else (value, value)
            put.range.low, put.range.high = _bytes(low), _bytes(high)
        case _:
            assert isinstance(value, int)
            put.exact.value = _bytes(value)


def _value(found: p4r.FieldMatch) -> MatchValue | None:
    """None for a match of everything, which some switches return although the entry was written without it."""
    match found.WhichOneof("field_match_type"):
        case "exact":
            return int.from_bytes(found.exact.value)
        case "ternary":
            mask = int.from_bytes(found.ternary.mask)
            return (int.from_bytes(found.ternary.value), mask) if mask else None
        case "lpm":
            return (int.from_bytes(found.lpm.value), found.lpm.prefix_len) if found.lpm.prefix_len else None
        case _:
            low, high = int.from_bytes(found.range.low), int.from_bytes(found.range.high)
            return (low, high) if (low, high) != (0, _RANGE_MAX) else None


def _bytes(number: int) -> bytes:
    """The shortest encoding (P4Runtime section 8.4)."""
    return number.to_bytes((number.bit_length() + 7) // 8 or 1)
