"""The whole client releases some DNS answers and refuses others."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

import pytest
from culvert_client.core.client_events import (
    AnswerSeen,
    AskTxt,
    Call,
    CallEnded,
    NameSeen,
    PacketTrapped,
    PauseRequested,
    QueryHeld,
    Reply,
    TxtAnswered,
    UpstreamAnswered,
)
from culvert_client.core.profile import Resource
from culvert_client.core.tunnel import events as on
from culvert_client.core.tunnel.events import QueryId
from culvert_proto import CulvertError, Reason

from .granted import PROFILE, WIKI, WIKI_ADDRESS, pair, tunnel
from .world import World

NO_POLICY = CulvertError(Reason.NO_POLICY, user="alice", name="wiki", owner="bob")
UNREACHABLE = CulvertError(Reason.CONTROLLER_UNREACHABLE, controller="c")


def test_a_known_name_is_released_when_its_tunnel_is_up_and_not_before() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    assert world.verdicts() == {}
    [call] = world.take(Call)
    opened = on.TunnelOpened(call.command.call, tunnel(), pair())
    world.post(CallEnded(WIKI, opened))
    assert world.verdicts() == {}
    world.settle_datapath()
    assert world.verdicts() == {1: None}


def test_a_tunnel_that_is_up_first_waits_for_the_name_server() -> None:
    world = World()
    world.post(QueryHeld(QueryId(1), WIKI))
    world.open()
    assert world.verdicts() == {}
    world.post(UpstreamAnswered(QueryId(1), frozenset({WIKI_ADDRESS})))
    assert world.verdicts() == {1: None}


def test_a_browsers_three_queries_open_one_tunnel_and_ask_txt_once() -> None:
    world = World()
    world.ask(1)
    world.ask(2, WIKI_ADDRESS)
    world.ask(3)
    assert len(world.take(AskTxt)) == 1
    assert world.verdicts() == {1: None, 3: None}
    world.open()
    assert world.verdicts() == {2: None}


def test_answers_of_a_page_wait_while_its_tunnels_open_one_after_the_other() -> None:
    names = [f"part{number}.corp.example" for number in range(4)]
    resources = tuple(Resource(name.partition(".")[0], name, ("10.20.0.10",)) for name in names)
    world = World(replace(PROFILE, resources=resources))
    for query, name in enumerate(names):
        world.ask(query, WIKI_ADDRESS, fqdn=name)
    calls = world.take(Call)
    for call, name, world.now in zip(calls, names, (1.9, 3.8), strict=False):
        world.post(CallEnded(name, on.TunnelOpened(call.command.call, tunnel(name, name), pair())))
        world.settle_datapath()
    world.post(on.Tick())
    assert world.verdicts() == {0: None, 1: None}
    world.now = world.client.deadline() or 0.0
    assert world.now == 4.0
    world.post(on.Tick())
    assert world.verdicts() == {2: Reason.TIMEOUT, 3: Reason.TIMEOUT}


def test_an_answer_waits_two_seconds_where_no_tunnel_opens() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    assert world.client.deadline() == 2.0
    world.now = 2.0
    world.post(on.Tick())
    assert world.verdicts() == {1: Reason.TIMEOUT}


def test_a_stripped_txt_does_not_lead_to_cleartext() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.post(TxtAnswered(WIKI, marked=""))
    assert world.verdicts() == {}
    world.refuse(NO_POLICY)
    assert world.verdicts() == {1: Reason.NO_POLICY}


def test_txt_adds_a_name_that_the_profile_does_not_know_yet() -> None:
    world = World()
    world.post(QueryHeld(QueryId(1), "new.corp.example"))
    assert world.take(Call) == []
    world.post(TxtAnswered("new.corp.example", marked="new.corp.example"))
    world.open("new.corp.example")
    world.post(UpstreamAnswered(QueryId(1), frozenset({WIKI_ADDRESS})))
    assert world.verdicts() == {1: None}


def test_a_public_name_inside_the_zone_is_released_without_a_tunnel() -> None:
    world = World()
    world.ask(1, ip_address("192.0.2.80"), fqdn="www.corp.example")
    assert world.verdicts() == {}
    world.post(TxtAnswered("www.corp.example", marked=""))
    assert world.verdicts() == {1: None}
    assert world.take(Call) == []
    assert world.status().clicks == []


def test_an_unknown_name_with_a_protected_address_needs_a_tunnel() -> None:
    world = World()
    world.ask(1, ip_address("10.20.9.9"), fqdn="x.corp.example")
    world.post(TxtAnswered("x.corp.example", marked=""))
    assert world.verdicts() == {}
    world.refuse(CulvertError(Reason.NAME_UNKNOWN, name="x"), fqdn="x.corp.example")
    assert world.verdicts() == {1: Reason.NAME_UNKNOWN}


@pytest.mark.parametrize("hostile", ["203.0.113.66", "10.20.0.99", "2001:db8::1"])
@pytest.mark.parametrize("beside", [True, False])
def test_an_address_that_the_tunnel_does_not_carry_is_left_out(hostile: str, *, beside: bool) -> None:
    world = World()
    world.ask(1, *([WIKI_ADDRESS] if beside else []), ip_address(hostile))
    world.open()
    [reply] = world.take(Reply)
    assert reply.without == {ip_address(hostile)}
    assert reply.error is not None
    assert reply.error.reason is Reason.NO_POLICY
    assert hostile in reply.error.message


def test_a_wrong_address_of_a_carried_family_is_shown_of_the_other_not() -> None:
    world = World()
    world.ask(1, ip_address("2001:db8::1"))
    world.open()
    assert not world.status().HasField("last_error")
    world.ask(2, ip_address("10.20.0.99"))
    assert "10.20.0.99" in world.status().last_error.message


def test_an_answer_is_held_for_two_seconds_at_most() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.post(QueryHeld(QueryId(2), WIKI))
    world.now = 1.99
    world.post(on.Tick())
    assert world.verdicts() == {}
    assert world.client.deadline() == pytest.approx(2.0)
    world.now = 2.0
    world.post(on.Tick())
    assert world.verdicts() == {1: Reason.TIMEOUT, 2: Reason.DNS_UPSTREAM_FAILED}
    world.open()
    assert world.verdicts() == {}
    world.ask(3, WIKI_ADDRESS)
    assert world.verdicts() == {3: None}


def test_a_silent_name_server_is_a_typed_refusal() -> None:
    world = World()
    world.post(QueryHeld(QueryId(1), WIKI))
    world.post(UpstreamAnswered(QueryId(1), None))
    assert world.verdicts() == {1: Reason.DNS_UPSTREAM_FAILED}


def test_keys_that_the_datapath_refuses_release_nothing() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    [call] = world.take(Call)
    world.post(CallEnded(WIKI, on.TunnelOpened(call.command.call, tunnel(), pair())))
    world.settle_datapath(CulvertError(Reason.DATAPATH_FAILED, why="no route"))
    assert world.verdicts() == {1: Reason.DATAPATH_FAILED}
    [close] = world.take(Call)
    assert isinstance(close.command, on.CloseTunnel)


# ── names that stand for others ─────────────────────────────────────────────────────────────────────────────────────────

ALIAS, GIT, GIT_ADDRESS = "alias.corp.example", "git.corp.example", ip_address("10.20.0.11")
WITH_GIT = replace(PROFILE, resources=(*PROFILE.resources, Resource("git", GIT, ("10.20.0.11",))))


def test_an_alias_with_an_address_outside_of_the_tunnel_gives_none() -> None:
    world = World()
    world.post(QueryHeld(QueryId(1), ALIAS))
    world.post(TxtAnswered(ALIAS, marked=""))
    world.post(
        UpstreamAnswered(QueryId(1), frozenset({ip_address("203.0.113.66")}), (WIKI, "evil.example.org"))
    )
    world.open()
    [reply] = world.take(Reply)
    assert reply.without == {ip_address("203.0.113.66")}


def test_while_paused_an_alias_gives_no_address_outside_of_the_prefixes() -> None:
    world = World()
    world.post(PauseRequested(1 << 40))
    world.post(QueryHeld(QueryId(1), ALIAS))
    world.post(UpstreamAnswered(QueryId(1), frozenset({ip_address("203.0.113.66")}), (WIKI,)))
    assert world.verdicts() == {1: Reason.PAUSED}


def test_a_name_whose_own_tunnel_carries_the_answer_needs_no_other_one() -> None:
    world = World(WITH_GIT)
    world.post(QueryHeld(QueryId(1), WIKI))
    world.post(UpstreamAnswered(QueryId(1), frozenset({WIKI_ADDRESS}), (GIT,)))
    world.open()
    assert world.verdicts() == {1: None}
    assert world.take(Call) == []


def test_an_answer_through_many_known_names_demands_two_tunnels_at_most() -> None:
    names = [f"n{number}.corp.example" for number in range(20)]
    resources = tuple(Resource(name, name, ()) for name in names)
    world = World(replace(PROFILE, resources=(*PROFILE.resources, *resources)))
    world.post(QueryHeld(QueryId(1), WIKI))
    world.post(UpstreamAnswered(QueryId(1), frozenset({GIT_ADDRESS}), tuple(names)))
    [first] = world.take(Call)
    world.post(CallEnded(WIKI, on.TunnelOpened(first.command.call, tunnel(), pair())))
    world.settle_datapath()
    [second] = world.take(Call)
    assert (first.fqdn, second.fqdn, second.asked) == (WIKI, names[-1], WIKI)
    world.post(CallEnded(names[-1], on.Failed(second.command.call, NO_POLICY)))
    assert world.verdicts() == {1: Reason.NO_POLICY}
    assert world.take(Call) == []


def test_a_refused_alias_of_a_permitted_name_is_given() -> None:
    world = World(WITH_GIT)
    world.post(QueryHeld(QueryId(1), WIKI))
    world.refuse(NO_POLICY)
    world.post(UpstreamAnswered(QueryId(1), frozenset({GIT_ADDRESS}), (GIT,)))
    [call] = world.take(Call)
    git = tunnel("t2", GIT, prefix="10.20.0.11/32")
    world.post(CallEnded(GIT, on.TunnelOpened(call.command.call, git, pair())))
    world.settle_datapath()
    assert world.verdicts() == {1: None}


def test_a_mark_at_a_name_outside_of_the_zones_demands_nothing() -> None:
    world = World()
    world.post(QueryHeld(QueryId(1), ALIAS))
    world.post(TxtAnswered(ALIAS, marked="evil.example.org"))
    world.post(UpstreamAnswered(QueryId(1), frozenset({ip_address("203.0.113.66")}), ("evil.example.org",)))
    assert world.take(Call) == []
    assert world.verdicts() == {1: None}


def test_a_watched_name_and_a_packet_open_the_tunnel_of_the_reached_name() -> None:
    world = World()
    world.post(NameSeen(ALIAS))
    world.post(TxtAnswered(ALIAS, marked=WIKI))
    assert [(it.fqdn, it.asked) for it in world.take(Call)] == [(WIKI, ALIAS)]
    world = World(replace(PROFILE, resources=(Resource("wiki", WIKI, ()),)))
    world.post(AnswerSeen(ALIAS, frozenset({WIKI_ADDRESS}), (WIKI,)))
    world.post(PacketTrapped(WIKI_ADDRESS))
    assert [it.fqdn for it in world.take(Call)] == [WIKI]


def test_names_without_an_address_leave_nothing_behind() -> None:
    world = World()
    for number in range(100):
        name = f"absent{number}.corp.example"
        world.ask(number, fqdn=name)
        world.post(TxtAnswered(name, marked=""))
    assert len(world.verdicts()) == 100
    assert not world.client.clicks._running  # pyright: ignore[reportPrivateUsage]
