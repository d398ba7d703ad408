"""Each hop to a page is timed on real servers; the words say which hop is slow or fails."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import ssl
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from culvert_client import hop_times
from culvert_client.config import Endpoint
from culvert_client.core.grant import Selector, Tunnel
from culvert_client.hop_times import HopTimer, Way
from culvert_client.stub.upstream import Upstream
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason, local_pb2
from culvert_proto.screens.opening import Hop, Opening, Verdict, last_opening

from .controller import FAR_FUTURE
from .granted import tunnel
from .name_server import from_records, name_server
from .pki import Authority, write_chain
from .running import PLATFORM
from .test_daemon import Lab

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="raw sockets need root")

WIKI = "wiki.corp.example"
HERE = ip_address("127.0.0.1")
KINDS = local_pb2.HopKind
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]


def carried(*ports: int) -> Tunnel:
    """A tunnel to this computer, for these ports alone."""
    here = ip_network("127.0.0.1/32")
    selectors = tuple(Selector(here, 6, (port, port)) for port in ports)
    return replace(tunnel(), remote_prefixes=(here,), selectors=selectors)


@contextlib.asynccontextmanager
async def web(
    port: int, answer: bytes, *, after: float = 0.0, **settings: object
) -> AsyncGenerator[list[bytes]]:
    """A server that waits before its answer. Yields the requests."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            await asyncio.sleep(after)
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, **settings)  # pyright: ignore[reportArgumentType]
    async with server:
        yield asked


async def timed(way: Way, records: bool = True) -> dict[int, local_pb2.HopTime]:
    answers = from_records({(WIKI, "A"): ["127.0.0.1"]} if records else {})
    async with name_server(answers) as (upstream, _):
        found = await HopTimer(Upstream(upstream), PLATFORM.ping_sockets).time(way)
    assert found.fqdn == way.fqdn
    return {it.kind: it for it in found.hops}


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """A port in the place of the web's."""
    found = free_port()
    monkeypatch.setattr(hop_times, "HTTP", found)
    return found


async def test_a_slow_page_is_told_apart_from_its_server(port: int) -> None:
    async with web(port, b"HTTP/1.1 200 OK\r\n\r\n", after=0.3) as asked:
        hops = await timed(Way(WIKI, carried(port), "127.0.0.1", ()))
    assert all(it.result == local_pb2.HOP_RESULT_ANSWERED for it in hops.values())
    assert hops.keys() == {
        KINDS.HOP_KIND_NAME_SERVER,
        KINDS.HOP_KIND_GATEWAY,
        KINDS.HOP_KIND_SERVER,
        KINDS.HOP_KIND_PAGE,
    }
    assert hops[KINDS.HOP_KIND_PAGE].us >= 300_000 > hops[KINDS.HOP_KIND_SERVER].us
    assert hops[KINDS.HOP_KIND_PAGE].http_status == 200
    [request] = asked
    assert request.startswith(b"GET / HTTP/1.1\r\nHost: wiki.corp.example\r\n")
    assert b"ookie" not in request


async def test_an_error_of_the_page_is_the_servers(port: int) -> None:
    async with web(port, b"HTTP/1.1 502 Bad Gateway\r\n\r\n"):
        page = (await timed(Way(WIKI, carried(port), None, ())))[KINDS.HOP_KIND_PAGE]
    assert (page.result, page.http_status) == (local_pb2.HOP_RESULT_REFUSED, 502)


async def test_a_page_over_tls_is_timed_whoever_signed_its_certificate(
    port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hop_times, "HTTPS", port)
    stranger, context = Authority("stranger"), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_chain(tmp_path, *stranger.issue(WIKI), stranger.pem))
    async with web(port, b"HTTP/1.1 200 OK\r\n\r\n", ssl=context):
        page = (await timed(Way(WIKI, carried(port), None, ())))[KINDS.HOP_KIND_PAGE]
    assert (page.result, page.http_status) == (local_pb2.HOP_RESULT_ANSWERED, 200)


async def test_a_page_that_never_comes_ends_the_measurement(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hop_times, "PAGE_PATIENCE", 0.2)
    async with web(port, b"", after=1):
        page = (await timed(Way(WIKI, carried(port), None, ())))[KINDS.HOP_KIND_PAGE]
    assert page.result == local_pb2.HOP_RESULT_SILENT


async def test_a_server_without_the_program_is_there(port: int) -> None:
    hops = await timed(Way(WIKI, carried(port), None, ()))
    assert hops[KINDS.HOP_KIND_SERVER].result == local_pb2.HOP_RESULT_REFUSED
    assert KINDS.HOP_KIND_PAGE not in hops


async def test_no_request_is_sent_to_a_program_that_may_be_no_web_server() -> None:
    other = free_port()
    async with web(other, b"") as asked:
        hops = await timed(Way(WIKI, carried(other), None, ()))
    assert hops[KINDS.HOP_KIND_SERVER].result == local_pb2.HOP_RESULT_ANSWERED
    assert KINDS.HOP_KIND_PAGE not in hops
    assert asked == []


async def test_nothing_is_sent_past_the_tunnel(port: int) -> None:
    """A name server that names another address must not lead this computer to it in clear."""
    elsewhere = replace(carried(port), remote_prefixes=(ip_network("10.20.0.10/32"),))
    async with web(port, b"HTTP/1.1 200 OK\r\n\r\n") as asked:
        hops = await timed(Way(WIKI, elsewhere, None, {HERE}))
    assert hops.keys() == {KINDS.HOP_KIND_NAME_SERVER}
    assert asked == []


@pytest.mark.parametrize("host", [WIKI, ""])
async def test_below_a_wildcard_the_page_of_the_asked_name_is_timed(port: int, host: str) -> None:
    async with web(port, b"HTTP/1.1 200 OK\r\n\r\n") as asked:
        way = Way("*.corp.example", carried(port), "127.0.0.1", (), host)
        hops = await timed(way)
    assert (KINDS.HOP_KIND_PAGE in hops, KINDS.HOP_KIND_GATEWAY in hops) == (bool(host), True)
    assert [WIKI.encode() in it for it in asked] == [True] * bool(host)


async def test_a_silent_name_server_leaves_the_addresses_of_the_profile(port: int) -> None:
    async with web(port, b"HTTP/1.1 200 OK\r\n\r\n"):
        way = Way(WIKI, carried(port), None, {HERE})
        found = await HopTimer(Upstream(Endpoint("127.0.0.1", free_port())), PLATFORM.ping_sockets).time(way)
    hops = {it.kind: it for it in found.hops}
    assert hops[KINDS.HOP_KIND_NAME_SERVER].result == local_pb2.HOP_RESULT_SILENT
    assert hops[KINDS.HOP_KIND_PAGE].http_status == 200


async def test_a_denied_name_shows_where_its_opening_ended(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.controller.profile.code_valid_until = FAR_FUTURE
    lab.controller.refusals[WIKI] = CulvertError(
        Reason.NO_POLICY, user="alice", name=WIKI, owner="bob@corp.example"
    )
    async with lab.serving(), lab.daemon() as daemon:
        await lab.enroll(daemon)
        program = "from culvert_client.cli import app; app(prog_name='culvert')"
        command = [sys.executable, "-c", program, "--socket", str(daemon.settings.socket), "why", WIKI]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        out, err = await process.communicate()
    assert process.returncode == 3
    assert re.search(r"Controller +denied after [0-9.]+ ms", out.decode())
    assert "No policy lets alice reach wiki.corp.example." in err.decode()


# ── the words ───────────────────────────────────────────────────────────────────────────────────────────────────────────

STEPS = {
    "query": 0, "request": 100, "answered": 3_000, "decided": 8_000, "programmed": 20_000, "reply": 30_000,
    "sas_in": 32_000, "released": 33_000,
}  # fmt: skip


def opening(
    *hops: local_pb2.HopTime, steps: dict[str, int] = STEPS, error: CulvertError | None = None
) -> Opening:
    status = local_pb2.Status()
    click = status.clicks.add(fqdn=WIKI, started_us=1_800_000_000_000_000)
    click.steps.extend(local_pb2.Step(name=name, at_us=at) for name, at in steps.items())
    if error is not None:
        click.error.CopyFrom(error.to_proto())
    if hops:
        status.hop_times.add(fqdn=WIKI, hops=hops)
    found = last_opening(status)
    assert found is not None
    return found


def hop(
    kind: local_pb2.HopKind.ValueType,
    milliseconds: float,
    result: local_pb2.HopResult.ValueType = local_pb2.HOP_RESULT_ANSWERED,
    **others: int,
) -> local_pb2.HopTime:
    return local_pb2.HopTime(kind=kind, result=result, us=round(milliseconds * 1e3), **others)


def test_each_hop_has_the_time_that_was_measured_and_no_other() -> None:
    found = opening()
    assert {it.hop: it.text for it in found.parts} == {
        Hop.NAME_SERVER: "3.0 ms", Hop.CONTROLLER: "18 ms", Hop.GATEWAY: "12 ms", Hop.HERE: "2.0 ms",
        Hop.SERVER: "not measured", Hop.PAGE: "not measured",
    }  # fmt: skip
    assert found.conclusion == "Culvert opened it in 33 ms. Server and page were not measured."
    by_trigger = opening(steps={name: at for name, at in STEPS.items() if name not in ("query", "answered")})
    assert by_trigger.parts[0].text == "not measured"


def test_a_slow_page_is_not_culvert() -> None:
    found = opening(hop(KINDS.HOP_KIND_SERVER, 21), hop(KINDS.HOP_KIND_PAGE, 2400))
    assert found.conclusion == "The page is slow, not Culvert: its server took 2.4 s for the first byte."
    assert (found.verdict, found.parts[-1].text) == (Verdict.SLOW, "2.4 s, slow")


def test_the_slowest_hop_is_named() -> None:
    slow = STEPS | {"decided": 1_300_000, "programmed": 1_310_000, "reply": 1_320_000, "sas_in": 1_321_000}
    found = opening(hop(KINDS.HOP_KIND_SERVER, 21), hop(KINDS.HOP_KIND_PAGE, 80), steps=slow)
    assert found.conclusion == "The controller is slow, or far from here: it took 1.3 s."


def test_a_denial_is_the_controllers_answer() -> None:
    error = CulvertError(Reason.NO_POLICY, user="alice", name=WIKI, owner="bob@corp.example")
    found = opening(steps={"query": 0, "request": 100, "reply": 9_100}, error=error)
    assert {it.hop for it in found.parts if it.verdict is Verdict.DENIED} == {Hop.CONTROLLER}
    assert found.parts[1].text == "denied after 9.0 ms"
    assert found.conclusion == "No policy lets alice reach wiki.corp.example."


@pytest.mark.parametrize(
    ("reason", "where"),
    [
        (CulvertError(Reason.DNS_UPSTREAM_FAILED, name=WIKI), Hop.NAME_SERVER),
        (CulvertError(Reason.GATEWAY_DOWN, gateway="gw-berlin"), Hop.GATEWAY),
        (CulvertError(Reason.TUN_LOST, device="culvert0"), Hop.HERE),
    ],
)
def test_a_fault_is_shown_where_it_is(reason: CulvertError, where: Hop) -> None:
    found = opening(steps={"query": 0}, error=reason)
    assert [it.hop for it in found.parts if it.verdict is Verdict.FAILED] == [where]


@pytest.mark.parametrize(
    ("hops", "told"),
    [
        (
            [hop(KINDS.HOP_KIND_SERVER, 3, local_pb2.HOP_RESULT_REFUSED, port=443)],
            "The server has no program at port 443. Culvert reaches the server.",
        ),
        (
            [hop(KINDS.HOP_KIND_SERVER, 0, local_pb2.HOP_RESULT_SILENT)],
            "The server does not answer. Culvert and the gateway are in order.",
        ),
        (
            [
                hop(KINDS.HOP_KIND_SERVER, 3),
                hop(KINDS.HOP_KIND_PAGE, 9, local_pb2.HOP_RESULT_REFUSED, http_status=502),
            ],
            "The page fails, not Culvert: the server answers with error 502.",
        ),
        (
            [hop(KINDS.HOP_KIND_SERVER, 3), hop(KINDS.HOP_KIND_PAGE, 10_000, local_pb2.HOP_RESULT_SILENT)],
            "The page hangs, not Culvert: the server takes the request and sends nothing in 10.0 s.",
        ),
        (
            [
                hop(KINDS.HOP_KIND_GATEWAY, 180),
                hop(KINDS.HOP_KIND_SERVER, 190),
                hop(KINDS.HOP_KIND_PAGE, 400),
            ],
            "Nothing is slow: the page began after 400 ms.",
        ),
    ],
)
def test_what_is_behind_the_gateway_is_said_to_be_there(hops: list[local_pb2.HopTime], told: str) -> None:
    assert opening(*hops).conclusion == told


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (local_pb2.TUNNEL_STATE_SILENT, "The gateway does not answer."),
        (local_pb2.TUNNEL_STATE_NARROW, "Only small packets reach the gateway."),
    ],
)
def test_a_gateway_that_fails_now_is_told_whatever_the_opening_took(
    state: local_pb2.TunnelState.ValueType, told: str
) -> None:
    status = local_pb2.Status()
    click = status.clicks.add(fqdn=WIKI)
    click.steps.extend(local_pb2.Step(name=name, at_us=at) for name, at in STEPS.items())
    status.tunnels.add(fqdn=WIKI, state=state)
    found = last_opening(status)
    assert found is not None
    assert (found.conclusion, found.parts[2].text, found.parts[1].text) == (told, "failed", "18 ms")
