"""An organisation cannot claim another one's names and addresses, and may claim its own again."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network, ip_address, ip_network

import pytest
from culvert_client.core.claims import Surroundings
from culvert_client.core.grant import Address, Sas, Spi
from culvert_client.core.neighbours import (
    Beside,
    Neighbour,
    check_pair,
    check_profile,
    check_tunnel,
    without_taken_addresses,
)
from culvert_client.core.profile import Gateway, Profile, Resource
from culvert_proto import CulvertError, Reason
from hypothesis import given
from hypothesis import strategies as st

from .granted import PROFILE, pair, tunnel

CONTROLLER = ip_address("192.0.2.10")
THERE = tunnel(prefix="10.21.0.10/32")
FIRST = Beside(
    "beta",
    [Neighbour("acme", PROFILE, (Sas(THERE, (pair().inbound,), pair().outbound),), frozenset({CONTROLLER}))],
)
MINE = Profile(
    user="alice",
    managed_zones=("beta.example",),
    protected_prefixes=(ip_network("10.30.0.0/16"),),
    gateways=(Gateway("gw-berlin", "203.0.113.2", online=True),),
    resources=(Resource("wiki", "wiki.beta.example", ("10.30.0.10",)),),
)
MY_TUNNEL = replace(
    tunnel("t1", "wiki.beta.example", prefix="10.30.0.10/32"),
    inner_address=ip_address("10.98.0.2"),
    outer_address=ip_address("203.0.113.2"),
)


def collides(error: CulvertError, what: str) -> None:
    assert error.reason is Reason.ORGANISATIONS_COLLIDE
    assert error.fields == {"what": what, "organisation": "beta", "other": "acme"}
    assert "culvert leave beta" in error.shell


def test_claims_that_do_not_overlap_are_accepted() -> None:
    check_profile(MINE, Profile(), FIRST)
    check_tunnel(MY_TUNNEL, FIRST)
    own = pair()
    check_pair(replace(own, inbound=replace(own.inbound, spi=Spi(7000))), FIRST)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"managed_zones": ("corp.example",)}, "The zone corp.example"),
        ({"managed_zones": ("a.corp.example",)}, "The zone a.corp.example"),
        ({"managed_zones": ("example",)}, "The zone example"),
        ({"resources": (Resource("x", "*.example", ()),)}, "The name *.example"),
        ({"resources": (Resource("x", "*.a.corp.example", ()),)}, "The name *.a.corp.example"),
        ({"resources": (Resource("x", "x.corp.example", ()),)}, "The name x.corp.example"),
        ({"protected_prefixes": (ip_network("10.20.7.0/24"),)}, "The network 10.20.7.0/24"),
        ({"protected_prefixes": (ip_network("10.0.0.0/8"),)}, "The network 10.0.0.0/8"),
        # A tunnel's prefix, its address here, its gateway, the controller.
        ({"protected_prefixes": (ip_network("10.21.0.0/24"),)}, "The network 10.21.0.0/24"),
        ({"protected_prefixes": (ip_network("10.99.0.0/24"),)}, "The network 10.99.0.0/24"),
        ({"protected_prefixes": (ip_network("198.51.100.0/24"),)}, "The network 198.51.100.0/24"),
        ({"protected_prefixes": (ip_network("192.0.2.10/32"),)}, "The network 192.0.2.10/32"),
        ({"gateways": (Gateway("g", "198.51.100.2", online=True),)}, "The gateway 198.51.100.2"),
        ({"gateways": (Gateway("g", "10.20.3.4", online=True),)}, "The gateway 10.20.3.4"),
    ],
)
def test_a_profile_cannot_claim_another_organisations_values(change: dict[str, object], what: str) -> None:
    with pytest.raises(CulvertError) as refused:
        check_profile(replace(MINE, **change), Profile(), FIRST)  # pyright: ignore[reportArgumentType]
    collides(refused.value, what)


def test_a_zone_cannot_take_a_name_outside_of_the_others_zones() -> None:
    loose = replace(PROFILE, resources=(Resource("wiki", "wiki.beta.example", ()),))
    with pytest.raises(CulvertError) as refused:
        check_profile(MINE, Profile(), Beside("beta", [Neighbour("acme", loose)]))
    collides(refused.value, "The zone beta.example")


def test_an_agreed_prefix_survives_another_controllers_move_into_it() -> None:
    """A controller that goes to an address in the other's prefix does not undo what the other has."""
    moved = Neighbour("acme", PROFILE, controller=frozenset({ip_address("10.30.0.99")}))
    check_profile(MINE, MINE, Beside("beta", [moved]))
    with pytest.raises(CulvertError):
        check_profile(MINE, Profile(), Beside("beta", [moved]))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"remote_prefixes": (ip_network("10.20.0.10/32"),)}, "The network 10.20.0.10/32"),
        ({"remote_prefixes": (ip_network("192.0.2.0/24"),)}, "The network 192.0.2.0/24"),
        # The gateway's address counts on any port.
        ({"outer_address": ip_address("198.51.100.2"), "outer_port": 4501}, "The gateway 198.51.100.2"),
        ({"inner_address": ip_address("10.99.0.2")}, "The address 10.99.0.2"),
        ({"inner_address": ip_address("10.20.0.2")}, "The address 10.20.0.2"),
    ],
)
def test_a_tunnel_takes_nothing_of_another(change: dict[str, object], what: str) -> None:
    with pytest.raises(CulvertError) as refused:
        check_tunnel(replace(MY_TUNNEL, **change), FIRST)  # pyright: ignore[reportArgumentType]
    collides(refused.value, what)


@pytest.mark.parametrize(
    "taken", ["192.0.2.10", "198.51.100.2", "10.99.0.2", "10.1.1.1", "10.1.1.2", "203.0.114.7"]
)
def test_no_address_of_a_host_that_is_needed_is_taken_before_a_tunnel(taken: str) -> None:
    """Another's controller, gateway and tunnel; the own controller and a name server; a host of the Internet."""
    here = Surroundings(
        controller=frozenset({ip_address("10.1.1.1")}), name_servers=frozenset({ip_address("10.1.1.2")})
    )
    inner = tuple(map(ip_address, (taken, "fd99::2")))
    gateway = Gateway("g", "192.0.2.99", online=True, inner_addresses=inner)
    [left] = without_taken_addresses(replace(MINE, gateways=(gateway,)), here, FIRST).gateways
    assert left.inner_addresses == inner[1:]


def test_an_spi_belongs_to_a_single_organisation() -> None:
    with pytest.raises(CulvertError) as refused:
        check_pair(pair(), FIRST)
    collides(refused.value, f"The SA number {pair().inbound.spi}")


def network(address: int, length: int) -> IPv4Network:
    return IPv4Network((address, length), strict=False)


networks = st.builds(network, st.integers(10 << 24, (10 << 24) + 255), st.integers(24, 32))


@given(mine=networks, theirs=st.lists(networks, max_size=8))
def test_no_overlap_is_missed_and_none_is_invented(mine: IPv4Network, theirs: list[IPv4Network]) -> None:
    other = Neighbour("acme", Profile(protected_prefixes=tuple(theirs)))
    overlap = any(it.overlaps(mine) for it in theirs)
    try:
        check_profile(Profile(protected_prefixes=(mine,)), Profile(), Beside("beta", [other]))
        refused = False
    except CulvertError:
        refused = True
    assert refused == overlap


def test_ipv6_claims_do_not_collide_with_ipv4() -> None:
    addresses: list[Address] = [ip_address("fd00::1")]
    other = Neighbour("acme", Profile(), controller=frozenset(addresses))
    claim = Profile(protected_prefixes=(ip_network("fd00::/16"),))
    check_profile(Profile(protected_prefixes=(ip_network("10.0.0.0/8"),)), Profile(), Beside("b", [other]))
    with pytest.raises(CulvertError):
        check_profile(claim, Profile(), Beside("b", [other]))
