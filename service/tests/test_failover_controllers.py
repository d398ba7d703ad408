"""Tunnels that move between gateways of one controller, while their device's stream is at another.

device ── stream, calls ──► two ── NOTIFY ──► one ──┬── sluice gw-berlin
                                                    └── sluice gw-paris
"""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from culvert_lab.free_port import free_port
from culvert_proto import Reason

from .conftest import World, running, settings_in, until
from .gateway_process import SLUICE, sluice, unpack
from .test_controllers import owned, owners
from .test_failover import gateway_of_tunnel, heard
from .wire import Wires

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for interfaces"),
    pytest.mark.skipif(not SLUICE.exists(), reason="sluice is not built"),
]


async def test_drain_and_failover_reach_devices_of_another_controller(
    wires: Wires, tmp_path: Path, database_url: str
) -> None:
    first, second = (
        settings_in(tmp_path, database_url=database_url, controller_name=name, lease_seconds=12)
        for name in ("one", "two")
    )
    ports = {"gw-berlin": free_port(), "gw-paris": free_port()}
    async with running(first) as one, AsyncExitStack() as gateways:
        await one.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        processes: dict[str, AsyncExitStack] = {}
        for number, (name, port) in enumerate(ports.items(), 1):
            await one.add_gateway(name, port, number)
            unpack(await one.rest("POST", f"/gateways/{name}/bundle"), tmp_path / name)
            processes[name] = await gateways.enter_async_context(AsyncExitStack())
            await processes[name].enter_async_context(sluice(tmp_path / name, wires.names, port))
            await one.online(name)
        await one.add_wiki(list(ports))
        # The share of the other one; nothing is there.
        await one.add_gateway("gw-oslo", free_port(), 3)
        async with running(second) as two:
            shared = {"gw-berlin": "one", "gw-oslo": "two", "gw-paris": "one"}
            await until(lambda: owners(two), lambda found: found == shared, 20)
            await owned(two, "one")
            device = await two.enrol()
            await device.prove()
            events = device.watch()
            assert await heard(events, "profile")
            assert (await device.open()).tunnel.gateway.name == "gw-berlin"

            await one.rest("POST", "/gateways/gw-berlin/drain")
            asked = await heard(events, "gateway_moved")
            assert asked is not None
            assert asked.gateway_moved.why.reason == int(Reason.GATEWAY_DRAINING)
            assert (await device.open()).tunnel.gateway.name == "gw-paris"
            assert (await two.rest("GET", "/gateways/gw-berlin"))["tunnels"] == 0
            await two.rest("POST", "/gateways/gw-berlin/undrain")

            await processes["gw-paris"].aclose()
            asked = await heard(events, "gateway_moved")
            assert asked is not None
            assert asked.gateway_moved.why.reason == int(Reason.GATEWAY_DOWN)
            assert (await device.open()).tunnel.gateway.name == "gw-berlin"
            assert await gateway_of_tunnel(two) == "gw-berlin"
            # The gateway keeps only the entries of the tunnel's second life there.
            await until(lambda: entries_of("gw-berlin", one, two), lambda it: it == [5])


async def entries_of(gateway: str, *controllers: World) -> list[int]:
    """The gateway's tunnel entries, as each controller that owns it reports them."""
    path = f"/api/v1/gateways/{gateway}/entries"
    answers = [await it.admin.get(path) for it in controllers]
    return [it.json()["tunnel_entries"] for it in answers if it.is_success]
