"""Tunnels end to end on the controller's side: a device over mTLS, Postgres, a P4Runtime switch."""

from __future__ import annotations

import asyncio
import time

import pytest
from culvert_proto import Reason

from .conftest import World, refused, until
from .switch import Switch

pytestmark = pytest.mark.slow


async def tunnel_entries(world: World) -> int:
    return (await world.rest("GET", "/gateways/gw-berlin/entries"))["tunnel_entries"]


async def test_open_programs_the_gateway_and_answers(world: World, switch: Switch) -> None:
    device = await world.enrol()
    await device.prove()
    opened = await device.open()
    tunnel, sas = opened.tunnel, opened.sas
    assert (tunnel.inner_address, list(tunnel.remote_prefixes)) == ("10.99.1.1", ["10.20.0.10/32"])
    assert (tunnel.outer_address, tunnel.outer_port) == ("198.51.100.1", 4500)
    assert len(sas.inbound.key) == len(sas.outbound.key) == 36
    assert 0 < opened.decided_us < opened.programmed_us
    assert await tunnel_entries(world) == 4
