"""A crypto host that dies or drains, under traffic of a laptop's tunnel through the lab's gateway.

`host_dies_ms`      from the last echo's answer before SIGKILL to the first one after, at the other host with fresh keys
`host_drain_lost`   packets of a flow both ways, lost while the host drains and the tunnel moves
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from statistics import median

from culvert_lab import parts
from culvert_lab import topology as net
from culvert_lab.office import Office, open_office
from culvert_lab.topology import Site
from figures import Figure
from flows import End, flowing
from restart import answers, echoes

DEATHS = 5
HOSTS = f"/gateways/{parts.GATEWAY}/crypto-hosts"
# Packets of 1,000 bytes, each way.
RATE, SECONDS = 1000, 20
NAMES = ("host_dies_ms", "host_drain_lost")


async def measure(names: list[str]) -> list[Figure]:
    """Raises StepError, ProgramError, RuntimeError."""
    with _with_crypto_hosts():
        async with _opened() as office:
            found = [await _deaths(office), await _drain(office)]
    return [figure for figure in found if figure.name in names]


@contextmanager
def _with_crypto_hosts() -> Generator[None]:
    before = os.environ.get("CULVERT_TARGET")
    os.environ["CULVERT_TARGET"] = "crypto-hosts"
    try:
        yield
    finally:
        if before is None:
            del os.environ["CULVERT_TARGET"]
        else:
            os.environ["CULVERT_TARGET"] = before


@asynccontextmanager
async def _opened() -> AsyncGenerator[Office]:
    async with open_office() as office:
        if (opened := await office.culvert("open", net.WIKI_NAME)).code != 0:
            raise RuntimeError(opened.stderr)
        yield office


async def _deaths(office: Office) -> Figure:
    took: list[float] = []
    hosts = office.joined.crypto_hosts
    for _ in range(DEATHS):
        async with echoes(office.lab.inside(Site.LAPTOP)) as answered:
            await answers(answered)
            name = await _serving(office)
            hosts[name].kill()
            await answers(answered)
        took.append(max(after - before for before, after in pairwise(answered)))
        await hosts[name].stop()
        hosts[name] = await parts.start_crypto_host(office.lab, name)
        await parts.gateway_online(office.joined.admin)
    return Figure("host_dies_ms", median(took) * 1e3, "ms")


async def _drain(office: Office) -> Figure:
    [tunnel] = await office.joined.admin.get("/tunnels")
    laptop, wiki = tunnel["inner_address"], net.WIKI_ADDRESS
    ends = [End(Site.LAPTOP, laptop, wiki), End(Site.INTRANET, wiki, laptop)]
    name = await _serving(office)
    async with flowing(ends, RATE, SECONDS) as flow:
        await asyncio.sleep(SECONDS / 4)
        await office.joined.admin.post(f"{HOSTS}/{name}/drain")
        await office.joined.admin.until(f"{HOSTS}/{name}", lambda it: it["sas"] == 0, "A drained host")
        if flow.done():
            raise RuntimeError("the host was drained after the flow")
        sent, received = await flow
    return Figure("host_drain_lost", sent - received, "packets", "packets sent", float(sent))


async def _serving(office: Office) -> str:
    """The name of the host that has the tunnel. Raises StepError."""
    hosts = await office.joined.admin.until(
        HOSTS, lambda them: sum(it["sas"] == 2 for it in them) == 1, "One host that serves"
    )
    return next(it["name"] for it in hosts if it["sas"])
