"""Several organisations as one: the owner of a name, one datapath, one status."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_network

from culvert_client.core.client_events import Desired, Measured
from culvert_client.core.grant import Sas, Source, TunnelId, Usage
from culvert_client.core.merged_status import merge
from culvert_client.core.profile import Profile, Resource
from culvert_client.core.status import redact
from culvert_client.daemon.datapath_owner import DatapathUnion, split_by_organisation
from culvert_client.daemon.router import (
    find_by_address,
    find_by_name,
    find_by_resource,
    merge_profiles,
    owner_of,
)
from culvert_proto import CulvertError, Reason, local_pb2

from .granted import PROFILE, WIKI, pair, tunnel
from .world import World

BETA = Profile(
    user="bea",
    managed_zones=("beta.example",),
    protected_prefixes=(ip_network("10.30.0.0/16"),),
    resources=(Resource("wiki", "wiki.beta.example", ("10.30.0.10",)),),
)
BOTH = {1: PROFILE, 4: BETA}


def test_a_name_or_address_belongs_to_at_most_one_organisation() -> None:
    assert [find_by_name(BOTH, it) for it in (WIKI, "x.beta.example", "www.example.org")] == [1, 4, None]
    # The organisation with the zone comes before one with a matching wildcard.
    greedy = replace(BETA, resources=(Resource("all", "*.example", ()),))
    assert find_by_name({1: greedy, 4: PROFILE}, WIKI) == 4
    # A single organisation decides itself about names outside of its zones.
    assert find_by_name({4: BETA}, "www.example.org") == 4
    found = [find_by_address(BOTH, ip_address(it)) for it in ("10.20.0.1", "10.30.0.1", "192.0.2.1")]
    assert found == [1, 4, None]
    # Both have a resource "wiki".
    assert [find_by_resource(BOTH, it) for it in ("wiki", "wiki.beta.example", "nothing")] == [
        [1, 4],
        [4],
        [],
    ]


def test_merged_profiles_manage_and_protect_for_all() -> None:
    together = merge_profiles(BOTH.values())
    assert together.manages(WIKI)
    assert together.manages("new.beta.example")
    assert together.protects(ip_address("10.20.0.1"))
    assert together.protects(ip_address("10.30.0.1"))
    assert merge_profiles([PROFILE]) is PROFILE


SAS = Sas(tunnel(), (pair().inbound,), pair().outbound)
FIRST = Desired(frozenset({ip_network("10.20.0.0/16")}), (SAS,), (tunnel("closed"),))
SECOND = Desired(frozenset({ip_network("10.30.0.0/16")}), (replace(SAS, inbound=()),))
UNION = DatapathUnion().with_desired(1, FIRST).with_desired(4, SECOND)


def test_the_same_tunnel_id_of_two_is_two_tunnels() -> None:
    ids = [it.tunnel.tunnel_id for it in UNION.whole.tunnels]
    assert len(set(ids)) == 2
    assert [owner_of(it) for it in ids] == [(1, "t1"), (4, "t1")]
    # No order of events changes what a tunnel is called, or its keys would begin anew.
    assert UNION.with_desired(1, Desired()).with_desired(1, FIRST).whole == UNION.whole


def test_the_datapath_blocks_for_all_until_one_leaves() -> None:
    assert UNION.whole.blocked == FIRST.blocked | SECOND.blocked
    assert UNION.without(1).whole.blocked == SECOND.blocked
    assert (UNION.whole.closed, UNION.without(1).whole.closed) == (FIRST.closed, ())


def test_a_source_in_another_organisations_network_is_left_out() -> None:
    """It would hide a host there."""
    inner = tuple(map(ip_address, ("10.30.0.2", "10.99.0.2")))
    sourced = replace(FIRST, sources=(Source((ip_network("10.20.0.0/16"),), inner),))
    union = UNION.with_desired(1, sourced)
    assert union.whole.sources == (Source((ip_network("10.20.0.0/16"),), inner[1:]),)
    assert union.without(4).whole.sources == sourced.sources


def test_measurements_go_to_the_organisation_of_their_tunnel() -> None:
    first, second = (it.tunnel.tunnel_id for it in UNION.whole.tunnels)
    usage, drops = Usage(1), {"icv": 2}
    counted = Measured({first: usage, second: Usage(5)}, {first: drops}, {"icv": 3})
    assert split_by_organisation(counted) == {
        1: Measured({TunnelId("t1"): usage}, {TunnelId("t1"): drops}, {"icv": 3}),
        4: Measured({TunnelId("t1"): Usage(5)}, {}, {"icv": 3}),
    }


def test_with_one_organisation_the_status_is_its_own() -> None:
    status = World().status()
    assert merge([("acme", status)]) is status


def test_a_merged_status_is_ready_while_one_organisation_is() -> None:
    ready = World().status()
    lost = local_pb2.Status(
        state=local_pb2.STATE_OFFLINE,
        user="bea",
        controller="https://beta",
        last_error=CulvertError(Reason.CONTROLLER_UNREACHABLE, controller="https://beta").to_proto(),
        resources=[local_pb2.Resource(name="wiki", fqdn="wiki.beta.example")],
    )
    ready.tunnels.add(fqdn=WIKI)
    ready.clicks.add(fqdn=WIKI, started_us=1)
    lost.clicks.extend(local_pb2.Click(fqdn="wiki.beta.example", started_us=it) for it in range(50, 20, -1))
    status = merge([("beta", lost), ("acme", ready)])
    assert [it.fqdn for it in status.clicks] == [*["wiki.beta.example"] * 20, WIKI]
    assert (status.state, status.user, status.code_valid_until) == (
        local_pb2.STATE_READY,
        "alice",
        PROFILE.code_valid_until,
    )
    assert [(it.fqdn, it.organisation) for it in status.resources] == [
        ("wiki.beta.example", "beta"),
        (WIKI, "acme"),
    ]
    assert status.last_error.reason == Reason.CONTROLLER_UNREACHABLE
    assert [(it.name, it.state, it.user) for it in status.organisations] == [
        ("beta", local_pb2.STATE_OFFLINE, "bea"),
        ("acme", local_pb2.STATE_READY, "alice"),
    ]


def test_a_merged_status_hides_another_users_organisation() -> None:
    theirs, mine = World().status(), World().status()
    status = merge([("acme", redact(theirs)), ("beta", mine)])
    assert status.user == "alice"
    assert [it.organisation for it in status.resources] == ["beta"]
    assert [it.user for it in status.organisations] == ["", "alice"]
