"""A pause: nothing opens, names pass, and what is protected stays blocked."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from ipaddress import ip_address

import pytest
from culvert_client.cli.commands import end_of_pause
from culvert_client.core.client import Client
from culvert_client.core.client_events import (
    Apply,
    AskTxt,
    Call,
    CallEnded,
    Enrolled,
    Fail,
    KeepPause,
    OpenRequested,
    PacketTrapped,
    PauseEnded,
    PauseRequested,
    QueryHeld,
    Reply,
    Settle,
    UpstreamAnswered,
)
from culvert_client.core.grant import TunnelId
from culvert_client.core.tunnel import events as on
from culvert_client.core.tunnel.events import QueryId, RequestId
from culvert_proto import Reason, local_pb2

from .controller import CODE
from .granted import PROFILE, WIKI, WIKI_ADDRESS
from .running import FIRST
from .test_daemon import Lab, given, lab, refused
from .world import World

UNTIL = 1_700_000_900

__all__ = ["lab"]


def paused() -> World:
    world = World()
    world.post(PauseRequested(UNTIL))
    world.commands.clear()
    return world


def test_names_pass_without_a_tunnel_without_txt_and_without_a_fault() -> None:
    world = paused()
    world.ask(1, WIKI_ADDRESS)
    world.ask(2, fqdn="other.corp.example")
    assert [it.query.number for it in world.take(Reply)] == [1, 2]
    assert world.take(Call) == []
    assert world.take(AskTxt) == []
    status = world.status()
    assert (status.state, status.paused_until) == (local_pb2.STATE_PAUSED, UNTIL)
    assert not status.HasField("last_error")


def test_packets_that_find_no_tunnel_open_none_and_are_no_fault() -> None:
    world = paused()
    world.post(PacketTrapped(WIKI_ADDRESS))
    assert world.take(Call) == []
    assert not world.status().HasField("last_error")
    world.post(PauseEnded())
    world.now += 60
    world.post(PacketTrapped(WIKI_ADDRESS))
    assert len(world.take(Call)) == 1


def test_a_resource_that_leads_out_of_the_protected_prefixes_is_refused() -> None:
    world = paused()
    world.ask(1, WIKI_ADDRESS, ip_address("203.0.113.9"))
    assert world.verdicts() == {1: Reason.PAUSED}


def test_tunnels_are_closed_and_their_prefixes_stay_blocked() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.commands.clear()
    assert KeepPause(UNTIL) in world.post(PauseRequested(UNTIL))
    [call] = world.take(Call)
    assert isinstance(call.command, on.CloseTunnel)
    [apply] = world.take(Apply)
    assert (apply.desired.tunnels, apply.desired.blocked) == ((), frozenset(PROFILE.protected_prefixes))
    world.post(on.GatewayMoved(TunnelId("t1")))
    world.post(CallEnded(WIKI, on.CloseDone(call.command.call)))
    assert world.take(Call) == []
    assert world.client.machines == {}


def test_a_pause_answers_waiting_queries_and_requests() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.post(OpenRequested(RequestId(7), "wiki"))
    world.post(PauseRequested(UNTIL))
    assert [it.query.number for it in world.take(Reply)] == [1]
    [settled] = world.take(Settle)
    assert settled.error is not None


def test_a_name_that_was_to_open_again_after_its_close_does_not() -> None:
    world = World()
    world.ask(1, WIKI_ADDRESS)
    world.open()
    world.commands.clear()
    world.post(PauseRequested(UNTIL))
    [closing] = world.take(Call)
    world.post(PauseEnded())
    world.ask(2, WIKI_ADDRESS)
    world.post(PauseRequested(UNTIL))
    world.post(CallEnded(WIKI, on.CloseDone(closing.command.call)))
    assert world.take(Call) == []


def test_open_is_refused_in_a_pause_and_works_after_it() -> None:
    world = paused()
    world.post(OpenRequested(RequestId(7), "wiki"))
    [settled] = world.take(Settle)
    assert settled.error is not None
    assert settled.error.reason is Reason.PAUSED
    assert world.post(PauseEnded()) == [KeepPause(0)]
    world.ask(1, WIKI_ADDRESS)
    world.open()
    assert world.verdicts() == {1: None}


def test_a_pause_outlives_the_daemon_and_not_the_enrolment() -> None:
    client = Client(PROFILE, paused_until=UNTIL)
    client.handle(QueryHeld(QueryId(1), WIKI), 0.0)
    commands = client.handle(UpstreamAnswered(QueryId(1), frozenset({WIKI_ADDRESS})), 0.0)
    assert Reply(QueryId(1)) in commands
    assert not any(isinstance(it, Fail | Call) for it in commands)
    assert KeepPause(0) in client.handle(Enrolled(), 0.0)


@pytest.mark.parametrize(
    ("typed", "end"),
    [
        ("15m", "2026-03-01T23:55"),
        ("2h", "2026-03-02T01:40"),
        ("1d", "2026-03-02T23:40"),
        ("tomorrow", "2026-03-02T06:00"),
        ("soon", None),
        ("-5m", None),
        ("99999h", None),
    ],
)
def test_the_end_of_a_pause_is_parsed_from_words(typed: str, end: str | None) -> None:
    now = datetime(2026, 3, 1, 23, 40, tzinfo=UTC)
    assert end_of_pause(typed, now) == (datetime.fromisoformat(end).replace(tzinfo=UTC) if end else None)


async def test_a_pause_over_the_socket_ends_by_itself_after_a_restart(lab: Lab) -> None:
    async with lab.serving() as controller:
        async with lab.daemon() as daemon:
            soon = local_pb2.PauseRequest(until=int(time.time()) + 60)
            assert (await refused(daemon.local.Pause(soon))).reason is Reason.NOT_ENROLLED
            await lab.enroll(daemon)
            await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
            await daemon.ask(WIKI)
            for wrong in (0, int(time.time()) - 1, int(time.time()) + 8 * 24 * 3600, -(1 << 63)):
                error = await refused(daemon.local.Pause(local_pb2.PauseRequest(until=wrong)))
                assert error.reason is Reason.REQUEST_INVALID
            await daemon.local.Pause(soon)
            assert controller.open == {}
        async with lab.daemon() as daemon:
            assert (await daemon.status()).state == local_pb2.STATE_PAUSED
            assert given(await daemon.ask(WIKI)) == {"10.20.0.10"}
            assert controller.open == {}
            assert [str(prefix) for prefix in daemon.datapath.applied[-1].blocked] == ["10.20.0.0/16"]
            await daemon.local.Pause(local_pb2.PauseRequest(until=int(time.time()) + 1))
            await daemon.until(lambda status: status.state == local_pb2.STATE_READY)
            await daemon.ask(WIKI)
            assert len(controller.open) == 1
            assert not (daemon.settings.state_dir / FIRST / "paused").exists()
