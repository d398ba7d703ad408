"""Crypto hosts: SAs are placed on them, move when a host drains or dies, and packets go through them.

device's ESP ─── wan ─[ sluice, gateway ]─ lan ─── 10.20.0.10
                         4 │     │ 5
                       [ sluice ][ sluice ]   the hosts a and b
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from culvert_lab.console import NARROW, WIDE
from culvert_lab.free_port import free_port
from culvert_proto import Reason, agent_pb2
from culvert_service.gateways.schemas import GatewayIn
from culvert_service.tunnels.roaming import Peer
from playwright.async_api import expect

from .conftest import Device, World, next_event, until
from .console_page import BUILT, administrator, chromium_running, console
from .gateway_process import SLUICE, needs_root, unpack
from .sealed import esp, opened
from .test_tunnels import tunnels
from .wire import Wires, frame, ip, next_udp, udp

pytestmark = [pytest.mark.slow, needs_root]

HOSTS = "/gateways/gw-berlin/crypto-hosts"
WIKI, ASKS, SAYS = Peer("10.20.0.10", 80), b"asks", b"says"


def host(name: str, port: int, grpc: int, **fields: object) -> dict[str, Any]:
    return {
        "name": name,
        "p4runtime": f"127.0.0.1:{grpc}",
        "port": port,
        "mac": f"02:00:00:00:0{port}:01",
        "host_mac": f"02:00:00:00:0{port}:02",
    } | fields


@dataclass
class Site:
    """A gateway with crypto hosts, each with its veth pair, its files and its process."""

    world: World
    wires: Wires
    directory: Path
    ports: dict[str, int] = field(default_factory=dict[str, int])
    processes: dict[str, asyncio.subprocess.Process] = field(
        default_factory=dict[str, asyncio.subprocess.Process]
    )

    async def add(self, name: str, port: int) -> None:
        self.ports[name] = free_port()
        await ip("link", "add", f"cvg{port}", "type", "veth", "peer", "name", f"cvh{port}")
        for end in (f"cvg{port}", f"cvh{port}"):
            # Chromium gives up what it loads when an address comes.
            await ip("link", "set", end, "up", "mtu", "1700", "addrgenmode", "none")
        await self.world.rest("POST", HOSTS, host(name, port, self.ports[name]))
        unpack(await self.world.rest("POST", f"{HOSTS}/{name}/bundle"), self.directory / name)
        await self.start(name, f"1=cvh{port}")

    async def start(self, name: str, *interfaces: str) -> None:
        files = self.directory / name
        self.processes[name] = await asyncio.create_subprocess_exec(
            *(str(SLUICE), "--device-id", "1", "--grpc", f"127.0.0.1:{self.ports[name]}"),
            *(word for one in interfaces for word in ("--port", one)),
            *("--client-name", "culvert-controller", "--client-ca", str(files / "ca.pem")),
            *("--cert", str(files / "gateway.pem"), "--key", str(files / "gateway.key")),
            *("--kek", str(files / "kek.bin")),
        )

    async def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        self.processes[name].send_signal(how)
        if how is signal.SIGKILL:
            await self.processes[name].wait()

    async def shown(self) -> dict[str, dict[str, Any]]:
        return {it["name"]: it for it in await self.world.rest("GET", HOSTS)}

    async def sas(self) -> dict[str, int]:
        return {name: it["sas"] for name, it in (await self.shown()).items()}

    async def usable(self, *names: str) -> None:
        """Wait until the gateway may place SAs on these hosts."""
        await until(self.shown, lambda found: all(found[name]["state"] == "online" for name in names))

    async def send(self, sas: agent_pb2.SaPair, number: int, inner: str) -> None:
        here = Peer(inner, 40000)
        outer = udp(
            Peer("203.0.113.10", 4500),
            Peer("198.51.100.1", 4500),
            esp(sas.outbound, number, udp(here, WIKI, ASKS)),
        )
        await self.wires.send(self.wires.wan, frame("02:00:00:00:01:01", outer))

    async def passes(self, sas: agent_pb2.SaPair, number: int, inner: str) -> None:
        """A packet goes to the LAN, and its answer comes back. `number`: of the SA's packet."""
        await self.send(sas, number, inner)
        here = Peer(inner, 40000)
        assert await next_udp(self.wires.lan) == (WIKI, ASKS)
        await self.wires.send(self.wires.lan, frame("02:00:00:00:02:01", udp(WIKI, here, SAYS)))
        _, packet = await next_udp(self.wires.wan)
        assert opened(sas.inbound, packet)[28:] == SAYS


@pytest.fixture
async def site(world: World, wires: Wires, tmp_path: Path) -> AsyncGenerator[Site]:
    site = Site(world, wires, tmp_path)
    site.ports["gateway"] = free_port()
    await world.add_gateway("gw-berlin", site.ports["gateway"])
    await world.add_wiki(["gw-berlin"])
    unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
    async with AsyncExitStack() as stack:
        for port in (4, 5):
            stack.push_async_callback(_remove, f"cvg{port}")
        stack.push_async_callback(_end, site)
        await site.add("a", 4)
        await site.add("b", 5)
        await site.start("gateway", f"1={wires.names[0]}", f"2={wires.names[1]}", "4=cvg4", "5=cvg5")
        await world.online("gw-berlin")
        await site.usable("a", "b")
        yield site


async def _remove(interface: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "ip", "link", "delete", interface, stderr=asyncio.subprocess.DEVNULL
    )
    await process.wait()


async def _end(site: Site) -> None:
    for process in site.processes.values():
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()


@pytest.fixture
async def device(world: World, site: Site) -> Device:
    device = await world.enrol()
    await device.prove()
    return device


async def test_a_tunnel_is_served_by_a_host(site: Site, device: Device) -> None:
    answer = await device.open()
    await site.passes(answer.sas, 1, answer.tunnel.inner_address)
    assert sorted((await site.sas()).values()) == [0, 2]
    metrics = (await site.world.admin.get("/api/v1/metrics")).text
    assert ('culvert_crypto_host_online{crypto_host="a",gateway="gw-berlin"} 1.0') in metrics
    found = (await site.world.rest("GET", "/gateways/gw-berlin/entries"))["entries"]
    of = {
        table: [it for it in found if it["table"] == table]
        for table in ("sad_in", "sad_out", "host_in", "host_out")
    }
    assert [it["action"] for it in (*of["sad_in"], *of["sad_out"])] == ["open_at", "seal_at"]
    assert {it["standing"] for it in found} == {"held"}
    assert len(of["host_in"]) == len(of["host_out"]) == 1
    await device.close(answer.tunnel.tunnel_id)
    assert sorted((await site.sas()).values()) == [0, 0]
    found = (await site.world.rest("GET", "/gateways/gw-berlin/entries"))["entries"]
    assert {it["table"] for it in found}.isdisjoint(
        {"sad_in", "crypto_in", "crypto_out", "host_in", "host_out"}
    )


async def test_tunnels_are_spread_evenly(site: Site, world: World) -> None:
    for _ in range(4):
        device = await world.enrol()
        await device.prove()
        await device.open()
    assert list((await site.sas()).values()) == [4, 4]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_host_that_dies_loses_no_tunnel(site: Site, device: Device, how: signal.Signals) -> None:
    answer = await device.open()
    events = device.watch()
    await next_event(events, "profile")
    [served] = [name for name, sas in (await site.sas()).items() if sas]
    other = {"a": "b", "b": "a"}[served]
    began = time.monotonic()
    await site.kill(served, how)
    closed = (await next_event(events, "tunnel_closed")).tunnel_closed
    assert closed.why.reason == Reason.SA_LOST
    again = await device.open()
    print(f"{how.name}: fresh keys after {1000 * (time.monotonic() - began):.0f} ms")
    assert again.tunnel.tunnel_id == answer.tunnel.tunnel_id
    await site.passes(again.sas, 1, again.tunnel.inner_address)
    assert (await site.sas())[other] == 2
    assert (await site.world.rest("GET", "/gateways/gw-berlin"))["drift"]["repaired"] == 0
    # Entries that the host still has are removed before it serves again.
    if how is signal.SIGSTOP:
        await site.kill(served, signal.SIGCONT)
        await site.usable(served)
        found = (await site.world.rest("GET", "/gateways/gw-berlin/entries"))["entries"]
        assert [it["match"]["port"] for it in found if it["table"] == "host_in"] == [{"a": 4, "b": 5}[other]]
    await events.aclose()


async def test_a_dead_cable_loses_no_tunnel(site: Site, device: Device) -> None:
    answer = await device.open()
    inner = answer.tunnel.inner_address
    await site.passes(answer.sas, 1, inner)
    events = device.watch()
    await next_event(events, "profile")
    [served] = [name for name, sas in (await site.sas()).items() if sas]
    await ip("link", "set", {"a": "cvh4", "b": "cvh5"}[served], "down")

    async def ask() -> None:
        for number in itertools.count(2):
            await site.send(answer.sas, number, inner)
            await asyncio.sleep(0.1)

    asking = asyncio.create_task(ask())
    try:
        closed = (await next_event(events, "tunnel_closed")).tunnel_closed
    finally:
        asking.cancel()
    assert closed.why.reason == Reason.SA_LOST
    again = await device.open()
    await site.passes(again.sas, 1, inner)
    found = (await site.shown())[served]
    assert (found["state"], found["sas"]) == ("offline", 0)
    assert found["reason"].endswith("carries no answers from it")
    await events.aclose()


async def test_a_host_that_drains_gives_its_tunnels_away(site: Site, device: Device, world: World) -> None:
    answer = await device.open()
    tunnel_id, inner = answer.tunnel.tunnel_id, answer.tunnel.inner_address
    events = device.watch()
    await next_event(events, "profile")
    [served] = [name for name, sas in (await site.sas()).items() if sas]
    refusal = await world.admin.delete(f"/api/v1{HOSTS}/{served}")
    assert (refusal.status_code, refusal.json()["reason"]) == (409, "CRYPTO_HOST_IN_USE")
    await world.rest("POST", f"{HOSTS}/{served}/drain")
    asked = (await next_event(events, "sa_expiring")).sa_expiring
    assert asked.tunnel_id == tunnel_id
    await site.passes(answer.sas, 1, inner)
    fresh = await device.renew(tunnel_id, 1)
    # Both pairs work until the device uses the fresh one.
    await site.passes(answer.sas, 2, inner)
    await device.activate(tunnel_id, 2)
    await site.passes(fresh, 1, inner)
    await until(site.sas, lambda found: found[served] == 0)
    await site.passes(fresh, 2, inner)
    await world.rest("DELETE", f"{HOSTS}/{served}")
    await site.passes(fresh, 3, inner)
    assert [one["id"] for one in await tunnels(world)] == [tunnel_id]
    await events.aclose()


async def test_without_a_usable_host_the_own_engine_serves(site: Site, device: Device) -> None:
    for name in ("a", "b"):
        await site.kill(name)
    await until(site.shown, lambda found: {it["state"] for it in found.values()} == {"offline"})
    answer = await device.open()
    await site.passes(answer.sas, 1, answer.tunnel.inner_address)
    assert await site.sas() == {"a": 0, "b": 0}


async def test_a_host_with_another_key_is_not_used(site: Site, world: World) -> None:
    await site.kill("a")
    (site.directory / "a" / "kek.bin").write_bytes(bytes(32))
    await site.start("a", "1=cvh4")
    found = await until(site.shown, lambda found: "key" in found["a"]["reason"])
    assert (found["a"]["state"], found["a"]["reason"]) == (
        "offline",
        "it has another key-encryption key than the controller",
    )


async def test_an_invalid_host_is_refused(site: Site, world: World) -> None:
    async def refusal(body: dict[str, Any], gateway: str = "gw-berlin") -> tuple[int, str, str | None]:
        answer = await world.admin.post(f"/api/v1/gateways/{gateway}/crypto-hosts", json=body)
        problem: dict[str, Any] = answer.json()
        return (
            answer.status_code,
            problem["reason"],
            problem["errors"][0]["pointer"] if problem.get("errors") else None,
        )

    free = free_port()
    assert await refusal(host("a", 6, free)) == (409, "ALREADY_EXISTS", "/name")
    assert await refusal(host("gw-berlin", 6, free)) == (409, "ALREADY_EXISTS", "/name")
    assert await refusal(host("c", 4, free)) == (409, "ALREADY_EXISTS", "/port")
    assert await refusal(host("c", 1, free)) == (422, "REQUEST_INVALID", "/port")
    assert await refusal(host("c", 512, free)) == (422, "REQUEST_INVALID", "/port")
    assert await refusal(host("c", 6, site.ports["a"])) == (409, "ALREADY_EXISTS", "/p4runtime")
    assert await refusal(host("c", 6, free, mac="ff")) == (422, "REQUEST_INVALID", "/mac")
    assert (await refusal(host("c", 6, free), "gw-paris"))[:2] == (404, "NOT_FOUND")
    for path, body in (
        ("/gateways", (await world.rest("GET", "/gateways/gw-berlin")) | {"name": "a"}),
        ("/gateway-enrolments", {"gateway": "a", "pool": "10.98.0.0/24"}),
    ):
        given = GatewayIn.model_fields if path == "/gateways" else body
        asked = {field: value for field, value in body.items() if field in given}
        answer = await world.admin.post(f"/api/v1{path}", json=asked)
        assert answer.json()["detail"] == "The crypto host a exists already.", answer.text
    assert (await world.admin.get(f"/api/v1{HOSTS}/c")).json()["reason"] == "NOT_FOUND"


@pytest.mark.skipif(not BUILT.is_file(), reason="the console is not built: service/console/build")
async def test_the_console_adds_drains_and_deletes_a_host(site: Site, device: Device, world: World) -> None:
    await device.open()
    [served] = [name for name, sas in (await site.sas()).items() if sas]
    free = {"a": "b", "b": "a"}[served]
    async with (
        chromium_running() as running,
        administrator(world, "olga", "owner") as olga,
        console(world, running) as shown,
    ):
        page = shown.page
        await shown.open("gateways/of/gw-berlin")
        await shown.sign_in(olga)
        section = page.get_by_role("region", name="Crypto hosts")
        table = section.get_by_role("table", name="Crypto hosts")
        await expect(section).to_contain_text("2 crypto hosts")
        await expect(table.get_by_role("row", name=f"{served} online")).to_contain_text("2")
        await expect(section.get_by_role("button", name=f"Delete {served}")).to_be_disabled()
        await section.get_by_role("button", name=f"Drain {free}").click()
        await expect(table.get_by_role("row", name=f"{free} drained")).to_be_visible()
        await shown.picture("crypto-hosts")
        await page.set_viewport_size(NARROW)
        await section.scroll_into_view_if_needed()
        await shown.picture("narrow-crypto-hosts")
        await page.set_viewport_size(WIDE)
        await section.get_by_role("button", name=f"Delete {free}").click()
        dialog = page.get_by_role("dialog")
        await shown.picture("crypto-host-delete")
        await dialog.get_by_role("button", name=f"Delete {free}").click()
        await expect(section).to_contain_text("1 crypto host")
        await section.get_by_role("button", name="Add a crypto host").click()
        await dialog.get_by_role("textbox", name="Name", exact=True).fill("c")
        await dialog.get_by_label("P4Runtime address").fill(f"127.0.0.1:{free_port()}")
        await dialog.get_by_label("Gateway\u2019s port").fill("1")
        await dialog.get_by_label("MAC address there").first.fill("02:00:00:00:06:01")
        await dialog.get_by_label("MAC address at the host\u2019s port").fill("02:00:00:00:06:02")
        await dialog.get_by_role("button", name="Add it").click()
        await expect(dialog.get_by_text("port 1 is the gateway's WAN port")).to_be_visible()
        await shown.picture("crypto-host-add")
        await dialog.get_by_label("Gateway\u2019s port").fill("6")
        await dialog.get_by_role("button", name="Add it").click()
        await expect(table.get_by_role("row", name="c offline")).to_contain_text(
            "nothing listens at its P4Runtime address"
        )
        await shown.picture("crypto-host-offline")
