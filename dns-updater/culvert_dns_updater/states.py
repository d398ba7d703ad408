"""The state of each record of a zone, as it is stored and shown. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from culvert_db.published import Address, record_types, rrtype
from culvert_proto import CulvertError, Reason

from culvert_dns_updater import serving
from culvert_dns_updater.desired import Names
from culvert_dns_updater.diff import Plan
from culvert_dns_updater.records import TUNNEL_MARK, ZoneContent


class State(Enum):
    LIVE = "live"
    PENDING = "pending"
    REFUSED = "refused"
    FOREIGN = "foreign"
    OCCLUDED = "occluded"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class RecordState:
    """`error`: why the record is not live; a pending one without an error will be tried again. Until it is live, `wanted`:
    the desired values, and `found`: those in the zone; None: unknown.
    """

    state: State
    error: CulvertError | None = None
    wanted: tuple[str, ...] = ()
    found: tuple[str, ...] | None = None


# (name, type) -> state, for desired records and for those that still have to be withdrawn.
States = Mapping[tuple[str, str], RecordState]


def states_of(
    desired: Names,
    observed: ZoneContent,
    plan: Plan,
    errors: Mapping[str, CulvertError],
    unserved: Mapping[str, RecordState],
    zone: str,
) -> States:
    """The states after a pass. `errors`: the refusals by name; `unserved`: names whose answers differ from the zone's
    content.
    """
    states: dict[tuple[str, str], RecordState] = {}
    for name, addresses in desired.items():
        types = record_types(addresses)
        if name in plan.live and name not in unserved:
            states |= dict.fromkeys([(name, t) for t in types], RecordState(State.LIVE))
            continue
        if name in unserved:
            state = unserved[name]
        elif in_the_way := plan.foreign.get(name):
            told = ", ".join(in_the_way)
            error = CulvertError(Reason.DNS_RECORD_FOREIGN, name=name, zone=zone, types=told)
            state = RecordState(State.FOREIGN, error)
        elif cut := plan.occluded.get(name):
            why = serving.DELEGATED if cut.type == "NS" else serving.REDIRECTED
            state = occluded_state(name, zone, cut.name, why)
        else:
            state = _unfinished_state(errors.get(name))
            types = sorted({*types, *_ours(observed, name)})
        states |= {(name, t): _beside(state, name, t, addresses, observed) for t in types}
    for change in plan.changes:
        if change.kind == "withdraw":
            state = _unfinished_state(errors.get(change.name))
            left = _ours(observed, change.name)
            states |= {(change.name, t): _beside(state, change.name, t, frozenset(), observed) for t in left}
    return states


def wanted_values(addresses: frozenset[Address], record_type: str) -> tuple[str, ...]:
    """The values of a name at these addresses; none without addresses."""
    if record_type == "TXT":
        return (TUNNEL_MARK,) if addresses else ()
    return tuple(sorted(str(address) for address in addresses if rrtype(address) == record_type))


def _ours(observed: ZoneContent, name: str) -> list[str]:
    """The types at a name that Culvert owns or would own."""
    return [t for t in observed.get(name, {}) if t in {"A", "AAAA", "TXT"}]


def _beside(
    state: RecordState, name: str, record_type: str, addresses: frozenset[Address], observed: ZoneContent
) -> RecordState:
    there = observed.get(name, {}).get(record_type)
    found = tuple(sorted(there.rdata)) if there else ()
    return replace(state, wanted=wanted_values(addresses, record_type), found=found)


def _unfinished_state(refusal: CulvertError | None) -> RecordState:
    return RecordState(State.PENDING) if refusal is None else RecordState(State.REFUSED, refusal)


def occluded_state(name: str, zone: str, cut: str, why: str) -> RecordState:
    """`why`: the kind of the zone cut, as a part of a sentence."""
    return RecordState(
        State.OCCLUDED, CulvertError(Reason.DNS_NAME_OCCLUDED, name=name, zone=zone, cut=cut, why=why)
    )
