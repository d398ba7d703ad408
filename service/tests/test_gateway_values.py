"""Entries as P4Runtime carries them, keys as the gateway unwraps them, limits."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import cast

import pytest
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap_with_padding
from culvert_proto import CulvertError, Reason, agent_pb2
from culvert_proto.contract import ENDPOINTS, SAS, Suite
from culvert_proto.sa import Limits, check_allowed, inner_length
from culvert_service.config import Settings
from culvert_service.gateways import mapped
from culvert_service.gateways.encoding import Encoding
from culvert_service.gateways.entry import Kind, Update
from culvert_service.gateways.guard import Guard
from culvert_service.gateways.key_wrap import KeyWrap, new_kek, new_sa_key
from culvert_service.gateways.sa import Endpoint, compute_hard, draw, draw_tag
from culvert_service.gateways.selector import Selector
from culvert_service.gateways.site import Lan, Probe, Site, Wan, static_entries
from culvert_service.gateways.tunnel_entries import Pair, pair_entries, policy_entries, precedence
from culvert_service.gateways.tunnel_entries import Path as TunnelPath
from culvert_service.tunnels.pool import find_address_after, find_free_address
from culvert_service.tunnels.programming import PairKeys
from finsy import P4Schema, P4TableAction, P4TableEntry, P4TableMatch
from hypothesis import given
from hypothesis import strategies as st

SITE = Site(
    "198.51.100.2",
    "10.99.0.0/24",
    Wan(1, "02:00:00:00:01:01", ["02:00:00:00:01:02", "02:00:00:00:01:03"], vlan=7, mtu=1492),
    Lan(
        2,
        "02:00:00:00:02:01",
        "10.20.0.1",
        "10.20.0.0/16",
        {"10.20.0.10": "02:00:00:00:02:10", "2001:db8:20::10": "02:00:00:00:02:10"},
        "2001:db8:20::1",
        "2001:db8:20::/64",
    ),
    "203.0.113.2",
    "2001:db8:1::2",
)


WIKI = (Selector("10.20.0.10/32"), Selector("10.20.8.0/24", 6, (443, 443)))


def test_the_controller_and_the_program_have_the_same_sizes() -> None:
    schema = P4Schema(Settings().p4_artifacts / "gateway.p4info.txtpb")
    assert {schema.tables[name].size for name in ("sad_in", "sad_out")} == {SAS}
    assert schema.registers["peer_address"].size == ENDPOINTS


def path(suite: Suite, peer: str = "203.0.113.10") -> TunnelPath:
    outer = SITE.facing(peer)
    assert outer is not None
    soft = Limits(2**40, 2**50, 3600)
    return TunnelPath(
        *(uuid.uuid4(), outer.own, outer.public, "10.99.0.1", WIKI, peer, 4500, Endpoint(7), soft, suite)
    )


@pytest.mark.parametrize("crypto_port", [None, 4])
@pytest.mark.parametrize("peer", ["203.0.113.10", "2001:db8:9::10"])
@pytest.mark.parametrize("suite", Suite)
def test_every_entry_survives_the_way_to_the_switch_and_back(
    suite: Suite, peer: str, crypto_port: int | None
) -> None:
    programs = [Settings().p4_artifacts / f"{name}.p4info.txtpb" for name in ("gateway", "crypto_host")]
    tunnel = replace(path(suite, peer), probe=Probe("10.20.0.10", "10.20.0.1"))
    wrap = KeyWrap(new_kek())
    pair = Pair(1, draw(), draw(), draw_tag(), crypto_port)
    keys = PairKeys.new(suite).wrap_with(wrap)
    entries = [
        *static_entries(SITE),
        *pair_entries(tunnel, pair, keys),
        *policy_entries(tunnel, pair.to_device.sa_id),
    ]
    for item in entries:
        program = programs[item.table in ("host_in", "host_out")]
        schema, encoding = P4Schema(program), Encoding.of(program)
        sent = encoding.update(Update(Kind.INSERT, item))
        # finsy, which encodes for any program, is of the same opinion.
        match, args = P4TableMatch(dict(item.match)), dict(item.params)
        if item.wrapped_key is not None:
            args["wrapped_key"] = int.from_bytes(item.wrapped_key)
        theirs = P4TableEntry(
            item.table, match=match, action=P4TableAction(item.action, **args), priority=item.priority
        )
        assert P4TableEntry.decode(sent.entity, schema) == P4TableEntry.decode(theirs.encode(schema), schema)
        assert encoding.key(item.key).table_entry.match == sent.entity.table_entry.match
        got = encoding.entry(sent.entity.table_entry)
        assert got == item
        assert got is not None
        assert (got.wrapped_key or b"").lstrip(b"\0") == (item.wrapped_key or b"").lstrip(b"\0")


@pytest.mark.parametrize(
    ("prefixes", "probe"),
    [
        (["10.20.0.10/32"], Probe("10.20.0.10", "10.20.0.1")),
        (["10.20.0.0/16"], Probe("10.20.0.10", "10.20.0.1")),
        (["10.30.1.0/24"], Probe("10.30.1.1", "10.20.0.1")),
        # The first host is in the gateway's own network, where it forwards to its neighbours alone.
        (["10.20.8.0/24", "10.30.1.7/32"], Probe("10.30.1.7", "10.20.0.1")),
        (["10.20.8.0/24"], None),
        # Devices have no IPv6 address at this gateway.
        (["2001:db8:20::10/128"], None),
    ],
)
def test_a_probe_goes_where_the_gateway_forwards(prefixes: list[str], probe: Probe | None) -> None:
    lan = replace(SITE.lan, routes={"10.30.0.0/16": "10.20.0.10"})
    assert replace(SITE, lan=lan).probe(prefixes) == probe


def test_a_probe_goes_over_ipv6_where_devices_have_it() -> None:
    probe = replace(SITE, pool6="fd99::/64").probe(["2001:db8:20::10/128"])
    assert probe == Probe("2001:db8:20::10", "2001:db8:20::1")
    tunnel = replace(path(Suite.AES_GCM_256), probe=probe)
    assert list(tunnel.answers()) == []
    [answer] = replace(tunnel, inner_address6="fd99::1").answers()
    assert answer == Selector("2001:db8:20::1", 58).back_to("fd99::1")


def test_the_gateways_answers_to_probes_of_one_device_differ_by_tunnel() -> None:
    probe = Probe("10.20.0.10", "10.20.0.1")
    tunnels = [replace(path(Suite.AES_GCM_256), probe=probe) for _ in range(3)]
    answers = [policy_entries(tunnel, draw().sa_id)[-1] for tunnel in tunnels]
    assert {it.match for it in answers} == {answers[0].match}
    assert len({it.key for it in answers}) == len(tunnels)
    # The gateway answers through the tunnel that carries the device's other packets, too.
    by_precedence = sorted(tunnels, key=lambda it: precedence(it.tunnel_id))
    assert sorted(answers, key=lambda it: it.priority) == [answers[tunnels.index(it)] for it in by_precedence]


WRAPPED_BYTES = {1: 48, 2: 32, 3: 48, 129: 40, 130: 48, 131: 48, 132: 72}


@pytest.mark.parametrize("suite", Suite)
def test_a_key_crosses_wrapped_and_the_engine_can_unwrap_it(suite: Suite) -> None:
    kek, key = new_kek(), new_sa_key(suite)
    wrapped = KeyWrap(kek).wrap(key)
    assert len(wrapped) == WRAPPED_BYTES[suite.number]
    assert aes_key_unwrap_with_padding(kek, wrapped) == key


def test_suites_have_the_numbers_of_the_wire() -> None:
    on_the_wire = set(agent_pb2.Suite.values()) - {agent_pb2.SUITE_UNSPECIFIED}
    assert {suite.number for suite in Suite} == on_the_wire
    assert {suite for suite in Suite if suite.legacy} == {s for s in Suite if s.number > 128}


# RFC 4301 section 8 in numbers: 1500 bytes, GCM-16, without and with UDP, over IPv4 and IPv6.
@pytest.mark.parametrize(
    ("outer_family", "udp", "expected"),
    [(4, False, 1446), (4, True, 1438), (6, False, 1426), (6, True, 1418)],
)
def test_inner_length_of_gcm_on_a_1500_byte_link(outer_family: int, udp: bool, expected: int) -> None:
    assert inner_length(1500, outer_family, Suite.AES_GCM_256, udp=udp) == expected


@given(suite=st.sampled_from(Suite), link=st.integers(1280, 9216), six=st.booleans(), udp=st.booleans())
def test_the_largest_inner_packet_fits_and_one_byte_more_does_not(
    suite: Suite, link: int, six: bool, udp: bool
) -> None:

    def on_the_wire(inner: int) -> int:
        padded = -(-(inner + 2) // suite.block) * suite.block
        return (40 if six else 20) + (8 if udp else 0) + 8 + suite.iv + padded + suite.icv

    largest = inner_length(link, 6 if six else 4, suite, udp=udp)
    assert on_the_wire(largest) <= link < on_the_wire(largest + 1)
    # Below that, IPv6 inside has not what it needs (RFC 8200 section 5).
    assert largest >= (1280 if link >= 1400 else 1182)


def test_a_legacy_suite_needs_permission() -> None:
    check_allowed(Suite.AES_GCM_128, [], "the gateway gw")
    check_allowed(Suite.NULL_HMAC_SHA_256_128, [Suite.NULL_HMAC_SHA_256_128], "the gateway gw")
    with pytest.raises(CulvertError, match="null-hmac-sha256-128 is legacy") as refused:
        check_allowed(Suite.NULL_HMAC_SHA_256_128, [Suite.AES_CTR_128_HMAC_MD5_96], "the gateway gw")
    assert refused.value.reason is Reason.SUITE_LEGACY


@given(st.ip_addresses())
def test_an_address_of_either_family_is_one_number_and_back(address: IPv4Address | IPv6Address) -> None:
    shown = str(address.ipv4_mapped or address) if isinstance(address, IPv6Address) else str(address)
    assert mapped.text(mapped.number(str(address))) == shown
    assert mapped.prefix("10.20.0.0/16") == (mapped.number("10.20.0.0"), 112)


def params(table: str, **match: int) -> dict[str, int]:
    (found,) = [
        item
        for item in static_entries(SITE)
        if item.table == table and match.items() <= dict(item.match).items()
    ]
    return dict(found.params)


def test_the_ports_have_their_vlan_and_mtu() -> None:
    assert params("port_role", port=1, vlan=7)["interface_id"] == 1
    assert params("port_role", port=2, vlan=0)["interface_id"] == 2
    assert params("nexthop", id=1).items() >= {"role": 1, "port": 1, "vlan": 7, "mtu": 1492}.items()
    assert params("nexthop", id=3).items() >= {"role": 2, "port": 2, "vlan": 0, "mtu": 1500}.items()


def test_flows_are_shared_among_the_wans_next_hops() -> None:
    default = {item.match: dict(item.params) for item in static_entries(SITE) if item.action == "via_group"}
    ipv4, ipv6 = (("dst", mapped.prefix("0.0.0.0/0")),), ()
    assert default == {match: {"group_id": 1, "members": 2} for match in (ipv4, ipv6)}
    members = [params("ecmp_member", group_id=1, member=member)["nexthop_id"] for member in (0, 1)]
    assert [params("nexthop", id=member)["dst_mac"] & 0xFF for member in members] == [2, 3]


def test_the_gateway_answers_and_complains_from_its_own_addresses() -> None:
    own = {
        (dict(item.match)["interface_id"], mapped.text(cast("int", dict(item.match)["address"])))
        for item in static_entries(SITE)
        if item.table == "own_address"
    }
    assert own == {
        *((1, "198.51.100.2"), (1, "2001:db8:1::2"), (2, "10.20.0.1"), (2, "2001:db8:20::1")),
    }
    for interface, address, address6 in (
        (0, "10.20.0.1", "2001:db8:20::1"),
        (1, "198.51.100.2", "2001:db8:1::2"),
        (2, "10.20.0.1", "2001:db8:20::1"),
    ):
        source = params("icmp_source", interface_id=interface)
        assert source == {"ipv4": mapped.ipv4(address), "ipv6": mapped.number(address6)}


def test_without_ipv6_nothing_of_it_leaves() -> None:
    plain = replace(SITE, address6=None)
    assert not [item for item in static_entries(plain) if item.table == "route" and item.match == ()]
    assert plain.facing("2001:db8:9::10") is None


def test_a_gateways_own_address_counts_for_its_mtu() -> None:
    assert path(Suite.AES_GCM_256).inner_mtu == 1438
    assert path(Suite.AES_GCM_256, "2001:db8:9::10").inner_mtu == 1418
    assert replace(path(Suite.AES_GCM_256), lan_mtu=1400).inner_mtu == 1400
    raw = path(Suite.AES_GCM_256).with_peer("203.0.113.10", 0)
    assert raw.inner_mtu == 1446
    seal = dict(pair_entries(raw, Pair(1, draw(), draw(), draw_tag()))[-1].params)
    assert (seal["sport"], seal["dport"]) == (0, 0)


def test_rfc_5649_vector() -> None:
    kek = bytes.fromhex("5840df6e29b02af1ab493b705bf16ea1ae8338f4dcc176a8")
    key = bytes.fromhex("c37b7e6492584340bed12207808941155068f738")
    wrapped = "138bdeaa9b8fa7fc61f97742e72248ee5ae6ae5360d1ae6a5f54f373fa543b6a"
    assert KeyWrap(kek).wrap(key).hex() == wrapped


def test_keys_do_not_print_themselves() -> None:
    keys = PairKeys.new(Suite.AES_GCM_256)
    assert keys.to_gateway != keys.to_device
    assert repr(keys) == "PairKeys()"


@pytest.mark.parametrize("soft", [1, 1000, 2**36, 2**62])
def test_the_hard_limit_leaves_room_to_rekey(soft: int) -> None:
    ceiling = compute_hard(Limits(soft, soft, soft))
    assert soft + 2**20 <= ceiling.packets < 2**64
    assert soft + 2**30 <= ceiling.bytes < 2**64
    assert compute_hard(Limits()) == Limits()


def test_the_pool_gives_the_lowest_free_address_and_ends() -> None:
    assert find_free_address("10.99.0.0/30", []) == "10.99.0.1"
    assert find_free_address("10.99.0.0/30", ["10.99.0.1"]) == "10.99.0.2"
    assert find_free_address("10.99.0.0/30", ["10.99.0.1", "10.99.0.2"]) is None
    assert find_free_address("10.99.0.0/29", ["10.99.0.2"], skip=1) == "10.99.0.3"
    assert find_free_address("10.99.0.0/30", ["10.99.0.1"], skip=9) == "10.99.0.2"


def test_the_address_after_the_highest_is_one_of_the_pool_or_none() -> None:
    assert find_address_after("10.99.0.0/30", None) == "10.99.0.1"
    assert find_address_after("10.99.0.0/30", "10.99.0.1") == "10.99.0.2"
    assert find_address_after("10.99.0.0/29", "10.99.0.1", skip=3) == "10.99.0.5"
    assert find_address_after("2001:db8::/126", "2001:db8::1") == "2001:db8::2"
    for highest in ("10.99.0.2", "10.99.0.7", "10.98.0.1", "255.255.255.255"):
        assert find_address_after("10.99.0.0/30", highest) is None


async def test_the_reconciler_works_alone_and_is_not_starved() -> None:
    guard, order = Guard(), list[str]()

    async def set_up(name: str) -> None:
        async with guard.share():
            order.append(f"{name} in")
            await asyncio.sleep(0.01)
            order.append(f"{name} out")

    async def reconcile() -> None:
        async with guard.exclusive():
            order.append("alone in")
            await asyncio.sleep(0.01)
            order.append("alone out")

    await asyncio.gather(set_up("a"), set_up("b"), reconcile(), set_up("late"))
    assert order == ["a in", "b in", "a out", "b out", "alone in", "alone out", "late in", "late out"]


def test_artifacts_are_found_without_a_setting() -> None:
    assert (Path(Settings().p4_artifacts) / "gateway.json").is_file()
