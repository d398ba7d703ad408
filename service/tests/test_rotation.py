"""A new device CA: devices of the old one go on, renew under the new one, and are strangers when the old one is over."""

from __future__ import annotations

from pathlib import Path

import grpc.aio
import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from culvert_proto import agent_pb2, agent_pb2_grpc
from culvert_service.operation.commands import rotate_device_ca

from .conftest import Device, make_csr, running, settings_in

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
