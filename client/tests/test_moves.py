"""When this computer counts as moved, on real links. That it sleeps cannot be made to happen: its clock is made up."""

from __future__ import annotations

import asyncio
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dns.rcode
import pytest
from culvert_client import moves
from culvert_client.controller import agent
from culvert_lab import netns
from culvert_proto import local_pb2

from .controller import CODE
from .running import PLATFORM
from .test_daemon import WIKI, Lab, given

pytestmark = pytest.mark.slow


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_another_default_route_is_a_move_and_a_route_of_ours_is_none() -> None:
    with ThreadPoolExecutor(1, initializer=netns.leave) as apart:
        apart.submit(asyncio.run, _moves()).result()


async def _moves() -> None:
    told: asyncio.Queue[None] = asyncio.Queue()

    async def moved() -> None:
        told.put_nowait(None)

    _ip("link add home type veth peer name away")
    for name, net in (("home", "192.0.2"), ("away", "198.51.100")):
        _ip(f"link set {name} up")
        _ip(f"address add {net}.10/24 dev {name}")
    _ip("route add default via 192.0.2.1 dev home")
    following = asyncio.create_task(
        moves.follow(PLATFORM.networks, PLATFORM.process.slept, moved, lambda: None)
    )
    await asyncio.sleep(0.2)
    _ip("route add 10.20.0.0/16 dev away table 4500")
    _ip("address add 10.99.0.2/32 dev away")
    await asyncio.sleep(0.3)
    assert told.empty()
    _ip("route replace default via 198.51.100.1 dev away")
    async with asyncio.timeout(30):
        # The second call is a repeat, in case the first was lost.
        await told.get()
        await told.get()
    _ip("route del default")
    await asyncio.sleep(0.3)
    assert told.empty()
    # The same place, but perhaps another NAT.
    _ip("route add default via 198.51.100.1 dev away")
    async with asyncio.timeout(30):
        await told.get()
    assert not following.done()
    following.cancel()


def test_a_computer_that_has_slept_may_be_anywhere() -> None:
    with ThreadPoolExecutor(1, initializer=netns.leave) as apart:
        apart.submit(asyncio.run, _wakes()).result()


async def _wakes() -> None:
    told: asyncio.Queue[None] = asyncio.Queue()
    asleep = PLATFORM.process.slept()

    async def moved() -> None:
        told.put_nowait(None)

    _ip("link add home type veth peer name away")
    _ip("link set home up")
    _ip("address add 192.0.2.10/24 dev home")
    _ip("route add default via 192.0.2.1 dev home")
    following = asyncio.create_task(moves.follow(PLATFORM.networks, lambda: asleep, moved, lambda: None))
    await asyncio.sleep(0.2)
    # Only the sleep may report the move: the network has not changed.
    _ip("link set lo up")
    await asyncio.sleep(0.3)
    assert told.empty()
    asleep += moves.SLEPT
    async with asyncio.timeout(30):
        await told.get()
        await told.get()
    following.cancel()


async def test_a_call_that_waits_since_before_a_sleep_is_made_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is dead without a sign, and its timeout stood still during the sleep."""
    asleep, read = 0.0, time.clock_gettime

    def clock_gettime(clock: int) -> float:
        return read(clock) + (asleep if clock == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", clock_gettime)
    # Else a slow machine repeats the call because of the silence.
    monkeypatch.setattr(agent, "SILENT_AFTER", agent.CALL_TIMEOUT)
    async with lab.serving() as controller, lab.daemon() as daemon:
        await lab.enroll(daemon)
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        controller.answers.clear()
        assert (await daemon.ask(WIKI)).rcode() == dns.rcode.SERVFAIL
        assert controller.calls == [f"open {WIKI}"]
        controller.answers.set()
        asleep += 60.0
        assert given(await daemon.ask(WIKI)) == {"10.20.0.10"}
        assert controller.calls == [f"open {WIKI}"] * 2


def test_a_sleep_is_told_once_and_a_short_one_not() -> None:
    asleep = 0.0
    sleep = moves.Sleep(lambda: asleep)
    asleep += moves.SLEPT - 1
    assert (sleep.is_news, sleep.take()) == (False, 0.0)
    asleep += moves.SLEPT
    assert (sleep.is_news, sleep.take()) == (True, moves.SLEPT)
    assert (sleep.is_news, sleep.take()) == (False, 0.0)


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True, capture_output=True)
