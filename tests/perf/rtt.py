"""Round trips of ping through a tunnel on an idle machine: laptop to intranet, and between two ends of wireguard-go."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys

import baselines
from clicks import open_tunnel
from culvert_lab import parts
from culvert_lab import topology as net
from culvert_lab.office import Office
from culvert_lab.topology import Site
from figures import Figure, percentile

SHARES = {"rtt_p50_us": 0.50, "rtt_p99_us": 0.99}
NAMES = tuple(SHARES)
ROUNDS = 4
PINGS = 500  # a round
WARM_UP = 20
INTERVAL_SECONDS = 0.005

_TIME = re.compile(r"^\d+ bytes .* time=([0-9.]+) ms", re.MULTILINE)


async def measure(office: Office) -> list[Figure]:
    """Both of NAMES; the ends take turns. Raises RuntimeError when an answer is missing."""
    await open_tunnel(office)
    ours: list[float] = []
    theirs: list[float] = []
    with baselines.wireguard_go(parts.ROOT / "build") as peer:
        for _ in range(ROUNDS):
            ours += await asyncio.to_thread(_round_trips_us, Site.LAPTOP.value, net.WIKI_ADDRESS)
            if peer is not None:
                theirs += await asyncio.to_thread(_round_trips_us, baselines.LEFT, peer)
    if not theirs:
        print("wireguard-go is not measured: it is built with Go, which is not on the PATH", file=sys.stderr)
        return [Figure(name, percentile(ours, share), "µs") for name, share in SHARES.items()]
    return [
        Figure(name, percentile(ours, share), "µs", "wireguard-go", percentile(theirs, share))
        for name, share in SHARES.items()
    ]


def _round_trips_us(namespace: str, address: str) -> list[float]:
    """PINGS of them, after WARM_UP that do not count."""
    count = WARM_UP + PINGS
    command = ["ip", "netns", "exec", namespace, "ping", "-n", "-c", str(count), "-i", str(INTERVAL_SECONDS)]
    done = subprocess.run([*command, address], capture_output=True, text=True, check=False)
    times = [1000 * float(time) for time in _TIME.findall(done.stdout)]
    if len(times) != count:
        raise RuntimeError(f"{len(times)} of {count} pings to {address} were answered: {done.stderr}")
    return times[WARM_UP:]
