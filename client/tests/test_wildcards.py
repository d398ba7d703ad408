"""A resource that stands for many names: one tunnel carries them all."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

from culvert_client.core.client_events import (
    Apply,
    AskTxt,
    Call,
    CallEnded,
    OpenRequested,
    ProfileReceived,
    Reply,
    Settle,
    TxtAnswered,
)
from culvert_client.core.profile import Resource
from culvert_client.core.tunnel import events as on
from culvert_client.core.tunnel.events import RequestId
from culvert_proto import Reason

from .granted import PROFILE, pair, tunnel
from .world import World

DEV, GIT = Resource("dev", "*.dev.corp.example", ()), Resource("git", "git.dev.corp.example", ("10.20.0.11",))
WITH_DEV = replace(PROFILE, resources=(DEV, *PROFILE.resources))
THERE, ELSEWHERE = ip_address("10.20.0.10"), ip_address("10.20.0.99")


def test_the_nearest_resource_carries_a_name() -> None:
    profile = replace(WITH_DEV, resources=(Resource("all", "*.corp.example", ()), DEV, GIT))
    assert profile.tunnel_of("a.b.dev.corp.example") == "*.dev.corp.example"
    assert profile.tunnel_of("git.dev.corp.example") == "git.dev.corp.example"
    assert profile.tunnel_of("dev.corp.example") == "*.corp.example"
    assert profile.tunnel_of("corp.example") == "corp.example"
    assert not WITH_DEV.knows("dev.corp.example")
    assert WITH_DEV.fqdn_of("dev") == WITH_DEV.fqdn_of("A.dev.corp.example.") == "*.dev.corp.example"
    assert WITH_DEV.fqdn_of("a.other.example") is None


def test_many_names_share_one_tunnel_and_each_answer_is_checked() -> None:
    world = World(WITH_DEV)
    world.ask(1, THERE, fqdn="a.dev.corp.example")
    world.ask(2, THERE, fqdn="b.dev.corp.example")
    world.open("*.dev.corp.example")
    assert world.verdicts() == {1: None, 2: None}
    world.ask(3, THERE, fqdn="c.dev.corp.example")
    world.ask(4, ELSEWHERE, fqdn="d.dev.corp.example")
    assert world.take(Call) == []
    assert {it.query.number: it.without for it in world.take(Reply)} == {3: frozenset(), 4: {ELSEWHERE}}
    assert [it.fqdn for it in world.status().tunnels] == ["*.dev.corp.example"]
    assert [next(step.name for step in click.steps) for click in world.status().clicks] == ["query"]


def test_a_person_opens_and_closes_it_by_any_of_its_names() -> None:
    world = World(WITH_DEV)
    world.post(OpenRequested(RequestId(1), "a.dev.corp.example"))
    world.open("*.dev.corp.example")
    [settled] = world.take(Settle)
    assert (settled.fqdn, settled.error) == ("*.dev.corp.example", None)
    world.post(on.CloseRequested(Reason.CLOSED_BY_USER, world.client.profile.fqdn_of("b.dev.corp.example")))
    [call] = world.take(Call)
    assert isinstance(call.command, on.CloseTunnel)


def test_a_tunnel_passes_to_the_resource_that_becomes_known_later() -> None:
    world = World()
    world.ask(1, THERE, fqdn="a.dev.corp.example")
    world.take(AskTxt)
    world.post(TxtAnswered("a.dev.corp.example", marked="a.dev.corp.example"))
    world.open("a.dev.corp.example")
    world.post(ProfileReceived(WITH_DEV))
    world.ask(2, THERE, fqdn="b.dev.corp.example")
    [call] = world.take(Call)
    assert call.fqdn == "*.dev.corp.example"
    opened = on.TunnelOpened(
        call.command.call, tunnel(fqdn="*.dev.corp.example"), pair(generation=2), asked_at=0
    )
    world.post(CallEnded(call.fqdn, opened))
    [apply] = world.take(Apply)
    assert [sas.outbound.spi for sas in apply.desired.tunnels] == [pair(generation=2).outbound.spi]
    assert list(world.client.machines) == ["*.dev.corp.example"]
