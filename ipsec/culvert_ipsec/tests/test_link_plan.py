"""Steps from the observed to the desired link, without a gap through which a packet could leak."""

from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest
from culvert_ipsec import (
    ClosedTunnel,
    DatapathError,
    DatapathState,
    InboundSa,
    OnLink,
    OutboundSa,
    TunnelState,
)
from culvert_ipsec.link_plan import (
    MAIN_TABLE,
    ROUTE_TABLE,
    AddAddress,
    AddOnLink,
    AddRule,
    AddWall,
    Link,
    OnLinkRoute,
    RemoveAddress,
    RemoveOnLink,
    RemoveRoute,
    RemoveWall,
    ReplaceRoute,
    SetLink,
    Step,
    Wall,
    plan_link,
    steps,
)
from hypothesis import given
from hypothesis import strategies as st

NEW = Link(1500, False, frozenset(), {}, frozenset())
A, B = ip_address("10.99.0.2"), ip_address("10.99.0.3")
SITE, HOST = ip_network("10.20.0.0/16"), ip_network("10.20.0.10/32")


def state(*prefixes: str, inner: str = str(A), outer: str = "198.51.100.2", mtu: int = 1438) -> DatapathState:
    tunnels = (TunnelState("t1", inner, prefixes, outer),) if prefixes else ()
    return DatapathState("tun0", 4500, mtu, blocked=frozenset({str(SITE)}), tunnels=tunnels)


def test_a_new_tunnel_has_its_address_before_its_routes() -> None:
    assert list(steps(NEW, plan_link(state(str(HOST))))) == [
        SetLink(1438),
        AddAddress(A),
        AddWall(Wall(SITE, MAIN_TABLE)),
        AddWall(Wall(SITE, ROUTE_TABLE)),
        AddRule(4),
        ReplaceRoute(SITE, None),
        ReplaceRoute(HOST, A),
    ]


def test_each_family_leaves_from_its_own_address() -> None:
    six, net = ip_address("2001:db8:99::2"), ip_network("2001:db8:20::/64")
    both = TunnelState("t1", str(A), (str(HOST), str(net)), "198.51.100.2", inner_address6=str(six))
    link = plan_link(DatapathState("tun0", 4500, 1438, tunnels=(both,)))
    assert (link.addresses, link.routes, link.rules) == ({A, six}, {HOST: A, net: six}, {4, 6})
    without = link.of({4})
    assert (without.addresses, without.routes, without.rules) == ({A}, {HOST: A}, {4})
    assert link.of({4, 6}) == link


def test_a_tunnel_over_a_narrow_path_narrows_no_other_one() -> None:
    wide = TunnelState("t1", str(A), (str(HOST),), "198.51.100.2", mtu=1438)
    narrow = TunnelState("t2", str(A), ("10.20.0.11/32",), "198.51.100.3", mtu=1338)
    link = plan_link(DatapathState("tun0", 4500, 1438, tunnels=(wide, narrow)))
    assert (link.mtu, link.mtus) == (1438, {ip_network("10.20.0.11/32"): 1338})
    after = plan_link(DatapathState("tun0", 4500, 1438, tunnels=(wide, replace(narrow, mtu=1438))))
    assert list(steps(link, after)) == [ReplaceRoute(ip_network("10.20.0.11/32"), A)]
    assert list(steps(after, link)) == [ReplaceRoute(ip_network("10.20.0.11/32"), A, 1338)]


def test_ipv6_keeps_the_mtu_that_it_needs_beside_ipv4_that_has_less() -> None:
    six, net = ip_address("2001:db8:99::2"), ip_network("2001:db8:20::/64")
    both = TunnelState("t1", str(A), (str(HOST), str(net)), "198.51.100.2", inner_address6=str(six), mtu=1218)
    link = plan_link(DatapathState("tun0", 4500, 1218, tunnels=(both,)))
    assert (link.mtu, link.mtus) == (1280, {HOST: 1218})
    assert (link.of({4}).mtus, link.of({6}).mtus) == ({HOST: 1218}, {})


def test_a_tunnel_to_a_blocked_prefix_takes_its_route() -> None:
    before, after = plan_link(state()), plan_link(state(str(SITE)))
    assert list(steps(before, after)) == [AddAddress(A), ReplaceRoute(SITE, A)]
    assert list(steps(after, before)) == [ReplaceRoute(SITE, None), RemoveAddress(A)]


def test_another_address_replaces_routes_before_the_old_one_goes() -> None:
    before, after = plan_link(state(str(HOST))), plan_link(state(str(HOST), inner=str(B)))
    assert list(steps(before, after)) == [AddAddress(B), ReplaceRoute(HOST, B), RemoveAddress(A)]


def test_a_closed_tunnel_keeps_its_address_as_blocked_packets_source() -> None:
    closed = replace(state(), closed=(ClosedTunnel((str(A),), (str(HOST),)),))
    assert list(steps(plan_link(state(str(HOST))), plan_link(closed))) == []
    assert plan_link(closed).routes == {SITE: None, HOST: A}
    # Packets outside of blocked prefixes follow other routes.
    assert plan_link(replace(closed, blocked=frozenset())).routes == {}


def test_a_kept_address_yields_to_a_network_and_its_prefix_stays_blocked() -> None:
    both = replace(state(str(HOST), inner=str(B)), closed=(ClosedTunnel((str(A),), ("10.20.7.0/24",)),))
    link = plan_link(both)
    assert (link.addresses, link.kept) == ({A, B}, {A})
    spared = link.without_kept_in([ip_network(f"{A}/24", strict=False)])
    assert (spared.addresses, spared.kept) == ({B}, frozenset())
    # An open tunnel's own address is not given up: the tunnel would carry nothing.
    assert spared.routes == {SITE: None, ip_network("10.20.7.0/24"): None, HOST: B}


def test_an_open_tunnel_over_a_closed_ones_prefix_keeps_its_own_source() -> None:
    both = replace(state(str(SITE), inner=str(B)), closed=(ClosedTunnel((str(A),), (str(HOST),)),))
    assert plan_link(both).routes == {SITE: B}
    assert plan_link(both).addresses == {A, B}


def test_an_own_network_is_reached_directly_unless_it_is_blocked_itself() -> None:
    bridge = OnLink("10.20.9.0/24", 7, "10.20.9.1")
    own = OnLinkRoute(ip_network("10.20.9.0/24"), 7, ip_address("10.20.9.1"))
    before, after = plan_link(state()), plan_link(replace(state(), on_link=(bridge,)))
    assert list(steps(before, after)) == [AddOnLink(own)]
    assert list(steps(after, before)) == [RemoveOnLink(own)]
    # No moment has both routes, or neither.
    tunnel = plan_link(replace(state("10.20.9.0/24"), on_link=(bridge,)))
    assert list(steps(after, tunnel)) == [AddAddress(A), RemoveOnLink(own), ReplaceRoute(own.prefix, A)]
    assert list(steps(tunnel, after)) == [RemoveRoute(own.prefix), AddOnLink(own), RemoveAddress(A)]
    blocked = replace(state(), blocked=frozenset({"10.20.9.0/24"}), on_link=(bridge,))
    assert plan_link(blocked).on_link == frozenset()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (state(str(HOST), outer="10.20.0.1"), "lies in a prefix that goes through the tunnel"),
        (state("10.20.0.1/16"), "not an address prefix"),
        (state(str(HOST), inner="alice"), "not an IP address"),
        (state(mtu=9001), "MTU of 9001"),
        (state(mtu=100), "MTU of 100"),
    ],
)
def test_a_state_that_cannot_be_is_refused(wrong: DatapathState, why: str) -> None:
    with pytest.raises(DatapathError, match=why):
        plan_link(wrong)


def test_no_key_in_a_repr() -> None:
    key = b"\x42" * 36
    sas = TunnelState("t1", str(A), (), "198.51.100.2", 4500, (InboundSa(256, key),), OutboundSa(257, key))
    assert "42" not in repr(sas).replace("4500", "")
    assert "BBB" not in repr(sas)


def apply(link: Link, step: Step) -> Link:
    """The kernel's part; it also removes the routes of an address that goes."""
    on_link, mtus = set(link.on_link), dict(link.mtus)
    mtu, up, addresses, routes, rules, walls = (
        link.mtu,
        link.up,
        set(link.addresses),
        dict(link.routes),
        set(link.rules),
        set(link.walls),
    )
    match step:
        case SetLink(new):
            mtu, up = new, True
        case AddAddress(address):
            addresses.add(address)
        case RemoveAddress(address):
            addresses.remove(address)
            routes = {prefix: source for prefix, source in routes.items() if source != address}
        case AddRule(version):
            rules.add(version)
        case ReplaceRoute(prefix, source, new):
            assert source is None or source in addresses
            routes[prefix] = source
            mtus.pop(prefix, None)
            if new is not None:
                mtus[prefix] = new
        case RemoveRoute(prefix):
            del routes[prefix]
        case AddWall(wall):
            walls.add(wall)
        case RemoveWall(wall):
            walls.remove(wall)
        case AddOnLink(route):
            # A table has one route to a prefix.
            assert route.prefix not in routes
            on_link.add(route)
        case RemoveOnLink(route):
            on_link.remove(route)
    assert not routes.keys() & {it.prefix for it in on_link}
    return Link(
        mtu,
        up,
        frozenset(addresses),
        routes,
        frozenset(rules),
        frozenset(walls),
        on_link=frozenset(on_link),
        mtus={prefix: it for prefix, it in mtus.items() if prefix in routes},
    )


prefixes = st.sampled_from(["10.20.0.0/16", "10.20.0.10/32", "10.30.0.0/24", "fd00::/8"])


def link_of(
    tunnels: list[tuple[str, str]],
    closed: list[tuple[str, str]],
    blocked: set[str],
    mtu: int,
    on_link: set[tuple[str, int]],
) -> Link:
    states = [TunnelState(str(at), inner, (to,), "198.51.100.2") for at, (inner, to) in enumerate(tunnels)]
    resting = tuple(ClosedTunnel((inner,), (to,)) for inner, to in closed)
    own = tuple(OnLink(prefix, device) for prefix, device in dict(sorted(on_link)).items())
    return plan_link(
        DatapathState("tun0", 4500, mtu, frozenset(), frozenset(blocked), tuple(states), resting, own)
    )


links = st.builds(
    link_of,
    st.lists(st.tuples(st.sampled_from([str(A), str(B)]), prefixes), max_size=3),
    st.lists(st.tuples(st.sampled_from([str(A), str(B)]), prefixes), max_size=3),
    st.sets(prefixes),
    st.sampled_from([1400, 1438]),
    st.sets(st.tuples(prefixes, st.sampled_from([7, 8]))),
)


@given(st.one_of(st.just(NEW), links), links)
def test_steps_lead_between_any_states_and_never_unroute_kept_prefixes(before: Link, after: Link) -> None:
    link = before
    for step in steps(before, after):
        link = apply(link, step)
        assert before.routes.keys() & after.routes.keys() <= link.routes.keys()
        assert before.walls & after.walls <= link.walls
    assert link.routes == dict(after.routes)
    assert link.on_link == after.on_link
    assert (link.mtu, link.up, link.addresses) == (after.mtu, True, after.addresses)
    assert list(steps(link, after)) == []
