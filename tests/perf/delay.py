"""Round-trip time added in the lab's router, for kernels without netem.

laptop ─► router ─► TUN ─► this process: each packet waits ─► TUN ─► router ─► controller; the answers go the same way
"""

from __future__ import annotations

import asyncio
import collections
import fcntl
import os
import select
import socket
import struct
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from culvert_lab import topology as net
from culvert_lab.lab import Lab
from culvert_lab.netns import Inside
from culvert_lab.topology import Site
from pyroute2 import IPRoute

_DEVICE = "delay"
_TABLE = 40
# linux/if_tun.h
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_LONGEST_PACKET = 65536


@asynccontextmanager
async def controller_away(lab: Lab, round_trip: float) -> AsyncGenerator[None]:
    """The controller is `round_trip` seconds from the laptop as long as the context lasts. Raises OSError, NetlinkError."""
    router, over = Inside(Site.INTERNET.value), threading.Event()
    try:
        device = await router.run(_divert)
        waiting = asyncio.create_task(router.run(_hold, device, round_trip / 2, over))
        try:
            yield
        finally:
            over.set()
            await waiting
            # The device, and with it the rules' table, is gone: what finds no route there goes on to the next rule.
            os.close(device)
    finally:
        router.close()


def _divert() -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", _DEVICE.encode(), _IFF_TUN | _IFF_NO_PI))
    for scope in ("all", _DEVICE):
        Path(f"/proc/sys/net/ipv4/conf/{scope}/rp_filter").write_text("0")
    # pyroute2 makes the methods at run time.
    with cast(Any, IPRoute()) as netlink:
        (index,) = netlink.link_lookup(ifname=_DEVICE)
        netlink.link("set", index=index, state="up")
        netlink.route("add", family=socket.AF_INET, dst="default", oif=index, table=_TABLE)
        # By the interface that it came in from: what comes back from the device is routed as ever.
        for rule in (
            {"iifname": "laptop", "dst": net.CONTROLLER_ADDRESS},
            {"iifname": "services", "src": net.CONTROLLER_ADDRESS},
        ):
            netlink.rule("add", family=socket.AF_INET, table=_TABLE, **rule)
    return device


def _hold(device: int, seconds: float, over: threading.Event) -> None:
    held: collections.deque[tuple[float, bytes]] = collections.deque()
    while not over.is_set():
        due = held[0][0] - time.monotonic() if held else 0.1
        readable, _, _ = select.select([device], [], [], max(0.0, min(due, 0.1)))
        if readable:
            held.append((time.monotonic() + seconds, os.read(device, _LONGEST_PACKET)))
        while held and held[0][0] <= time.monotonic():
            os.write(device, held.popleft()[1])
