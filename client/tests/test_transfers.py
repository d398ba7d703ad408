"""A call or a transfer postpones the request for the next code; reading pages does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from culvert_client.core.client_events import Call, CallEnded, CodeProven, Measured
from culvert_client.core.grant import TunnelId, Usage
from culvert_client.core.tunnel import events as on

from .granted import WIKI, WIKI_ADDRESS, pair, tunnel
from .world import EPOCH, World


def _world() -> World:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    return world


def _send(world: World, packets_per_second: float, seconds: int, sent: int = 0) -> int:
    for _second in range(seconds):
        world.now += 1
        sent += round(packets_per_second)
        world.post(Measured({TunnelId("t1"): Usage(packets_out=sent, packets_in=sent)}, {}, {}))
    return sent


@pytest.mark.parametrize(("rate", "postponed"), [(50, True), (20, True), (10, False), (0, False)])
def test_a_request_for_a_code_waits_for_a_call(rate: float, postponed: bool) -> None:
    world = _world()
    _send(world, rate, 90)
    assert world.status().code_postponed is postponed


def test_one_page_is_no_transfer() -> None:
    world = _world()
    sent = _send(world, 0, 90)
    sent = _send(world, 800, 1, sent)
    assert not world.status().code_postponed
    _send(world, 0, 5, sent)
    assert not world.status().code_postponed


def test_a_call_that_has_just_begun_is_not_known_yet() -> None:
    world = _world()
    _send(world, 50, 5)
    assert not world.status().code_postponed


def test_the_request_comes_when_the_call_is_over() -> None:
    world = _world()
    sent = _send(world, 50, 90)
    assert world.status().code_postponed
    _send(world, 0, 50, sent)
    assert not world.status().code_postponed


def test_a_tunnel_that_is_closed_postpones_nothing() -> None:
    world = _world()
    _send(world, 50, 90)
    world.now += 200
    assert not world.status().code_postponed


def test_new_keys_of_a_tunnel_count_from_zero_again() -> None:
    world = _world()
    _send(world, 50, 90)
    _send(world, 50, 60)
    assert world.status().code_postponed


def test_a_new_code_moves_the_end_that_a_policy_gives_a_tunnel() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    [call] = world.take(Call)
    aged = replace(tunnel(), code_until=round(EPOCH) + 600, code_seconds=600)
    world.post(CallEnded(WIKI, on.TunnelOpened(call.command.call, aged, pair())))
    world.settle_datapath()
    assert world.status().tunnels[0].code_until == EPOCH + 600
    world.now = 400.0
    world.post(CodeProven(1 << 40))
    assert world.status().tunnels[0].code_until == EPOCH + 1000
