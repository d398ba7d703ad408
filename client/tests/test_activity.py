"""The activity log has each event once, with its reason."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from culvert_client.core.activity import KEPT, Activity, ActivityKind, Entry, Log
from culvert_client.core.client_events import (
    Call,
    CallEnded,
    CodeProven,
    Command,
    ControllerLost,
    Enrolled,
    Event,
    OpenRequested,
    PauseEnded,
    PauseRequested,
    ProfileReceived,
    Stopping,
)
from culvert_client.core.grant import TunnelId
from culvert_client.core.tunnel import events as on
from culvert_client.core.tunnel.events import RequestId
from culvert_proto import CulvertError, Reason, local_pb2

from .controller import CODE
from .granted import PROFILE, WIKI, WIKI_ADDRESS, pair, tunnel
from .test_daemon import Lab, lab
from .world import World

__all__ = ["lab"]

NO_POLICY = CulvertError(Reason.NO_POLICY, user="alice", name="wiki", owner="bob")
UNREACHABLE = CulvertError(Reason.CONTROLLER_UNREACHABLE, controller="c")


class Watched(World):
    def __init__(self) -> None:
        self.log = Log()
        self.activity = Activity(self.log, 1)
        super().__init__()

    def post(self, event: Event) -> list[Command]:
        new = super().post(event)
        self.activity.observe(self.client, event, new, self.now)
        return new

    def told(self) -> list[Entry]:
        return self.log.after(0)

    def kinds(self) -> list[ActivityKind]:
        return [entry.kind for entry in self.told()]


def opened() -> Watched:
    world = Watched()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.commands.clear()
    return world


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (on.CloseRequested(Reason.CLOSED_BY_USER), Reason.CLOSED_BY_USER),
        (Stopping(), Reason.DAEMON_STOPPED),
    ],
)
def test_a_tunnel_comes_up_and_is_closed_by_the_person_or_at_a_stop(event: Event, reason: Reason) -> None:
    world = opened()
    world.post(event)
    up, closed = world.told()
    assert (up.kind, up.fqdn, up.gateway) == (ActivityKind.TUNNEL_UP, WIKI, "gw-berlin")
    assert (closed.kind, closed.fqdn) == (ActivityKind.TUNNEL_CLOSED, WIKI)
    assert closed.error is not None
    assert closed.error.reason is reason


def test_a_tunnel_that_the_controller_closes_keeps_its_reason() -> None:
    for event in (
        on.ClosedByController(TunnelId("t1"), NO_POLICY),
        ControllerLost(CulvertError(Reason.DEVICE_REVOKED, device="laptop")),
    ):
        world = opened()
        world.post(event)
        closed = world.told()[-1]
        assert closed.kind is ActivityKind.TUNNEL_CLOSED
        assert closed.error is event.error


def test_activity_has_a_move_and_not_a_rekey() -> None:
    world = opened()
    world.post(on.GatewayMoved(TunnelId("t1")))
    [call] = world.take(Call)
    moved = replace(tunnel("t2"), gateway="gw-paris")
    world.post(CallEnded(WIKI, on.TunnelOpened(call.command.call, moved, pair())))
    world.settle_datapath()
    assert world.kinds() == [ActivityKind.TUNNEL_UP, ActivityKind.FAILED_OVER]
    assert (world.told()[1].gateway_before, world.told()[1].gateway) == ("gw-berlin", "gw-paris")


def test_a_denial_is_told_once_for_all_that_a_browser_asks() -> None:
    world = Watched()
    for query in (1, 2, 3):
        world.ask(query, WIKI_ADDRESS)
    world.post(OpenRequested(RequestId(4), "wiki"))
    world.refuse(NO_POLICY)
    [denied] = world.told()
    assert (denied.kind, denied.fqdn, denied.error) == (ActivityKind.DENIED, WIKI, NO_POLICY)
    world.now = 11
    world.ask(5, WIKI_ADDRESS)
    world.refuse(NO_POLICY)
    assert world.kinds() == [ActivityKind.DENIED, ActivityKind.DENIED]


def test_pause_code_and_controller_are_told_as_they_change() -> None:
    world = Watched()
    for event in (
        PauseRequested(100),
        PauseRequested(200),
        PauseEnded(),
        PauseEnded(),
        ControllerLost(UNREACHABLE),
        ControllerLost(UNREACHABLE),
        ProfileReceived(PROFILE),
        CodeProven(300),
    ):
        world.post(event)
    assert world.kinds() == [
        ActivityKind.PAUSED,
        ActivityKind.RESUMED,
        ActivityKind.CONTROLLER_LOST,
        ActivityKind.CONTROLLER_BACK,
        ActivityKind.CODE_PROVEN,
    ]


def test_enrolment_clears_the_activity_log() -> None:
    world = opened()
    world.post(PauseRequested(100))
    world.post(Enrolled())
    assert world.told() == []


def test_memory_is_bounded_and_a_reader_sees_what_it_missed() -> None:
    world = Watched()
    for _ in range(KEPT + 7):
        world.post(CodeProven(300))
    kept = world.told()
    assert (len(kept), kept[0].number, kept[-1].number) == (KEPT, 8, KEPT + 7)
    assert world.log.after(kept[-2].number) == [kept[-1]]


async def test_activity_is_followed_over_the_socket(lab: Lab) -> None:
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        seen: list[local_pb2.Activity] = []

        async def follow() -> None:
            async for answer in daemon.local.WatchActivity(local_pb2.WatchActivityRequest(follow=True)):
                seen.append(answer.activity)
                if answer.activity.kind == local_pb2.ACTIVITY_KIND_TUNNEL_CLOSED:
                    return

        following = asyncio.create_task(follow())
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        controller.refusal = NO_POLICY
        await daemon.ask(WIKI)
        controller.refusal = None
        await daemon.ask(WIKI)
        await daemon.local.CloseTunnel(local_pb2.CloseTunnelRequest(all=True))
        async with asyncio.timeout(30):
            await following
        names = [local_pb2.ActivityKind.Name(one.kind).removeprefix("ACTIVITY_KIND_") for one in seen]
        assert names == ["CODE_PROVEN", "DENIED", "TUNNEL_UP", "TUNNEL_CLOSED"]
        assert seen[1].error.remedy == "Ask bob, who owns it."
        assert [one.number for one in seen] == [1, 2, 3, 4]
