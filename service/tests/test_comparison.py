"""Compare a gateway's desired and observed entries: a difference that two readings agree on is drift."""

from __future__ import annotations

import uuid

from culvert_service.gateways.comparison import Compared, EntryStanding, compare
from culvert_service.gateways.diff import DesiredTunnel, plan
from culvert_service.gateways.entry import Entry, entry

HELD = entry("route", {"dst": 1}, "to", {"nexthop": 1})
CHANGED = entry("route", {"dst": 2}, "to", {"nexthop": 1})
DRIFTED = entry("route", {"dst": 2}, "to", {"nexthop": 9})
MISSING = entry("route", {"dst": 3}, "to", {"nexthop": 1})
FOREIGN = entry("route", {"dst": 4}, "to", {"nexthop": 1})
SA = entry("sad_in", {"spi": 300}, "open")
POLICY = entry("spd_in", {"sa_id": 1}, "permit")
TUNNEL = DesiredTunnel.of(uuid.UUID(int=1), 1, [SA, POLICY])


def standings(observed: list[Entry], *, twice: bool = True) -> dict[Entry, EntryStanding]:
    todo = plan([HELD, CHANGED, MISSING], [TUNNEL], observed)
    found = compare(observed, todo, todo.subjects() if twice else ())
    return {it.entry: it.standing for it in found}


def test_each_way_in_which_an_entry_may_differ() -> None:
    assert standings([HELD, DRIFTED, FOREIGN, SA, POLICY]) == {
        HELD: EntryStanding.AS_DESIRED,
        DRIFTED: EntryStanding.CHANGED,
        FOREIGN: EntryStanding.FOREIGN,
        SA: EntryStanding.AS_DESIRED,
        POLICY: EntryStanding.AS_DESIRED,
        MISSING: EntryStanding.MISSING,
    }


def test_a_changed_entry_comes_with_the_desired_one() -> None:
    todo = plan([CHANGED], [], [DRIFTED])
    assert compare([DRIFTED], todo, todo.subjects()) == [Compared(DRIFTED, EntryStanding.CHANGED, CHANGED)]


def test_a_tunnels_lost_sa_is_missing_and_the_rest_stays_its_own() -> None:
    found = standings([HELD, CHANGED, MISSING, POLICY])
    assert (found[SA], found[POLICY]) == (EntryStanding.MISSING, EntryStanding.AS_DESIRED)


def test_a_difference_in_a_single_reading_is_under_way() -> None:
    found = standings([HELD, DRIFTED, FOREIGN, SA, POLICY], twice=False)
    assert set(found.values()) == {EntryStanding.AS_DESIRED}
