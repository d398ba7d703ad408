"""`failover_ms`: from a gateway's death to the first packet through the next one, all parts real.

Two gateways stand side by side in the lab, on the same wires, each with addresses of its own. The one that carries the
laptop's tunnel is stopped (SIGSTOP): its connections stay open and nothing answers, which is harder to notice than a crash.
"""

from __future__ import annotations

import os
import signal
import time
from statistics import median

from culvert_lab import parts, spare
from culvert_lab.office import Office, open_office
from culvert_lab.process import Running
from datagrams import flowing
from figures import Figure

RUNS = 4
_NAME = "failover"
# The prefix of a gateway's devices.
_POOLS = {parts.GATEWAY: "10.99.0.", spare.NAME: "10.99.1."}


async def measure() -> list[Figure]:
    """The median of RUNS deaths. Raises StepError, ProgramError, RuntimeError, TimeoutError."""
    async with open_office() as office:
        gateways = {
            parts.GATEWAY: office.joined.gateway,
            spare.NAME: await spare.start(office.lab, office.joined.admin),
        }
        fqdn = await office.add_resource(_NAME, gateways=list(gateways))
        if (done := await office.culvert("open", fqdn)).code != 0:
            raise RuntimeError(done.stderr)
        took = [await _once(office, gateways) for _ in range(RUNS)]
    return [Figure("failover_ms", median(took), "ms")]


async def _once(office: Office, gateways: dict[str, Running]) -> float:
    (tunnel,) = await office.joined.admin.get("/tunnels")
    here = tunnel["gateway"]
    there = next(name for name in gateways if name != here)
    async with flowing(office.lab) as datagrams:
        await datagrams.until_from(_POOLS[here], 10.0)
        died = time.perf_counter()
        os.kill(gateways[here].pid, signal.SIGSTOP)
        try:
            await datagrams.until_from(_POOLS[there], 20.0)
        finally:
            os.kill(gateways[here].pid, signal.SIGCONT)
    online = f"{here} online again"
    await office.joined.admin.until(f"/gateways/{here}", lambda it: it["state"] == "online", online)
    first = next(at for at, source in datagrams.arrived if at > died and source.startswith(_POOLS[there]))
    return (first - died) * 1e3
