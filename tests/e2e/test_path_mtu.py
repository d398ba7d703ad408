"""A line between laptop and gateway that lets through shorter packets than Ethernet: DSL, a tunnel, the least of IPv6.

laptop ──1500── router ──MTU── gateway, and back. The router says so by ICMP, which nothing here believes.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from culvert_lab import laptop, parts
from culvert_lab import topology as net
from culvert_lab.office import Office
from culvert_lab.topology import Site

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

PORT = 9997
PATIENCE = 20.0
MEGABYTE = 1 << 20
PAGE = 3000
_SIDES = (("198.51.100.0/24", "gateway"), ("203.0.113.0/24", "laptop"))


@asynccontextmanager
async def line(office: Office, mtu: int) -> AsyncGenerator[None]:
    """As long as the context lasts, the router forwards no longer packet, in either direction."""
    await _routes(office, "mtu", "lock", str(mtu))
    try:
        yield
    finally:
        await _routes(office)


async def _routes(office: Office, *metrics: str) -> None:
    for prefix, device in _SIDES:
        argv = ["ip", "route", "replace", prefix, "dev", device, "proto", "kernel", "scope", "link"]
        argv += ["src", net.LAPTOP_ROUTER if device == "laptop" else "198.51.100.1", *metrics]
        await office.lab.run(Site.INTERNET, argv)


@asynccontextmanager
async def served(
    office: Office, serve: Callable[[threading.Event, threading.Event], None]
) -> AsyncGenerator[None]:
    """`serve` runs in the intranet; its first event says that it listens, its second that it is over."""
    listens, over = threading.Event(), threading.Event()
    serving = asyncio.create_task(office.lab.inside(Site.INTRANET).run(serve, listens, over))
    await asyncio.to_thread(listens.wait, PATIENCE)
    try:
        yield
    finally:
        over.set()
        await serving


def _tcp(listens: threading.Event, over: threading.Event) -> None:
    """Takes a length, takes so many bytes, and sends them back."""
    with socket.create_server((net.WIKI_ADDRESS, PORT)) as server:
        server.settimeout(0.1)
        listens.set()
        while not over.is_set():
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(PATIENCE)
                    (length,) = struct.unpack("!I", _exactly(connection, 4))
                    connection.sendall(_exactly(connection, length))


def _exactly(end: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        part = end.recv(min(length - len(found), 1 << 16))
        if not part:
            raise ConnectionError
        found += part
    return bytes(found)


def _exchange(length: int) -> bool:
    """Up and down."""
    data = (b"0123456789abcdef" * (length // 16 + 1))[:length]
    with socket.create_connection((net.WIKI_ADDRESS, PORT), PATIENCE) as end:
        end.settimeout(PATIENCE)
        end.sendall(struct.pack("!I", length) + data)
        return _exactly(end, length) == data


def _udp(listens: threading.Event, over: threading.Event) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((net.WIKI_ADDRESS, PORT))
        server.settimeout(0.1)
        listens.set()
        while not over.is_set():
            # A datagram that was too long is told with the next call.
            with suppress(OSError):
                data, asker = server.recvfrom(1 << 16)
                server.sendto(data, asker)


def _echoed(length: int) -> int:
    """How many datagrams were sent until one came back."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.settimeout(0.5)
        end.connect((net.WIKI_ADDRESS, PORT))
        for count in range(1, 10):
            with suppress(OSError):
                end.send(bytes([count]) * length)
                while (answer := end.recv(1 << 16)) != bytes([count]) * length:
                    assert answer
                return count
    raise TimeoutError(length)


async def _mtu_here(office: Office) -> int:
    """Of a packet to the wiki, as programs are told."""
    found = await office.lab.run(Site.LAPTOP, ["ip", "-json", "route", "get", net.WIKI_ADDRESS])
    (route,) = json.loads(found.stdout)
    device = await office.lab.run(Site.LAPTOP, ["ip", "-json", "link", "show", route["dev"]])
    for metrics in route.get("metrics", []):
        if "mtu" in metrics:
            return int(metrics["mtu"])
    return int(json.loads(device.stdout)[0]["mtu"])


async def _mtu_there(office: Office) -> int:
    """Of a packet to the laptop, as the gateway's policy says."""
    entries = (await office.joined.admin.get(f"/gateways/{parts.GATEWAY}/entries"))["entries"]
    protected = [it["params"] for it in entries if it["table"] == "spd_out" and it["params"].get("sa_id")]
    return max((int(it["inner_mtu"]) for it in protected), default=0)


async def _until(office: Office, mtu: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await _mtu_here(office), await _mtu_there(office)) != (mtu, mtu):
            # A tunnel that is not used would be closed.
            assert (await office.fetch()).code == 0


@pytest.mark.parametrize(("mtu", "inner"), [(1492, 1430), (1400, 1338), (1280, 1218)])
async def test_pages_transfers_and_datagrams_pass_a_narrow_line(office: Office, mtu: int, inner: int) -> None:
    try:
        async with line(office, mtu):
            # One that knows nothing of its paths.
            await _restart(office)
            page = await office.lab.run(Site.LAPTOP, _page(PAGE), seconds=15.0)
            assert (page.code, page.stdout) == (0, str(PAGE)), page.stderr
            await _until(office, inner)
            async with served(office, _tcp):
                assert await office.lab.inside(Site.LAPTOP).run(_exchange, MEGABYTE)
            async with served(office, _udp):
                for length in (100, 1200, 1400, 3000):
                    await office.lab.inside(Site.LAPTOP).run(_echoed, length)
            found = await office.culvert("doctor", "--json")
            assert [it for it in json.loads(found.stdout) if not it["good"]] == []
    finally:
        await _restart(office)


async def _restart(office: Office) -> None:
    await office.daemon.stop()
    office.daemon = await laptop.start_daemon(office.lab, f"culvertd-{time.monotonic_ns()}")


def _page(length: int) -> list[str]:
    url = f"http://{net.WIKI_NAME}/download?bytes={length}"
    return [
        "curl",
        "-sS",
        "--max-time",
        "10",
        "--output",
        "/dev/null",
        "--write-out",
        "%{size_download}",
        url,
    ]
