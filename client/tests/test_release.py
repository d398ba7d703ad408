"""What DNS answers are released, and what is refused, by the whole client."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from culvert_client.core import tunnel_events as on
from culvert_client.core.client_events import (
    AskTxt,
    Call,
    CallEnded,
    QueryHeld,
    Ticked,
    TxtAnswered,
    UpstreamAnswered,
)
from culvert_proto import CulvertError, Reason

from .granted import WIKI, WIKI_ADDRESS, pair, tunnel
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
    world.post(QueryHeld(1, WIKI))
    world.open()
    assert world.verdicts() == {}
    world.post(UpstreamAnswered(1, frozenset({WIKI_ADDRESS})))
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


def test_a_stripped_txt_does_not_lead_to_cleartext() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.post(TxtAnswered(WIKI, says_yes=False))
    assert world.verdicts() == {}
    world.refuse(NO_POLICY)
    assert world.verdicts() == {1: Reason.NO_POLICY}


def test_txt_adds_a_name_that_the_profile_does_not_know_yet() -> None:
    world = World()
    world.post(QueryHeld(1, "new.corp.example"))
    assert world.take(Call) == []
    world.post(TxtAnswered("new.corp.example", says_yes=True))
    world.open("new.corp.example")
    world.post(UpstreamAnswered(1, frozenset({WIKI_ADDRESS})))
    assert world.verdicts() == {1: None}


def test_a_public_name_inside_the_zone_is_released_without_a_tunnel() -> None:
    world = World()
    world.ask(1, ip_address("192.0.2.80"), fqdn="www.corp.example")
    assert world.verdicts() == {}
    world.post(TxtAnswered("www.corp.example", says_yes=False))
    assert world.verdicts() == {1: None}
    assert world.take(Call) == []
    assert world.status().clicks == []


def test_an_unknown_name_with_a_protected_address_is_never_released_without_a_tunnel() -> None:
    world = World()
    world.ask(1, ip_address("10.20.9.9"), fqdn="x.corp.example")
    world.post(TxtAnswered("x.corp.example", says_yes=False))
    assert world.verdicts() == {}
    world.refuse(CulvertError(Reason.NAME_UNKNOWN, name="x"), fqdn="x.corp.example")
    assert world.verdicts() == {1: Reason.NAME_UNKNOWN}


@pytest.mark.parametrize("hostile", ["203.0.113.66", "10.20.0.99", "2001:db8::1"])
def test_an_address_that_the_tunnel_does_not_carry_is_refused(hostile: str) -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS, ip_address(hostile))
    world.open()
    assert world.verdicts() == {1: Reason.NO_POLICY}
    assert hostile in world.status().last_error.message


def test_an_answer_is_held_for_two_seconds_at_most() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.post(QueryHeld(2, WIKI))
    world.now = 1.99
    world.post(Ticked())
    assert world.verdicts() == {}
    assert world.client.deadline() == pytest.approx(2.0)
    world.now = 2.0
    world.post(Ticked())
    assert world.verdicts() == {1: Reason.TIMEOUT, 2: Reason.DNS_UPSTREAM_FAILED}
    world.open()
    assert world.verdicts() == {}
    world.ask(3, WIKI_ADDRESS)
    assert world.verdicts() == {3: None}


def test_a_silent_name_server_is_a_typed_refusal() -> None:
    world = World()
    world.post(QueryHeld(1, WIKI))
    world.post(UpstreamAnswered(1, None))
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
