"""The person's wait and the computer's cost: the daemon in the lab, all parts real.

`warm_dns_ms`           tunnel up: what the stub adds to the resolver's own time
`syn_retransmits`       of CLICKS cold clicks, each a name asked and then a TCP connection
`click_rtt40_p50_ms`    a cold click with the controller 40 ms away
`daemon_rss_mib`        after all of these
`daemon_idle_cpu_pct`   enrolled, one tunnel up, nobody asks; in per cent of one core
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import time
from pathlib import Path
from statistics import median

from clicks import NAME, STUB, Clicks, ask, closing, cold_clicks, open_tunnel
from culvert_lab import topology as net
from culvert_lab.office import Office, open_office
from culvert_lab.topology import Site
from delay import controller_away
from figures import Figure, percentile
from usage import cpu_seconds, rss_mib

NAMES = ("warm_dns_ms", "syn_retransmits", "click_rtt40_p50_ms", "daemon_rss_mib", "daemon_idle_cpu_pct")
CLICKS = 1000
FAR_CLICKS = 40
ROUND_TRIP_SECONDS = 0.040
WARM_QUERIES = 1000
# A cold click is two calls, and a device has 20 a second (agent_calls_per_second).
BETWEEN_CLICKS_SECONDS = 0.1
# The work left over by the last click is done after this time.
SETTLE_SECONDS = 10.0
IDLE_SECONDS = 60.0
_SYN_RETRANSMITS = "TCPSynRetrans"


async def measure(names: list[str]) -> list[Figure]:
    """The figures asked for, of NAMES, all in one lab. Raises ProgramError, StepError, RuntimeError."""
    figures: list[Figure] = []
    async with open_office() as office:
        near = await cold_clicks(office, FAR_CLICKS if "click_rtt40_p50_ms" in names else 1)
        if "click_rtt40_p50_ms" in names:
            figures += await _far(office, near)
        if "syn_retransmits" in names or "daemon_rss_mib" in names:
            figures += await _first_packets(office)
        await open_tunnel(office)
        if "warm_dns_ms" in names:
            figures += await _warm(office)
        if not {"daemon_rss_mib", "daemon_idle_cpu_pct"}.isdisjoint(names):
            figures += await _idle(office.daemon.pid)
    return [figure for figure in figures if figure.name in names]


async def _far(office: Office, near: Clicks) -> list[Figure]:
    far: list[float] = []
    async with controller_away(office.lab, ROUND_TRIP_SECONDS), closing(office) as close:
        for _ in range(FAR_CLICKS):
            far.append(await office.lab.inside(Site.LAPTOP).run(ask, f"{NAME}.{net.ZONE}", STUB))
            await close()
    beside = percentile(near.held, 0.5)
    return [Figure("click_rtt40_p50_ms", percentile(far, 0.5), "ms", "controller beside it", beside)]


async def _first_packets(office: Office) -> list[Figure]:
    laptop = office.lab.inside(Site.LAPTOP)
    before = await laptop.run(_syn_retransmits)
    async with closing(office) as close:
        for _ in range(CLICKS):
            await laptop.run(_click, f"{NAME}.{net.ZONE}")
            await asyncio.gather(close(), asyncio.sleep(BETWEEN_CLICKS_SECONDS))
    again = await laptop.run(_syn_retransmits) - before
    return [Figure("syn_retransmits", again, f"of {CLICKS:,} cold clicks")]


def _click(fqdn: str) -> None:
    ask(fqdn, STUB)
    with socket.create_connection((net.WIKI_ADDRESS, 80), timeout=5.0) as page:
        # Reset on close: nothing of this connection is left to be sent when the tunnel is gone.
        page.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _syn_retransmits() -> int:
    """TCP SYN retransmissions in this thread's network namespace."""
    names, values = re.findall(
        r"^TcpExt: (.*)$", Path("/proc/thread-self/net/netstat").read_text(), re.MULTILINE
    )
    return int(dict(zip(names.split(), values.split(), strict=True))[_SYN_RETRANSMITS])


async def _warm(office: Office) -> list[Figure]:
    through: list[float] = []
    plain: list[float] = []
    laptop, fqdn = office.lab.inside(Site.LAPTOP), f"{NAME}.{net.ZONE}"
    for _ in range(WARM_QUERIES):
        through.append(await laptop.run(ask, fqdn, STUB))
        plain.append(await laptop.run(ask, fqdn, net.DNS_ADDRESS))
    added = median(through) - median(plain)
    return [Figure("warm_dns_ms", added, "ms added", "bind9 alone", median(plain))]


async def _idle(pid: int) -> list[Figure]:
    await asyncio.sleep(SETTLE_SECONDS)
    used, began = cpu_seconds(pid), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    share = (cpu_seconds(pid) - used) / (time.monotonic() - began)
    return [
        Figure("daemon_rss_mib", rss_mib(pid), "MiB"),
        Figure("daemon_idle_cpu_pct", 100 * share, "% of a core"),
    ]
