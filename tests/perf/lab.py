"""Cold clicks, round trips and goodput through the whole of Culvert, in the lab."""

from __future__ import annotations

import asyncio
import sys
from statistics import median

import baselines
import rtt
from clicks import Clicks, cold_clicks, tunnel_mbit_s
from culvert_lab import parts
from culvert_lab.office import Office, open_office
from figures import Figure, percentile

CLICK_NAMES = ("click_p50_ms", "click_p99_ms")
NAMES = (*CLICK_NAMES, *rtt.NAMES, "goodput_mbit_s")
CLICKS = 100
GOODPUT_RUNS = 3
GOODPUT_SECONDS = 5


async def measure(names: list[str]) -> list[Figure]:
    """The figures asked for, of NAMES, all in one lab. Raises ProgramError, StepError, RuntimeError."""
    async with open_office() as office:
        # The tunnel of the others leads to the name that the clicks open.
        clicked = not {*names}.isdisjoint(CLICK_NAMES)
        clicks = await cold_clicks(office, CLICKS if clicked else 1)
        figures = [figure for figure in _clicks(clicks) if figure.name in names]
        if not {*names}.isdisjoint(rtt.NAMES):
            figures += [figure for figure in await rtt.measure(office) if figure.name in names]
        if "goodput_mbit_s" in names:
            figures += await _goodput(office)
    return figures


def _clicks(clicks: Clicks) -> list[Figure]:
    figures: list[Figure] = []
    for name, share in (("click_p50_ms", 0.50), ("click_p99_ms", 0.99)):
        held, plain = percentile(clicks.held, share), percentile(clicks.plain, share)
        figures.append(Figure(name, held, "ms", "bind9 alone", plain))
    return figures


async def _goodput(office: Office) -> list[Figure]:
    ours: list[float] = []
    veth: list[float] = []
    wireguard: list[float] = []
    for _ in range(GOODPUT_RUNS):
        ours.append(await tunnel_mbit_s(office, GOODPUT_SECONDS))
        veth.append(await asyncio.to_thread(baselines.veth_mbit_s, GOODPUT_SECONDS))
        other = await asyncio.to_thread(baselines.wireguard_go_mbit_s, GOODPUT_SECONDS, parts.ROOT / "build")
        wireguard += [] if other is None else [other]
    figures = [Figure("goodput_mbit_s", median(ours), "Mbit/s", "veth", median(veth))]
    if wireguard:
        figures.append(Figure("goodput_mbit_s", median(ours), "Mbit/s", "wireguard-go", median(wireguard)))
    else:
        print("wireguard-go is not measured: it is built with Go, which is not on the PATH", file=sys.stderr)
    return figures
