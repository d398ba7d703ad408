"""Real pings measure the gateways' round trips."""

from __future__ import annotations

import asyncio
import os
from ipaddress import ip_address
from pathlib import Path

import pytest
from culvert_client.core import echo
from culvert_client.core.profile import Gateway
from culvert_client.latency import Latencies, measure
from culvert_proto import local_pb2
from hypothesis import given
from hypothesis import strategies as st

from .controller import CODE, Controller, serving
from .enrolment_server import accepts, enrolment_server
from .name_server import from_records, name_server
from .pki import Authority
from .running import PLATFORM, running

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="raw sockets need root")


@needs_root
async def test_only_an_address_that_answers_has_a_round_trip() -> None:
    # The class E address has no route.
    targets = {"here": ip_address("127.0.0.1"), "nowhere": ip_address("240.0.0.1")}
    known = await measure(PLATFORM.ping_sockets, targets)
    assert known.keys() == {"here"}
    assert 0 < known["here"] < 1


@needs_root
async def test_gateways_are_pinged_when_they_become_known_and_online() -> None:
    latencies = Latencies(PLATFORM.ping_sockets)
    gateways = [Gateway("here", "127.0.0.1", online=True), Gateway("off", "127.0.0.2", online=False)]
    task = asyncio.create_task(latencies.keep(lambda: gateways))
    async with asyncio.timeout(30):
        while not latencies.known:  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(0.01)
    task.cancel()
    assert latencies.known.keys() == {"here"}


@given(st.sampled_from([4, 6]), st.binary(max_size=80))
def test_no_packet_is_too_strange_to_be_read(version: int, packet: bytes) -> None:
    echo.reply(version, packet)


def test_a_request_has_the_checksum_of_rfc_1071_and_is_no_reply() -> None:
    sent = echo.request(4, 0x1234, 1, b"odd")
    assert sum(int.from_bytes((sent + b"\0")[i : i + 2]) for i in range(0, 12, 2)) % 0xFFFF == 0
    assert echo.reply(6, sent) is None
    assert echo.reply(6, bytes([129, 0, 0, 0, 0x12, 0x34, 0, 1]) + b"x") == echo.EchoReply(0x1234, 1, b"x")
    header = bytes([0x46]) + bytes(23)
    assert echo.reply(4, header + bytes([0, 0, 0, 0, 0, 7, 0, 2])) == echo.EchoReply(7, 2, b"")


@pytest.mark.slow
@needs_root
async def test_the_controller_is_told_how_far_each_gateway_is(tmp_path: Path, gateway_address: str) -> None:
    infrastructure, devices, controller = Authority("infrastructure"), Authority("devices"), Controller()
    del controller.profile.gateways[:]
    controller.profile.gateways.add(name="here", address=gateway_address, online=True)
    controller.profile.gateways.add(name="nowhere", address="240.0.0.1", online=True)
    async with (
        name_server(from_records({})) as (upstream, _),
        serving(controller, infrastructure, devices),
        running(tmp_path, upstream) as daemon,
    ):
        answer = accepts(infrastructure, devices, f"127.0.0.1:{controller.port}")
        with enrolment_server(tmp_path, infrastructure, answer) as server:
            await daemon.local.Enroll(local_pb2.EnrollRequest(link=server.link(infrastructure)))
        await daemon.local.SubmitCode(local_pb2.SubmitCodeRequest(code=CODE))
        async with asyncio.timeout(30):
            while not any(it.rtt_us for it in (await daemon.status()).gateways):  # noqa: ASYNC110  nothing tells of it
                await asyncio.sleep(0.05)
        await daemon.local.OpenTunnel(local_pb2.OpenTunnelRequest(name="wiki"))
    assert controller.distances.keys() == {"here"}
    assert controller.distances["here"] > 0


def test_a_gateway_in_use_is_told_as_such() -> None:
    latencies = Latencies(PLATFORM.ping_sockets)
    assert latencies.distances(()) == []
    latencies.known = {"near": 0.0123, "far": 0.1}
    told = {it.name: (it.rtt_us, it.in_use) for it in latencies.distances({"far"})}
    assert told == {"near": (12_300, False), "far": (100_000, True)}


@needs_root
async def test_a_computer_that_has_moved_measures_anew() -> None:
    latencies, asked = Latencies(PLATFORM.ping_sockets), asyncio.Queue[None]()

    def gateways() -> list[Gateway]:
        asked.put_nowait(None)
        return [Gateway("here", "127.0.0.1", online=True)]

    task = asyncio.create_task(latencies.keep(gateways))
    async with asyncio.timeout(30):
        await asked.get()
        latencies.measure_anew()
        await asked.get()
    task.cancel()
