"""Clicks at a controller under attack and, alternating with them, at a second controller without an attack.

  strangers  IDLE connections to the REST port from as many addresses, a thousand of them renewed each second; and SENDERS
             addresses that send bodies of 64 MiB again and again, as fast as the controller accepts them
  device     NOISE calls at once from one device, each repeated when it is answered, on CONNECTIONS connections

Strangers' addresses are on loopback, in 127.1.0.0/16 to 127.3.0.0/16. A click is one OpenTunnel call, until its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import ssl
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "switch-targets/conformance"))

import grpc.aio
from controller_rig import Client, Place, Rig, in_a_namespace, rig
from figures import Figure, percentile

NAMES = ("flood_click_ratio", "flood_rss_mib", "noisy_device_ratio")
IDLE = 10_000
SENDERS = 16
ALONE = 10
ROUNDS = 30
NOISE = 64
CONNECTIONS = 8
_BODY = b"POST /api/v1/session HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 67108864\r\n\r\n"


async def measure(names: Sequence[str]) -> list[Figure]:
    """Measures the figures in `names`. Raises RuntimeError, CalledProcessError."""
    found = await asyncio.to_thread(in_a_namespace, __file__, "flood", 2)

    def ratio(name: str, kind: str) -> Figure:
        beside, alone = found[f"{kind}_ms"], found[f"{kind}_alone_ms"]
        return Figure(name, beside / alone, f"{beside:.1f} over {alone:.1f} ms", "left alone", 1.0)

    figures = [
        ratio("flood_click_ratio", "flood"),
        Figure("flood_rss_mib", found["rss_mib"], "MiB", "left alone", found["alone_mib"]),
        ratio("noisy_device_ratio", "noisy"),
    ]
    return [figure for figure in figures if figure.name in names]


async def _all() -> dict[str, float]:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    async with rig(0, calls_per_second=20) as attacked, rig(1, calls_per_second=20) as alone:
        # A device may make ten seconds' worth of calls at once, so several devices share the clicks.
        devices = [*await attacked.devices(ALONE), *await alone.devices(ALONE)]
        for device in devices:
            await device.open(0)
        async with _strangers():
            flood_ms, flood_alone_ms = await _click_ms(devices[:ALONE], devices[ALONE:], 1)
            rss_mib, alone_mib = attacked.rss_mib(), alone.rss_mib()
        async with _noise(attacked):
            noisy_ms, noisy_alone_ms = await _click_ms(devices[:ALONE], devices[ALONE:], 1 + ROUNDS)
        for device in devices:
            await device.close()
    return {
        "flood_ms": flood_ms,
        "flood_alone_ms": flood_alone_ms,
        "rss_mib": rss_mib,
        "alone_mib": alone_mib,
        "noisy_ms": noisy_ms,
        "noisy_alone_ms": noisy_alone_ms,
    }


async def _click_ms(attacked: Sequence[Client], alone: Sequence[Client], first: int) -> list[float]:
    """The median click at each of the two controllers, over ROUNDS clicks of each device."""
    clicks: list[list[float]] = [[], []]
    for number in range(first, first + ROUNDS):
        for pair in zip(attacked, alone, strict=True):
            for device, found in zip(pair, clicks, strict=True):
                began = time.perf_counter()
                await device.open(number)
                found.append((time.perf_counter() - began) * 1000)
    return [percentile(found, 0.50) for found in clicks]


@asynccontextmanager
async def _strangers() -> AsyncGenerator[None]:
    host, _, port = Place(0).rest.partition(":")
    held: list[socket.socket] = []
    for number in range(IDLE):
        one = socket.socket()
        one.setblocking(False)
        one.bind((f"127.1.{number // 250}.{1 + number % 250}", 0))
        with contextlib.suppress(BlockingIOError, OSError):
            one.connect((host, int(port)))
        held.append(one)
        if number % 100 == 0:
            await asyncio.sleep(0.01)
    tasks = [asyncio.create_task(_send(host, int(port), number)) for number in range(SENDERS)]
    tasks.append(asyncio.create_task(_renew(held, (host, int(port)))))
    await asyncio.sleep(2)
    try:
        yield
    finally:
        await _ended(tasks)
        for one in held:
            one.close()


async def _renew(held: list[socket.socket], at: tuple[str, int]) -> None:
    """Replaces the oldest connection by a new one, a thousand times a second."""
    number = 0
    while True:
        for _ in range(10):
            held[number].close()
            held[number] = one = socket.socket()
            one.setblocking(False)
            one.bind((f"127.2.{number // 250}.{1 + number % 250}", 0))
            with contextlib.suppress(BlockingIOError, OSError):
                one.connect(at)
            number = (number + 1) % len(held)
        await asyncio.sleep(0.01)


async def _send(host: str, port: int, number: int) -> None:
    """Sends the same request with a long body again and again, from one address."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    local = (f"127.3.0.{1 + number}", 0)
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls, local_addr=local)
            try:
                writer.write(_BODY + bytes(64 << 10))
                # Python 3.11's wait_for() can lose a cancellation.
                async with asyncio.timeout(5):
                    await reader.read(1 << 16)
            finally:
                writer.close()
        await asyncio.sleep(0.02)


@asynccontextmanager
async def _noise(attacked: Rig) -> AsyncGenerator[None]:
    loud = (await attacked.devices(1))[0]
    connections = [loud, *(loud.again() for _ in range(CONNECTIONS - 1))]

    async def call(one: Client) -> None:
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await one.open(0)

    tasks = [asyncio.create_task(call(connections[number % CONNECTIONS])) for number in range(NOISE)]
    # Waits until the device has used up its burst of calls.
    await asyncio.sleep(5)
    try:
        yield
    finally:
        await _ended(tasks)
        for one in connections:
            await one.close()


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_all())))
