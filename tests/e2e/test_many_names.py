"""A page that is made of many names: all of them are asked for at once, and each one opens its tunnel."""

from __future__ import annotations

import asyncio

import dns.asyncquery
import dns.message
import pytest
from culvert_lab import parts
from culvert_lab import topology as net
from culvert_lab.office import Office
from culvert_lab.topology import Site

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

NAMES = [f"part{number}.{net.ZONE}" for number in range(60)]
STUB = "127.0.0.1"


async def test_sixty_names_at_once_open_sixty_tunnels(office: Office) -> None:
    for name in NAMES:
        await parts.create_resource(office.joined.admin, name=name.partition(".")[0], fqdn=name)
    laptop, bind = office.lab.inside(Site.LAPTOP), office.joined.bind
    async with asyncio.timeout(60):
        while not all([await laptop.run(bind.ask, name, "TXT") for name in NAMES]):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    answers = await laptop.run(_ask_all)
    assert {name: it for name, it in answers.items() if not it.answer} == {}
    assert len(await office.joined.admin.get("/tunnels")) == len(NAMES)


def _ask_all() -> dict[str, dns.message.Message]:
    async def ask(name: str) -> dns.message.Message:
        return await dns.asyncquery.udp(dns.message.make_query(name, "A"), STUB, timeout=10)

    async def ask_all() -> dict[str, dns.message.Message]:
        return dict(zip(NAMES, await asyncio.gather(*map(ask, NAMES)), strict=True))

    return asyncio.run(ask_all())
