"""Tunnels at the controller: milliseconds to set one up and to renew one, and how many are set up in a second.

  setup, renew   from a device's call at the controller to the gateway's last acknowledgement, as the paper has it
  answer         of the same, from the device's call to its answer, which Postgres's write to the disk is part of
  host           a crypto host serves the gateway's SAs, so that the controller writes two switches

One after another, but for `setups_s`, where TOGETHER devices ask as fast as they are answered. Devices, controller,
Postgres and sluice share the machine's processors, so the controller's processor time is a figure too.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "switch-targets/conformance"))

from controller_rig import RESOURCES, Client, Rig, in_a_namespace, rig
from figures import Figure, percentile

NAMES = (
    *("setup_p50_ms", "setup_p99_ms", "setup_answer_p50_ms", "setup_cpu_ms", "setup_host_p50_ms"),
    *("renew_p50_ms", "renew_answer_p50_ms", "setups_s"),
)
ALONE = 10
SETUPS = 500
RENEWALS = 300
TOGETHER = 64
SUSTAINED = 2500

# Hauser et al., "P4-IPsec: Site-to-Site and Host-to-Site VPN with IPsec in P4-Based SDN", at the controller.
PAPER_SETUP_MS = 5.02
PAPER_RENEW_MS = 4.38


async def measure(names: Sequence[str]) -> list[Figure]:
    """The figures asked for, of NAMES. Raises RuntimeError, CalledProcessError."""
    found = await asyncio.to_thread(in_a_namespace, __file__, "setups", 2)
    sync = ("fdatasync", found["sync_ms"])
    figures = [
        Figure("setup_p50_ms", found["setup_p50_ms"], "ms", "paper", PAPER_SETUP_MS),
        Figure("setup_p99_ms", found["setup_p99_ms"], "ms", "paper", PAPER_SETUP_MS),
        Figure("setup_answer_p50_ms", found["setup_answer_p50_ms"], "ms", *sync),
        Figure("setup_cpu_ms", found["setup_cpu_ms"], "ms"),
        Figure("setup_host_p50_ms", found["setup_host_p50_ms"], "ms", "own engine", found["setup_p50_ms"]),
        Figure("renew_p50_ms", found["renew_p50_ms"], "ms", "paper", PAPER_RENEW_MS),
        Figure("renew_answer_p50_ms", found["renew_answer_p50_ms"], "ms", *sync),
        Figure("setups_s", found["setups_s"], "1/s"),
    ]
    return [figure for figure in figures if figure.name in names]


async def _all() -> dict[str, float]:
    async with rig() as parts:
        devices = await parts.devices(ALONE)
        found = await _one_after_another(parts, devices)
        many = await parts.devices(TOGETHER)
        found["setups_s"] = await _sustained(many)
        for device in (*devices, *many):
            await device.close()
    async with rig(1, crypto_host=True) as parts:
        devices = await parts.devices(ALONE)
        found["setup_host_p50_ms"] = (await _one_after_another(parts, devices))["setup_p50_ms"]
        for device in devices:
            await device.close()
    return found


async def _one_after_another(parts: Rig, devices: Sequence[Client]) -> dict[str, float]:
    # Connections and inner addresses are there then.
    opened = [await device.open(0) for device in devices]
    answers: list[float] = []
    setups: list[float] = []
    syncs: list[float] = []
    before = parts.controller_cpu_seconds()
    for number in range(SETUPS):
        began = time.perf_counter()
        answer = await devices[number % ALONE].open(1 + number // ALONE)
        answers.append((time.perf_counter() - began) * 1000)
        setups.append(answer.programmed_us / 1000)
        opened.append(answer)
    cpu = parts.controller_cpu_seconds() - before
    renewals: list[float] = []
    renewal_answers: list[float] = []
    for number in range(RENEWALS):
        began = time.perf_counter()
        renewed = await devices[number % ALONE].renew(opened[number])
        renewal_answers.append((time.perf_counter() - began) * 1000)
        renewals.append(renewed.programmed_us / 1000)
        syncs.append(parts.sync_ms())
    return {
        "setup_p50_ms": percentile(setups, 0.50),
        "setup_p99_ms": percentile(setups, 0.99),
        "setup_answer_p50_ms": percentile(answers, 0.50),
        "setup_cpu_ms": cpu / SETUPS * 1000,
        "renew_p50_ms": percentile(renewals, 0.50),
        "renew_answer_p50_ms": percentile(renewal_answers, 0.50),
        "sync_ms": percentile(syncs, 0.50),
    }


async def _sustained(devices: Sequence[Client]) -> float:
    """Setups a second."""
    for device in devices:
        await device.open(0)
    jobs = iter([(device, number) for number in range(1, RESOURCES) for device in devices][:SUSTAINED])

    async def ask() -> None:
        for device, number in jobs:
            await device.open(number)

    began = time.perf_counter()
    await asyncio.gather(*(ask() for _ in devices))
    return SUSTAINED / (time.perf_counter() - began)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_all())))
