"""Packets lost while a laptop's tunnel gets new keys each second: daemon, controller and gateway as they are.

`rekey_lost_userspace`  in the lab
`rekey_lost_kernel`     the same lab inside a Linux whose kernel has ESP: one CPU for all parts, so there are fewer packets
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from culvert_lab import laptop, parts
from culvert_lab import topology as net
from culvert_lab.office import open_office
from culvert_lab.topology import Site
from figures import Figure
from flows import End, flowing
from linux_esp.machine import INSIDE, Machine, MachineError

NAMES = ("rekey_lost_userspace", "rekey_lost_kernel")
SECONDS = 60
NAME = "rekeyed"
_BENCH = Path(__file__).with_name("bench.py")
# Packets of 1,000 bytes a second, each way.
RATES = {"userspace": 2000, "kernel": 200}
# Keys that are replaced each second cannot stay for the usual three.
SETTINGS = {"CULVERT_DRAIN_SECONDS": "0.3"}
# The machine's own time for boot, office, flow and end, several times over.
MACHINE_SECONDS = 400.0


async def measure(names: list[str]) -> list[Figure]:
    """The figures asked for, of NAMES. Raises RuntimeError when a rekey was late, so that there were fewer than planned."""
    figures: list[Figure] = []
    if "rekey_lost_userspace" in names:
        figures.append(await _measure("userspace", parts.ROOT / "build/lab"))
    if "rekey_lost_kernel" in names:
        inside = _measure("kernel", Path("/mnt/lab")) if INSIDE in os.environ else _in_machine()
        figures.append(await inside)
    return figures


async def _measure(datapath: str, work: Path) -> Figure:
    async with open_office(work, SETTINGS) as office:
        fqdn = await office.add_resource(NAME, rekey={"soft_seconds": 1}, idle_seconds=3600)
        await office.culvert("open", fqdn)
        if (taken := (await laptop.status(office.lab)).datapath) != datapath:
            raise RuntimeError(f"the daemon took the datapath {taken}, not {datapath}")
        before = await laptop.tunnel(office.lab, fqdn)
        near = End(Site.LAPTOP.value, before.inner_address, net.WIKI_ADDRESS)
        far = End(Site.INTRANET.value, near.peer, near.own)
        async with flowing([near, far], RATES[datapath], SECONDS) as flow:
            begun = await laptop.tunnel(office.lab, fqdn)
            await asyncio.sleep(SECONDS)
            rekeys = (await laptop.tunnel(office.lab, fqdn)).generation - begun.generation
            sent, received = await flow
    if rekeys < SECONDS - 1:
        raise RuntimeError(f"{datapath}: {rekeys} rekeys in {SECONDS} s")
    if sent < 2 * RATES[datapath] * SECONDS:
        raise RuntimeError(f"{datapath}: the hosts sent only {sent} packets")
    return Figure(
        f"rekey_lost_{datapath}", sent - received, f"packets ({rekeys} rekeys)", "packets sent", float(sent)
    )


async def _in_machine() -> Figure:
    environment = {
        "PYTHONPYCACHEPREFIX": str(parts.ROOT / "build/machine-pycache"), "HOME": os.environ["HOME"]
    }  # fmt: skip
    command = [sys.executable, str(_BENCH), "rekey_lost_kernel"]
    with Machine(command, parts.ROOT, environment) as machine:
        if await asyncio.to_thread(machine.wait, MACHINE_SECONDS) != 0:
            raise MachineError(machine.said())
        found = json.loads(machine.output().splitlines()[-1])
    return Figure(found["name"], found["value"], found["unit"], found["baseline"], found["baseline_value"])
