"""The diff against a model of RFC 2136: it reaches what is desired, keeps to its own records, and then rests."""

from __future__ import annotations

import copy
import ipaddress
from collections.abc import Mapping

from culvert_db.published import Address, owner_name
from culvert_dns_updater.diff import (
    Add,
    Change,
    DeleteRecord,
    DeleteRrset,
    NameFree,
    RrsetAbsent,
    RrsetIs,
    diff,
)
from culvert_dns_updater.records import TUNNEL_MARK, Ownership, Rrset, ZoneContent
from hypothesis import given
from hypothesis import strategies as st

ORIGIN = "corp.example"
OURS = Ownership(instance="a", ttl=60)
OTHERS = Ownership(instance="b", ttl=60)
NAMES = [f"{label}.corp.example" for label in ("wiki", "git", "mail", "deep.wiki")] + ["corp.example"]

Zone = dict[str, dict[str, Rrset]]

addresses = st.frozensets(
    st.sampled_from([ipaddress.ip_address(text) for text in ("10.20.0.10", "10.20.0.11", "2001:db8::1")]),
    min_size=1,
    max_size=2,
)
desires = st.dictionaries(st.sampled_from(NAMES), addresses)

foreign_rrsets = st.dictionaries(
    st.sampled_from(["A", "AAAA", "TXT", "MX", "CNAME", "DNAME", "NS"]),
    st.builds(
        Rrset,
        st.sampled_from([60, 300]),
        st.frozensets(st.sampled_from(['"x"', TUNNEL_MARK, "10.20.0.10"]), min_size=1),
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def zones(draw: st.DrawFn) -> Zone:
    """Any mixture: records by hand, ours, half of ours, those of another instance, and ours with something beside them."""
    zone: Zone = {}
    for name in draw(st.sets(st.sampled_from(NAMES))):
        kind = draw(st.sampled_from(["hand", "ours", "others", "beside", "owner only"]))
        if kind in {"hand", "beside"}:
            zone[name] = dict(draw(foreign_rrsets))
        if kind == "ours":
            zone = _apply_all(zone, {name: draw(addresses)}, OURS)
        if kind == "others":
            zone = _apply_all(zone, {name: draw(addresses)}, OTHERS)
        if kind in {"beside", "owner only"}:
            zone[owner_name(name)] = {"TXT": Rrset(60, frozenset({OURS.mark}))}
    return zone


def _apply(change: Change, zone: Zone) -> Zone:
    """RFC 2136 §3: all prerequisites, then all edits, or nothing."""
    zone = copy.deepcopy(zone)
    for prerequisite in change.prerequisites:
        match prerequisite:
            case NameFree(name):
                assert name not in zone
            case RrsetAbsent(name, rtype):
                assert rtype not in zone.get(name, {})
            case RrsetIs(name, rtype, rdata):
                assert zone[name][rtype].rdata == rdata
    for edit in change.edits:
        rrsets = zone.setdefault(edit.name, {})
        old = rrsets.get(edit.type, Rrset(0, frozenset()))
        match edit:
            case Add(ttl=ttl, rdata=rdata):
                rrsets[edit.type] = Rrset(ttl, old.rdata | {rdata})
            case DeleteRrset():
                rrsets.pop(edit.type, None)
            case DeleteRecord(rdata=rdata):
                rrsets[edit.type] = Rrset(old.ttl, old.rdata - {rdata})
        zone[edit.name] = {t: rrset for t, rrset in rrsets.items() if rrset.rdata}
        if not zone[edit.name]:
            del zone[edit.name]
    return zone


def _apply_all(zone: Zone, desired: Mapping[str, frozenset[Address]], ownership: Ownership) -> Zone:
    for change in diff(desired, zone, ownership, ORIGIN).changes:
        zone = _apply(change, zone)
    return zone


def _not_ours(zone: ZoneContent) -> dict[tuple[str, str], frozenset[str]]:
    """Every record that we may not touch."""
    kept: dict[tuple[str, str], frozenset[str]] = {}
    for name, rrsets in zone.items():
        mark = zone.get(owner_name(name), {}).get("TXT")
        owned = mark is not None and mark.rdata == frozenset({OURS.mark})
        for rtype, rrset in rrsets.items():
            if owned and rtype in {"A", "AAAA"}:
                continue
            rdata = rrset.rdata - {OURS.mark} - ({TUNNEL_MARK} if owned else set())
            if rdata:
                kept[name, rtype] = rdata
    return kept


@given(desires, zones())
def test_records_of_others_stay(desired: dict[str, frozenset[Address]], zone: Zone) -> None:
    before = _not_ours(zone)
    after = _apply_all(zone, desired, OURS)
    assert {key: after[key[0]][key[1]].rdata & rdata for key, rdata in before.items()} == before


@given(desires, zones())
def test_a_name_that_is_not_ours_gets_no_edit(desired: dict[str, frozenset[Address]], zone: Zone) -> None:
    plan = diff(desired, zone, OURS, ORIGIN)
    touched = {edit.name for change in plan.changes for edit in change.edits}
    assert not touched & (plan.foreign.keys() | plan.occluded.keys())


@given(desires, zones())
def test_a_diff_makes_names_live_and_a_second_diff_is_empty(
    desired: dict[str, frozenset[Address]], zone: Zone
) -> None:
    first = diff(desired, zone, OURS, ORIGIN)
    again = diff(desired, _apply_all(zone, desired, OURS), OURS, ORIGIN)
    assert again.changes == ()
    assert (again.foreign, again.occluded) == (first.foreign, first.occluded)
    assert again.live == desired.keys() - first.foreign.keys() - first.occluded.keys()


@given(desires, zones())
def test_every_desired_name_is_in_one_part_of_the_plan(
    desired: dict[str, frozenset[Address]], zone: Zone
) -> None:
    plan = diff(desired, zone, OURS, ORIGIN)
    changed = [change.name for change in plan.changes if change.kind != "withdraw"]
    assert sorted([*changed, *plan.live, *plan.foreign, *plan.occluded]) == sorted(desired)


def test_withdrawing_keeps_other_records_of_the_name() -> None:
    zone = _apply_all({}, {NAMES[0]: frozenset({ipaddress.ip_address("10.20.0.10")})}, OURS)
    zone[NAMES[0]]["MX"] = Rrset(300, frozenset({"10 mail.corp.example."}))
    assert _apply_all(zone, {}, OURS) == {NAMES[0]: {"MX": Rrset(300, frozenset({"10 mail.corp.example."}))}}
