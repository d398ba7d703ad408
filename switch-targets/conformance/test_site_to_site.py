"""Site to site: two gateways with the same tables, two hosts with the kernel's own IP stack.

hostA ── lan A wan ══════ ESP ══════ wan B lan ── hostB
10.20.0.10            198.51.100.2   198.51.100.3            10.30.0.10
fd00:20::10       2001:db8:100::2   2001:db8:100::3         fd00:30::10
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

import finsy as fy
import pytest
from gateway_authority import Authority
from gateway_entries import (
    KEK,
    LAN,
    WAN,
    ip,
    nexthop,
    own_address,
    policy,
    port_role,
    prefix,
    route,
    wrap_key,
)
from gateway_target import GRPC_PORT, Launch, Target, controller_options
from gateway_wires import PREFIX, Relay, connect, inside, namespaces, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

MTU = 1400  # inner
MASK = 2**128 - 1
PATIENCE = 10.0


@dataclass(frozen=True)
class Side:
    """A site. `outer` and the others: (IPv4, IPv6)."""

    name: str
    outer: tuple[str, str]
    lan: tuple[str, str]
    host: tuple[str, str]
    nets: tuple[str, str]
    wan_mac: str
    lan_mac: str
    host_mac: str

    @property
    def switch(self) -> str:
        return f"{PREFIX}-gw{self.name}"

    @property
    def machine(self) -> str:
        return f"{PREFIX}-host{self.name}"


def side(name: str, number: int, net: int) -> Side:
    return Side(
        name, (f"198.51.100.{number}", f"2001:db8:100::{number}"), (f"10.{net}.0.1", f"fd00:{net}::1"),
        (f"10.{net}.0.10", f"fd00:{net}::10"), (f"10.{net}.0.0/24", f"fd00:{net}::/64"), f"02:00:00:00:0{number}:01",
        f"02:00:00:00:0{number}:02", f"02:00:00:00:0{number}:10",
    )  # fmt: skip


A, B = side("a", 2, 20), side("b", 3, 30)


@dataclass(frozen=True)
class Keys:
    """A generation of the SAs between the sites."""

    number: int
    to: dict[str, bytes]

    def sa_in(self, at: Side) -> int:
        return 100 + self.number * 2

    def sa_out(self, at: Side) -> int:
        return 101 + self.number * 2

    def spi(self, at: Side) -> int:
        return 0x10000 + self.number * 2 + (at is B)


def generation(number: int) -> Keys:
    return Keys(number, {"a": os.urandom(36), "b": os.urandom(36)})


LIMITS = dict.fromkeys(
    ("soft_packets", "soft_bytes", "soft_seconds", "hard_packets", "hard_bytes", "hard_seconds"), 0
)


def other(at: Side) -> Side:
    return B if at is A else A


def site(at: Side, version: int) -> list[fy.P4TableEntry]:
    """Tables but for the tunnel. `version`: 0 for IPv4, 1 for IPv6 outside."""
    there = other(at)
    made = [
        port_role(1, 0, "set_wan", 1, at.wan_mac),
        port_role(2, 0, "set_lan", 2, at.lan_mac),
        nexthop(1, WAN, 1, 0, at.wan_mac, there.wan_mac),
        nexthop(2, LAN, 2, 0, at.lan_mac, at.host_mac),
        *[own_address(1, it) for it in at.outer],
        *[own_address(2, it) for it in at.lan],
        *[route(net, 2) for net in at.nets],
        route(f"{there.outer[version]}/{(32, 128)[version]}", 1),
    ]
    for interface in (0, 2):
        action = fy.Action("set_source", ipv4=int(ip_address(at.lan[0])), ipv6=ip(at.lan[1]))
        made.append(fy.P4TableEntry("icmp_source", match=fy.Match(interface_id=interface), action=action))
    return made


def net(network: str) -> tuple[int, int]:
    """A ternary match."""
    value, length = prefix(network)
    return value, MASK >> (128 - length) << (128 - length)


def inbound(at: Side, keys: Keys, version: int) -> list[fy.P4TableEntry]:
    action = fy.Action(
        "open", sa_id=keys.sa_in(at), slot=keys.number, suite=1, wrapped_key=wrap_key(keys.to[at.name]), esn=1,
        replay_window=1024, **LIMITS, endpoint=0, tag=0,
    )  # fmt: skip
    match = fy.Match(dst=ip(at.outer[version]), spi=keys.spi(at))
    made = [fy.P4TableEntry("sad_in", match=match, action=action)]
    for here, there in zip(at.nets, other(at).nets, strict=True):
        match = fy.Match(sa_id=keys.sa_in(at), src=net(there), dst=net(here))
        permit = fy.Action("permit", inner_mtu=MTU)
        made.append(fy.P4TableEntry("spd_in", match=match, priority=1, action=permit))
    return made


def sad_out(at: Side, keys: Keys, version: int) -> fy.P4TableEntry:
    there = other(at)
    action = fy.Action(
        "seal", slot=keys.number, suite=1, wrapped_key=wrap_key(keys.to[there.name]), spi=keys.spi(there), esn=1, **LIMITS,
        src=ip(at.outer[version]), dst=ip(there.outer[version]), sport=0, dport=0, endpoint=0, tag=0,
    )  # fmt: skip
    return fy.P4TableEntry("sad_out", match=fy.Match(sa_id=keys.sa_out(at)), action=action)


def spd_out(at: Side, keys: Keys) -> list[fy.P4TableEntry]:
    protect = fy.Action("protect", sa_id=keys.sa_out(at), inner_mtu=MTU)
    return [
        policy(LAN, protect, src=net(here), dst=net(there))
        for here, there in zip(at.nets, other(at).nets, strict=True)
    ]


@dataclass
class Sites:
    version: int
    switches: dict[str, fy.Switch]

    async def both(self, entries: Callable[[Side], list[fy.P4TableEntry]]) -> None:
        """`entries` of a side, inserted at both, one after the other."""
        for at in (A, B):
            await self.switches[at.name].insert(entries(at))

    async def drops(self) -> dict[str, dict[int, int]]:
        """The drops of each gateway, by cause."""
        found: dict[str, dict[int, int]] = {}
        for name, switch in self.switches.items():
            cells = [it async for it in cast(AsyncIterator[Any], switch.read([fy.P4CounterEntry("drops")]))]
            found[name] = {it.index: it.packet_count for it in cells if it.packet_count}
        return found

    async def rekey(self, old: Keys, new: Keys, drained: Callable[[], Awaitable[None]]) -> None:
        """Inbound on both, outbound on both, then the old ones go, once drained (RFC 9061 appendix D.2)."""
        await self.both(lambda at: inbound(at, new, self.version))
        await self.both(lambda at: [sad_out(at, new, self.version)])
        for at in (A, B):
            await self.switches[at.name].modify(spd_out(at, new))
        await drained()
        for at in (A, B):
            await self.switches[at.name].delete(
                [sad_out(at, old, self.version), *inbound(at, old, self.version)]
            )


@pytest.fixture(params=[0, 1], ids=["over4", "over6"])
async def sites(
    request: pytest.FixtureRequest, kind: type[Target], authority: Authority, tmp_path: Path
) -> AsyncIterator[Sites]:
    version: int = request.param
    targets: list[Target] = []
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(namespaces(A.switch, B.switch))
        stack.enter_context(namespaces(A.machine, B.machine, ipv6=True))
        connect((A.switch, "wan"), (B.switch, "wan"))
        switches: dict[str, fy.Switch] = {}
        for at in (A, B):
            connect((at.switch, "lan"), (at.machine, "eth0"))
            machine(at)
            folder = tmp_path / at.name
            folder.mkdir()
            targets.append(kind(Launch(at.switch, {1: "wan", 2: "lan"}, KEK, [], folder, authority)))
            stack.callback(targets[-1].stop)
            relay = Relay(GRPC_PORT, at.switch)
            stack.callback(relay.close)
            switch = fy.Switch(f"gateway-{at.name}", relay.address, controller_options(authority))
            switches[at.name] = await stack.enter_async_context(switch)
            await switch.insert(site(at, version))
        yield Sites(version, switches)
        assert all(it.alive() for it in targets)


def machine(at: Side) -> None:
    """A host that knows nothing of tunnels: an address, and the gateway as its default route."""
    host = ("ip", "-n", at.machine)
    run(*host, "link", "set", "eth0", "address", at.host_mac)
    for address, gateway, length in zip(at.host, at.lan, (24, 64), strict=True):
        run(
            *host,
            "address",
            "add",
            f"{address}/{length}",
            "dev",
            "eth0",
            *(["nodad"] if ":" in address else []),
        )
        run(*host, "route", "add", "default", "via", gateway)


async def ping(at: Side, address: str, *options: str) -> str:
    command = ("ip", "netns", "exec", at.machine, "ping", "-n", *options, address)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    return said.decode()


class Echoes:
    """Datagrams from A's host to B's and back, one at a time: no queue of any switch is full."""

    def __init__(self, asking: socket.socket, answering: socket.socket) -> None:
        self._asking, self._answering = asking, answering
        self._round, self._changed = 0, asyncio.Condition()

    @classmethod
    def between(cls, source: int, port: int) -> Echoes:
        """Echoes from A to B; `source` is the index of their addresses, `port` is free on both."""
        family = (socket.AF_INET, socket.AF_INET6)[source]

        def end(at: Side) -> socket.socket:
            made = socket.socket(family, socket.SOCK_DGRAM)
            made.setblocking(False)
            made.bind((at.host[source], port))
            made.connect((other(at).host[source], port))
            return made

        return cls(inside(A.machine, lambda: end(A)), inside(B.machine, lambda: end(B)))

    async def run(self) -> None:
        """Raises TimeoutError: a datagram was lost."""
        loop = asyncio.get_running_loop()
        with self._asking, self._answering:
            while True:
                sent = self._round.to_bytes(8)
                async with asyncio.timeout(PATIENCE):
                    for sender, receiver in (
                        (self._asking, self._answering),
                        (self._answering, self._asking),
                    ):
                        await loop.sock_sendall(sender, sent)
                        assert await loop.sock_recv(receiver, 100) == sent
                async with self._changed:
                    self._round += 1
                    self._changed.notify_all()

    async def drained(self) -> None:
        """Wait until the packets that are on their way now have arrived."""
        async with self._changed:
            last = self._round
            await self._changed.wait_for(lambda: self._round > last)


def transfer(source: Side, sink: Side, address: str, size: int) -> bool:
    """TCP from one host to the other; whether every byte came."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    data = os.urandom(size)

    def server() -> socket.socket:
        listener = socket.create_server((address, 7000), family=family)
        listener.settimeout(30)
        return listener

    def client() -> socket.socket:
        return socket.create_connection((address, 7000), timeout=30)

    received = hashlib.sha256()
    with inside(sink.machine, server) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            connection.settimeout(30)
            with connection:
                while chunk := connection.recv(65536):
                    received.update(chunk)

        thread = threading.Thread(target=serve)
        thread.start()
        with inside(source.machine, client) as connection:
            connection.sendall(data)
        thread.join()
    return received.digest() == hashlib.sha256(data).digest()


async def test_hosts_talk(sites: Sites) -> None:
    """ping and TCP, both ways, both versions: the hosts find their gateway by ARP and ND, and their MSS is cut."""
    keys = generation(1)
    await sites.both(lambda at: inbound(at, keys, sites.version))
    await sites.both(lambda at: [sad_out(at, keys, sites.version)])
    await sites.both(lambda at: spd_out(at, keys))
    for at in (A, B):
        for address in other(at).host:
            # One ping of three packets would wait for the last one twice as long as for the slowest before.
            for _ in range(3):
                said = await ping(at, address, "-c", "1", "-W", "2")
                assert "1 received" in said, (said, await sites.drops())
            done = await asyncio.to_thread(transfer, at, other(at), address, 1 << 20)
            assert done, address


async def test_path_mtu_is_discovered(sites: Sites) -> None:
    """A datagram that does not fit is answered with the tunnel's MTU, and the kernel believes it."""
    keys = generation(1)
    await sites.both(lambda at: inbound(at, keys, sites.version))
    await sites.both(lambda at: [sad_out(at, keys, sites.version)])
    await sites.both(lambda at: spd_out(at, keys))
    for address, overhead in zip(B.host, (28, 48), strict=True):
        size = str(1500 - overhead)
        said = await ping(A, address, "-M", "do", "-c", "1", "-W", "1", "-s", size)
        assert re.search(rf"mtu ?= ?{MTU}", said), said
        learnt = run("ip", "-n", A.machine, "route", "get", address)
        assert f"mtu {MTU}" in learnt
        fits = await ping(A, address, "-M", "do", "-c", "1", "-W", "2", "-s", str(MTU - overhead))
        assert "1 received" in fits, fits


async def test_pitfall_12_rekeying_loses_nothing(sites: Sites) -> None:
    old = generation(1)
    await sites.both(lambda at: inbound(at, old, sites.version))
    await sites.both(lambda at: [sad_out(at, old, sites.version)])
    await sites.both(lambda at: spd_out(at, old))
    echoes = [Echoes.between(version, 7000 + number) for version in (0, 1) for number in range(4)]

    async def drained() -> None:
        for flow in echoes:
            await flow.drained()

    async with asyncio.TaskGroup() as group:
        flows = [group.create_task(it.run()) for it in echoes]
        for _ in range(10):
            await drained()
            new = generation(old.number % 8 + 1)
            await sites.rekey(old, new, drained)
            old = new
        await drained()
        for flow in flows:
            flow.cancel()
