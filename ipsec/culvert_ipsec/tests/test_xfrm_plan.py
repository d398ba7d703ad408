"""The SAs and policies that a state needs, and their order."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, ip_network

import pytest
from culvert_ipsec import DatapathState, InboundSa, OnLink, OutboundSa, Selector, TunnelState
from culvert_ipsec.datapath import DatapathError
from culvert_ipsec.xfrm_plan import (
    TRAP,
    AddSa,
    PutPolicy,
    RemovePolicy,
    RemoveSa,
    Wanted,
    masks,
    plan_xfrm,
    replaced_outbound_sas,
    steps_after_routing,
    steps_before_routing,
)
from culvert_ipsec.xfrm_values import Direction, Template
from culvert_proto.contract import Suite
from hypothesis import given
from hypothesis import strategies as st

HERE, GATEWAY = IPv4Address("198.51.100.7"), IPv4Address("192.0.2.1")
TUNNEL = TunnelState(
    "t1",
    "10.99.0.5",
    ("10.20.0.10/32", "fd20::/64"),
    str(GATEWAY),
    inbound=(InboundSa(0x1001, bytes([1]) * 36),),
    outbound=OutboundSa(0x2001, bytes([2]) * 36),
)
STATE = DatapathState("tun0", 4500, 1400, blocked=frozenset({"10.20.0.0/16"}), tunnels=(TUNNEL,))
REKEYED = replace(
    TUNNEL,
    inbound=(*TUNNEL.inbound, InboundSa(0x1002, bytes([3]) * 36)),
    outbound=OutboundSa(0x2002, bytes([4]) * 36),
)


def of(state: DatapathState) -> Wanted:
    reqids = {tunnel.tunnel_id: number for number, tunnel in enumerate(state.tunnels, 100)}
    return plan_xfrm(state, {str(GATEWAY): HERE}, reqids, list(Suite))


@given(st.integers(0, 65535), st.integers(0, 65535))
def test_masks_cover_a_range_of_ports_and_nothing_else(one: int, other: int) -> None:
    first, last = sorted((one, other))
    found = list(masks(first, last))
    assert len(found) <= 30
    for port in {0, first - 1, first, (first + last) // 2, last, last + 1, 65535} - {-1, 65536}:
        hits = [it for it in found if port & it.mask == it.value]
        assert len(hits) == (first <= port <= last)


def test_a_tunnel_before_what_blocks() -> None:
    policies = of(STATE).policies.values()
    (out,) = (it for it in policies if it.direction is Direction.OUT and it.template != TRAP)
    (back,) = (it for it in policies if it.direction is Direction.IN)
    (block,) = (it for it in policies if it.template == TRAP)
    assert str(out.traffic.dst) == "10.20.0.10/32"
    assert out.priority < block.priority
    # Ours by its SPI; theirs without, so that both pairs of a rekey may come in.
    assert out.template == Template(HERE, GATEWAY, 100, 0x2001)
    assert back.template == Template(GATEWAY, HERE, 100)
    assert block.traffic.src == ip_network("0.0.0.0/0")


def test_an_own_network_passes_except_for_blocked_prefixes_in_it() -> None:
    host = "10.20.9.66/32"
    state = replace(
        STATE,
        blocked=STATE.blocked | {host},
        on_link=(OnLink("10.20.9.0/24", 7), OnLink("10.20.0.0/16", 8)),
    )
    policies = [it for it in of(state).policies.values() if it.traffic.src == ip_network("0.0.0.0/0")]
    by_priority = sorted(policies, key=lambda it: it.priority)
    assert [(str(it.traffic.dst), it.template) for it in by_priority] == [
        (host, TRAP),
        ("10.20.9.0/24", None),
        ("10.20.0.0/16", TRAP),
    ]


def test_inbound_comes_first_and_sas_go_after_the_policy_has_changed() -> None:
    first, second = of(STATE), of(replace(STATE, tunnels=(REKEYED,)))
    assert [type(step) for step in steps_before_routing(Wanted(), first)] == [
        AddSa,
        AddSa,
        PutPolicy,
        PutPolicy,
        PutPolicy,
    ]
    added = [step.sa.spi for step in steps_before_routing(Wanted(), first) if isinstance(step, AddSa)]
    assert added == [0x1001, 0x2001]
    steps = list(steps_before_routing(first, second))
    assert [step.sa.spi for step in steps if isinstance(step, AddSa)] == [0x1002, 0x2002]
    (switch,) = (step.policy for step in steps if isinstance(step, PutPolicy))
    assert switch.template is not None
    assert switch.template.spi == 0x2002
    assert list(steps_after_routing(first, second)) == []
    assert list(replaced_outbound_sas(first, second)) == [(GATEWAY, 0x2001)]


def test_a_closed_tunnel_goes_at_once_and_what_blocks_stays() -> None:
    first, none = of(STATE), of(replace(STATE, tunnels=()))
    assert list(steps_before_routing(first, none)) == []
    gone = list(steps_after_routing(first, none))
    assert [type(step) for step in gone] == [RemovePolicy, RemovePolicy, RemoveSa, RemoveSa]


def test_the_same_state_twice_does_nothing() -> None:
    assert not [*steps_before_routing(of(STATE), of(STATE)), *steps_after_routing(of(STATE), of(STATE))]


def test_without_an_outbound_sa_nothing_goes_out() -> None:
    state = replace(STATE, tunnels=(replace(TUNNEL, outbound=None),))
    (spi,) = {
        it.template.spi
        for it in of(state).policies.values()
        if it.direction is Direction.OUT and it.template is not None and it.template != TRAP
    }
    assert (GATEWAY, spi) not in of(state).sas


def test_of_two_tunnels_for_the_same_packet_the_first_carries_it() -> None:
    second = replace(
        TUNNEL, tunnel_id="t2", inbound=(), outbound=OutboundSa(0x3001, bytes([5]) * 36),
        selectors=(Selector("10.20.0.10/32"), Selector("10.20.0.10/32", 6, (443, 443))),
    )  # fmt: skip
    policies = of(replace(STATE, tunnels=(TUNNEL, second))).policies.values()
    spis = {
        it.traffic.protocol: it.template.spi
        for it in policies
        if it.direction is Direction.OUT and it.template is not None and it.template != TRAP
    }
    assert spis == {0: 0x2001, 6: 0x3001}


def test_what_cannot_be_is_refused() -> None:
    twice = replace(TUNNEL, tunnel_id="t2")
    with pytest.raises(DatapathError, match="0x1001"):
        of(replace(STATE, tunnels=(TUNNEL, twice)))
