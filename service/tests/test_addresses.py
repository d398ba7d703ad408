"""Inner addresses for many devices that come at once."""

from __future__ import annotations

import asyncio
import datetime
import uuid

import pytest
from culvert_db import Device, Gateway, InSession
from culvert_lab.free_port import free_port
from culvert_proto import Reason, agent_pb2
from culvert_service.tunnels.inner_addresses import assign_address
from sqlalchemy import select

from .conftest import World, next_event, profile_that, refused, serving
from .switch import Switch
from .test_changes import change
from .test_drain import proven

pytestmark = pytest.mark.slow

DEVICES = 64


async def test_concurrent_devices_all_get_an_address(world: World) -> None:
    await world.add_gateway("gw-berlin", free_port())
    devices = [uuid.uuid4() for _ in range(DEVICES)]
    async with world.database.begin() as session:
        session.add_all(
            Device(
                id=one,
                user_id=1,
                name="laptop",
                fingerprint=one.bytes * 2,
                certificate_serial=one.hex,
                certificate_expires_at=datetime.datetime.now(datetime.UTC),
            )
            for one in devices
        )
    together = asyncio.Semaphore(16)

    async def come(device_id: uuid.UUID) -> str:
        async with together, world.database.begin() as session:
            gateway = (await session.scalars(select(Gateway))).one()
            return (await assign_address(InSession(session), gateway, device_id)).address

    found = await asyncio.gather(*map(come, devices))
    assert len(set(found)) == DEVICES


async def test_a_full_pool_reuses_a_revoked_devices_address(world: World, switch: Switch) -> None:
    await change(world, "/gateways/gw-berlin", pool="10.99.1.0/30")
    opened: list[str] = []
    for device in (devices := [await proven(world) for _ in range(3)])[:2]:
        opened.append((await device.open()).tunnel.inner_address)
    assert (await refused(devices[2].open())).reason is Reason.POOL_EXHAUSTED
    await world.rest("POST", f"/devices/{devices[0].id}/revoke")
    assert (await devices[2].open()).tunnel.inner_address == opened[0]
    assert (await refused((await proven(world)).open())).reason is Reason.POOL_EXHAUSTED


def told(profile: agent_pb2.Profile) -> dict[str, tuple[str, str]]:
    """The device's addresses at each gateway."""
    return {it.name: (it.inner_address, it.inner_address6) for it in profile.gateways if it.inner_address}


def gateways(profile: agent_pb2.Profile) -> dict[str, list[str]]:
    """Each resource's gateways, in the order in which its tunnel tries them."""
    return {it.name: list(it.gateways) for it in profile.resources}


async def test_a_profile_tells_the_addresses_that_tunnels_will_have(world: World, switch: Switch) -> None:
    port, lan = free_port(), (await world.rest("GET", "/gateways/gw-berlin"))["lan"]
    lan |= {"address6": "2001:db8:20::1", "prefix6": 64}
    await world.add_gateway("gw-paris", port, number=2, pool6="2001:db8:99::/64", lan=lan)
    async with serving(world, Switch(), "gw-paris", port):
        await world.online("gw-paris")
        await world.add_resource("mail", ["gw-paris", "gw-berlin"], address="10.20.0.10")
        device = await proven(world)
        events = device.watch()
        # On a computer under load, a gateway counts as offline for a moment.
        reached = {"mail": ["gw-paris", "gw-berlin"], "wiki": ["gw-berlin"]}
        profile = await profile_that(events, lambda it: gateways(it) == reached)
        assert told(profile) == {"gw-berlin": ("10.99.1.1", ""), "gw-paris": ("10.99.2.1", "2001:db8:99::1")}
        for name in ("wiki", "mail"):
            tunnel = (await device.open(f"{name}.corp.example")).tunnel
            assert told(profile)[tunnel.gateway.name] == (tunnel.inner_address, tunnel.inner_address6)
    # A resource is reached through the next gateway while its first one is offline.
    led = {"mail": ["gw-berlin"], "wiki": ["gw-berlin"]}
    await profile_that(events, lambda it: not it.gateways[1].online and gateways(it) == led)


async def test_a_gateways_other_pool_is_told_to_devices_that_watch(world: World, switch: Switch) -> None:
    device = await proven(world)
    events = device.watch()
    assert told((await next_event(events, "profile")).profile) == {"gw-berlin": ("10.99.1.1", "")}
    await change(world, "/gateways/gw-berlin", pool="10.97.0.0/24")
    await profile_that(events, lambda it: told(it) == {"gw-berlin": ("10.97.0.1", "")})


async def test_half_of_a_pool_is_left_to_devices_that_open_tunnels(world: World, switch: Switch) -> None:
    await change(world, "/gateways/gw-berlin", pool="10.99.1.0/29")
    devices = [await proven(world) for _ in range(6)]
    profiles = [(await next_event(device.watch(), "profile")).profile for device in devices]
    assert [told(it).get("gw-berlin", ("", ""))[0] for it in profiles] == [
        "10.99.1.1", "10.99.1.2", "10.99.1.3", "", "", "",
    ]  # fmt: skip
    given = [(await device.open()).tunnel.inner_address for device in reversed(devices)]
    assert sorted(given) == [f"10.99.1.{number}" for number in range(1, 7)]


async def test_devices_that_watch_at_once_are_told_different_addresses(world: World, switch: Switch) -> None:
    devices = [await proven(world) for _ in range(8)]
    events = await asyncio.gather(*(next_event(device.watch(), "profile") for device in devices))
    assert len({told(it.profile)["gw-berlin"] for it in events}) == len(devices)
