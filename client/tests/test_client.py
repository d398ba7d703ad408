"""Controller, datapath and person together, without a socket: what follows from what, and what is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from culvert_client.core.client import Client
from culvert_client.core.client_events import (
    Applied,
    Apply,
    AskTxt,
    Call,
    CallEnded,
    CodeProven,
    ControllerLost,
    Desired,
    Enrolled,
    GatewaySelected,
    KeepTunnels,
    Left,
    Measured,
    OpenRequested,
    PacketTrapped,
    PauseEnded,
    PauseRequested,
    ProfileReceived,
    QueryHeld,
    Reply,
    Settle,
    SoftLimitReached,
    Stopping,
    TxtAnswered,
    UpstreamAnswered,
    Woke,
)
from culvert_client.core.desired_tunnels import APPLY_RETRY, Applies
from culvert_client.core.faults import REFUSAL_AGE
from culvert_client.core.grant import Address, Sas, Selector, TunnelId, Usage
from culvert_client.core.status import redact
from culvert_client.core.tunnel import events as on
from culvert_client.core.tunnel.events import QueryId, RequestId
from culvert_proto import CulvertError, Reason, local_pb2

from .granted import PROFILE, WIKI, WIKI_ADDRESS, pair, tunnel
from .world import EPOCH, World

NO_POLICY = CulvertError(Reason.NO_POLICY, user="alice", name="wiki", owner="bob")
UNREACHABLE = CulvertError(Reason.CONTROLLER_UNREACHABLE, controller="c")


# ── the datapath ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_protected_prefixes_are_blocked_before_and_between_tunnels() -> None:
    client = Client(PROFILE)
    [apply] = client.handle(on.Tick(), 0.0)
    assert isinstance(apply, Apply)
    assert apply.desired.blocked == frozenset(PROFILE.protected_prefixes)
    world = World()
    world.ask(1, WIKI_ADDRESS)
    [call] = world.take(Call)
    world.post(CallEnded(WIKI, on.TunnelOpened(call.command.call, tunnel(), pair())))
    [apply] = world.take(Apply)
    assert apply.desired.blocked == frozenset(PROFILE.protected_prefixes)
    assert [sas.tunnel.tunnel_id for sas in apply.desired.tunnels] == ["t1"]


def test_a_state_that_the_datapath_refuses_is_tried_again() -> None:
    world = World()
    world.post(ProfileReceived(replace(PROFILE, protected_prefixes=())))
    world.settle_datapath(CulvertError(Reason.DATAPATH_FAILED, why="busy"))
    assert world.status().last_error.reason == Reason.DATAPATH_FAILED
    world.now = 5.0
    world.post(on.Tick())
    world.settle_datapath()
    assert not world.status().HasField("last_error")


def test_tunnels_of_a_run_before_are_closed_before_their_names_open_again() -> None:
    client = Client(PROFILE, leftovers={WIKI: TunnelId("t0")})
    calls = [c for c in client.handle(on.Tick(), 0.0) if isinstance(c, Call)]
    assert [call.command for call in calls] == [
        on.CloseTunnel(calls[0].command.call, TunnelId("t0"), Reason.DAEMON_STOPPED)
    ]
    held = client.handle(QueryHeld(QueryId(1), WIKI), 0.1)
    assert not any(isinstance(command, Call) for command in held)
    after = client.handle(CallEnded(WIKI, on.CloseDone(calls[0].command.call)), 0.2)
    assert any(isinstance(c, Call) and isinstance(c.command, on.OpenTunnel) for c in after)
    assert KeepTunnels({}) in after


# ── the controller and the person ───────────────────────────────────────────────────────────────────────────────────────


def test_tunnels_stay_up_without_the_controller_and_the_state_says_so() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    assert world.status().state == local_pb2.STATE_CONNECTED
    world.post(ControllerLost(UNREACHABLE))
    status = world.status()
    assert status.state == local_pb2.STATE_OFFLINE
    assert status.last_error.reason == Reason.CONTROLLER_UNREACHABLE
    assert status.tunnels[0].state == local_pb2.TUNNEL_STATE_UP
    world.post(ProfileReceived(PROFILE))
    assert world.status().state == local_pb2.STATE_CONNECTED
    assert not world.status().HasField("last_error")


def test_a_revoked_device_loses_its_tunnels() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.post(ControllerLost(CulvertError(Reason.DEVICE_REVOKED, device="laptop")))
    assert world.status().tunnels == []
    [apply] = world.take(Apply)
    assert apply.desired.tunnels == ()


def test_a_tunnel_closed_by_an_administrator_says_why() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.post(on.ClosedByController(TunnelId("t1"), CulvertError(Reason.CLOSED_BY_ADMIN, why="maintenance")))
    assert world.status().tunnels == []
    assert world.status().last_error.reason == Reason.CLOSED_BY_ADMIN


def test_a_refusal_is_forgotten_when_it_is_old_and_says_when_it_was() -> None:
    world = World()
    world.now = 5.0
    world.ask(1, WIKI_ADDRESS, fqdn="wikki.corp.example")
    world.refuse(CulvertError(Reason.NAME_UNKNOWN, name="wikki.corp.example"), fqdn="wikki.corp.example")
    status = world.status()
    assert (status.last_error.reason, status.last_error_at) == (Reason.NAME_UNKNOWN, round(EPOCH) + 5)
    world.now = 5.0 + REFUSAL_AGE - 1
    world.post(on.Tick())
    assert world.status().HasField("last_error")
    assert world.client.deadline() == 5.0 + REFUSAL_AGE
    world.now = 5.0 + REFUSAL_AGE
    world.post(on.Tick())
    assert not world.status().HasField("last_error")
    assert world.client.deadline() is None


def test_a_lasting_error_keeps_the_time_of_its_begin() -> None:
    world = World()
    world.now = 5.0
    world.post(ControllerLost(UNREACHABLE))
    world.now = 5.0 + 2 * REFUSAL_AGE
    world.post(ControllerLost(UNREACHABLE))
    world.post(on.Tick())
    status = world.status()
    assert (status.last_error.reason, status.last_error_at) == (
        Reason.CONTROLLER_UNREACHABLE,
        round(EPOCH) + 5,
    )


def test_the_state_follows_the_code() -> None:
    world = World(replace(PROFILE, code_valid_until=0))
    assert world.status().state == local_pb2.STATE_NEEDS_CODE
    world.ask(1, WIKI_ADDRESS)
    world.refuse(CulvertError(Reason.CODE_NEEDED))
    assert world.verdicts() == {1: Reason.CODE_NEEDED}
    assert world.status().last_error.reason == Reason.CODE_NEEDED
    world.post(CodeProven(int(EPOCH) + 100))
    assert world.status().state == local_pb2.STATE_READY
    assert not world.status().HasField("last_error")
    world.now = 101.0
    assert world.status().state == local_pb2.STATE_NEEDS_CODE


@pytest.mark.parametrize("name", ["wiki", "WIKI.corp.example.", WIKI])
def test_a_person_opens_a_resource_by_either_name(name: str) -> None:
    world = World()
    world.post(OpenRequested(RequestId(7), name))
    assert world.status().state == local_pb2.STATE_CONNECTING
    world.open()
    assert world.take(Settle) == [Settle(RequestId(7), WIKI)]
    assert world.status().clicks[0].steps[0].name == "request"


def test_a_name_outside_every_zone_is_not_offered() -> None:
    world = World()
    world.post(OpenRequested(RequestId(7), "www.example.com"))
    [settle] = world.take(Settle)
    assert settle.error is not None
    assert settle.error.reason is Reason.NAME_NOT_OFFERED
    assert world.take(Call) == []


def test_a_pinned_gateway_is_asked_for() -> None:
    world = World()
    world.post(GatewaySelected("gw-berlin"))
    world.ask(1, WIKI_ADDRESS)
    [call] = world.take(Call)
    assert call.gateway == "gw-berlin"


def close(world: World) -> Desired:
    """The datapath's state once the name's tunnel is closed, as after an idle time."""
    [machine] = world.client.machines.values()
    assert machine.carried is not None
    lost = CulvertError(Reason.CLOSED_IDLE)
    world.post(on.ClosedByController(machine.carried.tunnel.tunnel_id, lost))
    desired = world.take(Apply)[-1].desired
    world.settle_datapath()
    return desired


def test_a_closed_tunnels_address_is_kept_until_the_tunnel_opens_again() -> None:
    world = World()
    for query in (1, 2):
        world.ask(query, WIKI_ADDRESS)
        [call] = world.take(Call)
        world.post(CallEnded(WIKI, on.TunnelOpened(call.command.call, tunnel(), pair(), asked_at=world.now)))
        opened = world.take(Apply)[-1]
        assert (len(opened.desired.tunnels), opened.desired.closed) == (1, ())
        world.post(Applied(opened.number))
        assert close(world) == Desired(frozenset(PROFILE.protected_prefixes), (), (tunnel(),))


@pytest.mark.parametrize("lost", [{"resources": ()}, {"gateways": ()}])
def test_a_closed_tunnels_address_goes_when_the_profile_has_it_no_more(lost: dict[str, Any]) -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    close(world)
    world.post(ProfileReceived(replace(PROFILE, **lost)))
    assert world.take(Apply)[-1].desired.closed == ()


def test_an_old_socket_opens_its_tunnel_again_after_a_pause() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.post(PauseRequested(1 << 40))
    [call] = world.take(Call)
    world.post(CallEnded(WIKI, on.CloseDone(call.command.call)))
    assert world.take(Apply)[-1].desired.closed == (tunnel(),)
    world.post(PacketTrapped(WIKI_ADDRESS))
    assert world.take(Call) == []
    world.post(PauseEnded())
    world.post(PacketTrapped(WIKI_ADDRESS))
    [call] = world.take(Call)
    assert isinstance(call.command, on.OpenTunnel)


def test_a_tunnel_whose_keys_its_gateway_lost_opens_again_unasked() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.post(on.ClosedByController(TunnelId("t1"), CulvertError(Reason.SA_LOST, gateway="gw-berlin")))
    assert world.take(Apply)[-1].desired.closed == (tunnel(),)
    world.open()
    assert world.status().tunnels[0].state == local_pb2.TUNNEL_STATE_UP
    assert not world.status().HasField("last_error")


@pytest.mark.parametrize("while_opening", [False, True])
def test_a_late_message_about_lost_keys_ends_no_newer_ones(while_opening: bool) -> None:
    """The message may have waited at another controller, and each new stream repeats the last hour's."""
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    lost = on.ClosedByController(
        TunnelId("t1"), CulvertError(Reason.SA_LOST, gateway="gw-berlin"), last_generation=1
    )
    world.post(lost)
    if while_opening:
        world.post(lost)
    [call] = world.take(Call)
    world.post(CallEnded(WIKI, on.TunnelOpened(call.command.call, tunnel(), pair(2))))
    world.settle_datapath()
    world.post(lost)
    assert world.take(Call) == []
    assert world.status().tunnels[0].state == local_pb2.TUNNEL_STATE_UP
    assert not world.status().HasField("last_error")


def renewing() -> tuple[World, int]:
    """A tunnel whose renewal waits for the controller's answer, and the number of the call."""
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.post(on.SoftLimit(TunnelId("t1"), 1))
    [call] = world.take(Call)
    assert isinstance(call.command, on.RenewSa)
    return world, call.command.call


def activating() -> tuple[World, int]:
    world, call = renewing()
    world.post(CallEnded(WIKI, on.Renewed(call, pair(2))))
    world.settle_datapath()
    [call] = world.take(Call)
    assert isinstance(call.command, on.ActivateSa)
    return world, call.command.call


LOST = CulvertError(Reason.SA_LOST, gateway="gw-berlin")


@pytest.mark.parametrize("changing", [renewing, activating])
def test_a_change_of_keys_that_meets_lost_keys_opens_the_tunnel_again(
    changing: Callable[[], tuple[World, int]],
) -> None:
    world, call = changing()
    world.post(CallEnded(WIKI, on.Failed(call, LOST)))
    # The controller's message about the same loss comes later.
    world.post(on.ClosedByController(TunnelId("t1"), LOST, last_generation=2))
    [opening] = world.take(Call)
    world.post(CallEnded(WIKI, on.TunnelOpened(opening.command.call, tunnel(), pair(3))))
    world.settle_datapath()
    assert world.status().tunnels[0].state == local_pb2.TUNNEL_STATE_UP
    assert not world.status().HasField("last_error")


@pytest.mark.parametrize("changing", [renewing, activating])
@pytest.mark.parametrize(("reason", "opens"), [(Reason.SA_LOST, True), (Reason.CLOSED_BY_ADMIN, False)])
def test_the_cause_of_an_unknown_tunnels_end_decides_whether_it_reopens(
    changing: Callable[[], tuple[World, int]], reason: Reason, opens: bool
) -> None:
    """The answer to the device's call overtakes the message about the tunnel's end."""
    world, call = changing()
    world.post(CallEnded(WIKI, on.Failed(call, CulvertError(Reason.TUNNEL_UNKNOWN))))
    assert world.take(Call) == []
    ended = on.ClosedByController(
        TunnelId("t1"), CulvertError(reason, why="maintenance", gateway="gw-berlin")
    )
    world.post(ended)
    world.post(ended)
    assert [type(it.command) for it in world.take(Call)] == ([on.OpenTunnel] if opens else [])


@pytest.mark.parametrize("reason", [Reason.CLOSED_IDLE, Reason.CLOSED_BY_ADMIN, Reason.PEER_SILENT])
def test_a_tunnel_closed_by_the_controller_opens_again_on_demand(reason: Reason) -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.post(
        on.ClosedByController(TunnelId("t1"), CulvertError(reason, why="maintenance", gateway="gw-berlin"))
    )
    assert world.take(Call) == []


def test_after_a_sleep_a_name_is_answered_once_its_tunnel_is_open_again() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.take(Reply)
    world.post(Woke(60.0))
    world.ask(2, WIKI_ADDRESS)
    assert world.take(Reply) == []
    world.open()
    assert [it.query.number for it in world.take(Reply)] == [2]


def test_a_tunnel_that_would_have_been_idle_in_a_sleep_is_closed() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    [call] = world.take(Call)
    idle = replace(tunnel(), idle=300.0)
    world.post(CallEnded(WIKI, on.TunnelOpened(call.command.call, idle, pair(), asked_at=world.now)))
    world.settle_datapath()
    world.post(Woke(300.0))
    [call] = world.take(Call)
    assert isinstance(call.command, on.CloseTunnel)
    world.post(CallEnded(WIKI, on.CloseDone(call.command.call)))
    assert world.take(Apply)[-1].desired.closed == (idle,)


def test_stopping_closes_every_tunnel_and_opens_none() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.post(Stopping())
    [close] = world.take(Call)
    assert isinstance(close.command, on.CloseTunnel)
    world.post(QueryHeld(QueryId(2), "git.corp.example"))
    world.post(UpstreamAnswered(QueryId(2), frozenset({ip_address("10.20.0.11")})))
    assert world.take(Call) == []
    assert not world.client.is_quiet
    world.post(CallEnded(WIKI, on.CloseDone(close.command.call)))
    world.settle_datapath()
    assert world.client.is_quiet


def test_a_new_identity_starts_with_nothing_of_the_old() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    assert world.status().clicks
    world.post(Enrolled())
    assert world.status().tunnels == []
    assert world.status().clicks == []
    assert world.status().resources == []
    [apply] = world.take(Apply)
    assert (apply.desired.tunnels, apply.desired.blocked) == ((), frozenset(PROFILE.protected_prefixes))


def test_leave_unprotects_all_and_answers_waiting_queries() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.commands.clear()
    world.post(QueryHeld(QueryId(2), "new.corp.example"))
    world.post(Left())
    assert world.verdicts().keys() == {2}
    assert world.take(Apply)[-1].desired == Desired()
    assert world.take(KeepTunnels)[-1] == KeepTunnels({})


def test_counters_and_drops_are_shown() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.post(Measured({TunnelId("t1"): Usage(3, 4, 500, 600)}, {TunnelId("t1"): {"icv": 2}}, {"icv": 3}))
    assert dict(world.status().drops) == {"icv": 3}
    shown = world.status().tunnels[0]
    assert (shown.packets_in, shown.packets_out, shown.bytes_in, shown.bytes_out) == (3, 4, 500, 600)
    assert dict(shown.drops) == {"icv": 2}


@pytest.mark.parametrize(
    ("fqdn", "permitted", "page"),
    [
        (WIKI, [], f"http://{WIKI}/"),
        (WIKI, [(6, (80, 80)), (6, (443, 443))], f"http://{WIKI}/"),
        (WIKI, [(1, (0, 65535)), (6, (440, 450))], f"https://{WIKI}/"),
        (WIKI, [(None, (0, 65535))], f"http://{WIKI}/"),
        (WIKI, [(6, (22, 22)), (17, (443, 443))], ""),
        ("*.corp.example", [], ""),
    ],
)
def test_a_tunnels_page_is_at_a_port_that_it_carries(
    fqdn: str, permitted: list[tuple[int | None, tuple[int, int]]], page: str
) -> None:
    granted = tunnel(fqdn=fqdn)
    [prefix] = granted.remote_prefixes
    selectors = tuple(Selector(prefix, protocol, ports) for protocol, ports in permitted)
    world = World()
    world.ask(1, WIKI_ADDRESS)
    [call] = world.take(Call)
    world.post(
        CallEnded(WIKI, on.TunnelOpened(call.command.call, replace(granted, selectors=selectors), pair()))
    )
    world.settle_datapath()
    assert world.status().tunnels[0].page == page


def test_only_a_worn_sa_of_the_pair_in_use_is_renewed() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.post(SoftLimitReached(TunnelId("t1"), 999))
    assert world.take(Call) == []
    world.post(SoftLimitReached(TunnelId("t1"), pair().outbound.spi))
    [call] = world.take(Call)
    assert isinstance(call.command, on.RenewSa)


def test_closing_by_name_leaves_the_others() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.post(on.CloseRequested(Reason.CLOSED_BY_USER, "git.corp.example"))
    assert world.take(Call) == []
    world.post(on.CloseRequested(Reason.CLOSED_BY_USER, WIKI))
    assert len(world.take(Call)) == 1


# ── the time line ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_click_has_every_step_in_its_order_and_place() -> None:
    world = World()
    world.now = 10.0
    world.post(QueryHeld(QueryId(1), WIKI))
    world.now = 10.001
    world.post(TxtAnswered(WIKI, marked=WIKI))
    [call] = world.take(Call)
    opened = on.TunnelOpened(
        call.command.call, tunnel(), pair(), asked_at=10.0, decided=0.002, programmed=0.006
    )
    world.now = 10.008
    world.post(CallEnded(WIKI, opened))
    world.now = 10.009
    world.settle_datapath()
    world.now = 10.010
    world.post(UpstreamAnswered(QueryId(1), frozenset({WIKI_ADDRESS})))
    [click] = world.status().clicks
    assert click.started_us == round((EPOCH + 10.0) * 1e6)
    assert {step.name: step.at_us for step in click.steps} == {
        "query": 0, "request": 0, "txt": 1000, "decided": 2000, "answered": 10000,
        "programmed": 6000, "reply": 8000, "sas_in": 9000, "released": 10000,
    }  # fmt: skip
    assert [step.at_us for step in click.steps] == sorted(step.at_us for step in click.steps)


def test_a_click_goes_on_while_one_of_its_questions_may_be_answered() -> None:
    world = World()
    for query in (1, 2):
        world.post(QueryHeld(QueryId(query), WIKI))
    world.post(UpstreamAnswered(QueryId(2), None))
    world.open()
    world.post(UpstreamAnswered(QueryId(1), frozenset({WIKI_ADDRESS})))
    [click] = world.status().clicks
    assert "released" in {step.name for step in click.steps}
    assert not click.HasField("error")


@pytest.mark.parametrize("last", [None, frozenset[Address]()])
def test_a_click_without_an_address_ends_with_its_last_question(last: frozenset[Address] | None) -> None:
    world = World()
    for query in (1, 2):
        world.post(QueryHeld(QueryId(query), WIKI))
    world.open()
    world.post(UpstreamAnswered(QueryId(1), None))
    world.post(UpstreamAnswered(QueryId(2), last))
    world.ask(3, WIKI_ADDRESS)
    [click] = world.status().clicks
    assert "released" not in {step.name for step in click.steps}
    assert click.HasField("error") == (last is None)


def test_the_newest_20_clicks_and_the_last_of_each_tunnel_are_kept() -> None:
    world, git = World(), "git.corp.example"
    world.ask(100, WIKI_ADDRESS)
    world.open()
    for number in range(25):
        world.now += 1
        world.ask(number + 1, WIKI_ADDRESS, fqdn=git)
        world.refuse(NO_POLICY, git)
    *refused, opened = world.status().clicks
    assert len(refused) == 20
    assert all(click.error.reason == Reason.NO_POLICY for click in refused)
    assert [c.started_us for c in refused] == sorted((c.started_us for c in refused), reverse=True)
    assert (opened.fqdn, opened.HasField("error")) == (WIKI, False)
    # Its tunnel is gone.
    close(world)
    world.ask(99, WIKI_ADDRESS, fqdn=git)
    assert {click.fqdn for click in world.status().clicks} == {git}


def test_a_redacted_status_has_the_state_without_names() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    shown = redact(world.status())
    assert shown.state == local_pb2.STATE_CONNECTED
    assert "wiki" not in str(shown)
    assert "alice" not in str(shown)


def test_the_tunnel_with_the_higher_precedence_comes_first() -> None:
    world = World()
    carried: tuple[Sas, ...] = ()
    for number, fqdn in enumerate(("wiki.corp.example", "git.corp.example"), 1):
        world.ask(number, WIKI_ADDRESS, fqdn=fqdn)
        [call] = world.take(Call)
        made = replace(tunnel(f"t{number}", fqdn), precedence=number)
        world.post(
            CallEnded(fqdn, on.TunnelOpened(call.command.call, made, pair(number), asked_at=world.now))
        )
        [apply] = world.take(Apply)
        world.post(Applied(apply.number, None))
        carried = apply.desired.tunnels
    assert [sas.tunnel.fqdn for sas in carried] == ["git.corp.example", "wiki.corp.example"]


def test_the_controller_is_asked_before_the_name_server() -> None:
    asked = [type(command) for command in World().post(QueryHeld(QueryId(1), WIKI))]
    assert asked == [Call, AskTxt]


def test_an_installation_is_answered_by_the_first_state_that_has_it() -> None:
    applies, error = Applies(), CulvertError(Reason.DATAPATH_FAILED, why="busy")
    applies.await_next(WIKI, 7)
    [first] = applies.tell(Desired(), 0.0)
    assert applies.tell(Desired(), 0.1) == []
    applies.await_next("git.corp.example", 8)
    [second] = applies.tell(Desired(), 0.2)
    assert applies.take_answer(first.number, None, 0.3) == [(WIKI, on.Installed(7))]
    assert not applies.are_done
    assert applies.take_answer(second.number, error, 0.4) == [("git.corp.example", on.Failed(8, error))]
    assert applies.are_done
    assert applies.deadline() == 0.4 + APPLY_RETRY
    assert len(applies.tell(Desired(), 0.4 + APPLY_RETRY)) == 1
