"""Renewal of a gateway's key-encryption key (KEK) while tunnels carry traffic, on sluice."""

from __future__ import annotations

import asyncio
import base64
import datetime
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509
from culvert_lab.free_port import free_port
from culvert_proto import CulvertError, Reason, agent_pb2
from culvert_proto.contract import Suite
from culvert_service.gateways import kek_rotation
from culvert_service.gateways.key_wrap import KeyWrap
from culvert_service.tunnels.roaming import Peer
from finsy.proto import p4r, p4r_grpc

from . import two_sites
from .agreement import agreed
from .conftest import Device, World, authority, running, settings_in, until
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


def expiry_of(given: dict[str, Any]) -> datetime.datetime:
    return x509.load_pem_x509_certificate(given["certificate_pem"].encode()).not_valid_after_utc


# The width of a wrapped key in the gateway's tables (p4/gateway/esp_engine.p4).
WRAPPED_KEY_BYTES = 72


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
        # P4Runtime leaves leading zeros out (section 8.4).
        return [value.rjust(WRAPPED_KEY_BYTES, b"\0") for value in params if len(value) > 32]

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
    monkeypatch.setattr(kek_rotation, "AGAIN_SECONDS", 1.0)


def is_lost(error: CulvertError) -> bool:
    return error.reason in (Reason.TUNNEL_UNKNOWN, Reason.GENERATION_STALE)


@dataclass
class Carried:
    """A tunnel as its device has it. `here` and `there` are its inner ends."""

    generation: int
    outbound: agent_pb2.Sa
    here: Peer
    there: Peer
    sealed: int = 0

    def take(self, sas: agent_pb2.SaPair) -> None:
        self.generation, self.outbound, self.sealed = sas.generation, sas.outbound, 0

    def seal(self, text: bytes) -> bytes:
        self.sealed += 1
        return esp(self.outbound, self.sealed, udp(self.here, self.there, text))


class Laptops:
    """Devices whose tunnels always carry traffic both ways. They renew keys when the controller says so, like culvertd."""

    def __init__(self, wires: Wires) -> None:
        self._wires = wires
        self._inbound: dict[int, agent_pb2.Sa] = {}
        self._devices: list[Device] = []
        self.tunnels: dict[str, Carried] = {}
        self.sent: dict[str, set[bytes]] = {"lan": set(), "wan": set()}
        self.arrived: dict[str, set[bytes]] = {"lan": set(), "wan": set()}

    async def open(self, device: Device, name: str = "wiki", port: int = 80) -> None:
        if device not in self._devices:
            self._devices.append(device)
        opened_one = await device.open(f"{name}.corp.example")
        here, there = Peer(opened_one.tunnel.inner_address, 40000), Peer("10.20.0.10", port)
        sas = opened_one.sas
        self._inbound[sas.inbound.spi] = sas.inbound
        self.tunnels[opened_one.tunnel.tunnel_id] = Carried(sas.generation, sas.outbound, here, there)

    async def renewing(self) -> None:
        async with asyncio.TaskGroup() as group:
            for device in self._devices:
                group.create_task(self._renewing(device))

    async def _renewing(self, device: Device) -> None:
        while True:
            # The stream ends with its controller.
            with suppress(CulvertError):
                async for event in device.watch():
                    assert not event.HasField("tunnel_closed"), event
                    if event.HasField("sa_expiring"):
                        await self._renew(device, event.sa_expiring)
            await self._again(device)

    async def _renew(self, device: Device, expiring: agent_pb2.SaExpiring) -> None:
        """Seal with the new pair from when the gateway can open it. Open with both."""
        tunnel_id, generation = expiring.tunnel_id, expiring.generation
        tunnel = self.tunnels.get(tunnel_id)
        if tunnel is None or tunnel.generation != generation:
            return
        sas = await self._done(device, lambda: device.renew(tunnel_id, generation))
        self._inbound[sas.inbound.spi] = sas.inbound
        tunnel.take(sas)
        await self._done(device, lambda: device.activate(tunnel_id, sas.generation))

    async def _done(self, device: Device, call: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await call()
            except CulvertError as error:
                if is_lost(error):
                    raise AssertionError(error) from None
                await self._again(device)

    async def _again(self, device: Device) -> None:
        """After a call that a controller did not answer."""
        await device.channel.close()
        await asyncio.sleep(0.1)
        device.connect()

    async def send(self, tunnel: Carried, text: bytes) -> None:
        here, gateway = Peer("203.0.113.10", 4500), Peer("198.51.100.1", 4500)
        outer = udp(here, gateway, tunnel.seal(text))
        self.sent["lan"].add(text)
        await self._wires.send(self._wires.wan, frame("02:00:00:00:01:01", outer))
        inner = udp(tunnel.there, tunnel.here, text)
        self.sent["wan"].add(text)
        await self._wires.send(self._wires.lan, frame("02:00:00:00:02:01", inner))

    async def hear_lan(self) -> None:
        while True:
            self.arrived["lan"].add((await next_udp(self._wires.lan))[1])

    async def hear_wan(self) -> None:
        while True:
            packet = (await next_udp(self._wires.wan))[1]
            self.arrived["wan"].add(opened(self._inbound[int.from_bytes(packet[:4])], packet)[28:])


@asynccontextmanager
async def using(laptops: Laptops) -> AsyncGenerator[None]:
    """Send a packet both ways every 10 ms, through each tunnel in turn. Each packet must arrive."""

    async def send() -> None:
        for number, tunnel in enumerate(itertools.cycle(laptops.tunnels.values())):
            await laptops.send(tunnel, b"%d" % number)
            await asyncio.sleep(0.01)

    others = [asyncio.create_task(work()) for work in (laptops.renewing, laptops.hear_lan, laptops.hear_wan)]
    sending = asyncio.create_task(send())
    try:
        yield
        before = len(laptops.sent["lan"])
        await until(
            _at_once(lambda: len(laptops.sent["lan"])), lambda sent: sent > before + len(laptops.tunnels)
        )
        sending.cancel()
        await asyncio.wait([sending])
        if not sending.cancelled():
            sending.result()
        await until(_at_once(lambda: laptops.arrived), lambda arrived: arrived == laptops.sent)
        assert len(laptops.sent["lan"]) > 100
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
async def device(world: World) -> Device:
    device = await world.enrol()
    await device.prove()
    return device


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
    world: World, wires: Wires, gateway: tuple[Path, int, KeyWrap], device: Device
) -> None:
    directory, port, old = gateway
    async with sluice(directory, wires.names, port):
        await world.online("gw-berlin")
        laptops = Laptops(wires)
        await laptops.open(device)
        [(tunnel_id, tunnel)] = laptops.tunnels.items()
        async with using(laptops):
            for generation in (2, 3):
                given = await bundle(world)
                replace(given, directory)
                found = await settled(world)
                assert found["rekeying_since"] is None
                assert tunnel.generation == generation
                await only_the_new_kek_opens(world, port, old, wrap_of(given), sas=2)
                old = wrap_of(given)
        await agreed(world, {tunnel_id})
    told = [line["details"]["state"] for line in await world.rest("GET", "/audit?action=gateway.kek")]
    assert told == ["settled", "rekeying"] * 2


@pytest.mark.slow
@needs_root
@pytest.mark.usefixtures("soon")
async def test_a_tunnel_whose_device_does_not_renew_is_closed_after_a_while(
    world: World,
    wires: Wires,
    gateway: tuple[Path, int, KeyWrap],
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory, port, old = gateway
    monkeypatch.setattr(kek_rotation, "PATIENCE_SECONDS", 3.0)
    async with sluice(directory, wires.names, port):
        await world.online("gw-berlin")
        await device.open()
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
    world: World, wires: Wires, gateway: tuple[Path, int, KeyWrap], device: Device
) -> None:
    directory, port, old = gateway
    async with sluice(directory, wires.names, port):
        await world.online("gw-berlin")
        await device.open()
        before = (await keys(world))["certificate_expires_at"]
        given = await bundle(world)
        assert (await keys(world))["certificate_expires_at"] == before, "the gateway does not use it yet"
    replace(given, directory)
    async with sluice(directory, wires.names, port):
        await world.online("gw-berlin")
        await device.open()
        end = (await settled(world))["certificate_expires_at"]
        assert datetime.datetime.fromisoformat(end) == expiry_of(given)
        await only_the_new_kek_opens(world, port, old, wrap_of(given), sas=2)


@pytest.mark.slow
@needs_root
@pytest.mark.usefixtures("soon")
async def test_a_gateway_with_another_kek_is_not_written_until_it_has_its_own(
    world: World, wires: Wires, gateway: tuple[Path, int, KeyWrap], device: Device
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
        await device.open()
        await settled(world)


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


MANY = 450


@pytest.mark.long
@pytest.mark.slow
@needs_root
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("soon")
async def test_more_tunnels_than_one_round_lose_no_packet_beside_a_sleeper(
    tmp_path: Path, database_url: str, wires: Wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_in(tmp_path, database_url=database_url, agent_calls_per_second=1000)
    sleeping, laptops = Laptops(wires), Laptops(wires)
    async with running(settings) as world, gateway_of_many(world, tmp_path, wires) as (port, given):
        for opener in (sleeping, laptops, laptops):
            device = await world.enrol()
            await device.prove()
            for number in range(MANY // 3):
                await opener.open(device, f"r{number}", 1000 + number)
        # All SAs of the device that sleeps fill a round, and each round may ask for them again.
        of_sleeping = 2 * len(sleeping.tunnels)
        assert of_sleeping > kek_rotation.BATCH
        monkeypatch.setattr(kek_rotation, "AGAIN_SECONDS", 0.0)
        async with using(laptops):
            following = await bundle(world)
            replace(following, tmp_path / "gateway")
            await until(lambda: keys(world), lambda found: found["sas_left"] == of_sleeping, 120)
        assert {tunnel.generation for tunnel in laptops.tunnels.values()} == {2}
        waking = asyncio.create_task(sleeping.renewing())
        await until(lambda: keys(world), lambda found: found["state"] == "settled", 60)
        waking.cancel()
        await asyncio.wait([waking])
        await only_the_new_kek_opens(world, port, wrap_of(given), wrap_of(following), sas=2 * MANY)
        await agreed(world, set(laptops.tunnels) | set(sleeping.tunnels))


@asynccontextmanager
async def gateway_of_many(
    world: World, directory: Path, wires: Wires
) -> AsyncGenerator[tuple[int, dict[str, Any]]]:
    """A gateway with a third as many resources as there are tunnels. Its port and its bundle."""
    port = free_port()
    await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
    await world.add_gateway("gw-berlin", port)
    for number in range(MANY // 3):
        target = {"prefix": "10.20.0.10", "protocol": "udp", "ports": [1000 + number]}
        await world.add_resource(f"r{number}", ["gw-berlin"], targets=[target])
    given = await bundle(world)
    unpack(given, directory / "gateway")
    async with sluice(directory / "gateway", wires.names, port):
        await world.online("gw-berlin")
        yield port, given
