"""Tunnels that open without a query that waits: names seen on their way, packets that find no tunnel."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

import pytest
from culvert_client.core import triggers
from culvert_client.core.client_events import (
    AnswerSeen,
    AskTxt,
    Call,
    CallEnded,
    Event,
    NameSeen,
    OpenRequested,
    PacketTrapped,
    TxtAnswered,
)
from culvert_client.core.profile import Resource
from culvert_client.core.tunnel import events as on
from culvert_client.core.tunnel.events import CloseDone, RequestId
from culvert_proto import CulvertError, Reason

from .granted import PROFILE, WIKI, WIKI_ADDRESS
from .world import World

CACHED = "old.corp.example"
CACHED_ADDRESS = ip_address("10.20.0.66")
NO_POLICY = CulvertError(Reason.NO_POLICY, user="alice", name="wiki", owner="bob")


@pytest.mark.parametrize("event", [PacketTrapped(WIKI_ADDRESS), NameSeen(WIKI)], ids=["packet", "name"])
def test_repeated_triggers_open_a_tunnel_once(event: Event) -> None:
    world = World()
    for _ in range(3):
        world.post(event)
    world.open()
    assert [it.fqdn for it in world.status().tunnels] == [WIKI]
    world.now = 1.0
    world.post(event)
    assert world.take(Call) == []


def test_a_refusal_is_told_and_not_asked_for_again_with_each_packet() -> None:
    world = World()
    world.post(PacketTrapped(WIKI_ADDRESS))
    world.refuse(NO_POLICY)
    assert world.status().last_error.reason == Reason.NO_POLICY
    world.now = triggers.SAME_NAME_EVERY - 0.1
    world.post(PacketTrapped(WIKI_ADDRESS))
    assert world.take(Call) == []
    world.now = triggers.SAME_NAME_EVERY
    world.post(PacketTrapped(WIKI_ADDRESS))
    assert [it.fqdn for it in world.take(Call)] == [WIKI]


def test_a_packet_finds_the_name_that_dns_gave_its_address() -> None:
    world = World()
    world.ask(1, CACHED_ADDRESS, fqdn=CACHED)
    world.refuse(NO_POLICY, CACHED)
    world.post(PacketTrapped(CACHED_ADDRESS))
    # No program got the refused address.
    assert world.take(Call) == []
    world.post(AnswerSeen(CACHED, frozenset({CACHED_ADDRESS})))
    world.post(PacketTrapped(CACHED_ADDRESS))
    assert [it.fqdn for it in world.take(Call)] == [CACHED]


def test_a_resources_address_is_the_controllers_word_and_not_dns() -> None:
    world = World()
    world.post(AnswerSeen("liar.corp.example", frozenset({WIKI_ADDRESS, CACHED_ADDRESS})))
    world.post(AnswerSeen("liar.example.org", frozenset({CACHED_ADDRESS})))
    world.post(PacketTrapped(WIKI_ADDRESS))
    world.post(PacketTrapped(CACHED_ADDRESS))
    assert [it.fqdn for it in world.take(Call)] == [WIKI, "liar.corp.example"]


@pytest.mark.parametrize("address", ["10.20.200.1", "203.0.113.9", "2001:db8::1"])
def test_a_packet_to_an_unknown_address_opens_no_tunnel(address: str) -> None:
    world = World()
    world.post(AnswerSeen(CACHED, frozenset({ip_address("203.0.113.9")})))
    world.post(PacketTrapped(ip_address(address)))
    assert world.take(Call) == []


def test_a_seen_name_that_the_profile_does_not_know_is_looked_up() -> None:
    world = World()
    for name in ("new.corp.example", "new.corp.example", "www.example.org"):
        world.post(NameSeen(name))
    assert [it.fqdn for it in world.take(AskTxt)] == ["new.corp.example"]
    world.post(TxtAnswered("www.example.org", marked="www.example.org"))
    assert world.take(Call) == []
    world.post(TxtAnswered("new.corp.example", marked="new.corp.example"))
    world.open("new.corp.example")
    world.now = 60.0
    world.post(NameSeen("plain.corp.example"))
    world.post(TxtAnswered("plain.corp.example", marked=""))
    assert world.take(Call) == []


def test_packets_to_many_resources_open_tunnels_at_a_limited_rate() -> None:
    names = [f"host{number}.corp.example" for number in range(200)]
    addresses = [ip_address(f"10.20.1.{number}") for number in range(200)]
    doors = tuple(Resource(name, name, (str(it),)) for name, it in zip(names, addresses, strict=True))
    world = World(replace(PROFILE, resources=doors))
    for address in addresses:
        world.post(PacketTrapped(address))
    assert len(world.take(Call)) == triggers.DEMANDS.burst
    world.now = 3.0
    for address in addresses:
        world.post(PacketTrapped(address))
    assert len(world.take(Call)) == 3.0 * triggers.DEMANDS.per_second


def test_a_closed_tunnel_is_not_reopened_by_its_cut_connections() -> None:
    world = World()
    world.post(OpenRequested(RequestId(1), "wiki"))
    world.open()
    world.now = 10.0
    world.post(on.CloseRequested(Reason.CLOSED_BY_USER, WIKI))
    [closing] = world.take(Call)
    world.post(CallEnded(WIKI, CloseDone(closing.command.call)))
    world.post(PacketTrapped(WIKI_ADDRESS))
    assert world.take(Call) == []
    world.ask(1, WIKI_ADDRESS)
    assert [it.fqdn for it in world.take(Call)] == [WIKI]


def test_a_packet_after_the_quiet_time_is_a_new_demand() -> None:
    world = World()
    world.post(on.CloseRequested(Reason.CLOSED_BY_USER, WIKI))
    world.now = triggers.QUIET_AFTER_CLOSE - 1
    world.post(PacketTrapped(WIKI_ADDRESS))
    assert world.take(Call) == []
    world.now = triggers.QUIET_AFTER_CLOSE
    world.post(on.Tick())
    world.post(PacketTrapped(WIKI_ADDRESS))
    assert [it.fqdn for it in world.take(Call)] == [WIKI]
