"""Renewal of a gateway's key-encryption key (KEK) while tunnels carry traffic, on sluice."""

from __future__ import annotations

import asyncio
import base64
import datetime
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from culvert_service.gateways import kek_rotation
from culvert_service.gateways.key_wrap import KeyWrap
from culvert_service.gateways.suite import Suite
from culvert_service.sessions.roaming import Peer
from finsy.proto import p4r, p4r_grpc

from . import two_sites
from .agreement import agreed
from .conftest import Device, World, authority, free_port, running, settings_in, until
from .gateway_process import needs_root, sluice, unpack
from .sealed import esp, opened
from .test_gateway_keys import bundle, keys, settled
from .two_sites import BERLIN, PARIS, described
from .wire import Wires, frame, next_udp, udp


def replace(given: dict[str, Any], directory: Path) -> None:
    """Put a new bundle in the place of the previous one, as an administrator does."""
    unpack(given, directory.with_suffix(".next"))
    for file in directory.with_suffix(".next").iterdir():
        file.replace(directory / file.name)
    directory.with_suffix(".next").rmdir()


def wrap_of(given: dict[str, Any]) -> KeyWrap:
    return KeyWrap(base64.b64decode(given["kek"]))


class AtGateway:
    """Reads a gateway over P4Runtime, as a client with read access."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub

    async def keks(self) -> list[bytes]:
        asked = p4r.Entity(extern_entry=p4r.ExternEntry(extern_type_id=0x81))
        found = await self._read(asked)
        return [one.extern_entry.entry.value[2:] for one in found]

    async def wrapped(self) -> list[bytes]:
        """The wrapped keys of the gateway's AES-256-GCM SAs: its only parameters of more than 32 bytes."""
        found = await self._read(p4r.Entity(table_entry=p4r.TableEntry()))
        params = [one.value for it in found for one in it.table_entry.action.action.params]
        return [value for value in params if len(value) > 32]

    async def _read(self, asked: p4r.Entity) -> list[p4r.Entity]:
        answers = self._stub.Read(p4r.ReadRequest(device_id=1, entities=[asked]))
        return [entity async for answer in answers for entity in answer.entities]


@asynccontextmanager
async def at(world: World, port: int, name: str = "gw-berlin") -> AsyncGenerator[AtGateway]:
    own = authority(world, "infrastructure").issue_p4runtime_client()
    credentials = grpc.ssl_channel_credentials(
        authority(world, "gateway").pem, own.key_pem, own.certificate.pem
    )
    named = [("grpc.ssl_target_name_override", name)]
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, named) as channel:
        yield AtGateway(p4r_grpc.P4RuntimeStub(channel))


async def only_the_new_kek_opens(world: World, port: int, old: KeyWrap, new: KeyWrap, sas: int) -> None:
    async with at(world, port) as gateway:
        assert await gateway.keks() == [new.fingerprint]
        wrapped = await gateway.wrapped()
    assert len(wrapped) == sas
    assert all(new.opens(one, Suite.AES_GCM_256) for one in wrapped)
    assert not any(old.opens(one, Suite.AES_GCM_256) for one in wrapped)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kek_rotation, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(kek_rotation, "_AGAIN_SECONDS", 1.0)


class Client:
    """A device whose tunnel always carries traffic both ways. It renews keys when the controller says so, like culvertd."""

    def __init__(self, device: Device, wires: Wires) -> None:
        self._device = device
        self._wires = wires
        self._sas: dict[int, Any] = {}
        self._sealed = 0
        self.sent: dict[str, set[bytes]] = {"lan": set(), "wan": set()}
        self.arrived: dict[str, set[bytes]] = {"lan": set(), "wan": set()}

    async def open(self) -> None:
        opened_one = await self._device.open()
        self.tunnel_id = opened_one.tunnel.tunnel_id
        self.generation = opened_one.sas.generation
        self._take(opened_one.sas)

    def _take(self, sas: Any) -> None:
        self._sas[sas.inbound.spi] = sas.inbound
        self._outbound, self._sealed = sas.outbound, 0

    async def renewing(self) -> None:
        async for event in self._device.watch():
            if event.HasField("sa_expiring") and event.sa_expiring.generation == self.generation:
                sas = await self._device.renew(self.tunnel_id, self.generation)
                self._sas[sas.inbound.spi] = sas.inbound
                await self._device.activate(self.tunnel_id, sas.generation)
                self._take(sas)
                self.generation = sas.generation

    async def send(self, text: bytes) -> None:
        here, inner = Peer("203.0.113.10", 4500), Peer("10.99.1.1", 40000)
        gateway, wiki = Peer("198.51.100.1", 4500), Peer("10.20.0.10", 80)
        self._sealed += 1
        packet = esp(self._outbound, self._sealed, udp(inner, wiki, text))
        self.sent["lan"].add(text)
        await self._wires.send(self._wires.wan, frame("02:00:00:00:01:01", udp(here, gateway, packet)))
        self.sent["wan"].add(text)
        await self._wires.send(self._wires.lan, frame("02:00:00:00:02:01", udp(wiki, inner, text)))

    async def hear_lan(self) -> None:
        while True:
            self.arrived["lan"].add((await next_udp(self._wires.lan))[1])

    async def hear_wan(self) -> None:
        while True:
            packet = (await next_udp(self._wires.wan))[1]
            self.arrived["wan"].add(opened(self._sas[int.from_bytes(packet[:4])], packet)[28:])


@asynccontextmanager
async def using(client: Client) -> AsyncGenerator[None]:
    """Send packets both ways every 10 ms. Each packet must arrive."""

    async def send() -> None:
        for number in range(1_000_000):
            await client.send(b"%d" % number)
            await asyncio.sleep(0.01)

    others = [asyncio.create_task(work()) for work in (client.renewing, client.hear_lan, client.hear_wan)]
    sending = asyncio.create_task(send())
    try:
        yield
        sending.cancel()
        await asyncio.wait([sending])
        if not sending.cancelled():
            sending.result()
        await until(_at_once(lambda: client.arrived), lambda arrived: arrived == client.sent)
        assert len(client.sent["lan"]) > 100
    finally:
        for task in (sending, *others):
            task.cancel()
        ended = await asyncio.gather(*others, return_exceptions=True)
        assert [one for one in ended if not isinstance(one, asyncio.CancelledError)] == []


def _at_once(ask: Callable[[], Any]) -> Callable[[], Awaitable[Any]]:
    async def asking() -> Any:
        return ask()

    return asking


@pytest.fixture
async def client(world: World, wires: Wires) -> Client:
    device = await world.enrol()
    await device.prove()
    return Client(device, wires)


@pytest.fixture
async def gateway(world: World, tmp_path: Path) -> tuple[Path, int, KeyWrap]:
    """A gateway: the directory of its bundle, its port and its KEK."""
    port = free_port()
    await world.add_gateway("gw-berlin", port)
    await world.add_wiki(["gw-berlin"])
    given = await bundle(world)
    unpack(given, tmp_path / "gateway")
    return tmp_path / "gateway", port, wrap_of(given)


@pytest.mark.slow
@needs_root
@pytest.mark.usefixtures("soon")
async def test_a_kek_is_renewed_under_traffic_without_losing_a_packet(
    world: World, wires: Wires, gateway: tuple[Path, int, KeyWrap], client: Client
) -> None:
    directory, port, old = gateway
    async with sluice(directory, wires.names, port):
        await world.online("gw-berlin")
        await client.open()
        async with using(client):
            for generation in (2, 3):
                given = await bundle(world)
                replace(given, directory)
                found = await settled(world)
                assert found["rekeying_since"] is None
                assert client.generation == generation
                await only_the_new_kek_opens(world, port, old, wrap_of(given), sas=2)
                old = wrap_of(given)
        await agreed(world, {client.tunnel_id})
    told = [line["details"]["state"] for line in await world.rest("GET", "/audit?action=gateway.kek")]
    assert told == ["settled", "rekeying"] * 2


@pytest.mark.slow
@needs_root
@pytest.mark.usefixtures("soon")
async def test_a_tunnel_whose_device_does_not_renew_is_closed_after_a_while(
    world: World,
    wires: Wires,
    gateway: tuple[Path, int, KeyWrap],
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory, port, old = gateway
    monkeypatch.setattr(kek_rotation, "PATIENCE", datetime.timedelta(seconds=3))
    async with sluice(directory, wires.names, port):
        await world.online("gw-berlin")
        await client.open()
        given = await bundle(world)
        replace(given, directory)
        found = await until(lambda: keys(world), lambda found: found["sas_left"] is not None)
        assert (found["state"], found["sas_left"]) == ("rekeying", 2)
        await settled(world)
        await only_the_new_kek_opens(world, port, old, wrap_of(given), sas=0)
        await agreed(world, ())
    [line] = await world.rest("GET", "/audit?action=tunnel.close")
    assert (line["actor_kind"], line["reason"]) == ("system", "TUNNEL_OUTDATED")


@pytest.mark.slow
@needs_root
@pytest.mark.usefixtures("soon")
async def test_a_gateway_that_starts_with_its_next_kek_alone_is_served_under_it(
    world: World, wires: Wires, gateway: tuple[Path, int, KeyWrap], client: Client
) -> None:
    directory, port, old = gateway
    async with sluice(directory, wires.names, port):
        await world.online("gw-berlin")
        await client.open()
        given = await bundle(world)
    replace(given, directory)
    async with sluice(directory, wires.names, port):
        await world.online("gw-berlin")
        await client.open()
        await settled(world)
        await only_the_new_kek_opens(world, port, old, wrap_of(given), sas=2)


@pytest.mark.slow
@needs_root
@pytest.mark.usefixtures("soon")
async def test_a_gateway_with_another_kek_is_not_written_until_it_has_its_own(
    world: World, wires: Wires, gateway: tuple[Path, int, KeyWrap], client: Client
) -> None:
    directory, port, _ = gateway
    (directory / "kek.bin").write_bytes(bytes(32))
    async with sluice(directory, wires.names, port):
        shown = await until(
            lambda: world.rest("GET", "/gateways/gw-berlin"),
            lambda found: "another key-encryption key" in found["reason"],
        )
        assert shown["state"] == "offline"
        async with at(world, port) as there:
            assert await there.wrapped() == []
        # The gateway has kept none of its earlier KEKs.
        replace(await bundle(world), directory)
        await world.online("gw-berlin")
        await client.open()
        await settled(world)


@pytest.mark.slow
@needs_root
@pytest.mark.usefixtures("soon")
async def test_a_rotation_resumes_wherever_the_last_controller_stopped(
    tmp_path: Path, database_url: str, wires: Wires
) -> None:
    settings, port = settings_in(tmp_path, database_url=database_url), free_port()
    async with running(settings) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        await world.add_gateway("gw-berlin", port)
        await world.add_wiki(["gw-berlin"])
        given = await bundle(world)
        device = await world.enrol()
    unpack(given, tmp_path / "gateway")
    lives = random.Random(22)  # noqa: S311
    client = Client(device, wires)
    async with sluice(tmp_path / "gateway", wires.names, port):
        for _ in range(3):
            old = wrap_of(given)
            async with running(settings) as world:
                await world.online("gw-berlin")
                device.connect()
                await device.prove()
                await client.open()
                given = await bundle(world)
            replace(given, tmp_path / "gateway")
            for _ in range(4):
                async with running(settings) as world:
                    await asyncio.sleep(lives.uniform(0.2, 3))
            async with running(settings) as world:
                device.connect()
                renewing = asyncio.create_task(client.renewing())
                await settled(world)
                await only_the_new_kek_opens(world, port, old, wrap_of(given), sas=2)
                await agreed(world, {client.tunnel_id})
                renewing.cancel()
                await asyncio.wait([renewing])


@pytest.mark.slow
@needs_root
@pytest.mark.usefixtures("soon")
async def test_a_tunnel_between_gateways_loses_nothing_while_a_kek_changes(
    world: World, tmp_path: Path
) -> None:
    async with two_sites.laid(tmp_path) as sites:
        await two_sites.register(world, tmp_path, sites)
        async with sites.running(BERLIN, PARIS):
            await world.online(BERLIN)
            await world.online(PARIS)
            await world.rest("POST", "/site-tunnels", described())
            shown = lambda: world.rest("GET", "/site-tunnels/berlin-paris")  # noqa: E731
            before = await until(shown, lambda found: found["state"] == "up")
            await until(lambda: sites.ping(BERLIN), bool)
            flowing = asyncio.create_task(sites.flow(rate=200, seconds=25))
            await asyncio.sleep(1)
            for name in (BERLIN, PARIS):
                given = await bundle(world, name)
                replace(given, tmp_path / name)
                await settled(world, name)
            assert not flowing.done()
            here, there = await flowing
            assert (here["received"], there["received"]) == (there["sent"], here["sent"])
            assert (await shown())["generation"] >= before["generation"] + 2
