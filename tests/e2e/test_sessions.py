"""A TCP session that a program keeps: it goes on, or fails at once, whatever becomes of the tunnel below it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import dns.message
import dns.query
import pytest
import pytest_asyncio
from culvert_lab import homes, laptop, parts, spare
from culvert_lab import topology as net
from culvert_lab.office import Office
from culvert_lab.process import Running
from culvert_lab.topology import Site
from culvert_proto import local_pb2

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

PORT = 2222
# Longer than TCP waits before it sends again what a tunnel that is being opened has not carried.
PATIENCE = 40.0
# culvertd on a computer whose clock that goes on in sleep, and no other, can be put forward: by the seconds in a file.
DROWSY = """
import sys, time
from pathlib import Path
from culvert_client.daemon import main
read = time.clock_gettime
def clock_gettime(clock):
    slept = float(Path("/run/slept").read_text()) if clock == time.CLOCK_BOOTTIME else 0.0
    return read(clock) + slept
time.clock_gettime = clock_gettime
main(sys.argv[1:])
"""


@dataclass(frozen=True, slots=True)
class Session:
    """Both ends of one connection: the laptop's, and the server's in the intranet."""

    near: socket.socket
    far: socket.socket

    async def typed(self) -> None:
        """The laptop says something, and is answered."""
        await self._sent(self.near, self.far)
        await self.pushed()

    async def pushed(self) -> None:
        """The server says something unasked."""
        await self._sent(self.far, self.near)

    async def _sent(self, one: socket.socket, other: socket.socket) -> None:
        said = secrets.token_bytes(16)
        one.sendall(said)
        heard = await asyncio.to_thread(other.recv, len(said), socket.MSG_WAITALL)
        assert heard == said


@asynccontextmanager
async def session(office: Office) -> AsyncGenerator[Session]:
    def listen() -> socket.socket:
        return socket.create_server((net.WIKI_ADDRESS, PORT))

    def connect() -> socket.socket:
        return socket.create_connection((net.WIKI_ADDRESS, PORT), PATIENCE)

    with (
        await office.lab.inside(Site.INTRANET).run(listen) as listener,
        await office.lab.inside(Site.LAPTOP).run(connect) as near,
        listener.accept()[0] as far,
    ):
        far.settimeout(PATIENCE)
        kept = Session(near, far)
        await kept.typed()
        yield kept


@asynccontextmanager
async def opened(office: Office, name: str, **fields: object) -> AsyncGenerator[str]:
    """The tunnel of one more resource, which is withdrawn afterwards."""
    fqdn = await office.add_resource(name, **fields)
    try:
        done = await office.culvert("open", fqdn)
        assert done.code == 0, done.stderr
        yield fqdn
    finally:
        await office.joined.admin.delete(f"/resources/{name}")


async def no_tunnel(office: Office) -> None:
    while (await laptop.status(office.lab)).tunnels:  # noqa: ASYNC110  nothing tells of it
        await asyncio.sleep(0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def alone(office: Office) -> None:
    """No other resource is at the server's address."""
    await office.joined.admin.delete(f"/resources/{parts.RESOURCE}")


async def test_a_session_goes_on_after_the_idle_close(office: Office) -> None:
    async with opened(office, "idle", idle_seconds=5), session(office) as kept:
        for _ in range(2):
            await no_tunnel(office)
            await kept.typed()


async def test_a_session_goes_on_after_a_pause(office: Office) -> None:
    async with opened(office, "paused"), session(office) as kept:
        assert (await office.culvert("pause", "15m")).code == 0
        await no_tunnel(office)
        kept.near.sendall(b"typed in the pause")
        assert (await office.culvert("resume")).code == 0
        assert await asyncio.to_thread(kept.far.recv, 100) == b"typed in the pause"
        await kept.typed()


async def restart(office: Office, name: str) -> None:
    await office.joined.gateway.stop()
    gateway = await parts.start_gateway(office.lab, name)
    office.joined = dataclasses.replace(office.joined, gateway=gateway)
    await parts.gateway_online(office.joined.admin)


@pytest.mark.parametrize("first", ["laptop", "server"])
async def test_a_session_goes_on_after_the_gateways_restart(office: Office, first: str) -> None:
    async with opened(office, f"restart-{first}"), session(office) as kept:
        await restart(office, f"gateway-{first}")
        # A server that sends to a laptop that only listens, as mail servers do, reaches the laptop, too.
        await (kept.typed() if first == "laptop" else kept.pushed())
        await kept.typed()
        [before] = (await laptop.status(office.lab)).tunnels
        await watched_anew(office)
        await kept.typed()
        [tunnel] = (await laptop.status(office.lab)).tunnels
        assert (tunnel.state, tunnel.since_ms) == (local_pb2.TUNNEL_STATE_UP, before.since_ms)


async def watched_anew(office: Office) -> None:
    """The laptop was away from the network: the stream that begins hears once more of keys that were lost before."""

    def streams() -> int:
        return office.joined.controller.program.text().count("device watches")

    before = streams()
    while streams() == before:
        _ip("link set eth0 down")
        # A link that is back at once has not been missed.
        await asyncio.sleep(0.5)
        homes.plug_in()
        await asyncio.sleep(0.5)


async def test_a_session_goes_on_after_a_restart_of_the_daemon(office: Office) -> None:
    async with opened(office, "daemon"), session(office) as kept:
        await office.daemon.stop()
        office.daemon = await laptop.start_daemon(office.lab, f"culvertd-{secrets.token_hex(2)}")
        await kept.typed()


# ── sleep ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Sleeper:
    """The laptop, which can sleep: its daemon stops, its link is down, and its clocks disagree afterwards."""

    office: Office
    slept: float = 0.0

    def fall_asleep(self) -> None:
        os.kill(self.office.daemon.pid, signal.SIGSTOP)
        _ip("link set eth0 down")

    def wake_up(self, seconds: float) -> None:
        self.slept += seconds
        self.keep()
        homes.plug_in()
        os.kill(self.office.daemon.pid, signal.SIGCONT)

    def keep(self) -> None:
        (self.office.lab.run_directory(Site.LAPTOP) / "slept").write_text(str(self.slept))


@asynccontextmanager
async def drowsy(office: Office) -> AsyncGenerator[Sleeper]:
    await office.daemon.stop()
    sleeper = Sleeper(office)
    sleeper.keep()
    office.daemon = await _drowsy_daemon(office)
    try:
        yield sleeper
    finally:
        await office.daemon.stop()
        office.daemon = await laptop.start_daemon(office.lab, f"culvertd-{secrets.token_hex(2)}")


async def _drowsy_daemon(office: Office) -> Running:
    options = ["--state-dir", "/run/state", "--dns-upstream", net.DNS_ADDRESS]
    program = await office.lab.start(
        f"culvertd-{secrets.token_hex(2)}", Site.LAPTOP, [sys.executable, "-c", DROWSY, *options]
    )
    await program.ready(r"\bready\b")
    return program


async def test_a_session_goes_on_after_a_sleep_in_which_the_gateway_restarted(office: Office) -> None:
    async with drowsy(office) as sleeper, opened(office, "asleep"), session(office) as kept:
        sleeper.fall_asleep()
        await restart(office, "gateway-asleep")
        sleeper.wake_up(60.0)
        # Only the server sends, as when mail arrives.
        await kept.pushed()
        await kept.typed()


async def test_the_first_click_works_after_a_sleep_with_a_gateway_restart(office: Office) -> None:
    def click() -> int:
        """Segments that the first connection had to send again."""
        query = dns.message.make_query(fqdn, "A", use_edns=0)
        answer = dns.query.udp(query, "127.0.0.1", timeout=10.0)
        assert net.WIKI_ADDRESS in answer.to_text()
        with socket.create_connection((net.WIKI_ADDRESS, 80), PATIENCE) as page:
            raw = page.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        # linux/tcp.h, struct tcp_info: tcpi_total_retrans
        return int(struct.unpack_from("=I", raw, 100)[0])

    async with drowsy(office) as sleeper, opened(office, "click") as fqdn:
        sleeper.fall_asleep()
        await restart(office, "gateway-click")
        sleeper.wake_up(60.0)
        assert await office.lab.inside(Site.LAPTOP).run(click) == 0


# ── move ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_session_fails_at_once_when_another_gateway_has_taken_over(office: Office) -> None:
    """There the laptop has another address, so the session cannot go on."""
    other = await spare.start(office.lab, office.joined.admin)
    async with opened(office, "moves", gateways=[spare.NAME, parts.GATEWAY]):
        async with session(office) as kept:
            datagrams = await office.lab.inside(Site.LAPTOP).run(connected)
            await other.stop()
            for near in (kept.near, datagrams):
                with pytest.raises(ConnectionAbortedError):
                    await asyncio.to_thread(near.recv, 100)
            datagrams.close()
        # The program tries again.
        async with session(office) as kept:
            await kept.typed()


def connected() -> socket.socket:
    """A UDP socket."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.settimeout(PATIENCE)
    made.connect((net.WIKI_ADDRESS, PORT))
    return made


def _ip(arguments: str) -> None:
    subprocess.run(["ip", "-n", Site.LAPTOP.value, *arguments.split()], check=True, capture_output=True)


async def test_a_click_on_a_name_with_an_umlaut_goes_through(office: Office) -> None:
    name = "xn--bcher-kva.corp.example"
    await parts.create_resource(office.joined.admin, name="books", fqdn="Bücher.Corp.Example.")
    await parts.wait_published(office.lab, office.joined.bind, name)
    page = await laptop.open_page(office.lab, "http://BÜCHER.corp.example/")
    assert (page.status, page.error) == (200, "")
    assert name in [tunnel.fqdn for tunnel in (await laptop.status(office.lab)).tunnels]
    assert "bücher.corp.example" in (await office.culvert("status")).stdout
    closed = await office.culvert("close", "Bücher.corp.example.")
    assert closed.code == 0, closed.stderr
