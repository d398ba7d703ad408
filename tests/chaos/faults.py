"""Faults that the seed draws, each with a beginning and an end; which part is struck, and which reasons it makes true.

kill -9 │ SIGSTOP │ full disk │ clock ±1 h │ packet loss │ reordering │ Postgres fail-over │ a certificate that ends
"""

from __future__ import annotations

import asyncio
import fcntl
import heapq
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from culvert_lab.lab import Lab
from culvert_lab.netns import Inside
from culvert_lab.topology import Site
from pyroute2 import IPRoute

from . import certificates
from .cluster import BUNDLES, CONTROLLERS, DISKS, GATEWAYS, Cluster, disk
from .postgres import KEEPERS

_HERE = Path(__file__).parent
_LIBRARY = _HERE.parents[1] / "build/chaos/clock.so"
_HOUR_NS = 3600 * 10**9
# linux/if_tun.h
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
# Longer than Patroni's ttl.
_LEADER_SECONDS = 25.0
_REORDER, _TABLE, _MOST_SECONDS = "reorder", 41, 0.03

_ENDS, _ENDED = "that ends", "that has ended"

# The computers with a clock of their own, and their network.
CLOCKS = {
    **dict.fromkeys((*CONTROLLERS, "pg-1", "pg-2", "updater"), Site.CONTROLLER),
    **dict.fromkeys(GATEWAYS, Site.GATEWAY),
    **dict.fromkeys(("bind-1", "bind-2"), Site.DNS),
    "laptop": Site.LAPTOP,
}
DATABASE = ("etcd", "patroni-1", "patroni-2", "haproxy", "pg-1", "pg-2")
PROCESSES = (*DATABASE, *CONTROLLERS, *GATEWAYS, "bind-1", "bind-2", "dns-updater", "culvertd")
# A wire's end: the network, the interface, and a match of its packets.
WIRES = {
    "laptop": (Site.INTERNET, "laptop", ""),
    "devices": (Site.INTERNET, "devices", ""),
    "gateways": (Site.INTERNET, "gateway", ""),
    "controllers": (Site.INTERNET, "controller", ""),
    "names": (Site.INTERNET, "dns", ""),
    "P4Runtime": (Site.CONTROLLER, "mgmt", ""),
    "intranet": (Site.INTRANET, "eth0", ""),
    "database": (Site.CONTROLLER, "lo", "tcp dport { 5432, 5433 }"),
}
# Those that the router forwards between, with what is behind them.
_ROUTED = {
    "laptop": ("laptop", "203.0.113.0/24"),
    "devices": ("devices", "203.0.114.0/24"),
    "gateways": ("gateway", "198.51.100.0/24"),
    "controllers": ("services", "192.0.2.0/24"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """`kind` and `target` name it in the report; it lasts `seconds`."""

    kind: str
    target: str
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind} {self.target}"


def draw(dice: random.Random) -> Fault:
    """Any kind, then any part of it."""
    seconds = dice.uniform(4, 12)
    match dice.choice(
        ("kill", "kill", "stop", "stop", "disk", "clock", "loss", "reorder", "fail-over", "certificate")
    ):
        case "kill":
            return Fault("kill", dice.choice(PROCESSES))
        case "stop":
            return Fault("stop", dice.choice(PROCESSES), seconds)
        case "disk":
            return Fault("disk", dice.choice(list(DISKS)), seconds)
        case "clock":
            sign = dice.choice("+-")
            return Fault(f"clock {sign}1 h", dice.choice(list(CLOCKS)), seconds)
        case "loss":
            return Fault("loss", dice.choice(list(WIRES)), seconds)
        case "reorder":
            return Fault("reorder", dice.choice(list(_ROUTED)), seconds)
        case "certificate":
            # Seconds that it is still good, or that the gateway has none that is.
            lasts = {_ENDS: 20.0, _ENDED: 1.0, **dict.fromkeys(GATEWAYS, 10.0)}
            target = dice.choice(list(lasts))
            return Fault("certificate", target, lasts[target])
        case _:
            return Fault("fail-over", dice.choice(("switchover", "crash")))


async def strike(cluster: Cluster, fault: Fault, dice: random.Random) -> None:
    """Begins the fault, and returns when it has ended; its effects may last longer."""
    match fault.kind:
        case "kill":
            await _signal(cluster, fault.target, signal.SIGKILL)
        case "stop":
            await _signal(cluster, fault.target, signal.SIGSTOP)
            await asyncio.sleep(fault.seconds)
            await _signal(cluster, fault.target, signal.SIGCONT)
        case "certificate":
            await _end_certificate(cluster, fault)
        case "fail-over":
            primary = await cluster.postgres.primary() or "pg-1"
            if fault.target == "switchover":
                await cluster.postgres.switch_over()
            else:
                # As of a computer that is gone: Patroni does not start it again before another has its place.
                keeper = KEEPERS[primary]
                await _signal(cluster, keeper, signal.SIGSTOP)
                await _signal(cluster, primary, signal.SIGKILL)
                await asyncio.sleep(_LEADER_SECONDS)
                await _signal(cluster, keeper, signal.SIGCONT)
        case _:
            async with _lasting(cluster.lab, fault, dice):
                await asyncio.sleep(fault.seconds)


async def _end_certificate(cluster: Cluster, fault: Fault) -> None:
    controller = cluster.lab.run_directory(Site.CONTROLLER) / "controller"
    if fault.target in GATEWAYS:
        bundle = cluster.lab.run_directory(Site.GATEWAY) / BUNDLES[fault.target]
        async with certificates.gateways_ended(controller, bundle, fault.target):
            # The next owner has to connect.
            owner = (await cluster.ask(f"/gateways/{fault.target}"))["owner"]
            if owner in CONTROLLERS:
                await _signal(cluster, owner, signal.SIGKILL)
            await asyncio.sleep(fault.seconds)
            found = await cluster.ask(f"/gateways/{fault.target}")
            assert found["state"] == "online" or "expired" in found["reason"], found
        return
    state = disk(cluster.lab, "laptop")
    await cluster.postgres.query(certificates.shorten_laptops(controller, state, fault.seconds))
    await _signal(cluster, "culvertd", signal.SIGKILL)
    if fault.target == _ENDED:
        # culvertd comes back and finds out; then the person has to type a code.
        await asyncio.sleep(10)
        await cluster.prove_laptop()


def _lasting(lab: Lab, fault: Fault, dice: random.Random) -> AbstractAsyncContextManager[None]:
    match fault.kind:
        case "disk":
            return _full(disk(lab, fault.target))
        case "loss":
            return _loss(lab, fault.target, dice.randint(5, 40))
        case "reorder":
            return _reordering(fault.target, dice.random())
        case _:
            return _jump(lab, fault.target, _HOUR_NS if "+" in fault.kind else -_HOUR_NS)


async def _signal(cluster: Cluster, name: str, number: signal.Signals) -> None:
    """To the part; a Postgres that is stopped, or goes on, is stopped with its backends."""
    for pid in cluster.processes(name):
        family = [pid]
        if name.startswith("pg") and number is not signal.SIGKILL:
            family += _children(pid)
        for each in family:
            with suppress(ProcessLookupError):
                os.kill(each, number)


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return []


# --- Disks ---


@asynccontextmanager
async def _full(place: Path) -> AsyncGenerator[None]:
    filling = place / "filling"
    with filling.open("wb") as out, suppress(OSError):
        while True:
            out.write(bytes(1 << 20))
            out.flush()
    try:
        yield
    finally:
        filling.unlink()


# --- Clocks ---


def lay_clocks(lab: Lab) -> None:
    """Each computer's clock, right."""
    _LIBRARY.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", str(_LIBRARY)]
    subprocess.run([*command, str(_HERE / "clock.c"), "-ldl"], check=True)
    for name, site in CLOCKS.items():
        directory = lab.run_directory(site) / "clock"
        directory.mkdir(exist_ok=True)
        shutil.copy(_LIBRARY, directory / "clock.so")
        (directory / name).write_bytes(bytes(8))


def clock(name: str) -> Mapping[str, str]:
    """Environment of the programs on that computer."""
    environment = {"LD_PRELOAD": "/run/clock/clock.so", "CHAOS_CLOCK": f"/run/clock/{name}"}
    if name.startswith("pg-"):
        # Patroni sleeps for as long as its clock is set back, with a leader's lock that ends (its issue 3560).
        environment["CHAOS_CLOCK_OF"] = "postgres"
    return environment


@asynccontextmanager
async def _jump(lab: Lab, name: str, nanoseconds: int) -> AsyncGenerator[None]:
    file = lab.run_directory(CLOCKS[name]) / "clock" / name
    _set(file, nanoseconds)
    try:
        yield
    finally:
        _set(file, 0)


def _set(file: Path, nanoseconds: int) -> None:
    # In place: the programs have it mapped.
    with file.open("r+b") as out:
        out.write(struct.pack("=q", nanoseconds))


# --- Wires ---


@asynccontextmanager
async def _loss(lab: Lab, wire: str, percent: int) -> AsyncGenerator[None]:
    site, interface, match = WIRES[wire]
    chains = "".join(
        f'chain {hook} {{ type filter hook {hook} device "{interface}" priority 0;'
        f" {match} numgen random mod 100 < {percent} drop; }}\n"
        for hook in ("ingress", "egress")
    )
    done = await lab.run(site, ["nft", "-f", "-"], stdin=f"table netdev chaos {{\n{chains}}}\n")
    assert done.code == 0, done.stderr
    try:
        yield
    finally:
        await lab.run(site, ["nft", "delete", "table", "netdev", "chaos"])


@asynccontextmanager
async def _reordering(wire: str, seed: float) -> AsyncGenerator[None]:
    """Each packet of the wire waits for a time of its own in the router."""
    router, over = Inside(Site.INTERNET.value), threading.Event()
    try:
        device = await router.run(_divert, wire)
        waiting = asyncio.create_task(router.run(_shuffle, device, random.Random(seed), over))  # noqa: S311
        try:
            yield
        finally:
            over.set()
            await waiting
            # With the device its routes are gone, and the rules lead to an empty table.
            os.close(device)
            await router.run(_undivert)
    finally:
        router.close()


def _divert(wire: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", _REORDER.encode(), _IFF_TUN | _IFF_NO_PI))
    for scope in ("all", _REORDER):
        Path(f"/proc/sys/net/ipv4/conf/{scope}/rp_filter").write_text("0")
    interface, prefix = _ROUTED[wire]
    with cast(Any, IPRoute()) as netlink:
        (index,) = netlink.link_lookup(ifname=_REORDER)
        netlink.link("set", index=index, state="up")
        netlink.route("add", family=socket.AF_INET, dst="default", oif=index, table=_TABLE)
        # By the interface that it came in from: what comes back from the device is routed as ever.
        netlink.rule("add", family=socket.AF_INET, table=_TABLE, iifname=interface)
        for other, _ in _ROUTED.values():
            if other != interface:
                netlink.rule("add", family=socket.AF_INET, table=_TABLE, iifname=other, dst=prefix)
    return device


def _undivert() -> None:
    with cast(Any, IPRoute()) as netlink:
        netlink.flush_rules(family=socket.AF_INET, table=_TABLE)


def _shuffle(device: int, dice: random.Random, over: threading.Event) -> None:
    held: list[tuple[float, int, bytes]] = []
    count = 0
    while not over.is_set():
        due = held[0][0] - time.monotonic() if held else 0.1
        readable, _, _ = select.select([device], [], [], max(0.0, min(due, 0.1)))
        if readable:
            count += 1
            heapq.heappush(
                held, (time.monotonic() + dice.uniform(0, _MOST_SECONDS), count, os.read(device, 65536))
            )
        while held and held[0][0] <= time.monotonic():
            os.write(device, heapq.heappop(held)[2])


# --- Which refusals are true ---

_OF_DATABASE = {"DATABASE_DOWN", "DATABASE_BUSY"}
_OF_GATEWAY = {"GATEWAY_DOWN", "GATEWAY_REFUSED", "NO_ANSWER"}
_OF_CONTROLLER = {"CONTROLLER_UNREACHABLE", "TIMEOUT"}


def true_reasons(fault: Fault) -> set[str]:
    """The refusals that tell of this fault."""
    target = fault.target
    if fault.kind == "certificate" or "clock" in fault.kind:
        return set()
    if fault.kind == "fail-over" or target in (*DATABASE, "database"):
        return _OF_DATABASE
    if target in GATEWAYS:
        return _OF_GATEWAY
    if target in ("P4Runtime",):
        return {"GATEWAY_DOWN", "GATEWAY_REFUSED"}
    if target in ("intranet",):
        return {"NO_ANSWER"}
    if target == "gateways":
        return {"NO_ANSWER"}
    if target == "devices":
        return _OF_CONTROLLER | {"NO_ANSWER"}
    if target in ("controllers",):
        return _OF_CONTROLLER
    if target == "controller":
        return _OF_DATABASE | _OF_CONTROLLER
    if target in CONTROLLERS:
        return _OF_CONTROLLER
    return set()
