"""The same against the real gateway: sluice, on the two ends of a veth pair that carries nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from culvert_lab.free_port import free_port
from culvert_proto import Reason
from culvert_service.config import Settings
from finsy import P4Schema
from finsy.proto import p4r, p4r_grpc

from .agreement import agreed
from .conftest import Device, World, authority, next_event, until
from .gateway_process import needs_root, sluice, unpack
from .wire import ip

pytestmark = [
    pytest.mark.slow,
    needs_root,
]


@pytest.fixture
async def ports() -> AsyncGenerator[tuple[str, str]]:
    names = (f"cvw{os.getpid() % 10**6}", f"cvl{os.getpid() % 10**6}")
    await ip("link", "add", names[0], "type", "veth", "peer", "name", names[1])
    for name in names:
        await ip("link", "set", name, "up")
    yield names
    await ip("link", "delete", names[0])


@pytest.fixture
async def gateway(world: World, tmp_path: Path) -> tuple[Path, int]:
    port = free_port()
    await world.add_gateway("gw-berlin", port)
    await world.add_wiki(["gw-berlin"])
    unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
    return tmp_path / "gateway", port


@pytest.fixture
async def device(world: World) -> Device:
    device = await world.enrol()
    await device.prove()
    return device


async def tunnel_entries(world: World) -> int:
    return int((await world.rest("GET", "/gateways/gw-berlin/entries"))["tunnel_entries"])


async def test_a_tunnels_whole_life(
    world: World, device: Device, gateway: tuple[Path, int], ports: tuple[str, str]
) -> None:
    directory, port = gateway
    async with sluice(directory, ports, port):
        await world.online("gw-berlin")
        opened = await device.open()
        tunnel_id = opened.tunnel.tunnel_id
        assert await tunnel_entries(world) == 5
        renewed = await device.renew(tunnel_id, opened.sas.generation)
        assert await tunnel_entries(world) == 8
        await device.activate(tunnel_id, renewed.generation)
        await until(lambda: tunnel_entries(world), lambda count: count == 5)
        await agreed(world, {tunnel_id})
        await device.close(tunnel_id)
        assert await tunnel_entries(world) == 0


async def test_a_gateway_that_dies_is_told_from_one_that_comes_back_empty(
    world: World, device: Device, gateway: tuple[Path, int], ports: tuple[str, str]
) -> None:
    directory, port = gateway
    events = device.watch()
    async with sluice(directory, ports, port):
        await world.online("gw-berlin")
        tunnel = (await device.open()).tunnel
    async with asyncio.timeout(10):
        with pytest.raises(Exception, match="cannot be reached"):
            await device.open()
    assert len(await world.rest("GET", "/tunnels")) == 1
    async with sluice(directory, ports, port):
        await world.online("gw-berlin")
        async for event in events:
            if event.HasField("tunnel_closed"):
                assert event.tunnel_closed.why.reason == int(Reason.SA_LOST)
                break
        # Filled again, before the device asks.
        assert await tunnel_entries(world) == 5
        assert (await device.open()).sas.generation == 2
        await agreed(world, {tunnel.tunnel_id})


class Intruder:
    """A client that writes to the gateway with the owner's election id, beside the owner's stream."""

    def __init__(self, stub: Any, epoch: int) -> None:
        self._stub = stub
        self._epoch = epoch
        self._schema = P4Schema(Settings().p4_artifacts / "gateway.p4info.txtpb")

    async def entries(self, table: str) -> list[p4r.TableEntry]:
        wanted = p4r.Entity(table_entry=p4r.TableEntry(table_id=self._schema.tables[table].id))
        answers = [it async for it in self._stub.Read(p4r.ReadRequest(device_id=1, entities=[wanted]))]
        return [entity.table_entry for it in answers for entity in it.entities]

    async def write(self, kind: p4r.Update.Type.ValueType, entry: p4r.TableEntry) -> None:
        update = p4r.Update(type=kind, entity=p4r.Entity(table_entry=entry))
        election_id = p4r.Uint128(low=self._epoch)
        await self._stub.Write(p4r.WriteRequest(device_id=1, election_id=election_id, updates=[update]))


@asynccontextmanager
async def intruding(world: World, port: int) -> AsyncGenerator[Intruder]:
    mine = authority(world, "infrastructure").issue_p4runtime_client()
    ca = authority(world, "gateway")
    credentials = grpc.ssl_channel_credentials(ca.pem, mine.key_pem, mine.certificate.pem)
    named = [("grpc.ssl_target_name_override", "gw-berlin")]
    epoch = (await world.rest("GET", "/gateways/gw-berlin"))["epoch"]
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, named) as channel:
        yield Intruder(p4r_grpc.P4RuntimeStub(channel), epoch)


async def drift(world: World) -> dict[str, Any]:
    return (await world.rest("GET", "/gateways/gw-berlin"))["drift"]


async def test_changes_by_an_intruder_are_repaired_and_shown(
    world: World,
    device: Device,
    gateway: tuple[Path, int],
    ports: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("culvert_service.gateways.link._RECONCILE_SECONDS", 0.5)
    directory, port = gateway
    async with sluice(directory, ports, port):
        await world.online("gw-berlin")
        tunnel = (await device.open()).tunnel
        async with intruding(world, port) as intruder:
            policies, [permit] = await intruder.entries("spd_out"), await intruder.entries("spd_in")
            assert (await drift(world))["repaired"] == 0
            await intruder.write(p4r.Update.DELETE, policies[0])
            found = await until(lambda: drift(world), lambda it: it["repaired"] == 1)
            assert (found["missing"], found["foreign"]) == (1, 0)
            restored = await intruder.entries("spd_out")
            assert sorted(restored, key=str) == sorted(policies, key=str)
            # This policy admits any inner packet of that SA.
            [sa] = [field for field in permit.match if field.HasField("exact")]
            permit.ClearField("match")
            permit.match.append(sa)
            await intruder.write(p4r.Update.INSERT, permit)
            found = await until(lambda: drift(world), lambda it: it["repaired"] == 2)
            assert (found["missing"], found["foreign"]) == (0, 1)
            await agreed(world, {tunnel.tunnel_id})
            # The SA's keys are lost: the tunnel gets new ones.
            events = device.watch()
            await next_event(events, "profile")
            await intruder.write(p4r.Update.DELETE, (await intruder.entries("sad_in"))[0])
            closed = (await next_event(events, "tunnel_closed")).tunnel_closed
            assert (closed.tunnel_id, closed.why.reason) == (tunnel.tunnel_id, int(Reason.SA_LOST))
            assert (await until(lambda: drift(world), lambda it: it["repaired"] == 3))["missing"] > 0
            assert (await device.open()).sas.generation == 2
            await agreed(world, {tunnel.tunnel_id})
