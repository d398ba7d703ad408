"""`revoke_ms`: from the administrator's call to the last packet of the revoked device through the gateway.

The laptop is cut off from the controller first, so that nobody tells it and it goes on sending: what ends its traffic is
the gateway alone.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median

from culvert_lab import laptop, parts
from culvert_lab import topology as net
from culvert_lab.office import Office, open_office
from culvert_lab.topology import Site
from datagrams import flowing
from figures import Figure

RUNS = 3
_NAME = "revoked"
_BEFORE_SECONDS = 1.0
_AFTER_SECONDS = 2.0


async def measure() -> list[Figure]:
    """The median of RUNS revocations. Raises StepError, ProgramError, RuntimeError."""
    async with open_office() as office:
        fqdn = await office.add_resource(_NAME)
        took = [await _once(office, fqdn)]
        while len(took) < RUNS:
            uri = await laptop.enrol(office.lab, await parts.invite(office.joined.admin))
            await laptop.prove_code(office.lab, uri)
            took.append(await _once(office, fqdn))
    return [Figure("revoke_ms", median(took), "ms")]


async def _once(office: Office, fqdn: str) -> float:
    opening = await office.culvert("open", fqdn)
    if opening.code != 0:
        raise RuntimeError(opening.stderr)
    (tunnel,) = await office.joined.admin.get("/tunnels")
    async with flowing(office.lab) as datagrams:
        await asyncio.sleep(_BEFORE_SECONDS)
        await _cut_off(office, "add")
        revoked = time.perf_counter()
        await office.joined.admin.post(f"/devices/{tunnel['device_id']}/revoke")
        await asyncio.sleep(_AFTER_SECONDS)
    await _cut_off(office, "del")
    if not any(at < revoked for at, _ in datagrams.arrived):
        raise RuntimeError("nothing came through the tunnel before the revocation")
    return max(0.0, (datagrams.arrived[-1][0] - revoked) * 1e3)


async def _cut_off(office: Office, verb: str) -> None:
    """`add` or `del`: what the laptop sends to the controller goes nowhere."""
    argv = ["ip", "route", verb, "blackhole", net.CONTROLLER_ADDRESS]
    done = await office.lab.run(Site.LAPTOP, argv)
    if done.code != 0:
        raise RuntimeError(done.stderr)
