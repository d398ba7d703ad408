"""Gateways that refuse or forget what a tunnel between them needs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from culvert_db import SecurityAssociation
from culvert_lab.free_port import free_port
from finsy.proto import p4r
from sqlalchemy import select

from . import two_sites
from .conftest import World, serving, until
from .switch import Switch
from .two_sites import BERLIN, NUMBERS, PARIS, Sites, described, grow_old

pytestmark = pytest.mark.slow


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("culvert_service.gateways.link._RECONCILE_SECONDS", 0.05)


@pytest.fixture
async def switches(world: World, tmp_path: Path) -> AsyncGenerator[dict[str, Switch]]:
    """Both gateways, with one list of what is written to either, and the tunnel between them, up."""
    switches = {name: Switch() for name in NUMBERS}
    switches[PARIS].writes = switches[BERLIN].writes
    ports = {name: free_port() for name in NUMBERS}
    await two_sites.register(world, tmp_path, Sites(tmp_path, ports, {}, {}))
    async with AsyncExitStack() as stack:
        for name, switch in switches.items():
            await stack.enter_async_context(serving(world, switch, name, ports[name]))
            await world.online(name)
        await world.rest("POST", "/site-tunnels", described())
        await until(lambda: shown(world), lambda found: found["state"] == "up")
        yield switches


async def shown(world: World) -> dict[str, Any]:
    return dict(await world.rest("GET", "/site-tunnels/berlin-paris"))


async def generations(world: World) -> set[int]:
    async with world.database() as session:
        return set(await session.scalars(select(SecurityAssociation.generation)))


def tables(switch: Switch, *names: str) -> int:
    return sum(key[0] in map(switch.table, names) for key in switch.entries)


async def test_both_can_open_before_one_seals(world: World, switches: dict[str, Switch]) -> None:
    writes = switches[BERLIN].writes
    writes.clear()
    await grow_old(world)
    await until(lambda: shown(world), lambda it: (it["state"], it["generation"]) == ("up", 2))
    done = [(update.type, update.entity.table_entry.table_id) for write in writes for update in write.updates]
    opens = (p4r.Update.INSERT, switches[BERLIN].table("sad_in"))
    switch = (p4r.Update.MODIFY, switches[BERLIN].table("spd_out"))
    assert (done.count(opens), done.count(switch)) == (2, 2)
    assert max(at for at, one in enumerate(done) if one == opens) < done.index(switch)


async def test_a_refusal_by_one_end_is_undone_at_the_other(world: World, switches: dict[str, Switch]) -> None:
    before = {name: dict(switch.entries) for name, switch in switches.items()}
    switches[PARIS].refuse_table = switches[PARIS].table("sad_out")
    await grow_old(world)
    found = await until(lambda: shown(world), lambda it: bool(it["reason"]))
    assert "gw-paris refused" in found["reason"]
    # The keys of before go on.
    assert (found["state"], found["generation"]) == ("up", 1)
    await until(lambda: generations(world), lambda it: it == {1})
    for name, switch in switches.items():
        assert switch.entries == before[name]
    switches[PARIS].refuse_table = None
    found = await until(lambda: shown(world), lambda it: it["state"] == "up" and it["generation"] > 1)
    assert found["reason"] == ""


@pytest.mark.usefixtures("often")
async def test_missing_site_tunnel_entries_are_repaired(world: World, switches: dict[str, Switch]) -> None:
    berlin = switches[BERLIN]
    whole = dict(berlin.entries)
    for key in [key for key in whole if key[0] in (berlin.table("spd_in"), berlin.table("spd_out"))]:
        del berlin.entries[key]
    # Both SAs are still there: no key is renewed, and no other packets pass than before.
    await until(lambda: world.rest("GET", f"/gateways/{BERLIN}"), lambda it: it["drift"]["repaired"])
    assert berlin.entries == whole
    assert (await shown(world))["generation"] == 1
    assert tables(berlin, "sad_in", "sad_out", "spd_in", "spd_out") == 4
