"""New CAs: who is of the old one goes on, comes to the new one by itself, and is a stranger when the old one is over."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from contextlib import aclosing
from functools import partial
from pathlib import Path

import grpc.aio
import httpx
import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from culvert_lab.free_port import free_port
from culvert_proto import agent_pb2, agent_pb2_grpc
from culvert_service.operation.commands import rotate_device_ca, rotate_infrastructure_ca
from culvert_service.pki import issuance
from culvert_service.pki.authority import Authority
from culvert_service.pki.own_certificates import OwnCertificates

from .conftest import Device, World, make_csr, next_event, running, settings_in, until
from .gateway_process import needs_root, sluice, unpack
from .switch import Switch
from .wire import Wires

pytestmark = pytest.mark.slow


async def profile(device: Device, address: str) -> agent_pb2.WatchResponse:
    async with grpc.aio.secure_channel(address, device.credentials) as channel:
        stub = agent_pb2_grpc.AgentServiceStub(channel)
        async for event in stub.Watch(agent_pb2.WatchRequest()):
            return event
    raise AssertionError("it ended")


async def test_the_old_one_is_trusted_until_each_device_has_renewed(
    tmp_path: Path, database_url: str
) -> None:
    settings = settings_in(tmp_path, database_url=database_url)
    state = settings.state_dir
    async with running(settings) as world:
        await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
        device = await world.enrol()
    before = x509.load_pem_x509_certificate((state / "device-ca.pem").read_bytes())
    old_key = (state / "device-ca.key").read_bytes()
    for _ in range(2):
        await rotate_device_ca(settings)
    assert old_key not in b"".join(file.read_bytes() for file in state.iterdir() if file.is_file())

    async with running(settings) as world:
        after = x509.load_pem_x509_certificate((state / "device-ca.pem").read_bytes())
        async with grpc.aio.secure_channel(settings.agent_address, device.credentials) as channel:
            stub = agent_pb2_grpc.AgentServiceStub(channel)
            key, csr = make_csr()
            answer = await stub.RenewCertificate(agent_pb2.RenewCertificateRequest(csr_pem=csr))
        certificate = x509.load_pem_x509_certificate(answer.certificate_pem.encode())
        certificate.verify_directly_issued_by(after)
        with pytest.raises(InvalidSignature):
            certificate.verify_directly_issued_by(before)
        facts = {
            "device_id": device.id,
            "totp_uri": device.totp_uri,
            "ca_pem": answer.ca_pem,
            "certificate_pem": answer.certificate_pem,
            "agent_address": settings.agent_address,
        }
        renewed = Device(key, facts)
        world.devices.append(renewed)
        assert (await profile(device, settings.agent_address)).HasField("profile")
        assert (await profile(renewed, settings.agent_address)).HasField("profile")
        lines = await world.rest("GET", "/audit?action=ca.rotate")
        assert [line["object"] for line in lines] == ["ca/device"] * 2

    [trusted] = state.glob("device-ca.until-*.pem")
    trusted.rename(state / "device-ca.until-2026-01-01.pem")
    async with running(settings):
        assert (await profile(renewed, settings.agent_address)).HasField("profile")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await profile(device, settings.agent_address)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def shown(address: str) -> bytes:
    """The SHA-256 of the certificate that a server shows."""
    host, _, port = address.rpartition(":")
    pem = await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))
    return x509.load_pem_x509_certificate(pem.encode()).fingerprint(hashes.SHA256())


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a controller starts: it sees new CAs sooner."""
    monkeypatch.setattr("culvert_service.pki.own_certificates._LOOK_EVERY_SECONDS", 0.05)


async def https(world: World, ca: Path) -> int:
    context = ssl.create_default_context(cafile=str(ca))
    async with httpx.AsyncClient(verify=context, trust_env=False) as client:
        return (await client.get(f"{world.settings.rest_url}/healthz")).status_code


@pytest.mark.usefixtures("watchful")
async def test_a_new_infrastructure_ca_needs_no_restart_and_the_old_ones_word(
    world: World, switch: Switch
) -> None:
    settings, state = world.settings, world.settings.state_dir
    device = await world.enrol()
    await device.prove()
    tunnel_id = (await device.open()).tunnel.tunnel_id
    old_ca = state.parent / "old-ca.pem"
    old_ca.write_bytes((state / "infrastructure-ca.pem").read_bytes())
    old_key = (state / "infrastructure-ca.key").read_bytes()
    addresses = (settings.rest_listen, settings.agent_listen)
    async with aclosing(device.watch()) as events:
        await next_event(events, "profile")
        for _ in range(2):
            before = [await shown(address) for address in addresses]
            await rotate_infrastructure_ca(settings)
            for address, was in zip(addresses, before, strict=True):
                await until(partial(shown, address), lambda found, was=was: found != was)
        # Open connections survive the rotation.
        await world.rest("DELETE", f"/tunnels/{tunnel_id}")
        await next_event(events, "tunnel_closed")
    assert old_key not in b"".join(file.read_bytes() for file in state.iterdir() if file.is_file())

    # A device that trusts only the first CA is led to the third; one that trusts the third needs no other.
    device.connect()
    await device.open()
    for ca in (old_ca, state / "infrastructure-ca.pem"):
        assert await https(world, ca) == 200
    async with grpc.aio.secure_channel(settings.agent_listen, device.credentials) as channel:
        _, csr = make_csr()
        answer = await agent_pb2_grpc.AgentServiceStub(channel).RenewCertificate(
            agent_pb2.RenewCertificateRequest(csr_pem=csr)
        )
    assert answer.ca_pem.encode() == (state / "infrastructure-ca.pem").read_bytes()
    # The gateway has its first bundle still, and lets the new client in.
    switch.silent = True
    await world.online("gw-berlin", wanted="offline")
    switch.silent = False
    await world.online("gw-berlin")
    await device.open()


async def test_certificates_are_replaced_while_a_third_of_their_life_is_left(tmp_path: Path) -> None:
    infrastructure, devices, gateways = (
        Authority.load(tmp_path, name) for name in ("infrastructure", "device", "gateway")
    )
    now = datetime.datetime.now(datetime.UTC)
    own = OwnCertificates(infrastructure, devices, gateways, ["127.0.0.1"], lambda: now)
    told: list[int] = []
    own.tell(lambda: told.append(1))
    first, began = own.server, now
    now = began + issuance.SERVER.lifetime * 0.66
    own.look()
    assert (own.server, told) == (first, [])
    now = began + issuance.SERVER.lifetime * 0.67
    own.look()
    assert own.server.certificate.serial != first.certificate.serial
    assert told == [1]


async def test_certificates_of_a_clock_that_was_ahead_are_replaced(tmp_path: Path) -> None:
    infrastructure, devices, gateways = (
        Authority.load(tmp_path, name) for name in ("infrastructure", "device", "gateway")
    )
    right = datetime.datetime.now(datetime.UTC)
    now = right + datetime.timedelta(days=100)
    own = OwnCertificates(infrastructure, devices, gateways, ["127.0.0.1"], lambda: now)
    told: list[int] = []
    own.tell(lambda: told.append(1))
    # Peers let it be behind by as much.
    now -= issuance.BACKDATE
    own.look()
    assert told == []
    now = right
    own.look()
    own.look()
    assert told == [1]


@needs_root
@pytest.mark.usefixtures("watchful")
async def test_sluice_accepts_a_certificate_chained_to_the_old_ca(
    world: World, wires: Wires, tmp_path: Path
) -> None:
    port, before = free_port(), await shown(world.settings.rest_listen)
    await world.add_gateway("gw-berlin", port)
    unpack(await world.rest("POST", "/gateways/gw-berlin/bundle"), tmp_path / "gateway")
    await rotate_infrastructure_ca(world.settings)
    await until(lambda: shown(world.settings.rest_listen), lambda found: found != before)
    async with sluice(tmp_path / "gateway", wires.names, port):
        await world.online("gw-berlin")
        await world.add_wiki(["gw-berlin"])
        device = await world.enrol()
        await device.prove()
        await device.open()
