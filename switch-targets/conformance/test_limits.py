"""Hard limits end an SA, soft limits are told before; what the controller is told is limited, and repeated."""

from __future__ import annotations

import asyncio
import math
import time

import pytest
from gateway_entries import FAMILIES, V4, Family, Limits, ip
from gateway_rig import QUIET, Drop, Gateway, new_tunnel, to_inner, to_server

pytestmark = pytest.mark.slow
outers = pytest.mark.parametrize("outer", FAMILIES, ids=lambda it: f"over{it.version}")


@pytest.mark.parametrize(
    "limits", [Limits(hard_packets=3), Limits(hard_bytes=3 * 35)], ids=["packets", "bytes"]
)
async def test_hard_limits(gateway: Gateway, limits: Limits) -> None:
    tunnel = new_tunnel(limits_in=limits, limits_out=limits)
    await gateway.insert(tunnel.entries())
    for sequence in (1, 2, 3):
        await gateway.opens(tunnel, sequence)
        await gateway.seals(tunnel)
    for sequence in (4, 5):
        async with gateway.expect_drops(Drop.HARD_LIMIT):
            gateway.wan.send(gateway.seal(tunnel, to_server(V4, b"request"), sequence))
        async with gateway.expect_drops(Drop.HARD_LIMIT):
            gateway.lan.send(gateway.on_lan(to_inner(V4, b"answer")))


async def test_limits_in_seconds(gateway: Gateway) -> None:
    limits = Limits(soft_seconds=1, hard_seconds=2)
    tunnel = new_tunnel(limits_in=limits, limits_out=limits)
    await gateway.insert(tunnel.entries())
    async with gateway.digests("soft_limit_t") as soft:
        await gateway.opens(tunnel, 1)
        await gateway.seals(tunnel)
        assert soft.empty()
        await asyncio.sleep(1.1)
        await gateway.opens(tunnel, 2)
        await gateway.seals(tunnel)
        said = [await asyncio.wait_for(soft.get(), 2) for _ in range(2)]
        assert said == [{"sa_id": tunnel.sa_in, "outbound": 0}, {"sa_id": tunnel.sa_out, "outbound": 1}]
        await asyncio.sleep(1)
    async with gateway.expect_drops(Drop.HARD_LIMIT):
        gateway.wan.send(gateway.seal(tunnel, to_server(V4, b"request"), 3))
    async with gateway.expect_drops(Drop.HARD_LIMIT):
        gateway.lan.send(gateway.on_lan(to_inner(V4, b"answer")))


@pytest.mark.parametrize("limits", [Limits(soft_packets=2), Limits(soft_bytes=70)], ids=["packets", "bytes"])
async def test_soft_limits_are_told_again_after_256_packets(gateway: Gateway, limits: Limits) -> None:
    """No packet is lost for the digests."""
    tunnel = new_tunnel(limits_in=limits, limits_out=limits)
    await gateway.insert(tunnel.entries())
    told: set[tuple[int, int, int]] = set()
    async with gateway.digests("soft_limit_t") as soft:
        for sequence in range(1, 261):
            await gateway.opens(tunnel, sequence)
            await gateway.seals(tunnel)
            if sequence in (1, 5, 255, 260):
                await asyncio.sleep(QUIET)
                while not soft.empty():
                    said = soft.get_nowait()
                    told.add((sequence, said["sa_id"], said["outbound"]))
    both = ((tunnel.sa_in, 0), (tunnel.sa_out, 1))
    assert told == {(at, *it) for at in (5, 260) for it in both}


async def reaches(queue: asyncio.Queue[dict[str, int]], expected: dict[str, int]) -> None:
    """A message comes, maybe after others."""
    while await asyncio.wait_for(queue.get(), 2) != expected:
        pass


@outers
async def test_a_bad_spi_is_told_but_not_without_end(gateway: Gateway, outer: Family) -> None:
    tunnel = new_tunnel(outer=outer, spi_in=0x9999)
    async with gateway.digests("bad_spi_t") as told:
        begun = time.monotonic()
        for sequence in range(1, 31):
            gateway.wan.send(gateway.seal(tunnel, to_server(V4), sequence))
            await asyncio.sleep(0.01)
        said = await asyncio.wait_for(told.get(), 2)
        assert said == {"dst": ip(outer.gateway), "spi": 0x9999, "src": ip(outer.peer)}
        await asyncio.sleep(QUIET)
        # Four at once, then one a second.
        assert 1 + told.qsize() <= 4 + math.ceil(time.monotonic() - begun)
        gateway.wan.send(gateway.seal(tunnel, to_server(V4), 1, source=outer.elsewhere))
        await reaches(told, said | {"src": ip(outer.elsewhere)})
    assert (await gateway.drops())[Drop.BAD_SPI] == 31


async def test_a_missing_sa_is_told_but_not_without_end(gateway: Gateway) -> None:
    first, second = new_tunnel(), new_tunnel(number=2, inner=FAMILIES[1])
    await gateway.insert(first.spd_out(), second.spd_out())
    async with gateway.digests("acquire_t") as told:
        begun = time.monotonic()
        for _ in range(30):
            gateway.lan.send(gateway.on_lan(to_inner(V4)))
            await asyncio.sleep(0.01)
        assert await asyncio.wait_for(told.get(), 2) == {"sa_id": first.sa_out}
        await asyncio.sleep(QUIET)
        # Three at once, then one a second.
        assert 1 + told.qsize() <= 3 + math.ceil(time.monotonic() - begun)
        gateway.lan.send(gateway.on_lan(to_inner(FAMILIES[1])))
        await reaches(told, {"sa_id": second.sa_out})
    assert (await gateway.drops())[Drop.NO_SA] == 31
    assert gateway.wan.receive(QUIET) is None
