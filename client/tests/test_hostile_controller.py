"""A controller that claims what is not its own, or speaks of the unknown: refused, and the host as it was."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path

import dns.rcode
import pytest
from culvert_client.controller.messages import event_from, profile_from, tunnel_from
from culvert_client.controller.zones import MOST_ZONES, check_zones
from culvert_client.core.claims import Surroundings, check_collisions, check_public_space
from culvert_client.moves import surroundings
from culvert_client.platform.interfaces import Uplinks
from culvert_proto import CulvertError, Reason, agent_pb2, error_pb2, local_pb2
from culvert_proto.protected_prefix import NUMBER_MAX
from hypothesis import given
from hypothesis import strategies as st

from .controller import CODE
from .running import PLATFORM, Running
from .test_daemon import Lab, refused, why

HERE = Surroundings(
    frozenset({ip_network("192.168.1.0/24"), ip_network("2001:db8:1::/64")}),
    frozenset({ip_address("203.0.113.10")}),
    frozenset({ip_address("192.0.2.53")}),
)
WIKI = local_pb2.OpenTunnelRequest(name="wiki")


@pytest.mark.parametrize(
    "prefix",
    ["0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "8.0.0.0/7", "127.0.0.0/8", "127.0.0.53/32", "169.254.0.0/16",
     "224.0.0.0/24", "::/0", "2000::/3", "8000::/1", "fe80::/64", "ff02::/16", "::1/128",
     "64:ff9b::/96", "64:ff9b:1::/64"],
)  # fmt: skip
def test_the_internet_and_special_prefixes_cannot_be_claimed(prefix: str) -> None:
    with pytest.raises(CulvertError) as profile:
        profile_from(agent_pb2.Profile(protected_prefixes=["10.20.0.0/16", prefix]))
    with pytest.raises(CulvertError) as tunnel:
        tunnel_from(a_tunnel(remote_prefixes=[prefix]))
    for caught in (profile, tunnel):
        assert caught.value.reason is Reason.CONTROLLER_INVALID
        assert prefix in caught.value.message


@pytest.mark.parametrize("prefix", ["10.0.0.0/8", "172.16.0.0/12", "fd00::/8", "fc00::/7", "2001:db8::/32"])
def test_private_networks_may_be_claimed_whole_and_overlap(prefix: str) -> None:
    inside = str(next(ip_network(prefix).subnets(new_prefix=32)))
    claimed = profile_from(agent_pb2.Profile(protected_prefixes=[prefix, inside, prefix])).protected_prefixes
    assert set(map(str, claimed)) == {prefix, inside}


@pytest.mark.parametrize(
    "profile",
    [
        agent_pb2.Profile(protected_prefixes=[f"10.{n >> 8}.{n & 255}.0/24" for n in range(NUMBER_MAX + 1)]),
        agent_pb2.Profile(protected_prefixes=["10.20.0.1/16"]),
        agent_pb2.Profile(managed_zones=["."]),
        agent_pb2.Profile(managed_zones=["corp.example", ""]),
        agent_pb2.Profile(
            protected_prefixes=["198.51.100.0/24"],
            gateways=[agent_pb2.Gateway(name="gw", address="198.51.100.2")],
        ),
        agent_pb2.Profile(gateways=[agent_pb2.Gateway(name="gw", address="nobody")]),
        agent_pb2.Profile(gateways=[agent_pb2.Gateway(name="gw", address="127.0.0.1")]),
        agent_pb2.Profile(gateways=[agent_pb2.Gateway(name="gw", address="fe80::1")]),
        agent_pb2.Profile(
            gateways=[agent_pb2.Gateway(name="gw", address="198.51.100.2", inner_address="127.0.0.1")]
        ),
        agent_pb2.Profile(
            gateways=[agent_pb2.Gateway(name="gw", address="198.51.100.2", inner_address6="x")]
        ),
        agent_pb2.Profile(resources=[agent_pb2.Resource(addresses=["10.20.0.10", "x"])]),
    ],
    ids=[
        "many",
        "host bits",
        "root",
        "empty zone",
        "gateway inside",
        "gateway",
        "gateway here",
        "gateway on the link",
        "inner address here",
        "inner address",
        "address",
    ],
)
def test_an_invalid_profile_is_refused(profile: agent_pb2.Profile) -> None:
    with pytest.raises(CulvertError) as caught:
        profile_from(profile)
    assert caught.value.reason is Reason.CONTROLLER_INVALID


@pytest.mark.parametrize(
    "change",
    [
        {"inner_address": "127.0.0.1"},
        {"inner_address6": "ff02::1"},
        {"outer_address": "0.0.0.1"},
        {"outer_address": "224.0.0.1"},
        {"outer_port": 0},
        {"inner_mtu": 68},
        {"inner_mtu": 1 << 20},
        {"remote_prefixes": ["10.20.0.10/33"]},
    ],
    ids=str,
)
def test_a_tunnel_to_nowhere_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(CulvertError) as caught:
        tunnel_from(a_tunnel(**change))
    assert caught.value.reason is Reason.CONTROLLER_INVALID


def test_a_probe_is_answered_by_a_gateway_beside_its_kernel() -> None:
    probe = agent_pb2.Probe(target="10.20.0.10", source="169.254.77.2")
    tunnel_from(a_tunnel(probe=probe))
    with pytest.raises(CulvertError):
        tunnel_from(a_tunnel(probe=agent_pb2.Probe(target="10.20.0.10", source="224.0.0.1")))


@pytest.mark.parametrize(
    "prefix",
    [
        "192.168.0.0/16",
        "192.168.1.0/25",
        "192.168.1.7/32",
        "2001:db8::/32",
        "203.0.113.10/32",
        "192.0.2.0/24",
    ],
)
def test_a_tunnel_cannot_take_this_computers_own_networks(prefix: str) -> None:
    with pytest.raises(CulvertError) as caught:
        tunnel_from(a_tunnel(remote_prefixes=["10.20.0.10/32", prefix]), HERE)
    assert caught.value.reason is Reason.ADDRESS_COLLISION
    assert prefix in caught.value.message
    tunnel_from(a_tunnel(remote_prefixes=["10.20.0.10/32", "192.168.2.0/24"]), HERE)
    if ip_network(prefix).num_addresses == 1:
        with pytest.raises(CulvertError) as given_away:
            tunnel_from(a_tunnel(inner_address=prefix.partition("/")[0]), HERE)
        assert given_away.value.reason is Reason.ADDRESS_COLLISION


@given(st.ip_addresses(v=4), st.integers(8, 32))
def test_an_accepted_prefix_overlaps_no_own_network(address: object, length: int) -> None:
    prefix = ip_network(f"{address}/{length}", strict=False)
    try:
        check_collisions([prefix], HERE)
    except CulvertError:
        return
    assert not any(prefix.overlaps(it) for it in HERE.networks if it.version == 4)  # pyright: ignore[reportArgumentType]
    assert all(it not in prefix for it in HERE.controller)


def test_words_of_a_newer_controller_are_passed_over() -> None:
    assert event_from(agent_pb2.WatchResponse()) is None
    newer = error_pb2.Error(reason=9999, message="Why.", remedy="What to do.")  # pyright: ignore[reportArgumentType]
    lost = event_from(
        agent_pb2.WatchResponse(tunnel_closed=agent_pb2.TunnelClosed(tunnel_id="t1", why=newer))
    )
    assert lost is not None
    assert str(getattr(lost, "error")) == "Why. What to do."  # noqa: B009


async def test_surroundings_has_the_controller_and_own_networks() -> None:
    here = await surroundings(PLATFORM.networks.uplinks, "[2001:db8::10]:8444")
    assert here.controller == {ip_address("2001:db8::10")}
    assert (await surroundings(PLATFORM.networks.uplinks, "127.0.0.1:1")).controller == {
        ip_address("127.0.0.1")
    }
    assert (await surroundings(PLATFORM.networks.uplinks, "nobody.invalid:1")).controller == frozenset()
    for network in here.networks:
        assert not ip_interface(str(network)).is_loopback


async def test_a_daemon_keeps_the_profile_and_reports_why(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        before = blocked(daemon)
        for hostile in ("0.0.0.0/0", "127.0.0.1/32"):
            profile = agent_pb2.Profile()
            profile.CopyFrom(controller.profile)
            profile.protected_prefixes.append(hostile)
            controller.tell(agent_pb2.WatchResponse(profile=profile))
            said = await daemon.until(lambda status, it=hostile: it in status.last_error.message)
            assert said.last_error.reason == Reason.CONTROLLER_INVALID
        assert blocked(daemon) == before == {"10.20.0.0/16"}
        # The good one again, with a tunnel that claims too much.
        controller.tell(agent_pb2.WatchResponse(profile=controller.profile))
        controller.prefixes = ["10.20.0.10/32", "0.0.0.0/1"]
        error = await refused(daemon.local.OpenTunnel(WIKI))
        assert error.reason is Reason.CONTROLLER_INVALID
        assert daemon.datapath.applied[-1].tunnels == ()
        # The client does not use the tunnel, so the gateway does not keep it.
        assert controller.open == {}
        controller.prefixes = ["10.20.0.10/32"]
        assert (await daemon.local.OpenTunnel(WIKI)).tunnel.state == local_pb2.TUNNEL_STATE_UP


# Every /8 of IPv4 that no rule for a single prefix forbids.
MOST_OF_IPV4 = [f"{number}.0.0.0/8" for number in range(1, 224) if number not in (127, 169)]


@pytest.mark.parametrize(
    "claim",
    [
        agent_pb2.Profile(protected_prefixes=MOST_OF_IPV4),
        agent_pb2.Profile(protected_prefixes=[f"{2000 + n}::/16" for n in range(3)]),
        agent_pb2.Profile(managed_zones=["com"]),
        agent_pb2.Profile(managed_zones=[f"z{n}.example" for n in range(MOST_ZONES)]),
        agent_pb2.Profile(resources=[agent_pb2.Resource(name="all", fqdn="*.co.uk")]),
    ],
    ids=["IPv4", "IPv6", "zone", "zones", "wildcard"],
)
async def test_no_controller_takes_the_internet_or_everybodys_names(
    tmp_path: Path, claim: agent_pb2.Profile
) -> None:
    lab = Lab(tmp_path)
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        before = blocked(daemon)
        profile = agent_pb2.Profile()
        profile.CopyFrom(controller.profile)
        profile.MergeFrom(claim)
        controller.tell(agent_pb2.WatchResponse(profile=profile))
        said = await daemon.until(lambda status: status.HasField("last_error"))
        assert said.last_error.reason == Reason.CONTROLLER_INVALID
        assert blocked(daemon) == before == {"10.20.0.0/16"}
        assert "is not a name of the intranet" not in why(await daemon.ask("www.example.org"))


@pytest.mark.parametrize(
    "zone",
    ["com", "co.uk", "github.io", "公司.cn", "xn--55qx5d.cn", "ck", "kawasaki.jp", "in-addr.arpa", "localhost",
     "resolver.arpa", "a..b"],
)  # fmt: skip
def test_a_zone_of_many_owners_is_refused(zone: str) -> None:
    with pytest.raises(CulvertError) as caught:
        check_zones(["corp.example", zone])
    assert caught.value.reason is Reason.CONTROLLER_INVALID
    assert zone in caught.value.message


def test_a_zone_of_one_owner_or_of_the_intranet_may_be_claimed() -> None:
    check_zones(["example.com", "corp.example.co.uk", "me.github.io", "corp", "internal", "lan", "home.arpa"])
    check_zones(["20.10.in-addr.arpa", "beispiel-straße.de", "münchen.de"])


def test_public_space_is_counted_once_over_all_organisations() -> None:
    check_public_space(map(ip_network, ["11.0.0.0/8", "12.0.0.0/8", "12.1.0.0/16", "10.0.0.0/8", "fc00::/7"]))
    with pytest.raises(CulvertError):
        check_public_space(map(ip_network, ["11.0.0.0/8", "12.0.0.0/8", "13.0.0.0/32"]))


async def test_a_network_that_claims_intranet_addresses_unblocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    async with lab.serving(), lab.daemon() as daemon:
        await lab.enroll(daemon)
        assert blocked(daemon) == {"10.20.0.0/16"}
    hostile = Uplinks(addresses=frozenset({(2, ip_interface("10.20.0.66/24"))}))
    be_at(hostile, monkeypatch)
    async with lab.serving(lab.controller.port), lab.daemon() as daemon:
        await daemon.until(lambda status: status.state == local_pb2.STATE_NEEDS_CODE)
        assert blocked(daemon) == {"10.20.0.0/16"}
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        error = await refused(daemon.local.OpenTunnel(WIKI))
        assert error.reason is Reason.ADDRESS_COLLISION
        assert lab.controller.calls[-1] == "close t1 for ADDRESS_COLLISION"
        assert blocked(daemon) == {"10.20.0.0/16"}


async def test_an_enrolment_inside_of_what_is_protected_takes_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This computer's protected addresses stay reachable, with a warning; no intranet name leads there."""
    home = Uplinks(addresses=frozenset({(2, ip_interface("10.20.0.77/25")), (2, ip_interface("fd20::7/64"))}))
    be_at(home, monkeypatch)
    lab = Lab(tmp_path)
    lab.controller.profile.protected_prefixes.extend(["fd20::/48", "172.20.0.0/16", "fd20::/96"])
    there = {f"10.20.{1 << n}.0/{24 - n}" for n in range(8)} | {"10.20.0.128/25"}
    there |= {f"fd20:0:0:{1 << n:x}::/{64 - n}" for n in range(16)} | {"172.20.0.0/16"}
    own = {"10.20.0.0/25", "fd20::/64"}

    async with lab.serving():
        for place in ("first", "after a restart"):
            async with lab.daemon() as daemon:
                if place == "first":
                    await lab.enroll(daemon)
                    await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
                told = await daemon.until(lambda status: len(status.warnings) >= len(own))
                assert blocked(daemon) == there, place
                assert not told.HasField("last_error")
                assert {it.reason for it in told.warnings} == {Reason.LOCAL_NETWORK_UNPROTECTED}
                assert sorted(it.fields["network"] for it in told.warnings) == sorted(own)
                assert (await refused(daemon.local.OpenTunnel(WIKI))).reason is Reason.ADDRESS_COLLISION
                for name in ("wiki.corp.example", "intruder.corp.example"):
                    assert (await daemon.ask(name)).rcode() == dns.rcode.SERVFAIL
        async with lab.daemon() as daemon:
            await daemon.until(lambda status: bool(status.warnings))
            # The computer moves to another network.
            be_at(Uplinks(), monkeypatch)
            lab.controller.tell(agent_pb2.WatchResponse(profile=lab.controller.profile))
            await daemon.until(lambda status: not status.warnings)
            assert blocked(daemon) == set(lab.controller.profile.protected_prefixes)
            # A prefix that was protected once stays protected in every network.
            be_at(home, monkeypatch)
            lab.controller.profile.user = "alice there"
            lab.controller.tell(agent_pb2.WatchResponse(profile=lab.controller.profile))
            await daemon.until(lambda status: status.user == "alice there")
            assert (await refused(daemon.local.OpenTunnel(WIKI))).reason is Reason.ADDRESS_COLLISION
            assert blocked(daemon) == set(lab.controller.profile.protected_prefixes)


def be_at(place: Uplinks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the daemon find these networks around it."""

    async def around(_: object, controller: str) -> Surroundings:
        return await surroundings(lambda: place, controller)

    monkeypatch.setattr("culvert_client.daemon.organisation.surroundings", around)


def blocked(daemon: Running) -> set[str]:
    return set(map(str, daemon.datapath.applied[-1].blocked))


def a_tunnel(**changes: object) -> agent_pb2.Tunnel:
    fields: dict[str, object] = {
        "inner_address": "10.99.0.2",
        "remote_prefixes": ["10.20.0.10/32"],
        "outer_address": "198.51.100.2",
        "outer_port": 4500,
        "inner_mtu": 1438,
    }
    return agent_pb2.Tunnel(**(fields | changes))  # pyright: ignore[reportArgumentType]
