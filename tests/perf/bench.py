"""`make bench`: every figure of one run, into build/bench.jsonl and build/bench.html."""

from __future__ import annotations

import asyncio
import datetime
import os
import platform
import sys
from statistics import median

import baselines
import page
from clicks import cold_clicks, tunnel_mbit_s
from culvert_lab import parts
from culvert_lab.office import opened
from figures import Figure, percentile

BUILD = parts.ROOT / "build"
CLICKS = 100
GOODPUT_RUNS = 3
GOODPUT_SECONDS = 5

# Hauser et al., "P4-IPsec: Site-to-Site and Host-to-Site VPN with IPsec in P4-Based SDN": tunnel set-up at the controller.
PAPER_SETUP_MS = 5.02


async def measure() -> list[Figure]:
    """All figures. The baselines are measured between our own runs, so that both see the same machine."""
    figures: list[Figure] = []
    async with opened() as office:
        clicks = await cold_clicks(office, CLICKS)
        for name, share in (("click_p50_ms", 0.50), ("click_p99_ms", 0.99)):
            held, plain = percentile(clicks.held, share), percentile(clicks.plain, share)
            figures.append(Figure(name, held, "ms", "bind9 alone", plain))
        figures.append(Figure("setup_p50_ms", percentile(clicks.setup, 0.50), "ms", "paper", PAPER_SETUP_MS))
        ours: list[float] = []
        veth: list[float] = []
        wireguard: list[float] = []
        for _ in range(GOODPUT_RUNS):
            ours.append(await tunnel_mbit_s(office, GOODPUT_SECONDS))
            veth.append(await asyncio.to_thread(baselines.veth_mbit_s, GOODPUT_SECONDS))
            other = await asyncio.to_thread(baselines.wireguard_go_mbit_s, GOODPUT_SECONDS, BUILD)
            wireguard += [] if other is None else [other]
    figures.append(Figure("goodput_mbit_s", median(ours), "Mbit/s", "veth", median(veth)))
    if wireguard:
        figures.append(Figure("goodput_mbit_s", median(ours), "Mbit/s", "wireguard-go", median(wireguard)))
    else:
        print("wireguard-go is not measured: it is built with Go, which is not on the PATH", file=sys.stderr)
    return figures


def main() -> None:
    figures = asyncio.run(measure())
    lines = [figure.line() for figure in figures]
    (BUILD / "bench.jsonl").write_text("\n".join(lines) + "\n")
    machine = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores"
    (BUILD / "bench.html").write_text(page.render(figures, datetime.date.today().isoformat(), machine))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
