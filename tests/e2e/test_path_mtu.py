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
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
import pytest_asyncio
from culvert_lab import laptop, parts, spare
from culvert_lab import topology as net
from culvert_lab.mobile import DNS64, mobile, only_mobile
from culvert_lab.office import Office, open_office
from culvert_lab.topology import Site

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

PORT = 9997
REFUSED = 3
PATIENCE = 20.0
MEGABYTE = 1 << 20
PAGE = 3000
_SIDES = (("198.51.100.0/24", "gateway"), ("203.0.113.0/24", "laptop"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office() -> AsyncGenerator[Office]:
    """With IPv6 inside, too."""
    prefixes = f"{net.PROTECTED_PREFIX},{spare.PREFIX6}"
    async with open_office(settings={"CULVERT_PROTECTED_PREFIXES": prefixes}) as office:
        yield office


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def six(office: Office) -> str:
    """A name with an IPv6 address alone."""
    await spare.start(office.lab, office.joined.admin)
    return await spare.six(office.joined.admin)


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


def _tcp(address: str, listens: threading.Event, over: threading.Event) -> None:
    """Takes a length, takes so many bytes, and sends them back."""
    with socket.create_server((address, PORT), family=_family(address)) as server:
        server.settimeout(0.1)
        listens.set()
        while not over.is_set():
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(PATIENCE)
                    (length,) = struct.unpack("!I", _exactly(connection, 4))
                    connection.sendall(_exactly(connection, length))


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _exactly(end: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        part = end.recv(min(length - len(found), 1 << 16))
        if not part:
            raise ConnectionError
        found += part
    return bytes(found)


def _exchange(address: str, length: int) -> bool:
    """Up and down."""
    data = (b"0123456789abcdef" * (length // 16 + 1))[:length]
    with socket.create_connection((address, PORT), PATIENCE) as end:
        end.settimeout(PATIENCE)
        end.sendall(struct.pack("!I", length) + data)
        return _exactly(end, length) == data


def _udp(address: str, listens: threading.Event, over: threading.Event) -> None:
    with socket.socket(_family(address), socket.SOCK_DGRAM) as server:
        server.bind((address, PORT))
        server.settimeout(0.1)
        listens.set()
        while not over.is_set():
            # A datagram that was too long is told with the next call.
            with suppress(OSError):
                data, asker = server.recvfrom(1 << 16)
                server.sendto(data, asker)


def _echoed(address: str, length: int) -> int:
    """The number of datagrams sent until one came back."""
    with socket.socket(_family(address), socket.SOCK_DGRAM) as end:
        end.settimeout(0.5)
        end.connect((address, PORT))
        for count in range(1, 10):
            with suppress(OSError):
                end.send(bytes([count]) * length)
                while (answer := end.recv(1 << 16)) != bytes([count]) * length:
                    assert answer
                return count
    raise TimeoutError(length)


async def _mtu_here(office: Office) -> int:
    """The MTU of a packet to the wiki, as programs see it."""
    found = await office.lab.run(Site.LAPTOP, ["ip", "-json", "route", "get", net.WIKI_ADDRESS])
    (route,) = json.loads(found.stdout)
    device = await office.lab.run(Site.LAPTOP, ["ip", "-json", "link", "show", route["dev"]])
    for metrics in route.get("metrics", []):
        if "mtu" in metrics:
            return int(metrics["mtu"])
    return int(json.loads(device.stdout)[0]["mtu"])


async def _mtu_there(office: Office) -> int:
    """The MTU of a packet to the laptop, by the gateway's policy."""
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
            # A client that knows nothing of its paths.
            await _restart(office)
            page = await office.lab.run(Site.LAPTOP, _page(PAGE), seconds=15.0)
            assert (page.code, page.stdout) == (0, str(PAGE)), page.stderr
            await _until(office, inner)
            async with served(office, partial(_tcp, net.WIKI_ADDRESS)):
                assert await office.lab.inside(Site.LAPTOP).run(_exchange, net.WIKI_ADDRESS, MEGABYTE)
            async with served(office, partial(_udp, net.WIKI_ADDRESS)):
                for length in (100, 1200, 1400, 3000):
                    await office.lab.inside(Site.LAPTOP).run(_echoed, net.WIKI_ADDRESS, length)
            found = await office.culvert("doctor", "--json")
            assert [it for it in json.loads(found.stdout) if not it["good"]] == []
    finally:
        await _restart(office)


async def test_long_datagrams_pass_to_a_resource_with_ports(office: Office) -> None:
    """In fragments, of which the first alone has ports."""
    name = f"radius.{net.ZONE}"
    target = {"prefix": net.WIKI_ADDRESS, "protocol": "udp", "ports": [PORT]}
    resource: dict[str, object] = {"name": "radius", "fqdn": name, "targets": [target]}
    resource |= {"gateways": [parts.GATEWAY], "users": ["alice"], "owner": f"bob@{net.ZONE}"}
    await _restart(office)
    await office.joined.admin.post("/resources", resource)
    try:
        assert (await office.culvert("open", name)).code == 0
        async with served(office, partial(_udp, net.WIKI_ADDRESS)):
            for length in (1200, 3000, 30_000):
                await office.lab.inside(Site.LAPTOP).run(_echoed, net.WIKI_ADDRESS, length)
    finally:
        await office.joined.admin.delete("/resources/radius")
        await _restart(office)


@pytest.mark.parametrize(("mtu", "lengths"), [(1400, (100, 1200, 1400, 3000)), (1280, (100,))])
async def test_ipv6_in_a_tunnel_passes_a_narrow_line(
    office: Office, six: str, mtu: int, lengths: Sequence[int]
) -> None:
    """On a line of 1,280, less than IPv6 needs is left for datagrams; TCP passes."""
    try:
        async with line(office, mtu):
            await _restart(office)
            assert (await office.culvert("open", six)).code == 0
            async with served(office, partial(_tcp, spare.WIKI_ADDRESS6)):
                assert await office.lab.inside(Site.LAPTOP).run(_exchange, spare.WIKI_ADDRESS6, MEGABYTE)
            async with served(office, partial(_udp, spare.WIKI_ADDRESS6)):
                for length in lengths:
                    await office.lab.inside(Site.LAPTOP).run(_echoed, spare.WIKI_ADDRESS6, length)
    finally:
        await _restart(office)


async def test_transfers_pass_a_narrow_network_that_has_ipv6_alone(office: Office) -> None:
    """The network's NAT64 answers no ping."""
    await office.daemon.stop()
    try:
        async with mobile(office.lab, mtu=1300):
            office.daemon = await laptop.start_daemon(office.lab, "culvertd-narrow", upstream=f"[{DNS64}]:53")
            assert (await office.fetch()).code == 0
            with only_mobile():
                assert (await office.culvert("open", net.WIKI_NAME)).code == 0
                page = await office.lab.run(Site.LAPTOP, _page(PAGE), seconds=30.0)
                assert (page.code, page.stdout) == (0, str(PAGE)), page.stderr
                async with served(office, partial(_tcp, net.WIKI_ADDRESS)):
                    assert await office.lab.inside(Site.LAPTOP).run(_exchange, net.WIKI_ADDRESS, MEGABYTE)
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


async def test_a_line_for_small_packets_alone_is_told_and_never_called_open(office: Office) -> None:
    try:
        async with line(office, 1000):
            await _restart(office)
            async with asyncio.timeout(PATIENCE):
                while (opened := await office.culvert("open", net.WIKI_NAME)).code == 0:  # noqa: ASYNC110  nothing tells of it
                    await asyncio.sleep(0.1)
            assert opened.code == REFUSED
            told = f"Only small packets pass between here and the gateway {parts.GATEWAY}"
            assert told in opened.stderr
            status = (await office.culvert("status")).stdout
            assert "● Only small packets reach the gateway" in status
            assert "Connected" not in status
            found = json.loads((await office.culvert("doctor", "--json")).stdout)
            assert any(told in it["what"] for it in found if it["hop"] == "gateway")
    finally:
        await _restart(office)
    assert (await office.culvert("open", net.WIKI_NAME)).code == 0


async def test_pages_and_transfers_pass_a_narrow_line_that_answers_no_ping(office: Office) -> None:
    silent = "add table inet deaf; add chain inet deaf forward { type filter hook forward priority 0; }; "
    silent += "add rule inet deaf forward meta l4proto icmp drop"
    try:
        async with line(office, 1280):
            await office.lab.run(Site.INTERNET, ["nft", silent])
            await _restart(office)
            page = await office.lab.run(Site.LAPTOP, _page(PAGE), seconds=30.0)
            assert (page.code, page.stdout) == (0, str(PAGE)), page.stderr
            # Three rounds of probes without an answer.
            async with asyncio.timeout(PATIENCE):
                while await _mtu_here(office) != 1338:
                    assert (await office.fetch()).code == 0
            assert await _mtu_there(office) == 1218
            async with served(office, partial(_tcp, net.WIKI_ADDRESS)):
                assert await office.lab.inside(Site.LAPTOP).run(_exchange, net.WIKI_ADDRESS, MEGABYTE)
    finally:
        await office.lab.run(Site.INTERNET, ["nft", "delete table inet deaf"])
        await _restart(office)


async def test_a_download_goes_on_when_the_line_becomes_narrow(office: Office) -> None:
    assert (await office.fetch()).code == 0
    await _until(office, 1438)
    got: list[int] = []
    stop = threading.Event()
    try:
        async with served(office, _endless):
            receiving = asyncio.create_task(office.lab.inside(Site.LAPTOP).run(_receive, got, stop))
            try:
                await _grows(got)
                async with line(office, 1400):
                    await asyncio.sleep(0.5)
                    await _grows(got)
                    await _until(office, 1338)
                    await _grows(got)
            finally:
                stop.set()
                await receiving
    finally:
        await _restart(office)


def _endless(listens: threading.Event, over: threading.Event) -> None:
    with socket.create_server((net.WIKI_ADDRESS, PORT)) as server:
        server.settimeout(PATIENCE)
        listens.set()
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.settimeout(PATIENCE)
            while not over.wait(0.01):
                connection.sendall(bytes(1 << 14))


def _receive(got: list[int], stop: threading.Event) -> None:
    with socket.create_connection((net.WIKI_ADDRESS, PORT), PATIENCE) as end:
        end.settimeout(PATIENCE)
        while not stop.is_set():
            got.append(len(end.recv(1 << 16)))


async def _grows(got: list[int]) -> None:
    """By more than was on its way."""
    before = sum(got)
    async with asyncio.timeout(PATIENCE):
        while sum(got) < before + MEGABYTE:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_forged_icmp_does_not_change_the_mtu(office: Office) -> None:
    assert (await office.fetch()).code == 0
    await _until(office, 1438)
    stop = threading.Event()
    forging = asyncio.create_task(office.lab.inside(Site.INTERNET).run(_forge, stop))
    try:
        async with served(office, partial(_tcp, net.WIKI_ADDRESS)):
            assert await office.lab.inside(Site.LAPTOP).run(_exchange, net.WIKI_ADDRESS, 4 * MEGABYTE)
        # The laptop's kernel believes it.
        believed = await office.lab.run(Site.LAPTOP, ["ip", "route", "get", net.GATEWAY_ADDRESS])
        assert "mtu 576" in believed.stdout
        assert (await _mtu_here(office), await _mtu_there(office)) == (1438, 1438)
    finally:
        stop.set()
        await forging


def _forge(stop: threading.Event) -> None:
    """ "Fragmentation needed" about ESP from the laptop to the gateway (RFC 1191 section 4), from the router's side."""
    quoted = struct.pack(
        "!BBHHHBBH4s4s", 0x45, 0, 1500, 0, 0x4000, 63, 17, 0,
        socket.inet_aton(net.LAPTOP_ADDRESS), socket.inet_aton(net.GATEWAY_ADDRESS),
    )  # fmt: skip
    quoted += struct.pack("!HHHH", net.ESP_PORT, net.ESP_PORT, 1480, 0)
    unsummed = struct.pack("!BBHHH", 3, 4, 0, 0, 576) + quoted
    total = sum(struct.unpack(f"!{len(unsummed) // 2}H", unsummed))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    message = unsummed[:2] + struct.pack("!H", ~total & 0xFFFF) + unsummed[4:]
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        while not stop.wait(0.02):
            raw.sendto(message, (net.LAPTOP_ADDRESS, 0))
