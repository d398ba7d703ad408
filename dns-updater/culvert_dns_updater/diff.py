"""Desired resources and observed zone in; updates out. Pure.

                         name has no record    name has records
    owner mark absent    publish               foreign: not changed, reported
    owner mark ours      replace               live, or replace; foreign beside CNAME
    owner mark other's   foreign               foreign

The zone's apex always has records: there, only addresses count as foreign. A name at or below a delegation, or below a
DNAME, is occluded: the server never returns its records, so none are written.

An owned name that is no longer desired is withdrawn. Culvert owns the address RRsets, the tunnel mark and the owner mark
of an owned name; other records stay. A change contains only RRsets that differ, because the key may not be permitted to
write the others. Each change has prerequisites, so that it fails if the zone has changed since it was read. Each change is
about one name and independent of others, so any number of them can share an RFC 2136 message, which is atomic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from culvert_db.published import OWNER_LABEL, Address, owner_name, rrtype

from culvert_dns_updater.records import TUNNEL_MARK, Ownership, Rrset, ZoneContent

# A name with a CNAME cannot have address records (RFC 1034 §3.6.2); one with a DNAME can (RFC 6672 §2.4).
_EXCLUSIVE = frozenset({"CNAME"})
_ADDRESS_TYPES = ("A", "AAAA")


@dataclass(frozen=True, slots=True)
class NameFree:
    """RFC 2136 §2.4.5."""

    name: str


@dataclass(frozen=True, slots=True)
class RrsetAbsent:
    """RFC 2136 §2.4.3."""

    name: str
    type: str


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


Edit = Add | DeleteRrset | DeleteRecord


@dataclass(frozen=True, slots=True)
class Change:
    kind: Literal["withdraw", "replace", "publish"]
    name: str
    prerequisites: tuple[NameFree | RrsetAbsent | RrsetIs, ...]
    edits: tuple[Edit, ...]

    @property
    def rrsets(self) -> tuple[tuple[str, str], ...]:
        """(name, type) of each RRset that the key must be allowed to write."""
        return tuple(dict.fromkeys((edit.name, edit.type) for edit in self.edits))

    def without(self, denied: frozenset[tuple[str, str]]) -> Change | None:
        """The part of the change that a key without access to those RRsets can write; None without any address edit."""
        if self.kind == "withdraw":
            # Keep the owner mark as long as other owned records remain.
            denied |= {(owner_name(self.name), "TXT")}
        edits = tuple(edit for edit in self.edits if (edit.name, edit.type) not in denied)
        types = {edit.type for edit in edits if edit.name == self.name}
        marks = {(self.name, "TXT"), (owner_name(self.name), "TXT")}
        if not types & {*_ADDRESS_TYPES} or (self.kind == "publish" and denied & marks):
            return None
        return replace(self, edits=edits)


@dataclass(frozen=True, slots=True)
class Cut:
    """A zone cut or DNAME: names below it are answered by another zone."""

    name: str
    type: Literal["NS", "DNAME"]


@dataclass(frozen=True, slots=True)
class Plan:
    """`changes`: in the order of sending. Every desired name is in exactly one of `changes`, `live`, `foreign` and
    `occluded`. `foreign`: each with the conflicting RRsets as text.
    """

    changes: tuple[Change, ...]
    live: frozenset[str]
    foreign: Mapping[str, tuple[str, ...]]
    occluded: Mapping[str, Cut]


def diff(
    desired: Mapping[str, frozenset[Address]], observed: ZoneContent, ownership: Ownership, origin: str
) -> Plan:
    live: set[str] = set()
    foreign: dict[str, tuple[str, ...]] = {}
    occluded: dict[str, Cut] = {}
    changes = [
        _withdraw(name, observed, ownership)
        for name in sorted(_find_owned(observed, ownership) - desired.keys())
    ]
    publish: list[Change] = []
    for name, addresses in sorted(desired.items()):
        here = observed.get(name, {})
        if cut := _cut(name, observed, origin):
            occluded[name] = cut
        elif in_the_way := _in_the_way(name, observed, ownership, origin):
            foreign[name] = in_the_way
        elif not _is_owned(name, observed, ownership):
            publish.append(_publish(name, addresses, here, ownership, origin))
        elif _equals(here, addresses, ownership):
            live.add(name)
        else:
            changes.append(_replace(name, addresses, here, ownership))
    return Plan((*changes, *publish), frozenset(live), foreign, occluded)


def _cut(name: str, observed: ZoneContent, origin: str) -> Cut | None:
    """The highest cut above the name (RFC 1034 §4.3.2, RFC 6672 §2.3), at which a server ends its search."""
    for above in _from_origin(name, origin):
        here = observed.get(above, {})
        if "NS" in here and above != origin:
            return Cut(above, "NS")
        if "DNAME" in here and above != name:
            return Cut(above, "DNAME")
    return None


def _from_origin(name: str, origin: str) -> Iterator[str]:
    """The origin, and each name from there down to the name."""
    labels = name.removesuffix(origin).removesuffix(".").split(".") if name != origin else []
    yield origin
    for start in range(len(labels) - 1, -1, -1):
        yield ".".join((*labels[start:], origin))


def _in_the_way(name: str, observed: ZoneContent, ownership: Ownership, origin: str) -> tuple[str, ...]:
    """The foreign RRsets that prevent the publication of a name."""
    here, owner = observed.get(name, {}), owner_name(name)
    if _is_owned(name, observed, ownership):
        return tuple(sorted(_EXCLUSIVE & here.keys()))
    types = here.keys() & {*_ADDRESS_TYPES, *_EXCLUSIVE} if name == origin else here.keys()
    return (*sorted(types), *(f"{t} of {owner}" for t in sorted(observed.get(owner, {}))))


def _is_owned(name: str, observed: ZoneContent, ownership: Ownership) -> bool:
    mark = observed.get(owner_name(name), {}).get("TXT")
    return mark is not None and mark.rdata == frozenset({ownership.mark})


def _find_owned(observed: ZoneContent, ownership: Ownership) -> set[str]:
    prefix = f"{OWNER_LABEL}."
    names = {name.removeprefix(prefix) for name in observed if name.startswith(prefix)}
    return {name for name in names if _is_owned(name, observed, ownership)}


def _desire(addresses: frozenset[Address], ownership: Ownership) -> dict[str, Rrset]:
    types = {rrtype(address) for address in addresses}
    return {
        t: Rrset(ownership.ttl, frozenset(str(a) for a in addresses if rrtype(a) == t)) for t in sorted(types)
    }


def _equals(here: Mapping[str, Rrset], addresses: frozenset[Address], ownership: Ownership) -> bool:
    mark = here.get("TXT")
    if mark is None or TUNNEL_MARK not in mark.rdata or mark.ttl != _mark_ttl(here, ownership):
        return False
    return {t: here[t] for t in _ADDRESS_TYPES if t in here} == _desire(addresses, ownership)


def _mark_ttl(here: Mapping[str, Rrset], ownership: Ownership) -> int:
    """The TTL of the mark. Records of an RRset share one TTL (RFC 2181 §5.2): with foreign TXT records it is theirs."""
    texts = here.get("TXT")
    return ownership.ttl if texts is None or texts.rdata == frozenset({TUNNEL_MARK}) else texts.ttl


def _addresses(name: str, wanted: Mapping[str, Rrset]) -> Iterator[Add]:
    for t, rrset in wanted.items():
        yield from (Add(name, rrset.ttl, t, rdata) for rdata in sorted(rrset.rdata))


def _publish(
    name: str, addresses: frozenset[Address], here: Mapping[str, Rrset], ownership: Ownership, origin: str
) -> Change:
    owner = owner_name(name)
    free = (RrsetAbsent(name, t) for t in _ADDRESS_TYPES) if name == origin else (NameFree(name),)
    return Change(
        "publish",
        name,
        (*free, NameFree(owner)),
        (
            *_addresses(name, _desire(addresses, ownership)),
            Add(name, _mark_ttl(here, ownership), "TXT", TUNNEL_MARK),
            Add(owner, ownership.ttl, "TXT", ownership.mark),
        ),
    )


def _replace(
    name: str, addresses: frozenset[Address], here: Mapping[str, Rrset], ownership: Ownership
) -> Change:
    wanted = _desire(addresses, ownership)
    others = {t for t in _ADDRESS_TYPES if here.get(t) != wanted.get(t)}
    edits: list[Edit] = [DeleteRrset(name, t) for t in sorted(others & here.keys())]
    edits += _addresses(name, {t: rrset for t, rrset in wanted.items() if t in others})
    texts, ttl = here.get("TXT", Rrset(0, frozenset())), _mark_ttl(here, ownership)
    if TUNNEL_MARK not in texts.rdata or texts.ttl != ttl:
        edits += [DeleteRecord(name, "TXT", TUNNEL_MARK)] if TUNNEL_MARK in texts.rdata else []
        edits.append(Add(name, ttl, "TXT", TUNNEL_MARK))
    return Change("replace", name, (_still_ours(name, ownership),), tuple(edits))


def _withdraw(name: str, observed: ZoneContent, ownership: Ownership) -> Change:
    here = observed.get(name, {})
    edits: list[Edit] = [DeleteRrset(name, t) for t in _ADDRESS_TYPES if t in here]
    if TUNNEL_MARK in here.get("TXT", Rrset(0, frozenset())).rdata:
        edits.append(DeleteRecord(name, "TXT", TUNNEL_MARK))
    edits.append(DeleteRecord(owner_name(name), "TXT", ownership.mark))
    return Change("withdraw", name, (_still_ours(name, ownership),), tuple(edits))


def _still_ours(name: str, ownership: Ownership) -> RrsetIs:
    return RrsetIs(owner_name(name), "TXT", frozenset({ownership.mark}))
