"""The source addresses of packets before there is a tunnel."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network, ip_address, ip_network

import pytest
from culvert_client.core.client_events import Apply, GatewaySelected, Left, PauseRequested, ProfileReceived
from culvert_client.core.grant import Network, Source
from culvert_client.core.profile import Gateway, Profile, Resource
from culvert_client.core.source_addresses import sources
from hypothesis import given
from hypothesis import strategies as st

from .granted import WIKI_ADDRESS
from .world import World

SITE, SITE6 = ip_network("10.20.0.0/16"), ip_network("fd20::/64")
BERLIN, PARIS = (ip_address("10.99.0.2"), ip_address("fd99::2")), (ip_address("10.98.0.7"),)


def gateway(name: str, number: int, inner: tuple[object, ...]) -> Gateway:
    return Gateway(name, f"198.51.100.{number}", online=True, inner_addresses=inner)  # pyright: ignore[reportArgumentType]


def resource(number: int, *gateways: str) -> Resource:
    return Resource(f"r{number}", f"r{number}.corp.example", (f"10.20.0.{number}",), gateways)


PROFILE = Profile(
    managed_zones=("corp.example",),
    protected_prefixes=(SITE, SITE6),
    gateways=(gateway("berlin", 2, BERLIN), gateway("paris", 3, PARIS)),
    resources=(resource(1, "berlin", "paris"), resource(2, "berlin"), resource(3, "paris", "berlin")),
)


def found(profile: Profile, pinned: str = "") -> dict[Network, tuple[object, ...]]:
    return {prefix: it.addresses for it in sources(profile, pinned) for prefix in it.prefixes}


def test_a_prefix_has_its_most_frequent_source_address() -> None:
    assert found(PROFILE) == {SITE: BERLIN, SITE6: BERLIN, ip_network("10.20.0.3/32"): PARIS}


def test_a_pinned_gateway_counts_where_it_serves() -> None:
    assert found(PROFILE, "paris") == {SITE: PARIS, SITE6: PARIS, ip_network("10.20.0.2/32"): BERLIN}


def test_a_gateway_without_inner_addresses_gives_no_source() -> None:
    berlin, paris = PROFILE.gateways
    unknown = replace(berlin, inner_addresses=())
    assert found(replace(PROFILE, gateways=(unknown, paris))) == {SITE: PARIS, SITE6: PARIS}
    assert found(replace(PROFILE, gateways=(unknown,))) == {}
    assert found(replace(PROFILE, resources=())) == {}


def site(raw: int, length: int) -> IPv4Network:
    return IPv4Network(((10 << 24) + raw, length), strict=False)


sites = st.builds(site, st.integers(0, (1 << 24) - 1), st.integers(8, 32))


@given(
    st.lists(sites, max_size=4),
    st.lists(st.tuples(sites, st.sampled_from(["berlin", "paris", "rome"])), max_size=6),
)
def test_every_resource_in_a_protected_prefix_has_its_gateways_address(
    protected: list[IPv4Network], served: list[tuple[IPv4Network, str]]
) -> None:
    by_prefix = dict(served)
    profile = replace(
        PROFILE,
        protected_prefixes=tuple(protected),
        resources=tuple(Resource("r", "r", (str(it),), (name,)) for it, name in by_prefix.items()),
    )
    leads = found(profile)
    known = {"berlin": BERLIN, "paris": PARIS}
    for prefix, name in by_prefix.items():
        around = [it for it in leads if prefix.subnet_of(it)]  # pyright: ignore[reportArgumentType]
        inside = any(prefix.subnet_of(it) for it in protected)
        if inside and name in known:
            assert leads[max(around, key=lambda it: it.prefixlen)] == known[name]


def test_the_datapath_has_the_address_as_long_as_the_profile_has_it() -> None:
    world = World(PROFILE)
    known = (Source((SITE, SITE6), BERLIN), Source((ip_network("10.20.0.3/32"),), PARIS))

    def told(event: object) -> tuple[Source, ...]:
        world.post(event)  # pyright: ignore[reportArgumentType]
        return world.take(Apply)[-1].desired.sources

    assert told(GatewaySelected("paris"))[0].addresses == PARIS
    assert told(GatewaySelected("")) == known
    moved = gateway("berlin", 2, (ip_address("10.97.0.5"),))
    profile = replace(PROFILE, gateways=(moved, *PROFILE.gateways[1:]))
    assert told(ProfileReceived(profile))[0].addresses == moved.inner_addresses
    # A pause closes tunnels, and the sockets of programs stay.
    world.settle_datapath()
    world.post(PauseRequested(1 << 40))
    assert world.take(Apply) == []
    assert told(Left()) == ()


@pytest.mark.parametrize(("address", "stays"), [("10.99.0.2", True), ("10.97.0.5", False)])
def test_a_closed_tunnels_address_stays_until_the_controller_changes_it(address: str, stays: bool) -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    profile = world.client.profile
    there = replace(profile.gateways[0], inner_addresses=(ip_address(address), ip_address("fd99::2")))
    world.post(ProfileReceived(replace(profile, gateways=(there,))))
    world.settle_datapath()
    world.post(PauseRequested(1 << 40))
    assert (world.take(Apply)[-1].desired.closed != ()) is stays
