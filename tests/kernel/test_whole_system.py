"""All of Culvert on a kernel that has ESP: the laptop's packets go through its IPsec, and nothing else is different."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from culvert_lab import laptop, parts
from culvert_lab import topology as net
from culvert_lab.office import open_office
from culvert_lab.topology import Site
from linux_esp import fxsave
from linux_esp.site import waited
from linux_esp.xfrm import ip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        fxsave.is_needed(),
        reason="PostgreSQL 18 takes AVX-512 for its checksums, which the machine lacks here",
    ),
]

BYTES = 6 << 20
SOFT_PACKETS = 1500


async def test_a_name_opens_is_rekeyed_under_a_download_and_closes() -> None:
    async with open_office(Path("/mnt/lab")) as office:
        fqdn = await office.add_resource("kernel", rekey={"soft_packets": SOFT_PACKETS}, idle_seconds=3600)
        assert _keys() == 0
        page = await office.fetch(fqdn)
        assert net.MARKER in page.stdout, page
        before = await laptop.status(office.lab)
        assert before.datapath == "kernel"
        assert _keys() == 2

        count = ["curl", "-sS", "-o", "/dev/null", "-w", "%{size_download}"]
        url = f"http://{fqdn}/download?bytes={BYTES}&rate={1 << 20}"
        fetched = await office.lab.run(Site.LAPTOP, [*count, url], seconds=60.0)
        assert fetched.stdout == str(BYTES), fetched
        assert (await laptop.tunnel(office.lab, fqdn)).generation > before.tunnels[0].generation
        assert (await laptop.status(office.lab)).drops == before.drops
        assert await office.joined.admin.tunnel_drops(parts.GATEWAY) == 0

        await office.culvert("close", "--all")
        assert await asyncio.to_thread(waited, lambda: _keys() == 0)
        # Protected packets do not leave in clear instead.
        refused = await office.lab.run(Site.LAPTOP, ["curl", "-sS", "-m", "2", f"http://{net.WIKI_ADDRESS}/"])
        assert refused.code != 0


def _keys() -> int:
    return ip(["xfrm state"], Site.LAPTOP.value).count("proto esp")
