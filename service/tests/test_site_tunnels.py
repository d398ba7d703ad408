"""A tunnel between two real gateways: what the hosts behind them see of its life."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from culvert_service.config import Settings

from . import two_sites
from .conftest import World, running, settings_in, until
from .gateway_process import needs_root
from .two_sites import BERLIN, PARIS, Sites, described, grow_old

pytestmark = [
    pytest.mark.slow,
    needs_root,
]


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> tuple[Settings, Settings]:
    """Two controllers with one state. The second does not look for gateways before it is told of one."""
    return (
        settings_in(tmp_path, database_url=database_url, controller_name="one"),
        settings_in(tmp_path, database_url=database_url, controller_name="two", lease_seconds=60),
    )


@pytest.fixture
async def sites(world: World, tmp_path: Path) -> AsyncGenerator[Sites]:
    async with two_sites.laid(tmp_path) as sites:
        await two_sites.register(world, tmp_path, sites)
        yield sites


async def shown(world: World) -> dict[str, Any]:
    return dict(await world.rest("GET", "/site-tunnels/berlin-paris"))


async def up(world: World, *, beyond: int = 0) -> dict[str, Any]:
    """Waits for keys of a generation above that one."""
    return await until(
        lambda: shown(world), lambda found: found["state"] == "up" and found["generation"] > beyond, 20
    )


async def change(world: World, protocol: str) -> None:
    """Change the protocol that may reach Paris, together with the soft limit."""
    body = described(rekey={"soft_packets": 300})
    body["ends"][1]["targets"][0]["protocol"] = protocol
    del body["name"]
    await world.rest("PUT", "/site-tunnels/berlin-paris", body)


async def tables(world: World, gateway: str) -> list[dict[str, Any]]:
    """The entries of tunnels on a gateway."""
    found = (await world.rest("GET", f"/gateways/{gateway}/entries"))["entries"]
    return [entry for entry in found if entry["table"].startswith(("sad", "spd"))]


async def held(world: World) -> tuple[int, int]:
    return len(await tables(world, BERLIN)), len(await tables(world, PARIS))


async def test_hosts_behind_two_gateways_meet(world: World, sites: Sites) -> None:
    async with sites.running(BERLIN, PARIS):
        await world.rest("POST", "/site-tunnels", described(rekey={"soft_packets": 300}))
        await up(world)
        assert await sites.ping(BERLIN)
        assert await sites.ping(PARIS)
        before = (await shown(world))["generation"]
        await change(world, "udp")
        await until(lambda: sites.ping(BERLIN), lambda answered: not answered)
        # Each 300 packets of either direction a gateway asks for other keys.
        both = await sites.flow(rate=500, seconds=3)
        assert [(one["received"], one["repeated"]) for one in both] == [(one["sent"], 0) for one in both]
        assert (await shown(world))["generation"] >= before + 2
        await change(world, "any")
        await until(lambda: sites.ping(BERLIN), bool)
        # The draining SAs are deleted.
        await until(lambda: held(world), lambda found: found == (4, 4))
        await world.rest("DELETE", "/site-tunnels/berlin-paris")
        assert await held(world) == (0, 0)
        assert not await sites.ping(BERLIN)


async def test_a_gateway_that_comes_back_empty_gets_new_keys(world: World, sites: Sites) -> None:
    async with sites.running(BERLIN):
        async with sites.running(PARIS):
            await world.rest("POST", "/site-tunnels", described())
            first = await up(world)
            [spi] = [
                entry["match"]["spi"] for entry in await tables(world, PARIS) if entry["table"] == "sad_in"
            ]
        await world.online(PARIS, wanted="offline")
        assert not (await shown(world))["ends"][1]["online"]
        async with sites.running(PARIS):
            again = await up(world, beyond=first["generation"])
            assert await sites.ping(PARIS)
            assert spi not in [entry["match"].get("spi") for entry in await tables(world, PARIS)]
            assert again["keyed_at"] > first["keyed_at"]
            lines = await world.rest("GET", "/audit?object=site-tunnel/berlin-paris")
            assert [line["action"] for line in lines][:4] == [
                "site-tunnel.up",
                "site-tunnel.down",
                "site-tunnel.up",
                "site-tunnel.create",
            ]


async def test_each_gateway_may_be_another_controllers(
    settings: tuple[Settings, Settings], tmp_path: Path
) -> None:
    async with two_sites.laid(tmp_path) as sites, AsyncExitStack() as first, running(settings[1]) as two:
        await two_sites.register(two, tmp_path, sites, PARIS)
        one = await first.enter_async_context(running(settings[0]))
        await two_sites.register(one, tmp_path, sites, BERLIN)
        async with sites.running(BERLIN, PARIS):
            owners = {it["name"]: it["owner"] for it in await two.rest("GET", "/gateways")}
            assert owners == {BERLIN: "one", PARIS: "two"}
            await two.rest("POST", "/site-tunnels", described(rekey={"soft_packets": 200}))
            before = (await up(two))["generation"]
            both = await sites.flow(rate=300, seconds=2)
            assert [(it["received"], it["repeated"]) for it in both] == [(it["sent"], 0) for it in both]
            found = await up(two, beyond=before)
            # The second controller continues the first one's work.
            await first.aclose()
            await until(lambda: two.rest("GET", f"/gateways/{BERLIN}"), lambda it: it["owner"] == "two")
            await grow_old(two)
            await up(two, beyond=found["generation"])
            assert await sites.ping(PARIS)
            await two.rest("DELETE", "/site-tunnels/berlin-paris")
            # The reconcilers clean up after the first controller's interrupted steps.
            await until(lambda: held(two), lambda found: found == (0, 0), 40)
