"""The plan turns any observed entries into the desired ones; an SA that cannot be restored is reported as lost."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from culvert_proto.sa import Limits
from culvert_service.gateways import mapped
from culvert_service.gateways.diff import DesiredTunnel, Plan, Sieve, plan
from culvert_service.gateways.entry import Entry, EntryKey, Kind, entry
from culvert_service.gateways.sa import Endpoint, SaId, SaNumbers, Slot, Spi, Tag
from culvert_service.gateways.selector import Selector
from culvert_service.gateways.site import Lan, Site, Wan, static_entries
from culvert_service.gateways.tunnel_entries import (
    Pair,
    Path,
    WrappedKeys,
    pair_entries,
    policy_entries,
    sa_keys,
)
from hypothesis import given
from hypothesis import strategies as st

SITE = Site(
    "198.51.100.2",
    "10.99.0.0/24",
    Wan(1, "02:00:00:00:01:01", ["02:00:00:00:01:02"]),
    Lan(2, "02:00:00:00:02:01", "10.20.0.1", "10.20.0.0/16", {"10.20.0.10": "02:00:00:00:02:10"}),
    "198.51.100.2",
)
STATIC = static_entries(SITE)
UUID = uuid.UUID(int=1)
WIKI = (Selector("10.20.0.10/32"), Selector("10.20.8.0/24", 6, (443, 443)))


def numbers(n: int) -> SaNumbers:
    return SaNumbers(Spi(256 + n), Slot(n), SaId(1 + n))


def tunnel(n: int, *, drains: bool = False, peer: str = "203.0.113.10") -> DesiredTunnel:
    path = Path(
        uuid.UUID(int=n),
        SITE.address,
        SITE.public_address,
        f"10.99.0.{n + 1}",
        WIKI,
        peer,
        4500,
        Endpoint(n),
        Limits(1000),
    )
    current = Pair(2, numbers(4 * n), numbers(4 * n + 1), Tag(9))
    old = Pair(1, numbers(4 * n + 2), numbers(4 * n + 3), Tag(9))
    policy = policy_entries(path, current.to_device.sa_id)
    return DesiredTunnel.of(
        path.tunnel_id, 2, (*pair_entries(path, current), *policy), pair_entries(path, old) if drains else ()
    )


def vital(one: DesiredTunnel) -> Sequence[Entry]:
    return one.entries()[0]


TUNNELS = [tunnel(n, drains=n % 2 == 0) for n in range(4)]
EVERYTHING = [*STATIC, *(item for one in TUNNELS for item in (*vital(one), *one.entries()[1]))]
FOREIGN = [entry("spd_in", {"sa_id": 99}, "permit", priority=1), entry("sad_out", {"sa_id": 99}, "seal")]


def carried_out(observed: list[Entry], todo: Plan) -> dict[EntryKey, Entry]:
    """A switch's entries after the plan; it refuses what P4Runtime refuses."""
    held = {item.key: item for item in observed}
    for update in todo.updates:
        key = update.entry.key
        assert (key in held) == (update.kind is not Kind.INSERT)
        assert update.kind is not Kind.INSERT or update.entry.table not in {"sad_in", "sad_out"}, (
            "no key to write"
        )
        if update.kind is Kind.DELETE:
            del held[key]
        else:
            held[key] = update.entry
    return held


@given(st.lists(st.sampled_from([*EVERYTHING, *FOREIGN]), unique=True))
def test_any_gateway_reaches_what_is_desired(observed: list[Entry]) -> None:
    todo = plan(STATIC, TUNNELS, observed)
    held = carried_out(observed, todo)
    kept = [one for one in TUNNELS if one not in todo.lost]
    wanted = {item.key: item for item in STATIC} | {item.key: item for one in kept for item in vital(one)}
    draining = {item.key for one in kept for item in one.entries()[1]}
    assert {key: item for key, item in held.items() if key not in draining} == wanted
    assert plan(STATIC, kept, held.values()).updates == ()
    for one in TUNNELS:
        has_sas = all(item in observed for item in vital(one) if item.table in {"sad_in", "sad_out"})
        assert (one in kept) == has_sas


OTHERS = [replace(item, params=(*item.params[:-1], ("changed", 1))) for item in EVERYTHING]


@given(
    st.lists(st.sampled_from([*EVERYTHING, *OTHERS, *FOREIGN]), unique_by=lambda item: item.key),
    st.integers(1, len(TUNNELS)),
)
def test_a_sieved_plan_equals_the_whole_plan(observed: list[Entry], portion: int) -> None:
    sieve = Sieve(STATIC, {item.key: hash(item) for item in observed})
    for first in range(0, len(TUNNELS), portion):
        sieve.add(TUNNELS[first : first + portion])
    sieved = plan(sieve.static, sieve.tunnels, [item for item in observed if item.key in sieve.entries])
    whole = plan(STATIC, TUNNELS, observed)
    assert sieved.lost == whole.lost
    assert set(sieved.updates) == set(whole.updates)


def test_the_sieve_drops_entries_that_are_as_desired() -> None:
    sieve = Sieve(STATIC, {item.key: hash(item) for item in EVERYTHING})
    sieve.add(TUNNELS)
    assert (sieve.static, sieve.tunnels, sieve.entries) == ([], [], {})


def test_an_sa_that_is_another_one_is_lost() -> None:
    observed = [
        entry("sad_out", dict(item.match), "seal", dict(item.params) | {"slot": 77})
        if item.table == "sad_out" and item in vital(TUNNELS[1])
        else item
        for item in EVERYTHING
    ]
    assert plan(STATIC, TUNNELS, observed).lost == (TUNNELS[1],)


def test_a_moved_peers_sa_is_modified_and_keeps_its_key() -> None:
    there = tunnel(0, drains=True)
    observed = [replace(item, wrapped_key=b"w") if item.table == "sad_out" else item for item in vital(there)]
    moved = tunnel(0, peer="203.0.113.99")
    todo = plan([], [moved], observed)
    assert todo.lost == ()
    (update,) = todo.updates
    assert (update.kind, update.entry.table, update.entry.wrapped_key) == (Kind.MODIFY, "sad_out", b"w")
    assert update.entry in vital(moved)


def test_an_sa_under_another_tag_is_another_sa() -> None:
    path = Path(
        UUID, SITE.address, SITE.address, "10.99.0.1", WIKI, "203.0.113.10", 4500, Endpoint(1), Limits()
    )
    old, new = (pair_entries(path, Pair(1, numbers(1), numbers(2), Tag(tag))) for tag in (7, 8))
    assert plan([], [DesiredTunnel.of(UUID, 1, new)], old).lost != ()


def test_a_modified_sad_entry_carries_its_key() -> None:
    """An SAD entry that is written without its key would be one with a key of zeros."""
    path = Path(
        UUID, SITE.address, SITE.address, "10.99.0.1", WIKI, "203.0.113.10", 4500, Endpoint(1), Limits()
    )
    pair = Pair(1, numbers(1), numbers(2), Tag(7))
    old = pair_entries(path, pair, WrappedKeys(b"in", b"out"))
    wider = pair_entries(replace(path, soft=Limits(5)), pair)
    updates = plan([], [DesiredTunnel.of(UUID, 1, wider)], old).updates
    assert [update.entry.wrapped_key for update in updates] == [b"in", b"out"]


def test_the_keys_that_are_looked_for_are_those_of_the_sas() -> None:
    path = Path(
        UUID, SITE.address, SITE.address, "10.99.0.1", WIKI, "203.0.113.10", 4500, Endpoint(1), Limits()
    )
    pair = Pair(1, numbers(1), numbers(2), Tag(7))
    of_sas = [item.key for item in pair_entries(path, pair) if item.table in {"sad_in", "sad_out"}]
    assert list(sa_keys(path, pair)) == of_sas


def test_policies_are_deleted_before_what_they_name() -> None:
    tables = [update.entry.table for update in plan(STATIC, [], EVERYTHING).updates]
    order = [
        "spd_out",
        "sad_out",
        "spd_in",
        "sad_in",
        "port_role",
        "own_address",
        "icmp_source",
        "route",
        "nexthop",
    ]
    assert [order.index(table) for table in tables] == sorted(order.index(table) for table in tables)


def test_wrapped_keys_are_not_compared_nor_shown() -> None:
    with_key = entry("sad_out", {"sa_id": 1}, "seal", wrapped_key=b"w" * 48)
    assert with_key == entry("sad_out", {"sa_id": 1}, "seal")
    assert "wwww" not in repr(with_key)


def test_routes_to_inner_networks_never_use_the_wan() -> None:
    routes = {
        dict(item.match)["dst"]: dict(item.params)["nexthop_id"] for item in STATIC if item.table == "route"
    }
    hops = {dict(item.match)["id"]: dict(item.params)["port"] for item in STATIC if item.table == "nexthop"}
    everywhere = mapped.prefix("0.0.0.0/0")
    assert hops[routes.pop(everywhere)] == 1
    assert len(routes) == 3
    assert {hops.get(hop) for hop in routes.values()} == {2, None}
