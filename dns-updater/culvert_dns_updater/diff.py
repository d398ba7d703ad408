"""Desired resources and observed zone in; the updates that make them equal out. Pure.

                         name has no record    name has records
    owner mark absent    publish               foreign: left alone, refused
    owner mark ours      replace               live, or replace; foreign beside CNAME, DNAME or NS
    owner mark other's   foreign               foreign

A name that carries our mark and is no longer desired is withdrawn. Of an owned name we own the address RRsets,
the tunnel mark and the owner mark; whatever else somebody put beside them stays. Each change is guarded by
prerequisites, so that what happens between our reading and our writing makes it fail, not harm. Changes are of one
name each, and independent: any number of them can share an RFC 2136 message, which is atomic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from culvert_dns_updater.records import (
    OWNER_LABEL,
    TUNNEL_MARK,
    Address,
    Ownership,
    Rrset,
    ZoneContent,
    owner_name,
    rrtype,
)

# Beside these a name can't hold address records (RFC 1034 §3.6.2, RFC 6672 §2.4), or they are not served (RFC 1034 §4.2.1).
_EXCLUSIVE = frozenset({"CNAME", "DNAME", "NS"})
_ADDRESS_TYPES = ("A", "AAAA")


@dataclass(frozen=True, slots=True)
class NameFree:
    """RFC 2136 §2.4.5."""

    name: str


@dataclass(frozen=True, slots=True)
class RrsetIs:
    """RFC 2136 §2.4.2: the whole RRset, by value."""

    name: str
    type: str
    rdata: frozenset[str]


@dataclass(frozen=True, slots=True)
class Add:
    """RFC 2136 §2.5.1."""

    name: str
    ttl: int
    type: str
    rdata: str


@dataclass(frozen=True, slots=True)
class DeleteRrset:
    """RFC 2136 §2.5.2."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """RFC 2136 §2.5.4."""

    name: str
    type: str
    rdata: str


@dataclass(frozen=True, slots=True)
class Change:
    kind: Literal["withdraw", "replace", "publish"]
    name: str
    prerequisites: tuple[NameFree | RrsetIs, ...]
    edits: tuple[Add | DeleteRrset | DeleteRecord, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """`changes` in the order to send them; every desired name is in exactly one of `changes`, `live` and `foreign`."""

    changes: tuple[Change, ...]
    live: frozenset[str]
    foreign: frozenset[str]


def diff(desired: Mapping[str, frozenset[Address]], observed: ZoneContent, ownership: Ownership) -> Plan:
    live: set[str] = set()
    foreign: set[str] = set()
    changes = [_withdraw(name, ownership) for name in sorted(_owned(observed, ownership) - desired.keys())]
    publish: list[Change] = []
    for name, addresses in sorted(desired.items()):
        here = observed.get(name, {})
        if not _is_owned(name, observed, ownership):
            if here or owner_name(name) in observed:
                foreign.add(name)
            else:
                publish.append(_publish(name, addresses, ownership))
        elif _EXCLUSIVE & here.keys():
            foreign.add(name)
        elif _equals(here, addresses, ownership):
            live.add(name)
        else:
            changes.append(_replace(name, addresses, here, ownership))
    return Plan((*changes, *publish), frozenset(live), frozenset(foreign))


def _is_owned(name: str, observed: ZoneContent, ownership: Ownership) -> bool:
    mark = observed.get(owner_name(name), {}).get("TXT")
    return mark is not None and mark.rdata == frozenset({ownership.mark})


def _owned(observed: ZoneContent, ownership: Ownership) -> set[str]:
    prefix = f"{OWNER_LABEL}."
    names = {name.removeprefix(prefix) for name in observed if name.startswith(prefix)}
    return {name for name in names if _is_owned(name, observed, ownership)}


def _wanted(addresses: frozenset[Address], ownership: Ownership) -> dict[str, Rrset]:
    types = {rrtype(address) for address in addresses}
    return {
        t: Rrset(ownership.ttl, frozenset(str(a) for a in addresses if rrtype(a) == t)) for t in sorted(types)
    }


def _equals(here: Mapping[str, Rrset], addresses: frozenset[Address], ownership: Ownership) -> bool:
    mark = here.get("TXT")
    if mark is None or TUNNEL_MARK not in mark.rdata or mark.ttl != _mark_ttl(here, ownership):
        return False
    return {t: here[t] for t in _ADDRESS_TYPES if t in here} == _wanted(addresses, ownership)


def _mark_ttl(here: Mapping[str, Rrset], ownership: Ownership) -> int:
    """All records of an RRset share one TTL (RFC 2181 §5.2): beside somebody's TXT our mark takes theirs."""
    texts = here.get("TXT")
    return ownership.ttl if texts is None or texts.rdata == frozenset({TUNNEL_MARK}) else texts.ttl


def _records(
    name: str, addresses: frozenset[Address], mark_ttl: int, ownership: Ownership
) -> tuple[Add, ...]:
    wanted = _wanted(addresses, ownership)
    return (
        *(Add(name, rrset.ttl, t, rdata) for t, rrset in wanted.items() for rdata in sorted(rrset.rdata)),
        Add(name, mark_ttl, "TXT", TUNNEL_MARK),
    )


def _publish(name: str, addresses: frozenset[Address], ownership: Ownership) -> Change:
    owner = owner_name(name)
    return Change(
        "publish",
        name,
        (NameFree(name), NameFree(owner)),
        (
            *_records(name, addresses, ownership.ttl, ownership),
            Add(owner, ownership.ttl, "TXT", ownership.mark),
        ),
    )


def _replace(
    name: str, addresses: frozenset[Address], here: Mapping[str, Rrset], ownership: Ownership
) -> Change:
    return Change(
        "replace",
        name,
        (_still_ours(name, ownership),),
        (
            *(DeleteRrset(name, t) for t in _ADDRESS_TYPES),
            DeleteRecord(name, "TXT", TUNNEL_MARK),
            *_records(name, addresses, _mark_ttl(here, ownership), ownership),
        ),
    )


def _withdraw(name: str, ownership: Ownership) -> Change:
    return Change(
        "withdraw",
        name,
        (_still_ours(name, ownership),),
        (
            *(DeleteRrset(name, t) for t in _ADDRESS_TYPES),
            DeleteRecord(name, "TXT", TUNNEL_MARK),
            DeleteRecord(owner_name(name), "TXT", ownership.mark),
        ),
    )


def _still_ours(name: str, ownership: Ownership) -> RrsetIs:
    return RrsetIs(owner_name(name), "TXT", frozenset({ownership.mark}))
