"""Entries and errors to finsy's and back: the only place that knows both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import cast

import finsy
from finsy import P4DigestList, P4TableAction, P4TableEntry, P4TableMatch

from culvert_service.gateways.entry import Entry, Kind, MatchValue, Update, entry

_RANGE_MAX = 0xFFFF
_RANGES = ("sport", "dport")
# bit<576>, right-aligned: the suite tells how much of it counts.
_WRAPPED_KEY_BYTES = 72


def key_only(item: Entry) -> P4TableEntry:
    """For a read of this one entry."""
    return P4TableEntry(item.table, match=P4TableMatch(dict(item.match)), priority=item.priority)


def to_update(update: Update) -> P4TableEntry:
    """One update for `Switch.write`."""
    item = update.entry
    match = P4TableMatch(dict(item.match))
    if update.kind is Kind.DELETE:
        return -P4TableEntry(item.table, match=match, priority=item.priority)
    args: dict[str, int] = dict(item.params)
    if item.wrapped_key is not None:
        args["wrapped_key"] = int.from_bytes(item.wrapped_key)
    written = P4TableEntry(
        item.table, match=match, action=P4TableAction(item.action, **args), priority=item.priority
    )
    return +written if update.kind is Kind.INSERT else ~written


def from_finsy(found: P4TableEntry) -> Entry | None:
    """What a read returned, as the same value that was written; None for a default action."""
    if found.is_default_action or not isinstance(found.action, P4TableAction):
        return None
    match = cast("Mapping[str, MatchValue]", found.match or {})
    args = dict(cast("Mapping[str, int]", found.action.args))
    wrapped_key = args.pop("wrapped_key", None)
    return entry(
        found.table_id,
        {name: value for name, value in match.items() if not _matches_all(name, value)},
        found.action.name,
        args,
        priority=found.priority,
        wrapped_key=None if wrapped_key is None else wrapped_key.to_bytes(_WRAPPED_KEY_BYTES),
    )


def read(switch: finsy.Switch, wanted: Sequence[P4TableEntry]) -> AsyncIterator[P4TableEntry]:
    """Entries that match. finsy declares `read` as a coroutine; it is a generator."""
    return cast("AsyncIterator[P4TableEntry]", switch.read(wanted))


def digest_values(message: P4DigestList) -> list[dict[str, int]]:
    return [dict(cast("Mapping[str, int]", item)) for item in message]


def refusal(error: finsy.P4ClientError) -> str:
    """Why a gateway refused, in its own words, without the entry."""
    details = [f"{fault.canonical_code.name}: {fault.message}" for fault in error.details.values()]
    return "; ".join(details[:3]) or f"{error.code.name}: {error.message}"


def is_down(error: finsy.P4ClientError) -> bool:
    return error.code in {
        finsy.GRPCStatusCode.UNAVAILABLE,
        finsy.GRPCStatusCode.DEADLINE_EXCEEDED,
        finsy.GRPCStatusCode.CANCELLED,
    }


def already_exists_only(error: finsy.P4ClientError) -> bool:
    codes = {fault.canonical_code for fault in error.details.values()} or {error.code}
    return codes == {finsy.GRPCStatusCode.ALREADY_EXISTS}


def _matches_all(name: str, value: MatchValue) -> bool:
    return value == (0, 0) or (name in _RANGES and value == (0, _RANGE_MAX))
