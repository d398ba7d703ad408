"""`restart_ms`: culvertd is restarted, as by an upgrade; from the last echo's answer before to the first one after.

SIGTERM ─► it ends ─► it starts ─► a packet without a tunnel ─► OpenTunnel ─► an answer
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from statistics import median

from culvert_lab import laptop
from culvert_lab import topology as net
from culvert_lab.netns import Inside
from culvert_lab.office import Office, open_office
from culvert_lab.topology import Site
from echo import is_reply, request
from figures import Figure

RESTARTS = 11
_STEADY_SECONDS = 1.0
_INTERVAL = 0.01
# systemctl(1), list-jobs.
_SYSTEMCTL = "#!/bin/sh\necho 1 culvertd.service restart running\n"


async def measure() -> list[Figure]:
    """The median of RESTARTS. Raises StepError, ProgramError, RuntimeError."""
    took: list[float] = []
    async with open_office() as office:
        if (opened := await office.culvert("open", net.WIKI_NAME)).code != 0:
            raise RuntimeError(opened.stderr)
        await office.daemon.stop()
        env = _of_unit(office)
        daemon = await laptop.start_daemon(office.lab, "culvertd-0", env=env)
        for number in range(RESTARTS):
            async with echoes(office.lab.inside(Site.LAPTOP)) as answered:
                await answers(answered)
                await daemon.stop()
                daemon = await laptop.start_daemon(office.lab, f"culvertd-{number + 1}", env=env)
                await answers(answered)
            took.append(max(after - before for before, after in pairwise(answered)))
    return [Figure("restart_ms", median(took) * 1e3, "ms")]


def _of_unit(office: Office) -> Mapping[str, str]:
    """Environment in which culvertd finds that its unit is restarted, and keeps blocking."""
    programs = office.lab.run_directory(Site.LAPTOP) / "programs"
    programs.mkdir()
    (programs / "systemctl").write_text(_SYSTEMCTL)
    (programs / "systemctl").chmod(0o755)
    return {"INVOCATION_ID": "1", "PATH": "/run/programs:/usr/sbin:/usr/bin"}


async def answers(answered: list[float]) -> None:
    """Until answers come again, and for _STEADY_SECONDS. Raises RuntimeError."""
    began = time.monotonic()
    while not answered or answered[-1] < began:
        if time.monotonic() > began + 30:
            raise RuntimeError("no echo is answered any more")
        await asyncio.sleep(_INTERVAL)
    await asyncio.sleep(_STEADY_SECONDS)


@asynccontextmanager
async def echoes(inside: Inside) -> AsyncGenerator[list[float]]:
    """Asks the wiki's server a hundred times a second; gives the times of its answers, in seconds."""
    end = inside.call(socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    end.settimeout(_INTERVAL)
    over, answered = threading.Event(), list[float]()

    def ask() -> None:
        while not over.wait(_INTERVAL):
            # Without a tunnel the kernel refuses it.
            with suppress(OSError):
                end.sendto(request(), (net.WIKI_ADDRESS, 0))

    def hear() -> None:
        while not over.is_set():
            with suppress(TimeoutError):
                packet, (source, _) = end.recvfrom(2048)
                if is_reply(packet, source, net.WIKI_ADDRESS):
                    answered.append(time.monotonic())

    threads = [threading.Thread(target=it) for it in (ask, hear)]
    for thread in threads:
        thread.start()
    try:
        yield answered
    finally:
        over.set()
        for thread in threads:
            thread.join()
        end.close()
